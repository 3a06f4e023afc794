//! Orders of an administrator during an upgrade: those that hold go along, and new ones reach all processes that have
//! clients.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Raw;
use weir_conformance::frontend;
use weir_conformance::tls::Dial;
use weir_conformance::tls::Pki;
use weir_conformance::tls::Spec;
use weir_conformance::wait_until;

use super::upgrade::Chain;
use crate::support::PATIENCE;
use crate::support::Server;
use crate::support::answer;
use crate::support::refusal;

const RULE: &str = "rule add $$ name = \"stop\"\nmatch.kind = \"ddl\"\naction = \"reject\" $$";
const TABLE: &str = "create table forbidden (n int)";

/// True if the database `postgres` takes no clients.
fn is_disabled(chain: &Chain) -> bool {
    refusal(chain.connect("postgres")).contains("is disabled")
}

/// Returns the value of an option in force.
fn option(console: &mut Raw, name: &str) -> Result<String> {
    let rows = console.query_named("show config")?;
    let is_it = |row: &HashMap<String, String>| row.get("key").is_some_and(|key| key == name);
    let mut row = rows.into_iter().find(is_it).unwrap_or_default();
    Ok(row.remove("value").unwrap_or_default())
}

/// True if a client gets an answer, or has one, within a moment.
fn is_answered(client: &Raw) -> Result<bool> {
    let stream = client.stream();
    stream.set_read_timeout(Some(Duration::from_millis(200)))?;
    let has_bytes = stream.peek(&mut [0]).is_ok();
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(has_bytes)
}

fn is_rejected(client: &mut Raw) -> Result<bool> {
    let messages = client.ask(&frontend::query(TABLE))?;
    Ok(messages
        .iter()
        .any(|message| message.error().contains("stop")))
}

#[test]
fn what_the_console_ordered_holds_in_the_next_process() -> Result<()> {
    let server = Server::new("op_standing")?;
    let mut chain = Chain::start(server.config().set("drain_timeout", "1"))?;
    let (mut client, mut new) = (chain.connect("op_standing")?, chain.connect("op_standing")?);
    let mut console = chain.connect("pgbouncer")?;
    console.query("set query_wait_timeout = 77")?;
    console.query("set server_idle_timeout = 33")?;
    console.query("set query_wait_timeout = 78")?;
    console.query("disable postgres")?;
    console.query(RULE)?;
    console.query("pause op_standing")?;
    // It waits in the first process, and does not move.
    client.send(&frontend::query("select 1"))?;
    ensure!(!is_answered(&client)?);
    console.terminate();
    chain.upgrade()?;
    let mut console = chain.connect("pgbouncer")?;
    ensure!(option(&mut console, "query_wait_timeout")? == "78");
    ensure!(option(&mut console, "server_idle_timeout")? == "33");
    ensure!(is_disabled(&chain));
    // The rule needs no server.
    ensure!(is_rejected(&mut new)?);
    new.send(&frontend::query("select 1"))?;
    ensure!(!is_answered(&new)? && !is_answered(&client)?);
    console.query("resume op_standing")?;
    answer(&mut new)?;
    // The first process has resumed as well.
    answer(&mut client)?;
    ensure!(chain.first().wait_exit(PATIENCE)?.code() == Some(0));
    ensure!(client.query_one("select 2")? == "2");
    // It holds in the process after the next one, too, and ends as it would have ended before.
    chain.upgrade()?;
    let mut console = chain.connect("pgbouncer")?;
    ensure!(option(&mut console, "query_wait_timeout")? == "78");
    ensure!(is_disabled(&chain));
    ensure!(is_rejected(&mut client)?);
    console.query("reload")?;
    ensure!(option(&mut console, "query_wait_timeout")? != "78");
    console.query("rule drop stop")?;
    ensure!(!is_rejected(&mut client)?);
    Ok(())
}

