//! Loads files and environment into a configuration that can run: the settings, the users of
//! `auth_file`, the rules of `auth_hba_file`, keys and certificates.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_config::{ConfigError, ErrorKind, Files, Loaded, Origin, QueryRule, Settings};
use weir_proxy::{Access, Setup, Transport, TransportError, UserList, UserListError};

use crate::access::{self, AccessError};
use crate::secrets;
use crate::upstream::{self, Login, UpstreamError};

/// Origin of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// A file, or a directory of native files.
    File(PathBuf),
    /// `--upstream HOST:PORT|URL`.
    Upstream(String),
}

/// A configuration that passed every check.
pub(crate) struct Prepared {
    pub(crate) loaded: Loaded,
    /// User of `--upstream` with a password.
    login: Option<Login>,
    pub(crate) users: Arc<UserList>,
    /// Rules that decide who may log in, and by which method.
    pub(crate) access: Access,
    /// Keys and certificates.
    pub(crate) transport: Arc<Transport>,
    /// Warnings about the files that the settings name.
    pub(crate) warnings: Vec<String>,
    /// True unless `auth_file` could not be read.
    pub(crate) has_users: bool,
    /// Error of reading `auth_file`, if that is no mistake because `strict_files` is off.
    pub(crate) missing_users: Option<LoadError>,
}

/// Reason why a configuration cannot be run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("{at}: cannot read auth_file \"{file}\": {error}")]
    Unreadable {
        at: Origin,
        file: String,
        error: io::Error,
    },
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error("{}{error}", Place(.at.as_ref()))]
    Transport {
        at: Option<Origin>,
        error: Box<TransportError>,
    },
    #[error("{file}:{}: {}", error.line, error.fault)]
    UserList { file: String, error: UserListError },
    #[error(transparent)]
    Ended(#[from] EndedRule),
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
}

impl LoadError {
    /// True if a private key and its certificate do not belong together, or one of the two is missing.
    pub(crate) fn is_half_of_a_pair(&self) -> bool {
        match self {
            Self::Config(error) => {
                error.kind == ErrorKind::Conflict
                    && error.key.as_deref() == Some("server_tls_key_file")
            }
            Self::Transport { error, .. } => error.is_key_mismatch(),
            _ => false,
        }
    }
}

/// Place of an option, as a prefix of a line.
struct Place<'a>(Option<&'a Origin>);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |at| write!(f, "{at}: "))
    }
}

/// A query rule that ended before it was read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: rule \"{name}\" ended at {time}; remove it, or give `expires` a time to come")]
pub(crate) struct EndedRule {
    at: String,
    pub(crate) name: Arc<str>,
    time: String,
}

/// Returns the query rules that have ended by this Unix time in seconds, and that do not stand in `before`. A rule that ends
/// while it is in force stays in its file, and is no mistake of the next reload.
pub(crate) fn ended_rules(settings: &Settings, before: &[QueryRule], unix: i64) -> Vec<EndedRule> {
    let ended = |rule: &&QueryRule| {
        let has_ended = rule.rule.expires.is_some_and(|end| end <= unix);
        has_ended && !before.iter().any(|other| other.is_like(rule))
    };
    let rules = settings.rules.iter().filter(ended).map(|found| {
        let time = found
            .rule
            .expires
            .and_then(|end| jiff::Timestamp::from_second(end).ok());
        EndedRule {
            at: found.at.to_string(),
            name: Arc::clone(&found.rule.name),
            time: time.map(|time| time.to_string()).unwrap_or_default(),
        }
    });
    rules.collect()
}

impl Source {
    /// Returns the source that the command line names, else the one from the environment.
    pub(crate) fn choose(file: Option<&Path>, upstream: Option<&str>) -> Option<Self> {
        let given = file.map(|file| Self::File(file.to_owned()));
        let given = given.or_else(|| upstream.map(|server| Self::Upstream(server.to_owned())));
        let config = || std::env::var_os("WEIR_CONFIG").filter(|path| !path.is_empty());
        let server = || std::env::var_os("WEIR_UPSTREAM").filter(|server| !server.is_empty());
        given
            .or_else(|| config().map(|path| Self::File(path.into())))
            .or_else(|| server().map(|server| Self::Upstream(lossy(server))))
    }

    /// Reads only the configuration, without the files that it names.
    ///
    /// # Errors
    /// Every mistake found.
    pub(crate) fn config(&self) -> Result<Loaded, Vec<LoadError>> {
        Ok(self.config_and_login()?.0)
    }

