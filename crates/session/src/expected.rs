//! The FIFO of answers that a server owes: the single truth about what is in flight.
//!
//! PostgreSQL answers requests strictly in order (manual, 55.2 "Message Flow"), so one queue says what every reply
//! belongs to, whether the client is to see it, and, when the queue is empty after a ReadyForQuery, that nothing is
//! left behind. Each entry carries what has to be undone when the server skips the request after an error.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_sql::Reasons;

use crate::client::{Parsed, key};
use crate::inserted::Inserted;
use crate::statement::{Statement, is_roomy};

/// A request that owes a reply (or, for [`Kind::CopyEnd`], ends one).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Bind: BindComplete.
    Bind,
    /// Close: CloseComplete.
    Close,
    /// CopyDone or CopyFail: owes nothing, but marks where a COPY FROM STDIN ends.
    CopyEnd,
    /// Describe: RowDescription or NoData, for statements after a ParameterDescription.
    Describe,
    /// Execute: CommandComplete, EmptyQueryResponse or PortalSuspended.
    Execute,
    /// FunctionCall: FunctionCallResponse, then ReadyForQuery.
    FunctionCall,
    /// Parse: ParseComplete.
    Parse,
    /// Query: anything, then ReadyForQuery.
    Query,
    /// Sync: ReadyForQuery.
    Sync,
}

/// What to do with the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duty {
    /// No server was asked: we answer when it is this entry's turn.
    Answer,
    /// We prepare the session for what the client sends next, in the same write: nobody sees it, and should it fail,
    /// PostgreSQL skips the client's messages, too.
    Fence,
    /// The client is waiting for it.
    Forward,
    /// We asked for the state of the session: the answer is read.
    Learn,
    /// We asked for ourselves: nobody sees it.
    Swallow,
    /// We asked on behalf of the client, and if it fails, so much the worse: nobody sees it.
    Try,
}

/// What a skipped request did to the client's names, to be taken back.
#[derive(Debug)]
pub(crate) enum Undo {
    /// The Parse of this name, which was answered before, was sent.
    Began(Arc<[u8]>),
    /// A Close removed this name.
    Closed(Arc<[u8]>, Option<Arc<Statement>>, Parsed),
    /// Nothing to undo: when it succeeds, this name is gone (SQL-level DEALLOCATE).
    Deallocate(Box<[u8]>),
    /// Nothing to undo: when it succeeds, all names are gone.
    DeallocateAll,
    /// A Parse, sent at this time of the pool's clock, added this name.
    Named(Arc<[u8]>, Arc<Statement>, u64),
    /// A Parse gives the server this statement under the client's own name; if `true`, it has had a name of ours so far.
    Owned(Arc<[u8]>, Arc<Statement>, bool),
    /// Nothing to undo: another statement was sent in place of the client's, to fail; these are why.
    Refused(Reasons),
}

impl Undo {
    /// Whether what becomes of this name (as PostgreSQL compares it) is a matter of the request.
    fn concerns(&self, name: &[u8]) -> bool {
        match self {
            Self::Began(changed)
            | Self::Closed(changed, ..)
            | Self::Named(changed, ..)
            | Self::Owned(changed, ..) => key(changed) == name,
            Self::Deallocate(changed) => key(changed) == name,
            Self::DeallocateAll => true,
            Self::Refused(_) => false,
        }
    }

    /// Whether it takes a name away.
    fn takes_away(&self) -> bool {
        matches!(
            self,
            Self::Closed(..) | Self::Deallocate(_) | Self::DeallocateAll
        )
    }

    /// Whether only its own success, not that of what comes before it in the batch, decides.
    fn may_fail_alone(&self) -> bool {
        matches!(self, Self::Deallocate(_) | Self::DeallocateAll)
    }
}

/// A statement name that was replaced: an error that names the one has to name the other.
#[derive(Debug, Clone)]
pub struct Renamed {
    /// What the server knows.
    pub ours: Arc<Statement>,
    /// The name that the client knows.
    pub theirs: Arc<[u8]>,
}

