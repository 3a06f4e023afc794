//! Probes of clients: limits, time limits, faults of the protocol, lost servers.

use anyhow::Result;
use weir_conformance::Config;
use weir_conformance::Raw;
use weir_conformance::frontend;

use super::Probe;
use super::Run::Does;
use super::bench::Bench;
use super::bench::PATIENCE;
use super::bench::Seen;
use super::bench::login;
use super::bench::rest;
use super::bench::told;
use super::bench::transcript;
use super::bench::until;
use super::differs;
use super::same;
use super::why::CODES;
use super::why::CRASHED;
use super::why::KEEPS;
use super::why::PROTOCOL;

pub(super) const PROBES: &[Probe] = &[
    same(
        "statements, errors, tags, notices of PostgreSQL",
        Does(statements),
    ),
    same("settings that are followed", Does(settings)),
    differs(
        "a message of no known type",
        Does(|bench| bad(bench, &frontend::message(b'y', b"abcd"))),
        PROTOCOL,
    ),
    differs(
        "a length that is too short",
        Does(|bench| bad(bench, b"Q\0\0\0\x01")),
        PROTOCOL,
    ),
    differs(
        "a second start-up packet",
        Does(|bench| {
            bad(
                bench,
                &frontend::startup(frontend::VERSION_3_0, &[("user", "postgres")]),
            )
        }),
        PROTOCOL,
    ),
    differs(
        "max_client_conn",
        Does(|bench| third(bench, bench.config().set("max_client_conn", "2"))),
        CODES,
    ),
    differs(
        "query_wait_timeout",
        Does(|bench| waiting(bench, bench.config().set("query_wait_timeout", "1"))),
        CODES,
    ),
    differs(
        "query_timeout",
        Does(|bench| timed(bench, "query_timeout", &["select pg_sleep(5)"])),
        CODES,
    ),
    differs(
        "idle_transaction_timeout",
        Does(|bench| timed(bench, "idle_transaction_timeout", &["begin"])),
        CODES,
    ),
    differs(
        "client_idle_timeout",
        Does(|bench| timed(bench, "client_idle_timeout", &["select 1"])),
        CODES,
    ),
    differs("statement pooling: a transaction block", Does(block), CODES),
    same("disable_pqexec: a simple query", Does(pqexec)),
    differs(
        "the server is lost in a query",
        Does(|bench| {
            lost(
                bench,
                "select pg_terminate_backend(pg_backend_pid()), pg_sleep(5)",
            )
        }),
        CRASHED,
    ),
    same("the server is lost between transactions", Does(lost_idle)),
    differs("KILL of a client's database", Does(killed), CODES),
    same("PAUSE: a client waits, RESUME: it goes on", Does(paused)),
    same(
        "RECONNECT: the next transaction has another server",
        Does(reconnected),
    ),
    same("a cancel request", Does(cancelled)),
    same(
        "session pooling: settings are gone for the next client",
        Does(reset),
    ),
    differs(
        "transaction pooling: a temporary table",
        Does(temporary),
        KEEPS,
    ),
    differs(
        "a database whose PostgreSQL database does not exist",
        Does(nowhere),
        CODES,
    ),
    same("connect_query", Does(connect_query)),
    same("application_name_add_host", Does(add_host)),
    same("COPY in both directions", Does(copy)),
];

fn statements(bench: &Bench) -> Result<Seen> {
    let mut client = bench.pooler.connect("shop")?;
    let queries = [
        "select 1 as one, null::text as nothing",
        "select 1/0",
        "begin",
        "select nosuch",
        "select 1",
        "rollback",
        "do $$ begin raise notice 'told'; end $$",
        "",
        "select 1; select 2",
        "begin",
        "create temp table probe_statements (a int) on commit drop",
        "insert into probe_statements values (1)",
        "commit",
    ];
    let text = transcript(&mut client, &queries)?;
    Ok(bench.text(&text))
}

