//! Two Weirs behind one port: a cancel request finds its client, whichever of them receives it.

use std::time::Duration;

use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Raw;
use weir_conformance::Weir;
use weir_conformance::frontend;
use weir_conformance::tools;
use weir_conformance::wait_until;

use crate::support::PATIENCE;
use crate::support::Server;

const CLIENTS: usize = 10;
const ROUNDS: usize = 5;

/// Number of running queries. A drop by exactly one identifies the query that was cancelled.
fn running(server: &mut Server) -> Result<usize> {
    let sql = format!(
        "select count(*) from pg_stat_activity where datname = '{}' and state = 'active' and query = '{SLEEP}'",
        server.database
    );
    Ok(server.direct.query_one(&sql)?.parse()?)
}

const SLEEP: &str = "select pg_sleep(100)";

fn wait_running(server: &mut Server, wanted: usize) -> Result<()> {
    wait_until(&format!("{wanted} running queries"), PATIENCE, || {
        Ok(running(server)? == wanted)
    })
}

/// A cancel request arrives at a port on which both listen; the kernel chooses the process.
#[test]
fn a_cancel_lands_on_the_right_one_of_two_every_time() -> Result<()> {
    let mut server = Server::new("op_peers")?;
    let port = tools::free_port()?;
    let name = |id: u32| format!("@weir-peer-{port}-{id}");
    let weir = |id: u32| {
        let config = server
            .config()
            .set("so_reuseport", "1")
            .set("peer_id", &id.to_string())
            .set("unix_socket_dir", &name(id))
            .set("cancel_requests_per_second", "1000")
            .peer(&format!("1 = host={} port={port}", name(1)))
            .peer(&format!("2 = host={} port={port}", name(2)));
        Weir::spawn(&config, port)
    };
    let both = [weir(1)?, weir(2)?];
    for weir in &both {
        weir.wait_log("process up")?;
    }
    let mut clients = (0..CLIENTS)
        .map(|_| Raw::connect(port, "op_peers"))
        .collect::<Result<Vec<_>>>()?;
    for _ in 0..ROUNDS {
        for client in &mut clients {
            client.send(&frontend::query(SLEEP))?;
        }
        wait_running(&mut server, CLIENTS)?;
        for (done, client) in clients.iter_mut().enumerate() {
            client.cancel(port)?;
            let answer = client.read_until_ready()?;
            let error = answer.iter().find(|message| message.tag == b'E');
            let text = error.map(weir_conformance::raw::Message::error);
            ensure!(
                text.is_some_and(|text| text.contains("57014")),
                "{answer:?}"
            );
            wait_running(&mut server, CLIENTS - done - 1)?;
        }
    }
    for weir in both {
        let mine = weir.log().matches("login attempt").count();
        println!("{mine} of {CLIENTS} clients");
        ensure!(!weir.log().contains("is dropped"), "{}", weir.log());
    }
    Ok(())
}

#[test]
fn a_peer_that_is_gone_costs_nothing_but_the_cancel() -> Result<()> {
    let server = Server::new("op_peer_gone")?;
    let config = server.config().set("peer_id", "1");
    let weir = Weir::start(&config.peer("2 = host=@weir-nobody"))?;
    let mut client = weir.connect("op_peer_gone")?;
    // Key of peer 2.
    let mut other = Raw::tcp(weir.port(), Duration::from_secs(10))?;
    other.send(&frontend::cancel_request(0x4002_0005, &[1, 2, 3, 3]))?;
    ensure!(other.read_to_close()?.is_empty());
    weir.wait_log("cancel request for peer 2 dropped")?;
    ensure!(client.query_one("select 1")? == "1");
    Ok(())
}
