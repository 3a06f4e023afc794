//! Health checks over HTTP: a load balancer learns which databases Weir can serve. Hints about failovers: a program
//! makes Weir look at the hosts at once.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use weir_conformance::{Fault, clock, frontend, http, tools, wait_until};

use super::support::{NOTICED, Reads, World};

/// Pages of one Weir.
struct Checks(u16);

impl Checks {
    /// Waits until a check has this status, and its reason contains this text.
    fn wait(&self, path: &str, status: u16, reason: &str) -> Result<()> {
        let mut last = None;
        wait_until(&format!("{path}: {status} {reason}"), NOTICED, || {
            let (found, body) = http::request(self.0, &format!("GET {path}"))?;
            let page: serde_json::Value = serde_json::from_str(&body)?;
            let text = |key: &str| page.get(key).and_then(serde_json::Value::as_str);
            ensure!(text("database") == Some("shop"), "{body}");
            let is_expected =
                found == status && text("reason").context("no reason")?.contains(reason);
            last = Some(body);
            Ok(is_expected)
        })
        .with_context(|| format!("last seen {last:?}"))
    }
}

#[test]
fn checks_tell_which_service_a_database_has() -> Result<()> {
    let port = tools::free_port()?;
    let world = World::start_monitored(1, port)?;
    let checks = Checks(port);
    checks.wait("/primary", 200, "takes writes")?;
    checks.wait("/replica?database=shop", 200, "takes reads")?;
    checks.wait("/replica?lag=10MB", 200, "takes reads")?;
    checks.wait("/read-only", 200, "takes reads")?;
    for (line, status) in [
        ("OPTIONS /primary", 200),
        ("HEAD /replica?database=shop", 200),
        ("GET /primary?database=other", 404),
        ("GET /replica?lag=much", 400),
        ("POST /primary", 405),
    ] {
        let (found, body) = http::request(port, line)?;
        ensure!(found == status, "{line}: {found} {body}");
        ensure!(!line.starts_with("OPTIONS") || body.is_empty(), "{body}");
    }

    let (_, body) = http::request(port, "GET /primary?database=other")?;
    ensure!(body == "no such database: other\n", "{body}");

    let (_, body) = http::request(port, "GET /primary")?;
    let page: serde_json::Value = serde_json::from_str(&body)?;
    let roles: Vec<_> = [0, 1]
        .map(|host| page["hosts"][host]["role"].clone())
        .into();
    ensure!(roles == ["primary", "replica"], "{body}");
    ensure!(page["hosts"][1]["lag_bytes"].is_u64(), "{body}");

    // Nobody can say how far the replica is behind the host that Weir does not reach.
    world.path(0)?.set(Fault::Refuse)?;
    checks.wait("/primary", 503, "no primary is known")?;
    checks.wait("/replica", 200, "takes reads")?;
    checks.wait("/read-only", 200, "takes reads")?;
    world.path(0)?.set(Fault::None)?;
    checks.wait("/primary", 200, "takes writes")?;

    world.cluster.pause_replay(1)?;
    world.cluster.primary().query("CREATE TABLE t (a int)")?;
    checks.wait(
        "/replica?lag=0",
        503,
        "no replica takes reads within 0 bytes of lag",
    )?;
    world.cluster.resume_replay(1)?;
    world.until_reads(1, Reads::Some)?;
    checks.wait("/replica?lag=1kB", 200, "takes reads")?;

    let mut console = world.weir.connect("pgbouncer")?;
    console.query("DISABLE shop")?;
    checks.wait("/primary", 503, "database shop is disabled")?;
    console.query("ENABLE shop")?;
    checks.wait("/primary", 200, "takes writes")?;

    let mut client = world.client()?;
    client.query("BEGIN")?;
    world.weir.signal("TERM")?;
    checks.wait("/primary", 503, "draining")?;
    checks.wait("/read-only", 503, "draining")?;
    client.query("COMMIT")?;
    Ok(())
}

