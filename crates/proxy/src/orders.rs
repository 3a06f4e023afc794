//! Orders of an administrator: their types, and the state that all workers see.
//!
//! An order is decided here, in one place; each worker then carries it out on its own clients and servers
//! (`worker/orders.rs`).

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use crossbeam_channel::{Receiver, Sender, bounded};
use serde::{Deserialize, Serialize};
use weir_config::{FALLBACK, QueryRule};
use weir_stats::{Halts, PausedWrites};
use weir_watch::Snapshot;
use weir_wire::sqlstate::SqlState;

use crate::console::DATABASES;
use crate::global::{Global, GlobalPool, cluster_name, lock};
use crate::handover::LinkMessage;
use crate::mailbox::{Mailbox, Message};
use crate::neighbours::Side;

mod standing;

/// Order of an administrator. `None` in place of a database stands for all databases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Refuse new clients of this database.
    Disable(String),
    /// Take a `Disable` back.
    Enable(String),
    /// End all clients and servers at once, and pause.
    Kill(Option<String>),
    /// End this client.
    KillClient(u64),
    /// Assign no more servers; complete when none is in use.
    Pause(Option<String>),
    /// Probe all hosts of the database at once, because this host is said to be the primary.
    Primary {
        /// Entry of `[databases]`.
        database: String,
        /// Name of the host, as `SHOW HOSTS` shows it.
        host: String,
    },
    /// Assign no more servers of the host that takes the writes of this database; complete when none of them is in use.
    /// Ends when another host takes them, or the same one on a higher timeline.
    PauseWrites(String),
    /// Reuse no server connected until now: each is closed when it is released.
    Reconnect(Option<String>),
    /// Read the configuration again.
    Reload,
    /// Forget the figures of all statements.
    ResetDigests,
    /// Change the query rules.
    Rule(RuleOrder),
    /// Take a `Pause`, `Kill` or `Suspend` back.
    Resume(Option<String>),
    /// Change an option until the next reload.
    Set {
        /// The option's name as it was typed.
        key: String,
        /// New value of the option.
        value: String,
    },
    /// Send what is buffered, then move nothing until `Resume`.
    Suspend,
    /// Wait until no server is left that a `Reconnect` or a reload wants closed.
    WaitClose(Option<String>),
}

/// Change of the query rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RuleOrder {
    /// Add a rule in front of the others, for this many seconds if given.
    Add {
        /// The rule.
        #[serde(with = "standing::rule_as_text")]
        rule: Box<QueryRule>,
        /// Time after which the rule ends.
        seconds: Option<i64>,
    },
    /// Remove a rule until the process ends, also if the configuration has it.
    Drop(String),
    /// Let a rule only count (true), or put it in force (false).
    Dry(String, bool),
}

/// Reason for which an order is refused; `Display` is PgBouncer's text where it has one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The order does not apply to the console database. Contains the verb, and the name of the database.
    #[error("cannot {0} admin db: {1}")]
    AdminDatabase(&'static str, String),
    /// Everything is paused or suspended.
    #[error("already suspended/paused")]
    AlreadyPaused,
    /// The client that waited for the order has cancelled it.
    #[error("canceling statement due to user request")]
    Cancelled,
    /// No client has this number.
    #[error("client not found")]
    ClientNotFound,
    /// The question names no database, and not exactly one has several hosts.
    #[error("name a database that has replicas: FOR database[/user]")]
    DatabaseNeeded,
    /// No query rule has this name.
    #[error("no such rule: {0}")]
    NoRule(String),
    /// A query rule of this name exists.
    #[error("there is a rule {0} already; drop it first: RULE DROP {0}")]
    RuleExists(String),
    /// The new rule would end at once.
    #[error("rule {0} expires in the past")]
    RuleExpired(String),
    /// The console has added as many rules as it may.
    #[error("the console has added {0} rules; drop some, or put them into the file")]
    TooManyRules(usize),
    /// There is no such database.
    #[error("no such database: {0}")]
    NoDatabase(String),
    /// The database has no host of this name.
    #[error("database {database} has no host {host}; its hosts are {hosts}")]
    NoHost {
        /// Name of the database.
        database: String,
        /// Name that was given.
        host: String,
        /// Names of the hosts, with commas between them.
        hosts: String,
    },
    /// This database is not paused.
    #[error("database {0} is not paused")]
    NotPaused(String),
    /// No host takes the writes of this database now.
    #[error("no host takes the writes of database {0} now")]
    NoWrites(String),
    /// The queue of commands is full.
    #[error("too many commands are waiting")]
    Busy,
    /// The database has one host.
    #[error("database {0} has one host: every statement runs there")]
    NotRouted(String),
    /// Nothing is paused or suspended.
    #[error("pooler is not paused/suspended")]
    NothingPaused,
    /// SUSPEND while single databases are paused.
    #[error("cannot suspend with paused databases")]
    PausedDatabases,
    /// The configuration has an error, which is in the log.
    #[error("RELOAD failed, see logs for additional details")]
    ReloadFailed,
    /// Another RESUME took the pause back before it was complete.
    #[error("resumed before everything was paused")]
    Resumed,
    /// The option cannot take this value, for this reason.
    #[error("SET failed: {0}")]
    SetFailed(String),
    /// The pooler is shutting down.
    #[error("pooler is shutting down")]
    ShuttingDown,
}