/// One owed reply.
#[derive(Debug)]
pub struct Expected {
    /// What was asked.
    pub kind: Kind,
    /// What to do with the answer.
    pub duty: Duty,
    /// Parse: the statement being prepared. Close: the one being evicted.
    pub statement: Option<Arc<Statement>>,
    /// Boxed, since few requests name anything.
    pub(crate) undo: Option<Box<Undo>>,
    /// What it does to the unnamed statement.
    pub unnamed: Option<UnnamedEffect>,
    /// The name in it, if it is not the client's.
    pub renamed: Option<Renamed>,
    /// Its ReadyForQuery waits for the request of ours that follows.
    pub held_back: bool,
    /// Query: statements of ours in it.
    pub(crate) inserted: Option<Box<Inserted>>,
    /// Describe: it says what a Parse of a statement of ours has resolved to, which nobody knows if it is skipped. Else:
    /// the client relies on nothing that the statement in it returned before.
    pub is_fresh: bool,
    /// Should it fail because of a statement of ours, the batch can be put to the server again, from here on.
    pub begins: bool,
    /// Query of ours: what the client sends next depends on its success.
    pub(crate) required: Option<Box<Required>>,
}

/// A request of ours without which nothing of the client's may run ([`crate::server::Server::require`]).
#[derive(Debug)]
pub(crate) struct Required {
    /// The text, to be sent again.
    pub sql: Box<str>,
    /// Times that the server has interrupted it.
    pub interrupted: u8,
    /// The server has just interrupted it: it has to be sent again.
    pub is_due: bool,
}

/// A request that defines or drops the unnamed statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnnamedEffect {
    /// What the server holds after it.
    pub serial: u64,
    /// Whether it was the client's own request.
    pub of_client: bool,
    /// Whether the server hears of it: otherwise a named statement stands in for it.
    pub of_server: bool,
}

impl Expected {
    /// Whether it changes what the client's names mean.
    fn names(&self) -> bool {
        self.undo.is_some() || self.unnamed.is_some_and(|effect| effect.of_client)
    }

    /// An entry without a statement.
    pub fn new(kind: Kind, duty: Duty) -> Self {
        Self {
            kind,
            duty,
            statement: None,
            undo: None,
            unnamed: None,
            renamed: None,
            held_back: false,
            inserted: None,
            is_fresh: false,
            begins: false,
            required: None,
        }
    }

    /// The same with the statement it prepares or closes.
    #[must_use]
    pub fn with_statement(mut self, statement: &Arc<Statement>) -> Self {
        self.statement = Some(Arc::clone(statement));
        self
    }

    /// The same with what it does to the unnamed statement.
    #[must_use]
    pub fn with_unnamed(mut self, effect: Option<UnnamedEffect>) -> Self {
        self.unnamed = effect;
        self
    }

    /// The same with the name that the client used.
    #[must_use]
    pub fn with_renamed(mut self, renamed: Option<Renamed>) -> Self {
        self.renamed = renamed;
        self
    }

    /// The same with what to undo when it is skipped.
    #[must_use]
    pub(crate) fn with_undo(mut self, undo: Undo) -> Self {
        self.undo = Some(Box::new(undo));
        self
    }
}

/// COPY as far as the expected replies depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CopyState {
    /// Both directions at once (streaming replication).
    Both,
    /// The server reads data; `open` until a CopyDone or CopyFail was sent.
    In {
        /// No end of the data has been sent yet.
        open: bool,
    },
    /// No COPY.
    #[default]
    None,
    /// The server sends data.
    Out,
}

// === Queue ===

/// The owed replies of one server, in order, with the state that decides whether a further request owes one at all.
#[derive(Debug, Default)]
pub struct Queue {
    entries: VecDeque<Expected>,
    copy: CopyState,
    skipping: bool,
    /// Entries that change what the client's names mean (see [`Expected::names`]).
    naming: usize,
    /// Those of them that an error may skip without skipping what comes next.
    naming_apart: usize,
    /// Those of them that take names away.
    removing: usize,
    /// Entries without whose success nothing of the client's may run.
    required: usize,
    /// Entries of a fence ([`Duty::Fence`]).
    fences: usize,
    /// Counts the Syncs.
    batch: u64,
    /// Syncs that a COPY FROM STDIN was thought to eat, but may not have, since it failed (see [`Queue::is_quiet`]).
    stray: usize,
    /// A part of the front entry's reply has arrived.
    begun: bool,
    /// Which requests the server skips cannot be known any more.
    lost: bool,
}

