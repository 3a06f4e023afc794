//! Temporary PostgreSQL clusters.

use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::Weak;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;

use crate::Raw;
use crate::TempDir;
use crate::child;
use crate::child::Guarded;
use crate::child::Runner;
use crate::tools;
use crate::wait_until;

/// Authentication method of the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Login {
    /// Trusts every client on loopback.
    #[default]
    Trust,
    /// Clear text password.
    Password,
    /// MD5 of a stored MD5 password.
    Md5,
    /// SCRAM-SHA-256.
    ScramSha256,
}

/// Options of a cluster.
#[derive(Clone, Debug)]
pub struct Options {
    /// `max_connections`.
    pub max_connections: u32,
    /// Method for TCP clients; the unix socket always uses trust.
    pub login: Login,
    /// More lines for `postgresql.conf`.
    pub settings: Vec<String>,
    /// Lines for the head of `pg_hba.conf`, before the line for `login`.
    pub hba: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_connections: 120,
            login: Login::Trust,
            settings: Vec::new(),
            hba: Vec::new(),
        }
    }
}

/// A running cluster; dropping it stops it (immediate shutdown) and removes its files.
#[derive(Debug)]
pub struct Postgres {
    // Dropped before the directory of its files.
    server: Guarded,
    directory: TempDir,
    program: PathBuf,
    port: u16,
}

impl Postgres {
    /// Password of user `postgres`, if the method needs one.
    pub const PASSWORD: &'static str = "correct horse";

    /// Starts a cluster of the installed PostgreSQL.
    ///
    /// # Errors
    /// When PostgreSQL is not installed or does not start.
    pub fn start(options: &Options) -> Result<Self> {
        Self::start_from(&tools::postgres_bin_dir()?, options)
    }

    /// Cluster with default options, which the tests of one binary share while any of them runs.
    ///
    /// # Errors
    /// As [`Postgres::start`].
    pub fn shared() -> Result<Arc<Self>> {
        static SHARED: Mutex<Weak<Postgres>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = shared.upgrade() {
            return Ok(running);
        }
        let started = Arc::new(Self::start(&Options::default())?);
        *shared = Arc::downgrade(&started);
        Ok(started)
    }

    /// Starts a cluster from the programs in `bin`.
    ///
    /// # Errors
    /// When `initdb` fails or the server does not answer in time.
    pub fn start_from(bin: &Path, options: &Options) -> Result<Self> {
        let directory = TempDir::new()?;
        let data = directory.path().join("data");
        let port = tools::free_port()?;
        initialise(bin, &directory, &data)?;
        configure(&data, directory.path(), port, options)?;
        let program = bin.join("postgres");
        let server = run(&program, directory.path())?;
        let mut postgres = Self {
            server,
            directory,
            program,
            port,
        };
        postgres.wait_ready(options)?;
        Ok(postgres)
    }

    /// TCP port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Directory of the unix socket.
    #[must_use]
    pub fn socket_dir(&self) -> &Path {
        self.directory.path()
    }

    /// Log of the server so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.server.log()
    }

    /// Restarts the cluster as `pg_ctl restart -m immediate` does: sessions end abruptly, and PostgreSQL recovers as
    /// after a crash. Returns when the new process runs, possibly before it accepts connections.
    ///
    /// # Errors
    /// When the old process does not end or the new one does not start.
    pub fn restart_immediately(&mut self) -> Result<()> {
        self.restart_after("QUIT")
    }

    /// Restarts the cluster as `pg_ctl restart -m fast` does: sessions end with 57P01, and nothing has to be recovered.
    ///
    /// # Errors
    /// As [`Postgres::restart_immediately`].
    pub fn restart_fast(&mut self) -> Result<()> {
        self.restart_after("INT")
    }

    /// Stops the cluster as [`Postgres::restart_fast`] does, and starts it again after `meanwhile`.
    ///
    /// # Errors
    /// As [`Postgres::restart_immediately`], and those of `meanwhile`.
    pub fn restart_around(&mut self, meanwhile: impl FnOnce() -> Result<()>) -> Result<()> {
        self.stop_by("INT")?;
        meanwhile()?;
        self.server = run(&self.program, self.directory.path())?;
        Ok(())
    }

    fn stop_by(&mut self, signal: &str) -> Result<()> {
        self.server.signal(signal)?;
        self.server.wait_exit(Duration::from_secs(60))?;
        Ok(())
    }

    fn restart_after(&mut self, signal: &str) -> Result<()> {
        self.stop_by(signal)?;
        self.server = run(&self.program, self.directory.path())?;
        Ok(())
    }

    /// Creates an empty database; drops an existing one of that name.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn create_database(&self, name: &str) -> Result<()> {
        create_database(self.port, name)
    }

    fn wait_ready(&mut self, options: &Options) -> Result<()> {
        let (port, server) = (self.port, &mut self.server);
        wait_until("PostgreSQL's readiness", Duration::from_secs(60), || {
            server.check_running()?;
            if options.login == Login::Trust {
                return Ok(Raw::connect(port, "postgres").is_ok());
            }
            Ok(server.log().contains("ready to accept connections"))
        })
        .with_context(|| server.log())
    }
}

