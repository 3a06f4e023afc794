//! Clients: their arrival, the bytes they send, and their end.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use slotmap::Key as _;
use weir_session::fault::Fault;
use weir_session::relay;
use weir_stats::{Blame, ClientCounters};

use super::Worker;
use super::ids::ClientId;
use super::measure::code_of;
use super::proxied::first_phase;
use super::slots::{Client, Guards, Identity, Phase};
use super::tables::Tables;
use crate::driver::{Driver, Ending, Key, Owner, Why};
use crate::listen::Accepted;
use crate::mailbox::Message;

/// Bytes that a client may send ahead while it waits for a server or for the end of its login. The worker then stops
/// reading from it. No message of a login is as long.
pub(super) const AHEAD_MAX: usize = 64 * 1024;

/// Manner in which a client left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaving {
    /// The client sent Terminate: its earlier requests are finished, as PostgreSQL would.
    Orderly,
    /// The client vanished, or Weir ended it: its requests are cancelled.
    Lost,
}

impl<D: Driver> Worker<D> {
    /// Gives a connection that came in on a listener of this worker to the worker with the fewest clients.
    pub(super) fn accepted(&mut self, accepted: Box<Accepted>) {
        // The other workers may have ended.
        let worker = match self.ending.how() {
            None => self.global.least_loaded(self.number),
            Some(_) => self.number,
        };
        if let Some(load) = self.global.workers.loads.get(worker) {
            load.fetch_add(1, Ordering::Relaxed);
        }
        if worker == self.number {
            self.welcome_socket(*accepted);
            return;
        }
        if let Err(Message::Accepted(accepted)) = self.post(worker, Message::Accepted(accepted)) {
            self.move_load(worker, self.number);
            self.welcome_socket(*accepted);
        }
    }

