//! Orders of an administrator. The worker of the console that gives an order tells the other workers, and answers when
//! it is done.
//!
//! `crate::orders` decides what an order changes for all; this file has what each worker does with its own objects.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weir_pool::Moment;
use weir_session::fault::Fault;
use weir_stats::EventKind;

use super::Worker;
use super::ids::{ClientId, LaneId, ServerId};
use super::tables::Tables;
use super::timers::Timer;
use crate::console::Command;
use crate::driver::Driver;
use crate::mailbox::Message;
use crate::neighbours::Side;
use crate::orders::{NOT_LOOKED, Order, Receipt, Refusal, RuleOrder, Task, scope};

/// Interval at which a waiting order is checked. The timer runs only while an order waits; PgBouncer checks three times
/// a second.
const LOOK: Duration = Duration::from_millis(20);

/// Order that is not done yet.
pub(super) struct Pending {
    pub(super) by: By,
    pub(super) until: Until,
    /// Numbers of the order at other processes, which carry it out as well.
    pub(super) elsewhere: Vec<u64>,
}

/// Giver of an order, who gets the answer.
pub(super) enum By {
    /// Console client of this worker.
    Console(ClientId),
    /// Another process of an upgrade.
    Process(Receipt),
}

/// Condition that an order waits for.
pub(super) enum Until {
    /// No server that has to be closed is left.
    Closed(Option<String>),
    /// Nothing more than that other processes carry it out.
    Elsewhere,
    /// No bytes are left to be sent.
    Flushed,
    /// No server is connected.
    Quiet(Option<String>),
    /// No server is connected to the host that took the writes of this database.
    WritesQuiet(String),
    /// The thread that carries out commands has reported the outcome.
    Told,
    /// All workers have done the task: `missing` have not yet. `found` tells if a worker found something to do.
    Workers { missing: usize, found: Found },
}

/// Need of an order that at least one worker finds something to do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// Needed, and no worker has found anything yet.
    Nobody,
    /// Not needed, or a worker has found something.
    Somebody,
}

impl<D: Driver> Worker<D> {
    /// Carries out an order of a console client.
    pub(super) fn perform(&mut self, client: ClientId, order: Order) {
        let line = issued(&order);
        let by = self.tables.clients.get(client).map(ToString::to_string);
        let by = by.unwrap_or_default();
        tracing::info!("{by} {line}");
        let kind = match &order {
            Order::Rule(_) => EventKind::Rule,
            _ => EventKind::Order,
        };
        self.global.note(kind, format!("{line} by {by}"));
        self.spread(By::Console(client), order, None);
    }

    /// Carries out an order of the process on this side.
    pub(super) fn ordered(&mut self, from: Side, order: Order, receipt: Receipt) {
        let line = issued(&order);
        tracing::info!("another process: {line}");
        let text = format!("{line} to another process");
        self.global.note(EventKind::Order, text);
        self.spread(By::Process(receipt), order, Some(from));
    }

    /// Begins an order here and at the other processes of an upgrade, except the one that it comes from.
    fn spread(&mut self, by: By, order: Order, from: Option<Side>) {
        let question = self.questions.number();
        // The main thread passes on what it carries out.
        let is_passed_there = matches!(order, Order::Reload | Order::Set { .. });
        let is_passed = order.is_for_all_processes() && !is_passed_there;
        let passed = is_passed.then(|| order.clone());
        let begun = self.begin(question, order, from);
        let neighbours = &self.global.succession.neighbours;
        // An order that is refused here may be of use there.
        let elsewhere = passed.map(|order| neighbours.pass_order(&order, from));
        let elsewhere = elsewhere.unwrap_or_default();
        let until = match begun {
            Ok(None) if elsewhere.is_empty() => return self.answer_order(by, Ok(())),
            Ok(until) => until.unwrap_or(Until::Elsewhere),
            Err(refusal) => return self.answer_order(by, Err(refusal)),
        };
        let pending = Pending {
            by,
            until,
            elsewhere,
        };
        self.questions.pending.insert(question, pending);
        self.look_at(question);
    }

