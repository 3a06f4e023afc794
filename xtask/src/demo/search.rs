//! A pool that finds its size: its throughput and its decisions as they happen, then runs under fixed sizes that tell what
//! the size is worth on this machine.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use fastrand::Rng;
use weir_lab::clock;
use weir_lab::ports::free_port;
use weir_lab::postgres::USER;
use weir_lab::process::run_to_end;
use weir_lab::statistics::median;
use weir_lab::statistics::ratio::Ratio;
use weir_lab::table::{bar, thousands};
use weir_lab::weir::{Pool, Weir, decisions};

use super::load::{Load, Work};
use super::{SERVERS, SERVERS_MAX, Stage, compare, note};

/// The search ends when the pool holds a size, but not before and not after these times.
const SEARCH_MIN: Duration = Duration::from_secs(32);
const SEARCH_MAX: Duration = Duration::from_secs(45);
const LOOK: Duration = Duration::from_millis(500);
/// Seconds of throughput in a line.
const SECONDS_PER_LINE: usize = 2;
const BAR_WIDTH: u32 = 30;

const CHECK_ROUNDS: u32 = 4;
const CHECK_WARM_UP: Duration = Duration::from_millis(500);
const CHECK_TIME: Duration = Duration::from_secs(2);

/// Character that no column of the console has.
const SEPARATOR: &str = "\u{1f}";

/// Runs the load until the pool holds a size, and returns this size.
pub(super) fn run(stage: &Stage<'_>, weir: &Weir) -> Result<u32> {
    let programs = stage.cluster.programs();
    let load = load(
        stage,
        Duration::ZERO,
        SEARCH_MAX + Duration::from_secs(5),
        1,
    );
    note("This is another load than above, one for which the number of servers matters:");
    note(&format!(
        "{} clients, whose transactions pause 60 ms for their client and then all need one row. The pool begins",
        load.clients
    ));
    note(
        "with 20 servers, looks on for five seconds, then tries fewer and more, and keeps what is better.",
    );
    // Stopped when dropped.
    let mut running = load.start(&programs.path("pgbench")?, weir.address())?;
    let begun = clock::now();
    let (mut told, mut shown, mut full) = (0, 0, 0.0);
    loop {
        stage.interrupt.wait(LOOK)?;
        running.check()?;
        let passed = clock::now().saturating_duration_since(begun);
        let log = weir.log()?;
        let decisions = decisions(&log);
        for (_, words) in decisions.iter().skip(told) {
            println!("          {words}");
        }
        told = decisions.len();
        let seconds = running.seconds()?;
        let pool = Pool::look(programs, weir.address())?;
        let rest = seconds.get(shown..).unwrap_or_default();
        for line in rest.chunks_exact(SECONDS_PER_LINE) {
            let rate = median(line).unwrap_or_default();
            // The first line is drawn half as long as a line can be: the throughput has room to grow.
            full = if full > 0.0 { full } else { 2.0 * rate };
            shown += line.len();
            println!("{}", row(shown, pool.size, rate, full));
        }
        if passed > SEARCH_MAX || (passed > SEARCH_MIN && pool.state == "holds") {
            return Ok(pool.size);
        }
    }
}

fn row(seconds: usize, size: u32, rate: f64, full: f64) -> String {
    let bar = bar(rate, full, BAR_WIDTH);
    let width = BAR_WIDTH as usize;
    format!(
        "  {seconds:>3} s  {size:>3} servers  {bar:<width$} {} transactions/s",
        thousands(rate)
    )
}

/// Runs the load for a short time through pools of the size that was found, of the usual size, and of one server per
/// client, by turns, and tells what the sizes are worth.
pub(super) fn check(stage: &Stage<'_>, found: u32) -> Result<()> {
    let pgbench = stage.cluster.programs().path("pgbench")?;
    let mut pools = Vec::new();
    for size in sizes(found) {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let weir = stage.weir_at(address, &size.to_string(), &[])?;
        pools.push((size, weir, Vec::new()));
    }
    note("Short runs under fixed sizes, by turns, to check it:");
    let mut rng = Rng::with_seed(clock::since_epoch().as_secs());
    for round in 1..=CHECK_ROUNDS {
        let load = load(stage, CHECK_WARM_UP, CHECK_TIME, u64::from(round));
        let mut order: Vec<_> = pools.iter_mut().collect();
        rng.shuffle(&mut order);
        for (size, weir, rates) in order {
            let outcome = load.run(&pgbench, weir.address(), None, stage.interrupt, || ())?;
            let rate = outcome.per_second;
            println!(
                "  round {round}/{CHECK_ROUNDS}  {size:>3} servers  {:>8} transactions/s",
                thousands(rate)
            );
            rates.push(rate);
        }
    }
    let rates: Vec<(u32, Vec<f64>)> = pools
        .into_iter()
        .map(|(size, _, rates)| (size, rates))
        .collect();
    println!("\n{}", verdict(&rates));
    Ok(())
}