impl Queue {
    /// Gives back room that a long pipeline took.
    pub(crate) fn give_back(&mut self) {
        if is_roomy(self.entries.capacity(), self.entries.len()) {
            self.entries.shrink_to_fit();
        }
    }

    /// A request is on its way to the server. Returns the entry if the server will not answer it, because it skips to
    /// the next Sync after an error, or because a COPY FROM STDIN eats a Sync.
    pub fn expect(&mut self, entry: Expected) -> Option<Expected> {
        self.batch += u64::from(entry.kind == Kind::Sync);
        if let CopyState::In { open: true } = self.copy {
            // "Flush and Sync are ignored" while data is expected.
            if entry.kind == Kind::Sync {
                self.stray += 1;
                return Some(entry);
            }
            // Anything else but data ends the COPY, and since PostgreSQL 14 the session too. But the COPY may have failed
            // by itself on the way, and then it is a request like any other. Should an older server have eaten it, its
            // entry stays, and the server is never free again.
            self.copy = CopyState::In { open: false };
            // Whether it is skipped depends on what became of the Sync before it.
            let skips = self
                .entries
                .front()
                .is_some_and(|front| front.kind == Kind::Execute);
            self.lost |= skips && self.stray > 0 && entry.kind != Kind::CopyEnd;
        } else if self.skipping {
            if entry.kind != Kind::Sync {
                return Some(entry);
            }
            self.skipping = false;
        }
        self.arrives(&entry);
        self.entries.push_back(entry);
        None
    }

    /// The number of the batch that the next request belongs to: an error skips all the rest of one batch, and nothing
    /// of the next.
    pub fn batch(&self) -> u64 {
        self.batch
    }

    /// Whether no reply to come can change what the next Parse finds: an open COPY, the transaction's status or
    /// forgotten statements. Settings of our own are sent between transactions and cannot.
    pub fn is_plain(&self) -> bool {
        let heavy = |entry: &Expected| match entry.kind {
            Kind::Query => entry.duty == Duty::Forward,
            Kind::Execute | Kind::FunctionCall | Kind::Sync => entry.duty != Duty::Fence,
            Kind::Bind | Kind::Close | Kind::CopyEnd | Kind::Describe | Kind::Parse => false,
        };
        self.copy == CopyState::None && !self.skipping && !self.entries.iter().any(heavy)
    }

    /// Whether nothing on its way can fail and so make the server skip what comes next.
    pub fn is_clear(&self) -> bool {
        self.copy == CopyState::None
            && !self.skipping
            && self.entries.len() <= 1
            && (self.entries.iter()).all(|entry| entry.duty == Duty::Swallow)
    }

    /// Whether a simple query can be put behind what is on its way.
    pub fn takes_queries(&self) -> bool {
        self.copy == CopyState::None && !self.skipping
    }

    /// The ReadyForQuery of the last request, if it is the client's, waits for the request that comes next.
    pub fn hold_back(&mut self) {
        if let Some(last) = self.entries.back_mut()
            && matches!(last.kind, Kind::Query | Kind::Sync)
        {
            last.held_back = last.duty == Duty::Forward;
        }
    }

    /// Whether the last request of the client, or the batch it belongs to, is complete and not answered: the next one is
    /// another. Not while a COPY reads data: then it is an error, and its own answer.
    pub fn owes_ready(&self) -> bool {
        let is_read = matches!(self.copy, CopyState::In { open: true });
        let of_client = |entry: &&Expected| {
            entry.kind != Kind::CopyEnd && matches!(entry.duty, Duty::Answer | Duty::Forward)
        };
        let last = self.entries.iter().rev().find(of_client);
        let ends =
            |entry: &Expected| matches!(entry.kind, Kind::FunctionCall | Kind::Query | Kind::Sync);
        !is_read && last.is_some_and(ends)
    }

    /// Whether nothing on its way is the client's.
    pub fn is_ours(&self) -> bool {
        self.entries.iter().all(|entry| entry.duty != Duty::Forward)
    }