    fn config_and_login(&self) -> Result<(Loaded, Option<Login>), Vec<LoadError>> {
        let env = environment();
        let mut login = None;
        let loaded = match self {
            // Listed at each load: a reload sees files that were added or removed.
            Self::File(path) if path.is_dir() => weir_config::load_directory(path, &mut Disk, env),
            Self::File(path) => weir_config::load(path, &mut Disk, env),
            Self::Upstream(argument) => {
                let read = upstream::read(argument).map_err(|error| vec![error.into()])?;
                login = read.1;
                weir_config::upstream(&read.0, &mut Disk, env)
            }
        };
        match loaded {
            Ok(loaded) => Ok((loaded, login)),
            Err(errors) => Err(errors.into_iter().map(LoadError::from).collect()),
        }
    }

    /// Reads everything; changes nothing.
    ///
    /// # Errors
    /// Every mistake found, in the configuration and in the files that it names.
    pub(crate) fn load(&self) -> Result<Prepared, Vec<LoadError>> {
        match self.config_and_login() {
            Ok((loaded, login)) => Prepared::read(loaded, login, None),
            Err(mut errors) => {
                errors.extend(self.mistakes_in_files());
                Err(errors)
            }
        }
    }

    /// Returns mistakes in the files that a configuration with mistakes names. Those of several options together may come from
    /// the others, and are left out.
    fn mistakes_in_files(&self) -> Vec<LoadError> {
        let Self::File(path) = self else {
            return Vec::new();
        };
        let loaded = weir_config::load_what_is_right(path, &mut Disk, environment());
        let mut errors = Prepared::read(loaded, None, None).err().unwrap_or_default();
        errors.retain(|error| match error {
            LoadError::Unreadable { .. } | LoadError::UserList { .. } => true,
            LoadError::Access(error) => {
                matches!(error, AccessError::File(_) | AccessError::Missing { .. })
            }
            LoadError::Transport { error, .. } => error.is_of_a_file(),
            _ => false,
        });
        errors
    }
}

/// Files that some options name, which are read together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// Rules that decide who may log in.
    Access,
    /// Keys and certificates.
    Transport,
    /// `auth_file`.
    Users,
}

impl Part {
    /// Returns the part to read again after a change of this option, if there is one.
    fn of(key: &str) -> Option<Self> {
        match key {
            "auth_file" => Some(Self::Users),
            "auth_type" | "auth_hba_file" | "auth_ident_file" | "auth_ldap_options" => {
                Some(Self::Access)
            }
            _ if key.contains("_tls_") => Some(Self::Transport),
            _ => None,
        }
    }
}

impl Prepared {
    /// Changes these options. Only files that the changed options name are read.
    ///
    /// # Errors
    /// Every mistake found.
    pub(crate) fn changed(&self, pairs: &[(&str, &str)]) -> Result<Self, Vec<LoadError>> {
        let loaded = self.loaded.set_all(pairs.iter().copied());
        let loaded = loaded
            .map_err(|errors| -> Vec<_> { errors.into_iter().map(LoadError::from).collect() })?;
        let read = pairs.iter().filter_map(|(key, _)| Part::of(key)).collect();
        Self::read(loaded, self.login.clone(), Some((self, read)))
    }

    /// Reads the files that a configuration names, or only these parts of them if it replaces another.
    fn read(
        loaded: Loaded,
        login: Option<Login>,
        replaced: Option<(&Self, BTreeSet<Part>)>,
    ) -> Result<Self, Vec<LoadError>> {
        let settings = &loaded.settings;
        let mut warnings = Vec::new();
        let mut errors = Vec::new();
        let mut is_users_missing = None;
        let kept = |part| {
            let replaced = replaced.as_ref();
            replaced.and_then(|(before, read)| (!read.contains(&part)).then_some(*before))
        };
        let users = match (kept(Part::Users), &login) {
            (Some(before), _) => Ok(Arc::clone(&before.users)),
            (None, Some(login)) => parse_users("--upstream", &login.user_list(), &mut warnings),
            (None, None) => read_users(&loaded, (&mut warnings, &mut is_users_missing)),
        };
        let users = users.map_err(|error| errors.push(error));
        let access = match kept(Part::Access) {
            Some(before) => Ok(before.access.clone()),
            None => access::load(&loaded)
                .map_err(|mistakes| errors.extend(mistakes.into_iter().map(LoadError::from))),
        };
        let transport = match kept(Part::Transport) {
            Some(before) => Ok(Arc::clone(&before.transport)),
            None => Transport::load(settings).map(Arc::new).map_err(|mistakes| {
                errors.extend(mistakes.into_iter().map(|error| {
                    let at = error
                        .source()
                        .and_then(|key| loaded.sources.get(&key).cloned());
                    LoadError::Transport {
                        at,
                        error: Box::new(error),
                    }
                }));
            }),
        };
        let has_users = match kept(Part::Users) {
            Some(before) => before.has_users,
            None => is_users_missing.is_none(),
        };
        let (Ok(users), Ok(access), Ok(transport)) = (users, access, transport) else {
            return Err(errors);
        };
        warnings.extend(access::warnings(&access, settings));
        warnings.extend_from_slice(transport.warnings());
        warnings.extend(secrets::exposed_files(&loaded));
        warnings.extend(secrets::missing_from_auth_file(settings, &users));
        let now = jiff::Timestamp::now().as_second();
        let ended = ended_rules(settings, &[], now);
        warnings.extend(ended.iter().map(ToString::to_string));
        Ok(Self {
            loaded,
            login,
            users,
            access,
            transport,
            warnings,
            has_users,
            missing_users: is_users_missing,
        })
    }

