//! Clients, a transaction pooler and model backends without sockets. The pooler does what the proxy does with a
//! session, and no more.
//!
//! Whenever a server is released, the pooler checks that no reply is outstanding, so that no client can get another's
//! replies.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_session::client::Client;
use weir_session::custom::CustomNames;
use weir_session::relay::{self, Link, Lobby, Next, Rules, SequencePolicy, StatePolicy};
use weir_session::server::{Abandoned, Server};
use weir_session::settings::{Reported, Settings};
use weir_session::splice::Splice;
use weir_session::statement::{Proven, Registry};
use weir_sql::{Functions, Judge};
use weir_testkit::backend::{Backend, Database, Output, REPORTED};
use weir_testkit::reading::messages;
use weir_wire::backend::TransactionStatus;

pub(crate) fn rules(max_prepared: usize) -> Rules {
    Rules {
        max_prepared,
        tracks_unnamed: true,
        prepare_unnamed: 0,
        refuse_simple_query: false,
        message_max: u32::MAX,
        state: StatePolicy::Off,
        sequences: SequencePolicy::Learn,
    }
}

pub(crate) fn new_server() -> Server {
    let mut reported = Reported::default();
    for (name, value) in REPORTED {
        reported.set(name, value).unwrap();
    }
    Server::new(Arc::new(reported))
}

/// A client connection.
#[derive(Debug, Default)]
pub(crate) struct Seat {
    pub session: Client,
    /// Bytes that the client has sent and the session has not consumed.
    input: Vec<u8>,
    /// Server that the client leases.
    pub lease: Option<usize>,
    /// True if its input waits for a reply to something else.
    stalled: bool,
    /// All bytes that the client received.
    pub got: Vec<u8>,
    /// True if the server sent FATAL, or the client left.
    pub closed: bool,
}

/// A server connection and the model at its end.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub session: Server,
    pub backend: Backend,
    /// Bytes that the model has sent and that were not delivered.
    pub on_the_way: Vec<u8>,
    /// Bytes that were delivered and not consumed.
    input: Vec<u8>,
    /// Client that leases the server.
    lease: Option<usize>,
}

impl Upstream {
    fn new(output: Output) -> Self {
        Self {
            session: new_server(),
            backend: Backend::new(output),
            on_the_way: Vec::new(),
            input: Vec::new(),
            lease: None,
        }
    }

    fn hear(&mut self, bytes: &[u8]) {
        self.backend.feed(bytes);
        self.on_the_way.append(&mut self.backend.take_sent());
    }

    /// Returns the names of the statements that the session believes to be prepared, sorted.
    pub(crate) fn believed_prepared(&self) -> Vec<Vec<u8>> {
        let mut names: Vec<_> = self.session.prepared().map(|s| s.name.to_vec()).collect();
        names.sort();
        names
    }

    /// Returns the names of the statements on the server. Leaves out the empty statement that makes the Parse of a
    /// taken name fail, since that failure keeps it there.
    pub(crate) fn really_prepared(&self) -> Vec<Vec<u8>> {
        let names = self.backend.prepared().map(<[u8]>::to_vec);
        names.filter(|name| name != b"weir_taken").collect()
    }
}

/// A transaction pooler: leases a server at the first message that needs one, and releases it when it is free.
#[derive(Debug)]
pub(crate) struct Pooler {
    pub clients: Vec<Seat>,
    pub servers: Vec<Upstream>,
    waiting: VecDeque<usize>,
    registry: Registry,
    judge: Judge,
    proven: Arc<Proven>,
    pub(crate) rules: Rules,
    output: Output,
    /// Index at which to look for a free server first: the one after the last, so that clients change servers.
    next: usize,
    /// Bytes to insert between any two messages of a server.
    pub(crate) unasked: Option<Vec<u8>>,
    /// True if servers may have lost statements, and may keep invalid ones until the next statement is prepared.
    loses: bool,
}

impl Pooler {
    pub(crate) fn new(clients: usize, servers: usize, rules: Rules, output: Output) -> Self {
        let reported = new_server().reported().clone();
        let seat = || Seat {
            session: Client::new(Arc::default(), Arc::clone(&reported)),
            ..Seat::default()
        };
        Self {
            clients: (0..clients).map(|_| seat()).collect(),
            servers: (0..servers).map(|_| Upstream::new(output)).collect(),
            waiting: VecDeque::new(),
            registry: Registry::new(0, 1),
            judge: Judge::new(Functions::default()),
            proven: Arc::default(),
            rules,
            output,
            next: 0,
            unasked: None,
            loses: false,
        }
    }

