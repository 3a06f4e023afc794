//! The section of one workload: its figures, the criteria, the fitted curve, the waits, the CPUs.

use std::collections::BTreeMap;

use weir_advisor::analysis::waits::Class;

use super::sections::{maybe, name, quote};
use crate::report::document::{Block, Table};
use crate::report::format::NONE;
use crate::report::prose::Prose;
use crate::tune::finding::{Banded, Curve, Finding, Series, Spot, class_name};

/// Maximum number of events in a table; the finding has all of them.
const EVENTS: usize = 14;

pub(super) fn blocks(finding: &Finding, series: &Series) -> Vec<Block> {
    let mut blocks = vec![
        Block::section(name(series)),
        Block::Table(figures(finding, series)),
    ];
    if series.spots.iter().any(|spot| {
        spot.latency
            .is_some_and(|latency| !latency.merged && latency.p99 > 0.0)
    }) {
        blocks.push(Block::Note(Prose::quote(
            "Where there were too many transactions to write down each, percentiles are of a sample, the median of the \
             repetitions; mean and standard deviation are of all.",
        )));
    }
    if !series.judgement.rules.is_empty() {
        blocks.push(Block::Table(rules(series)));
        blocks.extend(series.judgement.curve.as_ref().map(law));
        blocks.push(Block::Table(elasticities(series)));
    }
    blocks.extend(waits(series));
    blocks.extend(pools(series));
    blocks.extend(processors(series));
    blocks
}

/// Returns the table of throughput and latency at each number of connections.
pub(super) fn figures(finding: &Finding, series: &Series) -> Table {
    let caption = match finding.settings.pool_clients {
        Some(clients) => format!(
            "{}: {clients} clients, servers of the pool varied",
            name(series)
        ),
        None => format!("{}: figures", name(series)),
    };
    let mut table = Table::new(
        caption,
        &[
            ">connections",
            ">TPS",
            ">lowest",
            ">highest",
            ">mean ms",
            ">stddev",
            ">p50",
            ">p90",
            ">p99",
            ">p99.9",
            ">TPS x mean",
            ">errors",
        ],
    );
    for spot in &series.spots {
        let latency = spot.latency;
        let of = |figure: Option<f64>| maybe(figure.filter(|figure| *figure > 0.0), 2);
        let little = latency.map(|latency| spot.tps.mean * latency.mean / 1000.0);
        table.row([
            spot.connections.to_string(),
            format!("{:.0}", spot.tps.mean),
            format!("{:.0}", spot.tps.low),
            format!("{:.0}", spot.tps.high),
            of(latency.map(|latency| latency.mean)),
            of(latency.map(|latency| latency.stddev)),
            of(latency.map(|latency| latency.p50)),
            of(latency.map(|latency| latency.p90)),
            of(latency.map(|latency| latency.p99)),
            of(latency.map(|latency| latency.p999)),
            maybe(little, 1),
            spot.errors.to_string(),
        ]);
    }
    table
}

fn rules(series: &Series) -> Table {
    let mut table = Table::new(
        "Every criterion",
        &[
            "criterion",
            "how",
            ">connections",
            ">of the best throughput",
        ],
    );
    for rule in &series.judgement.rules {
        let part = rule
            .part_of_best
            .map(|part| format!("{:.0} %", 100.0 * part));
        table.row([
            rule.name.clone(),
            rule.formula.clone(),
            maybe(rule.connections, 1),
            part.unwrap_or_else(|| NONE.to_owned()),
        ]);
    }
    table
}

fn law(curve: &Curve) -> Block {
    let band = |band: Option<Banded>| match band {
        Some(band) => format!("{:.1} ({:.1} to {:.1})", band.value, band.low, band.high),
        None => "beyond what was measured".to_owned(),
    };
    quote(&format!(
        "Universal Scalability Law: {:.0} per second for one connection ({:.0} to {:.0}), contention {:.4}, coherency {:.5}; \
         95 % of its height: {}; highest: {}; a point is {:.0} % off at most. In brackets the 95 % interval of a bootstrap.",
        curve.gamma.value,
        curve.gamma.low,
        curve.gamma.high,
        curve.sigma,
        curve.kappa,
        band(curve.near_peak),
        band(curve.peak),
        100.0 * curve.residual_max
    ))
}

fn elasticities(series: &Series) -> Table {
    let mut table = Table::new(
        "One per cent more connections bring so many per cent more throughput",
        &["connections", ">elasticity"],
    );
    for (from, to, value) in &series.judgement.elasticities {
        table.row([format!("{from} to {to}"), format!("{value:.2}")]);
    }
    table
}

