//! Configuration file of a Patroni agent.

use std::path::Path;

use super::Replication;

/// Facts about a node that its file states.
pub(super) struct Facts<'a> {
    pub(super) name: &'a str,
    pub(super) postgres_port: u16,
    pub(super) rest_port: u16,
    pub(super) etcd_port: u16,
    pub(super) replication: Replication,
    pub(super) data: &'a Path,
    pub(super) bin: &'a Path,
    /// Directory of the cluster, for the unix socket and the password file.
    pub(super) directory: &'a Path,
}

/// Returns the file's text: the shortest times that Patroni permits, for failovers that a test can wait for, and a
/// PostgreSQL that does not wait for the disk. Processes are killed here, machines are not.
pub(super) fn text(facts: &Facts<'_>) -> String {
    let Facts {
        name,
        postgres_port,
        rest_port,
        etcd_port,
        ..
    } = facts;
    let (data, bin) = (facts.data.display(), facts.bin.display());
    let directory = facts.directory.display();
    let is_synchronous = facts.replication == Replication::Synchronous;
    format!(
        "\
scope: drill
name: {name}
restapi:
  listen: 127.0.0.1:{rest_port}
  connect_address: 127.0.0.1:{rest_port}
etcd3:
  host: 127.0.0.1:{etcd_port}
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
  pg_hba:
    - local all all trust
    - host all all 127.0.0.1/32 trust
    - host replication all 127.0.0.1/32 trust
postgresql:
  listen: 127.0.0.1:{postgres_port}
  connect_address: 127.0.0.1:{postgres_port}
  data_dir: {data}
  bin_dir: {bin}
  pgpass: {directory}/{name}.pgpass
  basebackup:
    - checkpoint: fast
    - no-sync
  authentication:
    superuser:
      username: postgres
    replication:
      username: postgres
    rewind:
      username: postgres
  parameters:
    unix_socket_directories: '{directory}'
    fsync: 'off'
    shared_buffers: 32MB
    timezone: UTC
    log_timezone: UTC
    log_line_prefix: '%m [%p] %q%a '
"
    )
}