    /// Connects all servers to this database, and lets session state follow the clients.
    pub(crate) fn share(&mut self, database: &Database) {
        self.rules.state = StatePolicy::Track;
        self.loses = true;
        let mut reported = Reported::default();
        for (name, value) in Backend::open(database, "ann", &[]).greeting() {
            reported.set(name, &value).unwrap();
        }
        let reported = Arc::new(reported);
        for upstream in &mut self.servers {
            upstream.backend = Backend::open(database, "ann", &[]);
            upstream.session = Server::new(Arc::clone(&reported));
        }
        for seat in &mut self.clients {
            seat.session = Client::new(Arc::default(), Arc::clone(&reported));
        }
    }

    /// Makes an unused server lose its prepared statements.
    pub(crate) fn lose_prepared(&mut self, server: usize) {
        assert_eq!(self.servers[server].lease, None);
        self.servers[server].backend.lose_prepared();
    }

    /// Lets a client, which has sent nothing yet, begin with these settings.
    pub(crate) fn begins_with(&mut self, client: usize, settings: Settings) {
        let session = &mut self.clients[client].session;
        *session = Client::new(Arc::new(settings), Arc::clone(session.reported()));
    }

    /// Handles bytes that a client sent.
    pub(crate) fn client_sends(&mut self, client: usize, bytes: &[u8]) {
        self.clients[client].input.extend_from_slice(bytes);
        self.serve(client);
    }

    /// Delivers the first `len` undelivered bytes of a server.
    pub(crate) fn server_sends(&mut self, server: usize, len: usize) {
        let Some(client) = self.servers[server].lease else {
            panic!("server {server} sends what nobody asked for");
        };
        let (seat, upstream) = (&mut self.clients[client], &mut self.servers[server]);
        upstream.input.extend(upstream.on_the_way.drain(..len));
        let mut buffer = Vec::new();
        let mut out = Splice::new(&upstream.input, &mut buffer);
        let replied = relay::replies(
            &mut seat.session,
            &mut upstream.session,
            &upstream.input,
            &mut out,
        );
        let replied = replied.expect("the model is understood");
        seat.got.extend_from_slice(out.finish());
        upstream.input.drain(..replied.consumed);
        if upstream.session.is_dying() && upstream.on_the_way.is_empty() {
            assert!(upstream.backend.is_closed());
            seat.closed = true;
            seat.lease = None;
            self.servers[server] = Upstream::new(self.output);
            self.wake();
        } else if upstream.input.is_empty()
            && upstream.session.is_free()
            && !(seat.stalled && upstream.session.is_untouched())
            && seat.session.pin().is_none()
            && !seat.session.is_sending_to_server()
        {
            self.release(server);
        }
        if !self.clients[client].input.is_empty() || self.servers[server].session.has_to_repeat() {
            // The input may have waited for this reply.
            self.serve(client);
        }
    }

    /// Delivers everything that is undelivered.
    pub(crate) fn deliver_all(&mut self) {
        while let Some(server) = self.servers.iter().position(|s| !s.on_the_way.is_empty()) {
            let len = self.servers[server].on_the_way.len();
            self.server_sends(server, len);
        }
    }

    /// Ends the client's connection; its server is cleaned, then closed or released. Returns true if it was closed.
    pub(crate) fn client_leaves(&mut self, client: usize) -> bool {
        self.clients[client].closed = true;
        let Some(server) = self.clients[client].lease.take() else {
            return false;
        };
        let upstream = &mut self.servers[server];
        upstream.lease = None;
        let mut out = Vec::new();
        let verdict = upstream
            .session
            .abandon(&self.clients[client].session, &mut out);
        if verdict == Abandoned::Close {
            self.servers[server] = Upstream::new(self.output);
            return true;
        }
        upstream.hear(&out);
        self.drain(server)
    }

    fn drain(&mut self, server: usize) -> bool {
        let upstream = &mut self.servers[server];
        let mut nobody = Client::default();
        while !upstream.on_the_way.is_empty() {
            upstream.input.append(&mut upstream.on_the_way);
            let input = std::mem::take(&mut upstream.input);
            let mut buffer = Vec::new();
            let mut unseen = Splice::new(&input, &mut buffer);
            let replied =
                relay::replies(&mut nobody, &mut upstream.session, &input, &mut unseen).unwrap();
            assert_eq!(replied.consumed, input.len(), "whole messages");
            if upstream.session.is_dying() {
                self.servers[server] = Upstream::new(self.output);
                return true;
            }
            let mut out = Vec::new();
            if !upstream.session.is_free()
                && upstream.session.is_quiet_and_synced()
                && upstream.session.roll_back(&mut out)
            {
                upstream.hear(&out);
            }
        }
        upstream.session.settle();
        self.release(server);
        false
    }