impl Refusal {
    /// Returns the SQLSTATE: PgBouncer's, except for two that PostgreSQL clients know.
    #[must_use]
    pub fn code(&self) -> SqlState {
        match self {
            Self::Cancelled => SqlState::QUERY_CANCELED,
            Self::NoRule(_) => SqlState::UNDEFINED_OBJECT,
            Self::ReloadFailed => SqlState::CONFIG_FILE_ERROR,
            Self::RuleExists(_) => SqlState::DUPLICATE_OBJECT,
            Self::RuleExpired(_) => SqlState::INVALID_PARAMETER_VALUE,
            Self::TooManyRules(_) => SqlState::CONFIGURATION_LIMIT_EXCEEDED,
            _ => SqlState::PROTOCOL_VIOLATION,
        }
    }
}

impl Order {
    /// True if it concerns all processes that serve clients during an upgrade, not only what one of them counts or numbers.
    #[must_use]
    pub fn is_for_all_processes(&self) -> bool {
        !matches!(self, Self::KillClient(_) | Self::ResetDigests)
    }
}

/// Reports the outcome of a command to the console, or to another process. A dropped receipt reports that the pooler is
/// shutting down.
#[derive(Debug)]
pub struct Receipt {
    mailbox: Option<Mailbox>,
    question: u64,
    /// Thread outside of the workers that waits for the outcome.
    waiter: Option<Sender<Outcome>>,
    /// Other process that waits for the outcome of an order, with its number there.
    process: Option<(Weak<Global>, Side, u64)>,
}

/// Outcome of a command.
pub(crate) type Outcome = Result<(), Refusal>;

impl Receipt {
    pub(crate) fn new(mailbox: Option<Mailbox>, question: u64) -> Self {
        Self {
            mailbox,
            question,
            waiter: None,
            process: None,
        }
    }

    /// Returns a receipt for an order of another process, which has this number there.
    pub(crate) fn for_process(global: &Arc<Global>, side: Side, number: u64) -> Self {
        let mut receipt = Self::new(None, 0);
        receipt.process = Some((Arc::downgrade(global), side, number));
        receipt
    }

    /// Returns a receipt for a thread outside of the workers, with the channel of the outcome.
    pub(crate) fn channel() -> (Self, Receiver<Outcome>) {
        let (sender, outcome) = bounded(1);
        let mut receipt = Self::new(None, 0);
        receipt.waiter = Some(sender);
        (receipt, outcome)
    }

    /// Reports the outcome. Waits while the worker's mailbox is full, so call it on no worker.
    pub fn done(mut self, outcome: Result<(), Refusal>) {
        self.tell_process();
        if let Some(waiter) = self.waiter.take() {
            // The waiter may have given up. The channel has room.
            drop(waiter.try_send(outcome.clone()));
        }
        if let Some(mailbox) = self.mailbox.take() {
            let question = self.question;
            mailbox.send_waiting(Message::Performed { question, outcome });
        }
    }
}

impl Receipt {
    fn tell_process(&mut self) {
        if let Some((global, side, number)) = self.process.take()
            && let Some(global) = global.upgrade()
        {
            let neighbours = &global.succession.neighbours;
            neighbours.report(side, LinkMessage::OrderOver(number));
        }
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        self.tell_process();
        if let Some(waiter) = self.waiter.take() {
            drop(waiter.try_send(Err(Refusal::ShuttingDown)));
        }
        if let Some(mailbox) = self.mailbox.take() {
            let (question, outcome) = (self.question, Err(Refusal::ShuttingDown));
            // The worker itself may drop it. It has told its console by then, or has none any more.
            drop(mailbox.send(Message::Performed { question, outcome }));
        }
    }
}

