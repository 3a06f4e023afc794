//! Help about columns: what a figure is, its usual value, and what a bad one means.

/// Help about one column.
#[derive(Debug)]
pub(crate) struct Help {
    pub(crate) column: &'static str,
    /// Meaning of the figure.
    pub(crate) what: &'static str,
    /// Usual value.
    pub(crate) normal: &'static str,
    /// Bad value, and what follows from it.
    pub(crate) bad: &'static str,
}

const fn help(
    column: &'static str,
    what: &'static str,
    normal: &'static str,
    bad: &'static str,
) -> Help {
    Help {
        column,
        what,
        normal,
        bad,
    }
}

/// Returns the help about a column.
pub(crate) fn find(column: &str) -> Option<&'static Help> {
    HELPS.iter().find(|help| help.column == column)
}

impl Help {
    /// All three parts as one text.
    pub(crate) fn text(&self) -> String {
        let Self {
            what, normal, bad, ..
        } = self;
        format!("{what} Normal: {normal}. Bad: {bad}.")
    }
}

static HELPS: &[Help] = &[
    help(
        "cl_active",
        "Clients that have a server, or need none now.",
        "any number",
        "near max_client_conn",
    ),
    help(
        "cl_waiting",
        "Clients that have sent a request and have no server.",
        "0, with short peaks",
        "more than 0 for seconds: see the reasons of the waits",
    ),
    help(
        "maxwait",
        "Time that the longest waiting client has waited.",
        "below 10 ms",
        "a second and more, near query_wait_timeout",
    ),
    help(
        "wait_p99",
        "Wait that 99 of 100 clients did not exceed in the last stats_period.",
        "below 1 ms",
        "longer than a query: the pool is full",
    ),
    help(
        "query_p99",
        "Time on the server that 99 of 100 queries did not exceed in the last stats_period.",
        "as the application knows it",
        "a multiple of yesterday's: look at the database",
    ),
    help(
        "sv_active",
        "Servers that clients hold.",
        "below size",
        "equal to size while clients wait",
    ),
    help(
        "sv_idle",
        "Servers that are free.",
        "some",
        "0 while clients wait; above 0 for long while clients wait is a defect",
    ),
    help(
        "size",
        "Servers that the pool may have.",
        "fixed, or moving with pool_size = auto",
        "far above what the database has cores for",
    ),
    help(
        "cl_pinned",
        "Clients that keep their server, for the reasons of SHOW PINS.",
        "0 in transaction pooling",
        "half of size and more",
    ),
    help(
        "paused",
        "1 if PAUSE stops the pool.",
        "0",
        "1 without anybody who works on it",
    ),
    help(
        "activity_us",
        "Time since the client began what it does now.",
        "short, but for idle",
        "long in idle in transaction: it keeps a server from others",
    ),
    help(
        "wait_reason",
        "Reason for which the client waits.",
        "none",
        "the same for all clients: that limit is full",
    ),
    help(
        "oldest_us",
        "Time that the oldest client with this reason has waited.",
        "below 10 ms",
        "a second and more",
    ),
    help(
        "pin",
        "State that keeps the client on its server.",
        "none",
        "a lock or a temporary table that is never given back",
    ),
    help(
        "close_needed",
        "1 if the server is closed when its client releases it.",
        "0, and 1 after RECONNECT",
        "1 for long: its client holds it",
    ),
    help(
        "percent",
        "Share of the limit that is used.",
        "below 80",
        "98 and more: clients are refused at 100",
    ),
    help(
        "lag_bytes",
        "WAL that the replica has not replayed.",
        "below a few MiB",
        "growing: reads go to the primary",
    ),
    help(
        "avg_us",
        "Mean time of the statement on the server.",
        "as the application knows it",
        "much below p99_us: some calls are slow",
    ),
    help(
        "server_us",
        "Time of all calls on servers together.",
        "spread over many statements",
        "one statement has most of it",
    ),
    help(
        "days_left",
        "Days until the certificate ends.",
        "30 and more",
        "below 14",
    ),
    help(
        "hits",
        "Statements that have met the rule.",
        "as expected of the rule",
        "0 for a rule that ought to work",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_said_and_no_column_twice() {
        let mut names: Vec<_> = HELPS.iter().map(|help| help.column).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), HELPS.len());
        for help in HELPS {
            assert!(help.what.ends_with('.'), "{}", help.column);
            assert!(!help.normal.is_empty() && !help.bad.is_empty());
        }
    }
}
