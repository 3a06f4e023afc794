//! Runs seeds on all cores: a fixed range, or fresh seeds until the time is over.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::global::lock;

/// Seeds that a plain `cargo test` runs; CI runs more of them in an optimised build.
const FIXED: Range<u64> = 0..20;
/// Number of findings after which a run ends: mostly they have the same cause.
const FINDINGS_MAX: usize = 5;
/// Maximum number of characters of a failure in a list.
const LINE: usize = 400;
/// Period of the lines about the progress.
const REPORT: Duration = Duration::from_secs(10);

/// Seeds to run, from the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Order {
    /// Value of `WEIR_SIM_SEEDS=A..B`; the end is open if a time is given.
    seeds: Range<u64>,
    /// Value of `WEIR_SIM_SECONDS`: time during which new seeds are taken.
    time: Option<Duration>,
    /// Value of `WEIR_SIM_THREADS`, or one thread for each core.
    threads: usize,
    /// True if `WEIR_SIM_LOUD` is set: the progress is printed.
    is_loud: bool,
    /// True if `WEIR_SIM_LIST` is set: every failing seed is printed in a line, and none is shrunk.
    lists: bool,
}

impl Order {
    pub(super) fn from_environment() -> Self {
        let read = |name: &str| std::env::var(name).ok();
        let number = |name: &str| read(name).and_then(|text| text.parse::<u64>().ok());
        let time = number("WEIR_SIM_SECONDS").map(Duration::from_secs);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = number("WEIR_SIM_THREADS").and_then(|many| usize::try_from(many).ok());
        Self {
            seeds: read("WEIR_SIM_SEEDS").map_or(FIXED, |text| range(&text)),
            time,
            threads: threads.unwrap_or(cores),
            is_loud: read("WEIR_SIM_LOUD").is_some(),
            lists: read("WEIR_SIM_LIST").is_some(),
        }
    }
}

/// Parses `7`, `7..9` or `7..`.
fn range(text: &str) -> Range<u64> {
    let number = |text: &str| {
        let parsed = text.parse::<u64>();
        parsed.unwrap_or_else(|_| panic!("WEIR_SIM_SEEDS is no range of seeds: {text}"))
    };
    match text.split_once("..") {
        None => number(text)..number(text) + 1,
        Some((from, "")) => number(from)..u64::MAX,
        Some((from, to)) => number(from)..number(to),
    }
}

/// Counters of the operations that a simulation performed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) ops: u64,
    pub(super) faults: u64,
    /// Number of reads that replicas executed.
    pub(super) replica_reads: u64,
    /// Number of clients that an upgrade moved to another process.
    pub(super) moved: u64,
}

/// Sums over all threads of a run.
#[derive(Debug, Default)]
struct Totals {
    seeds: AtomicU64,
    ops: AtomicU64,
    faults: AtomicU64,
    moved: AtomicU64,
    replica_reads: AtomicU64,
}

impl Totals {
    fn add(&self, tally: Tally) {
        self.seeds.fetch_add(1, Ordering::Relaxed);
        self.ops.fetch_add(tally.ops, Ordering::Relaxed);
        self.faults.fetch_add(tally.faults, Ordering::Relaxed);
        self.moved.fetch_add(tally.moved, Ordering::Relaxed);
        self.replica_reads
            .fetch_add(tally.replica_reads, Ordering::Relaxed);
    }

    #[expect(clippy::cast_precision_loss, reason = "shown to people")]
    fn line(&self, elapsed: Duration) -> String {
        let seeds = self.seeds.load(Ordering::Relaxed);
        let ops = self.ops.load(Ordering::Relaxed);
        let share = self.faults.load(Ordering::Relaxed) as f64 * 100.0 / ops.max(1) as f64;
        let moved = self.moved.load(Ordering::Relaxed);
        let reads = self.replica_reads.load(Ordering::Relaxed);
        let seconds = elapsed.as_secs_f64();
        format!(
            "{seeds} seeds in {seconds:.0} s ({:.0} a second), {ops} operations, {share:.1} % of them faults, \
             {moved} clients moved to another process, {reads} reads on replicas",
            seeds as f64 / seconds
        )
    }
}

/// Runs one seed. Fails with the story of the shortest plan that fails alike; if the flag is true, with one line instead.
pub(super) type One = fn(u64, bool) -> Result<Tally, String>;

/// Runs all seeds. Panics if one fails, after printing the shortest plans that fail alike.
#[expect(
    clippy::disallowed_methods,
    reason = "no part of a simulation: it says when to stop taking seeds"
)]
pub(super) fn run(order: &Order, one: One) {
    let start = Instant::now();
    let next = AtomicU64::new(order.seeds.start);
    let totals = Totals::default();
    let findings = Mutex::new(Vec::new());
    let is_over = AtomicBool::new(false);
    let reported = Mutex::new(start);
    let work = || {
        while !is_over.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let elapsed = start.elapsed();
            if seed >= order.seeds.end || order.time.is_some_and(|time| elapsed >= time) {
                return;
            }
            match one(seed, order.lists) {
                Ok(tally) => totals.add(tally),
                Err(finding) => {
                    eprintln!("{finding}");
                    let mut findings = lock(&findings);
                    findings.push(seed);
                    let enough = findings.len() >= FINDINGS_MAX && !order.lists;
                    is_over.fetch_or(enough, Ordering::Relaxed);
                }
            }
            let mut last = lock(&reported);
            if order.is_loud && last.elapsed() > REPORT {
                *last = Instant::now();
                eprintln!("{}", totals.line(elapsed));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..order.threads {
            scope.spawn(work);
        }
    });
    if order.is_loud {
        eprintln!("{}", totals.line(start.elapsed()));
    }
    let findings = lock(&findings);
    assert!(
        findings.is_empty(),
        "{} seeds failed: {findings:?}",
        findings.len()
    );
}

/// Returns a failure in one line.
pub(super) fn in_a_line(seed: u64, failure: &str) -> String {
    let line = failure.replace('\n', " ");
    format!(
        "seed {seed}: {}",
        line.chars().take(LINE).collect::<String>()
    )
}

mod tests {
    use super::*;

    #[test]
    fn seeds_are_named_alone_or_as_a_range_that_may_be_open() {
        assert_eq!(range("7"), 7..8);
        assert_eq!(range("7..9"), 7..9);
        assert_eq!(range("7.."), 7..u64::MAX);
    }
}
