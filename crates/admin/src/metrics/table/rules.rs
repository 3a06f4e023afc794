//! Metrics of query rules: `SHOW RULES` and `SHOW MIRRORS` as numbers.

use std::fmt;

use weir_stats::{MirrorRow, RuleCounts};

use super::super::figures::Figures;
use super::super::{Metric, Out, seconds};
use super::{counter, gauge, whole};

/// Number of rules on the page, which may be many thousands: those with the first names that were met.
const RULES_MAX: usize = 100;

/// Labels of a rule.
const OF_RULE: &[&str] = &["rule"];

/// Metrics of rules, in the order of the page.
pub(super) static RULES: &[Metric] = &[
    counter(
        "weir_rule_hits_total",
        OF_RULE,
        "Statements that met the query rule, of up to 100 rules that were met.",
        |figures, out| each_rule(figures, out, |counts| counts.hits),
    ),
    counter(
        "weir_rule_dry_hits_total",
        OF_RULE,
        "Statements that met the query rule while it only counted (`dry_run`), of up to 100 rules that were met.",
        |figures, out| each_rule(figures, out, |counts| counts.dry_hits),
    ),
    counter(
        "weir_mirror_statements_total",
        &["rule", "result"],
        "Mirrored statements by result: with the same answer, with other rows, another number of rows or another error, skipped, or failed.",
        |figures, out| {
            each_mirror(figures, out, |mirror, out| {
                let results = [
                    ("same", mirror.counts.same),
                    ("other_rows", mirror.counts.other_rows),
                    ("other_counts", mirror.counts.other_counts),
                    ("other_errors", mirror.counts.other_errors),
                    ("skipped", mirror.skipped),
                    ("failed", mirror.failed),
                ];
                results.into_iter().try_for_each(|(result, count)| {
                    out.value(&[&*mirror.rule, result], whole(count))
                })
            })
        },
    ),
    counter(
        "weir_mirror_dropped_total",
        OF_RULE,
        "Transactions for a mirror that found no room.",
        |figures, out| {
            each_mirror(figures, out, |mirror, out| {
                out.value(&[&*mirror.rule], whole(mirror.dropped))
            })
        },
    ),
    gauge(
        "weir_mirror_waiting",
        OF_RULE,
        "Transactions that wait for a mirror.",
        |figures, out| {
            each_mirror(figures, out, |mirror, out| {
                out.value(&[&*mirror.rule], whole(mirror.waiting))
            })
        },
    ),
    counter(
        "weir_mirror_seconds_total",
        &["rule", "side"],
        "Time of mirrored statements on the servers of clients, and in the other database.",
        |figures, out| {
            each_mirror(figures, out, |mirror, out| {
                out.value(&[&*mirror.rule, "client"], seconds(mirror.counts.client_us))?;
                out.value(&[&*mirror.rule, "mirror"], seconds(mirror.counts.mirror_us))
            })
        },
    ),
];

fn each_rule(figures: &Figures, out: &mut Out<'_, '_>, of: fn(&RuleCounts) -> u64) -> fmt::Result {
    let met = figures.rest.rule_counts.iter();
    let met = met.filter(|(_, counts)| counts.hits + counts.dry_hits > 0);
    for (name, counts) in met.take(RULES_MAX) {
        out.value(&[name.as_str()], whole(of(counts)))?;
    }
    Ok(())
}

fn each_mirror(
    figures: &Figures,
    out: &mut Out<'_, '_>,
    write: impl Fn(&MirrorRow, &mut Out<'_, '_>) -> fmt::Result,
) -> fmt::Result {
    let mut mirrors = figures.rest.mirrors.iter();
    mirrors.try_for_each(|mirror| write(mirror, out))
}
