//! Prepared statements: one shared identity per text, parameter types and planning settings, and a record of which
//! server has which statement.
//!
//! A statement is found by a keyed hash, but always compared by its full bytes (text and type oids) and the rest of its
//! meaning (`planning`). So two different statements cannot be confused. Its name on servers is ours and unique in the
//! process; clients never see it.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use weir_sql::{Access, Effects, Judge, ShapeKey, Shaper};
use weir_wire::before_nul;
use weir_wire::encode;

use crate::sql::{self, Deallocated};

pub(crate) mod planning;
mod prepared;
mod proven;
mod registry;

use crate::settings::Settings;
use planning::Context;
pub(crate) use prepared::Copy;
pub use prepared::{Prepared, Presence};
pub use proven::Proven;
pub use registry::Registry;

/// Minimum room of a map or queue that is never freed.
const ROOM_MIN: usize = 64;

/// True if a map or queue has room for more than four times its entries, so that freeing memory is worth the work.
pub(crate) fn is_roomy(capacity: usize, len: usize) -> bool {
    capacity > ROOM_MIN && capacity / 4 > len
}

/// Prefix of our statement names on servers.
pub(crate) const NAME_PREFIX: &[u8] = b"weir_";

/// Name that is bound in place of a statement whose columns have changed; no server has it.
pub(crate) const OUTDATED: &[u8] = b"weir_outdated";

/// Parameter types and columns that a server's Parse resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Description {
    /// Number and oids as in ParameterDescription, which is also the end of a Parse.
    pub types: Box<[u8]>,
    /// Hash of the columns (`relay::shape`).
    pub shape: u64,
}

/// A statement known to this worker.
#[derive(Debug)]
pub struct Statement {
    /// Id, unique in the process.
    pub id: u64,
    /// Name on every server: `weir_` and the id.
    pub name: Box<[u8]>,
    /// The Parse message after the name: text, NUL, number of parameter types, their oids.
    pub body: Box<[u8]>,
    /// Length in bytes of the text.
    text_len: usize,
    /// Context of the statement's meaning. `None` if that is unknown, so the statement is not shared.
    context: Option<Arc<Context>>,
    /// Era of [`Proven`] in which a server accepted the statement; 0 if none has.
    proven_in: AtomicU64,
    /// True if a later Parse of the text got another description: new Parses then get another statement. Clients that
    /// have this one keep it.
    retired: AtomicBool,
    /// Parameter types and columns, which are the same for every copy; set once, by the first description.
    described: OnceLock<Description>,
    /// True if the statement was made for one client whose Parse got another description. It has the id and name of the
    /// original until [`Registry::version`] replaces it, and is never sent to a server.
    is_apart: bool,
    /// True if the statement may return rows, always with the same columns (otherwise PostgreSQL refuses it).
    pub(crate) returns_rows: bool,
    /// True if a server must describe the statement's parameters or columns.
    needs_description: bool,
    /// Name that the statement deallocates.
    pub(crate) deallocates: Option<Box<[u8]>>,
    /// True if a Parse of the statement causes notices, which every client must get.
    talks: AtomicBool,
    /// Number of times clients have prepared the statement without a name.
    unnamed: AtomicU32,
    /// True if running the statement may change settings that affect planning, for the rest of its transaction.
    pub(crate) plans_locally: bool,
    /// Effects of running the statement, with the generation of the catalogue they were judged by; set when it is first
    /// bound.
    effects: OnceLock<(u64, Option<Arc<Effects>>)>,
    /// Hosts on which the statement may run, with the version of the judge's knowledge; set when that is first asked.
    access: OnceLock<(u64, Arc<Access>)>,
    /// Shape of the text, set when the statement is first counted; `None` for an empty one.
    shape_key: OnceLock<Option<ShapeKey>>,
}

impl Statement {
    /// Records that a client prepares the statement without a name. Returns the number of times so far.
    pub(crate) fn came_unnamed(&self) -> u32 {
        let count = self.unnamed.load(Relaxed).saturating_add(1);
        self.unnamed.store(count, Relaxed);
        count
    }

    /// Returns the SQL text, a NUL, and the types of parameters, as in a Parse.
    pub(crate) fn definition(&self) -> &[u8] {
        &self.body
    }

