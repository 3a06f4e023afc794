//! Tests of every table: names, order and types of its columns, and its rows.

use weir_proxy::console::Console;
use weir_stats::{DriverInUse, DriverName};

use super::{Expect, Halts, Role, Snapshot, Step, ask, expect, shown, test_console};

/// Checks a table; the tag and ReadyForQuery are checked here.
fn check_show(sql: &str, expect: Expect) {
    let answer = ask(Role::Stats, sql);
    expect.assert_eq(answer.strip_suffix("C SHOW\nZ I\n").unwrap());
}

#[test]
fn show_version_begins_with_what_tools_look_for() {
    check_show(
        "SHOW VERSION",
        expect![[r#"
            T version:text
            D | PgBouncer 1.25.2
        "#]],
    );
}

#[test]
fn show_clients_lists_every_client() {
    check_show(
        "SHOW CLIENTS",
        expect![[r#"
            T type:text user:text database:text replication:text state:text addr:text port:int4 local_addr:text local_port:int4 connect_time:text request_time:text wait:int4 wait_us:int4 close_needed:int4 ptr:text link:text remote_pid:int4 tls:text application_name:text prepared_statements:int4 id:int8 pin:text pin_age:int8 worker:int4 activity:text activity_us:int8 wait_reason:text transactions:int8 queries:int8 errors:int8 transaction_us:int8 waited_us:int8 bytes_received:int8 bytes_sent:int8
            D | C | alice | shop | none | active | 192.0.2.9 | 50000 | 192.0.2.1 | 6432 | 2026-07-10 22:19:13 UTC | 2026-07-10 22:19:19 UTC | 0 | 0 | 0 | 0xa | 0xb | 0 | TLSv1.3/TLS_AES_128_GCM_SHA256 | psql | 2 | 10 | LISTEN | 77 | 1 | idle in transaction | 17 | NULL | 0 | 0 | 0 | 0 | 0 | 0 | 0
            D | C | alice | shop | none | waiting | 192.0.2.9 | 50000 | 192.0.2.1 | 6432 | 2026-07-10 22:19:13 UTC | 2026-07-10 22:19:13 UTC | 2 | 345 | 0 | 0xc |  | 0 |  | psql | 2 | 12 | NULL | NULL | 1 | waiting | 2000345 | pool full | 0 | 0 | 0 | 0 | 0 | 0 | 0
            D | C | admin | pgbouncer | none | idle | 192.0.2.9 | 50000 | 192.0.2.1 | 6432 | 2026-07-10 22:19:13 UTC | 2026-07-10 22:19:13 UTC | 0 | 0 | 0 | 0xd |  | 0 |  | psql | 2 | 13 | NULL | NULL | 1 | NULL | NULL | NULL | 0 | 0 | 0 | 0 | 0 | 0 | 0
            D | C | bob | auto | none | active | 192.0.2.9 | 50000 | 192.0.2.1 | 6432 | 2026-07-10 22:19:13 UTC | 2026-07-10 22:19:13 UTC | 0 | 0 | 0 | 0x9 |  | 0 |  | psql | 2 | 9 | temporary object, LISTEN | 78 | 1 | NULL | NULL | NULL | 0 | 0 | 0 | 0 | 0 | 0 | 0
        "#]],
    );
}

#[test]
fn show_servers_lists_every_server() {
    check_show(
        "SHOW SERVERS",
        expect![[r#"
            T type:text user:text database:text replication:text state:text addr:text port:int4 local_addr:text local_port:int4 connect_time:text request_time:text wait:int4 wait_us:int4 close_needed:int4 ptr:text link:text remote_pid:int4 tls:text application_name:text prepared_statements:int4 id:int8 worker:int4
            D | S | alice | shop | logical | active | 10.0.0.5 | 5433 | 192.0.2.1 | 40000 | 2026-07-10 22:19:13 UTC | 2026-07-10 22:19:20 UTC | 0 | 0 | 1 | 0xb | 0xa | 4711 | TLSv1.2/ECDHE-RSA-AES128-GCM-SHA256 |  | 1 | 11 | 0
        "#]],
    );
}

#[test]
fn show_pools_lists_every_pool_and_its_own() {
    check_show(
        "SHOW POOLS",
        expect![[r#"
            T database:text user:text cl_active:int4 cl_waiting:int4 cl_active_cancel_req:int4 cl_waiting_cancel_req:int4 sv_active:int4 sv_active_cancel:int4 sv_being_canceled:int4 sv_idle:int4 sv_used:int4 sv_tested:int4 sv_login:int4 maxwait:int4 maxwait_us:int4 pool_mode:text load_balance_hosts:text size:int4 servers:int4 cl_pinned:int4 violation:text
            D | auto | alice | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | transaction | NULL | 0 | 0 | 0 | one server too many
            D | pgbouncer | pgbouncer | 1 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | statement | NULL | 2 | 0 | 0 | NULL
            D | shop | alice | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10 | 11 | 2 | 345 | session | round-robin | 40 | 36 | 12 | NULL
        "#]],
    );
}

#[test]
fn show_pins_lists_the_oldest_first() {
    check_show(
        "SHOW PINS",
        expect![[r#"
        T database:text user:text addr:text port:int4 reason:text age:int8 state:text id:int8 server_pid:int4
        D | auto | bob | 192.0.2.9 | 50000 | temporary object, LISTEN | 78 | active | 9 | NULL
        D | shop | alice | 192.0.2.9 | 50000 | LISTEN | 77 | active | 10 | 4711
    "#]],
    );
}

#[test]
fn show_waits_counts_by_reason_and_names_the_oldest() {
    check_show(
        "SHOW WAITS",
        expect![[r#"
        T database:text user:text reason:text clients:int8 oldest_us:int8 oldest_application:text oldest_id:int8
        D | shop | alice | pool full | 1 | 2000345 | psql | 12
    "#]],
    );
}

#[test]
fn show_pins_totals_counts_by_database_and_reason() {
    check_show(
        "SHOW PINS_TOTALS",
        expect![[r#"
        T database:text reason:text count:numeric
        D | shop | LISTEN | 7
        D | shop | temporary object | 3
    "#]],
    );
}

#[test]
fn show_databases_lists_configured_automatic_and_its_own() {
    check_show(
        "SHOW DATABASES",
        expect![[r#"
            T name:text host:text port:int4 database:text force_user:text pool_size:int4 min_pool_size:int4 reserve_pool_size:int4 server_lifetime:int4 pool_mode:text load_balance_hosts:text max_connections:int4 current_connections:int4 max_client_connections:int4 current_client_connections:int4 paused:int4 disabled:int4
            D | auto | 10.0.0.7 | 5432 | auto | NULL | 20 | 0 | 0 | 3600 | NULL | NULL | 0 | 0 | 500 | 0 | 0 | 0
            D | forced | NULL | 5432 | app | app | 20 | 0 | 0 | 3600 | NULL | NULL | 0 | 0 | 500 | 0 | 0 | 1
            D | pgbouncer | NULL | 6432 | pgbouncer | pgbouncer | 2 | 0 | 0 | 3600 | statement | NULL | 0 | 0 | 500 | 1 | 0 | 0
            D | shop | 10.0.0.5,10.0.0.6 | 5433 | shop | NULL | 40 | 0 | 4 | 3600 | session | round-robin | 60 | 3 | 500 | 4 | 1 | 0
        "#]],
    );
}

#[test]
fn show_stats_has_totals_and_averages() {
    check_show(
        "SHOW STATS",
        expect![[r#"
            T database:text total_server_assignment_count:numeric total_xact_count:numeric total_query_count:numeric total_received:numeric total_sent:numeric total_xact_time:numeric total_query_time:numeric total_wait_time:numeric total_client_parse_count:numeric total_server_parse_count:numeric total_bind_count:numeric avg_server_assignment_count:numeric avg_xact_count:numeric avg_query_count:numeric avg_recv:numeric avg_sent:numeric avg_xact_time:numeric avg_query_time:numeric avg_wait_time:numeric avg_client_parse_count:numeric avg_server_parse_count:numeric avg_bind_count:numeric total_client_login_count:numeric avg_client_login_count:numeric total_error_count:numeric total_pin_count:numeric total_state_question_count:numeric total_state_miss_count:numeric total_notification_count:numeric total_listen_overflow_count:numeric
            D | pgbouncer | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0
            D | shop | 60 | 120 | 240 | 6000 | 18446744073709551615 | 1200 | 1300 | 1400 | 5 | 6 | 7 | 1 | 2 | 4 | 100 | 307445734561825860 | 10 | 5 | 23 | 0 | 0 | 0 | 8 | 0 | 9 | 10 | 11 | 12 | 13 | 14
        "#]],
    );
}

#[test]
fn show_stats_totals_has_totals() {
    check_show(
        "SHOW STATS_TOTALS",
        expect![[r#"
            T database:text server_assignment_count:numeric xact_count:numeric query_count:numeric bytes_received:numeric bytes_sent:numeric xact_time:numeric query_time:numeric wait_time:numeric client_parse_count:numeric server_parse_count:numeric bind_count:numeric client_login_count:numeric error_count:numeric pin_count:numeric state_question_count:numeric state_miss_count:numeric notification_count:numeric listen_overflow_count:numeric
            D | pgbouncer | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0
            D | shop | 60 | 120 | 240 | 6000 | 18446744073709551615 | 1200 | 1300 | 1400 | 5 | 6 | 7 | 8 | 9 | 10 | 11 | 12 | 13 | 14
        "#]],
    );
}

#[test]
fn show_stats_averages_has_averages() {
    check_show(
        "SHOW STATS_AVERAGES",
        expect![[r#"
        T database:text server_assignment_count:numeric xact_count:numeric query_count:numeric bytes_received:numeric bytes_sent:numeric xact_time:numeric query_time:numeric wait_time:numeric avg_client_parse_count:numeric avg_server_parse_count:numeric avg_bind_count:numeric avg_client_login_count:numeric
        D | pgbouncer | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0
        D | shop | 1 | 2 | 4 | 100 | 307445734561825860 | 10 | 5 | 23 | 0 | 0 | 0 | 0
    "#]],
    );
}

#[test]
fn show_totals_adds_up_all_databases() {
    check_show(
        "SHOW TOTALS",
        expect![[r#"
            T name:text value:numeric
            D | total_server_assignment_count | 60
            D | total_xact_count | 120
            D | total_query_count | 240
            D | total_client_bytes | 6000
            D | total_server_bytes | 18446744073709551615
            D | total_xact_time | 1200
            D | total_query_time | 1300
            D | total_wait_time | 1400
            D | total_ps_client_parse_count | 5
            D | total_ps_server_parse_count | 6
            D | total_ps_bind_count | 7
            D | avg_server_assignment_count | 1
            D | avg_xact_count | 2
            D | avg_query_count | 4
            D | avg_client_bytes | 100
            D | avg_server_bytes | 307445734561825860
            D | avg_xact_time | 10
            D | avg_query_time | 5
            D | avg_wait_time | 23
            D | avg_ps_client_parse_count | 0
            D | avg_ps_server_parse_count | 0
            D | avg_ps_bind_count | 0
            D | total_client_login_count | 8
            D | avg_client_login_count | 0
        "#]],
    );
}

#[test]
fn show_tls_lists_certificates_by_side_and_database() {
    check_show(
        "SHOW TLS",
        expect![[r#"
            T side:text database:text sslmode:text file:text subject:text issuer:text not_before:text not_after:text days_left:int8 protocols:text
            D | client | NULL | require | /etc/weir/weir.crt | CN=db.example | CN=Example CA | 2026-07-10 22:19:13 UTC | 2026-07-12 02:05:53 UTC | -3 | secure
            D | server | shop | require | /etc/weir/weir.crt | CN=db.example | CN=Example CA | 2026-07-10 22:19:13 UTC | 2026-07-12 02:05:53 UTC | -3 | secure
        "#]],
    );
}

#[test]
fn show_lists_counts_everything() {
    check_show(
        "SHOW LISTS",
        expect![[r#"
            T list:text items:int4
            D | databases | 4
            D | users | 6
            D | peers | 2
            D | pools | 3
            D | peer_pools | 1
            D | free_clients | 0
            D | used_clients | 4
            D | login_clients | 1
            D | free_servers | 0
            D | used_servers | 1
            D | dns_names | 3
            D | dns_zones | 0
            D | dns_queries | 4
            D | dns_pending | 0
        "#]],
    );
}

#[test]
fn show_users_lists_every_known_user() {
    check_show(
        "SHOW USERS",
        expect![[r#"
            T name:text pool_size:text reserve_pool_size:text pool_mode:text max_user_connections:int4 current_connections:int4 max_user_client_connections:int4 current_client_connections:int4
            D | admin |  |  | NULL | 0 | 0 | 0 | 1
            D | alice |  |  | NULL | 0 | 1 | 0 | 2
            D | app |  |  | NULL | 0 | 0 | 0 | 0
            D | bob |  |  | NULL | 0 | 0 | 0 | 1
            D | pgbouncer |  |  | NULL | 0 | 0 | 0 | 0
            D | reports |         3 |  | transaction | 9 | 0 | 0 | 0
        "#]],
    );
}

/// PAUSE, KILL and SUSPEND change this table.
#[test]
fn show_state_tells_what_is_halted() {
    let cases = [
        (Halts::default(), ["yes", "no", "no"]),
        (
            Halts {
                paused: ["shop".to_owned()].into(),
                ..Halts::default()
            },
            ["yes", "no", "no"],
        ),
        (
            Halts {
                all: true,
                ..Halts::default()
            },
            ["no", "yes", "no"],
        ),
        (
            Halts {
                suspended: true,
                ..Halts::default()
            },
            ["no", "no", "yes"],
        ),
    ];
    for (halts, [active, paused, suspended]) in cases {
        let snapshot = Snapshot {
            halts,
            ..Snapshot::default()
        };
        let mut client = test_console().open(Role::Stats);
        assert!(matches!(
            client.handle(b'Q', b"SHOW STATE\0"),
            Step::Gather { .. }
        ));
        let wanted = format!(
            "T key:text value:text\nD | active | {active}\nD | paused | {paused}\nD | suspended | {suspended}\n\
             D | weir_version | 0.1.0\nC SHOW\nZ I\n"
        );
        assert_eq!(shown(&client.gathered(&snapshot)), wanted);
    }
}

#[test]
fn show_state_names_the_driver_and_the_reason() {
    let snapshot = Snapshot {
        driver: Some(DriverInUse {
            name: DriverName::IoUring,
            reason: "io = auto".to_owned(),
        }),
        ..Snapshot::default()
    };
    let mut client = test_console().open(Role::Stats);
    client.handle(b'Q', b"SHOW STATE\0");
    let answer = shown(&client.gathered(&snapshot));
    let rows = "D | io_driver | io_uring\nD | io_driver_reason | io = auto\n";
    assert!(answer.contains(rows), "{answer}");
}

/// PAUSE of everything pauses every database.
#[test]
fn show_databases_tells_of_a_pause_of_everything() {
    let halts = Halts {
        all: true,
        ..Halts::default()
    };
    let snapshot = Snapshot {
        halts,
        ..Snapshot::default()
    };
    let mut client = test_console().open(Role::Stats);
    client.handle(b'Q', b"SHOW DATABASES\0");
    let answer = shown(&client.gathered(&snapshot));
    let rows: Vec<_> = answer
        .lines()
        .filter(|line| line.starts_with('D'))
        .collect();
    for row in rows {
        let wanted = if row.starts_with("D | pgbouncer ") {
            "| 0 | 0"
        } else {
            "| 1 | 0"
        };
        assert!(row.ends_with(wanted), "{row}");
    }
}

#[test]
fn show_config_has_a_row_per_option() {
    let answer = ask(Role::Stats, "SHOW CONFIG");
    assert!(answer.starts_with("T key:text value:text default:text changeable:text\n"));
    assert!(answer.contains("\nD | max_db_client_connections | 500 | 0 | yes\n"));
    assert!(answer.contains("\nD | listen_port | 6432 | 6432 | no\n"));
}

#[test]
fn show_sockets_adds_what_is_held() {
    check_show(
        "SHOW SOCKETS",
        expect![[r#"
            T type:text user:text database:text replication:text state:text addr:text port:int4 local_addr:text local_port:int4 connect_time:text request_time:text wait:int4 wait_us:int4 close_needed:int4 ptr:text link:text remote_pid:int4 tls:text application_name:text prepared_statements:int4 id:int8 recv_pos:int4 pkt_pos:int4 pkt_remain:int4 send_pos:int4 send_remain:int4 pkt_avail:int4 send_avail:int4 worker:int4
            D | C | alice | shop | none | cl_active | 192.0.2.9 | 50000 | 192.0.2.1 | 6432 | 2026-07-10 22:19:13 UTC | 2026-07-10 22:19:19 UTC | 0 | 0 | 0 | 0xa | 0xb | 0 | TLSv1.3/TLS_AES_128_GCM_SHA256 | psql | 2 | 10 | 33 | 0 | 0 | 0 | 66 | 33 | 66 | 1
            D | C | alice | shop | none | cl_waiting | 192.0.2.9 | 50000 | 192.0.2.1 | 6432 | 2026-07-10 22:19:13 UTC | 2026-07-10 22:19:13 UTC | 2 | 345 | 0 | 0xc |  | 0 |  | psql | 2 | 12 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 1
            D | C | admin | pgbouncer | none | cl_active | 192.0.2.9 | 50000 | 192.0.2.1 | 6432 | 2026-07-10 22:19:13 UTC | 2026-07-10 22:19:13 UTC | 0 | 0 | 0 | 0xd |  | 0 |  | psql | 2 | 13 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 1
            D | C | bob | auto | none | cl_active | 192.0.2.9 | 50000 | 192.0.2.1 | 6432 | 2026-07-10 22:19:13 UTC | 2026-07-10 22:19:13 UTC | 0 | 0 | 0 | 0x9 |  | 0 |  | psql | 2 | 9 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 1
            D | S | alice | shop | logical | sv_active | 10.0.0.5 | 5433 | 192.0.2.1 | 40000 | 2026-07-10 22:19:13 UTC | 2026-07-10 22:19:20 UTC | 0 | 0 | 1 | 0xb | 0xa | 4711 | TLSv1.2/ECDHE-RSA-AES128-GCM-SHA256 |  | 1 | 11 | 55 | 0 | 0 | 0 | 44 | 55 | 44 | 0
        "#]],
    );
}

#[test]
fn show_active_sockets_leaves_out_the_idle() {
    check_show(
        "SHOW ACTIVE_SOCKETS",
        expect![[r#"
            T type:text user:text database:text replication:text state:text addr:text port:int4 local_addr:text local_port:int4 connect_time:text request_time:text wait:int4 wait_us:int4 close_needed:int4 ptr:text link:text remote_pid:int4 tls:text application_name:text prepared_statements:int4 id:int8 recv_pos:int4 pkt_pos:int4 pkt_remain:int4 send_pos:int4 send_remain:int4 pkt_avail:int4 send_avail:int4 worker:int4
            D | C | alice | shop | none | cl_active | 192.0.2.9 | 50000 | 192.0.2.1 | 6432 | 2026-07-10 22:19:13 UTC | 2026-07-10 22:19:19 UTC | 0 | 0 | 0 | 0xa | 0xb | 0 | TLSv1.3/TLS_AES_128_GCM_SHA256 | psql | 2 | 10 | 33 | 0 | 0 | 0 | 66 | 33 | 66 | 1
            D | C | bob | auto | none | cl_active | 192.0.2.9 | 50000 | 192.0.2.1 | 6432 | 2026-07-10 22:19:13 UTC | 2026-07-10 22:19:13 UTC | 0 | 0 | 0 | 0x9 |  | 0 |  | psql | 2 | 9 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 1
            D | S | alice | shop | logical | sv_active | 10.0.0.5 | 5433 | 192.0.2.1 | 40000 | 2026-07-10 22:19:13 UTC | 2026-07-10 22:19:20 UTC | 0 | 0 | 1 | 0xb | 0xa | 4711 | TLSv1.2/ECDHE-RSA-AES128-GCM-SHA256 |  | 1 | 11 | 55 | 0 | 0 | 0 | 44 | 55 | 44 | 0
        "#]],
    );
}

#[test]
fn show_mem_lists_kinds_of_objects() {
    check_show(
        "SHOW MEM",
        expect![[r#"
        T name:text size:int4 used:int4 free:int4 memtotal:int4
        D | client_cache | 1000 | 3 | 2 | 5000
    "#]],
    );
}

#[test]
fn show_dns_hosts_lists_the_cache() {
    check_show(
        "SHOW DNS_HOSTS",
        expect![[r#"
        T hostname:text ttl:int8 addrs:text
        D | db.example | 14 | 192.0.2.7,2001:db8::7
        D | gone.example | 0 |
    "#]],
    );
}

#[test]
fn show_dns_zones_has_no_rows() {
    check_show(
        "SHOW DNS_ZONES",
        expect![[r#"
        T zonename:text serial:int8 count:int4
    "#]],
    );
}

#[test]
fn show_peers_lists_all() {
    check_show(
        "SHOW PEERS",
        expect![[r#"
        T peer_id:int4 host:text port:int4 pool_size:int4
        D | 1 | 10.0.0.8 | 6432 | 20
        D | 2 | 10.0.0.9 | 6433 | 5
    "#]],
    );
}

#[test]
fn show_peer_pools_lists_the_others() {
    check_show(
        "SHOW PEER_POOLS",
        expect![[r#"
        T peer_id:int4 cl_active_cancel_req:int4 cl_waiting_cancel_req:int4 sv_active_cancel:int4 sv_login:int4
        D | 2 | 8 | 9 | 8 | 9
    "#]],
    );
}

#[test]
fn show_extended_pools_has_percentiles_and_pins() {
    check_show(
        "SHOW EXTENDED POOLS",
        expect![[r#"
        T database:text user:text cl_active:int4 cl_waiting:int4 cl_active_cancel_req:int4 cl_waiting_cancel_req:int4 sv_active:int4 sv_active_cancel:int4 sv_being_canceled:int4 sv_idle:int4 sv_used:int4 sv_tested:int4 sv_login:int4 maxwait:int4 maxwait_us:int4 pool_mode:text load_balance_hosts:text size:int4 servers:int4 cl_pinned:int4 violation:text pins:text paused:int4 wait_p50:int8 wait_p95:int8 wait_p99:int8 xact_p50:int8 xact_p95:int8 xact_p99:int8 query_p50:int8 query_p95:int8 query_p99:int8 xact_count:numeric query_count:numeric error_count:numeric
        D | auto | alice | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | transaction | NULL | 0 | 0 | 0 | one server too many | NULL | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0
        D | pgbouncer | pgbouncer | 1 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | statement | NULL | 2 | 0 | 0 | NULL | NULL | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0
        D | shop | alice | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10 | 11 | 2 | 345 | session | round-robin | 40 | 36 | 12 | NULL | LISTEN: 1 | 1 | 3 | 3 | 3 | 5 | 5 | 5 | 7 | 7 | 7 | 120 | 240 | 9
    "#]],
    );
}

#[test]
fn show_errors_lists_the_most_frequent_first() {
    check_show(
        "SHOW ERRORS",
        expect![[r#"
        T origin:text sqlstate:text condition:text count:numeric
        D | server | 42P01 | undefined_table | 7
        D | pooler | 53300 | too_many_connections | 3
        D | server | other | NULL | 1
    "#]],
    );
}

#[test]
fn show_limits_lists_the_fullest_first() {
    check_show(
        "SHOW LIMITS",
        expect![[r#"
            T name:text scope:text used:int8 maximum:int8 percent:int8 peak:int8 peak_at:text peak_in_hour:int8
            D | max_db_connections | shop | 40 | 60 | 66 | NULL | NULL | NULL
            D | max_client_conn | NULL | 5 | 100 | 5 | NULL | NULL | NULL
            D | max_pools | NULL | 0 | 0 | NULL | NULL | NULL | NULL
        "#]],
    );
}

#[test]
fn show_pool_size_tells_what_was_decided_and_why() {
    check_show(
        "SHOW POOL_SIZE",
        expect![[r#"
        T database:text user:text mode:text state:text size:int8 limit:int8 assigned:int8 servers:int8 size_min:int8 size_max:int8 knee_low:int8 knee_high:int8 elasticity:text pairs:int8 moves:int8 stalls:int8 cuts:int8 last_decision:text
        D | shop | app | on | holds | 17 | 18 | 15 | 20 | 1 | 100 | 12 | 24 | 0.13 ± 0.05 | 9 | 4 | 0 | 1 | 3 s ago stays 17: cannot tell
    "#]],
    );
    check_show(
        "SHOW POOL_SIZE_DECISIONS",
        expect![[r#"
        T database:text user:text age_seconds:int8 size_before:int8 size_after:int8 reason:text
        D | shop | app | 3 | 17 | 17 | cannot tell
        D | shop | app | 9 | 12 | 17 | more servers still pay
    "#]],
    );
}
