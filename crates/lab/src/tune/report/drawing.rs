//! Curves: throughput and p99 over connections, and stacked bars of sessions and CPUs.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::sections::name;
use crate::report::chart::{Chart, Mark, Series as Line, escape};
use crate::report::document::Block;
use crate::report::metric::Metric;
use crate::report::prose::Prose;
use crate::statistics::float;
use crate::tune::finding::{Finding, Series, Spot};

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 46.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 42.0;
/// Colours of the parts of a stack, in their order; numbers of the page's colours.
const COLOURS: [usize; 8] = [0, 1, 4, 7, 3, 5, 11, 8];

/// Returns all pictures.
pub(super) fn blocks(finding: &Finding) -> Vec<Block> {
    if finding.series.iter().all(|series| series.spots.is_empty()) {
        return Vec::new();
    }
    let mut blocks = vec![Block::section("Curves")];
    let legend = finding.series.iter().enumerate();
    blocks.push(Block::Legend(
        legend.map(|(at, series)| (at, name(series))).collect(),
    ));
    let charts: Vec<Chart> = [Metric::Tps, Metric::P99]
        .into_iter()
        .map(|metric| chart(finding, metric))
        .filter(|chart| !chart.is_empty())
        .collect();
    blocks.push(Block::Charts(charts));
    if finding
        .series
        .iter()
        .any(|series| series.published.is_some())
    {
        blocks.push(Block::Note(Prose::quote(
            "Faint: the published study, on other hardware.",
        )));
    }
    let stacks: Vec<(String, String)> = finding.series.iter().flat_map(stacks).collect();
    blocks.push(Block::Drawings(stacks));
    blocks
}

fn chart(finding: &Finding, metric: Metric) -> Chart {
    let all = finding.series.iter().flat_map(|series| &series.spots);
    let places: BTreeSet<u32> = all.map(|spot| spot.connections).collect();
    let line = |(at, series): (usize, &Series)| {
        let mark = |place: &u32| {
            let spot = series
                .spots
                .iter()
                .find(|spot| spot.connections == *place)?;
            mark(spot, metric)
        };
        let published = |place: &u32| {
            let rows = &series
                .published
                .as_ref()
                .filter(|_| metric == Metric::Tps)?
                .rows;
            rows.iter().find(|row| row.0 == *place).map(|row| row.1)
        };
        Line {
            title: name(series),
            style: at,
            twin: false,
            points: places.iter().map(mark).collect(),
            published: places.iter().map(published).collect(),
        }
    };
    Chart {
        metric,
        axis: "connections".to_owned(),
        places: places.iter().map(u32::to_string).collect(),
        series: finding.series.iter().enumerate().map(line).collect(),
    }
}

fn mark(spot: &Spot, metric: Metric) -> Option<Mark> {
    let (center, low, high) = match metric {
        Metric::P99 => {
            let latency = spot.latency.filter(|latency| latency.p99 > 0.0)?;
            let us = |ms: f64| 1000.0 * ms;
            let (low, high) = latency.p99_span;
            (
                us(latency.p99),
                us(low.min(latency.p99)),
                us(high.max(latency.p99)),
            )
        }
        _ => (spot.tps.mean, spot.tps.low, spot.tps.high),
    };
    Some(Mark {
        center,
        low,
        high,
        flagged: spot.errors > 0,
    })
}

/// Returns title and picture of each stack of a workload.
fn stacks(series: &Series) -> Vec<(String, String)> {
    let title = name(series);
    let waits = Stack {
        label: format!("{title}: what sessions did, on average"),
        bars: bars(series, |spot| {
            let mut parts = spot.classes.clone();
            // The queue in front of the server is not part of the server: it is drawn on top.
            parts.extend(
                spot.pool
                    .map(|pool| ("waiting for a server".to_owned(), pool.queue)),
            );
            Some(parts)
        }),
    };
    let cpus = Stack {
        label: format!("{title}: CPUs of the server's machine, per cent"),
        bars: bars(series, |spot| {
            let cpu = spot.processor?;
            let parts = [
                ("user", cpu.user),
                ("system", cpu.system),
                ("nice", cpu.nice),
                ("stolen", cpu.steal),
                ("waiting for disks", cpu.iowait),
            ];
            Some(
                parts
                    .map(|(name, part)| (name.to_owned(), 100.0 * part))
                    .to_vec(),
            )
        }),
    };
    let drawn = [waits, cpus]
        .into_iter()
        .filter(|stack| !stack.bars.is_empty());
    drawn
        .map(|stack| (stack.label.clone(), stack.svg()))
        .collect()
}

type Bar = (u32, Vec<(String, f64)>);

