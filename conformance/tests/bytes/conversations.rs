//! Messages of the clients. Each conversation starts with its login, and its name says its purpose.

#![allow(clippy::too_many_lines, reason = "flat lists of conversations")]

use weir_conformance::frontend::VERSION_3_0;
use weir_conformance::frontend::bind;
use weir_conformance::frontend::close;
use weir_conformance::frontend::copy_data;
use weir_conformance::frontend::copy_done;
use weir_conformance::frontend::copy_fail;
use weir_conformance::frontend::describe;
use weir_conformance::frontend::execute;
use weir_conformance::frontend::flush;
use weir_conformance::frontend::function_call;
use weir_conformance::frontend::message;
use weir_conformance::frontend::parse;
use weir_conformance::frontend::query;
use weir_conformance::frontend::startup;
use weir_conformance::frontend::sync;
use weir_conformance::frontend::terminate;

/// Creates tables once, so that oids in row descriptions agree between the runs.
pub(crate) const SCHEMA: &str = "create table t (i int primary key, word text); \
     create table copied (i int, word text); \
     create function say(text) returns text language plpgsql as \
     $$ begin raise notice 'said %', $1; return $1; end $$";

/// An action of a client.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Bytes to write.
    Send(Vec<u8>),
    /// Reads until this number of `ReadyForQuery` (or a FATAL error) has arrived.
    Ready(usize),
    /// Reads up to and including the next message with this tag.
    Through(u8),
    /// Expects the server to close without another byte.
    Close,
    /// Expects the server to close; earlier bytes are ignored.
    Vanish,
}

/// A named list of steps.
#[derive(Clone, Debug)]
pub(crate) struct Conversation {
    pub(crate) name: &'static str,
    pub(crate) steps: Vec<Step>,
}

/// A conversation before its login.
fn unborn(name: &'static str) -> Conversation {
    Conversation {
        name,
        steps: Vec::new(),
    }
}

/// A conversation after a plain login.
fn talk(name: &'static str) -> Conversation {
    unborn(name).login(&[("user", "postgres"), ("database", "postgres")])
}

impl Conversation {
    fn login(self, parameters: &[(&str, &str)]) -> Self {
        self.send(&[startup(VERSION_3_0, parameters)]).ready(1)
    }

    fn send(mut self, messages: &[Vec<u8>]) -> Self {
        self.steps.push(Step::Send(messages.concat()));
        self
    }

    fn ready(mut self, count: usize) -> Self {
        self.steps.push(Step::Ready(count));
        self
    }

    fn through(mut self, tag: u8) -> Self {
        self.steps.push(Step::Through(tag));
        self
    }

    /// Sends messages that lead to one `ReadyForQuery`.
    fn ask(self, messages: &[Vec<u8>]) -> Self {
        self.send(messages).ready(1)
    }

    fn query(self, sql: &str) -> Self {
        self.ask(&[query(sql)])
    }

    /// Sends Terminate; the server closes without a message.
    fn end(mut self) -> Self {
        self.steps.push(Step::Send(terminate()));
        self.steps.push(Step::Close);
        self
    }

    /// Sends Terminate at a moment when PostgreSQL reports an error for it.
    fn vanish(mut self) -> Self {
        self.steps.push(Step::Send(terminate()));
        self.steps.push(Step::Vanish);
        self
    }

    /// Expects the server to close after its FATAL error.
    fn dead(mut self) -> Self {
        self.steps.push(Step::Close);
        self
    }
}

/// All conversations.
pub(crate) fn all() -> Vec<Conversation> {
    [
        startups(),
        simple(),
        extended(),
        failures(),
        portals(),
        statements(),
        copies(),
        others(),
    ]
    .concat()
}

fn startups() -> Vec<Conversation> {
    let base = [("user", "postgres"), ("database", "postgres")];
    let with = |more: &[(&'static str, &'static str)]| [&base, more].concat();
    vec![
        talk("plain login").end(),
        unborn("login without a database")
            .login(&[("user", "postgres")])
            .query("select current_database()")
            .end(),
        unborn("login with settings")
            .login(&with(&[
                ("application_name", "bytes"),
                ("client_encoding", "UTF8"),
                ("DateStyle", "SQL, DMY"),
                ("TimeZone", "Europe/Vienna"),
            ]))
            .query("show datestyle; show timezone; show application_name; show client_encoding")
            .query("select '2026-02-03 04:05:06+00'::timestamptz")
            .end(),
        unborn("login with options")
            .login(&with(&[(
                "options",
                "-c statement_timeout=12345 -c search_path=pg_catalog",
            )]))
            .query("show statement_timeout")
            .query("show search_path")
            .end(),
    ]
}