    /// Begins an order. None means that the order is done.
    fn begin(
        &mut self,
        question: u64,
        order: Order,
        from: Option<Side>,
    ) -> Result<Option<Until>, Refusal> {
        let global = Arc::clone(&self.global);
        match order {
            Order::Disable(name) => global.set_disabled(&name, true).map(|()| None),
            Order::Enable(name) => global.set_disabled(&name, false).map(|()| None),
            Order::Kill(name) => {
                global.pause(name.as_deref(), "kill")?;
                let task = Task::Kill(name.as_deref().map(Arc::from));
                Ok(Some(self.task_all(question, &task, Found::Somebody)))
            }
            Order::KillClient(id) => {
                let task = Task::KillClient(id);
                Ok(Some(self.task_all(question, &task, Found::Nobody)))
            }
            Order::Pause(name) => {
                global.pause(name.as_deref(), "pause")?;
                self.tell_all(&Task::Settle);
                Ok(Some(Until::Quiet(name)))
            }
            Order::Primary { database, host } => {
                global.hint_primary(&database, &host).map(|()| None)
            }
            Order::PauseWrites(name) => {
                global.pause_writes(&name)?;
                self.tell_all(&Task::Settle);
                Ok(Some(Until::WritesQuiet(name)))
            }
            Order::Reconnect(name) => {
                name.as_deref()
                    .map(|name| global.known_database(name, "reconnect"))
                    .transpose()?;
                let task = Task::Recycle(name.as_deref().map(Arc::from));
                Ok(Some(self.task_all(question, &task, Found::Somebody)))
            }
            Order::Reload => {
                let receipt = self.receipt(question);
                self.command(Command::Reload { from, receipt })
            }
            Order::ResetDigests => Ok(Some(self.task_all(
                question,
                &Task::ResetDigests,
                Found::Somebody,
            ))),
            Order::Rule(order) => {
                let unix = i64::try_from(self.unix(self.now)).unwrap_or(i64::MAX);
                global.order_rule(order, unix)?;
                Ok(Some(self.task_all(question, &Task::Rules, Found::Somebody)))
            }
            Order::Resume(name) => {
                global.resume(name.as_deref())?;
                self.tell_all(&Task::Settle);
                Ok(None)
            }
            Order::Set { key, value } => self.set(question, (key, value), from),
            Order::Suspend => {
                global.suspend()?;
                self.tell_all(&Task::Settle);
                Ok(Some(Until::Flushed))
            }
            Order::WaitClose(name) => {
                name.as_deref()
                    .map(|name| global.known_database(name, "wait in"))
                    .transpose()?;
                Ok(Some(Until::Closed(name)))
            }
        }
    }

    fn set(
        &self,
        question: u64,
        (key, value): (String, String),
        from: Option<Side>,
    ) -> Result<Option<Until>, Refusal> {
        self.command(Command::Set {
            key,
            value,
            from,
            receipt: self.receipt(question),
        })
    }

    fn receipt(&self, question: u64) -> Receipt {
        Receipt::new(self.global.mailbox(self.number).cloned(), question)
    }

    fn command(&self, command: Command) -> Result<Option<Until>, Refusal> {
        match self.global.commands.try_send(command) {
            Ok(()) => Ok(Some(Until::Told)),
            Err(crossbeam_channel::TrySendError::Full(_)) => Err(Refusal::Busy),
            Err(crossbeam_channel::TrySendError::Disconnected(_)) => Err(Refusal::ShuttingDown),
        }
    }

    // --- the workers ---

    /// Gives a task to the other workers, and carries it out here.
    pub(super) fn tell_all(&mut self, task: &Task) {
        self.mail_task(task, None);
        self.carry_out(task);
    }

    /// Sends a task to the other workers. A message that finds a full mailbox waits, so that no worker misses it.
    /// Returns the number of workers told.
    fn mail_task(&mut self, task: &Task, to: Option<(usize, u64)>) -> usize {
        let has_ended = |worker: &usize| {
            let last = self.global.workers.last_figures.get(*worker);
            last.is_some_and(|last| last.get().is_some())
        };
        let workers = 0..self.global.worker_count();
        let others = workers.filter(|worker| *worker != self.number && !has_ended(worker));
        let others: Vec<_> = others.collect();
        for worker in &others {
            let task = task.clone();
            self.mail(*worker, Message::Task { task, to });
        }
        others.len()
    }

