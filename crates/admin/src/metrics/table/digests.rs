//! Metrics of statements: the first rows of `SHOW DIGESTS` as numbers.

use std::fmt;

use weir_stats::DigestFigures;

use super::super::figures::{Figures, OTHER};
use super::super::{Metric, Out, seconds};
use super::{counter, whole};

/// Labels of a statement.
const OF_DIGEST: &[&str] = &["database", "user", "fingerprint"];

/// Metrics of statements, in the order of the page.
pub(super) static DIGESTS: &[Metric] = &[
    counter(
        "weir_digest_calls_total",
        OF_DIGEST,
        "Statements that succeeded, of the `digest_metrics` that take the most time; all others are one.",
        |figures, out| each(figures, out, |digest| whole(digest.calls)),
    ),
    counter(
        "weir_digest_errors_total",
        OF_DIGEST,
        "Statements that failed.",
        |figures, out| each(figures, out, |digest| whole(digest.errors)),
    ),
    counter(
        "weir_digest_rows_total",
        OF_DIGEST,
        "Rows that were returned or changed.",
        |figures, out| each(figures, out, |digest| whole(digest.rows)),
    ),
    counter(
        "weir_digest_server_seconds_total",
        OF_DIGEST,
        "Time on the server.",
        |figures, out| each(figures, out, |digest| seconds(digest.times.sum_us())),
    ),
];

fn each(figures: &Figures, out: &mut Out<'_, '_>, of: fn(&DigestFigures) -> f64) -> fmt::Result {
    for digest in &figures.digests {
        let fingerprint = digest.fingerprint.map(|found| found.to_string());
        let fingerprint = fingerprint.unwrap_or_default();
        let labels = [&*digest.database, &*digest.user, &*fingerprint];
        out.value(&labels, of(&digest.figures))?;
    }
    match &figures.other_digests {
        Some(others) => out.value(&[OTHER, OTHER, OTHER], of(others)),
        None => Ok(()),
    }
}
