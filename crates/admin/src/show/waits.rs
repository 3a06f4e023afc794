//! `SHOW WAITS`: what clients wait for.

use std::collections::BTreeMap;

use weir_stats::{Activity, ClientRow, WaitReason};

use super::{Show, int8, long, some, text};

/// `SHOW WAITS`, the longest wait first. Durations in microseconds.
pub(crate) static WAITS: Show = Show {
    headings: &[
        text("database").ours(),
        text("user").ours(),
        text("reason").ours(),
        int8("clients").ours(),
        int8("oldest_us").ours(),
        text("oldest_application").ours(),
        int8("oldest_id").ours(),
    ],
    is_live: true,
    rows: |context| {
        let mut waits = BTreeMap::<(&str, &str, WaitReason), (u64, &ClientRow)>::new();
        for client in &context.snapshot.clients {
            let Some(Activity::Waiting(reason)) = client.activity else {
                continue;
            };
            let key = (client.database.as_str(), client.user.as_str(), reason);
            let (count, oldest) = waits.entry(key).or_insert((0, client));
            *count += 1;
            if client.activity_us > oldest.activity_us {
                *oldest = client;
            }
        }
        let mut waits: Vec<_> = waits.into_iter().collect();
        waits.sort_by_key(|(_, (_, oldest))| std::cmp::Reverse(oldest.activity_us));
        let row = |((database, user, reason), (count, oldest)): (
            (&str, &str, WaitReason),
            (u64, &ClientRow),
        )| {
            vec![
                some(database),
                some(user),
                some(reason.name()),
                long(count),
                long(oldest.activity_us),
                some(&oldest.application_name),
                long(oldest.id),
            ]
        };
        waits.into_iter().map(row).collect()
    },
};
