//! Limits on operations that only attackers do often: failed logins, and cancel requests forwarded to peers.
//!
//! Counts are per source, never per target user, so no client can lock out another one, unless both share a source
//! (SEC-67). The reasons for the rules are in `docs/internals/login.md`.
//!
//! ```
//! use std::net::Ipv4Addr;
//! use std::time::Duration;
//! use weir_auth::throttle::{Rules, Source, Throttle};
//!
//! let mut logins = Throttle::new(Rules::for_failed_logins());
//! let source = Source::from_ip(Ipv4Addr::LOCALHOST.into());
//! let now = Duration::from_secs(7); // since the process started
//! if logins.allow(source, now).is_ok() {
//!     // Now check the password. It is wrong: answer no earlier than that.
//!     let delay = logins.failure(source, now);
//!     assert_eq!(delay, Duration::from_millis(100));
//! }
//! ```

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::Ipv6Addr;
use std::time::Duration;

use thiserror::Error;

/// Origin of a connection, only as fine as an attacker cannot choose it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// An IPv4 address.
    V4(Ipv4Addr),
    /// The first 64 bits of an IPv6 address: an owner of one address of such a network usually has them all.
    V6([u16; 4]),
    /// The user id of the other end of a unix socket.
    Unix(u32),
}

impl Source {
    /// Returns the source of a TCP connection. An IPv4 address inside IPv6 counts as IPv4.
    #[must_use]
    pub fn from_ip(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address),
            IpAddr::V6(address) => Self::of_network(address),
        }
    }

    fn of_network(address: Ipv6Addr) -> Self {
        let [a, b, c, d, ..] = address.segments();
        Self::V6([a, b, c, d])
    }
}

/// The limits of a [`Throttle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Number of attempts granted at once, at least 1.
    pub burst: u32,
    /// Interval after which one more attempt is granted, up to `burst`. Zero: no limit, and a delay that never grows.
    pub interval: Duration,
    /// Delay of the answer to the first failure. Doubles with each failure that is not yet forgiven.
    pub delay_first: Duration,
    /// Maximum delay of an answer.
    pub delay_max: Duration,
    /// Maximum number of remembered sources, at least 1; about 100 bytes each.
    pub sources_max: usize,
}

impl Rules {
    /// Rules for failed logins: 20 at once, then one in 3 seconds; answers are delayed by 0.1 to 5 seconds.
    #[must_use]
    pub const fn for_failed_logins() -> Self {
        Self {
            burst: 20,
            interval: Duration::from_secs(3),
            delay_first: Duration::from_millis(100),
            delay_max: Duration::from_secs(5),
            sources_max: 65_536,
        }
    }

    /// Rules for cancel requests forwarded to peers: 100 at once, then 20 in a second (SEC-66).
    #[must_use]
    pub const fn for_cancels() -> Self {
        Self {
            burst: 100,
            interval: Duration::from_millis(50),
            delay_first: Duration::ZERO,
            delay_max: Duration::ZERO,
            sources_max: 65_536,
        }
    }

    /// Time after which a used-up allowance is whole again.
    fn window(&self) -> Duration {
        self.interval.saturating_mul(self.burst.max(1))
    }
}

/// Error for a source that has used up its allowance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("too many attempts, the next attempt is accepted in {0:?}")]
pub struct RetryAfter(
    /// Time from now until the next attempt is granted.
    pub Duration,
);

/// Token bucket per source, with a limit on the number of buckets.
///
/// Times are measured from any fixed moment, by a clock that never goes back. A moment earlier than one already seen
/// does no harm.
///
/// A bucket is one number: the moment at which it will be full again. A full bucket equals no bucket. If there are too
/// many others, the fullest one is removed, and the source that takes its place inherits its level. To get its own
/// bucket removed, an attacker must first drain all others, from as many sources, and gains one attempt.
#[derive(Debug)]
pub struct Throttle {
    rules: Rules,
    buckets: BTreeMap<Source, Bucket>,
    /// Pairs of `buckets`, fullest first.
    order: BTreeSet<(Bucket, Source)>,
    /// Number of the last change.
    changes: u64,
}

