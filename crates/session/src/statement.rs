//! Prepared statements: one shared identity per text, parameter types and planning settings, and which of them a server
//! holds.
//!
//! A statement is found by a keyed hash but always compared by its full bytes (text and type oids) and by everything
//! else that its meaning depends on (`planning`), so that no two statements can be taken for each other. Its name on
//! servers is ours and unique in the process; clients never see it.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use weir_sql::{Effects, Judge};
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

/// Entries for which a map or queue keeps room, however few it has.
const ROOM_MIN: usize = 64;

/// True if a map or queue has room for four times what is in it, so that giving it back is worth the work.
pub(crate) fn is_roomy(capacity: usize, len: usize) -> bool {
    capacity > ROOM_MIN && capacity / 4 > len
}

/// What our names on servers begin with.
pub(crate) const NAME_PREFIX: &[u8] = b"weir_";

/// The name that is bound in place of a statement whose columns have changed; no server has it.
pub(crate) const OUTDATED: &[u8] = b"weir_outdated";

/// Parameter types and columns that a server's Parse resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Description {
    /// Number and oids as ParameterDescription has them, which is how a Parse ends.
    pub types: Box<[u8]>,
    /// Hash of the columns (`relay::shape`).
    pub shape: u64,
}

/// A statement known to this worker.
#[derive(Debug)]
pub struct Statement {
    /// Unique in the process.
    pub id: u64,
    /// Its name on every server: `weir_` and the id.
    pub name: Box<[u8]>,
    /// The Parse message after the name: text, NUL, number of parameter types, their oids.
    pub body: Box<[u8]>,
    /// What its meaning depends on besides; None: what nobody knows, so it is nobody else's.
    context: Option<Arc<Context>>,
    /// The era of [`Proven`] in which a server took it; 0: none has.
    proven_in: AtomicU64,
    /// A Parse of the text was described in another way since: further ones get another statement. Clients that have this
    /// one keep it.
    retired: AtomicBool,
    /// Parameter types and columns, which are the same for every copy; set once, by the first description.
    described: OnceLock<Description>,
    /// Made for one client when its Parse was described in another way than this statement, whose id and name it bears
    /// until [`Registry::version`] replaces it. Never sent to a server.
    is_apart: bool,
    /// True if it may return rows, always the same columns (else PostgreSQL refuses it).
    pub(crate) returns_rows: bool,
    /// True if a server has to say what its parameters or columns are.
    needs_description: bool,
    /// The name that it deallocates.
    pub(crate) deallocates: Option<Box<[u8]>>,
    /// A Parse of it gives notices, which each client has to hear.
    talks: AtomicBool,
    /// How often clients have prepared it without a name.
    unnamed: AtomicU32,
    /// Running it may change settings that count, for the rest of its transaction.
    pub(crate) plans_locally: bool,
    /// Effects of running it, found out when it is first bound, and by which generation of the catalogue.
    effects: OnceLock<(u64, Option<Arc<Effects>>)>,
}

impl Statement {
    /// A client prepares it without a name: how often that was.
    pub(crate) fn came_unnamed(&self) -> u32 {
        let count = self.unnamed.load(Relaxed).saturating_add(1);
        self.unnamed.store(count, Relaxed);
        count
    }

    /// The text.
    pub(crate) fn text(&self) -> &[u8] {
        let mut parts = self.body.split(|byte| *byte == 0);
        parts.next().unwrap_or_default()
    }

    /// Effects of running it, by what the judge knows now.
    pub(crate) fn effects(&self, judge: &mut Judge) -> Option<Arc<Effects>> {
        let generation = judge.generation();
        let (known, effects) = self
            .effects
            .get_or_init(|| (generation, judge.effects(self.text(), true)));
        if *known == generation {
            effects.clone()
        } else {
            // The judge remembers its verdicts.
            judge.effects(self.text(), true)
        }
    }

    fn new(id: u64, body: &[u8], context: Option<Arc<Context>>) -> Self {
        let text = body.split(|byte| *byte == 0).next().unwrap_or_default();
        let returns_rows = sql::may_return_rows(text);
        Self {
            id,
            name: format!("weir_{id}").into_bytes().into_boxed_slice(),
            body: body.into(),
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
        }
    }

    /// True if the text means the same in this context, once it was parsed.
    pub(crate) fn is_of(&self, context: &Arc<Context>) -> bool {
        let mine = self.context.as_ref();
        mine.is_some_and(|mine| Arc::ptr_eq(mine, context) || mine.lasts_in(context))
    }

    /// What its meaning depends on besides the text; None: it is one client's own.
    pub(crate) fn context(&self) -> Option<&Arc<Context>> {
        self.context.as_ref()
    }

    /// The context in which to prepare its text anew for a client in this one: its own, as far as that lasts.
    pub(crate) fn context_in<'c>(&'c self, context: &'c Arc<Context>) -> &'c Arc<Context> {
        let mine = self.context.as_ref();
        mine.filter(|mine| mine.lasts_in(context))
            .unwrap_or(context)
    }

