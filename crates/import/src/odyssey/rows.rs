//! Settings of Odyssey outside of routes whose fate is decided by their name and value alone.

use crate::apply::How;

const STACKS: &str = "Weir has no coroutines";
const BUFFERS: &str = "buffers have fixed limits";
const ALWAYS: &str = "Weir always does this";
const GONE: &str = "Odyssey ignores it too";
const PART: &str = "part of a setting that is not mapped";
const METRICS: &str = "metrics of routes are always there";

/// Settings of the process.
pub(super) const GLOBAL: &[(&str, How)] = &[
    ("client_max", How::Number("max_client_conn")),
    (
        "backend_connect_timeout_ms",
        How::Millis("server_connect_timeout"),
    ),
    ("graceful_shutdown_timeout_ms", How::Millis("drain_timeout")),
    ("bindwith_reuseport", How::Flag("so_reuseport")),
    ("keepalive_keep_interval", How::Seconds("tcp_keepintvl")),
    ("keepalive_probes", How::Number("tcp_keepcnt")),
    ("keepalive_usr_timeout", How::Millis("tcp_user_timeout")),
    ("unix_socket_dir", How::Copy("unix_socket_dir")),
    ("unix_socket_mode", How::Copy("unix_socket_mode")),
    ("pid_file", How::Copy("pidfile")),
    ("log_file", How::Copy("logfile")),
    ("log_stats", How::Flag("log_stats")),
    ("stats_interval", How::Seconds("stats_period")),
    ("log_syslog", How::Flag("syslog")),
    ("log_syslog_ident", How::Copy("syslog_ident")),
    ("log_syslog_facility", How::Copy("syslog_facility")),
    ("dns_cache_ttl", How::Millis("dns_max_ttl")),
    ("cancel_timeout_ms", How::Millis("cancel_wait_timeout")),
    ("availability_zone", How::Copy("az")),
];

/// Settings of the process that are not copied.
pub(super) const OTHERS: &[(How, &[&str])] = &[
    (
        How::Nothing("the service manager does this"),
        &["daemonize", "priority", "locks_dir"],
    ),
    (
        How::Nothing("weir upgrade replaces a running Weir"),
        &["enable_online_restart", "online_restart_drop_options"],
    ),
    (
        How::Nothing(ALWAYS),
        &[
            "nodelay",
            "log_to_stdout",
            "log_config",
            "log_async",
            "smart_search_path_enquoting",
        ],
    ),
    (
        How::Nothing(STACKS),
        &[
            "cache_coroutine",
            "coroutine_stack_size",
            "virtual_processing",
        ],
    ),
    (
        How::Nothing(BUFFERS),
        &[
            "readahead",
            "cache_msg_gc_size",
            "pipeline",
            "cache",
            "cache_chunk",
            "packet_read_size",
            "packet_write_queue",
            "log_queue_depth",
            "resolvers",
        ],
    ),
    (How::Nothing(GONE), &["graceful_die_on_errors"]),
    (
        How::Nothing("see verbose, and the variable WEIR_LOG"),
        &["log_debug"],
    ),
    (
        How::Nothing(METRICS),
        &["log_general_stats_prom", "log_route_stats_prom"],
    ),
    (
        How::Nothing("a second signal ends Weir at once"),
        &["max_sigterms_to_die"],
    ),
    (
        How::Nothing(
            "Weir tries again while the client waits; its server_login_retry is another time",
        ),
        &["server_login_retry"],
    ),
    (
        How::Nothing(
            "logins of clients are not limited, those to servers by server_connect_concurrency",
        ),
        &["client_max_routing"],
    ),
    (
        How::Nothing("the sequence of routes is that of the HBA file, if there is one"),
        &["sequential_routing"],
    ),
    (
        How::Nothing("roles are asked in the database of auth_query"),
        &["group_checker_interval"],
    ),
    (
        How::Not("no", "use a query rule with log, see docs/guide/rules.md"),
        &["log_query"],
    ),
    (
        How::Not("no", "Weir sets SO_LINGER on no socket"),
        &["disable_nolinger"],
    ),
    (
        How::Not("no", "watch the machine with other means"),
        &["enable_host_watcher"],
    ),
    (
        How::Not("", "use the service manager's CPUAffinity"),
        &["cpu_affinity"],
    ),
    (
        How::Not(
            "",
            "Weir has no logins by a module of its own; see auth_type",
        ),
        &["external_auth_socket_path"],
    ),
    (
        How::Nothing("cancels are bounded by cancel_requests_per_second"),
        &["cancel_queue_timeout_ms", "cancel_max_inflight"],
    ),
];

