//! `cargo xtask demo`: runs the same pgbench direct and through Weir, in short alternating rounds, and shows the
//! results side by side. Then runs it through a pool that determines its own size. Starts everything it needs
//! and stops it again.

mod load;

use std::io::{IsTerminal, stdout};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use fastrand::Rng;
use weir_lab::clock;
use weir_lab::interrupt::Interrupt;
use weir_lab::ports::free_port;
use weir_lab::postgres::{Cluster, DATABASE, Programs, Settings, USER, answers};
use weir_lab::process::raise_open_files;
use weir_lab::statistics::{Sample, median};
use weir_lab::table::{Table, bar, thousands};
use weir_lab::weir::{Pool, Weir, decisions};

use self::load::{Load, Outcome};
use crate::weir::weir_binary;

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// Rounds; each runs direct and through Weir once
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Seconds that are measured per run
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Clients of pgbench
    #[arg(long, default_value_t = 100)]
    clients: u32,
}

const WEIR_PORT: u16 = 6432;
const WARM_UP: Duration = Duration::from_millis(700);
const SCALE: u32 = 10;
const STEPS: u32 = 5;
/// The pool only observes for the first five seconds.
const SEARCH: Duration = Duration::from_secs(16);
const SEARCH_LOOK: Duration = Duration::from_millis(200);
const BAR_WIDTH: u32 = 24;

type Metric = fn(&Run) -> f64;
type Format = fn(f64) -> String;

/// Result of one run, and the number of connections that PostgreSQL served meanwhile.
struct Run {
    outcome: Outcome,
    connections: u32,
}

#[derive(Default)]
struct Side {
    runs: Vec<Run>,
}

/// Runs the demo.
///
/// # Errors
/// If anything cannot be started, if a run fails, or on Ctrl-C before the table was shown.
pub(crate) fn run(flags: &Flags) -> Result<()> {
    let interrupt = Interrupt::install()?;
    raise_open_files()?;
    let binary = weir_binary()?;

    step(1, "Starting a throw-away PostgreSQL");
    let cluster = Cluster::start(&Programs::find()?, Settings::new(flags.clients + 50))?;
    note(&format!(
        "it listens on {} and vanishes when the demo ends",
        cluster.address()
    ));
    interrupt.check()?;

    step(2, "Filling pgbench's tables (1,000,000 accounts)");
    let filled = cluster.fill(SCALE);
    // Ctrl-C reaches pgbench too; report the interrupt rather than pgbench's failure.
    interrupt.check()?;
    filled?;

    step(3, "Putting Weir in front, without any configuration");
    let weir = start(&binary, cluster.address())?;
    note(&format!("weir run --upstream {}", cluster.address()));
    note(&format!("it listens on {}", weir.address()));

    step(
        4,
        &format!(
            "pgbench -S with {} clients, direct and through Weir by turns",
            flags.clients
        ),
    );
    let (direct, pooled) = measure(flags, &cluster, &weir, &interrupt)?;
    println!("\n{}", summary(&direct, &pooled));

    step(
        5,
        "The same load through a pool that finds its size (default_pool_size = auto)",
    );
    find_size(flags, &cluster, &binary, &interrupt)?;
    try_it(&weir, &interrupt);
    println!("Stopping Weir and PostgreSQL.");
    Ok(())
}

impl Flags {
    fn load(&self, measured: Duration, seed: u64) -> Load {
        Load {
            clients: self.clients,
            warm_up: WARM_UP,
            measured,
            seed,
        }
    }
}

/// Starts Weir on its default port, or on another one if that is in use.
fn start(binary: &Path, upstream: SocketAddr) -> Result<Weir> {
    let mut address = SocketAddr::from(([127, 0, 0, 1], WEIR_PORT));
    if answers(address) {
        address.set_port(free_port()?);
        note(&format!(
            "port {WEIR_PORT} is taken, using {}",
            address.port()
        ));
    }
    Ok(Weir::start(Command::new(binary), address, upstream, &[])?)
}

fn measure(
    flags: &Flags,
    cluster: &Cluster,
    weir: &Weir,
    interrupt: &Interrupt,
) -> Result<(Side, Side)> {
    let pgbench = cluster.programs().path("pgbench")?;
    let mut rng = Rng::with_seed(clock::since_epoch().as_secs());
    let (mut direct, mut pooled) = (Side::default(), Side::default());
    for round in 1..=flags.rounds {
        let mut order = [false, true];
        rng.shuffle(&mut order);
        let seed = rng.u64(1..u64::from(u32::MAX));
        for through_weir in order {
            let (address, pid) = if through_weir {
                (weir.address(), Some(weir.pid()))
            } else {
                (cluster.address(), None)
            };
            let load = flags.load(Duration::from_secs(flags.seconds), seed);
            // Weir keeps its servers during the direct run; they do not count as connections of that run.
            let idle = if through_weir { 0 } else { backends(cluster)? };
            let mut connections = 0;
            let outcome = load.run(&pgbench, address, pid, interrupt, || {
                connections = backends(cluster).unwrap_or_default().saturating_sub(idle);
            })?;
            let name = if through_weir { "Weir" } else { "direct" };
            println!(
                "  round {round}/{}  {name:<6}  {}",
                flags.rounds,
                brief(&outcome)
            );
            let side = if through_weir {
                &mut pooled
            } else {
                &mut direct
            };
            side.runs.push(Run {
                outcome,
                connections,
            });
        }
    }
    Ok((direct, pooled))
}

