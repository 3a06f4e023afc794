//! Metrics of hosts: rows of `SHOW HOSTS` as numbers.

use std::fmt;

use weir_stats::DatabaseHostRow;

use super::super::figures::Figures;
use super::super::{Metric, Out, seconds};
use super::{counter, gauge};

/// Labels of a host. The database is the entry in the configuration.
const OF_HOST: &[&str] = &["database", "host"];
/// Roles of a host, as in `SHOW HOSTS`.
const ROLES: [&str; 3] = ["primary", "replica", "unknown"];
/// States of a host, as in `SHOW HOSTS`.
const STATES: [&str; 7] = [
    "diverged", "down", "fenced", "foreign", "refusing", "unknown", "up",
];

/// Metrics of hosts, in the order of the page.
pub(super) static HOSTS: &[Metric] = &[
    gauge(
        "weir_host_role",
        &["database", "host", "role"],
        "1 for the role that the host has by its own answer, 0 for the others.",
        |figures, out| one_of(figures, out, &ROLES, |host| host.role),
    ),
    gauge(
        "weir_host_state",
        &["database", "host", "state"],
        "1 for the state that the host is in, 0 for the others.",
        |figures, out| one_of(figures, out, &STATES, |host| host.state),
    ),
    gauge(
        "weir_host_takes_writes",
        OF_HOST,
        "1 if the host takes the writes of the database now.",
        |figures, out| counts(figures, out, |host| host.takes_writes.into()),
    ),
    gauge(
        "weir_host_takes_reads",
        OF_HOST,
        "1 if the host may take reads now.",
        |figures, out| counts(figures, out, |host| host.takes_reads.into()),
    ),
    gauge(
        "weir_host_weight",
        OF_HOST,
        "Share of reads relative to the other hosts.",
        |figures, out| counts(figures, out, |host| host.weight.into()),
    ),
    gauge(
        "weir_host_lag_bytes",
        OF_HOST,
        "WAL that the primary has flushed and the host has not replayed; missing if unknown.",
        |figures, out| known(figures, out, |host| host.lag_bytes, count),
    ),
    gauge(
        "weir_host_lag_seconds",
        OF_HOST,
        "Age of the host's data; 0 if the primary was idle since, missing if unknown.",
        |figures, out| known(figures, out, |host| host.lag_us, time),
    ),
    gauge(
        "weir_host_probe_seconds",
        OF_HOST,
        "Duration of the last answered probe; missing if none was answered.",
        |figures, out| known(figures, out, |host| host.probe_us, time),
    ),
    gauge(
        "weir_host_servers",
        OF_HOST,
        "Open server connections of all pools at the host.",
        |figures, out| counts(figures, out, |host| host.servers),
    ),
    counter(
        "weir_host_reads_total",
        OF_HOST,
        "Transactions and single batches sent to the host that only read there; one that is sent again counts again.",
        |figures, out| counts(figures, out, |host| host.counters.reads),
    ),
    counter(
        "weir_host_writes_total",
        OF_HOST,
        "Transactions and single batches sent to the host that may write there.",
        |figures, out| counts(figures, out, |host| host.counters.writes),
    ),
    counter(
        "weir_host_retries_total",
        OF_HOST,
        "Batches that this replica refused or lost, and that ran on another host without an error for the client.",
        |figures, out| counts(figures, out, |host| host.counters.retries),
    ),
];

/// Function that writes one sample.
type Write = fn(&mut Out<'_, '_>, &[&str], u64) -> fmt::Result;

fn count(out: &mut Out<'_, '_>, labels: &[&str], value: u64) -> fmt::Result {
    out.count(labels, value)
}

fn time(out: &mut Out<'_, '_>, labels: &[&str], us: u64) -> fmt::Result {
    out.value(labels, seconds(us))
}

/// Writes a value of each host.
fn counts(
    figures: &Figures,
    out: &mut Out<'_, '_>,
    of: fn(&DatabaseHostRow) -> u64,
) -> fmt::Result {
    let mut hosts = figures.rest.database_hosts.iter();
    hosts.try_for_each(|row| out.count(&[&row.database, &row.host], of(row)))
}

/// Writes a value of each host of which it is known.
fn known(
    figures: &Figures,
    out: &mut Out<'_, '_>,
    of: fn(&DatabaseHostRow) -> Option<u64>,
    write: Write,
) -> fmt::Result {
    let hosts = figures.rest.database_hosts.iter();
    let mut hosts = hosts.filter_map(|row| Some((row, of(row)?)));
    hosts.try_for_each(|(row, value)| write(out, &[&row.database, &row.host], value))
}

/// Writes a sample for each word that a host may have: 1 for its own.
fn one_of(
    figures: &Figures,
    out: &mut Out<'_, '_>,
    words: &[&str],
    of: fn(&DatabaseHostRow) -> &'static str,
) -> fmt::Result {
    for row in &figures.rest.database_hosts {
        for word in words {
            let labels = [row.database.as_str(), row.host.as_str(), *word];
            out.count(&labels, u64::from(of(row) == *word))?;
        }
    }
    Ok(())
}