/// Returns the sizes to compare, the one found first.
fn sizes(found: u32) -> Vec<u32> {
    let mut sizes = vec![found];
    sizes.extend(
        [SERVERS, SERVERS_MAX]
            .into_iter()
            .filter(|&size| size != found),
    );
    sizes
}

/// Tells the ratio of the first size to each other, and if sizes matter here at all.
fn verdict(rates: &[(u32, Vec<f64>)]) -> String {
    let Some(((found, own), others)) = rates.split_first() else {
        return String::new();
    };
    let mut text = String::new();
    let mut differs = false;
    for (size, rates) in others {
        let pairs: Vec<(f64, f64)> = own.iter().copied().zip(rates.iter().copied()).collect();
        let Some(ratio) = Ratio::of(&pairs) else {
            continue;
        };
        differs |= ratio
            .interval
            .is_some_and(|interval| !interval.contains(1.0));
        text.push_str(&format!(
            "  throughput of {found} servers / {size} servers: {}\n",
            compare::words(&ratio, true)
        ));
    }
    if !differs {
        text.push_str(
            "So short runs cannot tell these sizes apart on this machine: the pool may end at any of them.\n",
        );
    }
    text
}

/// Shows the console's row of the pool.
pub(super) fn show(stage: &Stage<'_>, weir: &Weir) -> Result<()> {
    let (host, port) = (weir.address().ip(), weir.address().port());
    let mut command = Command::new(stage.cluster.programs().path("psql")?);
    command.args(["-X", "-A", "-x", "-F", SEPARATOR]);
    command.args(["-h", &host.to_string(), "-p", &port.to_string()]);
    command.args(["-U", USER, "-c", "SHOW POOL_SIZE", "pgbouncer"]);
    let table = run_to_end(&mut command)?;
    println!("SHOW POOL_SIZE on port {port}:\n{}", expanded(&table));
    println!("docs/guide/pool-size.md explains it.\n");
    Ok(())
}

/// Aligns psql's expanded rows, with each decision on a line of its own.
fn expanded(table: &str) -> String {
    let rows = table.lines().filter_map(|line| line.split_once(SEPARATOR));
    rows.map(|(name, value)| {
        format!(
            "  {name:<10}  {}\n",
            value.replace("; ", "\n              ")
        )
    })
    .collect()
}

fn load(stage: &Stage<'_>, warm_up: Duration, measured: Duration, seed: u64) -> Load {
    Load {
        work: Work::Pausing,
        clients: stage.flags.clients,
        warm_up,
        measured,
        seed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_within_the_noise_are_not_told_apart() {
        let rates = |values: [f64; 3]| values.to_vec();
        let near = [
            (8, rates([100.0, 110.0, 90.0])),
            (100, rates([101.0, 108.0, 92.0])),
        ];
        assert!(verdict(&near).contains("cannot tell"));
        let far = [
            (8, rates([100.0, 101.0, 102.0])),
            (100, rates([50.0, 51.0, 51.0])),
        ];
        assert!(!verdict(&far).contains("cannot tell"), "{}", verdict(&far));
    }

    #[test]
    fn each_decision_has_a_line() {
        let table = [
            "size|7",
            "decisions|1 s ago stays 7: why; 9 s ago 8 -> 7: why",
        ];
        let table = table.join("\n").replace('|', SEPARATOR);
        let lines = "  size        7\n  decisions   1 s ago stays 7: why\n              9 s ago 8 -> 7: why\n";
        assert_eq!(expanded(&table), lines);
    }

    #[test]
    fn no_size_is_compared_with_itself() {
        assert_eq!(sizes(7), [7, 20, 100]);
        assert_eq!(sizes(20), [20, 100]);
        assert_eq!(sizes(100), [100, 20]);
    }
}
