//! Configuration that the console shows; a reload replaces it as a whole.

use std::sync::{Arc, PoisonError, RwLock};

use weir_config::Settings;

/// Configuration in force, shared by the console and the code that reloads. Clones are cheap and share one
/// state.
#[derive(Clone)]
pub struct Shared(Arc<RwLock<View>>);

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
        Self(Arc::new(RwLock::new(View { settings, users })))
    }

    /// Replaces settings and names after a reload.
    pub fn replace(&self, settings: Arc<Settings>, users: Vec<String>) {
        let users = users.into();
        // A view is always complete, so the value left by a panicking thread can be used.
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = View { settings, users };
    }

    pub(crate) fn view(&self) -> View {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