fn simple() -> Vec<Conversation> {
    vec![
        talk("one query")
            .query("select 1 as one, null as nothing, 'text' as word")
            .end(),
        talk("queries one after another")
            .query("select 1")
            .query("select 2")
            .query("select 3")
            .end(),
        talk("queries without waiting")
            .send(&[query("select 1"), query("select 2"), query("select 3")])
            .ready(3)
            .end(),
        talk("empty query")
            .query("")
            .query("   ")
            .query(";")
            .query("-- only a comment")
            .end(),
        talk("several statements")
            .query("select 1; select 2 as two; values (3), (4)")
            .end(),
        talk("error among several statements")
            .query("select 1; select 1/0; select 3")
            .query("select 'after'")
            .end(),
        talk("syntax error")
            .query("selct 1")
            .query("select 1")
            .end(),
        talk("error with position and context")
            .query("select no_such_column from t")
            .query("select * from nowhere")
            .end(),
        talk("transaction status")
            .query("begin")
            .query("insert into t values (100, 'gone')")
            .query("select 1/0")
            .query("select 'refused'")
            .query("rollback")
            .query("commit")
            .end(),
        talk("begin and commit inside one query")
            .query("begin; select 1; commit; select 2")
            .query("begin; select 1/0; commit")
            .query("rollback; begin; select 3")
            .query("commit")
            .end(),
        talk("savepoints")
            .query("begin")
            .query("savepoint s")
            .query("select 1/0")
            .query("rollback to s")
            .query("select 1")
            .query("rollback")
            .end(),
        talk("notices")
            .query("select say('hello')")
            .query("do $$ begin raise warning 'careful'; raise info 'fyi'; end $$")
            .end(),
        talk("parameter status in a transaction")
            .query("begin; set local timezone = 'Asia/Tokyo'; select 1")
            .query("set local datestyle = 'German'")
            .query("rollback")
            .query("show timezone")
            .end(),
        talk("long query and long row")
            .query(&format!(
                "select length('{}'), repeat('y', 300000)",
                "x".repeat(300_000)
            ))
            .end(),
        talk("many rows")
            .query("select i, repeat('z', i % 100) from generate_series(1, 5000) i")
            .end(),
        talk("row of no columns")
            .query("select from generate_series(1, 3)")
            .end(),
    ]
}

fn extended() -> Vec<Conversation> {
    let all = |sql: &str, values: &[Option<&[u8]>]| {
        vec![
            parse("", sql, &[]),
            describe(b'S', ""),
            bind("", "", values),
            describe(b'P', ""),
            execute("", 0),
            sync(),
        ]
    };
    vec![
        talk("every extended message")
            .ask(&all("select $1::int + 1, $2::text", &[Some(b"41"), None]))
            .end(),
        talk("extended batches without waiting")
            .send(
                &[
                    all("select $1::int", &[Some(b"1")]),
                    all("select $1::int", &[Some(b"2")]),
                    all("select 3", &[]),
                ]
                .concat(),
            )
            .ready(3)
            .end(),
        talk("bare sync")
            .ask(&[sync()])
            .send(&[sync(), sync()])
            .ready(2)
            .end(),
        talk("empty statement").ask(&all("", &[])).end(),
        talk("no result")
            .ask(&all("begin", &[]))
            .ask(&all("insert into t values (1, 'x')", &[]))
            .ask(&all("rollback", &[]))
            .end(),
        talk("typed parameters")
            .ask(&[
                parse("", "select $1, $2", &[23, 25]),
                describe(b'S', ""),
                sync(),
            ])
            .end(),
        talk("flush without sync")
            .send(&[
                parse("", "select $1::text", &[]),
                describe(b'S', ""),
                flush(),
            ])
            .through(b'T')
            .send(&[bind("", "", &[Some(b"flushed")]), execute("", 0), flush()])
            .through(b'C')
            .ask(&[sync()])
            .end(),
        talk("implicit transaction over several statements")
            .ask(&[
                parse("", "insert into t values (200, 'implicit')", &[]),
                bind("", "", &[]),
                execute("", 0),
                parse("", "select 1/0", &[]),
                bind("", "", &[]),
                execute("", 0),
                sync(),
            ])
            .query("select count(*) from t where i = 200")
            .end(),
        talk("simple query between extended batches")
            .send(
                &[
                    all("select 1", &[]),
                    vec![query("select 2")],
                    all("select 3", &[]),
                ]
                .concat(),
            )
            .ready(3)
            .end(),
        talk("long parameter")
            .ask(&all(
                "select length($1::text), $1::text",
                &[Some(&[b'p'; 300_000])],
            ))
            .end(),
    ]
}

