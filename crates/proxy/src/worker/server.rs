//! Servers: connections to PostgreSQL, from the first attempt to their end.

use std::sync::Arc;

use slotmap::Key as _;
use weir_auth::kdf::{ScramKeys, derive};
use weir_auth::scram::Nonce;
use weir_config::ChannelBinding;
use weir_pool::{FailureKind, Moment};
use weir_session::fault::Fault;
use weir_session::login::{
    BindingPolicy, Credentials, LoggedIn, LoginPlan, LoginStep, ServerLogin, Transport,
};
use weir_session::relay;
use weir_session::server::Server as Session;
use weir_wire::startup::Version;

use super::again::sent_batch;
use super::client::Leaving;
use super::ids::{ClientId, GroupId, ServerId, Waiter};
use super::replication::PARTED;
use super::slots::{Phase, Server, Stage, Test};
use super::tables::Tables;
use super::{Missing, Worker};
use crate::console::DATABASES;
use crate::driver::{Driver, Key, Why};
use crate::global::{LastError, host_name, lock, random, secret_of};
use crate::mailbox::{Asker, Message};

/// Maximum number of sets of reported values that a pool remembers.
pub(super) const REPORTED_MAX: usize = 64;

/// Loss of a server, as its client is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Lost {
    /// PostgreSQL's last message, which was kept from the client so far.
    Hidden(Box<[u8]>),
    /// Last messages of PostgreSQL, likewise.
    HiddenReply(Vec<u8>),
    /// The client has PostgreSQL's last message already.
    Spoken,
    /// Nothing of the client's transaction was committed.
    Undone,
    /// A request that may have committed was not answered.
    Unknown,
}

impl Lost {
    /// Returns the loss of a server whose last message, if any, has gone to the client or was hidden.
    fn of(session: &mut Session) -> Self {
        if let Some(reply) = session.take_hidden_reply() {
            return Self::HiddenReply(reply);
        }
        match session.take_hidden_words() {
            Some(words) => Self::Hidden(words),
            None if session.is_dying() => Self::Spoken,
            None => Self::without_words(session),
        }
    }

    /// Returns the loss of a server whose last message does not tell the client that the connection ends.
    pub(super) fn without_words(session: &Session) -> Self {
        match session.is_outcome_unknown() {
            true => Self::Unknown,
            false => Self::Undone,
        }
    }
}

impl<D: Driver> Worker<D> {
    /// Starts the login on a connection that is made, and protected if required.
    pub(super) fn begin_login(&mut self, id: ServerId) {
        let Some(server) = self.tables.servers.must_get_mut(id) else {
            return;
        };
        let key = server.key;
        let transport = match server.facts.tls {
            None => Transport::Plain,
            Some(_) => Transport::Tls {
                end_point: server.end_point.take().map(Into::into),
            },
        };
        let Some(plan) = self.login_plan(id, transport) else {
            let text = "the operating system provides no random bytes".to_owned();
            return self.login_failed(id, LastError { text, body: None }, FailureKind::Local);
        };
        let mut message = Vec::new();
        match ServerLogin::start(plan, &mut message) {
            Ok(login) => {
                self.driver.send(key, &message);
                if let Some(server) = self.tables.servers.must_get_mut(id) {
                    server.stage = Stage::Login(Box::new(login));
                }
            }
            Err(fault) => self.login_fault(id, &fault),
        }
    }

