//! Table of every option and the test that shows its effect and would fail without it. An option without a test fails
//! here.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use weir_config::{Effect, Kind, Opt, PoolSettings, Scope};

/// Files from the root of the repository, and below each its tests with the options that they show. Parentheses have
/// the name of the option in the file, if it differs.
const GLOBAL: &str = "\
conformance/tests/operation/reload.rs
    sighup_opens_the_log_file_again: logfile
crates/cli/tests/cli/main.rs
    each_stop_signal_ends_it_in_order: pidfile
conformance/tests/operation/listen.rs
    ipv6_is_served: listen_addr
crates/cli/tests/cli/main.rs
    an_address_in_use_keeps_it_from_starting: listen_port
crates/proxy/src/listen.rs
    listen_backlog_is_the_length_of_the_queue: listen_backlog
conformance/tests/metrics.rs
    every_metric_of_the_reference_has_samples: metrics_listen
conformance/tests/dashboard.rs
    without_the_option_there_is_no_thread: dashboard_listen
    a_foreign_host_and_a_get_on_an_action_are_refused: dashboard_hosts
    an_administrator_ends_a_client_and_the_log_tells_who: dashboard_actions
conformance/tests/operation/haproxy.rs
    a_client_behind_haproxy_keeps_its_address: proxy_protocol_from
conformance/tests/operation/listen.rs
    an_abstract_socket_needs_no_file: unix_socket_dir
    a_socket_file_has_the_mode_and_group_asked_for: unix_socket_mode unix_socket_group
crates/cli/tests/cli/main.rs
    started_as_root_it_becomes_the_user_that_is_named: user
conformance/tests/operation/modes.rs
    statement_pooling_refuses_transactions: pool_mode
conformance/tests/session_state/pins.rs
    without_tracking_the_scripts_find_leaks_and_losses: session_state
conformance/tests/session_state/kinds/hidden.rs
    a_setting_hidden_in_a_function_is_found_by_asking: session_state_check
    a_function_on_the_list_pins: session_state_functions
conformance/tests/operation/sequences.rs
    sequence_values_pin_loses_no_value: sequence_values
crates/proxy/src/worker/tests/options.rs
    max_pinned_ends_one_who_would_keep_a_server_more: max_pinned
    max_waiting_refuses_one_more_at_once: max_waiting
conformance/tests/operation/limits.rs
    client_limits_are_exact: max_client_conn max_db_client_connections max_user_client_connections
    default_pool_size_is_exact: default_pool_size
    min_pool_size_is_kept: min_pool_size
    the_reserve_is_used_after_reserve_pool_timeout_and_not_before: reserve_pool_size reserve_pool_timeout
    max_db_connections_is_exact_while_all_servers_work: max_db_connections
    max_user_connections_holds_over_two_databases: max_user_connections
crates/proxy/src/worker/tests/options.rs
    max_pools_is_how_many_users_of_a_database_there_may_be: max_pools
conformance/tests/operation/modes.rs
    the_last_used_server_is_used_first_unless_round_robin: server_round_robin
conformance/tests/operation/settings.rs
    ignore_startup_parameters_drops_what_it_names: ignore_startup_parameters
crates/proxy/src/worker/tests/options.rs
    disable_pqexec_refuses_simple_queries_only: disable_pqexec
    application_name_add_host_tells_where_a_client_is: application_name_add_host
crates/cli/tests/cli/main.rs
    conffile_is_the_file_that_a_reload_reads: conffile
conformance/tests/operation/logging.rs
    statistics_are_logged_every_stats_period_unless_switched_off: stats_period log_stats
crates/proxy/src/worker/changed.rs
    rules_follow_the_options: max_prepared_statements prepare_unnamed_after
crates/proxy/src/sizing.rs
    sizing_follows_the_options: pool_size_mode pool_size_goal pool_size_start pool_size_min pool_size_max
crates/proxy/src/worker/tests/orders.rs
    whoever_takes_nothing_within_suspend_timeout_is_closed: suspend_timeout
