//! Sections on all workloads: answers, round trips, the published study, doubts, repetition.

use crate::report::document::{Block, Entry, Table};
use crate::report::prose::Prose;
use crate::tune::finding::{Finding, Series, Verdict};

/// Returns the answers, one for each workload.
pub(super) fn answers(finding: &Finding) -> Vec<Block> {
    let mut blocks = vec![Block::section("How many connections")];
    if finding.series.is_empty() {
        blocks.push(quote("Nothing was measured: there is nothing to say."));
    }
    for series in &finding.series {
        blocks.extend(answer(finding, series));
    }
    if finding.settings.cores.is_none() && !finding.series.is_empty() {
        blocks.push(Block::Note(Prose::quote(
            "How many cores the server has is not known; --cores says it, and adds the rule of thumb.",
        )));
    }
    blocks
}

fn answer(finding: &Finding, series: &Series) -> Vec<Block> {
    let name = name(series);
    match &series.judgement.verdict {
        Verdict::Refused { reason } => vec![
            Block::heading(3, format!("{name}: no answer")),
            quote(&format!("{}.", capital(reason))),
        ],
        Verdict::Recommended {
            connections,
            reason,
            price,
            confidence,
            doubts,
            configuration: [all, one],
        } => {
            let what = match finding.settings.path.as_str() {
                "watch" => "sessions in a transaction at once",
                _ => "connections",
            };
            let mut blocks = vec![
                Block::heading(3, format!("{name}: {connections} {what}")),
                quote(&format!("Why: {reason}.")),
                quote(&format!("Price: {price}.")),
                quote(&format!("Confidence: {confidence}.")),
            ];
            if !doubts.is_empty() {
                let items = doubts
                    .iter()
                    .map(|doubt| Prose::quote(&format!("{}.", capital(doubt))));
                blocks.push(Block::List(items.collect()));
            }
            blocks.push(Block::Code(format!("{all}    # for one database: {one}")));
            blocks
        }
    }
}

/// Returns the comparison of chatty with pipelined.
pub(super) fn round_trips(finding: &Finding) -> Vec<Block> {
    if finding.round_trips.is_empty() {
        return Vec::new();
    }
    let mut table = Table::new(
        "The same transactions, one statement at a time and all at once",
        &[
            ">connections",
            ">pipelined is faster by",
            ">a round trip costs",
        ],
    );
    for (connections, speed_up, cost_ms) in &finding.round_trips {
        table.row([
            connections.to_string(),
            format!("{speed_up:.2} x"),
            format!("{cost_ms:.2} ms"),
        ]);
    }
    let mut blocks = vec![Block::section("What chattiness costs"), Block::Table(table)];
    if let Some(cost) = finding.round_trip_ms {
        blocks.push(quote(&format!(
            "A chatty transaction has 4 round trips on average and a pipelined one 1. Where nothing waits for anything, each \
             saved round trip saves {cost:.2} ms: network, wake-ups, and the time in which the server waits for its client. \
             At more connections the figure has their waiting for each other in it."
        )));
    }
    blocks
}

/// Returns the published study beside the measurements.
pub(super) fn published(finding: &Finding) -> Vec<Block> {
    let both = || {
        finding
            .series
            .iter()
            .filter_map(|series| Some((series, series.published.as_ref()?)))
    };
    if both().next().is_none() {
        return Vec::new();
    }
    let mut blocks = vec![Block::section("Beside the published study")];
    for (series, study) in both() {
        let mut table = Table::new(
            format!("{}: published, and here", name(series)),
            &[
                ">connections",
                ">TPS published",
                ">TPS here",
                ">mean ms published",
                ">mean ms here",
                ">stddev ms published",
                ">stddev ms here",
            ],
        );
        for (connections, tps, mean, stddev) in &study.rows {
            let spot = series
                .spots
                .iter()
                .find(|spot| spot.connections == *connections);
            let latency = spot.and_then(|spot| spot.latency);
            table.row([
                connections.to_string(),
                format!("{tps:.0}"),
                maybe(spot.map(|spot| spot.tps.mean), 0),
                format!("{mean:.2}"),
                maybe(latency.map(|latency| latency.mean), 2),
                format!("{stddev:.2}"),
                maybe(latency.map(|latency| latency.stddev), 2),
            ]);
        }
        blocks.push(Block::Table(table));
        blocks.push(Block::Table(rules(series)));
    }
    blocks.push(Block::Note(Prose::quote(crate::tune::finding::SETUP)));
    blocks.push(Block::Note(Prose::quote(
        "Figures of different machines cannot be compared; the shape of the curves can, with care.",
    )));
    blocks
}

