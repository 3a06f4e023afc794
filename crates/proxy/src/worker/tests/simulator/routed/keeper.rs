//! Client that inserts rows of its own and reads all rows back. Judges each answer when it comes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weir_testkit::cluster::{Cluster, Deed};
use weir_testkit::cuts::Dice;
use weir_testkit::reading::{Message, messages, outline};
use weir_wire::backend::tag;

use super::super::super::world::World;
use super::Ledger;
use super::item::{Form, Item, Request};
use super::plan::Consistency;
use crate::driver::memory::End;

mod speech;

/// Factor between client numbers: more than a client has lives.
const LIVES_MAX: usize = 1000;
/// Beginnings of the codes of errors that no fault of a host explains.
const UNEXPLAINED: [&str; 7] = ["0A", "22", "25", "26", "34", "42", "55"];

/// Transaction, or block, under way.
#[derive(Debug, Default)]
struct Transaction {
    /// Rows that it has inserted.
    rows: Vec<String>,
    /// Those of them whose commit Weir knows.
    marked: Vec<String>,
    /// Process of the server that ran its statements.
    process: Option<u32>,
    is_read_only: bool,
}

/// State of a session's transaction, as ReadyForQuery tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Failed,
    Idle,
    Open,
}

/// Progress of the last request, after all faults.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Last {
    Unsent,
    /// This row was inserted.
    Sent(String),
    Done,
}

/// See the module's page.
#[derive(Debug)]
pub(super) struct Keeper {
    who: usize,
    life: usize,
    caller: Option<usize>,
    is_greeted: bool,
    /// Number of bytes that were judged.
    judged: usize,
    /// Consistency that the session demands, and the one that the database has.
    level: Consistency,
    default_level: Consistency,
    /// True if the function that inserts is declared to read: nobody knows then that it commits.
    declares_reads: bool,
    wants_replica: bool,
    /// True if the last requests had a SET.
    has_set: bool,
    is_prepared: bool,
    status: Status,
    transaction: Transaction,
    /// Number of the next statement.
    serial: usize,
    pending: VecDeque<Request>,
    /// Place in the first pending request, and the rows of the statement there.
    at: usize,
    shown: Vec<String>,
    has_failed: bool,
    /// True if a part of the first pending request's answer has come.
    has_begun: bool,
    /// Own rows whose commit was acknowledged.
    acked: BTreeSet<String>,
    /// Rows of all clients that were committed when the transaction began.
    base: Ledger,
    /// Hosts that took writes at some time since the transaction began.
    primaries: BTreeSet<usize>,
    /// True if one of these hosts was in recovery, so that it may refuse a write.
    may_be_refused: bool,
    /// Server that ran each statement last.
    ran: BTreeMap<String, u32>,
    last: Last,
}

impl Keeper {
    /// Makes a client. `declares_reads` is true if the function that inserts is declared to read.
    pub(super) fn new(who: usize, consistency: Consistency, declares_reads: bool) -> Self {
        Self::reborn(who, 0, consistency, declares_reads)
    }

    fn reborn(who: usize, life: usize, consistency: Consistency, declares_reads: bool) -> Self {
        Self {
            who,
            life,
            caller: None,
            is_greeted: false,
            judged: 0,
            level: consistency,
            default_level: consistency,
            declares_reads,
            wants_replica: false,
            has_set: false,
            is_prepared: false,
            status: Status::Idle,
            transaction: Transaction::default(),
            serial: 0,
            pending: VecDeque::new(),
            at: 0,
            shown: Vec::new(),
            has_failed: false,
            has_begun: false,
            acked: BTreeSet::new(),
            base: Ledger::new(),
            primaries: BTreeSet::new(),
            may_be_refused: false,
            ran: BTreeMap::new(),
            last: Last::Unsent,
        }
    }

    fn next_life(&mut self) {
        *self = Self::reborn(
            self.who,
            self.life + 1,
            self.default_level,
            self.declares_reads,
        );
    }

