//! Loads settings from files and environment. Everything is read and checked before any of it is used.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::{ConfigError, ErrorKind};
use crate::expand::{self, Variables};
use crate::files::{Files, native_files};
use crate::raw::{Origin, Raw};
use crate::settings::{FALLBACK, Format, Settings};
use crate::types::{AuthType, HostAddr};
use crate::value::{Dialect, Value};
use crate::{check, env, ini, native, rules_dir, statement_lists};

/// A configuration that passed every check.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The effective settings.
    pub settings: Settings,
    /// Warnings worth logging once.
    pub notes: Vec<String>,
    /// Origin of each value that was given: `pool_mode`, `databases.NAME.host`, `databases.NAME.hosts.ADDRESS.weight`,
    /// `pools.DATABASE.USER.pool_size`, `users.NAME.pool_size`, `peers.ID.port`.
    pub sources: BTreeMap<String, Origin>,
    /// Values as read from the files, for [`Loaded::set`].
    raw: Raw,
    format: Format,
}

impl Loaded {
    /// Returns the same configuration with another value of a global option, written as in an ini. All checks apply.
    ///
    /// # Errors
    /// There is no such option, it needs a restart, or the value is invalid.
    pub fn set(&self, key: &str, value: &str) -> Result<Self, Vec<ConfigError>> {
        self.set_all([(key, value)])
    }

    /// Changes several options at once, as [`Loaded::set`] changes one.
    ///
    /// # Errors
    /// As [`Loaded::set`].
    pub fn set_all<'a>(
        &self,
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, Vec<ConfigError>> {
        let at = Origin::Argument("SET");
        let mut raw = self.raw.clone();
        raw.notes.clear();
        let mut global = std::mem::take(&mut raw.global);
        for (key, value) in pairs {
            match raw.find(crate::Scope::Global, key, "in section [pgbouncer]", &at) {
                Some(opt) if [rules_dir::OPTION, statement_lists::OPTION].contains(&opt.name) => {
                    let message = format!(
                        "\"{}\" changes only by a reload, which reads its files",
                        opt.name
                    );
                    raw.fail_at(&at, ErrorKind::Conflict, message);
                }
                Some(opt) if !opt.reloadable => {
                    let message = format!("\"{}\" changes only by a restart", opt.name);
                    raw.fail_at(&at, ErrorKind::Conflict, message);
                }
                Some(opt) => raw.parse_into(&mut global, opt, value, Dialect::Ini, &at),
                None => {}
            }
        }
        raw.global = global;
        let conffile = &self.settings.global.conffile;
        finish(raw, self.format, conffile, |settings| {
            settings.trust_loopback = self.settings.trust_loopback;
            (settings.upstream_user).clone_from(&self.settings.upstream_user);
        })
    }
}

/// Loads a file: weir.toml by its extension `.toml`, anything else as PgBouncer's ini. `files` has the files that it names.
/// `env` has the environment's variables: those named `WEIR_…` win over the file, and weir.toml may name others.
///
/// # Errors
/// Returns every mistake found, in the order of the file. The configuration is then refused whole.
pub fn load(
    path: &Path,
    files: &mut dyn Files,
    env: impl Iterator<Item = (String, String)>,
) -> Result<Loaded, Vec<ConfigError>> {
    let (raw, format) = read_file(path, files, env);
    finish(raw, format, &path.to_string_lossy(), |_| {})
}

fn read_file(
    path: &Path,
    files: &mut dyn Files,
    env: impl Iterator<Item = (String, String)>,
) -> (Raw, Format) {
    let variables: Variables = env.collect();
    let mut raw = Raw::default();
    let format = if is_native(path) {
        Format::Native
    } else {
        Format::Ini
    };
    let mut read = |path: &Path| files.read(path);
    match format {
        Format::Native => native::read_file(&mut raw, path, &mut read, &variables),
        Format::Ini => ini::read_file(&mut raw, path, &mut read),
    }
    expand::read_passwords(&mut raw, &mut read);
    env::apply(&mut raw, &variables);
    rules_dir::read(&mut raw, files);
    statement_lists::read(&mut raw, files);
    (raw, format)
}

/// True if the name is that of a native file.
#[must_use]
pub fn is_native(path: &Path) -> bool {
    path.extension()
        .is_some_and(|ext| ext.eq_ignore_ascii_case("toml"))
}

