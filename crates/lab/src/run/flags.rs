//! Checks that raise doubts about a cell's figures.

use crate::record::{Costs, Flag, FlagKind, Outcome, Usage};
use crate::statistics::steady::{self, Steadiness};

/// Plan of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Wanted {
    pub(super) clients: u32,
    /// Number of generator threads.
    pub(super) threads: u32,
    /// True if clients send as soon as they have an answer, on connections that stay open.
    pub(super) closed: bool,
    /// True if clients stay connected.
    pub(super) stay: bool,
    /// True if clients send nothing.
    pub(super) idle: bool,
}

/// Share of its CPUs from which on a program counts as saturated.
const SATURATED: f64 = 0.90;
const IDLE_MIN: f64 = 0.05;
const STEAL_MAX: f64 = 0.01;
const FOREIGN_MAX: f64 = 0.05;
const LAG_MAX: f64 = 0.10;

/// Returns all flags of a cell, in the order of [`FlagKind`].
pub(super) fn flags(wanted: Wanted, outcome: &Outcome, costs: &Costs) -> Vec<Flag> {
    let mut flags: Vec<Flag> = machine(wanted, outcome, costs);
    if outcome.errors > 0 {
        let detail = format!(
            "{} of {} transactions failed{}",
            outcome.errors,
            outcome.transactions + outcome.errors,
            codes(outcome)
        );
        flags.push(flag(FlagKind::Errors, detail));
    }
    if outcome.unfinished > 0 {
        let detail = format!(
            "{} transactions were not over at the end",
            outcome.unfinished
        );
        flags.push(flag(FlagKind::Unfinished, detail));
    }
    let all = u64::from(wanted.clients);
    if let Some(connected) = outcome
        .connected
        .filter(|connected| wanted.stay && *connected < all)
    {
        let detail = format!("{connected} of {all} clients were connected at the end");
        flags.push(flag(FlagKind::Errors, detail));
    }
    flags.extend(little(wanted, outcome));
    flags.extend(lag(outcome));
    if !wanted.idle {
        flags.extend(unsteady(&outcome.per_second));
    }
    flags.sort_by_key(|flag| flag.kind);
    flags
}

/// Formats codes as ` (8x 57P01, 4x closed)`; empty if the generator does not report them.
fn codes(outcome: &Outcome) -> String {
    let mut codes: Vec<(&String, &u64)> = outcome.errors_by_code.iter().collect();
    codes.sort_by_key(|(code, count)| (std::cmp::Reverse(**count), *code));
    let each: Vec<String> = codes
        .iter()
        .map(|(code, count)| format!("{count}x {code}"))
        .collect();
    if each.is_empty() {
        String::new()
    } else {
        format!(" ({})", each.join(", "))
    }
}

