//! Tests of the console through the engine's interface: golden answers, roles, malformed queries.

use std::path::Path;

use expect_test::{Expect, expect};
use weir_config::Settings;
use weir_proxy::console::{Order, Refusal, RouteAnswer, RouteQuestion, Shutdown, Step};
use weir_stats::{
    Activity, Blame, Buffers, ClientRow, ClientState, Counters, Endpoint, Halts, HostRow, LimitRow,
    MemoryRow, PeerRow, PoolCounts, PoolRow, ServerRow, ServerState, SizingDecision, SizingRow,
    Snapshot, Times, TlsRow, Totals, WaitReason,
};
use weir_wire::encode;
use weir_wire::frame::{Side, frame};

use super::*;
use crate::command::{COMMANDS, Entry};
use crate::show::Kind;

mod commands;
mod compat;
mod extended;
mod routes;
mod tables;

const SECRET: &str = "correct-horse";

const INI: &str = "
[databases]
shop = host=10.0.0.5,10.0.0.6 port=5433 pool_size=40 reserve_pool_size=4 max_db_connections=60 pool_mode=session
forced = dbname=app user=app password=correct-horse
* = host=10.0.0.7

[peers]
1 = host=10.0.0.8
2 = host=10.0.0.9 port=6433 pool_size=5

[users]
reports = pool_size=3 pool_mode=transaction max_user_connections=9

[pgbouncer]
auth_type = any
peer_id = 1
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
        replication: "none",
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
        activity: None,
        activity_us: 0,
        counters: weir_stats::ClientCounters::default(),
        buffers: Buffers::default(),
        worker: 1,
    }
}

fn server() -> ServerRow {
    ServerRow {
        id: 11,
        user: "alice".to_owned(),
        database: "shop".to_owned(),
        replication: "logical",
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
        buffers: Buffers {
            received: 55,
            unsent: 66,
        },
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
        statement_evictions: 18,
        wait_timeouts: 15,
        server_logins: 16,
        servers_lost: 17,
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
        side: "client".to_owned(),
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
        side: "server".to_owned(),
        database: "shop".to_owned(),
        ..client.clone()
    };
    vec![client, server]
}

fn pool() -> PoolRow {
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
    let mut recent = Times::default();
    recent.wait.record_many(3, 100);
    recent.transaction.record_many(5, 100);
    recent.query.record_many(7, 100);
    PoolRow {
        recent: Some(recent.into()),
        totals: counted().totals,
        ..pool
    }
}

fn sizing() -> SizingRow {
    SizingRow {
        database: "shop".to_owned(),
        user: "app".to_owned(),
        mode: "on",
        state: "holds".to_owned(),
        size: 17,
        limit: 18,
        assigned: 15,
        servers: 20,
        bounds: (1, 100),
        knee: Some((12, 24)),
        elasticity: Some((0.134, 0.049)),
        pairs: 9,
        moves: 4,
        stalls: 0,
        cuts: 1,
        decisions: vec![
            decision(3, (17, 17), "cannot tell"),
            decision(9, (12, 17), "more servers still pay"),
        ],
    }
}

fn decision(age_seconds: u64, (from, to): (u64, u64), reason: &str) -> SizingDecision {
    SizingDecision {
        age_seconds,
        from,
        to,
        reason: reason.to_owned(),
    }
}

fn snapshot() -> Snapshot {
    let mut waiting = client(12, "alice", "shop", ClientState::Waiting);
    waiting.wait_us = 2_000_345;
    waiting.activity = Some(Activity::Waiting(WaitReason::PoolFull));
    waiting.activity_us = 2_000_345;
    let mut active = client(10, "alice", "shop", ClientState::Active);
    (active.buffers.received, active.buffers.unsent) = (33, 44);
    (active.link, active.request_time) = (Some(11), 1_783_721_959);
    (active.activity, active.activity_us) = (Some(Activity::InTransaction), 17);
    (active.pin, active.pin_age_seconds) = ("LISTEN".to_owned(), 77);
    let mut older = client(9, "bob", "auto", ClientState::Active);
    (older.pin, older.pin_age_seconds) = ("temporary object, LISTEN".to_owned(), 78);
    active.tls = "TLSv1.3/TLS_AES_128_GCM_SHA256".to_owned();
    let own = client(13, "admin", "pgbouncer", ClientState::Idle);
    let key = |database: &str| (database.to_owned(), "alice".to_owned());
    let auto = PoolRow {
        pool_mode: "transaction",
        violation: "one server too many".to_owned(),
        ..PoolRow::default()
    };
    Snapshot {
        clients: vec![active, waiting, own, older],
        servers: vec![server()],
        pools: [(key("shop"), pool()), (key("auto"), auto)].into(),
        databases: [("shop".to_owned(), counted())].into(),
        login_clients: 1,
        cancels: 2,
        dns_names: 3,
        dns_pending: 4,
        tls: certificates(),
        errors: [
            ((Blame::Pooler, "53300"), 3),
            ((Blame::Server, "42P01"), 7),
            ((Blame::Server, "other"), 1),
        ]
        .into(),
        limits: vec![
            limit("max_client_conn", "", 5, 100),
            limit("max_db_connections", "shop", 40, 60),
            limit("max_pools", "", 0, 0),
        ],
        sizings: vec![sizing()],
        halts: Halts {
            paused: ["shop".to_owned()].into(),
            disabled: ["forced".to_owned()].into(),
            ..Halts::default()
        },
        peers: [(
            2,
            PeerRow {
                active: 8,
                waiting: 9,
            },
        )]
        .into(),
        hosts: hosts(),
        memory: [(
            "client_cache",
            MemoryRow {
                size: 1000,
                used: 3,
                free: 2,
            },
        )]
        .into(),
        ..Snapshot::default()
    }
}