fn waits(series: &Series) -> Vec<Block> {
    let mut sums: BTreeMap<(&str, &str), f64> = BTreeMap::new();
    for wait in series.spots.iter().flat_map(|spot| &spot.waits) {
        *sums
            .entry((wait.class.as_str(), wait.event.as_str()))
            .or_default() += wait.average;
    }
    if sums.is_empty() {
        return Vec::new();
    }
    let mut events: Vec<((&str, &str), f64)> = sums.into_iter().collect();
    events.sort_by(|one, other| other.1.total_cmp(&one.1));
    events.truncate(EVENTS);
    let mut table = with_places("What sessions did: average sessions", "event", series);
    for ((class, event), _) in events {
        let entry = |spot: &Spot| {
            let mut waits = spot.waits.iter();
            let wait = waits.find(|wait| wait.class == class && wait.event == event);
            wait.map_or_else(
                || NONE.to_owned(),
                |wait| {
                    format!(
                        "{:.2} ± {:.2} ({:.2})",
                        wait.average, wait.error, wait.when_present
                    )
                },
            )
        };
        let title = title(class, event);
        table.row(std::iter::once(title).chain(series.spots.iter().map(entry)));
    }
    let row = |title: &str, entry: &dyn Fn(&Spot) -> String| {
        std::iter::once(title.to_owned())
            .chain(series.spots.iter().map(entry))
            .collect::<Vec<_>>()
    };
    table.row(row("all that are active", &|spot| {
        format!("{:.2}", spot.active)
    }));
    table.row(row("of CPU: had no core", &|spot| {
        maybe(spot.without_core, 2)
    }));
    table.row(row("snapshots", &|spot| spot.snapshots.to_string()));
    vec![
        Block::Table(table),
        Block::Note(Prose::quote(
            "Sessions on average over all snapshots ± standard error, which is what can be compared with cores. In brackets \
             the average over those snapshots alone in which the event was seen: the published formula, which says how bad an \
             event is when it comes, and is larger than the truth. \"CPU\" is all that is in no wait that PostgreSQL names. \
             Sessions idle in a transaction wait for their client and hold their connection.",
        )),
    ]
}

/// Returns the title of an event. Client waits and races carry their class, because the same event
/// may occur in other states too.
fn title(class: &str, event: &str) -> String {
    if !event.contains(':') {
        class.to_owned()
    } else if [Class::ClientInTransaction, Class::Race]
        .map(class_name)
        .contains(&class)
    {
        format!("{event} ({class})")
    } else {
        event.to_owned()
    }
}

fn pools(series: &Series) -> Vec<Block> {
    if series.spots.iter().all(|spot| spot.pool.is_none()) {
        return Vec::new();
    }
    let mut table = with_places("Clients on average, exact, by Weir's own books", "", series);
    let mut row = |title: &str, of: &dyn Fn(&Spot) -> Option<f64>| {
        let entries = series.spots.iter().map(|spot| maybe(of(spot), 2));
        table.row(std::iter::once(title.to_owned()).chain(entries));
    };
    row("wait for a server", &|spot| {
        spot.pool.map(|pool| pool.queue)
    });
    row("hold one that works", &|spot| {
        spot.pool.map(|pool| pool.server)
    });
    row("hold one that waits for them", &|spot| {
        spot.pool.map(|pool| pool.client)
    });
    vec![Block::Table(table)]
}

fn processors(series: &Series) -> Vec<Block> {
    let seen = |spot: &&Spot| spot.processor.is_some();
    if series.spots.iter().find(seen).is_none() {
        return Vec::new();
    }
    let mut table = with_places("The server's machine", "", series);
    let mut row = |title: &str, show: &dyn Fn(&Spot) -> Option<String>| {
        let entries = series
            .spots
            .iter()
            .map(|spot| show(spot).unwrap_or_else(|| NONE.to_owned()));
        table.row(std::iter::once(title.to_owned()).chain(entries));
    };
    let percent = |part: f64| format!("{:.0} %", 100.0 * part);
    row("user", &|spot| Some(percent(spot.processor?.user)));
    row("nice", &|spot| Some(percent(spot.processor?.nice)));
    row("system", &|spot| Some(percent(spot.processor?.system)));
    row("waiting for disks", &|spot| {
        Some(percent(spot.processor?.iowait))
    });
    row("stolen", &|spot| Some(percent(spot.processor?.steal)));
    row("time with someone waiting for a CPU", &|spot| {
        Some(percent(spot.processor?.pressure?))
    });
    row("the load's part of all CPUs", &|spot| {
        Some(percent(spot.generator_share?))
    });
    row("load average", &|spot| {
        Some(format!("{:.1}", spot.processor?.load))
    });
    row("context switches per second", &|spot| {
        Some(format!("{:.0}", spot.processor?.switches_per_s))
    });
    row("server's CPU per transaction", &|spot| {
        Some(format!("{:.2} ms", spot.server_cpu_ms?))
    });
    vec![Block::Table(table)]
}

/// Returns a table with a column for each number of connections.
fn with_places(caption: &str, head: &str, series: &Series) -> Table {
    let mut heads = vec![head.to_owned()];
    heads.extend(
        series
            .spots
            .iter()
            .map(|spot| format!(">{}", spot.connections)),
    );
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    Table::new(format!("{caption}, by connections"), &heads)
}
