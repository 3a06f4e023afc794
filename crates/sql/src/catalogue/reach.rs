//! Reach of the relations of a database: whether a replica can read them, and which functions reading them calls.
//!
//! A relation reaches what it depends on by PostgreSQL's records: a view its tables and functions, a parent its
//! partitions and children, a table with policies their functions. Names in code count for nothing here, since a
//! function is judged by its own volatility.

use std::collections::HashMap;

use super::graph::LoadError;
use crate::access::{
    Called, Nature, Objects, Relation, Why, may_read_host_setting, of_system, reads_only,
};

/// Maximum number of functions that one relation calls. More make it unknown.
const CALLS_MAX: usize = 256;

/// Schema of PostgreSQL's own functions.
const SYSTEM: &str = "pg_catalog";

/// Functions, relations and what they reach themselves. Nodes are those of the graph.
#[derive(Debug, Default)]
pub(super) struct Reach {
    objects: Objects,
    functions: HashMap<usize, Called>,
    relations: HashMap<usize, Found>,
}

/// A relation, and what reading it reaches as far as is known.
#[derive(Debug, Default)]
struct Found {
    name: Box<str>,
    relation: Relation,
    /// True for a materialized view: reading it reads its stored rows and runs nothing of its definition.
    is_stored: bool,
}

impl Reach {
    /// Adds a function: name, schema and flags (`v`: VOLATILE or a procedure; `b`: `pg_catalog` has the name too).
    pub(super) fn function(&mut self, node: usize, name: &[u8], schema: &[u8], flags: &[u8]) {
        let called = Called {
            schema: text(schema),
            name: text(name),
        };
        let nature = Nature {
            is_volatile: flags.contains(&b'v'),
            is_built_in_too: flags.contains(&b'b'),
        };
        self.objects.add_function(&called, nature);
        self.functions.insert(node, called);
    }

    /// Records the name of a relation.
    pub(super) fn name(&mut self, node: usize, name: &[u8]) {
        self.relations.entry(node).or_default().name = text(name);
    }

    /// Records a relation of a special kind (`f`: foreign, `m`: materialized view, `s`: sequence, `u`: unlogged).
    pub(super) fn kind(&mut self, node: usize, kind: &[u8]) -> Result<(), LoadError> {
        let found = self.relations.entry(node).or_default();
        found.relation.why = match kind {
            b"f" => Some(Why::Foreign),
            b"m" => {
                found.is_stored = true;
                None
            }
            b"s" => Some(Why::Sequence),
            b"u" => Some(Why::Unlogged),
            _ => return Err(LoadError::Malformed),
        };
        Ok(())
    }

    /// Records that a view or policy uses a function (`f`) or a relation (`r`) of PostgreSQL's own.
    pub(super) fn uses(
        &mut self,
        node: usize,
        (name, schema): (&[u8], &[u8]),
        kind: &[u8],
    ) -> Result<(), LoadError> {
        let (name, schema) = (text(name), text(schema));
        let mut used = Relation::default();
        match kind {
            // Its argument decides, see `Reach::definition`.
            b"f" if *schema == *SYSTEM && *name == *"current_setting" => {}
            b"f" if *schema == *SYSTEM && reads_only(&name) => {}
            b"f" => drop(used.calls.insert(Called { schema, name })),
            b"r" => match of_system(Some(&schema), &name) {
                Some(Ok(reads_catalogue)) => used.reads_catalogue = reads_catalogue,
                Some(Err(why)) => used.why = Some(why),
                None => used.why = Some(Why::Unknown),
            },
            _ => return Err(LoadError::Malformed),
        }
        self.add(node, &used);
        Ok(())
    }

    /// Reads a definition that calls `current_setting`.
    pub(super) fn definition(&mut self, node: usize, definition: &[u8]) {
        if may_read_host_setting(definition) {
            let why = Some(Why::Host);
            let used = Relation {
                why,
                ..Relation::default()
            };
            self.add(node, &used);
        }
    }

    /// Adds to what a relation reaches. True if that is new, and so concerns the relation's users.
    fn add(&mut self, node: usize, more: &Relation) -> bool {
        let found = self.relations.entry(node).or_default();
        if found.is_stored {
            return false;
        }
        let relation = &mut found.relation;
        let before = (relation.why, relation.reads_catalogue, relation.calls.len());
        relation.join(more);
        if relation.calls.len() > CALLS_MAX {
            relation.why = relation.why.or(Some(Why::Unknown));
            relation.calls.clear();
        }
        before != (relation.why, relation.reads_catalogue, relation.calls.len())
    }

    /// Returns the objects of the database. `users` returns the nodes that use a node, and `is_read` is true for nodes
    /// that read a relation.
    pub(super) fn into_objects<'g>(
        mut self,
        users: impl Fn(usize) -> &'g [usize],
        is_read: impl Fn(usize) -> bool,
    ) -> Objects {
        let relations = self.relations.iter();
        let relations = relations.filter(|(_, found)| found.relation != Relation::default());
        let mut due: Vec<usize> = relations.map(|(node, _)| *node).collect();
        for (node, called) in std::mem::take(&mut self.functions) {
            let call = Relation {
                calls: [called].into(),
                ..Relation::default()
            };
            for user in users(node) {
                if is_read(*user) && self.add(*user, &call) {
                    due.push(*user);
                }
            }
        }
        while let Some(node) = due.pop() {
            let found = self.relations.get(&node);
            let Some(reached) = found.map(|found| found.relation.clone()) else {
                continue;
            };
            for user in users(node) {
                if is_read(*user) && self.add(*user, &reached) {
                    due.push(*user);
                }
            }
        }
        let mut objects = self.objects;
        for found in self.relations.into_values() {
            if found.relation != Relation::default() {
                objects.add_relation(&found.name, &found.relation);
            }
        }
        objects
    }
}

/// Returns a name as text. A replaced byte makes it a name that no statement has, so such an object is not known.
fn text(name: &[u8]) -> Box<str> {
    String::from_utf8_lossy(name).into()
}