#[test]
fn an_order_reaches_the_clients_that_stay_with_older_processes() -> Result<()> {
    let mut server = Server::new("op_orders")?;
    let pki = Pki::new()?;
    let config = server.config().set_all(pki.client_side("allow")?);
    let mut chain = Chain::start(config.set("drain_timeout", "1"))?;
    let dial = Dial::new(&pki.authority)?;
    // One stays with each of the first two processes.
    let mut first = dial.login(chain.port(), "postgres", "op_orders")?;
    chain.upgrade()?;
    let mut second = dial.login(chain.port(), "postgres", "op_orders")?;
    chain.upgrade()?;
    let mut third = chain.connect("op_orders")?;
    let mut console = chain.connect("pgbouncer")?;
    for client in [&mut first, &mut second, &mut third] {
        ensure!(client.query_one("select 1")? == "1");
    }
    // It is done when no process has servers.
    first.query("begin; select 1")?;
    console.send(&frontend::query("pause op_orders"))?;
    ensure!(!is_answered(&console)?);
    first.query("commit")?;
    answer(&mut console)?;
    ensure!(server.count()? == 0);
    for client in [&mut first, &mut second, &mut third] {
        client.send(&frontend::query("select 2"))?;
        ensure!(!is_answered(client)?);
    }
    console.query("resume op_orders")?;
    for client in [&mut first, &mut second, &mut third] {
        answer(client)?;
    }
    console.query(RULE)?;
    for client in [&mut first, &mut second, &mut third] {
        ensure!(is_rejected(client)?);
    }
    // A cancel request finds its client over all of them.
    first.send(&frontend::query("select pg_sleep(100)"))?;
    wait_until("a cancel", PATIENCE, || {
        first.cancel(chain.port())?;
        is_answered(&first)
    })?;
    let messages = first.read_until_ready()?;
    let code = messages.iter().find_map(|it| it.field(b'C'));
    ensure!(code.as_deref() == Some("57014"), "{messages:?}");
    // The log of the first process names what it was ordered.
    let log = chain.first().log();
    ensure!(
        log.contains("another process: PAUSE 'op_orders' command issued"),
        "{log}"
    );
    Ok(())
}

#[test]
fn an_order_at_the_console_of_the_old_process_reaches_the_next_one() -> Result<()> {
    let server = Server::new("op_old_console")?;
    let mut chain = Chain::start(server.config().set("drain_timeout", "1"))?;
    let mut console = chain.connect("pgbouncer")?;
    let mut new = chain.connect("op_old_console")?;
    let mut stays = chain.connect("op_old_console")?;
    console.query("pause")?;
    // It keeps the old process running, with the console.
    stays.send(&frontend::query("select 1"))?;
    ensure!(!is_answered(&stays)?);
    chain.upgrade()?;
    new.send(&frontend::query("select 1"))?;
    ensure!(!is_answered(&new)?);
    console.query("set query_wait_timeout = 55")?;
    let mut next = chain.connect("pgbouncer")?;
    wait_until("the setting", PATIENCE, || {
        Ok(option(&mut next, "query_wait_timeout")? == "55")
    })?;
    console.query("resume")?;
    answer(&mut stays)?;
    answer(&mut new)?;
    ensure!(new.query_one("select 2")? == "2");
    Ok(())
}

#[test]
fn there_is_no_upgrade_while_an_order_is_not_complete() -> Result<()> {
    let server = Server::new("op_upgrade_halted")?;
    let mut chain = Chain::start(server.config())?;
    let mut console = chain.connect("pgbouncer")?;
    console.query("suspend")?;
    let (text, is_good) = chain.try_upgrade()?;
    ensure!(
        !is_good && text.contains("failed: everything is suspended"),
        "{text}"
    );
    console.query("resume")?;
    let mut busy = chain.connect("op_upgrade_halted")?;
    busy.query("begin; select 1")?;
    for (pause, said) in [
        ("pause", "failed: PAUSE is not complete, "),
        (
            "pause op_upgrade_halted",
            "failed: PAUSE is not complete: op_upgrade_halted, ",
        ),
    ] {
        console.send(&frontend::query(pause))?;
        ensure!(!is_answered(&console)?);
        let (text, is_good) = chain.try_upgrade()?;
        ensure!(!is_good && text.contains(said), "{text}");
        console.cancel(chain.port())?;
        let messages = console.read_until_ready()?;
        ensure!(
            messages
                .iter()
                .any(|it| it.field(b'C').as_deref() == Some("57014"))
        );
    }
    busy.query("commit")?;
    console.terminate();
    chain.upgrade().map(drop)
}

#[test]
fn half_of_a_key_and_its_certificate_stays_behind_and_keeps_nobody_from_upgrading() -> Result<()> {
    let server = Server::new("op_halves")?;
    let pki = Pki::new()?;
    let mut chain = Chain::start(server.config().set_all(pki.client_side("allow")?))?;
    let other = pki.issue("other", &Spec::server())?;
    let mut console = chain.connect("pgbouncer")?;
    console.query("set query_wait_timeout = 44")?;
    console.query(&format!(
        "set client_tls_key_file = '{}'",
        other.key.display()
    ))?;
    console.terminate();
    chain.upgrade()?;
    ensure!(option(&mut chain.connect("pgbouncer")?, "query_wait_timeout")? == "44");
    let dial = Dial::new(&pki.authority)?;
    let mut sealed = dial.login(chain.port(), "postgres", "op_halves")?;
    ensure!(sealed.query_one("select 1")? == "1");
    Ok(())
}