/// Loads the files of a directory that are named `*.toml` as one, in the order of their names; hidden files are skipped. A
/// global option or an entry of a section that two of them set is a mistake. Otherwise as [`load`].
///
/// # Errors
/// Returns every mistake found. A directory without such files is one.
pub fn load_directory(
    directory: &Path,
    files: &mut dyn Files,
    env: impl Iterator<Item = (String, String)>,
) -> Result<Loaded, Vec<ConfigError>> {
    let raw = read_directory(directory, files, env);
    finish(raw, Format::Native, &directory.to_string_lossy(), |_| {})
}

fn read_directory(
    directory: &Path,
    files: &mut dyn Files,
    env: impl Iterator<Item = (String, String)>,
) -> Raw {
    let variables: Variables = env.collect();
    let name = directory.to_string_lossy();
    let mut raw = Raw {
        refuses_repeats: true,
        ..Raw::default()
    };
    let at = Origin::File((&*name).into(), 0);
    let found = native_files(files, directory).unwrap_or_else(|why| {
        let message = format!("cannot read the directory: {why}");
        raw.fail_at(&at, ErrorKind::Read, message);
        Vec::new()
    });
    if found.is_empty() && raw.errors.is_empty() {
        let message = "no file named *.toml is in this directory";
        raw.fail_at(&at, ErrorKind::Read, message);
    }
    let mut read = |path: &Path| files.read(path);
    for file in found {
        native::read_file(&mut raw, &file, &mut read, &variables);
    }
    expand::read_passwords(&mut raw, &mut read);
    env::apply(&mut raw, &variables);
    rules_dir::read(&mut raw, files);
    statement_lists::read(&mut raw, files);
    raw
}

/// Reads a file or a directory as [`load`] and [`load_directory`] do, and returns what is right in it. Serves to look for
/// further mistakes, in the files that it names.
#[must_use]
pub fn load_what_is_right(
    path: &Path,
    files: &mut dyn Files,
    env: impl Iterator<Item = (String, String)>,
) -> Loaded {
    let (raw, format) = match path.is_dir() {
        true => (read_directory(path, files, env), Format::Native),
        false => read_file(path, files, env),
    };
    let settings = Settings::build(&raw, format, &path.to_string_lossy());
    loaded(raw, format, settings)
}

/// Server of `weir run --upstream`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Upstream {
    /// HOST:PORT. The port may be left out (5432); IPv6 addresses need brackets.
    pub server: String,
    /// User whose password is known: clients log in with it by SCRAM, and this user is the console's administrator.
    pub user: Option<String>,
    /// `server_tls_sslmode`, if it is not the default.
    pub sslmode: Option<String>,
}

/// Makes the configuration of `weir run --upstream`: one `*` database on that host, transaction pooling, and
/// listeners on port 6432 of the loopback addresses only. Without a user clients need no password (see
/// `Settings::trust_loopback`). `files` and `env` are as in [`load`].
///
/// # Errors
/// Returns every mistake found. Listening beyond loopback is one, unless `WEIR_AUTH_TYPE` sets the login method.
pub fn upstream(
    upstream: &Upstream,
    files: &mut dyn Files,
    env: impl Iterator<Item = (String, String)>,
) -> Result<Loaded, Vec<ConfigError>> {
    let at = Origin::Argument("--upstream");
    let mut raw = Raw::default();
    let mut global = std::mem::take(&mut raw.global);
    let user = upstream.user.as_deref();
    let auth_type = if user.is_some() {
        "scram-sha-256"
    } else {
        "any"
    };
    let given = [
        ("admin_users", user),
        ("server_tls_sslmode", upstream.sslmode.as_deref()),
    ];
    let given = given
        .into_iter()
        .filter_map(|(key, text)| Some((key, text?)));
    let fixed = [
        ("listen_addr", "127.0.0.1, ::1"),
        ("unix_socket_dir", ""),
        ("pool_mode", "transaction"),
        ("auth_type", auth_type),
        // Who tries Weir out is told at once that nothing listens there.
        ("failover_hold", "0"),
    ];
    for (key, text) in fixed.into_iter().chain(given) {
        if let Some(opt) = crate::Scope::Global.find(key) {
            raw.parse_into(&mut global, opt, text, Dialect::Native, &at);
        }
    }
    raw.global = global;
    match split_host_port(&upstream.server) {
        Ok((host, port)) => {
            let mut values = BTreeMap::new();
            values.insert("host", (Value::List(vec![host.to_string()]), at.clone()));
            values.insert("port", (Value::Int(i64::from(port)), at.clone()));
            raw.databases
                .insert(FALLBACK.to_owned(), (values, at.clone()));
        }
        Err(message) => raw.fail_at(&at, ErrorKind::BadValue, message),
    }
    env::apply(&mut raw, &env.collect());
    rules_dir::read(&mut raw, files);
    statement_lists::read(&mut raw, files);
    if user.is_some() && raw.global.contains_key("auth_file") {
        let message =
            "auth_file and a user of --upstream exclude each other: leave out one of them";
        raw.fail_at(&at, ErrorKind::Conflict, message);
    }
    // Without a user or an explicit auth_type, clients are trusted, which is allowed on loopback only.
    let chosen =
        user.is_some() || !matches!(raw.global.get("auth_type"), Some((_, Origin::Argument(_))));
    if !chosen {
        check_loopback(&mut raw);
    }
    finish(raw, Format::Native, "--upstream", |settings| {
        settings.trust_loopback = !chosen && settings.global.auth_type == AuthType::Any;
        settings.upstream_user.clone_from(&upstream.user);
        settings.global.conffile.clear();
    })
}

