//! `cargo xtask bench smoke` and `bench tls`: the same load through every target, cell by cell.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Result, bail};
use fastrand::Rng;
use serde::Serialize;
use weir_lab::access::Access;
use weir_lab::certificates::{Certificates, openssl_version};

use super::{Common, Outcome, RawData, Stage, all_succeeded, keep, observe, report};
use crate::lab::pgbench::{self, Load, Protocol, Script};
use crate::lab::target::{Hops, KeyPair, Setup, Target};

#[derive(clap::Args, Serialize)]
pub(crate) struct Flags {
    /// Rounds; every target runs once per round and cell
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Seconds that are measured per run
    #[arg(long, default_value_t = 4)]
    seconds: u64,
    /// Seconds before the measurement, for all targets alike
    #[arg(long, default_value_t = 1)]
    warm_up: u64,
    /// Server connections per pool (default_pool_size) [default: 20, with TLS 50]
    #[arg(long)]
    pool_size: Option<u32>,
    /// Client counts
    #[arg(long, value_delimiter = ',', default_values_t = [50, 500])]
    clients: Vec<u32>,
    /// Threads of pgbench
    #[arg(long, default_value_t = 1)]
    threads: u32,
    /// Scale of pgbench's tables: 100,000 accounts each
    #[arg(long, default_value_t = 10)]
    scale: u32,
    /// Only cells whose name contains this
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    only: Option<String>,
    /// Cipher of TLS 1.3 that clients offer alone, for example TLS_AES_256_GCM_SHA384, so that
    /// the client hop is the same for all targets [default: all, and the target picks]
    #[arg(long, value_name = "NAME")]
    cipher: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    common: Common,
}

/// Which of the two comparisons.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Smoke,
    Tls,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Smoke => "smoke",
            Self::Tls => "tls",
        }
    }

    fn workloads(self) -> &'static [(Script, Protocol)] {
        match self {
            Self::Smoke => &[
                (Script::SelectOnly, Protocol::Simple),
                (Script::SelectOnly, Protocol::Prepared),
                (Script::FourKilobytes, Protocol::Simple),
            ],
            // The published comparisons with TLS on every hop.
            Self::Tls => &[
                (Script::FourKilobytes, Protocol::Simple),
                (Script::FourKilobytes, Protocol::Extended),
                (Script::FourKilobytes, Protocol::Prepared),
            ],
        }
    }

    fn pool_size(self) -> u32 {
        match self {
            Self::Smoke => 20,
            Self::Tls => 50,
        }
    }
}

/// A workload at a client count: one block of a round.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub(super) struct Cell {
    script: Script,
    protocol: Protocol,
    pub(super) clients: u32,
}

impl Cell {
    pub(super) fn workload(&self) -> String {
        format!("{} {}", self.script.name(), self.protocol.name())
    }

    pub(super) fn name(&self) -> String {
        format!("{} c={}", self.workload(), self.clients)
    }

    /// Whether `target` runs what the cell says.
    pub(super) fn is_changed_for(&self, target: Target) -> bool {
        self.protocol_for(target) != self.protocol
    }

    /// PgBouncer before 1.21 cannot keep prepared statements in transaction mode (and session mode
    /// would make clients queue for a whole session), so it runs the same queries as `extended`.
    fn protocol_for(&self, target: Target) -> Protocol {
        match (self.protocol, target) {
            (Protocol::Prepared, Target::PgBouncer) => Protocol::Extended,
            (protocol, _) => protocol,
        }
    }
}

/// One run of one target, as kept in the raw data.
#[derive(Serialize)]
pub(super) struct Record {
    pub(super) round: u32,
    pub(super) cell: Cell,
    pub(super) target: Target,
    pub(super) outcome: Outcome<pgbench::Outcome>,
}

/// Runs one of the two.
pub(super) fn run(kind: Kind, mut flags: Flags) -> Result<()> {
    let pool_size = *flags.pool_size.get_or_insert_with(|| kind.pool_size());
    flags.common.check(false)?;
    let cells = cells(kind, &flags);
    if cells.is_empty() {
        bail!("nothing to run");
    }
    if kind == Kind::Smoke && flags.cipher.is_some() {
        bail!("--cipher needs TLS: use it with `bench tls`");
    }
    announce(&flags, cells.len());
    let most = flags.clients.iter().max().copied().unwrap_or_default();
    let connections = most.max(pool_size) + 50;
    let stage = Stage::set(&flags.common, connections, kind == Kind::Tls, flags.scale)?;
    let mut setup = stage.setup(pool_size);
    let mut hops = Vec::new();
    let mut access = Access::default();
    if let Some(certificates) = &stage.certificates {
        setup.hops = Hops::BothTls(KeyPair::of(certificates));
        access = flags.tls_access(certificates)?;
        hops = observe(&flags.common, &setup, &stage, &access)?;
    }
    let records = rounds(&flags, &access, &cells, &setup, &stage)?;
    let mut text = report::render(&records, &flags.common, stage.seed);
    if kind == Kind::Tls {
        text.push_str(&report::hops(&hops, &openssl_version()?));
    }
    let _ = write!(text, "\n{}\n", stage.environment.line());
    println!("\n{text}");
    let raw = RawData {
        flags: &flags,
        seed: stage.seed,
        environment: &stage.environment,
        extra: hops,
        records: &records,
    };
    keep(kind.name(), &raw, &text)?;
    all_succeeded(records.iter().map(|record| &record.outcome))
}