    fn login_plan(&self, id: ServerId, transport: Transport) -> Option<LoginPlan> {
        let server = self.tables.servers.must_get(id)?;
        let group = self.tables.groups.must_get(server.group)?;
        let settled = self.global.settled();
        let settings = &group.settings;
        let pass_through = if settings.is_user_forced {
            None
        } else {
            lock(&group.global.pass_through).clone()
        };
        let parameters = (settings.startup.iter()).map(|(name, value)| (*name, value.as_str()));
        // Consoles of older PgBouncers close a connection that asks for 3.2 and do not negotiate.
        let version = match DATABASES.contains(&&*settings.dbname) {
            true => Version::V3_0,
            false => Version::V3_2,
        };
        Some(LoginPlan {
            user: settings.user.clone(),
            database: settings.dbname.clone(),
            parameters: self.tables.startup_of(server.lane, parameters),
            version,
            credentials: Credentials {
                secret: secret_of(&group.global, settings, &settled.users),
                pass_through,
            },
            nonce: Nonce::from_random(random().ok()?),
            channel_binding: match settings.tls.channel_binding {
                ChannelBinding::Disable => BindingPolicy::Disable,
                ChannelBinding::Prefer => BindingPolicy::Prefer,
                ChannelBinding::Require => BindingPolicy::Require,
            },
            transport,
            iterations_max: settled.settings.global.scram_iterations_max,
        })
    }

    /// Handles bytes from a server, behind those that could not be handled before.
    pub(super) fn server_received(&mut self, id: ServerId, bytes: &[u8]) {
        let Some(server) = self.tables.servers.must_get_mut(id) else {
            return;
        };
        if server.input.is_empty() {
            let taken = self.server_input(id, bytes);
            self.keep_server_input(id, bytes.get(taken..).unwrap_or_default());
            return;
        }
        let mut input = std::mem::take(&mut server.input);
        input.extend_from_slice(bytes);
        let taken = self.server_input(id, &input);
        self.keep_server_input(id, input.get(taken..).unwrap_or_default());
    }

    /// Keeps the beginning of a message until its end has come.
    fn keep_server_input(&mut self, id: ServerId, rest: &[u8]) {
        // The input may have closed the server, or another worker may have it.
        let Some(server) = self.tables.servers.get_mut(id) else {
            return;
        };
        if !rest.is_empty() {
            server.input = rest.to_vec();
        }
        // A server with an unread byte must not be given to a client.
        if matches!(server.stage, Stage::Idle) && !(rest.is_empty() && server.session.is_free()) {
            self.close_server(id, "idle server got dirty");
        }
    }

    #[inline]
    fn server_input(&mut self, id: ServerId, input: &[u8]) -> usize {
        let Some(server) = self.tables.servers.must_get(id) else {
            return input.len();
        };
        match (&server.stage, server.lease) {
            (Stage::Leased, Some(client)) => {
                match self
                    .tables
                    .clients
                    .must_get(client)
                    .map(|client| &client.phase)
                {
                    Some(Phase::Welcome) => self.welcome_replied(id, client, input),
                    Some(Phase::Authenticating(_)) => self.inquiry_replied(id, client, input),
                    _ => self.server_replied(id, client, input),
                }
            }
            (Stage::Replicating, Some(client)) => self.walsender_replied(id, client, input),
            (Stage::Parting, _) => input.len(),
            (Stage::Login(_), _) => self.login_input(id, input),
            (Stage::Negotiating(_), _) => self.negotiation_input(id, input),
            (Stage::Securing(_), _) => {
                self.advance_handshake(Asker::Server(id), input);
                input.len()
            }
            (Stage::Listening(listener), _) => {
                let listener = *listener;
                self.listener_received(id, listener, input)
            }
            _ => self.server_replied_to_us(id, input),
        }
    }

    fn login_input(&mut self, id: ServerId, input: &[u8]) -> usize {
        let Some(server) = self.tables.servers.must_get_mut(id) else {
            return input.len();
        };
        let key = server.key;
        let Stage::Login(login) = &mut server.stage else {
            self.global.broken.report(Missing::State);
            return input.len();
        };
        let mut message = Vec::new();
        let result = login.handle(input, &mut message);
        if !message.is_empty() {
            self.driver.send(key, &message);
        }
        match result {
            Ok((taken, LoginStep::More)) => taken,
            Ok((taken, LoginStep::NeedKeys(request))) => {
                self.derive_keys(Asker::Server(id), request);
                taken
            }
            Ok((taken, LoginStep::Done(logged_in))) => {
                self.logged_in(id, *logged_in);
                taken
            }
            Err(fault) => {
                self.login_fault(id, &fault);
                input.len()
            }
        }
    }

