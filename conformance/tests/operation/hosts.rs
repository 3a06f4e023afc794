//! Destinations of server connections: several hosts, names, unix sockets.

use std::net::TcpListener;

use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::SOON;
use weir_conformance::Weir;
use weir_conformance::clock;

use crate::support::Server;
use crate::support::answer;
use crate::support::clients;
use crate::support::refusal;
use crate::support::send_all;

/// Runs four clients in transactions at once, so that four servers are needed.
fn check_four(weir: &Weir, server: &mut Server) -> Result<()> {
    let mut clients = clients(weir, "shop", 4)?;
    send_all(&mut clients, "begin; select 1")?;
    for client in &mut clients {
        answer(client)?;
    }
    // Another server may have been connecting when one became free.
    ensure!(server.count()? >= 4, "{} backends", server.count()?);
    for client in &mut clients {
        client.query("commit")?;
    }
    Ok(())
}

fn shop(server: &Server, host: &str, more: &str) -> Config {
    Config::new().database(&format!(
        "shop = host={host} port={} dbname={} {more}",
        server.postgres.port(),
        server.database
    ))
}

#[test]
fn a_dead_host_is_passed_over() -> Result<()> {
    let mut server = Server::new("op_dead_host")?;
    // The first two hosts have no open port.
    for more in ["", "load_balance_hosts=disable"] {
        let config = shop(&server, "127.0.0.2,127.0.0.3,127.0.0.1", more);
        let mut weir = Weir::start(&config)?;
        check_four(&weir, &mut server)?;
        weir.check_healthy()?;
        drop(weir);
        server.wait_count(0)?;
    }
    Ok(())
}

#[test]
fn a_host_that_says_nothing_is_passed_over_after_server_connect_timeout() -> Result<()> {
    let mut server = Server::new("op_mute_host")?;
    let mute = TcpListener::bind(("127.0.0.4", server.postgres.port()))?;
    let config = shop(&server, "127.0.0.4,127.0.0.1", "load_balance_hosts=disable");
    let weir = Weir::start(&config.set("server_connect_timeout", "1"))?;
    let begun = clock::now();
    let mut client = weir.connect("shop")?;
    ensure!(client.query_one("select 1")? == "1");
    ensure!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    ensure!(server.count()? >= 1);
    drop(mute);
    Ok(())
}

#[test]
fn a_name_is_resolved() -> Result<()> {
    let mut server = Server::new("op_name")?;
    let weir = Weir::start(&shop(&server, "localhost", ""))?;
    check_four(&weir, &mut server)
}

#[test]
fn a_unix_socket_of_the_server_is_used() -> Result<()> {
    let mut server = Server::new("op_server_unix")?;
    let directory = server.postgres.socket_dir().display().to_string();
    let weir = Weir::start(&shop(&server, &directory, ""))?;
    check_four(&weir, &mut server)?;
    let local = server.direct.query_one(
        "select count(*) from pg_stat_activity where datname = 'op_server_unix' and client_addr is null",
    )?;
    let all = server.count()?.to_string();
    ensure!(
        local == all,
        "{local} of {all} backends came by the unix socket"
    );
    Ok(())
}

#[test]
fn a_server_that_is_not_there_is_told() -> Result<()> {
    let server = Server::new("op_no_host")?;
    let config = shop(&server, "127.0.0.2", "").set("failover_hold", "0");
    let mut weir = Weir::start(&config)?;
    let text = refusal(weir.connect("shop"));
    ensure!(
        text.contains("08001 server login has been failing") && text.contains("refused"),
        "{text:?}"
    );
    weir.check_healthy()
}