    /// Returns the SQL text.
    pub(crate) fn text(&self) -> &[u8] {
        self.body.get(..self.text_len).unwrap_or_default()
    }

    /// Returns the effects of running the statement, by the judge's present knowledge.
    pub(crate) fn effects(&self, judge: &mut Judge) -> Option<Arc<Effects>> {
        let generation = judge.generation();
        let (known, effects) = self
            .effects
            .get_or_init(|| (generation, judge.effects(self.text(), true)));
        if *known == generation {
            effects.clone()
        } else {
            // The judge caches its verdicts.
            judge.effects(self.text(), true)
        }
    }

    /// Returns where the statement may run, by the judge's present knowledge.
    pub(crate) fn access(&self, judge: &mut Judge) -> Arc<Access> {
        let version = judge.access_version();
        let (known, access) = self
            .access
            .get_or_init(|| (version, judge.access(self.text())));
        if *known == version {
            Arc::clone(access)
        } else {
            // The judge caches its verdicts.
            judge.access(self.text())
        }
    }

    /// Returns the shape of the text; `None` if it is empty. All shapers of a process have one seed.
    pub(crate) fn shape_key(&self, shaper: &Shaper) -> Option<ShapeKey> {
        *self
            .shape_key
            .get_or_init(|| shaper.first(self.text(), true))
    }

    fn new(id: u64, body: &[u8], context: Option<Arc<Context>>) -> Self {
        let text = before_nul(body);
        let returns_rows = sql::may_return_rows(text);
        Self {
            id,
            name: format!("weir_{id}").into_bytes().into_boxed_slice(),
            body: body.into(),
            text_len: text.len(),
            context,
            proven_in: AtomicU64::new(0),
            retired: AtomicBool::new(false),
            described: OnceLock::new(),
            is_apart: false,
            returns_rows,
            needs_description: returns_rows || text.contains(&b'$'),
            deallocates: match sql::deallocated(text) {
                Some(Deallocated::One(name)) => Some(name.into()),
                Some(Deallocated::All) | None => None,
            },
            plans_locally: planning::may_plan_locally(body),
            talks: AtomicBool::new(false),
            unnamed: AtomicU32::new(0),
            effects: OnceLock::new(),
            access: OnceLock::new(),
            shape_key: OnceLock::new(),
        }
    }

    /// True if the text, once it was parsed, means the same in this context.
    pub(crate) fn is_of(&self, context: &Arc<Context>) -> bool {
        let mine = self.context.as_ref();
        mine.is_some_and(|mine| Arc::ptr_eq(mine, context) || mine.lasts_in(context))
    }

    /// Returns the context of the statement's meaning; `None` if the statement belongs to one client.
    pub(crate) fn context(&self) -> Option<&Arc<Context>> {
        self.context.as_ref()
    }

    /// Returns the context in which to prepare the text again for a client in this one: the statement's own, if that
    /// still applies.
    pub(crate) fn context_in<'c>(&'c self, context: &'c Arc<Context>) -> &'c Arc<Context> {
        let mine = self.context.as_ref();
        mine.filter(|mine| mine.lasts_in(context))
            .unwrap_or(context)
    }

    /// Returns the SQL that sets the settings the literals must be read by, and those that set the client's
    /// again.
    pub(crate) fn literals(&self, client: &Settings) -> (Vec<String>, Vec<String>) {
        let context = self.context.as_ref();
        context.map_or_else(Default::default, |context| context.literals(client))
    }

    /// Returns the settings that the statement's meaning depends on; `None` if they are unknown.
    pub(crate) fn context_settings(&self) -> Option<Vec<(String, String)>> {
        self.context.as_ref().map(|context| context.pairs())
    }

    /// True if the statement belongs to one client.
    pub(crate) fn is_private(&self) -> bool {
        self.context.is_none()
    }

    /// True for the statement that no server has ([`OUTDATED`]).
    pub(crate) fn is_outdated(&self) -> bool {
        *self.name == *OUTDATED
    }

    /// Returns the hash of the columns that clients rely on; 0 if there are none or they are unknown.
    pub(crate) fn shape(&self) -> u64 {
        let known = self.described.get().filter(|_| self.returns_rows);
        known.map_or(0, |known| known.shape)
    }