/// Runs the load on a pool that determines its own size, and prints its decisions as they are made.
fn find_size(flags: &Flags, cluster: &Cluster, binary: &Path, interrupt: &Interrupt) -> Result<()> {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()?));
    // One client more than the load has, for the console.
    let clients_max = (flags.clients + 1).to_string();
    let options = [
        ("WEIR_DEFAULT_POOL_SIZE", "auto"),
        ("WEIR_MAX_CLIENT_CONN", &clients_max),
    ];
    let weir = Weir::start(Command::new(binary), address, cluster.address(), &options)?;
    note("it begins with 20 servers, looks on for five seconds, and then tries less and more");
    let pgbench = cluster.programs().path("pgbench")?;
    // Stopped when dropped.
    let mut load = flags.load(SEARCH, 1).start(&pgbench, address)?;
    let begun = clock::now();
    let mut told = 0;
    while clock::now().saturating_duration_since(begun) < SEARCH {
        interrupt.wait(SEARCH_LOOK)?;
        load.check()?;
        let passed = clock::now().saturating_duration_since(begun).as_secs_f64();
        let log = weir.log()?;
        let decisions = decisions(&log);
        for (_, words) in decisions.iter().skip(told) {
            println!("  {passed:>5.1} s  {words}");
        }
        told = decisions.len();
    }
    let Pool { state, size, .. } = Pool::look(cluster.programs(), address)?;
    println!("\nSHOW POOL_SIZE says: {state}, {size} servers.");
    println!("docs/guide/pool-size.md explains it.\n");
    Ok(())
}

fn backends(cluster: &Cluster) -> Result<u32> {
    let sql = "SELECT count(*) FROM pg_stat_activity \
               WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
    Ok(cluster.query("postgres", sql)?.parse()?)
}

fn brief(outcome: &Outcome) -> String {
    let rate = thousands(outcome.per_second);
    let failures = match outcome.failures {
        0 => String::new(),
        count => format!(", {count} FAILED"),
    };
    format!(
        "{rate:>8} transactions/s, p99 {:>6.2} ms{failures}",
        milliseconds(outcome.p99_us)
    )
}

/// Bars for throughput and p99, then the table with medians and spread.
fn summary(direct: &Side, pooled: &Side) -> String {
    let mut text = String::new();
    for (title, unit, value) in [
        ("Throughput", "transactions/s", per_second as Metric),
        ("p99 latency", "ms", p99),
    ] {
        let middle = [direct, pooled].map(|side| median(&side.values(value)).unwrap_or(f64::NAN));
        let full = middle.into_iter().fold(0.0, f64::max);
        text.push_str(&format!("{title}\n"));
        for (name, middle) in ["direct", "Weir"].into_iter().zip(middle) {
            let shown = if unit == "ms" {
                format!("{middle:.2}")
            } else {
                thousands(middle)
            };
            let bar = bar(middle, full, BAR_WIDTH);
            let width = BAR_WIDTH as usize;
            text.push_str(&format!("  {name:<7} {bar:<width$} {shown} {unit}\n"));
        }
    }
    let mut table = Table::new(&["median (min–max)", "direct", "through Weir"]);
    let rows: [(&str, Metric, Format); 4] = [
        ("transactions per second", per_second, thousands),
        (
            "mean latency, ms",
            |run| run.outcome.mean_us / 1000.0,
            |ms| format!("{ms:.2}"),
        ),
        ("p99 latency, ms", p99, |ms| format!("{ms:.2}")),
        (
            "connections PostgreSQL serves",
            |run| f64::from(run.connections),
            thousands,
        ),
    ];
    for (name, value, format) in rows {
        let cells = [direct, pooled].map(|side| spread(&side.values(value), format));
        table.row([name.to_owned()].into_iter().chain(cells).collect());
    }
    let cpu = pooled.values(|run| run.outcome.cpu_us.unwrap_or(f64::NAN));
    let cpu = spread(&cpu, |micros| format!("{micros:.1}"));
    table.row(vec![
        "pooler's CPU per transaction, µs".to_owned(),
        "–".to_owned(),
        cpu,
    ]);
    format!("{text}\n{}", table.markdown())
}

impl Side {
    fn values(&self, value: Metric) -> Vec<f64> {
        self.runs.iter().map(value).collect()
    }
}

fn per_second(run: &Run) -> f64 {
    run.outcome.per_second
}

fn p99(run: &Run) -> f64 {
    milliseconds(run.outcome.p99_us)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "latencies stay far below 2^52 microseconds"
)]
fn milliseconds(micros: u64) -> f64 {
    micros as f64 / 1000.0
}

fn spread(values: &[f64], format: Format) -> String {
    // A side that was never run, or whose CPU time is unknown.
    let Some(sample) = Sample::of(values) else {
        return "–".to_owned();
    };
    format!(
        "{} ({}–{})",
        format(sample.median),
        format(sample.min),
        format(sample.max)
    )
}

/// Waits until Ctrl-C with everything running, if standard output is a terminal.
fn try_it(weir: &Weir, interrupt: &Interrupt) {
    let (host, port) = (weir.address().ip(), weir.address().port());
    let psql = format!("psql -h {host} -p {port} -U {USER} {DATABASE}");
    if !stdout().is_terminal() {
        println!("With a terminal the demo would now wait for you to try: {psql}");
        return;
    }
    println!(
        "Try it from another terminal:\n\n    {psql}\n    {psql_console}\n",
        psql_console = format_args!("psql -h {host} -p {port} -U {USER} pgbouncer -c 'SHOW POOLS'")
    );
    println!("Ctrl-C stops everything.");
    // The interrupt ends this loop.
    while interrupt.wait(Duration::from_secs(3600)).is_ok() {}
    println!();
}

fn step(number: u32, what: &str) {
    println!("[{number}/{STEPS}] {what}");
}

fn note(what: &str) {
    println!("      {what}");
}
