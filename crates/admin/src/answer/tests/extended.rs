//! Tests of the extended protocol, message by message.

use weir_wire::frontend::Kind;

use super::{
    COMMANDS, Engine, Expect, Order, Refusal, Role, Shutdown, Side, ask, encode, expect, frame,
};
use crate::show;

/// Messages to send, in order.
#[derive(Default)]
struct Batch(Vec<u8>);

impl Batch {
    fn parse(mut self, name: &str, sql: &str) -> Self {
        encode::parse(&mut self.0, name.as_bytes(), sql.as_bytes(), b"\0\0").unwrap();
        self
    }

    /// Binds with these result formats.
    fn bind(self, portal: &str, statement: &str, formats: &[i16]) -> Self {
        let mut rest = vec![0, 0, 0, 0];
        rest.extend(i16::try_from(formats.len()).unwrap().to_be_bytes());
        rest.extend(formats.iter().flat_map(|format| format.to_be_bytes()));
        self.bind_raw(portal, statement, &rest)
    }

    fn bind_raw(self, portal: &str, statement: &str, rest: &[u8]) -> Self {
        let names = [portal.as_bytes(), b"\0", statement.as_bytes(), b"\0"];
        self.message(b'B', &[names.concat().as_slice(), rest].concat())
    }

    fn describe(mut self, kind: Kind, name: &str) -> Self {
        encode::describe(&mut self.0, kind, name.as_bytes()).unwrap();
        self
    }

    fn close(mut self, kind: Kind, name: &str) -> Self {
        encode::close(&mut self.0, kind, name.as_bytes()).unwrap();
        self
    }

    fn execute(mut self, portal: &str, max_rows: i32) -> Self {
        encode::execute(&mut self.0, portal.as_bytes(), max_rows).unwrap();
        self
    }

    fn query(mut self, sql: &str) -> Self {
        encode::query(&mut self.0, sql.as_bytes()).unwrap();
        self
    }

    fn flush(mut self) -> Self {
        encode::flush(&mut self.0).unwrap();
        self
    }

    fn sync(mut self) -> Self {
        encode::sync(&mut self.0).unwrap();
        self
    }

    fn message(mut self, tag: u8, body: &[u8]) -> Self {
        let len = u32::try_from(body.len() + 4).unwrap();
        self.0.push(tag);
        self.0.extend(len.to_be_bytes());
        self.0.extend(body);
        self
    }
}

fn batch() -> Batch {
    Batch::default()
}

/// Checks the answer of an administrator's console to a batch.
fn check_batch(batch: Batch, expect: Expect) {
    expect.assert_eq(&Engine::new(Role::Admin).send(&batch.0));
}

