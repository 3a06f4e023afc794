//! Clients of the administration console. Each message is handled when the one before it is answered.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use weir_session::client::Client as Session;
use weir_session::fault::Fault;
use weir_session::relay::ClientFault;
use weir_session::settings::Reported;
use weir_stats::{Counters, Snapshot, Totals};
use weir_wire::backend::{self, ErrorFields, TransactionStatus};
use weir_wire::encode;
use weir_wire::frame::{Side, frame};
use weir_wire::frontend::tag;

use super::client::Leaving;
use super::ids::ClientId;
use super::ruling::rule_rows;
use super::slots::Phase;
use super::{Missing, Worker};
use crate::console::{Role, Step};
use crate::driver::{Driver, Why};
use crate::mailbox::Message;

/// Maximum bytes of a console query. A longer message is refused before it is collected.
const QUERY_MAX: usize = 1024 * 1024 + 16;

/// Purpose for which the parts of all workers are collected.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    /// A client of the console.
    Client(ClientId),
    /// The line of statistics in the log, for a period of this many microseconds.
    Log(u64),
}

/// An answer that waits for the other workers.
pub(super) struct Gathering {
    pub(super) purpose: Purpose,
    missing: usize,
    snapshot: Snapshot,
}

/// Counters of the console's clients. As in PgBouncer, a session counts as one transaction and one query, with its first
/// query, and none of its bytes count.
#[derive(Default)]
pub(super) struct Count {
    counters: Counters,
    /// Counters when the period began, and when the one before it did.
    period: [Counters; 2],
}

impl Count {
    pub(super) fn begin_period(&mut self) {
        let [last, _] = self.period;
        self.period = [self.counters, last];
    }

    pub(super) fn totals(&self, period_us: u64) -> Totals {
        let [begin, before] = self.period;
        let is_over = begin != Counters::default();
        Totals {
            totals: self.counters,
            period: begin - before,
            period_us: if is_over { period_us } else { 0 },
            ..Totals::default()
        }
    }
}

impl<D: Driver> Worker<D> {
    /// Enters a client of the console into the limits of its user and of the console, then opens the console.
    pub(super) fn join_console(&mut self, id: ClientId, role: Role) {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        let (database, user) = self.global.console_quotas(&client.identity.user);
        let guards = &mut client.identity.guards;
        (guards.database, guards.user) = (database.try_enter(), user.try_enter());
        let full = match (&guards.database, &guards.user) {
            (None, _) => "max_db_client_connections",
            (_, None) => "max_user_client_connections",
            _ => return self.open_console(id, role),
        };
        self.fail_client(id, &Fault::TooManyClients(full));
    }

    fn open_console(&mut self, id: ClientId, role: Role) {
        let mut message = Vec::new();
        // Greetings are short.
        let _ = encode::authentication_ok(&mut message);
        for (name, value) in self.global.console.greeting() {
            let _ = encode::parameter_status(&mut message, name.as_bytes(), value.as_bytes());
        }
        if self.register_for_cancel(id, &mut message).is_err() {
            return self.fail_client(id, &Fault::NoRandom);
        }
        let _ = encode::ready_for_query(&mut message, TransactionStatus::Idle);
        self.arm_client(id, None);
        let conversation = self.global.console.open(role);
        self.console.counters.client_logins += 1;
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        if let Phase::Authenticating(login) = &client.phase {
            let mut parameters = login.hello.parameters.iter();
            if let Some((name, value)) = parameters.find(|(name, _)| name == "application_name") {
                let mut reported = Reported::default();
                // There is room for one.
                let _ = reported.set(name, value);
                client.session = Session::new(Arc::default(), Arc::new(reported));
            }
        }
        client.identity.guards.console = self.global.limits.open_consoles.try_enter();
        client.phase = Phase::Console(conversation);
        self.driver.keep_awake(client.key);
        self.driver.send(client.key, &message);
        self.take_input(id);
    }

    pub(super) fn console_input(&mut self, id: ClientId, input: &[u8]) -> usize {
        let mut at = 0;
        loop {
            // The last message may have ended the client.
            let Some(client) = self.tables.clients.get(id) else {
                return input.len();
            };
            // A client that does not read its answers gets no more of them.
            if self.driver.reasons(client.key).has(Why::Unread) || self.questions.owes_answer(id) {
                return at;
            }
            let rest = input.get(at..).unwrap_or_default();
            let message = match frame(rest, Side::Frontend) {
                Ok(Some(message)) => message,
                Ok(None) if rest.len() <= QUERY_MAX => return at,
                Ok(None) => {
                    self.fail_client(id, &Fault::Protocol(ClientFault::Malformed(tag::QUERY)));
                    return input.len();
                }
                Err(error) => {
                    self.fail_client(id, &Fault::Protocol(error.into()));
                    return input.len();
                }
            };
            at += message.raw.len();
            if message.header.tag == tag::TERMINATE {
                self.remove_client(id, Leaving::Orderly, "client close request");
                return input.len();
            }
            let Some(client) = self.tables.clients.must_get_mut(id) else {
                return input.len();
            };
            let Phase::Console(conversation) = &mut client.phase else {
                self.global.broken.report(Missing::State);
                return at;
            };
            if matches!(message.header.tag, tag::QUERY | tag::EXECUTE) {
                if client.work.counters.queries == 0 {
                    self.console.counters.transactions += 1;
                    self.console.counters.queries += 1;
                }
                client.work.counters.queries += 1;
            }
            let step = conversation.handle(message.header.tag, message.body);
            self.console_step(id, step);
        }
    }

