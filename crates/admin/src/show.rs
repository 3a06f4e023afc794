//! The tables behind `SHOW`: their columns, in PgBouncer's order with PgBouncer's types, and the rows.

pub(crate) mod applications;
pub(crate) mod connections;
pub(crate) mod databases;
pub(crate) mod diagnosis;
pub(crate) mod dns;
pub(crate) mod faults;
pub(crate) mod hosts;
pub(crate) mod limits;
pub(crate) mod lists;
pub(crate) mod memory;
pub(crate) mod mirrors;
pub(crate) mod peers;
pub(crate) mod pins;
pub(crate) mod pools;
pub(crate) mod routes;
pub(crate) mod rules;
pub(crate) mod sizing;
pub(crate) mod statements;
pub(crate) mod stats;
pub(crate) mod tls;
pub(crate) mod users;
pub(crate) mod waits;

use std::collections::BTreeSet;

use jiff::Timestamp;
use weir_config::{FALLBACK, PgBouncerVersion, Settings};
use weir_proxy::console::DATABASES;
use weir_stats::Snapshot;

/// Name of the console's own database, user and pool in PgBouncer.
pub(crate) const CONSOLE: &str = "pgbouncer";
/// Size of the console's pool, as in PgBouncer.
pub(crate) const CONSOLE_POOL_SIZE: u32 = 2;

/// Values of one row; `None` is NULL.
pub(crate) type Row = Vec<Option<String>>;

/// Type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Int4,
    Int8,
    Numeric,
    Text,
}

impl Kind {
    /// `pg_type.oid`.
    pub(crate) fn oid(self) -> u32 {
        match self {
            Self::Int4 => 23,
            Self::Int8 => 20,
            Self::Numeric => 1700,
            Self::Text => 25,
        }
    }

    /// `pg_type.typlen`.
    pub(crate) fn len(self) -> i16 {
        match self {
            Self::Int4 => 4,
            Self::Int8 => 8,
            Self::Numeric | Self::Text => -1,
        }
    }

    /// Encodes a value, given as its text, as the type's `send` function does.
    pub(crate) fn binary(self, text: &str) -> Vec<u8> {
        // Values of number columns are numbers in range.
        match self {
            Self::Int4 => text.parse::<i32>().unwrap_or_default().to_be_bytes().into(),
            Self::Int8 => text.parse::<i64>().unwrap_or_default().to_be_bytes().into(),
            Self::Numeric => numeric_binary(text.parse().unwrap_or_default()),
            Self::Text => text.as_bytes().into(),
        }
    }

    /// Name of the type in PostgreSQL.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Int4 => "int4",
            Self::Int8 => "int8",
            Self::Numeric => "numeric",
            Self::Text => "text",
        }
    }
}

/// Encodes a `numeric` as PostgreSQL's `numeric_send` does: number of groups of four digits, weight of the first
/// group as a power of 10,000, sign, digits behind the point, then the groups.
fn numeric_binary(mut value: u64) -> Vec<u8> {
    let mut groups = Vec::new();
    while value > 0 {
        groups.push(u16::try_from(value % 10_000).unwrap_or_default());
        value /= 10_000;
    }
    // There are at most five groups.
    let weight = u16::try_from(groups.len().saturating_sub(1)).unwrap_or_default();
    // Trailing groups of zeros are not sent.
    let sent: Vec<_> = groups.into_iter().skip_while(|group| *group == 0).collect();
    let count = u16::try_from(sent.len()).unwrap_or_default();
    let words = [count, weight, 0, 0];
    let words = words.into_iter().chain(sent.into_iter().rev());
    words.flat_map(u16::to_be_bytes).collect()
}

/// A column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heading {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// True for columns that PgBouncer does not have; these come last.
    pub(crate) is_ours: bool,
    /// First version of PgBouncer that has the column.
    since: PgBouncerVersion,
    /// Name that the column had before this version.
    earlier: Option<(&'static str, PgBouncerVersion)>,
}

impl Heading {
    pub(crate) const fn ours(mut self) -> Self {
        self.is_ours = true;
        self
    }

    const fn since(mut self, version: PgBouncerVersion) -> Self {
        self.since = version;
        self
    }

    const fn called(mut self, name: &'static str, before: PgBouncerVersion) -> Self {
        self.earlier = Some((name, before));
        self
    }

    /// True if this version of PgBouncer has the column.
    pub(crate) fn is_in(&self, version: PgBouncerVersion) -> bool {
        !self.is_ours && version.has(self.since)
    }

    /// The column as this version has it.
    fn in_version(mut self, version: PgBouncerVersion) -> Self {
        if let Some((name, before)) = self.earlier
            && !version.has(before)
        {
            self.name = name;
        }
        self
    }
}

const fn heading(name: &'static str, kind: Kind) -> Heading {
    Heading {
        name,
        kind,
        is_ours: false,
        since: PgBouncerVersion::V1_18,
        earlier: None,
    }
}

/// Column of texts.
pub(crate) const fn text(name: &'static str) -> Heading {
    heading(name, Kind::Text)
}

const fn int4(name: &'static str) -> Heading {
    heading(name, Kind::Int4)
}

pub(crate) const fn int8(name: &'static str) -> Heading {
    heading(name, Kind::Int8)
}

pub(crate) const fn numeric(name: &'static str) -> Heading {
    heading(name, Kind::Numeric)
}

