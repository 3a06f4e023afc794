//! A node: a PostgreSQL server that repmgr starts and stops, its configuration, and direct questions.

use std::env;
use std::net::SocketAddr;
use std::path::Path;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;

use super::local;
use crate::Raw;
use crate::TempDir;
use crate::child;
use crate::child::Guarded;
use crate::child::Runner;
use crate::cluster::LIMIT;
use crate::postgres;
use crate::postmaster;
use crate::tools;

/// Time limit of a direct question.
const QUESTION: Duration = Duration::from_secs(2);

/// Settings of all nodes.
const SETTINGS: &str = "
shared_preload_libraries = 'repmgr'
unix_socket_directories = ''
wal_level = replica
max_connections = 300
max_wal_senders = 10
max_replication_slots = 10
max_slot_wal_keep_size = 1GB
wal_keep_size = 64MB
wal_log_hints = on
full_page_writes = on
synchronous_commit = on
hot_standby_feedback = on
wal_receiver_status_interval = 1s
wal_retrieve_retry_interval = 1s
log_line_prefix = '%m [%p] %q%a '
";

/// A node of the cluster.
#[derive(Debug)]
pub(super) struct Node {
    name: String,
    address: SocketAddr,
    data: PathBuf,
    config: PathBuf,
    log: PathBuf,
    bin: PathBuf,
}

impl Node {
    pub(super) fn new(number: usize, directory: &TempDir) -> Result<Self> {
        let name = format!("n{number}");
        let mut node = Self {
            address: local(tools::free_port()?),
            data: directory.path().join(&name),
            config: PathBuf::new(),
            log: directory.path().join(format!("{name}-postgres.log")),
            bin: tools::postgres_bin_dir()?,
            name,
        };
        let text = node.text(number + 1, directory.path());
        node.config = directory.write(&format!("{}.conf", node.name), &text)?;
        Ok(node)
    }

