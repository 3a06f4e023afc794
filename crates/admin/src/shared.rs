//! Configuration that the console shows; a reload replaces it as a whole.

use std::sync::{Arc, PoisonError, RwLock};

use weir_config::{PgBouncerVersion, Settings};

use crate::digests::Known;

/// Configuration in force, shared by the console and the code that reloads. Clones are cheap and share one
/// state.
#[derive(Clone)]
pub struct Shared(Arc<State>);

struct State {
    view: RwLock<View>,
    /// Fingerprints that were computed before.
    digests: Known,
}

/// Snapshot of the configuration.
#[derive(Clone)]
pub(crate) struct View {
    /// The settings.
    pub(crate) settings: Arc<Settings>,
    /// Names of the users in `auth_file`.
    pub(crate) users: Arc<[String]>,
}

impl Shared {
    /// Creates the handle with these settings and the names of users from `auth_file`.
    #[must_use]
    pub fn new(settings: Arc<Settings>, users: Vec<String>) -> Self {
        let users = users.into();
        Self(Arc::new(State {
            view: RwLock::new(View { settings, users }),
            digests: Known::default(),
        }))
    }

    /// Replaces settings and names after a reload.
    pub fn replace(&self, settings: Arc<Settings>, users: Vec<String>) {
        let users = users.into();
        // A view is always complete, so the value left by a panicking thread can be used.
        *self.0.view.write().unwrap_or_else(PoisonError::into_inner) = View { settings, users };
    }

    pub(crate) fn view(&self) -> View {
        self.0
            .view
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Version of PgBouncer whose console is shown.
    pub(crate) fn compat(&self) -> PgBouncerVersion {
        self.view().settings.global.pgbouncer_compat
    }

    /// Fingerprints of statements that were shown before.
    pub(crate) fn known_digests(&self) -> &Known {
        &self.0.digests
    }
}
