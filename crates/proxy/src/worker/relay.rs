//! Leases: a client gets a server, messages pass, and the server is released. The hot path.

use std::sync::atomic::Ordering;

use weir_pool::{Checkout, Moment};
use weir_session::counted::Digesting;
use weir_session::fault::Fault;
use weir_session::relay::{self, Batch, Next, Replied};
use weir_session::splice::Splice;
use weir_session::statement::Registry;
use weir_sql::Shaper;
use weir_stats::{ClientCounters, Digests};
use weir_wire::backend::TransactionStatus;
use weir_wire::encode::EncodeError;

use super::changed::HURRIED;
use super::client::{AHEAD_MAX, Leaving};
use super::ids::{ClientId, ServerId, Waiter};
use super::keeping::Kept;
use super::measure::micros;
use super::ruling::ruling;
use super::slots::{Client, Group, Phase, Server, Stage};
use super::tables::{Link, Tables};
use super::throttle::Gate;
use super::{Worker, trim};
use crate::driver::{Driver, Flow, Why};
use crate::sizing::class_of;

/// Maximum replies that a server may owe a client before the worker stops reading from the client.
const REPLIES_MAX: usize = 16 * 1024;

impl<D: Driver> Worker<D> {
    /// Handles input of a logged-in client. Returns the number of bytes handled.
    #[inline]
    pub(super) fn ready_input(&mut self, id: ClientId, input: &[u8]) -> usize {
        let luck = self.luck();
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return input.len();
        };
        let lease = client.lease;
        if let Some(server) = lease.filter(|server| !self.lets_go(id, *server, input)) {
            return self.leased_input(id, server, input);
        }
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return input.len();
        };
        if client.ticket.is_some()
            || client.is_throttled()
            || client
                .subscriber
                .as_ref()
                .is_some_and(|subscriber| subscriber.is_waiting())
        {
            return 0;
        }
        if client.away.is_some() {
            self.come_home(id);
        }
        let mut at = 0;
        loop {
            let rest = input.get(at..).unwrap_or_default();
            let Some(seen) = self.answer_alone(id, rest, luck) else {
                return input.len();
            };
            at += seen.consumed;
            let batch = match seen.next {
                Next::More => return at,
                Next::Terminate => {
                    self.remove_client(id, Leaving::Orderly, "client close request");
                    return input.len();
                }
                Next::Lease(batch) => batch,
            };
            if let Some(taken) = self.listen_request(id, &batch) {
                return at + taken;
            }
            match self.throttle(id) {
                Gate::Open => {}
                Gate::Waits => return at,
                Gate::Refused => continue,
            }
            if self.leave_home(id) == Gate::Refused {
                continue;
            }
            let taken = self.lease_for(id, &batch);
            if taken == Some(0) && self.refuses_to_queue(id, &batch) {
                continue;
            }
            return taken.map_or(input.len(), |taken| at + taken);
        }
    }

    /// Asks for a server for a client's batch, and sends the batch. Returns the number of bytes handled; none if the client was
    /// ended.
    #[inline]
    fn lease_for(&mut self, id: ClientId, batch: &Batch<'_>) -> Option<usize> {
        self.tables.begin_request(self.now, id, batch);
        self.check_out_for(id, Some(batch));
        // The client is ended if no server can be had.
        let client = self.tables.clients.get(id)?;
        let Some(server) = client.lease.filter(|_| client.ticket.is_none()) else {
            return Some(0);
        };
        let leased = self.tables.servers.must_get(server);
        if leased.is_none_or(|server| server.lease != Some(id)) {
            // The server is being checked for the client, who waits for that.
            return Some(0);
        }
        Some(self.pass_requests(id, server, batch.input, true))
    }

    /// Begins a client's block anew with this input, which its replica does not get. Returns the number of bytes handled.
    #[cold]
    fn begin_anew(&mut self, id: ClientId, input: &[u8]) -> usize {
        let batch = Batch::scan(input);
        self.lease_for(id, &batch).unwrap_or(input.len())
    }

    /// True if a client's next request goes on without the server that the client keeps, which is released.
    #[inline]
    fn lets_go(&mut self, id: ClientId, server: ServerId, input: &[u8]) -> bool {
        self.lets_go_to_listen(id, server, input)
            || self.lets_go_to_read(id, server, input)
            || self.lets_go_away(id, server, input)
    }

    /// Handles input of a client that has a server or is about to get one. Returns the number of bytes handled.
    #[inline]
    fn leased_input(&mut self, id: ClientId, server: ServerId, input: &[u8]) -> usize {
        if self.tables.waits_to_listen(id) {
            return 0;
        }
        if self.goes_to_primary(id, server, input) {
            return self.begin_anew(id, input);
        }
        // The client waits while the server is being checked for it.
        let leased = self.tables.servers.must_get(server);
        let leased = leased.filter(|server| server.lease == Some(id));
        if leased.is_some_and(|server| server.is_cancelled_again) {
            self.tables.stall(id);
            return 0;
        }
        if leased.is_none()
            || self.tables.waits_for_answer(self.now, id, server, input)
            || self.waits_for_lsn(id, server, input)
        {
            return 0;
        }
        let was_sending = self.tables.is_sending(id);
        let taken = self.pass_requests(id, server, input, false);
        if was_sending && !self.tables.is_sending(id) {
            // The server has answered this message before its end: no reply follows that would free the server.
            self.after_rest(id, server);
        }
        let is_used = |server: &Server| server.kept != Kept::No && !server.session.is_free();
        // The server may be closed by now, or be with another worker.
        if self.tables.servers.get(server).is_some_and(is_used) {
            self.tables.unkeep(self.now, server);
        }
        taken
    }

    /// Releases a server that was free before the client's message was passed on to its end.
    #[cold]
    pub(super) fn after_rest(&mut self, id: ClientId, server_id: ServerId) {
        // The input may have ended the client and closed the server.
        let server = self.tables.servers.get(server_id);
        if server.is_some_and(|server| server.lease == Some(id)) {
            self.after_replies(id, server_id);
        }
    }

    /// Sends a client the answers that need no server. If the client does not read them, its input is paused.
    #[inline]
    pub(super) fn send_answers(&mut self, id: ClientId) {
        if self.answers.is_empty() {
            return;
        }
        let answers = std::mem::take(&mut self.answers);
        self.send_to_client(id, &answers);
        self.answers = answers;
    }

    /// Sends a client bytes of our own. If its socket does not take all of them, the client's requests wait until it
    /// does.
    pub(super) fn send_to_client(&mut self, id: ClientId, bytes: &[u8]) {
        let Some(client) = self.tables.clients.must_get(id) else {
            return;
        };
        if self.driver.send(client.key, bytes) == Flow::Full {
            self.driver.stop(client.key, Why::Unread);
        }
    }

    /// Asks the pool for a server. True if the client has one now.
    pub(super) fn check_out(&mut self, id: ClientId) -> bool {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return false;
        };
        let lane_id = client.lane;
        let Some(lane) = self.tables.lanes.must_get_mut(lane_id) else {
            return false;
        };
        client.wait_since = self.now;
        let granted = match lane.shard.checkout(self.now, id.into(), client.want()) {
            Checkout::Granted(server) => self.lease_idle(id, server.into()),
            Checkout::Check(server) => {
                self.check_before_use(Waiter::Client(id), server.into());
                false
            }
            Checkout::Queued(ticket) => {
                client.ticket = Some(ticket);
                tracing::debug!("{client} waits for a server");
                false
            }
            Checkout::FailFast => {
                if !self.waits_elsewhere(id) {
                    self.fail_for_server(id);
                }
                false
            }
        };
        self.pump(lane_id);
        granted
            && self
                .tables
                .clients
                .must_get(id)
                .is_some_and(|client| client.lease.is_some())
    }

    /// Starts a waiter as [`Worker::start`], with the same precautions as [`Worker::lease_idle`].
    pub(super) fn start_idle(&mut self, waiter: Waiter, server_id: ServerId) {
        if self.tables.is_owned(server_id) {
            return self.start(waiter, server_id);
        }
        if let Waiter::Client(id) = waiter
            && self.checks_role(id, server_id)
        {
            return;
        }
        if !self.has_news(server_id) {
            return self.start(waiter, server_id);
        }
        self.check_with(waiter, server_id, "");
    }

    #[inline]
    fn has_news(&self, server_id: ServerId) -> bool {
        let server = self.tables.servers.must_get(server_id);
        server.is_some_and(|server| self.driver.has_news(server.key))
    }

    /// Gives an idle server to a client. If unread bytes have come from the server, it may be dead and has to answer a
    /// check first (hazard COR-22).
    fn lease_idle(&mut self, id: ClientId, server_id: ServerId) -> bool {
        if self.has_news(server_id) {
            self.check_with(Waiter::Client(id), server_id, "");
            return false;
        }
        if self.checks_role(id, server_id) {
            return false;
        }
        self.tables.lease(self.now, id, server_id)
    }

    /// Gives a server to a waiter, and sends the input that the client has sent so far.
    pub(super) fn start(&mut self, waiter: Waiter, server: ServerId) {
        let id = match waiter {
            Waiter::Client(client) => client,
            Waiter::Listener(listener) => return self.listener_up(listener, server),
        };
        if self.tables.lease(self.now, id, server) {
            self.start_leased(id, server);
        }
    }

    fn start_leased(&mut self, id: ClientId, server: ServerId) {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        match client.phase {
            Phase::Welcome => return self.ask_for_welcome(id, server),
            Phase::SeekingWalsender(_) => return self.enter_replication(id, server),
            Phase::Authenticating(_) => return self.put_question(id, server),
            _ => {}
        }
        let input = std::mem::take(&mut client.input);
        let taken = self.pass_requests(id, server, &input, true);
        // The input may have ended the client.
        if let Some(client) = self.tables.clients.get_mut(id) {
            if taken < input.len() {
                client.input = input.get(taken..).unwrap_or_default().to_vec();
            }
            if input.len() >= AHEAD_MAX {
                self.driver.go(client.key, Why::Ahead);
            }
        }
    }

    /// Sends a client's requests to its server. Returns the number of bytes handled.
    #[inline]
    fn pass_requests(
        &mut self,
        id: ClientId,
        server_id: ServerId,
        input: &[u8],
        fresh: bool,
    ) -> usize {
        self.tick_server(server_id);
        let luck = self.luck();
        let Some(Link {
            client,
            server,
            group,
            registry,
            shaper,
            digests,
            ..
        }) = self.tables.link(id, server_id)
        else {
            return input.len();
        };
        group.keep_judge_fresh();
        let offered = client.offer(server, (&mut group.judge, group.repeats), input, fresh);
        let input = offered.input;
        if let Some(rules) = &group.query_rules {
            client.fit_rules(rules);
        }
        let mut buffer = std::mem::take(&mut self.to_server);
        self.answers.clear();
        let mut out = Splice::new(input, &mut buffer);
        if fresh && group.finds_size {
            client.class = class_of(input);
        }
        let begun = match fresh {
            true => client.begin(server, &mut out, &mut self.answers),
            false => client.renew_lsn(server, group, input, &mut out),
        };
        if fresh {
            let outlives = group.keeps_clients.then_some(&client.session);
            server.session.be_outlived_by(outlives);
        }
        if let Err(error) = begun {
            self.to_server = buffer;
            self.fail_client(id, &Fault::Unsayable(error.to_string()));
            return input.len();
        }
        let mut link = relay_link(client, server, group, registry, (shaper, digests), luck);
        let taken = relay::requests(&mut link, input, &mut out, &mut self.answers);
        group.share_definitions(&mut server.session, self.now);
        if let Ok(taken) = &taken {
            client.took(&offered, taken, server);
            group.count_statements(taken.statements);
        }
        let bytes = out.finish();
        if !bytes.is_empty() {
            server.is_checked = false;
            (server.request_at, client.request_at) = (self.now, self.now);
            if self.driver.send(server.key, bytes) == Flow::Full {
                self.driver.stop(client.key, Why::Partner);
            }
            if server.session.owed_replies() > REPLIES_MAX {
                self.driver.stop(client.key, Why::Owed);
            }
        }
        self.send_answers(id);
        trim(&mut buffer);
        self.to_server = buffer;
        self.deliver_cancel(id);
        self.follow_watches(id, server_id);
        match taken {
            Err(fault) => self.fail_client(id, &Fault::Protocol(fault)),
            Ok(taken) if taken.terminate => {
                self.remove_client(id, Leaving::Orderly, "client close request");
            }
            Ok(taken) => return taken.consumed,
        }
        input.len()
    }

    /// Passes the replies of a leased server to its client. Returns the number of bytes handled.
    #[inline]
    pub(super) fn server_replied(
        &mut self,
        server_id: ServerId,
        id: ClientId,
        input: &[u8],
    ) -> usize {
        self.tick_server(server_id);
        let Some(mut link) = self.tables.link(id, server_id) else {
            return input.len();
        };
        let mut buffer = std::mem::take(&mut self.to_client);
        let mut out = Splice::new(input, &mut buffer);
        let (client, server) = (&mut link.client.session, &mut link.server.session);
        let result = relay::replies(client, server, input, &mut out);
        let bytes = out.finish();
        let key = link.client.key;
        let is_routed = link.client.route.is_some();
        link.count(self.now, bytes.len(), result.as_ref().ok());
        #[cfg(feature = "debug-spin")]
        if result
            .as_ref()
            .is_ok_and(|replied| replied.transactions > 0)
        {
            crate::spin::waste(self.global.clock);
        }
        if let Ok(replied) = &result {
            self.note_rare(server_id, replied);
        }
        self.follow_watches(id, server_id);
        let consumed = match result {
            Ok(replied) => {
                // The next client's bytes go to the server before the last bytes go to this client.
                let is_elsewhere = is_routed && self.routed_replied(id, server_id, replied);
                if replied.consumed == input.len() && !is_elsewhere {
                    self.after_replies(id, server_id);
                }
                replied.consumed
            }
            Err(_) => input.len(),
        };
        // The answer to a BEGIN that is not allowed is not shown.
        let bytes = if self.leave_statement_mode(id, server_id) {
            &[]
        } else {
            bytes
        };
        if !bytes.is_empty() && self.driver.send(key, bytes) == Flow::Full {
            self.stop_for_client(id, server_id);
        }
        trim(&mut buffer);
        self.to_client = buffer;
        match result {
            Err(fault) => self.server_fault(server_id, &fault),
            Ok(replied) if replied.ends_unheard => self.leave_dying(id, server_id),
            Ok(_) => {}
        }
        self.repeat(id, server_id);
        // The client may be gone, and the server may be closed or used by others.
        let client = self.tables.clients.get(id);
        let (is_owed, is_stalled) = client.map_or((false, false), |client| {
            let reasons = self.driver.reasons(client.key);
            (reasons.has(Why::Owed), client.stalled)
        });
        if is_owed {
            self.end_flood(id, server_id);
        }
        if is_stalled {
            self.end_stall(id);
            let server = self.tables.servers.get(server_id);
            if server.is_some_and(|server| server.lease == Some(id)) {
                // The client's further input may have needed no server.
                self.after_replies(id, server_id);
            }
        }
        self.deliver_cancel(id);
        self.after_hearing(id);
        if self.ending.has_begun() || self.has_removed {
            self.close_if_idle(id);
        }
        consumed
    }

    /// Closes a server that has ended between two transactions of its client, who need not know, or in one that the client
    /// outlives.
    #[cold]
    fn leave_dying(&mut self, id: ClientId, server_id: ServerId) {
        let server = self.tables.servers.must_get(server_id);
        if server.is_some_and(|server| server.session.status() != TransactionStatus::Idle) {
            return self.close_server(server_id, "server closed");
        }
        let client = self.tables.clients.must_get(id);
        let client = client.filter(|client| client.pinned.is_none() && may_release(client));
        let Some(client) = client else {
            return;
        };
        let waits = client.has_waiting_request();
        let connected_at = server
            .filter(|_| waits)
            .map(|server| server.facts.connected_at);
        if connected_at.is_some_and(|connected_at| !client.may_begin_again(connected_at)) {
            // The client gets the last word when the server closes.
            return;
        }
        // The server may have answered before the driver has said that all was sent.
        self.driver.go(client.key, Why::Partner);
        if let Some(server) = self.tables.servers.must_get_mut(server_id) {
            server.lease = None;
        }
        self.tables.end_lease(id);
        self.close_server(server_id, "server closed");
        if let Some(connected_at) = connected_at {
            self.begin_elsewhere(id, connected_at);
        }
    }

    /// Counts errors, and transactions that changed roles.
    #[inline]
    fn note_rare(&mut self, server_id: ServerId, replied: &Replied) {
        if replied.errors > 0 {
            self.count_errors(server_id, replied.errors);
        }
        if replied.altered_roles {
            self.global.role_changes.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Sends a client's batch to the server again, if the server has to repeat it.
    #[inline]
    fn repeat(&mut self, id: ClientId, server_id: ServerId) {
        // The server may have been closed or given away when it became free.
        let server = self.tables.servers.get(server_id);
        let is_due =
            server.is_some_and(|server| server.session.has_to_repeat() && server.lease == Some(id));
        if is_due {
            self.pass_requests(id, server_id, &[], false);
        }
    }

    /// Receives again from a client that was stopped for too many owed replies, once half of them have come.
    fn end_flood(&mut self, id: ClientId, server_id: ServerId) {
        let Some(client) = self.tables.clients.must_get(id) else {
            return;
        };
        // The server may have been closed or given away when it became free.
        let server = self
            .tables
            .servers
            .get(server_id)
            .filter(|server| server.lease == Some(id));
        if server.is_some_and(|server| server.session.owed_replies() > REPLIES_MAX / 2) {
            return;
        }
        self.driver.go(client.key, Why::Owed);
    }

    fn stop_for_client(&mut self, id: ClientId, server_id: ServerId) {
        // The client may have been ended, or its server given away when it became free.
        let leased = self
            .tables
            .clients
            .get(id)
            .is_some_and(|client| client.lease == Some(server_id));
        if leased && let Some(server) = self.tables.servers.must_get(server_id) {
            self.driver.stop(server.key, Why::Partner);
        }
    }

    #[inline]
    pub(super) fn after_replies(&mut self, id: ClientId, server_id: ServerId) {
        let (Some(client), Some(server)) = (
            self.tables.clients.must_get(id),
            self.tables.servers.must_get(server_id),
        ) else {
            return;
        };
        let is_leased =
            matches!(server.stage, Stage::Leased) && matches!(client.phase, Phase::Ready);
        let is_free = server.session.is_free() && self.driver.is_drained(server.key);
        // The server has the client's settings by now, and the client's input comes next.
        let has_begun = || client.route.as_ref().is_some_and(|route| route.has_begun());
        let is_prepared = client.stalled
            && server.session.is_untouched()
            && !server.is_role_doubtful
            && !has_begun();
        if !is_leased || !is_free || is_prepared {
            return;
        }
        if server.doomed == Some(HURRIED) {
            return self.close_hurried(id, server_id);
        }
        let is_plain = !self.has_checks
            && client.pinned.is_none()
            && client.session.is_plain()
            && !server.session.is_uncertain();
        if is_plain {
            if may_release(client) {
                self.release(server_id);
            }
            return;
        }
        // A question of ours would stand inside the client's message, and the rest of that message would be read as
        // messages.
        if client.session.is_sending_to_server() || !self.settle_state(id, server_id) {
            return;
        }
        if self.tables.clients.must_get(id).is_some_and(may_release) {
            self.release(server_id);
        }
    }

    /// Releases a server as [`Worker::after_replies`], when no reply has come: a client's input that has waited, such as for
    /// the end of a cancel, goes on without the server.
    pub(super) fn release_if_free(&mut self, id: ClientId, server_id: ServerId) {
        self.after_replies(id, server_id);
        let client = self.tables.clients.get(id);
        if client.is_some_and(|client| client.stalled && client.lease.is_none()) {
            self.end_stall(id);
        }
    }

    /// Ends a client that has opened a transaction block in statement pooling. True if it did.
    fn leave_statement_mode(&mut self, id: ClientId, server_id: ServerId) -> bool {
        // The client and the server may be gone since the server became free.
        let (Some(client), Some(server)) = (
            self.tables.clients.get(id),
            self.tables.servers.get(server_id),
        ) else {
            return false;
        };
        let in_block = client.lease == Some(server_id)
            && server.session.status() != TransactionStatus::Idle
            && server.session.is_quiet_and_synced();
        if !in_block {
            return false;
        }
        let Some(group) = self.tables.groups.must_get(client.group) else {
            return false;
        };
        let is_refused = group.settings.pool_mode == weir_config::PoolMode::Statement;
        if is_refused {
            self.fail_client(id, &Fault::StatementMode);
        }
        is_refused
    }
}

impl Client {
    /// Begins a lease, with the settings that the server lacks in front of the client's request.
    #[inline]
    fn begin(
        &mut self,
        server: &mut Server,
        out: &mut Splice<'_>,
        answers: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        self.tell_route(answers);
        relay::begin_in_front(&mut self.session, &mut server.session, out, answers)
    }
}

/// Returns what the relay of a client's requests works on.
#[inline]
fn relay_link<'a>(
    client: &'a mut Client,
    server: &'a mut Server,
    group: &'a mut Group,
    registry: &'a mut Registry,
    (shaper, digests): (&'a Shaper, Option<&'a mut Digests>),
    luck: (u64, u64),
) -> relay::Link<'a> {
    relay::Link {
        client: &mut client.session,
        server: &mut server.session,
        registry,
        judge: &mut group.judge,
        proven: &group.global.proven,
        rules: group.rules,
        digests: digests.map(|table| Digesting {
            table,
            shaper,
            group: &group.digests,
        }),
        ruling: ruling(&mut group.query_rules, &client.rules, shaper, luck),
    }
}

