//! Line chart over the places of the axis, with bars from the smallest to the largest block.

use super::axis::{Axis, tick};
use super::svg::{At, Svg};
use super::{Chart, Metric, SERIES, Series, class};

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 260.0;
/// Room for six digits with a comma.
const LEFT: f64 = 54.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 42.0;

/// Draws the whole chart.
pub(super) fn draw(chart: &Chart) -> String {
    let (unit, _) = chart.metric.unit(chart.max());
    let values: Vec<f64> = chart.values().map(|value| value / unit).collect();
    let logarithmic = matches!(
        chart.metric,
        Metric::MemoryPerClient | Metric::P50 | Metric::P99
    );
    let frame = Frame {
        axis: Axis::new(&values, logarithmic),
        unit,
        places: chart.places.len(),
        series: chart.series.len(),
        nominal: chart.is_nominal(),
    };
    let mut svg = Svg::new(WIDTH, HEIGHT, Some(&chart.label()));
    frame.draw(&mut svg, chart);
    for (at, series) in chart.series.iter().enumerate() {
        published(&mut svg, &frame, series, at);
    }
    if !frame.nominal {
        for (at, series) in chart.series.iter().enumerate() {
            lines(&mut svg, &frame, series, at);
        }
    }
    for (at, series) in chart.series.iter().enumerate() {
        marks(&mut svg, &frame, chart, series, at);
    }
    svg.finish()
}

/// Layout of a chart.
struct Frame {
    axis: Axis,
    unit: f64,
    places: usize,
    series: usize,
    nominal: bool,
}

impl Frame {
    /// Returns the middle of a place.
    fn x(&self, place: usize) -> f64 {
        let width = (WIDTH - LEFT - RIGHT) / float(self.places.max(1));
        LEFT + (float(place) + 0.5) * width
    }

    /// Returns the middle of a place for one series. Series are shifted, because overlapping bars
    /// cannot be read.
    fn dodged(&self, place: usize, series: usize) -> f64 {
        let room = (WIDTH - LEFT - RIGHT) / float(self.places.max(1));
        // Shifting bends lines; without lines the marks may be further apart.
        let most = if self.nominal { 18.0 } else { 3.0 };
        let share = if self.nominal { 0.8 } else { 0.3 };
        let step = (room * share / float(self.series.max(1))).min(most);
        self.x(place) + (float(series) - (float(self.series) - 1.0) / 2.0) * step
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - self.axis.place(value / self.unit) * (HEIGHT - TOP - BOTTOM)
    }

    /// Draws grid lines and labels.
    fn draw(&self, svg: &mut Svg, chart: &Chart) {
        for value in &self.axis.ticks {
            let y = self.y(value * self.unit);
            svg.line("grid", (LEFT, y), (WIDTH - RIGHT, y));
            svg.text("tick", (LEFT - 6.0, y + 4.0), "end", &tick(*value));
        }
        for (place, text) in chart.places.iter().enumerate() {
            let at = (self.x(place), HEIGHT - BOTTOM + 17.0);
            svg.text("tick", at, "middle", text);
        }
        let middle = f64::midpoint(LEFT, WIDTH - RIGHT);
        svg.text("name", (middle, HEIGHT - 6.0), "middle", &chart.axis);
    }
}

/// Draws published figures as faint lines.
fn published(svg: &mut Svg, frame: &Frame, series: &Series, at: usize) {
    let class = format!("faint {}", class(series.style));
    let point = |(place, value): (usize, &Option<f64>)| {
        let value = value.filter(|value| value.is_finite())?;
        Some((frame.dodged(place, at), frame.y(value)))
    };
    for run in runs(series.published.iter().enumerate().map(point)) {
        if frame.nominal || run.len() == 1 {
            for alone in run {
                svg.circle(&class, alone, 2.5, None);
            }
        } else {
            svg.polyline(&class, &run);
        }
    }
}

fn lines(svg: &mut Svg, frame: &Frame, series: &Series, at: usize) {
    let twin = if series.twin { " twin" } else { "" };
    let class = format!("line {}{twin}", class(series.style));
    let point = |(place, mark): (usize, &Option<super::Mark>)| {
        let center = mark.as_ref()?.center;
        center
            .is_finite()
            .then(|| (frame.dodged(place, at), frame.y(center)))
    };
    for run in runs(series.points.iter().enumerate().map(point)) {
        if run.len() > 1 {
            svg.polyline(&class, &run);
        }
    }
}

fn marks(svg: &mut Svg, frame: &Frame, chart: &Chart, series: &Series, at: usize) {
    let class = format!("bar {}", class(series.style));
    for (place, (point, name)) in series.points.iter().zip(&chart.places).enumerate() {
        let Some(point) = point else { continue };
        if ![point.low, point.center, point.high]
            .iter()
            .all(|value| value.is_finite())
        {
            continue;
        }
        let x = frame.dodged(place, at);
        let (low, high) = (frame.y(point.low), frame.y(point.high));
        if low - high > 1.0 {
            svg.line(&class, (x, low), (x, high));
            svg.line(&class, (x - 2.5, low), (x + 2.5, low));
            svg.line(&class, (x - 2.5, high), (x + 2.5, high));
        }
        let hint = chart.hint(series, name, point);
        let middle = (x, frame.y(point.center));
        mark(svg, series.style, middle, point.flagged, Some(&hint));
    }
}

/// Draws the mark of a series: six shapes, which then repeat in other colours.
pub(super) fn mark(svg: &mut Svg, style: usize, (x, y): At, hollow: bool, hint: Option<&str>) {
    let kind = if hollow { "mark hollow" } else { "mark" };
    let class = format!("{kind} {}", class(style));
    let around = |offsets: &[At]| -> Vec<At> {
        offsets
            .iter()
            .map(|(right, down)| (x + right, y + down))
            .collect()
    };
    match style % SERIES % 6 {
        0 => svg.circle(&class, (x, y), 4.0, hint),
        1 => svg.rect(&class, (x - 3.5, y - 3.5), (7.0, 7.0), hint),
        2 => {
            let shape = around(&[(0.0, -4.8), (4.4, 3.4), (-4.4, 3.4)]);
            svg.polygon(&class, &shape, hint);
        }
        3 => {
            let shape = around(&[(0.0, -5.0), (5.0, 0.0), (0.0, 5.0), (-5.0, 0.0)]);
            svg.polygon(&class, &shape, hint);
        }
        4 => {
            let shape = around(&[(0.0, 4.8), (4.4, -3.4), (-4.4, -3.4)]);
            svg.polygon(&class, &shape, hint);
        }
        _ => {
            let shape = around(&[
                (-4.6, 0.0),
                (-2.3, -4.0),
                (2.3, -4.0),
                (4.6, 0.0),
                (2.3, 4.0),
                (-2.3, 4.0),
            ]);
            svg.polygon(&class, &shape, hint);
        }
    }
}

/// Returns the sequences of adjacent points: a missing point breaks the line.
fn runs(points: impl Iterator<Item = Option<At>>) -> Vec<Vec<At>> {
    let mut runs = vec![Vec::new()];
    for point in points {
        match (point, runs.last_mut()) {
            (Some(point), Some(run)) => run.push(point),
            _ => runs.push(Vec::new()),
        }
    }
    runs.retain(|run| !run.is_empty());
    runs
}

fn float(count: usize) -> f64 {
    crate::statistics::float(count)
}