crates/proxy/src/worker/tests/listening.rs
    more_notifications_than_may_wait_end_the_client_with_an_error: listen_queue_size
    more_bytes_of_notifications_than_may_wait_end_the_client_with_an_error: listen_queue_bytes
crates/proxy/src/worker/tests/options.rs
    scram_iterations_are_those_of_verifiers_made_here: scram_iterations
crates/session/src/protocol/login/tests.rs
    sec_61_a_server_demands_no_more_rounds_than_configured (iterations_max): scram_iterations_max
crates/proxy/src/worker/tests/options.rs
    login_notify_message_is_a_notice_before_the_first_query: login_notify_message
conformance/tests/logins/client_side.rs
    scram_takes_plain_secrets_and_verifiers_and_no_md5: auth_type
conformance/tests/session_state/kinds/tenants.rs
    a_function_made_elsewhere_is_found_by_looking: catalogue_refresh
conformance/tests/operation/reload.rs
    a_reload_reads_auth_file_again: auth_file
conformance/tests/drop_in/files.rs
    a_key_that_others_may_read_is_a_warning_unless_files_are_strict: strict_files
conformance/tests/matrix.rs
    sec_41_every_combination_of_login_is_judged_as_by_the_oracle (auth_hba_file): auth_hba_file auth_ident_file
conformance/tests/tls_hazards/auth_query.rs
    sec_42_a_secret_works_as_long_as_it_is_valid: auth_user auth_query auth_dbname
crates/proxy/src/worker/tests/inquiry.rs
    an_answer_is_believed_for_a_while_if_that_is_wished: auth_query_cache_ttl
crates/proxy/src/worker/tests/throttle.rs
    sec_67_the_delay_grows_for_a_source_that_fails_again_and_again: auth_failure_delay
    sec_67_after_too_many_failures_a_source_is_not_checked_any_more: auth_failures_per_minute
crates/proxy/src/worker/tests/options.rs
    cancel_requests_per_second_bounds_those_of_one_address: cancel_requests_per_second
conformance/tests/directory/logins.rs
    auth_type_ldap_by_simple_bind: auth_ldap_options
conformance/tests/operation/logging.rs
    each_kind_of_line_can_be_switched_off: log_connections log_disconnections log_pooler_errors
    verbose_adds_what_happens_in_between: verbose
crates/cli/tests/cli/main.rs
    json_lines_are_objects: log_format
crates/cli/src/logging/syslog.rs
    without_the_option_nothing_is_sent: syslog
    lines_arrive_with_priority_name_and_process_also_after_a_restart: syslog_ident
    facilities_have_the_numbers_of_the_c_library: syslog_facility
conformance/tests/tls_hazards/access.rs
    sec_44_those_who_may_look_may_not_touch: admin_users stats_users
conformance/tests/drop_in/compat.rs
    a_reload_shows_the_console_of_another_version: pgbouncer_compat
crates/proxy/src/worker/tests/options.rs
    server_reset_query_runs_between_sessions_and_always_if_that_is_wished: server_reset_query
    server_reset_query_runs_between_sessions_and_always_if_that_is_wished: server_reset_query_always
crates/proxy/src/worker/tests/lifecycle.rs
    a_server_that_was_idle_for_long_is_checked_before_its_next_client: server_check_delay
crates/proxy/src/worker/tests/roles.rs
    servers_are_asked_for_new_clients_only_and_not_more_often_than_role_check_delay: role_check_delay
conformance/tests/operation/lifetimes.rs
    server_check_query_runs_before_reuse: server_check_query
crates/proxy/src/worker/tests/options.rs
    server_fast_close_ends_sessions_whose_server_leads_elsewhere_now: server_fast_close
conformance/tests/operation/lifetimes.rs
    server_lifetime_closes_old_servers_when_they_are_free: server_lifetime
    lifetimes_differ_by_server_lifetime_jitter: server_lifetime_jitter
    server_idle_timeout_closes_unused_servers: server_idle_timeout
