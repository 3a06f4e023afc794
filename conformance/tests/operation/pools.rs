//! `[pools]`: options of one user of one database, and options that a database overrides for its pools.

use std::time::Duration;

use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Raw;
use weir_conformance::SOON;
use weir_conformance::Weir;
use weir_conformance::clock;
use weir_conformance::frontend;
use weir_conformance::wait_until;

use crate::support::Server;
use crate::support::answer;
use crate::support::took;

const PID: &str = "select pg_backend_pid()";

/// Creates a role that may log in, unless it exists.
fn role(server: &mut Server, name: &str) -> Result<()> {
    let sql = format!(
        "do $$ begin create role {name} login; exception when duplicate_object or unique_violation then null; end $$"
    );
    server.direct.query(&sql).map(drop)
}

/// Servers that these clients use at the same time.
fn used_at_once(server: &mut Server, clients: &mut [Raw]) -> Result<usize> {
    for client in &mut *clients {
        client.send(&frontend::query("select pg_sleep(0.4)"))?;
    }
    let begun = clock::now();
    let mut most = 0;
    while begun.elapsed() < Duration::from_millis(350) {
        most = most.max(server.count()?);
    }
    for client in clients {
        client.read_until_ready()?;
    }
    Ok(most)
}

fn clients_as(weir: &Weir, user: &str, database: &str, count: usize) -> Result<Vec<Raw>> {
    let clients = (0..count).map(|_| weir.connect_as(user, database));
    clients.collect()
}

#[test]
fn one_user_of_one_database_has_a_size_and_a_mode_of_its_own() -> Result<()> {
    let mut server = Server::new("op_pair")?;
    role(&mut server, "op_pair_user")?;
    let config = server.config().set("default_pool_size", "4");
    let with = |line: &str| {
        let users = "\"postgres\" \"\"\n\"op_pair_user\" \"\"\n";
        config
            .clone()
            .userlist(users)
            .section(&format!("[pools]\n{line}"))
    };
    let mut weir = Weir::start(&with("op_pair/op_pair_user = pool_size=2"))?;
    let mut own = clients_as(&weir, "op_pair_user", "op_pair", 6)?;
    let most = used_at_once(&mut server, &mut own)?;
    ensure!(most == 2, "{most} servers in a pool of two");
    let mut others = clients_as(&weir, "postgres", "op_pair", 6)?;
    weir.connect("pgbouncer")?.query("RECONNECT op_pair")?;
    server.wait_count(0)?;
    let most = used_at_once(&mut server, &mut others)?;
    ensure!(most == 4, "{most} servers in a pool of four");
    // Transaction pooling by the globals; a reload makes it session pooling for the pair, and raises its size.
    let mut console = weir.connect("pgbouncer")?;
    let mut mode = |user: &str| -> Result<String> {
        let rows = console.query_named("SHOW POOLS")?;
        let row = rows
            .iter()
            .find(|row| row["database"] == "op_pair" && row["user"] == user);
        Ok(row.map(|row| row["pool_mode"].clone()).unwrap_or_default())
    };
    ensure!(mode("op_pair_user")? == "transaction");
    weir.reload(&with(
        "op_pair/op_pair_user = pool_size=3 pool_mode=session",
    ))?;
    wait_until("session pooling", SOON, || {
        Ok(mode("op_pair_user")? == "session")
    })?;
    ensure!(mode("postgres")? == "transaction");
    drop((own, others));
    let mut first = weir.connect_as("op_pair_user", "op_pair")?;
    let mut second = weir.connect_as("op_pair_user", "op_pair")?;
    let pid = first.query_one(PID)?;
    ensure!(second.query_one(PID)? != pid, "a session keeps its server");
    ensure!(first.query_one(PID)? == pid);
    let mut other = weir.connect("op_pair")?;
    other.query(PID)?;
    let rows = console.query_named("SHOW POOLS")?;
    for (user, active) in [("op_pair_user", "2"), ("postgres", "0")] {
        let row = rows
            .iter()
            .find(|row| row["database"] == "op_pair" && row["user"] == user);
        ensure!(row.is_some_and(|row| row["sv_active"] == active), "{row:?}");
    }
    weir.check_healthy()
}

#[test]
fn a_pool_has_time_limits_of_its_own() -> Result<()> {
    let mut server = Server::new("op_pair_time")?;
    role(&mut server, "op_pair_timed")?;
    let config = server
        .config()
        .set("default_pool_size", "1")
        .set("server_idle_timeout", "600")
        .userlist("\"postgres\" \"\"\n\"op_pair_timed\" \"\"\n");
    let limits =
        "query_timeout=2 idle_transaction_timeout=1 query_wait_timeout=1 server_idle_timeout=1";
    let mut weir =
        Weir::start(&config.section(&format!("[pools]\nop_pair_time/op_pair_timed = {limits}")))?;
    let connect = |user: &str| weir.connect_as(user, "op_pair_time");
    let mut other = connect("postgres")?;
    other.query("begin")?;
    let mut one = connect("op_pair_timed")?;
    let mut two = connect("op_pair_timed")?;
    one.send(&frontend::query("select pg_sleep(30)"))?;
    // The other client's server, and the one of the pair.
    server.wait_count(2)?;
    let begun = clock::now();
    two.send(&frontend::query("select 1"))?;
    let error = String::from_utf8_lossy(&two.read_to_close()?).into_owned();
    ensure!(error.contains("query_wait_timeout"), "{error}");
    let error = String::from_utf8_lossy(&one.read_to_close()?).into_owned();
    ensure!(error.contains("query timeout"), "{error}");
    ensure!(begun.elapsed() < Duration::from_secs(10));
    let mut idle = connect("op_pair_timed")?;
    idle.query("begin")?;
    let error = String::from_utf8_lossy(&idle.read_to_close()?).into_owned();
    ensure!(error.contains("idle transaction timeout"), "{error}");
    let mut unused = connect("op_pair_timed")?;
    unused.query("select 1")?;
    // The servers of the pair go; that of the other user stays.
    server.wait_count(1)?;
    other.query("commit")?;
    answer_is(&mut other)?;
    weir.check_healthy()
}

fn answer_is(client: &mut Raw) -> Result<()> {
    client.send(&frontend::query("select 5"))?;
    let messages = answer(client)?;
    ensure!(messages.iter().any(|message| message.tag == b'D'));
    Ok(())
}

#[test]
fn a_database_overrides_server_idle_timeout() -> Result<()> {
    let mut server = Server::new("op_idle_own")?;
    let port = server.postgres.port();
    let entry = |name: &str, more: &str| {
        format!("{name} = host=127.0.0.1 port={port} dbname=op_idle_own {more}")
    };
    let config = server
        .config()
        .database(&entry("op_idle_short", "server_idle_timeout=1"))
        .database(&entry("op_idle_never", "server_idle_timeout=0"))
        .set("server_idle_timeout", "3");
    let mut weir = Weir::start(&config)?;
    for database in ["op_idle_never", "op_idle_short"] {
        weir.connect(database)?.query("select 1")?;
    }
    let mut own = weir.connect("op_idle_own")?;
    let begun = clock::now();
    own.query("select 1")?;
    server.wait_count(2)?;
    ensure!(begun.elapsed() < Duration::from_secs(3));
    server.wait_count(1)?;
    took(begun, Duration::from_secs(3))?;
    ensure!(weir.pool_number("op_idle_never", "sv_idle")? == 1);
    weir.check_healthy()
}