    /// Derives keys on a helper thread, or takes them from the cache.
    pub(super) fn derive_keys(&mut self, asker: Asker, request: weir_auth::kdf::KdfRequest) {
        if let Some(keys) = self.global.cached_keys(&request) {
            return self.keys_derived(asker, Some(&keys), true);
        }
        let (global, worker) = (Arc::clone(&self.global), self.number);
        let job = move || {
            let keys = ScramKeys::from_salted(&derive(&request));
            global.cache_keys(&request, &keys);
            if let Some(mailbox) = global.mailbox(worker) {
                mailbox.send_waiting(Message::Keys {
                    asker,
                    keys: Some(keys),
                });
            }
        };
        if self.global.helpers.derivers.run(job).is_err() {
            self.keys_derived(asker, None, false);
        }
    }

    pub(super) fn keys_derived(
        &mut self,
        asker: Asker,
        keys: Option<&ScramKeys>,
        are_cached: bool,
    ) {
        match asker {
            Asker::Client(id) => {
                if self.tables.clients.contains(id) {
                    self.client_keys(id, keys, are_cached);
                }
            }
            Asker::Server(id) => {
                if self.tables.servers.contains(id) {
                    self.server_keys(id, keys);
                }
            }
            Asker::Cancel(_) => {}
        }
    }

    fn server_keys(&mut self, id: ServerId, keys: Option<&ScramKeys>) {
        let Some(server) = self.tables.servers.must_get_mut(id) else {
            return;
        };
        let key = server.key;
        let Stage::Login(login) = &mut server.stage else {
            // The server has gone on to its next host meanwhile.
            return;
        };
        let mut message = Vec::new();
        let Some(keys) = keys else {
            let text = "too many logins in progress".to_owned();
            return self.login_failed(id, LastError { text, body: None }, FailureKind::Local);
        };
        match login.provide_keys(keys, &mut message) {
            Ok(()) => {
                self.driver.send(key, &message);
            }
            Err(fault) => self.login_fault(id, &fault),
        }
    }

    fn logged_in(&mut self, id: ServerId, logged_in: LoggedIn) {
        let Some(server) = self.tables.servers.must_get_mut(id) else {
            return;
        };
        let (group_id, lane_id) = (server.group, server.lane);
        let mut reported = logged_in.reported;
        let is_owned = self.tables.owner_of(lane_id).is_some();
        if self.tables.is_demoted(lane_id, &reported) {
            let text = "the primary is in recovery".to_owned();
            return self.login_failed(id, LastError { text, body: None }, FailureKind::Temporary);
        }
        let standby = reported.get("in_hot_standby").map(str::to_owned);
        let is_routed = !is_owned && self.tables.unify_host_facts(lane_id, &mut reported);
        let mut session = Session::new(Arc::new(reported));
        session.set_process(logged_in.pid);
        if is_routed {
            session.hide_host_facts(false);
            session.note_standby(&standby.unwrap_or_default());
        }
        let Some(server) = self.tables.servers.must_get_mut(id) else {
            return;
        };
        (server.facts.pid, server.facts.key) = (logged_in.pid, logged_in.key);
        self.tables.share_reported(group_id, &mut session);
        if let Some(server) = self.tables.servers.must_get_mut(id) {
            server.session = session;
        }
        let group = self.tables.groups.must_get(group_id);
        let group = group.filter(|_| !is_owned);
        let query = group.and_then(|group| group.settings.connect_query.clone());
        match query {
            Some(query) => self.test_server(id, Test::Connect, &query),
            None => self.server_is_up(id),
        }
    }

