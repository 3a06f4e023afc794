//! Look-ups that reveal a bug: an id whose object must exist, or a state that must be the current one, is not found.
//!
//! The worker goes on without the object, so that one wrong connection does not end the others. Each such look-up is
//! counted, the first of each kind is logged, and in tests and in the simulator it panics. An object that may be gone
//! for a good reason is looked up with `get`; a comment or a branch beside it states the reason.

use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use weir_session::server::Unfit;

/// Kinds of objects that a look-up did not find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// A connection that carries a cancel request.
    Canceller,
    /// A client.
    Client,
    /// A listener of a database.
    Listener,
    /// This worker's part of a pool.
    Group,
    Lane,
    /// A server connection.
    Server,
    /// A phase, stage or field that the object must have by now.
    State,
}

/// Number of kinds.
const KINDS: usize = Missing::State as usize + 1;

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Canceller => "the connection of a cancel request",
            Self::Client => "a client",
            Self::Listener => "the listener of a database",
            Self::Group => "a group of clients",
            Self::Lane => "a pool",
            Self::Server => "a server connection",
            Self::State => "the state of a client or server",
        })
    }
}

/// Look-ups of all workers that failed to find an object or state that must exist.
#[derive(Debug, Default)]
pub(crate) struct Broken {
    count: AtomicU64,
    /// True for each kind that was logged.
    logged: [AtomicBool; KINDS],
    /// True for each kind of unfit server that was logged.
    unfit_logged: [AtomicBool; Unfit::COUNT],
}

impl Broken {
    /// Counts a look-up that failed, and logs the first one of its kind.
    ///
    /// # Panics
    /// In tests, in the simulator and in builds with debug assertions.
    #[cold]
    #[inline(never)]
    #[track_caller]
    pub(crate) fn report(&self, missing: Missing) {
        let place = Location::caller();
        self.count.fetch_add(1, Ordering::Relaxed);
        let logged = self.logged.get(missing as usize);
        if !logged.is_some_and(|logged| logged.swap(true, Ordering::Relaxed)) {
            tracing::error!(
                "internal error: {missing} does not exist ({}:{}); the event is ignored. \
                 Please report this line; repetitions are counted in weir_broken_lookups_total and not logged",
                place.file(),
                place.line()
            );
        }
        #[cfg(any(test, debug_assertions))]
        panic!("internal error: {missing} does not exist ({place})");
    }

    /// Counts a server that must not go back to its pool, and logs the first one of its kind. The caller closes it.
    ///
    /// # Panics
    /// In tests, in the simulator and in builds with debug assertions.
    #[cold]
    #[inline(never)]
    pub(crate) fn report_unfit(&self, unfit: Unfit) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let logged = self.unfit_logged.get(unfit as usize);
        if !logged.is_some_and(|logged| logged.swap(true, Ordering::Relaxed)) {
            tracing::error!(
                "a bug was hit: {unfit}; Weir closes it, please report this line; further ones are counted and not \
                 logged"
            );
        }
        #[cfg(any(test, debug_assertions))]
        panic!("{unfit}");
    }

    /// Returns the number of look-ups that failed since the process began.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn a_report_is_counted_and_panics_in_tests() {
        let broken = Broken::default();
        for (missing, count) in [(Missing::Client, 1), (Missing::State, 2)] {
            let outcome = catch_unwind(AssertUnwindSafe(|| broken.report(missing)));
            let panic = outcome.expect_err("it panics here");
            let text = panic.downcast_ref::<String>().unwrap();
            assert!(text.contains(&missing.to_string()), "{text}");
            assert!(text.contains("broken.rs"), "it names the caller: {text}");
            assert_eq!(broken.count(), count);
        }
    }

    #[test]
    fn a_server_that_must_not_go_back_is_counted_and_panics_in_tests() {
        let broken = Broken::default();
        let outcome = catch_unwind(AssertUnwindSafe(|| broken.report_unfit(Unfit::Unended)));
        let panic = outcome.expect_err("it panics here");
        let text = panic.downcast_ref::<String>().unwrap();
        assert_eq!((text, broken.count()), (&Unfit::Unended.to_string(), 1));
    }
}