fn failures() -> Vec<Conversation> {
    let run = |sql: &str| vec![parse("", sql, &[]), bind("", "", &[]), execute("", 0)];
    vec![
        talk("parse error skips until sync")
            .ask(&[run("selct 1"), run("select 2"), vec![sync()]].concat())
            .ask(&[run("select 3"), vec![sync()]].concat())
            .end(),
        talk("bind error")
            .ask(&[
                parse("", "select $1::int", &[]),
                bind("", "", &[Some(b"x")]),
                execute("", 0),
                sync(),
            ])
            .end(),
        talk("wrong number of parameters")
            .ask(&[
                parse("", "select $1::int", &[]),
                bind("", "", &[]),
                execute("", 0),
                sync(),
            ])
            .end(),
        talk("execute error among others")
            .ask(
                &[
                    run("select 1"),
                    run("select 1/0"),
                    run("select 2"),
                    vec![sync()],
                ]
                .concat(),
            )
            .end(),
        // PostgreSQL discards everything up to Sync, a Query too.
        talk("query inside a failed pipeline")
            .send(
                &[
                    run("select 1/0"),
                    vec![query("select 'skipped'")],
                    vec![sync()],
                ]
                .concat(),
            )
            .ready(1)
            .query("select 'served'")
            .end(),
        talk("flush after an error")
            .send(&[run("select 1/0"), vec![flush()]].concat())
            .through(b'E')
            .ask(&[sync()])
            .end(),
        talk("error after flush")
            .send(&[run("select 1"), vec![flush()]].concat())
            .through(b'C')
            .ask(&[run("select 1/0"), vec![sync()]].concat())
            .end(),
        talk("two failed batches without waiting")
            .send(
                &[
                    run("select 1/0"),
                    vec![sync()],
                    run("no sql"),
                    vec![sync()],
                    run("select 3"),
                    vec![sync()],
                ]
                .concat(),
            )
            .ready(3)
            .end(),
        talk("unknown message type")
            .send(&[message(b'y', b"what")])
            .ready(1)
            .dead(),
        talk("statement of the wrong protocol state")
            .ask(&[bind("", "", &[]), sync()])
            .end(),
    ]
}

fn portals() -> Vec<Conversation> {
    let series = "select i from generate_series(1, 10) i";
    vec![
        talk("row limit and resume")
            .ask(&[
                parse("", series, &[]),
                bind("", "", &[]),
                execute("", 3),
                execute("", 3),
                execute("", 0),
                sync(),
            ])
            .end(),
        talk("row limit, flush and resume")
            .send(&[
                parse("", series, &[]),
                bind("", "", &[]),
                execute("", 4),
                flush(),
            ])
            .through(b's')
            .send(&[execute("", 4), flush()])
            .through(b's')
            .ask(&[execute("", 4), sync()])
            .end(),
        talk("portal across syncs of a transaction")
            .query("begin")
            .ask(&[
                parse("s", series, &[]),
                bind("p", "s", &[]),
                execute("p", 3),
                sync(),
            ])
            .ask(&[execute("p", 3), sync()])
            .ask(&[
                describe(b'P', "p"),
                close(b'P', "p"),
                execute("p", 3),
                sync(),
            ])
            .query("rollback")
            .ask(&[close(b'S', "s"), sync()])
            .end(),
        talk("portal is gone after the transaction")
            .ask(&[
                parse("", series, &[]),
                bind("p", "", &[]),
                execute("p", 3),
                sync(),
            ])
            .ask(&[execute("p", 3), sync()])
            .end(),
        talk("two portals side by side")
            .ask(&[
                parse("", series, &[]),
                bind("a", "", &[]),
                bind("b", "", &[]),
                execute("a", 2),
                execute("b", 3),
                execute("a", 2),
                close(b'P', "a"),
                execute("b", 0),
                sync(),
            ])
            .end(),
        talk("portal name taken")
            .ask(&[
                parse("", series, &[]),
                bind("a", "", &[]),
                bind("a", "", &[]),
                sync(),
            ])
            .end(),
    ]
}

