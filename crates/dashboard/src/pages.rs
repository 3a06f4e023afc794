//! Table of pages: which of the console's tables each one shows, and which question it answers.

use crate::source::Role;

/// Page of the dashboard.
#[derive(Debug)]
pub(crate) struct Page {
    /// Path behind the first slash; empty for the first page.
    pub(crate) path: &'static str,
    pub(crate) title: &'static str,
    /// Key that follows `g`.
    pub(crate) key: char,
    /// Question that the page answers.
    pub(crate) question: &'static str,
    pub(crate) views: &'static [View],
    pub(crate) charts: &'static [Chart],
    /// True if the page is about one pool, which its query names.
    pub(crate) is_of_pool: bool,
}

/// View of one table of the console.
#[derive(Debug)]
pub(crate) struct View {
    /// Words behind `SHOW`.
    pub(crate) table: &'static str,
    pub(crate) title: &'static str,
    /// Columns to show, in this order; none = all of the table. Columns that the table lacks are left out.
    pub(crate) columns: &'static [&'static str],
    /// Column by which rows are sorted at first; a minus sign in front sorts downwards. Empty keeps the console's order.
    pub(crate) sort: &'static str,
    /// Text in place of a table without rows.
    pub(crate) empty: &'static str,
    /// True for rows of the page's pool only, if the table has columns `database` and `user`.
    pub(crate) is_of_pool: bool,
}

/// Chart of some lines of a history.
#[derive(Debug)]
pub(crate) struct Chart {
    pub(crate) title: &'static str,
    pub(crate) lines: &'static [&'static str],
}

/// Returns the page at a path without its first slash.
pub(crate) fn find(path: &str) -> Option<&'static Page> {
    PAGES.iter().find(|page| page.path == path)
}

/// True if a table is shown on a page, or may be fetched by a script.
pub(crate) fn is_known(table: &str) -> bool {
    let mut views = PAGES.iter().flat_map(|page| page.views);
    table == STATE || table == VERSION || views.any(|view| view.table == table)
}

/// True if a column holds texts of statements, which only administrators see.
pub(crate) fn is_secret(column: &str, role: Role) -> bool {
    role < Role::Admin && matches!(column, "statement" | "form" | "sample" | "last_difference")
}

/// Tables that every page needs.
pub(crate) const DIAGNOSIS: &str = "DIAGNOSIS";
pub(crate) const STATE: &str = "STATE";
const VERSION: &str = "VERSION";
/// Table of pools.
pub(crate) const POOLS: &str = "EXTENDED POOLS";

const fn view(table: &'static str, title: &'static str, empty: &'static str) -> View {
    View {
        table,
        title,
        columns: &[],
        sort: "",
        empty,
        is_of_pool: false,
    }
}

impl View {
    const fn columns(mut self, columns: &'static [&'static str]) -> Self {
        self.columns = columns;
        self
    }

    const fn sort(mut self, sort: &'static str) -> Self {
        self.sort = sort;
        self
    }

    const fn of_pool(mut self) -> Self {
        self.is_of_pool = true;
        self
    }
}

const CONDITIONS: View = view(
    DIAGNOSIS,
    "Conditions",
    "No condition holds: nothing to do.",
)
.columns(&[
    "severity",
    "condition",
    "scope",
    "seconds",
    "evidence",
    "advice",
    "command",
]);

const POOL_COLUMNS: &[&str] = &[
    "database",
    "user",
    "cl_active",
    "cl_waiting",
    "maxwait",
    "wait_p99",
    "query_p99",
    "sv_active",
    "sv_idle",
    "size",
    "cl_pinned",
    "paused",
];

const ALL_POOLS: View = view(
    POOLS,
    "Pools",
    "No pools yet: no client has logged in. Connect with psql -p and the port of listen_port.",
)
.sort("-cl_waiting");

const HOSTS: View = view(
    "HOSTS",
    "Hosts",
    "No database has replicas, so no host is watched.",
);

const CLIENT_COLUMNS: &[&str] = &[
    "id",
    "application_name",
    "database",
    "user",
    "addr",
    "state",
    "activity",
    "activity_us",
    "wait",
    "wait_reason",
    "pin",
    "pin_age",
    "link",
    "connect_time",
];

const CLIENTS: View = view(
    "CLIENTS",
    "Clients",
    "No clients are connected. Connect with psql -p and the port of listen_port.",
)
.columns(CLIENT_COLUMNS)
.sort("-activity_us");

const WAITS: View = view("WAITS", "Waits by reason", "No client waits: good.").sort("-oldest_us");

const SERVER_COLUMNS: &[&str] = &[
    "id",
    "database",
    "user",
    "addr",
    "port",
    "state",
    "remote_pid",
    "link",
    "application_name",
    "connect_time",
    "request_time",
    "prepared_statements",
    "close_needed",
    "tls",
];

const SERVERS: View = view(
    "SERVERS",
    "Servers",
    "No server connections: they open when clients need them.",
)
.columns(SERVER_COLUMNS);