conformance/tests/operation/hosts.rs
    a_host_that_says_nothing_is_passed_over_after_server_connect_timeout: server_connect_timeout
crates/proxy/src/worker/tests/lifecycle.rs
    a_refused_connection_is_told_without_a_hold_and_tried_again_later: server_login_retry
crates/proxy/src/worker/tests/restart.rs
    clients_of_a_host_that_stays_away_are_told_after_failover_hold: failover_hold min_time_between_holds
crates/proxy/src/worker/tests/digests.rs
    digests_are_counted_unless_they_are_off: digests
    digest_max_bounds_the_statements_that_are_counted_apart: digest_max
    digest_metrics_puts_statements_on_the_metrics_page: digest_metrics
crates/cli/tests/cli/rules.rs
    a_reload_reads_the_files_of_rules_dir_again: rules_dir
    a_reload_reads_the_files_of_statement_list_dir_again: statement_list_dir
crates/proxy/src/worker/tests/outliving.rs
    a_request_that_is_lost_in_a_block_fails_and_its_client_goes_on: keep_client
crates/proxy/src/worker/tests/options.rs
    server_connect_concurrency_bounds_the_logins_at_once: server_connect_concurrency
conformance/tests/operation/timeouts.rs
    client_login_timeout_ends_who_does_not_finish: client_login_timeout
crates/proxy/src/worker/tests/options.rs
    pools_go_after_pool_idle_timeout_and_those_of_the_fallback_after_autodb_idle_timeout: autodb_idle_timeout
    pools_go_after_pool_idle_timeout_and_those_of_the_fallback_after_autodb_idle_timeout: pool_idle_timeout
    names_are_believed_for_dns_max_ttl_and_failures_for_dns_nxdomain_ttl: dns_max_ttl dns_nxdomain_ttl
conformance/tests/operation/timeouts.rs
    query_timeout_counts_for_the_extended_protocol: query_timeout
    query_wait_timeout_ends_the_one_who_waits: query_wait_timeout query_wait_notify
crates/proxy/src/worker/tests/cancel.rs
    cor_24_a_server_goes_when_a_cancel_to_it_never_ends: cancel_wait_timeout
conformance/tests/operation/timeouts.rs
    global_time_limits_work_too: client_idle_timeout idle_transaction_timeout transaction_timeout
conformance/tests/operation/stopping.rs
    a_transaction_that_never_ends_is_cut_at_drain_timeout: drain_timeout
conformance/tests/operation/upgrade_stay.rs
    who_stays_is_ended_at_upgrade_drain_timeout: upgrade_drain_timeout
crates/cli/tests/cli/main.rs
    workers_is_the_number_of_threads_that_serve_clients: workers
crates/proxy/src/io.rs
    the_reason_names_the_option_and_the_refusal: io
crates/proxy/src/driver/tests.rs
    a_wait_spins_before_it_sleeps: spin
crates/proxy/src/worker/tests/secure.rs
    tls_that_is_required_is_required: client_tls_sslmode
conformance/tests/tls/certificates.rs
    new_clients_see_the_new_certificate_and_live_ones_go_on: client_tls_key_file client_tls_cert_file
conformance/tests/tls_hazards/certificates.rs
    sec_10_a_listener_believes_exactly_one_kind_of_client_certificate (client_side): client_tls_ca_file
    sec_10_a_listener_believes_exactly_one_kind_of_client_certificate: client_tls_crl_file
conformance/tests/tls/options.rs
    versions_and_ciphers_of_the_client_side_are_those_of_the_file: client_tls_protocols client_tls_ciphers
    versions_and_ciphers_of_the_client_side_are_those_of_the_file: client_tls13_ciphers
crates/tls/tests/suite/settings.rs
    the_group_is_the_first_that_the_listener_names (ecdhcurve): client_tls_ecdhcurve
conformance/tests/tls/options.rs
    the_server_side_can_be_set_for_each_database: server_tls_sslmode server_tls_ca_file server_tls_protocols
