//! Ctrl-C and SIGTERM as a flag that long waits look at, so that every `Drop` still runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::lab::clock;

/// Set once by the first signal, never cleared.
#[derive(Clone)]
pub(crate) struct Interrupt {
    raised: Arc<AtomicBool>,
}

impl Interrupt {
    /// Takes over SIGINT, SIGTERM and SIGHUP for the rest of the process.
    pub(crate) fn install() -> Result<Self> {
        let raised = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            flag::register(signal, Arc::clone(&raised))?;
        }
        Ok(Self { raised })
    }

    pub(crate) fn raised(&self) -> bool {
        self.raised.load(Ordering::Relaxed)
    }

    /// The error with which interrupted work unwinds.
    pub(crate) fn check(&self) -> Result<()> {
        if self.raised() {
            bail!("interrupted");
        }
        Ok(())
    }

    /// Waits for `time`, or fails as soon as a signal has come.
    pub(crate) fn wait(&self, time: Duration) -> Result<()> {
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
