//! The FIFO of replies that a server owes: the only record of what is in flight.
//!
//! PostgreSQL answers requests strictly in order (manual, 55.2 "Message Flow"). So one queue decides which request a
//! reply belongs to and if the client sees it. If the queue is empty after a ReadyForQuery, nothing is in flight. Each
//! entry also records what to undo if the server skips its request after an error.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::client::key;
use crate::counted::Counted;
use crate::inserted::Inserted;
use crate::statement::{Statement, is_roomy};
use crate::watched::Watched;

mod undo;

pub(crate) use undo::{Refusal, Undo};

/// Kind of request that owes a reply (or, for [`Kind::CopyEnd`], ends one).
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

/// Treatment of the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duty {
    /// Answer: no server was asked, and Weir sends the reply itself when it is this entry's turn.
    Answer,
    /// Fence: a request of ours prepares the session for the client's next messages, sent in the same write. The reply
    /// is dropped. If the request fails, PostgreSQL skips the client's messages too.
    Fence,
    /// Guard: like a fence, but the request finds out if the server is fresh enough for the client's batch, which runs on
    /// another server if not.
    Guard,
    /// Forward: the client is waiting for the reply.
    Forward,
    /// Learn: Weir asked for the state of the session and reads the reply.
    Learn,
    /// Swallow: the request was ours, and the reply is dropped.
    Swallow,
    /// Try: Weir asked on behalf of the client. The reply is dropped, and a failure is ignored.
    Try,
}

impl Duty {
    /// True for a request of ours that precedes the client's messages in the same write.
    pub fn is_fence(self) -> bool {
        matches!(self, Self::Fence | Self::Guard)
    }
}

/// A statement name that was replaced. Errors that contain our name must show the client's instead.
#[derive(Debug, Clone)]
pub struct Renamed {
    /// Statement whose name the server knows.
    pub ours: Arc<Statement>,
    /// Name that the client knows.
    pub theirs: Arc<[u8]>,
}

/// A reply that the server owes.
#[derive(Debug)]
pub struct Expected {
    /// Kind of the request.
    pub kind: Kind,
    /// Treatment of the reply.
    pub duty: Duty,
    /// Parse: the statement being prepared. Close: the statement being evicted.
    pub statement: Option<Arc<Statement>>,
    /// Boxed, since few requests name anything.
    pub(crate) undo: Option<Box<Undo>>,
    /// Effect of the request on the unnamed statement.
    pub unnamed: Option<UnnamedEffect>,
    /// Replaced statement name, if the request does not contain the client's name.
    pub renamed: Option<Renamed>,
    /// True if the ReadyForQuery is held back until the request of ours that follows has been answered.
    pub held_back: bool,
    /// Query: statements of ours that were inserted into it.
    pub(crate) inserted: Option<Box<Inserted>>,
    /// Describe: true if it tells how a Parse of a statement of ours was resolved, which stays unknown if the Describe
    /// is skipped. Other requests: true if the client does not rely on what the statement returned before.
    pub is_fresh: bool,
    /// True if the batch can be sent again from this entry on, should it fail because of a statement of ours.
    pub begins: bool,
    /// Query of ours: set if nothing of the client's may run unless it succeeds.
    pub(crate) required: Option<Box<Required>>,
    /// Digests that the request counts for.
    pub(crate) counted: Counted,
    /// Watch of a query rule over the statement.
    pub(crate) watched: Option<Box<Watched>>,
}

/// A request of ours that must succeed before anything of the client's runs ([`crate::server::Server::require`]).
#[derive(Debug)]
pub(crate) struct Required {
    /// SQL text, kept to be sent again.
    pub sql: Box<str>,
    /// Number of times the server has interrupted the request.
    pub interrupted: u8,
    /// True if the server has just interrupted the request, which must be sent again.
    pub is_due: bool,
}

/// Effect of a request that defines or drops the unnamed statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnnamedEffect {
    /// Serial of the unnamed statement that the server holds afterwards.
    pub serial: u64,
    /// True if the request was the client's own.
    pub of_client: bool,
    /// True if the request is sent to the server; otherwise a named statement stands in for the unnamed one.
    pub of_server: bool,
}

