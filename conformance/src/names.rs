//! Host names whose addresses a test can change, for programs that ask the system's resolver.
//!
//! Debian's `libnss-wrapper` answers for these names in processes that are started with [`Names::env`]. It reads its file
//! again when the file has changed.

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use anyhow::Context;
use anyhow::Result;

use crate::TempDir;

/// Library that takes the place of the system's resolver.
const WRAPPER: &str = "libnss_wrapper.so";

/// Names with an address each; dropping it removes the file.
#[derive(Debug)]
pub struct Names {
    directory: TempDir,
}

impl Names {
    /// Creates these names.
    ///
    /// # Errors
    /// When the wrapper is not installed, or the file cannot be written.
    pub fn new(names: &[(&str, Ipv4Addr)]) -> Result<Self> {
        let libraries = fs::read_dir("/usr/lib")?.flatten();
        let mut places = libraries.map(|library| library.path().join(WRAPPER));
        let found = places.any(|place| place.is_file());
        anyhow::ensure!(found, "no {WRAPPER}: apt-get install libnss-wrapper");
        let names_file = Self {
            directory: TempDir::new()?,
        };
        names_file.set(names)?;
        Ok(names_file)
    }

    /// Replaces all names at once.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn set(&self, names: &[(&str, Ipv4Addr)]) -> Result<()> {
        let lines = names
            .iter()
            .map(|(name, address)| format!("{address} {name}\n"));
        let new = self
            .directory
            .write("hosts.new", &lines.collect::<String>())?;
        fs::rename(new, self.file()).context("replace the names")
    }

    /// Environment of a process that looks names up here.
    #[must_use]
    pub fn env(&self) -> [(&'static str, String); 2] {
        [
            ("LD_PRELOAD", WRAPPER.to_owned()),
            ("NSS_WRAPPER_HOSTS", self.file().display().to_string()),
        ]
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("hosts")
    }
}
