//! Names of metrics in PromQL, the language of panels and alerts. Each name is found in the table of metrics. This module
//! knows no other part of the language.

use std::ops::Range;

use super::table::metrics;
use super::{Kind, Metric};

/// Endings of the series of a histogram.
const PARTS: [&str; 3] = ["_bucket", "_sum", "_count"];

/// Returns the places of Weir's metrics in an expression. Texts in quotes are skipped.
pub(super) fn places(expression: &str) -> Vec<Range<usize>> {
    let mut places = Vec::new();
    let mut start = None;
    let mut is_quoted = false;
    for (at, c) in expression.char_indices().chain([(expression.len(), ' ')]) {
        let of_name = c.is_ascii_alphanumeric() || c == '_';
        match (start, of_name) {
            (None, true) if !is_quoted => start = Some(at),
            (Some(from), false) => {
                places.push(from..at);
                start = None;
            }
            _ => {}
        }
        is_quoted ^= c == '"';
    }
    places.retain(|place| is_ours(expression.get(place.clone()).unwrap_or_default()));
    places
}

/// Returns the names of Weir's metrics in an expression, as they are written there.
pub(super) fn names(expression: &str) -> impl Iterator<Item = &str> {
    let places = places(expression).into_iter();
    places.filter_map(|place| expression.get(place))
}

/// Finds the metric of a series: for a histogram also by the names of its parts.
pub(super) fn find(series: &str) -> Option<&'static Metric> {
    metrics().find(|metric| match series.strip_prefix(metric.name) {
        Some(part) if metric.kind == Kind::Histogram => PARTS.contains(&part),
        rest => rest == Some(""),
    })
}

/// Returns the expression with more conditions on labels at each metric of the table.
pub(super) fn narrowed(expression: &str, conditions: fn(&Metric) -> String) -> String {
    let mut out = String::new();
    let mut done = 0;
    for place in places(expression) {
        let name = expression.get(place.clone()).unwrap_or_default();
        let Some(metric) = find(name) else { continue };
        out.push_str(expression.get(done..place.end).unwrap_or_default());
        let behind = expression.get(place.end..).unwrap_or_default();
        if behind.starts_with('{') {
            out.push_str(&format!("{{{},", conditions(metric)));
            done = place.end + 1;
        } else {
            out.push_str(&format!("{{{}}}", conditions(metric)));
            done = place.end;
        }
    }
    out.push_str(expression.get(done..).unwrap_or_default());
    out
}

fn is_ours(word: &str) -> bool {
    word.starts_with("weir_") || word.starts_with("process_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expression: &str, wanted: &str) {
        assert_eq!(narrowed(expression, |_| "a=\"b\"".to_owned()), wanted);
    }

    #[test]
    fn each_metric_gets_the_conditions() {
        check("weir_pool_size", r#"weir_pool_size{a="b"}"#);
        check(
            r#"sum by (x) (rate(weir_pool_wait_seconds_bucket[5m])) / weir_pool_clients{state="idle"} > 0"#,
            r#"sum by (x) (rate(weir_pool_wait_seconds_bucket{a="b"}[5m])) / weir_pool_clients{a="b",state="idle"} > 0"#,
        );
        check(r#"up{job="weir_pool_size"}"#, r#"up{job="weir_pool_size"}"#);
    }

    #[test]
    fn only_histograms_have_parts() {
        assert!(find("weir_pool_wait_seconds_count").is_some());
        assert!(find("weir_pool_wait_seconds").is_none());
        assert!(find("weir_pool_size_count").is_none());
        assert!(find("weir_pool_siz").is_none());
    }
}
