//! The client role of a conversation after login: its statement names, its settings, and the message in progress.
//!
//! An idle client is small: no buffer, and no table unless it prepared something.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use weir_sql::{Effects, Reason, Reasons};
use weir_wire::frontend::tag;

use crate::channels::Subscriptions;
use crate::expected::Undo;
use crate::relay::request::deallocate::Deallocating;
use crate::relay::request::own_names::OwnNames;
use crate::sequences;
use crate::settings::{Reported, Settings};
use crate::sql;
use crate::statement::Statement;
use crate::statement::planning::Planned;
use crate::unnamed::{self, Unnamed};

/// PostgreSQL compares statement names up to `NAMEDATALEN - 1` bytes (commands/prepare.c keys its table so).
pub(crate) const NAME_MAX: usize = 63;

/// Why a client keeps its server beyond a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pin {
    /// It prepared a statement too long to be prepared again elsewhere.
    LargeStatement,
    /// It changed its session, and `session_state = pin`.
    Policy,
    /// Its database is in session mode, or it replicates.
    Session,
    /// It holds something that cannot move.
    State(Reason),
}

impl Pin {
    /// The reason in words.
    pub fn reason(self) -> &'static str {
        match self {
            Self::LargeStatement => "prepared a statement too long to move",
            Self::Policy => "changed its session",
            Self::Session => "session pooling",
            Self::State(reason) => reason.words(),
        }
    }
}

/// Where the rest of a streamed message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Rest {
    #[default]
    Discard,
    Forward,
}

/// See [`Client::statement`].
type KnownName<'c> = (&'c Arc<[u8]>, Option<&'c Arc<Statement>>);

/// What a client has under a name.
#[derive(Debug)]
struct Named {
    /// None: only the pinned server knows, under this name.
    statement: Option<Arc<Statement>>,
    /// Since the client prepared it no server has been asked about it, so the client relies on nothing that it returned
    /// before.
    is_fresh: Cell<bool>,
}

/// A name, and the statement behind it unless it is on the client's server under that name.
pub(crate) type Mentioned = (Arc<[u8]>, Option<Arc<Statement>>);

/// How much of what a client without a server sends is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Refusing {
    /// The next message, a request of its own; its ReadyForQuery is still to be sent.
    Message,
    #[default]
    Nothing,
    /// Everything up to the next Sync, as PostgreSQL does after an error in the extended protocol.
    ToSync,
}

/// One client's side of the conversation.
#[derive(Debug, Default)]
pub struct Client {
    names: HashMap<Arc<[u8]>, Named>,
    /// Boxed: most clients prepare nothing.
    unnamed: Option<Box<Unnamed>>,
    pub(crate) settings: Arc<Settings>,
    /// What the meaning of its statements depends on, of these settings.
    pub(crate) planned: Planned,
    /// Its unnamed statement deallocates a named one.
    pub(crate) deallocating: Option<Box<Deallocating>>,
    /// Whether its statements have names of ours on servers; settled by its first one, whatever a reload says later.
    pub(crate) maps_names: Option<bool>,
    /// Since SQL deals with its statements, too, its server has them under their own names.
    pub(crate) own_names: Option<Box<OwnNames>>,
    pub(crate) reported: Arc<Reported>,
    /// Bytes still to come of a message that is passed on while it arrives.
    pub(crate) owed: u64,
    pub(crate) rest: Rest,
    pub(crate) refusing: Refusing,
    /// What it began with, and returns to by RESET.
    pub(crate) startup: Arc<Settings>,
    /// What it holds on its server, as the server last said.
    pub(crate) held: Reasons,
    /// What it holds there and nobody can ask about.
    pub(crate) certain: Reasons,
    /// Tells clients apart; 0 is nobody.
    pub(crate) number: u64,
    /// The process id that it takes for its own.
    pub(crate) process: u32,
    /// Its `search_path` names the temporary schema, so anything that it creates may be temporary.
    pub(crate) makes_temporary: bool,
    /// What it does next wants a server that nobody else has used.
    pub(crate) wants_new: bool,
    /// It reads what sessions have counted, and expects to find there what it did itself.
    pub(crate) reads_statistics: bool,
    /// It moved a sequence, and may ask for what currval says.
    pub(crate) moves_sequences: bool,
    /// What else it does with them.
    pub(crate) sequences: sequences::Use,
    /// Counts its leases.
    pub(crate) leases: u64,
    /// Statements under names that are not followed may change the session.
    pub(crate) has_untracked_effects: bool,
    /// What it listens to on a connection that is not its own; boxed, since few do.
    pub(crate) subscriptions: Option<Box<Subscriptions>>,
    pin: Option<Pin>,
}

