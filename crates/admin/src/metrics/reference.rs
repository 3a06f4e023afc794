//! The reference page `docs/reference/metrics.md`, generated from the table of metrics.

use std::fmt::Write;

use super::figures::{OTHER, POOLS_MAX};
use super::table::metrics;

/// Text of the page.
#[must_use]
pub fn metrics_markdown() -> String {
    let mut out = format!(
        "\
# Metrics

<!-- Generated from the table of metrics in crates/admin; edit that. -->

Weir serves these metrics as `/metrics` on [`metrics_listen`](configuration.md), in Prometheus' text format 0.0.4.
[Monitoring](../guide/monitoring.md) explains their use. Times are in seconds, sizes in bytes. Counters start at 0 with the
process and never decrease.

Buckets of histograms are powers of two, from 128 microseconds to 67 seconds.

The first {POOLS_MAX} pools (pairs of database and user) have rows of their own. All others share the row
`database=\"{OTHER}\"`, `user=\"{OTHER}\"`, so that clients cannot create labels without limit. Other labels have a fixed set
of values, or are names from the configuration.

| metric | type | labels | meaning |
|---|---|---|---|
"
    );
    for metric in metrics() {
        let labels: Vec<_> = metric.labels.iter().map(|l| format!("`{l}`")).collect();
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {} |",
            metric.name,
            metric.kind.name(),
            labels.join(", "),
            metric.help
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use expect_test::expect_file;

    /// After a change of the table run this test with UPDATE_EXPECT=1.
    #[test]
    fn the_page_is_fresh() {
        expect_file!["../../../../docs/reference/metrics.md"].assert_eq(&super::metrics_markdown());
    }
}
