//! Messages from other threads to this worker.

use super::Worker;
use super::cancel::CancelAsker;
use crate::driver::Driver;
use crate::mailbox::Message;

impl<D: Driver> Worker<D> {
    pub(super) fn receive(&mut self, message: Message) {
        match message {
            Message::Accepted(accepted) => {
                self.welcome_socket(*accepted);
            }
            Message::Arrived(arrival) => self.arrived(*arrival),
            Message::Ask { pool, from } => self.asked(&pool, from),
            Message::AskRefused { pool } => {
                if let Some((_, id)) = self.tables.find_lane(&pool) {
                    self.ask_answered(id, false);
                }
            }
            Message::Barrier(passed) => drop(passed.try_send(())),
            Message::Cancel { client, asker } => self.cancel_message(client, asker),
            Message::CancelOver(asker) => self.cancel_done(Some(CancelAsker::Here(asker))),
            Message::Evict { scope, pool, asked } => self.evict_for(scope, &pool, asked),
            Message::HandOver(link) => {
                self.global.mirrors.stop();
                self.begin_moving(link);
            }
            Message::Heard(heard) => self.heard(heard),
            Message::Handshake { asker, advanced } => self.handshake_advanced(asker, *advanced),
            Message::Keys { asker, keys } => self.keys_derived(asker, keys.as_ref(), false),
            Message::Learnt { asker, answered } => self.learnt(asker, *answered),
            Message::Listen(asking) => self.listen_asked(*asking),
            Message::ListenEnd(leaver) => self.listen_ended(&leaver),
            Message::Outdated { pool, before } => self.outdated(&pool, before),
            Message::Transfer {
                pool,
                transfer,
                server,
                asked,
            } => {
                self.adopt(&pool, *transfer, *server, asked);
            }
            Message::Ordered(side, order, receipt) => self.ordered(side, *order, receipt),
            Message::Performed { question, outcome } => self.performed(question, outcome),
            Message::PeerFound { forward, addresses } => self.peer_looked_up(*forward, addresses),
            Message::Pulse(number) => {
                if let Some(pulse) = self.global.workers.pulses.get(self.number) {
                    pulse.store(number, std::sync::atomic::Ordering::Relaxed);
                }
            }
            Message::Mirror(newcomer) => self.mirror_arrived(*newcomer),
            Message::Measure { detail, answer } => {
                // The asker may have given up. The channel has room for an answer of each worker.
                drop(answer.try_send(Box::new(self.measure(detail))));
            }
            Message::Resolved(resolved) => self.resolved(resolved),
            Message::Settings => self.settle_groups(),
            Message::Permit(client, permit) => self.permitted(client, permit),
            Message::Shutdown(how) => self.shut_down(how),
            Message::Task { task, to } => self.tasked(&task, to),
            Message::Tasked { question, found } => self.task_done(question, found),
            Message::Describe {
                to,
                question,
                digests,
            } => {
                let snapshot = Box::new(self.describe(digests));
                // A console waits for it.
                self.mail(to, Message::Description { question, snapshot });
            }
            Message::Description { question, snapshot } => self.described(question, *snapshot),
        }
    }
}