/// Promotes the replica of hosts that are asked every half minute only, gives the hint, and waits until Weir has noticed.
fn is_noticed(hint: impl FnOnce(&World, u16, &str) -> Result<()>) -> Result<World> {
    let port = tools::free_port()?;
    let mut world = World::start_rarely_asked_and_monitored(port)?;
    until_rarely_asked(&world)?;
    world.cluster.promote(1)?;
    let host = format!("127.0.0.1:{}", world.cluster.host(1).port());
    hint(&world, port, &host)?;
    world.until(1, "role", "primary")?;
    Ok(world)
}

/// Waits for the end of the seconds for which Weir asks often, since it has found its primary.
fn until_rarely_asked(world: &World) -> Result<()> {
    let (mut count, mut since) = (0, clock::now());
    wait_until("a second without a probe", NOTICED, || {
        let seen = world.cluster.host(1).count_statements("pg_is_in_recovery");
        if seen != count {
            (count, since) = (seen, clock::now());
        }
        Ok(since.elapsed() > Duration::from_secs(1))
    })
}

#[test]
fn a_post_makes_a_promotion_be_noticed_at_once() -> Result<()> {
    let world = is_noticed(|_, port, host| {
        for (line, status, text) in [
            ("GET /v1/failover", 405, "not a method of this page"),
            (
                "POST /v1/failover?database=other",
                404,
                "no such database: other",
            ),
            (
                "POST /v1/failover?host=127.0.0.1:1",
                404,
                "database shop has no host 127.0.0.1:1",
            ),
            ("POST /v1/failover?hots=a", 400, "unknown parameter: hots"),
        ] {
            let (found, body) = http::request(port, line)?;
            ensure!(
                found == status && body.contains(text),
                "{line}: {found} {body}"
            );
        }
        // Twice is as good as once.
        for _ in 0..2 {
            let line = format!("POST /v1/failover?database=shop&host={host}");
            let answer = http::request(port, &line)?;
            ensure!(
                answer
                    == (
                        202,
                        "the hosts of database shop are probed now\n".to_owned()
                    )
            );
        }
        Ok(())
    })?;
    let host = world.cluster.host(1).port();
    let line = format!(
        "POST /v1/failover from 127.0.0.1: database 'shop' (127.0.0.1:{host} is said to be the primary)"
    );
    ensure!(world.weir.log().contains(&line), "{}", world.weir.log());
    Ok(())
}

#[test]
fn a_console_command_makes_a_promotion_be_noticed_at_once() -> Result<()> {
    let world = is_noticed(|world, _, host| {
        let mut console = world.weir.connect("pgbouncer")?;
        let mut refusal = |sql: &str| {
            let answer = console.ask(&frontend::query(sql))?;
            let error = answer.iter().find(|message| message.tag == b'E');
            let error = error.with_context(|| format!("no error: {sql}"))?;
            Ok::<_, anyhow::Error>((error.field(b'C'), error.field(b'M').unwrap_or_default()))
        };
        for (sql, text) in [
            ("PRIMARY other IS 127.0.0.1:1", "no such database: other"),
            (
                "PRIMARY shop IS 127.0.0.1:1",
                "database shop has no host 127.0.0.1:1; its hosts are ",
            ),
            (
                "PRIMARY pgbouncer IS 127.0.0.1:1",
                "cannot probe admin db: pgbouncer",
            ),
            ("PRIMARY", "a database is required"),
        ] {
            let (code, message) = refusal(sql)?;
            ensure!(code.as_deref() == Some("08P01"), "{sql}: {code:?}");
            ensure!(message.starts_with(text), "{sql}: {message}");
        }
        console.query(&format!("PRIMARY shop IS {host}"))?;
        Ok(())
    })?;
    let log = world.weir.log();
    let line = log
        .lines()
        .find(|line| line.contains("PRIMARY 'shop' IS '127.0.0.1:"));
    let line = line.with_context(|| log.clone())?;
    ensure!(line.contains("pgbouncer/postgres@"), "{line}");
    Ok(())
}