    /// Gives a server that is ready for its first client to its pool.
    pub(super) fn server_is_up(&mut self, id: ServerId) {
        if self.loads_first(id) {
            return;
        }
        self.arm_server(id, None);
        let Some(server) = self.tables.servers.must_get_mut(id) else {
            return;
        };
        server.stage = Stage::Idle;
        server.is_new = true;
        let (group_id, lane_id) = (server.group, server.lane);
        let host = host_name(&server.facts.target);
        let Some(lane) = self.tables.lanes.must_get_mut(lane_id) else {
            return;
        };
        lock(&lane.global.postponed).take();
        if let Some(group) = self.tables.groups.must_get_mut(group_id) {
            group.counters.server_logins += 1;
        }
        let unix = self.global.clock.unix_seconds(self.now);
        (self.global.logins).succeeded(host, i64::try_from(unix).unwrap_or(i64::MAX));
        let verdict = lane.shard.connected(self.now, id.into());
        self.place(id, verdict);
        self.pump(lane_id);
    }

    // --- failing ---

    /// Handles the end of a server's connection, closed by the other side or broken. The driver has dropped it already.
    pub(super) fn server_ended(&mut self, id: ServerId, error: Option<&std::io::Error>) {
        let Some(server) = self.tables.servers.must_get_mut(id) else {
            return;
        };
        server.key = Key::null();
        let text = match error {
            None => "server conn crashed?".to_owned(),
            Some(error) => format!("server connection lost: {error}"),
        };
        if server.stage.is_beginning() {
            self.login_failed(id, LastError { text, body: None }, FailureKind::Refused);
        } else if matches!(server.stage, Stage::Parting) {
            self.close_server(id, PARTED);
        } else {
            if let Some(group) = self.tables.groups.get_mut(server.group) {
                group.counters.servers_lost += 1;
            }
            self.close_server(id, &text);
        }
    }

    /// Closes a server connection that had logged in; its client, if any, is told.
    pub(super) fn close_server(&mut self, id: ServerId, reason: &str) {
        self.arm_server(id, None);
        let name = self.tables.server_name(id);
        let is_kept = self.tables.lose_kept(self.now, id);
        let Some(mut server) = self.tables.servers.must_remove(id) else {
            return;
        };
        if self.global.settled().settings.global.log_disconnections {
            let age = self.now.since(server.facts.connected_at).as_secs();
            tracing::info!("{name} closing because: {reason} (age={age}s)");
        }
        if let Some(client) = server
            .lease
            .and_then(|client| self.tables.clients.get(client))
        {
            // The client may go on without this server.
            self.driver.go(client.key, Why::Partner);
        }
        let mut message = Vec::new();
        // PostgreSQL logs a client that leaves without a Terminate; sending one costs nothing.
        let _ = weir_wire::encode::terminate(&mut message);
        // Before the start-up packet, a Terminate would stand in the middle of a TLS handshake.
        let is_greeted = server.stage.takes_terminate() && server.session.is_quiet_and_synced();
        // The server's place is given back now, so the connection must not live on.
        if is_greeted {
            self.driver.close_with(server.key, &message);
        } else {
            self.driver.abort(server.key);
        }
        if let Stage::Moving(departure) = server.stage {
            // No lane has the server on its way.
            self.hand_over_failed(server.lane, *departure);
            return self.pump(server.lane);
        }
        self.give_back_place(id, &server);
        let took = self.now.since(server.request_at);
        let runs_again =
            (server.lease).is_some_and(|client| self.tables.may_run_again(client, &server, took));
        let begins_elsewhere =
            (server.lease).is_some_and(|client| self.tables.may_begin_elsewhere(client, &server));
        match (server.stage, server.lease) {
            (Stage::Testing(Test::Check(Waiter::Client(client))), _) => self.wait_again(client),
            (Stage::Testing(Test::Check(Waiter::Listener(listener))), _) => {
                self.connect_listener(listener);
            }
            (Stage::Testing(Test::Role(Some(client))), _) => self.wait_for_role(client),
            (Stage::Replicating, Some(client)) => self.walsender_lost(client),
            (Stage::Parting, _) => self.finish_if_drained(),
            (Stage::Listening(listener), _) => self.listener_lost(listener, &name, reason),
            // No byte of the server's answer went to the client.
            (_, Some(client)) if self.tables.is_asked_about(client) => {
                self.inquiry_lost(client, reason);
            }
            (_, Some(client)) if runs_again => {
                let sent = sent_batch(&server.kept_batch, server.net_waits);
                self.run_elsewhere(client, sent, server.facts.connected_at);
            }
            // No error can be sent in the middle of a message.
            (_, Some(client)) if server.session.is_mid_message() => {
                self.mark_write(client, server.session.is_on_primary());
                self.tables.end_lease(client);
                self.remove_client(client, Leaving::Lost, reason);
            }
            (_, Some(client)) if is_kept || self.tables.does_without(client, &server.session) => {
                self.go_on_without_server(client);
            }
            (_, Some(client)) if begins_elsewhere => {
                self.begin_elsewhere(client, server.facts.connected_at);
            }
            (_, Some(client)) => self.lose_server(client, &mut server.session),
            _ => {}
        }
        self.pump(server.lane);
    }

