//! Hints from tools that keep their state in PostgreSQL: the primary falls silent and closes nothing, and Weir hears of the
//! next one from the tool only.

use std::net::SocketAddr;
use std::thread;

use anyhow::Result;
use anyhow::ensure;
use weir_conformance::AutoFailover;
use weir_conformance::Config;
use weir_conformance::Raw;
use weir_conformance::Repmgr;
use weir_conformance::Weir;

use crate::UNTIL_CALM;
use crate::primary;
use crate::wait_primary;

/// An entry that is told of failovers, and one that is not. Probes come ten minutes apart.
fn config(hosts: &[SocketAddr], hints: &str) -> Config {
    let port = hosts.first().map_or(0, SocketAddr::port);
    let replicas: Vec<_> = hosts.iter().skip(1).map(ToString::to_string).collect();
    let replicas = replicas.join(",");
    let entry = format!(
        "host=127.0.0.1 port={port} replicas={replicas} dbname=postgres watch_user=postgres"
    );
    Config::new()
        .set("probe_interval", "600")
        .database(&format!(
            "told = {entry} failover_hints={hints} failover_hints_user=hints failover_hints_password=hunter2"
        ))
        .database(&format!("untold = {entry}"))
}

/// Makes the user that Weir reads with, as the guide says.
fn create_user(mut raw: Raw, schema: &str, table: &str) -> Result<()> {
    raw.query("CREATE ROLE hints LOGIN PASSWORD 'hunter2'")?;
    raw.query(&format!("GRANT USAGE ON SCHEMA {schema} TO hints"))?;
    raw.query(&format!("GRANT SELECT ON {schema}.{table} TO hints"))?;
    raw.terminate();
    Ok(())
}

/// Starts a Weir, which finds the primary, hears of it and becomes calm.
fn start(config: &Config, name: &str, former: SocketAddr) -> Result<Weir> {
    let weir = Weir::start(config)?;
    for entry in ["told", "untold"] {
        wait_primary(&weir, entry, former.port())?;
    }
    weir.wait_log(&format!("reports that {name} is the primary"))?;
    thread::park_timeout(UNTIL_CALM);
    Ok(weir)
}

/// Checks that the entry with hints goes to the new primary, and the other one stays.
fn check_followed(weir: &Weir, former: SocketAddr, next: SocketAddr) -> Result<()> {
    wait_primary(weir, "told", next.port())?;
    let untold = primary(weir, "untold")?;
    ensure!(
        untold == former.to_string(),
        "the entry without hints writes to {untold}\n{}",
        weir.log()
    );
    Ok(())
}

#[test]
fn repmgr_reports_that_another_node_is_the_primary() -> Result<()> {
    let mut repmgr = Repmgr::start()?;
    let hosts = repmgr.addresses();
    create_user(repmgr.connect_leader()?, "repmgr", "nodes")?;
    let places: Vec<_> = hosts
        .iter()
        .map(|host| format!("postgresql://{host}/postgres"))
        .collect();
    let config = config(&hosts, &format!("repmgr:{}", places.join(",")));
    let mut weir = start(&config, "n0", hosts[0])?;
    repmgr.freeze(0)?;
    let leader = repmgr.wait_leader_beside(0)?;
    check_followed(&weir, hosts[0], hosts[leader])?;
    weir.wait_log(&format!(
        "reports that n{leader} is the primary (before: n0 is the primary)"
    ))?;
    repmgr.thaw()?;
    weir.check_healthy()
}

#[test]
fn the_monitor_of_pg_auto_failover_reports_that_another_node_is_the_primary() -> Result<()> {
    let mut cluster = AutoFailover::start()?;
    let hosts = cluster.addresses();
    create_user(cluster.connect_monitor()?, "pgautofailover", "node")?;
    let place = format!("postgresql://{}/pg_auto_failover", cluster.monitor());
    let config = config(&hosts, &format!("pg_auto_failover:{place}"));
    let mut weir = start(&config, "n0", hosts[0])?;
    cluster.freeze(0)?;
    cluster.wait_writable(1)?;
    check_followed(&weir, hosts[0], hosts[1])?;
    weir.wait_log("reports that n1 is the primary")?;
    cluster.thaw()?;
    weir.check_healthy()
}
