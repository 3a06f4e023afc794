//! `cargo xtask bench idle`: what an idle client costs in resident memory, plain and over TLS.

use std::fmt;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use fastrand::Rng;
use rustix::process::Resource;
use serde::Serialize;
use weir_lab::certificates::KIND;
use weir_lab::interrupt::Interrupt;
use weir_lab::meter::memory::resident;

use super::figures::{self, Series};
use super::{Common, Outcome, RawData, Stage, all_succeeded, keep};
use crate::lab::client::{Client, Tls};
use crate::lab::table::{Table, thousands};
use crate::lab::target::{Hops, KeyPair, Running, Setup, Target};

#[derive(clap::Args, Serialize)]
pub(crate) struct Flags {
    /// Idle clients
    #[arg(long, default_value_t = 5000)]
    clients: u32,
    /// Rounds; every target runs once per round, plain and over TLS
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Milliseconds between the last login or query and the reading of memory
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    settle: u64,
    /// Server connections per pool (default_pool_size)
    #[arg(long, default_value_t = 20)]
    pool_size: u32,
    /// Threads that open connections and query
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    threads: u32,
    #[command(flatten)]
    #[serde(flatten)]
    common: Common,
}

/// The client hop; servers are plain in both.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
enum Hop {
    Plain,
    Tls,
}

impl fmt::Display for Hop {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Plain => "plain",
            Self::Tls => "TLS",
        })
    }
}

/// One run of one target, as kept in the raw data.
#[derive(Serialize)]
struct Record {
    round: u32,
    hop: Hop,
    target: Target,
    outcome: Outcome<Measured>,
}

/// Resident bytes of the pooler.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Measured {
    clients: u32,
    /// With one client, which has queried: what is paid once is not paid per client.
    before: u64,
    /// When all clients have logged in.
    logged_in: u64,
    /// When each has run one query.
    queried: u64,
}

impl Measured {
    fn per_login(&self) -> f64 {
        self.per_client(self.logged_in)
    }

    fn per_query(&self) -> f64 {
        self.per_client(self.queried)
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "memory stays far below 2^52 bytes"
    )]
    fn per_client(&self, resident: u64) -> f64 {
        // Memory may shrink: a pooler that frees what it had at start is not an error.
        (resident as f64 - self.before as f64) / f64::from(self.clients)
    }
}

/// Files of a process that are no clients: listeners, logs, servers.
const FILES_BESIDE: u32 = 200;
/// Connections from one address to one port: Linux hands out 28,232 ports unless told otherwise.
const CLIENTS_MAX: u32 = 25_000;

/// Runs the bench.
pub(super) fn run(flags: &Flags) -> Result<()> {
    flags.common.check(true)?;
    check(flags, rustix::process::getrlimit(Resource::Nofile).maximum)?;
    println!(
        "{} with {} idle clients, plain and over TLS, {} rounds",
        flags.common.names(),
        thousands(flags.clients.into()),
        flags.rounds,
    );
    // Clients log in without a password and select a constant: one row per table is plenty.
    let stage = Stage::set(&flags.common, flags.pool_size + 50, true, 1)?;
    let records = rounds(flags, &stage)?;
    let mut text = render(flags, &records, stage.seed);
    let _ = write!(text, "\n{}\n", stage.environment.line());
    println!("\n{text}");
    let raw = RawData {
        flags,
        seed: stage.seed,
        environment: &stage.environment,
        extra: (),
        records: &records,
    };
    keep("idle", &raw, &text)?;
    all_succeeded(records.iter().map(|record| &record.outcome))
}

/// `files` is the hard limit of open files, if there is one.
fn check(flags: &Flags, files: Option<u64>) -> Result<()> {
    if flags.clients == 0 || flags.clients > CLIENTS_MAX {
        bail!("--clients must be from 1 to {CLIENTS_MAX}");
    }
    let needed = u64::from(flags.clients + flags.pool_size + FILES_BESIDE);
    match files {
        Some(files) if files < needed => bail!(
            "{} clients need {needed} open files, the hard limit is {files} (ulimit -Hn)",
            flags.clients
        ),
        _ => Ok(()),
    }
}