impl Tables {
    /// Starts a client's request that needs a server.
    #[inline]
    fn begin_request(&mut self, now: Moment, id: ClientId, batch: &Batch<'_>) {
        let Some(client) = self.clients.must_get_mut(id) else {
            return;
        };
        client.request_at = now;
        if let Some(group) = self.groups.must_get_mut(client.group) {
            relay::wants_new(&mut client.session, &mut group.judge, group.rules, batch);
        }
    }

    #[inline]
    fn is_sending(&self, id: ClientId) -> bool {
        // The input may have ended the client.
        let client = self.clients.get(id);
        client.is_some_and(|client| client.session.is_sending_to_server())
    }

    /// True if a client's request has to wait until its server has answered a question about its session. Reasons are:
    /// others wait for the server, its role may be gone, the request needs a new server, or the server is a replica, where
    /// only the batch that is over was allowed. Marks the client as stalled then.
    fn waits_for_answer(
        &mut self,
        now: Moment,
        id: ClientId,
        server_id: ServerId,
        input: &[u8],
    ) -> bool {
        let server = self.servers.must_get(server_id);
        let Some(server) = server.filter(|server| server.session.is_asked_only()) else {
            return false;
        };
        let is_role_doubtful = server.is_role_doubtful;
        self.begin_request(now, id, &Batch::scan(input));
        let waits = is_role_doubtful
            || self.is_on_replica(id)
            || !self.meets(id, server_id)
            || self.is_due_to_others(id)
            || self.may_be_halted(id);
        if let Some(client) = self.clients.must_get_mut(id) {
            client.stalled |= waits;
        }
        waits
    }

