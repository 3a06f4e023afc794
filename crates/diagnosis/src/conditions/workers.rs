//! Conditions of the process itself: workers, their event loops, and Weir's own invariants.

use weir_stats::{Severity, WorkerRow};

use crate::conditions::{Condition, Finding, first};
use crate::facts::Facts;
use crate::text;
use crate::windows::{PoolFigure, Span};

/// Share of a core from which on a worker counts as full.
const FULL: f64 = 0.9;
/// Share of a core below which a worker has room.
const ROOM: f64 = 0.5;
/// Turn of the event loop from which on a worker has stalled.
const STALL_US: u64 = 100_000;
/// Throttled periods in a minute that count, of 600 at the usual length.
const THROTTLED: f64 = 30.0;

/// operator-ui.md 4, no. 24.
pub(super) const WORKER_FULL: Condition = Condition {
    name: "worker_full",
    severities: &[Severity::Warning],
    meaning: "A worker uses a whole core while the others have room.",
    evidence: "More than 90 % of a core over 10 seconds, and less than 50 % by each of the others.",
    advice: "The worker with its share of the clients; a matter of the pooler.",
    sustain: 10,
    explains: &[],
    find: worker_full,
};

fn worker_full(facts: &Facts<'_>) -> Vec<Finding> {
    let workers = &facts.now.workers;
    let load = |row: &WorkerRow| facts.windows.worker_load(row.worker);
    let full: Vec<_> = workers.iter().filter(|row| load(row) > FULL).collect();
    let have_room = workers.iter().filter(|row| load(row) < ROOM).count();
    let [row] = full.as_slice() else {
        return Vec::new();
    };
    if workers.len() < 2 || have_room + 1 < workers.len() {
        return Vec::new();
    }
    let all = text::total(workers.iter().map(|row| row.clients));
    let percent = text::whole(load(row) * 100.0);
    let finding = Finding::new(Severity::Warning, format!("worker {}", row.worker))
        .evidence(format!(
            "{percent} % of a core, {} of {all} clients, {} servers; each other worker below 50 %",
            row.clients, row.servers
        ))
        .advice(format!(
            "Worker {} is full with {} of {all} clients: their requests wait for it. The pooler's \
             matter: clients stay with the worker that accepted them. Let the busiest ones \
             reconnect (KILL_CLIENT), so that they spread.",
            row.worker, row.clients
        ))
        .command("SHOW CLIENTS");
    vec![finding]
}

/// operator-ui.md 4, no. 25.
pub(super) const WORKERS_FULL: Condition = Condition {
    name: "workers_full",
    severities: &[Severity::Warning],
    meaning: "All workers use a whole core: Weir itself is the bottleneck.",
    evidence: "More than 90 % of a core by each worker over 10 seconds.",
    advice: "Rates of transactions and logins; more workers, cores or processes.",
    sustain: 10,
    explains: &[],
    find: workers_full,
};

fn workers_full(facts: &Facts<'_>) -> Vec<Finding> {
    let workers = &facts.now.workers;
    let is_full = |row: &WorkerRow| facts.windows.worker_load(row.worker) > FULL;
    if workers.is_empty() || !workers.iter().all(is_full) {
        return Vec::new();
    }
    let rate = |figure, nouns| {
        let rates = facts
            .pools
            .iter()
            .map(|pool| pool.rate(figure, Span::Short));
        text::rate(rates.sum(), nouns)
    };
    let finding = Finding::new(Severity::Warning, "")
        .evidence(format!(
            "{} above 90 % of a core; {}, {}",
            text::count(workers.len() as u64, "worker"),
            rate(PoolFigure::Transactions, "transactions"),
            rate(PoolFigure::ClientLogins, "logins"),
        ))
        .advice(format!(
            "Weir is bound by its processor time with {} and {}. The pooler's matter: if the \
             machine has more cores than workers, raise workers and restart; else run more \
             processes (so_reuseport). Logins with TLS cost the most: let applications keep their \
             connections.",
            rate(PoolFigure::Transactions, "transactions"),
            rate(PoolFigure::ClientLogins, "logins"),
        ))
        .command(format!("workers = {}", workers.len() * 2));
    vec![finding]
}

