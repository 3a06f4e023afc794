//! What is measured: PostgreSQL itself, PgBouncer, or Weir with so many workers. Both poolers read
//! the very same ini file, so that no setting can differ.

use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tempfile::TempDir;
use weir_lab::certificates::Certificates;
use weir_lab::postgres::{DATABASE, USER, answers, free_port, private_directory};
use weir_lab::process::{Account, Process, find_program};

const START_LIMIT: Duration = Duration::from_secs(15);

/// One column of a comparison.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, serde::Serialize)]
pub(crate) enum Target {
    Direct,
    PgBouncer,
    Weir { workers: u8 },
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct => formatter.write_str("direct"),
            Self::PgBouncer => formatter.write_str("pgbouncer"),
            Self::Weir { workers } => write!(formatter, "weir{workers}"),
        }
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "direct" => Ok(Self::Direct),
            "pgbouncer" => Ok(Self::PgBouncer),
            _ => text
                .strip_prefix("weir")
                .and_then(|workers| workers.parse().ok())
                .filter(|&workers| workers > 0)
                .map(|workers| Self::Weir { workers })
                .ok_or_else(|| "use direct, pgbouncer, weir1, weir2, ...".to_owned()),
        }
    }
}

/// How poolers are started for a measurement.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) upstream: SocketAddr,
    pub(crate) pool_size: u32,
    pub(crate) weir: PathBuf,
    /// Pins the pooler to these CPUs (taskset's list syntax).
    pub(crate) cpus: Option<String>,
    /// max_client_conn
    pub(crate) clients_max: u32,
    pub(crate) hops: Hops,
    /// What the file of users holds for [`USER`] if clients log in by SCRAM; else all are trusted.
    pub(crate) secret: Option<String>,
    /// Variables for Weir, which wins over the file that both poolers read.
    pub(crate) environment: Vec<(&'static str, String)>,
}

/// Enough for everything but thousands of idle clients.
pub(crate) const CLIENTS_MAX: u32 = 2000;

/// Which of the two connections of a pooler are encrypted.
#[derive(Clone, Debug, Default)]
pub(crate) enum Hops {
    #[default]
    Plain,
    ClientTls(KeyPair),
    BothTls(KeyPair),
}

/// Files of a certificate and its key.
#[derive(Clone, Debug)]
pub(crate) struct KeyPair {
    certificate: PathBuf,
    key: PathBuf,
}

impl KeyPair {
    pub(crate) fn of(certificates: &Certificates) -> Self {
        Self {
            certificate: certificates.certificate(),
            key: certificates.key(),
        }
    }
}

impl Hops {
    /// Lines of the ini file. `require` encrypts and verifies nothing, on either hop; what is not
    /// required is switched off, for PostgreSQL may offer it.
    fn ini(&self) -> String {
        let client = |KeyPair { certificate, key }: &KeyPair| {
            format!(
                "client_tls_sslmode = require\n\
                 client_tls_cert_file = {}\n\
                 client_tls_key_file = {}\n",
                certificate.display(),
                key.display(),
            )
        };
        match self {
            Self::Plain => "server_tls_sslmode = disable\n".to_owned(),
            Self::ClientTls(pair) => client(pair) + "server_tls_sslmode = disable\n",
            Self::BothTls(pair) => client(pair) + "server_tls_sslmode = require\n",
        }
    }
}

/// A target that accepts connections at `address`. Fields drop in this order.
pub(crate) struct Running {
    process: Option<Process>,
    _directory: Option<TempDir>,
    pub(crate) address: SocketAddr,
}

impl Running {
    /// The process whose CPU time is the pooler's; none for a direct connection.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Process::pid)
    }
}

impl Setup {
    /// Starts a fresh process for `target` and waits until it accepts connections.
    pub(crate) fn start(&self, target: Target) -> Result<Running> {
        let account = match target {
            Target::Direct => {
                return Ok(Running {
                    process: None,
                    _directory: None,
                    address: self.upstream,
                });
            }
            Target::PgBouncer => Account::for_servers()?,
            Target::Weir { .. } => Account::Ourselves,
        };
        let directory = private_directory(account)?;
        let port = free_port()?;
        let file = self.write_files(directory.path(), port, account)?;
        let mut command = match target {
            Target::Weir { workers } => {
                let mut command = self.command(&self.weir);
                command.arg("run").env("WEIR_WORKERS", workers.to_string());
                command.envs(self.environment.iter().cloned());
                command
            }
            Target::PgBouncer | Target::Direct => self.command(&find_pgbouncer()?),
        };
        command.arg(&file).current_dir(directory.path());
        account.apply(&mut command);
        let log = directory.path().join("output.log");
        let mut process = Process::start(&target.to_string(), &mut command, &log)?;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        process.await_ready(START_LIMIT, &log, || answers(address))?;
        Ok(Running {
            process: Some(process),
            _directory: Some(directory),
            address,
        })
    }