    /// Settings with the values that only this machine determines: `workers` becomes a number.
    pub(crate) fn settings(&self) -> Arc<Settings> {
        let mut settings = self.loaded.settings.clone();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let workers = settings.global.worker_count(cores);
        settings.global.workers = u32::try_from(workers).unwrap_or(u32::MAX);
        Arc::new(settings)
    }

    /// Configuration for the engine, with these settings in force.
    pub(crate) fn setup(&self, settings: Arc<Settings>) -> Setup {
        Setup {
            settings,
            users: Arc::clone(&self.users),
            access: self.access.clone(),
            transport: Arc::clone(&self.transport),
        }
    }

    /// User names for the console; bytes that are not UTF-8 are replaced.
    pub(crate) fn user_names(&self) -> Vec<String> {
        let names = self.users.iter();
        names
            .map(|(name, _)| String::from_utf8_lossy(name).into_owned())
            .collect()
    }
}

/// Reads the query rules of a file, and of the `rules_dir` that it names.
///
/// # Errors
/// Every mistake found.
pub(crate) fn rules_of(file: &str, text: &str) -> Result<Vec<QueryRule>, Vec<ConfigError>> {
    weir_config::rules_of(file, text, &mut Disk, environment())
}

fn environment() -> impl Iterator<Item = (String, String)> {
    // `vars` would panic at any variable that is not UTF-8.
    std::env::vars_os().map(|(name, value)| (lossy(name), lossy(value)))
}

/// Files of this machine.
struct Disk;

impl Files for Disk {
    fn read(&mut self, path: &Path) -> io::Result<String> {
        fs::read_to_string(path)
    }

    fn list(&mut self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            // A link that leads nowhere counts: reading it fails, and a file that is missing is not passed over.
            if !path.is_dir() {
                files.push(path);
            }
        }
        Ok(files)
    }
}

fn lossy(text: OsString) -> String {
    text.to_string_lossy().into_owned()
}

fn read_users(
    loaded: &Loaded,
    (warnings, missing): (&mut Vec<String>, &mut Option<LoadError>),
) -> Result<Arc<UserList>, LoadError> {
    let settings = &loaded.settings;
    let file = settings.global.auth_file.clone();
    let text = match file.is_empty() || settings.trust_loopback {
        true => Vec::new(),
        false => match fs::read(&file) {
            Ok(text) => text,
            Err(error) => {
                let unreadable = LoadError::Unreadable {
                    at: access::origin_of(loaded, "auth_file"),
                    file: file.clone(),
                    error,
                };
                if settings.global.strict_files {
                    return Err(unreadable);
                }
                warnings.push(format!(
                    "{unreadable}; it names no users, and only auth_query does"
                ));
                *missing = Some(unreadable);
                Vec::new()
            }
        },
    };
    parse_users(&file, &text, warnings)
}

fn parse_users(
    file: &str,
    text: &[u8],
    warnings: &mut Vec<String>,
) -> Result<Arc<UserList>, LoadError> {
    let users = UserList::parse(text).map_err(|error| LoadError::UserList {
        file: file.to_owned(),
        error,
    })?;
    for line in users.repeated_lines() {
        warnings.push(format!(
            "{file}:{line}: replaces an earlier line for the same user"
        ));
    }
    Ok(Arc::new(users))
}

#[cfg(test)]
mod tests {
    use weir_config::Scope;

    use super::*;

    #[test]
    fn a_change_of_an_option_that_names_a_file_reads_the_file() {
        // Their files are read elsewhere, or written.
        let others = ["conffile", "logfile", "pidfile"];
        let names_file = |name: &str| name.ends_with("file") && !others.contains(&name);
        let options = Scope::Global.options();
        let files = options
            .iter()
            .filter(|opt| names_file(opt.name) && opt.reloadable);
        let names: Vec<_> = files.map(|opt| opt.name).collect();
        assert!(names.len() > 8, "{names:?}");
        for name in names {
            assert!(Part::of(name).is_some(), "{name}");
        }
        assert_eq!(Part::of("pool_mode"), None);
    }
}
