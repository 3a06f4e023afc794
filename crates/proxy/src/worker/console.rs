//! Clients of the administration console.

use weir_session::fault::Fault;
use weir_session::relay::ClientFault;
use weir_stats::Snapshot;
use weir_wire::backend::TransactionStatus;
use weir_wire::encode;
use weir_wire::frame::{Side, frame};
use weir_wire::frontend::{Query, tag};

use super::Worker;
use super::client::Leaving;
use super::slots::Phase;
use crate::console::{Render, Role, Step};
use crate::driver::Driver;
use crate::mailbox::Message;

/// The console's queries are short; a longer message is refused before it is collected.
const QUERY_MAX: usize = 1024 * 1024 + 16;

/// An answer that waits for the other workers.
pub(super) struct Gathering {
    client: usize,
    id: u64,
    missing: usize,
    snapshot: Snapshot,
    render: Render,
}

impl<D: Driver> Worker<D> {
    pub(super) fn open_console(&mut self, index: usize, role: Role) {
        let mut message = Vec::new();
        // Greetings are short.
        let _ = encode::authentication_ok(&mut message);
        for (name, value) in self.global.console.greeting() {
            let _ = encode::parameter_status(&mut message, name.as_bytes(), value.as_bytes());
        }
        let _ = encode::backend_key_data(&mut message, 1, &[0; 4]);
        let _ = encode::ready_for_query(&mut message, TransactionStatus::Idle);
        self.arm_client(index, None);
        let Some(client) = self.clients.get_mut(index) else {
            return;
        };
        client.phase = Phase::Console(role);
        self.driver.send(client.key, &message);
        self.take_input(index);
    }

    /// One message at a time; the next only when this one is answered.
    pub(super) fn console_input(&mut self, index: usize, input: &[u8]) -> usize {
        let mut at = 0;
        loop {
            let Some(client) = self.clients.get(index) else {
                return input.len();
            };
            let Phase::Console(role) = client.phase else {
                return at;
            };
            let id = client.id;
            // One that does not read its answers gets no more of them.
            if client.blocked {
                return at;
            }
            if self
                .gathering
                .values()
                .any(|waiting| waiting.client == index && waiting.id == id)
            {
                return at;
            }
            let rest = input.get(at..).unwrap_or_default();
            let message = match frame(rest, Side::Frontend) {
                Ok(Some(message)) => message,
                Ok(None) if rest.len() <= QUERY_MAX => return at,
                Ok(None) => {
                    self.fail_client(index, &Fault::Protocol(ClientFault::Malformed(tag::QUERY)));
                    return input.len();
                }
                Err(error) => {
                    self.fail_client(index, &Fault::Protocol(error.into()));
                    return input.len();
                }
            };
            at += message.raw.len();
            let console = std::sync::Arc::clone(&self.global.console);
            let step = match message.header.tag {
                tag::TERMINATE => {
                    self.remove_client(index, Leaving::Orderly, "client close request");
                    return input.len();
                }
                tag::QUERY => match Query::parse(message.body) {
                    Ok(query) => console.query(role, query.sql),
                    Err(_) => {
                        self.fail_client(
                            index,
                            &Fault::Protocol(ClientFault::Malformed(tag::QUERY)),
                        );
                        return input.len();
                    }
                },
                other => console.unsupported(other),
            };
            self.console_step(index, step);
        }
    }

    fn console_step(&mut self, index: usize, step: Step) {
        let Some(client) = self.clients.get(index) else {
            return;
        };
        match step {
            Step::Reply(bytes) => self.send_to_client(index, &bytes),
            Step::Act(command, bytes) => {
                self.send_to_client(index, &bytes);
                // Whoever carries commands out is always listening.
                let _ = self.global.commands.try_send(command);
            }
            Step::Close(bytes) => {
                self.driver.send(client.key, &bytes);
                self.remove_client(index, Leaving::Orderly, "console");
            }
            Step::Gather(render) => self.gather(index, client.id, render),
        }
    }

    /// Asks all workers for their part.
    pub(super) fn gather(&mut self, client: usize, id: u64, render: Render) {
        self.questions += 1;
        let question = self.questions;
        let snapshot = self.describe();
        let mut missing = 0;
        for lane in (0..self.global.lanes()).filter(|lane| *lane != self.lane) {
            missing += usize::from(
                self.post(
                    lane,
                    Message::Describe {
                        to: self.lane,
                        question,
                    },
                )
                .is_ok(),
            );
        }
        self.gathering.insert(
            question,
            Gathering {
                client,
                id,
                missing,
                snapshot,
                render,
            },
        );
        self.answer_if_complete(question);
    }

    pub(super) fn described(&mut self, question: u64, snapshot: Snapshot) {
        let Some(gathering) = self.gathering.get_mut(&question) else {
            return;
        };
        gathering.snapshot.merge(snapshot);
        gathering.missing = gathering.missing.saturating_sub(1);
        self.answer_if_complete(question);
    }

    fn answer_if_complete(&mut self, question: u64) {
        if self
            .gathering
            .get(&question)
            .is_none_or(|gathering| gathering.missing > 0)
        {
            return;
        }
        let Some(mut gathering) = self.gathering.remove(&question) else {
            return;
        };
        gathering.snapshot.limits = self.global.limits();
        let bytes = (gathering.render)(&gathering.snapshot);
        let client = self
            .clients
            .get(gathering.client)
            .filter(|client| client.id == gathering.id);
        if client.is_some() {
            self.send_to_client(gathering.client, &bytes);
            // What it sent meanwhile has waited.
            self.take_input(gathering.client);
        }
    }
}
