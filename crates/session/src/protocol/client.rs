//! The client role of a conversation after login: statement names, settings, and the message in progress.
//!
//! An idle client is small: it has no buffer, and no table unless it has prepared something.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use foldhash::fast::RandomState;
use weir_sql::{Effects, Reason, Reasons, ShapeKey};
use weir_wire::frame::Header;
use weir_wire::frontend::tag;

use crate::channels::Subscriptions;
use crate::expected::Undo;
use crate::rarities::{ClientRarity, Rarities};
use crate::relay::STATEMENT_MAX;
use crate::relay::lost_block::LostBlock;
use crate::relay::request::deallocate::Deallocating;
use crate::relay::request::own_names::OwnNames;
use crate::ruled::Decided;
use crate::sequences;
use crate::settings::{Reported, Settings};
use crate::sql;
use crate::statement::planning::Planned;
use crate::statement::{Copy, Description, Statement, is_roomy};
use crate::unnamed::{self, Unnamed};

/// Length at which PostgreSQL truncates statement names: `NAMEDATALEN - 1` bytes (the hash table of
/// commands/prepare.c).
pub(crate) const NAME_MAX: usize = 63;

/// Reason for which a client keeps its server beyond a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pin {
    /// The client prepared a statement too long to be prepared again elsewhere.
    LargeStatement,
    /// The client changed its session, and `session_state = pin`.
    Policy,
    /// The database is in session mode, or the client replicates.
    Session,
    /// The client has session state that cannot move.
    State(Reason),
}

impl Pin {
    /// Returns the reason in words.
    pub fn reason(self) -> &'static str {
        match self {
            Self::LargeStatement => "prepared a statement too long to move",
            Self::Policy => "changed its session",
            Self::Session => "session pooling",
            Self::State(reason) => reason.words(),
        }
    }
}

/// Destination of the rest of a streamed message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Rest {
    #[default]
    Discard,
    Forward,
}

/// Result of [`Client::statement`].
type KnownName<'c> = (&'c Arc<[u8]>, Option<&'c Arc<Statement>>);

/// State of a client's own Parse of a name. It fixes what names and types meant at that time, so no older copy will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// Answered without a server; the first use sends it.
    Deferred,
    /// A server has resolved the statement and has described it.
    Known(Since),
    /// Sent to a server; the copy that it makes has this time. No other copy will do until the server has described it.
    Sent(u64),
}

/// Range of copies that are as new as a client's own Parse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Since {
    /// Time of the copy that this Parse made.
    pub own: u64,
    /// End of the Parse's transaction; `u64::MAX` until then. Copies parsed later see everything that it saw.
    pub end: u64,
}

/// `Since` of a Parse in a transaction whose definitions were undone or changed again. PostgreSQL resolves such a
/// statement anew at its next use, so no copy older than that use will do.
const UNDONE: Since = Since {
    own: u64::MAX,
    end: u64::MAX,
};

impl Parsed {
    /// Returns the state of a Parse that is described but whose transaction is not over.
    pub(crate) fn known(own: u64) -> Self {
        Self::Known(Since { own, end: u64::MAX })
    }

    /// Returns the state of a Parse whose server copy no longer exists. Without a description, it is unknown how that
    /// server resolved the statement.
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
    /// True if the client may use this copy: its own Parse made it, or the copy is later and takes and returns the same
    /// types.
    #[inline]
    pub(crate) fn allows(self, copy: Copy) -> bool {
        copy.parsed_at == self.own || copy.is_described && copy.parsed_at > self.end
    }
}

/// Statement that a client has prepared under a name.
#[derive(Debug)]
struct Named {
    /// `None` if only the pinned server knows the statement, under this name.
    statement: Option<Arc<Statement>>,
    parsed: Parsed,
}

/// Names that a client has parsed in the transaction under way.
#[derive(Debug, Default)]
struct Parses {
    /// True if there were too many names to list, so any name may be among them.
    all: bool,
    names: Vec<Arc<[u8]>>,
}

/// Maximum number of names per transaction that are listed one by one.
const PARSES_MAX: usize = 64;

/// Description of a client's own Parse, compared with the statement that clients share.
#[derive(Debug)]
pub(crate) enum Told {
    /// The Parse resolved to something else than the shared statement.
    Other(Description),
    /// The Parse resolved to the same as the shared statement.
    Same,
    /// The description was too long to read, so no other server can be compared with it.
    TooMuch,
}

