//! Statements that a server of a pool has prepared: another Parse of one can be answered without a server.
//!
//! Shared by all workers. A worker looks here only for statements that it has not seen proven itself, so the lock is
//! not taken in steady state.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use lru::LruCache;

use super::planning::Context;
use crate::sequences::Readers;

/// Maximum number of statements that a pool remembers.
const ENTRIES_MAX: NonZeroUsize = NonZeroUsize::new(4096).expect("it is not zero");

/// Maximum number of their bytes in total.
const BYTES_MAX: usize = 2 * 1024 * 1024;

/// Maximum length of a remembered statement; clients that prepare by blocking calls have shorter ones.
const ENTRY_MAX: usize = 64 * 1024;

/// Proven statements of a pool, see the module documentation; the least recently used ones are dropped first.
#[derive(Debug)]
pub struct Proven {
    /// Number of the present era; never 0.
    era: AtomicU64,
    kept: Mutex<Kept>,
    /// Number of Parses sent to the pool's servers, which orders them.
    clock: AtomicU64,
    /// Applications of the pool that read sequence values.
    pub(crate) readers: Readers,
}

#[derive(Debug)]
struct Kept {
    entries: LruCache<Box<[u8]>, ()>,
    /// Sum of the entries' lengths.
    bytes: usize,
}

impl Default for Proven {
    fn default() -> Self {
        Self {
            era: AtomicU64::new(1),
            kept: Mutex::new(Kept {
                entries: LruCache::new(ENTRIES_MAX),
                bytes: 0,
            }),
            clock: AtomicU64::new(0),
            readers: Readers::default(),
        }
    }
}

impl Proven {
    /// Forgets all statements, because the pool's servers have changed.
    pub fn clear(&self) {
        let mut kept = self.lock();
        kept.entries.clear();
        kept.bytes = 0;
        self.era.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the time of a Parse that is about to be sent; no other Parse has the same.
    pub(crate) fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Returns a time before that of all Parses to come.
    pub(crate) fn now(&self) -> u64 {
        self.clock.load(Ordering::SeqCst)
    }

    /// Returns the era; statements proven before the last [`Proven::clear`] have another one.
    pub(super) fn era(&self) -> u64 {
        self.era.load(Ordering::Relaxed)
    }

    pub(super) fn add(&self, context: &Context, body: &[u8]) {
        let key = key(context, body);
        let len = key.len();
        if len > ENTRY_MAX {
            return;
        }
        let mut kept = self.lock();
        kept.bytes += len;
        // The same entry, or the one that had to make room.
        if let Some((gone, ())) = kept.entries.push(key, ()) {
            kept.bytes -= gone.len();
        }
        while kept.bytes > BYTES_MAX {
            let Some((gone, ())) = kept.entries.pop_lru() else {
                break;
            };
            kept.bytes -= gone.len();
        }
    }

    pub(super) fn remove(&self, context: &Context, body: &[u8]) {
        let mut kept = self.lock();
        if let Some((gone, ())) = kept.entries.pop_entry(&*key(context, body)) {
            kept.bytes -= gone.len();
        }
    }

    pub(super) fn has(&self, context: &Context, body: &[u8]) -> bool {
        self.lock().entries.get(&*key(context, body)).is_some()
    }

    /// Locks the entries. They are plain data, so they stay usable after a panic of another holder.
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns one key for both; the length of the first part in front makes it unique.
fn key(context: &Context, body: &[u8]) -> Box<[u8]> {
    let length = (context.settings.len() as u64).to_be_bytes();
    [&length, &*context.settings, body].concat().into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::settings::Settings;
    use crate::statement::{Registry, Statement};

    fn statement(registry: &mut Registry, pool: &Arc<Proven>, body: &[u8]) -> Arc<Statement> {
        let context = registry.context(&Settings::default(), pool);
        registry.intern(&context, body)
    }

    #[test]
    fn what_one_worker_has_proven_the_other_knows() {
        let pool = Arc::default();
        let (mut here, mut there) = (Registry::new(0, 2), Registry::new(1, 2));
        let proven = statement(&mut here, &pool, b"a\0\0\0");
        let twin = statement(&mut there, &pool, b"a\0\0\0");
        assert!(!twin.is_proven());
        proven.prove();
        assert!(twin.is_proven() && proven.is_proven());
        assert!(!statement(&mut there, &pool, b"b\0\0\0").is_proven());
        twin.disprove();
        assert!(!statement(&mut Registry::new(0, 1), &pool, b"a\0\0\0").is_proven());
    }

    #[test]
    fn another_pool_and_other_settings_prove_nothing() {
        let (mut registry, pool) = (Registry::new(0, 1), Arc::default());
        statement(&mut registry, &pool, b"a\0\0\0").prove();
        assert!(!statement(&mut registry, &Arc::default(), b"a\0\0\0").is_proven());
        let settings = Settings::from_pairs([("search_path", "x")]);
        let context = registry.context(&settings, &pool);
        assert!(!registry.intern(&context, b"a\0\0\0").is_proven());
        assert!(!registry.private(b"a\0\0\0").is_proven());
    }

    #[test]
    fn nothing_is_proven_once_the_servers_are_others() {
        let (mut registry, pool) = (Registry::new(0, 1), Arc::default());
        let one = statement(&mut registry, &pool, b"a\0\0\0");
        one.prove();
        pool.clear();
        assert!(!one.is_proven());
        one.prove();
        assert!(one.is_proven());
    }

    #[test]
    fn entries_and_bytes_are_bounded() {
        let (mut registry, pool) = (Registry::new(0, 1), Arc::default());
        for i in 0..2 * ENTRIES_MAX.get() {
            statement(&mut registry, &pool, &i.to_be_bytes()).prove();
        }
        assert_eq!(pool.lock().entries.len(), ENTRIES_MAX.get());
        for i in 0..100_u8 {
            statement(&mut registry, &pool, &[i; ENTRY_MAX - 8]).prove();
            statement(&mut registry, &pool, &[i; ENTRY_MAX]).prove();
            // Again, as after a Close on a server.
            pool.add(
                &registry.context(&Settings::default(), &pool),
                &[i; ENTRY_MAX - 8],
            );
        }
        let kept = pool.lock();
        let bytes: usize = kept.entries.iter().map(|(key, ())| key.len()).sum();
        assert_eq!(bytes, kept.bytes);
        assert!(bytes <= BYTES_MAX, "{bytes}");
        assert_eq!(kept.entries.len(), BYTES_MAX / ENTRY_MAX);
    }
}
