//! Fictional runs that show everything a report can, for tests only. The same seed gives the same run.
#![expect(
    clippy::cast_possible_truncation,
    reason = "figures that are made up may lose their fraction"
)]

use std::collections::BTreeMap;

use super::results::Results;
use super::view::Factors;
use crate::record::{
    Cell, Costs, Experiment, FORMAT, Flag, FlagKind, Latency, Machine, Measure, Outcome, Planned,
    Published, Run, Setting, Spread, Target, Usage,
};

/// `SplitMix64` as a fraction of 1.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number around 1 within `width`, more often near it.
    fn about(&mut self, width: f64) -> f64 {
        1.0 + width * (self.next() + self.next() + self.next() - 1.5) / 1.5
    }
}

/// Returns five experiments in five blocks, with everything that can go slightly wrong.
pub(crate) fn results() -> Results {
    made(5, 7)
}

/// Returns a run of one block without a twin, from which nothing can be concluded.
pub(crate) fn smoke() -> Results {
    let mut results = made(1, 11);
    results.run.profile = "smoke".to_owned();
    results
        .run
        .targets
        .retain(|target| target.twin_of.is_none());
    results
        .cells
        .retain(|cell| cell.target != "pgbouncer-again");
    for experiment in &mut results.run.experiments {
        experiment
            .plan
            .retain(|cell| cell.target != "pgbouncer-again");
    }
    results
}

/// Returns a run that stopped in the second block, while a line was being written.
pub(crate) fn interrupted() -> Results {
    let mut whole = made(5, 13);
    whole.run.ended_unix_s = None;
    let some = whole.cells.len() * 3 / 10;
    whole.cells.truncate(some);
    let mut lines = lines(&whole);
    lines.truncate(lines.len() - 40);
    Results::new(whole.run, &lines)
}

/// Returns one experiment with four targets, three loads and five blocks.
pub(crate) fn small() -> Results {
    cut(made(5, 19))
}

/// Returns a later version of [`small`], in which one Weir target is slower by a fifth.
pub(crate) fn slowed() -> Results {
    let mut results = cut(made(5, 23));
    results.run.started_unix_s += 86_400;
    results.run.ended_unix_s = results.run.ended_unix_s.map(|ended| ended + 86_400);
    for cell in results
        .cells
        .iter_mut()
        .filter(|cell| cell.target == "weir-1")
    {
        if let Some(outcome) = &mut cell.outcome {
            outcome.tps *= 0.8;
        }
    }
    results
}

/// Returns all kinds of experiments in two blocks, short enough to be kept in the repository, for tests with a
/// browser.
pub(crate) fn page() -> Results {
    let mut results = made(2, 29);
    let targets = [
        "direct",
        "pgbouncer",
        "pgbouncer-again",
        "pgbouncer-x2",
        "weir-1",
        "weir-2",
        "pgcat",
    ];
    let keep = |target: &str, factors: &Factors| {
        let many = factors
            .get("clients")
            .is_none_or(|clients| ["1", "100", "1000", "10000"].contains(&clients.as_str()));
        targets.contains(&target)
            && many
            && factors
                .get("protocol")
                .is_none_or(|protocol| protocol != "extended")
    };
    for experiment in &mut results.run.experiments {
        experiment
            .plan
            .retain(|cell| keep(&cell.target, &cell.factors));
    }
    results
        .run
        .targets
        .retain(|target| targets.contains(&target.name.as_str()));
    results
        .cells
        .retain(|cell| keep(&cell.target, &cell.factors));
    for outcome in results
        .cells
        .iter_mut()
        .filter_map(|cell| cell.outcome.as_mut())
    {
        outcome.per_second.clear();
    }
    results
}

fn cut(mut results: Results) -> Results {
    let keep = |target: &str, factors: &Factors| {
        ["direct", "pgbouncer", "pgbouncer-again", "weir-1"].contains(&target)
            && factors
                .get("clients")
                .is_some_and(|clients| ["1", "100", "1000"].contains(&clients.as_str()))
    };
    results.run.experiments.truncate(1);
    for experiment in &mut results.run.experiments {
        experiment
            .plan
            .retain(|cell| keep(&cell.target, &cell.factors));
    }
    results.run.targets.retain(|target| {
        ["direct", "pgbouncer", "pgbouncer-again", "weir-1", "pgcat"]
            .contains(&target.name.as_str())
    });
    results
        .cells
        .retain(|cell| cell.experiment == "p1" && keep(&cell.target, &cell.factors));
    results
}

