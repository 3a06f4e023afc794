//! `metrics_listen`: contents of `/metrics`, `/healthz` and `/readyz` of a running Weir; misbehaving requests do no
//! harm.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::io::Read;
use std::io::Write;
use std::net::Ipv4Addr;
use std::net::TcpListener;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::Weir;
use weir_conformance::http;
use weir_conformance::process;
use weir_conformance::tls::Dial;
use weir_conformance::tls::Pki;
use weir_conformance::tools;
use weir_conformance::wait_until;

/// Time limit, generous because the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(30);

/// Weir with a listener for monitoring.
struct Monitored {
    weir: Weir,
    port: u16,
}

impl Monitored {
    fn start(config: Config) -> Result<Self> {
        let port = tools::free_port()?;
        let weir = Weir::start(&config.set("metrics_listen", &format!("127.0.0.1:{port}")))?;
        Ok(Self { weir, port })
    }

    /// Requests a page; returns status and body.
    fn get(&self, path: &str) -> Result<(u16, String)> {
        http::request(self.port, &format!("GET {path}"))
    }

    fn page(&self) -> Result<String> {
        let (status, body) = self.get("/metrics")?;
        ensure!(status == 200, "{status} {body}");
        Ok(body)
    }

    /// Value of a sample, by its full name in the page.
    fn value(&self, sample: &str) -> Result<f64> {
        let page = self.page()?;
        let found = page.lines().find_map(|line| line.strip_prefix(sample));
        let value = found.with_context(|| format!("no {sample} in\n{page}"))?;
        Ok(value.trim().parse()?)
    }

    /// Waits until a page has this status and contains this text.
    fn wait(&self, path: &str, status: u16, text: &str) -> Result<()> {
        let mut last = None;
        wait_until(&format!("{status} {text}"), PATIENCE, || {
            let (found, body) = self.get(path)?;
            let is_found = found == status && body.contains(text);
            last = Some((found, body));
            Ok(is_found)
        })
        .with_context(|| format!("last seen {last:?}"))
    }
}

/// Metrics of the page by type, each with its number of samples.
fn families(page: &str) -> Result<BTreeMap<String, (String, usize)>> {
    let mut families = BTreeMap::<String, (String, usize)>::new();
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').context("no type")?;
            families.insert(name.to_owned(), (kind.to_owned(), 0));
        } else if !line.starts_with('#') {
            let end = line.find(['{', ' ']).context("no sample")?;
            let name = line.get(..end).context("no name")?;
            let value = line.rsplit(' ').next().context("no value")?;
            value.parse::<f64>().with_context(|| line.to_owned())?;
            let of_family = |(family, (kind, _)): &(&String, &mut (String, usize))| {
                let parts = ["_bucket", "_sum", "_count"];
                name == *family
                    || kind == "histogram"
                        && parts.iter().any(|part| name == format!("{family}{part}"))
            };
            let family = families.iter_mut().find(of_family);
            family.with_context(|| line.to_owned())?.1.1 += 1;
        }
    }
    Ok(families)
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(tools::workspace().join(path)).with_context(|| path.to_owned())
}

/// Starts a setup with a value for every metric: TLS, a pin, errors of both kinds, a notification, a pool that
/// determines its own size, a rule that mirrors.
fn lively(database: &str) -> Result<(Arc<Postgres>, Monitored, Raw)> {
    let postgres = Postgres::shared()?;
    postgres.create_database(database)?;
    let pki = Pki::new()?;
    let config = Config::to(postgres.port()).set_all(pki.client_side("prefer")?);
    let config = config.set("max_db_connections", "30");
    let config = config.set("digest_metrics", "10");
    let config = config.set("default_pool_size", "auto");
    let config = config.user("postgres = statement_policy=warn");
    let monitored = Monitored::start(config)?;
    let port = monitored.weir.port();
    let mut client = Dial::new(&pki.authority)?.login(port, "postgres", database)?;
    let rule = format!(
        "name = 'm'\nmatch.database = '{database}'\naction = 'mirror'\nto = 'database:postgres'"
    );
    let mut console = monitored.weir.connect("pgbouncer")?;
    console.query(&format!("RULE ADD $$ {rule} $$"))?;
    client.query("listen news")?;
    client.query("notify news")?;
    client.query("create temporary table t (n int)")?;
    ensure!(client.query("select 1/0").is_err());
    ensure!(monitored.weir.connect_as("nobody", database).is_err());
    Ok((postgres, monitored, client))
}

