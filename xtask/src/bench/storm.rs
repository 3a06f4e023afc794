//! `cargo xtask bench storm`: a storm of TLS and SCRAM logins, alone and while others query.

use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fastrand::Rng;
use serde::Serialize;
use weir_lab::access::{Access, PASSWORD};
use weir_lab::certificates::openssl_version;
use weir_lab::clock;
use weir_lab::meter::cpu::process_time;
use weir_lab::pgbench::log::{Transaction, tally};
use weir_lab::scram;

use super::figures::{self, Series, milliseconds};
use super::{Common, Outcome, RawData, Stage, all_succeeded, keep, observe, report};
use crate::lab::pgbench::{Load, Protocol, Script, Storm, Weather};
use crate::lab::table::{Table, thousands};
use crate::lab::target::{Hops, KeyPair, Running, Setup, Target};

#[derive(clap::Args, Serialize)]
pub(crate) struct Flags {
    /// Rounds; every target runs once per round
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Logins of a storm
    #[arg(long, default_value_t = 2000)]
    logins: u32,
    /// How many log in at once
    #[arg(long, default_value_t = 100)]
    connectors: u32,
    /// Clients that query meanwhile, over TLS connections that stay
    #[arg(long, default_value_t = 50)]
    clients: u32,
    /// Queries per second of all these clients; 0: as many as are answered
    #[arg(long, default_value_t = 500)]
    rate: u32,
    /// Seconds of querying before the storm
    #[arg(long, default_value_t = 4)]
    seconds: u64,
    /// Server connections per pool (default_pool_size)
    #[arg(long, default_value_t = 20)]
    pool_size: u32,
    /// Iterations of the stored SCRAM secret: only the connectors pay for them, on this machine
    #[arg(long, default_value_t = NonZeroU32::MIN)]
    iterations: NonZeroU32,
    /// Niceness of the connectors, which on real networks have machines of their own
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u8).range(0..20))]
    nice: u8,
    /// Pins the connectors to these CPUs, for example 1; with the rest pinned to others (taskset -c 0 cargo xtask …) they
    /// are as far away as on a machine of their own
    #[arg(long, value_name = "LIST")]
    connector_cpus: Option<String>,
    /// Scale of pgbench's tables: 100,000 accounts each
    #[arg(long, default_value_t = 10)]
    scale: u32,
    #[command(flatten)]
    #[serde(flatten)]
    common: Common,
}

/// One run of one target, as kept in the raw data.
#[derive(Serialize)]
struct Record {
    round: u32,
    target: Target,
    outcome: Outcome<Measured>,
}

/// What a run showed.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Measured {
    logins: u32,
    /// Of the storm with nobody else there.
    alone_seconds: f64,
    /// CPU of the pooler in that storm.
    alone_cpu_seconds: f64,
    /// Of the storm while others queried.
    seconds: f64,
    /// CPU of the pooler in that storm, queries included.
    cpu_seconds: f64,
    calm: Felt,
    storm: Felt,
}

/// What the querying clients felt. Latencies are in microseconds, from the sending of a query.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Felt {
    per_second: f64,
    p50_us: u64,
    p99_us: u64,
    max_us: u64,
    /// From when a query was due: longer where a client was still waiting for the one before.
    due_p99_us: u64,
}

impl Measured {
    fn logins_per_cpu_second(&self) -> f64 {
        f64::from(self.logins) / self.alone_cpu_seconds
    }

    fn logins_per_second(&self) -> f64 {
        f64::from(self.logins) / self.alone_seconds
    }

    /// How many times worse the storm made p99.
    fn p99_factor(&self) -> f64 {
        milliseconds(self.storm.p99_us) / milliseconds(self.calm.p99_us)
    }
}

