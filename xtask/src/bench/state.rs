//! `cargo xtask bench state`: what following session state costs. The same binary with it and without, beside each
//! other in every round; PgBouncer, where it can run the load; and unnamed statements treated as named ones.

use std::fmt;
use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Result, bail};
use fastrand::Rng;
use serde::Serialize;
use weir_lab::access::Access;
use weir_lab::meter::cpu;

use super::figures::{self, NONE, Series, milliseconds};
use super::{Common, Outcome, RawData, Stage, all_succeeded, keep};
use crate::lab::pgbench::{self, Load, Protocol, Script, Watched};
use crate::lab::statistics::geometric_mean;
use crate::lab::table::{Table, thousands};
use crate::lab::target::{Setup, Target};

/// More than this much CPU per transaction is more than following state may cost.
const RATIO_MAX: f64 = 1.03;

#[derive(clap::Args, Serialize)]
pub(crate) struct Flags {
    /// Rounds; every variant runs once per round and cell
    #[arg(long, default_value_t = 7)]
    rounds: u32,
    /// Seconds that are measured per run
    #[arg(long, default_value_t = 4)]
    seconds: u64,
    /// Seconds before the measurement, for all variants alike
    #[arg(long, default_value_t = 1)]
    warm_up: u64,
    /// Server connections per pool (default_pool_size)
    #[arg(long, default_value_t = 20)]
    pool_size: u32,
    /// Clients
    #[arg(long, default_value_t = 50)]
    clients: u32,
    /// Threads of pgbench
    #[arg(long, default_value_t = 1)]
    threads: u32,
    /// Weir's workers
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    workers: u8,
    /// Scale of pgbench's tables; TPC-B waits for locks if it is below the pool size
    #[arg(long, default_value_t = 20)]
    scale: u32,
    /// `prepare_unnamed_after` of the variant that has it
    #[arg(long, value_name = "TIMES", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    unnamed_after: u32,
    /// Transactions per second of every variant, so that none is measured at another load than the others [default: as
    /// many as are answered]
    #[arg(long)]
    rate: Option<u32>,
    /// Only cells whose name contains this
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    only: Option<String>,
    /// Runs `off` twice: what the two differ by is the noise of this machine
    #[arg(long)]
    control: bool,
    /// Repeats the order of an earlier run [default: from the clock]
    #[arg(long)]
    seed: Option<u64>,
    /// Pins poolers to these CPUs, for example 0
    #[arg(long, value_name = "LIST")]
    pooler_cpus: Option<String>,
}

/// One side of the comparison.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
enum Variant {
    /// What all others are compared with.
    Off,
    OffAgain,
    Track,
    /// As `Track`, and repeated unnamed statements are kept.
    Unnamed,
    PgBouncer,
}

impl fmt::Display for Variant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Off => "off",
            Self::OffAgain => "off again",
            Self::Track => "track",
            Self::Unnamed => "track, unnamed kept",
            Self::PgBouncer => "pgbouncer",
        })
    }
}

impl Variant {
    /// Those that can run a load in this protocol.
    fn of(protocol: Protocol, control: bool) -> Vec<Self> {
        let mut variants = vec![Self::Off, Self::Track];
        if control {
            variants.push(Self::OffAgain);
        }
        match protocol {
            Protocol::Simple => variants.push(Self::PgBouncer),
            Protocol::Extended => variants.extend([Self::Unnamed, Self::PgBouncer]),
            // Before 1.21 it has no prepared statements in transaction pooling.
            Protocol::Prepared => {}
        }
        variants
    }

    fn target(self, workers: u8) -> Target {
        match self {
            Self::PgBouncer => Target::PgBouncer,
            _ => Target::Weir { workers },
        }
    }

    fn setup(self, common: &Setup, unnamed_after: u32) -> Setup {
        let state = match self {
            Self::Off | Self::OffAgain => "off",
            Self::PgBouncer | Self::Track | Self::Unnamed => "track",
        };
        let unnamed_after = match self {
            Self::Unnamed => unnamed_after,
            _ => 0,
        };
        let mut setup = common.clone();
        setup.environment = vec![
            ("WEIR_SESSION_STATE", state.to_owned()),
            ("WEIR_PREPARE_UNNAMED_AFTER", unnamed_after.to_string()),
        ];
        setup
    }
}

