//! Release of a server after a lease: the server goes back to the pool, is reset or tested, or is closed.

use slotmap::Key as _;
use weir_pool::Checkin;
use weir_session::client::Client as Session;
use weir_session::relay::{self, ServerFault};
use weir_session::splice::Splice;
use weir_wire::backend::ErrorFields;
use weir_wire::sqlstate::SqlState;

use super::client::Leaving;
use super::ids::{ClientId, LaneId, ServerId, Waiter};
use super::keeping::Kept;
use super::server::Lost;
use super::slots::{Client, Phase, Server, Stage, Test};
use super::tables::Tables;
use super::{Worker, trim};
use crate::driver::Driver;

/// Time that work has to finish if its client sent a Terminate behind it, counted from when the work was sent.
///
/// PostgreSQL reads a Terminate only after the work before it, so an application may send both and leave. Older work is
/// not waited for: its client gave it up, and others need the server.
const FINISH_MAX: std::time::Duration = std::time::Duration::from_secs(1);

/// Time that an abandoned server has to become free once its work is cancelled. The server is closed after it.
const DRAIN_MAX: std::time::Duration = std::time::Duration::from_secs(1);

/// Interval at which a cancel is sent again: PostgreSQL ignores a cancel that comes before its query.
const CANCEL_AGAIN: std::time::Duration = std::time::Duration::from_millis(200);

/// Maximum time for a check or reset query of our own.
const TEST_MAX: std::time::Duration = std::time::Duration::from_secs(15);

/// Task that is put off until the current event is handled.
pub(super) enum Later {
    /// Handle what this client has sent.
    Input(ClientId),
    /// Release this server.
    Release(ServerId),
}

impl<D: Driver> Worker<D> {
    /// Unlinks a free server and gives it to the pool.
    pub(super) fn release(&mut self, server_id: ServerId) {
        let Some(server) = self.tables.servers.must_get_mut(server_id) else {
            return;
        };
        let id = server.lease.take();
        let mut returns = None;
        if let Some(client) = id.and_then(|id| self.tables.clients.must_get_mut(id)) {
            client.lease = None;
            server.is_used |= client.session.pin().is_some();
            returns = id.filter(|_| client.away.is_some());
        }
        if let Some(id) = returns {
            self.come_home(id);
        }
        self.put_back(server_id);
    }

    /// Releases a server as [`Worker::release`], but after the current event. A caller may be serving a client because
    /// of another release; the delay keeps a long queue from becoming a deep stack.
    pub(super) fn release_later(&mut self, server_id: ServerId) {
        self.later.push_back(Later::Release(server_id));
    }

    /// Handles what a client has sent, after the releases that were put off before.
    pub(super) fn take_input_later(&mut self, id: ClientId) {
        self.later.push_back(Later::Input(id));
    }

    /// Carries out what was put off.
    pub(super) fn run_later(&mut self) {
        while let Some(task) = self.later.pop_front() {
            let server_id = match task {
                Later::Release(id) => id,
                Later::Input(id) => {
                    self.take_input(id);
                    continue;
                }
            };
            // The server may have been closed, or got another client, since then.
            let free = self.tables.servers.get(server_id).is_some_and(|server| {
                server.lease.is_none()
                    && matches!(server.stage, Stage::Leased)
                    && server.session.is_free()
            });
            let is_unread = self
                .tables
                .servers
                .get(server_id)
                .is_some_and(|server| !server.input.is_empty());
            if free && is_unread {
                // A message that was not asked for has begun to arrive: no client may get this server.
                self.close_server(server_id, "idle server got dirty");
            } else if free {
                self.put_back_when_sent(server_id);
            }
        }
    }

    /// Puts a free server back as soon as all bytes to it are sent, and closes it if that takes too long. Its client
    /// may have left before the last of them.
    fn put_back_when_sent(&mut self, server_id: ServerId) {
        let Some(server) = self.tables.servers.must_get_mut(server_id) else {
            return;
        };
        if self.driver.is_drained(server.key) {
            return self.put_back(server_id);
        }
        self.clean(server_id);
    }

