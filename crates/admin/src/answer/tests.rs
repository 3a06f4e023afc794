//! The console asked as the engine asks it: golden answers, roles, bad queries.

use std::path::Path;

use expect_test::{Expect, expect};
use weir_config::Settings;
use weir_proxy::console::{Order, Refusal, Shutdown, Step};
use weir_stats::{
    ClientRow, ClientState, Counters, Endpoint, PoolCounts, PoolRow, ServerRow, ServerState,
    Snapshot, TlsRow, Totals,
};
use weir_wire::encode;
use weir_wire::frame::{Side, frame};

use super::*;
use crate::command::{COMMANDS, Entry};
use crate::show::Kind;

mod commands;
mod extended;

const SECRET: &str = "correct-horse";

const INI: &str = "
[databases]
shop = host=10.0.0.5,10.0.0.6 port=5433 pool_size=40 reserve_pool_size=4 max_db_connections=60 pool_mode=session
forced = dbname=app user=app password=correct-horse
* = host=10.0.0.7

[users]
reports = pool_size=3 pool_mode=transaction max_user_connections=9

[pgbouncer]
auth_type = any
max_db_client_connections = 500
auth_ldap_options = ldapserver=x ldapbindpasswd=correct-horse
";

fn settings() -> Settings {
    let mut read = |_: &Path| Ok(INI.to_owned());
    weir_config::load(Path::new("pgbouncer.ini"), &mut read, std::iter::empty())
        .unwrap()
        .settings
}

fn test_console() -> impl Console {
    let users = vec!["alice".to_owned(), "bob".to_owned()];
    console(Shared::new(settings().into(), users), "0.1.0")
}

fn endpoint(address: &str, port: u16) -> Endpoint {
    let address = address.to_owned();
    Endpoint { address, port }
}

fn client(id: u64, user: &str, database: &str, state: ClientState) -> ClientRow {
    ClientRow {
        id,
        user: user.to_owned(),
        database: database.to_owned(),
        state,
        remote: endpoint("192.0.2.9", 50_000),
        local: endpoint("192.0.2.1", 6432),
        connect_time: 1_783_721_953,
        request_time: 0,
        wait_us: 0,
        link: None,
        remote_pid: 0,
        tls: String::new(),
        application_name: "psql".to_owned(),
        prepared_statements: 2,
        pin: String::new(),
        pin_age_seconds: 0,
        worker: 1,
    }
}

fn server() -> ServerRow {
    ServerRow {
        id: 11,
        user: "alice".to_owned(),
        database: "shop".to_owned(),
        state: ServerState::Active,
        remote: endpoint("10.0.0.5", 5433),
        local: endpoint("192.0.2.1", 40_000),
        connect_time: 1_783_721_953,
        request_time: 1_783_721_960,
        close_needed: true,
        link: Some(10),
        remote_pid: 4711,
        tls: "TLSv1.2/ECDHE-RSA-AES128-GCM-SHA256".to_owned(),
        application_name: String::new(),
        prepared_statements: 1,
        worker: 0,
    }
}

fn counted() -> Totals {
    let counters = Counters {
        server_assignments: 60,
        transactions: 120,
        queries: 240,
        bytes_received: 6000,
        bytes_sent: u64::MAX,
        transaction_us: 1200,
        query_us: 1300,
        wait_us: 1400,
        client_parses: 5,
        server_parses: 6,
        binds: 7,
        client_logins: 8,
        errors: 9,
        notifications: 13,
        listen_overflows: 14,
        pins: 10,
        state_questions: 11,
        state_misses: 12,
    };
    Totals {
        totals: counters,
        period: counters,
        period_us: 60_000_000,
        pins: [("LISTEN", 7), ("temporary object", 3)].into(),
        current_connections: 3,
        current_client_connections: 4,
    }
}

