//! Rules about the TLS options. The loader of files, versions and ciphers checks their contents.

use super::{conflict, conflict_in};
use crate::error::ErrorKind;
use crate::raw::{Origin, Raw};
use crate::settings::Settings;
use crate::tls::{SYSTEM_ROOTS, ServerTls};
use crate::types::{ChannelBinding, SslMode, SslNegotiation};

pub(super) fn check(raw: &mut Raw, settings: &Settings, file: &Origin) {
    check_clients(raw, settings, file);
    for (database, tls) in settings.server_tls() {
        check_servers(raw, &database, &tls, file);
    }
}

fn check_clients(raw: &mut Raw, settings: &Settings, file: &Origin) {
    let tls = settings.global.client_tls();
    let mode = tls.sslmode;
    let mut refuse = |key: &str, message: String| {
        conflict(raw, key, file, ErrorKind::Conflict, message);
    };
    if mode != SslMode::Disable && (tls.key_file.is_empty() || tls.cert_file.is_empty()) {
        let message =
            format!("client_tls_sslmode {mode} needs client_tls_key_file and client_tls_cert_file");
        refuse("client_tls_sslmode", message);
    }
    if mode.is_verified() && tls.ca_file.is_empty() {
        let message = format!("client_tls_sslmode {mode} needs client_tls_ca_file");
        refuse("client_tls_sslmode", message);
    }
    if tls.ca_file == SYSTEM_ROOTS {
        // Anyone can buy a certificate of these CAs, and none of them certifies the names of database users.
        let message = "client_tls_ca_file must be a file; system is for servers only";
        refuse("client_tls_ca_file", message.to_owned());
    }
    if mode != SslMode::Disable && tls.ca_file.is_empty() && !tls.crl_file.is_empty() {
        raw.note("client_tls_crl_file is not used without client_tls_ca_file".into());
    }
    let dhe = settings.global.client_tls_dheparams.as_str();
    if !matches!(dhe, "" | "auto" | "none") {
        raw.note(
            "client_tls_dheparams has no effect: keys are exchanged by elliptic curves only".into(),
        );
    }
}

/// Checks one set of TLS options. `database` is empty for the global ones.
fn check_servers(raw: &mut Raw, database: &str, tls: &ServerTls, file: &Origin) {
    let mode = tls.sslmode;
    let place = match database {
        "" => String::new(),
        name => format!("database \"{name}\": "),
    };
    let mut refuse = |key: &str, message: String| {
        conflict_in(raw, database, key, file, format!("{place}{message}"));
    };
    if mode.is_verified() && tls.ca_file.is_empty() {
        let message = format!(
            "server_tls_sslmode {mode} needs server_tls_ca_file; \
             only verify-full can use the certificates that this machine trusts"
        );
        refuse("server_tls_sslmode", message);
    }
    if mode == SslMode::VerifyCa && tls.uses_system_roots() {
        // As in libpq: with any public certificate, an attacker could pose as the server.
        let message = "server_tls_ca_file system needs server_tls_sslmode verify-full";
        refuse("server_tls_ca_file", message.to_owned());
    }
    if tls.key_file.is_empty() != tls.cert_file.is_empty() {
        let message = "server_tls_key_file and server_tls_cert_file need each other";
        refuse("server_tls_key_file", message.to_owned());
    }
    if tls.sslnegotiation == SslNegotiation::Direct && !mode.is_required() {
        // As in libpq: direct TLS cannot fall back to plain text.
        let message = format!(
            "server_tls_sslnegotiation direct needs server_tls_sslmode require or above, not {mode}"
        );
        refuse("server_tls_sslnegotiation", message);
    }
    if tls.channel_binding == ChannelBinding::Require && mode == SslMode::Disable {
        let message = "server_channel_binding require contradicts server_tls_sslmode disable";
        refuse("server_channel_binding", message.to_owned());
    }
    if !mode.is_verified() && mode != SslMode::Disable {
        if !tls.ca_file.is_empty() {
            raw.note(unused("server_tls_ca_file", &place, mode));
        }
        if !tls.crl_file.is_empty() {
            raw.note(unused("server_tls_crl_file", &place, mode));
        }
    }
}

fn unused(key: &str, place: &str, mode: SslMode) -> String {
    format!("{place}{key} is not used: sslmode {mode} checks no certificate")
}