    /// Gives a task to all workers as `tell_all`. Returns the condition that all have done it.
    fn task_all(&mut self, question: u64, task: &Task, found: Found) -> Until {
        let missing = self.mail_task(task, Some((self.number, question)));
        let found = if self.carry_out(task) {
            Found::Somebody
        } else {
            found
        };
        Until::Workers { missing, found }
    }

    /// Carries out another worker's order.
    pub(super) fn tasked(&mut self, task: &Task, to: Option<(usize, u64)>) {
        let found = self.carry_out(task);
        if let Some((worker, question)) = to {
            self.mail(worker, Message::Tasked { question, found });
        }
    }

    pub(super) fn task_done(&mut self, question: u64, has_found: bool) {
        if let Some(Pending {
            until: Until::Workers { missing, found },
            ..
        }) = self.questions.pending.get_mut(&question)
        {
            *missing = missing.saturating_sub(1);
            if has_found {
                *found = Found::Somebody;
            }
            self.look_at(question);
        }
    }

    /// Ends an order of which the outcome is known: the configuration was read again, an option was set, or neither.
    pub(super) fn performed(&mut self, question: u64, outcome: Result<(), Refusal>) {
        self.order_done(question, outcome);
    }

    // --- waiting ---

    /// Checks the orders whose conditions no message reports.
    pub(super) fn look_at_orders(&mut self) {
        let waiting: Vec<_> = self.questions.pending.keys().copied().collect();
        waiting
            .into_iter()
            .for_each(|question| self.look_at(question));
    }

    fn look_at(&mut self, question: u64) {
        let Some(pending) = self.questions.pending.get(&question) else {
            return;
        };
        let outcome = match &pending.until {
            Until::Elsewhere => Some(Ok(())),
            Until::Closed(name) => (!self.global.has_obsolete(name.as_deref())).then_some(Ok(())),
            Until::Flushed if !self.global.halts().suspended => Some(Err(Refusal::Resumed)),
            Until::Flushed => self.global.is_flushed().then_some(Ok(())),
            Until::Quiet(name) if !self.global.is_paused(name.as_deref()) => {
                Some(Err(Refusal::Resumed))
            }
            Until::Quiet(name) => self.global.is_quiet(name.as_deref()).then_some(Ok(())),
            Until::WritesQuiet(name) => match self.global.are_writes_quiet(name) {
                None => Some(Err(Refusal::Resumed)),
                Some(is_quiet) => is_quiet.then_some(Ok(())),
            },
            Until::Workers { missing: 1.., .. } | Until::Told => return,
            Until::Workers { found, .. } if *found == Found::Nobody => {
                Some(Err(Refusal::ClientNotFound))
            }
            Until::Workers { .. } => Some(Ok(())),
        };
        let neighbours = &self.global.succession.neighbours;
        neighbours.tell();
        let is_done_elsewhere = || !neighbours.has_open(&pending.elsewhere);
        match outcome.filter(|outcome| outcome.is_err() || is_done_elsewhere()) {
            Some(outcome) => self.order_done(question, outcome),
            None => self.timers.arm(self.now.plus(LOOK), Timer::Orders),
        }
    }

    fn order_done(&mut self, question: u64, outcome: Result<(), Refusal>) {
        if let Some(Pending { by, until, .. }) = self.questions.pending.remove(&question) {
            if let (Until::Flushed, By::Console(client), Ok(())) = (until, &by, &outcome) {
                self.questions.suspended_by(*client);
            }
            self.answer_order(by, outcome);
        }
    }

    fn answer_order(&mut self, by: By, outcome: Result<(), Refusal>) {
        match by {
            By::Console(client) => {
                self.answer_console(client, |conversation| conversation.performed(outcome));
            }
            By::Process(receipt) => receipt.done(outcome),
        }
    }