/// A statement name and its statement; `None` if the client's server has the statement under that name.
pub(crate) type Mentioned = (Arc<[u8]>, Option<Arc<Statement>>);

/// Extent to which input of a client without a server is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Refusing {
    /// Refuse the next message, which is a complete request; its ReadyForQuery is still owed.
    Message,
    #[default]
    Nothing,
    /// Refuse everything up to the next Sync, as PostgreSQL does after an error in the extended protocol.
    ToSync,
}

/// A client's side of the conversation.
#[derive(Debug, Default)]
pub struct Client {
    /// Hashed with a secret of this process, by a function that is quick for short names. A client that makes its names
    /// collide all the same slows its own requests, as long texts would.
    names: HashMap<Arc<[u8]>, Named, RandomState>,
    /// Boxed: in steady state nothing is parsed.
    parses: Option<Box<Parses>>,
    /// Boxed: most clients prepare nothing.
    unnamed: Option<Box<Unnamed>>,
    /// Shape of the last text that was prepared without a name, if statements are counted.
    pub(crate) unnamed_shape: Option<ShapeKey>,
    /// Decisions of the query rules about the batch that waits for a server.
    pub(crate) decided: Option<Box<Decided>>,
    pub(crate) settings: Arc<Settings>,
    /// Settings that the meaning of the client's statements depends on.
    pub(crate) planned: Planned,
    /// Unnamed statement and portals that deallocate names, once the client has used such a statement.
    pub(crate) deallocating: Option<Box<Deallocating>>,
    /// True if the client's statements have our names on servers. The first statement decides; reloads do not change
    /// it.
    pub(crate) maps_names: Option<bool>,
    /// True once the client has prepared a statement whose text is not kept while no list of statements was enforced.
    pub(crate) has_unlisted: bool,
    /// True if Weir reads the settings `weir.*` of this session.
    pub(crate) checks_own_settings: bool,
    /// Set once SQL text uses the client's statements too: its server then has them under the client's names.
    pub(crate) own_names: Option<Box<OwnNames>>,
    pub(crate) reported: Arc<Reported>,
    /// Number of bytes still to come of a message that is passed on while it arrives.
    pub(crate) owed: u64,
    pub(crate) rest: Rest,
    /// Type of the last message that had to wait for replies or for the rest of its bytes; 0 if none did.
    pub(crate) waiting: u8,
    pub(crate) refusing: Refusing,
    /// Block whose server is lost, while the client goes on without one.
    pub(crate) lost_block: LostBlock,
    /// Settings the client began with; RESET returns to them.
    pub(crate) startup: Arc<Settings>,
    /// Session state that the client has on its server, as the server last reported.
    pub(crate) held: Reasons,
    /// Session state that the client has there and that no query can detect.
    pub(crate) certain: Reasons,
    /// Number that identifies the client; 0 means none.
    pub(crate) number: u64,
    /// Process id that the client was given at login.
    pub(crate) process: u32,
    /// Rare circumstances, tested as one on the path of every message.
    pub(crate) rarities: Rarities<ClientRarity>,
    /// True if the client's next request needs a server that no other client has used.
    pub(crate) wants_new: bool,
    /// True if the next lease begins with a block that the client has begun on another server.
    pub(crate) reopens: bool,
    /// The client's other use of sequences.
    pub(crate) sequences: sequences::Use,
    /// Number of leases so far.
    pub(crate) leases: u64,
    /// True if statements under names that are not tracked may change the session.
    pub(crate) has_untracked_effects: bool,
    /// Subscriptions through the shared listening connection. Boxed, since few clients have any.
    pub(crate) subscriptions: Option<Box<Subscriptions>>,
    pin: Option<Pin>,
}

impl Client {
    /// Creates a client that asked for `settings` and was told `reported`.
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

    /// Sets the client's number, which is unique in the process and not 0.
    pub fn set_number(&mut self, number: u64) {
        self.number = number;
    }

    /// Replaces the reported values by an equal copy that is shared with other clients.
    pub fn share_reported(&mut self, reported: &Arc<Reported>) {
        debug_assert_eq!(self.reported, *reported);
        self.reported = Arc::clone(reported);
    }

