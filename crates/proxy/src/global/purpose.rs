//! Purposes of a pool, and their effect on its settings.

use weir_config::{PoolSettings, SizingMode};

/// Purpose of a pool. Only `Clients` pools ever serve a client (hazard SEC-43).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Purpose {
    /// Queries of clients.
    Clients,
    /// `auth_query`, as the administrator wrote it.
    CustomQuestions,
    /// Single connection that listens for all clients of a database.
    Listener,
    /// Weir's own queries.
    OwnQuestions,
}

impl Purpose {
    /// Returns the settings of a pool with this purpose.
    pub(super) fn apply(self, mut settings: PoolSettings, user: &str) -> PoolSettings {
        if self == Self::Clients {
            return settings;
        }
        settings.sizing.mode = SizingMode::Off;
        if self == Self::Listener {
            return for_listener(settings);
        }
        user.clone_into(&mut settings.user);
        settings.is_user_forced = false;
        settings.password = None;
        settings.min_pool_size = 0;
        settings.connect_query = None;
        // Our own queries qualify every name, so that no object of the database can interfere (hazard SEC-43). Queries
        // of the administrator may rely on the search path of the role.
        if self == Self::OwnQuestions {
            let own = [("search_path", "pg_catalog"), ("datestyle", "ISO")];
            let startup = &mut settings.startup;
            startup.retain(|(name, _)| own.iter().all(|(own, _)| !own.eq_ignore_ascii_case(name)));
            startup.extend(own.map(|(name, value)| (name, value.to_owned())));
        }
        settings
    }
}

/// Returns settings for one server, logged in as its clients are, outside of the size of their pool. Notifications go
/// to clients as they arrive, so the server uses the encoding of nearly all clients. Clients with another encoding do
/// not listen here.
fn for_listener(mut settings: PoolSettings) -> PoolSettings {
    (settings.pool_size, settings.min_pool_size) = (1, 0);
    (settings.reserve_pool_size, settings.connect_query) = (0, None);
    let startup = &mut settings.startup;
    startup.retain(|(name, _)| *name != "client_encoding");
    startup.push(("client_encoding", "UTF8".to_owned()));
    settings
}