#[test]
fn every_metric_of_the_reference_has_samples() -> Result<()> {
    let (_postgres, monitored, _client) = lively("metrics_all")?;
    let families = families(&monitored.page()?)?;
    let reference = read("docs/reference/metrics.md")?;
    let documented: BTreeMap<_, _> = reference
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|line| line.split_once("` | "))
        .filter_map(|(name, rest)| Some((name.to_owned(), rest.split(' ').next()?.to_owned())))
        .collect();
    let exported = families
        .iter()
        .map(|(name, (kind, _))| (name.clone(), kind.clone()));
    assert_eq!(documented, exported.collect());
    // Hosts are those of databases with several.
    let empty: Vec<_> = families
        .iter()
        .filter(|(name, (_, samples))| *samples == 0 && !name.starts_with("weir_host_"))
        .collect();
    ensure!(empty.is_empty(), "without samples: {empty:?}");
    Ok(())
}

/// Whatever the kernel offers, the console, the metrics and the log name the same driver.
#[test]
fn the_driver_in_use_is_named_with_the_reason() -> Result<()> {
    for io in ["auto", "epoll", "io_uring"] {
        let monitored = Monitored::start(Config::new().env("WEIR_IO", io))?;
        let mut console = monitored.weir.connect("pgbouncer")?;
        let state = console.query_named("SHOW STATE")?;
        let value = |key: &str| {
            let row = state.iter().find(|row| row["key"] == key);
            row.map(|row| row["value"].clone()).context(key.to_owned())
        };
        let (driver, reason) = (value("io_driver")?, value("io_driver_reason")?);
        ensure!(["epoll", "io_uring"].contains(&driver.as_str()), "{driver}");
        ensure!(reason.starts_with(&format!("io = {io}")), "{reason}");
        ensure!(io != "epoll" || driver == "epoll", "{driver}");
        // A refusal is told.
        ensure!(io != "io_uring" || driver == io || reason.contains("; "));
        let sample = format!("weir_io_driver{{driver=\"{driver}\"}}");
        assert_eq!(monitored.value(&sample)?, 1.0);
        let level = if io == "io_uring" && driver == "epoll" {
            "WARNING"
        } else {
            "LOG"
        };
        let line = format!("{level} io: {driver} ({reason})");
        ensure!(monitored.weir.log().contains(&line), "{line}");
    }
    Ok(())
}

#[test]
fn figures_are_what_happened() -> Result<()> {
    let database = "metrics_true";
    let (_postgres, monitored, mut client) = lively(database)?;
    let labels = format!("{{database=\"{database}\",user=\"postgres\"}}");
    let queries = format!("weir_pool_queries_total{labels}");
    let times = format!("weir_pool_query_seconds_count{labels}");
    let (before, timed) = (monitored.value(&queries)?, monitored.value(&times)?);
    for _ in 0..20 {
        client.query("select pg_sleep(0.001)")?;
    }
    let after = || Ok(monitored.value(&queries)? - before >= 20.0);
    wait_until("twenty queries", PATIENCE, after)?;
    assert_eq!(monitored.value(&queries)? - before, 20.0);
    assert_eq!(monitored.value(&times)? - timed, 20.0);
    let sum = monitored.value(&format!("weir_pool_query_seconds_sum{labels}"))?;
    ensure!(sum >= 0.02, "{sum}");
    let state = |state: &str| {
        format!("weir_pool_clients{{database=\"{database}\",user=\"postgres\",state=\"{state}\"}}")
    };
    assert_eq!(monitored.value(&state("active"))?, 1.0, "it is pinned");
    for (sample, wanted) in [
        (
            "weir_errors_total{origin=\"server\",sqlstate=\"22012\"}",
            1.0,
        ),
        (
            "weir_limit_max{limit=\"max_client_conn\",scope=\"\"}",
            400.0,
        ),
        ("weir_limit_used{limit=\"max_client_conn\",scope=\"\"}", 1.0),
        (&format!("weir_pool_notifications_total{labels}"), 1.0),
        (&format!("weir_pool_pinned_clients{labels}"), 1.0),
        (
            &format!("weir_limit_max{{limit=\"max_db_connections\",scope=\"{database}\"}}"),
            30.0,
        ),
    ] {
        assert_eq!(monitored.value(sample)?, wanted, "{sample}");
    }
    client.terminate();
    monitored.wait("/metrics", 200, &format!("{} 0", state("active")))
}

/// Server that answers SSLRequest with N while `is_up` is set.
fn answering(port: u16) -> Result<Arc<AtomicBool>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let is_up = Arc::new(AtomicBool::new(true));
    let flag = Arc::clone(&is_up);
    thread::spawn(move || {
        let mut silent = Vec::new();
        for stream in listener.incoming().flatten() {
            let mut request = [0; 8];
            let is_answered = flag.load(Ordering::SeqCst);
            if is_answered && (&stream).read_exact(&mut request).is_ok() {
                drop((&stream).write_all(b"N"));
            } else {
                silent.push(stream);
            }
        }
    });
    Ok(is_up)
}

