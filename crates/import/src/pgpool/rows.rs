//! Settings of Pgpool-II whose fate is decided by their name and value alone.

use crate::apply::How;

const PROCESSES: &str = "workers are threads, and each serves many clients";
const CACHED: &str = "servers are shared by all clients of a database and user";
const WATCHED: &str =
    "hosts are watched all the time; see probe_interval, probe_timeout, probe_fall";
const ROLES: &str = "Weir asks each host for its role";
const NO_SCRIPTS: &str = "Weir promotes and repairs no server: use Patroni or repmgr, which Weir follows (failover_hints)";
const LOG_LINES: &str = "log lines have a fixed form; see log_format and verbose";
const ROTATION: &str = "rotate logfile from outside";
const NO_RULE: &str = "use a query rule with log, see docs/guide/rules.md";
const CLUSTER: &str = "Weir has no watchdog: use keepalived, or several Weir with [peers]";
const NO_CACHE: &str = "Weir has no cache of results";
const CONSOLE: &str = "the console on the client port does this; see admin_users";
const JUDGED: &str = "statements are judged by PostgreSQL's grammar and the catalogue";
const ONE_SET: &str = "not needed to agree on TLS";

/// Settings that are copied, each to an option of its own.
pub(super) const COPIED: &[(&str, How)] = &[
    ("listen_addresses", How::List("listen_addr")),
    ("port", How::Number("listen_port")),
    ("unix_socket_group", How::Copy("unix_socket_group")),
    ("unix_socket_permissions", How::Copy("unix_socket_mode")),
    ("connection_life_time", How::Seconds("server_idle_timeout")),
    ("client_idle_limit", How::Seconds("client_idle_timeout")),
    (
        "authentication_timeout",
        How::Seconds("client_login_timeout"),
    ),
    ("connect_timeout", How::Millis("server_connect_timeout")),
    ("log_connections", How::Flag("log_connections")),
    ("log_disconnections", How::Flag("log_disconnections")),
    ("syslog_ident", How::Copy("syslog_ident")),
    ("pid_file_name", How::Copy("pidfile")),
];

/// Settings that are not copied.
pub(super) const OTHERS: &[(How, &[&str])] = &[
    (
        How::Nothing(PROCESSES),
        &[
            "serialize_accept",
            "process_management_mode",
            "process_management_strategy",
            "min_spare_children",
            "max_spare_children",
            "child_life_time",
            "child_max_connections",
            "reserved_connections",
        ],
    ),
    (How::Nothing(CACHED), &["max_pool", "connection_cache"]),
    (
        How::Nothing(WATCHED),
        &[
            "health_check_period",
            "health_check_timeout",
            "health_check_max_retries",
            "health_check_retry_delay",
            "sr_check_period",
            "failover_on_backend_error",
            "fail_over_on_backend_error",
            "failover_on_backend_shutdown",
            "search_primary_node_timeout",
            "auto_failback",
            "auto_failback_interval",
            "detach_false_primary",
            "replication_delay_source_cmd",
            "replication_delay_source_timeout",
        ],
    ),
    (
        How::Nothing("replicas that are too old get no reads; the others share them by weight"),
        &["prefer_lower_delay_standby"],
    ),
    (
        How::Nothing(ROLES),
        &["backend_data_directory", "backend_application_name"],
    ),
    (
        How::Not("", NO_SCRIPTS),
        &[
            "failover_command",
            "failback_command",
            "follow_primary_command",
            "follow_master_command",
            "recovery_1st_stage_command",
            "recovery_2nd_stage_command",
        ],
    ),
    (
        How::Nothing("Weir repairs no server"),
        &[
            "recovery_user",
            "recovery_password",
            "recovery_timeout",
            "client_idle_limit_in_recovery",
        ],
    ),
    (
        How::Nothing(LOG_LINES),
        &[
            "log_line_prefix",
            "log_hostname",
            "log_error_verbosity",
            "client_min_messages",
            "log_min_messages",
            "log_standby_delay",
            "log_backend_messages",
        ],
    ),
    (
        How::Not("off", NO_RULE),
        &[
            "log_statement",
            "log_per_node_statement",
            "log_client_messages",
            "notice_per_node_statement",
        ],
    ),
    (
        How::Not("off", "set logfile, and rotate it from outside"),
        &["logging_collector"],
    ),
    (
        How::Nothing(ROTATION),
        &[
            "log_directory",
            "log_filename",
            "log_file_mode",
            "log_truncate_on_rotation",
            "log_rotation_age",
            "log_rotation_size",
        ],
    ),
    (
        How::Nothing("Weir keeps no state in files"),
        &["logdir", "work_dir"],
    ),
    (
        How::Nothing(CONSOLE),
        &["pcp_listen_addresses", "pcp_port", "pcp_socket_dir"],
    ),
    (
        How::Nothing("only for the native replication of Pgpool-II"),
        &[
            "replicate_select",
            "insert_lock",
            "lobj_lock_table",
            "replication_stop_on_mismatch",
            "failover_if_affected_tuples_mismatch",
        ],
    ),
    (
        How::Nothing(JUDGED),
        &[
            "ignore_leading_white_space",
            "check_temp_table",
            "check_unlogged_table",
            "enable_shared_relcache",
            "relcache_expire",
            "relcache_size",
            "relcache_query_target",
            "track_table_mutation",
            "track_table_mutation_ttl",
            "dml_adaptive_init_delay",
        ],
    ),
    (
        How::Not("off", "Weir reads hints in comments, see comment_hints"),
        &["allow_sql_comments"],
    ),
    (
        How::Not(
            "",
            "statements that a replica refuses run on the primary; for others use a query rule that routes, see docs/guide/rules.md",
        ),
        &["primary_routing_query_pattern_list"],
    ),
    (
        How::Not(
            "",
            "give the database an entry of its own with target, see docs/guide/replicas.md",
        ),
        &["database_redirect_preference_list"],
    ),
    (
        How::Not(
            "",
            "use a query rule with match.application_name that routes, see docs/guide/rules.md",
        ),
        &["app_name_redirect_preference_list"],
    ),
    (
        How::Not("", "list the functions in primary_functions"),
        &["dml_adaptive_object_relationship_list"],
    ),
    (
        How::Not(
            "",
            "the certificates of an authority are one file, see client_tls_ca_file",
        ),
        &["ssl_ca_cert_dir"],
    ),
    (
        How::Not("", "a private key must not be encrypted"),
        &["ssl_passphrase_command"],
    ),
    (
        How::Nothing(ONE_SET),
        &["ssl_prefer_server_ciphers", "ssl_dh_params_file"],
    ),
    (
        How::Not("prime256v1", "see client_tls_ecdhcurve"),
        &["ssl_ecdh_curve"],
    ),
    (
        How::Not(
            "HIGH:MEDIUM:+3DES:!aNULL",
            "see client_tls_ciphers and server_tls_ciphers",
        ),
        &["ssl_ciphers"],
    ),
    (How::Not("off", CLUSTER), &["use_watchdog"]),
    (How::Not("off", NO_CACHE), &["memory_cache_enabled"]),
];

