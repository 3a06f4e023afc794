//! `cargo xtask cost`: compares the CPU time per transaction of two builds of Weir and of PgBouncer, by turns.
//!
//! All poolers stand in front of one temporary PostgreSQL for the whole run. In each round each pooler does each
//! piece of work once, in random order. Ratios are taken within a round, where both met the same machine.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use fastrand::Rng;
use weir_lab::interrupt::Interrupt;
use weir_lab::meter::cpu;
use weir_lab::ports::free_port;
use weir_lab::postgres::{Cluster, DATABASE, Programs, Settings, USER};
use weir_lab::statistics::median;
use weir_lab::statistics::ratio::Ratio;
use weir_lab::table::Table;
use weir_lab::weir::Weir;

use crate::pgbouncer::PgBouncer;
use crate::weir::weir_binary;

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// Release binary of Weir to compare with
    #[arg(long)]
    before: PathBuf,
    /// Release binary of Weir that is judged [default: WEIR_BIN, else target/release/weir]
    #[arg(long)]
    now: Option<PathBuf>,
    /// Rounds; in each, every pooler does every piece of work once
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..))]
    rounds: u32,
    /// Seconds per piece of work
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Pieces of work, by parts of their names [default: all]
    #[arg(long, value_delimiter = ',')]
    work: Vec<String>,
}

/// Servers of each pool: fewer than clients, so that clients change servers.
const SERVERS: &str = "4";
/// Clients in each of the two halves of a piece of work.
const CLIENTS_PER_HALF: u32 = 8;
/// Room for clients in PgBouncer, as by its default.
const CLIENTS_MAX: u32 = 100;
const MODES: [&str; 3] = ["simple", "extended", "prepared"];

/// Objects that the pieces of work use.
const SCHEMA: &str = "\
    create role cost_a; create role cost_b; \
    create function cost_login(tenant text) returns void language plpgsql as \
    $$ begin perform set_config('app.tenant', tenant, false); end $$";

/// A load of two halves of clients, each with its own start-up options and its own statement.
struct Work {
    name: &'static str,
    /// `PGOPTIONS` and statement of each half.
    halves: [(&'static str, &'static str); 2],
}

const WORK: &[Work] = &[
    Work {
        name: "no settings",
        halves: [("", "select 1"); 2],
    },
    Work {
        name: "shared settings",
        halves: [("-c timezone=CET", "select 1"); 2],
    },
    Work {
        name: "two settings",
        halves: [
            ("-c timezone=CET -c work_mem=5MB", "select 1"),
            ("-c timezone=UTC -c work_mem=6MB", "select 1"),
        ],
    },
    Work {
        name: "two roles",
        halves: [
            ("-c role=cost_a", "select 1"),
            ("-c role=cost_b", "select 1"),
        ],
    },
    Work {
        name: "a function that sets",
        halves: [
            ("", "select cost_login('a')"),
            ("", "select cost_login('b')"),
        ],
    },
];

impl Work {
    /// True if PgBouncer does equivalent work: it refuses start-up options that it does not track, and keeps no
    /// custom settings.
    fn suits_pgbouncer(&self) -> bool {
        let (options, statement) = self.halves[0];
        options.is_empty() && statement == "select 1"
    }
}

/// A pooler in front of the cluster.
enum Pooler {
    Weir(Weir),
    PgBouncer(PgBouncer),
}

impl Pooler {
    fn weir(binary: &Path, cluster: &Cluster) -> Result<Self> {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let options = [("WEIR_WORKERS", "1"), ("WEIR_DEFAULT_POOL_SIZE", SERVERS)];
        let weir = Weir::start(Command::new(binary), address, cluster.address(), &options)?;
        Ok(Self::Weir(weir))
    }

    fn pgbouncer(cluster: &Cluster) -> Result<Self> {
        let pgbouncer = PgBouncer::start(cluster, SERVERS.parse()?, CLIENTS_MAX)?;
        Ok(Self::PgBouncer(pgbouncer))
    }

    fn address(&self) -> SocketAddr {
        match self {
            Self::Weir(weir) => weir.address(),
            Self::PgBouncer(pgbouncer) => pgbouncer.address(),
        }
    }

