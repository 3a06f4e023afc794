//! Doubts about a whole result, and limits of applying it elsewhere.

use super::{Finding, Groups, Spot};

/// Share of the server's machine from which on the load's use is reported.
const GENERATOR: f64 = 0.1;
/// Share of stolen CPU time from which on it is reported.
const STEAL: f64 = 0.01;

/// Returns the limits that every run of this kind has, which do not reduce the confidence.
pub(super) fn notes(finding: &Finding) -> Vec<String> {
    if finding.settings.round_trip_ms > 0.0 {
        return vec![format!(
            "a network was pretended: the load waited {} ms more after each round trip",
            finding.settings.round_trip_ms
        )];
    }
    let text = if finding.kind == "watch" {
        "nobody varied the load: throughput at each concurrency is what was asked for, not what the server could do, and \
         a transaction's time is concurrency over throughput"
    } else {
        "load and server are as far apart as here: a client further away holds its connection longer, and a chatty one \
         needs more of them"
    };
    vec![text.to_owned()]
}

/// Returns the doubts that reduce the confidence.
pub(super) fn of(finding: &Finding, groups: &Groups) -> Vec<String> {
    let mut found = Vec::new();
    let spots = || groups.values().flatten();
    let most = |of: fn(&Spot) -> Option<f64>| spots().filter_map(of).reduce(f64::max);
    let near = spots().any(|spot| spot.server_cpu_ms.is_some());
    if near
        && let Some(share) = most(|spot| spot.generator_share).filter(|share| *share > GENERATOR)
    {
        found.push(format!(
            "the load ran on the server's machine and took up to {:.0} % of its CPUs: the server alone would do more",
            100.0 * share
        ));
    }
    let steal = most(|spot| spot.processor.map(|processor| processor.steal));
    if let Some(steal) = steal.filter(|steal| *steal > STEAL) {
        found.push(format!(
            "others on the same host took up to {:.0} % of the CPU time",
            100.0 * steal
        ));
    }
    let errors: u64 = spots().map(|spot| spot.errors).sum();
    if errors > 0 {
        found.push(format!("{errors} transactions failed"));
    }
    if finding.settings.debug && finding.settings.path == "weir" {
        found.push("a debug build of Weir stood in between".to_owned());
    }
    if finding.measured < finding.settings.planned {
        found.push(format!(
            "only {} of {} cells have figures",
            finding.measured, finding.settings.planned
        ));
    }
    found
}