/// Blocks whose settings have no counterpart.
pub(super) const BLOCKS: &[(How, &[&str])] = &[
    (
        How::Nothing("weir upgrade keeps all clients"),
        &["conn_drop_options", "online_restart_drop_options"],
    ),
    (
        How::Not("", "limit the memory by the service manager"),
        &["soft_oom"],
    ),
    (
        How::Not(
            "",
            "set auth_type = \"ldap\" and auth_ldap_options, see docs/guide/ldap-and-pam.md",
        ),
        &["ldap_endpoint"],
    ),
];

/// Settings of routes that are not copied.
pub(super) const ROUTE: &[(How, &[&str])] = &[
    (
        How::Nothing(ALWAYS),
        &[
            "pool_cancel",
            "pool_rollback",
            "pool_pin_on_listen",
            "maintain_params",
            "reserve_session_server_connection",
            "server_drop_on_cached_plan_error",
            "client_fwd_error",
        ],
    ),
    (
        How::Nothing(
            "session state is followed, and a server is checked before another client gets it",
        ),
        &[
            "pool_smart_discard",
            "pool_attach_check",
            "pool_reset_timeout_ms",
        ],
    ),
    (
        How::Nothing("SHOW STATS and the metrics have quantiles"),
        &["quantiles"],
    ),
    (
        How::Nothing("see verbose, and the variable WEIR_LOG"),
        &["log_debug"],
    ),
    (
        How::Not("no", "use a query rule with log, see docs/guide/rules.md"),
        &["log_query"],
    ),
    (How::Nothing("errors name no ids"), &["client_show_id"]),
    (
        How::Nothing("every pool belongs to a database and a user"),
        &["pool_routing"],
    ),
    (
        How::Not("no", "clients wait for a server up to query_wait_timeout"),
        &["pool_acquire_fail_fast"],
    ),
    (
        How::Not(
            "no",
            "clients' passwords are checked by Weir: use auth_query",
        ),
        &["password_passthrough"],
    ),
    (
        How::Not("", "Weir loads no modules; see auth_type"),
        &["auth_module"],
    ),
    (
        How::Not("no", "Weir has no logins by a cloud's tokens"),
        &["enable_mdb_iamproxy_auth"],
    ),
    (How::Nothing(PART), &["mdb_iamproxy_socket_path"]),
    (
        How::Not(
            "",
            "set auth_type = \"ldap\" and auth_ldap_options, see docs/guide/ldap-and-pam.md",
        ),
        &["ldap_endpoint_name", "ldap_storage_credentials_attr"],
    ),
    (
        How::Nothing(GONE),
        &[
            "ldap_pool_size",
            "ldap_pool_timeout",
            "ldap_pool_ttl",
            "catchup_checks",
        ],
    ),
    (
        How::Nothing("see max_staleness, which replicas must meet for reads"),
        &[
            "catchup_timeout",
            "watchdog_lag_query",
            "watchdog_lag_interval",
        ],
    ),
    (
        How::Nothing("part of the group; the HBA file asks PostgreSQL for members of a role"),
        &["group_query", "group_query_user", "group_query_db"],
    ),
];

/// Defaults outside of routes that clients or servers notice.
pub(super) const DEFAULTS: &str = r#"
client_max = 1000000
workers = 1
backend_connect_timeout_ms = 30000
graceful_shutdown_timeout_ms = 30000
bindwith_reuseport = true
keepalive = 15
keepalive_keep_interval = 5
keepalive_probes = 3
stats_interval = 3
dns_cache_ttl = 30000
cancel_timeout_ms = 1000
"#;

/// Defaults of a route, which stand for settings that it does not have.
pub(super) const ROUTE_DEFAULTS: &[(&str, &str)] = &[
    ("authentication", ""),
    ("pool", "session"),
    ("pool_size", "0"),
    ("min_pool_size", "0"),
    ("pool_timeout", "0"),
    ("pool_ttl", "0"),
    ("server_lifetime", "3600"),
    ("pool_client_idle_timeout", "0"),
    ("pool_idle_in_transaction_timeout", "0"),
    ("pool_discard", "true"),
    ("pool_discard_query", ""),
    ("pool_reserve_prepared_statement", "true"),
    ("pool_notice_after_waiting_ms", "0"),
    ("application_name_add_host", "false"),
    ("target_session_attrs", ""),
];
