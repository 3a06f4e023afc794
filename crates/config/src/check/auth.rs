//! Rules about logins: requirements of each `auth_type`, `auth_query`, and notes on weak settings.

use super::{CONSOLE, conflict, conflict_in};
use crate::error::ErrorKind;
use crate::options::Database;
use crate::raw::{Origin, Raw};
use crate::settings::{FALLBACK, Settings};
use crate::types::{AuthType, ListenAddr};

pub(super) fn check(raw: &mut Raw, settings: &Settings, file: &Origin) {
    check_lookup(raw, settings, file);
    if settings.trust_loopback {
        return;
    }
    check_needs(raw, settings, file);
    note_weak(raw, settings);
    note_unused(raw, settings);
}

fn check_needs(raw: &mut Raw, settings: &Settings, file: &Origin) {
    let global = &settings.global;
    let auth = global.auth_type;
    let missing = match auth {
        // PgBouncer requires verify-full; towards clients verify-ca means the same.
        AuthType::Cert if !global.client_tls_sslmode.is_verified() => {
            Some("client_tls_sslmode verify-ca or verify-full")
        }
        AuthType::Hba if global.auth_hba_file.is_empty() => Some("auth_hba_file"),
        AuthType::Ldap if global.auth_ldap_options.is_empty() => Some("auth_ldap_options"),
        _ => None,
    };
    if let Some(what) = missing {
        let message = format!("auth_type {auth} needs {what}");
        conflict(raw, "auth_type", file, ErrorKind::Conflict, message);
    }
    let needs_file = matches!(
        auth,
        AuthType::Trust | AuthType::Plain | AuthType::Md5 | AuthType::ScramSha256
    );
    let has_users = !global.auth_file.is_empty() || settings.upstream_user.is_some();
    if needs_file && !has_users && !has_lookup(settings) {
        // PgBouncer starts with such a file too (its minimal example is one), because the console still works.
        raw.note(format!(
            "auth_type {auth} needs auth_file or auth_user; without them no client can log in"
        ));
    }
}

/// True if `auth_query` can be used for any user.
fn has_lookup(settings: &Settings) -> bool {
    let set = |user: &Option<String>| user.as_ref().is_some_and(|user| !user.is_empty());
    !settings.global.auth_user.is_empty() || settings.databases.values().any(|d| set(&d.auth_user))
}

fn check_lookup(raw: &mut Raw, settings: &Settings, file: &Origin) {
    let global = &settings.global;
    check_dbname(raw, settings, "", &global.auth_dbname, file);
    check_query(raw, "auth_query", &global.auth_query);
    for (name, entry) in &settings.databases {
        if let Some(dbname) = &entry.auth_dbname {
            check_dbname(raw, settings, name, dbname, file);
        }
        if let Some(query) = &entry.auth_query {
            check_query(raw, &format!("auth_query of database \"{name}\""), query);
        }
        note_forced_user(raw, settings, name, entry);
    }
    let given = raw.global.contains_key("auth_query");
    if given && !has_lookup(settings) {
        raw.note("auth_query is never run: auth_user is not set".into());
    }
}

fn check_dbname(raw: &mut Raw, settings: &Settings, database: &str, name: &str, file: &Origin) {
    let known = |name: &str| settings.databases.contains_key(name) && name != FALLBACK;
    if name == CONSOLE {
        let message = "auth_dbname cannot be \"pgbouncer\", the console".to_owned();
        conflict_in(raw, database, "auth_dbname", file, message);
    } else if !name.is_empty() && !known(name) && !settings.databases.contains_key(FALLBACK) {
        raw.note(format!(
            "auth_dbname \"{name}\" is not in [databases], so auth_query cannot run there"
        ));
    }
}

fn check_query(raw: &mut Raw, key: &str, query: &str) {
    if !query.is_empty() && !query.contains("$1") {
        raw.note(format!(
            "{key} has no $1 for the user's name, so every look-up will fail"
        ));
    }
}

/// Notes a forced user without a password. `auth_query` is used for clients, never for a forced user (PgBouncer's rule
/// too).
fn note_forced_user(raw: &mut Raw, settings: &Settings, name: &str, entry: &Database) {
    let Some(user) = entry.user.as_ref().filter(|_| entry.password.is_none()) else {
        return;
    };
    let lookup = if name == FALLBACK { "x" } else { name };
    if settings.global.auth_file.is_empty() && settings.auth_lookup(lookup).is_some() {
        raw.note(format!(
            "database \"{name}\": auth_query is not run for the forced user \"{user}\"; \
             set its password in the entry or in auth_file"
        ));
    }
}

fn note_weak(raw: &mut Raw, settings: &Settings) {
    let global = &settings.global;
    let auth = global.auth_type;
    let is_far = !global.listen_addr.iter().all(ListenAddr::is_loopback);
    match auth {
        AuthType::Any | AuthType::Trust if is_far => raw.note(format!(
            "auth_type {auth} lets every client that reaches listen_addr log in without a password"
        )),
        AuthType::Ldap | AuthType::Pam | AuthType::Plain
            if is_far && !global.client_tls_sslmode.is_required() =>
        {
            raw.note(format!(
                "auth_type {auth} takes passwords in clear text from clients without TLS; \
                 client_tls_sslmode require refuses those"
            ));
        }
        AuthType::Md5 => raw.note(
            "auth_type md5: an md5 secret is enough to log in, without the password; prefer scram-sha-256"
                .into(),
        ),
        _ => {}
    }
}

fn note_unused(raw: &mut Raw, settings: &Settings) {
    let global = &settings.global;
    if global.auth_type == AuthType::Hba {
        return;
    }
    for (key, value) in [
        ("auth_hba_file", &global.auth_hba_file),
        ("auth_ident_file", &global.auth_ident_file),
    ] {
        if !value.is_empty() {
            raw.note(format!("{key} is only used with auth_type hba"));
        }
    }
}
