//! Effects of commands on clients.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread;

use anyhow::Result;
use anyhow::anyhow;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::Raw;
use weir_conformance::frontend;

use crate::support::Stage;
use crate::support::ended;

/// Gives an order that must be answered only after `work` has called its argument, and not before.
fn waits_for(
    admin: &mut Raw,
    order: &str,
    work: impl FnOnce(&dyn Fn()) -> Result<()>,
) -> Result<()> {
    let finished = AtomicBool::new(false);
    admin.send(&frontend::query(order))?;
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let answer = admin.read_until_ready();
            (finished.load(Ordering::SeqCst), answer)
        });
        let did = work(&|| finished.store(true, Ordering::SeqCst));
        let (in_time, answer) = waiter.join().map_err(|_| anyhow!("a panic"))?;
        did?;
        ensure!(in_time, "{order} was answered before it was done");
        let answer = answer?;
        let tags: String = answer
            .iter()
            .map(|message| char::from(message.tag))
            .collect();
        ensure!(tags == "CZ", "{order}: {tags}");
        Ok(())
    })
}

#[test]
fn pause_waits_for_a_transaction_and_holds_clients_until_resume() -> Result<()> {
    let mut stage = Stage::new("con_pause")?;
    let (mut busy, mut other) = (stage.client()?, stage.client()?);
    busy.query("begin")?;
    let mut admin = stage.weir.connect("pgbouncer")?;
    waits_for(&mut admin, "PAUSE con_pause", |may_end| {
        stage.wait("SHOW DATABASES", "con_pause", "paused", "1")?;
        other.send(&frontend::query("select 1"))?;
        stage.wait("SHOW POOLS", "con_pause", "cl_waiting", "1")?;
        ensure!(busy.query_one("select 2")? == "2");
        may_end();
        busy.query("commit").map(drop)
    })?;
    stage.wait_backends("0")?;
    ensure!(stage.value("SHOW STATE", "paused", "value")? == "no");
    let answer = stage.refusal("RESUME")?;
    ensure!(
        answer == "ERROR 08P01 pooler is not paused/suspended",
        "{answer}"
    );
    stage.order("RESUME con_pause")?;
    other.read_until_ready()?;
    ensure!(other.query_one("select 3")? == "3");
    stage.weir.check_healthy()
}

#[test]
fn pause_of_everything_is_told_by_show_state() -> Result<()> {
    let mut stage = Stage::new("con_pause_all")?;
    let mut client = stage.client()?;
    client.query("select 1")?;
    stage.order("PAUSE")?;
    stage.wait_backends("0")?;
    ensure!(stage.value("SHOW STATE", "paused", "value")? == "yes");
    ensure!(stage.value("SHOW STATE", "active", "value")? == "no");
    for order in ["PAUSE", "SUSPEND"] {
        let answer = stage.refusal(order)?;
        ensure!(
            answer == "ERROR 08P01 already suspended/paused",
            "{order}: {answer}"
        );
    }
    client.send(&frontend::query("select 1"))?;
    stage.wait("SHOW POOLS", "con_pause_all", "cl_waiting", "1")?;
    stage.order("RESUME")?;
    client.read_until_ready()?;
    ensure!(stage.value("SHOW STATE", "active", "value")? == "yes");
    Ok(())
}

#[test]
fn cancelling_a_pause_that_waits_resumes() -> Result<()> {
    let mut stage = Stage::new("con_pause_cancel")?;
    let mut busy = stage.client()?;
    busy.query("begin")?;
    stage
        .admin
        .send(&frontend::query("PAUSE con_pause_cancel"))?;
    stage.wait("SHOW DATABASES", "con_pause_cancel", "paused", "1")?;
    stage.admin.cancel(stage.weir.port())?;
    let answer = stage.admin.read_until_ready()?;
    let error = answer.first().map(weir_conformance::raw::Message::error);
    let wanted = "ERROR 57014 canceling statement due to user request";
    ensure!(error.as_deref() == Some(wanted), "{error:?}");
    ensure!(stage.value("SHOW DATABASES", "con_pause_cancel", "paused")? == "0");
    ensure!(stage.client()?.query_one("select 1")? == "1");
    busy.query("commit").map(drop)
}