fn certificates() -> Vec<TlsRow> {
    let client = TlsRow {
        hop: "client".to_owned(),
        database: String::new(),
        sslmode: "require".to_owned(),
        file: "/etc/weir/weir.crt".to_owned(),
        subject: "CN=db.example".to_owned(),
        issuer: "CN=Example CA".to_owned(),
        not_before: 1_783_721_953,
        not_after: 1_783_821_953,
        days_left: -3,
        protocols: "secure".to_owned(),
    };
    let server = TlsRow {
        hop: "server".to_owned(),
        database: "shop".to_owned(),
        ..client.clone()
    };
    vec![client, server]
}

fn snapshot() -> Snapshot {
    let mut waiting = client(12, "alice", "shop", ClientState::Waiting);
    waiting.wait_us = 2_000_345;
    let mut active = client(10, "alice", "shop", ClientState::Active);
    (active.link, active.request_time) = (Some(11), 1_783_721_959);
    (active.pin, active.pin_age_seconds) = ("LISTEN".to_owned(), 77);
    let mut older = client(9, "bob", "auto", ClientState::Active);
    (older.pin, older.pin_age_seconds) = ("temporary object, LISTEN".to_owned(), 78);
    active.tls = "TLSv1.3/TLS_AES_128_GCM_SHA256".to_owned();
    let own = client(13, "admin", "pgbouncer", ClientState::Idle);
    let pool = PoolRow {
        counts: PoolCounts {
            cl_active: 1,
            cl_waiting: 2,
            cl_active_cancel_req: 3,
            cl_waiting_cancel_req: 4,
            sv_active: 5,
            sv_active_cancel: 6,
            sv_being_canceled: 7,
            sv_idle: 8,
            sv_used: 9,
            sv_tested: 10,
            sv_login: 11,
        },
        maxwait_us: 2_000_345,
        pool_mode: "session",
        load_balance_hosts: "round-robin",
        size: 40,
        servers: 36,
        pinned: 12,
        ..PoolRow::default()
    };
    let key = |database: &str| (database.to_owned(), "alice".to_owned());
    let auto = PoolRow {
        pool_mode: "transaction",
        violation: "one server too many".to_owned(),
        ..PoolRow::default()
    };
    Snapshot {
        clients: vec![active, waiting, own, older],
        servers: vec![server()],
        pools: [(key("shop"), pool), (key("auto"), auto)].into(),
        databases: [("shop".to_owned(), counted())].into(),
        login_clients: 1,
        cancels: 2,
        dns_names: 3,
        dns_pending: 4,
        tls: certificates(),
        ..Snapshot::default()
    }
}

/// A client of the console, with an engine that does what it is asked.
struct Engine {
    client: Box<dyn Conversation>,
    /// How the next order goes.
    outcome: Result<(), Refusal>,
    orders: Vec<Order>,
    stopped: Option<Shutdown>,
}

impl Engine {
    fn new(role: Role) -> Self {
        Self {
            client: test_console().open(role),
            outcome: Ok(()),
            orders: Vec::new(),
            stopped: None,
        }
    }

    /// The bytes of the answer to a message.
    fn tell(&mut self, tag: u8, body: &[u8]) -> Vec<u8> {
        match self.client.handle(tag, body) {
            Step::Close(bytes) | Step::Reply(bytes) => bytes,
            Step::Gather => self.client.gathered(&snapshot()),
            Step::Perform(order) => {
                self.orders.push(order);
                self.client.performed(self.outcome.clone())
            }
            Step::Stop(how, bytes) => {
                self.stopped = Some(how);
                bytes
            }
        }
    }

    /// Sends whole messages.
    fn send(&mut self, mut messages: &[u8]) -> String {
        let mut answer = Vec::new();
        while let Some(message) = frame(messages, Side::Frontend).unwrap() {
            answer.extend(self.tell(message.header.tag, message.body));
            messages = &messages[message.raw.len()..];
        }
        assert_eq!(messages, b"");
        shown(&answer)
    }

    fn ask(&mut self, sql: impl AsRef<[u8]>) -> String {
        shown(&self.tell(b'Q', &[sql.as_ref(), b"\0"].concat()))
    }
}

