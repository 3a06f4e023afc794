//! The table of panels, by section. A counter stands with the range of its rate, all other conditions on labels are added
//! later.

use super::units::Unit;
use super::{Form, Panel, Queries, Section};

/// All sections, from top to bottom.
pub(super) static SECTIONS: &[Section] = &[
    section("Needs attention", ATTENTION),
    section("Now", NOW),
    section("What clients feel", FELT),
    section("Pools", POOLS),
    section("Limits and process", PROCESS),
    section("Versions and certificates", VERSIONS),
    section("Hosts of databases with replicas", HOSTS),
    section("Statements (digest_metrics)", DIGESTS),
    section("Lists of statements (statement_policy)", LISTS),
    section("Query rules and mirrors", RULES),
];

const fn section(title: &'static str, panels: &'static [Panel]) -> Section {
    Section { title, panels }
}

static ATTENTION: &[Panel] = &[
    Panel::new(
        "Conditions that hold now",
        Form::Conditions,
        Queries::Lines(&[(
            "",
            "max by (instance, condition, severity, scope) (weir_condition) == 1",
        )]),
    )
    .width(12)
    .described("Conditions of `SHOW DIAGNOSIS`, which has the evidence and the advice; so has `weir doctor`."),
    Panel::new(
        "Conditions over time",
        Form::Timeline,
        Queries::Lines(&[
            (
                "{{condition}} {{scope}}",
                r#"3 * max by (instance, condition, scope) (weir_condition{severity="critical"}) == 3"#,
            ),
            (
                "{{condition}} {{scope}}",
                r#"2 * max by (instance, condition, scope) (weir_condition{severity="warning"}) == 2"#,
            ),
            (
                "{{condition}} {{scope}}",
                r#"1 * max by (instance, condition, scope) (weir_condition{severity="info"}) == 1"#,
            ),
        ]),
    )
    .width(12)
    .described("A condition begins 10 s after Weir first sees it, and ends 30 s after it last saw it."),
    Panel::graph(
        "Clients by activity",
        &[("{{activity}}", "sum by (activity) (weir_pool_activity)")],
    )
    .width(8),
    Panel::graph(
        "Waiting clients by reason",
        &[("{{reason}}", "sum by (reason) (weir_pool_waiting)")],
    )
    .width(8),
    Panel::graph(
        "Waits that timed out",
        &[(
            "{{database}}/{{user}}",
            "sum by (database, user) (rate(weir_pool_wait_timeouts_total[$__rate_interval]))",
        )],
    )
    .width(8),
    Panel::graph(
        "Servers opened and lost",
        &[
            ("opened", "sum(rate(weir_pool_server_logins_total[$__rate_interval]))"),
            ("lost", "sum(rate(weir_pool_servers_lost_total[$__rate_interval]))"),
        ],
    )
    .width(8),
    Panel::graph(
        "Logins by host",
        &[(
            "{{host}} {{outcome}}",
            "sum by (host, outcome) (rate(weir_logins_total[$__rate_interval]))",
        )],
    )
    .width(8),
    Panel::graph(
        "Longest turn of a worker",
        &[(
            "{{instance}} worker {{worker}}",
            "max by (instance, worker) (weir_worker_turn_max_seconds)",
        )],
    )
    .width(8),
];