    /// Puts a server back once it is free. If that takes too long, the server is closed.
    pub(super) fn clean(&mut self, server_id: ServerId) {
        let Some(server) = self.tables.servers.must_get_mut(server_id) else {
            return;
        };
        server.stage = Stage::Cleaning;
        server.cleaning_until = Some(self.now.plus(DRAIN_MAX));
        self.arm_server(server_id, Some(DRAIN_MAX));
    }

    /// Puts back an abandoned server whose last bytes are sent, if it is free.
    pub(super) fn put_back_abandoned(&mut self, server_id: ServerId) {
        let server = self.tables.servers.must_get(server_id);
        let is_abandoned = |server: &Server| matches!(server.stage, Stage::Cleaning);
        if server.is_some_and(|server| is_abandoned(server) && server.session.is_free()) {
            self.arm_server(server_id, None);
            self.put_back(server_id);
        }
    }

    /// Takes a free server through all steps before its next client: cancels on their way, then the reset.
    fn put_back(&mut self, server_id: ServerId) {
        let Some(mut server) = self.tables.servers.must_get_mut(server_id) else {
            return;
        };
        debug_assert!(
            server.session.is_free(),
            "promise 1: only a free server goes back"
        );
        debug_assert!(
            self.driver.is_drained(server.key),
            "promise 1: a server goes back when all bytes to it are sent"
        );
        // The reasons for which the server was stopped were those of its client.
        self.driver.clear_reasons(server.key);
        if server.kept != Kept::No {
            self.tables.unkeep(self.now, server_id);
            let Some(again) = self.tables.servers.must_get_mut(server_id) else {
                return;
            };
            server = again;
        }
        let (Some(group), Some(lane)) = (
            self.tables.groups.must_get(server.group),
            self.tables.lanes.must_get_mut(server.lane),
        ) else {
            return;
        };
        if server.cancels > 0 {
            server.stage = Stage::BeingCancelled;
            lane.shard.test_started(server_id.into());
            let wait = self.global.settled().settings.global.cancel_wait_timeout;
            return self.arm_server(server_id, wait);
        }
        if let Some(reason) = server.doomed {
            return self.close_server(server_id, reason);
        }
        if server.session.is_spoiled() {
            return self.close_server(server_id, "session state that nothing takes away");
        }
        if server.is_used || group.reset_always {
            let is_session = group.settings.pool_mode == weir_config::PoolMode::Session;
            let settled = self.global.settled();
            match settled.settings.global.server_reset_query.as_str() {
                // The administrator wants no reset; but the state that pinned a client must not reach the next client.
                "" if is_session || !server.is_used => {}
                "" => return self.close_server(server_id, "no server_reset_query"),
                query => return self.test_server(server_id, Test::Reset, query),
            }
        }
        self.check_in(server_id);
    }

    /// Gives a free, clean server to the pool. A server in a state that must not be is closed.
    pub(super) fn check_in(&mut self, server_id: ServerId) {
        let Some(server) = self.tables.servers.must_get(server_id) else {
            return;
        };
        if let Err(unfit) = server.session.check_rest() {
            self.global.broken.report_unfit(unfit);
            return self.close_server(server_id, "a bug was hit");
        }
        if self.looks_again(server_id, server.group) {
            return;
        }
        let Some(server) = self.tables.servers.must_get_mut(server_id) else {
            return;
        };
        server.is_used = false;
        server.is_new = false;
        server.stage = Stage::Idle;
        let lane_id = server.lane;
        if server.is_role_doubtful && self.ask_role(server_id, None) {
            return;
        }
        let Some(lane) = self.tables.lanes.must_get_mut(lane_id) else {
            return;
        };
        match lane.shard.checkin(self.now, server_id.into()) {
            // The server is marked as idle already.
            Checkin::Idle => {}
            verdict => self.place(server_id, verdict),
        }
        self.pump(lane_id);
    }