/// Settings of parts that are off unless the setting in front is on.
pub(super) const PARTS: &[(&str, &str, &[&str])] = &[
    (
        "use_watchdog",
        "part of use_watchdog",
        &[
            "trusted_servers",
            "trusted_server_command",
            "ping_path",
            "hostname",
            "wd_hostname",
            "wd_port",
            "pgpool_port",
            "pgpool_node_id",
            "wd_priority",
            "wd_authkey",
            "wd_ipc_socket_dir",
            "delegate_ip",
            "delegate_IP",
            "if_cmd_path",
            "if_up_cmd",
            "if_down_cmd",
            "arping_path",
            "arping_cmd",
            "clear_memqcache_on_escalation",
            "wd_escalation_command",
            "wd_de_escalation_command",
            "failover_when_quorum_exists",
            "failover_require_consensus",
            "allow_multiple_failover_requests_from_node",
            "enable_consensus_with_half_votes",
            "wd_remove_shutdown_nodes",
            "wd_lost_node_removal_timeout",
            "wd_no_show_node_removal_timeout",
            "wd_monitoring_interfaces_list",
            "wd_lifecheck_method",
            "wd_interval",
            "heartbeat_hostname",
            "heartbeat_port",
            "heartbeat_device",
            "heartbeat_destination",
            "heartbeat_destination_port",
            "wd_heartbeat_port",
            "wd_heartbeat_keepalive",
            "wd_heartbeat_deadtime",
            "wd_life_point",
            "wd_lifecheck_query",
            "wd_lifecheck_dbname",
            "wd_lifecheck_user",
            "wd_lifecheck_password",
            "other_pgpool_hostname",
            "other_pgpool_port",
            "other_wd_port",
        ],
    ),
    (
        "memory_cache_enabled",
        "part of memory_cache_enabled",
        &[
            "memqcache_method",
            "memqcache_memcached_host",
            "memqcache_memcached_port",
            "memqcache_total_size",
            "memqcache_max_num_cache",
            "memqcache_expire",
            "memqcache_auto_cache_invalidation",
            "memqcache_maxcache",
            "memqcache_cache_block_size",
            "memqcache_oiddir",
            "cache_safe_memqcache_table_list",
            "cache_unsafe_memqcache_table_list",
            "white_memqcache_table_list",
            "black_memqcache_table_list",
        ],
    ),
];

/// Settings that may end in the number of a node.
pub(super) const NUMBERED: &[&str] = &[
    "backend_hostname",
    "backend_port",
    "backend_weight",
    "backend_data_directory",
    "backend_flag",
    "backend_application_name",
    "health_check_period",
    "health_check_timeout",
    "health_check_user",
    "health_check_password",
    "health_check_database",
    "health_check_max_retries",
    "health_check_retry_delay",
    "connect_timeout",
    "hostname",
    "wd_port",
    "pgpool_port",
    "heartbeat_hostname",
    "heartbeat_port",
    "heartbeat_device",
    "heartbeat_destination",
    "heartbeat_destination_port",
    "other_pgpool_hostname",
    "other_pgpool_port",
    "other_wd_port",
];

/// Defaults that clients or servers notice.
pub(super) const DEFAULTS: &str = r#"
listen_addresses = "localhost"
port = 9999
num_init_children = 32
max_pool = 4
listen_backlog_multiplier = 2
connection_life_time = 0
connect_timeout = 10000
log_connections = false
log_disconnections = false
load_balance_mode = true
ssl = false
delay_threshold = 0
delay_threshold_by_time = 0
disable_load_balance_on_write = "transaction"
"#;