/// Returns the text of `cells.jsonl`.
pub(crate) fn lines(results: &Results) -> String {
    let line = |cell: &Cell| serde_json::to_string(cell).unwrap() + "\n";
    results.cells.iter().map(line).collect()
}

fn made(blocks: u32, seed: u64) -> Results {
    let experiments = experiments(blocks);
    let mut random = Random(seed);
    let mut cells = Vec::new();
    for block in 0..blocks {
        for experiment in &experiments {
            // The machine drifts from block to block, which does not affect ratios inside of a block.
            let drift = random.about(0.06);
            for (order, planned) in experiment.plan.iter().enumerate() {
                let order = u32::try_from(order).unwrap();
                cells.push(cell(experiment, planned, block, order, drift, &mut random));
            }
        }
    }
    let run = Run {
        format: FORMAT,
        profile: "quick".to_owned(),
        seed: 20_251_120,
        started_unix_s: 1_763_676_000,
        ended_unix_s: Some(1_763_676_000 + 5_431),
        command: ["weir", "bench", "run", "quick"]
            .map(str::to_owned)
            .to_vec(),
        experiments,
        targets: targets(),
        environment: environment(),
    };
    let mut results = Results {
        run,
        cells,
        unreadable: 0,
        replaced: 0,
    };
    spoil(&mut results);
    results
}

/// Adds failures as they occur in a run of hours.
fn spoil(results: &mut Results) {
    let at = |cell: &Cell, target: &str, clients: &str, block: u32| {
        cell.target == target
            && cell.block == block
            && cell
                .factors
                .get("clients")
                .is_some_and(|value| value == clients)
    };
    results
        .cells
        .retain(|cell| !(cell.experiment == "p2" && at(cell, "odyssey", "500", 3)));
    for cell in &mut results.cells {
        if cell.experiment == "p1"
            && cell.target == "odyssey"
            && at(cell, "odyssey", "1000", cell.block)
        {
            cell.outcome = None;
            cell.failed = Some("odyssey gave up: too many open files".to_owned());
            cell.costs = Costs::default();
        }
        if cell.experiment == "p2" && at(cell, "weir-4", "100", 2) {
            cell.outcome = None;
            cell.failed = Some("the port was taken".to_owned());
        }
        if cell.experiment == "p1" && at(cell, "weir-2", "500", 1) {
            let outcome = cell.outcome.as_mut().unwrap();
            outcome.errors = 12;
            outcome.errors_by_code = [("57P01".to_owned(), 8), ("closed".to_owned(), 4)].into();
            let detail = "12 of 190000 transactions failed (8x 57P01, 4x closed)".to_owned();
            cell.flags.push(Flag {
                kind: FlagKind::Errors,
                detail,
            });
        }
        if cell.experiment == "open-loop"
            && cell.target == "pgbouncer"
            && cell.factors.get("rate").is_some_and(|rate| rate == "90%")
        {
            let outcome = cell.outcome.as_mut().unwrap();
            outcome.unfinished = 31;
            let detail = "31 transactions were not over at the end".to_owned();
            cell.flags.push(Flag {
                kind: FlagKind::Unfinished,
                detail,
            });
        }
        if cell.experiment == "p1" && at(cell, "pgbouncer", "1", 0) {
            let detail = "the halves differ by 4.1 %".to_owned();
            cell.flags.push(Flag {
                kind: FlagKind::Unsteady,
                detail,
            });
        }
    }
}

