//! PgBouncer as a child process, for tasks that compare with it.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use tempfile::TempDir;
use weir_lab::ports::free_port;
use weir_lab::postgres::{Cluster, USER, answers};
use weir_lab::process::{Account, Process, find_program, run_to_end};

const START_LIMIT: Duration = Duration::from_secs(15);

/// PgBouncer in front of one PostgreSQL, with transaction pooling and without passwords. Fields drop in this order.
pub(crate) struct PgBouncer {
    process: Process,
    /// Directory of its configuration and log.
    _directory: TempDir,
    address: SocketAddr,
}

impl PgBouncer {
    /// Starts it on a free port of loopback, with so many servers per pool and room for so many clients.
    ///
    /// # Errors
    /// If it is not installed, or does not start; the error has its log.
    pub(crate) fn start(cluster: &Cluster, servers: u32, clients: u32) -> Result<Self> {
        // It refuses to run as root.
        let account = Account::for_servers()?;
        let directory = tempfile::Builder::new()
            .prefix("weir-pgbouncer-")
            .tempdir()?;
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let config = directory.path().join("pgbouncer.ini");
        let upstream = cluster.address();
        let mut text = String::new();
        writeln!(text, "[databases]")?;
        writeln!(
            text,
            "* = host={} port={} user={USER}",
            upstream.ip(),
            upstream.port()
        )?;
        writeln!(text, "[pgbouncer]")?;
        writeln!(text, "listen_addr = {}", address.ip())?;
        writeln!(text, "listen_port = {}", address.port())?;
        writeln!(text, "unix_socket_dir =")?;
        writeln!(text, "auth_type = any")?;
        writeln!(text, "pool_mode = transaction")?;
        writeln!(text, "default_pool_size = {servers}")?;
        writeln!(text, "max_client_conn = {clients}")?;
        fs::write(&config, text)?;
        account.own(&config)?;
        account.own(directory.path())?;
        let mut command = Command::new(find_program("pgbouncer", &[])?);
        command.arg(&config);
        account.apply(&mut command);
        let log = directory.path().join("log");
        let mut process = Process::start("pgbouncer", &mut command, &log)?;
        process.await_ready(START_LIMIT, &log, || answers(address))?;
        Ok(Self {
            process,
            _directory: directory,
            address,
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }
}

/// Returns the installed PgBouncer's name and version, such as `PgBouncer 1.18.0`; `None` if there is none.
pub(crate) fn installed() -> Option<String> {
    let program = find_program("pgbouncer", &[]).ok()?;
    let text = run_to_end(Command::new(program).arg("--version")).ok()?;
    text.lines().next().map(str::to_owned)
}