/// Runs the bench.
pub(super) fn run(flags: &Flags) -> Result<()> {
    flags.common.check(true)?;
    let runs = flags.rounds as usize * flags.common.targets.len();
    println!(
        "{} in {} rounds of {} logins: {runs} runs",
        flags.common.names(),
        flags.rounds,
        flags.storm().logins(),
    );
    let stage = Stage::set(&flags.common, flags.pool_size + 50, true, flags.scale)?;
    let mut rng = Rng::with_seed(stage.seed);
    let mut setup = stage.setup(flags.pool_size);
    let certificates = stage.certificates.as_ref().context("no certificates")?;
    setup.hops = Hops::BothTls(KeyPair::of(certificates));
    let salt: [u8; 16] = std::array::from_fn(|_| rng.u8(..));
    setup.secret = Some(scram::verifier(PASSWORD, &salt, flags.iterations));
    let hops = observe(&flags.common, &setup, &stage, &ACCESS)?;
    let records = rounds(flags, &setup, &stage, &mut rng)?;
    let mut text = render(flags, &records, stage.seed);
    text.push_str(&report::hops(&hops, &openssl_version()?));
    let _ = write!(text, "\n{}\n", stage.environment.line());
    println!("\n{text}");
    let raw = RawData {
        flags,
        seed: stage.seed,
        environment: &stage.environment,
        extra: hops,
        records: &records,
    };
    keep("storm", &raw, &text)?;
    all_succeeded(records.iter().map(|record| &record.outcome))
}

fn rounds(flags: &Flags, setup: &Setup, stage: &Stage, rng: &mut Rng) -> Result<Vec<Record>> {
    let pgbench = stage.pgbench()?;
    let mut records = Vec::new();
    for round in 1..=flags.rounds {
        let mut order = flags.common.targets.clone();
        rng.shuffle(&mut order);
        let seed = rng.u64(1..u64::from(u32::MAX));
        for target in order {
            stage.interrupt.check()?;
            let outcome = setup
                .start(target)
                .and_then(|running| flags.measure(&running, &pgbench, seed, stage));
            stage.interrupt.check()?;
            let record = Record {
                round,
                target,
                outcome: outcome.map_err(|error| format!("{error:#}")),
            };
            println!("{}", progress(&record, flags.rounds));
            records.push(record);
        }
    }
    Ok(records)
}

/// Longer than any run: the load is stopped when enough is known.
const QUERYING_MAX: Duration = Duration::from_secs(600);
/// Before the calm part counts.
const WARM_UP: Duration = Duration::from_secs(1);

const ACCESS: Access = Access {
    tls: true,
    password: true,
    openssl_conf: None,
};

impl Flags {
    fn storm(&self) -> Storm {
        let connectors = self.connectors.clamp(1, self.logins.max(1));
        Storm {
            connectors,
            logins_each: self.logins.div_ceil(connectors).max(1),
            nice: self.nice,
            cpus: self.connector_cpus.clone(),
            access: ACCESS,
        }
    }

    fn queries(&self, seed: u64) -> Load {
        Load {
            script: Script::SelectOnly,
            protocol: Protocol::Simple,
            clients: self.clients,
            threads: 1,
            warm_up: Duration::ZERO,
            measured: QUERYING_MAX,
            seed,
            rate: Some(self.rate).filter(|&rate| rate > 0),
            access: ACCESS,
        }
    }

    /// The storm alone, then queries alone, then both.
    fn measure(
        &self,
        running: &Running,
        pgbench: &Path,
        seed: u64,
        stage: &Stage,
    ) -> Result<Measured> {
        let interrupt = &stage.interrupt;
        let pid = running.pid().context("no process to measure")?;
        let address = running.address;
        let storm = self.storm();
        // The first login of all also opens a server.
        let first = Storm {
            connectors: 1,
            logins_each: 1,
            ..storm.clone()
        };
        first.run(pgbench, address, interrupt)?;
        let (alone, alone_cpu) = with_cpu(pid, || storm.run(pgbench, address, interrupt))?;

        let mut queries = self.queries(seed).start(pgbench, address)?;
        queries.log_until(Duration::ZERO, interrupt)?;
        interrupt.wait(WARM_UP)?;
        let calm_begin = clock::since_epoch();
        interrupt.wait(Duration::from_secs(self.seconds))?;
        let (weather, cpu) = with_cpu(pid, || storm.run(pgbench, address, interrupt))?;
        let log = queries.log_until(weather.end, interrupt)?;
        let calm = Weather {
            begin: calm_begin,
            end: weather.begin,
        };
        Ok(Measured {
            logins: storm.logins(),
            alone_seconds: alone.seconds(),
            alone_cpu_seconds: alone_cpu.as_secs_f64(),
            seconds: weather.seconds(),
            cpu_seconds: cpu.as_secs_f64(),
            calm: felt(&log, calm)?,
            storm: felt(&log, weather)?,
        })
    }
}

