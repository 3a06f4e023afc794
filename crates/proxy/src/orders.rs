//! What an administrator orders: the words for it, and what all workers have to know of it.
//!
//! An order is decided here, in one place; the workers then carry it out on what is theirs (`worker/orders.rs`).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_config::FALLBACK;
use weir_stats::Halts;
use weir_wire::sqlstate::SqlState;

use crate::console::DATABASES;
use crate::global::{Global, GlobalPool, lock};
use crate::mailbox::{Mailbox, Message};

/// An order. `None` in place of a database stands for all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Let no new clients into this database.
    Disable(String),
    /// Take a `Disable` back.
    Enable(String),
    /// End all clients and servers at once, and pause.
    Kill(Option<String>),
    /// End this client.
    KillClient(u64),
    /// Assign no more servers; done when none is in use.
    Pause(Option<String>),
    /// Use no server of now again: each is closed when it is released.
    Reconnect(Option<String>),
    /// Read the configuration again.
    Reload,
    /// Take a `Pause`, `Kill` or `Suspend` back.
    Resume(Option<String>),
    /// Give an option another value until the next reload.
    Set {
        /// The option's name as it was typed.
        key: String,
        /// Its value.
        value: String,
    },
    /// Send what is to be sent, and move nothing more until `Resume`.
    Suspend,
    /// Done when no server is left that a `Reconnect` or a reload wants closed.
    WaitClose(Option<String>),
}

/// Why an order is not carried out; `Display` is PgBouncer's text where it has one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The console is no database to do this with: what was to be done, and its name.
    #[error("cannot {0} admin db: {1}")]
    AdminDatabase(&'static str, String),
    /// Everything is paused or suspended.
    #[error("already suspended/paused")]
    AlreadyPaused,
    /// Whoever waited for it has cancelled it.
    #[error("canceling statement due to user request")]
    Cancelled,
    /// No client has this number.
    #[error("client not found")]
    ClientNotFound,
    /// There is no such database.
    #[error("no such database: {0}")]
    NoDatabase(String),
    /// This database is not paused.
    #[error("database {0} is not paused")]
    NotPaused(String),
    /// The engine has as many commands waiting as it takes.
    #[error("too many commands are waiting")]
    Busy,
    /// Nothing is paused or suspended.
    #[error("pooler is not paused/suspended")]
    NothingPaused,
    /// SUSPEND while a database is paused by itself.
    #[error("cannot suspend with paused databases")]
    PausedDatabases,
    /// The configuration has a mistake, which the log tells.
    #[error("RELOAD failed, see logs for additional details")]
    ReloadFailed,
    /// Somebody else resumed what this order paused.
    #[error("resumed before everything was paused")]
    Resumed,
    /// The option cannot get this value; why.
    #[error("SET failed: {0}")]
    SetFailed(String),
    /// It is too late.
    #[error("pooler is shutting down")]
    ShuttingDown,
}

impl Refusal {
    /// Its SQLSTATE: PgBouncer's, but for the two that every PostgreSQL client knows.
    #[must_use]
    pub fn code(&self) -> SqlState {
        match self {
            Self::Cancelled => SqlState::QUERY_CANCELED,
            Self::ReloadFailed => SqlState::CONFIG_FILE_ERROR,
            _ => SqlState::PROTOCOL_VIOLATION,
        }
    }
}

/// Tells the console that a command was carried out, or not. One that is dropped says that the pooler is going down.
#[derive(Debug)]
pub struct Receipt {
    mailbox: Option<Mailbox>,
    question: u64,
}

impl Receipt {
    pub(crate) fn new(mailbox: Option<Mailbox>, question: u64) -> Self {
        Self { mailbox, question }
    }

    /// How it went.
    pub fn done(mut self, outcome: Result<(), Refusal>) {
        self.send(outcome);
    }

    fn send(&mut self, outcome: Result<(), Refusal>) {
        if let Some(mailbox) = self.mailbox.take() {
            let question = self.question;
            // A worker that takes no letters any more has no console either.
            drop(mailbox.send(Message::Performed { question, outcome }));
        }
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        self.send(Err(Refusal::ShuttingDown));
    }
}

/// What every worker does once an order was decided. `None` in place of a database stands for all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Task {
    /// End the clients and servers of a database.
    Kill(Option<Arc<str>>),
    /// End this client, if it is there.
    KillClient(u64),
    /// Use no server of now again.
    Recycle(Option<Arc<str>>),
    /// Look which pools are paused and whether everything is suspended.
    Settle,
}

/// The workers of a suspended pooler that have nothing left to send.
pub(crate) const FLUSHED: usize = 0;
/// And those that have not looked yet.
pub(crate) const NOT_LOOKED: usize = usize::MAX;

