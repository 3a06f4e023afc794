//! Statements that some server of a pool has prepared: a further Parse of one needs no server to be answered.
//!
//! Shared by all workers. Looked at only for statements that the worker has not yet seen proven itself, so the lock is
//! not on the way of anything in steady state.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use lru::LruCache;

use super::planning::Context;
use crate::sequences::Readers;

/// Statements that a pool remembers.
const ENTRIES_MAX: NonZeroUsize = NonZeroUsize::new(4096).expect("it is not zero");

/// Bytes of them, in all.
const BYTES_MAX: usize = 2 * 1024 * 1024;

/// A longer one is not remembered; nobody prepares so much by blocking calls.
const ENTRY_MAX: usize = 64 * 1024;

/// See the module's page; the least recently used ones make room.
#[derive(Debug)]
pub struct Proven {
    /// Never 0.
    era: AtomicU64,
    kept: Mutex<Kept>,
    /// Counts the Parses sent to the pool's servers: tells which came before which.
    clock: AtomicU64,
    /// Which of the pool's applications read what sequences gave them.
    pub(crate) readers: Readers,
}

#[derive(Debug)]
struct Kept {
    entries: LruCache<Box<[u8]>, ()>,
    /// The sum of the entries' lengths.
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
    /// The pool's servers are others from now on: nothing is proven.
    pub fn clear(&self) {
        let mut kept = self.lock();
        kept.entries.clear();
        kept.bytes = 0;
        self.era.fetch_add(1, Ordering::Relaxed);
    }

    /// A Parse is about to be sent: its time, which nothing else has.
    pub(crate) fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Parses that are sent from now on have a later time.
    pub(crate) fn now(&self) -> u64 {
        self.clock.load(Ordering::SeqCst)
    }

    /// What was proven before the last [`Proven::clear`] bears another number.
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
        // The same one, or what had to make room.
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

    /// It guards plain data: a panic while it was held leaves that usable.
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One string of bytes for both, with the length of the first in front, so that no other two make the same.
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
            // Once more, as after a Close on a server.
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