/// The result and the CPU time that `pid` used meanwhile.
fn with_cpu<T>(pid: u32, work: impl FnOnce() -> Result<T>) -> Result<(T, Duration)> {
    let before = process_time(pid)?;
    let result = work()?;
    Ok((result, process_time(pid)?.saturating_sub(before)))
}

fn felt(log: &[Transaction], when: Weather) -> Result<Felt> {
    let nothing = "no query was answered";
    let due = tally(log, when.begin, when.end).context(nothing)?;
    let sent: Vec<Transaction> = log.iter().map(|line| line.since_begin()).collect();
    let found = tally(&sent, when.begin, when.end).context(nothing)?;
    if found.failures > 0 {
        bail!("{} queries failed", found.failures);
    }
    let count = u32::try_from(found.transactions)?;
    Ok(Felt {
        per_second: f64::from(count) / when.seconds(),
        p50_us: found.p50_us,
        p99_us: found.p99_us,
        max_us: found.max_us,
        due_p99_us: due.p99_us,
    })
}

fn progress(record: &Record, rounds: u32) -> String {
    let head = format!(
        "round {}/{rounds}  {:<9}",
        record.round,
        record.target.to_string()
    );
    match &record.outcome {
        Ok(found) => format!(
            "{head}  {:>6} logins per CPU-second  {:>5.2} s  p99 {:>6.2} ms, in the storm {:>6.2} ms",
            thousands(found.logins_per_cpu_second()),
            found.seconds,
            milliseconds(found.calm.p99_us),
            milliseconds(found.storm.p99_us),
        ),
        Err(error) => format!("{head}  failed: {error}"),
    }
}

type Metric = fn(&Measured) -> f64;

fn render(flags: &Flags, records: &[Record], seed: u64) -> String {
    let base = flags.common.base();
    let ratio = base.map_or_else(String::new, |base| format!("/ {base}"));
    let mut table = Table::new(&[
        "target",
        "logins per CPU-s",
        &ratio,
        "logins/s",
        "wall s",
        "wall s, querying",
        "p99 ms calm",
        "p99 ms in storm",
        &ratio,
        "storm / calm",
        "max ms in storm",
        "p99 ms from due, in storm",
    ]);
    for &target in &flags.common.targets {
        let of = |metric: Metric| series(records, target, metric);
        let to_base = |metric: Metric| {
            let theirs = base
                .filter(|&base| base != target)
                .map_or_else(Series::new, |base| series(records, base, metric));
            figures::ratio(&of(metric), &theirs)
        };
        let number = |metric: Metric| figures::middle(&of(metric), |x| format!("{x:.2}"));
        let whole = |metric: Metric| figures::middle(&of(metric), thousands);
        table.row(vec![
            target.to_string(),
            whole(Measured::logins_per_cpu_second),
            to_base(Measured::logins_per_cpu_second),
            whole(Measured::logins_per_second),
            number(|found| found.alone_seconds),
            number(|found| found.seconds),
            number(|found| milliseconds(found.calm.p99_us)),
            number(|found| milliseconds(found.storm.p99_us)),
            to_base(|found| milliseconds(found.storm.p99_us)),
            number(Measured::p99_factor),
            number(|found| milliseconds(found.storm.max_us)),
            number(|found| milliseconds(found.storm.due_p99_us)),
        ]);
    }
    let storm = flags.storm();
    let rate = match flags.rate {
        0 => "as fast as answered".to_owned(),
        rate => format!("{} queries a second in all", thousands(rate.into())),
    };
    let mut text = table.markdown();
    let _ = write!(
        text,
        "\n{} A storm is {} logins by {} connectors at once, TLS without resumption and \
         SCRAM-SHA-256 from a stored secret of {} iterations, by `pgbench -C` at niceness {}{}. \
         Logins per CPU-second, logins/s and the first wall time: the storm alone; all threads of \
         the pooler, from schedstat. Querying: {} clients of `pgbench -S` over TLS, {rate}; \
         latency counts from the sending of a query. Where a client could not send in time because \
         it still waited for an answer, the last column is longer, and grows as long as the storm \
         lasts.\n",
        figures::method(flags.rounds, seed),
        storm.logins(),
        storm.connectors,
        flags.iterations,
        flags.nice,
        flags
            .connector_cpus
            .as_ref()
            .map_or_else(String::new, |cpus| format!(" on CPUs {cpus} alone")),
        flags.clients,
    );
    text
}