/// A table.
pub(crate) struct Show {
    pub(crate) headings: &'static [Heading],
    /// True if the rows depend on the snapshot.
    pub(crate) is_live: bool,
    /// Rows with a value for each heading, in the order of [`Show::headings`].
    rows: fn(&Context<'_>) -> Vec<Row>,
}

impl Show {
    /// Columns as a version of PgBouncer has them, followed by those of later versions and Weir's own.
    pub(crate) fn columns(&self, version: PgBouncerVersion) -> Vec<Heading> {
        let order = self.order(version).into_iter();
        let found = order.filter_map(|at| self.headings.get(at));
        found.map(|heading| heading.in_version(version)).collect()
    }

    /// Rows for these columns.
    pub(crate) fn rows(&self, context: &Context<'_>, version: PgBouncerVersion) -> Vec<Row> {
        let rows = (self.rows)(context);
        let order = self.order(version);
        if order.is_sorted() {
            return rows;
        }
        let ordered = |mut row: Row| {
            debug_assert_eq!(row.len(), order.len(), "a value for each heading");
            let values = order
                .iter()
                .map(|at| row.get_mut(*at).and_then(Option::take));
            values.collect()
        };
        rows.into_iter().map(ordered).collect()
    }

    /// Places of the headings in the order of a version.
    fn order(&self, version: PgBouncerVersion) -> Vec<usize> {
        let mut order: Vec<_> = (0..self.headings.len()).collect();
        order.sort_by_key(|at| {
            let heading = self.headings.get(*at);
            heading.map(|heading| (heading.is_ours, !heading.is_in(version)))
        });
        order
    }
}

/// Data that rows are made from.
pub(crate) struct Context<'a> {
    pub(crate) settings: &'a Settings,
    /// Names in `auth_file`.
    pub(crate) users: &'a [String],
    pub(crate) snapshot: &'a Snapshot,
    /// Weir's own version.
    pub(crate) version: &'a str,
}

impl Context<'_> {
    /// Version of PgBouncer whose console is shown.
    fn compat(&self) -> PgBouncerVersion {
        self.settings.global.pgbouncer_compat
    }

    /// Names of all databases: configured, in use through `*`, and the console's own. Counters outlive a pool, so they do
    /// not keep a name here.
    fn databases(&self) -> BTreeSet<&str> {
        let configured = self.settings.databases.keys().map(String::as_str);
        let pooled = self.snapshot.pools.keys().map(|(name, _)| name.as_str());
        configured
            .chain(pooled)
            .filter(|name| *name != FALLBACK && !DATABASES.contains(name))
            .chain([CONSOLE])
            .collect()
    }

    /// Number of clients of the console.
    fn console_clients(&self) -> usize {
        let clients = self.snapshot.clients.iter();
        clients
            .filter(|client| is_console(&client.database))
            .count()
    }
}

/// True if a database name refers to the console.
pub(crate) fn is_console(database: &str) -> bool {
    DATABASES.contains(&database)
}

/// Value of any type.
pub(crate) fn some(value: impl ToString) -> Option<String> {
    Some(value.to_string())
}

/// Text, or NULL if it is empty.
pub(crate) fn filled(value: &str) -> Option<String> {
    (!value.is_empty()).then(|| value.to_owned())
}

/// Number for an int4 column; a number out of range is shown as the largest.
fn int(value: impl TryInto<i32>) -> Option<String> {
    some(value.try_into().unwrap_or(i32::MAX))
}

/// Number for an int8 column; a number out of range is shown as the largest.
pub(crate) fn long(value: u64) -> Option<String> {
    some(i64::try_from(value).unwrap_or(i64::MAX))
}

/// Unix seconds in PgBouncer's format, always in UTC; empty if the calendar has no such time.
pub(crate) fn timestamp(seconds: i64) -> String {
    Timestamp::from_second(seconds).map_or_else(
        |_| String::new(),
        |stamp| stamp.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
    )
}

/// Whole seconds and the microseconds that remain, for two int4 columns.
fn seconds(us: u64) -> [Option<String>; 2] {
    [int(us / 1_000_000), int(us % 1_000_000)]
}

/// `SHOW VERSION`: one column, because exporters read one.
pub(crate) static VERSION: Show = Show {
    headings: &[text("version")],
    is_live: false,
    rows: |context| {
        let version = format!("PgBouncer {}", context.compat().release());
        vec![vec![some(version)]]
    },
};

/// `SHOW CONFIG`.
pub(crate) static CONFIG: Show = Show {
    headings: &[
        text("key"),
        text("value"),
        text("default"),
        text("changeable"),
    ],
    is_live: false,
    rows: |context| {
        weir_config::show_config(context.settings)
            .into_iter()
            .map(|row| {
                let changeable = if row.changeable { "yes" } else { "no" };
                vec![some(row.key), row.value, row.default, some(changeable)]
            })
            .collect()
    },
};

/// `SHOW STATE`.
pub(crate) static STATE: Show = Show {
    headings: &[text("key"), text("value")],
    is_live: true,
    rows: |context| {
        let halts = &context.snapshot.halts;
        let is_active = !halts.all && !halts.suspended;
        let mut rows: Vec<Row> = [
            ("active", is_active),
            ("paused", halts.all),
            ("suspended", halts.suspended),
        ]
        .map(|(key, holds)| vec![some(key), some(if holds { "yes" } else { "no" })])
        .into();
        rows.push(vec![some("weir_version"), some(context.version)]);
        if let Some(driver) = &context.snapshot.driver {
            rows.push(vec![some("io_driver"), some(driver.name.as_str())]);
            rows.push(vec![some("io_driver_reason"), some(&driver.reason)]);
        }
        rows
    },
};
