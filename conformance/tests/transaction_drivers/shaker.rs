//! Makes clients change their server repeatedly.
//!
//! A transaction of the shaker always holds one of the pool's two servers; it takes the other before it releases the
//! first. A client that needs a server thus finds the two free by turns.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread;
use std::thread::JoinHandle;

use anyhow::Result;
use anyhow::anyhow;
use weir_conformance::Raw;

/// A running shaker.
pub(crate) struct Shaker {
    ended: Arc<AtomicBool>,
    thread: JoinHandle<Result<u64>>,
}

impl Shaker {
    /// Starts the shaker in the pool of user `postgres` and this database.
    ///
    /// # Errors
    /// When the target refuses the login.
    pub(crate) fn start(port: u16, database: &str) -> Result<Self> {
        let pair = (Raw::connect(port, database)?, Raw::connect(port, database)?);
        let ended = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ended);
        let thread = thread::spawn(move || shake(pair, &seen));
        Ok(Self { ended, thread })
    }

    /// Stops the shaker; returns the number of changes.
    ///
    /// # Errors
    /// When the target failed one of its statements.
    pub(crate) fn stop(self) -> Result<u64> {
        self.ended.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .map_err(|_| anyhow!("the shaker panicked"))?
    }
}

fn shake((mut holds, mut takes): (Raw, Raw), ended: &AtomicBool) -> Result<u64> {
    let mut count = 0;
    holds.query("begin")?;
    while !ended.load(Ordering::Relaxed) {
        // Between two changes the clients can work.
        takes.query("begin; select pg_sleep(0.002)")?;
        holds.query("commit")?;
        mem::swap(&mut holds, &mut takes);
        count += 1;
    }
    holds.query("commit")?;
    Ok(count)
}
