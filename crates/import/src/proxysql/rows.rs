//! Variables and columns of ProxySQL whose fate is decided by their name and value alone.

use crate::apply::How;

const WATCHED: &str =
    "hosts are watched all the time; see probe_interval, probe_timeout, probe_fall";
const RETRIES: &str = "statements that have had no effect run again when their server is lost";
const STATS: &str = "see SHOW STATS, SHOW DIGESTS and the metrics";
const BUILT_IN: &str = "session state follows the client or keeps it on its server";
const NO_CACHE: &str = "Weir has no cache of results; only rules with cache_ttl use it";
const SLEEPS: &str = "workers wake up when something happens";
const NO_RULE: &str = "use a query rule with log, see docs/guide/rules.md";
const UNUSED: &str = "a part of ProxySQL for MySQL, or without effect";
const LISTS: &str = "see statement_policy in docs/guide/rules.md";
const CONSOLE: &str = "the console is on the port of the clients";

/// Variables that are copied, each to an option of its own.
pub(super) const COPIED: &[(&str, How)] = &[
    ("threads", How::Number("workers")),
    ("max_connections", How::Number("max_client_conn")),
    (
        "connect_timeout_server",
        How::Millis("server_connect_timeout"),
    ),
    (
        "connect_timeout_server_max",
        How::Millis("query_wait_timeout"),
    ),
    (
        "connect_timeout_client",
        How::Millis("client_login_timeout"),
    ),
    ("wait_timeout", How::Millis("client_idle_timeout")),
    (
        "max_transaction_idle_time",
        How::Millis("idle_transaction_timeout"),
    ),
    ("max_transaction_time", How::Millis("transaction_timeout")),
    ("default_query_timeout", How::Millis("query_timeout")),
    ("use_tcp_keepalive", How::Flag("tcp_keepalive")),
    ("tcp_keepalive_time", How::Seconds("tcp_keepidle")),
    ("ssl_p2s_ca", How::Copy("server_tls_ca_file")),
    ("ssl_p2s_cert", How::Copy("server_tls_cert_file")),
    ("ssl_p2s_key", How::Copy("server_tls_key_file")),
    ("ssl_p2s_crl", How::Copy("server_tls_crl_file")),
];

/// Variables that are not copied.
pub(super) const VARIABLES: &[(How, &[&str])] = &[
    (
        How::Nothing(RETRIES),
        &[
            "connect_retries_on_failure",
            "connect_retries_delay",
            "query_retries_on_failure",
            "default_reconnect",
            "preserve_client_on_broken_backend_in_tx",
        ],
    ),
    (
        How::Nothing(WATCHED),
        &[
            "shun_on_failures",
            "shun_recovery_time_sec",
            "unshun_algorithm",
            "ping_interval_server_msec",
            "ping_timeout_server",
            "min_num_servers_lantency_awareness",
            "default_max_latency_ms",
        ],
    ),
    (
        How::Nothing(BUILT_IN),
        &[
            "set_query_lock_on_hostgroup",
            "set_parser_algorithm",
            "connection_delay_multiplex_ms",
            "auto_increment_delay_multiplex",
            "auto_increment_delay_multiplex_timeout_ms",
            "keep_multiplexing_variables",
            "autocommit_false_not_reusable",
            "autocommit_false_is_transaction",
            "enforce_autocommit_on_reads",
        ],
    ),
    (
        How::Nothing("servers that are idle are closed after server_idle_timeout"),
        &["free_connections_pct", "connection_warming"],
    ),
    (
        How::Nothing(NO_CACHE),
        &[
            "query_cache_size_MB",
            "query_cache_soft_ttl_pct",
            "query_cache_handle_warnings",
            "query_cache_stores_empty_result",
        ],
    ),
    (
        How::Nothing(STATS),
        &[
            "commands_stats",
            "servers_stats",
            "long_query_time",
            "stats_time_backend_query",
            "stats_time_query_processor",
            "query_digests",
            "query_digests_lowercase",
            "query_digests_replace_null",
            "query_digests_no_digits",
            "query_digests_normalize_digest_text",
            "query_digests_track_hostname",
            "query_digests_keep_comment",
            "query_digests_max_digest_length",
            "query_digests_max_query_length",
            "query_digests_grouping_limit",
            "query_digests_groups_grouping_limit",
            "parse_failure_logs_digest",
            "show_processlist_extended",
            "session_idle_show_processlist",
            "processlist_max_query_length",
            "log_unhealthy_connections",
            "verbose_query_error",
            "hostgroup_manager_verbose",
        ],
    ),
    (
        How::Nothing(SLEEPS),
        &[
            "poll_timeout",
            "poll_timeout_on_failure",
            "session_idle_ms",
            "sessions_sort",
            "stacksize",
            "max_stmts_cache",
            "threshold_query_length",
            "threshold_resultset_size",
            "data_packets_history_size",
            "ffto_enabled",
            "ffto_max_buffer_size",
        ],
    ),
    (
        How::Nothing("rules that cannot be met cost nothing"),
        &[
            "query_processor_iterations",
            "query_processor_first_comment_parsing",
            "query_processor_regex",
            "query_processor_parser",
            "query_rules_fast_routing_algorithm",
            "default_query_delay",
        ],
    ),
    (
        How::Nothing(UNUSED),
        &[
            "default_schema",
            "handle_unknown_charset",
            "have_compress",
            "binlog_reader_connect_retry_msec",
            "aurora_max_lag_ms_only_read_from_replicas",
            "ldap_user_variable",
            "add_ldap_user_comment",
            "session_debug",
            "server_capabilities",
        ],
    ),
    (
        How::Nothing("clients are told the server's own"),
        &["server_version", "server_encoding"],
    ),
    (
        How::Nothing("messages have PostgreSQL's limit; see max_packet_size"),
        &["max_allowed_packet"],
    ),
    (
        How::Nothing("the statement of a client that has gone is cancelled"),
        &["kill_backend_connection_when_disconnect"],
    ),
    (
        How::Nothing("part of a rule that mirrors"),
        &["mirror_max_concurrency", "mirror_max_queue_length"],
    ),
    (
        How::Not("", NO_RULE),
        &["eventslog_filename", "auditlog_filename"],
    ),
    (
        How::Nothing("part of eventslog_filename and auditlog_filename"),
        &[
            "eventslog_filesize",
            "eventslog_buffer_history_size",
            "eventslog_table_memory_size",
            "eventslog_buffer_max_query_length",
            "eventslog_default_log",
            "eventslog_format",
            "eventslog_flush_timeout",
            "eventslog_flush_size",
            "eventslog_rate_limit",
            "auditlog_filesize",
            "auditlog_flush_timeout",
            "auditlog_flush_size",
        ],
    ),
    (
        How::Not("false", LISTS),
        &["automatic_detect_sqli", "firewall_whitelist_enabled"],
    ),
    (How::Nothing(LISTS), &["firewall_whitelist_errormsg"]),
    (
        How::Not("0", "see auth_failures_per_minute"),
        &["client_host_error_counts"],
    ),
    (
        How::Nothing("part of client_host_error_counts"),
        &["client_host_cache_size"],
    ),
    (
        How::Not(
            "1000000",
            "server_connect_concurrency limits logins at once, not their rate",
        ),
        &["throttle_connections_per_sec_to_hostgroup"],
    ),
    (
        How::Not("0", "clients get data as fast as they take it"),
        &[
            "throttle_max_bytes_per_second_to_client",
            "throttle_ratio_server_to_client",
        ],
    ),
    (
        How::Not(
            "",
            "see server_tls_ca_file and server_tls_crl_file, which are one file each",
        ),
        &["ssl_p2s_capath", "ssl_p2s_crlpath"],
    ),
    (How::Not("", "see server_tls_ciphers"), &["ssl_p2s_cipher"]),
];

