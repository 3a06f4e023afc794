//! `SHOW APPLICATIONS`, `SHOW HOLDERS` and `SHOW LOGINS`: who uses the servers, and how servers are reached.

use std::cmp::Reverse;
use std::collections::HashMap;

use weir_stats::{Activity, ApplicationRow};

use super::{Show, filled, int4, int8, long, some, text, timestamp};

/// `SHOW APPLICATIONS`, the one with the most time on servers first.
pub(crate) static APPLICATIONS: Show = Show {
    headings: &[
        text("database").ours(),
        text("user").ours(),
        text("application_name").ours(),
        int8("clients").ours(),
        int8("logins").ours(),
        int8("transactions").ours(),
        int8("queries").ours(),
        int8("errors").ours(),
        int8("transaction_us").ours(),
        int4("share").ours(),
        int8("wait_us").ours(),
        int8("bytes_received").ours(),
        int8("bytes_sent").ours(),
    ],
    is_live: true,
    rows: |context| {
        let mut rows: Vec<_> = context.snapshot.applications.iter().collect();
        let time = |row: &ApplicationRow| row.counters.transaction_us;
        rows.sort_by_key(|(_, row)| Reverse(time(row)));
        let all = rows.iter().map(|(_, row)| time(row)).sum::<u64>().max(1);
        rows.into_iter()
            .map(|((database, user, name), row)| {
                let counters = &row.counters;
                let share = u128::from(time(row)) * 100 / u128::from(all);
                vec![
                    some(database),
                    some(user),
                    some(name),
                    long(row.clients),
                    long(row.logins),
                    long(counters.transactions),
                    long(counters.queries),
                    long(counters.errors),
                    long(counters.transaction_us),
                    some(share),
                    long(counters.wait_us),
                    long(counters.bytes_received),
                    long(counters.bytes_sent),
                ]
            })
            .collect()
    },
};

/// `SHOW HOLDERS`, the one that has done the same for the longest first.
pub(crate) static HOLDERS: Show = Show {
    headings: &[
        text("database").ours(),
        text("user").ours(),
        text("application_name").ours(),
        int8("client").ours(),
        text("activity").ours(),
        int8("activity_us").ours(),
        text("pin").ours(),
        int8("server").ours(),
        int4("backend_pid").ours(),
    ],
    is_live: true,
    rows: |context| {
        let servers = context.snapshot.servers.iter();
        let pids: HashMap<_, _> = servers.map(|row| (row.id, row.remote_pid)).collect();
        let clients = context.snapshot.clients.iter();
        let mut holders: Vec<_> = clients
            .filter_map(|client| {
                let held = matches!(
                    client.activity?,
                    Activity::InQuery | Activity::InTransaction | Activity::Pinned
                );
                held.then_some((client, client.link?))
            })
            .collect();
        holders.sort_by_key(|(client, _)| Reverse(client.activity_us));
        holders
            .into_iter()
            .map(|(client, server)| {
                vec![
                    some(&client.database),
                    some(&client.user),
                    some(&client.application_name),
                    long(client.id),
                    client.activity.map(|activity| activity.name().to_owned()),
                    long(client.activity_us),
                    filled(&client.pin),
                    long(server),
                    some(pids.get(&server).copied().unwrap_or_default()),
                ]
            })
            .collect()
    },
};

/// `SHOW LOGINS`, hosts whose last logins have failed first.
pub(crate) static LOGINS: Show = Show {
    headings: &[
        text("host").ours(),
        int8("succeeded").ours(),
        int8("failed").ours(),
        int8("failed_since_success").ours(),
        text("last_success").ours(),
        text("last_failure").ours(),
        text("sqlstate").ours(),
        text("reason").ours(),
    ],
    is_live: true,
    rows: |context| {
        let mut hosts: Vec<_> = context.snapshot.logins.iter().collect();
        hosts.sort_by_key(|(_, row)| Reverse(row.failed_since));
        let time = |seconds: i64| (seconds > 0).then(|| timestamp(seconds));
        hosts
            .into_iter()
            .map(|(host, row)| {
                vec![
                    some(host),
                    long(row.succeeded),
                    long(row.failed),
                    long(row.failed_since),
                    time(row.last_success),
                    time(row.last_failure),
                    filled(&row.code),
                    filled(&row.reason),
                ]
            })
            .collect()
    },
};