    /// Gives the place of a server that is closed back to its lane.
    fn give_back_place(&mut self, id: ServerId, server: &Server) {
        let Some(lane) = self.tables.lanes.must_get_mut(server.lane) else {
            return;
        };
        if let Stage::Testing(test @ (Test::Connect | Test::Load { is_new: true })) = &server.stage
        {
            *lock(&lane.global.last_error) = Some(LastError {
                text: test.failure().to_owned(),
                body: None,
            });
            (lane.shard).connect_failed(self.now, id.into(), FailureKind::Rejected);
        } else {
            lane.shard.closed(self.now, id.into());
        }
    }

    /// Lets an idle client go on without the server that it had. Its next request may have waited there, for the end of a
    /// cancel.
    fn go_on_without_server(&mut self, id: ClientId) {
        self.tables.end_lease(id);
        let client = self.tables.clients.get(id);
        if client.is_some_and(|client| client.stalled) {
            self.end_stall(id);
        }
    }

    /// Takes its server from a client, which goes on without it if it can.
    fn lose_server(&mut self, id: ClientId, server: &mut Session) {
        self.mark_write(id, server.is_on_primary());
        if !self.outlives(id, server) {
            if let Some(begun) = server.take_begun_reply() {
                self.send_to_client(id, &begun);
            }
            self.lost_server(id, Lost::of(server));
        }
    }