/// Variables of the administration.
pub(super) const ADMIN: &[(How, &[&str])] = &[
    (
        How::Nothing(CONSOLE),
        &[
            "mysql_ifaces",
            "pgsql_ifaces",
            "telnet_admin_ifaces",
            "telnet_stats_ifaces",
        ],
    ),
    (
        How::Not(
            "false",
            "set dashboard_listen and metrics_listen, see docs/guide/monitoring.md",
        ),
        &["web_enabled", "restapi_enabled"],
    ),
    (
        How::Nothing("Weir keeps its configuration in files"),
        &["hash_passwords", "read_only", "version"],
    ),
    (
        How::Nothing(STATS),
        &[
            "refresh_interval",
            "vacuum_stats",
            "debug",
            "debug_output",
            "web_port",
            "web_verbosity",
            "restapi_port",
        ],
    ),
];

/// Beginnings of names in the administration that have no meaning.
pub(super) const ADMIN_PARTS: [&str; 6] = [
    "cluster_",
    "checksum_",
    "stats_",
    "prometheus_",
    "coredump_",
    "ssl_keylog",
];

/// Settings outside of all groups.
pub(super) const TOP: &[(How, &[&str])] = &[
    (
        How::Nothing("Weir keeps no state in files, but for its sockets"),
        &[
            "datadir",
            "uuid",
            "set_thread_name",
            "cluster_sync_interfaces",
        ],
    ),
    (
        How::Nothing("the service manager does this"),
        &["restart_on_missing_heartbeats", "execute_on_exit_failure"],
    ),
    (
        How::Not("", "Weir loads no modules; see auth_type"),
        &["ldap_auth_plugin", "web_interface_plugin", "sqlite3_plugin"],
    ),
    (
        How::Nothing("comments of statements are read in the form of sqlcommenter"),
        &[
            "query_parser_token_delimiters",
            "query_parser_key_value_delimiters",
            "unit_of_work_identifiers",
        ],
    ),
];

/// Tables without a counterpart.
pub(super) const TABLES: &[(How, &[&str])] = &[
    (
        How::Not("", "run the script by a timer of the system"),
        &["scheduler"],
    ),
    (
        How::Not("", "each Weir reads its own files; see [peers]"),
        &["proxysql_servers"],
    ),
    (
        How::Not("", LISTS),
        &[
            "pgsql_firewall_whitelist_users",
            "pgsql_firewall_whitelist_rules",
            "pgsql_firewall_whitelist_sqli_fingerprints",
        ],
    ),
    (
        How::Not("", "set the options of the host or the database"),
        &["pgsql_hostgroup_attributes"],
    ),
    (
        How::Not("", "see auth_type = \"ldap\""),
        &["pgsql_ldap_mapping"],
    ),
    (
        How::Not("", "use a query rule that routes, see docs/guide/rules.md"),
        &["pgsql_query_rules_fast_routing"],
    ),
    (How::Not("", "see metrics_listen"), &["restapi"]),
];

/// Defaults that clients or servers notice.
pub(super) const DEFAULTS: &str = r#"
[pgsql_variables]
interfaces = "0.0.0.0:6133"
threads = 4
max_connections = 10000
multiplexing = true
authentication_method = 3
connect_timeout_server = 1000
connect_timeout_server_max = 10000
connect_timeout_client = 10000
wait_timeout = 28800000
max_transaction_idle_time = 14400000
max_transaction_time = 14400000
default_query_timeout = 86400000
tcp_keepalive_time = 120
"#;
