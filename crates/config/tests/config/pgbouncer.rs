//! Tests that all of PgBouncer's options exist, with its defaults, and that a reload changes the same ones.

use weir_config::{Opt, Scope};

/// Name and default; `!` in front of options that need a restart in PgBouncer.
const GLOBAL: &str = "\
logfile=
!pidfile=
!listen_addr=
!listen_port=6432
!listen_backlog=128
!unix_socket_dir=/tmp
!unix_socket_mode=0777
!unix_socket_group=
!user=
pool_mode=session
max_client_conn=100
default_pool_size=20
min_pool_size=0
reserve_pool_size=0
reserve_pool_timeout=5
max_db_connections=0
max_db_client_connections=0
max_user_connections=0
max_user_client_connections=0
server_round_robin=0
!track_extra_parameters=IntervalStyle
ignore_startup_parameters=
peer_id=0
!disable_pqexec=0
application_name_add_host=0
conffile=
!service_name=pgbouncer
!job_name=pgbouncer
stats_period=60
max_prepared_statements=200
scram_iterations=4096
login_notify_message=
auth_type=md5
auth_file=
auth_hba_file=
auth_ident_file=
auth_user=
auth_dbname=
auth_ldap_options=
log_connections=1
log_disconnections=1
log_pooler_errors=1
log_stats=1
verbose=0
syslog=0
syslog_ident=pgbouncer
syslog_facility=daemon
admin_users=
stats_users=
server_reset_query=DISCARD ALL
server_reset_query_always=0
server_check_delay=30
server_check_query=<empty>
server_fast_close=0
server_lifetime=3600
server_idle_timeout=600
server_connect_timeout=15
server_login_retry=15
client_login_timeout=60
autodb_idle_timeout=3600
pool_idle_timeout=0
dns_max_ttl=15
dns_nxdomain_ttl=15
dns_zone_check_period=0
!resolv_conf=
query_timeout=0
query_wait_timeout=120
query_wait_notify=5
cancel_wait_timeout=10
client_idle_timeout=0
idle_transaction_timeout=0
transaction_timeout=0
suspend_timeout=10
client_tls_sslmode=disable
client_tls_key_file=
client_tls_cert_file=
client_tls_ca_file=
client_tls_protocols=secure
client_tls_ciphers=default
client_tls13_ciphers=
client_tls_ecdhcurve=auto
client_tls_dheparams=auto
server_tls_sslmode=prefer
server_tls_key_file=
server_tls_cert_file=
server_tls_ca_file=
server_tls_protocols=secure
server_tls_ciphers=default
server_tls13_ciphers=
!pkt_buf=4096
max_packet_size=2147483647
sbuf_loopcnt=5
!so_reuseport=0
tcp_defer_accept=1
tcp_keepalive=1
tcp_keepcnt=0
tcp_keepidle=0
tcp_keepintvl=0
tcp_socket_buffer=0
tcp_user_timeout=0";

const DATABASE: &str = "dbname host port user password auth_user auth_query auth_dbname pool_size min_pool_size \
    reserve_pool_size reserve_pool connect_query pool_mode query_wait_timeout load_balance_hosts max_db_connections \
    max_db_client_connections server_lifetime client_encoding datestyle timezone application_name";
const USER: &str = "pool_mode pool_size reserve_pool_size max_user_connections max_user_client_connections \
    transaction_timeout idle_transaction_timeout query_timeout query_wait_timeout client_idle_timeout";
const PEER: &str = "host port pool_size";

#[test]
fn global_options_have_pgbouncers_defaults_and_reload_as_there() {
    for line in GLOBAL.lines() {
        let (name, default) = line.split_once('=').unwrap();
        let key = name.trim_start_matches('!');
        let opt = Scope::Global.find(key);
        let opt = opt.unwrap_or_else(|| panic!("{key} is missing"));
        assert_eq!(opt.default, Some(default), "{key}");
        assert_eq!(opt.reloadable, key == name, "{key}");
    }
    let query = Scope::Global.find("auth_query").and_then(|opt| opt.default);
    assert_eq!(query, Some(weir_config::AUTH_QUERY));
}

#[test]
fn entries_take_pgbouncers_keys_and_inherit_by_default() {
    for (scope, keys) in [
        (Scope::Database, DATABASE),
        (Scope::User, USER),
        (Scope::Peer, PEER),
    ] {
        for key in keys.split_whitespace() {
            assert!(scope.find(key).is_some(), "{key} is missing");
        }
    }
    let default = |scope: Scope, key| scope.find(key).and_then(|opt: &Opt| opt.default);
    assert_eq!(default(Scope::Database, "port"), Some("5432"));
    assert_eq!(
        default(Scope::Database, "load_balance_hosts"),
        Some("round-robin")
    );
    assert_eq!(default(Scope::Peer, "port"), Some("6432"));
    assert_eq!(default(Scope::Database, "pool_size"), None);
}