    /// Whether the last change of this statement that is on its way is a Parse of the client under this name.
    pub fn is_named_last(&self, statement: &Statement, name: &[u8]) -> bool {
        let of_statement = |entry: &&Expected| {
            let changed = entry.statement.as_ref();
            changed.is_some_and(|changed| changed.id == statement.id)
        };
        let last = self.entries.iter().rev().find(of_statement);
        last.is_some_and(|entry| match entry.undo.as_deref() {
            Some(Undo::Named(named, ..)) => **named == *name,
            _ => false,
        })
    }

    /// Whether anything on its way changes the client's names.
    #[inline]
    pub fn changes_names(&self) -> bool {
        self.naming > 0
    }

    /// Whether any of that may be skipped without skipping what comes next.
    #[inline]
    pub fn changes_names_apart(&self) -> bool {
        self.naming_apart > 0
    }

    /// As [`Queue::is_unsettled`], for the unnamed statement.
    pub fn is_unnamed_unsettled(&self) -> bool {
        let mut of_this_batch = true;
        for entry in self.entries.iter().rev() {
            of_this_batch &= entry.kind != Kind::Sync;
            if entry.unnamed.is_some_and(|effect| effect.of_client) {
                return !of_this_batch;
            }
        }
        false
    }

    /// True if a request of ours is on its way that has to succeed before anything of the client's runs.
    #[inline]
    pub fn awaits_required(&self) -> bool {
        self.required > 0
    }

    /// True if a fence is on its way.
    #[inline]
    pub fn is_fenced(&self) -> bool {
        self.fences > 0
    }

    /// True if a whole request or batch of the client follows a fence: the next one has to wait for the fence's success,
    /// since a failure skips one batch only.
    #[inline]
    pub fn is_fence_followed(&self) -> bool {
        let ends = |entry: &Expected| match entry.kind {
            Kind::Sync => true,
            Kind::FunctionCall | Kind::Query => entry.duty == Duty::Forward,
            _ => false,
        };
        self.fences > 0 && self.entries.iter().any(ends)
    }

    /// True if nothing follows a fence.
    pub fn ends_with_fence(&self) -> bool {
        let last = self.entries.back();
        last.is_some_and(|last| last.duty == Duty::Fence && last.kind != Kind::Sync)
    }

    /// The required request in front.
    pub(crate) fn required_in_front(&mut self) -> Option<&mut Required> {
        self.entries.front_mut()?.required.as_deref_mut()
    }

    fn arrives(&mut self, entry: &Expected) {
        self.naming += usize::from(entry.names());
        self.required += usize::from(entry.required.is_some());
        self.fences += usize::from(entry.duty == Duty::Fence);
        let undo = entry.undo.as_deref();
        self.removing += usize::from(undo.is_some_and(Undo::takes_away));
        if entry.kind == Kind::Sync || undo.is_some_and(Undo::may_fail_alone) {
            self.naming_apart = self.naming;
        }
    }

    /// Entries leave from the front, so those that are apart go first.
    fn leaves(&mut self, entry: &Expected) {
        if entry.names() {
            self.naming -= 1;
            self.naming_apart = self.naming_apart.saturating_sub(1);
        }
        let takes_away = entry.undo.as_deref().is_some_and(Undo::takes_away);
        self.removing -= usize::from(takes_away);
        self.required -= usize::from(entry.required.is_some());
        self.fences -= usize::from(entry.duty == Duty::Fence);
    }

    /// Whether the last thing on its way that concerns this name is a Parse that gives it this statement, and nothing
    /// takes names away.
    pub fn is_only_given(&self, statement: &Statement, name: &[u8]) -> bool {
        let name = key(name);
        let concerns = |entry: &&Expected| {
            let undo = entry.undo.as_deref();
            undo.is_some_and(|undo| undo.concerns(name))
        };
        let last = self.entries.iter().rev().find(concerns);
        // What was answered before is the client's even if the Parse that is sent now is skipped.
        let is_new = |entry: &&Expected| !matches!(entry.undo.as_deref(), Some(Undo::Began(_)));
        let prepared = last.filter(is_new).and_then(|last| last.statement.as_ref());
        self.removing == 0 && prepared.is_some_and(|prepared| prepared.id == statement.id)
    }

    /// Whether anything on its way takes names away.
    pub fn takes_names_away(&self) -> bool {
        self.removing > 0
    }

