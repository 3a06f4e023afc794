//! Differences between two configurations, for reloads.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::cluster::HostTables;
use crate::options::Opt;
use crate::rules::QueryRule;
use crate::settings::Settings;
use crate::value::Value;

/// A difference between two settings. The texts are for messages and hold no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The value of an option differs.
    Changed {
        /// Name of the option: `pool_mode`, `databases.NAME.host`, ….
        key: String,
        /// The old value, as `SHOW CONFIG` spells it; secrets are `***`.
        old: String,
        /// The new value.
        new: String,
        /// True if a reload may apply it; false if it needs a restart.
        reloadable: bool,
    },
    /// An added entry: `databases.NAME`, `users.NAME`, `pools.DATABASE.USER`, `peers.ID`.
    Added(String),
    /// A removed entry.
    Removed(String),
}

impl Change {
    /// True if a reload may apply it.
    #[must_use]
    pub fn is_reloadable(&self) -> bool {
        match self {
            Self::Changed { reloadable, .. } => *reloadable,
            // Sockets are opened at the start only.
            Self::Added(key) | Self::Removed(key) => !key.starts_with("listeners."),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed { key, old, new, .. } => {
                write!(f, "{key}: {old:?} to {new:?}")
            }
            Self::Added(key) => write!(f, "{key} added"),
            Self::Removed(key) => write!(f, "{key} removed"),
        }?;
        match self.is_reloadable() {
            true => Ok(()),
            false => f.write_str(" (needs a restart)"),
        }
    }
}

/// Lists the differences, global options first. Entries are matched by name.
#[must_use]
pub fn diff(old: &Settings, new: &Settings) -> Vec<Change> {
    let mut changes = Vec::new();
    values(&mut changes, "", old.global.values(), new.global.values());
    entries(
        &mut changes,
        "databases",
        &old.databases,
        &new.databases,
        |e| e.values(),
    );
    hosts(&mut changes, old, new);
    let (before, after) = (&old.listeners, &new.listeners);
    entries(&mut changes, "listeners", before, after, |e| e.values());
    pools(&mut changes, old, new);
    entries(&mut changes, "users", &old.users, &new.users, |e| {
        e.values()
    });
    entries(&mut changes, "peers", &old.peers, &new.peers, |e| {
        e.values()
    });
    rules(&mut changes, &old.rules, &new.rules);
    lists(&mut changes, old, new);
    changes
}

/// Compares the lists of statements by user.
fn lists(changes: &mut Vec<Change>, old: &Settings, new: &Settings) {
    let (old, new) = (&old.statement_lists, &new.statement_lists);
    let users: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for user in users {
        let key = format!("statement_lists.{user}");
        match (old.get(user), new.get(user)) {
            (Some(before), Some(after)) if before != after => changes.push(Change::Changed {
                key,
                old: format!("{} statements", before.len()),
                new: format!("{} statements", after.len()),
                reloadable: true,
            }),
            (None, Some(_)) => changes.push(Change::Added(key)),
            (Some(_), None) => changes.push(Change::Removed(key)),
            _ => {}
        }
    }
}

/// Compares the rules by name. A rule whose place among the others has changed counts as changed.
fn rules(changes: &mut Vec<Change>, old: &[QueryRule], new: &[QueryRule]) {
    let places = |rules: &'_ [QueryRule]| -> BTreeMap<String, usize> {
        let rules = rules.iter().enumerate();
        rules
            .map(|(place, rule)| (rule.rule.name.to_string(), place))
            .collect()
    };
    let (before, after) = (places(old), places(new));
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for name in names {
        let key = format!("rules.{name}");
        match (before.get(name), after.get(name)) {
            (Some(one), Some(other)) => {
                let same = |rules: &[QueryRule], at: usize| rules.get(at).cloned();
                let (mine, theirs) = (same(old, *one), same(new, *other));
                let is_same =
                    matches!((&mine, &theirs), (Some(mine), Some(theirs)) if mine.is_like(theirs));
                if !is_same || one != other {
                    changes.push(Change::Changed {
                        key,
                        old: mine.map_or_else(String::new, |rule| rule.summary()),
                        new: theirs.map_or_else(String::new, |rule| rule.summary()),
                        reloadable: true,
                    });
                }
            }
            (None, _) => changes.push(Change::Added(key)),
            (_, None) => changes.push(Change::Removed(key)),
        }
    }
}

type Row = (&'static Opt, Value);

fn entries<K: Ord + fmt::Display, V>(
    changes: &mut Vec<Change>,
    section: &str,
    old: &BTreeMap<K, V>,
    new: &BTreeMap<K, V>,
    rows: impl Fn(&V) -> Vec<Row>,
) {
    let names: BTreeSet<&K> = old.keys().chain(new.keys()).collect();
    for name in names {
        let key = format!("{section}.{name}");
        match (old.get(name), new.get(name)) {
            (Some(old), Some(new)) => values(changes, &format!("{key}."), rows(old), rows(new)),
            (None, _) => changes.push(Change::Added(key)),
            (_, None) => changes.push(Change::Removed(key)),
        }
    }
}

/// Compares the tables of single hosts of the databases that both have.
fn hosts(changes: &mut Vec<Change>, old: &Settings, new: &Settings) {
    let none = HostTables::new();
    for name in old.databases.keys() {
        if new.databases.contains_key(name) {
            let tables = |settings: &'_ Settings| settings.hosts.get(name).unwrap_or(&none).clone();
            let section = format!("databases.{name}.hosts");
            entries(changes, &section, &tables(old), &tables(new), |host| {
                host.values()
            });
        }
    }
}

/// Compares the entries of single users of databases.
fn pools(changes: &mut Vec<Change>, old: &Settings, new: &Settings) {
    let none = BTreeMap::new();
    let names: BTreeSet<&String> = old.pools.keys().chain(new.pools.keys()).collect();
    for name in names {
        let of = |settings: &'_ Settings| settings.pools.get(name).unwrap_or(&none).clone();
        let section = format!("pools.{name}");
        entries(changes, &section, &of(old), &of(new), |entry| {
            entry.values()
        });
    }
}

fn values(changes: &mut Vec<Change>, prefix: &str, old: Vec<Row>, new: Vec<Row>) {
    for ((opt, old), (_, new)) in old.into_iter().zip(new) {
        if old != new {
            changes.push(Change::Changed {
                key: format!("{prefix}{}", opt.name),
                old: old.to_ini(opt.kind),
                new: new.to_ini(opt.kind),
                reloadable: opt.reloadable,
            });
        }
    }
}
