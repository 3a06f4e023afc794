//! Pool modes, and the choice among several idle servers.

use std::collections::HashSet;

use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Raw;
use weir_conformance::Weir;
use weir_conformance::clock;
use weir_conformance::frontend;

use crate::support::Server;
use crate::support::answer;
use crate::support::apart;
use crate::support::clients;
use crate::support::ended;
use crate::support::send_all;

const PID: &str = "select pg_backend_pid()";

#[test]
fn session_pooling_keeps_the_server_and_resets_it() -> Result<()> {
    let mut server = Server::new("op_session")?;
    server
        .direct
        .query("alter database op_session set log_statement = 'all'")?;
    let config = server.config().set("pool_mode", "session");
    let weir = Weir::start(&config.set("default_pool_size", "2"))?;
    let mut first = weir.connect("op_session")?;
    let pid = first.query_one(PID)?;
    first.query("create temp table mine (n int); insert into mine values (1)")?;
    first.query("set work_mem = '9MB'; set application_name = 'first'")?;
    first.query("prepare mine as select 1")?;
    first.query("select pg_advisory_lock(77); listen mine")?;
    let mut second = weir.connect("op_session")?;
    ensure!(second.query_one(PID)? != pid);
    for _ in 0..3 {
        ensure!(first.query_one(PID)? == pid);
        ensure!(first.query_one("select n from mine")? == "1");
        ensure!(first.query_one("show work_mem")? == "9MB");
        second.query("select 1")?;
    }
    let before = server.postgres.log().matches("DISCARD ALL").count();
    let mut third = weir.connect("op_session")?;
    third.send(&frontend::query(
        "select pg_backend_pid(), to_regclass('pg_temp.mine'), current_setting('work_mem'), \
         (select count(*) from pg_prepared_statements), (select count(*) from pg_locks where locktype = 'advisory'), \
         (select count(*) from pg_listening_channels()), current_setting('application_name')",
    ))?;
    weir.wait_pool("op_session", "cl_waiting", 1)?;
    first.terminate();
    let rows = answer(&mut third)?;
    let row = rows.iter().find(|message| message.tag == b'D');
    let row = row.map(weir_conformance::raw::Message::row).transpose()?;
    let wanted = [
        Some(&*pid),
        None,
        Some("4MB"),
        Some("0"),
        Some("0"),
        Some("0"),
        Some(""),
    ];
    let wanted: Vec<_> = wanted.map(|value| value.map(str::to_owned)).into();
    ensure!(row.as_ref() == Some(&wanted), "{row:?}");
    let after = server.postgres.log().matches("DISCARD ALL").count();
    ensure!(after == before + 1, "{before}, then {after} resets");
    Ok(())
}

#[test]
fn session_pooling_waits_until_a_client_leaves() -> Result<()> {
    let mut server = Server::new("op_session_wait")?;
    let config = server.config().set("pool_mode", "session");
    let weir = Weir::start(&config.set("default_pool_size", "1"))?;
    let mut clients = clients(&weir, "op_session_wait", 3)?;
    clients[0].query("select 1")?;
    for (waiting, client) in (1..).zip(&mut clients[1..]) {
        let sent = clock::now();
        client.send(&frontend::query("select 2"))?;
        weir.wait_pool("op_session_wait", "cl_waiting", waiting)?;
        apart(sent)?;
    }
    for mut client in clients.drain(..).skip(1) {
        // Dropping a client makes room for the next one; `skip` dropped the first.
        answer(&mut client)?;
    }
    ensure!(server.count()? == 1);
    Ok(())
}