fn series(records: &[Record], target: Target, metric: Metric) -> Series {
    records
        .iter()
        .filter(|record| record.target == target)
        .filter_map(|record| Some((record.round, metric(record.outcome.as_ref().ok()?))))
        .collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: Flags,
    }

    fn flags(line: &str) -> Flags {
        let words = ["bench"].into_iter().chain(line.split_whitespace());
        Line::try_parse_from(words).unwrap().flags
    }

    fn measured() -> Measured {
        let felt = |p99_us| Felt {
            per_second: 2000.0,
            p50_us: 100,
            p99_us,
            max_us: 2 * p99_us,
            due_p99_us: p99_us,
        };
        Measured {
            logins: 2000,
            alone_seconds: 4.0,
            alone_cpu_seconds: 2.0,
            seconds: 5.0,
            cpu_seconds: 2.5,
            calm: felt(1000),
            storm: felt(1500),
        }
    }

    #[test]
    fn rates_and_factor_follow_from_what_was_measured() {
        let found = measured();
        assert!((found.logins_per_cpu_second() - 1000.0).abs() < 1e-9);
        assert!((found.logins_per_second() - 500.0).abs() < 1e-9);
        assert!((found.p99_factor() - 1.5).abs() < 1e-9);
    }

    #[test]
    fn logins_are_dealt_evenly_and_never_too_few() {
        let storm = flags("").storm();
        assert_eq!((storm.connectors, storm.logins_each), (100, 20));
        assert_eq!(flags("--logins 25 --connectors 10").storm().logins(), 30);
        let storm = flags("--logins 3 --connectors 10").storm();
        assert_eq!((storm.connectors, storm.logins_each), (3, 1));
    }

    #[test]
    fn queries_without_a_rate_come_as_fast_as_answered() {
        assert_eq!(flags("").queries(1).rate, Some(500));
        assert_eq!(flags("--rate 0").queries(1).rate, None);
    }

    #[test]
    fn calm_and_storm_are_told_apart_by_time() {
        let at = |ms, latency_us: u64| Transaction {
            ended: Duration::from_millis(ms),
            latency_us: Some(latency_us + 5),
            lag_us: 5,
            ..Transaction::default()
        };
        let log = [at(100, 10), at(600, 20), at(1500, 900)];
        let when = |begin, end| Weather {
            begin: Duration::from_millis(begin),
            end: Duration::from_millis(end),
        };
        let calm = felt(&log, when(0, 1000)).unwrap();
        assert_eq!((calm.p99_us, calm.max_us, calm.due_p99_us), (20, 20, 25));
        assert!((calm.per_second - 2.0).abs() < 1e-9);
        assert_eq!(felt(&log, when(1000, 2000)).unwrap().p50_us, 900);
        assert!(felt(&log, when(2000, 3000)).is_err());
    }

    #[test]
    fn the_table_has_a_row_per_target_with_ratios_of_the_same_round() {
        let weir = Target::Weir { workers: 1 };
        let twice = Measured {
            alone_cpu_seconds: 1.0,
            ..measured()
        };
        let record = |target, found| Record {
            round: 1,
            target,
            outcome: Ok(found),
        };
        let records = [record(Target::PgBouncer, measured()), record(weir, twice)];
        let text = render(&flags("--targets pgbouncer,weir1"), &records, 1);
        let row = text.lines().find(|line| line.starts_with("| weir1"));
        let cells: Vec<&str> = row.unwrap().split('|').map(str::trim).collect();
        assert_eq!(cells[2..4], ["2,000 (2,000–2,000)", "2.00 (2.00–2.00)"]);
    }
}