    /// Carries out the pool's decision about a server.
    pub(super) fn place(&mut self, server_id: ServerId, verdict: Checkin) {
        match verdict {
            Checkin::Idle => {
                if let Some(server) = self.tables.servers.must_get_mut(server_id) {
                    server.stage = Stage::Idle;
                    server.is_new = false;
                }
            }
            Checkin::Assigned(client) => {
                let waiter = self.tables.waiter_for(server_id, client);
                self.start_idle(waiter, server_id);
            }
            Checkin::AssignedCheck(client) => {
                let waiter = self.tables.waiter_for(server_id, client);
                self.check_before_use(waiter, server_id);
            }
            Checkin::Close(reason) => {
                let reason = reason.to_string();
                self.close_server(server_id, &reason);
            }
            Checkin::HandOver { lane: worker } => self.hand_over(server_id, worker, false),
        }
    }

    /// Sends a server a query of our own, before or after a client uses it.
    pub(super) fn test_server(&mut self, server_id: ServerId, test: Test, query: &str) {
        let Some(server) = self.tables.servers.must_get_mut(server_id) else {
            return;
        };
        let mut message = Vec::new();
        let asked = match test {
            Test::Role(_) => server.session.ask_aloud(query, &mut message),
            _ => server.session.ask(query, &mut message),
        };
        if asked.is_err() {
            return self.close_server(server_id, "query cannot be sent");
        }
        server.stage = Stage::Testing(test);
        self.driver.send(server.key, &message);
        if test != Test::Connect
            && let Some(lane) = self.tables.lanes.must_get_mut(server.lane)
        {
            lane.shard.test_started(server_id.into());
        }
        self.arm_server(server_id, Some(TEST_MAX));
    }

    /// Checks a server that was idle for long. The client waits for the check.
    pub(super) fn check_before_use(&mut self, waiter: Waiter, server_id: ServerId) {
        if let Waiter::Client(client) = waiter
            && self.checks_role(client, server_id)
        {
            return;
        }
        let settled = self.global.settled();
        match settled.settings.global.check_query() {
            Some(query) => self.check_with(waiter, server_id, query),
            None => self.start_idle(waiter, server_id),
        }
    }

    pub(super) fn check_with(&mut self, waiter: Waiter, server_id: ServerId, query: &str) {
        if let Waiter::Client(client) = waiter
            && let Some(client) = self.tables.clients.must_get_mut(client)
        {
            client.ticket = None;
            client.lease = Some(server_id);
        }
        self.test_server(server_id, Test::Check(waiter), query);
    }

    /// Handles replies of a server that is being tested or cleaned. No client sees them.
    pub(super) fn server_replied_to_us(&mut self, server_id: ServerId, input: &[u8]) -> usize {
        let Some(server) = self.tables.servers.must_get_mut(server_id) else {
            return input.len();
        };
        let mut buffer = std::mem::take(&mut self.to_client);
        let mut unseen = Splice::new(input, &mut buffer);
        let result = relay::replies(&mut self.nobody, &mut server.session, input, &mut unseen);
        if matches!(server.stage, Stage::Testing(Test::Role(_))) {
            server.answer.extend_from_slice(unseen.finish());
        }
        trim(&mut buffer);
        self.to_client = buffer;
        if self.nobody.statement_count() > 0 || self.nobody.pin().is_some() {
            // Statements come back if a Close was skipped, and answers about a session may be late. Both are dropped.
            self.nobody = Session::default();
        }
        match result {
            Ok(replied) => {
                self.tables
                    .hear(server_id, input.get(..replied.consumed).unwrap_or(input));
                if replied.consumed == input.len() {
                    self.after_our_request(server_id);
                }
                replied.consumed
            }
            Err(fault) => {
                self.server_fault(server_id, &fault);
                input.len()
            }
        }
    }

    /// Cancels what an abandoned server still does, and closes the server when its time is over.
    pub(super) fn clean_on(&mut self, server_id: ServerId) {
        let Some(server) = self.tables.servers.must_get(server_id) else {
            return;
        };
        match server.cleaning_until {
            Some(until) if until <= self.now => {
                let reason = "client disconnected with query in progress";
                return self.close_server(server_id, reason);
            }
            _ => self.cancel_abandoned(server_id),
        }
        self.arm_server(server_id, Some(CANCEL_AGAIN));
    }

