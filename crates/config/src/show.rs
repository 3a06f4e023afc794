//! The settings as text: rows for `SHOW CONFIG`, and weir.toml for `weir check`. Secrets appear as `***` only.

use crate::convert::{host_header, toml_key};
use crate::load::Loaded;
use crate::options::Opt;
use crate::rules_dir;
use crate::settings::Settings;
use crate::value::Value;

/// A row of `SHOW CONFIG`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigRow {
    /// The option.
    pub key: &'static str,
    /// The value, as PgBouncer's ini spells it; `None` where PgBouncer shows NULL.
    pub value: Option<String>,
    /// PgBouncer's default, likewise.
    pub default: Option<String>,
    /// True if a reload or SET changes it.
    pub changeable: bool,
}

/// Returns the rows of `SHOW CONFIG`: all global options in PgBouncer's order, which is alphabetical except that
/// `pool_mode` precedes `pool_idle_timeout`.
#[must_use]
pub fn show_config(settings: &Settings) -> Vec<ConfigRow> {
    let mut rows: Vec<_> = settings
        .global
        .values()
        .into_iter()
        .map(|(opt, v)| row(opt, &v))
        .collect();
    // "pool_h" sorts directly before "pool_idle_timeout".
    rows.sort_by_key(|row| {
        if row.key == "pool_mode" {
            "pool_h"
        } else {
            row.key
        }
    });
    rows
}

/// Options that PgBouncer shows as NULL while they are not set, and not as empty.
const NULL_IF_UNSET: [&str; 9] = [
    "auth_dbname",
    "auth_file",
    "auth_ident_file",
    "auth_ldap_options",
    "auth_user",
    "client_tls13_ciphers",
    "conffile",
    "server_tls13_ciphers",
    "user",
];

fn row(opt: &'static Opt, value: &Value) -> ConfigRow {
    let value = match value {
        // PgBouncer shows permissions in decimal, and their default as it was written.
        Value::Int(number) => number.to_string(),
        value => value.to_ini(opt.kind),
    };
    let default = opt.default.unwrap_or_default().to_owned();
    let may_be_null = NULL_IF_UNSET.contains(&opt.name);
    let told = |text: String| Some(text).filter(|text| !may_be_null || !text.is_empty());
    ConfigRow {
        key: opt.name,
        value: told(value),
        // The command line sets it in PgBouncer, where it has no default.
        default: told(default).filter(|_| opt.name != "verbose"),
        changeable: opt.reloadable,
    }
}

/// Returns the effective configuration as a valid weir.toml. Every value has a comment with its origin, or `default`.
/// Options that hold a secret are commented out, so that the text can be used without sending `***` as a password; so is
/// `rules_dir`, whose rules are part of the text.
#[must_use]
pub fn effective_text(loaded: &Loaded) -> String {
    let settings = &loaded.settings;
    let mut out =
        String::from("# The effective configuration; comments tell where a value comes from.\n\n");
    if settings.trust_loopback {
        out.push_str("# clients from loopback are let in without a password (--upstream)\n");
    }
    for (opt, value) in settings.global.values() {
        // The file's own path is not printed unless the file sets it: otherwise a reload of the printed text would read
        // the old file.
        if opt.name == "conffile" && !loaded.sources.contains_key("conffile") {
            continue;
        }
        push(&mut out, loaded, "", opt, &value);
    }
    for (name, entry) in &settings.databases {
        let key = toml_key(name);
        let prefix = format!("databases.{name}.");
        let header = format!("[databases.{key}]");
        table(&mut out, loaded, &header, &prefix, entry.values());
        for (point, host) in settings.hosts.get(name).into_iter().flatten() {
            let header = host_header(name, point);
            let prefix = format!("databases.{name}.hosts.{point}.");
            table(&mut out, loaded, &header, &prefix, host.values());
        }
    }
    for (name, entry) in &settings.listeners {
        let header = format!("[listeners.{}]", toml_key(name));
        let prefix = format!("listeners.{name}.");
        table(&mut out, loaded, &header, &prefix, entry.values());
    }
    for (name, entries) in &settings.pools {
        for (user, entry) in entries {
            let header = format!("[pools.{}.{}]", toml_key(name), toml_key(user));
            let prefix = format!("pools.{name}.{user}.");
            table(&mut out, loaded, &header, &prefix, entry.values());
        }
    }
    for (name, entry) in &settings.users {
        let header = format!("[users.{}]", toml_key(name));
        let prefix = format!("users.{name}.");
        table(&mut out, loaded, &header, &prefix, entry.values());
    }
    for (id, entry) in &settings.peers {
        let header = format!("[peers.{id}]");
        let prefix = format!("peers.{id}.");
        table(&mut out, loaded, &header, &prefix, entry.values());
    }
    for rule in &settings.rules {
        out.push_str(&format!("\n{}", rule.to_toml()));
    }
    out
}

/// Writes one table, with given values only; the rest is inherited.
fn table(
    out: &mut String,
    loaded: &Loaded,
    header: &str,
    prefix: &str,
    values: Vec<(&'static Opt, Value)>,
) {
    out.push_str(&format!("\n{header}\n"));
    for (opt, value) in values {
        if loaded
            .sources
            .contains_key(&format!("{prefix}{}", opt.name))
        {
            push(out, loaded, prefix, opt, &value);
        }
    }
}

fn push(out: &mut String, loaded: &Loaded, prefix: &str, opt: &Opt, value: &Value) {
    let hash = match value {
        Value::Secret(secret) if !secret.is_empty() => "# ",
        Value::Text(text) if opt.name == rules_dir::OPTION && !text.is_empty() => "# ",
        _ => "",
    };
    out.push_str(&format!("{hash}{} = {}", opt.name, value.to_toml(opt.kind)));
    let origin = loaded.sources.get(&format!("{prefix}{}", opt.name));
    let place = origin.map_or_else(|| "default".to_owned(), ToString::to_string);
    // A path may hold any character, even a line end.
    let place = place.chars().filter(|c| !c.is_control());
    out.push_str("  # ");
    out.extend(place);
    out.push('\n');
}
