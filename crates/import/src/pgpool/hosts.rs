//! Backends of Pgpool-II as the hosts of the one entry that stands for all databases.

use std::collections::BTreeMap;

use super::Facts;
use crate::apply::{point, replica, set, shares};
use crate::draft::{Draft, Table, Term};
use crate::finding::Outcome;
use crate::leaf::Leaf;

/// Factor that makes whole numbers of weights.
const PRECISION: f64 = 1000.0;

/// A backend.
struct Node {
    host: String,
    port: String,
    weight: f64,
    is_always_primary: bool,
}

/// All backends by their numbers.
pub(super) struct Nodes(BTreeMap<usize, Node>);

/// Entry for all databases.
pub(super) fn table() -> Table {
    Table::Database(weir_config::FALLBACK.to_owned())
}

impl Nodes {
    pub(super) fn gather(values: &BTreeMap<String, Leaf>) -> Self {
        let mut nodes = BTreeMap::new();
        for (name, leaf) in values {
            let number = name.strip_prefix("backend_hostname");
            let Some(number) = number.and_then(|number| number.parse().ok()) else {
                continue;
            };
            let text = |name: &str| values.get(&format!("{name}{number}")).map(Leaf::text);
            let port = text("backend_port").unwrap_or_else(|| "5432".to_owned());
            let weight = text("backend_weight").and_then(|weight| weight.parse().ok());
            let flags = text("backend_flag").unwrap_or_default();
            let host = match leaf.text() {
                host if host.is_empty() => "/tmp".to_owned(),
                host => host,
            };
            nodes.insert(
                number,
                Node {
                    host,
                    port,
                    weight: weight.unwrap_or(1.0),
                    is_always_primary: flags.contains("ALWAYS_PRIMARY"),
                },
            );
        }
        Self(nodes)
    }

    pub(super) fn are_several(&self) -> bool {
        self.0.len() > 1
    }

    /// Number of the host that stands first, which is the primary as far as the files tell.
    fn first(&self) -> Option<usize> {
        let marked = self.0.iter().find(|(_, node)| node.is_always_primary);
        marked
            .or_else(|| self.0.iter().next())
            .map(|(number, _)| *number)
    }

    /// Maps a setting of a backend.
    pub(super) fn setting(
        &self,
        leaf: &Leaf,
        name: &str,
        number: Option<usize>,
        facts: &Facts,
        draft: &mut Draft,
    ) -> Outcome {
        let Some((number, node)) = number.and_then(|number| Some((number, self.0.get(&number)?)))
        else {
            return Outcome::NotMapped("there is no backend_hostname of this number".to_owned());
        };
        let is_first = self.first() == Some(number);
        match name {
            "backend_hostname" if is_first => set(draft, table(), "host", Term::text(&node.host)),
            "backend_port" if is_first => {
                let port = leaf.number().unwrap_or_default();
                set(draft, table(), "port", Term::Number(port))
            }
            "backend_hostname" | "backend_port" => {
                let watcher = facts.watcher().map(|(user, _)| user);
                replica(
                    point(&node.host, &node.port),
                    watcher.as_ref(),
                    table(),
                    draft,
                )
            }
            "backend_weight" => self.weight(node, is_first, facts, draft),
            _ => self.flag(leaf, node, facts, draft),
        }
    }

    fn weight(&self, node: &Node, is_first: bool, facts: &Facts, draft: &mut Draft) -> Outcome {
        if !facts.splits() {
            return Outcome::NoMeaning("no statement is sent to a replica");
        }
        if is_first {
            return Outcome::NoMeaning("the primary takes reads only if no replica can");
        }
        let replicas = self
            .0
            .iter()
            .filter(|(number, _)| self.first() != Some(**number));
        #[expect(clippy::cast_possible_truncation, reason = "saturates")]
        let weight = |node: &Node| (node.weight.max(0.0) * PRECISION).round() as i64;
        let weights = replicas.map(|(_, node)| (point(&node.host, &node.port), weight(node)));
        shares(weights, Some(&point(&node.host, &node.port)), draft)
    }

    fn flag(&self, leaf: &Leaf, node: &Node, facts: &Facts, draft: &mut Draft) -> Outcome {
        let text = leaf.text();
        if text.contains("DISALLOW_TO_FAILOVER") && self.are_several() {
            let why = "a host that does not answer is not used; see probe_fall and failover_hold";
            return Outcome::NotMapped(why.to_owned());
        }
        match node.is_always_primary && self.are_several() && facts.watcher().is_some() {
            true => {
                let host = point(&node.host, &node.port);
                let host = Table::Host(weir_config::FALLBACK.to_owned(), host);
                set(draft, host, "role", Term::text("primary"))
            }
            false => Outcome::NoMeaning("Weir asks each host for its role"),
        }
    }
}
