//! Dependencies between objects: finds every name by which code that changes a session can be run.

use std::collections::HashMap;

use super::reach::Reach;
use super::{Catalogue, Entry};
use crate::access::Objects;
use crate::code::{self, Seen};
use crate::effects::Effects;
use crate::functions::Functions;
use crate::reason::Reason;

/// Maximum number of catalogue rows.
const ROWS_MAX: usize = 2_000_000;
/// Maximum number of settings recorded for one object; with more, it may set any.
const NAMES_MAX: usize = 64;

/// Reason why a catalogue could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadError {
    /// The row has an unexpected form.
    Malformed,
    /// The database has more objects than the limit.
    TooLarge,
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Malformed => "an answer of another kind",
            Self::TooLarge => "more objects than are looked at",
        })
    }
}

impl std::error::Error for LoadError {}

/// Graph with objects as nodes and uses as edges.
///
/// A node is the use of an object. `p` is a call of a function, `r` a read of a relation, `w` a write to it, `t` a
/// value of a domain, each with its OID; `o` is any operator or cast, `e` any definition.
#[derive(Debug, Default)]
pub(super) struct Graph {
    numbers: HashMap<Box<[u8]>, usize>,
    nodes: Vec<Node>,
    /// Nodes by name.
    names: HashMap<Box<[u8]>, Vec<usize>>,
    functions: Functions,
    reach: Reach,
    stamp: Box<[u8]>,
    rows: usize,
    /// True if transactions of some role are not READ COMMITTED by default.
    has_isolation: bool,
}

#[derive(Debug, Default)]
struct Node {
    effects: Effects,
    /// Words of the object's code that may be names.
    words: Vec<Box<[u8]>>,
    /// Nodes that use this one.
    users: Vec<usize>,
    /// True for a function that can be written without a parenthesis: `row.function`.
    is_attribute: bool,
}

impl Graph {
    /// Adds a row of the catalogue query: its kind, and the fields of that kind.
    pub(super) fn row(&mut self, row: [&[u8]; 5]) -> Result<(), LoadError> {
        self.rows += 1;
        if self.rows > ROWS_MAX {
            return Err(LoadError::TooLarge);
        }
        let [kind, id, name, language, text] = row;
        match kind {
            b"H" => self.stamp = id.into(),
            b"F" => {
                self.name(id, name);
                self.code(id, language, text);
            }
            b"A" => {
                let node = self.node(id);
                if let Some(node) = self.nodes.get_mut(node) {
                    node.is_attribute = true;
                }
            }
            b"N" => {
                self.name(id, name);
                if id.starts_with(b"r") {
                    let node = self.node(id);
                    self.reach.name(node, name);
                }
            }
            b"E" => {
                let (user, used) = (self.node(id), self.node(name));
                if let Some(used) = self.nodes.get_mut(used) {
                    used.users.push(user);
                }
            }
            b"D" => self.code(id, b"sql", text),
            b"I" => self.has_isolation = true,
            b"P" | b"R" | b"S" | b"V" => return self.reach(row),
            _ => return Err(LoadError::Malformed),
        }
        Ok(())
    }

    /// Adds a row that says where statements may run. Its second last column is a schema.
    fn reach(&mut self, [kind, id, name, schema, text]: [&[u8]; 5]) -> Result<(), LoadError> {
        let node = self.node(id);
        match kind {
            b"P" => self.reach.function(node, name, schema, text),
            b"R" => {
                self.reach.name(node, name);
                self.reach.kind(node, text)?;
            }
            b"S" => self.reach.definition(node, text),
            _ => self.reach.uses(node, (name, schema), text)?,
        }
        Ok(())
    }

    fn node(&mut self, id: &[u8]) -> usize {
        if let Some(number) = self.numbers.get(id) {
            return *number;
        }
        let number = self.nodes.len();
        self.nodes.push(Node::default());
        self.numbers.insert(id.into(), number);
        // A statement that writes also reads.
        if let [b'w', rest @ ..] = id {
            let read = self.node(&[b"r", rest].concat());
            if let Some(read) = self.nodes.get_mut(read) {
                read.users.push(number);
            }
        }
        number
    }

    fn name(&mut self, id: &[u8], name: &[u8]) {
        let number = self.node(id);
        let name = name.to_ascii_lowercase().into_boxed_slice();
        self.names.entry(name).or_default().push(number);
    }

    fn code(&mut self, id: &[u8], language: &[u8], code: &[u8]) {
        let number = self.node(id);
        let mut seen = Seen::new();
        let effects = code::effects(language, code, &self.functions, &mut seen);
        if let Some(node) = self.nodes.get_mut(number) {
            let before = std::mem::take(&mut node.effects);
            node.effects = bounded(before.join(effects.of_objects()));
            node.words.extend(seen);
        }
    }