/// operator-ui.md 4, no. 40.
pub(super) const STALL: Condition = Condition {
    name: "worker_stalled",
    severities: &[Severity::Warning, Severity::Critical],
    meaning: "The event loop of a worker did not turn for 100 ms or longer; all its clients \
              waited.",
    evidence: "The longest turn of the last minute; critical from one second on.",
    advice: "Worker and duration; swapping, a quota of the control group, or a defect.",
    sustain: 1,
    explains: &[],
    find: stall,
};

fn stall(facts: &Facts<'_>) -> Vec<Finding> {
    let stalled = facts
        .now
        .workers
        .iter()
        .filter(|row| row.turn_max_us > STALL_US);
    first(stalled.map(|row| {
        let severity = match row.turn_max_us {
            1_000_000.. => Severity::Critical,
            _ => Severity::Warning,
        };
        let lasted = text::micros(row.turn_max_us);
        let throttled = text::whole(facts.windows.throttled());
        let throttled = match throttled {
            0 => String::new(),
            _ => format!(
                " The control group has taken the processor away {throttled} times \
                          within a minute."
            ),
        };
        Finding::new(severity, format!("worker {}", row.worker))
            .evidence(format!("longest turn of the last minute {lasted}"))
            .advice(format!(
                "Worker {} did not turn for {lasted}; its {} waited.{throttled} A matter of the \
                 machine: swapping, a quota of processor time, or other processes. If none of it \
                 is the case, report it.",
                row.worker,
                text::count(row.clients, "client"),
            ))
            .command("vmstat 1 5")
    }))
}

/// operator-ui.md 4, no. 40 for the quota of the control group.
pub(super) const THROTTLE: Condition = Condition {
    name: "cpu_throttled",
    severities: &[Severity::Warning],
    meaning: "The control group takes the processor away from Weir.",
    evidence: "30 throttled periods or more within a minute.",
    advice: "Number of periods; a higher quota, or fewer workers.",
    sustain: 1,
    explains: &[],
    find: throttle,
};

fn throttle(facts: &Facts<'_>) -> Vec<Finding> {
    let throttled = facts.windows.throttled();
    if throttled < THROTTLED {
        return Vec::new();
    }
    let periods = text::whole(throttled);
    let finding = Finding::new(Severity::Warning, "")
        .evidence(format!("{periods} throttled periods within a minute"))
        .advice(format!(
            "The quota of the control group was used up {periods} times within a minute, and Weir \
             stood still for the rest of each period. A matter of the machine: raise CPUQuota (in \
             Kubernetes, the limit on cpu), or set workers to the number of cores of the quota.",
        ))
        .command("cat /sys/fs/cgroup/cpu.stat");
    vec![finding]
}

/// operator-ui.md 4, no. 5 for look-ups.
pub(super) const LOOKUPS: Condition = Condition {
    name: "broken_lookups",
    severities: &[Severity::Critical],
    meaning: "Weir has not found an object that must exist. This is a defect of Weir.",
    evidence: "Such look-ups within the last minute.",
    advice: "Report the log lines.",
    sustain: 1,
    explains: &[],
    find: lookups,
};

fn lookups(facts: &Facts<'_>) -> Vec<Finding> {
    let broken = text::whole(facts.windows.broken_lookups());
    if broken == 0 {
        return Vec::new();
    }
    let finding = Finding::new(Severity::Critical, "")
        .evidence(format!(
            "{} within a minute, {} since the start",
            text::count(broken, "broken look-up"),
            facts.now.broken_lookups
        ))
        .advice(
            "The pooler's matter: a defect of Weir, which may cost single connections. Report the \
             lines of the log at this time.",
        );
    vec![finding]
}