fn hosts() -> Vec<HostRow> {
    vec![
        HostRow {
            name: "db.example".to_owned(),
            ttl_seconds: 14,
            addresses: vec!["192.0.2.7".to_owned(), "2001:db8::7".to_owned()],
        },
        HostRow {
            name: "gone.example".to_owned(),
            ..HostRow::default()
        },
    ]
}

fn limit(name: &'static str, scope: &str, used: u64, max: u64) -> LimitRow {
    let scope = scope.to_owned();
    LimitRow {
        name,
        scope,
        used,
        max,
        peak: None,
    }
}

/// Answers as an engine with one database that has several hosts.
fn explained(question: &RouteQuestion) -> Result<RouteAnswer, Refusal> {
    match question.database.as_deref() {
        None | Some("shop") => Ok(RouteAnswer {
            verdict: "replica",
            host: Some("10.0.0.6:5432".to_owned()),
            reason: "runs on 10.0.0.6:5432: the text reads".to_owned(),
            rules: "target is read-write".to_owned(),
            hosts: vec!["primary 10.0.0.5:5432".to_owned()],
            notes: vec![String::from_utf8_lossy(&question.text).into_owned()],
        }),
        Some(name) => Err(Refusal::NotRouted(name.to_owned())),
    }
}

/// A client of the console, with an engine that carries out every order.
struct Engine {
    client: Box<dyn Conversation>,
    /// Result of the next order.
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

    /// Returns the bytes of the answer to a message.
    fn tell(&mut self, tag: u8, body: &[u8]) -> Vec<u8> {
        match self.client.handle(tag, body) {
            Step::Close(bytes) | Step::Reply(bytes) => bytes,
            Step::Explain(question) => self.client.explained(explained(&question)),
            Step::Gather { .. } => self.client.gathered(&snapshot()),
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

    /// Sends complete messages.
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

/// Messages as text, one line each. Panics at bytes that are not a message.
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

#[test]
fn show_help_lists_what_works() {
    check(
        "show help",
        expect![[r#"
            N SNOTICE VNOTICE C00000 MConsole usage D
            	SHOW HELP
            	SHOW ACTIVE_SOCKETS
            	SHOW APPLICATIONS
            	SHOW CLIENTS
            	SHOW CONFIG
            	SHOW DATABASES
            	SHOW DIAGNOSIS
            	SHOW DIGESTS [FOR DATABASE[/USER]] [ORDER BY COLUMN] [LIMIT ROWS]
            	SHOW DNS_HOSTS
            	SHOW DNS_ZONES
            	SHOW ERRORS
            	SHOW EVENTS
            	SHOW EXTENDED POOLS
            	SHOW HOLDERS
            	SHOW HOSTS
            	SHOW LIMITS
            	SHOW LISTED_STATEMENTS [USER]
            	SHOW LISTS
            	SHOW LOGINS
            	SHOW MEM
            	SHOW MIRRORS
            	SHOW MIRROR_STATEMENTS
            	SHOW PEERS
            	SHOW PEER_POOLS
            	SHOW PINS
            	SHOW PINS_TOTALS
            	SHOW POOLS
            	SHOW POOL_SIZE
            	SHOW POOL_SIZE_DECISIONS
            	SHOW ROUTES
            	SHOW RULES
            	SHOW SERVERS
            	SHOW SOCKETS
            	SHOW STATE
            	SHOW STATEMENT_LISTS
            	SHOW STATS
            	SHOW STATS_AVERAGES
            	SHOW STATS_TOTALS
            	SHOW TLS
            	SHOW TOTALS
            	SHOW USERS
            	SHOW VERSION
            	SHOW WAITS
            	EXPLAIN ROUTE [FOR DATABASE[/USER]] STATEMENT
            	RESET DIGESTS
            	RULE ADD $$...$$ [FOR TIME] | DROP NAME | DRY NAME | LIVE NAME
            	PAUSE [DATABASE]
            	PAUSE WRITES DATABASE
            	RESUME [DATABASE]
            	DISABLE DATABASE
            	ENABLE DATABASE
            	KILL [DATABASE]
            	KILL_CLIENT ID
            	PRIMARY DATABASE IS HOST:PORT
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

/// Valid arguments, so that only the role decides.
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
}

#[test]
fn wrong_arguments_get_pgbouncers_errors() {
    let answer = ask(Role::Stats, b"show \xff\n");
    assert!(
        answer.contains("invalid command 'show \u{fffd} ', use"),
        "{answer}"
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

/// SEC-28 with a generator: for any input the answer consists of complete messages and ends with
/// ReadyForQuery.
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
