//! What the console shows of the configuration; replaced as a whole by a reload.

use std::sync::{Arc, PoisonError, RwLock};

use weir_config::Settings;

/// The configuration in force, shared by the console and whoever reloads. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Shared(Arc<RwLock<View>>);

/// One state of it.
#[derive(Clone)]
pub(crate) struct View {
    /// The settings.
    pub(crate) settings: Arc<Settings>,
    /// Names of the users in `auth_file`.
    pub(crate) users: Arc<[String]>,
}

impl Shared {
    /// Begins with these settings and names of users from `auth_file`.
    #[must_use]
    pub fn new(settings: Arc<Settings>, users: Vec<String>) -> Self {
        let users = users.into();
        Self(Arc::new(RwLock::new(View { settings, users })))
    }

    /// Replaces both after a reload.
    pub fn replace(&self, settings: Arc<Settings>, users: Vec<String>) {
        let users = users.into();
        // A view is always whole, so what a panicking thread left behind can be used.
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = View { settings, users };
    }

    pub(crate) fn view(&self) -> View {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
