//! SVG charts: small, without script or font, with the same bytes for the same data.
//!
//! Colours are classes of the page's style, so that one drawing serves light and dark. Each series has a mark
//! besides its colour. Non-finite numbers are not drawn.

mod axis;
mod bars;
mod lines;
mod svg;

use self::svg::Svg;
use super::metric::Metric;

/// Number of colours and marks before they repeat.
pub(crate) const SERIES: usize = 12;

/// Chart of one metric.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Chart {
    /// Metric that is drawn.
    pub(crate) metric: Metric,
    /// The factor on the x axis.
    pub(crate) axis: String,
    /// Values of the factor.
    pub(crate) places: Vec<String>,
    /// Series, one per target.
    pub(crate) series: Vec<Series>,
}

/// Points of one target.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Series {
    /// Title of the target, for display.
    pub(crate) title: String,
    /// Number of colour and mark.
    pub(crate) style: usize,
    /// True if the target repeats another; drawn as a broken line.
    pub(crate) twin: bool,
    /// Points, as many as there are places.
    pub(crate) points: Vec<Option<Mark>>,
    /// Published figures that can stand beside the measured ones; drawn faintly.
    pub(crate) published: Vec<Option<f64>>,
}

/// Point with its spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Mark {
    /// Position of the mark.
    pub(crate) center: f64,
    /// Smallest value of a block.
    pub(crate) low: f64,
    /// Largest value of a block.
    pub(crate) high: f64,
    /// True if the cell is flagged; the mark is then hollow.
    pub(crate) flagged: bool,
}

impl Chart {
    /// Returns the title above the chart.
    pub(crate) fn title(&self) -> String {
        let (_, unit) = self.metric.unit(self.max());
        match self.metric {
            Metric::Logins => self.metric.title().to_owned(),
            _ => format!("{}, {unit}", self.metric.title()),
        }
    }

    /// Draws the chart.
    pub(crate) fn svg(&self) -> String {
        if self.places.len() == 1 {
            bars::draw(self)
        } else {
            lines::draw(self)
        }
    }

    /// True if the places are names and not steps of a quantity, so that nothing lies between them.
    fn is_nominal(&self) -> bool {
        self.places
            .iter()
            .any(|place| !place.starts_with(|c: char| c.is_ascii_digit()))
    }

    /// True if there is no point.
    pub(crate) fn is_empty(&self) -> bool {
        self.series
            .iter()
            .all(|series| series.points.iter().all(Option::is_none))
    }

    /// Returns all numbers that the y axis has to include.
    fn values(&self) -> impl Iterator<Item = f64> {
        let marks = self
            .series
            .iter()
            .flat_map(|series| series.points.iter().flatten());
        let ours = marks.flat_map(|mark| [mark.low, mark.center, mark.high]);
        let theirs = self
            .series
            .iter()
            .flat_map(|series| series.published.iter().flatten());
        ours.chain(theirs.copied())
            .filter(|value| value.is_finite())
    }

    fn max(&self) -> f64 {
        self.values().fold(0.0, f64::max)
    }

    /// Returns the text for readers who cannot see the chart: its contents, and that the table has the numbers.
    fn label(&self) -> String {
        let titles: Vec<&str> = self
            .series
            .iter()
            .map(|series| series.title.as_str())
            .collect();
        let title = self.title();
        format!(
            "{title} over {}: {}. The numbers are in the table.",
            self.axis,
            titles.join(", ")
        )
    }

    /// Returns the tooltip of a mark.
    fn hint(&self, series: &Series, place: &str, mark: &Mark) -> String {
        let style = self.metric.style();
        let (axis, flagged) = (&self.axis, if mark.flagged { ", flagged" } else { "" });
        let (low, high) = (style.show(mark.low), style.show(mark.high));
        let at = if place.is_empty() {
            String::new()
        } else {
            format!(", {axis} {place}")
        };
        let title = &series.title;
        format!(
            "{title}{at}: {} ({low} to {high}){flagged}",
            style.show(mark.center)
        )
    }
}

/// Escapes text for HTML and SVG, in content and in quoted attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // XML does not allow control characters, escaped or not.
            c if c.is_control() && c != '\n' && c != '\t' => escaped.push('\u{FFFD}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Draws the mark of a series alone, for a legend.
pub(crate) fn swatch(style: usize) -> String {
    let mut svg = Svg::new(26.0, 14.0, None);
    svg.line(&format!("line {}", class(style)), (1.0, 7.0), (25.0, 7.0));
    lines::mark(&mut svg, style, (13.0, 7.0), false, None);
    svg.finish()
}

/// Returns the CSS class that gives a series its colour.
fn class(style: usize) -> String {
    format!("s{}", style % SERIES)
}

#[cfg(test)]
mod tests;