impl Client {
    /// A client that asked for `settings` and was told `reported`.
    pub fn new(settings: Arc<Settings>, reported: Arc<Reported>) -> Self {
        let mut client = Self {
            startup: Arc::clone(&settings),
            settings,
            reported,
            ..Self::default()
        };
        client.settings_changed();
        client
    }

    /// Gives it a number that no other client of the process has, nor 0.
    pub fn set_number(&mut self, number: u64) {
        self.number = number;
    }

    /// What it was told is this, shared with others.
    pub fn share_reported(&mut self, reported: &Arc<Reported>) {
        debug_assert_eq!(self.reported, *reported);
        self.reported = Arc::clone(reported);
    }

    /// Whether nothing in its session keeps it on a server, not even for a while (until it has heard everything).
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.pin.is_none()
            && self.held_reasons().is_empty()
            && !self.is_reluctant()
            && self.subscriptions.is_none()
    }

    /// Whether it would rather keep its server, as long as nobody else needs it: it may ask there what a sequence gave it.
    #[inline]
    pub fn is_reluctant(&self) -> bool {
        self.moves_sequences || self.is_on_trial()
    }

    /// Whether its next request will show if it asks there for what a sequence gave it: it would keep its server for a
    /// moment even if others need it.
    #[inline]
    pub fn is_on_trial(&self) -> bool {
        self.sequences.is_on_trial()
    }

    /// Nobody waits for that request.
    pub fn end_trial(&mut self) {
        self.sequences.end_trial();
    }

    /// It has run something that may have moved a sequence.
    pub(crate) fn inserted(&mut self) {
        self.sequences.moved();
        if self.sequences.reads {
            self.certain.insert(Reason::Sequence);
        }
    }

    /// Keeps its server from now on.
    pub fn set_pin(&mut self, pin: Pin) {
        self.pin.get_or_insert(pin);
    }

    /// The batch that begins with this message has failed before a server saw it: an error was sent in place of its
    /// first reply, and [`crate::relay::idle`] drops the rest of it (hazards COR-25 and COR-49).
    pub fn refuse_batch(&mut self, first_tag: u8) {
        self.refusing = match first_tag {
            tag::QUERY | tag::FUNCTION_CALL => Refusing::Message,
            _ => Refusing::ToSync,
        };
    }

    /// What it listens to on a connection that is not its own ([`crate::channels`]).
    #[inline]
    pub fn subscriptions(&self) -> Option<&Subscriptions> {
        self.subscriptions.as_deref()
    }

    /// The same, to be changed.
    pub fn subscriptions_mut(&mut self) -> &mut Subscriptions {
        self.subscriptions.get_or_insert_default()
    }

    /// It listens to nothing on such a connection any more.
    pub fn drop_subscriptions(&mut self) {
        self.subscriptions = None;
    }

    /// Whether it waits for its ReadyForQuery until it has heard everything ([`Subscriptions::is_behind`]).
    #[inline]
    pub fn is_behind(&self) -> bool {
        let subscriptions = self.subscriptions.as_deref();
        subscriptions.is_some_and(Subscriptions::is_behind)
    }

    /// The number that it was given at login, which its own notifications have to show; 0 if there is none.
    pub fn set_process(&mut self, pid: u32) {
        self.process = pid;
    }

    /// Why it keeps its server, if it does.
    #[inline]
    pub fn pin(&self) -> Option<Pin> {
        let reason = || self.held_reasons().iter().next();
        self.pin.or_else(|| reason().map(Pin::State))
    }

    /// Whether a server that others have used would answer it in another way than one of its own.
    pub(crate) fn wants_new_server(&self) -> bool {
        let begins_temporary = || {
            let path = self.settings.get("search_path").unwrap_or_default();
            path.trim_start_matches([' ', '"']).starts_with("pg_temp")
        };
        self.wants_new || self.makes_temporary && begins_temporary()
    }

    /// Its settings are known anew.
    pub(crate) fn settings_changed(&mut self) {
        let path = self.settings.get("search_path");
        self.makes_temporary = path.is_some_and(|path| path.contains("pg_temp"));
    }

    /// `DISCARD ALL` was run: nothing of its session is left but what it began with.
    pub(crate) fn forget_session(&mut self) {
        self.settings = Arc::clone(&self.startup);
        self.settings_changed();
        self.certain = Reasons::default();
        self.moves_sequences = false;
        self.sequences.forget();
        if let Some(subscriptions) = &mut self.subscriptions {
            subscriptions.discard();
        }
    }

    /// Why it keeps its server, in words; empty if it does not.
    pub fn pin_words(&self) -> String {
        let pin = self.pin.map(Pin::reason);
        let held = self.held_reasons();
        let words = pin.into_iter().chain(held.iter().map(Reason::words));
        words.collect::<Vec<_>>().join(", ")
    }

    /// Everything that keeps it on its server because of its session's state.
    #[inline]
    pub(crate) fn held_reasons(&self) -> Reasons {
        self.held.union(self.certain)
    }

    /// The values it asked for.
    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// What it was told.
    pub fn reported(&self) -> &Arc<Reported> {
        &self.reported
    }

    /// How many statement names it has.
    pub fn statement_count(&self) -> usize {
        self.names.len()
    }

    /// Whether the server has seen the beginning but not the end of a message of this client.
    #[inline]
    pub fn is_sending_to_server(&self) -> bool {
        self.owed > 0 && self.rest == Rest::Forward
    }

    /// A name as it is kept, and the statement behind it; None if only its pinned server knows that, under this name.
    pub(crate) fn statement(&self, name: &[u8]) -> Option<KnownName<'_>> {
        if self.names.is_empty() {
            return None;
        }
        let (name, known) = self.names.get_key_value(key(name))?;
        Some((name, known.statement.as_ref()))
    }

    /// As [`Client::statement`], to use it: also whether that is the first time since the client prepared it.
    pub(crate) fn statement_to_use(&self, name: &[u8]) -> Option<(KnownName<'_>, bool)> {
        if self.names.is_empty() {
            return None;
        }
        let (name, known) = self.names.get_key_value(key(name))?;
        let is_fresh = known.is_fresh.take();
        Some(((name, known.statement.as_ref()), is_fresh))
    }

    /// That use has come to nothing.
    pub(crate) fn was_not_used(&mut self, name: &[u8]) {
        if name.is_empty() {
            self.unnamed().was_not_used();
        } else if let Some(known) = self.names.get(key(name)) {
            known.is_fresh.set(true);
        }
    }

    pub(crate) fn unnamed(&mut self) -> &mut Unnamed {
        self.unnamed.get_or_insert_default()
    }

    /// Whether it has no unnamed statement, whatever becomes of what is on its way.
    pub(crate) fn has_no_unnamed(&self) -> bool {
        self.unnamed
            .as_ref()
            .is_none_or(|unnamed| unnamed.is_none())
    }

    /// Number and body of its unnamed statement, as it will be once everything on its way was processed.
    pub(crate) fn current_unnamed(&self) -> (u64, &[u8]) {
        self.unnamed
            .as_ref()
            .map_or((unnamed::NONE, &[]), |unnamed| unnamed.current())
    }

    /// Whether a change of its unnamed statement is not answered yet.
    pub(crate) fn has_unnamed_on_its_way(&self) -> bool {
        self.unnamed
            .as_ref()
            .is_some_and(|unnamed| unnamed.is_on_its_way())
    }

    /// Its statements: name, whether no server was asked about it since it was prepared, and what is behind it.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&[u8], bool, Option<&Arc<Statement>>)> {
        self.names.iter().map(|(name, known)| {
            let is_fresh = known.is_fresh.get();
            (&**name, is_fresh, known.statement.as_ref())
        })
    }

    /// The named statement of ours that stands for its unnamed one.
    pub(crate) fn unnamed_stand_in(&self) -> Option<&Arc<Statement>> {
        self.unnamed.as_ref()?.stands_in()
    }

    /// What running its unnamed statement may do to the session.
    pub(crate) fn unnamed_effects(&self) -> Option<&Arc<Effects>> {
        self.unnamed.as_ref()?.effects()
    }

    pub(crate) fn remember(&mut self, name: Arc<[u8]>, statement: Option<Arc<Statement>>) {
        self.name(name, statement, false);
    }

    /// The same, though no server was asked.
    pub(crate) fn remember_fresh(&mut self, name: Arc<[u8]>, statement: Arc<Statement>) {
        self.name(name, Some(statement), true);
    }

    fn name(&mut self, name: Arc<[u8]>, statement: Option<Arc<Statement>>, is_fresh: bool) {
        let name = if name.len() > NAME_MAX {
            key(&name).into()
        } else {
            name
        };
        let is_fresh = Cell::new(is_fresh);
        self.names.insert(
            name,
            Named {
                statement,
                is_fresh,
            },
        );
    }

    /// What this statement, if the name is still its, returns by now: 0 if the client has only heard that it is something
    /// else. It has to be prepared anew.
    pub(crate) fn returns_now(&mut self, name: &[u8], statement: &Arc<Statement>, shape: u64) {
        if let Some(known) = self.names.get_mut(key(name))
            && let Some(mine) = &mut known.statement
            && Arc::ptr_eq(mine, statement)
        {
            *mine = Arc::new(mine.anew(shape));
        }
    }

    pub(crate) fn forget(&mut self, name: &[u8]) -> Option<Option<Arc<Statement>>> {
        self.names.remove(key(name)).map(|known| known.statement)
    }

    /// The server has prepared one under the client's own name.
    pub(crate) fn owns(&mut self, name: &Arc<[u8]>, statement: &Arc<Statement>) {
        if let Some(own) = &mut self.own_names {
            own.known.insert(key(name).into(), Arc::clone(statement));
        }
    }

    /// Of the statements under their own names its server has these, and no others.
    pub(crate) fn owns_only(&mut self, names: &HashSet<Box<[u8]>>) {
        if let Some(own) = &mut self.own_names {
            own.known.retain(|name, _| names.contains(&**name));
        }
    }

    /// It has no server any more: its statements may have names of ours again.
    #[inline]
    pub(crate) fn leave_own_names(&mut self) {
        if let Some(own) = self.own_names.take() {
            self.names.retain(|_, known| known.statement.is_some());
            for (name, statement) in own.known {
                self.remember(name, Some(statement));
            }
        }
    }

    /// Its statements whose names may stand in a text.
    pub(crate) fn statements_in(&self, text: &[u8]) -> Vec<Mentioned> {
        if self.names.is_empty() {
            return Vec::new();
        }
        let mut found = HashMap::new();
        let all = sql::names_in(text, &mut |name| {
            if let Some((name, known)) = self.names.get_key_value(key(name)) {
                found.insert(Arc::clone(name), known.statement.clone());
            }
        });
        if all {
            return found.into_iter().collect();
        }
        let names = self.names.iter();
        names
            .map(|(name, known)| (Arc::clone(name), known.statement.clone()))
            .collect()
    }

    /// It wants all of its statements prepared anew, if it has them again.
    pub(crate) fn retire_all(&self) {
        let statements = self
            .names
            .values()
            .filter_map(|known| known.statement.as_ref());
        statements.for_each(|statement| statement.retire());
    }

    /// All names are gone but for what requests on their way do to them.
    pub(crate) fn forget_all<'a>(&mut self, coming: impl Iterator<Item = &'a Undo>) {
        self.names.clear();
        if let Some(own) = &mut self.own_names {
            own.known.clear();
        }
        for change in coming {
            match change {
                Undo::Named(name, statement) => {
                    self.remember(Arc::clone(name), Some(Arc::clone(statement)));
                }
                Undo::Owned(name, ..) => self.remember(Arc::clone(name), None),
                Undo::Closed(name, _) => drop(self.forget(name)),
                // They take names away when they succeed.
                Undo::Deallocate(_) | Undo::DeallocateAll | Undo::Refused(_) => {}
            }
        }
        if self.names.is_empty() {
            self.maps_names = None;
        }
    }
}

/// A name as PostgreSQL compares it.
pub(crate) fn key(name: &[u8]) -> &[u8] {
    name.get(..NAME_MAX).unwrap_or(name)
}