/// Bucket of one source. Those that may be forgotten first come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Bucket {
    /// Moment at which the bucket will be full again.
    full_at: Duration,
    /// Number of its last change. Of equally empty buckets the least recently changed one is removed first, so that two
    /// sources cannot take turns in one place.
    changed: u64,
}

impl Throttle {
    /// Creates a throttle without any source.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            buckets: BTreeMap::new(),
            order: BTreeSet::new(),
            changes: 0,
        }
    }

    /// Changes the limits; allowances that were used up stay used up.
    pub fn set_rules(&mut self, rules: Rules) {
        self.rules = rules;
    }

    /// Counts one attempt, if it is granted. For operations that count whether they succeed or not.
    ///
    /// # Errors
    /// Returns the time until the next attempt is granted.
    pub fn take(&mut self, source: Source, now: Duration) -> Result<(), RetryAfter> {
        self.allow(source, now)?;
        self.spend(source, now);
        Ok(())
    }

    /// Counts a failed login. Returns the delay after the client's last message before which no answer may be sent. The
    /// delay starts at that message, not at the verdict, so it hides how long the verdict took.
    ///
    /// There is no counterpart for a success: an attacker with one account would use it to be forgiven for guesses at
    /// others.
    #[must_use]
    pub fn failure(&mut self, source: Source, now: Duration) -> Duration {
        let used = self.spend(source, now);
        let doublings = used.saturating_sub(1).min(31);
        let factor = 1_u32 << doublings;
        let delay = self.rules.delay_first.saturating_mul(factor);
        delay.min(self.rules.delay_max)
    }

    /// Checks that one more attempt is granted. Call it right before a password or proof is checked, not when a
    /// connection comes, so that an attacker gains nothing by connections opened in advance. After a refusal, do not
    /// check the credentials or reveal anything about them.
    ///
    /// # Errors
    /// Returns the time until the next attempt is granted.
    pub fn allow(&self, source: Source, now: Duration) -> Result<(), RetryAfter> {
        let Some(bucket) = self.buckets.get(&source) else {
            return Ok(());
        };
        let granted_at = bucket
            .full_at
            .saturating_add(self.rules.interval)
            .saturating_sub(self.rules.window());
        match granted_at.checked_sub(now) {
            Some(wait) if !wait.is_zero() => Err(RetryAfter(wait)),
            _ => Ok(()),
        }
    }

    /// Number of remembered sources, at most [`Rules::sources_max`].
    #[must_use]
    pub fn source_count(&self) -> usize {
        self.buckets.len()
    }

    /// Takes one token, even if the bucket is empty; returns the number of tokens missing now.
    fn spend(&mut self, source: Source, now: Duration) -> u32 {
        let interval = self.rules.interval;
        if interval.is_zero() {
            return 0;
        }
        let level = match self.buckets.get(&source) {
            Some(bucket) => bucket.full_at,
            None => self.make_room(now),
        };
        // Concurrent attempts may go below empty, but the wait stays bounded.
        let latest = now.saturating_add(self.rules.window().saturating_mul(2));
        let full_at = level.max(now).saturating_add(interval).min(latest);
        self.changes = self.changes.wrapping_add(1);
        let bucket = Bucket {
            full_at,
            changed: self.changes,
        };
        if let Some(before) = self.buckets.insert(source, bucket) {
            self.order.remove(&(before, source));
        }
        self.order.insert((bucket, source));
        let missing = full_at.saturating_sub(now).as_nanos();
        let used = missing.div_ceil(interval.as_nanos().max(1));
        u32::try_from(used).unwrap_or(u32::MAX)
    }

    /// Makes room for one source; returns the level that it inherits.
    fn make_room(&mut self, now: Duration) -> Duration {
        let mut inherited = Duration::ZERO;
        // Two at a time: full buckets then go faster than new ones come, and no call takes long.
        for _ in 0..2 {
            let Some((bucket, source)) = self.order.first().copied() else {
                break;
            };
            let full_at = bucket.full_at;
            let is_crowded = self.order.len() >= self.rules.sources_max.max(1);
            if full_at > now && !is_crowded {
                break;
            }
            self.order.remove(&(bucket, source));
            self.buckets.remove(&source);
            if full_at > now {
                inherited = inherited.max(full_at);
            }
        }
        inherited
    }
}

#[cfg(test)]
mod tests;
