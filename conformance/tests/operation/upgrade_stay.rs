//! Clients that stay with the old process of an upgrade, because it has the state of their TLS sessions.

use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::frontend;
use weir_conformance::tls::Dial;
use weir_conformance::tls::Pki;

use super::upgrade::Chain;
use crate::support::PATIENCE;
use crate::support::Server;

const PID: &str = "select pg_backend_pid()";

fn sealed(server: &Server, pki: &Pki) -> Result<Config> {
    let config = server.config().set_all(pki.client_side("allow")?);
    Ok(config.set("drain_timeout", "1"))
}

#[test]
fn who_stays_is_told_of_and_keeps_a_server() -> Result<()> {
    let server = Server::new("op_stay")?;
    let pki = Pki::new()?;
    let mut chain = Chain::start(sealed(&server, &pki)?)?;
    let dial = Dial::new(&pki.authority)?;
    let mut stays = dial.login(chain.port(), "postgres", "op_stay")?;
    let mut moves = chain.connect("op_stay")?;
    ensure!(moves.query_one("select 1")? == "1");
    let old = chain.pid();
    // It does not wait for clients that may stay for days.
    let text = chain.upgrade()?;
    let last = text.lines().last().unwrap_or_default();
    let told = format!("; 1 stay with process {old} until they leave, 1 of them with TLS");
    ensure!(
        last.contains("1 clients moved") && last.ends_with(&told),
        "{text}"
    );
    // Its server waits for it, as before the upgrade.
    let pid = stays.query_one(PID)?;
    for _ in 0..5 {
        ensure!(stays.query_one(PID)? == pid);
        ensure!(moves.query_one("select 1")? == "1");
    }
    // Others may follow meanwhile.
    let text = chain.upgrade()?;
    ensure!(text.contains("1 clients moved"), "{text}");
    ensure!(stays.query_one(PID)? == pid);
    stays.terminate();
    ensure!(chain.first().wait_exit(PATIENCE)?.code() == Some(0));
    ensure!(moves.query_one("select 1")? == "1");
    Ok(())
}

#[test]
fn who_stays_is_ended_at_upgrade_drain_timeout() -> Result<()> {
    let server = Server::new("op_stay_end")?;
    let pki = Pki::new()?;
    let config = sealed(&server, &pki)?.set("upgrade_drain_timeout", "2");
    let mut chain = Chain::start(config)?;
    let dial = Dial::new(&pki.authority)?;
    let mut stays = dial.login(chain.port(), "postgres", "op_stay_end")?;
    chain.upgrade()?;
    let error = stays.read_message()?;
    ensure!(error.field(b'C').as_deref() == Some("57P01"), "{error:?}");
    ensure!(chain.first().wait_exit(PATIENCE)?.code() == Some(0));
    let told = "upgrade_drain_timeout: ending 1 clients that stayed with this process";
    ensure!(
        chain.first().log().contains(told),
        "{}",
        chain.first().log()
    );
    // The next process goes on.
    let mut new = chain.connect("op_stay_end")?;
    new.ask(&frontend::query("select 1"))?;
    Ok(())
}
