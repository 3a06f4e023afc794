//! Ctrl-C and SIGTERM as a flag that long waits look at, so that every `Drop` still runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::clock;
use crate::error::{Error, Result};

/// Flag that the first signal sets and that is never cleared.
#[derive(Clone, Debug)]
pub struct Interrupt {
    raised: Arc<AtomicBool>,
}

impl Interrupt {
    /// Handles SIGINT, SIGTERM and SIGHUP for the rest of the process.
    ///
    /// # Errors
    /// The system refuses.
    pub fn install() -> Result<Self> {
        let raised = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            flag::register(signal, Arc::clone(&raised))
                .map_err(Error::system("take over signals"))?;
        }
        Ok(Self { raised })
    }

    /// Returns a flag that no signal sets, for short work.
    #[must_use]
    pub fn never() -> Self {
        Self {
            raised: Arc::new(AtomicBool::new(false)),
        }
    }

    /// Sets the flag, as a signal does.
    pub fn raise(&self) {
        self.raised.store(true, Ordering::Relaxed);
    }

    /// True if a signal has arrived.
    #[must_use]
    pub fn raised(&self) -> bool {
        self.raised.load(Ordering::Relaxed)
    }

    /// Fails if a signal has arrived.
    ///
    /// # Errors
    /// [`Error::Interrupted`], which unwinds the interrupted work.
    pub fn check(&self) -> Result<()> {
        if self.raised() {
            return Err(Error::Interrupted);
        }
        Ok(())
    }

    /// Waits for `time`.
    ///
    /// # Errors
    /// [`Error::Interrupted`], as soon as a signal has come.
    pub fn wait(&self, time: Duration) -> Result<()> {
        let deadline = clock::now() + time;
        loop {
            self.check()?;
            let left = deadline.saturating_duration_since(clock::now());
            if left.is_zero() {
                return Ok(());
            }
            clock::pause(left.min(Duration::from_millis(50)));
        }
    }
}