impl Expected {
    /// True if the request changes what the client's names mean.
    fn names(&self) -> bool {
        self.undo.is_some() || self.unnamed.is_some_and(|effect| effect.of_client)
    }

    /// True if the end of the reply changes nothing but the queue's length.
    #[inline]
    fn is_plain(&self) -> bool {
        self.statement.is_none()
            && self.undo.is_none()
            && self.unnamed.is_none()
            && self.renamed.is_none()
            && self.inserted.is_none()
            && self.required.is_none()
            && self.watched.is_none()
            && !self.duty.is_fence()
    }

    /// Creates an entry without a statement.
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
            counted: Counted::default(),
            watched: None,
        }
    }

    /// Sets the statement that the request prepares or closes.
    #[must_use]
    pub fn with_statement(mut self, statement: &Arc<Statement>) -> Self {
        self.statement = Some(Arc::clone(statement));
        self
    }

    /// Sets the effect on the unnamed statement.
    #[must_use]
    pub fn with_unnamed(mut self, effect: Option<UnnamedEffect>) -> Self {
        self.unnamed = effect;
        self
    }

    /// Sets the name that the client used.
    #[must_use]
    pub fn with_renamed(mut self, renamed: Option<Renamed>) -> Self {
        self.renamed = renamed;
        self
    }

    /// Sets the digests that the request counts for.
    #[must_use]
    pub(crate) fn with_counted(mut self, counted: Counted) -> Self {
        self.counted = counted;
        self
    }

    /// Sets what to undo if the server skips the request.
    #[must_use]
    pub(crate) fn with_undo(mut self, undo: Undo) -> Self {
        self.undo = Some(Box::new(undo));
        self
    }
}

/// State of COPY, as far as the expected replies depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CopyState {
    /// Data flows in both directions (streaming replication).
    Both,
    /// The server reads data.
    In {
        /// True until a CopyDone or CopyFail was sent.
        open: bool,
    },
    /// No COPY is in progress.
    #[default]
    None,
    /// The server sends data.
    Out,
}

// === Queue ===

/// Owed replies of one server, in order, and the state that decides if a further request owes a reply at all.
#[derive(Debug, Default)]
pub struct Queue {
    entries: VecDeque<Expected>,
    copy: CopyState,
    skipping: bool,
    /// Number of entries that change what the client's names mean (see [`Expected::names`]).
    naming: usize,
    /// Number of entries within `naming` that an error may skip without skipping the next request.
    naming_apart: usize,
    /// Number of entries that remove names.
    removing: usize,
    /// Number of entries that must succeed before anything of the client's may run.
    required: usize,
    /// Number of entries of a fence ([`Duty::Fence`]).
    fences: usize,
    /// Number of Syncs so far.
    batch: u64,
    /// Number of Syncs that a COPY FROM STDIN was thought to consume. If the COPY failed, it may not have (see
    /// [`Queue::is_quiet`]).
    stray: usize,
    /// True if a part of the front entry's reply has arrived.
    begun: bool,
    /// True if it can no longer be known which requests the server skips.
    lost: bool,
}

impl Queue {
    /// Frees memory that a long pipeline took.
    pub(crate) fn give_back(&mut self) {
        if is_roomy(self.entries.capacity(), self.entries.len()) {
            self.entries.shrink_to_fit();
        }
    }