conformance/tests/tls/certificates.rs
    new_servers_see_the_new_certificate_and_live_ones_go_on: server_tls_key_file server_tls_cert_file
conformance/tests/tls_hazards/certificates.rs
    sec_10_verify_full_believes_the_right_name_only: server_tls_crl_file
crates/tls/tests/suite/settings.rs
    the_listener_prefers_its_own_order_and_the_cheapest_cipher (tls13_ciphers): server_tls_ciphers
    the_listener_prefers_its_own_order_and_the_cheapest_cipher (tls13_ciphers): server_tls13_ciphers
conformance/tests/tls/options.rs
    the_server_side_can_begin_with_tls_at_once: server_tls_sslnegotiation
conformance/tests/tls_hazards/binding.rs
    sec_62_a_server_cannot_talk_us_out_of_channel_binding: server_channel_binding
crates/proxy/src/worker/tests/options.rs
    max_packet_size_limits_what_a_client_sends: max_packet_size
crates/proxy/src/socket.rs
    tcp_options_reach_the_socket: tcp_keepalive tcp_keepcnt tcp_keepidle tcp_keepintvl tcp_socket_buffer
    tcp_options_reach_the_socket: tcp_user_timeout
conformance/tests/operation/peers.rs
    a_cancel_lands_on_the_right_one_of_two_every_time: peer_id so_reuseport
";

/// Options that are missing here override a global one; [`every_option_of_an_entry_reaches_its_pool`] tests them.
const DATABASE: &str = "\
conformance/tests/operation/hosts.rs
    a_dead_host_is_passed_over: host load_balance_hosts
conformance/tests/operation/reload.rs
    a_reload_drops_nobody: port
conformance/tests/operation/modes.rs
    a_pool_mode_may_differ_by_database_and_user: dbname pool_mode
conformance/tests/logins/server_side.rs
    every_method_works_with_a_forced_user_and_password: user password
crates/config/tests/config/native.rs
    a_password_may_stand_in_a_file_of_its_own: password_file
conformance/tests/operation/limits.rs
    pool_size_of_a_database_holds_transactions_back: pool_size
crates/proxy/src/worker/tests/lifecycle.rs
    connect_query_runs_once_on_each_new_server: connect_query
conformance/tests/operation/settings.rs
    the_database_entry_sets_start_values_for_all (datestyle): client_encoding
    the_database_entry_sets_start_values_for_all: datestyle timezone application_name
crates/proxy/src/hints/tests.rs
    another_leader_or_timeline_of_patroni_has_all_hosts_probed: failover_hints
    a_server_with_https_needs_a_certificate_of_the_right_authority: failover_hints_ca_file
    a_change_of_the_key_in_etcd_is_heard_at_once: failover_hints_user failover_hints_password
    the_leader_of_a_database_with_a_fence_is_reported_until_its_source_fails: fence
";

const USER: &str = "\
conformance/tests/operation/modes.rs
    a_pool_mode_may_differ_by_database_and_user: pool_mode
conformance/tests/operation/timeouts.rs
    time_limits_of_users_end_client_and_transaction: transaction_timeout idle_transaction_timeout query_timeout
    time_limits_of_users_end_client_and_transaction: client_idle_timeout
conformance/tests/operation/limits.rs
    a_client_limit_of_one_database_or_user_leaves_others_alone: max_user_client_connections
    max_user_connections_holds_over_two_databases: max_user_connections
crates/proxy/src/worker/tests/statement_lists.rs
    what_a_user_has_run_is_what_it_may_run: statement_policy
";

const LISTENER: &str = "\
conformance/tests/operation/listeners.rs
    clients_of_a_second_port_have_the_pool_mode_of_their_listener: listen_port unix_socket_dir pool_mode
conformance/tests/replicas/targets.rs
    the_role_of_a_listener_decides_where_its_sessions_begin: role
crates/config/tests/config/listeners.rs
    a_listener_inherits_its_addresses_and_may_have_its_own: listen_addr
";