    /// Handles a cancel request for a console client.
    pub(super) fn cancel_order(&mut self, client: ClientId) {
        if let Some(until) = self.questions.take_order(client) {
            self.take_back(until);
            self.answer_order(By::Console(client), Err(Refusal::Cancelled));
        }
    }

    /// Takes back the waiting order of a console client that has left, and resumes what it has suspended.
    pub(super) fn console_left(&mut self, client: ClientId) {
        if let Some(until) = self.questions.take_order(client) {
            self.take_back(until);
        }
        if self.questions.take_suspender(client) {
            self.take_back(Until::Flushed);
        }
    }

    fn take_back(&mut self, until: Until) {
        let name = match until {
            Until::Flushed => None,
            Until::Quiet(name) => name,
            Until::WritesQuiet(name) => Some(name),
            Until::Closed(_) | Until::Elsewhere | Until::Told | Until::Workers { .. } => return,
        };
        let order = Order::Resume(name.clone());
        self.global.succession.neighbours.pass_order(&order, None);
        if self.global.resume(name.as_deref()).is_ok() {
            tracing::info!(
                "the PAUSE or SUSPEND in progress was aborted: resumed{}",
                scope(name.as_deref())
            );
            self.tell_all(&Task::Settle);
        }
    }

    // --- what each worker does ---

    /// Carries out a task. True if there was something to do.
    fn carry_out(&mut self, task: &Task) -> bool {
        match task {
            Task::Kill(name) => self.kill(name.as_deref()),
            Task::KillClient(id) => {
                let mut clients = self.tables.clients.iter();
                let found = clients.find(|(_, client)| client.id == *id);
                let Some((id, _)) = found else {
                    return false;
                };
                self.fail_client(id, &Fault::AdminShutdown);
            }
            Task::Recycle(name) => self.recycle(name.as_deref()),
            Task::ResetDigests => self.tables.reset_digests(),
            Task::Rules => self.settle_rules(),
            Task::Settle => {
                for id in self.tables.lanes_of(None) {
                    self.settle_pause(id);
                }
                self.settle_suspension();
            }
        }
        true
    }

    /// Applies the pause of a pool, or its end.
    fn settle_pause(&mut self, id: LaneId) {
        let Some(lane) = self.tables.lanes.must_get_mut(id) else {
            return;
        };
        let is_paused = lane.global.shared.is_paused();
        lane.shard.settle(self.now);
        self.pump(id);
        if is_paused {
            self.close_listener_of(id);
        }
    }

    fn kill(&mut self, database: Option<&str>) {
        for id in self.tables.lanes_of(database) {
            let clients = self.tables.clients.iter();
            let clients: Vec<_> = clients
                .filter(|(_, client)| client.lane == id)
                .map(|(id, _)| id)
                .collect();
            for client in clients {
                // The end of a client also ends the connections of its cancels.
                if self.tables.clients.contains(client) {
                    self.fail_client(client, &Fault::DatabaseRemoved);
                }
            }
            let servers = self.tables.servers.iter();
            let servers: Vec<_> = servers
                .filter(|(_, server)| server.lane == id)
                .map(|(id, _)| id)
                .collect();
            for server in servers {
                // The pool may have closed this server because of another one.
                if self.tables.servers.contains(server) {
                    self.close_server(server, "admin forced disconnect");
                }
            }
            self.settle_pause(id);
        }
    }

    fn recycle(&mut self, database: Option<&str>) {
        for id in self.tables.lanes_of(database) {
            if let Some(lane) = self.tables.lanes.must_get_mut(id) {
                crate::global::lock(&lane.global.group.welcomes).clear();
                lane.shard.recycle(self.now);
            }
            self.close_listener_of(id);
            self.hurry(id);
            self.pump(id);
        }
    }

    // --- SUSPEND ---

    fn settle_suspension(&mut self) {
        let is_suspended = self.global.halting.is_suspended.load(Ordering::SeqCst);
        match (is_suspended, self.suspended_since) {
            (true, None) => {
                self.suspended_since = Some(self.now);
                self.driver.suspend_all();
                self.flush_suspended();
            }
            (false, Some(_)) => {
                self.suspended_since = None;
                self.driver.resume_all();
            }
            _ => {}
        }
    }

