//! Logins to servers that fail: the next host, the log, and those who wait.

use slotmap::Key as _;
use weir_pool::FailureKind;
use weir_session::login::LoginFault;
use weir_wire::backend::ErrorFields;

use super::Worker;
use super::ids::ServerId;
use crate::driver::{Driver, Key};
use crate::global::{LastError, lock};

impl<D: Driver> Worker<D> {
    pub(super) fn login_timed_out(&mut self, id: ServerId) {
        let error = LastError {
            text: "connect timeout".to_owned(),
            body: None,
        };
        self.login_failed(id, error, FailureKind::Timeout);
    }

    pub(super) fn login_fault(&mut self, id: ServerId, fault: &LoginFault) {
        let (error, kind) = match fault {
            LoginFault::Refused(body) => {
                if is_password_refused(body)
                    && let Some(server) = self.tables.servers.must_get(id)
                    && let Some(group) = self.tables.groups.must_get(server.group)
                {
                    group.global.forget_proofs();
                }
                refusal(body)
            }
            // Whatever listens there is no PostgreSQL that works.
            LoginFault::Frame(_)
            | LoginFault::Malformed(_)
            | LoginFault::OutOfPlace(_)
            | LoginFault::TooManyReported(_) => {
                let text = format!("server login failed: {fault}");
                return self.login_unfit(id, LastError { text, body: None });
            }
            _ => (
                LastError {
                    text: format!("server login failed: {fault}"),
                    body: None,
                },
                FailureKind::Rejected,
            ),
        };
        self.login_failed(id, error, kind);
    }

    /// Tries the next address of the host, else the next host, if one is left and may behave differently. It gets the
    /// full connect time.
    fn try_next_host(&mut self, id: ServerId, kind: FailureKind) -> bool {
        let Some(server) = self.tables.servers.must_get_mut(id) else {
            return false;
        };
        if matches!(kind, FailureKind::Local | FailureKind::Rejected) {
            return false;
        }
        let lane_id = server.lane;
        let targets = std::mem::take(&mut server.targets);
        let mut next = None;
        if targets.is_empty() {
            let lane = self.tables.lanes.must_get_mut(lane_id);
            next = lane.and_then(|lane| lane.shard.next_host(self.now, id.into(), kind));
            if next.is_none() {
                return false;
            }
        }
        self.driver
            .close(std::mem::replace(&mut server.key, Key::null()));
        server.input = Vec::new();
        server.facts.tls = None;
        (server.outgoing, server.end_point) = (None, None);
        let timeout = self.global.settled().settings.global.server_connect_timeout;
        self.arm_server(id, timeout);
        match next {
            Some(host) => {
                self.dial(id, host);
                self.pump(lane_id);
            }
            None => self.try_targets(id, targets),
        }
        true
    }

    /// Logs a failed login as PgBouncer does: the server's message has a line of its own.
    fn log_failed_login(&self, id: ServerId, text: &str) {
        let name = self.tables.server_name(id);
        let connected_at = self
            .tables
            .servers
            .must_get(id)
            .map(|it| it.facts.connected_at);
        let age = connected_at.map_or(0, |since| self.now.since(since).as_secs());
        if !text.starts_with("server login failed") {
            tracing::warn!("{name} closing because: {text} (age={age}s)");
            return;
        }
        tracing::warn!("{name} {text}");
        if self.global.settled().settings.global.log_disconnections {
            tracing::info!("{name} closing because: login failed (age={age}s)");
        }
    }

    /// Handles a server connection that failed before it could be used.
    pub(super) fn login_failed(&mut self, id: ServerId, error: LastError, kind: FailureKind) {
        self.log_failed_login(id, &error.text);
        self.count_failed_login(id, &error);
        if !self.try_next_host(id, kind) {
            self.login_over(id, error, kind);
        }
    }

    /// Does the same for a host that is not as it has to be: it lacks the TLS that is required, or does not speak the
    /// protocol. Waiting changes nothing about it, but the pool's next host may differ.
    pub(super) fn login_unfit(&mut self, id: ServerId, error: LastError) {
        self.log_failed_login(id, &error.text);
        self.count_failed_login(id, &error);
        if !self.try_next_host(id, FailureKind::Refused) {
            self.login_over(id, error, FailureKind::Rejected);
        }
    }

    fn login_over(&mut self, id: ServerId, error: LastError, kind: FailureKind) {
        let kind = self.tables.kind_for_owner(id, &error, kind);
        self.arm_server(id, None);
        let Some(server) = self.tables.servers.must_remove(id) else {
            return;
        };
        self.driver.close(server.key);
        let Some(lane) = self.tables.lanes.must_get_mut(server.lane) else {
            return;
        };
        match (kind, &error.body) {
            (FailureKind::Temporary, Some(body)) => lane.count_refusal(refusal_code(body)),
            (FailureKind::Refused | FailureKind::Timeout, _) => lane.count_unreachable(),
            _ => {}
        }
        let is_temporary = kind == FailureKind::Temporary;
        // No client fails because of a temporary error, so it must not explain another client's failure.
        if !is_temporary {
            *lock(&lane.global.last_error) = Some(error.clone());
        }
        lane.shard.connect_failed(self.now, id.into(), kind);
        // It explains why clients wait.
        if kind != FailureKind::Rejected {
            lane.global.postpone(self.now, error.text);
        }
        self.pump(server.lane);
    }
}

/// True if a server refused our password or proof.
fn is_password_refused(body: &[u8]) -> bool {
    let fields = ErrorFields::parse(body).ok();
    fields.and_then(|fields| fields.get(b'C')) == Some(b"28P01")
}

/// Returns the error and the kind of failure that a server's refusal means (hazard COR-50).
fn refusal(body: &[u8]) -> (LastError, FailureKind) {
    let fields = ErrorFields::parse(body).ok();
    let text = fields
        .and_then(|fields| fields.message())
        .map(String::from_utf8_lossy);
    let text = format!("server login failed: FATAL {}", text.unwrap_or_default());
    let code = fields
        .and_then(|fields| fields.get(b'C'))
        .unwrap_or_default();
    let kind = match code {
        // Shut down, crashed, cannot connect now, too many connections: the next login may succeed.
        b"57P01" | b"57P02" | b"57P03" | b"53300" => FailureKind::Temporary,
        _ => FailureKind::Rejected,
    };
    (
        LastError {
            text,
            body: Some(body.into()),
        },
        kind,
    )
}

pub(super) fn refusal_code(body: &[u8]) -> Option<weir_wire::sqlstate::SqlState> {
    ErrorFields::parse(body).ok()?.sqlstate()
}

/// True if the error is our own shortage and not the host's fault (hazard COR-44).
pub(super) fn is_local(error: &std::io::Error) -> bool {
    // EMFILE, ENFILE, ENOMEM, EADDRNOTAVAIL
    matches!(error.raw_os_error(), Some(23 | 24 | 12 | 99))
}