fn rounds(flags: &Flags, stage: &Stage) -> Result<Vec<Record>> {
    let certificates = stage.certificates.as_ref().context("no certificates")?;
    let tls = Tls::trusting(&certificates.authority())?;
    let pair = KeyPair::of(certificates);
    let mut setup = stage.setup(flags.pool_size);
    setup.clients_max = flags.clients + 100;
    let mut rng = Rng::with_seed(stage.seed);
    let mut records = Vec::new();
    for round in 1..=flags.rounds {
        for hop in [Hop::Plain, Hop::Tls] {
            let tls = match hop {
                Hop::Plain => None,
                Hop::Tls => Some(&tls),
            };
            setup.hops = match hop {
                Hop::Plain => Hops::Plain,
                Hop::Tls => Hops::ClientTls(pair.clone()),
            };
            let mut order = flags.common.targets.clone();
            rng.shuffle(&mut order);
            for target in order {
                stage.interrupt.check()?;
                let outcome = flags.start_and_measure(&setup, target, tls, &stage.interrupt);
                stage.interrupt.check()?;
                let record = Record {
                    round,
                    hop,
                    target,
                    outcome: outcome.map_err(|error| format!("{error:#}")),
                };
                println!("{}", progress(&record, flags.rounds));
                records.push(record);
            }
        }
    }
    Ok(records)
}

/// Of the pool's warm-up and of every client.
const QUERY: &str = "SELECT 1";

impl Flags {
    fn start_and_measure(
        &self,
        setup: &Setup,
        target: Target,
        tls: Option<&Tls>,
        interrupt: &Interrupt,
    ) -> Result<Measured> {
        let running = setup.start(target)?;
        self.measure(&running, tls, interrupt)
    }

    fn measure(
        &self,
        running: &Running,
        tls: Option<&Tls>,
        interrupt: &Interrupt,
    ) -> Result<Measured> {
        let pid = running.pid().context("no process to measure")?;
        let settled = || {
            interrupt.wait(Duration::from_millis(self.settle))?;
            resident(pid)
        };
        let mut first = Client::connect(running.address, tls)?;
        first.query(QUERY)?;
        let before = settled()?;
        let mut clients = self.open(running.address, tls, interrupt)?;
        let logged_in = settled()?;
        self.query(&mut clients, interrupt)?;
        let queried = settled()?;
        Ok(Measured {
            clients: self.clients,
            before,
            logged_in,
            queried,
        })
    }

    /// All clients, logged in.
    fn open(
        &self,
        address: SocketAddr,
        tls: Option<&Tls>,
        interrupt: &Interrupt,
    ) -> Result<Vec<Client>> {
        let connect = |count: u32| -> Result<Vec<Client>> {
            (0..count)
                .map(|_| {
                    interrupt.check()?;
                    Client::connect(address, tls)
                })
                .collect()
        };
        thread::scope(|scope| {
            let threads: Vec<_> = shares(self.clients, self.threads)
                .map(|count| scope.spawn(move || connect(count)))
                .collect();
            let mut clients = Vec::new();
            for thread in threads {
                clients.extend(thread.join().map_err(|_| anyhow!("a thread panicked"))??);
            }
            Ok(clients)
        })
    }

    /// One query each.
    fn query(&self, clients: &mut [Client], interrupt: &Interrupt) -> Result<()> {
        let share = clients.len().div_ceil(self.threads as usize).max(1);
        let run = |clients: &mut [Client]| -> Result<()> {
            clients.iter_mut().try_for_each(|client| {
                interrupt.check()?;
                client.query(QUERY)
            })
        };
        thread::scope(|scope| {
            let threads: Vec<_> = clients
                .chunks_mut(share)
                .map(|part| scope.spawn(|| run(part)))
                .collect();
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?)
        })
    }
}

/// `count` in `parts` shares that differ by one at most.
fn shares(count: u32, parts: u32) -> impl Iterator<Item = u32> {
    (0..parts).map(move |part| count / parts + u32::from(part < count % parts))
}

fn progress(record: &Record, rounds: u32) -> String {
    let head = format!(
        "round {}/{rounds}  {:<5}  {:<9}",
        record.round,
        record.hop.to_string(),
        record.target.to_string()
    );
    match &record.outcome {
        Ok(found) => format!(
            "{head}  {:>7} bytes per client, after a query {:>7}",
            thousands(found.per_login()),
            thousands(found.per_query()),
        ),
        Err(error) => format!("{head}  failed: {error}"),
    }
}