/// A load: one block of a round.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
struct Cell {
    script: Script,
    protocol: Protocol,
}

impl fmt::Display for Cell {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.script.name(), self.protocol.name())
    }
}

/// One run of one variant, as kept in the raw data.
#[derive(Serialize)]
struct Record {
    round: u32,
    cell: Cell,
    variant: Variant,
    outcome: Outcome<pgbench::Outcome>,
}

/// Runs the bench.
pub(super) fn run(flags: &Flags) -> Result<()> {
    let cells = cells(flags);
    if cells.is_empty() {
        bail!("nothing to run");
    }
    let common = Common {
        targets: vec![Target::Weir {
            workers: flags.workers,
        }],
        seed: flags.seed,
        pooler_cpus: flags.pooler_cpus.clone(),
    };
    announce(flags, &cells);
    let stage = Stage::set(&common, flags.pool_size + 50, false, flags.scale)?;
    let records = rounds(flags, &cells, &stage)?;
    let mut text = render(flags, &cells, &records, stage.seed);
    let _ = write!(text, "\n{}\n", stage.environment.line());
    println!("\n{text}");
    let raw = RawData {
        flags,
        seed: stage.seed,
        environment: &stage.environment,
        extra: (),
        records: &records,
    };
    keep("state", &raw, &text)?;
    all_succeeded(records.iter().map(|record| &record.outcome))
}

fn cells(flags: &Flags) -> Vec<Cell> {
    let protocols = [Protocol::Simple, Protocol::Extended, Protocol::Prepared];
    let wanted = |cell: &Cell| {
        let only = flags.only.as_ref();
        only.is_none_or(|text| cell.to_string().contains(text))
    };
    [Script::SelectOnly, Script::TpcB]
        .into_iter()
        .flat_map(|script| protocols.map(|protocol| Cell { script, protocol }))
        .filter(wanted)
        .collect()
}

fn announce(flags: &Flags, cells: &[Cell]) {
    let variants = |cell: &Cell| Variant::of(cell.protocol, flags.control).len() as u64;
    let runs = u64::from(flags.rounds) * cells.iter().map(variants).sum::<u64>();
    println!(
        "{} cells with {} clients on {} servers, {} rounds of {} s: {runs} runs, about {} minutes",
        cells.len(),
        flags.clients,
        flags.pool_size,
        flags.rounds,
        flags.seconds,
        (runs * (flags.seconds + flags.warm_up + 2)).div_ceil(60),
    );
}

fn rounds(flags: &Flags, cells: &[Cell], stage: &Stage) -> Result<Vec<Record>> {
    let pgbench = stage.pgbench()?;
    let common = stage.setup(flags.pool_size);
    let server = stage.cluster.pid();
    let server = cpu::children_time(server).is_ok().then_some(server);
    let mut rng = Rng::with_seed(stage.seed);
    let mut records = Vec::new();
    for round in 1..=flags.rounds {
        for &cell in cells {
            let mut order = Variant::of(cell.protocol, flags.control);
            rng.shuffle(&mut order);
            // The same for all variants of a block: they see the same keys.
            let load = flags.load(cell, rng.u64(1..u64::from(u32::MAX)));
            for variant in order {
                stage.interrupt.check()?;
                let setup = variant.setup(&common, flags.unnamed_after);
                let running = setup.start(variant.target(flags.workers));
                let outcome = running.and_then(|running| {
                    let process = running.pid();
                    let watched = Watched { process, server };
                    load.run(&pgbench, running.address, watched, &stage.interrupt)
                });
                stage.interrupt.check()?;
                let record = Record {
                    round,
                    cell,
                    variant,
                    outcome: outcome.map_err(|error| format!("{error:#}")),
                };
                println!("{}", progress(&record, flags.rounds));
                records.push(record);
            }
        }
    }
    Ok(records)
}