fn rules(series: &Series) -> Table {
    let caption = format!("{}: connections by each criterion", name(series));
    let mut table = Table::new(caption, &["criterion", ">published rows", ">here"]);
    let published = series
        .published
        .iter()
        .flat_map(|study| &study.judgement.rules);
    for theirs in published {
        let mut rules = series.judgement.rules.iter();
        let ours = rules.find(|ours| ours.name == theirs.name);
        table.row([
            theirs.name.clone(),
            maybe(theirs.connections, 1),
            maybe(ours.and_then(|rule| rule.connections), 1),
        ]);
    }
    table
}

/// Returns the doubts, and the data that are missing.
pub(super) fn doubts(finding: &Finding) -> Vec<Block> {
    let mut blocks = vec![Block::section("What to keep in mind")];
    let threats = finding.threats.iter().chain(&finding.notes);
    let mut items: Vec<Prose> = threats
        .map(|threat| Prose::quote(&format!("{}.", capital(threat))))
        .collect();
    items.push(Prose::quote(
        "Nothing is said beyond the numbers of connections that were measured.",
    ));
    blocks.push(Block::List(items));
    for (title, pairs) in [
        ("Not seen", &finding.missing),
        ("Cells without figures", &finding.failed),
        ("Wrong books", &finding.wrong_books),
    ] {
        if !pairs.is_empty() {
            let mut table = Table::new(title, &["what", "why"]);
            for (what, why) in pairs {
                table.row([what.clone(), why.clone()]);
            }
            blocks.push(Block::Table(table));
        }
    }
    blocks
}

/// Returns the facts needed to repeat the run.
pub(super) fn appendix(finding: &Finding) -> Vec<Block> {
    let settings = &finding.settings;
    let mut blocks = vec![
        Block::section("How it was done"),
        Block::Code(finding.command.clone()),
    ];
    let mut table = Table::new("", &["", ""]);
    let mut fact = |name: &str, value: String| {
        if !value.is_empty() {
            table.rows.push(vec![Entry::new(name), Entry::new(value)]);
        }
    };
    fact("server", finding.server.clone());
    fact("data", settings.data.clone());
    fact("way", settings.path.clone());
    fact(
        "clients of the pool",
        settings
            .pool_clients
            .map(|clients| clients.to_string())
            .unwrap_or_default(),
    );
    if finding.kind == "run" {
        fact("repetitions", settings.repetitions.to_string());
        fact(
            "each",
            format!(
                "{} s of warm-up, {} s measured",
                settings.warm_up_s, settings.measure_s
            ),
        );
        if settings.round_trip_ms > 0.0 {
            fact(
                "pretended network",
                format!("{} ms each round trip", settings.round_trip_ms),
            );
        }
        fact("protocol", settings.protocol.clone());
    }
    fact("goal", settings.goal.clone());
    fact("seed", finding.seed.to_string());
    blocks.push(Block::Table(table));
    for (section, facts) in &finding.environment {
        let mut table = Table::new("", &["", ""]);
        for (name, value) in facts {
            table.row([name.clone(), value.clone()]);
        }
        blocks.push(Block::Details {
            summary: section.clone(),
            blocks: vec![Block::Table(table)],
            terminal: false,
        });
    }
    blocks
}

/// Returns the name of a workload for display.
pub(super) fn name(series: &Series) -> String {
    match series.name.as_str() {
        "watch" => "What was seen".to_owned(),
        "scripts" => "Own scripts".to_owned(),
        other => capital(other),
    }
}

pub(super) fn quote(text: &str) -> Block {
    Block::Prose(Prose::quote(text))
}

/// Formats a number with so many decimals, or a dash.
pub(super) fn maybe(value: Option<f64>, decimals: usize) -> String {
    let finite = value.filter(|value| value.is_finite());
    finite.map_or_else(
        || crate::report::format::NONE.to_owned(),
        |value| format!("{value:.decimals$}"),
    )
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_uppercase().collect::<String>() + chars.as_str()
    })
}