    fn move_load(&self, from: usize, to: usize) {
        if let (Some(from), Some(to)) = (
            self.global.workers.loads.get(from),
            self.global.workers.loads.get(to),
        ) {
            from.fetch_sub(1, Ordering::Relaxed);
            to.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Adds a connection for this worker, already counted in its load. The client may have been ended at once.
    pub(super) fn welcome_socket(&mut self, accepted: Accepted) -> Option<ClientId> {
        let greeter = self.global.limits.greeters.try_enter();
        let number = self.global.next_id();
        let phase = first_phase(&self.global.settled(), &accepted);
        let nobody: Arc<str> = Arc::from("");
        let is_welcome = greeter.is_some();
        let is_unix = accepted.remote_uid.is_some();
        if self.ending.successor().is_some() {
            self.return_to_work();
        }
        let identity = Identity {
            user: Arc::clone(&nobody),
            database: nobody,
            remote: accepted.remote,
            local: accepted.local,
            remote_pid: accepted.remote_pid,
            remote_uid: accepted.remote_uid,
            is_loopback: accepted.is_loopback,
            tls: None,
            incoming: None,
            connected_at: self.now,
            guards: Guards {
                greeter,
                ..Guards::default()
            },
            cancel_pid: 0,
            long_key: false,
        };
        let now = self.now;
        let added = self.tables.clients.try_insert(|id| {
            let added = self.driver.add(accepted.stream, Owner::Client(id));
            added.map(|key| Client::new(key, number, phase, identity, now))
        });
        let Ok(id) = added else {
            self.lower_load();
            return None;
        };
        let timeout = self.global.settled().settings.global.client_login_timeout;
        self.arm_client(id, timeout.map(|timeout| self.now.plus(timeout)));
        if !is_welcome {
            self.fail_client(id, &Fault::TooManyClients("max_client_conn"));
        } else if self.ending.is_over()
            || (self.ending.has_begun() && self.ending.successor().is_none() && !is_unix)
        {
            self.fail_client(id, &Fault::ShuttingDown);
        }
        Some(id)
    }

    pub(super) fn lower_load(&self) {
        if let Some(load) = self.global.workers.loads.get(self.number) {
            load.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Handles bytes from a client, behind those that could not be handled before.
    pub(super) fn client_received(&mut self, id: ClientId, bytes: &[u8]) {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        // A client that logs in has no pool yet.
        if let Some(group) = self.tables.groups.get_mut(client.group) {
            group.counters.bytes_received += bytes.len() as u64;
            if matches!(client.phase, Phase::Ready) {
                let work = ClientCounters {
                    bytes_received: bytes.len() as u64,
                    ..ClientCounters::default()
                };
                self.tables.applications.count(client, work);
            }
        }
        let phase = std::mem::discriminant(&client.phase);
        let rewritten = self.rewrite(id, bytes);
        let bytes = rewritten.as_deref().unwrap_or(bytes);
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        if client.input.is_empty() {
            let taken = self.client_input(id, bytes);
            self.keep_input(id, bytes.get(taken..).unwrap_or_default());
            // Bytes behind a start-up packet or password belong to the next phase. Bytes behind a request that Weir
            // answered itself are handled as if they had come alone.
            let is_behind = taken > 0 && taken < bytes.len();
            let client = self.tables.clients.get(id);
            if is_behind
                || client.is_some_and(|client| std::mem::discriminant(&client.phase) != phase)
            {
                self.take_input(id);
            }
        } else {
            client.input.extend_from_slice(bytes);
            self.take_input(id);
        }
    }

    /// Handles a client's earlier input again, in every phase that the client enters.
    pub(super) fn take_input(&mut self, id: ClientId) {
        self.rewrite_first(id);
        // The input, or the caller, may have ended the client.
        while let Some(client) = self.tables.clients.get_mut(id) {
            let input = std::mem::take(&mut client.input);
            if input.is_empty() {
                return;
            }
            let phase = std::mem::discriminant(&client.phase);
            let taken = self.client_input(id, &input);
            let Some(client) = self.tables.clients.get_mut(id) else {
                return;
            };
            let went_on = std::mem::discriminant(&client.phase) != phase || taken > 0;
            if taken == 0 {
                client.input = input;
            } else if taken < input.len() {
                client.input = input.get(taken..).unwrap_or_default().to_vec();
            }
            self.hold_if_full(id);
            if !went_on {
                return;
            }
        }
    }

    /// Continues with input that may have waited for a reply that has now come.
    pub(super) fn end_stall(&mut self, id: ClientId) {
        if let Some(client) = self.tables.clients.must_get_mut(id) {
            client.stalled = false;
            self.take_input(id);
        }
    }

    /// Keeps input that could not be handled, in a copy of its own size, so that waiting clients stay small.
    fn keep_input(&mut self, id: ClientId, rest: &[u8]) {
        // The input may have ended the client.
        let Some(client) = self.tables.clients.get_mut(id) else {
            return;
        };
        if !rest.is_empty() {
            client.input = rest.to_vec();
            self.hold_if_full(id);
        }
    }

    /// Stops receiving from a client that has sent too much ahead, or receives from it again.
    fn hold_if_full(&mut self, id: ClientId) {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        let waits = client.ticket.is_some()
            || client.is_throttled()
            || client.stalled
            || client
                .subscriber
                .as_ref()
                .is_some_and(|subscriber| subscriber.is_waiting())
            || matches!(
                client.phase,
                Phase::Authenticating(_) | Phase::SeekingWalsender(_) | Phase::Welcome
            );
        let full = client.input.len() >= AHEAD_MAX && waits;
        if full {
            self.driver.stop(client.key, Why::Ahead);
        } else {
            self.driver.go(client.key, Why::Ahead);
        }
    }

    /// Handles a client's input in its phase. Returns the number of bytes handled.
    #[inline]
    fn client_input(&mut self, id: ClientId, input: &[u8]) -> usize {
        let Some(client) = self.tables.clients.must_get(id) else {
            return input.len();
        };
        match client.phase {
            Phase::Ready => self.ready_input(id, input),
            Phase::Replicating(_) => self.walsender_input(id, input),
            Phase::Opening(_) => self.opening_input(id, input),
            Phase::AwaitingHeader => self.header_input(id, input),
            Phase::Authenticating(_) => self.authentication_input(id, input),
            Phase::Console(_) => self.console_input(id, input),
            Phase::Securing(_) => self.securing_input(id, input),
            // Input before the greeting is kept for later, within limits.
            Phase::SeekingWalsender(_) | Phase::Welcome => 0,
            Phase::Cancelling => input.len(),
        }
    }

    /// Handles the end of a client's connection, closed by the other side or broken. The driver has dropped it already.
    pub(super) fn client_ended(&mut self, id: ClientId, ending: &Ending) {
        let reason = match &ending.error {
            None => "client unexpected eof".to_owned(),
            Some(error) => format!("client connection lost: {error}"),
        };
        // Where the client has not read its answers, PostgreSQL would fail to send them.
        if !ending.reasons.has(Why::Unread) && self.tables.has_said_goodbye(id) {
            return self.finish_requests(id);
        }
        self.remove_client(id, Leaving::Lost, &reason);
    }

    /// Lets the requests of a client without a connection run to their end, and drops their results. The Terminate
    /// behind them ends the client; its deadlines hold until then.
    fn finish_requests(&mut self, id: ClientId) {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        // The driver has dropped the connection, and may give its key to another one.
        client.key = Key::null();
        if let Some(server) = client
            .lease
            .and_then(|server| self.tables.servers.must_get(server))
        {
            // The server may have waited for the client to read.
            self.driver.go(server.key, Why::Partner);
        }
        tracing::debug!("a client has left; its server still executes its requests");
    }

    /// Sends a client an error and ends the client: all errors but that of a cancel are fatal.
    pub(super) fn fail_client(&mut self, id: ClientId, fault: &Fault) {
        let Some(client) = self.tables.clients.must_get(id) else {
            return;
        };
        let group_id = client.group;
        if self.global.settled().settings.global.log_pooler_errors {
            match fault.detail() {
                None => tracing::warn!("{client} pooler error: {}", fault.text()),
                Some(why) => tracing::warn!("{client} pooler error: {} ({why})", fault.text()),
            }
        }
        let mut message = Vec::new();
        if !fault.is_silent() {
            fault.encode(&mut message);
        }
        if !client.is_mirror {
            self.count_error(Blame::Pooler, Some(fault.code()));
        }
        let is_late = matches!(
            fault,
            Fault::QueryWaitTimeout | Fault::QueryWaitTimeoutServerDown(_)
        );
        if let Some(group) = self.tables.groups.get_mut(group_id).filter(|_| is_late) {
            group.counters.wait_timeouts += 1;
        }
        self.end_with(id, &message, &fault.text());
    }

    /// Sends a client its server's last message and ends the client.
    pub(super) fn end_client(&mut self, id: ClientId, message: &[u8], reason: &str) {
        if !self.tables.is_mirror(id) {
            self.count_error(Blame::Server, code_of(message));
        }
        self.end_with(id, message, reason);
    }

    fn end_with(&mut self, id: ClientId, message: &[u8], reason: &str) {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        // A client that logs in has no pool yet.
        if let Some(group) = self.tables.groups.get_mut(client.group) {
            group.counters.errors += 1;
            let work = ClientCounters {
                errors: 1,
                ..ClientCounters::default()
            };
            if matches!(client.phase, Phase::Ready) {
                self.tables.applications.count(client, work);
            }
        }
        let server = client
            .lease
            .and_then(|server| self.tables.servers.must_get(server));
        // No error can be sent in the middle of a message or of a TLS handshake, and none follows a server's FATAL.
        let is_mid_message =
            client.is_mid_stream() || server.is_some_and(|server| server.session.is_mid_message());
        let has_last_word = matches!(client.phase, Phase::Ready)
            && server.is_some_and(|server| server.session.is_dying());
        if !is_mid_message && !has_last_word && !matches!(client.phase, Phase::Securing(_)) {
            self.driver.send(client.key, message);
        }
        self.remove_client(id, Leaving::Lost, reason);
    }

    /// Removes a client from everything it takes part in.
    pub(super) fn remove_client(&mut self, id: ClientId, leaving: Leaving, reason: &str) {
        self.arm_client(id, None);
        if self
            .tables
            .clients
            .must_get(id)
            .is_some_and(|client| client.ticket.is_some())
        {
            // A client that gave up waited, too.
            self.tables.count_wait(self.now, id);
        }
        let Some(mut client) = self.tables.clients.must_remove(id) else {
            return;
        };
        self.driver.close(client.key);
        self.lower_load();
        if client.identity.cancel_pid != 0 {
            let place = self.place_of(id);
            self.global.unregister(client.identity.cancel_pid, place);
        }
        let logged_in = !matches!(
            client.phase,
            Phase::AwaitingHeader | Phase::Opening(_) | Phase::Cancelling | Phase::Securing(_)
        );
        if logged_in && self.global.settled().settings.global.log_disconnections {
            let age = self.now.since(client.identity.connected_at).as_secs();
            tracing::info!("{client} closing because: {reason} (age={age}s)");
        }
        if matches!(client.phase, Phase::Console(_)) {
            self.console_left(id);
        }
        self.stop_listening(id, &mut client);
        self.leave_throttle(id, client.throttled.take());
        let ticket = client.ticket.take();
        if let Some(ticket) = ticket
            && let Some(lane) = self.tables.lanes.must_get_mut(client.lane)
        {
            lane.shard.forget(ticket);
        }
        if client.phase.has_group()
            && let Some(group) = self.tables.groups.must_get_mut(client.group)
        {
            group.clients -= 1;
            self.tables.applications.leave(&mut client);
            self.tables.count_clients(self.now, client.group);
            if let Some(home) = &client.away {
                self.tables.count_lost(home);
                self.tables.count_clients(self.now, home.group());
            }
        }
        if let Some(server) = client.lease.take() {
            match &client.phase {
                Phase::Replicating(replicating) => self.part(server, replicating),
                _ => self.abandon_server(server, &client, leaving),
            }
        }
        self.leave_owned_lane(client.lane);
        // This comes last: its connection may be the last one that a stopping worker has waited for.
        self.forget_cancel(client.held_cancel.take());
        // A client that logs in has no group yet.
        if self.tables.lanes.contains(client.lane) {
            self.pump(client.lane);
        }
        self.finish_if_drained();
    }
}

impl Tables {
    /// True if the client's requests wait for a server or an answer, with a Terminate behind them. PostgreSQL would
    /// execute them before it reads the Terminate.
    fn has_said_goodbye(&self, id: ClientId) -> bool {
        let client = self.clients.must_get(id);
        client.is_some_and(|client| {
            matches!(client.phase, Phase::Ready)
                && relay::says_goodbye(&client.session, &client.input)
        })
    }
}
