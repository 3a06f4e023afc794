//! Target of a suite: PostgreSQL itself, PgBouncer, or Weir.

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::anyhow;
use anyhow::bail;

use crate::PoolOptions;
use crate::Postgres;
use crate::Raw;
use crate::TempDir;
use crate::child::Guarded;
use crate::child::Runner;
use crate::process;
use crate::tools;
use crate::wait_until;

/// Program between client and server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// None: the suite checks the oracle itself.
    Direct,
    /// Debian's PgBouncer.
    PgBouncer,
    /// The binary this repository builds.
    Weir,
}

impl Kind {
    /// Reads `CONFORMANCE_TARGET`: `weir` (default), `direct` or `pgbouncer`.
    ///
    /// # Errors
    /// When the variable holds another word.
    pub fn from_env() -> Result<Self> {
        match env::var("CONFORMANCE_TARGET").as_deref() {
            Err(_) | Ok("weir") => Ok(Self::Weir),
            Ok("direct") => Ok(Self::Direct),
            Ok("pgbouncer") => Ok(Self::PgBouncer),
            Ok(other) => bail!("CONFORMANCE_TARGET={other}: one of weir, direct, pgbouncer"),
        }
    }
}

/// A running target; dropping it stops the pooler.
#[derive(Debug)]
pub struct Target {
    // Dropped before the directory of its files.
    pooler: Option<Guarded>,
    _directory: TempDir,
    kind: Kind,
    port: u16,
}

impl Target {
    /// Starts the target that `CONFORMANCE_TARGET` names in front of `postgres`.
    ///
    /// # Errors
    /// When the pooler is not installed or built, or does not listen in time.
    pub fn start(postgres: &Postgres, options: &PoolOptions) -> Result<Self> {
        Self::start_kind(Kind::from_env()?, postgres.port(), options)
    }

    /// Starts the given kind in front of a server on a loopback port.
    ///
    /// # Errors
    /// As [`Target::start`].
    pub fn start_kind(kind: Kind, postgres_port: u16, options: &PoolOptions) -> Result<Self> {
        let port = tools::free_port()?;
        let directory = TempDir::new()?;
        let users = directory.write("users.txt", "\"postgres\" \"\"\n")?;
        let ini = options.ini(port, postgres_port, &users.to_string_lossy());
        let file = directory.write("pooler.ini", &ini)?;
        let file = file.to_string_lossy();
        match kind {
            Kind::Direct => Ok(Self {
                pooler: None,
                _directory: directory,
                kind,
                port: postgres_port,
            }),
            Kind::PgBouncer => {
                let program = tools::require("pgbouncer", "pgbouncer")?;
                let command = [&*program.to_string_lossy(), &file];
                Self::run(kind, Runner::Postgres, &command, options, port, directory)
            }
            Kind::Weir => {
                let program = weir_bin()?;
                let command = [&*program.to_string_lossy(), "run", &file];
                Self::run(kind, Runner::Ourselves, &command, options, port, directory)
            }
        }
    }

    /// Starts Weir from the text of a configuration file, in which `{port}` stands for the port to listen on.
    ///
    /// # Errors
    /// As [`Target::start`].
    pub fn start_weir(file_name: &str, config: &str) -> Result<Self> {
        let port = tools::free_port()?;
        let directory = TempDir::new()?;
        let file = directory.write(file_name, &config.replace("{port}", &port.to_string()))?;
        let program = weir_bin()?;
        let command = [&*program.to_string_lossy(), "run", &*file.to_string_lossy()];
        let options = PoolOptions::default();
        Self::run(
            Kind::Weir,
            Runner::Ourselves,
            &command,
            &options,
            port,
            directory,
        )
    }

    fn run(
        kind: Kind,
        runner: Runner,
        command: &[&str],
        options: &PoolOptions,
        port: u16,
        directory: TempDir,
    ) -> Result<Self> {
        let log = directory.path().join("pooler.log");
        let mut pooler = Guarded::start(runner, "QUIT", command, &options.env, &log)?;
        wait_until("the pooler's listening", Duration::from_secs(30), || {
            pooler.check_running()?;
            // The port opens before the start is complete; both poolers log this line when they are done.
            let is_up = pooler.log().contains("process up");
            Ok(is_up && Raw::tcp(port, Duration::from_secs(1)).is_ok())
        })
        .with_context(|| pooler.log())?;
        Ok(Self {
            pooler: Some(pooler),
            _directory: directory,
            kind,
            port,
        })
    }

    /// TCP port on 127.0.0.1 for clients.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kind of the target.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The pooler's process id.
    ///
    /// # Errors
    /// When the target is PostgreSQL itself.
    pub fn pid(&self) -> Result<u32> {
        Ok(self.pooler()?.pid())
    }

    /// Largest resident memory of the pooler so far, in bytes.
    ///
    /// # Errors
    /// When the pooler has ended or there is none.
    pub fn rss_peak(&self) -> Result<u64> {
        process::rss_peak(self.pid()?)
    }

    /// Processor time of the pooler so far, in nanoseconds.
    ///
    /// # Errors
    /// When the pooler has ended or there is none.
    pub fn cpu_ns(&self) -> Result<u64> {
        process::cpu_ns(self.pid()?)
    }

    /// The pooler's log so far; empty when there is none.
    #[must_use]
    pub fn log(&self) -> String {
        self.pooler.as_ref().map(Guarded::log).unwrap_or_default()
    }

    /// Fails with the log when the pooler has ended or has logged a panic.
    ///
    /// # Errors
    /// When the pooler has ended or has logged a panic.
    pub fn check_healthy(&mut self) -> Result<()> {
        let Some(pooler) = &mut self.pooler else {
            return Ok(());
        };
        pooler.check_running()?;
        let log = pooler.log();
        if log.contains("panicked at") {
            bail!("the pooler panicked:\n{}", tools::tail(&log, 60));
        }
        Ok(())
    }

    /// Sends a signal and waits for the pooler's end.
    ///
    /// # Errors
    /// When it does not end within the limit.
    pub fn stop(&mut self, signal: &str, limit: Duration) -> Result<()> {
        self.pooler
            .as_mut()
            .map_or(Ok(()), |pooler| pooler.stop(signal, limit))
    }

    fn pooler(&self) -> Result<&Guarded> {
        self.pooler
            .as_ref()
            .ok_or_else(|| anyhow!("a direct target has no pooler process"))
    }
}

/// Path of Weir's binary: `WEIR_BIN`, or `target/release/weir`.
///
/// # Errors
/// When the file does not exist.
pub fn weir_bin() -> Result<PathBuf> {
    let built = tools::workspace().join("target/release/weir");
    let path = env::var_os("WEIR_BIN").map_or(built, PathBuf::from);
    if !path.is_file() {
        bail!(
            "{} does not exist: run `cargo build --release` or set WEIR_BIN",
            path.display()
        );
    }
    Ok(path)
}