    /// Beginning of the client's texts.
    fn prefix(&self) -> String {
        format!("c{}-", self.who * LIVES_MAX + self.life)
    }

    pub(super) fn is_done(&self) -> bool {
        self.last == Last::Done
    }

    /// True if the statement is this client's.
    pub(super) fn is_of(&self, deed: &Deed) -> bool {
        deed.tag.starts_with(&self.prefix())
    }

    // --- what it does ---

    /// Connects, sends the next requests, or waits for answers. Returns a description of the act.
    pub(super) fn act(
        &mut self,
        world: &mut World,
        primary: Option<usize>,
        acked: &Ledger,
        dice: &mut Dice,
    ) -> Option<String> {
        let caller = self.ready(world)?;
        let step = self.next_step(dice);
        Some(self.send(world, caller, primary, acked, step))
    }

    /// Ends the transaction, then inserts a row and reads it back, until that succeeds.
    pub(super) fn finish(&mut self, world: &mut World, primary: Option<usize>, acked: &Ledger) {
        if self.last == Last::Done {
            return;
        }
        let Some(caller) = self.ready(world) else {
            return;
        };
        let step = match self.status {
            Status::Idle => {
                let row = self.tag();
                self.last = Last::Sent(row.clone());
                let tag = self.tag();
                // A replica would refuse the row.
                let anywhere = Item::Set("weir.role", "auto");
                let last = [anywhere, Item::Insert(row), Item::Read(tag)];
                last.map(simple).to_vec()
            }
            Status::Failed | Status::Open => vec![simple(Item::Rollback)],
        };
        self.send(world, caller, primary, acked, step);
    }

    /// Connects if necessary. Returns the connection if the client may send.
    fn ready(&mut self, world: &mut World) -> Option<usize> {
        let Some(caller) = self.caller else {
            self.caller = Some(world.dial("ann", &[]));
            return None;
        };
        if world.callers[caller].is_closed() {
            self.next_life();
            return None;
        }
        (self.is_greeted && self.pending.is_empty()).then_some(caller)
    }

    fn send(
        &mut self,
        world: &mut World,
        caller: usize,
        primary: Option<usize>,
        acked: &Ledger,
        step: Vec<Request>,
    ) -> String {
        if self.status == Status::Idle {
            self.base = match self.level {
                Consistency::Global => acked.clone(),
                Consistency::Eventual | Consistency::Session => Ledger::new(),
            };
            // A server stays with its client until it was asked about a SET, and the next transaction runs there.
            if !self.has_set {
                self.primaries.clear();
            }
            self.primaries.extend(primary);
            self.may_be_refused = false;
        }
        let sets = |item: &Item| matches!(item, Item::Set(..));
        self.has_set = step.iter().any(|request| request.items.iter().any(sets));
        let told: Vec<_> = step.iter().map(Request::told).collect();
        for request in &step {
            world.callers[caller].say(&request.bytes());
        }
        self.pending.extend(step);
        told.join(" | ")
    }

    /// Disconnects without a Terminate.
    pub(super) fn vanish(&mut self, world: &mut World, dice: &mut Dice) {
        if let Some(caller) = self.caller {
            world.callers[caller].leave(*dice.pick(&[End::Orderly, End::Reset]));
            self.next_life();
        }
    }

    // --- what happens to it ---

    /// Notes the host that takes writes now.
    pub(super) fn note_primary(&mut self, primary: Option<usize>, cluster: &Cluster) {
        self.primaries.extend(primary);
        let mut known = self.primaries.iter();
        self.may_be_refused |= known.any(|host| cluster.is_standby(*host));
    }

