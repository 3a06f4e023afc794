//! A primary and its streaming replicas, with every fault that a replica or a failover can show.
//!
//! Hosts have numbers: host 0 is the primary at the start, the others are its replicas. A number stays with its data
//! directory, whatever role the host takes later. Methods wait for what they ask for, up to [`LIMIT`]; none sleeps for a
//! fixed time.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use anyhow::ensure;

use crate::TempDir;
use crate::child;
use crate::child::Runner;
use crate::postgres;
use crate::postgres::Options;
use crate::tools;

mod host;

pub use host::Host;
pub use host::Shutdown;

use host::Upstream;

/// Time limit of each wait; a busy machine takes a while.
pub const LIMIT: Duration = Duration::from_secs(120);

/// Settings of all hosts, beside those of every test server. A replica must not have lower limits than its primary.
const SETTINGS: [&str; 14] = [
    "wal_level = replica",
    "max_wal_senders = 10",
    "max_replication_slots = 10",
    "max_prepared_transactions = 4",
    "wal_keep_size = 64MB",
    // A stopped replica must not fill the disk.
    "max_slot_wal_keep_size = 1GB",
    "max_wal_size = 256MB",
    "wal_log_hints = on",
    "full_page_writes = on",
    "synchronous_commit = on",
    "hot_standby_feedback = on",
    "wal_receiver_status_interval = 1s",
    "wal_retrieve_retry_interval = 100ms",
    "log_line_prefix = '%m [%p] %q%a '",
];

/// Running hosts; dropping it stops all of them and removes their files.
#[derive(Debug)]
pub struct Cluster {
    // Dropped before the directory of their files.
    hosts: Vec<Host>,
    directory: TempDir,
    /// Number of the host that was made primary last.
    primary: usize,
}

impl Cluster {
    /// Starts a primary and this number of replicas, with further lines for `postgresql.conf` of all hosts. Returns when
    /// all replicas stream.
    ///
    /// # Errors
    /// When PostgreSQL is not installed, or a host does not start in time.
    pub fn start(replicas: usize, settings: &[&str]) -> Result<Self> {
        let bin = tools::postgres_bin_dir()?;
        let directory = TempDir::new()?;
        let port = tools::free_port()?;
        let primary = Host::new(0, port, directory.path(), bin.clone());
        postgres::initialise(&bin, &directory, primary.data())?;
        let lines = SETTINGS.iter().chain(settings);
        let options = Options {
            settings: lines
                .map(|line| (*line).to_owned())
                .chain([format!("include '{}'", host::CONFIG)])
                .collect(),
            hba: vec!["host replication all 127.0.0.1/32 trust".to_owned()],
            ..Options::default()
        };
        postgres::configure(primary.data(), directory.path(), port, &options)?;
        primary.write_config(None)?;
        let mut cluster = Self {
            hosts: vec![primary],
            directory,
            primary: 0,
        };
        cluster.start_host(0)?;
        for _ in 0..replicas {
            cluster.add_replica()?;
        }
        Ok(cluster)
    }

    /// Copies the primary to a new replica, starts it and returns its number when it streams.
    ///
    /// # Errors
    /// When the copy fails or the replica does not start in time.
    pub fn add_replica(&mut self) -> Result<usize> {
        let number = self.hosts.len();
        let upstream = Upstream {
            port: self.primary().port(),
            slot: Some(format!("slot_{number}")),
        };
        let host = self.new_host()?;
        let mut copy = self.program("pg_basebackup")?;
        copy.arg("-D").arg(host.data());
        copy.args(["-h", "127.0.0.1", "-U", "postgres", "-X", "stream"]);
        copy.args(["-c", "fast", "--no-sync", "-C", "-S"]);
        copy.args([format!("slot_{number}"), format!("-p{}", upstream.port)]);
        tools::run(&mut copy)?;
        host.write_config(Some(&upstream))?;
        host.write("standby.signal", "")?;
        self.hosts.push(host);
        self.start_host(number)?;
        self.wait_streaming(number)?;
        Ok(number)
    }

    /// Copies the files of a stopped host and returns the number of the copy, which is not started. The copy has the
    /// role of its original, its timeline and its system identifier.
    ///
    /// # Errors
    /// When the host runs or the copy fails.
    pub fn clone_of(&mut self, original: usize) -> Result<usize> {
        let number = self.hosts.len();
        let copy = self.new_host()?;
        let original = self.host(original);
        ensure!(!original.is_running(), "only a stopped host can be copied");
        let mut cp = child::setpriv(Runner::Postgres, None)?;
        cp.args(["cp", "-a", "-T"])
            .args([original.data(), copy.data()]);
        tools::run(cp.current_dir("/"))?;
        copy.write_config(original.upstream()?.as_ref())?;
        self.hosts.push(copy);
        Ok(number)
    }