fn cells(kind: Kind, flags: &Flags) -> Vec<Cell> {
    let wanted = |cell: &Cell| {
        flags
            .only
            .as_ref()
            .is_none_or(|text| cell.name().contains(text))
    };
    kind.workloads()
        .iter()
        .flat_map(|&(script, protocol)| {
            flags.clients.iter().map(move |&clients| Cell {
                script,
                protocol,
                clients,
            })
        })
        .filter(wanted)
        .collect()
}

fn announce(flags: &Flags, cells: usize) {
    let runs = flags.rounds as usize * cells * flags.common.targets.len();
    println!(
        "{} in {cells} cells, {} rounds of {} s: {runs} runs, about {} minutes",
        flags.common.names(),
        flags.rounds,
        flags.seconds,
        (runs as u64 * (flags.seconds + flags.warm_up + 2)).div_ceil(60),
    );
}

fn rounds(
    flags: &Flags,
    access: &Access,
    cells: &[Cell],
    setup: &Setup,
    stage: &Stage,
) -> Result<Vec<Record>> {
    let pgbench = stage.pgbench()?;
    let mut rng = Rng::with_seed(stage.seed);
    let mut records = Vec::new();
    for round in 1..=flags.rounds {
        for &cell in cells {
            let mut order = flags.common.targets.clone();
            rng.shuffle(&mut order);
            // The same for all targets of a block: they see the same keys.
            let block_seed = rng.u64(1..u64::from(u32::MAX));
            for target in order {
                stage.interrupt.check()?;
                let load = flags.load(access, cell, target, block_seed);
                let outcome = setup.start(target).and_then(|running| {
                    load.run(&pgbench, running.address, running.pid(), &stage.interrupt)
                });
                stage.interrupt.check()?;
                let record = Record {
                    round,
                    cell,
                    target,
                    outcome: outcome.map_err(|error| format!("{error:#}")),
                };
                println!("{}", report::progress(&record, flags.rounds));
                records.push(record);
            }
        }
    }
    Ok(records)
}

impl Flags {
    fn tls_access(&self, certificates: &Certificates) -> Result<Access> {
        let only = |name: &String| certificates.only_cipher(name);
        Ok(Access {
            openssl_conf: self.cipher.as_ref().map(only).transpose()?,
            ..Access::TLS
        })
    }

    fn load(&self, access: &Access, cell: Cell, target: Target, seed: u64) -> Load {
        Load {
            script: cell.script,
            protocol: cell.protocol_for(target),
            clients: cell.clients,
            threads: self.threads,
            warm_up: Duration::from_secs(self.warm_up),
            measured: Duration::from_secs(self.seconds),
            seed,
            rate: None,
            access: access.clone(),
        }
    }
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

    fn names(kind: Kind, line: &str) -> Vec<String> {
        cells(kind, &flags(line)).iter().map(Cell::name).collect()
    }

    #[test]
    fn only_pgbouncer_leaves_prepared_statements_out() {
        let cell = Cell {
            script: Script::SelectOnly,
            protocol: Protocol::Prepared,
            clients: 1,
        };
        let weir = Target::Weir { workers: 1 };
        assert_eq!(cell.protocol_for(Target::PgBouncer), Protocol::Extended);
        assert_eq!(cell.protocol_for(weir), Protocol::Prepared);
        assert!(cell.is_changed_for(Target::PgBouncer) && !cell.is_changed_for(weir));
    }

    #[test]
    fn tls_runs_the_same_query_in_all_protocols() {
        let expected = ["4 KB simple c=5", "4 KB extended c=5", "4 KB prepared c=5"];
        assert_eq!(names(Kind::Tls, "--clients 5"), expected);
        assert_eq!(names(Kind::Tls, "--only d --clients 5"), expected[1..]);
    }

    #[test]
    fn smoke_keeps_its_cells() {
        let expected = ["-S simple c=5", "-S prepared c=5", "4 KB simple c=5"];
        assert_eq!(names(Kind::Smoke, "--clients 5"), expected);
    }

    #[test]
    fn a_cipher_without_tls_is_refused_before_anything_starts() {
        let error = run(Kind::Smoke, flags("--cipher TLS_AES_128_GCM_SHA256")).unwrap_err();
        assert!(error.to_string().contains("bench tls"), "{error}");
    }
}