#[test]
fn a_driver_reads_a_table() {
    check_batch(
        batch()
            .parse("", "SHOW STATE")
            .bind("", "", &[])
            .describe(Kind::Portal, "")
            .execute("", 0)
            .sync(),
        expect![[r#"
            1
            2
            T key:text value:text
            D | active | yes
            D | paused | no
            D | suspended | no
            D | weir_version | 0.1.0
            C SHOW
            Z I
        "#]],
    );
}

#[test]
fn a_named_statement_is_described_and_used_again() {
    check_batch(
        batch()
            .parse("s1", "SHOW STATE;")
            .describe(Kind::Statement, "s1")
            .sync()
            .bind("", "s1", &[])
            .execute("", 0)
            .sync()
            .bind("", "s1", &[0])
            .execute("", 0)
            .close(Kind::Statement, "s1")
            .sync()
            .bind("", "s1", &[])
            .sync(),
        expect![[r#"
            1
            t
            T key:text value:text
            Z I
            2
            D | active | yes
            D | paused | no
            D | suspended | no
            D | weir_version | 0.1.0
            C SHOW
            Z I
            2
            D | active | yes
            D | paused | no
            D | suspended | no
            D | weir_version | 0.1.0
            C SHOW
            3
            Z I
            E SERROR VERROR C26000 Mprepared statement "s1" does not exist
            Z I
        "#]],
    );
}

#[test]
fn a_row_limit_suspends_the_portal() {
    check_batch(
        batch()
            .parse("", "SHOW STATE")
            .bind("p", "", &[])
            .execute("p", 2)
            .execute("p", 2)
            .execute("p", 2)
            .bind("q", "", &[])
            .execute("q", 3)
            .execute("q", -1)
            .close(Kind::Portal, "q")
            .sync()
            .execute("p", 0)
            .sync(),
        expect![[r#"
            1
            2
            D | active | yes
            D | paused | no
            s
            D | suspended | no
            D | weir_version | 0.1.0
            s
            C SHOW
            2
            D | active | yes
            D | paused | no
            D | suspended | no
            s
            D | weir_version | 0.1.0
            C SHOW
            3
            Z I
            E SERROR VERROR C34000 Mportal "p" does not exist
            Z I
        "#]],
    );
}

#[test]
fn commands_are_carried_out_once_by_execute() {
    let mut engine = Engine::new(Role::Admin);
    let prepared = batch()
        .parse("", "PAUSE shop")
        .describe(Kind::Statement, "")
        .bind("", "", &[1])
        .describe(Kind::Portal, "")
        .flush();
    expect![[r#"
        1
        t
        n
        2
        n
    "#]]
    .assert_eq(&engine.send(&prepared.0));
    assert_eq!(engine.orders, []);
    let executed = batch().execute("", 0).execute("", 0).sync();
    expect![[r#"
        C PAUSE
        E SERROR VERROR C55000 Mportal "" cannot be run
        Z I
    "#]]
    .assert_eq(&engine.send(&executed.0));
    assert_eq!(engine.orders, [Order::Pause(Some("shop".to_owned()))]);
}

#[test]
fn an_order_that_fails_ends_the_batch() {
    let mut engine = Engine::new(Role::Admin);
    engine.outcome = Err(Refusal::NothingPaused);
    let sent = batch()
        .parse("", "RESUME")
        .bind("", "", &[])
        .execute("", 0)
        .parse("", "PAUSE")
        .bind("", "", &[])
        .execute("", 0)
        .query("SHOW VERSION")
        .sync()
        .query("SHOW VERSION");
    expect![[r#"
        1
        2
        E SERROR VERROR C08P01 Mpooler is not paused/suspended
        Z I
        T version:text
        D | PgBouncer 1.25.2
        C SHOW
        Z I
    "#]]
    .assert_eq(&engine.send(&sent.0));
    assert_eq!(engine.orders, [Order::Resume(None)]);
}

#[test]
fn shutdown_by_execute_stops() {
    let mut engine = Engine::new(Role::Admin);
    let sent = batch()
        .parse("", "SHUTDOWN")
        .bind("", "", &[])
        .execute("", 0)
        .sync();
    expect![[r#"
        1
        2
        C SHUTDOWN
        Z I
    "#]]
    .assert_eq(&engine.send(&sent.0));
    assert_eq!(engine.stopped, Some(Shutdown::Now));
}

#[test]
fn who_may_only_look_may_not_prepare_more() {
    let mut engine = Engine::new(Role::Stats);
    let sent = batch()
        .parse("", "PAUSE")
        .bind("", "", &[])
        .execute("", 0)
        .sync();
    expect![[r#"
        E SERROR VERROR C08P01 Madmin access needed
        Z I
    "#]]
    .assert_eq(&engine.send(&sent.0));
    assert_eq!(engine.orders, []);
}

#[test]
fn an_empty_query_and_notices_have_their_answers() {
    check_batch(
        batch()
            .parse("", " ; ")
            .describe(Kind::Statement, "")
            .bind("", "", &[])
            .execute("", 0)
            .parse("", "SET extra_float_digits = 3")
            .bind("", "", &[])
            .execute("", 0)
            .sync(),
        expect![[r#"
            1
            t
            n
            2
            I
            1
            2
            N SNOTICE VNOTICE C00000 MSET ignored
            C SET
            Z I
        "#]],
    );
}

/// Requests of asyncpg, pgx and psycopg: every type that the tables have, in binary.
#[test]
fn values_are_sent_in_binary() {
    let mut engine = Engine::new(Role::Stats);
    let sent = batch()
        .parse("", "SHOW LISTS")
        .bind("", "", &[0, 1])
        .describe(Kind::Portal, "")
        .sync();
    let answer = raw(&mut engine, &sent);
    // RowDescription ends with the format of the last column, directly before ReadyForQuery.
    assert!(answer.ends_with(b"\0\x01Z\0\0\0\x05I"));
    let largest = [
        0, 5, 0, 4, 0, 0, 0, 0, 0x07, 0x34, 0x1a, 0x58, 0x02, 0xe1, 0x03, 0xbb, 0x06, 0x4f,
    ];
    let cases: [(show::Kind, &str, &[u8]); 8] = [
        (show::Kind::Int4, "-5", &[255, 255, 255, 251]),
        (show::Kind::Int8, "258", &[0, 0, 0, 0, 0, 0, 1, 2]),
        (show::Kind::Text, "é", &[0xc3, 0xa9]),
        (show::Kind::Numeric, "0", &[0, 0, 0, 0, 0, 0, 0, 0]),
        (show::Kind::Numeric, "7", &[0, 1, 0, 0, 0, 0, 0, 0, 0, 7]),
        (
            show::Kind::Numeric,
            "10000",
            &[0, 1, 0, 1, 0, 0, 0, 0, 0, 1],
        ),
        (
            show::Kind::Numeric,
            "1000200003",
            &[0, 3, 0, 2, 0, 0, 0, 0, 0, 10, 0, 20, 0, 3],
        ),
        (show::Kind::Numeric, "18446744073709551615", &largest),
    ];
    for (kind, text, wanted) in cases {
        assert_eq!(kind.binary(text), wanted, "{text}");
    }
}

fn raw(engine: &mut Engine, batch: &Batch) -> Vec<u8> {
    let mut answer = Vec::new();
    let mut rest = &batch.0[..];
    while let Some(message) = frame(rest, Side::Frontend).unwrap() {
        answer.extend(engine.tell(message.header.tag, message.body));
        rest = &rest[message.raw.len()..];
    }
    answer
}

fn mistakes() -> Vec<Batch> {
    let state = || batch().parse("", "SHOW STATE");
    vec![
        batch().bind("", "", &[]).sync(),
        batch().bind("", "nosuch", &[]).sync(),
        batch().describe(Kind::Statement, "nosuch").sync(),
        batch().describe(Kind::Portal, "nosuch").sync(),
        batch().execute("nosuch", 0).sync(),
        batch().close(Kind::Portal, "nosuch").sync(),
        batch().close(Kind::Statement, "nosuch").sync(),
        batch()
            .parse("a", "SHOW STATE")
            .parse("a", "SHOW STATE")
            .sync(),
        state().bind("p", "", &[]).bind("p", "", &[]).sync(),
        batch().parse("", "nonsense").bind("", "", &[]).sync(),
        state().bind("", "", &[0, 0, 0]).sync(),
        state().bind("", "", &[2]).sync(),
        state().bind_raw("", "", &[0, 0, 0]).sync(),
        state()
            .bind_raw("", "", &[0, 0, 0, 1, 0, 0, 0, 1, b'x', 0, 0])
            .sync(),
        batch()
            .message(b'P', b"\0SHOW STATE\0\0\x01\0\0\0\x17")
            .sync(),
        batch().message(b'P', b"").sync(),
        batch().message(b'B', b"\xff").sync(),
        batch().parse(&"n".repeat(128), "SHOW STATE").sync(),
        batch().message(b'F', b""),
        batch().message(b'd', b"x").message(b'c', b"").sync(),
    ]
}

#[test]
fn mistakes_are_told_as_postgresql_tells_them() {
    let mut told = String::new();
    for case in mistakes() {
        told.push_str(&Engine::new(Role::Stats).send(&case.0));
        told.push('\n');
    }
    expect![[r#"
        E SERROR VERROR C26000 Munnamed prepared statement does not exist
        Z I

        E SERROR VERROR C26000 Mprepared statement "nosuch" does not exist
        Z I

        E SERROR VERROR C26000 Mprepared statement "nosuch" does not exist
        Z I

        E SERROR VERROR C34000 Mportal "nosuch" does not exist
        Z I

        E SERROR VERROR C34000 Mportal "nosuch" does not exist
        Z I

        3
        Z I

        3
        Z I

        1
        E SERROR VERROR C42P05 Mprepared statement "a" already exists
        Z I

        1
        2
        E SERROR VERROR C42P03 Mcursor "p" already exists
        Z I

        E SERROR VERROR C08P01 Minvalid command 'nonsense', use SHOW HELP;
        Z I

        1
        E SERROR VERROR C08P01 Mbind message has 3 result formats but query has 2 columns
        Z I

        1
        E SERROR VERROR C22023 Munsupported format code: 2
        Z I

        1
        E SERROR VERROR C08P01 Minsufficient data left in message
        Z I

        1
        E SERROR VERROR C0A000 Mthe admin console takes no parameters
        Z I

        E SERROR VERROR C0A000 Mthe admin console takes no parameters
        Z I

        E SERROR VERROR C08P01 Minvalid string in message
        Z I

        E SERROR VERROR C08P01 Minvalid string in message
        Z I

        E SERROR VERROR C42622 Mnames have 127 bytes at most
        Z I

        E SERROR VERROR C08P01 Munsupported packet type for admin console: 70
        Z I

        E SERROR VERROR C08P01 Munsupported packet type for admin console: 100
        E SERROR VERROR C08P01 Munsupported packet type for admin console: 99
        Z I

    "#]]
    .assert_eq(&told);
}

#[test]
fn statements_and_portals_are_bounded() {
    let mut engine = Engine::new(Role::Stats);
    for number in 0..512 {
        let sent = batch().parse(&number.to_string(), "SHOW STATE");
        assert_eq!(engine.send(&sent.0), "1\n");
    }
    let sent = batch().parse("one more", "SHOW STATE").sync();
    expect![[r#"
        E SERROR VERROR C53400 Mthe admin console keeps at most 512 prepared statements for a client
        Z I
    "#]]
    .assert_eq(&engine.send(&sent.0));
    let sent = batch()
        .close(Kind::Statement, "7")
        .parse("one more", "SHOW STATE")
        .sync();
    assert_eq!(engine.send(&sent.0), "3\n1\nZ I\n");
    for number in 0..16 {
        let sent = batch().bind(&number.to_string(), "1", &[]);
        assert_eq!(engine.send(&sent.0), "2\n");
    }
    let sent = batch().bind("one more", "1", &[]).sync();
    expect![[r#"
        E SERROR VERROR C53400 Mthe admin console keeps at most 16 portals for a client
        Z I
    "#]]
    .assert_eq(&engine.send(&sent.0));
}

#[test]
fn a_simple_query_forgets_what_is_unnamed() {
    check_batch(
        batch()
            .parse("", "SHOW STATE")
            .query("SHOW VERSION")
            .bind("", "", &[])
            .sync(),
        expect![[r#"
            1
            T version:text
            D | PgBouncer 1.25.2
            C SHOW
            Z I
            E SERROR VERROR C26000 Munnamed prepared statement does not exist
            Z I
        "#]],
    );
}

/// Reads every table over the extended protocol, in both formats.
#[test]
fn every_table_is_read_by_prepared_statements() {
    let shows = COMMANDS
        .iter()
        .filter(|entry| entry.name.starts_with("SHOW "));
    for entry in shows {
        let simple = ask(Role::Admin, entry.name);
        let mut engine = Engine::new(Role::Admin);
        let sent = batch()
            .parse("", entry.name)
            .bind("", "", &[])
            .describe(Kind::Portal, "")
            .execute("", 0)
            .sync();
        let extended = engine.send(&sent.0);
        if simple.starts_with("T ") {
            assert_eq!(extended, format!("1\n2\n{simple}"), "{}", entry.name);
            let sent = batch().bind("", "", &[1]).execute("", 0).sync();
            let binary = raw(&mut engine, &sent);
            let rows = simple.lines().filter(|line| line.starts_with("D "));
            assert_eq!(count(&binary, b'D'), rows.count(), "{}", entry.name);
        }
    }
}

fn count(mut messages: &[u8], tag: u8) -> usize {
    let mut count = 0;
    while let Some(message) = frame(messages, Side::Backend).unwrap() {
        count += usize::from(message.header.tag == tag);
        messages = &messages[message.raw.len()..];
    }
    count
}
