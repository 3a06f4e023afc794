//! Locates PostgreSQL's programs.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::process::find_program;

/// Directory of PostgreSQL on Debian, one subdirectory per major version, not in `PATH`.
const DEBIAN: &str = "/usr/lib/postgresql";
const PACKAGE: &str = "the PostgreSQL server; Debian: postgresql-15";

/// PostgreSQL's programs of one version.
#[derive(Clone, Debug)]
pub struct Programs {
    /// Directories to search; the first that has a program wins.
    directories: Vec<PathBuf>,
}

impl Programs {
    /// Returns the programs in `PGBIN` if it is set, else the newest installed version.
    ///
    /// # Errors
    /// There is no server.
    pub fn find() -> Result<Self> {
        let mut directories = versions(Path::new(DEBIAN));
        directories.extend(std::env::var_os("PGBIN").map(PathBuf::from));
        // The environment has precedence, then the newest version.
        directories.reverse();
        Self { directories }.checked()
    }

    /// Returns the programs in this directory, such as `/usr/lib/postgresql/15/bin`.
    ///
    /// # Errors
    /// There is no server in it.
    pub fn of(directory: &Path) -> Result<Self> {
        let directories = vec![directory.to_owned()];
        Self { directories }.checked()
    }

    fn checked(self) -> Result<Self> {
        match self.path("initdb") {
            Ok(_) => Ok(self),
            Err(_) => Err(Error::Missing {
                name: "initdb".to_owned(),
                hint: Some(PACKAGE),
            }),
        }
    }

    /// Returns the path of a program such as `psql`.
    ///
    /// # Errors
    /// The program is missing.
    pub fn path(&self, name: &str) -> Result<PathBuf> {
        find_program(name, &self.directories)
    }
}

/// Returns `ROOT/N/bin` of every major version, oldest first.
fn versions(root: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(root) else {
        return Vec::new();
    };
    let mut numbers: Vec<u32> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    numbers.sort_unstable();
    numbers
        .into_iter()
        .map(|number| root.join(number.to_string()).join("bin"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_numbers() {
        let root = tempfile::tempdir().unwrap();
        for name in ["9", "15", "notes", "10"] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        let found = versions(root.path());
        let expected = ["9", "10", "15"].map(|name| root.path().join(name).join("bin"));
        assert_eq!(found, expected);
    }

    #[test]
    fn a_directory_without_a_server_is_refused_with_what_to_install() {
        let empty = tempfile::tempdir().unwrap();
        // Programs in `PATH` count too, so this shows only where PostgreSQL's server is not in it.
        let Err(error) = Programs::of(empty.path()) else {
            return;
        };
        assert!(error.to_string().contains("postgresql-15"), "{error}");
    }
}