fn ask(role: Role, sql: impl AsRef<[u8]>) -> String {
    Engine::new(role).ask(sql)
}

fn number(bytes: &[u8]) -> i32 {
    bytes
        .iter()
        .fold(0, |sum, byte| (sum << 8) | i32::from(*byte))
}

/// Messages as text, a line for each. Panics on whatever is not a message.
fn shown(mut bytes: &[u8]) -> String {
    let mut out = String::new();
    while !bytes.is_empty() {
        let message = frame(bytes, Side::Backend).unwrap().unwrap();
        let body = message.body;
        let line = match message.header.tag {
            b'T' => headings(body),
            b'D' => values(body),
            tag => {
                let body = String::from_utf8_lossy(body).replace('\0', " ");
                format!("{} {}", char::from(tag), body.trim_end())
            }
        };
        out.push_str(line.trim_end());
        out.push('\n');
        bytes = &bytes[5 + body.len()..];
    }
    out
}

fn headings(body: &[u8]) -> String {
    let mut rest = &body[2..];
    let mut out = "T".to_owned();
    while let Some(end) = rest.iter().position(|byte| *byte == 0) {
        let name = String::from_utf8(rest[..end].to_vec()).unwrap();
        let oid = number(&rest[end + 7..end + 11]).unsigned_abs();
        let kinds = [Kind::Int4, Kind::Int8, Kind::Numeric, Kind::Text];
        let kind = kinds.into_iter().find(|kind| kind.oid() == oid).unwrap();
        out.push_str(&format!(" {name}:{}", kind.name()));
        rest = &rest[end + 19..];
    }
    out
}

fn values(body: &[u8]) -> String {
    let mut rest = &body[2..];
    let mut out = "D".to_owned();
    while !rest.is_empty() {
        let len = usize::try_from(number(&rest[..4]));
        rest = &rest[4..];
        out.push_str(" |");
        match len {
            Err(_) => out.push_str(" NULL"),
            Ok(len) => {
                let value = String::from_utf8(rest[..len].to_vec()).unwrap();
                out.push_str(&format!(" {value}"));
                rest = &rest[len..];
            }
        }
    }
    out
}

fn check(sql: &str, expect: Expect) {
    expect.assert_eq(&ask(Role::Stats, sql));
}

/// A table; the tag and ReadyForQuery are checked here once.
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
        D | PgBouncer 1.25.2 (Weir 0.1.0)
    "#]],
    );
}