    /// Number of hosts.
    #[must_use]
    pub fn host_count(&self) -> usize {
        self.hosts.len()
    }

    /// Returns the host that was made primary last.
    #[must_use]
    pub fn primary(&self) -> &Host {
        self.host(self.primary)
    }

    /// Returns a host by its number.
    ///
    /// # Panics
    /// When there is no host of this number.
    #[must_use]
    pub fn host(&self, number: usize) -> &Host {
        self.hosts
            .get(number)
            .expect("the test names a host of its cluster")
    }

    /// Returns a replica by its number; the first one has number 1.
    ///
    /// # Panics
    /// When there is no host of this number, or it is the primary.
    #[must_use]
    pub fn replica(&self, number: usize) -> &Host {
        assert!(number != self.primary, "host {number} is the primary");
        self.host(number)
    }

    /// Waits until a replica has replayed all that is committed on the primary so far.
    ///
    /// # Errors
    /// When the replica does not get there in time.
    pub fn wait_until_replayed(&self, number: usize) -> Result<()> {
        let floor = self.primary().flush()?;
        self.wait_until_replayed_to(number, &floor)
    }

    /// Waits until a replica has replayed up to a position, as `0/3000060`.
    ///
    /// # Errors
    /// When the replica does not get there in time.
    pub fn wait_until_replayed_to(&self, number: usize, floor: &str) -> Result<()> {
        let sql = format!("SELECT pg_last_wal_replay_lsn() >= '{floor}'");
        self.host(number).wait_for(&sql, "t")
    }

    /// Waits until a replica receives from the present primary.
    ///
    /// # Errors
    /// When it does not connect in time.
    pub fn wait_streaming(&self, number: usize) -> Result<()> {
        let port = self.primary().port();
        let sql = format!(
            "SELECT count(*) FROM pg_stat_wal_receiver WHERE status = 'streaming' AND sender_port = {port}"
        );
        self.host(number).wait_for(&sql, "1")
    }

    /// Stops the replay of a replica, which goes on to receive.
    ///
    /// # Errors
    /// When the replica is not in recovery.
    pub fn pause_replay(&self, number: usize) -> Result<()> {
        let host = self.host(number);
        host.query("SELECT pg_wal_replay_pause()")?;
        host.wait_for("SELECT pg_get_wal_replay_pause_state()", "paused")
    }

    /// Lets a replica replay again.
    ///
    /// # Errors
    /// When the replica is not in recovery.
    pub fn resume_replay(&self, number: usize) -> Result<()> {
        let host = self.host(number);
        host.query("SELECT pg_wal_replay_resume()")?;
        host.wait_for("SELECT pg_get_wal_replay_pause_state()", "not paused")
    }

    /// Delays the replay of commits on a replica, by a time as `3s`; `0` ends it.
    ///
    /// # Errors
    /// When PostgreSQL refuses the time.
    pub fn delay(&self, number: usize, time: &str) -> Result<()> {
        self.set(number, "recovery_min_apply_delay", time)
    }

    /// Changes a setting of one host that needs no restart. The value is as `SHOW` prints it.
    ///
    /// # Errors
    /// When PostgreSQL refuses it, or does not take it over in time.
    pub fn set(&self, number: usize, name: &str, value: &str) -> Result<()> {
        let host = self.host(number);
        host.query(&format!("ALTER SYSTEM SET {name} = '{value}'"))?;
        host.query("SELECT pg_reload_conf()")?;
        host.wait_for(&format!("SHOW {name}"), value)
    }

    /// Makes a replica primary, and returns when it takes writes. The old primary is left as it is.
    ///
    /// # Errors
    /// When the promotion does not happen in time.
    pub fn promote(&mut self, number: usize) -> Result<()> {
        let host = self.host(number);
        let seconds = LIMIT.as_secs();
        let promoted = host.query_one(&format!("SELECT pg_promote(true, {seconds})"))?;
        ensure!(promoted == "t", "host {number} was not promoted");
        host.wait_for("SELECT pg_is_in_recovery()", "f")?;
        self.primary = number;
        Ok(())
    }