fn factors(pairs: &[(&str, &str)]) -> Factors {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

const CLIENTS: [&str; 5] = ["1", "50", "100", "500", "1000"];
const POOLERS: [&str; 7] = [
    "pgbouncer",
    "pgbouncer-again",
    "pgbouncer-x2",
    "weir-1",
    "weir-2",
    "weir-4",
    "odyssey",
];

fn experiments(blocks: u32) -> Vec<Experiment> {
    let mut p2 = experiment(
        "p2",
        "extended and prepared protocol, TLS",
        Measure::Throughput,
        blocks,
    );
    p2.text = "The same select with a bound parameter.".to_owned();
    p2.plan = plan(
        &POOLERS,
        &[
            ("protocol", &["extended", "prepared"]),
            ("clients", &CLIENTS),
        ],
    );
    let mut idle = experiment(
        "idle",
        "memory of idle connections",
        Measure::Memory,
        blocks,
    );
    idle.text = "Clients log in, run one transaction and stay.".to_owned();
    idle.plan = plan(&POOLERS, &[("clients", &["100", "1000", "10000"])]);
    let mut copy = experiment("copy", "COPY out of the server", Measure::Bandwidth, blocks);
    copy.text = "One client copies a table of 1 GB to its own side.".to_owned();
    copy.axis = "direction".to_owned();
    copy.plan = plan(&["direct"], &[("direction", &["in", "out"])]);
    copy.plan
        .extend(plan(&POOLERS, &[("direction", &["in", "out"])]));
    let mut open = experiment(
        "open-loop",
        "latency at a given rate",
        Measure::Latency,
        blocks,
    );
    open.text = "Our generator asks at a fixed rate, whether answers come or not.".to_owned();
    open.axis = "rate".to_owned();
    open.plan = plan(&POOLERS, &[("rate", &["50%", "70%", "90%"])]);
    vec![p1(blocks), p2, idle, copy, open]
}

fn p1(blocks: u32) -> Experiment {
    let mut p1 = experiment(
        "p1",
        "simple protocol, TLS on every hop",
        Measure::Throughput,
        blocks,
    );
    p1.text = "A select of 42 rows, about 4 KB on the wire, by the simple protocol. TLS from the client to the \
               pooler and from there to PostgreSQL; pool of 50."
        .to_owned();
    p1.plan = plan(
        &["direct"],
        &[("protocol", &["simple"]), ("clients", &CLIENTS)],
    );
    p1.plan.extend(plan(
        &POOLERS,
        &[("protocol", &["simple"]), ("clients", &CLIENTS)],
    ));
    p1.published_setup = Some(
        "Published: Ryzen 9 5950X with 16 cores, PostgreSQL 17, PgBouncer 1.25.1; three iterations.".to_owned(),
    );
    p1.published = published(
        "PgBouncer",
        Some("pgbouncer"),
        &[34_000.0, 33_200.0, 29_700.0, 28_500.0],
    );
    p1.published.extend(published(
        "ProxySQL 1 worker",
        None,
        &[32_000.0, 32_600.0, 29_100.0, 27_900.0],
    ));
    p1.published.extend(published(
        "Odyssey",
        Some("odyssey"),
        &[39_000.0, 37_100.0, 31_000.0, 26_000.0],
    ));
    p1.caveats = vec![
        "the published page does not say how many rows its select returns; 42 is from its size."
            .to_owned(),
    ];
    p1
}

fn experiment(name: &str, title: &str, measure: Measure, blocks: u32) -> Experiment {
    Experiment {
        name: name.to_owned(),
        title: title.to_owned(),
        text: String::new(),
        base: "pgbouncer".to_owned(),
        measure,
        axis: "clients".to_owned(),
        warm_up_s: 5.0,
        measure_s: 15.0,
        blocks,
        published: Vec::new(),
        published_setup: None,
        caveats: Vec::new(),
        setting: Some(Setting {
            tls: name.starts_with('p'),
            front: None,
            replicas: 0,
            database: true,
        }),
        plan: Vec::new(),
    }
}

fn plan(targets: &[&str], varied: &[(&str, &[&str])]) -> Vec<Planned> {
    let mut all = vec![Factors::new()];
    for (name, values) in varied {
        let with = |factors: &Factors, value: &str| {
            let mut factors = factors.clone();
            factors.insert((*name).to_owned(), value.to_owned());
            factors
        };
        all = all
            .iter()
            .flat_map(|one| values.iter().map(move |value| with(one, value)))
            .collect();
    }
    let planned = |target: &&str| {
        let target = (*target).to_owned();
        all.iter()
            .map(move |factors| Planned {
                target: target.clone(),
                factors: factors.clone(),
            })
            .collect::<Vec<_>>()
    };
    targets.iter().flat_map(planned).collect()
}

fn published(name: &str, ours: Option<&str>, figures: &[f64]) -> Vec<Published> {
    let one = |(clients, tps): (&&str, &f64)| Published {
        target: name.to_owned(),
        ours: ours.map(str::to_owned),
        factors: factors(&[("clients", clients)]),
        tps: *tps,
    };
    CLIENTS.iter().skip(1).zip(figures).map(one).collect()
}

/// Returns the parameters of a target: throughput at many clients, loss towards 1000, CPU per transaction, memory
/// per client in KiB.
fn character(target: &str) -> (f64, f64, f64, f64) {
    match target {
        "direct" => (13_400.0, 0.35, 0.0, 0.0),
        "pgbouncer-x2" => (11_300.0, 0.15, 43.0, 3.3),
        "pgbouncer" | "pgbouncer-again" => (9_800.0, 0.14, 41.0, 3.1),
        "weir-1" => (12_100.0, 0.10, 24.0, 2.2),
        "weir-2" => (12_900.0, 0.12, 25.5, 2.3),
        "weir-4" => (12_500.0, 0.16, 27.5, 2.6),
        _ => (11_200.0, 0.22, 33.0, 9.4),
    }
}

fn number(planned: &Planned, name: &str) -> Option<f64> {
    planned.factors.get(name)?.parse().ok()
}

fn cell(
    experiment: &Experiment,
    planned: &Planned,
    block: u32,
    order: u32,
    drift: f64,
    random: &mut Random,
) -> Cell {
    let clients = number(planned, "clients").unwrap_or(64.0);
    let outcome = outcome(experiment, planned, clients, drift, random);
    let mut flags = Vec::new();
    if clients >= 1000.0 && experiment.measure == Measure::Throughput {
        let detail = "2 % of 2 CPUs were idle".to_owned();
        flags.push(Flag {
            kind: FlagKind::MachineSaturated,
            detail,
        });
    }
    let command = format!("pgbench -c {clients} -T 15 -f select-42-rows.sql");
    Cell {
        experiment: experiment.name.clone(),
        target: planned.target.clone(),
        block,
        order,
        factors: planned.factors.clone(),
        generator: "pgbench".to_owned(),
        command: command.split(' ').map(str::to_owned).collect(),
        configurations: format!("configurations/{}", planned.target),
        costs: costs(planned, clients, &outcome, drift, random),
        outcome: Some(outcome),
        failed: None,
        on_replicas: None,
        flags,
        started_unix_s: 1_763_676_000 + u64::from(block) * 1000 + u64::from(order) * 20,
    }
}

fn outcome(
    experiment: &Experiment,
    planned: &Planned,
    clients: f64,
    drift: f64,
    random: &mut Random,
) -> Outcome {
    let (top, fall, _, _) = character(&planned.target);
    let simple = planned
        .factors
        .get("protocol")
        .is_none_or(|protocol| protocol == "simple");
    let few = match planned.target.as_str() {
        _ if clients > 1.0 => 1.0,
        "direct" => 0.26,
        name if name.starts_with("weir") => 0.172,
        _ => 0.23,
    };
    let crowded = 1.0 - fall * crowd(clients);
    let noise = random.about(0.025);
    let mut tps = top * few * crowded * drift * noise * if simple { 1.0 } else { 0.94 };
    if experiment.axis == "rate" {
        tps = 9_000.0 * noise;
    }
    let bandwidth = experiment.measure == Measure::Bandwidth;
    let open = experiment.axis == "rate";
    let lag = |share: f64| open.then_some((share * 180.0).round());
    Outcome {
        lag_us_p50: lag(0.05),
        lag_us_p99: lag(1.0),
        transactions: (tps * experiment.measure_s) as u64,
        seconds: experiment.measure_s,
        tps,
        bytes_per_s: bandwidth.then_some(tps * 60_000.0),
        latency: Some(latency(clients / tps * 1e6, clients, random)),
        per_second: (0..15).map(|_| tps * random.about(0.02)).collect(),
        per_client: Some(Spread {
            min: tps * 0.9,
            median: tps,
            max: tps * 1.1,
            variation: 0.02,
        }),
        ..Outcome::default()
    }
}

fn crowd(clients: f64) -> f64 {
    (clients / 1000.0).powf(0.7)
}

fn costs(
    planned: &Planned,
    clients: f64,
    outcome: &Outcome,
    drift: f64,
    random: &mut Random,
) -> Costs {
    let (_, _, cpu, kib) = character(&planned.target);
    let fixed = if planned.target.starts_with("weir") {
        9_500.0
    } else {
        4_000.0
    };
    let transactions = outcome.tps * outcome.seconds;
    let (noise, noise_memory) = (random.about(0.03), random.about(0.01));
    let pooler = (planned.target != "direct").then(|| Usage {
        cpu_us: cpu * transactions * noise * drift * (1.0 + 0.25 * crowd(clients)),
        rss_bytes: Some(((fixed + kib * clients) * 1024.0 * noise_memory) as u64),
        switches_voluntary: Some((transactions * 0.8) as u64),
        switches_involuntary: Some((transactions * 0.02) as u64),
    });
    let usage = |share: f64| Usage {
        cpu_us: share * 2.0 * outcome.seconds * 1e6,
        ..Usage::default()
    };
    let idle = if clients >= 500.0 { 0.02 } else { 0.11 };
    Costs {
        pooler,
        server: Some(usage(0.4)),
        generator: Some(usage(0.2)),
        machine: Some(Machine {
            cpus: 2,
            idle,
            foreign_cpu_us: Some(0.0),
            ..Machine::default()
        }),
    }
}

fn latency(mean: f64, clients: f64, random: &mut Random) -> Latency {
    let tail = 1.6 + clients.log10() * 0.8;
    let at = |factor: f64| mean * factor;
    let (p50, p90, p99, p999) = (
        at(0.9),
        at(1.4),
        at(tail * random.about(0.05)),
        at(tail * 2.2),
    );
    let bucket = |value: f64, count| (value as u64, count);
    let histogram = vec![
        bucket(p50, 500),
        bucket(p90, 400),
        bucket(p99, 90),
        bucket(p999, 9),
        bucket(p999 * 1.5, 1),
    ];
    Latency {
        mean,
        stddev: mean * 0.4,
        p50,
        p90,
        p99,
        p999,
        max: p999 * 1.5,
        histogram: Some(histogram),
    }
}

#[expect(clippy::too_many_lines, reason = "a flat table")]
fn targets() -> Vec<Target> {
    let target = |name: &str, title: &str, version: Option<&str>, fairness: &str| Target {
        name: name.to_owned(),
        title: title.to_owned(),
        version: version.map(str::to_owned),
        sha256: version
            .map(|_| "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".to_owned()),
        fairness: fairness.to_owned(),
        skipped: None,
        twin_of: None,
        untried: false,
    };
    let skipped = |name: &str, title: &str, why: &str| Target {
        untried: true,
        skipped: Some(why.to_owned()),
        ..target(name, title, None, "")
    };
    let bouncer = "One thread, as it is built; its own recommended settings.";
    vec![
        target(
            "direct",
            "No pooler",
            None,
            "As many server connections as clients.",
        ),
        target("pgbouncer", "PgBouncer", Some("PgBouncer 1.18.0"), bouncer),
        Target {
            twin_of: Some("pgbouncer".to_owned()),
            ..target(
                "pgbouncer-again",
                "PgBouncer again",
                Some("PgBouncer 1.18.0"),
                bouncer,
            )
        },
        target(
            "pgbouncer-x2",
            "PgBouncer, 2 processes",
            Some("PgBouncer 1.18.0"),
            "Two processes on one port.",
        ),
        target(
            "weir-1",
            "Weir, 1 worker",
            Some("weir 0.1.0"),
            "One thread, as PgBouncer.",
        ),
        target(
            "weir-2",
            "Weir, 2 workers",
            Some("weir 0.1.0"),
            "Two threads; compare by CPU per transaction.",
        ),
        target(
            "weir-4",
            "Weir, 4 workers",
            Some("weir 0.1.0"),
            "More threads than CPUs.",
        ),
        Target {
            untried: true,
            ..target("odyssey", "Odyssey", Some("odyssey 1.3"), "One worker.")
        },
        skipped(
            "pgcat",
            "PgCat",
            "no program named pgcat on this machine; --target-bin pgcat=PATH names one",
        ),
        skipped(
            "pgdog",
            "PgDog",
            "no program named pgdog on this machine; --target-bin pgdog=PATH names one",
        ),
    ]
}

fn environment() -> BTreeMap<String, BTreeMap<String, String>> {
    let section = |pairs: &[(&str, &str)]| factors(pairs);
    [
        (
            "cpu",
            section(&[
                ("model", "AMD EPYC 7B13"),
                ("usable", "2"),
                ("mitigations", "spectre_v2: on"),
            ]),
        ),
        (
            "kernel",
            section(&[
                ("release", "6.1.0-28-cloud-amd64"),
                ("clocksource", "kvm-clock"),
            ]),
        ),
        ("memory", section(&[("total", "24659172 kB")])),
        (
            "postgres",
            section(&[
                ("version", "PostgreSQL 15.18 (Debian 15.18-0+deb12u1) on x86_64-pc-linux-gnu, compiled by gcc"),
                ("shared_buffers", "2GB"),
                ("max_connections", "2000"),
            ]),
        ),
        (
            "tls",
            section(&[
                ("library", "rustls 0.23, aws-lc-rs"),
                ("cipher", "TLS_AES_256_GCM_SHA384"),
            ]),
        ),
    ]
    .into_iter()
    .map(|(name, facts)| (name.to_owned(), facts))
    .collect()
}
