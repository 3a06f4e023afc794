//! Health checks over HTTP: a load balancer learns which databases Weir can serve.

use anyhow::{Context, Result, ensure};
use weir_conformance::{Fault, http, tools, wait_until};

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