impl Global {
    /// `PAUSE`, and the first half of `KILL` (`verb`).
    pub(crate) fn pause(&self, database: Option<&str>, verb: &'static str) -> Result<(), Refusal> {
        let known = database.map(|name| self.known_database(name, verb));
        let mut halts = lock(&self.halts);
        match known.transpose()? {
            Some(name) => drop(halts.paused.insert(name)),
            None if halts.all || halts.suspended => return Err(Refusal::AlreadyPaused),
            None if self.is_stopping() => return Err(Refusal::ShuttingDown),
            None => halts.all = true,
        }
        self.apply(&halts);
        Ok(())
    }

    /// `SUSPEND`.
    pub(crate) fn suspend(&self) -> Result<(), Refusal> {
        let mut halts = lock(&self.halts);
        if halts.all || halts.suspended {
            return Err(Refusal::AlreadyPaused);
        }
        if self.is_stopping() {
            return Err(Refusal::ShuttingDown);
        }
        if !halts.paused.is_empty() {
            return Err(Refusal::PausedDatabases);
        }
        halts.suspended = true;
        for unsent in &self.unsent {
            unsent.store(NOT_LOOKED, Ordering::SeqCst);
        }
        self.is_suspended.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// `RESUME`. As in PgBouncer the two kinds of pause do not take each other back.
    pub(crate) fn resume(&self, database: Option<&str>) -> Result<(), Refusal> {
        let mut halts = lock(&self.halts);
        match database {
            Some(name) if !halts.paused.remove(name) => {
                drop(halts);
                self.known_database(name, "resume")?;
                return Err(Refusal::NotPaused(name.to_owned()));
            }
            Some(_) => {}
            None if !halts.all && !halts.suspended => return Err(Refusal::NothingPaused),
            None => {
                (halts.all, halts.suspended) = (false, false);
                self.is_suspended.store(false, Ordering::SeqCst);
            }
        }
        self.apply(&halts);
        Ok(())
    }

    /// `DISABLE` and `ENABLE`.
    pub(crate) fn set_disabled(&self, database: &str, is_disabled: bool) -> Result<(), Refusal> {
        let verb = if is_disabled { "disable" } else { "enable" };
        let name = self.known_database(database, verb)?;
        let mut halts = lock(&self.halts);
        if is_disabled {
            halts.disabled.insert(name);
        } else {
            halts.disabled.remove(&name);
        }
        Ok(())
    }

    /// Whether a `PAUSE` is complete: no server is connected.
    pub(crate) fn is_quiet(&self, database: Option<&str>) -> bool {
        let pools = self.pools_of(database);
        pools.iter().all(|pool| pool.shared.connected() == 0)
    }

    /// Whether a `SUSPEND` is complete: nothing is left to be sent.
    pub(crate) fn is_flushed(&self) -> bool {
        let mut unsent = self.unsent.iter();
        unsent.all(|unsent| unsent.load(Ordering::SeqCst) == FLUSHED)
    }

    /// Whether a server is left that has to be closed.
    pub(crate) fn has_obsolete(&self, database: Option<&str>) -> bool {
        let pools = self.pools_of(database);
        pools.iter().any(|pool| pool.shared.has_obsolete())
    }

    /// Whether what a `PAUSE` of this has done still stands.
    pub(crate) fn is_paused(&self, database: Option<&str>) -> bool {
        let halts = lock(&self.halts);
        database.map_or(halts.all, |name| halts.paused.contains(name))
    }

    pub(crate) fn is_disabled(&self, database: &str) -> bool {
        lock(&self.halts).disabled.contains(database)
    }

    pub(crate) fn halts(&self) -> Halts {
        lock(&self.halts).clone()
    }

    /// The name, if it is a database of ours. `*` may answer for one that nobody has used yet.
    pub(crate) fn known_database(&self, name: &str, verb: &'static str) -> Result<String, Refusal> {
        if DATABASES.contains(&name) {
            return Err(Refusal::AdminDatabase(verb, name.to_owned()));
        }
        let settled = self.settled();
        let databases = &settled.settings.databases;
        if databases.contains_key(name) || databases.contains_key(FALLBACK) {
            return Ok(name.to_owned());
        }
        Err(Refusal::NoDatabase(name.to_owned()))
    }

    fn pools_of(&self, database: Option<&str>) -> Vec<Arc<GlobalPool>> {
        let mut pools = self.all_pools();
        pools.retain(|pool| database.is_none_or(|name| *pool.database == *name));
        pools
    }

    fn apply(&self, halts: &Halts) {
        for pool in self.all_pools() {
            pool.shared.set_paused(is_paused(halts, &pool.database));
        }
    }

    fn is_stopping(&self) -> bool {
        self.is_draining.load(Ordering::SeqCst)
    }
}

/// Whether a pool of this database is paused.
pub(crate) fn is_paused(halts: &Halts, database: &str) -> bool {
    halts.all || halts.paused.contains(database)
}

/// A name for the log: a database, or everything.
pub(crate) fn scope(database: Option<&str>) -> String {
    database.map_or_else(String::new, |name| format!(" '{name}'"))
}
