//! Tests of `pgbouncer_compat`: columns of each version. The facts are those of its documentation, its source and tools
//! that read its console by place (pgbouncer_fdw).

use std::collections::BTreeMap;
use std::path::Path;

use weir_config::PgBouncerVersion;
use weir_proxy::console::Console;

use super::{Role, Snapshot, Step, expect, shown};
use crate::Shared;
use crate::show::{connections, databases, pools, stats, users};

/// Answer of a console of this version.
fn ask(version: &str, sql: &str) -> String {
    let ini = format!("[databases]\na = host=h\n[pgbouncer]\npgbouncer_compat = {version}\n");
    let mut read = |_: &Path| Ok(ini.clone());
    let loaded = weir_config::load(Path::new("pgbouncer.ini"), &mut read, std::iter::empty());
    let settings = loaded.unwrap().settings;
    let console = super::console(Shared::new(settings.into(), Vec::new()), "0.1.0");
    let mut client = console.open(Role::Admin);
    let query = format!("{sql}\0");
    match client.handle(b'Q', query.as_bytes()) {
        Step::Reply(answer) => shown(&answer),
        Step::Gather { .. } => shown(&client.gathered(&Snapshot::default())),
        _ => panic!("no answer to {sql}"),
    }
}

/// Names of a table's columns up to Weir's own.
fn columns(version: &str, table: &str, first_own: &str) -> String {
    let answer = ask(version, table);
    let line = answer.lines().next().unwrap();
    let names = line.split_once(' ').unwrap().1;
    let names = names.split(' ').map(|name| name.split_once(':').unwrap().0);
    let names: Vec<_> = names.take_while(|name| *name != first_own).collect();
    names.join(" ")
}