    /// Lets a replica follow the present primary, without a slot.
    ///
    /// # Errors
    /// When it does not connect in time.
    pub fn follow(&self, number: usize) -> Result<()> {
        let host = self.host(number);
        host.write_config(Some(&self.present()))?;
        host.query("SELECT pg_reload_conf()")?;
        self.wait_streaming(number)
    }

    /// Kills the postmaster of a host, and returns when none of its processes is left.
    ///
    /// # Errors
    /// When its other processes do not end in time.
    pub fn kill_9(&mut self, number: usize) -> Result<()> {
        self.host_mut(number).kill_9()
    }

    /// Stops a host.
    ///
    /// # Errors
    /// When it does not stop in time.
    pub fn stop(&mut self, number: usize, how: Shutdown) -> Result<()> {
        self.host_mut(number).stop(how)
    }

    /// Starts a stopped host, and returns when it accepts connections.
    ///
    /// # Errors
    /// When it does not start in time.
    pub fn start_host(&mut self, number: usize) -> Result<()> {
        self.host_mut(number).start()
    }

    /// Stops the process that receives WAL on a replica. PostgreSQL goes on to call it `streaming`.
    ///
    /// # Errors
    /// When the replica has no such process.
    pub fn freeze_receiver(&mut self, number: usize) -> Result<()> {
        self.host_mut(number).freeze_receiver()
    }

    /// Lets the process that receives WAL on a replica go on.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn thaw_receiver(&mut self, number: usize) -> Result<()> {
        self.host_mut(number).thaw_receiver()
    }

    /// Makes an old primary a replica of the present one: stops it, rewinds it, and returns when it streams. Settings
    /// of [`Cluster::set`] are lost.
    ///
    /// # Errors
    /// When `pg_rewind` fails, or the host does not stream in time.
    pub fn rejoin(&mut self, number: usize) -> Result<()> {
        self.stop(number, Shutdown::Fast)?;
        let upstream = self.present();
        // Without this, pg_rewind finds the old timeline in the control file and thinks that nothing is to be done.
        self.primary().query("CHECKPOINT")?;
        let mut rewind = self.program("pg_rewind")?;
        rewind.arg("--no-sync").arg("--target-pgdata");
        rewind.arg(self.host(number).data()).arg("--source-server");
        rewind.arg(format!(
            "host=127.0.0.1 port={} user=postgres dbname=postgres",
            upstream.port
        ));
        tools::run(&mut rewind)?;
        let host = self.host(number);
        // Both are now copies of the new primary's.
        host.write("postgresql.auto.conf", "")?;
        host.write_config(Some(&upstream))?;
        host.write("standby.signal", "")?;
        self.start_host(number)?;
        self.wait_streaming(number)
    }

    /// Restarts an old primary as a replica without a rewind. If it has written since the promotion of the present
    /// primary, it answers queries from its own past, and never streams.
    ///
    /// # Errors
    /// When the host does not start in time.
    pub fn rejoin_without_rewind(&mut self, number: usize) -> Result<()> {
        self.stop(number, Shutdown::Fast)?;
        let host = self.host(number);
        host.write_config(Some(&self.present()))?;
        host.write("standby.signal", "")?;
        self.start_host(number)
    }

    /// Ends a host as a crash does and starts it as a standby, as agents such as Patroni do with a primary that has crashed.
    /// Returns when it accepts connections. It stays the present primary: [`Cluster::promote`] makes it one again.
    ///
    /// # Errors
    /// When the host does not start in time.
    pub fn restart_in_recovery(&mut self, number: usize) -> Result<()> {
        self.stop(number, Shutdown::Immediate)?;
        self.host(number).write("standby.signal", "")?;
        self.start_host(number)
    }

    /// Present primary as an upstream without a slot.
    fn present(&self) -> Upstream {
        Upstream {
            port: self.primary().port(),
            slot: None,
        }
    }

    /// Host with the next number, whose files are still to be made.
    fn new_host(&self) -> Result<Host> {
        let port = tools::free_port()?;
        let bin = tools::postgres_bin_dir()?;
        Ok(Host::new(
            self.hosts.len(),
            port,
            self.directory.path(),
            bin,
        ))
    }

    /// Command for one of PostgreSQL's programs, as the user who owns the files.
    fn program(&self, name: &str) -> Result<Command> {
        let mut command = child::setpriv(Runner::Postgres, None)?;
        command.arg(tools::postgres_bin_dir()?.join(name));
        command.current_dir("/");
        Ok(command)
    }

    fn host_mut(&mut self, number: usize) -> &mut Host {
        self.hosts
            .get_mut(number)
            .expect("the test names a host of its cluster")
    }
}
