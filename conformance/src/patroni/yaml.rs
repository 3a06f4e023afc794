//! Configuration file of a Patroni agent.

use std::net::SocketAddr;
use std::path::Path;

use super::Replication;

/// Facts about a node that its file states.
pub(super) struct Facts<'a> {
    pub(super) name: &'a str,
    pub(super) postgres: SocketAddr,
    pub(super) rest: SocketAddr,
    pub(super) etcd: SocketAddr,
    pub(super) replication: Replication,
    pub(super) data: &'a Path,
    pub(super) bin: &'a Path,
    /// Directory of the cluster, for the password file.
    pub(super) directory: &'a Path,
    /// Directory of the WAL, if it is not in the data directory.
    pub(super) wal: Option<&'a Path>,
}

/// Returns the file's text: the shortest times that Patroni permits, for failovers that a test can wait for, and a
/// PostgreSQL that does not wait for the disk. Processes are killed here, machines are not.
pub(super) fn text(facts: &Facts<'_>) -> String {
    let Facts {
        name,
        postgres,
        rest,
        etcd,
        ..
    } = facts;
    let (data, bin) = (facts.data.display(), facts.bin.display());
    let directory = facts.directory.display();
    let is_synchronous = facts.replication == Replication::Synchronous;
    let wal = facts.wal.map_or_else(String::new, wal_line);
    format!(
        "\
scope: drill
name: {name}
restapi:
  listen: {rest}
  connect_address: {rest}
etcd3:
  host: {etcd}
bootstrap:
  dcs:
    ttl: 20
    loop_wait: 2
    retry_timeout: 3
    maximum_lag_on_failover: 16777216
    synchronous_mode: {is_synchronous}
    postgresql:
      use_pg_rewind: true
      use_slots: true
      parameters:
        max_connections: 300
        wal_log_hints: 'on'
        wal_keep_size: 64MB
        max_slot_wal_keep_size: 1GB
        hot_standby_feedback: 'on'
        wal_receiver_status_interval: 1s
  initdb:
    - encoding: UTF8
    - locale: C
    - auth: trust
    - no-sync
{wal}  pg_hba:
    - host all all samenet trust
    - host replication all samenet trust
postgresql:
  listen: {postgres}
  connect_address: {postgres}
  data_dir: {data}
  bin_dir: {bin}
  pgpass: {directory}/{name}.pgpass
  basebackup:
    - checkpoint: fast
    - no-sync
{wal}  authentication:
    superuser:
      username: postgres
    replication:
      username: postgres
    rewind:
      username: postgres
  parameters:
    unix_socket_directories: ''
    fsync: 'off'
    shared_buffers: 32MB
    timezone: UTC
    log_timezone: UTC
    log_line_prefix: '%m [%p] %q%a '
"
    )
}

/// Option of initdb and of pg_basebackup.
fn wal_line(wal: &Path) -> String {
    format!("    - waldir: {}\n", wal.display())
}
