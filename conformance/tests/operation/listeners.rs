//! `[listeners]`: further ports and unix sockets with a pool mode of their own.

use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::Raw;
use weir_conformance::SOON;
use weir_conformance::TempDir;
use weir_conformance::Weir;
use weir_conformance::frontend;
use weir_conformance::tools;
use weir_conformance::wait_until;

use crate::support::PATIENCE;
use crate::support::Server;

const PID: &str = "select pg_backend_pid()";

/// True if a client keeps its server between transactions while others want one.
fn keeps_server(first: &mut Raw, second: &mut Raw) -> Result<bool> {
    let pid = first.query_one(PID)?;
    let other = second.query_one(PID)?;
    Ok(first.query_one(PID)? == pid && other != pid)
}

fn two(port: u16, database: &str) -> Result<(Raw, Raw)> {
    Ok((Raw::connect(port, database)?, Raw::connect(port, database)?))
}

#[test]
fn clients_of_a_second_port_have_the_pool_mode_of_their_listener() -> Result<()> {
    let mut server = Server::new("op_door")?;
    let (session, statement) = (tools::free_port()?, tools::free_port()?);
    let sockets = TempDir::new()?;
    let directory = sockets.path().to_string_lossy().into_owned();
    let config = server.config().set("max_db_connections", "4").workers(1);
    let with = |more: &str| -> Config {
        let sessions =
            format!("listen_port={session} unix_socket_dir={directory} pool_mode=session");
        let short = format!("listen_port={statement} {more}");
        let section = format!("[listeners]\nsessions = {sessions}\nshort = {short}");
        config.clone().section(&section)
    };
    let mut weir = Weir::start(&with("pool_mode=statement"))?;
    let (mut first, mut second) = two(weir.port(), "op_door")?;
    ensure!(
        !keeps_server(&mut first, &mut second)?,
        "transaction pooling"
    );
    let (mut first, mut second) = two(session, "op_door")?;
    ensure!(keeps_server(&mut first, &mut second)?, "session pooling");
    first.query("create temp table mine (n int); set work_mem = '9MB'")?;
    ensure!(first.query_one("show work_mem")? == "9MB");
    // What a session leaves is gone with it.
    first.terminate();
    let mut third = Raw::connect(session, "op_door")?;
    ensure!(
        third.query_one("select coalesce(to_regclass('pg_temp.mine')::text, 'none')")? == "none"
    );
    third.terminate();
    let mut by_socket = Raw::unix(sockets.path(), session, PATIENCE)?;
    by_socket.login(&[("user", "postgres"), ("database", "op_door")])?;
    ensure!(
        keeps_server(&mut by_socket, &mut second)?,
        "session pooling by the unix socket"
    );
    let mut short = Raw::connect(statement, "op_door")?;
    short.send(&frontend::query("begin"))?;
    let error = String::from_utf8_lossy(&short.read_to_close()?).into_owned();
    ensure!(error.contains("transaction blocks not allowed"), "{error}");
    // The limits of the database count all of them together.
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut client = Raw::connect(session, "op_door")?;
        client.send(&frontend::query(PID))?;
        held.push(client);
    }
    ensure!(server.count()? <= 4, "max_db_connections");
    drop((held, by_socket, second));
    // The port stays, the mode changes for new clients.
    weir.reload(&with("pool_mode=transaction"))?;
    wait_until("the new mode", SOON, || {
        let mut client = Raw::connect(statement, "op_door")?;
        client.send(&frontend::query("begin"))?;
        Ok(client
            .read_message()
            .is_ok_and(|message| message.tag == b'C'))
    })?;
    weir.check_healthy()
}

#[test]
fn a_listener_and_its_clients_survive_an_upgrade() -> Result<()> {
    let server = Server::new("op_door_upgrade")?;
    let port = tools::free_port()?;
    let config = server
        .config()
        .set("pool_mode", "session")
        .section(&format!(
            "[listeners]\nfast = listen_port={port} pool_mode=transaction"
        ));
    let mut chain = super::upgrade::Chain::start(config)?;
    let (mut first, mut second) = two(port, "op_door_upgrade")?;
    ensure!(!keeps_server(&mut first, &mut second)?);
    chain.upgrade()?;
    ensure!(
        !keeps_server(&mut first, &mut second)?,
        "clients that have moved"
    );
    let (mut first, mut second) = two(port, "op_door_upgrade")?;
    ensure!(!keeps_server(&mut first, &mut second)?, "new clients");
    let (mut first, mut second) = two(chain.port(), "op_door_upgrade")?;
    ensure!(keeps_server(&mut first, &mut second)?, "the main port");
    Ok(())
}