    /// Notes that a host has executed a statement of the client.
    pub(super) fn saw(&mut self, deed: Deed) {
        // A batch may have been judged by its beginning, before the rest had come.
        let judged = self.pending.iter().flat_map(|request| {
            let count = match request.form {
                Form::Unnamed => 1,
                Form::Named { .. } | Form::Simple => request.items.len(),
            };
            request.items.iter().take(count)
        });
        let mut items = judged;
        // A statement may run after the client was told that it has failed.
        let is_awaited = items.any(|item| item.tag() == Some(&deed.tag) && !self.is_declared(item));
        if deed.writes && is_awaited && !self.wants_replica {
            let knows = self.primaries.contains(&deed.host);
            assert!(
                knows,
                "R-01: {deed:?} while {:?} took writes",
                self.primaries
            );
        }
        self.ran.insert(deed.tag, deed.process);
    }

    /// True for a statement that writes, and that Weir is told to read.
    fn is_declared(&self, item: &Item) -> bool {
        self.declares_reads && matches!(item, Item::Note(_))
    }

    /// Judges what has arrived since the last call.
    pub(super) fn check(&mut self, world: &World, cluster: &Cluster, acked: &mut Ledger) {
        let Some(caller) = self.caller.map(|caller| &world.callers[caller]) else {
            return;
        };
        let (found, _) = messages(&caller.got[self.judged..]);
        for message in found {
            self.judged += message.raw.len();
            if self.is_greeted {
                self.judge(message, cluster, acked);
            } else {
                self.is_greeted = message.tag == tag::READY_FOR_QUERY;
            }
        }
    }

    fn judge(&mut self, message: Message<'_>, cluster: &Cluster, acked: &mut Ledger) {
        let is_beginning = ![tag::ERROR_RESPONSE, tag::READY_FOR_QUERY].contains(&message.tag);
        self.has_begun |= is_beginning;
        match message.tag {
            tag::DATA_ROW => {
                let text = message.body.get(6..).unwrap_or_default();
                self.shown.push(String::from_utf8_lossy(text).into_owned());
            }
            tag::COMMAND_COMPLETE => self.completed(message, cluster),
            tag::ERROR_RESPONSE => self.erred(&outline(message.raw)),
            tag::READY_FOR_QUERY => {
                let status = match message.body {
                    b"I" => Status::Idle,
                    b"T" => Status::Open,
                    _ => Status::Failed,
                };
                self.answered(status, cluster, acked);
            }
            _ => {}
        }
    }

    /// Judges a statement that has succeeded.
    fn completed(&mut self, message: Message<'_>, cluster: &Cluster) {
        let request = self.pending.front();
        let item = request.and_then(|request| request.items.get(self.at));
        let item = item.unwrap_or_else(|| panic!("I-03: nobody asked: {}", outline(message.raw)));
        let item = item.clone();
        self.at += 1;
        let rows = std::mem::take(&mut self.shown);
        self.stays_on_its_server(&item);
        match &item {
            Item::Begin(is_read_only) => self.transaction.is_read_only = *is_read_only,
            Item::Insert(row) | Item::Note(row) => {
                // On a host that was promoted, a session with this role may write: Weir does not look.
                let is_known = !self.is_declared(&item) && !self.wants_replica;
                self.transaction.rows.push(row.clone());
                self.transaction
                    .marked
                    .extend(is_known.then(|| row.clone()));
            }
            Item::Read(_) => self.reads(&item, &rows, cluster),
            Item::Set("weir.read_consistency", word) => {
                let all = [
                    Consistency::Eventual,
                    Consistency::Global,
                    Consistency::Session,
                ];
                let found = all.into_iter().find(|level| level.word() == *word);
                self.level = found.unwrap_or(self.default_level);
            }
            Item::Set("weir.role", word) => self.wants_replica = *word == "replica",
            Item::Rollback => self.transaction = Transaction::default(),
            Item::Commit if message.body.starts_with(b"ROLLBACK") => {
                self.transaction = Transaction::default();
            }
            _ => {}
        }
    }

    /// Checks that the statements of a transaction run on one server.
    fn stays_on_its_server(&mut self, item: &Item) {
        let process = item.tag().and_then(|tag| self.ran.get(tag)).copied();
        let before = self.transaction.process;
        if let (Some(process), Some(before)) = (process, before) {
            assert_eq!(
                process, before,
                "R-03: {item:?} ran on another server than the transaction before"
            );
        }
        self.transaction.process = process.or(before);
    }

