//! Dashboard and alert rules of `contrib/monitoring` against a real Weir and a real Prometheus: every query returns a
//! series.

#![allow(
    clippy::indexing_slicing,
    reason = "a panic in a test is a failure, and is wanted"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use weir_conformance::tls::{Dial, Pki};
use weir_conformance::{Cluster, Config, Raw, TempDir, Weir, http, tools, wait_until};

use self::prometheus::{Prometheus, promtool};

#[path = "monitoring/prometheus.rs"]
mod prometheus;

/// Time limit, generous because the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(90);

/// Finding of `promtool check metrics` that is accepted: alerts and people count the life of certificates in days, and
/// `weir_tls_certificate_not_after_seconds` has the same fact in the base unit.
const KNOWN_FINDING: &str =
    "weir_tls_certificate_days_left use base unit \"seconds\" instead of \"days\"";

/// Weir with something to show in every part of the board, under a little load.
struct World {
    // Stopped first: it uses Weir.
    load: Load,
    _clients: Vec<Raw>,
    weir: Weir,
    _cluster: Cluster,
    _pki: Pki,
    metrics_port: u16,
}

impl World {
    /// Starts a primary and a replica, and Weir before them: database `shop` has both hosts, `sized` determines its size,
    /// `copy` is the target of a mirror, and nobody listens for `gone`.
    fn start() -> Result<Self> {
        let cluster = Cluster::start(1, &[])?;
        let pki = Pki::new()?;
        let metrics_port = tools::free_port()?;
        let primary = format!("host=127.0.0.1 port={}", cluster.host(0).port());
        let replica = cluster.host(1).port();
        let closed = tools::free_port()?;
        let config = Config::new()
            .set_all(pki.client_side("prefer")?)
            .set("metrics_listen", &format!("127.0.0.1:{metrics_port}"))
            .set("digest_metrics", "10")
            .set("max_db_connections", "30")
            .user("postgres = statement_policy=warn")
            .database(&format!(
                "shop = {primary} dbname=postgres replicas=127.0.0.1:{replica} read_write_split=auto watch_user=postgres"
            ))
            .database(&format!("sized = {primary} dbname=postgres pool_size=auto"))
            .database(&format!("copy = {primary} dbname=postgres"))
            .database(&format!("gone = host=127.0.0.1 port={closed} dbname=postgres failover_hold=0"));
        let weir = Weir::start(&config)?;
        let clients = events(&weir, &pki)?;
        Ok(Self {
            load: Load::start(weir.port())?,
            _clients: clients,
            weir,
            _cluster: cluster,
            _pki: pki,
            metrics_port,
        })
    }

    fn page(&self) -> Result<String> {
        let (status, body) = http::request(self.metrics_port, "GET /metrics")?;
        ensure!(status == 200, "{status} {body}");
        Ok(body)
    }
}

/// Causes what happens seldom: a rule that mirrors and one that only counts, a client in TLS that is pinned, a
/// notification, errors of PostgreSQL and of Weir. Returns the clients that have to stay.
fn events(weir: &Weir, pki: &Pki) -> Result<Vec<Raw>> {
    let mut console = weir.connect("pgbouncer")?;
    for rule in [
        "name = 'counted'\nmatch.database = 'sized'\naction = 'log'\ndry_run = true",
        "name = 'mirrored'\nmatch.database = 'sized'\naction = 'mirror'\nto = 'database:copy'",
    ] {
        console.query(&format!("RULE ADD $$ {rule} $$"))?;
    }
    let mut pinned = Dial::new(&pki.authority)?.login(weir.port(), "postgres", "sized")?;
    pinned.query("listen news")?;
    pinned.query("notify news")?;
    pinned.query("create temporary table t (n int)")?;
    ensure!(pinned.query("select 1/0").is_err());
    let refused = weir
        .connect("gone")
        .and_then(|mut raw| raw.query("select 1"));
    ensure!(refused.is_err(), "nobody listens there");
    Ok(vec![pinned])
}

/// Thread with a client of two databases; dropping it ends the thread.
struct Load {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Load {
    fn start(port: u16) -> Result<Self> {
        let mut clients = [Raw::connect(port, "shop")?, Raw::connect(port, "sized")?];
        let is_over = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            while !flag.load(Ordering::SeqCst) {
                for client in &mut clients {
                    client.query("select pg_sleep(0.01)")?;
                    client.query("begin; create table if not exists w (n int); commit")?;
                }
            }
            Ok(())
        });
        Ok(Self {
            is_over,
            thread: Some(thread),
        })
    }
}

impl Load {
    /// Ends the thread; the error is the one that has ended it before.
    fn end(&mut self) -> Result<()> {
        self.is_over.store(true, Ordering::SeqCst);
        let ended = self.thread.take().map(JoinHandle::join);
        ended.map_or(Ok(()), |end| end.unwrap_or_else(|_| bail!("it panicked")))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        drop(self.end());
    }
}

fn contributed(name: &str) -> PathBuf {
    tools::workspace().join("contrib/monitoring").join(name)
}

fn board() -> Result<Value> {
    let text = fs::read_to_string(contributed("grafana-dashboard.json"))?;
    Ok(serde_json::from_str(&text)?)
}

