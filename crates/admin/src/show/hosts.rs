//! `SHOW HOSTS`: hosts of databases that have several.

use weir_stats::DatabaseHostRow;

use super::{Row, Show, filled, int4, int8, long, numeric, some, text};

/// `SHOW HOSTS`. PgBouncer has no such table.
pub(crate) static HOSTS: Show = Show {
    headings: &[
        text("database").ours(),
        text("host").ours(),
        text("role").ours(),
        text("state").ours(),
        text("writes").ours(),
        text("reads").ours(),
        int8("since_seconds").ours(),
        int8("timeline").ours(),
        int8("generation").ours(),
        int8("lag_bytes").ours(),
        int8("lag_ms").ours(),
        int4("weight").ours(),
        text("az").ours(),
        int8("servers").ours(),
        numeric("probe_us").ours(),
        text("last_error").ours(),
    ],
    is_live: true,
    rows: |context| context.snapshot.database_hosts.iter().map(row).collect(),
};

fn row(host: &DatabaseHostRow) -> Row {
    let yes = |holds: bool| some(if holds { "yes" } else { "no" });
    vec![
        some(&host.database),
        some(&host.host),
        some(host.role),
        some(host.state),
        yes(host.takes_writes),
        yes(host.takes_reads),
        long(host.since_seconds),
        (host.timeline > 0).then(|| host.timeline.to_string()),
        long(host.generation.into()),
        host.lag_bytes.and_then(long),
        host.lag_us.map(|us| us / 1000).and_then(long),
        some(host.weight),
        filled(&host.az),
        long(host.servers),
        host.probe_us.and_then(long),
        filled(&host.last_error),
    ]
}