    /// Whether it is open what a request on its way makes of this name, because an error may skip that request but not
    /// the next one. An answer will tell: PostgreSQL holds no error back, and what is skipped is answered by nothing else.
    pub fn is_unsettled(&self, name: &[u8]) -> bool {
        let mut of_this_batch = true;
        for entry in self.entries.iter().rev() {
            of_this_batch &= entry.kind != Kind::Sync;
            if let Some(undo) = entry.undo.as_deref().filter(|undo| undo.concerns(name)) {
                return !of_this_batch || undo.may_fail_alone();
            }
        }
        false
    }

    /// Whether the server has still to say what this statement returns.
    pub fn describes(&self, statement: &Statement) -> bool {
        self.entries.iter().any(|entry| {
            let renamed = entry
                .renamed
                .as_ref()
                .filter(|_| entry.kind == Kind::Describe);
            renamed.is_some_and(|renamed| renamed.ours.id == statement.id)
        })
    }

    /// Whether nothing on its way but Parse and Close is the client's.
    #[inline]
    pub fn only_names(&self) -> bool {
        let is_ours = |entry: &Expected| !matches!(entry.duty, Duty::Answer | Duty::Forward);
        let mut entries = self.entries.iter();
        entries.all(|entry| matches!(entry.kind, Kind::Parse | Kind::Close) || is_ours(entry))
    }

    /// After [`Queue::skip_to_sync`]: whether nothing is on its way behind the batch that has failed.
    pub fn ends_with_batch(&self) -> bool {
        let mut entries = self.entries.iter();
        match entries.next() {
            None => self.skipping,
            Some(sync) => {
                let is_last = entries.next().is_none() && !sync.held_back;
                is_last && sync.kind == Kind::Sync && sync.duty == Duty::Forward
            }
        }
    }

    /// The ReadyForQuery that comes next is not for the client.
    pub fn swallow_sync(&mut self) {
        if let Some(front) = self.entries.front_mut() {
            front.duty = Duty::Swallow;
        }
    }