impl Flags {
    fn load(&self, cell: Cell, seed: u64) -> Load {
        Load {
            script: cell.script,
            protocol: cell.protocol,
            clients: self.clients,
            threads: self.threads,
            warm_up: Duration::from_secs(self.warm_up),
            measured: Duration::from_secs(self.seconds),
            seed,
            rate: self.rate,
            access: Access::default(),
        }
    }
}

fn progress(record: &Record, rounds: u32) -> String {
    let head = format!(
        "round {}/{rounds}  {:<15}  {:<19}",
        record.round,
        record.cell.to_string(),
        record.variant.to_string()
    );
    match &record.outcome {
        Ok(outcome) => format!(
            "{head}  {:>8} tps  cpu {:>6.1} us  server {:>6.1} us",
            thousands(outcome.per_second),
            outcome.cpu_us.unwrap_or(f64::NAN),
            outcome.server_cpu_us.unwrap_or(f64::NAN),
        ),
        Err(error) => format!("{head}  failed: {error}"),
    }
}

type Format = fn(f64) -> String;
type Metric = fn(&pgbench::Outcome) -> Option<f64>;

/// CPU of the pooler, which is what the bench is about.
const CPU: Metric = |outcome| outcome.cpu_us;

/// The whole result as markdown.
fn render(flags: &Flags, cells: &[Cell], records: &[Record], seed: u64) -> String {
    let mut table = Table::new(&[
        "workload",
        "session_state",
        "CPU us/txn",
        "% more than off",
        "server CPU us/txn",
        "% more",
        "TPS",
        "% more",
        "p99 ms",
    ]);
    for &cell in cells {
        for variant in Variant::of(cell.protocol, flags.control) {
            table.row(row(records, cell, variant));
        }
    }
    let mut text = table.markdown();
    let _ = writeln!(
        text,
        "\nMedian (min–max) of {} rounds, also of the ratios, which are taken inside each round. Order shuffled with \
         seed {seed}. {} clients on {} servers. CPU is that of all threads of the pooler, from schedstat; server CPU is \
         that of all PostgreSQL's processes. \"Unnamed kept\" is prepare_unnamed_after = {}.",
        flags.rounds, flags.clients, flags.pool_size, flags.unnamed_after
    );
    text.push_str(&verdict(cells, records));
    text
}

fn row(records: &[Record], cell: Cell, variant: Variant) -> Vec<String> {
    let metrics: [(Metric, Format); 3] = [
        (CPU, |value| format!("{value:.1}")),
        (
            |outcome| outcome.server_cpu_us,
            |value| format!("{value:.1}"),
        ),
        (|outcome| Some(outcome.per_second), thousands),
    ];
    let mut row = vec![cell.to_string(), variant.to_string()];
    for (metric, format) in metrics {
        let ours = series(records, cell, variant, metric);
        row.push(figures::middle(&ours, format));
        row.push(match variant {
            Variant::Off => NONE.to_owned(),
            _ => figures::more(&ours, &series(records, cell, Variant::Off, metric)),
        });
    }
    let p99: Metric = |outcome| Some(milliseconds(outcome.p99_us));
    let latency = series(records, cell, variant, p99);
    row.push(figures::middle(&latency, |value| format!("{value:.2}")));
    row
}

/// What following state costs over all cells, and where most.
fn verdict(cells: &[Cell], records: &[Record]) -> String {
    let cost = |cell: &Cell| {
        let of = |variant| series(records, *cell, variant, CPU);
        Some((
            figures::median_ratio(&of(Variant::Track), &of(Variant::Off))?,
            *cell,
        ))
    };
    let costs: Vec<(f64, Cell)> = cells.iter().filter_map(cost).collect();
    let Some((worst, cell)) = costs.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0)) else {
        return String::new();
    };
    let ratios: Vec<f64> = costs.iter().map(|(ratio, _)| *ratio).collect();
    let kept = match worst <= RATIO_MAX {
        true => "within",
        false => "above",
    };
    format!(
        "Following session state takes {} % CPU per transaction over all cells, at most {} % ({cell}): {kept} the {} % \
         that it may take.\n",
        figures::percent(geometric_mean(&ratios)),
        figures::percent(worst),
        figures::percent(RATIO_MAX),
    )
}