fn statements() -> Vec<Conversation> {
    let run = |name: &str, value: &'static [u8]| {
        vec![bind("", name, &[Some(value)]), execute("", 0), sync()]
    };
    vec![
        talk("named statement")
            .ask(&[
                parse("one", "select $1::int as n", &[]),
                describe(b'S', "one"),
                sync(),
            ])
            .ask(&run("one", b"1"))
            .ask(&run("one", b"2"))
            .ask(&[close(b'S', "one"), sync()])
            .ask(&run("one", b"3"))
            .end(),
        talk("named statement twice")
            .ask(&[parse("two", "select $1::int", &[]), sync()])
            .ask(&[parse("two", "select $1::int", &[]), sync()])
            .ask(&run("two", b"1"))
            .end(),
        talk("named statement twice in one batch")
            .ask(&[
                parse("two", "select 1", &[]),
                parse("two", "select 2", &[]),
                sync(),
            ])
            .ask(&[close(b'S', "two"), sync()])
            .end(),
        talk("unknown statement")
            .ask(&run("nobody", b"1"))
            .ask(&[describe(b'S', "nobody"), sync()])
            .ask(&[close(b'S', "nobody"), close(b'P', "nobody"), sync()])
            .end(),
        talk("statement that failed to parse")
            .ask(&[parse("bad", "selct", &[]), sync()])
            .ask(&run("bad", b"1"))
            .ask(&[parse("bad", "select $1::text", &[]), sync()])
            .ask(&run("bad", b"good"))
            .end(),
        talk("parse skipped after an error does not exist")
            .ask(&[
                parse("", "select 1/0", &[]),
                bind("", "", &[]),
                execute("", 0),
                parse("later", "select $1::int", &[]),
                sync(),
            ])
            .ask(&run("later", b"1"))
            .end(),
        talk("unnamed statement across syncs")
            .ask(&[parse("", "select $1::int - 5", &[]), sync()])
            .ask(&run("", b"105"))
            .ask(&run("", b"6"))
            .query("select 'destroys it'")
            .ask(&run("", b"7"))
            .end(),
        talk("deallocate of a protocol statement")
            .ask(&[parse("gone", "select $1::int", &[]), sync()])
            .query("deallocate gone")
            .ask(&run("gone", b"1"))
            .ask(&[parse("gone", "select $1::text", &[]), sync()])
            .ask(&run("gone", b"x"))
            .end(),
        talk("deallocate all")
            .ask(&[parse("gone", "select $1::int", &[]), sync()])
            .query("deallocate all")
            .ask(&run("gone", b"1"))
            .end(),
        talk("discard all")
            .ask(&[parse("gone", "select $1::int", &[]), sync()])
            .query("discard all")
            .ask(&run("gone", b"1"))
            .end(),
        talk("statement used in and after a transaction")
            .ask(&[parse("kept", "select $1::int", &[]), sync()])
            .query("begin")
            .ask(&run("kept", b"1"))
            .query("rollback")
            .ask(&run("kept", b"2"))
            .end(),
    ]
}