fn settings(bench: &Bench) -> Result<Seen> {
    let mut client = bench.pooler.connect("shop")?;
    let queries = [
        "set datestyle = 'German'",
        "show datestyle",
        "set timezone = 'UTC'",
        "show timezone",
        "set application_name = 'probe'",
        "show application_name",
        "reset datestyle",
        "show datestyle",
    ];
    Ok(bench.text(&transcript(&mut client, &queries)?))
}

fn bad(bench: &Bench, bytes: &[u8]) -> Result<Seen> {
    let mut client = bench.pooler.connect("shop")?;
    client.stream().set_read_timeout(Some(PATIENCE / 10))?;
    client.send(bytes)?;
    Ok(bench.text(&rest(&mut client)))
}

/// Login of a third client.
fn third(bench: &Bench, config: Config) -> Result<Seen> {
    let pooler = bench.start(&config)?;
    let _clients = [pooler.connect("shop")?, pooler.connect("shop")?];
    let text = login(&pooler, &[("user", "postgres"), ("database", "shop")])?;
    Ok(bench.text_of(&text, &pooler))
}

fn waiting(bench: &Bench, config: Config) -> Result<Seen> {
    let pooler = bench.start(&config.set("default_pool_size", "1"))?;
    let mut holder = pooler.connect("shop")?;
    holder.query("begin")?;
    let mut client = pooler.connect("shop")?;
    client.send(&frontend::query("select 1"))?;
    Ok(bench.text_of(&rest(&mut client), &pooler))
}

fn timed(bench: &Bench, option: &str, queries: &[&str]) -> Result<Seen> {
    let pooler = bench.start(&bench.config().set(option, "1"))?;
    let mut client = pooler.connect("shop")?;
    for query in queries {
        client.send(&frontend::query(query))?;
    }
    Ok(bench.text_of(&rest(&mut client), &pooler))
}

fn block(bench: &Bench) -> Result<Seen> {
    let pooler = bench.start(&bench.config().set("pool_mode", "statement"))?;
    let mut client = pooler.connect("shop")?;
    client.send(&frontend::query("begin"))?;
    Ok(bench.text_of(&rest(&mut client), &pooler))
}

fn pqexec(bench: &Bench) -> Result<Seen> {
    let pooler = bench.start(&bench.config().set("disable_pqexec", "1"))?;
    let mut client = pooler.connect("shop")?;
    client.send(&frontend::query("select 1"))?;
    Ok(bench.text_of(&rest(&mut client), &pooler))
}

fn lost(bench: &Bench, sql: &str) -> Result<Seen> {
    let mut client = bench.pooler.connect("shop")?;
    client.send(&frontend::query(sql))?;
    Ok(bench.text(&rest(&mut client)))
}

fn lost_idle(bench: &Bench) -> Result<Seen> {
    let pooler = bench.start(&bench.config())?;
    let mut client = pooler.connect("shop")?;
    let pid = client.query_one("select pg_backend_pid()")?;
    let mut direct = Raw::connect(bench.postgres_port, "postgres")?;
    direct.query(&format!("select pg_terminate_backend({pid})"))?;
    until("the end of the server", || {
        Ok(pooler.pool_number("shop", "sv_idle")? == 0)
    })?;
    Ok(bench.text_of(&transcript(&mut client, &["select 1"])?, &pooler))
}

fn killed(bench: &Bench) -> Result<Seen> {
    let pooler = bench.start(&bench.config())?;
    let mut client = pooler.connect("shop")?;
    client.query("select 1")?;
    pooler.connect("pgbouncer")?.query("KILL shop")?;
    Ok(bench.text_of(&rest(&mut client), &pooler))
}

fn paused(bench: &Bench) -> Result<Seen> {
    let mut console = bench.pooler.connect("pgbouncer")?;
    let mut client = bench.pooler.connect("shop")?;
    console.query("PAUSE shop")?;
    client.send(&frontend::query("select 1"))?;
    until("the waiting client", || {
        Ok(bench.pooler.pool_number("shop", "cl_waiting")? == 1)
    })?;
    console.query("RESUME shop")?;
    Ok(bench.text(&told(&client.read_until_ready()?)))
}

