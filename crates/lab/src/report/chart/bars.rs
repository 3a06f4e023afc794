//! Bar chart with one bar per target, for an axis with only one place.

use super::axis::Axis;
use super::svg::Svg;
use super::{Chart, Mark, Series, class};

const WIDTH: f64 = 420.0;
const ROW: f64 = 34.0;
const RIGHT: f64 = 86.0;

/// Draws the whole chart.
pub(super) fn draw(chart: &Chart) -> String {
    let mark = |series: &Series| series.points.first().copied().flatten();
    let drawn: Vec<(&Series, Mark)> = chart
        .series
        .iter()
        .filter_map(|series| Some((series, mark(series)?)))
        .filter(|(_, mark)| {
            [mark.low, mark.center, mark.high]
                .iter()
                .all(|v| v.is_finite())
        })
        .collect();
    let values: Vec<f64> = drawn.iter().map(|(_, mark)| mark.high).collect();
    let axis = Axis::new(&values, false);
    let rows = crate::statistics::float(drawn.len());
    let mut svg = Svg::new(WIDTH, rows * ROW + 6.0, Some(&chart.label()));
    let width = WIDTH - RIGHT;
    for (at, (series, mark)) in drawn.iter().enumerate() {
        let top = crate::statistics::float(at) * ROW;
        let x = |value: f64| axis.place(value) * width;
        let place = chart.places.first().map_or("", String::as_str);
        let hint = chart.hint(series, place, mark);
        let kind = if mark.flagged {
            "block hollow"
        } else {
            "block"
        };
        let colour = class(series.style);
        svg.text("row", (0.0, top + 12.0), "start", &series.title);
        let length = x(mark.center).max(1.0);
        svg.rect(
            &format!("{kind} {colour}"),
            (0.0, top + 17.0),
            (length, 11.0),
            Some(&hint),
        );
        if x(mark.high) - x(mark.low) > 1.0 {
            let y = top + 22.5;
            svg.line("whisker", (x(mark.low), y), (x(mark.high), y));
            svg.line("whisker", (x(mark.low), y - 3.0), (x(mark.low), y + 3.0));
            svg.line("whisker", (x(mark.high), y - 3.0), (x(mark.high), y + 3.0));
        }
        let value = chart.metric.style().show(mark.center);
        let beside = (x(mark.high).max(length) + 6.0, top + 26.5);
        svg.text("value", beside, "start", &value);
    }
    svg.finish()
}