    /// By which settings its literals have to be read, in place of a client's: what sets them, and what sets the client's
    /// again.
    pub(crate) fn literals(&self, client: &Settings) -> (Vec<String>, Vec<String>) {
        let context = self.context.as_ref();
        context.map_or_else(Default::default, |context| context.literals(client))
    }

    /// The settings that its meaning depends on; none if nobody knows.
    pub(crate) fn context_settings(&self) -> Option<Vec<(String, String)>> {
        self.context.as_ref().map(|context| context.pairs())
    }

    /// Whether it is one client's own.
    pub(crate) fn is_private(&self) -> bool {
        self.context.is_none()
    }

    /// True for the one that no server has ([`OUTDATED`]).
    pub(crate) fn is_outdated(&self) -> bool {
        *self.name == *OUTDATED
    }

    /// Hash of the columns that clients rely on; 0 if there are none, or they are not known.
    pub(crate) fn shape(&self) -> u64 {
        let known = self.described.get().filter(|_| self.returns_rows);
        known.map_or(0, |known| known.shape)
    }

    /// Parameter types and columns, if they are known.
    pub(crate) fn description(&self) -> Option<&Description> {
        self.described.get()
    }

    /// Takes what a server says of a Parse of the text. False if this is described in another way.
    pub(crate) fn describe(&self, types: &[u8], shape: u64) -> bool {
        let known = self.described.get_or_init(|| Description {
            types: types.into(),
            shape,
        });
        *known.types == *types && (!self.returns_rows || known.shape == shape)
    }

    /// True if a server has to say what a Parse of the text resolves to: it has parameters or columns.
    pub(crate) fn needs_description(&self) -> bool {
        self.needs_description
    }

    /// True if copies can be prepared with the parameter types and columns that clients rely on.
    pub(crate) fn is_settled(&self) -> bool {
        !self.needs_description || self.described.get().is_some()
    }

    /// The text as one client's Parse has resolved it, until [`Registry::version`] gives it an id of its own.
    pub(crate) fn apart(&self, description: Option<Description>) -> Self {
        let mut apart = Self::new(self.id, &self.body, self.context.clone());
        apart.is_apart = true;
        if let Some(description) = description {
            let _ = apart.described.set(description);
        }
        apart
    }

    /// True if [`Registry::version`] has to replace it before it is used.
    pub(crate) fn is_apart(&self) -> bool {
        self.is_apart
    }

    /// Further Parses of the text get another statement.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Relaxed);
    }

    /// True if further Parses of the text get another statement.
    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Relaxed)
    }

    /// Writes a Parse under `name` with the parameter types that were resolved before, if they are known.
    pub(crate) fn put_parse(&self, out: &mut Vec<u8>, name: &[u8]) {
        let Some(known) = self.described.get() else {
            return put_parse(out, name, &[&self.body]);
        };
        put_parse(out, name, &[self.text(), &[0], &known.types]);
    }

    /// A Parse of it is about to be sent: the time of the pool's clock. All copies of a client's own are equally new.
    pub(crate) fn tick(&self) -> u64 {
        let context = self.context.as_ref();
        context.map_or(1, |context| context.proven.tick())
    }

    /// A time of the pool's clock that is before that of all Parses to come.
    pub(crate) fn now(&self) -> u64 {
        let context = self.context.as_ref();
        context.map_or(0, |context| context.proven.now())
    }

    /// A server of the pool has prepared it, with these settings: it would again.
    pub(crate) fn prove(&self) {
        let Some(context) = self.context.as_ref().filter(|_| !self.talks()) else {
            return;
        };
        let era = context.proven.era();
        if self.proven_in.swap(era, Relaxed) != era {
            context.proven.add(context, &self.body);
        }
    }

    /// A Parse of it has given a notice.
    pub(crate) fn has_talked(&self) {
        self.talks.store(true, Relaxed);
    }

    /// Whether only a server can answer a Parse of it.
    pub(crate) fn talks(&self) -> bool {
        self.talks.load(Relaxed)
    }

    /// A server of the pool has refused it: perhaps its tables are gone.
    pub(crate) fn disprove(&self) {
        let Some(context) = &self.context else { return };
        self.proven_in.store(0, Relaxed);
        context.proven.remove(context, &self.body);
    }

    /// Whether a server of the pool has prepared it, so that the next Parse of it need not be put to one.
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

/// Writes a Parse whose body after the name is these parts.
pub(crate) fn put_parse(out: &mut Vec<u8>, name: &[u8], parts: &[&[u8]]) {
    let length = parts.iter().map(|part| part.len()).sum();
    // Text and types were taken from messages within the limits, and our names are short; the head cannot overflow.
    if encode::parse_head(out, name, length).is_ok() {
        parts.iter().for_each(|part| out.extend_from_slice(part));
    }
}
