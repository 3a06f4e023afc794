//! Temporary PostgreSQL server: its own directory, a free port on loopback, deleted on drop. Streaming replicas
//! are optional, and the data can be restored to their first state.

mod programs;

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

pub use self::programs::Programs;
use crate::access::PASSWORD;
use crate::certificates::Certificates;
use crate::clock;
use crate::error::{Error, Result};
use crate::ports::free_port;
use crate::process::{Account, Process, run_to_end};
use crate::scram;

/// Superuser of the cluster, who logs in without a password, from loopback only.
pub const USER: &str = "postgres";
/// User of the load if clients have a password, which is [`PASSWORD`].
pub const CLIENT: &str = "bench";
/// Database with pgbench's tables.
pub const DATABASE: &str = "pgbench";
/// Template from which [`DATABASE`] is restored.
const TEMPLATE: &str = "pgbench_template";
/// Iterations of SCRAM by RFC 7677, section 4, and PostgreSQL's default of `scram_iterations`.
const ITERATIONS: NonZeroU32 = NonZeroU32::new(4096).expect("it is not zero");

const START_LIMIT: Duration = Duration::from_secs(30);

/// Requirements on a server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Value of `max_connections`.
    pub connections: u32,
    /// Certificate and key to offer TLS with. Connections without TLS are accepted as well.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// True if [`CLIENT`] has to log in by SCRAM; otherwise no user needs a password.
    pub passwords: bool,
    /// Further settings, each `name=value`; they override the lab's.
    pub more: Vec<String>,
}

impl Settings {
    /// Returns the settings of a server for so many connections, without TLS and without passwords.
    #[must_use]
    pub fn new(connections: u32) -> Self {
        Self {
            connections,
            tls: None,
            passwords: false,
            more: Vec::new(),
        }
    }

    /// Adds TLS.
    #[must_use]
    pub fn with_tls(mut self, certificates: &Certificates) -> Self {
        self.tls = Some((certificates.certificate(), certificates.key()));
        self
    }

    /// Returns the server's settings. Durability is off: it would add the disk to the measurement. Autovacuum is
    /// off because it starts at unpredictable times; the data are vacuumed once, and restored.
    fn list(&self) -> Vec<String> {
        let mut list: Vec<String> = [
            "listen_addresses=127.0.0.1",
            "shared_buffers=256MB",
            "max_wal_size=4GB",
            "autovacuum=off",
            "fsync=off",
            "synchronous_commit=off",
            "full_page_writes=off",
        ]
        .map(str::to_owned)
        .to_vec();
        list.push(format!("max_connections={}", self.connections));
        if let Some((certificate, key)) = &self.tls {
            list.push("ssl=on".to_owned());
            list.push(format!("ssl_cert_file={}", certificate.display()));
            list.push(format!("ssl_key_file={}", key.display()));
        }
        list.extend(self.more.iter().cloned());
        list
    }

    /// Returns the lines of `pg_hba.conf` (PostgreSQL manual, "The pg_hba.conf File").
    fn rules(&self) -> &'static str {
        if self.passwords {
            "local all all trust\n\
             host all postgres 127.0.0.1/32 trust\n\
             host replication postgres 127.0.0.1/32 trust\n\
             host all all 127.0.0.1/32 scram-sha-256\n"
        } else {
            "local all all trust\n\
             host all all 127.0.0.1/32 trust\n\
             host replication all 127.0.0.1/32 trust\n"
        }
    }
}

/// Running server. Fields drop in this order: the servers stop, then their files are deleted.
#[derive(Debug)]
pub struct Cluster {
    replicas: Vec<Instance>,
    primary: Instance,
    directory: TempDir,
    programs: Programs,
    account: Account,
    settings: Settings,
}

/// Server process on a data directory.
#[derive(Debug)]
struct Instance {
    process: Process,
    data: PathBuf,
    port: u16,
}

impl Cluster {
    /// Creates and starts a server, with the role [`CLIENT`].
    ///
    /// # Errors
    /// PostgreSQL is not installed, or does not start; the error has its log.
    pub fn start(programs: &Programs, settings: Settings) -> Result<Self> {
        let account = Account::for_servers()?;
        let directory = private_directory(account)?;
        let data = directory.path().join("data");
        initialise(programs, account, &data)?;
        let rules = data.join("pg_hba.conf");
        fs::write(&rules, settings.rules()).map_err(Error::file("write", &rules))?;
        let port = free_port()?;
        let primary = Instance::start(programs, account, &settings, data, port)?;
        let cluster = Self {
            replicas: Vec::new(),
            primary,
            directory,
            programs: programs.clone(),
            account,
            settings,
        };
        let secret = Self::secret();
        cluster.query(
            USER,
            &format!("CREATE ROLE {CLIENT} LOGIN PASSWORD '{secret}'"),
        )?;
        Ok(cluster)
    }

    /// Returns PostgreSQL's SCRAM verifier of [`PASSWORD`], for poolers that store the same.
    #[must_use]
    pub fn secret() -> String {
        scram::verifier(PASSWORD, b"weir-bench-salt!", ITERATIONS)
    }