    fn pid(&self) -> u32 {
        match self {
            Self::Weir(weir) => weir.pid(),
            Self::PgBouncer(pgbouncer) => pgbouncer.pid(),
        }
    }
}

/// A column of the tables.
struct Column {
    name: &'static str,
    pooler: Pooler,
}

/// CPU-microseconds per transaction by round, for each column, of one piece of work in one mode.
struct Cell<'a> {
    work: &'a Work,
    mode: &'static str,
    figures: Vec<Vec<f64>>,
}

/// Runs the comparison and prints the tables.
///
/// # Errors
/// If a process cannot be started or pgbench fails, or on Ctrl-C.
pub(crate) fn run(flags: &Flags) -> Result<()> {
    let interrupt = Interrupt::install()?;
    let now = flags.now.clone().map_or_else(weir_binary, Ok)?;
    for binary in [&flags.before, &now] {
        if !binary.is_file() {
            bail!("{} is not there", binary.display());
        }
    }
    let chosen = |work: &&Work| {
        flags.work.is_empty() || flags.work.iter().any(|part| work.name.contains(&**part))
    };
    let works: Vec<&Work> = WORK.iter().filter(chosen).collect();
    if works.is_empty() {
        let names: Vec<&str> = WORK.iter().map(|work| work.name).collect();
        bail!(
            "no piece of work is called so; there are: {}",
            names.join(", ")
        );
    }
    let cluster = Cluster::start(&Programs::find()?, Settings::new(100))?;
    cluster.query("postgres", &format!("create database {DATABASE}"))?;
    cluster.query(DATABASE, SCHEMA)?;
    let scripts = tempfile::Builder::new().prefix("weir-cost-").tempdir()?;
    let mut columns = vec![
        Column {
            name: "before",
            pooler: Pooler::weir(&flags.before, &cluster)?,
        },
        Column {
            name: "now",
            pooler: Pooler::weir(&now, &cluster)?,
        },
    ];
    match Pooler::pgbouncer(&cluster) {
        Ok(pooler) => columns.push(Column {
            name: "PgBouncer",
            pooler,
        }),
        Err(error) => eprintln!("PgBouncer is left out: {error:#}"),
    }
    let mut cells: Vec<Cell<'_>> = works
        .iter()
        .flat_map(|work| MODES.map(|mode| (work, mode)))
        .map(|(work, mode)| Cell {
            work,
            mode,
            figures: vec![Vec::new(); columns.len()],
        })
        .collect();
    let pgbench = cluster.programs().path("pgbench")?;
    let mut rng = Rng::with_seed(1);
    for round in 1..=flags.rounds {
        for cell in &mut cells {
            interrupt.check()?;
            cell.measure(&columns, flags.seconds, &pgbench, scripts.path(), &mut rng)
                .with_context(|| format!("{}, {}", cell.work.name, cell.mode))?;
        }
        eprintln!("round {round} of {}", flags.rounds);
    }
    println!("{}", summary(&columns, &cells));
    println!(
        "CPU-microseconds per transaction of one worker, median (smallest to largest) of {} rounds of {} s; \
         {} clients, {SERVERS} servers. Ratio: geometric mean of the rounds' ratios, with its 95 % interval.",
        flags.rounds,
        flags.seconds,
        2 * CLIENTS_PER_HALF
    );
    Ok(())
}

impl Cell<'_> {
    /// Lets each column do the work once, in random order.
    fn measure(
        &mut self,
        columns: &[Column],
        seconds: u32,
        pgbench: &Path,
        scripts: &Path,
        rng: &mut Rng,
    ) -> Result<()> {
        let mut order: Vec<usize> = (0..columns.len()).collect();
        rng.shuffle(&mut order);
        for index in order {
            let (Some(column), Some(figures)) = (columns.get(index), self.figures.get_mut(index))
            else {
                continue;
            };
            if matches!(column.pooler, Pooler::PgBouncer(_))
                && (!self.work.suits_pgbouncer() || self.mode == "prepared")
            {
                continue;
            }
            let before = cpu::process_time(column.pooler.pid())?;
            let halves: Vec<Child> = self
                .work
                .halves
                .iter()
                .enumerate()
                .map(|(number, (options, statement))| {
                    let script = scripts.join(format!("{number}.sql"));
                    fs::write(&script, format!("{statement};\n"))?;
                    start(pgbench, column, (options, &script, self.mode), seconds)
                })
                .collect::<Result<_>>()?;
            let mut transactions = 0.0;
            for half in halves {
                transactions += finish(half)?;
            }
            let spent = cpu::process_time(column.pooler.pid())?.saturating_sub(before);
            figures.push(spent.as_secs_f64() * 1e6 / transactions);
        }
        Ok(())
    }
}

