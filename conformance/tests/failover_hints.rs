//! `failover_hints` with a real Patroni cluster and its etcd, with repmgr and with pg_auto_failover: all report a failover,
//! and Weir finds the new primary long before the next probe is due.
//!
//! Not a part of `make test`, because it takes two minutes and needs Patroni, etcd, repmgr and pg_auto_failover:
//! `cargo test -p weir-conformance --features drill --test failover_hints`.

use std::collections::HashMap;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::Patroni;
use weir_conformance::Weir;
use weir_conformance::clock;
use weir_conformance::patroni::LEADER_KEY;
use weir_conformance::patroni::Shape;
use weir_conformance::wait_until;

#[path = "failover_hints/databases.rs"]
mod databases;

/// Time within which Weir follows a hint: the third host follows the new primary after `wal_retrieve_retry_interval`
/// (5 s), and decides between two that may accept writes.
const FOLLOWED_MAX: Duration = Duration::from_secs(15);

/// Time after which a Weir that has found the primary probes no host any more, until the next probe is due. Shorter than
/// Patroni's `ttl`.
const UNTIL_CALM: Duration = Duration::from_secs(10);

/// Time after which Weir believes no leader any more whom nobody confirms, and Patroni's own key is gone.
const UNTIL_FORGOTTEN: Duration = Duration::from_secs(25);

/// Entries with the same hosts: one per tool, and one that is told nothing.
const ENTRIES: [&str; 3] = ["by_etcd", "by_patroni", "untold"];

/// Probes come ten minutes apart: hints and broken connections have the hosts probed, and nothing else.
fn config(patroni: &Patroni) -> Config {
    let addresses = patroni.addresses();
    let hosts = addresses.iter().map(ToString::to_string);
    let hosts: Vec<_> = hosts.skip(1).collect();
    let rest = (0..addresses.len()).map(|number| format!("http://{}", patroni.node(number).rest()));
    let rest: Vec<_> = rest.collect();
    let path = LEADER_KEY.trim_end_matches("/leader");
    let etcd = format!("etcd:http://{}{path}", patroni.etcd_address());
    let hints = [
        format!("failover_hints={etcd} fence=patroni"),
        format!("failover_hints=patroni:{}", rest.join(",")),
        String::new(),
    ];
    let mut config = Config::new().set("probe_interval", "600");
    for (name, hints) in ENTRIES.iter().zip(hints) {
        config = config.database(&format!(
            "{name} = host=127.0.0.1 port={} replicas={} dbname=postgres watch_user=postgres {hints}",
            patroni.node(0).address().port(),
            hosts.join(","),
        ));
    }
    config
}

/// Returns the host that takes the writes of an entry, as `SHOW HOSTS` names it; empty if there is none.
fn primary(weir: &Weir, entry: &str) -> Result<String> {
    let mut console = weir.connect("pgbouncer")?;
    let hosts = console.query_named("SHOW HOSTS")?;
    console.terminate();
    let is_it = |host: &&HashMap<String, String>| {
        let has = |column: &str, value: &str| host.get(column).is_some_and(|it| it == value);
        has("database", entry) && has("writes", "yes")
    };
    let found = hosts.iter().find(is_it).and_then(|host| host.get("host"));
    Ok(found.cloned().unwrap_or_default())
}

fn wait_primary(weir: &Weir, entry: &str, port: u16) -> Result<()> {
    let waited = wait_until(&format!("the primary of {entry}"), FOLLOWED_MAX, || {
        Ok(primary(weir, entry)? == format!("127.0.0.1:{port}"))
    });
    waited.with_context(|| weir.log())
}

#[test]
fn patroni_and_etcd_report_a_failover_and_weir_looks_at_once() -> Result<()> {
    let mut patroni = Patroni::start(Shape::ASYNCHRONOUS)?;
    reports_of_a_switchover(&patroni)?;
    patroni.wait_whole()?;
    a_silent_leader(&mut patroni)
}

/// Patroni and etcd die, PostgreSQL does not: nothing happens, also where Patroni's leader is a witness.
#[test]
fn rt_37_the_death_of_all_tools_stops_no_statement() -> Result<()> {
    let mut patroni = Patroni::start(Shape::ASYNCHRONOUS)?;
    let (mut weir, leader) = start(&patroni)?;
    patroni.kill_tools()?;
    let mut clients = ENTRIES
        .iter()
        .map(|entry| weir.connect(entry))
        .collect::<Result<Vec<_>>>()?;
    clients.iter_mut().try_for_each(|client| {
        client
            .query("CREATE TABLE IF NOT EXISTS t (a int)")
            .map(drop)
    })?;
    let end = clock::now() + UNTIL_FORGOTTEN;
    let mut count = 0;
    while clock::now() < end {
        for client in &mut clients {
            client.query("INSERT INTO t VALUES (1)")?;
            client.query("SELECT count(*) FROM t")?;
            count += 1;
        }
        thread::park_timeout(Duration::from_millis(20));
    }
    let port = patroni.node(leader).address().port();
    for entry in ENTRIES {
        let primary = primary(&weir, entry)?;
        ensure!(primary == format!("127.0.0.1:{port}"), "{entry}: {primary}");
    }
    let rows = clients[0].query_one("SELECT count(*) FROM t")?;
    ensure!(rows == count.to_string(), "{rows} rows of {count}");
    let changes = weir.log().matches(" is the primary (").count();
    ensure!(changes == ENTRIES.len(), "{}", weir.log());
    weir.check_healthy()
}

/// Starts a Weir that knows the primary of all entries, and has heard of it from both tools.
fn start(patroni: &Patroni) -> Result<(Weir, usize)> {
    let weir = Weir::start(&config(patroni))?;
    let leader = patroni.leader()?;
    let node = patroni.node(leader);
    for entry in ENTRIES {
        wait_primary(&weir, entry, node.address().port())?;
    }
    for report in ["on timeline", "since revision"] {
        weir.wait_log(&format!(
            "reports that {} is the leader {report}",
            node.name()
        ))?;
    }
    Ok((weir, leader))
}

/// Both tools report a switchover, which breaks connections as well.
fn reports_of_a_switchover(patroni: &Patroni) -> Result<()> {
    let (mut weir, _) = start(patroni)?;
    patroni.switchover(patroni.candidate()?)?;
    let node = patroni.node(patroni.leader()?);
    for (entry, tool) in [("by_etcd", "etcd"), ("by_patroni", "patroni")] {
        weir.wait_log(&format!("database {entry}: {tool} at "))?;
        wait_primary(&weir, entry, node.address().port())?;
    }
    for report in ["on timeline", "since revision"] {
        weir.wait_log(&format!(
            "reports that {} is the leader {report}",
            node.name()
        ))?;
    }
    weir.check_healthy()
}

/// The leader falls silent and closes nothing: Weir hears of the next leader from the tools only.
fn a_silent_leader(patroni: &mut Patroni) -> Result<()> {
    let (mut weir, former) = start(patroni)?;
    thread::park_timeout(UNTIL_CALM);
    patroni.freeze_agent(former)?;
    patroni.freeze_server(former)?;
    let leader = patroni.wait_leader_beside(former)?;
    for entry in ["by_etcd", "by_patroni"] {
        wait_primary(&weir, entry, patroni.node(leader).address().port())?;
    }
    let untold = primary(&weir, "untold")?;
    let expected = format!("127.0.0.1:{}", patroni.node(former).address().port());
    ensure!(
        untold == expected,
        "the entry without hints writes to {untold}\n{}",
        weir.log()
    );
    patroni.thaw(former)?;
    weir.check_healthy()
}