    /// Cancels an abandoned server's current request. If its client had sent more requests, PostgreSQL goes on as on a
    /// lost connection.
    fn cancel_abandoned(&mut self, server_id: ServerId) {
        let server = self.tables.servers.must_get(server_id);
        let may_cancel = server.is_some_and(|server| {
            server.cancels == 0 && server.session.is_busy() && server.session.is_at_last_request()
        });
        if may_cancel {
            self.cancel_server(server_id, None);
        }
    }

    fn after_our_request(&mut self, server_id: ServerId) {
        let Some(server) = self.tables.servers.must_get_mut(server_id) else {
            return;
        };
        if server.session.is_dying() {
            return self.close_server(server_id, "server closed");
        }
        if !server.session.is_free() {
            // The replies are complete, but a transaction is still open.
            let mut message = Vec::new();
            if matches!(server.stage, Stage::Cleaning)
                && server.session.is_quiet_and_synced()
                && server.session.roll_back(&mut message)
            {
                self.driver.send(server.key, &message);
            }
            return;
        }
        server.session.settle();
        let lane_id = server.lane;
        let stage = std::mem::replace(&mut server.stage, Stage::Idle);
        self.arm_server(server_id, None);
        match stage {
            Stage::Cleaning => self.put_back_when_sent(server_id),
            Stage::Testing(Test::Reset) => {
                if let Some(server) = self.tables.servers.must_get_mut(server_id) {
                    server.session.was_reset();
                }
                self.tables.test_passed(lane_id, server_id);
                self.check_in(server_id);
            }
            Stage::Testing(Test::Ping) => {
                self.tables.test_passed(lane_id, server_id);
                self.put_back_when_sent(server_id);
            }
            Stage::Testing(Test::Check(waiter)) => {
                self.tables.test_passed(lane_id, server_id);
                self.start(waiter, server_id);
            }
            Stage::Testing(Test::Role(client)) => self.role_answered(server_id, client),
            Stage::Testing(Test::Connect) => self.server_is_up(server_id),
            Stage::Testing(Test::Load { is_new: true }) => {
                self.looked(server_id, Test::Load { is_new: true });
                self.server_is_up(server_id);
            }
            Stage::Testing(test @ (Test::Look | Test::Load { .. })) => {
                self.tables.test_passed(lane_id, server_id);
                if !self.looked(server_id, test) {
                    self.put_back_when_sent(server_id);
                }
            }
            other => {
                if let Some(server) = self.tables.servers.must_get_mut(server_id) {
                    server.stage = other;
                }
            }
        }
    }

    /// Takes care of a server whose client left while it held the server.
    pub(super) fn abandon_server(
        &mut self,
        server_id: ServerId,
        client: &Client,
        leaving: Leaving,
    ) {
        use weir_session::server::Abandoned;
        let Some(server) = self.tables.servers.must_get_mut(server_id) else {
            return;
        };
        server.lease = None;
        if let Stage::Testing(test) = &mut server.stage {
            // The server was only being checked for the client.
            *test = match test {
                Test::Role(_) => Test::Role(None),
                _ => Test::Ping,
            };
            return;
        }
        self.driver.clear_reasons(server.key);
        let mut message = Vec::new();
        match server.session.abandon(&client.session, &mut message) {
            Abandoned::Close => self.close_server(
                server_id,
                "client disconnect before everything was sent to the server",
            ),
            Abandoned::Free => {
                server.session.settle();
                server.is_used |= client.session.pin().is_some() || server.session.is_uncertain();
                self.release_later(server_id);
            }
            Abandoned::Drain { running } => {
                server.stage = Stage::Cleaning;
                server.is_used = true;
                self.driver.send(server.key, &message);
                let finishes_at = match leaving {
                    Leaving::Orderly if running => server.request_at.plus(FINISH_MAX),
                    _ => self.now,
                };
                let cancels_at = finishes_at.max(self.now);
                server.cleaning_until = Some(cancels_at.plus(DRAIN_MAX));
                if cancels_at > self.now {
                    let time = cancels_at.since(self.now);
                    return self.arm_server(server_id, Some(time));
                }
                if running {
                    self.cancel_abandoned(server_id);
                }
                self.arm_server(server_id, Some(CANCEL_AGAIN));
            }
        }
    }