    /// What is on its way, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Expected> {
        self.entries.iter()
    }

    /// What the last request on its way does to the unnamed statement, if any does something.
    pub fn last_unnamed(&self) -> Option<u64> {
        let effects = self.entries.iter().rev().filter_map(|entry| entry.unnamed);
        let mut effects = effects.filter(|effect| effect.of_server);
        effects.next().map(|effect| effect.serial)
    }

    /// The entry whose reply comes next.
    #[inline]
    pub fn front(&self) -> Option<&Expected> {
        self.entries.front()
    }

    /// What is ours in the Query in front, if anything is.
    pub(crate) fn inserted(&self) -> Option<&Inserted> {
        self.entries.front()?.inserted.as_deref()
    }

    /// A statement of the Query in front was answered by this tag. Answers to ours are for nobody. True if such have just
    /// ended.
    pub(crate) fn complete_inserted(&mut self, tag: &[u8]) -> bool {
        let Some(front) = self.entries.front_mut() else {
            return false;
        };
        let Some(inserted) = &mut front.inserted else {
            return false;
        };
        let was_ours = inserted.is_ours();
        inserted.complete(tag);
        front.duty = if inserted.is_ours() {
            Duty::Try
        } else {
            Duty::Forward
        };
        was_ours && !inserted.is_ours()
    }

    /// The Query in front has failed, wherever in it: the client hears that.
    pub(crate) fn fail_inserted(&mut self) {
        if let Some(front) = self
            .entries
            .front_mut()
            .filter(|front| front.inserted.is_some())
        {
            front.duty = Duty::Forward;
        }
    }

    /// The front entry's reply is complete.
    #[inline]
    pub fn pop(&mut self) -> Option<Expected> {
        self.begun = false;
        let entry = self.entries.pop_front()?;
        self.leaves(&entry);
        Some(entry)
    }

    /// Takes entries that need no server from the front: marks whose COPY is over, and answers of our own, which are
    /// returned one by one.
    #[inline]
    pub fn next_answer(&mut self) -> Option<Expected> {
        loop {
            let front = self.entries.front()?;
            match (front.kind, front.duty) {
                (Kind::CopyEnd, _) if self.copy == CopyState::None => {
                    self.entries.pop_front();
                }
                (_, Duty::Answer) => {
                    let entry = self.entries.pop_front()?;
                    self.leaves(&entry);
                    return Some(entry);
                }
                _ => return None,
            }
        }
    }

    /// The server reports an error while extended-protocol requests are in front: everything up to the next Sync will
    /// not be answered. Returns those entries, last first, which is the order in which to undo them.
    pub fn skip_to_sync(&mut self) -> Vec<Expected> {
        self.copy = CopyState::None;
        self.begun = false;
        let until = self
            .entries
            .iter()
            .position(|entry| entry.kind == Kind::Sync);
        self.skipping = until.is_none();
        let mut skipped: Vec<_> = self
            .entries
            .drain(..until.unwrap_or(self.entries.len()))
            .collect();
        skipped.reverse();
        skipped.iter().for_each(|entry| self.leaves(entry));
        skipped
    }

    /// CopyInResponse: Syncs that were sent ahead of the data are eaten by the COPY (see [`Queue::expect`]).
    pub fn start_copy_in(&mut self) {
        while self
            .entries
            .get(1)
            .is_some_and(|next| next.kind == Kind::Sync)
        {
            self.stray += 1;
            self.entries.remove(1);
        }
        self.copy = CopyState::In {
            open: self.entries.len() < 2,
        };
    }

    /// CopyOutResponse or CopyBothResponse.
    pub fn start_copy(&mut self, state: CopyState) {
        self.copy = state;
    }

    /// A part of the front entry's reply has arrived. Requests are answered in order, so if it is the first part, no
    /// answer to an earlier Sync is to come any more.
    #[inline]
    pub fn begin_reply(&mut self) {
        if !self.begun {
            self.begun = true;
            self.stray = 0;
        }
    }

    /// ReadyForQuery: whether it answers a Sync that a COPY was thought to have eaten. If so, that is settled.
    pub fn take_stray(&mut self) -> bool {
        let waits_for_it = match self.entries.front() {
            None => true,
            Some(front) => !self.begun && front.kind != Kind::Sync,
        };
        if self.stray == 0 || !waits_for_it {
            return false;
        }
        self.stray -= 1;
        self.skipping = false;
        true
    }

    /// CommandComplete: a COPY FROM STDIN has read all up to the end of its data, all Syncs in between.
    #[inline]
    pub fn complete_copy(&mut self) {
        if matches!(self.copy, CopyState::In { .. }) {
            self.stray = 0;
        }
        self.end_copy();
    }

    /// CommandComplete or ErrorResponse: a COPY that was going on is over, and so is the mark of its end.
    #[inline]
    pub fn end_copy(&mut self) {
        // A COPY TO STDOUT has none: one that is there belongs to a COPY FROM STDIN behind it in the same Query.
        let marked = matches!(std::mem::take(&mut self.copy), CopyState::In { .. })
            && (self.entries.get(1)).is_some_and(|next| next.kind == Kind::CopyEnd);
        if marked {
            self.entries.remove(1);
        }
    }

    /// What COPY is going on.
    pub fn copy(&self) -> CopyState {
        self.copy
    }

    /// Whether the server skips everything until a Sync that has not been sent yet.
    pub fn is_skipping(&self) -> bool {
        self.skipping
    }

    /// Whether no reply is owed.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many replies are owed.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is in flight: no reply owed, no COPY, no skipping.
    ///
    /// A Sync in the middle of COPY data owes a reply exactly if the server was no longer reading the data when it came,
    /// which only the next reply to something else tells. Until then nothing is quiet: the reply might come to the next
    /// client.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        let owes_nothing = self.entries.is_empty() && self.stray == 0 && !self.lost;
        owes_nothing && self.copy == CopyState::None && !self.skipping
    }

    /// True if only the answer to one more request can tell whether a Sync that a COPY may have eaten is still to be answered.
    #[inline]
    pub fn is_in_doubt(&self) -> bool {
        let is_over = self.stray > 0 && self.entries.is_empty() && !self.lost;
        is_over && self.copy == CopyState::None && !self.skipping
    }

    /// Whether it is not known any more which requests will be answered. No client that waits for the end of its COPY
    /// gets there.
    pub fn is_lost(&self) -> bool {
        self.lost
    }
}

#[cfg(test)]
mod tests;