/// Task of every worker once an order was decided. `None` in place of a database stands for all databases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Task {
    /// End the clients and servers of a database.
    Kill(Option<Arc<str>>),
    /// End this client, if the worker has it.
    KillClient(u64),
    /// Reuse no server connected until now.
    Recycle(Option<Arc<str>>),
    /// Forget the figures of all statements.
    ResetDigests,
    /// Apply the query rules in force.
    Rules,
    /// Apply the current pauses and suspension.
    Settle,
}

/// Value of `Global::unsent` for a worker with nothing left to send.
pub(crate) const FLUSHED: usize = 0;
/// Value of `Global::unsent` for a worker that has not looked yet.
pub(crate) const NOT_LOOKED: usize = usize::MAX;

impl Global {
    /// Performs `PAUSE`, and the first half of `KILL` (`verb`).
    pub(crate) fn pause(&self, database: Option<&str>, verb: &'static str) -> Result<(), Refusal> {
        let known = database.map(|name| self.known_database(name, verb));
        let mut halts = lock(&self.halting.halts);
        if halts.all || halts.suspended {
            return Err(Refusal::AlreadyPaused);
        }
        match known.transpose()? {
            Some(name) => drop(halts.paused.insert(name)),
            None if self.is_stopping() => return Err(Refusal::ShuttingDown),
            None => halts.all = true,
        }
        self.apply(&halts);
        Ok(())
    }

    /// Performs `PAUSE WRITES`.
    pub(crate) fn pause_writes(&self, database: &str) -> Result<(), Refusal> {
        let name = self.known_database(database, "pause writes of")?;
        let pool = self.settled().settings.pool(&name, "");
        let pool = pool.filter(|pool| pool.cluster.is_some());
        let pool = pool.ok_or_else(|| Refusal::NotRouted(name.clone()))?;
        let snapshot = self.clusters.of(cluster_name(&pool)).snapshot();
        let primary = snapshot.primary();
        let primary = primary.ok_or_else(|| Refusal::NoWrites(name.clone()))?;
        let paused = PausedWrites {
            host: primary.host.0,
            timeline: primary.timeline,
        };
        let mut halts = lock(&self.halting.halts);
        halts.writes.insert(name, paused);
        self.halting.has_paused_writes.store(true, Ordering::SeqCst);
        self.apply(&halts);
        Ok(())
    }

    /// Ends the pause of a database's writes if another host takes them now, or the same one on a higher timeline. True if
    /// it did.
    pub(crate) fn follow_paused_writes(&self, database: &str, hosts: &Snapshot) -> bool {
        if !self.halting.has_paused_writes.load(Ordering::SeqCst) {
            return false;
        }
        let Some(primary) = hosts.primary() else {
            return false;
        };
        let mut halts = lock(&self.halting.halts);
        let is_over = halts.writes.get(database).is_some_and(|paused| {
            paused.host != primary.host.0 || paused.timeline < primary.timeline
        });
        if is_over {
            halts.writes.remove(database);
            self.apply(&halts);
            tracing::info!(
                "database '{database}': {} takes writes, which were paused",
                primary.name
            );
        }
        is_over
    }

    /// True if a `PAUSE WRITES` is complete: no server is connected to the host, except for replication, which does not end
    /// before the host does. None if it holds no more.
    pub(crate) fn are_writes_quiet(&self, database: &str) -> Option<bool> {
        let paused = *lock(&self.halting.halts).writes.get(database)?;
        let pools = self.pools_of(Some(database));
        let there = pools.iter().filter(|pool| is_at(pool, paused));
        let mut there = there.filter(|pool| !pool.shared.is_annex());
        Some(there.all(|pool| pool.shared.connected() == 0))
    }