const POOL: &str = "\
conformance/tests/operation/pools.rs
    one_user_of_one_database_has_a_size_and_a_mode_of_its_own: pool_size pool_mode
    a_pool_has_time_limits_of_its_own: query_timeout idle_transaction_timeout query_wait_timeout server_idle_timeout
";

const PEER: &str = "\
conformance/tests/operation/peers.rs
    a_cancel_lands_on_the_right_one_of_two_every_time: host port
crates/proxy/src/worker/tests/peers.rs
    a_peer_gets_no_more_connections_than_its_pool_size: pool_size
";

/// Options of databases with several hosts that are read, checked and resolved (`cluster.rs`), and that no code outside
/// of this crate uses yet. A row in the tables above replaces the name here.
const PENDING: [(Scope, &str); 3] = [
    (
        Scope::Global,
        "az probe_interval probe_timeout probe_fall probe_rise replica_slow_start read_write_split comment_hints split_begin \
         read_consistency max_staleness max_lag read_wait read_guard read_fallback fallback_max_share split_brain \
         watch_user watch_password",
    ),
    (
        Scope::Database,
        "replicas target primary_functions read_functions watch_dbname",
    ),
    (Scope::Host, "role weight az reads"),
];

fn pending(scope: Scope) -> BTreeSet<&'static str> {
    let lists = PENDING.iter().filter(|(of, _)| *of == scope);
    lists
        .flat_map(|(_, names)| names.split_whitespace())
        .collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns all mistakes in a table: options without a test, unknown options, missing tests.
fn mistakes(scope: Scope, table: &str, is_needed: impl Fn(&Opt) -> bool) -> Vec<String> {
    let mut shown = BTreeSet::new();
    let mut wrong = Vec::new();
    let (mut file, mut text) = ("", String::new());
    for line in table.lines() {
        let Some((test, options)) = line.trim().split_once(": ") else {
            file = line;
            text = std::fs::read_to_string(root().join(file)).unwrap_or_default();
            continue;
        };
        let (test, word) = test.split_once(" (").unwrap_or((test, ""));
        if !text.contains(&format!("fn {test}(")) {
            wrong.push(format!("{file} has no test {test}"));
        }
        for option in options.split(' ') {
            let word = if word.is_empty() {
                option
            } else {
                word.trim_end_matches(')')
            };
            if !text.contains(word) {
                wrong.push(format!("{file} does not mention {word}"));
            }
            if scope.find(option).is_none() || !shown.insert(option) {
                wrong.push(format!("{option} is here twice or does not exist"));
            }
        }
    }
    let pending = pending(scope);
    for name in &pending {
        if scope.find(name).is_none() || shown.contains(name) {
            wrong.push(format!(
                "{name} is no option or has a test: it is not pending"
            ));
        }
    }
    for opt in scope.options() {
        let is_shown = shown.contains(opt.name) || pending.contains(opt.name);
        match opt.effect {
            Effect::Full if !is_shown && is_needed(opt) => {
                wrong.push(format!("no test shows what {} does", opt.name));
            }
            Effect::None(_) if is_shown => wrong.push(format!("{} does nothing", opt.name)),
            _ => {}
        }
    }
    wrong
}