    /// Configuration of repmgr and repmgrd: a primary counts as lost after three seconds.
    fn text(&self, id: usize, directory: &Path) -> String {
        let (name, data, bin) = (&self.name, self.data.display(), self.bin.display());
        let (log, conninfo) = (self.log.display(), self.conninfo());
        // On the command line: pg_rewind copies the configuration of the other node.
        let port = self.address.port();
        let config = directory.join(format!("{name}.conf"));
        let config = config.display();
        format!(
            "\
node_id = {id}
node_name = '{name}'
conninfo = '{conninfo}'
data_directory = '{data}'
pg_bindir = '{bin}'
use_replication_slots = true
failover = automatic
monitor_interval_secs = 1
reconnect_attempts = 3
reconnect_interval = 1
promote_command = '/usr/bin/repmgr -f {config} standby promote'
follow_command = '/usr/bin/repmgr -f {config} standby follow --upstream-node-id=%n'
service_start_command = '{bin}/pg_ctl -w -t 60 -D {data} -l {log} -o \"-p {port}\" start'
service_stop_command = '{bin}/pg_ctl -w -m fast -D {data} stop'
service_restart_command = '{bin}/pg_ctl -w -m fast -D {data} -l {log} -o \"-p {port}\" restart'
repmgrd_pid_file = '{data}.repmgrd'
log_level = INFO
"
        )
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn data(&self) -> &Path {
        &self.data
    }

    pub(super) fn config(&self) -> &Path {
        &self.config
    }

    pub(super) fn conninfo(&self) -> String {
        format!(
            "host={} port={} user=postgres dbname=postgres connect_timeout=2",
            self.address.ip(),
            self.address.port()
        )
    }

    pub(super) fn connect(&self, patience: Duration) -> Result<Raw> {
        let mut raw = Raw::at(self.address, patience)?;
        raw.login(&[("user", "postgres"), ("database", "postgres")])?;
        Ok(raw)
    }

    pub(super) fn query_one(&self, sql: &str) -> Result<String> {
        let mut raw = self.connect(QUESTION)?;
        let value = raw.query_one(sql)?;
        raw.terminate();
        Ok(value)
    }

    pub(super) fn takes_writes(&self) -> bool {
        self.query_one("SELECT pg_is_in_recovery()")
            .is_ok_and(|said| said == "f")
    }

    pub(super) fn streams_from(&self, sender: SocketAddr) -> bool {
        let sql = format!(
            "SELECT count(*) FROM pg_stat_wal_receiver WHERE status = 'streaming' AND sender_port = {}",
            sender.port()
        );
        self.query_one(&sql).is_ok_and(|said| said == "1")
    }

    pub(super) fn checkpoint(&self) -> Result<()> {
        let mut raw = self.connect(LIMIT)?;
        raw.query("CHECKPOINT")?;
        raw.terminate();
        Ok(())
    }

    pub(super) fn state(&self) -> String {
        let sql = "SELECT CASE WHEN pg_is_in_recovery() THEN 'standby' ELSE 'primary' END";
        let server = self
            .query_one(sql)
            .unwrap_or_else(|error| format!("{error:#}"));
        format!("{} ({}): {server}", self.name, self.address)
    }

    pub(super) fn initialise(&self, directory: &TempDir) -> Result<()> {
        postgres::initialise(&self.bin, directory, &self.data)?;
        let options = postgres::Options {
            settings: SETTINGS.lines().map(str::to_owned).collect(),
            hba: vec![
                "host replication all 127.0.0.1/32 trust".to_owned(),
                // Of tests that read the tables of repmgr.
                "host postgres hints 127.0.0.1/32 scram-sha-256".to_owned(),
            ],
            ..postgres::Options::default()
        };
        let port = self.address.port();
        postgres::configure(&self.data, directory.path(), port, &options)
    }

    /// Lets commits wait for one of the other nodes, on a primary.
    pub(super) fn set_synchronous(&self, names: &[&str]) -> Result<()> {
        let mut raw = self.connect(LIMIT)?;
        let names = names.join(", ");
        raw.query(&format!(
            "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 ({names})'"
        ))?;
        raw.query("SELECT pg_reload_conf()")?;
        raw.terminate();
        Ok(())
    }

    pub(super) fn start_server(&self) -> Result<()> {
        let mut start = child::setpriv(Runner::Postgres, None)?;
        start
            .arg(self.bin.join("pg_ctl"))
            .args(["-w", "-t", "60", "-D"])
            .arg(&self.data);
        let options = format!("-p {}", self.address.port());
        start
            .arg("-l")
            .arg(&self.log)
            .args(["-o", &options, "start"]);
        // The server keeps what it inherits.
        start.stdin(Stdio::null()).stdout(Stdio::null());
        let status = start.stderr(Stdio::null()).current_dir("/").status()?;
        anyhow::ensure!(status.success(), "{} does not start", self.name);
        Ok(())
    }

    /// Recovers a killed server and shuts it down in the regular way.
    pub(super) fn recover_alone(&self) -> Result<()> {
        let mut alone = child::setpriv(Runner::Postgres, None)?;
        alone
            .arg(self.bin.join("postgres"))
            .args(["--single", "-D"])
            .arg(&self.data)
            .arg("postgres");
        tools::run(alone.stdin(Stdio::null()).current_dir("/"))
            .map(drop)
            .context("recovery of a killed server")
    }

    pub(super) fn start_daemon(&self, directory: &Path) -> Result<Guarded> {
        let program = self.bin.join("repmgrd");
        let (program, config) = (program.to_string_lossy(), self.config.to_string_lossy());
        let command = [&*program, "-f", &*config, "--daemonize=false"];
        let log = directory.join(format!("{}-repmgrd.log", self.name));
        Guarded::start(Runner::Postgres, "TERM", &command, &env(directory), &log)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if postmaster::pid(&self.data).is_ok() {
            drop(postmaster::end(&self.data, "QUIT"));
        }
    }
}

/// Environment of repmgr: our stand-in for ssh comes first.
pub(super) fn env(directory: &Path) -> [(String, String); 2] {
    let path = env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", directory.join("bin").display());
    let home = directory.to_string_lossy().into_owned();
    [("PATH".to_owned(), path), ("HOME".to_owned(), home)]
}
