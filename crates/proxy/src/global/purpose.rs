//! What a pool is for, and what that changes of its settings.

use weir_config::{PoolSettings, SizingMode};

/// What a pool is for. Only the first is ever a client's (hazard SEC-43).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Purpose {
    /// Queries of clients.
    Clients,
    /// `auth_query` as the administrator wrote it.
    CustomQuestions,
    /// The one connection that listens for all clients of a database.
    Listener,
    /// Questions in words of our own.
    OwnQuestions,
}

impl Purpose {
    /// The settings of a pool for it.
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
        // Our own queries name every schema; nothing in the database may come between (hazard SEC-43). Queries of the
        // administrator may rely on the path that the role has.
        if self == Self::OwnQuestions {
            let own = [("search_path", "pg_catalog"), ("datestyle", "ISO")];
            let startup = &mut settings.startup;
            startup.retain(|(name, _)| own.iter().all(|(own, _)| !own.eq_ignore_ascii_case(name)));
            startup.extend(own.map(|(name, value)| (name, value.to_owned())));
        }
        settings
    }
}

/// One server, logged in as its clients are, and outside of their pool's size. What it hears goes to clients as it comes,
/// so it is told in the encoding that nearly all of them use; the others do not listen here.
fn for_listener(mut settings: PoolSettings) -> PoolSettings {
    (settings.pool_size, settings.min_pool_size) = (1, 0);
    (settings.reserve_pool_size, settings.connect_query) = (0, None);
    let startup = &mut settings.startup;
    startup.retain(|(name, _)| *name != "client_encoding");
    startup.push(("client_encoding", "UTF8".to_owned()));
    settings
}
