//! The console as the engine sees it: sends the greeting and opens a conversation for each client.

use std::sync::Arc;

use weir_proxy::console::{Console, Conversation, Role};

use crate::shared::Shared;
use crate::talk::Talk;

/// Version of PgBouncer whose console this is. Tools derive the columns they expect from it.
pub const PGBOUNCER_VERSION: &str = "1.25.2";

/// Creates the console. `version` is Weir's own, such as `0.1.0`.
pub fn console(shared: Shared, version: &str) -> impl Console + use<> {
    let version = shown_version(version).into();
    Answer { shared, version }
}

/// Returns the text of SHOW VERSION.
pub(crate) fn shown_version(version: &str) -> String {
    // Tools look for "PgBouncer" at the beginning and for the first number after it.
    format!("PgBouncer {PGBOUNCER_VERSION} (Weir {version})")
}

struct Answer {
    shared: Shared,
    /// Result of SHOW VERSION.
    version: Arc<str>,
}

impl Console for Answer {
    fn greeting(&self) -> Vec<(String, String)> {
        [
            ("server_version", format!("{PGBOUNCER_VERSION}/bouncer")),
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
