//! Start of a new connection to PostgreSQL: TLS, if the settings ask for it. Servers and cancels share this code, so
//! that a cancel is as protected as the query it is for (hazard SEC-04).
//!
//! ```text
//! connected ──(no TLS)────────────────────────────────► first message
//!    ├──SSLRequest──► S ──handshake───────────────────► first message
//!    │               └► N ──(only if TLS may be missing)► first message
//!    └──(sslnegotiation = direct)──handshake──────────► first message
//! ```

use std::sync::Arc;

use weir_pool::FailureKind;
use weir_tls::end_point::end_point;
use weir_tls::session::TlsFault;

use super::cancel::Carrying;
use super::ids::{CancellerId, ServerId};
use super::slots::{Address, Stage};
use super::tables::Tables;
use super::{Missing, Worker};
use crate::driver::Driver;
use crate::global::LastError;
use crate::mailbox::Asker;
use crate::moved::Secured;
use crate::securing::{Answer, Securing, answer, request};
use crate::socket::Target;
use crate::tls::Session;
use crate::transport::{NoSuchSettings, Outgoing};

/// Returns a new handshake with the host of a target.
fn handshake(outgoing: &Outgoing, target: &Target) -> Result<Box<Securing>, TlsFault> {
    Ok(Box::new(Securing::new(outgoing.handshake(target)?)))
}

impl<D: Driver> Worker<D> {
    // --- servers ---

    /// Starts TLS or the login on a server connection that has been made.
    pub(super) fn server_connected(&mut self, id: ServerId) {
        if let Some(server) = self.tables.servers.must_get_mut(id) {
            let port = server.facts.target.endpoint().port;
            server.facts.local = self.driver.local(server.key, port);
        }
        if self.global.settled().settings.global.log_connections {
            self.tables.log_connection(id);
        }
        match self.outgoing(id) {
            Err(NoSuchSettings) => {
                self.not_agreed(id, "the TLS settings of this pool are not in force");
            }
            Ok(None) => self.begin_login(id),
            Ok(Some(outgoing)) if outgoing.is_direct() => self.secure_server(id, outgoing),
            Ok(Some(outgoing)) => {
                let Some(server) = self.tables.servers.must_get_mut(id) else {
                    return;
                };
                server.stage = Stage::Negotiating(outgoing);
                self.driver.send(server.key, &request());
            }
        }
    }

    /// Returns the TLS settings of the pool for this connection. Sockets of this machine need none.
    fn outgoing(&self, id: ServerId) -> Result<Option<Arc<Outgoing>>, NoSuchSettings> {
        let server = self.tables.servers.must_get(id).ok_or(NoSuchSettings)?;
        let group = self
            .tables
            .groups
            .must_get(server.group)
            .ok_or(NoSuchSettings)?;
        match server.facts.target {
            Target::Tcp(..) => self.global.settled().outgoing(&group.settings.tls),
            Target::Unix(..) | Target::Abstract(..) => Ok(None),
        }
    }

    /// Handles a server's answer to the request for TLS.
    pub(super) fn negotiation_input(&mut self, id: ServerId, input: &[u8]) -> usize {
        let Some(server) = self.tables.servers.must_get_mut(id) else {
            return input.len();
        };
        let Stage::Negotiating(outgoing) = &server.stage else {
            self.global.broken.report(Missing::State);
            return input.len();
        };
        let outgoing = Arc::clone(outgoing);
        match answer(input) {
            Answer::Yes => self.secure_server(id, outgoing),
            Answer::No if outgoing.is_required() => {
                self.server_not_secured(id, "server does not support SSL, but SSL was required");
            }
            Answer::No => self.begin_login(id),
            Answer::Strange(text) => self.not_agreed(id, text),
        }
        input.len()
    }