    pub(super) fn into_catalogue(mut self) -> Result<Catalogue, LoadError> {
        if self.stamp.is_empty() {
            return Err(LoadError::Malformed);
        }
        let kinds = self.kinds();
        // Names in code add edges afterwards, which say nothing about what a relation reads.
        let objects = self.objects(&kinds);
        self.link_words();
        self.spread();
        let mut catalogue = Catalogue {
            objects: objects.into(),
            stamp: std::mem::take(&mut self.stamp),
            ..Catalogue::default()
        };
        let effects_of = |id: &[u8]| {
            let node = self
                .numbers
                .get(id)
                .and_then(|number| self.nodes.get(*number));
            node.map(|node| node.effects.clone()).unwrap_or_default()
        };
        catalogue.always = effects_of(b"o");
        catalogue.on_definition = effects_of(b"e");
        for (id, number) in &self.numbers {
            let oid = id
                .strip_prefix(b"p")
                .and_then(|oid| std::str::from_utf8(oid).ok());
            let oid = oid.and_then(|oid| oid.parse().ok());
            let node = self.nodes.get(*number);
            let effects = node.map(|node| &node.effects);
            if let (Some(oid), Some(effects)) = (oid, effects.filter(|it| !it.is_harmless())) {
                catalogue.numbers.insert(oid, effects.clone());
            }
        }
        for (name, numbers) in &self.names {
            for number in numbers {
                let (Some(node), Some(kind)) = (self.nodes.get(*number), kinds.get(*number)) else {
                    continue;
                };
                if node.effects.is_harmless() {
                    continue;
                }
                let effects = node.effects.clone();
                let entry = match kind {
                    b'p' if !node.is_attribute => Entry {
                        called: effects,
                        ..Entry::default()
                    },
                    b'w' => Entry {
                        written: effects,
                        ..Entry::default()
                    },
                    _ => Entry {
                        used: effects,
                        ..Entry::default()
                    },
                };
                catalogue.add(name, entry);
            }
        }
        Ok(catalogue)
    }

    /// Returns the first letters of all nodes' ids.
    fn kinds(&self) -> Vec<u8> {
        let mut kinds = vec![b' '; self.nodes.len()];
        for (id, number) in &self.numbers {
            if let (Some(kind), Some(first)) = (kinds.get_mut(*number), id.first()) {
                *kind = *first;
            }
        }
        kinds
    }

    fn objects(&mut self, kinds: &[u8]) -> Objects {
        let reach = std::mem::take(&mut self.reach);
        let users = |node: usize| {
            let node = self.nodes.get(node);
            node.map_or(&[][..], |node| node.users.as_slice())
        };
        let mut objects = reach.into_objects(users, |node| kinds.get(node) == Some(&b'r'));
        objects.has_isolation = self.has_isolation;
        objects
    }

    /// Adds edges from code to every object whose name is one of its words.
    fn link_words(&mut self) {
        for user in 0..self.nodes.len() {
            let words = (self.nodes.get_mut(user)).map(|node| std::mem::take(&mut node.words));
            for word in words.unwrap_or_default() {
                for used in self.names.get(&word).into_iter().flatten() {
                    if let Some(used) = self.nodes.get_mut(*used) {
                        used.users.push(user);
                    }
                }
            }
        }
    }

    /// Propagates effects from each object to its users.
    fn spread(&mut self) {
        let numbers = 0..self.nodes.len();
        let is_start = |number: &usize| {
            let node = self.nodes.get(*number);
            node.is_some_and(|node| !node.effects.is_harmless())
        };
        let mut due: Vec<usize> = numbers.filter(is_start).collect();
        while let Some(number) = due.pop() {
            let Some(node) = self.nodes.get(number) else {
                continue;
            };
            let (effects, users) = (node.effects.clone(), node.users.clone());
            for user in users {
                let Some(user_node) = self.nodes.get_mut(user) else {
                    continue;
                };
                let joined = bounded(user_node.effects.clone().join(effects.clone()));
                if joined != user_node.effects {
                    user_node.effects = joined;
                    due.push(user);
                }
            }
        }
    }
}

/// Limits the number of names: with more, the effects include any setting.
fn bounded(mut effects: Effects) -> Effects {
    // Sorted, so that equal effects compare as equal.
    effects.asks.names.sort();
    if effects.asks.names.len() > NAMES_MAX {
        let mut names = std::mem::take(&mut effects.asks.names).into_vec();
        names.truncate(NAMES_MAX);
        effects.asks.names = names.into();
        effects.leaves(Reason::Setting);
    }
    effects
}