#[test]
fn statement_pooling_refuses_transactions() -> Result<()> {
    let server = Server::new("op_statement")?;
    let mut weir = Weir::start(&server.config().set("pool_mode", "statement"))?;
    let mut raw = weir.connect("op_statement")?;
    ensure!(raw.query_one("select 1")? == "1");
    raw.query("create table t (n int)")?;
    // Several statements in one query are one transaction that ends with it.
    raw.query("insert into t values (1); insert into t values (2)")?;
    for begin in [
        "begin",
        "start transaction",
        "begin; insert into t values (3)",
    ] {
        let mut raw = weir.connect("op_statement")?;
        raw.send(&frontend::query(begin))?;
        ended(
            &mut raw,
            "0A000 transaction blocks not allowed in statement pooling mode",
        )?;
    }
    ensure!(raw.query_one("select count(*) from t")? == "2");
    weir.check_healthy()
}

#[test]
fn transaction_pooling_shares_a_server_between_transactions() -> Result<()> {
    let mut server = Server::new("op_transaction")?;
    let weir = Weir::start(&server.config().set("default_pool_size", "1"))?;
    let mut clients = clients(&weir, "op_transaction", 4)?;
    let pid = clients[0].query_one(PID)?;
    for _ in 0..3 {
        for client in &mut clients {
            ensure!(client.query_one(PID)? == pid);
        }
    }
    clients[0].query("begin")?;
    send_all(&mut clients[1..], PID)?;
    weir.wait_pool("op_transaction", "cl_waiting", 3)?;
    ensure!(clients[0].query_one(PID)? == pid);
    clients[0].query("commit")?;
    for client in &mut clients[1..] {
        answer(client)?;
    }
    ensure!(server.count()? == 1);
    Ok(())
}

#[test]
fn a_pool_mode_may_differ_by_database_and_user() -> Result<()> {
    let mut server = Server::new("op_mixed")?;
    server.roles(&["op_fay"])?;
    let port = server.postgres.port();
    let config = weir_conformance::Config::new()
        .database(&format!(
            "keeps = host=127.0.0.1 port={port} dbname=op_mixed pool_mode=session"
        ))
        .database(&format!(
            "shares = host=127.0.0.1 port={port} dbname=op_mixed pool_size=1"
        ))
        .user("op_fay = pool_mode=statement")
        .userlist("\"postgres\" \"\"\n\"op_fay\" \"\"\n");
    let weir = Weir::start(&config)?;
    let mut keeper = weir.connect("keeps")?;
    let pid = keeper.query_one(PID)?;
    ensure!(weir.connect("keeps")?.query_one(PID)? != pid);
    let shared = weir.connect("shares")?.query_one(PID)?;
    ensure!(weir.connect("shares")?.query_one(PID)? == shared);
    let mut fay = weir.connect_as("op_fay", "keeps")?;
    fay.send(&frontend::query("begin"))?;
    ended(&mut fay, "0A000")
}

/// Opens three servers, then returns the ones that serve six queries of one client.
fn met_by_six(server: &mut Server, round_robin: &str) -> Result<Vec<String>> {
    let config = server.config().set("server_round_robin", round_robin);
    let weir = Weir::start(&config.env("WEIR_WORKERS", "1"))?;
    let mut clients = clients(&weir, server.database, 3)?;
    send_all(&mut clients, "begin; select 1")?;
    for client in &mut clients {
        answer(client)?;
    }
    for client in &mut clients {
        client.query("commit")?;
    }
    ensure!(server.count()? == 3);
    let mut raw: Raw = weir.connect(server.database)?;
    let pids = (0..6).map(|_| raw.query_one(PID)).collect();
    drop(weir);
    server.wait_count(0)?;
    pids
}

#[test]
fn the_last_used_server_is_used_first_unless_round_robin() -> Result<()> {
    let mut server = Server::new("op_order")?;
    let warm = met_by_six(&mut server, "0")?;
    ensure!(warm.iter().collect::<HashSet<_>>().len() == 1, "{warm:?}");
    let turns = met_by_six(&mut server, "1")?;
    ensure!(turns.iter().collect::<HashSet<_>>().len() == 3, "{turns:?}");
    ensure!(turns[..3] == turns[3..], "{turns:?}");
    Ok(())
}
