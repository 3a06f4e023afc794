//! Names and types of prepared statements are resolved at each Parse. Clients of a pool get the answers of clients
//! with connections of their own, whatever DDL runs in between, through the pooler or outside it.
//!
//! Each case runs twice, in two databases of one server: directly, and through a pool whose clients change servers.

#![allow(
    clippy::indexing_slicing,
    reason = "a panic in a test is a failure, and is wanted"
)]

use std::sync::Arc;

use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::Hosts;
use weir_conformance::Raw;
use weir_conformance::Weir;
use weir_conformance::frontend::bind;
use weir_conformance::frontend::describe;
use weir_conformance::frontend::execute;
use weir_conformance::frontend::flush;
use weir_conformance::frontend::parse;
use weir_conformance::frontend::query;
use weir_conformance::frontend::sync;
use weir_conformance::hosts;

/// First oid of objects that the test creates, which differ between databases.
const OWN_OIDS: u32 = 16_384;

fn batch(messages: &[Vec<u8>]) -> Vec<u8> {
    [messages.concat(), sync()].concat()
}

fn run(name: &str, values: &[&str]) -> Vec<u8> {
    let values: Vec<_> = values.iter().map(|value| Some(value.as_bytes())).collect();
    batch(&[bind("", name, &values), describe(b'P', ""), execute("", 0)])
}

