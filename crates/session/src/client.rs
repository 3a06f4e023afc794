//! The client role of a conversation after login: its statement names, its settings, and the message in progress.
//!
//! An idle client is small: no buffer, and no table unless it prepared something.

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
use crate::statement::planning::Planned;
use crate::statement::{Copy, Description, Statement, is_roomy};
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

/// A client's own Parse of a name: names and types are what they were by then, and no copy that is older will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// It was answered without a server: the first use sends it.
    Deferred,
    /// A server has resolved it, and has said what it found.
    Known(Since),
    /// It was sent. The copy that it makes has this time; no other will do until the server has described it.
    Sent(u64),
}

/// Which copies of a statement are as new as a client's own Parse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Since {
    /// Time of the copy that this Parse made.
    pub own: u64,
    /// End of its transaction: copies that were parsed later see all that it saw. The greatest number until then.
    pub end: u64,
}

/// The time of a Parse beside definitions that its transaction has undone or changed again. PostgreSQL resolves such a
/// statement anew when it is next used, so no copy that is older than that use will do.
const UNDONE: Since = Since {
    own: u64::MAX,
    end: u64::MAX,
};

impl Parsed {
    /// Settled by a Parse whose transaction is not over.
    pub(crate) fn known(own: u64) -> Self {
        Self::Known(Since { own, end: u64::MAX })
    }

    /// By a server whose copy is not there any more. Without a description nobody knows what that was resolved to.
    pub(crate) fn of(statement: &Statement) -> Self {
        if !statement.is_settled() {
            return Self::Deferred;
        }
        Self::Known(Since {
            own: u64::MAX,
            end: statement.now(),
        })
    }
}

impl Since {
    /// True for a copy that a client may use: the one that its own Parse made, or a later one that takes and returns the
    /// same.
    #[inline]
    pub(crate) fn allows(self, copy: Copy) -> bool {
        copy.parsed_at == self.own || copy.is_described && copy.parsed_at > self.end
    }
}

/// What a client has under a name.
#[derive(Debug)]
struct Named {
    /// None: only the pinned server knows, under this name.
    statement: Option<Arc<Statement>>,
    parsed: Parsed,
}

/// Names that a client has parsed in the transaction under way.
#[derive(Debug, Default)]
struct Parses {
    /// Too many to be listed: any may be.
    all: bool,
    names: Vec<Arc<[u8]>>,
}

/// Names of one transaction that are listed one by one.
const PARSES_MAX: usize = 64;

/// What the description of a Parse has told.
#[derive(Debug)]
pub(crate) enum Told {
    /// Something else than the statement is for others.
    Other(Description),
    /// The statement is what it is for others.
    Same,
    /// Nothing: it was too long to be read, so that no other server can be told what it was.
    TooMuch,
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
    /// Boxed: in steady state nothing is parsed.
    parses: Option<Box<Parses>>,
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