    /// Lets a client go on whose transaction is lost with its server (`keep_client`). False if it cannot.
    fn outlives(&mut self, id: ClientId, server: &mut Session) -> bool {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return false;
        };
        let is_quiet = client.input.is_empty() && !client.stalled && client.ticket.is_none();
        if !is_quiet || client.pinned.is_some() || !matches!(client.phase, Phase::Ready) {
            return false;
        }
        let mut said = Vec::new();
        let is_kept = relay::leave_block(&mut client.session, server, &mut said);
        if is_kept {
            tracing::info!("{client}: goes on without its server, which was lost in a transaction");
            self.tables.end_lease(id);
            self.send_to_client(id, &said);
        }
        is_kept
    }

    /// Queues a client again, in its old place, because the server that it was to get failed its check.
    pub(super) fn wait_again(&mut self, id: ClientId) {
        use weir_pool::Checkout;
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        client.lease = None;
        let (lane_id, since, want) = (client.lane, client.wait_since, client.want());
        let Some(lane) = self.tables.lanes.must_get_mut(lane_id) else {
            return;
        };
        match lane.shard.checkout_since(self.now, id.into(), want, since) {
            Checkout::Granted(server) => self.start_idle(Waiter::Client(id), server.into()),
            Checkout::Check(server) => {
                self.check_before_use(Waiter::Client(id), server.into());
            }
            Checkout::Queued(ticket) => {
                if let Some(client) = self.tables.clients.must_get_mut(id) {
                    client.ticket = Some(ticket);
                }
            }
            Checkout::FailFast => {
                if !self.waits_elsewhere(id) {
                    self.fail_for_server(id);
                }
            }
        }
        self.pump(lane_id);
    }

    /// Ends a client whose server is gone.
    pub(super) fn lost_server(&mut self, id: ClientId, lost: Lost) {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        if matches!(client.phase, Phase::Authenticating(_)) {
            return self.inquiry_lost(id, "server conn crashed?");
        }
        client.lease = None;
        let route = client.route.as_ref();
        let only_read = route.is_some_and(|route| route.only_reads() || route.is_on_replica());
        // The server may have committed without an answer, and whoever looks for the commit has to see it.
        self.mark_write(id, false);
        match lost {
            Lost::Hidden(words) => {
                let message = super::welcome::as_fatal(&words);
                self.end_client(id, &message, "server closed");
            }
            Lost::HiddenReply(reply) => self.end_client(id, &reply, "server closed"),
            Lost::Spoken => self.remove_client(id, Leaving::Lost, "server closed"),
            Lost::Unknown if !only_read => self.fail_client(id, &Fault::OutcomeUnknown),
            Lost::Unknown | Lost::Undone => self.fail_client(id, &Fault::ServerLost),
        }
    }

    /// Returns a moment in Unix seconds, for rows.
    pub(super) fn unix(&self, moment: Moment) -> u64 {
        self.global.clock.unix_seconds(moment)
    }
}

impl Tables {
    /// Replaces equal sets of reported values by one shared set, so that comparing them compares one pointer.
    pub(super) fn share_reported(&mut self, group_id: GroupId, session: &mut Session) {
        let Some(group) = self.groups.must_get_mut(group_id) else {
            return;
        };
        match group
            .reported
            .iter()
            .find(|known| ***known == **session.reported())
        {
            Some(known) => session.share_reported(known),
            None => {
                if group.reported.len() >= REPORTED_MAX {
                    group.reported.clear();
                }
                group.reported.push(Arc::clone(session.reported()));
            }
        }
    }

    /// Lets a client go on without the server that it had.
    pub(super) fn end_lease(&mut self, id: ClientId) {
        if let Some(client) = self.clients.must_get_mut(id) {
            client.lease = None;
            client.session.end_trial();
        }
    }

    /// True if a client loses nothing with its server: the client is idle, and only its settings were being set there
    /// again, or the server has answered before the driver has said that all was sent.
    pub(super) fn does_without(&self, id: ClientId, server: &Session) -> bool {
        self.clients.must_get(id).is_some_and(|client| {
            let is_idle = client.input.is_empty() && !client.stalled && client.ticket.is_none();
            let is_free = client.session.pin().is_none() && !client.session.is_sending_to_server();
            let is_ready = matches!(client.phase, Phase::Ready) && !server.is_dying();
            let has_nothing = server.is_only_resuming() || server.is_between(&client.session);
            is_ready && is_idle && is_free && has_nothing
        })
    }

    /// Returns the prefix of PgBouncer's log lines.
    pub(super) fn server_name(&self, id: ServerId) -> String {
        let Some(server) = self.servers.must_get(id) else {
            return format!("S-?{id:?}:");
        };
        let endpoint = server.facts.target.endpoint();
        let group = self.groups.must_get(server.group);
        let (database, user) = group.map_or(("(nodb)", "(nouser)"), |group| {
            (&*group.global.key.database, &*group.global.key.user)
        });
        let address = super::slots::Address(&endpoint, 0);
        format!("S-{:#x}: {database}/{user}@{address}", server.facts.id)
    }
}
