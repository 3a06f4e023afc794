//! Cache of `auth_query` results. No entry outlives the validity of its secret (SEC-42).
//!
//! The cache is off unless it has a time to live. Users who do not exist have as many places of their own, so invented
//! names cannot evict real users.

use std::num::NonZeroUsize;
use std::time::Duration;
use std::time::SystemTime;

use lru::LruCache;

use crate::fetched::Fetched;
use crate::fetched::Validity;
use crate::login::Account;

/// The two clocks. Only the first is trusted to measure durations.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// Time since any fixed moment, by a clock that never goes back.
    pub now: Duration,
    /// The time of day, which may jump.
    pub wall: SystemTime,
}

/// Accounts by user name and by the database that was queried. The least recently used entry is evicted first.
pub struct AccountCache {
    ttl: Duration,
    known: LruCache<Key, Entry>,
    unknown: LruCache<Key, Entry>,
}

/// The database and the user, neither of which has a zero byte.
type Key = Vec<u8>;

#[derive(Clone)]
struct Entry {
    account: Account,
    /// End by the monotonic clock: no jump of the time of day prolongs an entry's life.
    dies_at: Duration,
    /// Checked, too: if the time of day was set forward, it is believed.
    valid: Validity,
}

impl AccountCache {
    /// Creates a cache of up to `count_max` known and as many unknown users, each kept for `ttl` at most. Zero for
    /// either keeps nothing.
    #[must_use]
    pub fn new(count_max: usize, ttl: Duration) -> Self {
        let places = NonZeroUsize::new(count_max).unwrap_or(NonZeroUsize::MIN);
        Self {
            ttl: if count_max == 0 { Duration::ZERO } else { ttl },
            known: LruCache::new(places),
            unknown: LruCache::new(places),
        }
    }

    /// Stores the result of a query in `database` for `user`.
    pub fn insert(&mut self, database: &[u8], user: &[u8], fetched: &Fetched, clocks: Clocks) {
        let key = key(database, user);
        self.forget_key(&key);
        let life = match fetched.valid.left(clocks.wall) {
            Some(left) => left.min(self.ttl),
            None => self.ttl,
        };
        if life.is_zero() {
            return;
        }
        let entry = Entry {
            account: fetched.account.clone(),
            dies_at: clocks.now.saturating_add(life),
            valid: fetched.valid,
        };
        match entry.account {
            Account::Known(_) => self.known.put(key, entry),
            Account::Unknown => self.unknown.put(key, entry),
        };
    }

    /// Returns the cached account of `user`; `None` if the query has to be run.
    pub fn get(&mut self, database: &[u8], user: &[u8], clocks: Clocks) -> Option<Account> {
        let key = key(database, user);
        let entry = match self.known.get(&key) {
            Some(entry) => entry,
            None => self.unknown.get(&key)?,
        };
        if entry.dies_at <= clocks.now || entry.valid.has_ended(clocks.wall) {
            self.forget_key(&key);
            return None;
        }
        Some(entry.account.clone())
    }

    /// Removes one user. Call it when a login with the cached secret fails, because the secret may have been changed.
    pub fn forget(&mut self, database: &[u8], user: &[u8]) {
        self.forget_key(&key(database, user));
    }

    /// Removes all users. Call it on RELOAD.
    pub fn clear(&mut self) {
        self.known.clear();
        self.unknown.clear();
    }

    /// Number of cached users.
    #[must_use]
    pub fn len(&self) -> usize {
        self.known.len() + self.unknown.len()
    }

    /// True if no user is cached.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn forget_key(&mut self, key: &Key) {
        self.known.pop(key);
        self.unknown.pop(key);
    }
}