fn bars(series: &Series, parts: impl Fn(&Spot) -> Option<Vec<(String, f64)>>) -> Vec<Bar> {
    let bar = |spot: &Spot| Some((spot.connections, parts(spot)?));
    series.spots.iter().filter_map(bar).collect()
}

/// Stacked bars, one for each number of connections.
struct Stack {
    label: String,
    bars: Vec<Bar>,
}

impl Stack {
    fn svg(&self) -> String {
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {}\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-label=\"{}. The numbers \
             are in the tables.\">\n",
            HEIGHT + 20.0 * self.legend_lines(),
            escape(&self.label)
        );
        let sum = |bar: &Bar| bar.1.iter().map(|(_, part)| part).sum::<f64>();
        let most = self.bars.iter().map(sum).fold(0.0, f64::max);
        let step = step(most / 4.0);
        let top = step * (most / step).ceil().max(1.0);
        let y = |value: f64| HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM);
        let mut tick = 0.0;
        while tick <= top * 1.001 {
            let at = y(tick);
            // Writing to a string cannot fail.
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{WIDTH}\" y2=\"{at:.1}\"/>\
                 <text class=\"tick\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                at + 4.0,
                short(tick)
            );
            tick += step;
        }
        let room = (WIDTH - LEFT) / float(self.bars.len().max(1));
        for (place, bar) in self.bars.iter().enumerate() {
            self.bar(&mut svg, bar, LEFT + room * float(place), room, &y);
        }
        let _ = writeln!(
            svg,
            "<text class=\"name\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">connections</text>",
            f64::midpoint(LEFT, WIDTH),
            HEIGHT - 6.0
        );
        self.legend(&mut svg);
        svg + "</svg>"
    }

    fn bar(&self, svg: &mut String, bar: &Bar, left: f64, room: f64, y: &dyn Fn(f64) -> f64) {
        let (connections, parts) = bar;
        let mut below = 0.0;
        for (at, (name, part)) in parts
            .iter()
            .enumerate()
            .filter(|(_, (_, part))| *part > 0.0)
        {
            let (upper, lower) = (y(below + part), y(below));
            let _ = writeln!(
                svg,
                "<rect class=\"block s{}\" x=\"{:.1}\" y=\"{upper:.1}\" width=\"{:.1}\" height=\"{:.1}\"><title>{}, \
                 {connections} connections: {}</title></rect>",
                colour(at),
                left + 0.15 * room,
                0.7 * room,
                lower - upper,
                escape(name),
                short(*part)
            );
            below += part;
        }
        let _ = writeln!(
            svg,
            "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{connections}</text>",
            left + 0.5 * room,
            HEIGHT - BOTTOM + 17.0
        );
    }

    /// Returns index and name of the parts that occur at all.
    fn names(&self) -> Vec<(usize, &str)> {
        let Some((_, first)) = self.bars.first() else {
            return Vec::new();
        };
        let there = |at: usize| {
            let mut parts = self.bars.iter().filter_map(|(_, parts)| parts.get(at));
            parts.any(|(_, part)| *part > 0.0)
        };
        let names = first
            .iter()
            .enumerate()
            .map(|(at, (name, _))| (at, name.as_str()));
        names.filter(|(at, _)| there(*at)).collect()
    }

    fn legend_lines(&self) -> f64 {
        float(self.names().len().div_ceil(2))
    }

    fn legend(&self, svg: &mut String) {
        for (place, (at, name)) in self.names().into_iter().enumerate() {
            let x = if place % 2 == 0 {
                LEFT
            } else {
                f64::midpoint(LEFT, WIDTH)
            };
            let y = HEIGHT + 20.0 * float(place / 2) + 10.0;
            let _ = writeln!(
                svg,
                "<rect class=\"block s{}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"12\" height=\"12\"/><text class=\"row\" \
                 x=\"{:.1}\" y=\"{y:.1}\" text-anchor=\"start\">{}</text>",
                colour(at),
                y - 10.0,
                x + 18.0,
                escape(name)
            );
        }
    }
}

fn colour(at: usize) -> usize {
    COLOURS.get(at % COLOURS.len()).copied().unwrap_or(0)
}

/// Returns the smallest of 1, 2, 5 times a power of ten that is at least `least`.
fn step(least: f64) -> f64 {
    let least = if least > 0.0 { least } else { 0.25 };
    let power = 10.0_f64.powf(least.log10().floor());
    let fits = |factor: &f64| factor * power >= least * (1.0 - 1e-9);
    [1.0, 2.0, 5.0].into_iter().find(fits).unwrap_or(10.0) * power
}

fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