fn flag(kind: FlagKind, detail: String) -> Flag {
    Flag { kind, detail }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn machine(wanted: Wanted, outcome: &Outcome, costs: &Costs) -> Vec<Flag> {
    let Some(machine) = costs.machine else {
        return Vec::new();
    };
    let cpus = f64::from(machine.cpus.max(1));
    let micros = outcome.seconds * 1e6;
    let mut flags = Vec::new();
    let mut check = |kind, bad: bool, detail: String| {
        if bad {
            flags.push(flag(kind, detail));
        }
    };
    let foreign = machine.foreign_cpu_us.unwrap_or(0.0) / (cpus * micros);
    check(
        FlagKind::Foreign,
        foreign > FOREIGN_MAX,
        format!("other programs used {} of the machine", percent(foreign)),
    );
    let share = |usage: Option<Usage>, of: f64| usage.map_or(0.0, |u| u.cpu_us / (of * micros));
    let own = f64::from(wanted.threads).min(cpus).max(1.0);
    let generator = share(costs.generator, own);
    check(
        FlagKind::GeneratorSaturated,
        generator >= SATURATED,
        format!("the generator used {} of {own} CPUs", percent(generator)),
    );
    let server = share(costs.server, cpus);
    check(
        FlagKind::ServerSaturated,
        server >= SATURATED,
        format!("PostgreSQL used {} of {cpus} CPUs", percent(server)),
    );
    check(
        FlagKind::MachineSaturated,
        machine.idle + machine.iowait < IDLE_MIN,
        format!("{} of the machine was idle", percent(machine.idle)),
    );
    check(
        FlagKind::Steal,
        machine.steal > STEAL_MAX,
        format!("{} of the CPU time was stolen", percent(machine.steal)),
    );
    flags
}

/// Checks Little's law for a closed loop, N = X · R. A deviation means that clients waited for the
/// generator rather than for the target.
fn little(wanted: Wanted, outcome: &Outcome) -> Option<Flag> {
    let latency = outcome.latency.as_ref().filter(|_| wanted.closed)?;
    let clients = f64::from(wanted.clients);
    let off = steady::little(clients, outcome.tps, latency.mean)?;
    (off > steady::LITTLE).then(|| {
        let seen = outcome.tps * latency.mean / 1e6;
        let detail = format!("throughput times latency gives {seen:.1} clients, not {clients}");
        flag(FlagKind::LittleViolated, detail)
    })
}

fn lag(outcome: &Outcome) -> Option<Flag> {
    let lag = outcome.lag_us_p50?;
    let median = outcome.latency.as_ref()?.p50;
    (lag > LAG_MAX * median).then(|| {
        let detail =
            format!("transactions began {lag:.0} µs late, with a median of {median:.0} µs");
        flag(FlagKind::ScheduleLag, detail)
    })
}

fn unsteady(per_second: &[f64]) -> Option<Flag> {
    let found = Steadiness::of(per_second).filter(|found| !found.is_steady())?;
    let detail = format!(
        "the second half was {:+.1} % off the first, the slope {:+.2} % per second (p = {:.3})",
        found.halves * 100.0,
        found.slope * 100.0,
        found.slope_p
    );
    Some(flag(FlagKind::Unsteady, detail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Latency, Machine};

    const WANTED: Wanted = Wanted {
        clients: 50,
        threads: 4,
        closed: true,
        stay: true,
        idle: false,
    };

    /// Returns an outcome of fifty clients at 1 ms each, on two CPUs that are half idle.
    fn outcome() -> Outcome {
        Outcome {
            transactions: 500_000,
            seconds: 10.0,
            tps: 50_000.0,
            latency: Some(Latency {
                mean: 1000.0,
                p50: 900.0,
                ..Latency::default()
            }),
            per_second: vec![50_000.0; 10],
            ..Outcome::default()
        }
    }

    fn usage(seconds: f64) -> Option<Usage> {
        Some(Usage {
            cpu_us: seconds * 1e6,
            ..Usage::default()
        })
    }

    fn costs() -> Costs {
        Costs {
            pooler: usage(4.0),
            server: usage(4.0),
            generator: usage(2.0),
            machine: Some(Machine {
                cpus: 2,
                idle: 0.5,
                ..Machine::default()
            }),
        }
    }

    fn kinds(wanted: Wanted, outcome: &Outcome, costs: &Costs) -> Vec<FlagKind> {
        flags(wanted, outcome, costs)
            .iter()
            .map(|flag| flag.kind)
            .collect()
    }

    fn with(change: impl FnOnce(&mut Outcome, &mut Costs, &mut Machine)) -> Vec<FlagKind> {
        let (mut outcome, mut costs) = (outcome(), costs());
        let mut machine = costs.machine.unwrap();
        change(&mut outcome, &mut costs, &mut machine);
        costs.machine = Some(machine);
        kinds(WANTED, &outcome, &costs)
    }

    #[test]
    fn a_good_cell_has_no_flag() {
        assert_eq!(kinds(WANTED, &outcome(), &costs()), []);
    }

    #[test]
    fn every_flag_is_raised_by_its_cause_alone() {
        let cases = [
            (FlagKind::Errors, with(|outcome, _, _| outcome.errors = 1)),
            (
                FlagKind::Foreign,
                with(|_, _, machine| machine.foreign_cpu_us = Some(1.1e6)),
            ),
            (
                FlagKind::GeneratorSaturated,
                with(|_, costs, _| costs.generator = usage(18.1)),
            ),
            (
                FlagKind::MachineSaturated,
                with(|_, _, machine| machine.idle = 0.04),
            ),
            (
                FlagKind::LittleViolated,
                with(|outcome, _, _| outcome.tps = 48_000.0),
            ),
            (
                FlagKind::ScheduleLag,
                with(|outcome, _, _| outcome.lag_us_p50 = Some(91.0)),
            ),
            (
                FlagKind::ServerSaturated,
                with(|_, costs, _| costs.server = usage(18.1)),
            ),
            (FlagKind::Steal, with(|_, _, machine| machine.steal = 0.011)),
            (
                FlagKind::Unfinished,
                with(|outcome, _, _| outcome.unfinished = 1),
            ),
            (
                FlagKind::Unsteady,
                with(|outcome, _, _| outcome.per_second[5..].fill(48_000.0)),
            ),
        ];
        for (kind, found) in cases {
            assert_eq!(found, [kind]);
        }
    }

    #[test]
    fn one_thread_is_saturated_by_one_cpu() {
        let wanted = Wanted {
            threads: 1,
            ..WANTED
        };
        let mut costs = costs();
        costs.generator = usage(9.5);
        assert_eq!(
            kinds(wanted, &outcome(), &costs),
            [FlagKind::GeneratorSaturated]
        );
        assert_eq!(kinds(WANTED, &outcome(), &costs), []);
    }

    #[test]
    fn littles_law_is_asked_of_closed_loops_only() {
        let wanted = Wanted {
            closed: false,
            ..WANTED
        };
        let mut outcome = outcome();
        outcome.tps = 10.0;
        assert_eq!(kinds(wanted, &outcome, &costs()), []);
    }

    #[test]
    fn clients_that_are_gone_are_an_error_unless_they_come_and_go() {
        let mut outcome = outcome();
        outcome.connected = Some(49);
        assert_eq!(kinds(WANTED, &outcome, &costs()), [FlagKind::Errors]);
        let storm = Wanted {
            stay: false,
            ..WANTED
        };
        assert_eq!(kinds(storm, &outcome, &costs()), []);
    }

    #[test]
    fn the_detail_has_the_figure() {
        let mut outcome = outcome();
        outcome.errors = 3;
        let found = flags(WANTED, &outcome, &costs());
        assert_eq!(found[0].detail, "3 of 500003 transactions failed");
        outcome.errors_by_code = [("57P01".to_owned(), 1), ("closed".to_owned(), 2)].into();
        let found = flags(WANTED, &outcome, &costs());
        assert_eq!(
            found[0].detail,
            "3 of 500003 transactions failed (2x closed, 1x 57P01)"
        );
    }
}
