//! Incidents as operators meet them, played against real servers: which line tells first, after how many seconds, and
//! whether the command that it names helps. `docs/guide/incidents.md` tells them; its figures come from the output of these
//! tests (`WHOLE_INCIDENTS=1 cargo test -p weir-conformance --test incidents -- --nocapture`). Without that variable the end of
//! two of them, which takes a minute, is left to the unit tests of the conditions.
#![expect(clippy::print_stdout, reason = "the guide is written from its output")]

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use weir_conformance::clock::now;
use weir_conformance::postgres::Options;
use weir_conformance::{Cluster, Config, Postgres, Raw, Weir, frontend, wait_until};

/// Time limit, generous because the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(90);

type Row = HashMap<String, String>;

/// Returns a value of a row; empty if there is none.
fn of<'r>(row: &'r Row, column: &str) -> &'r str {
    row.get(column).map_or("", String::as_str)
}

/// Weir in an incident, with the clock that runs from its begin.
struct Incident {
    name: &'static str,
    weir: Weir,
    admin: Raw,
    began: Instant,
}

impl Incident {
    fn with(name: &'static str, config: &Config) -> Result<Self> {
        let weir = Weir::start(config)?;
        let admin = weir.connect("pgbouncer")?;
        Ok(Self {
            name,
            weir,
            admin,
            began: now(),
        })
    }

    /// Starts the clock.
    fn begins(&mut self) {
        self.began = now();
    }

    fn tell(&self, line: &str) {
        let seconds = self.began.elapsed().as_secs_f64();
        println!("{}: after {seconds:4.1} s: {line}", self.name);
    }

    /// Waits for a condition, and returns its row of SHOW DIAGNOSIS.
    fn diagnosed(&mut self, condition: &str) -> Result<Row> {
        let mut found = None;
        let mut last = Vec::new();
        let looked = wait_until(condition, PATIENCE, || {
            last = self.admin.query_named("SHOW DIAGNOSIS")?;
            found = last
                .iter()
                .find(|row| of(row, "condition") == condition)
                .cloned();
            Ok(found.is_some())
        });
        looked.with_context(|| format!("last seen {last:?}"))?;
        let row = found.context("no row")?;
        self.tell(&format!(
            "{}: {} ({}). {} {} > {}",
            of(&row, "severity"),
            of(&row, "condition"),
            of(&row, "scope"),
            of(&row, "evidence"),
            of(&row, "advice"),
            of(&row, "command")
        ));
        // The log tells it as well.
        self.weir.wait_log(condition)?;
        Ok(row)
    }

    /// Waits for the end of a condition, if the whole incident is to be played.
    fn over_if_whole(&mut self, condition: &str) -> Result<()> {
        match std::env::var_os("WHOLE_INCIDENTS") {
            Some(_) => self.over(condition),
            None => Ok(()),
        }
    }

    /// Waits for the end of a condition.
    fn over(&mut self, condition: &str) -> Result<()> {
        wait_until(&format!("the end of {condition}"), PATIENCE, || {
            let rows = self.admin.query_named("SHOW DIAGNOSIS")?;
            Ok(rows.iter().all(|row| of(row, "condition") != condition))
        })?;
        self.tell(&format!("{condition} is over"));
        self.weir.wait_log(&format!("{condition} "))
    }
}

#[test]
fn a_deploy_that_leaves_transactions_open() -> Result<()> {
    let postgres = Postgres::shared()?;
    postgres.create_database("incident_deploy")?;
    let config = Config::new()
        .database(&format!(
            "incident_deploy = host=127.0.0.1 port={}",
            postgres.port()
        ))
        .set("default_pool_size", "4");
    let mut incident = Incident::with("deploy", &config)?;
    let client = |incident: &Incident| incident.weir.connect("incident_deploy");
    let mut open = Vec::new();
    incident.begins();
    for _ in 0..4 {
        let mut billing = client(&incident)?;
        billing.query("set application_name = 'billing-7f3c'")?;
        billing.query("begin")?;
        billing.query("select 1")?;
        open.push(billing);
    }
    let mut waiters = Vec::new();
    for _ in 0..3 {
        let mut waiter = client(&incident)?;
        waiter.send(&frontend::query("select 1"))?;
        waiters.push(waiter);
    }
    let row = incident.diagnosed("idle_transactions_fill_pool")?;
    ensure!(of(&row, "advice").contains("4 of 4 servers"), "{row:?}");
    ensure!(of(&row, "advice").contains("billing-7f3c"), "{row:?}");
    ensure!(of(&row, "severity") == "critical", "{row:?}");
    // First the command that is named, then the option, as the advice says.
    incident.admin.query(of(&row, "command"))?;
    incident.tell(of(&row, "command"));
    waiters
        .iter_mut()
        .try_for_each(|waiter| waiter.read_until_ready().map(drop))?;
    incident.tell("the clients that waited have their answers");
    incident.admin.query("SET idle_transaction_timeout = '2'")?;
    incident.tell("SET idle_transaction_timeout = '2'");
    incident.over("idle_transactions_fill_pool")?;
    drop(open);
    Ok(())
}

#[test]
fn a_replica_that_lags() -> Result<()> {
    let cluster = Cluster::start(1, &[])?;
    cluster.primary().query("CREATE TABLE t (a int)")?;
    cluster.wait_until_replayed(1)?;
    let (primary, replica) = (cluster.primary().port(), cluster.replica(1).port());
    let config = Config::new().database(&format!(
        "shop = host=127.0.0.1 port={primary} dbname=postgres replicas='127.0.0.1:{replica}' \
         read_write_split=auto read_consistency=session watch_user=postgres max_lag=8192"
    ));
    let mut incident = Incident::with("lag", &config)?;
    let mut client = incident.weir.connect("shop")?;
    client.query("select count(*) from t")?;
    incident.begins();
    cluster.pause_replay(1)?;
    client.query("insert into t select generate_series(1, 10000)")?;
    let row = incident.diagnosed("replica_lag")?;
    ensure!(of(&row, "scope").contains(&replica.to_string()), "{row:?}");
    ensure!(
        client.query_one("select count(*) from t")? == "10000",
        "reads see the write"
    );
    cluster.resume_replay(1)?;
    incident.tell("select pg_wal_replay_resume()");
    incident.over_if_whole("replica_lag")
}

#[test]
fn max_connections_is_reached() -> Result<()> {
    let options = Options {
        max_connections: 12,
        ..Options::default()
    };
    let postgres = Postgres::start(&options)?;
    let config = Config::new()
        .database(&format!(
            "shop = host=127.0.0.1 port={} dbname=postgres",
            postgres.port()
        ))
        .set("default_pool_size", "20");
    let mut incident = Incident::with("max_connections", &config)?;
    incident.begins();
    let mut busy = Vec::new();
    for _ in 0..16 {
        let mut client = incident.weir.connect("shop")?;
        client.send(&frontend::query("select pg_sleep(3600)"))?;
        busy.push(client);
    }
    let row = incident.diagnosed("server_connections_exhausted")?;
    ensure!(of(&row, "severity") == "critical", "{row:?}");
    incident.admin.query("SET default_pool_size = 5")?;
    incident.tell("SET default_pool_size = 5");
    for client in &busy {
        client.cancel(incident.weir.port())?;
    }
    drop(busy);
    incident.over_if_whole("server_connections_exhausted")
}