type Metric = fn(&Measured) -> f64;

fn render(flags: &Flags, records: &[Record], seed: u64) -> String {
    let base = flags.common.base();
    let ratio = base.map_or_else(String::new, |base| format!("/ {base}"));
    let mut table = Table::new(&[
        "client hop",
        "target",
        "bytes per client, logged in",
        &ratio,
        "after a query",
        &ratio,
        "MiB before",
    ]);
    for hop in [Hop::Plain, Hop::Tls] {
        for &target in &flags.common.targets {
            let of = |metric: Metric| series(records, hop, target, metric);
            let to_base = |metric: Metric| {
                let theirs = base
                    .filter(|&base| base != target)
                    .map_or_else(Series::new, |base| series(records, hop, base, metric));
                figures::ratio(&of(metric), &theirs)
            };
            table.row(vec![
                hop.to_string(),
                target.to_string(),
                figures::middle(&of(Measured::per_login), thousands),
                to_base(Measured::per_login),
                figures::middle(&of(Measured::per_query), thousands),
                to_base(Measured::per_query),
                figures::middle(&of(mebibytes_before), |value| format!("{value:.1}")),
            ]);
        }
    }
    let mut text = table.markdown();
    let _ = write!(
        text,
        "\n{} {} clients, logged in without a password; Rss of the pooler's process from \
         smaps_rollup, over that with one client that had queried. The kernel's memory for sockets \
         is not in it, and is the same for all. TLS: 1.3, {KIND}.\n",
        figures::method(flags.rounds, seed),
        thousands(flags.clients.into()),
    );
    text
}

#[expect(
    clippy::cast_precision_loss,
    reason = "memory stays far below 2^52 bytes"
)]
fn mebibytes_before(found: &Measured) -> f64 {
    found.before as f64 / f64::from(1 << 20)
}

fn series(records: &[Record], hop: Hop, target: Target, metric: Metric) -> Series {
    records
        .iter()
        .filter(|record| record.hop == hop && record.target == target)
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

    #[test]
    fn bytes_per_client_are_counted_over_the_first_reading() {
        let found = Measured {
            clients: 100,
            before: 1_000_000,
            logged_in: 1_200_000,
            queried: 900_000,
        };
        assert!((found.per_login() - 2000.0).abs() < 1e-9);
        assert!((found.per_query() + 1000.0).abs() < 1e-9, "may shrink");
        assert!((mebibytes_before(&found) - 0.953_674).abs() < 1e-6);
    }

    #[test]
    fn shares_add_up() {
        assert_eq!(shares(10, 4).collect::<Vec<_>>(), [3, 3, 2, 2]);
        assert_eq!(shares(1, 3).sum::<u32>(), 1);
    }

    #[test]
    fn too_few_open_files_are_said_before_anything_starts() {
        let flags = flags("--clients 5000");
        assert!(check(&flags, Some(20_000)).is_ok());
        assert!(check(&flags, None).is_ok());
        let error = check(&flags, Some(4096)).unwrap_err().to_string();
        assert!(error.contains("5220") && error.contains("4096"), "{error}");
    }

    #[test]
    fn the_number_of_clients_has_bounds() {
        assert!(check(&flags("--clients 0"), None).is_err());
        assert!(check(&flags("--clients 25001"), None).is_err());
    }

    #[test]
    fn plain_and_tls_have_rows_of_their_own() {
        let record = |hop, logged_in| Record {
            round: 1,
            hop,
            target: Target::PgBouncer,
            outcome: Ok(Measured {
                clients: 10,
                before: 0,
                logged_in,
                queried: logged_in,
            }),
        };
        let records = [record(Hop::Plain, 1000), record(Hop::Tls, 2000)];
        let text = render(&flags("--targets pgbouncer"), &records, 1);
        let row = |hop: &str| {
            let head = format!("| {hop} ");
            let found = text.lines().find(|line| line.starts_with(&head));
            found.unwrap().to_owned()
        };
        assert!(row("plain").contains("100 (100–100)"), "{text}");
        assert!(row("TLS").contains("200 (200–200)"), "{text}");
    }
}
