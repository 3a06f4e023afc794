//! Entries of `[listeners]`: each has a port of its own and something to listen on.

use std::collections::BTreeMap;

use crate::error::ErrorKind;
use crate::raw::{Raw, error_at, quoted};
use crate::settings::Settings;
use crate::types::ListenerRole;

/// Refuses listeners that cannot listen or be told apart, and notes roles without effect.
pub(super) fn check(raw: &mut Raw, settings: &Settings) {
    let mut ports = BTreeMap::from([(
        settings.global.listen_port,
        "the global listen_port".to_owned(),
    )]);
    for (name, listener) in &settings.listeners {
        let Some((values, entry_at)) = raw.listeners.get(name).cloned() else {
            continue;
        };
        let port = listener.listen_port;
        let own = settings.listening_as(listener);
        let mistake = if let Some(other) = ports.get(&port) {
            let message = format!(
                "listener {} has port {port}, which {other} has as well; Weir tells listeners apart by their ports",
                quoted(name)
            );
            Some(("listen_port", message))
        } else if own.listen_addr.is_empty() && own.unix_socket_dir.is_empty() {
            let message = format!(
                "listener {} has neither listen_addr nor unix_socket_dir, so no client can connect to it",
                quoted(name)
            );
            Some(("listen_addr", message))
        } else {
            None
        };
        if let Some((key, message)) = mistake {
            let at = values.get(key).map_or(&entry_at, |(_, at)| at);
            let mut error = error_at(at, ErrorKind::Conflict, message);
            error.key = Some(key.to_owned());
            raw.fail(error);
        }
        ports.insert(port, format!("listener {}", quoted(name)));
        let wants_host = listener.role.is_some_and(|role| role != ListenerRole::Auto);
        if wants_host && !settings.has_clusters() {
            raw.note(format!(
                "{entry_at}: listener {} has a role, but no database has several hosts; it changes nothing",
                quoted(name)
            ));
        }
    }
}