fn reconnected(bench: &Bench) -> Result<Seen> {
    let mut client = bench.pooler.connect("shop")?;
    let first = client.query_one("select pg_backend_pid()")?;
    bench.pooler.connect("pgbouncer")?.query("RECONNECT shop")?;
    let second = client.query_one("select pg_backend_pid()")?;
    Ok(Seen::Text((first == second).to_string()))
}

fn cancelled(bench: &Bench) -> Result<Seen> {
    let mut client = bench.pooler.connect("shop")?;
    client.query("begin")?;
    let pid = client.query_one("select pg_backend_pid()")?;
    client.send(&frontend::query("select pg_sleep(20)"))?;
    let mut direct = Raw::connect(bench.postgres_port, "postgres")?;
    let sql = format!(
        "select count(*) from pg_stat_activity where pid = {pid} and state = 'active' and query ~ 'sleep'"
    );
    until("the query", || Ok(direct.query_one(&sql)? == "1"))?;
    client.cancel(bench.pooler.port())?;
    let mut text = told(&client.read_until_ready()?);
    text += &transcript(&mut client, &["rollback", "select 1"])?;
    Ok(bench.text(&text))
}

fn reset(bench: &Bench) -> Result<Seen> {
    let pooler = bench.start(&bench.config())?;
    let mut client = pooler.connect("forced")?;
    client.query("set work_mem = '1MB'")?;
    client.terminate();
    until("the free server", || {
        Ok(pooler.pool_number("forced", "sv_idle")? == 1)
    })?;
    let mut client = pooler.connect("forced")?;
    Ok(bench.text_of(&transcript(&mut client, &["show work_mem"])?, &pooler))
}

fn temporary(bench: &Bench) -> Result<Seen> {
    let pooler = bench.start(
        &bench
            .config()
            .set("default_pool_size", "1")
            .set("query_wait_timeout", "1"),
    )?;
    let mut client = pooler.connect("shop")?;
    client.query("create temp table probe_temporary (a int)")?;
    let mut other = Raw::connect(pooler.port(), "shop")?;
    other.send(&frontend::query("select count(*) from probe_temporary"))?;
    other.stream().set_read_timeout(Some(PATIENCE / 4))?;
    Ok(bench.text_of(&rest(&mut other), &pooler))
}

fn nowhere(bench: &Bench) -> Result<Seen> {
    let entry = format!(
        "nowhere = host=127.0.0.1 port={} dbname=drop_probes_nowhere",
        bench.postgres_port
    );
    let pooler = bench.start(&bench.config().database(&entry))?;
    let text = login(&pooler, &[("user", "postgres"), ("database", "nowhere")])?;
    Ok(bench.text_of(&text, &pooler))
}

fn connect_query(bench: &Bench) -> Result<Seen> {
    let entry = format!(
        "begun = host=127.0.0.1 port={} dbname=drop_probes connect_query='set work_mem = 777'",
        bench.postgres_port
    );
    let pooler = bench.start(&bench.config().database(&entry))?;
    let mut client = pooler.connect("begun")?;
    Ok(bench.text_of(&transcript(&mut client, &["show work_mem"])?, &pooler))
}

fn add_host(bench: &Bench) -> Result<Seen> {
    let pooler = bench.start(&bench.config().set("application_name_add_host", "1"))?;
    let startup = [
        ("user", "postgres"),
        ("database", "shop"),
        ("application_name", "probe"),
    ];
    let mut client = Raw::connect_with(pooler.port(), &startup)?;
    let name = client.query_one("show application_name")?;
    let port = client.stream().local_addr()?.port().to_string();
    Ok(bench.text_of(&name.replace(&port, "CLIENT"), &pooler))
}

fn copy(bench: &Bench) -> Result<Seen> {
    let mut client = bench.pooler.connect("shop")?;
    client.query("begin")?;
    client.query("create temp table probe_copy (a int) on commit drop")?;
    client.send(&frontend::query("copy probe_copy from stdin"))?;
    client.send(&frontend::message(b'd', b"1\n2\n"))?;
    client.send(&frontend::message(b'c', b""))?;
    let mut text = told(&client.read_until_ready()?);
    text += &transcript(&mut client, &["copy probe_copy to stdout", "commit"])?;
    Ok(bench.text(&text))
}