    fn secure_server(&mut self, id: ServerId, outgoing: Arc<Outgoing>) {
        let Some(server) = self.tables.servers.must_get_mut(id) else {
            return;
        };
        match handshake(&outgoing, &server.facts.target) {
            Ok(securing) => {
                server.outgoing = Some(outgoing);
                server.stage = Stage::Securing(securing);
                self.advance_handshake(Asker::Server(id), &[]);
            }
            Err(fault) => self.server_not_secured(id, &format!("TLS handshake failed: {fault}")),
        }
    }

    fn not_agreed(&mut self, id: ServerId, reason: &str) {
        let error = LastError {
            text: reason.to_owned(),
            body: None,
        };
        self.login_failed(id, error, FailureKind::Refused);
    }

    /// Handles a server that lacks TLS, or with which no handshake succeeds.
    pub(super) fn server_not_secured(&mut self, id: ServerId, reason: &str) {
        let error = LastError {
            text: reason.to_owned(),
            body: None,
        };
        self.login_unfit(id, error);
    }

    // --- cancels ---

    /// Starts TLS or sends the cancel on a connection that has been made for it.
    pub(super) fn cancel_connected(&mut self, id: CancellerId) {
        let Some(canceller) = self.tables.cancellers.must_get_mut(id) else {
            return;
        };
        match canceller.tls.clone() {
            None => self.send_cancel(id),
            Some(outgoing) if outgoing.is_direct() => self.secure_cancel(id, &outgoing),
            Some(_) => {
                canceller.carrying = Carrying::Negotiating;
                self.driver.send(canceller.key, &request());
            }
        }
    }

    /// Handles bytes on a cancel's connection. They matter only before the cancel is sent.
    pub(super) fn cancel_received(&mut self, id: CancellerId, input: &[u8]) {
        let Some(canceller) = self.tables.cancellers.must_get_mut(id) else {
            return;
        };
        let asker = Asker::Cancel(id);
        match (&canceller.carrying, canceller.tls.clone()) {
            (Carrying::Negotiating, Some(outgoing)) => match answer(input) {
                Answer::Yes => self.secure_cancel(id, &outgoing),
                // Only a cancel to a peer may go without TLS. The query's connection to a server has TLS, so its cancel
                // has it too, or is not sent.
                Answer::No if canceller.may_be_plain() && !outgoing.is_required() => {
                    self.send_cancel(id);
                }
                Answer::No | Answer::Strange(_) => {
                    tracing::warn!(
                        "cancel request could not be sent: the other side refused TLS, which this connection requires"
                    );
                    self.cancel_over(id, false);
                }
            },
            (Carrying::Securing(_), _) => self.advance_handshake(asker, input),
            _ => {}
        }
    }

    fn secure_cancel(&mut self, id: CancellerId, outgoing: &Outgoing) {
        let Some(canceller) = self.tables.cancellers.must_get_mut(id) else {
            return;
        };
        match handshake(outgoing, &canceller.target) {
            Ok(securing) => {
                canceller.carrying = Carrying::Securing(securing);
                self.advance_handshake(Asker::Cancel(id), &[]);
            }
            Err(fault) => {
                tracing::warn!("cancel request could not be sent: {fault}");
                self.cancel_over(id, false);
            }
        }
    }
}

impl Tables {
    /// Writes PgBouncer's line for a new connection; the line names the local address if there is one.
    fn log_connection(&self, id: ServerId) {
        let name = self.server_name(id);
        let local = self.servers.must_get(id).map(|server| &server.facts.local);
        match local.filter(|local| !local.address.is_empty() && local.address != "unix") {
            Some(local) => {
                let from = Address(local, 0);
                tracing::info!("{name} new connection to server (from {from})");
            }
            None => tracing::info!("{name} new connection to server"),
        }
    }

    /// Notes what protects a server whose handshake is done.
    pub(super) fn server_secured(&mut self, id: ServerId, session: &Session) {
        let Some(server) = self.servers.must_get_mut(id) else {
            return;
        };
        server.facts.tls = server.outgoing.take().map(|outgoing| Secured {
            outgoing,
            protection: session.protection(),
        });
        server.end_point = session
            .peer_certificate()
            .and_then(|certificate| end_point(certificate));
    }
}