    /// Records that the client has run something that may have moved a sequence; `is_foreign` is true if the server may
    /// hold values of other clients.
    pub(crate) fn inserted(&mut self, is_foreign: bool) {
        self.sequences.moved(is_foreign);
        if self.sequences.keeps_moved() {
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

    /// True if the client began with a value of its own for this parameter, in any case of letters.
    pub(crate) fn began_with(&self, name: &str) -> bool {
        let mut startup = self.startup.iter();
        startup.any(|(began, _)| began.eq_ignore_ascii_case(name))
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

    /// Gives back room that a burst of statements took.
    pub fn give_back(&mut self) {
        if is_roomy(self.names.capacity(), self.names.len()) {
            self.names.shrink_to_fit();
        }
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

    /// As [`Client::statement`], with the client's own Parse of it.
    pub(crate) fn statement_to_use(&self, name: &[u8]) -> Option<(KnownName<'_>, Parsed)> {
        if self.names.is_empty() {
            return None;
        }
        let (name, known) = self.names.get_key_value(key(name))?;
        Some(((name, known.statement.as_ref()), known.parsed))
    }

    /// The client's own Parse of a name.
    pub(crate) fn parsed(&self, name: &[u8]) -> Option<Parsed> {
        self.names.get(key(name)).map(|known| known.parsed)
    }

    /// How new a copy must be for the use of a name. A Parse that was undone is resolved anew by this use.
    #[inline]
    pub(crate) fn use_parsed(&mut self, name: &[u8], since: Since, of: &Statement) -> Since {
        if since != UNDONE {
            return since;
        }
        let end = of.now();
        let from_now = Since { end, ..since };
        if let Some(known) = self.names.get_mut(key(name)) {
            known.parsed = Parsed::Known(from_now);
        }
        from_now
    }

    /// Another statement takes the place of a name's.
    pub(crate) fn replace(&mut self, name: &[u8], statement: &Arc<Statement>) {
        if let Some(known) = self.names.get_mut(key(name)) {
            known.statement = Some(Arc::clone(statement));
        }
    }

    /// The Parse of a name, which the client has, was sent in its place: this statement comes of it.
    pub(crate) fn sends_parse(&mut self, name: &[u8], statement: &Arc<Statement>, parsed: Parsed) {
        let Some((name, _)) = self.names.get_key_value(key(name)) else {
            return;
        };
        let name = Arc::clone(name);
        let parses = self.parses.get_or_insert_default();
        parses.all |= parses.names.len() >= PARSES_MAX;
        if !parses.all {
            parses.names.push(Arc::clone(&name));
        }
        self.name(name, Some(Arc::clone(statement)), parsed);
    }

    /// No server has resolved this name after all, or none has said how.
    pub(crate) fn defer(&mut self, name: &[u8]) {
        if let Some(known) = self.names.get_mut(key(name)) {
            known.parsed = Parsed::Deferred;
        }
    }

    /// A server has described the Parse of this name, if that is still what the name stands for.
    pub(crate) fn was_described(&mut self, name: &[u8], statement: &Arc<Statement>, by: &Told) {
        if let Some(known) = self.names.get_mut(key(name))
            && let Parsed::Sent(own) = known.parsed
            && let Some(mine) = &mut known.statement
            && Arc::ptr_eq(mine, statement)
        {
            known.parsed = Parsed::known(own);
            match by {
                Told::Other(description) => {
                    *mine = Arc::new(mine.apart(Some(description.clone())));
                }
                Told::Same => {}
                Told::TooMuch => self.set_pin(Pin::LargeStatement),
            }
        }
    }

    /// The description of this name's Parse, if that was skipped, tells nothing.
    pub(crate) fn was_not_described(&mut self, name: &[u8], statement: &Arc<Statement>) {
        if let Some(known) = self.names.get_mut(key(name))
            && matches!(known.parsed, Parsed::Sent(_))
            && (known.statement.as_ref()).is_some_and(|mine| Arc::ptr_eq(mine, statement))
        {
            known.parsed = Parsed::Deferred;
        }
    }

    /// A transaction of its is over: what it has parsed in it sees nothing that later Parses do not see. `is_last`: nothing
    /// more is on its way; `is_doubtful`: see [`crate::relay::Definitions::Doubtful`].
    #[inline]
    pub(crate) fn transaction_over(&mut self, is_last: bool, is_doubtful: bool) {
        if self.parses.is_some() {
            self.settle_parses(is_last, is_doubtful);
        }
    }

    #[cold]
    fn settle_parses(&mut self, is_last: bool, is_doubtful: bool) {
        let Some(parses) = self.parses.take() else {
            return;
        };
        let settle = |known: &mut Named| {
            let (Parsed::Known(since), Some(statement)) = (&mut known.parsed, &known.statement)
            else {
                return;
            };
            if is_doubtful {
                *since = UNDONE;
            } else if *since != UNDONE {
                since.end = statement.now();
            }
        };
        if parses.all {
            self.names.values_mut().for_each(settle);
        } else {
            for name in &parses.names {
                self.names.get_mut(key(name)).map(settle);
            }
        }
        if !is_last {
            self.parses = Some(parses);
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

    /// Its statements: name, Parse, and what is behind it.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&[u8], Parsed, Option<&Arc<Statement>>)> {
        (self.names.iter()).map(|(name, known)| (&**name, known.parsed, known.statement.as_ref()))
    }

    /// The named statement of ours that stands for its unnamed one.
    pub(crate) fn unnamed_stand_in(&self) -> Option<&Arc<Statement>> {
        self.unnamed.as_ref()?.stands_in()
    }

    /// What running its unnamed statement may do to the session.
    pub(crate) fn unnamed_effects(&self) -> Option<&Arc<Effects>> {
        self.unnamed.as_ref()?.effects()
    }

    /// Only its server knows this name.
    pub(crate) fn remember_own(&mut self, name: Arc<[u8]>) {
        self.name(name, None, Parsed::Deferred);
    }

    pub(crate) fn remember(
        &mut self,
        name: Arc<[u8]>,
        statement: Option<Arc<Statement>>,
        parsed: Parsed,
    ) {
        self.name(name, statement, parsed);
    }

    fn name(&mut self, name: Arc<[u8]>, statement: Option<Arc<Statement>>, parsed: Parsed) {
        let name = if name.len() > NAME_MAX {
            key(&name).into()
        } else {
            name
        };
        self.names.insert(name, Named { statement, parsed });
    }

    pub(crate) fn forget(&mut self, name: &[u8]) -> Option<(Option<Arc<Statement>>, Parsed)> {
        let known = self.names.remove(key(name))?;
        Some((known.statement, known.parsed))
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
            own.unchecked.retain(|name, _| names.contains(&**name));
        }
    }

    /// It has no server any more: its statements may have names of ours again.
    #[inline]
    pub(crate) fn leave_own_names(&mut self) {
        if let Some(own) = self.own_names.take() {
            self.names.retain(|_, known| known.statement.is_some());
            for (name, statement) in own.known {
                let parsed = Parsed::of(&statement);
                self.remember(name, Some(statement), parsed);
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
        self.all_statements()
    }

    /// Every name that it has given to a statement.
    pub(crate) fn all_statements(&self) -> Vec<Mentioned> {
        let names = self.names.iter();
        names
            .map(|(name, known)| (Arc::clone(name), known.statement.clone()))
            .collect()
    }

    /// All names are gone but for what requests on their way do to them.
    pub(crate) fn forget_all<'a>(&mut self, coming: impl Iterator<Item = &'a Undo>) {
        self.names.clear();
        if let Some(own) = &mut self.own_names {
            own.known.clear();
        }
        for change in coming {
            match change {
                Undo::Named(name, statement, own) => {
                    let parsed = if statement.needs_description() {
                        Parsed::Sent(*own)
                    } else {
                        Parsed::known(*own)
                    };
                    self.remember(Arc::clone(name), Some(Arc::clone(statement)), parsed);
                }
                Undo::Owned(name, ..) => self.remember_own(Arc::clone(name)),
                Undo::Closed(name, ..) => drop(self.forget(name)),
                // They take names away when they succeed, or give none.
                Undo::Began(_) | Undo::Deallocate(_) | Undo::DeallocateAll | Undo::Refused(_) => {}
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