#[test]
fn leaving_while_a_pause_waits_resumes() -> Result<()> {
    let stage = Stage::new("con_pause_leave")?;
    let mut busy = stage.client()?;
    busy.query("begin")?;
    let mut leaving = stage.weir.connect("pgbouncer")?;
    leaving.send(&frontend::query("PAUSE con_pause_leave"))?;
    stage.wait("SHOW DATABASES", "con_pause_leave", "paused", "1")?;
    drop(leaving);
    stage.wait("SHOW DATABASES", "con_pause_leave", "paused", "0")?;
    ensure!(stage.client()?.query_one("select 1")? == "1");
    Ok(())
}

#[test]
fn kill_ends_clients_and_servers_at_once_and_pauses() -> Result<()> {
    let mut stage = Stage::new("con_kill")?;
    let (mut idle, mut busy) = (stage.client()?, stage.client()?);
    idle.query("select 1")?;
    busy.query("begin")?;
    stage.order("KILL con_kill")?;
    ended(&mut idle, "FATAL 57P01 database removed")?;
    ended(&mut busy, "FATAL 57P01 database removed")?;
    stage.wait_backends("0")?;
    ensure!(stage.value("SHOW DATABASES", "con_kill", "paused")? == "1");
    stage.order("RESUME con_kill")?;
    ensure!(stage.client()?.query_one("select 1")? == "1");
    stage.weir.check_healthy()
}

#[test]
fn kill_client_ends_one() -> Result<()> {
    let mut stage = Stage::new("con_kill_client")?;
    let (mut one, mut other) = (stage.client()?, stage.client()?);
    one.query("begin")?;
    other.query("select 1")?;
    // The client that has a server.
    let clients = stage.admin.query_named("SHOW CLIENTS")?;
    let linked = clients
        .iter()
        .find(|row| row.get("link").is_some_and(|link| !link.is_empty()));
    let id = linked
        .and_then(|row| row.get("id"))
        .cloned()
        .unwrap_or_default();
    stage.order(&format!("KILL_CLIENT {id}"))?;
    ended(&mut one, "FATAL 57P01 admin forced disconnect")?;
    ensure!(other.query_one("select 1")? == "1");
    let answer = stage.refusal(&format!("KILL_CLIENT {id}"))?;
    ensure!(answer == "ERROR 08P01 client not found", "{answer}");
    Ok(())
}

#[test]
fn disable_refuses_new_clients_only() -> Result<()> {
    let mut stage = Stage::new("con_disable")?;
    let mut client = stage.client()?;
    stage.order("DISABLE con_disable")?;
    ensure!(stage.value("SHOW DATABASES", "con_disable", "disabled")? == "1");
    ensure!(client.query_one("select 1")? == "1");
    let refused = stage.client().err().map(|error| error.to_string());
    let refused = refused.unwrap_or_default();
    ensure!(
        refused.contains("database \"con_disable\" is disabled"),
        "{refused}"
    );
    stage.order("ENABLE con_disable")?;
    ensure!(stage.client()?.query_one("select 1")? == "1");
    Ok(())
}

#[test]
fn wait_close_returns_when_reconnect_has_replaced_the_servers() -> Result<()> {
    let stage = Stage::new("con_reconnect")?;
    let mut client = stage.client()?;
    client.query("begin")?;
    let before = client.query_one("select pg_backend_pid()")?;
    let mut admin = stage.weir.connect("pgbouncer")?;
    admin.query("RECONNECT con_reconnect")?;
    let servers = admin.query_named("SHOW SERVERS")?;
    let marks: Vec<_> = servers
        .iter()
        .filter_map(|row| row.get("close_needed"))
        .collect();
    ensure!(marks == ["1"], "{servers:?}");
    waits_for(&mut admin, "WAIT_CLOSE con_reconnect", |may_end| {
        ensure!(client.query_one("select pg_backend_pid()")? == before);
        may_end();
        client.query("commit").map(drop)
    })?;
    ensure!(client.query_one("select pg_backend_pid()")? != before);
    Ok(())
}

#[test]
fn suspend_moves_nothing_until_resume_or_until_the_console_is_gone() -> Result<()> {
    let mut stage = Stage::new("con_suspend")?;
    let mut client = stage.client()?;
    client.query("select 1")?;
    let mut suspender = stage.weir.connect("pgbouncer")?;
    suspender.query("SUSPEND")?;
    ensure!(value_of(&mut suspender, "suspended")? == "yes");
    client.send(&frontend::query("select 2"))?;
    suspender.query("RESUME")?;
    let answer = client.read_until_ready()?;
    ensure!(
        answer.iter().any(|message| message.tag == b'D'),
        "{answer:?}"
    );
    suspender.query("SUSPEND")?;
    client.send(&frontend::query("select 3"))?;
    drop(suspender);
    client.read_until_ready()?;
    stage.wait("SHOW STATE", "suspended", "value", "no")?;
    stage.weir.check_healthy()
}

