//! State of a session beyond one statement, and the effect of the end of a transaction or savepoint on it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_wire::backend::TransactionStatus::{Failed, Idle, InTransaction};

use super::database::Letter;
use super::guc::Values;
use super::resolved::Pending;
use super::sql::{Held, Lock, Notice, OnCommit, Setting};
use super::{Backend, Failure};

/// State that a rollback restores.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) values: Values,
    pub(super) tables: BTreeMap<String, Table>,
    /// Uncommitted change of the view `ann.spot` by this transaction.
    pub(super) view: Option<Pending>,
}

/// A temporary table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) owner: String,
    pub(super) rows: Vec<String>,
    pub(super) on_commit: OnCommit,
}

#[derive(Debug)]
struct Savepoint {
    name: String,
    state: Arc<State>,
    /// Lengths of the session's lists when the savepoint was set.
    intents: usize,
    letters: usize,
    ledger: usize,
    locks: usize,
}

/// Change that takes effect at commit.
#[derive(Debug, Clone)]
pub(super) enum Intent {
    Listen(String),
    /// `None` means all channels.
    Unlisten(Option<String>),
}

/// State of one session; see the module.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// Unique in the database.
    pub(super) number: u64,
    pub(super) state: Arc<State>,
    pub(super) committed: Arc<State>,
    savepoints: Vec<Savepoint>,
    pub(super) channels: BTreeSet<String>,
    pub(super) intents: Vec<Intent>,
    pub(super) letters: Vec<Letter>,
    /// Rows for `public.sink`.
    pub(super) ledger: Vec<String>,
    /// Advisory locks that end with the transaction.
    pub(super) locks: Vec<i64>,
    /// `currval` by sequence, and `lastval`.
    pub(super) sequences: BTreeMap<String, i64>,
    pub(super) last_sequence: Option<String>,
}

impl Session {
    pub(super) fn new(number: u64) -> Self {
        Self {
            number,
            ..Self::default()
        }
    }

    pub(super) fn change(&mut self) -> &mut State {
        Arc::make_mut(&mut self.state)
    }

    pub(super) fn depth(&self) -> usize {
        self.savepoints.len()
    }

    fn settle(&mut self) {
        if self.state.values.has_local() {
            self.change().values.end_local();
        }
        let is_short = |table: &Table| table.on_commit != OnCommit::PreserveRows;
        if self.state.tables.values().any(is_short) {
            let tables = &mut self.change().tables;
            tables.retain(|_, table| table.on_commit != OnCommit::Drop);
            let emptied = tables.values_mut().filter(|table| is_short(table));
            emptied.for_each(|table| table.rows.clear());
        }
    }
}

impl Backend {
    // --- transactions ---

    /// Ends the transaction, by commit or by rollback.
    pub(super) fn end_session_transaction(&mut self, commits: bool) {
        if commits {
            self.commit_at_site();
        }
        let session = &mut self.session;
        session.savepoints.clear();
        let mut shared = self.database.shared();
        for key in session.locks.drain(..) {
            shared.unlock_transaction(key);
        }
        shared.unlock_view(session.number);
        if !commits {
            session.state = Arc::clone(&session.committed);
            session.intents.clear();
            session.letters.clear();
            session.ledger.clear();
            return;
        }
        if let Some(pending) = session.state.view {
            session.change().view = None;
            shared.commit_view(pending);
        }
        session.settle();
        session.committed = Arc::clone(&session.state);
        let changes = !session.intents.is_empty();
        for intent in session.intents.drain(..) {
            match intent {
                Intent::Listen(channel) => drop(session.channels.insert(channel)),
                Intent::Unlisten(Some(channel)) => drop(session.channels.remove(&channel)),
                Intent::Unlisten(None) => session.channels.clear(),
            }
        }
        if changes {
            shared
                .listeners
                .insert(session.number, session.channels.clone());
        }
        for letter in session.letters.drain(..) {
            shared.notify(&letter);
        }
        shared.ledger.append(&mut session.ledger);
    }

    fn no_block(&self, what: &str) -> Result<(), Failure> {
        if self.status == Idle {
            let text = format!("{what} can only be used in transaction blocks");
            return Err(Failure::new("25P01", text));
        }
        Ok(())
    }

    fn savepoint_at(&self, name: &str) -> Result<usize, Failure> {
        let found = self
            .session
            .savepoints
            .iter()
            .rposition(|at| at.name == name);
        found.ok_or_else(|| Failure::new("3B001", format!("savepoint \"{name}\" does not exist")))
    }

    pub(super) fn savepoint(&mut self, name: &str) -> Result<(), Failure> {
        self.no_block("SAVEPOINT")?;
        let session = &mut self.session;
        session.savepoints.push(Savepoint {
            name: name.to_owned(),
            state: Arc::clone(&session.state),
            intents: session.intents.len(),
            letters: session.letters.len(),
            ledger: session.ledger.len(),
            locks: session.locks.len(),
        });
        self.complete("SAVEPOINT");
        Ok(())
    }

    pub(super) fn release(&mut self, name: &str) -> Result<(), Failure> {
        self.no_block("RELEASE SAVEPOINT")?;
        let at = self.savepoint_at(name)?;
        self.session.savepoints.truncate(at);
        for portal in self.portals.values_mut() {
            portal.depth = portal.depth.min(at);
        }
        self.complete("RELEASE");
        Ok(())
    }

