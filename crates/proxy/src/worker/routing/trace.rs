//! `SET weir.trace_route = on`: a notice to the client that names the host of each transaction or batch, and the reason.
//!
//! The notice is written when a lease begins, in front of everything that the server answers: all earlier replies have
//! been sent by then, so it stands between two messages, and never in a COPY.

use weir_pool::HostId;
use weir_route::Why;
use weir_sql::Access;
use weir_watch::{Role, Snapshot};
use weir_wire::encode::{ErrorReport, Severity};
use weir_wire::sqlstate::SqlState;

use super::super::slots::Client;

/// Setting of a session that asks for notices.
pub(super) const SETTING: &str = "weir.trace_route";

/// Returns the notice about a route.
pub(super) fn notice(hosts: &Snapshot, host: HostId, why: Why, access: &Access) -> Vec<u8> {
    let view = hosts.host(host);
    let role = match view.map(|view| view.role) {
        Some(Role::Primary) => "primary",
        Some(Role::Replica) => "replica",
        Some(Role::Unknown) | None => "host",
    };
    let name = view.map_or("?", |view| &*view.name);
    let message = format!("route: {role} {name}: {}", reason(why, access));
    let mut notice = Vec::new();
    // Names of hosts and functions are short.
    let _ = ErrorReport::new(Severity::Notice, SqlState::SUCCESSFUL_COMPLETION, &message)
        .encode_notice(&mut notice);
    notice
}

/// Returns the reason for a route in words.
pub(super) fn reason(why: Why, access: &Access) -> String {
    match (why, access) {
        (Why::Access, Access::Primary(cause)) => cause.to_string(),
        _ => why.to_string(),
    }
}

impl Client {
    /// Adds the notice about the route of the request that begins now, if the session asked for it.
    #[inline]
    pub(in super::super) fn tell_route(&mut self, answers: &mut Vec<u8>) {
        if let Some(route) = &mut self.route
            && let Some(notice) = route.notice.take()
        {
            answers.extend_from_slice(&notice);
        }
    }
}
