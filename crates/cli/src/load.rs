//! Files and environment to a configuration that can be run: the settings and the users of `auth_file`.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_config::{ConfigError, Loaded, Settings};
use weir_proxy::{UserList, UserListError};

/// Where the configuration comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// A file.
    File(PathBuf),
    /// `--upstream HOST:PORT`.
    Upstream(String),
}

/// A configuration that passed every check.
pub(crate) struct Prepared {
    pub(crate) loaded: Loaded,
    pub(crate) users: Arc<UserList>,
    /// Things worth a warning about `auth_file`.
    pub(crate) warnings: Vec<String>,
}

/// One reason why a configuration cannot be run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("{file}: cannot read auth_file: {error}")]
    Unreadable { file: String, error: io::Error },
    #[error("{file}:{}: {}", error.line, error.fault)]
    UserList { file: String, error: UserListError },
}

impl Source {
    /// What the command line says, else what the environment says.
    pub(crate) fn choose(file: Option<&Path>, upstream: Option<&str>) -> Option<Self> {
        let given = file.map(|file| Self::File(file.to_owned()));
        let given = given.or_else(|| upstream.map(|server| Self::Upstream(server.to_owned())));
        let config = || std::env::var_os("WEIR_CONFIG").filter(|path| !path.is_empty());
        let server = || std::env::var_os("WEIR_UPSTREAM").filter(|server| !server.is_empty());
        given
            .or_else(|| config().map(|path| Self::File(path.into())))
            .or_else(|| server().map(|server| Self::Upstream(lossy(server))))
    }

    /// Reads everything. Nothing is changed.
    ///
    /// # Errors
    /// Every mistake found.
    pub(crate) fn load(&self) -> Result<Prepared, Vec<LoadError>> {
        // `vars` would panic on a variable that is not UTF-8, ours or not.
        let env = std::env::vars_os().map(|(name, value)| (lossy(name), lossy(value)));
        let loaded = match self {
            Self::File(path) => weir_config::load(path, &mut |path| fs::read_to_string(path), env),
            Self::Upstream(server) => weir_config::upstream(server, env),
        };
        let loaded =
            loaded.map_err(|errors| errors.into_iter().map(LoadError::from).collect::<Vec<_>>())?;
        let mut warnings = Vec::new();
        let users = users(&loaded.settings, &mut warnings).map_err(|error| vec![error])?;
        Ok(Prepared {
            loaded,
            users: Arc::new(users),
            warnings,
        })
    }
}

impl Prepared {
    /// The settings with what only this machine knows: `workers` is a number.
    pub(crate) fn settings(&self) -> Arc<Settings> {
        let mut settings = self.loaded.settings.clone();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let workers = settings.global.worker_count(cores);
        settings.global.workers = u32::try_from(workers).unwrap_or(u32::MAX);
        Arc::new(settings)
    }

    /// Names for the console; a name that is not UTF-8 is shown with marks.
    pub(crate) fn user_names(&self) -> Vec<String> {
        let names = self.users.iter();
        names
            .map(|(name, _)| String::from_utf8_lossy(name).into_owned())
            .collect()
    }
}

fn lossy(text: OsString) -> String {
    text.to_string_lossy().into_owned()
}

fn users(settings: &Settings, warnings: &mut Vec<String>) -> Result<UserList, LoadError> {
    let file = settings.global.auth_file.clone();
    let text = match file.is_empty() || settings.trust_loopback {
        true => Vec::new(),
        false => match fs::read(&file) {
            Ok(text) => text,
            Err(error) => return Err(LoadError::Unreadable { file, error }),
        },
    };
    let users = match UserList::parse(&text) {
        Ok(users) => users,
        Err(error) => return Err(LoadError::UserList { file, error }),
    };
    for line in users.repeated_lines() {
        warnings.push(format!(
            "{file}:{line}: replaces an earlier line for the same user"
        ));
    }
    let mode = fs::metadata(&file).map_or(0, |data| data.permissions().mode());
    if !text.is_empty() && mode & 0o007 != 0 {
        warnings.push(format!(
            "{file}: readable by everybody on this machine; chmod o= would do"
        ));
    }
    Ok(users)
}