    /// Lets a client's input wait.
    #[cold]
    fn stall(&mut self, id: ClientId) {
        if let Some(client) = self.clients.must_get_mut(id) {
            client.stalled = true;
        }
    }

    /// True if the client's server is a replica.
    fn is_on_replica(&self, id: ClientId) -> bool {
        let client = self.clients.must_get(id);
        let route = client.and_then(|client| client.route.as_ref());
        route.is_some_and(|route| route.is_on_replica())
    }

    /// True if others wait for a server and no known reason lets this client keep its own.
    fn is_due_to_others(&self, id: ClientId) -> bool {
        let client = self.clients.must_get(id);
        let unpinned = client.filter(|client| client.session.pin().is_none());
        let lane = unpinned.and_then(|client| self.lanes.must_get(client.lane));
        lane.is_some_and(|lane| lane.shard.is_wanted())
    }

    /// True if the client's server is one that its request can use.
    fn meets(&self, id: ClientId, server_id: ServerId) -> bool {
        let client = self.clients.must_get(id);
        let lane = client.and_then(|client| Some((client, self.lanes.must_get(client.lane)?)));
        lane.is_none_or(|(client, lane)| {
            let want = client.want();
            (lane.shard).meets(server_id.into(), id.into(), want)
        })
    }

    /// Links a client and a server, and counts the wait.
    pub(super) fn lease(&mut self, now: Moment, id: ClientId, server_id: ServerId) -> bool {
        let (Some(client), Some(server)) = (
            self.clients.must_get_mut(id),
            self.servers.must_get_mut(server_id),
        ) else {
            return false;
        };
        client.ticket = None;
        client.lease = Some(server_id);
        client.takes_over(server);
        client.transaction_at = now;
        server.lease = Some(id);
        // A batch that is still kept belongs to the client before.
        server.session.disarm_net();
        server.stage = Stage::Leased;
        server.request_at = now;
        if let Some(group) = self.groups.must_get_mut(client.group) {
            group.counters.server_assignments += 1;
            let waited = micros(now.since(client.wait_since));
            group.counters.wait_us += waited;
            let work = ClientCounters {
                wait_us: waited,
                ..ClientCounters::default()
            };
            self.applications.count(client, work);
            group.times().wait.record(waited);
            server.session.begin_counting(waited);
        }
        true
    }
}

/// True if a client may release its free server: it is not pinned and not in the middle of a message.
#[inline]
fn may_release(client: &Client) -> bool {
    client.session.pin().is_none() && !client.session.is_sending_to_server()
}
