//! Shapes of the charts, written as text with one decimal.

use std::fmt::Write as _;

use super::escape;

/// SVG under construction.
pub(super) struct Svg {
    text: String,
}

/// Point of the picture: distance to the right, distance down.
pub(super) type At = (f64, f64);

impl Svg {
    /// Starts a picture. `label` describes it for readers who cannot see it; without a label it is
    /// decoration.
    pub(super) fn new(width: f64, height: f64, label: Option<&str>) -> Self {
        let role = label.map_or_else(
            || "aria-hidden=\"true\"".to_owned(),
            |label| format!("role=\"img\" aria-label=\"{}\"", escape(label)),
        );
        let text = format!(
            "<svg viewBox=\"0 0 {} {}\" xmlns=\"http://www.w3.org/2000/svg\" {role}>\n",
            short(width),
            short(height)
        );
        Self { text }
    }

    pub(super) fn line(&mut self, class: &str, from: At, to: At) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(short);
        self.add(&format!(
            "<line class=\"{class}\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"/>"
        ));
    }

    pub(super) fn polyline(&mut self, class: &str, points: &[At]) {
        let pairs: Vec<String> = points
            .iter()
            .map(|(x, y)| format!("{},{}", short(*x), short(*y)))
            .collect();
        self.add(&format!(
            "<polyline class=\"{class}\" points=\"{}\"/>",
            pairs.join(" ")
        ));
    }

    /// Adds a closed shape, with a tooltip if `hint` is given.
    pub(super) fn polygon(&mut self, class: &str, points: &[At], hint: Option<&str>) {
        let pairs: Vec<String> = points
            .iter()
            .map(|(x, y)| format!("{},{}", short(*x), short(*y)))
            .collect();
        let open = format!("<polygon class=\"{class}\" points=\"{}\"", pairs.join(" "));
        self.hinted(&open, "polygon", hint);
    }

    pub(super) fn circle(&mut self, class: &str, at: At, radius: f64, hint: Option<&str>) {
        let [x, y, radius] = [at.0, at.1, radius].map(short);
        let open = format!("<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"");
        self.hinted(&open, "circle", hint);
    }

    /// Adds a rectangle by its upper left corner.
    pub(super) fn rect(&mut self, class: &str, at: At, size: At, hint: Option<&str>) {
        let [x, y, width, height] = [at.0, at.1, size.0, size.1].map(short);
        let open = format!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\""
        );
        self.hinted(&open, "rect", hint);
    }

    /// Adds text; `anchor` is `start`, `middle` or `end`.
    pub(super) fn text(&mut self, class: &str, at: At, anchor: &str, text: &str) {
        let [x, y] = [at.0, at.1].map(short);
        let text = escape(text);
        self.add(&format!(
            "<text class=\"{class}\" x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{text}</text>"
        ));
    }

    pub(super) fn finish(mut self) -> String {
        self.text.push_str("</svg>");
        self.text
    }

    fn hinted(&mut self, open: &str, tag: &str, hint: Option<&str>) {
        match hint {
            Some(hint) => self.add(&format!("{open}><title>{}</title></{tag}>", escape(hint))),
            None => self.add(&format!("{open}/>")),
        }
    }

    fn add(&mut self, element: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{element}");
    }
}

/// Formats with one decimal, or none if it is zero. A non-finite value becomes 0; callers filter
/// these before.
fn short(value: f64) -> String {
    let value = if value.is_finite() { value } else { 0.0 };
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" {
        "0".to_owned()
    } else {
        text.to_owned()
    }
}