    /// Creates the database [`DATABASE`] and fills pgbench's tables: 100,000 accounts per `scale`.
    ///
    /// # Errors
    /// pgbench is missing or fails.
    pub fn fill(&self, scale: u32) -> Result<()> {
        self.query(USER, &format!("CREATE DATABASE {DATABASE}"))?;
        let mut command = Command::new(self.programs.path("pgbench")?);
        command.args(["--initialize", "--quiet", "--scale", &scale.to_string()]);
        command.args(["-h", "127.0.0.1", "-p", &self.primary.port.to_string()]);
        command.args(["-U", USER, DATABASE]);
        run_to_end(&mut command)?;
        self.query(
            DATABASE,
            &format!("GRANT ALL ON ALL TABLES IN SCHEMA public TO {CLIENT}"),
        )?;
        self.query(DATABASE, "VACUUM ANALYZE")?;
        self.query(DATABASE, "CHECKPOINT")?;
        Ok(())
    }

    /// Restores [`DATABASE`] to its state at the first call. Connections to it are closed.
    ///
    /// # Errors
    /// The server refuses.
    pub fn restore(&self) -> Result<()> {
        let known = format!("SELECT count(*) FROM pg_database WHERE datname = '{TEMPLATE}'");
        if self.query(USER, &known)? == "0" {
            self.query(
                USER,
                &format!("ALTER DATABASE {DATABASE} RENAME TO {TEMPLATE}"),
            )?;
        } else {
            self.query(
                USER,
                &format!("DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)"),
            )?;
        }
        self.query(
            USER,
            &format!("CREATE DATABASE {DATABASE} TEMPLATE {TEMPLATE}"),
        )?;
        self.query(USER, "CHECKPOINT").map(drop)
    }

    /// Adds a streaming replica of the current data for read-only queries.
    ///
    /// # Errors
    /// `pg_basebackup` fails, or the replica does not start.
    pub fn add_replica(&mut self) -> Result<()> {
        let number = self.replicas.len() + 1;
        let data = self.directory.path().join(format!("replica-{number}"));
        let mut command = Command::new(self.programs.path("pg_basebackup")?);
        command.args(["-R", "-X", "stream", "-c", "fast", "--no-sync", "-D"]);
        command.arg(&data).current_dir(self.directory.path());
        // A slot keeps the WAL that the replica has not received: restored data are more than the server would keep.
        command.args(["-C", "-S", &format!("replica_{number}")]);
        command.args(["-h", "127.0.0.1", "-U", USER]);
        command.args(["-p", &self.primary.port.to_string()]);
        self.account.apply(&mut command);
        run_to_end(&mut command)?;
        let port = free_port()?;
        let settings = &self.settings;
        let replica = Instance::start(&self.programs, self.account, settings, data, port)?;
        self.replicas.push(replica);
        Ok(())
    }

    /// Waits until each replica shows all that the primary has committed.
    ///
    /// # Errors
    /// A replica does not within 30 s.
    pub fn await_replicas(&self) -> Result<()> {
        if self.replicas.is_empty() {
            return Ok(());
        }
        // A checkpoint flushes what asynchronous commits have left in memory.
        self.query(USER, "CHECKPOINT")?;
        let target = self.query(USER, "SELECT pg_current_wal_flush_lsn()")?;
        let sql = format!("SELECT pg_last_wal_replay_lsn() >= '{target}'");
        for replica in &self.replicas {
            self.await_answer(replica, &sql, "t", "replica")?;
        }
        Ok(())
    }

