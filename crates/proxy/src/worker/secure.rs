//! TLS handshakes of clients, servers and cancels. Helper threads compute their steps: a signature or a certificate
//! chain takes as long as a hundred queries (DESIGN part 5), and no query waits for one.

use std::sync::Arc;

use weir_tls::session::TlsFault;

use super::Worker;
use super::cancel::Carrying;
use super::slots::{Phase, Stage};
use crate::driver::{Driver, Key};
use crate::mailbox::{Asker, Message};
use crate::securing::Securing;
use crate::tls::{Advanced, Progress, Session};

impl<D: Driver> Worker<D> {
    /// Continues a handshake with these bytes; no bytes for the first step.
    pub(super) fn advance_handshake(&mut self, asker: Asker, bytes: &[u8]) {
        let Some((_, securing)) = self.securing(asker) else {
            return;
        };
        let step = match securing.next_step(bytes) {
            Ok(None) => return,
            Ok(Some(step)) => step,
            Err(fault) => return self.handshake_failed(asker, &fault),
        };
        let (global, worker) = (Arc::clone(&self.global), self.number);
        let job = move || {
            let advanced = Box::new(step.compute());
            if let Some(mailbox) = global.mailbox(worker) {
                mailbox.send_waiting(Message::Handshake { asker, advanced });
            }
        };
        if self.global.helpers.handshakers.run(job).is_err() {
            self.end_handshake(asker, "too many logins in progress");
        }
    }

    /// Handles a step that a helper has computed.
    pub(super) fn handshake_advanced(&mut self, asker: Asker, advanced: Advanced) {
        let Some((key, securing)) = self.securing(asker) else {
            return;
        };
        match advanced.progress {
            Ok(Progress::More(handshake)) => {
                let has_more = securing.put_back(handshake);
                self.driver.send(key, &advanced.output);
                if has_more {
                    self.advance_handshake(asker, &[]);
                }
            }
            Ok(Progress::Done(mut session, mut plain)) => {
                let mut output = advanced.output;
                let outcome = securing.open_behind(&mut session, &mut plain, &mut output);
                self.driver.send(key, &output);
                if let Err(fault) = outcome {
                    return self.handshake_failed(asker, &fault);
                }
                self.secured(asker, key, session, &plain);
            }
            Err(fault) => {
                self.driver.send(key, &advanced.output);
                self.handshake_failed(asker, &fault);
            }
        }
    }

    /// Continues with the purpose of a connection whose handshake is done.
    fn secured(&mut self, asker: Asker, key: Key, session: Box<Session>, plain: &[u8]) {
        match asker {
            Asker::Client(id) => self.tables.client_secured(id, &session),
            Asker::Server(id) => self.tables.server_secured(id, &session),
            Asker::Cancel(_) => {}
        }
        self.driver.secure(key, session);
        match asker {
            Asker::Client(id) if !plain.is_empty() => self.client_received(id, plain),
            Asker::Client(_) => {}
            Asker::Server(id) => {
                self.begin_login(id);
                // The login may have failed already.
                if !plain.is_empty() && self.tables.servers.contains(id) {
                    self.server_received(id, plain);
                }
            }
            Asker::Cancel(id) => self.send_cancel(id),
        }
    }

    fn handshake_failed(&mut self, asker: Asker, fault: &TlsFault) {
        self.end_handshake(asker, &format!("TLS handshake failed: {fault}"));
    }

    fn end_handshake(&mut self, asker: Asker, reason: &str) {
        match asker {
            Asker::Client(id) => self.client_not_secured(id, reason),
            Asker::Server(id) => self.server_not_secured(id, reason),
            Asker::Cancel(id) => {
                tracing::warn!("cancel request could not be sent: {reason}");
                self.cancel_over(id, false);
            }
        }
    }

    /// Returns a handshake of the asker, if it is still in progress.
    fn securing(&mut self, asker: Asker) -> Option<(Key, &mut Securing)> {
        match asker {
            Asker::Client(id) => {
                let client = self.tables.clients.get_mut(id)?;
                match &mut client.phase {
                    Phase::Securing(securing) => Some((client.key, securing)),
                    _ => None,
                }
            }
            Asker::Server(id) => {
                let server = self.tables.servers.get_mut(id)?;
                match &mut server.stage {
                    Stage::Securing(securing) => Some((server.key, securing)),
                    _ => None,
                }
            }
            Asker::Cancel(id) => {
                let canceller = self.tables.cancellers.get_mut(id)?;
                match &mut canceller.carrying {
                    Carrying::Securing(securing) => Some((canceller.key, securing)),
                    _ => None,
                }
            }
        }
    }
}