#[test]
fn show_clients_lists_every_client() {
    check_show(
        "SHOW CLIENTS",
        expect![[r#"
            T type:text user:text database:text replication:text state:text addr:text port:int4 local_addr:text local_port:int4 connect_time:text request_time:text wait:int4 wait_us:int4 close_needed:int4 ptr:text link:text remote_pid:int4 tls:text application_name:text prepared_statements:int4 id:int8 pin:text pin_age:int8 worker:int4
            D | C | alice | shop | none | active | 192.0.2.9 | 50000 | 192.0.2.1 | 6432 | 2026-07-10 22:19:13 UTC | 2026-07-10 22:19:19 UTC | 0 | 0 | 0 | 0xa | 0xb | 0 | TLSv1.3/TLS_AES_128_GCM_SHA256 | psql | 2 | 10 | LISTEN | 77 | 1
            D | C | alice | shop | none | waiting | 192.0.2.9 | 50000 | 192.0.2.1 | 6432 | 2026-07-10 22:19:13 UTC | 2026-07-10 22:19:13 UTC | 2 | 345 | 0 | 0xc |  | 0 |  | psql | 2 | 12 | NULL | NULL | 1
            D | C | admin | pgbouncer | none | active | 192.0.2.9 | 50000 | 192.0.2.1 | 6432 | 2026-07-10 22:19:13 UTC | 2026-07-10 22:19:13 UTC | 0 | 0 | 0 | 0xd |  | 0 |  | psql | 2 | 13 | NULL | NULL | 1
            D | C | bob | auto | none | active | 192.0.2.9 | 50000 | 192.0.2.1 | 6432 | 2026-07-10 22:19:13 UTC | 2026-07-10 22:19:13 UTC | 0 | 0 | 0 | 0x9 |  | 0 |  | psql | 2 | 9 | temporary object, LISTEN | 78 | 1
        "#]],
    );
}

#[test]
fn show_servers_lists_every_server() {
    check_show(
        "SHOW SERVERS",
        expect![[r#"
            T type:text user:text database:text replication:text state:text addr:text port:int4 local_addr:text local_port:int4 connect_time:text request_time:text wait:int4 wait_us:int4 close_needed:int4 ptr:text link:text remote_pid:int4 tls:text application_name:text prepared_statements:int4 id:int8 worker:int4
            D | S | alice | shop | none | active | 10.0.0.5 | 5433 | 192.0.2.1 | 40000 | 2026-07-10 22:19:13 UTC | 2026-07-10 22:19:20 UTC | 0 | 0 | 1 | 0xb | 0xa | 4711 | TLSv1.2/ECDHE-RSA-AES128-GCM-SHA256 |  | 1 | 11 | 0
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
        D | forced | NULL | 5432 | app | app | 20 | 0 | 0 | 3600 | NULL | NULL | 0 | 0 | 500 | 0 | 0 | 0
        D | pgbouncer | NULL | 6432 | pgbouncer | pgbouncer | 2 | 0 | 0 | 3600 | statement | NULL | 0 | 0 | 0 | 1 | 0 | 0
        D | shop | 10.0.0.5,10.0.0.6 | 5433 | shop | NULL | 40 | 0 | 4 | 3600 | session | round-robin | 60 | 3 | 500 | 4 | 0 | 0
    "#]],
    );
}

#[test]
fn show_stats_has_totals_and_averages() {
    check_show(
        "SHOW STATS",
        expect![[r#"
            T database:text total_server_assignment_count:numeric total_xact_count:numeric total_query_count:numeric total_received:numeric total_sent:numeric total_xact_time:numeric total_query_time:numeric total_wait_time:numeric total_client_parse_count:numeric total_server_parse_count:numeric total_bind_count:numeric total_client_login_count:numeric avg_server_assignment_count:numeric avg_xact_count:numeric avg_query_count:numeric avg_recv:numeric avg_sent:numeric avg_xact_time:numeric avg_query_time:numeric avg_wait_time:numeric avg_client_parse_count:numeric avg_server_parse_count:numeric avg_bind_count:numeric avg_client_login_count:numeric total_error_count:numeric total_pin_count:numeric total_state_question_count:numeric total_state_miss_count:numeric total_notification_count:numeric total_listen_overflow_count:numeric
            D | pgbouncer | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0
            D | shop | 60 | 120 | 240 | 6000 | 18446744073709551615 | 1200 | 1300 | 1400 | 5 | 6 | 7 | 8 | 1 | 2 | 4 | 100 | 307445734561825860 | 10 | 5 | 23 | 0 | 0 | 0 | 0 | 9 | 10 | 11 | 12 | 13 | 14
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
        D | total_client_login_count | 8
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
        D | avg_client_login_count | 0
    "#]],
    );
}

#[test]
fn show_tls_lists_certificates_by_hop_and_database() {
    check_show(
        "SHOW TLS",
        expect![[r#"
            T hop:text database:text sslmode:text file:text subject:text issuer:text not_before:text not_after:text days_left:int8 protocols:text
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
            D | peers | 0
            D | pools | 3
            D | peer_pools | 0
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
            D | admin |  |  | NULL | 0 | 0 | 0 | 0
            D | alice |  |  | NULL | 0 | 1 | 0 | 2
            D | app |  |  | NULL | 0 | 0 | 0 | 0
            D | bob |  |  | NULL | 0 | 0 | 0 | 1
            D | pgbouncer |  |  | NULL | 0 | 0 | 0 | 0
            D | reports |         3 |  | transaction | 9 | 0 | 0 | 0
        "#]],
    );
}

#[test]
fn show_state_is_active() {
    check_show(
        "SHOW STATE",
        expect![[r#"
        T key:text value:text
        D | active | yes
        D | paused | no
        D | suspended | no
    "#]],
    );
}

#[test]
fn show_config_has_a_row_per_option() {
    let answer = ask(Role::Stats, "SHOW CONFIG");
    assert!(answer.starts_with("T key:text value:text default:text changeable:text\n"));
    assert!(answer.contains("\nD | max_db_client_connections | 500 | 0 | yes\n"));
    assert!(answer.contains("\nD | listen_port | 6432 | 6432 | no\n"));
}

#[test]
fn show_help_lists_what_works() {
    check(
        "show help",
        expect![[r#"
            N SNOTICE VNOTICE C00000 MConsole usage D
            	SHOW HELP
            	SHOW CLIENTS
            	SHOW CONFIG
            	SHOW DATABASES
            	SHOW LISTS
            	SHOW PINS
            	SHOW PINS_TOTALS
            	SHOW POOLS
            	SHOW SERVERS
            	SHOW STATE
            	SHOW STATS
            	SHOW STATS_AVERAGES
            	SHOW STATS_TOTALS
            	SHOW TLS
            	SHOW TOTALS
            	SHOW USERS
            	SHOW VERSION
            	PAUSE [DATABASE]
            	RESUME [DATABASE]
            	DISABLE DATABASE
            	ENABLE DATABASE
            	KILL [DATABASE]
            	KILL_CLIENT ID
            	RECONNECT [DATABASE]
            	WAIT_CLOSE [DATABASE]
            	SUSPEND
            	RELOAD
            	SET KEY = VALUE
            	SHUTDOWN
            	SHUTDOWN WAIT_FOR_SERVERS
            	SHUTDOWN WAIT_FOR_CLIENTS
            C SHOW
            Z I
        "#]],
    );
}

#[test]
fn drivers_get_what_they_ask_for_on_connecting() {
    check(
        "SHOW client_encoding;",
        expect![[r#"
        T client_encoding:text
        D | UTF-8
        C SHOW
        Z I
    "#]],
    );
    check(
        "set timezone to 'UTC'",
        expect![[r#"
        N SNOTICE VNOTICE C00000 MSET ignored
        C SET
        Z I
    "#]],
    );
}

/// Arguments that fit, so that only the role decides.
fn example(entry: &Entry) -> String {
    let usage = entry.usage().replace("[DATABASE]", "shop");
    usage
        .replace("DATABASE", "shop")
        .replace("SHOW shopS", "SHOW DATABASES")
        .replace(" ID", " 7")
}

#[test]
fn no_answer_holds_a_password() {
    for entry in COMMANDS {
        let answer = ask(Role::Admin, example(entry));
        assert!(!answer.contains(SECRET), "{}", entry.name);
    }
    assert!(INI.contains(SECRET));
}

#[test]
fn nothing_asked_is_an_empty_query() {
    for sql in [&b""[..], b";", b";;", b" \n;", &[b' '; 1 << 20]] {
        assert_eq!(ask(Role::Stats, sql), "I\nZ I\n");
    }
}

#[test]
fn wrong_queries_get_pgbouncers_errors() {
    check(
        "blah",
        expect![[r#"
        E SERROR VERROR C08P01 Minvalid command 'blah', use SHOW HELP;
        Z I
    "#]],
    );
    check(
        "show",
        expect![[r#"
        E SERROR VERROR C08P01 Minvalid command 'show', use SHOW HELP;
        Z I
    "#]],
    );
    check(
        "show version x",
        expect![[r#"
        E SERROR VERROR C08P01 Minvalid command 'show version x', use SHOW HELP;
        Z I
    "#]],
    );
    check(
        "show version; show version",
        expect![[r#"
        E SERROR VERROR C08P01 Minvalid command 'show version; show version', use SHOW HELP;
        Z I
    "#]],
    );
    check(
        "select 1",
        expect![[r#"
        E SERROR VERROR C08P01 Minvalid command 'select 1', use SHOW HELP;
        Z I
    "#]],
    );
    check(
        "reload \"x",
        expect![[r#"
        E SERROR VERROR C08P01 Minvalid command 'reload "x', use SHOW HELP;
        Z I
    "#]],
    );
    expect![[r#"
        E SERROR VERROR C08P01 Minvalid message format
        Z I
    "#]]
    .assert_eq(&ask(Role::Stats, b"show \xff\0\n"));
    expect![[r#"
        E SERROR VERROR C08P01 Ma database is required
        Z I
    "#]]
    .assert_eq(&ask(Role::Admin, "disable"));
    expect![[r#"
        E SERROR VERROR C08P01 Minvalid command 'set verbose', use SHOW HELP;
        Z I
    "#]]
    .assert_eq(&ask(Role::Admin, "set verbose"));
    for sql in [
        "kill_client x",
        "kill_client",
        "kill_client -1",
        "kill_client 'x'",
    ] {
        expect![[r#"
            E SERROR VERROR C08P01 Minvalid client pointer supplied
            Z I
        "#]]
        .assert_eq(&ask(Role::Admin, sql));
    }
    expect![[r#"
        E SERROR VERROR C08P01 Mbad arguments
        Z I
    "#]]
    .assert_eq(&ask(Role::Admin, "a".repeat(300)));
}

#[test]
fn a_huge_wrong_query_gives_a_short_answer() {
    for sql in [
        format!("show {}", "x ".repeat(1 << 19)),
        "'".repeat(1 << 20),
        "=".repeat(1 << 20),
        "é".repeat(1 << 19),
        format!("\"{}", "\0".repeat(1 << 20)),
    ] {
        let answer = ask(Role::Admin, &sql);
        assert!(answer.len() < 400, "{answer}");
        assert!(answer.contains("08P01"), "{answer}");
    }
}

/// SEC-28 with a generator: whatever comes, the answer is whole messages that end with ReadyForQuery.
#[test]
fn no_bytes_upset_the_console() {
    let pieces: [&[u8]; 14] = [
        b"show",
        b" ",
        b"pools",
        b"\"",
        b"'",
        b";",
        b"=",
        b"\0",
        b"\xff",
        b"set",
        b"to",
        b"kill",
        "\u{2028}".as_bytes(),
        b"help",
    ];
    let mut engine = Engine::new(Role::Admin);
    let mut state = 1_u32;
    for _ in 0..20_000 {
        let mut sql = Vec::new();
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        for step in 0..(state >> 28) {
            let pick = (state >> (step % 24)) ^ step;
            sql.extend_from_slice(pieces[usize::try_from(pick).unwrap() % pieces.len()]);
        }
        let answer = engine.ask(&sql);
        assert!(answer.ends_with("Z I\n"), "{sql:?}: {answer}");
    }
}

#[test]
fn the_greeting_is_pgbouncers() {
    let greeting = test_console().greeting();
    assert_eq!(greeting[0].1, "1.25.2/bouncer");
    assert_eq!(greeting.len(), 7);
}

#[test]
fn a_reload_is_seen_at_once() {
    let shared = Shared::new(settings().into(), Vec::new());
    let console = console(shared.clone(), "0.1.0");
    let mut changed = settings();
    changed.global.verbose = 2;
    shared.replace(changed.into(), Vec::new());
    let mut client = console.open(Role::Stats);
    let Step::Reply(answer) = client.handle(b'Q', b"SHOW CONFIG\0") else {
        panic!("no answer at once");
    };
    let answer = shown(&answer);
    assert!(answer.contains("| verbose | 2 |"));
}
