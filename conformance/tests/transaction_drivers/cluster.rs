//! Cluster of this suite: with prepared transactions, which are off by default.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::Weak;

use anyhow::Result;
use weir_conformance::Postgres;
use weir_conformance::postgres::Options;

/// Access to the cluster that all tests of the suite share while any of them runs.
pub(crate) struct Cluster;

impl Cluster {
    /// The running cluster, or a new one.
    ///
    /// # Errors
    /// As [`Postgres::start`].
    pub(crate) fn shared() -> Result<Arc<Postgres>> {
        static SHARED: Mutex<Weak<Postgres>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = shared.upgrade() {
            return Ok(running);
        }
        let options = Options {
            settings: vec!["max_prepared_transactions = 40".to_owned()],
            ..Options::default()
        };
        let started = Arc::new(Postgres::start(&options)?);
        *shared = Arc::downgrade(&started);
        Ok(started)
    }
}