fn value_of(console: &mut Raw, key: &str) -> Result<String> {
    let rows = console.query_named("SHOW STATE")?;
    let row = rows
        .iter()
        .find(|row| row.get("key").is_some_and(|name| name == key));
    let value = row.and_then(|row| row.get("value"));
    value.cloned().ok_or_else(|| anyhow!("no {key}"))
}

#[test]
fn set_holds_until_reload() -> Result<()> {
    let mut stage = Stage::new("con_set")?;
    let answer = stage
        .admin
        .ask(&frontend::query("SET query_timeout = '0.2'"))?;
    let tag = answer
        .first()
        .map(|message| String::from_utf8_lossy(&message.body).into_owned());
    ensure!(
        tag.as_deref() == Some("SET query_timeout=0.2\0"),
        "{answer:?}"
    );
    ensure!(stage.value("SHOW CONFIG", "query_timeout", "value")? != "0");
    let mut client = stage.client()?;
    client.send(&frontend::query("select pg_sleep(60)"))?;
    let answer = client.read_until_ready()?;
    let text = answer
        .last()
        .map(weir_conformance::raw::Message::error)
        .unwrap_or_default();
    ensure!(text.contains("query timeout"), "{text}");
    for wrong in [
        "SET query_timeout = 'soon'",
        "SET no_such_option = 1",
        "SET listen_port = 1",
    ] {
        let answer = stage.refusal(wrong)?;
        ensure!(
            answer.starts_with("ERROR 08P01 SET failed"),
            "{wrong}: {answer}"
        );
    }
    stage.order("RELOAD")?;
    ensure!(stage.value("SHOW CONFIG", "query_timeout", "value")? == "0");
    Ok(())
}

#[test]
fn reload_answers_when_it_is_done_or_says_that_it_failed() -> Result<()> {
    let mut stage = Stage::new("con_reload")?;
    let changed = |value: &str| Config::new().set("default_pool_size", value);
    stage.weir.replace_file(&changed("7"))?;
    stage.order("RELOAD")?;
    ensure!(stage.value("SHOW CONFIG", "default_pool_size", "value")? == "7");
    stage.weir.replace_file(&changed("many"))?;
    let answer = stage.refusal("RELOAD")?;
    ensure!(
        answer == "ERROR F0000 RELOAD failed, see logs for additional details",
        "{answer}"
    );
    ensure!(stage.value("SHOW CONFIG", "default_pool_size", "value")? == "7");
    Ok(())
}

#[test]
fn what_cannot_be_done_is_refused_in_pgbouncers_words() -> Result<()> {
    let mut stage = Stage::new("con_refuse")?;
    for (sql, text) in [
        ("PAUSE nosuch", "no such database: nosuch"),
        ("RESUME nosuch", "no such database: nosuch"),
        ("RESUME con_refuse", "database con_refuse is not paused"),
        ("RESUME", "pooler is not paused/suspended"),
        ("KILL nosuch", "no such database: nosuch"),
        ("RECONNECT nosuch", "no such database: nosuch"),
        ("WAIT_CLOSE nosuch", "no such database: nosuch"),
        ("DISABLE nosuch", "no such database: nosuch"),
        ("DISABLE", "a database is required"),
        ("PAUSE pgbouncer", "cannot pause admin db: pgbouncer"),
        ("KILL pgbouncer", "cannot kill admin db: pgbouncer"),
        (
            "RECONNECT pgbouncer",
            "cannot reconnect admin db: pgbouncer",
        ),
        ("DISABLE pgbouncer", "cannot disable admin db: pgbouncer"),
        ("ENABLE pgbouncer", "cannot enable admin db: pgbouncer"),
        ("WAIT_CLOSE pgbouncer", "cannot wait in admin db: pgbouncer"),
        ("KILL_CLIENT 999999", "client not found"),
        ("KILL_CLIENT x", "invalid client pointer supplied"),
        ("FLUSH", "invalid command 'FLUSH', use SHOW HELP;"),
    ] {
        let answer = stage.refusal(sql)?;
        ensure!(answer == format!("ERROR 08P01 {text}"), "{sql}: {answer}");
    }
    stage.order("PAUSE con_refuse")?;
    let answer = stage.refusal("SUSPEND")?;
    ensure!(
        answer == "ERROR 08P01 cannot suspend with paused databases",
        "{answer}"
    );
    Ok(())
}