#[test]
fn every_option_has_a_test_that_shows_what_it_does() {
    let overrides = |opt: &Opt| {
        let of_all = if opt.name == "pool_size" {
            "default_pool_size"
        } else {
            opt.name
        };
        Scope::Global.find(of_all).is_some()
    };
    let mut wrong = mistakes(Scope::Global, GLOBAL, |_| true);
    wrong.extend(mistakes(Scope::Database, DATABASE, |opt| !overrides(opt)));
    wrong.extend(mistakes(Scope::Host, "", |_| true));
    wrong.extend(mistakes(Scope::User, USER, |opt| !overrides(opt)));
    wrong.extend(mistakes(Scope::Listener, LISTENER, |_| true));
    wrong.extend(mistakes(Scope::Pool, POOL, |opt| !overrides(opt)));
    wrong.extend(mistakes(Scope::Peer, PEER, |_| true));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns a value that differs from every default, and the settings that it requires.
fn unusual(opt: &Opt) -> (String, &'static str) {
    let more = match opt.name {
        "server_tls_key_file" | "server_tls_cert_file" => {
            "server_tls_key_file=k server_tls_cert_file=c"
        }
        "pool_size_mode" => "pool_size=auto",
        "failover_hints_ca_file" | "failover_hints_user" | "fence" => {
            "replicas=r failover_hints=patroni:http://r:1"
        }
        "failover_hints_password" => {
            "replicas=r failover_hints=patroni:http://r:1 failover_hints_user=u"
        }
        "watch_password" => "replicas=r watch_user=w",
        "failover_hints" | "fallback_max_share" | "max_lag" | "max_staleness"
        | "primary_functions" | "read_consistency" | "read_fallback" | "read_functions"
        | "read_guard" | "read_wait" | "read_write_split" | "split_brain" | "target"
        | "watch_dbname" | "watch_user" => "replicas=r",
        _ => "",
    };
    let value = match opt.kind {
        _ if opt.name == "pool_size_mode" => "advise",
        // Needs a list.
        _ if opt.name == "statement_policy" => "warn",
        Kind::Enum(words) => words.last().copied().unwrap_or_default(),
        Kind::Bool => "1",
        Kind::StateCheck => "always",
        Kind::Text | Kind::Secret => "other",
        Kind::Functions | Kind::List | Kind::Patterns => "f",
        Kind::Hints => "etcd:http://r:1/service/main",
        Kind::HostPoints | Kind::Hosts | Kind::Listen => "10.9.9.9",
        _ => "77",
    };
    (value.to_owned(), more)
}

/// Returns the settings of a client, with these options in its database's and its user's entry.
fn pool(database: &str, user: &str) -> PoolSettings {
    let ini = format!(
        "[databases]\na = host=h {database}\n[users]\nu = {user}\n[pgbouncer]\nauth_file=u\n\
         auth_user=asker\nserver_tls_sslmode=require\npool_mode=transaction\n"
    );
    let files = [("a.ini", ini.as_str()), ("other", "secret")];
    let loaded = crate::load_files("a.ini", &files, &[]);
    let loaded = loaded.unwrap_or_else(|errors| panic!("{ini}: {errors:?}"));
    let pool = loaded.settings.pool("a", "u");
    pool.unwrap_or_else(|| panic!("no pool: {ini}"))
}

#[test]
fn every_option_of_an_entry_reaches_its_pool() {
    // The only other value of split_begin is refused.
    let supported = |opt: &&Opt| opt.name != "split_begin";
    for opt in Scope::Database.options().iter().filter(supported) {
        let (value, more) = unusual(opt);
        // A password without a user is not used.
        let user = if opt.name == "user" { "" } else { "user=f" };
        let without = pool(&format!("{user} {more}"), "");
        let with = pool(&format!("{user} {more} {}={value}", opt.name), "");
        assert_ne!(with, without, "{} changes nothing", opt.name);
    }
    for opt in Scope::Host.options() {
        let (value, _) = unusual(opt);
        let value = if opt.name == "reads" { "0" } else { &value };
        let with = pool(
            "replicas=r",
            &format!("\n[hosts]\na/r = {}={value}", opt.name),
        );
        assert_ne!(with, pool("replicas=r", ""), "{} changes nothing", opt.name);
    }
    for opt in Scope::Pool.options() {
        let (value, _) = unusual(opt);
        let with = pool("", &format!("\n[pools]\na/u = {}={value}", opt.name));
        assert_ne!(with, pool("", ""), "{} changes nothing", opt.name);
    }
    for opt in Scope::User.options() {
        let (value, _) = unusual(opt);
        let several = "replicas=r";
        let with = pool(several, &format!("{}={value}", opt.name));
        assert_ne!(with, pool(several, ""), "{} changes nothing", opt.name);
    }
}