    /// True if no session state, not even a subscription, may keep the client on a server.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.may_lose_server() && !self.keeps_if_unwanted()
    }

    /// True if the client loses nothing but values of sequences with a free server: nothing else of its session is there.
    pub(crate) fn may_lose_server(&self) -> bool {
        self.pin.is_none() && self.held_reasons().is_empty() && self.subscriptions.is_none()
    }

    /// True if the client should keep its server while no other client needs it: it may ask that server for a sequence
    /// value.
    #[inline]
    pub fn keeps_if_unwanted(&self) -> bool {
        !self.rarities.is_empty()
            && (self.rarities.has(ClientRarity::UsesSequences) || self.is_on_trial())
    }

    /// True if the client's next request will show if it reads sequence values from its session. Such a client keeps
    /// its server for a moment even if others need it.
    #[inline]
    pub fn is_on_trial(&self) -> bool {
        self.sequences.is_on_trial()
    }

    /// True if the client keeps its server for a trial, and for no other use of sequences.
    pub fn is_only_on_trial(&self) -> bool {
        self.is_on_trial() && !self.rarities.has(ClientRarity::UsesSequences)
    }

    /// Ends the trial: the pooler does not wait for that request.
    pub fn end_trial(&mut self) {
        self.sequences.end_trial();
    }

    /// Records that the client has run something that may have advanced a sequence. `is_foreign` is true if the server
    /// may hold values of other clients.
    pub(crate) fn inserted(&mut self, is_foreign: bool) {
        self.rarities.insert(ClientRarity::AdvancedSequence);
        self.sequences.moved(is_foreign);
        if self.sequences.keeps_moved() {
            self.certain.insert(Reason::Sequence);
        }
    }

    /// Pins the client to its server from now on; the first pin stays.
    pub fn set_pin(&mut self, pin: Pin) {
        self.pin.get_or_insert(pin);
    }

    /// Refuses the batch that begins with this message before a server saw it. An error was sent in place of its first
    /// reply, and [`crate::relay::idle`] drops the rest of the batch (hazards COR-25 and COR-49).
    pub fn refuse_batch(&mut self, first_tag: u8) {
        self.decided = None;
        self.refusing = match first_tag {
            tag::QUERY | tag::FUNCTION_CALL => Refusing::Message,
            _ => Refusing::ToSync,
        };
    }

    /// True if the client began with another value than this for the parameter; compares names without regard to case.
    pub(crate) fn began_with_another(&self, name: &str, value: &str) -> bool {
        let mut startup = self.startup.iter();
        startup.any(|(began, own)| began.eq_ignore_ascii_case(name) && own != value)
    }

    /// Returns the client's subscriptions through the shared listening connection ([`crate::channels`]).
    #[inline]
    pub fn subscriptions(&self) -> Option<&Subscriptions> {
        self.subscriptions.as_deref()
    }

    /// Returns the subscriptions for modification; creates them if there are none.
    pub fn subscriptions_mut(&mut self) -> &mut Subscriptions {
        self.subscriptions.get_or_insert_default()
    }

    /// Removes all subscriptions through the shared listening connection.
    pub fn drop_subscriptions(&mut self) {
        self.subscriptions = None;
    }

    /// True if a message of the client is kept until it is complete, although it is long: a listening client's text may
    /// be an UNLISTEN, whose command tag does not name the channel.
    #[inline]
    pub(crate) fn is_read_whole(&self, header: Header) -> bool {
        self.subscriptions.is_some()
            && matches!(header.tag, tag::QUERY | tag::PARSE)
            && header.total_len() <= STATEMENT_MAX
    }

    /// True if the client's ReadyForQuery is held back until it has all notifications ([`Subscriptions::is_behind`]).
    #[inline]
    pub fn is_behind(&self) -> bool {
        let subscriptions = self.subscriptions.as_deref();
        subscriptions.is_some_and(Subscriptions::is_behind)
    }

    /// Sets the process id that the client was given at login and that its own notifications must show; 0 if there is
    /// none.
    pub fn set_process(&mut self, pid: u32) {
        self.process = pid;
    }

    /// Returns the reason for which the client keeps its server, if it does.
    #[inline]
    pub fn pin(&self) -> Option<Pin> {
        let reason = || self.held_reasons().iter().next();
        self.pin.or_else(|| reason().map(Pin::State))
    }

    /// True if the client's next request needs a server that is like a new connection: one that others have used might
    /// answer it differently ([`crate::relay::wants_new`]). Where every new object is temporary, PostgreSQL shows if the
    /// session has had temporary objects before.
    #[inline]
    pub fn wants_new_server(&self) -> bool {
        let begins_temporary = || {
            let path = self.settings.get("search_path").unwrap_or_default();
            path.trim_start_matches([' ', '"']).starts_with("pg_temp")
        };
        self.wants_new || self.makes_temporary() && begins_temporary()
    }

    /// Updates what is derived from the settings after they changed.
    pub(crate) fn settings_changed(&mut self) {
        let path = self.settings.get("search_path");
        let is_temporary = path.is_some_and(|path| path.contains("pg_temp"));
        self.rarities
            .set(ClientRarity::MakesTemporary, is_temporary);
    }

    /// True if `search_path` names the temporary schema, so any object that the client creates may be temporary.
    #[inline]
    pub(crate) fn makes_temporary(&self) -> bool {
        self.rarities.has(ClientRarity::MakesTemporary)
    }

    /// Resets the session after `DISCARD ALL` to what the client began with.
    pub(crate) fn forget_session(&mut self) {
        self.settings = Arc::clone(&self.startup);
        self.settings_changed();
        self.certain = Reasons::default();
        self.sequences.forget();
        self.rarities.remove(ClientRarity::AdvancedSequence);
        self.rarities.remove(ClientRarity::UsesSequences);
        if let Some(subscriptions) = &mut self.subscriptions {
            subscriptions.discard();
        }
    }

    /// Returns all reasons for which the client keeps its server, in words; empty if it does not.
    pub fn pin_words(&self) -> String {
        let pin = self.pin.map(Pin::reason);
        let held = self.held_reasons();
        let words = pin.into_iter().chain(held.iter().map(Reason::words));
        words.collect::<Vec<_>>().join(", ")
    }

    /// Returns all session state that keeps the client on its server.
    #[inline]
    pub(crate) fn held_reasons(&self) -> Reasons {
        self.held.union(self.certain)
    }

    /// Returns the values that the client asked for.
    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// Returns the parameter values that were reported to the client.
    pub fn reported(&self) -> &Arc<Reported> {
        &self.reported
    }

    /// Number of the client's statement names.
    pub fn statement_count(&self) -> usize {
        self.names.len()
    }

    /// Frees memory that a burst of statements took.
    pub fn give_back(&mut self) {
        if is_roomy(self.names.capacity(), self.names.len()) {
            self.names.shrink_to_fit();
        }
    }

    /// Number of bytes still to come of a message that is handled while it arrives.
    pub fn owed_bytes(&self) -> usize {
        usize::try_from(self.owed).unwrap_or(usize::MAX)
    }

    /// True if the server has received the beginning but not the end of a message of this client.
    #[inline]
    pub fn is_sending_to_server(&self) -> bool {
        self.owed > 0 && self.rest == Rest::Forward
    }

    /// Returns a name as it is stored and its statement; `None` as the statement if only the pinned server has it.
    pub(crate) fn statement(&self, name: &[u8]) -> Option<KnownName<'_>> {
        if self.names.is_empty() {
            return None;
        }
        let (name, known) = self.names.get_key_value(key(name))?;
        Some((name, known.statement.as_ref()))
    }

    /// Returns the same as [`Client::statement`], with the state of the client's own Parse.
    pub(crate) fn statement_to_use(&self, name: &[u8]) -> Option<(KnownName<'_>, Parsed)> {
        if self.names.is_empty() {
            return None;
        }
        let (name, known) = self.names.get_key_value(key(name))?;
        Some(((name, known.statement.as_ref()), known.parsed))
    }

    /// Returns the state of the client's own Parse of a name.
    pub(crate) fn parsed(&self, name: &[u8]) -> Option<Parsed> {
        self.names.get(key(name)).map(|known| known.parsed)
    }

    /// Returns how new a copy must be for this use of a name. If the Parse was undone, this use resolves it anew.
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

    /// Replaces the statement of a name.
    pub(crate) fn replace(&mut self, name: &[u8], statement: &Arc<Statement>) {
        if let Some(known) = self.names.get_mut(key(name)) {
            known.statement = Some(Arc::clone(statement));
        }
    }

    /// Records that a Parse of an existing name was sent in place of the client's, for this statement.
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

    /// Marks a name as not resolved: no server has resolved it after all, or none has described it.
    pub(crate) fn defer(&mut self, name: &[u8]) {
        if let Some(known) = self.names.get_mut(key(name)) {
            known.parsed = Parsed::Deferred;
        }
    }

    /// Records a server's description of the Parse of this name, if the name still stands for that Parse.
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

    /// Records that the server skipped the description of this name's Parse.
    pub(crate) fn was_not_described(&mut self, name: &[u8], statement: &Arc<Statement>) {
        if let Some(known) = self.names.get_mut(key(name))
            && matches!(known.parsed, Parsed::Sent(_))
            && (known.statement.as_ref()).is_some_and(|mine| Arc::ptr_eq(mine, statement))
        {
            known.parsed = Parsed::Deferred;
        }
    }

    /// Ends a transaction: later Parses see everything that the client's Parses in it saw. `is_last`: no more requests
    /// are in flight; `is_doubtful`: see [`crate::relay::Definitions::Doubtful`].
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

    /// Forgets the unnamed statement, which a failed request has removed.
    pub(crate) fn forget_unnamed(&mut self) {
        if let Some(unnamed) = &mut self.unnamed {
            unnamed.define(unnamed::NONE, &[], None);
            unnamed.confirm();
        }
    }

    /// Returns the body of the Parse of the unnamed statement behind the name; empty if it was not kept.
    pub(crate) fn unnamed_body(&self) -> &[u8] {
        let unnamed = self.unnamed.as_ref();
        unnamed.map_or(&[], |unnamed| unnamed.current().1)
    }

    pub(crate) fn unnamed(&mut self) -> &mut Unnamed {
        self.unnamed.get_or_insert_default()
    }

    /// True if the client has no unnamed statement, whatever the requests in flight do.
    pub(crate) fn has_no_unnamed(&self) -> bool {
        self.unnamed
            .as_ref()
            .is_none_or(|unnamed| unnamed.is_none())
    }

    /// Returns serial and body of the unnamed statement as of the last request sent.
    pub(crate) fn current_unnamed(&self) -> (u64, &[u8]) {
        self.unnamed
            .as_ref()
            .map_or((unnamed::NONE, &[]), |unnamed| unnamed.current())
    }

    /// True if a change of the unnamed statement is not answered yet.
    pub(crate) fn has_unnamed_on_its_way(&self) -> bool {
        self.unnamed
            .as_ref()
            .is_some_and(|unnamed| unnamed.is_on_its_way())
    }

    /// Iterates over the client's statements: name, state of the Parse, and statement.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&[u8], Parsed, Option<&Arc<Statement>>)> {
        (self.names.iter()).map(|(name, known)| (&**name, known.parsed, known.statement.as_ref()))
    }

    /// Returns the named statement of ours that stands in for the unnamed one.
    pub(crate) fn unnamed_stand_in(&self) -> Option<&Arc<Statement>> {
        self.unnamed.as_ref()?.stands_in()
    }

    /// Returns the effects that running the unnamed statement may have on the session.
    pub(crate) fn unnamed_effects(&self) -> Option<&Arc<Effects>> {
        self.unnamed.as_ref()?.effects()
    }

    /// Adds a name that only the client's server knows.
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

    /// Records that the server has prepared a statement under the client's own name.
    pub(crate) fn owns(&mut self, name: &Arc<[u8]>, statement: &Arc<Statement>) {
        if let Some(own) = &mut self.own_names {
            own.known.insert(key(name).into(), Arc::clone(statement));
        }
    }

    /// Removes statements under the client's own names that its server does not list in `names`.
    pub(crate) fn owns_only(&mut self, names: &HashSet<Box<[u8]>>) {
        if let Some(own) = &mut self.own_names {
            own.known.retain(|name, _| names.contains(&**name));
            own.unchecked.retain(|name, _| names.contains(&**name));
        }
    }

    /// Leaves a server: the client's statements may have our names again.
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

    /// Returns the client's statements whose names may occur in a text.
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

    /// Returns every name that the client has given to a statement.
    pub(crate) fn all_statements(&self) -> Vec<Mentioned> {
        let names = self.names.iter();
        names
            .map(|(name, known)| (Arc::clone(name), known.statement.clone()))
            .collect()
    }

    /// Removes all names, then applies the name changes of requests in flight.
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
                // These remove names when they succeed, or add none.
                Undo::Began(_) | Undo::Deallocate(_) | Undo::DeallocateAll | Undo::Refused(_) => {}
            }
        }
        if self.names.is_empty() {
            self.maps_names = None;
        }
    }
}

/// Returns a name truncated as PostgreSQL compares it.
pub(crate) fn key(name: &[u8]) -> &[u8] {
    name.get(..NAME_MAX).unwrap_or(name)
}
