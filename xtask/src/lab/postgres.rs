//! A throw-away PostgreSQL: its own directory, a free port on loopback, gone when dropped.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::lab::certificates::Certificates;
use crate::lab::process::{Account, Process, find_program, run_to_end};

/// The superuser of the cluster; it logs in without a password, from loopback only.
pub(crate) const USER: &str = "postgres";
/// The database that pgbench's tables are in.
pub(crate) const DATABASE: &str = "pgbench";

const START_LIMIT: Duration = Duration::from_secs(30);

/// A running server. Fields drop in this order: the server stops, then its files go.
pub(crate) struct Cluster {
    server: Process,
    _directory: TempDir,
    programs: Programs,
    port: u16,
}

impl Cluster {
    /// Creates and starts a server that takes `connections` at once. Durability is off: it guards
    /// nothing here, and the disk would be measured with the pooler.
    pub(crate) fn start(connections: u32) -> Result<Self> {
        Self::start_with(connections, &[])
    }

    /// As [`Cluster::start`], and offers TLS. Who connects without it is let in as well.
    pub(crate) fn start_tls(connections: u32, certificates: &Certificates) -> Result<Self> {
        let settings = [
            "ssl=on".to_owned(),
            format!("ssl_cert_file={}", certificates.certificate().display()),
            format!("ssl_key_file={}", certificates.key().display()),
        ];
        Self::start_with(connections, &settings)
    }

    fn start_with(connections: u32, more: &[String]) -> Result<Self> {
        let programs = Programs::find()?;
        let account = Account::for_servers()?;
        let directory = private_directory(account)?;
        let data = directory.path().join("data");
        initialise(&programs, account, &data)?;
        let port = free_port()?;
        let mut command = Command::new(programs.path("postgres")?);
        command.current_dir(directory.path()).arg("-D").arg(&data);
        let settings = [
            "listen_addresses=127.0.0.1".to_owned(),
            format!("port={port}"),
            format!("unix_socket_directories={}", directory.path().display()),
            format!("max_connections={connections}"),
            "shared_buffers=256MB".to_owned(),
            "max_wal_size=4GB".to_owned(),
            "fsync=off".to_owned(),
            "synchronous_commit=off".to_owned(),
            "full_page_writes=off".to_owned(),
        ];
        for setting in settings.iter().chain(more) {
            command.args(["-c", setting]);
        }
        account.apply(&mut command);
        let log = directory.path().join("server.log");
        let mut server =
            Process::start("postgres", &mut command, &log)?.stop_with(&[Signal::INT, Signal::QUIT]);
        let check = programs.path("pg_isready")?;
        server.await_ready(START_LIMIT, &log, || {
            let mut command = Command::new(&check);
            command.args(["-q", "-h", "127.0.0.1", "-p", &port.to_string()]);
            command.status().is_ok_and(|status| status.success())
        })?;
        Ok(Self {
            server,
            _directory: directory,
            programs,
            port,
        })
    }

    /// Creates the database [`DATABASE`] and fills pgbench's tables: 100,000 accounts per `scale`.
    pub(crate) fn fill(&self, scale: u32) -> Result<()> {
        let create = format!("CREATE DATABASE {DATABASE}");
        self.query("postgres", &create)?;
        let mut command = Command::new(self.programs.path("pgbench")?);
        command.args(["--initialize", "--quiet", "--scale", &scale.to_string()]);
        command.args([
            "-h",
            "127.0.0.1",
            "-p",
            &self.port.to_string(),
            "-U",
            USER,
            DATABASE,
        ]);
        run_to_end(&mut command).context("cannot fill pgbench's tables")?;
        self.query(DATABASE, "VACUUM ANALYZE")?;
        self.query(DATABASE, "CHECKPOINT")?;
        Ok(())
    }

    /// Runs one statement past any pooler and returns psql's unaligned rows.
    pub(crate) fn query(&self, database: &str, sql: &str) -> Result<String> {
        let mut command = Command::new(self.programs.path("psql")?);
        command.args([
            "-X",
            "-q",
            "-A",
            "-t",
            "-h",
            "127.0.0.1",
            "-p",
            &self.port.to_string(),
        ]);
        command.args(["-U", USER, "-c", sql, database]);
        run_to_end(&mut command).map(|text| text.trim().to_owned())
    }

    /// The first process; one child of it serves each connection.
    pub(crate) fn pid(&self) -> u32 {
        self.server.pid()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    pub(crate) fn programs(&self) -> &Programs {
        &self.programs
    }
}

/// Where PostgreSQL's programs are: Debian keeps the server's off the path, per major version.
#[derive(Clone)]
pub(crate) struct Programs {
    directories: Vec<PathBuf>,
}

impl Programs {
    pub(crate) fn find() -> Result<Self> {
        let mut directories = versions(Path::new("/usr/lib/postgresql"));
        directories.extend(std::env::var_os("PGBIN").map(PathBuf::from));
        // The environment wins, then the newest version.
        directories.reverse();
        let found = Self { directories };
        found
            .path("initdb")
            .context("the PostgreSQL server is needed (package postgresql-15)")?;
        Ok(found)
    }

    pub(crate) fn path(&self, name: &str) -> Result<PathBuf> {
        find_program(name, &self.directories)
    }
}

/// `ROOT/N/bin` of every major version, oldest first.
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

fn initialise(programs: &Programs, account: Account, data: &Path) -> Result<()> {
    let mut command = Command::new(programs.path("initdb")?);
    command.args([
        "--no-sync",
        "--auth=trust",
        "--encoding=UTF8",
        "--locale=C.UTF-8",
        "-U",
        USER,
    ]);
    command.arg("-D").arg(data);
    if let Some(parent) = data.parent() {
        command.current_dir(parent);
    }
    account.apply(&mut command);
    run_to_end(&mut command)
        .context("cannot create a database cluster")
        .map(drop)
}

/// A new directory that `account` owns and nobody else can read.
pub(crate) fn private_directory(account: Account) -> Result<TempDir> {
    let directory = tempfile::Builder::new().prefix("weir-").tempdir()?;
    account.own(directory.path())?;
    Ok(directory)
}

/// A port that was free a moment ago, below those that the kernel gives to outgoing connections (from 32768 on): one of
/// these could be taken by a client before our server listens on it.
pub(crate) fn free_port() -> Result<u16> {
    (0..1000)
        .map(|_| fastrand::u16(10_000..32_000))
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .context("no free port on loopback")
}

/// Whether somebody accepts connections at `address`.
pub(crate) fn answers(address: SocketAddr) -> bool {
    TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok()
}