fn panels(board: &Value) -> Result<&Vec<Value>> {
    board["panels"].as_array().context("no panels")
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Queries of all panels with the values of Grafana's variables, each with the title of its panel.
fn queries(board: &Value) -> Result<Vec<(String, String)>> {
    let mut queries = Vec::new();
    for panel in panels(board)? {
        let title = text(&panel["title"]);
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = text(&target["expr"])
                .replace("$__rate_interval", "5s")
                .replace("$instance", ".*")
                .replace("$database", ".*");
            ensure!(!expression.contains('$'), "{title}: {expression}");
            queries.push((title.clone(), expression));
        }
    }
    Ok(queries)
}

/// Expression that has a series in good health too: comparisons answer 0 or 1 instead of leaving series out, and conditions
/// that do not hold have no severity.
fn in_good_health(expression: &str) -> String {
    let mut out = expression.to_owned();
    for operator in ["==", ">=", ">", "<"] {
        out = out.replace(&format!(" {operator} "), &format!(" {operator} bool "));
    }
    for severity in ["critical", "warning", "info"] {
        out = out.replace(&format!("severity=\"{severity}\""), "severity=\"\"");
    }
    out
}

#[test]
fn every_query_of_the_board_and_of_the_alerts_has_a_series() -> Result<()> {
    let mut world = World::start()?;
    let prometheus = Prometheus::start(world.metrics_port, &contributed("alerts.yml"))?;
    let mut rules = Vec::new();
    wait_until("the evaluation of each rule", PATIENCE, || {
        rules = prometheus.rules()?;
        Ok(rules.iter().all(|rule| rule.health == "ok"))
    })
    .with_context(|| format!("{rules:#?}\n{}", prometheus.log()))?;
    ensure!(rules.len() > 15, "{rules:#?}");
    let queries = queries(&board()?)?;
    ensure!(queries.len() > 80, "{}", queries.len());
    let of_panels = queries.into_iter().map(|(title, expression)| {
        // Conditions hold only when something is wrong.
        let expression = match expression.contains("weir_condition") {
            true => in_good_health(&expression),
            false => expression,
        };
        (title, expression)
    });
    let of_alerts = rules
        .into_iter()
        .map(|rule| (rule.name, in_good_health(&rule.expression)));
    let mut missing: Vec<_> = of_panels.chain(of_alerts).collect();
    let all = wait_until("a series for each query", PATIENCE, || {
        let mut rest = Vec::new();
        for (name, expression) in missing.drain(..) {
            let values = prometheus.values(&expression)?;
            // A quantile of nothing is NaN.
            if values.iter().all(|value| value.is_nan()) {
                rest.push((name, expression));
            }
        }
        missing = rest;
        Ok(missing.is_empty())
    });
    world.load.end().context("the load failed")?;
    all.with_context(|| format!("without a series: {missing:#?}"))?;
    world.weir.check_healthy()
}

#[test]
fn promtool_accepts_the_rules_and_the_page() -> Result<()> {
    let rules = contributed("alerts.yml");
    let (output, is_fine) = promtool(&["check", "rules", &rules.to_string_lossy()], None)?;
    ensure!(is_fine, "{output}");
    let tests = tools::workspace().join("conformance/tests/monitoring/alerts_test.yml");
    let (output, is_fine) = promtool(&["test", "rules", &tests.to_string_lossy()], None)?;
    ensure!(is_fine, "{output}");
    let world = World::start()?;
    let directory = TempDir::new()?;
    let page = directory.write("page", &world.page()?)?;
    let (output, _) = promtool(&["check", "metrics"], Some(&page))?;
    let lines = output
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    let findings: Vec<_> = lines.filter(|line| *line != KNOWN_FINDING).collect();
    ensure!(findings.is_empty(), "{findings:#?}");
    Ok(())
}

/// Cells of Grafana's grid that a panel covers.
fn cells(panel: &Value) -> Result<BTreeSet<(u64, u64)>> {
    let of = |key: &str| {
        let number = panel["gridPos"][key].as_u64();
        number.with_context(|| format!("no {key} in {panel}"))
    };
    let (x, y, width, height) = (of("x")?, of("y")?, of("w")?, of("h")?);
    ensure!(width > 0 && height > 0 && x + width <= 24, "{panel}");
    let columns = x..x + width;
    Ok(columns
        .flat_map(|x| (y..y + height).map(move |y| (x, y)))
        .collect())
}

#[test]
fn panels_have_their_own_places_and_the_chosen_source() -> Result<()> {
    let board = board()?;
    let (mut ids, mut taken) = (BTreeSet::new(), BTreeSet::new());
    for panel in panels(&board)? {
        let title = text(&panel["title"]);
        let id = panel["id"].as_u64().context("no id")?;
        ensure!(ids.insert(id), "{title}: id {id} is used twice");
        for cell in cells(panel)? {
            ensure!(taken.insert(cell), "{title} covers another at {cell:?}");
        }
        if panel["type"] == "row" {
            continue;
        }
        let targets = panel["targets"].as_array().context("no targets")?;
        ensure!(!targets.is_empty(), "{title} shows nothing");
        for source in targets.iter().chain([panel]) {
            ensure!(source["datasource"]["uid"] == "${datasource}", "{title}");
        }
        ensure!(!text(&panel["description"]).is_empty(), "{title}");
    }
    for variable in board["templating"]["list"].as_array().context("no list")? {
        let is_source = variable["type"] == "datasource";
        let uid = &variable["datasource"]["uid"];
        ensure!(is_source || uid == "${datasource}", "{variable}");
    }
    Ok(())
}