fn copies() -> Vec<Conversation> {
    let copy = "copy copied from stdin";
    let empty = "truncate copied";
    let extended = |sql: &str| vec![parse("", sql, &[]), bind("", "", &[]), execute("", 0)];
    let rows = || {
        vec![
            copy_data(b"1\tone\n2\ttwo\n"),
            copy_data(b"3\tth"),
            copy_data(b"ree\n"),
        ]
    };
    vec![
        talk("copy in").query(empty).send(&[query(copy)]).through(b'G').ask(&[rows(), vec![copy_done()]].concat()).query("select * from copied").end(),
        talk("copy in without waiting").query(empty).ask(&[vec![query(copy)], rows(), vec![copy_done()]].concat()).query("select count(*) from copied").end(),
        talk("copy fail").query(empty).send(&[query(copy)]).through(b'G').ask(&[rows(), vec![copy_fail("changed my mind")]].concat()).query("select count(*) from copied").end(),
        // COR-04: messages that arrive after the error are dropped without a reply.
        talk("copy error, late data and done")
            .query(empty)
            .ask(&[vec![query(copy), copy_data(b"not a number\tx\n")], rows(), rows(), vec![copy_done()]].concat())
            .query("select count(*) from copied")
            .end(),
        talk("late data after the error was answered")
            .ask(&[query(copy), copy_data(b"not a number\tx\n")])
            .ask(&[rows(), vec![copy_done(), query("select 'next'")]].concat())
            .end(),
        // COR-06.
        talk("copy fail after copy done")
            .query(empty)
            .ask(&[vec![query(copy)], rows(), vec![copy_done(), copy_fail("too late")]].concat())
            .query("select count(*) from copied")
            .end(),
        talk("copy messages outside of a copy").ask(&[copy_data(b"x"), copy_done(), copy_fail("x"), query("select 1")]).end(),
        // COR-05: in copy mode the first Sync is ignored, the one after CopyDone counts.
        talk("extended copy with sync right after execute")
            .query(empty)
            .ask(&[extended(copy), vec![sync()], rows(), vec![copy_done(), sync()]].concat())
            .query("select count(*) from copied")
            .end(),
        talk("extended copy with flush")
            .query(empty)
            .send(&[extended(copy), vec![flush()]].concat())
            .through(b'G')
            .ask(&[rows(), vec![copy_done(), sync()]].concat())
            .query("select count(*) from copied")
            .end(),
        talk("extended copy fail").send(&[extended(copy), vec![flush()]].concat()).through(b'G').ask(&[copy_fail("no"), sync()]).query("select 1").end(),
        talk("extended copy error skips until sync")
            .ask(&[extended(copy), vec![copy_data(b"x\ty\n"), copy_done()], extended("select 1"), vec![sync()]].concat())
            .query("select 1")
            .end(),
        talk("other message in a copy")
            .ask(&[query(copy), parse("", "select 1", &[])])
            .dead(),
        talk("copy out").query("copy (select i, repeat('c', i) from generate_series(1, 200) i) to stdout").query("copy (select 1/0) to stdout").query("select 1").end(),
        talk("copy out that fails in the middle").query("copy (select 1/(3 - i) from generate_series(1, 5) i) to stdout").query("select 1").end(),
        talk("extended copy out").ask(&[extended("copy (select generate_series(1, 3)) to stdout"), vec![sync()]].concat()).end(),
        talk("copy among several statements")
            .query(empty)
            .ask(&[vec![query("select 1; copy copied from stdin; select count(*) from copied; copy copied to stdout; select 2")], rows(), vec![copy_done()]].concat())
            .end(),
        talk("two copies in one query")
            .query(empty)
            .ask(&[vec![query("copy copied from stdin; copy copied from stdin; select count(*) from copied")], rows(), vec![copy_done()], rows(), vec![copy_done()]].concat())
            .end(),
        talk("binary copy out").query("copy (select 1::int4, 'x'::text) to stdout (format binary)").end(),
    ]
}

fn others() -> Vec<Conversation> {
    // 1299 is now(), 65 int4eq, 177 int4pl.
    let four = |number: i32| number.to_be_bytes();
    vec![
        talk("function call")
            .ask(&[function_call(177, &[&four(40), &four(2)])])
            .ask(&[function_call(65, &[&four(1), &four(2)])])
            .end(),
        talk("function calls without waiting")
            .send(&[
                function_call(177, &[&four(1), &four(2)]),
                function_call(177, &[&four(3), &four(4)]),
            ])
            .ready(2)
            .end(),
        talk("function call that fails")
            .ask(&[function_call(1, &[])])
            .ask(&[function_call(177, &[&four(i32::MAX), &four(1)])])
            .query("select 1")
            .end(),
        talk("function call in a transaction")
            .query("begin")
            .ask(&[function_call(177, &[&four(1), &four(1)])])
            .ask(&[function_call(1, &[])])
            .query("rollback")
            .end(),
        talk("notify to oneself")
            .query("begin; listen bytes; notify bytes, 'hello'; commit")
            .query("unlisten *")
            .end(),
        talk("terminate in a transaction")
            .query("begin")
            .query("insert into t values (300, 'gone')")
            .end(),
        talk("terminate in a copy")
            .send(&[query("copy copied from stdin")])
            .through(b'G')
            .vanish(),
        talk("row was not kept after terminate")
            .query("select count(*) from t where i = 300")
            .end(),
        talk("session settings last")
            .query("set work_mem = '3MB'")
            .query("show work_mem")
            .query("reset work_mem")
            .query("show work_mem")
            .end(),
    ]
}