    /// Handles a server that sent something unexpected, or refused our own request.
    pub(super) fn server_fault(&mut self, server_id: ServerId, fault: &ServerFault) {
        // Bytes passed on before the fault may have ended the client, and the server with it.
        let Some(server) = self.tables.servers.get_mut(server_id) else {
            return;
        };
        let reason = match (&server.stage, fault) {
            (Stage::Testing(test), ServerFault::Refused(_)) => test.failure().to_owned(),
            (Stage::Leased, ServerFault::Refused(_)) => "var change failed".to_owned(),
            _ => fault.to_string(),
        };
        let client = server.lease;
        let does_without = client.is_some_and(|client| {
            let server = self.tables.servers.must_get(server_id);
            server.is_some_and(|server| self.tables.does_without(client, &server.session))
        });
        if does_without {
            // The client is released when its connection to the server closes.
            return self.close_server(server_id, &reason);
        }
        let meets_others =
            client.is_some_and(|client| self.tables.meets_others(client, server_id, fault));
        let server = self.tables.servers.must_get_mut(server_id);
        let lost = server
            .as_ref()
            .map(|server| Lost::without_words(&server.session));
        if let Some(id) = server.and_then(|server| server.lease.take()) {
            match fault {
                ServerFault::Refused(_) if meets_others => {
                    self.close_server(server_id, &reason);
                    return self.wait_again(id);
                }
                ServerFault::Refused(body) => {
                    self.refuse_client(id, body, "invalid server parameter");
                }
                // Unlike a FATAL, the server's message does not tell the client that the connection ends.
                _ => self.lost_server(id, lost.unwrap_or(Lost::Undone)),
            }
        }
        // A worker that stops closes its servers with its last client.
        if self.tables.servers.contains(server_id) {
            self.close_server(server_id, &reason);
        }
    }
}

impl Tables {
    /// Returns the waiter with this number that gets this server.
    fn waiter_for(&self, server_id: ServerId, number: weir_pool::ClientId) -> Waiter {
        let server = self.servers.must_get(server_id);
        self.waiter(
            server.map_or_else(LaneId::null, |server| server.lane),
            number,
        )
    }

    pub(super) fn test_passed(&mut self, lane_id: LaneId, server_id: ServerId) {
        if let Some(lane) = self.lanes.must_get_mut(lane_id) {
            lane.shard.test_passed(server_id.into());
        }
    }

    /// True if a client that logs in met an earlier client's setting that may no longer be reset, because a privilege
    /// was taken away. Another server, at the latest a new one, has no such setting.
    fn meets_others(&self, id: ClientId, server_id: ServerId, fault: &ServerFault) -> bool {
        let (Some(client), Some(server)) =
            (self.clients.must_get(id), self.servers.must_get(server_id))
        else {
            return false;
        };
        let ServerFault::Refused(body) = fault else {
            return false;
        };
        let fields = ErrorFields::parse(body).ok();
        let is_denied = fields.as_ref().and_then(ErrorFields::sqlstate)
            == Some(SqlState::INSUFFICIENT_PRIVILEGE);
        let message = fields
            .and_then(|fields| fields.get(b'M'))
            .unwrap_or_default();
        let message = String::from_utf8_lossy(message).to_lowercase();
        // PostgreSQL names the setting, also as `set session authorization`.
        let names_own = client.session.settings().iter().any(|(name, _)| {
            let name = name.to_lowercase();
            message.contains(&name) || message.contains(&name.replace('_', " "))
        });
        matches!(client.phase, Phase::Welcome) && !server.is_new && is_denied && !names_own
    }
}
