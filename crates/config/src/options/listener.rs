//! Rows of a `[listeners]` entry: a second port or unix socket, whose clients differ from the others.

use super::{Field, Kind, Opt, of_kind, ranged, section, text, word};
use crate::types::{ListenAddr, ListenerRole, PoolMode};
use crate::value::Value;

section! {
    /// A `[listeners]` entry as written; `None` inherits.
    Listener, LISTENER {
        /// Addresses to listen on; the global `listen_addr` by default. Empty: only the unix socket.
        listen_addr: Option<Vec<ListenAddr>> = of_kind(Kind::Listen, "").unset().fixed();
        /// Port of the addresses, and suffix of the unix socket. No other listener may have it.
        listen_port: u16 = ranged("6432", 1, 65_535).fixed();
        /// Directory of the unix socket, or `@abstract`; the global `unix_socket_dir` by default. Empty: only TCP.
        unix_socket_dir: Option<String> = text("").unset().fixed();
        /// Pool mode of clients that come by this listener, before that of pool, user, database and globals. If it is not theirs anyway, they have servers of their own.
        pool_mode: Option<PoolMode> = word(PoolMode::NAMES, "session").unset();
        /// Hosts on which sessions of this listener begin, as by `SET weir.role`. A client may set another one. Databases with one host ignore it.
        role: Option<ListenerRole> = word(ListenerRole::NAMES, "auto").unset();
    }
}
