//! Configuration files of the programs that Weir is compared with.

use std::net::SocketAddr;
use std::path::Path;

/// Children of Pgpool-II: one for each client.
const CHILDREN: u32 = 150;

/// PgBouncer beside a host. Before 1.21 it knows no prepared statements in transaction mode, so the mode is `session`.
pub(super) fn pgbouncer(port: u16, host: SocketAddr, users: &Path) -> String {
    let users = users.display();
    let (address, host_port) = (host.ip(), host.port());
    format!(
        "[databases]
* = host={address} port={host_port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {users}
pool_mode = session
default_pool_size = 150
server_login_retry = 1
max_client_conn = 400
"
    )
}

/// HAProxy as in Patroni's own template, with a shorter interval. Each server is a PgBouncer's port and the address of
/// its host's agent.
pub(super) fn haproxy(port: u16, servers: &[(u16, SocketAddr)]) -> String {
    let mut text = format!(
        "global
    maxconn 1000
defaults
    mode tcp
    retries 2
    timeout client 30m
    timeout connect 4s
    timeout server 30m
    timeout check 5s
listen primary
    bind 127.0.0.1:{port}
    option httpchk OPTIONS /primary
    http-check expect status 200
    default-server inter 1s fall 2 rise 1 on-marked-down shutdown-sessions
"
    );
    for (number, (pooler, agent)) in servers.iter().enumerate() {
        text.push_str(&format!(
            "    server n{number} 127.0.0.1:{pooler} maxconn 300 check addr {} port {}\n",
            agent.ip(),
            agent.port()
        ));
    }
    text
}

/// Pgpool-II over hosts that Patroni manages: it promotes nothing, looks for the new primary by itself, and takes hosts
/// back that stream again.
pub(super) fn pgpool([port, pcp]: [u16; 2], directory: &Path, hosts: &[SocketAddr]) -> String {
    let directory = directory.display();
    let mut text = format!(
        "backend_clustering_mode = 'streaming_replication'
listen_addresses = '127.0.0.1'
port = {port}
pcp_listen_addresses = ''
pcp_port = {pcp}
socket_dir = '{directory}'
pcp_socket_dir = '{directory}'
pid_file_name = '{directory}/pgpool.pid'
logdir = '{directory}'
num_init_children = {CHILDREN}
max_pool = 1
load_balance_mode = on
sr_check_period = 1
sr_check_user = 'postgres'
sr_check_database = 'postgres'
health_check_period = 1
health_check_timeout = 3
health_check_user = 'postgres'
health_check_database = 'postgres'
health_check_max_retries = 2
health_check_retry_delay = 1
failover_command = ''
follow_primary_command = ''
failover_on_backend_error = on
search_primary_node_timeout = 60
auto_failback = on
auto_failback_interval = 5
"
    );
    for (number, host) in hosts.iter().enumerate() {
        let (address, host_port) = (host.ip(), host.port());
        text.push_str(&format!(
            "backend_hostname{number} = '{address}'
backend_port{number} = {host_port}
backend_weight{number} = 1
backend_flag{number} = 'ALLOW_TO_FAILOVER'
backend_application_name{number} = 'n{number}'
"
        ));
    }
    text
}
