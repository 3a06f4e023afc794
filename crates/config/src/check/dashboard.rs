//! Rules about the dashboard: no address beyond this machine without TLS and a login.

use super::conflict;
use crate::error::ErrorKind;
use crate::raw::{Origin, Raw};
use crate::settings::Settings;
use crate::types::{AuthType, SslMode};

pub(super) fn check(raw: &mut Raw, settings: &Settings, file: &Origin) {
    let global = &settings.global;
    let Some(first) = global.dashboard_listen.first() else {
        if global.dashboard_actions {
            raw.note("dashboard_actions has no effect: dashboard_listen is empty".into());
        }
        return;
    };
    let exposed = global
        .dashboard_listen
        .iter()
        .find(|at| !at.addr.is_loopback());
    let is_open =
        settings.trust_loopback || matches!(global.auth_type, AuthType::Any | AuthType::Trust);
    let mut refuse = |message: String| {
        conflict(raw, "dashboard_listen", file, ErrorKind::Conflict, message);
    };
    if let Some(at) = exposed {
        if global.client_tls_sslmode == SslMode::Disable {
            refuse(format!(
                "dashboard_listen {at} is not loopback, so it needs TLS: set client_tls_sslmode, client_tls_key_file and \
                 client_tls_cert_file, or listen on 127.0.0.1 and reach it through ssh -L"
            ));
        }
        if is_open {
            refuse(format!(
                "dashboard_listen {at} is not loopback, so it needs logins, and auth_type {} asks for no password: set \
                 another auth_type, or listen on 127.0.0.1",
                global.auth_type
            ));
        }
    }
    if global.metrics_listen.contains(first) {
        refuse(format!(
            "dashboard_listen and metrics_listen are both {first}; give each its own port"
        ));
    }
    if is_open {
        raw.note(format!(
            "auth_type {} asks for no password, so the dashboard lets everybody in who reaches its address and names a user \
             of admin_users or stats_users",
            global.auth_type
        ));
    } else if global.admin_users.is_empty() && global.stats_users.is_empty() {
        raw.note(
            "admin_users and stats_users are empty, so nobody can sign in to the dashboard".into(),
        );
    } else if global.auth_file.is_empty() {
        raw.note(
            "the dashboard checks passwords of auth_file, which is not set, so nobody can sign in"
                .into(),
        );
    }
}