    /// Returns parameter types and columns, if known.
    pub(crate) fn description(&self) -> Option<&Description> {
        self.described.get()
    }

    /// Records a server's description of a Parse of the text. Returns false if it differs from the known one.
    pub(crate) fn describe(&self, types: &[u8], shape: u64) -> bool {
        let known = self.described.get_or_init(|| Description {
            types: types.into(),
            shape,
        });
        *known.types == *types && (!self.returns_rows || known.shape == shape)
    }

    /// True if a server must describe a Parse of the text: it has parameters or columns.
    pub(crate) fn needs_description(&self) -> bool {
        self.needs_description
    }

    /// True if copies can be prepared with the parameter types and columns that clients rely on.
    pub(crate) fn is_settled(&self) -> bool {
        !self.needs_description || self.described.get().is_some()
    }

    /// Returns the text as one client's Parse has resolved it, until [`Registry::version`] gives it an id of its own.
    pub(crate) fn apart(&self, description: Option<Description>) -> Self {
        let mut apart = Self::new(self.id, &self.body, self.context.clone());
        apart.is_apart = true;
        if let Some(description) = description {
            let _ = apart.described.set(description);
        }
        apart
    }

    /// True if [`Registry::version`] must replace the statement before its use.
    pub(crate) fn is_apart(&self) -> bool {
        self.is_apart
    }

    /// Retires the statement: new Parses of the text get another statement.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Relaxed);
    }

    /// True if new Parses of the text get another statement.
    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Relaxed)
    }

    /// Writes a Parse under `name`, with the known parameter types if there are any.
    pub(crate) fn put_parse(&self, out: &mut Vec<u8>, name: &[u8]) {
        let Some(known) = self.described.get() else {
            return put_parse(out, name, &[&self.body]);
        };
        put_parse(out, name, &[self.text(), &[0], &known.types]);
    }

    /// Returns a new time of the pool's clock for a Parse about to be sent. All copies of a private statement have the
    /// same time.
    pub(crate) fn tick(&self) -> u64 {
        let context = self.context.as_ref();
        context.map_or(1, |context| context.proven.tick())
    }

    /// Returns a time of the pool's clock that is before all Parses to come.
    pub(crate) fn now(&self) -> u64 {
        let context = self.context.as_ref();
        context.map_or(0, |context| context.proven.now())
    }

    /// Records that a server of the pool has prepared the statement with these settings, and so would again.
    pub(crate) fn prove(&self) {
        let Some(context) = self.context.as_ref().filter(|_| !self.talks()) else {
            return;
        };
        let era = context.proven.era();
        if self.proven_in.swap(era, Relaxed) != era {
            context.proven.add(context, &self.body);
        }
    }

    /// Records that a Parse of the statement has caused a notice.
    pub(crate) fn has_talked(&self) {
        self.talks.store(true, Relaxed);
    }

    /// True if only a server can answer a Parse of the statement.
    pub(crate) fn talks(&self) -> bool {
        self.talks.load(Relaxed)
    }

    /// Records that a server of the pool has refused the statement; its tables may be gone.
    pub(crate) fn disprove(&self) {
        let Some(context) = &self.context else { return };
        self.proven_in.store(0, Relaxed);
        context.proven.remove(context, &self.body);
    }

    /// True if a server of the pool has prepared the statement, so that its next Parse needs no server.
    pub(crate) fn is_proven(&self) -> bool {
        let Some(context) = &self.context else {
            return false;
        };
        let era = context.proven.era();
        if self.proven_in.load(Relaxed) == era {
            return true;
        }
        let elsewhere = context.proven.has(context, &self.body);
        if elsewhere {
            self.proven_in.store(era, Relaxed);
        }
        elsewhere
    }
}

/// Writes a Parse with `parts` as the body behind the name.
pub(crate) fn put_parse(out: &mut Vec<u8>, name: &[u8], parts: &[&[u8]]) {
    let length = parts.iter().map(|part| part.len()).sum();
    // Cannot overflow: text and types come from messages within the limits, and our names are short.
    if encode::parse_head(out, name, length).is_ok() {
        parts.iter().for_each(|part| out.extend_from_slice(part));
    }
}