#[test]
fn ready_is_who_has_a_server_that_answers() -> Result<()> {
    let port = tools::free_port()?;
    let monitored = Monitored::start(Config::to(port))?;
    monitored.wait("/readyz", 503, "no server answers")?;
    ensure!(monitored.get("/healthz")? == (200, "ok\n".to_owned()));
    let is_up = answering(port)?;
    monitored.wait("/readyz", 200, "ready")?;
    for path in ["/primary", "/read-only?database=postgres"] {
        monitored.wait(path, 200, "\"reason\":\"the server of database ")?;
    }
    monitored.wait("/replica", 503, "has one host, and no replica")?;
    is_up.store(false, Ordering::SeqCst);
    monitored.wait("/readyz", 503, "no server answers")?;
    monitored.wait("/primary", 503, "no server answers")?;
    is_up.store(true, Ordering::SeqCst);
    monitored.wait("/readyz", 200, "ready")?;
    ensure!(monitored.get("/")?.0 == 404);
    Ok(())
}

#[test]
fn who_drains_is_healthy_and_not_ready() -> Result<()> {
    let postgres = Postgres::shared()?;
    let mut monitored = Monitored::start(Config::to(postgres.port()))?;
    ensure!(monitored.get("/readyz")?.0 == 200);
    let mut client = monitored.weir.connect("postgres")?;
    client.query("begin")?;
    monitored.weir.signal("TERM")?;
    monitored.wait("/readyz", 503, "draining")?;
    monitored.wait("/primary", 503, "\"reason\":\"draining\"")?;
    ensure!(monitored.get("/healthz")?.0 == 200);
    client.query("commit")?;
    let status = monitored.weir.wait_exit(PATIENCE)?;
    ensure!(status.success(), "{status}");
    Ok(())
}

#[test]
fn whoever_asks_and_does_not_go_on_is_closed_and_hurts_nobody() -> Result<()> {
    let postgres = Postgres::shared()?;
    let mut monitored = Monitored::start(Config::to(postgres.port()))?;
    let mut client = monitored.weir.connect("postgres")?;
    let mut slow = Vec::new();
    for n in 0..60 {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, monitored.port))?;
        // Half a request, none, or garbage; a refused connection may be reset already.
        let start: &[u8] = [b"GET /metrics HT".as_slice(), b"", b"\x16\x03\x01"][n % 3];
        drop(stream.write_all(start));
        slow.push(stream);
    }
    ensure!(client.query_one("select 1")? == "1");
    let threads = fs::read_dir(format!("/proc/{}/task", monitored.weir.pid()))?.count();
    ensure!(threads < 60, "{threads} threads");
    for mut stream in slow {
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut rest = Vec::new();
        let error = stream
            .read_to_end(&mut rest)
            .err()
            .map(|error| error.kind());
        ensure!(
            matches!(error, None | Some(ErrorKind::ConnectionReset)),
            "{error:?}"
        );
    }
    monitored.wait("/metrics", 200, "weir_build_info")?;
    monitored.weir.check_healthy()
}

/// Prints the processor time of a scrape; only a grossly wrong figure fails, since this is not a check of the
/// machine.
#[test]
fn a_scrape_costs_little_with_hundreds_of_clients() -> Result<()> {
    const CLIENTS: usize = 300;
    const SCRAPES: u32 = 20;
    let postgres = Postgres::shared()?;
    let monitored = Monitored::start(Config::to(postgres.port()))?;
    let clients: Result<Vec<_>> = (0..CLIENTS)
        .map(|_| monitored.weir.connect("postgres"))
        .collect();
    let _clients = clients?;
    let page = monitored.page()?;
    let before = process::cpu_ns(monitored.weir.pid())?;
    for scrape in 0..SCRAPES {
        // Each request comes after the cached page has expired, so that each page is collected anew.
        let turns = "weir_worker_turns_total{worker=\"0\"}";
        let last = monitored.value(turns)?;
        wait_until("a fresh page", PATIENCE, || {
            Ok(monitored.value(turns)? > last)
        })
        .with_context(|| format!("scrape {scrape}"))?;
    }
    let spent = process::cpu_ns(monitored.weir.pid())? - before;
    let each = Duration::from_nanos(spent) / SCRAPES;
    println!(
        "{CLIENTS} clients, {} bytes: {each:?} of processor time each 100 ms",
        page.len()
    );
    ensure!(each < Duration::from_millis(300), "{each:?}");
    Ok(())
}