    // --- inside ---

    fn serve(&mut self, client: usize) {
        if self.waiting.contains(&client) || self.clients[client].closed {
            return;
        }
        if let Some(server) = self.clients[client].lease {
            return self.pass(client, server, false);
        }
        let has_server = self.free_server().is_some();
        let seat = &mut self.clients[client];
        let mut lobby = Lobby {
            client: &mut seat.session,
            registry: &mut self.registry,
            proven: &self.proven,
            rules: self.rules,
            ruling: None,
            has_server,
        };
        let seen = relay::idle(&mut lobby, &seat.input, &mut seat.got);
        let seen = seen.expect("clients of these tests send messages");
        let (consumed, needs_server) = (seen.consumed, matches!(seen.next, Next::Lease(_)));
        seat.closed = seen.next == Next::Terminate;
        seat.input.drain(..consumed);
        if needs_server {
            match self.free_server() {
                Some(server) => self.grant(client, server),
                None => self.waiting.push_back(client),
            }
        }
    }

    fn free_server(&self) -> Option<usize> {
        let len = self.servers.len();
        let order = (self.next..self.next + len).map(|i| i % len);
        order.into_iter().find(|i| self.servers[*i].lease.is_none())
    }

    fn grant(&mut self, client: usize, server: usize) {
        self.next = server + 1;
        self.clients[client].lease = Some(server);
        self.servers[server].lease = Some(client);
        self.pass(client, server, true);
    }

    fn pass(&mut self, client: usize, server: usize, fresh: bool) {
        let (seat, upstream) = (&mut self.clients[client], &mut self.servers[server]);
        let mut buffer = Vec::new();
        let mut out = Splice::new(&seat.input, &mut buffer);
        let mut answers = Vec::new();
        if fresh {
            relay::begin(
                &mut seat.session,
                &mut upstream.session,
                &mut out,
                &mut answers,
            )
            .unwrap();
        }
        let mut link = Link {
            client: &mut seat.session,
            server: &mut upstream.session,
            registry: &mut self.registry,
            judge: &mut self.judge,
            proven: &self.proven,
            rules: self.rules,
            digests: None,
            ruling: None,
        };
        let taken = relay::requests(&mut link, &seat.input, &mut out, &mut answers);
        let taken = taken.expect("clients of these tests send messages");
        let before = upstream.on_the_way.len();
        upstream.hear(out.finish());
        if let Some(unasked) = &self.unasked {
            let new = upstream.on_the_way.split_off(before);
            for message in messages(&new).0 {
                upstream.on_the_way.extend_from_slice(unasked);
                upstream.on_the_way.extend_from_slice(message.raw);
            }
        }
        seat.got.extend_from_slice(&answers);
        seat.input.drain(..taken.consumed);
        seat.stalled = taken.stalled;
        if taken.terminate {
            self.client_leaves(client);
        }
    }

    /// Releases a server, after a check against the model that nothing is outstanding.
    fn release(&mut self, server: usize) {
        let upstream = &mut self.servers[server];
        assert!(upstream.session.is_free());
        let mut question = Vec::new();
        if upstream.lease.is_some()
            && upstream
                .session
                .ask_state(&CustomNames::default(), &mut question)
        {
            return upstream.hear(&question);
        }
        assert!(upstream.backend.is_at_rest(), "{:?}", upstream.backend);
        assert!(upstream.on_the_way.is_empty(), "unread replies");
        assert_eq!(upstream.session.status(), TransactionStatus::Idle);
        assert_eq!(upstream.session.owed_replies(), 0);
        let (believed, really) = (upstream.believed_prepared(), upstream.really_prepared());
        if !self.loses {
            assert_eq!(believed, really, "prepared statements");
            let max = self.rules.max_prepared;
            assert!(max == 0 || really.len() <= max, "{really:?}");
        }
        if let Some(client) = upstream.lease.take() {
            self.clients[client].lease = None;
        }
        self.wake();
    }

    fn wake(&mut self) {
        while let Some(server) = self.free_server() {
            let Some(client) = self.waiting.pop_front() else {
                return;
            };
            self.grant(client, server);
        }
    }
}