    /// Returns the number of transactions that each server has committed in [`DATABASE`], the primary first. Waits for
    /// the end of all connections to it, because a server counts the last transactions of a connection at its end.
    ///
    /// # Errors
    /// A connection is still open after 30 s.
    pub fn commits(&self) -> Result<Vec<u64>> {
        let connections = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = '{DATABASE}' AND backend_type = 'client backend'"
        );
        let commits =
            format!("SELECT xact_commit FROM pg_stat_database WHERE datname = '{DATABASE}'");
        self.instances()
            .map(|instance| {
                self.await_answer(instance, &connections, "0", "end of connections")?;
                let count = self.query_at(instance, USER, &commits)?;
                // A database that was never used has no row.
                Ok(count.parse().unwrap_or_default())
            })
            .collect()
    }

    /// Asks a server until it gives this answer.
    fn await_answer(&self, instance: &Instance, sql: &str, answer: &str, name: &str) -> Result<()> {
        let mut last = Ok(String::new());
        let reached = clock::poll_until(START_LIMIT, || {
            last = self.query_at(instance, USER, sql);
            last.as_ref().map_or(true, |text| text == answer)
        });
        let text = last?;
        if reached {
            return Ok(());
        }
        Err(Error::NotReady {
            name: name.to_owned(),
            limit: START_LIMIT,
            reason: Some(format!("{sql}: {text}")),
            log: String::new(),
        })
    }

    /// Restarts the servers on the same data and ports, with cold buffers.
    ///
    /// # Errors
    /// A server does not start again.
    pub fn restart(self) -> Result<Self> {
        let Self {
            replicas,
            primary,
            directory,
            programs,
            account,
            settings,
        } = self;
        let again = |instance: Instance| {
            let Instance {
                process,
                data,
                port,
            } = instance;
            process.stop();
            Instance::start(&programs, account, &settings, data, port)
        };
        let primary = again(primary)?;
        let replicas = replicas.into_iter().map(again).collect::<Result<_>>()?;
        Ok(Self {
            replicas,
            primary,
            directory,
            programs,
            account,
            settings,
        })
    }

    /// Runs one statement on a direct connection and returns psql's unaligned rows.
    ///
    /// # Errors
    /// psql is missing, or the server refuses.
    pub fn query(&self, database: &str, sql: &str) -> Result<String> {
        self.query_at(&self.primary, database, sql)
    }

    fn query_at(&self, instance: &Instance, database: &str, sql: &str) -> Result<String> {
        let mut command = Command::new(self.programs.path("psql")?);
        command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]);
        command.args(["-h", "127.0.0.1", "-p", &instance.port.to_string()]);
        command.args(["-U", USER, "-c", sql, database]);
        run_to_end(&mut command).map(|text| text.trim().to_owned())
    }

    /// Returns the process id of the primary's postmaster; one child of it serves each connection.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.primary.process.pid()
    }

    /// Returns the process ids of all postmasters.
    pub fn pids(&self) -> Vec<u32> {
        self.instances()
            .map(|instance| instance.process.pid())
            .collect()
    }

    /// Returns the address of the primary.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.primary.address()
    }

    /// Returns the addresses of all servers, the primary first.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.instances().map(Instance::address).collect()
    }

    /// Returns PostgreSQL's programs of the server's version.
    #[must_use]
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    fn instances(&self) -> impl Iterator<Item = &Instance> {
        std::iter::once(&self.primary).chain(&self.replicas)
    }
}

impl Instance {
    fn start(
        programs: &Programs,
        account: Account,
        settings: &Settings,
        data: PathBuf,
        port: u16,
    ) -> Result<Self> {
        let mut command = Command::new(programs.path("postgres")?);
        command.current_dir(&data).arg("-D").arg(&data);
        for setting in settings.list() {
            command.args(["-c", &setting]);
        }
        let sockets = data.parent().unwrap_or(&data);
        command.args(["-c", &format!("port={port}")]);
        let directory = format!("unix_socket_directories={}", sockets.display());
        command.args(["-c", &directory]);
        account.apply(&mut command);
        let log = data.with_extension("log");
        // A fast shutdown, and an immediate one if that takes too long.
        let stop = [Signal::INT, Signal::QUIT];
        let mut process = Process::start("postgres", &mut command, &log)?.stop_with(&stop);
        let check = programs.path("pg_isready")?;
        process.await_ready(START_LIMIT, &log, || {
            let mut command = Command::new(&check);
            command.args(["-q", "-h", "127.0.0.1", "-p", &port.to_string()]);
            command.status().is_ok_and(|status| status.success())
        })?;
        Ok(Self {
            process,
            data,
            port,
        })
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }
}

fn initialise(programs: &Programs, account: Account, data: &Path) -> Result<()> {
    let mut command = Command::new(programs.path("initdb")?);
    command.args(["--no-sync", "--auth=trust", "--encoding=UTF8"]);
    command.args(["--locale=C.UTF-8", "-U", USER]);
    command.arg("-D").arg(data);
    if let Some(parent) = data.parent() {
        command.current_dir(parent);
    }
    account.apply(&mut command);
    run_to_end(&mut command).map(drop)
}

/// Creates a directory that `account` owns and no other user can read.
///
/// # Errors
/// The system refuses.
pub fn private_directory(account: Account) -> Result<TempDir> {
    let directory = tempfile::Builder::new()
        .prefix("weir-")
        .tempdir()
        .map_err(Error::system("create a directory"))?;
    account.own(directory.path())?;
    Ok(directory)
}

/// True if `address` accepts connections.
#[must_use]
pub fn answers(address: SocketAddr) -> bool {
    TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_in_addition_wins() {
        let settings = Settings {
            more: vec!["shared_buffers=2GB".to_owned()],
            ..Settings::new(70)
        };
        let list = settings.list();
        assert_eq!(list.last().unwrap(), "shared_buffers=2GB");
        assert!(list.contains(&"max_connections=70".to_owned()));
        assert!(!list.contains(&"ssl=on".to_owned()));
    }

    #[test]
    fn only_a_server_with_passwords_asks_for_them() {
        assert!(!Settings::new(1).rules().contains("scram"));
        let settings = Settings {
            passwords: true,
            ..Settings::new(1)
        };
        let last = settings.rules().lines().last();
        assert_eq!(last, Some("host all all 127.0.0.1/32 scram-sha-256"));
    }
}
