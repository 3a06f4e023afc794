//! Tables of ProxySQL, gathered before any column is mapped.

use std::collections::{BTreeMap, BTreeSet};

use crate::leaf::Leaf;

/// Name of a row: its file and its position.
pub(super) type Key = (String, usize);
/// Columns of a row.
pub(super) type Row = BTreeMap<String, String>;

/// Part that a server has in the one entry of all databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// In the host group of the users.
    Writer,
    /// In its reader group.
    Reader,
    /// Out of use.
    Offline,
    /// In a host group that no user begins with.
    Elsewhere,
}

#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) servers: BTreeMap<Key, Row>,
    pub(super) users: BTreeMap<Key, Row>,
    pub(super) rules: BTreeMap<Key, Row>,
    pub(super) variables: Row,
    /// Writer group, the one of most users.
    pub(super) writer: String,
    pub(super) readers: BTreeSet<String>,
    pub(super) files: BTreeSet<String>,
}

impl Facts {
    pub(super) fn gather(leaves: &[Leaf]) -> Self {
        let mut facts = Self::default();
        let mut groups: BTreeMap<Key, Row> = BTreeMap::new();
        for leaf in leaves {
            facts.files.insert(leaf.file.clone());
            let rows = match *leaf.parts().as_slice() {
                ["pgsql_variables", name] => {
                    facts.variables.insert(name.to_owned(), leaf.text());
                    continue;
                }
                ["pgsql_servers", ..] => &mut facts.servers,
                ["pgsql_users", ..] => &mut facts.users,
                ["pgsql_query_rules", ..] => &mut facts.rules,
                ["pgsql_replication_hostgroups", ..] => &mut groups,
                _ => continue,
            };
            if let (Some(key), Some(name)) = (key(leaf), leaf.path.get(2)) {
                let name = match name.as_str() {
                    "address" => "hostname",
                    "hostgroup_id" => "hostgroup",
                    name => name,
                };
                rows.entry(key)
                    .or_default()
                    .insert(name.to_owned(), leaf.text());
            }
        }
        facts.choose_groups(&groups);
        facts
    }

    fn choose_groups(&mut self, groups: &BTreeMap<Key, Row>) {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for user in self.users.values().filter(|user| is_active(user)) {
            *counts
                .entry(column(user, "default_hostgroup", "0"))
                .or_default() += 1;
        }
        // Of groups with as many users, the first counts.
        let most = counts
            .iter()
            .max_by_key(|(_, count)| **count)
            .map(|(_, count)| *count);
        let chosen = counts.into_iter().find(|(_, count)| Some(*count) == most);
        let first = self.servers.values().next();
        let first = first.map_or_else(|| "0".to_owned(), |server| column(server, "hostgroup", "0"));
        self.writer = chosen.map_or(first, |(group, _)| group);
        for group in groups.values() {
            if column(group, "writer_hostgroup", "") == self.writer {
                self.readers.insert(column(group, "reader_hostgroup", ""));
            }
        }
    }

    pub(super) fn part(&self, server: &Row) -> Part {
        let group = column(server, "hostgroup", "0");
        if column(server, "status", "ONLINE")
            .to_uppercase()
            .starts_with("OFFLINE")
        {
            Part::Offline
        } else if group == self.writer {
            Part::Writer
        } else if self.readers.contains(&group) {
            Part::Reader
        } else {
            Part::Elsewhere
        }
    }

    /// Returns the servers of the entry, writers first, each address once.
    pub(super) fn used(&self) -> Vec<&Row> {
        let mut used: Vec<&Row> = Vec::new();
        for wanted in [Part::Writer, Part::Reader] {
            for server in self
                .servers
                .values()
                .filter(|server| self.part(server) == wanted)
            {
                if !used.iter().any(|known| address(known) == address(server)) {
                    used.push(server);
                }
            }
        }
        used
    }

    /// True if the hosts have roles: there is a reader group with a server.
    pub(super) fn has_roles(&self) -> bool {
        let is_reader = |server: &Row| self.part(server) == Part::Reader;
        self.used().len() > 1 && self.servers.values().any(is_reader)
    }

    pub(super) fn variable(&self, name: &str, default: &str) -> String {
        column(&self.variables, name, default)
    }
}

/// Returns the row of a setting in a table.
pub(super) fn key(leaf: &Leaf) -> Option<Key> {
    let number = leaf.path.get(1)?.parse().ok()?;
    Some((leaf.file.clone(), number))
}

pub(super) fn column(row: &Row, name: &str, default: &str) -> String {
    row.get(name).cloned().unwrap_or_else(|| default.to_owned())
}

pub(super) fn address(server: &Row) -> (String, String) {
    (
        column(server, "hostname", ""),
        column(server, "port", "5432"),
    )
}

pub(super) fn is_active(row: &Row) -> bool {
    column(row, "active", "1") != "0"
}
