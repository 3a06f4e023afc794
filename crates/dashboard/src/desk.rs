//! State that all connections share: answers of the pooler, kept for a second, and the sessions.
//!
//! Many tabs share one fetch: whoever finds a fetch under way waits for its answer. Fetches block, so they run on the
//! runtime's two threads for blocking work.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex as Held, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::session::{NoRandom, Remembered, Sessions};
use crate::source::{Missing, Scope, Series, Source, Table};

/// Time for which an answer is reused; a little below the interval of streams.
const FRESH: Duration = Duration::from_millis(900);
/// Maximum number of answers that are kept; at the limit all are forgotten.
const ANSWERS_MAX: usize = 128;
/// Maximum number of streams.
pub(crate) const STREAMS_MAX: usize = 16;

/// An answer and its age; locked while a fetch is under way.
type Slot<T> = Arc<Held<Option<(Instant, Result<Arc<T>, Missing>)>>>;

/// Answers by question.
struct Kept<K, T>(Mutex<HashMap<K, Slot<T>>>);

impl<K: Eq + Hash, T: Send + Sync + 'static> Kept<K, T> {
    fn new() -> Self {
        Self(Mutex::new(HashMap::new()))
    }

    async fn fetch(
        &self,
        key: K,
        fetch: impl FnOnce() -> Result<T, Missing> + Send + 'static,
    ) -> Result<Arc<T>, Missing> {
        let slot = {
            let mut slots = lock(&self.0);
            if slots.len() >= ANSWERS_MAX {
                slots.clear();
            }
            Arc::clone(slots.entry(key).or_default())
        };
        let mut kept = slot.lock().await;
        if let Some((at, answer)) = kept.as_ref()
            && at.elapsed() < FRESH
        {
            return answer.clone();
        }
        let fetched = spawn_blocking(move || fetch().map(Arc::new)).await;
        let answer = fetched.unwrap_or_else(|_| {
            tracing::error!("dashboard: internal error while fetching figures");
            Err(Missing::Failed(
                "internal error; the log has more".to_owned(),
            ))
        });
        *kept = Some((Instant::now(), answer.clone()));
        answer
    }
}

/// See the module's page.
pub(crate) struct Desk {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) streams: Arc<Semaphore>,
    pub(crate) sessions: Mutex<Sessions>,
    pub(crate) remembered: Mutex<Remembered>,
    began: Instant,
    tables: Kept<String, Table>,
    histories: Kept<(Scope, u32), Series>,
}

impl Desk {
    pub(crate) fn new(source: Arc<dyn Source>) -> Result<Self, NoRandom> {
        Ok(Self {
            source,
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            sessions: Mutex::default(),
            remembered: Mutex::new(Remembered::new()?),
            began: Instant::now(),
            tables: Kept::new(),
            histories: Kept::new(),
        })
    }

    /// Time since the start, which never goes back.
    pub(crate) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    pub(crate) async fn table(&self, name: &str) -> Result<Arc<Table>, Missing> {
        let source = Arc::clone(&self.source);
        let asked = name.to_owned();
        let fetch = move || source.table(&asked);
        self.tables.fetch(name.to_owned(), fetch).await
    }

    pub(crate) async fn history(
        &self,
        scope: &Scope,
        seconds: u32,
    ) -> Result<Arc<Series>, Missing> {
        let source = Arc::clone(&self.source);
        let asked = scope.clone();
        let fetch = move || source.history(&asked, seconds);
        self.histories.fetch((scope.clone(), seconds), fetch).await
    }
}

/// Locks a mutex. All of these values are complete between two statements, so a panicked holder has broken none.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn many_tabs_share_one_fetch_and_its_failure() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let fetches = Arc::new(AtomicUsize::new(0));
        let kept = Arc::new(Kept::<&str, usize>::new());
        let ask = |key| {
            let (kept, fetches) = (Arc::clone(&kept), Arc::clone(&fetches));
            runtime.spawn(async move {
                let fetch = move || match fetches.fetch_add(1, Ordering::SeqCst) {
                    0 => Ok(7),
                    _ => Err(Missing::Failed("no answer".to_owned())),
                };
                kept.fetch(key, fetch).await
            })
        };
        let asked: Vec<_> = (0..8).map(|_| ask("a")).collect();
        for answer in asked {
            assert_eq!(*runtime.block_on(answer).unwrap().unwrap(), 7);
        }
        let failure = Err(Missing::Failed("no answer".to_owned()));
        for _ in 0..2 {
            assert_eq!(runtime.block_on(ask("b")).unwrap(), failure);
        }
        assert_eq!(fetches.load(Ordering::SeqCst), 2);
    }
}