    /// taskset replaces itself by the program, so the pid stays the pooler's.
    fn command(&self, program: &Path) -> Command {
        match &self.cpus {
            None => Command::new(program),
            Some(cpus) => {
                let mut command = Command::new("taskset");
                command.args(["-c", cpus]).arg(program);
                command
            }
        }
    }

    fn write_files(&self, directory: &Path, port: u16, account: Account) -> Result<PathBuf> {
        let users = directory.join("users.txt");
        let secret = self.secret.as_deref().unwrap_or_default();
        fs::write(&users, format!("\"{USER}\" \"{secret}\"\n"))?;
        let file = directory.join("pooler.ini");
        fs::write(&file, self.ini(directory, port))?;
        account.own(&users)?;
        account.own(&file)?;
        Ok(file)
    }

    /// PgBouncer's documented advice for transaction pooling of many clients; logging of every
    /// connection and of statistics is off for both.
    fn ini(&self, directory: &Path, port: u16) -> String {
        let Self {
            upstream,
            pool_size,
            clients_max,
            ..
        } = self;
        let auth_type = match self.secret {
            None => "trust",
            Some(_) => "scram-sha-256",
        };
        format!(
            "[databases]\n\
             {DATABASE} = host={} port={} dbname={DATABASE}\n\
             \n\
             [pgbouncer]\n\
             listen_addr = 127.0.0.1\n\
             listen_port = {port}\n\
             unix_socket_dir =\n\
             auth_type = {auth_type}\n\
             auth_file = {}\n\
             pool_mode = transaction\n\
             default_pool_size = {pool_size}\n\
             max_client_conn = {clients_max}\n\
             ignore_startup_parameters = extra_float_digits\n\
             log_connections = 0\n\
             log_disconnections = 0\n\
             log_stats = 0\n\
             admin_users = {USER}\n\
             {}",
            upstream.ip(),
            upstream.port(),
            directory.join("users.txt").display(),
            self.hops.ini(),
        )
    }
}

pub(crate) fn find_pgbouncer() -> Result<PathBuf> {
    find_program("pgbouncer", &[]).context("PgBouncer is needed (package pgbouncer)")
}

/// The release binary: `WEIR_BIN`, else where cargo puts it.
pub(crate) fn weir_binary(target_directory: &Path) -> PathBuf {
    std::env::var_os("WEIR_BIN").map_or_else(
        || target_directory.join("release").join("weir"),
        PathBuf::from,
    )
}

/// Fails with the command to type if the binary has not been built.
pub(crate) fn require_weir(binary: &Path) -> Result<()> {
    if binary.is_file() {
        return Ok(());
    }
    Err(anyhow!(
        "{} is not there; build it with: cargo build --release -p weir-cli",
        binary.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ini(hops: Hops, secret: Option<&str>) -> String {
        let setup = Setup {
            upstream: SocketAddr::from(([127, 0, 0, 1], 5432)),
            pool_size: 20,
            weir: PathBuf::new(),
            cpus: None,
            clients_max: CLIENTS_MAX,
            hops,
            secret: secret.map(str::to_owned),
            environment: Vec::new(),
        };
        setup.ini(Path::new("/run/x"), 6432)
    }

    #[test]
    fn without_more_a_pooler_trusts_and_encrypts_nothing() {
        let text = ini(Hops::Plain, None);
        assert!(text.contains("auth_type = trust\n"), "{text}");
        assert!(!text.contains("require"), "{text}");
        assert!(!text.contains("client_tls"), "{text}");
    }

    #[test]
    fn tls_on_both_hops_is_required() {
        let pair = KeyPair {
            certificate: PathBuf::from("/run/x/crt"),
            key: PathBuf::from("/run/x/key"),
        };
        let text = ini(Hops::BothTls(pair.clone()), Some("SCRAM"));
        for line in [
            "pgbench = host=127.0.0.1 port=5432 dbname=pgbench",
            "client_tls_sslmode = require",
            "client_tls_key_file = /run/x/key",
            "server_tls_sslmode = require",
            "auth_type = scram-sha-256",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        let text = ini(Hops::ClientTls(pair), None);
        assert!(text.contains("client_tls_sslmode = require\n"), "{text}");
        assert!(text.contains("server_tls_sslmode = disable\n"), "{text}");
    }

    #[test]
    fn names_of_targets_survive_a_round_trip() {
        for name in ["direct", "pgbouncer", "weir1", "weir12"] {
            assert_eq!(name.parse::<Target>().unwrap().to_string(), name);
        }
        for wrong in ["", "weir", "weir0", "weirx", "pgcat"] {
            assert!(wrong.parse::<Target>().is_err(), "{wrong}");
        }
    }
}
