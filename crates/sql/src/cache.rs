//! Judge of texts: decides by words, then by the grammar, and caches verdicts by text.

use std::sync::Arc;

use crate::access::{self, Access, Cause, Names};
use crate::catalogue::Catalogue;
use crate::effects::Effects;
use crate::functions::Functions;
use crate::judge::{by_words, judge};
use crate::pieces::Pieces;
use crate::scan::{is_harmless, is_harmless_while_pinned};
use crate::short::{Short, slot};

mod accesses;
mod generations;

use accesses::Accesses;
use generations::Generations;

/// Judges texts and caches the verdicts that took a parse. Caches verdicts of short texts separately: programs repeat
/// few texts, and such a lookup costs a tenth of scanning the words.
#[derive(Debug)]
pub struct Judge {
    functions: Functions,
    generation: u64,
    effects: Generations<Arc<Effects>>,
    /// Short texts that were found harmless; true if they were also proved unable to end a pin.
    harmless: Short<bool>,
    names: Names,
    /// Hash of the lists in `names`.
    lists: u64,
    accesses: Accesses,
}

impl Judge {
    /// Creates a judge with an empty cache. Functions of the database belong to the primary until
    /// [`Judge::set_catalogue`].
    pub fn new(functions: Functions) -> Self {
        Self {
            functions,
            generation: 0,
            effects: Generations::default(),
            harmless: Short::default(),
            names: Names::default(),
            lists: 0,
            accesses: Accesses::default(),
        }
    }

    /// Uses another catalogue from now on, and forgets verdicts of the last one. A later catalogue has a greater
    /// generation.
    pub fn set_catalogue(&mut self, catalogue: &Arc<Catalogue>, generation: u64) {
        let names = std::mem::take(&mut self.names);
        *self = Self {
            generation,
            names: names.with_objects(catalogue.objects()),
            lists: self.lists,
            ..Self::new(self.functions.with_catalogue(catalogue))
        };
    }

    /// Uses the administrator's lists in `names` from now on, with the objects of the present catalogue, and forgets
    /// where texts may run by the last lists.
    pub fn set_names(&mut self, names: Names) {
        self.lists = names.lists();
        self.names = names.with_objects(self.functions.catalogue().objects());
        self.accesses = Accesses::default();
    }

    /// Generation of the catalogue; 0 if there is none.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// True if the catalogue was read from the database: what its functions and views do is known.
    pub fn has_read_catalogue(&self) -> bool {
        !self.functions.catalogue().stamp().is_empty()
    }

    /// Number that differs if a verdict of [`Judge::access`] may differ: for verdicts that are kept elsewhere.
    #[inline]
    pub fn access_version(&self) -> u64 {
        self.generation ^ self.lists
    }

    /// True if BEGIN without an isolation level begins READ COMMITTED for every role, as far as the catalogue knows.
    pub fn begins_read_committed(&self) -> bool {
        self.generation > 0 && !self.functions.catalogue().objects().has_isolation
    }

    /// Returns the effects of calling a database function by OID, if the catalogue knows any.
    pub fn function(&self, number: u32) -> Option<Arc<Effects>> {
        let effects = self.functions.catalogue().function(number);
        effects.cloned().map(Arc::new)
    }

    /// Returns where the text may run if the database has replicas. Unlike [`access`](access::access), this counts what
    /// the text does to its session.
    ///
    /// A verdict is shared because it may contain a name: a known text, and a new one that words decide, cost no
    /// allocation.
    pub fn access(&mut self, text: &[u8]) -> Arc<Access> {
        let place = slot(text);
        if let Some(known) = self.accesses.short.find(place, text) {
            return Arc::clone(known);
        }
        let verdict = self.find_access(text);
        self.accesses.short.keep(place, text, Arc::clone(&verdict));
        verdict
    }

    fn find_access(&mut self, text: &[u8]) -> Arc<Access> {
        // As cheap as a lookup of a longer text, and such texts are often new each time.
        if let Some(access) = access::by_words(text, &self.names) {
            let access = self.in_session(text, access);
            return self.accesses.share(access);
        }
        if let Some(known) = self.accesses.parsed.find(text) {
            return known;
        }
        let access = access::by_grammar(text, &self.names);
        let access = Arc::new(self.in_session(text, access));
        self.accesses.parsed.keep(text, &access);
        access
    }

    /// Returns where a text may run, given where it may run but for its session.
    fn in_session(&mut self, text: &[u8], access: Access) -> Access {
        if matches!(access, Access::Primary(_)) {
            return access;
        }
        let effects = self.effects(text, true);
        match effects.and_then(|effects| access::state(&access, &effects)) {
            Some(state) => Access::Primary(Cause::Session(state)),
            None => access,
        }
    }

    /// Returns the effects that the text may have on its session; `None` if it is harmless. With `pinned`, effects that
    /// may end a pin count too.
    pub fn effects(&mut self, text: &[u8], pinned: bool) -> Option<Arc<Effects>> {
        let place = slot(text);
        let known = self.harmless.find(place, text);
        if known.is_some_and(|while_pinned| *while_pinned || !pinned) {
            return None;
        }
        let harmless = if pinned {
            is_harmless_while_pinned(text, &self.functions)
        } else {
            is_harmless(text, &self.functions)
        };
        if harmless {
            self.harmless.keep(place, text, pinned);
            return None;
        }
        let effects = self.verdict(text);
        let harmless = if pinned {
            effects.is_harmless_while_pinned()
        } else {
            effects.is_harmless()
        };
        (!harmless).then_some(effects)
    }

    /// Returns the effects of code named in the next piece of a statement about data (SELECT, INSERT, ..), for a text
    /// too long to be kept until it is complete. `None` if there are no effects.
    pub fn piece(&self, pieces: &mut Pieces, piece: &[u8]) -> Option<Effects> {
        pieces.read(piece, &self.functions)
    }

    fn verdict(&mut self, text: &[u8]) -> Arc<Effects> {
        if let Some(effects) = self.effects.find(text) {
            return effects;
        }
        // As cheap as a cache lookup, and such texts are often new each time.
        if let Some(effects) = by_words(text, &self.functions) {
            return Arc::new(effects);
        }
        let effects = Arc::new(judge(text, &self.functions));
        self.effects.keep(text, &effects);
        effects
    }
}

#[cfg(test)]
mod tests;