    /// Checks the rows of a read.
    fn reads(&self, item: &Item, rows: &[String], cluster: &Cluster) {
        let shown: BTreeSet<&String> = rows.iter().collect();
        // A function that is declared to read is repeated, also if its replica was promoted and ran it.
        let is_repeated = self.declares_reads;
        assert!(
            is_repeated || shown.len() == rows.len(),
            "R-04: {item:?} shows {rows:?}"
        );
        let own = match self.level {
            Consistency::Eventual => None,
            Consistency::Global | Consistency::Session => Some(&self.acked),
        };
        let committed = own.into_iter().flatten().chain(&self.base);
        let demanded = committed.filter(|row| !cluster.is_lost(row));
        for row in demanded.chain(&self.transaction.rows) {
            assert!(
                shown.contains(row),
                "R-02: {item:?} of {:?} does not show {row}, but {rows:?}",
                self.level
            );
        }
    }

    fn erred(&mut self, line: &str) {
        self.has_failed = true;
        self.shown.clear();
        let request = self.pending.front();
        let Some(request) = request.filter(|_| !line.contains("FATAL")) else {
            return;
        };
        let code = line.trim_start_matches("E(");
        let is_in_order = match code.get(..5).unwrap_or_default() {
            "25P02" => self.status == Status::Failed || self.at > 0,
            "25006" => {
                let item = request.items.get(self.at);
                let writes = item.is_some_and(Item::writes);
                // A batch of which the client has a part runs nowhere else.
                let is_late = self.has_begun && item.is_some_and(|item| self.is_declared(item));
                // A batch may have been judged by its beginning, before the rest had come.
                let is_behind = request.form == Form::Unnamed && self.at > 0;
                let is_late = is_late || is_behind;
                let is_told = self.transaction.is_read_only || self.wants_replica || is_late;
                assert!(
                    is_told || self.may_be_refused,
                    "R-01: a replica refused {}: {line}",
                    request.told()
                );
                writes
            }
            code => !UNEXPLAINED.contains(&&code[..2]),
        };
        assert!(is_in_order, "R-05: {line} for {}", request.told());
    }

    /// Ends a request: the transaction may have ended with it.
    fn answered(&mut self, status: Status, cluster: &Cluster, acked: &mut Ledger) {
        let request = self.pending.pop_front();
        let request = request.unwrap_or_else(|| panic!("I-03: nobody asked"));
        let has_failed = std::mem::take(&mut self.has_failed);
        let all = self.at == request.items.len();
        assert!(all || has_failed, "I-02: no end of {}", request.told());
        self.is_prepared |= matches!(request.form, Form::Named { .. }) && !has_failed;
        (self.at, self.has_begun) = (0, false);
        self.status = status;
        if status != Status::Idle {
            return;
        }
        let ended = std::mem::take(&mut self.transaction);
        if !has_failed {
            acked.extend(ended.marked.iter().cloned());
            self.acked.extend(ended.marked);
        } else {
            // The commit may have happened before the server was lost: reads of the session show it from now on.
            let items = request.items.iter().filter(|item| !self.is_declared(item));
            let rows = items.filter_map(Item::row).cloned();
            let rows = rows.chain(ended.marked).filter(|row| cluster.has(row));
            let rows: Vec<_> = rows.collect();
            self.acked.extend(rows);
        }
        self.ends_well(&request, has_failed);
    }

    /// Notes the success of the last requests.
    fn ends_well(&mut self, request: &Request, has_failed: bool) {
        let Last::Sent(row) = &self.last else {
            return;
        };
        let reads = matches!(request.items[..], [Item::Read(_)]);
        if has_failed {
            self.last = Last::Unsent;
        } else if reads && self.acked.contains(row) {
            self.last = Last::Done;
        }
    }
}

fn simple(item: Item) -> Request {
    Request {
        items: vec![item],
        form: Form::Simple,
    }
}