fn key(database: &[u8], user: &[u8]) -> Key {
    [database, b"\0", user].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Secret;
    use crate::stored::StoredSecret;

    const DAY: u64 = 86_400;
    /// Some afternoon.
    const THEN: u64 = 1_795_176_000;

    fn clocks(now: u64, wall: u64) -> Clocks {
        Clocks {
            now: Duration::from_secs(now),
            wall: SystemTime::UNIX_EPOCH + Duration::from_secs(wall),
        }
    }

    fn alice(valid: Validity) -> Fetched {
        let secret = StoredSecret::Plain(Secret::from("pencil"));
        Fetched {
            account: Account::Known(secret),
            valid,
        }
    }

    fn until(seconds: u64) -> Validity {
        Validity::Until(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
    }

    fn cache_with(valid: Validity) -> AccountCache {
        let mut cache = AccountCache::new(10, Duration::from_secs(60));
        cache.insert(b"db", b"alice", &alice(valid), clocks(100, THEN));
        cache
    }

    /// True if alice is found at that moment.
    fn found(valid: Validity, now: u64, wall: u64) -> bool {
        cache_with(valid)
            .get(b"db", b"alice", clocks(now, wall))
            .is_some()
    }

    #[test]
    fn an_account_is_kept_for_its_time_to_live() {
        assert!(found(Validity::Endless, 100, THEN));
        assert!(found(Validity::Endless, 159, THEN + 59));
        assert!(!found(Validity::Endless, 160, THEN + 60));
    }

    #[test]
    fn sec_42_no_account_outlives_its_validity() {
        assert!(found(until(THEN + 10), 109, THEN + 9));
        assert!(!found(until(THEN + 10), 110, THEN + 10));
        assert!(found(until(THEN + 1000), 159, THEN + 59));
        assert!(!found(until(THEN + 1000), 160, THEN + 60));
        for ended in [THEN, THEN - 1, 0] {
            assert!(cache_with(until(ended)).is_empty());
        }
    }

    #[test]
    fn sec_42_a_jump_of_the_time_of_day_prolongs_nothing() {
        // A day back: the monotonic clock knows that the validity has ended.
        assert!(found(until(THEN + 10), 109, THEN + 9 - DAY));
        assert!(!found(until(THEN + 10), 110, THEN + 10 - DAY));
        // A day forward: the time of day is believed, at worst the query is run once more.
        assert!(!found(until(THEN + 10), 101, THEN + 1 + DAY));
        assert!(found(Validity::Endless, 101, THEN + 1 + DAY));
        assert!(found(Validity::Endless, 101, THEN + 1 - DAY));
        assert!(!found(Validity::Endless, 160, THEN + 60 - DAY));
    }

    #[test]
    fn accounts_are_kept_apart_by_database_and_user() {
        let mut cache = cache_with(Validity::Endless);
        let now = clocks(101, THEN);
        for (database, user) in [
            (&b"db"[..], &b"bob"[..]),
            (b"other", b"alice"),
            (b"d", b"balice"),
            (b"", b"alice"),
        ] {
            assert!(cache.get(database, user, now).is_none());
        }
    }

    #[test]
    fn names_that_do_not_exist_drive_out_no_real_user() {
        let mut cache = cache_with(Validity::Endless);
        let nobody = Fetched {
            account: Account::Unknown,
            valid: Validity::Endless,
        };
        for number in 0..1000_u32 {
            let name = number.to_string();
            cache.insert(b"db", name.as_bytes(), &nobody, clocks(101, THEN));
        }
        assert!(cache.get(b"db", b"alice", clocks(101, THEN)).is_some());
        assert_eq!(cache.len(), 11);
    }

    #[test]
    fn an_account_that_appears_or_goes_is_kept_once() {
        let mut cache = cache_with(Validity::Endless);
        let nobody = Fetched {
            account: Account::Unknown,
            valid: Validity::Endless,
        };
        let now = clocks(101, THEN);
        cache.insert(b"db", b"alice", &nobody, now);
        assert!(matches!(
            cache.get(b"db", b"alice", now),
            Some(Account::Unknown)
        ));
        cache.insert(b"db", b"alice", &alice(Validity::Endless), now);
        assert!(matches!(
            cache.get(b"db", b"alice", now),
            Some(Account::Known(_))
        ));
        assert_eq!(cache.len(), 1);
    }

    #[test]
    fn what_is_forgotten_or_never_kept_is_not_found() {
        let now = clocks(101, THEN);
        let mut cache = cache_with(Validity::Endless);
        cache.forget(b"db", b"alice");
        assert!(cache.get(b"db", b"alice", now).is_none());
        let mut cache = cache_with(Validity::Endless);
        cache.clear();
        assert!(cache.is_empty());
        for (count_max, ttl) in [(0, 60), (10, 0)] {
            let mut cache = AccountCache::new(count_max, Duration::from_secs(ttl));
            cache.insert(b"db", b"alice", &alice(Validity::Endless), now);
            assert!(cache.is_empty());
        }
    }
}