/// All pages, in the order of the navigation. A page of one pool is not in the navigation.
pub(crate) static PAGES: &[Page] = &[
    Page {
        path: "",
        title: "Overview",
        key: 'o',
        question: "Is it the pooler or the database, and what is there to do?",
        views: &[CONDITIONS, ALL_POOLS.columns(POOL_COLUMNS), HOSTS],
        charts: &[
            Chart {
                title: "Transactions per second",
                lines: &["tps"],
            },
            Chart {
                title: "Clients",
                lines: &["clients", "waiting"],
            },
            Chart {
                title: "Processor",
                lines: &["cpu"],
            },
            Chart {
                title: "Memory",
                lines: &["memory"],
            },
        ],
        is_of_pool: false,
    },
    Page {
        path: "pools",
        title: "Pools",
        key: 'p',
        question: "Which pool is full, and how long do its clients wait?",
        views: &[
            ALL_POOLS.columns(POOL_COLUMNS),
            view("DATABASES", "Databases", "No databases are configured."),
        ],
        charts: &[],
        is_of_pool: false,
    },
    Page {
        path: "pool",
        title: "Pool",
        key: '\0',
        question: "Who holds the servers of this pool, and for what do the others wait?",
        views: &[
            ALL_POOLS.columns(POOL_COLUMNS).of_pool(),
            WAITS.of_pool(),
            CLIENTS.of_pool(),
            SERVERS.of_pool(),
        ],
        charts: &[
            Chart {
                title: "Transactions and queries per second",
                lines: &["tps", "qps"],
            },
            Chart {
                title: "Waiting clients",
                lines: &["waiting"],
            },
            Chart {
                title: "Times",
                lines: &["oldest_wait_us", "wait_p99_us", "query_p99_us"],
            },
            Chart {
                title: "Servers",
                lines: &["servers", "leased", "idle_in_transaction"],
            },
            Chart {
                title: "Clients",
                lines: &["clients"],
            },
            Chart {
                title: "Errors per second",
                lines: &["errors"],
            },
            Chart {
                title: "Bytes per second",
                lines: &["bytes"],
            },
        ],
        is_of_pool: true,
    },
    Page {
        path: "clients",
        title: "Clients",
        key: 'c',
        question: "What does each client do, and for what does it wait?",
        views: &[
            WAITS,
            CLIENTS,
            view("PINS", "Pinned clients", "No pins: good."),
        ],
        charts: &[],
        is_of_pool: false,
    },
    Page {
        path: "servers",
        title: "Servers",
        key: 's',
        question: "Which server connections are open, and are the hosts reachable?",
        views: &[SERVERS, HOSTS],
        charts: &[],
        is_of_pool: false,
    },
    Page {
        path: "applications",
        title: "Applications",
        key: 'a',
        question: "Which application uses the servers?",
        views: &[view(
            "APPLICATIONS",
            "Applications",
            "No application has used a server yet.",
        )],
        charts: &[],
        is_of_pool: false,
    },
    Page {
        path: "statements",
        title: "Statements",
        key: 'd',
        question: "Which statements take the time of the servers?",
        views: &[view("DIGESTS", "Statements", "No statement has ended yet.")
            .columns(&[
                "statement",
                "database",
                "user",
                "calls",
                "server_us",
                "avg_us",
                "p95_us",
                "p99_us",
                "rows",
                "errors",
                "wait_us",
                "last_seen",
                "fingerprint",
            ])
            .sort("-server_us")],
        charts: &[],
        is_of_pool: false,
    },
    Page {
        path: "routes",
        title: "Routes and rules",
        key: 'r',
        question: "Where do statements run, why, and which rules change that?",
        views: &[
            view(
                "ROUTES",
                "Routes",
                "No statement was routed: no database has replicas, or none was used.",
            ),
            view("RULES", "Rules", "No query rules are configured."),
        ],
        charts: &[],
        is_of_pool: false,
    },
    Page {
        path: "events",
        title: "Events and errors",
        key: 'e',
        question: "Since when, what changed, and which errors do clients get?",
        views: &[
            view("EVENTS", "Events", "Nothing has happened since the start."),
            view(
                "ERRORS",
                "Errors sent to clients",
                "No client was sent an error: good.",
            ),
        ],
        charts: &[],
        is_of_pool: false,
    },
    Page {
        path: "limits",
        title: "Limits",
        key: 'l',
        question: "Which limit is reached next?",
        views: &[
            view("LIMITS", "Limits", "No limits are in force.").sort("-percent"),
            view(
                "POOL_SIZE",
                "Pools that find their size",
                "No pool has pool_size = auto.",
            ),
            view(
                "POOL_SIZE_DECISIONS",
                "Decisions about sizes",
                "Nothing was decided.",
            )
            .sort("age_seconds"),
            view("TLS", "Certificates", "No certificate is in use."),
        ],
        charts: &[],
        is_of_pool: false,
    },
    Page {
        path: "config",
        title: "Configuration",
        key: 'f',
        question: "Which settings are in force?",
        views: &[
            view("CONFIG", "Settings", "There are no settings."),
            view("STATE", "State", "The state is not known."),
        ],
        charts: &[],
        is_of_pool: false,
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn paths_and_keys_are_unique() {
        let paths: BTreeSet<_> = PAGES.iter().map(|page| page.path).collect();
        let keys: BTreeSet<_> = PAGES.iter().map(|page| page.key).collect();
        assert_eq!((paths.len(), keys.len()), (PAGES.len(), PAGES.len()));
        for page in PAGES {
            assert!(page.question.ends_with('?'), "{}", page.title);
        }
    }

    #[test]
    fn texts_of_statements_are_for_administrators() {
        assert!(is_secret("statement", Role::Stats));
        assert!(!is_secret("statement", Role::Admin));
        assert!(!is_secret("database", Role::Stats));
    }

    #[test]
    fn no_page_shows_a_table_that_only_administrators_may_see() {
        assert!(!is_known("LISTED_STATEMENTS"));
        assert!(is_known("CLIENTS"));
    }
}
