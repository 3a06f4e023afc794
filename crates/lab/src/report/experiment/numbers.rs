//! Numbers behind the charts: a table over targets and places, and a table of all cells.

use crate::record::{Cell, Usage};
use crate::report::document::{Block, Entry, Table};
use crate::report::failures::first_line;
use crate::report::format::{self, Style};
use crate::report::judge::Verdict;
use crate::report::metric::Metric;
use crate::report::view::{ExperimentView, Panel, Row, View, describe};
use crate::statistics::{Interval, Sample};

/// Returns the folded tables.
pub(super) fn blocks(view: &View<'_>, experiment: &ExperimentView<'_>) -> Vec<Block> {
    let tables = experiment
        .panels
        .iter()
        .map(|panel| Block::Table(table(experiment, panel)));
    let cells = experiment.cells.len();
    vec![
        Block::Details {
            summary: format!("{}: all figures", experiment.experiment.title),
            blocks: tables.collect(),
            terminal: true,
        },
        Block::Details {
            summary: format!("{}: each of {cells} cells", experiment.experiment.title),
            blocks: vec![Block::Table(raw(view, experiment))],
            terminal: false,
        },
    ]
}

const FIGURES: [&str; 16] = [
    "Target",
    ">Blocks",
    ">Mean",
    ">Median",
    ">Min",
    ">Max",
    ">CV",
    ">95 % interval",
    ">Ratio",
    ">Mean latency",
    ">p50",
    ">p90",
    ">p99",
    ">95 % interval of p99",
    ">p99.9",
    "Flags",
];

fn table(view: &ExperimentView<'_>, panel: &Panel<'_>) -> Table {
    let main = view.main();
    let mut heads = FIGURES.to_vec();
    let axis = format!(">{}", view.experiment.axis);
    heads.insert(1, &axis);
    let extra = [
        Metric::CpuPerTransaction,
        Metric::CpuPerMegabyte,
        Metric::Memory,
        Metric::LagP99,
        Metric::OnReplicas,
    ];
    let extra: Vec<Metric> = extra
        .into_iter()
        .filter(|metric| *metric != main && panel.has(*metric))
        .collect();
    let titles: Vec<String> = extra
        .iter()
        .map(|metric| format!(">{}", metric.title()))
        .collect();
    let before_flags = heads.len() - 1;
    for (at, title) in titles.iter().enumerate() {
        heads.insert(before_flags + at, title);
    }
    let name = &view.experiment.title;
    let label = if panel.label.is_empty() {
        String::new()
    } else {
        format!(", {}", panel.label)
    };
    let mut table = Table::new(format!("{name}{label}: {}", main.title()), &heads);
    for row in &panel.rows {
        for (at, place) in panel.places.iter().enumerate() {
            table
                .rows
                .extend(figures(view, panel, row, at, place, &extra));
        }
    }
    table
}

fn figures(
    view: &ExperimentView<'_>,
    panel: &Panel<'_>,
    row: &Row<'_>,
    at: usize,
    place: &str,
    extra: &[Metric],
) -> Option<Vec<Entry>> {
    let point = row.points.get(at)?;
    let sample = point.sample(view.main());
    let style = view.main().style();
    let show = |read: fn(&Sample) -> f64| style.maybe(sample.as_ref().map(read));
    let interval = between(style, sample.as_ref().and_then(Sample::interval));
    let variation = Style::Percent.maybe(sample.as_ref().and_then(Sample::variation));
    let ratio = view
        .judge(view.main(), panel, row, at)
        .map(|judged| match judged.verdict {
            Verdict::OtherWork => format!("{} ≠", Style::Ratio.show(judged.ratio.mean)),
            _ => Style::Ratio.show(judged.ratio.mean),
        })
        .unwrap_or_else(|| format::NONE.to_owned());
    let mut texts = vec![
        row.target.title.clone(),
        place.to_owned(),
        point.measured().to_string(),
        show(|sample| sample.mean),
        show(|sample| sample.median),
        show(|sample| sample.min),
        show(|sample| sample.max),
        variation,
        interval,
        ratio,
        Style::Micros.maybe(point.mean_latency()),
    ];
    let quantile = |share| Style::Micros.maybe(point.percentile(share));
    texts.extend([0.5, 0.9, 0.99].map(quantile));
    texts.push(between(Style::Micros, point.percentile_interval(0.99)));
    texts.push(quantile(0.999));
    texts.extend(
        extra
            .iter()
            .map(|metric| metric.style().maybe(point.center(*metric))),
    );
    let mut flags: Vec<String> = point
        .failure()
        .map(|why| format!("failed: {}", first_line(why)))
        .into_iter()
        .collect();
    flags.extend(
        point
            .flags()
            .values()
            .map(|(count, detail)| format!("{detail} ({count}x)")),
    );
    texts.push(flags.join("; "));
    let mut entries: Vec<Entry> = texts.into_iter().map(Entry::new).collect();
    // The flags concern the mean.
    if let Some(mean) = entries.get_mut(3) {
        mean.flagged = !point.flags().is_empty();
    }
    Some(entries)
}

