//! TLS handshakes of clients, servers and cancels. Helper threads compute their steps: a signature or a certificate
//! chain takes as long as a hundred queries (DESIGN part 5), and no query waits for one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use weir_tls::session::{HANDSHAKE_LEN_MAX, TlsFault};

use super::Worker;
use super::cancel::Carrying;
use super::slots::{Phase, Stage};
use crate::driver::{Driver, Key};
use crate::mailbox::{Asker, Message};
use crate::tls::{Advanced, Handshake, Progress, Session};

/// Handshake in progress.
pub(super) struct Securing {
    /// State of the handshake; none while a helper has it.
    handshake: Option<Handshake>,
    /// Bytes that came in while a helper had the handshake.
    input: Vec<u8>,
}

impl Securing {
    /// Returns a new handshake. [`Worker::advance_handshake`] may take its first step.
    pub(super) fn new(handshake: Handshake) -> Self {
        Self {
            handshake: Some(handshake),
            input: Vec::new(),
        }
    }
}

impl<D: Driver> Worker<D> {
    /// Continues a handshake with these bytes; no bytes for the first step.
    pub(super) fn advance_handshake(&mut self, asker: Asker, bytes: &[u8]) {
        let Some((_, securing)) = self.securing(asker) else {
            return;
        };
        if securing.input.len() + bytes.len() > HANDSHAKE_LEN_MAX {
            return self.handshake_failed(asker, &TlsFault::TooLong);
        }
        securing.input.extend_from_slice(bytes);
        let Some(handshake) = securing.handshake.take() else {
            return;
        };
        let input = std::mem::take(&mut securing.input);
        let (global, worker) = (Arc::clone(&self.global), self.number);
        let job = move || {
            // A bug must not leave the connection waiting for an answer that never comes.
            let advanced = catch_unwind(AssertUnwindSafe(|| handshake.advance(&input)));
            let advanced = advanced.unwrap_or_else(|_| Advanced {
                output: Vec::new(),
                progress: Err(TlsFault::Bug),
            });
            if let Some(mailbox) = global.mailbox(worker) {
                mailbox.send_waiting(Message::Handshake {
                    asker,
                    advanced: Box::new(advanced),
                });
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
                securing.handshake = Some(handshake);
                let has_more = !securing.input.is_empty();
                self.driver.send(key, &advanced.output);
                if has_more {
                    self.advance_handshake(asker, &[]);
                }
            }
            Ok(Progress::Done(mut session, mut plain)) => {
                let mut behind = std::mem::take(&mut securing.input);
                self.driver.send(key, &advanced.output);
                if let Err(fault) = self.open_behind(key, &mut session, &mut behind, &mut plain) {
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

    /// Opens the records that came in while a helper had the handshake.
    fn open_behind(
        &mut self,
        key: Key,
        session: &mut Session,
        behind: &mut Vec<u8>,
        plain: &mut Vec<u8>,
    ) -> Result<(), TlsFault> {
        if behind.is_empty() {
            return Ok(());
        }
        let mut partial = vec![0; HANDSHAKE_LEN_MAX];
        let len = session.take_partial(&mut partial);
        partial.truncate(len);
        partial.append(behind);
        let (mut opened, mut answer) = (vec![0; partial.len()], Vec::new());
        let outcome = session.open(&mut partial, &mut opened, &mut answer);
        if !answer.is_empty() {
            self.driver.send(key, &answer);
        }
        plain.extend_from_slice(opened.get(..outcome?.len).unwrap_or_default());
        Ok(())
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