    fn console_step(&mut self, id: ClientId, step: Step) {
        let Some(client) = self.tables.clients.must_get(id) else {
            return;
        };
        match step {
            Step::Close(bytes) => {
                self.driver.send(client.key, &bytes);
                self.remove_client(id, Leaving::Orderly, "console");
            }
            Step::Explain(question) => {
                let answer = self.explain_route(&question);
                let Some(client) = self.tables.clients.must_get_mut(id) else {
                    return;
                };
                let Phase::Console(conversation) = &mut client.phase else {
                    return self.global.broken.report(Missing::State);
                };
                let bytes = conversation.explained(answer);
                self.reply_console(id, &bytes);
            }
            Step::Gather { digests } => self.gather(Purpose::Client(id), digests),
            Step::Perform(order) => self.perform(id, order),
            Step::Reply(bytes) => self.reply_console(id, &bytes),
            Step::Stop(how, bytes) => {
                tracing::info!("{client} SHUTDOWN command issued");
                self.send_to_client(id, &bytes);
                // The thread that carries commands out is always listening.
                let command = crate::console::Command::Shutdown(how);
                let _ = self.global.commands.try_send(command);
            }
        }
    }

    /// Sends an answer, and tells an error in the log together with the client that it was for.
    fn reply_console(&mut self, id: ClientId, bytes: &[u8]) {
        if bytes.first() == Some(&backend::tag::ERROR_RESPONSE)
            && self.global.settled().settings.global.log_pooler_errors
            && let Some(client) = self.tables.clients.get(id)
            && let Ok(Some(message)) = frame(bytes, Side::Backend)
            && let Ok(fields) = ErrorFields::parse(message.body)
        {
            let text = fields.message().unwrap_or_default();
            tracing::warn!("{client} pooler error: {}", String::from_utf8_lossy(text));
        }
        self.send_to_client(id, bytes);
    }

    /// Asks all workers for their part of a snapshot.
    pub(super) fn gather(&mut self, purpose: Purpose, digests: bool) {
        let question = self.questions.number();
        let snapshot = self.describe(digests);
        let mut missing = 0;
        for worker in (0..self.global.worker_count()).filter(|worker| *worker != self.number) {
            let to = self.number;
            let message = Message::Describe {
                to,
                question,
                digests,
            };
            let asked = self.post(worker, message);
            missing += usize::from(asked.is_ok());
        }
        let gathering = Gathering {
            purpose,
            missing,
            snapshot,
        };
        self.questions.gathering.insert(question, gathering);
        self.answer_if_complete(question);
    }

    pub(super) fn described(&mut self, question: u64, snapshot: Snapshot) {
        let Some(gathering) = self.questions.gathering.get_mut(&question) else {
            return self.global.broken.report(Missing::State);
        };
        gathering.snapshot.merge(snapshot);
        gathering.missing = gathering.missing.saturating_sub(1);
        self.answer_if_complete(question);
    }

    fn answer_if_complete(&mut self, question: u64) {
        let Entry::Occupied(gathering) = self.questions.gathering.entry(question) else {
            return self.global.broken.report(Missing::State);
        };
        if gathering.get().missing > 0 {
            return;
        }
        let mut gathering = gathering.remove();
        gathering.snapshot.limits = self.global.limits();
        self.global.show_facts(&mut gathering.snapshot);
        gathering.snapshot.rules = rule_rows(&self.global, &gathering.snapshot);
        gathering.snapshot.mirrors = self.global.mirrors.rows();
        let has_rows = matches!(gathering.purpose, Purpose::Client(_));
        (self.global).show_statements(&mut gathering.snapshot, has_rows);
        gathering.snapshot.sizings = self.global.sizings(self.now);
        gathering.snapshot.hosts = self.global.resolver.rows(self.now);
        let snapshot = &mut gathering.snapshot;
        self.global.show_database_hosts(snapshot, self.now);
        match gathering.purpose {
            Purpose::Client(id) => self.answer_console(id, |conversation| {
                conversation.gathered(&gathering.snapshot)
            }),
            Purpose::Log(period_us) => super::snapshot::log_line(&gathering.snapshot, period_us),
        }
    }

    /// Sends the answer to the message that a console client waits for, if the client is still connected.
    pub(super) fn answer_console(
        &mut self,
        id: ClientId,
        answer: impl FnOnce(&mut dyn crate::console::Conversation) -> Vec<u8>,
    ) {
        let Some(client) = self.tables.clients.get_mut(id) else {
            return;
        };
        let Phase::Console(conversation) = &mut client.phase else {
            return self.global.broken.report(Missing::State);
        };
        let bytes = answer(conversation.as_mut());
        self.reply_console(id, &bytes);
        // Input that the client sent meanwhile has waited.
        self.take_input(id);
    }
}