/// Creates an empty database on the server at this port; drops an existing one of that name.
pub(crate) fn create_database(port: u16, name: &str) -> Result<()> {
    let mut raw = Raw::connect(port, "postgres")?;
    raw.query(&format!("drop database if exists {name} with (force)"))?;
    raw.query(&format!("create database {name}"))?;
    Ok(())
}

/// Starts the server of the cluster in this directory.
fn run(program: &Path, directory: &Path) -> Result<Guarded> {
    let data = directory.join("data");
    let command = [text(program)?, "-D", text(&data)?];
    let log = directory.join("postgres.log");
    Guarded::start(Runner::Postgres, "QUIT", &command, &[], &log)
}

/// Runs `initdb` in a directory that belongs to the user who will run the server.
pub(crate) fn initialise(bin: &Path, directory: &TempDir, data: &Path) -> Result<()> {
    if tools::is_root() {
        tools::run(Command::new("chown").arg("postgres:").arg(directory.path()))
            .context("user postgres is missing: apt-get install postgresql-15")?;
    }
    let password = directory.write("password", Postgres::PASSWORD)?;
    let mut initdb = child::setpriv(Runner::Postgres, None)?;
    initdb
        .arg(bin.join("initdb"))
        .arg("-D")
        .arg(data)
        .arg("--pwfile")
        .arg(password);
    initdb.args([
        "-U",
        "postgres",
        "-A",
        "trust",
        "-E",
        "UTF8",
        "--locale=C",
        "--no-sync",
    ]);
    // The server's user may not be able to read the suite's working directory.
    tools::run(initdb.current_dir("/"))?;
    Ok(())
}

/// Writes `postgresql.conf` and `pg_hba.conf` of a new cluster.
pub(crate) fn configure(data: &Path, sockets: &Path, port: u16, options: &Options) -> Result<()> {
    let file = data.join("postgresql.conf");
    let mut conf = fs::read_to_string(&file)?;
    conf.push_str(&format!(
        "\nlisten_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = '{}'\n\
         max_connections = {}\nfsync = off\nsynchronous_commit = off\nfull_page_writes = off\n\
         shared_buffers = 64MB\ntimezone = 'UTC'\nlog_timezone = 'UTC'\nautovacuum = off\n\
         log_checkpoints = off\nmax_wal_size = 4GB\n",
        sockets.display(),
        options.max_connections,
    ));
    let (method, stored) = match options.login {
        Login::Trust => ("trust", "scram-sha-256"),
        Login::Password => ("password", "scram-sha-256"),
        Login::Md5 => ("md5", "md5"),
        Login::ScramSha256 => ("scram-sha-256", "scram-sha-256"),
    };
    conf.push_str(&format!("password_encryption = '{stored}'\n"));
    options
        .settings
        .iter()
        .for_each(|line| conf.push_str(&format!("{line}\n")));
    fs::write(file, conf)?;
    let mut hba: String = options.hba.iter().map(|line| format!("{line}\n")).collect();
    hba.push_str(&format!(
        "local all all trust\nhost all all 127.0.0.1/32 {method}\n"
    ));
    fs::write(data.join("pg_hba.conf"), hba)?;
    Ok(())
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("the path is not UTF-8")
}
