//! Metrics of the lists of statements: `SHOW STATEMENT_LISTS` as numbers.

use std::fmt;

use weir_stats::StatementCounts;

use super::super::figures::Figures;
use super::super::{Metric, Out};
use super::{counter, gauge, whole};

/// Labels of a list.
const OF_USER: &[&str] = &["user"];

/// Metrics of lists, in the order of the page.
pub(super) static STATEMENTS: &[Metric] = &[
    gauge(
        "weir_statement_list_listed",
        OF_USER,
        "Statements in the list of the user.",
        |figures, out| each(figures, out, |counts| counts.listed),
    ),
    gauge(
        "weir_statement_list_recorded",
        OF_USER,
        "Other statements that the user has sent, as far as they were recorded.",
        |figures, out| each(figures, out, |counts| counts.recorded),
    ),
    counter(
        "weir_statement_list_warned_total",
        OF_USER,
        "Executions of statements that are not in the list, with `statement_policy = warn`.",
        |figures, out| each(figures, out, |counts| counts.warned),
    ),
    counter(
        "weir_statement_list_refused_total",
        OF_USER,
        "Statements refused with `statement_policy = enforce`.",
        |figures, out| each(figures, out, |counts| counts.refused),
    ),
];

fn each(figures: &Figures, out: &mut Out<'_, '_>, of: fn(&StatementCounts) -> u64) -> fmt::Result {
    for counts in &figures.rest.statement_counts {
        out.value(&[&*counts.user], whole(of(counts)))?;
    }
    Ok(())
}