    /// Adds a request that is being sent to the server. Returns the entry if the server will not answer it: it skips to
    /// the next Sync after an error, or a COPY FROM STDIN consumes a Sync.
    pub fn expect(&mut self, entry: Expected) -> Option<Expected> {
        self.batch += u64::from(entry.kind == Kind::Sync);
        if let CopyState::In { open: true } = self.copy {
            // "Flush and Sync are ignored" while data is expected.
            if entry.kind == Kind::Sync {
                self.stray += 1;
                return Some(entry);
            }
            // Any message but data ends the COPY and, since PostgreSQL 14, the session too. But if the COPY has already
            // failed on the server, the message is a request like any other. If an older server consumes it, its entry
            // stays, and the server never becomes free again.
            self.copy = CopyState::In { open: false };
            // The fate of the Sync before it decides if the server skips this request.
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

    /// Returns the number of the batch that the next request belongs to. An error skips the rest of its batch, and
    /// nothing of the next.
    pub fn batch(&self) -> u64 {
        self.batch
    }

    /// True if no outstanding reply can change what the next Parse finds: an open COPY, the transaction status or
    /// forgotten statements. Settings of ours are sent between transactions and change none of these.
    pub fn is_plain(&self) -> bool {
        let heavy = |entry: &Expected| match entry.kind {
            Kind::Query => entry.duty == Duty::Forward,
            Kind::Execute | Kind::FunctionCall | Kind::Sync => !entry.duty.is_fence(),
            Kind::Bind | Kind::Close | Kind::CopyEnd | Kind::Describe | Kind::Parse => false,
        };
        self.copy == CopyState::None && !self.skipping && !self.entries.iter().any(heavy)
    }

    /// True if nothing in flight can fail and make the server skip the next request.
    pub fn is_clear(&self) -> bool {
        self.copy == CopyState::None
            && !self.skipping
            && self.entries.len() <= 1
            && (self.entries.iter()).all(|entry| entry.duty == Duty::Swallow)
    }

    /// True if a simple query can be sent behind the requests in flight.
    pub fn takes_queries(&self) -> bool {
        self.copy == CopyState::None && !self.skipping
    }

    /// Holds back the ReadyForQuery of the last request, if it is the client's, until the next request has been
    /// answered.
    pub fn hold_back(&mut self) {
        if let Some(last) = self.entries.back_mut()
            && matches!(last.kind, Kind::Query | Kind::Sync)
        {
            last.held_back = last.duty == Duty::Forward;
        }
    }

    /// True if the client's last request or batch is complete and not answered, so the next request starts a new one.
    /// False while a COPY reads data: a request is then an error and gets its own reply.
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

    /// True if nothing in flight is the client's.
    pub fn is_ours(&self) -> bool {
        self.entries.iter().all(|entry| entry.duty != Duty::Forward)
    }

    /// True if the last change of this statement in flight is a Parse of the client under this name.
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

    /// True if a request in flight changes the client's names.
    #[inline]
    pub fn changes_names(&self) -> bool {
        self.naming > 0
    }

    /// True if the server may skip a request that changes names without skipping the next request.
    #[inline]
    pub fn changes_names_apart(&self) -> bool {
        self.naming_apart > 0
    }

    /// Like [`Queue::is_unsettled`], for the unnamed statement.
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

    /// True if a request of ours is in flight that must succeed before anything of the client's runs.
    #[inline]
    pub fn awaits_required(&self) -> bool {
        self.required > 0
    }

    /// True if a fence is in flight.
    #[inline]
    pub fn is_fenced(&self) -> bool {
        self.fences > 0
    }

    /// True if a complete request or batch of the client follows a fence. The next request then waits for the fence to
    /// succeed, since a failure skips one batch only.
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
        last.is_some_and(|last| last.duty.is_fence() && last.kind != Kind::Sync)
    }

    /// Returns the required request, if it is in front.
    pub(crate) fn required_in_front(&mut self) -> Option<&mut Required> {
        self.entries.front_mut()?.required.as_deref_mut()
    }

    fn arrives(&mut self, entry: &Expected) {
        self.naming += usize::from(entry.names());
        self.required += usize::from(entry.required.is_some());
        self.fences += usize::from(entry.duty.is_fence());
        let undo = entry.undo.as_deref();
        self.removing += usize::from(undo.is_some_and(Undo::takes_away));
        if entry.kind == Kind::Sync || undo.is_some_and(Undo::may_fail_alone) {
            self.naming_apart = self.naming;
        }
    }

    /// Updates the counters for an entry that leaves the queue. Entries leave from the front, so those in
    /// `naming_apart` leave first.
    fn leaves(&mut self, entry: &Expected) {
        if entry.names() {
            self.naming -= 1;
            self.naming_apart = self.naming_apart.saturating_sub(1);
        }
        let takes_away = entry.undo.as_deref().is_some_and(Undo::takes_away);
        self.removing -= usize::from(takes_away);
        self.required -= usize::from(entry.required.is_some());
        self.fences -= usize::from(entry.duty.is_fence());
    }

    /// True if the last request in flight about this name is a Parse that gives it this statement, and no request in
    /// flight removes names.
    pub fn is_only_given(&self, statement: &Statement, name: &[u8]) -> bool {
        let name = key(name);
        let concerns = |entry: &&Expected| {
            let undo = entry.undo.as_deref();
            undo.is_some_and(|undo| undo.concerns(name))
        };
        let last = self.entries.iter().rev().find(concerns);
        // A Parse that was answered before counts for the client even if the Parse that is sent now is skipped.
        let is_new = |entry: &&Expected| !matches!(entry.undo.as_deref(), Some(Undo::Began(_)));
        let prepared = last.filter(is_new).and_then(|last| last.statement.as_ref());
        self.removing == 0 && prepared.is_some_and(|prepared| prepared.id == statement.id)
    }

    /// True if a request in flight removes names.
    pub fn takes_names_away(&self) -> bool {
        self.removing > 0
    }

    /// True if the meaning of this name is open, because an error may skip a request in flight about it but not the
    /// next request. A reply will tell: PostgreSQL does not delay errors, and a skipped request gets no other reply.
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

    /// True if the server has not yet described what this statement returns.
    pub fn describes(&self, statement: &Statement) -> bool {
        self.entries.iter().any(|entry| {
            let renamed = entry
                .renamed
                .as_ref()
                .filter(|_| entry.kind == Kind::Describe);
            renamed.is_some_and(|renamed| renamed.ours.id == statement.id)
        })
    }

    /// True if the client has nothing in flight but Parse and Close.
    #[inline]
    pub fn only_names(&self) -> bool {
        let is_ours = |entry: &Expected| !matches!(entry.duty, Duty::Answer | Duty::Forward);
        let mut entries = self.entries.iter();
        entries.all(|entry| matches!(entry.kind, Kind::Parse | Kind::Close) || is_ours(entry))
    }

    /// True if, after [`Queue::skip_to_sync`], nothing is in flight behind the failed batch.
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

    /// Marks the next ReadyForQuery as not for the client.
    pub fn swallow_sync(&mut self) {
        if let Some(front) = self.entries.front_mut() {
            front.duty = Duty::Swallow;
        }
    }

    /// Iterates over the owed replies in order.
    pub fn iter(&self) -> impl Iterator<Item = &Expected> {
        self.entries.iter()
    }

    /// Returns the serial that the last request in flight gives the server's unnamed statement, if any changes it.
    pub fn last_unnamed(&self) -> Option<u64> {
        let effects = self.entries.iter().rev().filter_map(|entry| entry.unnamed);
        let mut effects = effects.filter(|effect| effect.of_server);
        effects.next().map(|effect| effect.serial)
    }

    /// Returns what the entry in front counts for, if it is the client's and counts.
    #[inline]
    pub(crate) fn counted_in_front(&mut self) -> Option<&mut Counted> {
        let front = self.entries.front_mut()?;
        (front.duty == Duty::Forward && front.counted.is_some()).then_some(&mut front.counted)
    }

    /// Returns the entry whose reply comes next.
    #[inline]
    pub fn front(&self) -> Option<&Expected> {
        self.entries.front()
    }

    /// Returns the kind of the request behind the front entry, if it is ours, and of the client's first one behind that.
    pub(crate) fn ours_behind_front(&self) -> Option<(Kind, Option<Kind>)> {
        let mut behind = self.entries.iter().skip(1);
        let first = behind.next().filter(|next| next.duty != Duty::Forward)?;
        let theirs = behind.find(|next| next.duty == Duty::Forward);
        Some((first.kind, theirs.map(|theirs| theirs.kind)))
    }

    /// Returns the statements of ours in the Query in front, if there are any.
    pub(crate) fn inserted(&self) -> Option<&Inserted> {
        self.entries.front()?.inserted.as_deref()
    }

    /// Records that a statement of the Query in front was completed with this tag, and marks replies to inserted
    /// statements to be dropped. Returns true if a run of inserted statements has just ended.
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

    /// Marks the error of the Query in front to be forwarded, even if a statement of ours failed.
    pub(crate) fn fail_inserted(&mut self) {
        if let Some(front) = self
            .entries
            .front_mut()
            .filter(|front| front.inserted.is_some())
        {
            front.duty = Duty::Forward;
        }
    }

    /// Removes the front entry, whose reply is complete.
    #[inline]
    pub fn pop(&mut self) -> Option<Expected> {
        self.begun = false;
        let entry = self.entries.pop_front()?;
        self.leaves(&entry);
        Some(entry)
    }

    /// Removes the front entry, whose reply is complete, if its end has no effect on anything else. False if it may have one.
    #[inline]
    pub fn pop_plain(&mut self) -> bool {
        let is_plain = self.entries.front().is_some_and(Expected::is_plain);
        if is_plain {
            self.begun = false;
            self.entries.pop_front();
        }
        is_plain
    }

    /// Removes entries that need no server from the front: ends of a COPY that is over, and answers of our own, which
    /// are returned one by one.
    #[inline]
    pub fn next_answer(&mut self) -> Option<Expected> {
        let front = self.entries.front()?;
        match front.duty == Duty::Answer || front.kind == Kind::CopyEnd {
            true => self.take_answer(),
            false => None,
        }
    }

    fn take_answer(&mut self) -> Option<Expected> {
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

    /// Handles an error while extended-protocol requests are in front: the server answers nothing up to the next Sync.
    /// Returns those entries, last first, which is the order in which to undo them.
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

    /// Handles CopyInResponse: the COPY consumes the Syncs that were sent ahead of the data (see [`Queue::expect`]).
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

    /// Handles CopyOutResponse or CopyBothResponse.
    pub fn start_copy(&mut self, state: CopyState) {
        self.copy = state;
    }

    /// Records that a part of the front entry's reply has arrived. Requests are answered in order, so with the first
    /// part, no earlier Sync can be answered any more.
    #[inline]
    pub fn begin_reply(&mut self) {
        if !self.begun {
            self.begun = true;
            self.stray = 0;
        }
    }

    /// Handles ReadyForQuery. Returns true if it answers a Sync that a COPY was thought to have consumed; that Sync is
    /// then settled.
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

    /// Handles CommandComplete: a COPY FROM STDIN has read everything up to the end of its data, including all Syncs in
    /// between.
    #[inline]
    pub fn complete_copy(&mut self) {
        if matches!(self.copy, CopyState::In { .. }) {
            self.stray = 0;
        }
        self.end_copy();
    }

    /// Handles the end of a COPY (CommandComplete or ErrorResponse): removes the mark of its end too.
    #[inline]
    pub fn end_copy(&mut self) {
        // A COPY TO STDOUT has no mark: a mark here belongs to a COPY FROM STDIN behind it in the same Query.
        let marked = matches!(std::mem::take(&mut self.copy), CopyState::In { .. })
            && (self.entries.get(1)).is_some_and(|next| next.kind == Kind::CopyEnd);
        if marked {
            self.entries.remove(1);
        }
    }

    /// Returns the COPY in progress.
    pub fn copy(&self) -> CopyState {
        self.copy
    }

    /// True if the server skips everything until a Sync that has not been sent yet.
    pub fn is_skipping(&self) -> bool {
        self.skipping
    }

    /// True if no reply is owed.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Number of owed replies.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if nothing is in flight: no reply owed, no COPY, no skipping.
    ///
    /// A Sync within COPY data owes a reply only if the server had stopped reading data when it arrived, which the next
    /// reply to another request shows. Until then the queue is not quiet: the reply might go to the next client.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        let owes_nothing = self.entries.is_empty() && self.stray == 0 && !self.lost;
        owes_nothing && self.copy == CopyState::None && !self.skipping
    }

    /// True if only the reply to one more request can show if a Sync that a COPY may have consumed is still to be
    /// answered.
    #[inline]
    pub fn is_in_doubt(&self) -> bool {
        let is_over = self.stray > 0 && self.entries.is_empty() && !self.lost;
        is_over && self.copy == CopyState::None && !self.skipping
    }

    /// True if it can no longer be known which requests will be answered. A client that waits for the end of its COPY
    /// never causes this.
    pub fn is_lost(&self) -> bool {
        self.lost
    }
}

#[cfg(test)]
mod tests;