/// Removes oids from errors, because they differ between databases.
fn without_oids(text: &str) -> String {
    // Severity and code come first.
    let words = text.split(' ').enumerate().map(|(at, word)| {
        let oid = word.trim_end_matches(|c: char| !c.is_ascii_digit());
        match oid.parse() {
            Ok(oid) if at > 1 && OWN_OIDS <= oid => "N",
            _ => word,
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Answer of a client in one line: tags, parameter types, columns, rows and errors.
fn hear(client: &mut Raw, bytes: &[u8]) -> Result<String> {
    let mut heard = Vec::new();
    for message in client.ask(bytes)? {
        heard.push(match message.tag {
            b'T' => format!("T({})", message.column_names()?.join(",")),
            b't' => {
                let oids = message.body[2..].chunks(4).map(|oid| {
                    let oid = u32::from_be_bytes([oid[0], oid[1], oid[2], oid[3]]);
                    oid.min(OWN_OIDS).to_string()
                });
                format!("t({})", oids.collect::<Vec<_>>().join(","))
            }
            b'D' => format!("D({:?})", message.row()?).replace("Some", ""),
            b'E' => format!("E({})", without_oids(&message.error())),
            b'S' | b'N' => continue,
            b'Z' => format!("Z{}", char::from(message.body[0])),
            tag => char::from(tag).to_string(),
        });
    }
    Ok(heard.join(" "))
}

/// Session that runs the DDL.
#[derive(Debug, Clone, Copy)]
enum By {
    /// A client of the pool.
    Client,
    /// A connection that the pool does not know.
    Elsewhere,
}

/// A database with its clients.
struct Side {
    port: u16,
    database: String,
    clients: Vec<Raw>,
    ddl: Raw,
    /// Client that keeps a server of the primary busy.
    holder: Raw,
    /// Clients that keep a server of each replica busy.
    readers: Vec<Raw>,
}

impl Side {
    fn client(&mut self, number: usize) -> Result<&mut Raw> {
        while self.clients.len() <= number {
            self.clients.push(Raw::connect(self.port, &self.database)?);
        }
        Ok(&mut self.clients[number])
    }
}

/// Two equal databases, one direct and one behind the pool.
struct Twins {
    direct: Side,
    through: Side,
    weir: Weir,
    hosts: Arc<Hosts>,
}

impl Twins {
    /// Creates both sides. Clients of one worker share the statements that servers have prepared.
    fn new(name: &str, servers: u32, workers: u32, schema: &str, by: By) -> Result<Self> {
        let hosts = Hosts::shared()?;
        let (direct, through) = (
            format!("identity_{name}_direct"),
            format!("identity_{name}_through"),
        );
        let entry = hosts.entry("eventual");
        let config = Config::new()
            .database(&format!("{through} = {entry} dbname={through}"))
            .set("default_pool_size", &servers.to_string())
            .env("WEIR_WORKERS", &workers.to_string());
        for database in [&direct, &through] {
            hosts.create_database(database)?;
            Raw::connect(hosts.port(), database)?.query(schema)?;
        }
        hosts.settle()?;
        let weir = Weir::start(&config)?;
        hosts.wait_watched(&weir, 1)?;
        let side = |port: u16, database: String| -> Result<Side> {
            let ddl_port = match by {
                By::Client => port,
                By::Elsewhere => hosts.port(),
            };
            let connect = || Raw::connect(port, &database);
            let readers = hosts.replica_ports().into_iter().map(|_| connect());
            Ok(Side {
                port,
                clients: Vec::new(),
                ddl: Raw::connect(ddl_port, &database)?,
                holder: connect()?,
                readers: readers.collect::<Result<_>>()?,
                database,
            })
        };
        Ok(Self {
            direct: side(hosts.port(), direct)?,
            through: side(weir.port(), through)?,
            weir,
            hosts,
        })
    }

    /// Sends bytes on both sides; returns the answer, which must be equal.
    fn say(&mut self, client: usize, bytes: &[u8]) -> Result<String> {
        let wanted = hear(self.direct.client(client)?, bytes)?;
        let heard = hear(self.through.client(client)?, bytes)?;
        self.hosts.settle()?;
        ensure!(
            heard == wanted,
            "client {client}: {heard:?} instead of {wanted:?} for {:?}",
            String::from_utf8_lossy(bytes)
        );
        Ok(wanted)
    }

    /// Sends bytes on one server of the pool, then on another.
    fn say_on_both(&mut self, client: usize, bytes: &[u8]) -> Result<()> {
        self.say(client, bytes)?;
        self.hold("begin")?;
        self.say(client, bytes)?;
        self.hold("commit")
    }

    fn hold(&mut self, sql: &str) -> Result<()> {
        for side in [&mut self.direct, &mut self.through] {
            hear(&mut side.holder, &query(sql))?;
            let sql = if sql == "begin" {
                "begin read only"
            } else {
                sql
            };
            for reader in &mut side.readers {
                hear(reader, &query(sql))?;
            }
        }
        Ok(())
    }

    fn ddl(&mut self, sql: &str) -> Result<()> {
        for side in [&mut self.direct, &mut self.through] {
            let heard = hear(&mut side.ddl, &query(sql))?;
            ensure!(!heard.contains("E("), "{sql}: {heard}");
        }
        self.hosts.settle()
    }
}

/// A statement whose meaning changes.
struct Case {
    name: &'static str,
    schema: &'static str,
    text: &'static str,
    values: &'static [&'static str],
    ddl: &'static str,
    /// Query that shows the statement's effect or result.
    check: &'static str,
    /// True if PostgreSQL itself determines the meaning of a statement that was prepared before.
    old_is_certain: bool,
}

const CASES: &[Case] = &[
    Case {
        name: "alter",
        schema: "create table t (v date)",
        text: "insert into t values ($1)",
        values: &["2026-01-02 10:30:00"],
        ddl: "alter table t alter v type timestamp",
        check: "select v::text from t order by 1",
        old_is_certain: true,
    },
    Case {
        name: "count",
        schema: "create table t (k real); insert into t values (0.1)",
        text: "select count(*) from t where k = $1",
        values: &["0.1"],
        ddl: "alter table t alter k type numeric using '0.1'",
        check: "select k::text from t",
        old_is_certain: true,
    },
    Case {
        name: "digits",
        schema: "create table t (v real)",
        text: "insert into t values ($1)",
        values: &["0.123456789012"],
        ddl: "alter table t alter v type double precision",
        check: "select v::text from t order by 1",
        old_is_certain: true,
    },
    Case {
        name: "range",
        schema: "create table t (v int)",
        text: "insert into t values ($1)",
        values: &["5000000000"],
        ddl: "alter table t alter v type bigint",
        check: "select v::text from t order by 1",
        old_is_certain: true,
    },
    Case {
        name: "swap",
        schema: "create table t (v date); create table u (v timestamp)",
        text: "insert into t values ($1)",
        values: &["2026-01-02 10:30:00"],
        ddl: "alter table t rename to x; alter table u rename to t",
        check: "select v::text from t union all select v::text from x order by 1",
        old_is_certain: true,
    },
    Case {
        name: "enum",
        schema: "create type mood as enum ('a'); create table t (m mood)",
        text: "insert into t values ($1)",
        values: &["b"],
        ddl: "drop table t; drop type mood; create type mood as enum ('a', 'b'); create table t (m mood)",
        check: "select m::text from t",
        old_is_certain: true,
    },
    Case {
        name: "label",
        schema: "create type mood as enum ('a'); create table t (m mood)",
        text: "insert into t values ($1)",
        values: &["b"],
        ddl: "alter type mood add value 'b'",
        check: "select m::text from t",
        old_is_certain: true,
    },
    Case {
        name: "function",
        schema: "create function f(int) returns text language sql as 'select ''int'''",
        text: "select f($1)",
        values: &["7"],
        ddl: "drop function f(int); create function f(text) returns text language sql as 'select ''text'''",
        check: "select f('7')",
        old_is_certain: true,
    },
    Case {
        name: "again",
        schema: "create function f(int) returns text language sql as 'select ''one'''",
        text: "select f($1)",
        values: &["7"],
        ddl: "drop function f(int); create function f(int) returns text language sql as 'select ''two'''",
        check: "select f(7)",
        old_is_certain: true,
    },
    Case {
        name: "overload",
        schema: "create function f(bigint) returns text language sql as 'select ''bigint'''",
        text: "select f(1)",
        values: &[],
        ddl: "create function f(int) returns text language sql as 'select ''int'''",
        check: "select f(1)",
        old_is_certain: false,
    },
    Case {
        name: "argument",
        schema: "create function f(bigint) returns text language sql as 'select ''bigint'''",
        text: "select f($1)",
        values: &["1"],
        ddl: "create function f(text) returns text language sql as 'select ''text'''",
        check: "select f('1')",
        old_is_certain: false,
    },
    Case {
        name: "view",
        schema: "create view w as select 1 as a",
        text: "select * from w",
        values: &[],
        ddl: "create or replace view w as select 2 as a, 3 as b",
        check: "select * from w",
        old_is_certain: true,
    },
    Case {
        name: "view_same",
        schema: "create view w as select 1 as a",
        text: "select * from w where a::text <> $1",
        values: &["0"],
        ddl: "create or replace view w as select 2 as a",
        check: "select * from w",
        old_is_certain: true,
    },
    Case {
        name: "domain",
        schema: "create domain d as date; create table t (v d)",
        text: "insert into t values ($1)",
        values: &["2026-01-02 10:30:00"],
        ddl: "alter table t alter v type timestamp; drop domain d; create domain d as timestamp; \
            alter table t alter v type d",
        check: "select v::text from t order by 1",
        old_is_certain: true,
    },
    Case {
        name: "check",
        schema: "create domain d as int; create table t (v d)",
        text: "insert into t values ($1)",
        values: &["7"],
        ddl: "alter domain d add constraint small check (value < 5) not valid",
        check: "select v::text from t order by 1",
        old_is_certain: true,
    },
    Case {
        name: "path",
        schema: "create schema postgres; create table public.place (v text)",
        text: "insert into place values ($1)",
        values: &["x"],
        ddl: "create table postgres.place (v text)",
        check: "select 'own', v from postgres.place union all select 'public', v from public.place \
            order by 1",
        old_is_certain: false,
    },
    Case {
        name: "cast",
        schema: "create type pair as (a int, b int); \
            create function word(pair) returns text language sql as 'select ''own'''",
        text: "select row(1, 2)::pair::text",
        values: &[],
        ddl: "create cast (pair as text) with function word(pair)",
        check: "select row(1, 2)::pair::text",
        old_is_certain: false,
    },
];

/// Checks clients that prepared before the DDL, after it, and in a transaction after it.
fn check(case: &Case, by: By, workers: u32) -> Result<()> {
    let name = format!("{}_{by:?}_{workers}", case.name).to_lowercase();
    let mut twins = Twins::new(&name, 2, workers, case.schema, by)?;
    let prepare = batch(&[parse("s", case.text, &[])]);
    let told = batch(&[parse("s", case.text, &[]), describe(b'S', "s")]);
    let use_it = run("s", case.values);
    // Before: on both servers, by clients that continue, and by one that sends Describe.
    twins.say_on_both(0, &query("select 1"))?;
    twins.say(0, &prepare)?;
    twins.say_on_both(0, &use_it)?;
    twins.say(1, &told)?;
    twins.say_on_both(1, &use_it)?;
    twins.ddl(case.ddl)?;
    if case.old_is_certain {
        twins.say_on_both(0, &use_it)?;
    }
    twins.say(2, &prepare)?;
    twins.say_on_both(2, &use_it)?;
    twins.say(3, &query("begin"))?;
    twins.say(3, &told)?;
    twins.say(3, &use_it)?;
    twins.say(3, &query("commit"))?;
    twins.say_on_both(3, &use_it)?;
    if case.old_is_certain {
        twins.say_on_both(0, &use_it)?;
        twins.say_on_both(1, &use_it)?;
    }
    let values: Vec<_> = (case.values.iter().map(|value| Some(value.as_bytes()))).collect();
    let at_once = [parse("s", case.text, &[]), bind("", "s", &values), flush()];
    twins.say(5, &batch(&[at_once.concat(), execute("", 0)]))?;
    twins.say_on_both(2, &use_it)?;
    twins.say(6, &query(case.check))?;
    // Weir does not look at the functions of these databases, so their callers run on the primary.
    if case.check.contains(" from ") {
        twins.hosts.check_shared(&twins.weir)?;
    }
    Ok(())
}

/// Checks a case by each session that may run the DDL; over replicas by one, so that the run stays short.
fn check_all(case: &Case) -> Result<()> {
    if hosts::replicas()? == 0 {
        check(case, By::Client, 1)?;
        check(case, By::Elsewhere, 1)?;
    }
    check(case, By::Elsewhere, 2)
}

macro_rules! cases {
    ($($name:ident: $case:literal,)*) => {
        $(
            #[test]
            fn $name() -> Result<()> {
                CASES.iter().filter(|case| case.name == $case).try_for_each(check_all)
            }
        )*

        #[test]
        fn every_case_has_a_test() {
            let tested = [$($case),*];
            assert!(CASES.iter().all(|case| tested.contains(&case.name)));
        }
    };
}

cases! {
    a_parse_after_alter_column_type_takes_the_new_type: "alter",
    a_comparison_after_alter_column_type_finds_its_row: "count",
    no_digit_is_lost_after_a_column_has_become_longer: "digits",
    no_number_is_out_of_range_after_a_column_has_become_longer: "range",
    a_parse_after_a_table_swap_takes_the_types_of_the_new_table: "swap",
    a_type_that_was_dropped_and_made_again_is_found: "enum",
    a_label_that_was_added_is_taken: "label",
    a_function_that_takes_another_type_by_now_is_found: "function",
    a_function_that_was_dropped_and_made_again_is_found: "again",
    a_function_that_fits_better_is_called: "overload",
    a_function_that_fits_better_gives_its_parameter_type: "argument",
    a_view_with_other_columns_is_told: "view",
    a_view_that_was_replaced_is_read: "view_same",
    a_domain_of_another_type_is_found: "domain",
    a_constraint_of_a_domain_is_kept: "check",
    a_table_that_hides_another_is_used: "path",
    a_cast_that_was_made_is_used: "cast",
}

/// A temporary object is visible to the Parse of its own session only.
#[test]
fn two_temporary_tables_of_one_name_have_types_of_their_own() -> Result<()> {
    for servers in [1, 2] {
        let name = format!("temporary_{servers}");
        let mut twins = Twins::new(&name, servers, 1, "select 1", By::Elsewhere)?;
        let text = "insert into t values ($1)";
        for round in 0..3 {
            for (client, column) in [(0, "date"), (1, "timestamp"), (2, "text")] {
                let create = format!("begin; create temp table t (v {column}) on commit drop");
                twins.say(client, &query(&create))?;
                if round == 0 {
                    twins.say(
                        client,
                        &batch(&[parse("s", text, &[]), describe(b'S', "s")]),
                    )?;
                }
                twins.say(client, &run("s", &["2026-01-02 10:30:00"]))?;
                twins.say(client, &query("select v::text from t"))?;
                twins.say(client, &query("commit"))?;
            }
        }
    }
    Ok(())
}

/// A permanent table of the same name is not used by a session whose own Parse found its temporary one.
#[test]
fn a_temporary_table_hides_a_permanent_one_on_every_server() -> Result<()> {
    let schema = "create table t (v text)";
    let mut twins = Twins::new("hidden", 2, 1, schema, By::Elsewhere)?;
    let text = "insert into t values ($1)";
    twins.say(0, &batch(&[parse("s", text, &[])]))?;
    twins.say_on_both(0, &run("s", &["permanent"]))?;
    for round in 0..4 {
        if round % 2 == 1 {
            twins.hold("begin")?;
        }
        twins.say(
            1,
            &query("begin; create temp table t (v text) on commit drop"),
        )?;
        if round == 0 {
            twins.say(1, &batch(&[parse("s", text, &[])]))?;
        }
        twins.say(1, &run("s", &["temporary"]))?;
        twins.say(1, &query("select v from t; commit"))?;
        if round % 2 == 1 {
            twins.hold("commit")?;
        }
        // A client that refers to the permanent table leaves copies of that statement on both servers.
        twins.say_on_both(0, &run("s", &["permanent"]))?;
    }
    twins.say(2, &query("select v, count(*) from t group by 1"))?;
    Ok(())
}

/// With no server free, a Parse of a known text is answered at once, and resolved when the statement is first used.
#[test]
fn a_parse_that_had_to_be_answered_without_a_server_is_resolved_at_its_first_use() -> Result<()> {
    let mut twins = Twins::new("deferred", 1, 1, "create table t (v date)", By::Elsewhere)?;
    let prepare = batch(&[parse("s", "insert into t values ($1)", &[])]);
    twins.say(0, &prepare)?;
    twins.say(0, &run("s", &["2026-01-02 10:30:00"]))?;
    twins.ddl("alter table t alter v type timestamp")?;
    twins.hold("begin")?;
    for client in 1..4 {
        ensure!(twins.say(client, &prepare)? == "1 ZI");
    }
    twins.hold("commit")?;
    for client in 0..4 {
        twins.say(client, &run("s", &["2026-01-02 10:30:00"]))?;
    }
    twins.say(4, &query("select v::text from t order by 1"))?;
    Ok(())
}
