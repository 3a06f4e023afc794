//! Prepared statements: one shared identity per text, parameter types and planning settings, and which of them a server
//! holds.
//!
//! A statement is found by a keyed hash but always compared by its full bytes (text and type oids) and by everything
//! else that its meaning depends on (`planning`), so that no two statements can be taken for each other. Its name on
//! servers is ours and unique in the process; clients never see it.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use weir_sql::Effects;

use crate::sql::{self, Deallocated};

pub(crate) mod planning;
mod prepared;
mod proven;
mod registry;

use crate::settings::Settings;
use planning::Context;
pub use prepared::{Prepared, Presence};
pub use proven::Proven;
pub use registry::Registry;

/// What our names on servers begin with.
pub(crate) const NAME_PREFIX: &[u8] = b"weir_";

/// The name that is bound in place of a statement that may not be bound any more; no server has it.
pub(crate) const OUTDATED: &[u8] = b"weir_outdated";

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
    /// It would return something else by now than when it was prepared: what is prepared anew is another statement.
    outdated: AtomicBool,
    /// The same, to no loss of anybody: it may return what it did.
    retired: AtomicBool,
    /// What it returned when it was prepared: a hash, 0 while that is not known.
    shape: AtomicU64,
    /// Whether it may return rows, always the same columns (else PostgreSQL refuses it).
    pub(crate) returns_rows: bool,
    /// The name that it deallocates.
    pub(crate) deallocates: Option<Box<[u8]>>,
    /// A Parse of it gives notices, which each client has to hear.
    talks: AtomicBool,
    /// How often clients have prepared it without a name.
    unnamed: AtomicU32,
    /// Running it may change settings that count, for the rest of its transaction.
    pub(crate) plans_locally: bool,
    /// What running it may do to the session; found out when it is first bound.
    pub(crate) effects: OnceLock<Option<Arc<Effects>>>,
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

    fn new(id: u64, body: &[u8], context: Option<Arc<Context>>) -> Self {
        let text = body.split(|byte| *byte == 0).next().unwrap_or_default();
        Self {
            id,
            name: format!("weir_{id}").into_bytes().into_boxed_slice(),
            body: body.into(),
            context,
            proven_in: AtomicU64::new(0),
            outdated: AtomicBool::new(false),
            retired: AtomicBool::new(false),
            shape: AtomicU64::new(0),
            returns_rows: sql::may_return_rows(text),
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

    /// Whether it is what its text means in this context, once it was parsed.
    pub(crate) fn is_of(&self, context: &Arc<Context>) -> bool {
        let mine = self.context.as_ref();
        mine.is_some_and(|mine| Arc::ptr_eq(mine, context) || mine.lasts_in(context))
            && !self.is_outdated()
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

    /// Tables have changed, so that no server may use what it has prepared (`cached plan must not change result type`).
    pub(crate) fn outdate(&self) {
        self.outdated.store(true, Relaxed);
    }

    /// Whether it is one client's own.
    pub(crate) fn is_private(&self) -> bool {
        self.context.is_none()
    }

    pub(crate) fn shape(&self) -> u64 {
        self.shape.load(Relaxed)
    }

    pub(crate) fn set_shape(&self, shape: u64) {
        self.shape.store(shape, Relaxed);
    }

    /// The same text, to be prepared anew, for a client that knows that it returns something else by now: this, if it is
    /// not 0.
    pub(crate) fn anew(&self, shape: u64) -> Self {
        let anew = Self::new(self.id, &self.body, self.context.clone());
        anew.outdate();
        anew.set_shape(shape);
        anew
    }

    /// A client wants it prepared anew, which the next one to use it cannot tell from the first time.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Relaxed);
    }

    /// Whether no server can use what it has prepared.
    pub(crate) fn is_useless(&self) -> bool {
        self.outdated.load(Relaxed)
    }

    /// Whether what is prepared from now on is another statement.
    pub(crate) fn is_outdated(&self) -> bool {
        self.retired.load(Relaxed) || self.outdated.load(Relaxed)
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