fn between(style: Style, interval: Option<Interval>) -> String {
    interval.map_or_else(
        || format::NONE.to_owned(),
        |interval| {
            format!(
                "{} to {}",
                style.show(interval.low),
                style.show(interval.high)
            )
        },
    )
}

const RAW: [&str; 26] = [
    ">Block",
    ">Order",
    "Target",
    "Load",
    "Generator",
    ">Transactions",
    ">Errors",
    ">Unfinished",
    ">Per second",
    ">Mean",
    ">p50",
    ">p99",
    ">p99.9",
    ">Max",
    ">Late start p50",
    ">Late start p99",
    ">Spread of clients",
    ">Pooler CPU",
    ">Pooler memory",
    ">Switches",
    ">Server CPU",
    ">Generator CPU",
    ">Idle",
    ">Steal",
    "Flags",
    "Command",
];

fn raw(view: &View<'_>, experiment: &ExperimentView<'_>) -> Table {
    let name = &experiment.experiment.title;
    let mut table = Table::new(format!("{name}: cells as they were run"), &RAW);
    let mut cells = experiment.cells.clone();
    cells.sort_by_key(|cell| (cell.block, cell.order));
    for cell in cells {
        let mut entries: Vec<Entry> = line(view, cell).into_iter().map(Entry::new).collect();
        entries.push(Entry::code(format::shell(&cell.command)));
        table.rows.push(entries);
    }
    table
}

fn line(view: &View<'_>, cell: &Cell) -> Vec<String> {
    let outcome = cell.outcome.as_ref();
    let latency = outcome.and_then(|outcome| outcome.latency.as_ref());
    let count = |value: Option<u64>| {
        value.map_or_else(|| format::NONE.to_owned(), |value| value.to_string())
    };
    let cpu = |usage: Option<Usage>| Style::Micros.maybe(usage.map(|usage| usage.cpu_us));
    let switches = |usage: Usage| Some(usage.switches_voluntary? + usage.switches_involuntary?);
    let clients = outcome.and_then(|outcome| outcome.per_client);
    let pooler = cell.costs.pooler;
    let mut flags: Vec<String> = cell
        .failed
        .iter()
        .map(|why| format!("failed: {}", first_line(why)))
        .collect();
    flags.extend(cell.flags.iter().map(|flag| flag.detail.clone()));
    vec![
        cell.block.to_string(),
        cell.order.to_string(),
        view.title(&cell.target).to_owned(),
        describe(cell.factors.iter()),
        cell.generator.clone(),
        count(outcome.map(|outcome| outcome.transactions)),
        count(outcome.map(|outcome| outcome.errors)),
        count(outcome.map(|outcome| outcome.unfinished)),
        Style::Rate.maybe(outcome.map(|outcome| outcome.tps)),
        Style::Micros.maybe(latency.map(|latency| latency.mean)),
        Style::Micros.maybe(latency.map(|latency| latency.p50)),
        Style::Micros.maybe(latency.map(|latency| latency.p99)),
        Style::Micros.maybe(latency.map(|latency| latency.p999)),
        Style::Micros.maybe(latency.map(|latency| latency.max)),
        Style::Micros.maybe(outcome.and_then(|outcome| outcome.lag_us_p50)),
        Style::Micros.maybe(outcome.and_then(|outcome| outcome.lag_us_p99)),
        Style::Percent.maybe(clients.map(|clients| clients.variation)),
        cpu(pooler),
        Metric::Memory.style().maybe(Metric::Memory.of(cell)),
        count(pooler.and_then(switches)),
        cpu(cell.costs.server),
        cpu(cell.costs.generator),
        Style::Percent.maybe(cell.costs.machine.map(|machine| machine.idle)),
        Style::Percent.maybe(cell.costs.machine.map(|machine| machine.steal)),
        flags.join("; "),
    ]
}