/// Starts pgbench for one half of the clients.
fn start(
    pgbench: &Path,
    column: &Column,
    (options, script, mode): (&str, &Path, &str),
    seconds: u32,
) -> Result<Child> {
    let address = column.pooler.address();
    let mut command = Command::new(pgbench);
    command.args(["--no-vacuum", "--protocol", mode, "--file"]);
    command.arg(script);
    command.arg(format!("--client={CLIENTS_PER_HALF}"));
    command.arg(format!("--time={seconds}"));
    command.args(["-h", &address.ip().to_string()]);
    command.args(["-p", &address.port().to_string(), "-U", USER, DATABASE]);
    command.env("PGOPTIONS", options);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
        .spawn()
        .with_context(|| format!("start {}", pgbench.display()))
}

/// Waits for pgbench and returns its number of transactions.
fn finish(half: Child) -> Result<f64> {
    let output = half.wait_with_output()?;
    let told = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        bail!("pgbench: {}", String::from_utf8_lossy(&output.stderr));
    }
    transactions(&told).with_context(|| format!("pgbench does not tell its transactions:\n{told}"))
}

/// Parses `number of transactions actually processed: 1234` in pgbench's summary.
fn transactions(told: &str) -> Option<f64> {
    let line = told
        .lines()
        .find_map(|line| line.strip_prefix("number of transactions actually processed: "))?;
    line.split(['/', ' '])
        .next()?
        .parse()
        .ok()
        .filter(|&count: &f64| count > 0.0)
}

fn summary(columns: &[Column], cells: &[Cell<'_>]) -> String {
    let mut header = vec!["work"];
    header.extend(columns.iter().map(|column| column.name));
    header.push("now / before");
    let mut table = Table::new(&header);
    for cell in cells {
        let mut row = vec![format!("{}, {}", cell.work.name, cell.mode)];
        row.extend(cell.figures.iter().map(|figures| spread(figures)));
        row.push(ratio(cell).unwrap_or_default());
        table.row(row);
    }
    table.markdown()
}

fn spread(figures: &[f64]) -> String {
    let Some(middle) = median(figures) else {
        return "-".to_owned();
    };
    let low = figures.iter().copied().fold(f64::INFINITY, f64::min);
    let high = figures.iter().copied().fold(0.0, f64::max);
    format!("{middle:.1} ({low:.1}-{high:.1})")
}

fn ratio(cell: &Cell<'_>) -> Option<String> {
    let [before, now, ..] = cell.figures.as_slice() else {
        return None;
    };
    let pairs: Vec<(f64, f64)> = now.iter().copied().zip(before.iter().copied()).collect();
    let ratio = Ratio::of(&pairs)?;
    let interval = ratio.interval?;
    Some(format!(
        "{:.2} ({:.2}-{:.2})",
        ratio.mean, interval.low, interval.high
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_are_read_from_pgbenchs_summary() {
        let plain = "scaling factor: 1\nnumber of transactions actually processed: 1234\nlatency";
        assert_eq!(transactions(plain), Some(1234.0));
        let bounded = "number of transactions actually processed: 10/20\n";
        assert_eq!(transactions(bounded), Some(10.0));
        assert_eq!(
            transactions("number of transactions actually processed: 0"),
            None
        );
        assert_eq!(transactions("latency average"), None);
    }

    #[test]
    fn a_cell_shows_the_ratio_of_its_rounds() {
        let cell = Cell {
            work: &WORK[0],
            mode: "simple",
            figures: vec![vec![10.0, 20.0], vec![20.0, 40.0]],
        };
        assert_eq!(ratio(&cell).as_deref(), Some("2.00 (2.00-2.00)"));
        assert_eq!(spread(&cell.figures[0]), "15.0 (10.0-20.0)");
        assert_eq!(spread(&[]), "-");
    }
}