#[test]
fn each_version_has_its_columns_first() {
    let mut before = BTreeMap::new();
    let mut told = String::new();
    for (name, version) in [
        ("1.18", PgBouncerVersion::V1_18),
        ("1.19", PgBouncerVersion::V1_19),
        ("1.20", PgBouncerVersion::V1_20),
        ("1.21", PgBouncerVersion::V1_21),
        ("1.22", PgBouncerVersion::V1_22),
        ("1.23", PgBouncerVersion::V1_23),
        ("1.24", PgBouncerVersion::V1_24),
        ("1.25", PgBouncerVersion::V1_25),
    ] {
        for (table, show) in [
            ("CLIENTS", &connections::CLIENTS),
            ("DATABASES", &databases::DATABASES),
            ("POOLS", &pools::POOLS),
            ("SOCKETS", &connections::SOCKETS),
            ("STATS", &stats::STATS),
            ("STATS_TOTALS", &stats::STATS_TOTALS),
            ("STATS_AVERAGES", &stats::STATS_AVERAGES),
            ("USERS", &users::USERS),
        ] {
            let columns = show.columns(version);
            let own = columns.iter().take_while(|heading| heading.is_in(version));
            let names: Vec<_> = own.map(|heading| heading.name).collect();
            let rest = columns.iter().skip(names.len());
            assert!(rest.into_iter().all(|heading| !heading.is_in(version)));
            let names = names.join(" ");
            if before.insert(table, names.clone()).as_ref() != Some(&names) {
                told += &format!("{name} {table}: {names}\n");
            }
        }
    }
    expect![[r#"
        1.18 CLIENTS: type user database state addr port local_addr local_port connect_time request_time wait wait_us close_needed ptr link remote_pid tls application_name
        1.18 DATABASES: name host port database force_user pool_size min_pool_size reserve_pool pool_mode max_connections current_connections paused disabled
        1.18 POOLS: database user cl_active cl_waiting cl_active_cancel_req cl_waiting_cancel_req sv_active sv_active_cancel sv_being_canceled sv_idle sv_used sv_tested sv_login maxwait maxwait_us pool_mode
        1.18 SOCKETS: type user database state addr port local_addr local_port connect_time request_time wait wait_us close_needed ptr link remote_pid tls application_name recv_pos pkt_pos pkt_remain send_pos send_remain pkt_avail send_avail
        1.18 STATS: database total_xact_count total_query_count total_received total_sent total_xact_time total_query_time total_wait_time avg_xact_count avg_query_count avg_recv avg_sent avg_xact_time avg_query_time avg_wait_time
        1.18 STATS_TOTALS: database xact_count query_count bytes_received bytes_sent xact_time query_time wait_time
        1.18 STATS_AVERAGES: database xact_count query_count bytes_received bytes_sent xact_time query_time wait_time
        1.18 USERS: name pool_mode
        1.21 CLIENTS: type user database state addr port local_addr local_port connect_time request_time wait wait_us close_needed ptr link remote_pid tls application_name prepared_statements
        1.21 SOCKETS: type user database state addr port local_addr local_port connect_time request_time wait wait_us close_needed ptr link remote_pid tls application_name prepared_statements recv_pos pkt_pos pkt_remain send_pos send_remain pkt_avail send_avail
        1.23 CLIENTS: type user database replication state addr port local_addr local_port connect_time request_time wait wait_us close_needed ptr link remote_pid tls application_name prepared_statements
        1.23 DATABASES: name host port database force_user pool_size min_pool_size reserve_pool server_lifetime pool_mode max_connections current_connections paused disabled
        1.23 SOCKETS: type user database replication state addr port local_addr local_port connect_time request_time wait wait_us close_needed ptr link remote_pid tls application_name prepared_statements recv_pos pkt_pos pkt_remain send_pos send_remain pkt_avail send_avail
        1.23 STATS: database total_server_assignment_count total_xact_count total_query_count total_received total_sent total_xact_time total_query_time total_wait_time avg_server_assignment_count avg_xact_count avg_query_count avg_recv avg_sent avg_xact_time avg_query_time avg_wait_time
        1.23 STATS_TOTALS: database server_assignment_count xact_count query_count bytes_received bytes_sent xact_time query_time wait_time
        1.23 STATS_AVERAGES: database server_assignment_count xact_count query_count bytes_received bytes_sent xact_time query_time wait_time
        1.23 USERS: name pool_size pool_mode max_user_connections current_connections
        1.24 CLIENTS: type user database replication state addr port local_addr local_port connect_time request_time wait wait_us close_needed ptr link remote_pid tls application_name prepared_statements id
        1.24 DATABASES: name host port database force_user pool_size min_pool_size reserve_pool_size server_lifetime pool_mode load_balance_hosts max_connections current_connections max_client_connections current_client_connections paused disabled
        1.24 POOLS: database user cl_active cl_waiting cl_active_cancel_req cl_waiting_cancel_req sv_active sv_active_cancel sv_being_canceled sv_idle sv_used sv_tested sv_login maxwait maxwait_us pool_mode load_balance_hosts
        1.24 SOCKETS: type user database replication state addr port local_addr local_port connect_time request_time wait wait_us close_needed ptr link remote_pid tls application_name prepared_statements id recv_pos pkt_pos pkt_remain send_pos send_remain pkt_avail send_avail
        1.24 STATS: database total_server_assignment_count total_xact_count total_query_count total_received total_sent total_xact_time total_query_time total_wait_time total_client_parse_count total_server_parse_count total_bind_count avg_server_assignment_count avg_xact_count avg_query_count avg_recv avg_sent avg_xact_time avg_query_time avg_wait_time avg_client_parse_count avg_server_parse_count avg_bind_count
        1.24 STATS_TOTALS: database server_assignment_count xact_count query_count bytes_received bytes_sent xact_time query_time wait_time client_parse_count server_parse_count bind_count
        1.24 STATS_AVERAGES: database server_assignment_count xact_count query_count bytes_received bytes_sent xact_time query_time wait_time avg_client_parse_count avg_server_parse_count avg_bind_count
        1.24 USERS: name pool_size reserve_pool_size pool_mode max_user_connections current_connections max_user_client_connections current_client_connections
    "#]].assert_eq(&told);
}

#[test]
fn what_a_version_lacks_comes_after_what_it_has() {
    let own = "pin pin_age worker";
    for (version, end) in [
        (
            "1.18",
            "application_name replication prepared_statements id",
        ),
        (
            "1.22",
            "application_name prepared_statements replication id",
        ),
        ("1.23", "application_name prepared_statements id"),
    ] {
        let all = columns(version, "SHOW CLIENTS", "activity");
        assert!(all.ends_with(&format!("{end} {own}")), "{version}: {all}");
    }
    let rows = |version| {
        let answer = ask(version, "SHOW TOTALS");
        let rows = answer.lines().filter_map(|line| line.strip_prefix("D | "));
        let names = rows.map(|row| row.split(' ').next().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(rows("1.18")[..2], ["total_xact_count", "total_query_count"]);
    assert_eq!(rows("1.18")[13], "avg_wait_time");
    assert_eq!(rows("1.25")[21], "avg_ps_bind_count");
    assert!(
        ask("1.18", "SHOW LISTS").ends_with("D | peers | 0\nD | peer_pools | 0\nC SHOW\nZ I\n")
    );
}

#[test]
fn show_version_names_the_last_release_and_nothing_else() {
    for version in PgBouncerVersion::NAMES {
        let answer = ask(version, "SHOW VERSION");
        let release = answer
            .lines()
            .find_map(|line| line.strip_prefix("D | PgBouncer "));
        let (major_minor, patch) = release.unwrap().rsplit_once('.').unwrap();
        assert_eq!(major_minor, *version);
        assert!(patch.parse::<u8>().is_ok(), "{release:?}");
    }
    assert!(ask("1.18", "SHOW STATE").contains("D | weir_version | 0.1.0\n"));
}
