//! Charts as SVG, drawn here: small, without script or font, the same bytes for the same data.
//!
//! Colours are classes of the page's style, so that one drawing serves light and dark. Each series has a mark of its
//! own beside its colour. What is no finite number is not drawn.

mod axis;
mod bars;
mod lines;
mod svg;

use self::svg::Svg;
use super::metric::Metric;

/// How many colours and marks there are before they repeat.
pub(crate) const SERIES: usize = 12;

/// One picture.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Chart {
    /// What is drawn.
    pub(crate) metric: Metric,
    /// The factor on the x axis.
    pub(crate) axis: String,
    /// Its values.
    pub(crate) places: Vec<String>,
    /// One per target.
    pub(crate) series: Vec<Series>,
}

/// One target's points.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Series {
    /// For people.
    pub(crate) title: String,
    /// Colour and mark.
    pub(crate) style: usize,
    /// Drawn broken: a repetition of another.
    pub(crate) twin: bool,
    /// As many as there are places.
    pub(crate) points: Vec<Option<Mark>>,
    /// What others published, as far as it can stand beside ours; drawn faintly.
    pub(crate) published: Vec<Option<f64>>,
}

/// One point with its spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Mark {
    /// Where the mark is.
    pub(crate) center: f64,
    /// Smallest block.
    pub(crate) low: f64,
    /// Largest block.
    pub(crate) high: f64,
    /// Something speaks against it: the mark is hollow.
    pub(crate) flagged: bool,
}

impl Chart {
    /// Above the picture.
    pub(crate) fn title(&self) -> String {
        let (_, unit) = self.metric.unit(self.max());
        match self.metric {
            Metric::Logins => self.metric.title().to_owned(),
            _ => format!("{}, {unit}", self.metric.title()),
        }
    }

    /// The picture.
    pub(crate) fn svg(&self) -> String {
        if self.places.len() == 1 {
            bars::draw(self)
        } else {
            lines::draw(self)
        }
    }

    /// Whether the places are names and not steps of a quantity: then nothing lies between them.
    fn is_nominal(&self) -> bool {
        self.places
            .iter()
            .any(|place| !place.starts_with(|c: char| c.is_ascii_digit()))
    }

    /// Whether there is anything to see.
    pub(crate) fn is_empty(&self) -> bool {
        self.series
            .iter()
            .all(|series| series.points.iter().all(Option::is_none))
    }

    /// All numbers that the y axis has to hold.
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

    /// For those who cannot see it: what it shows, and that the table has the numbers.
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

    /// What a pointer that rests on a mark is told.
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
            // XML knows no control characters, escaped or not.
            c if c.is_control() && c != '\n' && c != '\t' => escaped.push('\u{FFFD}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// The mark of a series alone, for a legend.
pub(crate) fn swatch(style: usize) -> String {
    let mut svg = Svg::new(26.0, 14.0, None);
    svg.line(&format!("line {}", class(style)), (1.0, 7.0), (25.0, 7.0));
    lines::mark(&mut svg, style, (13.0, 7.0), false, None);
    svg.finish()
}

/// The class that gives a series its colour.
fn class(style: usize) -> String {
    format!("s{}", style % SERIES)
}

#[cfg(test)]
mod tests;