    pub(super) fn rollback_to(&mut self, name: &str) -> Result<(), Failure> {
        self.no_block("ROLLBACK TO SAVEPOINT")?;
        let at = self.savepoint_at(name)?;
        self.session.savepoints.truncate(at + 1);
        self.abort_innermost();
        self.portals.retain(|_, portal| portal.depth <= at);
        self.status = InTransaction;
        self.complete("ROLLBACK");
        Ok(())
    }

    /// Undoes the changes since the last savepoint, or since the beginning of the transaction.
    pub(super) fn abort_innermost(&mut self) {
        let session = &mut self.session;
        let (state, intents, letters, ledger, locks) = match session.savepoints.last() {
            Some(back) => (
                &back.state,
                back.intents,
                back.letters,
                back.ledger,
                back.locks,
            ),
            None => (&session.committed, 0, 0, 0, 0),
        };
        session.state = Arc::clone(state);
        session.intents.truncate(intents);
        session.letters.truncate(letters);
        session.ledger.truncate(ledger);
        let mut shared = self.database.shared();
        for key in session.locks.drain(locks..) {
            shared.unlock_transaction(key);
        }
    }

    // --- settings ---

    pub(super) fn set(&mut self, setting: &Setting) -> Result<(), Failure> {
        let name = setting.name.as_str();
        if setting.local && self.status == Idle && !self.in_implicit_block {
            // The value holds to the end of the implicit transaction, which a BEGIN in the same pipeline extends.
            let text = "SET LOCAL can only be used in transaction blocks";
            self.notice(Notice::Warning, "25P01", text);
        }
        let value = match &setting.value {
            _ if setting.any => setting.value.clone(),
            Some(value) => Some(self.acceptable(name, value)?),
            None => {
                self.defaults.check(name)?;
                None
            }
        };
        self.session.change().values.set(name, value, setting.local);
        Ok(())
    }

    pub(super) fn acceptable(&mut self, name: &str, value: &str) -> Result<String, Failure> {
        let values = &self.session.state.values;
        self.defaults.may_become(values, name, value)?;
        if self.database.shared().forbidden.contains(value) {
            return Err(super::guc::forbidden(name, value));
        }
        self.defaults.accept(name, value)
    }

    pub(super) fn show(&self, name: &str) -> Result<String, Failure> {
        let values = &self.session.state.values;
        if name.eq_ignore_ascii_case("in_hot_standby") && self.is_on_standby() {
            return Ok("on".to_owned());
        }
        self.defaults
            .show(values, name)
            .ok_or_else(|| super::guc::unrecognized(name))
    }

    // --- advisory locks ---

    /// Runs a function of advisory locks and returns its result.
    pub(super) fn advisory(&mut self, lock: Lock, key: i64) -> Result<&'static str, Failure> {
        let number = self.session.number;
        let mut shared = self.database.shared();
        match lock {
            Lock::Try => {
                let taken = shared.lock(key, number, false);
                return Ok(if taken { "t" } else { "f" });
            }
            Lock::Take | Lock::Transaction => {
                let for_transaction = lock == Lock::Transaction;
                if !shared.lock(key, number, for_transaction) {
                    // The model cannot wait; sessions that use separate keys never have to.
                    return Err(Failure::new("55P03", "somebody else holds this lock"));
                }
                if for_transaction {
                    self.session.locks.push(key);
                }
            }
            Lock::Unlock => {
                if shared.unlock(key, number) {
                    return Ok("t");
                }
                drop(shared);
                let text = "you don't own a lock of type ExclusiveLock";
                self.notice(Notice::Warning, "01000", text);
                return Ok("f");
            }
            Lock::UnlockAll => shared.unlock_all(number),
        }
        Ok("")
    }

    // --- held objects ---

    pub(super) fn holds(&self, what: Held) -> bool {
        match what {
            Held::Channels => !self.session.channels.is_empty(),
            Held::Cursors => self.portals.values().any(|portal| portal.hold),
            Held::Locks => {
                let shared = self.database.shared();
                shared.locks_of(self.session.number).next().is_some()
            }
            Held::Prepared => self.statements.values().any(|known| known.from_sql),
            Held::Temporary => !self.session.state.tables.is_empty(),
        }
    }

    /// True if the session holds nothing that another client could see, apart from settings, statements prepared
    /// by the protocol, and values of sequences.
    pub fn holds_nothing(&self) -> bool {
        !self.holds(Held::Channels) && self.keeps_no_server()
    }

    /// True if the session holds nothing for which a pooler must keep its server; a pooler may listen elsewhere.
    pub fn keeps_no_server(&self) -> bool {
        let all = [Held::Cursors, Held::Locks, Held::Prepared, Held::Temporary];
        all.into_iter().all(|what| !self.holds(what))
    }

    /// State that a client could see of its session, one item per line, without what only Weir knows.
    pub fn visible_state(&self) -> Vec<String> {
        let values = self.defaults.visible(&self.session.state.values);
        let mut lines: Vec<_> = values
            .into_iter()
            .map(|(name, value)| format!("{name} = {value}"))
            .collect();
        for (name, table) in &self.session.state.tables {
            lines.push(format!("table {name}: {}", table.rows.join(" ")));
        }
        let shared = self.database.shared();
        lines.extend(
            shared
                .locks_of(self.session.number)
                .map(|key| format!("lock {key}")),
        );
        lines.extend(
            self.session
                .channels
                .iter()
                .map(|name| format!("channel {name}")),
        );
        let held = self.portals.iter().filter(|(_, portal)| portal.hold);
        lines.extend(held.map(|(name, _)| format!("cursor {}", String::from_utf8_lossy(name))));
        lines
    }

    /// True if the transaction has failed.
    pub(super) fn is_failed(&self) -> bool {
        self.status == Failed
    }
}