fn check_loopback(raw: &mut Raw) {
    let Some((Value::List(addresses), at)) = raw.global.get("listen_addr").cloned() else {
        return;
    };
    let far = |text: &String| {
        crate::types::ListenAddr::parse(text).is_ok_and(|address| !address.is_loopback())
    };
    if addresses.iter().any(far) {
        let message = "listen_addr reaches beyond loopback, where clients need a password: \
                       set WEIR_AUTH_TYPE and WEIR_AUTH_FILE, or use a configuration file";
        raw.fail_at(&at, ErrorKind::Conflict, message);
    }
}

fn split_host_port(text: &str) -> Result<(HostAddr, u16), String> {
    let (host, port) = match text.rsplit_once(':') {
        // A text with several colons and no brackets can only be an IPv6 address.
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, port),
        _ => (text, "5432"),
    };
    let port = port.parse().ok().filter(|port| *port > 0);
    let port =
        port.ok_or_else(|| format!("{text:?} must be HOST:PORT with a port from 1 to 65535"))?;
    HostAddr::parse(host)
        .map(|host| (host, port))
        .map_err(|why| format!("{text:?}: {why}"))
}

fn finish(
    mut raw: Raw,
    format: Format,
    file: &str,
    adjust: impl FnOnce(&mut Settings),
) -> Result<Loaded, Vec<ConfigError>> {
    let mut settings = Settings::build(&raw, format, file);
    adjust(&mut settings);
    // After a mistake, further checks would only report its consequences.
    if raw.errors.is_empty() {
        check::check(&mut raw, &settings, &Origin::File(file.into(), 0));
    }
    if raw.errors.is_empty() {
        return Ok(loaded(raw, format, settings));
    }
    Err(raw.errors)
}

fn loaded(raw: Raw, format: Format, settings: Settings) -> Loaded {
    Loaded {
        settings,
        sources: sources(&raw),
        notes: raw.notes.clone(),
        raw,
        format,
    }
}

fn sources(raw: &Raw) -> BTreeMap<String, Origin> {
    let mut all = BTreeMap::new();
    let mut add = |prefix: String, values: &crate::raw::Values| {
        all.extend(
            values
                .iter()
                .map(|(key, (_, at))| (format!("{prefix}{key}"), at.clone())),
        );
    };
    add(String::new(), &raw.global);
    raw.databases
        .iter()
        .for_each(|(name, (values, _))| add(format!("databases.{name}."), values));
    for (name, tables) in &raw.hosts {
        for (point, (values, _)) in tables {
            add(format!("databases.{name}.hosts.{point}."), values);
        }
    }
    raw.listeners
        .iter()
        .for_each(|(name, (values, _))| add(format!("listeners.{name}."), values));
    for (name, entries) in &raw.pools {
        for (user, (values, _)) in entries {
            add(format!("pools.{name}.{user}."), values);
        }
    }
    raw.users
        .iter()
        .for_each(|(name, (values, _))| add(format!("users.{name}."), values));
    raw.peers
        .iter()
        .for_each(|(id, (values, _))| add(format!("peers.{id}."), values));
    all
}