    /// Performs `SUSPEND`.
    pub(crate) fn suspend(&self) -> Result<(), Refusal> {
        let mut halts = lock(&self.halting.halts);
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
        for unsent in &self.workers.unsent {
            unsent.store(NOT_LOOKED, Ordering::SeqCst);
        }
        self.halting.is_suspended.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Performs `RESUME`. As in PgBouncer, the pause of one database and the pause of all are resumed separately.
    pub(crate) fn resume(&self, database: Option<&str>) -> Result<(), Refusal> {
        let mut halts = lock(&self.halting.halts);
        match database {
            Some(name) if !(halts.paused.remove(name) | halts.writes.remove(name).is_some()) => {
                drop(halts);
                self.known_database(name, "resume")?;
                return Err(Refusal::NotPaused(name.to_owned()));
            }
            Some(_) => {}
            None if !halts.all && !halts.suspended => return Err(Refusal::NothingPaused),
            None => {
                (halts.all, halts.suspended) = (false, false);
                self.halting.is_suspended.store(false, Ordering::SeqCst);
            }
        }
        self.apply(&halts);
        Ok(())
    }

    /// Performs `DISABLE` and `ENABLE`.
    pub(crate) fn set_disabled(&self, database: &str, is_disabled: bool) -> Result<(), Refusal> {
        let verb = if is_disabled { "disable" } else { "enable" };
        let name = self.known_database(database, verb)?;
        let mut halts = lock(&self.halting.halts);
        if is_disabled {
            halts.disabled.insert(name);
        } else {
            halts.disabled.remove(&name);
        }
        Ok(())
    }

    /// True if a `PAUSE` is complete: no server is connected.
    pub(crate) fn is_quiet(&self, database: Option<&str>) -> bool {
        let pools = self.pools_of(database);
        pools.iter().all(|pool| pool.shared.connected() == 0)
    }

    /// True if a `SUSPEND` is complete: nothing is left to be sent.
    pub(crate) fn is_flushed(&self) -> bool {
        let mut unsent = self.workers.unsent.iter();
        unsent.all(|unsent| unsent.load(Ordering::SeqCst) == FLUSHED)
    }

    /// True if a server is left that has to be closed.
    pub(crate) fn has_obsolete(&self, database: Option<&str>) -> bool {
        let pools = self.pools_of(database);
        pools.iter().any(|pool| pool.shared.has_obsolete())
    }

    /// True if a `PAUSE` of this database, or of all, still holds.
    pub(crate) fn is_paused(&self, database: Option<&str>) -> bool {
        let halts = lock(&self.halting.halts);
        database.map_or(halts.all, |name| halts.paused.contains(name))
    }

    pub(crate) fn is_disabled(&self, database: &str) -> bool {
        lock(&self.halting.halts).disabled.contains(database)
    }

    pub(crate) fn halts(&self) -> Halts {
        lock(&self.halting.halts).clone()
    }

    /// Returns the name if it is a known database; `*` may provide for one that no client has used yet.
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
        pools.retain(|pool| database.is_none_or(|name| *pool.group.key.database == *name));
        pools
    }

    fn apply(&self, halts: &Halts) {
        for pool in self.all_pools() {
            pause(&pool, halts);
        }
    }

    fn is_stopping(&self) -> bool {
        self.halting.is_draining.load(Ordering::SeqCst)
    }
}

/// Pauses or resumes a pool as ordered. A waiting room is always paused: no server comes to its clients.
pub(crate) fn pause(pool: &GlobalPool, halts: &Halts) {
    let database = &*pool.group.key.database;
    let writes = halts.writes.get(database);
    let is_paused = is_paused(halts, database) || writes.is_some_and(|paused| is_at(pool, *paused));
    pool.shared.set_paused(is_paused || pool.is_waiting_room());
}

/// True if a pool has its servers at the host whose writes are paused.
fn is_at(pool: &GlobalPool, paused: PausedWrites) -> bool {
    pool.host.is_some_and(|host| host.0 == paused.host)
}

/// True if pools of this database are paused.
pub(crate) fn is_paused(halts: &Halts, database: &str) -> bool {
    halts.all || halts.paused.contains(database)
}

/// Returns the database as log lines name it; empty for all.
pub(crate) fn scope(database: Option<&str>) -> String {
    database.map_or_else(String::new, |name| format!(" '{name}'"))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::driver::Wake;
    use crate::mailbox::mailbox;

    #[derive(Debug)]
    struct Nobody;

    impl Wake for Nobody {
        fn wake(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_outcome_waits_for_a_full_mailbox() {
        let (mailbox, inbox) = mailbox(Arc::new(Nobody));
        while mailbox.send(Message::Settings).is_ok() {}
        let receipt = Receipt::new(Some(mailbox), 7);
        let told = std::thread::spawn(|| receipt.done(Err(Refusal::ReloadFailed)));
        let outcome = loop {
            match inbox.next() {
                Some(Message::Performed { question, outcome }) => break (question, outcome),
                Some(_) => {}
                None => std::thread::yield_now(),
            }
        };
        assert_eq!(outcome, (7, Err(Refusal::ReloadFailed)));
        told.join().unwrap();
    }
}
