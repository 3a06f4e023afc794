//! Limits on what only attackers do often: failed logins, and cancel requests that others have to judge.
//!
//! Everything is counted per source, never per the user who is tried: nobody can lock out somebody
//! else, unless both come from the same place (SEC-67). The argument for the rules is in
//! `docs/internals/login.md`.
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

/// Where a connection comes from, as finely as an attacker cannot choose it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// An IPv4 address.
    V4(Ipv4Addr),
    /// The first 64 bits of an IPv6 address: who has one address of such a network has them all.
    V6([u16; 4]),
    /// The user id of the other end of a unix socket.
    Unix(u32),
}

impl Source {
    /// The source of a TCP connection. An IPv4 address inside IPv6 counts as the former.
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
    /// How many times at once, at least 1.
    pub burst: u32,
    /// After how long one more is granted, up to `burst`. Zero: no limit, and a delay that never grows.
    pub interval: Duration,
    /// How long the answer to the first failure is held back; doubles with each that is not yet
    /// forgiven.
    pub delay_first: Duration,
    /// The longest that an answer is held back.
    pub delay_max: Duration,
    /// How many sources are remembered, at least 1; about 100 bytes each.
    pub sources_max: usize,
}

impl Rules {
    /// 20 failed logins, then one in 3 seconds; answers held back by 0.1 to 5 seconds.
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

    /// 100 cancel requests sent on to peers, then 20 in a second (SEC-66).
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

    /// How long an unused allowance takes to be whole again.
    fn window(&self) -> Duration {
        self.interval.saturating_mul(self.burst.max(1))
    }
}

/// A source has used up its allowance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("too many attempts, the next one is granted in {0:?}")]
pub struct RetryAfter(
    /// When the next one is granted, from now.
    pub Duration,
);

/// A token bucket per source, with a limit on the number of buckets.
///
/// Time is what has passed since any fixed moment, by a clock that never goes back; a moment
/// before one already seen does no harm.
///
/// A bucket is one number: the moment when it will be full again. Buckets that are full by now
/// are the same as no bucket. If there are too many others, the fullest one goes, and the source
/// that takes its place inherits its level. So whoever wants an own bucket forgotten has to drain
/// all the others first, from as many sources, and gains one attempt by it.
#[derive(Debug)]
pub struct Throttle {
    rules: Rules,
    buckets: BTreeMap<Source, Bucket>,
    /// The same, fullest first. Has exactly the pairs of `buckets`.
    order: BTreeSet<(Bucket, Source)>,
    /// Number of the last change.
    changes: u64,
}

/// Ordered by what may be forgotten first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Bucket {
    /// When it will be full again.
    full_at: Duration,
    /// Number of its last change: of buckets that are equally empty, the one longest left alone
    /// goes first, so that two sources cannot take turns in one place.
    changed: u64,
}

impl Throttle {
    /// Begins with nobody known.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            buckets: BTreeMap::new(),
            order: BTreeSet::new(),
            changes: 0,
        }
    }

    /// Changes the limits; what sources have used up stays used up.
    pub fn set_rules(&mut self, rules: Rules) {
        self.rules = rules;
    }

    /// Counts one, if it is granted. For things that count whether they succeed or not.
    ///
    /// # Errors
    /// When to come again.
    pub fn take(&mut self, source: Source, now: Duration) -> Result<(), RetryAfter> {
        self.allow(source, now)?;
        self.spend(source, now);
        Ok(())
    }

    /// Counts a failed login. Returns how long after the client's last message the answer may be
    /// sent at the earliest; counted from that message, not from the verdict, it hides how long
    /// the verdict took.
    ///
    /// There is no counterpart for a success: an attacker who has one account would use it to be
    /// forgiven for guessing at others.
    #[must_use]
    pub fn failure(&mut self, source: Source, now: Duration) -> Duration {
        let used = self.spend(source, now);
        let doublings = used.saturating_sub(1).min(31);
        let factor = 1_u32 << doublings;
        let delay = self.rules.delay_first.saturating_mul(factor);
        delay.min(self.rules.delay_max)
    }

    /// Whether one more is granted. Ask right before a password or proof is checked, not when a
    /// connection comes, so that connections in store are worth nothing: what is refused here must
    /// not be checked, or be told of.
    ///
    /// # Errors
    /// When to come again.
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

    /// How many sources are remembered, at most [`Rules::sources_max`].
    #[must_use]
    pub fn source_count(&self) -> usize {
        self.buckets.len()
    }

    /// Takes one token, if need be one that is not there yet; returns how many are missing now.
    fn spend(&mut self, source: Source, now: Duration) -> u32 {
        let interval = self.rules.interval;
        if interval.is_zero() {
            return 0;
        }
        let level = match self.buckets.get(&source) {
            Some(bucket) => bucket.full_at,
            None => self.make_room(now),
        };
        // What ran at the same time may go below empty, but nobody has to wait for ever.
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
        // Two at a time: so full buckets go faster than new ones come, and no call takes long.
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
