//! `SHOW DIAGNOSIS` and `SHOW EVENTS`: what is wrong now, and what has happened.

use super::{Show, filled, int8, long, some, text, timestamp};

/// `SHOW DIAGNOSIS`, the worst first, then the oldest.
pub(crate) static DIAGNOSIS: Show = Show {
    headings: &[
        text("condition").ours(),
        text("severity").ours(),
        text("scope").ours(),
        text("since").ours(),
        int8("seconds").ours(),
        text("evidence").ours(),
        text("advice").ours(),
        text("command").ours(),
    ],
    is_live: true,
    rows: |context| {
        let conditions = context.snapshot.conditions.iter();
        conditions
            .map(|row| {
                let seconds = context.snapshot.unix.saturating_sub(row.since);
                vec![
                    some(row.condition),
                    some(row.severity.name()),
                    some(&row.scope),
                    some(timestamp(row.since)),
                    long(u64::try_from(seconds).unwrap_or_default()),
                    some(&row.evidence),
                    some(&row.advice),
                    filled(&row.command),
                ]
            })
            .collect()
    },
};

/// `SHOW EVENTS`, the newest first.
pub(crate) static EVENTS: Show = Show {
    headings: &[text("at").ours(), text("kind").ours(), text("text").ours()],
    is_live: true,
    rows: |context| {
        let events = context.snapshot.events.iter();
        events
            .map(|event| {
                vec![
                    some(timestamp(event.at)),
                    some(event.kind.name()),
                    some(&event.text),
                ]
            })
            .collect()
    },
};
