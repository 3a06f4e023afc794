//! Effects that the objects of a database may have on a session that uses them, and what decides where statements that
//! use them may run ([`Objects`]). Functions and procedures have effects by their bodies. Tables, views and domains have them by the functions that their triggers, rules, defaults, policies
//! and checks call.
//!
//! A [`Catalogue`] is immutable and small: of objects that run code which changes the session, it contains only names,
//! which are compared without schema and case. The catalogue is read from PostgreSQL's own ([`load_query`]), and
//! statements that define objects add to it at once ([`Catalogue::with`]).

use std::collections::HashMap;
use std::sync::Arc;

use crate::access::Objects;
use crate::effects::{Definition, Effects};
use crate::functions::NAME_MAX;

mod graph;
mod query;
mod reach;

pub use graph::LoadError;
pub use query::{load_query, stamp_query};

/// Effects by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalogue {
    entries: HashMap<Box<[u8]>, Entry>,
    /// Effects of functions by OID, for the protocol's FunctionCall.
    numbers: HashMap<u32, Effects>,
    /// Effects that any statement may have: those of operators and casts, which no word shows.
    always: Effects,
    /// Effects of statements that define objects: those of event triggers.
    on_definition: Effects,
    /// Effects of names beyond ASCII, which depend on encodings and locales.
    wide: Option<Effects>,
    /// Names that decide where statements may run.
    objects: Arc<Objects>,
    /// Stamp that identifies a version of the database's objects.
    stamp: Box<[u8]>,
}

/// Effects of using the objects with a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Entry {
    /// Effects of a call: the name stands before a parenthesis.
    called: Effects,
    /// Effects of any use.
    used: Effects,
    /// Effects of a use that may write.
    written: Effects,
}

/// Use of a word, by its place in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// The word stands before a parenthesis.
    Call,
    /// The statement only reads.
    Read,
    /// Any other statement.
    Write,
}

impl Catalogue {
    /// Builds a catalogue from the rows of [`load_query`].
    ///
    /// # Errors
    /// Fails if there are more rows than the limit, or rows of an unexpected form.
    pub fn load<'r>(rows: impl IntoIterator<Item = [&'r [u8]; 5]>) -> Result<Self, LoadError> {
        let mut graph = graph::Graph::default();
        for row in rows {
            graph.row(row)?;
        }
        graph.into_catalogue()
    }

    /// Returns a catalogue that also contains these definitions.
    #[must_use]
    pub fn with<'d>(&self, definitions: impl IntoIterator<Item = &'d Definition>) -> Self {
        let mut catalogue = self.clone();
        for definition in definitions {
            for name in &definition.names {
                let entry = Entry {
                    used: definition.effects.clone(),
                    ..Entry::default()
                };
                catalogue.add(name, entry);
            }
        }
        catalogue
    }

    /// True if all effects of the definition are known already.
    pub fn covers(&self, definition: &Definition) -> bool {
        definition.names.iter().all(|name| {
            let Some(entry) = self.entries.get(name) else {
                return false;
            };
            let known = entry.of(Use::Call).join(entry.of(Use::Write));
            known.clone().join(definition.effects.clone()) == known
        })
    }

    /// Returns the effects of calling the function with this OID, if it has any.
    pub(crate) fn function(&self, number: u32) -> Option<&Effects> {
        self.numbers.get(&number)
    }

    /// Returns the stamp that identifies the version of the database's objects; empty if nothing was loaded.
    pub fn stamp(&self) -> &[u8] {
        &self.stamp
    }

    /// Returns the functions and relations that decide where statements may run.
    pub fn objects(&self) -> &Arc<Objects> {
        &self.objects
    }

    /// Number of names.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if the catalogue contains no object that changes a session.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the names of all settings in the catalogue's effects.
    pub fn settings(&self) -> impl Iterator<Item = &str> {
        let entries = self.entries.values();
        let effects = entries.flat_map(|entry| [&entry.called, &entry.used, &entry.written]);
        let effects = effects.chain([&self.always, &self.on_definition]);
        effects.flat_map(|effects| effects.asks.names.iter().map(|name| &**name))
    }

    /// Returns the names of all objects, in lower case.
    pub(crate) fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.keys().map(|name| &**name)
    }

    pub(crate) fn is_wide(&self) -> bool {
        self.wide.is_some()
    }

    /// True if a use of the word (in lower case) may have effects.
    pub(crate) fn has(&self, word: &[u8]) -> bool {
        self.wide.is_some() && !word.is_ascii() || self.entries.contains_key(word)
    }

    /// Returns the effects of a use of the word.
    pub(crate) fn effects(&self, word: &[u8], how: Use) -> Effects {
        let name: Vec<u8> = word.to_ascii_lowercase();
        match (self.entries.get(name.as_slice()), &self.wide) {
            (Some(entry), _) => entry.of(how),
            (None, Some(wide)) if !word.is_ascii() => wide.clone(),
            _ => Effects::default(),
        }
    }

    /// Returns the effects of the word in code, in whatever use.
    pub(crate) fn any(&self, word: &[u8]) -> Effects {
        self.effects(word, Use::Call)
            .join(self.effects(word, Use::Write))
    }

    /// Returns the effects of every statement, if there are any.
    pub(crate) fn always(&self) -> Option<&Effects> {
        (!self.always.is_harmless()).then_some(&self.always)
    }

    /// Returns the effects of every statement that defines objects, if there are any.
    pub(crate) fn on_definition(&self) -> Option<&Effects> {
        (!self.on_definition.is_harmless()).then_some(&self.on_definition)
    }

    fn add(&mut self, name: &[u8], entry: Entry) {
        let name = name.get(..NAME_MAX).unwrap_or(name).to_ascii_lowercase();
        if !name.is_ascii() {
            let effects = entry.of(Use::Call).join(entry.of(Use::Write));
            let before = self.wide.take().unwrap_or_default();
            self.wide = Some(before.join(effects));
        }
        let known = self.entries.entry(name.into()).or_default();
        let before = std::mem::take(known);
        *known = Entry {
            called: before.called.join(entry.called),
            used: before.used.join(entry.used),
            written: before.written.join(entry.written),
        };
    }
}

impl Entry {
    fn of(&self, how: Use) -> Effects {
        let used = self.used.clone();
        match how {
            Use::Call => used.join(self.called.clone()),
            Use::Read => used,
            Use::Write => used.join(self.written.clone()),
        }
    }
}

#[cfg(test)]
mod tests;
