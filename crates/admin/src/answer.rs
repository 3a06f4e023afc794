//! The console as the engine sees it: sends the greeting and opens a conversation for each client.

use std::sync::Arc;

use weir_config::PgBouncerVersion;
use weir_proxy::console::{Console, Conversation, Role};

use crate::shared::Shared;
use crate::talk::Talk;

/// Version of PgBouncer whose console this is unless `pgbouncer_compat` chooses another one. Tools derive the columns
/// they expect from it.
pub const PGBOUNCER_VERSION: &str = PgBouncerVersion::V1_25.release();

/// Creates the console. `version` is Weir's own, such as `0.1.0`.
pub fn console(shared: Shared, version: &str) -> impl Console + use<> {
    let version = version.into();
    Answer { shared, version }
}

struct Answer {
    shared: Shared,
    /// Weir's own version.
    version: Arc<str>,
}

impl Console for Answer {
    fn greeting(&self) -> Vec<(String, String)> {
        let release = self.shared.compat().release();
        [
            ("server_version", format!("{release}/bouncer")),
            ("client_encoding", "UTF8".to_owned()),
            ("server_encoding", "UTF8".to_owned()),
            ("DateStyle", "ISO".to_owned()),
            ("TimeZone", "GMT".to_owned()),
            ("standard_conforming_strings", "on".to_owned()),
            ("is_superuser", "on".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    fn open(&self, role: Role) -> Box<dyn Conversation> {
        Box::new(Talk::new(
            role,
            self.shared.clone(),
            Arc::clone(&self.version),
        ))
    }
}

#[cfg(test)]
mod tests;