fn series(records: &[Record], cell: Cell, variant: Variant, metric: Metric) -> Series {
    records
        .iter()
        .filter(|record| record.cell == cell && record.variant == variant)
        .filter_map(|record| Some((record.round, metric(record.outcome.as_ref().ok()?)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use clap::Parser;

    use super::*;
    use crate::lab::target::{CLIENTS_MAX, Hops};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: Flags,
    }

    fn flags(line: &str) -> Flags {
        let words = ["bench"].into_iter().chain(line.split_whitespace());
        Line::try_parse_from(words).unwrap().flags
    }

    fn record(round: u32, variant: Variant, cpu_us: f64) -> Record {
        let outcome = pgbench::Outcome {
            transactions: 1,
            failures: 0,
            seconds: 1.0,
            per_second: 1.0,
            mean_us: 1.0,
            p50_us: 1,
            p99_us: 1,
            max_us: 1,
            cpu_us: Some(cpu_us),
            server_cpu_us: None,
        };
        Record {
            round,
            cell: CELL,
            variant,
            outcome: Ok(outcome),
        }
    }

    const CELL: Cell = Cell {
        script: Script::TpcB,
        protocol: Protocol::Extended,
    };

    #[test]
    fn both_scripts_run_in_all_protocols() {
        let names =
            |line| -> Vec<String> { cells(&flags(line)).iter().map(Cell::to_string).collect() };
        assert_eq!(names("").len(), 6);
        assert_eq!(
            names("--only TPC-B"),
            ["TPC-B simple", "TPC-B extended", "TPC-B prepared"]
        );
    }

    #[test]
    fn every_variant_is_the_same_but_for_its_options() {
        let common = Setup {
            upstream: ([127, 0, 0, 1], 5432).into(),
            pool_size: 20,
            weir: PathBuf::new(),
            cpus: None,
            clients_max: CLIENTS_MAX,
            hops: Hops::Plain,
            secret: None,
            environment: Vec::new(),
        };
        let options = |variant: Variant| {
            let setup = variant.setup(&common, 7);
            let values: Vec<String> = setup.environment.into_iter().map(|(_, v)| v).collect();
            values.join(" ")
        };
        assert_eq!(options(Variant::Off), "off 0");
        assert_eq!(options(Variant::OffAgain), "off 0");
        assert_eq!(options(Variant::Track), "track 0");
        assert_eq!(options(Variant::Unnamed), "track 7");
    }

    #[test]
    fn pgbouncer_has_no_prepared_statements_to_compare() {
        let has = |protocol| Variant::of(protocol, false).contains(&Variant::PgBouncer);
        assert!(has(Protocol::Simple) && has(Protocol::Extended) && !has(Protocol::Prepared));
        assert!(Variant::of(Protocol::Prepared, true).contains(&Variant::OffAgain));
    }

    #[test]
    fn the_verdict_is_about_the_median_of_rounds() {
        let records = |track: f64| {
            vec![
                record(1, Variant::Off, 100.0),
                record(1, Variant::Track, track),
                record(2, Variant::Track, 2.0 * track),
                record(2, Variant::Off, 200.0),
                record(3, Variant::Off, 1.0),
            ]
        };
        let text = verdict(&[CELL], &records(102.0));
        assert!(
            text.contains("at most +2.0 % (TPC-B extended): within the +3.0 %"),
            "{text}"
        );
        assert!(verdict(&[CELL], &records(104.0)).contains("above"));
        assert_eq!(verdict(&[CELL], &[]), "");
        let table = render(&flags(""), &[CELL], &records(102.0), 1);
        assert!(table.contains("+2.0 (+2.0–+2.0)"), "{table}");
    }
}