static NOW: &[Panel] = &[
    Panel::stat(
        "Queries per second",
        &[("", "sum(rate(weir_pool_queries_total[$__rate_interval]))")],
    ),
    Panel::stat("Clients", &[("", "sum(weir_pool_clients)")])
        .described("Clients that have logged in."),
    Panel::stat(
        "Clients that wait",
        &[("", r#"sum(weir_pool_clients{state="waiting"})"#)],
    )
    .described("Clients that wait for a server now."),
    Panel::stat(
        "Longest wait",
        &[("", "max(weir_pool_oldest_wait_seconds)")],
    )
    .described("Longest wait of the clients that wait now."),
    Panel::stat(
        "Errors per second",
        &[("", "sum(rate(weir_errors_total[$__rate_interval]))")],
    )
    .described("Errors that clients got, from PostgreSQL and from Weir."),
    Panel::stat(
        "Certificate days left",
        &[("", "min(weir_tls_certificate_days_left)")],
    )
    .described("Days until the first certificate expires."),
];

static FELT: &[Panel] = &[
    Panel::quantiles("Wait for a server", "weir_pool_wait_seconds"),
    Panel::quantiles("Transaction", "weir_pool_transaction_seconds"),
    Panel::quantiles("Query", "weir_pool_query_seconds"),
    Panel::graph(
        "Transactions per second",
        &[(
            "{{database}}/{{user}}",
            "sum by (database, user) (rate(weir_pool_transactions_total[$__rate_interval]))",
        )],
    ),
    Panel::graph(
        "Errors by SQLSTATE",
        &[(
            "{{origin}} {{sqlstate}}",
            "sum by (origin, sqlstate) (rate(weir_errors_total[$__rate_interval]))",
        )],
    )
    .described("`server`: PostgreSQL sent the error. `pooler`: Weir did."),
    Panel::graph(
        "Errors by pool",
        &[(
            "{{database}}/{{user}}",
            "sum by (database, user) (rate(weir_pool_errors_total[$__rate_interval]))",
        )],
    ),
    Panel::graph(
        "Bytes",
        &[
            (
                "from clients",
                "sum(rate(weir_pool_client_received_bytes_total[$__rate_interval]))",
            ),
            (
                "to clients",
                "sum(rate(weir_pool_client_sent_bytes_total[$__rate_interval]))",
            ),
        ],
    ),
];

static POOLS: &[Panel] = &[
    Panel::graph(
        "Clients by state",
        &[
            ("{{state}}", "sum by (state) (weir_pool_clients)"),
            ("logging in", "sum(weir_clients_logging_in)"),
        ],
    )
    .width(8),
    Panel::graph(
        "Servers by state",
        &[
            ("{{state}}", "sum by (state) (weir_pool_servers)"),
        ],
    )
    .width(8),
    Panel::graph(
        "Places taken, of the pool's size",
        &[
            ("{{database}}/{{user}}", "weir_pool_places_taken / (weir_pool_size > 0)"),
        ],
    )
    .width(8)
    .described("At 100 % the next client waits. Pools without a limit have no line."),
    Panel::graph(
        "Leases, logins per second",
        &[
            ("leases", "sum(rate(weir_pool_leases_total[$__rate_interval]))"),
            ("client logins", "sum(rate(weir_pool_client_logins_total[$__rate_interval]))"),
        ],
    ),
    Panel::graph(
        "Pinned clients",
        &[
            ("{{database}}/{{user}}", "weir_pool_pinned_clients"),
        ],
    )
    .described("Pinned clients keep their server beyond the transaction; `SHOW PINS` has the reasons."),
    Panel::graph(
        "Pins by reason",
        &[
            ("{{reason}}", "sum by (reason) (rate(weir_pins_total[$__rate_interval]))"),
        ],
    ),
    Panel::graph(
        "Questions about session state",
        &[
            ("questions", "sum(rate(weir_pool_state_questions_total[$__rate_interval]))"),
            ("found by the check alone", "sum(rate(weir_pool_state_misses_total[$__rate_interval]))"),
        ],
    ),
    Panel::graph(
        "Prepared statements",
        &[
            ("Parse of clients", "sum(rate(weir_pool_client_parses_total[$__rate_interval]))"),
            ("Parse to servers", "sum(rate(weir_pool_server_parses_total[$__rate_interval]))"),
            ("Bind", "sum(rate(weir_pool_binds_total[$__rate_interval]))"),
            ("forgotten by servers", "sum(rate(weir_pool_statement_evictions_total[$__rate_interval]))"),
            ("distinct statements", "sum(weir_worker_statements)"),
        ],
    )
    .width(8)
    .described("Weir prepares a statement once on each server: servers should get few Parse messages."),
    Panel::graph(
        "LISTEN",
        &[
            ("clients that listen", "sum(weir_clients_listening)"),
            ("notifications per second", "sum(rate(weir_pool_notifications_total[$__rate_interval]))"),
            ("clients ended", "sum(increase(weir_pool_listen_overflows_total[$__rate_interval]))"),
        ],
    )
    .width(8),
    Panel::graph(
        "Inconsistent pools",
        &[
            ("pools", "sum(weir_pool_inconsistent)"),
        ],
    )
    .width(8)
    .described("Anything but 0 is a bug of Weir."),
    Panel::graph(
        "Size that pools found",
        &[
            ("limit {{database}}/{{user}}", "weir_pool_assigned_limit"),
            ("size {{database}}/{{user}}", "weir_pool_found_size"),
            ("assigned {{database}}/{{user}}", "weir_pool_assigned_servers"),
        ],
    )
    .width(12)
    .described("Pools with `pool_size = auto`. The limit moves while sizes are compared."),
    Panel::graph(
        "Sizes compared, stalls and cuts",
        &[
            ("compared {{database}}/{{user}}", "rate(weir_pool_size_comparisons_total[$__rate_interval])"),
            ("moved {{database}}/{{user}}", "rate(weir_pool_size_moves_total[$__rate_interval])"),
            ("stalls {{database}}/{{user}}", "increase(weir_pool_size_stalls_total[$__rate_interval])"),
            ("cuts {{database}}/{{user}}", "increase(weir_pool_size_cuts_total[$__rate_interval])"),
        ],
    )
    .width(12)
    .described("A stall: every server waited for its client or a lock while clients waited. A cut: the host refused."),
];

static PROCESS: &[Panel] = &[
    Panel::graph(
        "Limits used",
        &[("{{limit}} {{scope}}", "weir_limit_used / weir_limit_max")],
    ),
    Panel::graph(
        "Processor time by worker",
        &[
            (
                "worker {{worker}}",
                "rate(weir_worker_cpu_seconds_total[$__rate_interval])",
            ),
            (
                "process",
                "rate(process_cpu_seconds_total[$__rate_interval])",
            ),
        ],
    )
    .described("100 % of a worker is all of its core."),
    Panel::graph(
        "Connections by worker",
        &[
            ("clients of {{worker}}", "weir_worker_clients"),
            ("servers of {{worker}}", "weir_worker_servers"),
        ],
    ),
    Panel::graph(
        "Loops and messages",
        &[
            (
                "turns per second of {{worker}}",
                "rate(weir_worker_turns_total[$__rate_interval])",
            ),
            ("messages unread by {{worker}}", "weir_worker_messages"),
        ],
    ),
    Panel::graph(
        "Memory",
        &[("{{instance}}", "process_resident_memory_bytes")],
    ),
    Panel::graph(
        "File descriptors",
        &[("open", "process_open_fds"), ("limit", "process_max_fds")],
    ),
    Panel::graph(
        "TLS clients",
        &[("{{protection}}", "sum by (protection) (weir_tls_clients)")],
    ),
    Panel::graph(
        "Names and cancels",
        &[
            ("names kept", "weir_dns_names"),
            ("names looked up", "weir_dns_pending"),
            ("cancel requests", "weir_cancel_requests"),
        ],
    ),
];

static VERSIONS: &[Panel] = &[
    Panel::new(
        "Version and start",
        Form::Table,
        Queries::Lines(&[(
            "",
            "weir_build_info * on (instance) group_left (driver) weir_io_driver * on (instance) group_left process_start_time_seconds * 1000",
        )]),
    )
    .size(12, 6)
    .unit(Unit::Date)
    .described("Version of each instance, its interface to the kernel (`io`), and the time at which its process began."),
    Panel::new(
        "Certificates expire",
        Form::Table,
        Queries::Lines(&[("", "weir_tls_certificate_not_after_seconds * 1000")]),
    )
    .size(12, 6)
    .unit(Unit::Date),
];

static HOSTS: &[Panel] = &[
    Panel::graph(
        "Roles and states",
        &[
            ("{{database}} {{host}} {{role}}", "weir_host_role == 1"),
            ("{{database}} {{host}} {{state}}", "weir_host_state == 1"),
            (
                "{{database}} {{host}} takes writes",
                "weir_host_takes_writes == 1",
            ),
            (
                "{{database}} {{host}} takes reads",
                "weir_host_takes_reads == 1",
            ),
        ],
    ),
    Panel::graph(
        "Age of replicas",
        &[
            ("{{database}} {{host}}", "weir_host_lag_seconds"),
            ("{{database}} {{host}} probe", "weir_host_probe_seconds"),
        ],
    ),
    Panel::graph(
        "WAL not replayed",
        &[("{{database}} {{host}}", "weir_host_lag_bytes")],
    )
    .width(4),
    Panel::graph(
        "Requests by host",
        &[
            (
                "{{database}} {{host}} reads",
                "rate(weir_host_reads_total[$__rate_interval])",
            ),
            (
                "{{database}} {{host}} may write",
                "rate(weir_host_writes_total[$__rate_interval])",
            ),
            (
                "{{database}} {{host}} sent again",
                "rate(weir_host_retries_total[$__rate_interval])",
            ),
        ],
    )
    .width(4),
    Panel::graph(
        "Servers and weights",
        &[
            ("{{database}} {{host}}", "weir_host_servers"),
            ("{{database}} {{host}} weight", "weir_host_weight"),
        ],
    )
    .width(4),
];

static DIGESTS: &[Panel] = &[
    Panel::graph(
        "Time on the server",
        &[(
            "{{database}} {{fingerprint}}",
            "topk(10, rate(weir_digest_server_seconds_total[$__rate_interval]))",
        )],
    )
    .width(8)
    .unit(Unit::Number)
    .described("Busy servers by statement. `SHOW DIGESTS` has the text of each fingerprint."),
    Panel::graph(
        "Calls and rows",
        &[
            (
                "{{database}} {{fingerprint}}",
                "topk(10, rate(weir_digest_calls_total[$__rate_interval]))",
            ),
            (
                "{{database}} {{fingerprint}} rows",
                "topk(5, rate(weir_digest_rows_total[$__rate_interval]))",
            ),
        ],
    )
    .width(8),
    Panel::graph(
        "Failed statements",
        &[(
            "{{database}} {{fingerprint}}",
            "topk(10, rate(weir_digest_errors_total[$__rate_interval]))",
        )],
    )
    .width(8),
];

static LISTS: &[Panel] = &[
    Panel::graph(
        "Statements that are not in the list",
        &[
            (
                "{{user}} refused",
                "rate(weir_statement_list_refused_total[$__rate_interval])",
            ),
            (
                "{{user}} ran",
                "rate(weir_statement_list_warned_total[$__rate_interval])",
            ),
        ],
    )
    .width(12)
    .described("Users with `statement_policy`: how often other statements ran or were refused."),
    Panel::graph(
        "Lists of statements",
        &[
            ("{{user}} listed", "weir_statement_list_listed"),
            ("{{user}} others", "weir_statement_list_recorded"),
        ],
    )
    .width(12)
    .described("Statements in the list of each user, and others that were recorded."),
];

static RULES: &[Panel] = &[
    Panel::graph(
        "Statements that met a rule",
        &[
            ("{{rule}}", "rate(weir_rule_hits_total[$__rate_interval])"),
            (
                "{{rule}} dry",
                "rate(weir_rule_dry_hits_total[$__rate_interval])",
            ),
        ],
    )
    .width(8)
    .described(
        "Statements that met a query rule, and those that met one that only counts (`dry_run`).",
    ),
    Panel::graph(
        "Mirrored statements",
        &[
            (
                "{{rule}} {{result}}",
                "rate(weir_mirror_statements_total[$__rate_interval])",
            ),
            (
                "{{rule}} dropped",
                "rate(weir_mirror_dropped_total[$__rate_interval])",
            ),
            ("{{rule}} waiting", "weir_mirror_waiting"),
        ],
    )
    .width(8)
    .described("Results of the comparison; transactions that wait or found no room."),
    Panel::graph(
        "Time of mirrored statements",
        &[(
            "{{rule}} {{side}}",
            "rate(weir_mirror_seconds_total[$__rate_interval])",
        )],
    )
    .width(8)
    .unit(Unit::Number)
    .described("Busy servers: those of clients, and those of the other database."),
];
