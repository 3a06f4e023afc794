//! Purposes of a pool, and their effect on its settings.

use std::sync::Arc;

use weir_config::{PoolMode, PoolSettings, Settings, SizingMode};

use super::{Global, GlobalPool, TooManyPools};

/// Purpose of a pool. Only pools of `Clients` and `ClientsIn` ever serve a client (hazard SEC-43).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Purpose {
    /// Queries of clients.
    Clients,
    /// Queries of clients whose listener gives them this pool mode, which is not that of their pool otherwise.
    ClientsIn(PoolMode),
    /// `auth_query`, as the administrator wrote it.
    CustomQuestions,
    /// Single connection that listens for all clients of a database.
    Listener,
    /// Weir's own queries.
    OwnQuestions,
}

impl Purpose {
    /// True if clients use the pool.
    pub(crate) const fn serves_clients(self) -> bool {
        matches!(self, Self::Clients | Self::ClientsIn(_))
    }

    /// Returns the settings of the pool with this purpose. None if there is no such database.
    pub(super) fn settings(
        self,
        settings: &Settings,
        database: &str,
        user: &str,
    ) -> Option<PoolSettings> {
        match self {
            Self::ClientsIn(mode) => settings.pool_in(database, user, Some(mode)),
            _ => Some(self.apply(settings.pool(database, user)?, user)),
        }
    }

    /// Returns the settings of a pool with this purpose.
    pub(super) fn apply(self, mut settings: PoolSettings, user: &str) -> PoolSettings {
        if self.serves_clients() {
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

impl Global {
    /// Returns the pool of clients that came by this port. `settings` have the pool mode of its listener.
    pub(crate) fn pool_of_port(
        &self,
        settings: PoolSettings,
        port: u16,
    ) -> Result<Arc<GlobalPool>, TooManyPools> {
        let settled = self.settled();
        let purpose = match settled.settings.pool_mode_of_port(port) {
            None => Purpose::Clients,
            Some(mode) => {
                let usual = settled.settings.pool(&settings.database, &settings.user);
                match usual.is_some_and(|usual| usual.pool_mode == mode) {
                    true => Purpose::Clients,
                    false => Purpose::ClientsIn(mode),
                }
            }
        };
        self.pool_for(settings, purpose)
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