    /// Waits for unsent bytes to be sent, and closes connections that do not take them within `suspend_timeout`.
    pub(super) fn flush_suspended(&mut self) {
        let Some(since) = self.suspended_since else {
            return;
        };
        let (clients, servers) = self.unsent();
        if self.has_timed_out(since) {
            for client in clients {
                if self.tables.clients.contains(client) {
                    self.fail_client(client, &Fault::SuspendTimeout);
                }
            }
            for server in servers {
                // The server may have been closed with its client.
                if self.tables.servers.contains(server) {
                    self.close_server(server, "suspend_timeout");
                }
            }
        }
        let (clients, servers) = self.unsent();
        let count = clients.len() + servers.len();
        if let Some(unsent) = self.global.workers.unsent.get(self.number) {
            unsent.store(count.min(NOT_LOOKED - 1), Ordering::SeqCst);
        }
        if count > 0 {
            self.timers.arm(self.now.plus(LOOK), Timer::Flush);
        }
    }

    fn has_timed_out(&self, since: Moment) -> bool {
        let timeout = self.global.settled().settings.global.suspend_timeout;
        timeout.is_some_and(|timeout| self.now >= since.plus(timeout))
    }

    /// Returns the clients and servers with unsent bytes.
    fn unsent(&self) -> (Vec<ClientId>, Vec<ServerId>) {
        let clients = self.tables.clients.iter();
        let clients = clients.filter(|(_, client)| self.driver.unsent(client.key) > 0);
        let servers = self.tables.servers.iter();
        let servers = servers.filter(|(_, server)| self.driver.unsent(server.key) > 0);
        (
            clients.map(|(id, _)| id).collect(),
            servers.map(|(id, _)| id).collect(),
        )
    }
}

impl Tables {
    /// Returns the lanes of a database, or all.
    fn lanes_of(&self, database: Option<&str>) -> Vec<LaneId> {
        let lanes = self.lanes.iter();
        let lanes = lanes.filter(|(_, lane)| {
            database.is_none_or(|database| *lane.global.group.key.database == *database)
        });
        lanes.map(|(id, _)| id).collect()
    }
}

/// Returns PgBouncer's log line for an order.
fn issued(order: &Order) -> String {
    format!("{} command issued", words(order))
}

/// Returns an order as an administrator types it, without what may be a secret.
pub(crate) fn words(order: &Order) -> String {
    let (word, database) = match order {
        Order::Disable(name) => ("DISABLE", Some(name)),
        Order::Enable(name) => ("ENABLE", Some(name)),
        Order::Kill(name) => ("KILL", name.as_ref()),
        Order::KillClient(id) => return format!("KILL_CLIENT '{id}'"),
        Order::Pause(name) => ("PAUSE", name.as_ref()),
        Order::Primary { database, host } => {
            return format!("PRIMARY '{database}' IS '{host}'");
        }
        Order::PauseWrites(name) => ("PAUSE WRITES", Some(name)),
        Order::Reconnect(name) => ("RECONNECT", name.as_ref()),
        Order::Reload => ("RELOAD", None),
        Order::ResetDigests => ("RESET DIGESTS", None),
        Order::Rule(RuleOrder::Add { rule, seconds }) => {
            let time = seconds.map_or_else(String::new, |seconds| format!(" for {seconds} s"));
            return format!("RULE ADD {} ({}){time}", rule.rule.name, rule.summary());
        }
        Order::Rule(RuleOrder::Drop(name)) => return format!("RULE DROP {name}"),
        Order::Rule(RuleOrder::Dry(name, is_dry)) => {
            let word = if *is_dry { "DRY" } else { "LIVE" };
            return format!("RULE {word} {name}");
        }
        Order::Resume(name) => ("RESUME", name.as_ref()),
        // Values may be secrets.
        Order::Set { key, .. } => return format!("SET {key}"),
        Order::Suspend => ("SUSPEND", None),
        Order::WaitClose(name) => ("WAIT_CLOSE", name.as_ref()),
    };
    format!("{word}{}", scope(database.map(String::as_str)))
}
