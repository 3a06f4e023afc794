//! PostgreSQL 18 from Maven's central repository, for features that Debian 12's PostgreSQL 15 lacks (protocol
//! 3.2).
//!
//! The artefact contains only `initdb`, `pg_ctl` and `postgres`; clients come from Debian.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::PoisonError;

use anyhow::Context;
use anyhow::Result;

use crate::Postgres;
use crate::TempDir;
use crate::postgres::Options;
use crate::tools;

/// A cluster of PostgreSQL 18.
#[derive(Debug)]
pub struct Postgres18 {
    // Dropped before its programs.
    cluster: Postgres,
    _programs: TempDir,
}

impl Postgres18 {
    /// Downloads the programs at first use, then starts a cluster.
    ///
    /// # Errors
    /// When Maven or `xz` is missing, the download fails or the server does not start.
    pub fn start(options: &Options) -> Result<Self> {
        // The cache may be below a home directory that user postgres cannot enter.
        let programs = TempDir::new()?;
        let copy = programs.path().join("pg18");
        tools::copy_dir(&fetch()?, &copy)?;
        let cluster = Postgres::start_from(&copy.join("bin"), options)?;
        Ok(Self {
            cluster,
            _programs: programs,
        })
    }

    /// The running cluster.
    #[must_use]
    pub fn cluster(&self) -> &Postgres {
        &self.cluster
    }
}

/// Directory with `bin`, `lib` and `share`.
fn fetch() -> Result<PathBuf> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let cache = tools::cache_dir("postgres18")?;
    let unpacked = cache.join("unpacked");
    if unpacked.join("bin/postgres").is_file() {
        return Ok(unpacked);
    }
    tools::require("xz", "xz-utils")?;
    tools::require("unzip", "unzip")?;
    let jars = crate::drivers::maven_jars("postgres18")?;
    let jar = fs::read_dir(&jars)?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| {
            path.to_string_lossy()
                .contains("embedded-postgres-binaries")
        })
        .context("Maven gave no PostgreSQL 18")?;
    // Unpacked elsewhere and then renamed, so that an interrupted run leaves no partial directory.
    let half = TempDir::new()?;
    tools::run(
        Command::new("unzip")
            .arg("-q")
            .arg(jar)
            .arg("*.txz")
            .arg("-d")
            .arg(half.path()),
    )?;
    let archive = fs::read_dir(half.path())?
        .flatten()
        .next()
        .context("no .txz inside")?
        .path();
    let fresh = cache.join(format!("unpacked-{}", std::process::id()));
    fs::create_dir_all(&fresh)?;
    tools::run(
        Command::new("tar")
            .arg("-xJf")
            .arg(archive)
            .arg("-C")
            .arg(&fresh),
    )?;
    if fs::rename(&fresh, &unpacked).is_err() {
        fs::remove_dir_all(&fresh)?;
    }
    Ok(unpacked)
}
