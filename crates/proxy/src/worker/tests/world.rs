//! World of workers, clients and servers in which nothing moves unless a test says so.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossbeam_channel::Receiver;
use weir_access::Hba;
use weir_auth::userlist::UserList;
use weir_pool::Moment;
use weir_sql::Catalogue;
use weir_stats::{Endpoint, Snapshot};
use weir_testkit::backend::Database;
use weir_testkit::cluster::{Cluster, Site};
use weir_testkit::reading::{messages, outline};
use weir_wire::encode;
use weir_wire::startup::Version;

use super::postgres::{CancelCall, Catalog, Postgres};
use super::secure::CONFIG;
use crate::console::{Console, Conversation, Order, Refusal, Role, Shutdown, Step};
use crate::driver::memory::{End, MemoryDriver, Peer, Sending};
use crate::driver::{CHUNK, Owner};
use crate::global::Global;
use crate::listen::Accepted;
use crate::mailbox::Message;
use crate::offload::Offload;
use crate::orders::Task;
use crate::settled::{Access, Settled, Setup};
use crate::socket::{Socket, Target};
use crate::transport::Transport;
use crate::worker::Worker;

mod invariants;
mod protected;
mod sentry;
mod upgrade;

use protected::Helpers;
pub(super) use protected::Protecting;
pub(super) use sentry::{Sentry, TwoHosts};
use upgrade::{Predecessor, staff};

/// Default capacity of a connection, in bytes.
const ROOM: usize = 1 << 20;
/// Marker in configuration lines whose TLS is the record layer without cryptography.
pub(super) const STAND_IN: &str = "; stand-in of TLS";
/// Longest wait for a helper.
const PATIENCE: Duration = Duration::from_secs(20);

/// Client of a test: all bytes it received, and bytes still to be sent.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) peer: Peer,
    pub(super) got: Vec<u8>,
    seen: usize,
    unsent: Vec<u8>,
    /// True if the client does not read.
    pub(super) deaf: bool,
    pub(super) left: bool,
}

impl Caller {
    /// Sends as much as fits, and receives.
    pub(super) fn serve(&mut self) -> bool {
        if self.left {
            return false;
        }
        let unsent = self.unsent.len();
        let moves = self.peer.moves();
        self.send_some(unsent);
        let before = self.got.len();
        self.receive();
        let moved = self.unsent.len() < unsent || self.got.len() > before;
        moved || self.peer.moves() != moves
    }

    /// Sends up to `max` bytes as one segment.
    pub(super) fn send_some(&mut self, max: usize) {
        let sent = self.peer.send(&self.unsent[..max.min(self.unsent.len())]);
        self.unsent.drain(..sent);
    }

    /// Receives the bytes that have arrived.
    pub(super) fn receive(&mut self) {
        if !self.deaf && !self.left {
            self.got.extend(self.peer.receive(usize::MAX));
        }
    }

    pub(super) fn say(&mut self, bytes: &[u8]) {
        self.unsent.extend_from_slice(bytes);
    }

    pub(super) fn unsent(&self) -> usize {
        self.unsent.len()
    }

    /// True if Weir has closed the connection.
    pub(super) fn is_closed(&self) -> bool {
        self.peer.is_over()
    }

    /// Returns an outline of the messages received since the last call.
    pub(super) fn heard(&mut self) -> String {
        let line = outline(&self.got[self.seen..]);
        self.seen = self.got.len();
        line
    }

    /// Returns the bytes received since the last call.
    pub(super) fn new_bytes(&mut self) -> &[u8] {
        let seen = std::mem::replace(&mut self.seen, self.got.len());
        &self.got[seen..]
    }

    /// Makes the next outline begin with the first byte received.
    pub(super) fn hear_again(&mut self) {
        self.seen = 0;
    }

    /// Disconnects the client.
    pub(super) fn leave(&mut self, how: End) {
        self.left = true;
        self.peer.end(how);
    }

    /// Returns process number and cancel key.
    pub(super) fn cancel_key(&self) -> (u32, Vec<u8>) {
        let (found, _) = messages(&self.got);
        let data = found.iter().find(|message| message.tag == b'K').unwrap();
        let (pid, key) = data.body.split_first_chunk().unwrap();
        (u32::from_be_bytes(*pid), key.to_vec())
    }
}

/// Reaction of the host to a connection from a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Host {
    Accepts,
    Refuses,
    /// No answer at all.
    Silent,
    /// Connection accepted, login refused with this SQLSTATE.
    Rejects(&'static str),
}

/// See the module's page.
pub(super) struct World {
    pub(super) global: Arc<Global>,
    hands: &'static AtomicU64,
    pub(super) workers: Vec<Worker<MemoryDriver>>,
    pub(super) callers: Vec<Caller>,
    pub(super) servers: Vec<Postgres>,
    pub(super) unanswered: Vec<Peer>,
    pub(super) cancels: Vec<CancelCall>,
    /// True if cancel requests are signalled, and their connections closed, as soon as they arrive.
    pub(super) cancels_at_once: bool,
    pub(super) host: Host,
    /// Database shared by servers that behave as PostgreSQL.
    pub(super) database: Option<Database>,
    /// Hosts 10.0.0.1, 10.0.0.2 and so on, which share that database. Without them, any address is one host.
    pub(super) cluster: Option<Cluster>,
    /// Answers of servers to queries about users.
    pub(super) catalog: Arc<Mutex<Catalog>>,
    /// True if workers read the catalogue of their databases, which have no objects of their own.
    pub(super) has_catalogue: bool,
    /// Rings when the waker of the mailboxes is used, such as when a helper has sent a message.
    wakeups: Receiver<()>,
    /// Previous process; its workers stand behind ours.
    predecessor: Option<Predecessor>,
    /// Clients that stay with the previous process, as it has told.
    pub(super) stay: Option<crate::Stay>,
    room: usize,
    /// Size of the drivers' chunks, in bytes.
    chunk: usize,
    /// Manner in which the workers' sends complete.
    pub(super) sending: Sending,
    pids: u32,
    /// Helpers for handshakes of the stand-in.
    helpers: Helpers,
    /// Protection of the peers' ends, if there is any.
    pub(super) protecting: Option<Protecting>,
}

struct NoConsole;

impl Console for NoConsole {
    fn greeting(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn open(&self, _: Role) -> Box<dyn Conversation> {
        Box::new(Orders)
    }
}

fn said(text: &str) -> Vec<u8> {
    let mut message = Vec::new();
    encode::command_complete(&mut message, text.as_bytes()).unwrap();
    message
}

/// Console that understands orders, and answers with their outcome. Any other text returns the numbers of all clients.
struct Orders;

impl Conversation for Orders {
    fn handle(&mut self, _: u8, body: &[u8]) -> Step {
        let text = String::from_utf8_lossy(body);
        let mut words = text.trim_end_matches('\0').split(' ');
        let word = words.next();
        let name = words.next().map(str::to_owned);
        match word {
            Some("DISABLE") => Step::Perform(Order::Disable(name.unwrap_or_default())),
            Some("ENABLE") => Step::Perform(Order::Enable(name.unwrap_or_default())),
            Some("KILL") => Step::Perform(Order::Kill(name)),
            Some("KILL_CLIENT") => {
                let id = name.and_then(|id| id.parse().ok()).unwrap_or_default();
                Step::Perform(Order::KillClient(id))
            }
            Some("PAUSE") => Step::Perform(Order::Pause(name)),
            Some("RECONNECT") => Step::Perform(Order::Reconnect(name)),
            Some("RELOAD") => Step::Perform(Order::Reload),
            Some("RESET") => Step::Perform(Order::ResetDigests),
            Some("RESUME") => Step::Perform(Order::Resume(name)),
            Some("SUSPEND") => Step::Perform(Order::Suspend),
            Some("WAIT_CLOSE") => Step::Perform(Order::WaitClose(name)),
            _ => Step::Gather { digests: false },
        }
    }

    fn gathered(&mut self, snapshot: &Snapshot) -> Vec<u8> {
        let clients: Vec<_> = snapshot
            .clients
            .iter()
            .map(|row| row.id.to_string())
            .collect();
        said(&clients.join(" "))
    }

    fn performed(&mut self, outcome: Result<(), Refusal>) -> Vec<u8> {
        said(&outcome.map_or_else(|refusal| refusal.to_string(), |()| "done".to_owned()))
    }
}

impl World {
    /// Makes workers with these lines in the global section of the configuration.
    pub(super) fn new(workers: usize, lines: &str) -> Self {
        Self::with_room(workers, lines, ROOM)
    }

    /// Makes such workers with this capacity of every connection, in bytes.
    pub(super) fn with_room(workers: usize, lines: &str, room: usize) -> Self {
        Self::made(workers, lines, room, "\"ann\" \"\"\n\"bob\" \"\"\n")
    }

    /// Makes one worker, with these lines in the auth_file.
    pub(super) fn with_users(lines: &str, users: &str) -> Self {
        Self::made(1, lines, ROOM, users)
    }

    /// Puts another configuration in force, made from these lines like the first.
    pub(super) fn reload(&mut self, lines: &str) {
        self.reload_unsettled(lines);
        self.settle();
    }

    /// Puts another configuration in force before any worker knows of it.
    pub(super) fn reload_unsettled(&self, lines: &str) {
        let before = self.global.settled();
        let setup = setup(lines, "\"ann\" \"\"\n\"bob\" \"\"\n");
        self.global
            .settle(Arc::new(Settled::new(setup, Some(&before))));
        for worker in 0..self.global.worker_count() {
            let sent = self.global.mailbox(worker).unwrap().send(Message::Settings);
            assert!(sent.is_ok());
        }
    }

    fn made(workers: usize, lines: &str, room: usize, users: &str) -> Self {
        let hands: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(1_000_000)));
        let helpers = Helpers::default();
        let (global, workers, wakeups) = staff(workers, setup(lines, users), room, hands, &helpers);
        Self {
            workers,
            global,
            hands,
            callers: Vec::new(),
            servers: Vec::new(),
            unanswered: Vec::new(),
            cancels: Vec::new(),
            cancels_at_once: true,
            host: Host::Accepts,
            database: None,
            cluster: None,
            catalog: Arc::default(),
            has_catalogue: false,
            wakeups,
            predecessor: None,
            stay: None,
            room,
            chunk: CHUNK,
            sending: Sending::default(),
            pids: 0,
            helpers,
            protecting: None,
        }
    }

    // --- clients ---

    /// Connects a client, which sends nothing yet.
    pub(super) fn connect(&mut self) -> usize {
        self.connect_from("")
    }

    /// Connects a client from this address.
    pub(super) fn connect_from(&mut self, address: &str) -> usize {
        let (accepted, index) = self.caller(address);
        self.workers[0].driver.arrive(accepted);
        index
    }

    /// Connects a client that another worker has accepted for this one.
    pub(super) fn connect_to(&mut self, worker: usize) -> usize {
        let (accepted, index) = self.caller("");
        self.global.workers.loads[worker].fetch_add(1, Ordering::Relaxed);
        let mailbox = self.global.mailbox(worker).unwrap();
        mailbox.send_waiting(Message::Accepted(Box::new(accepted)));
        index
    }

    /// Makes both ends of a client's connection.
    fn caller(&mut self, address: &str) -> (Accepted, usize) {
        let (stream, peer) = Peer::pair(self.room);
        let accepted = Accepted {
            stream: Socket::Memory(stream).into(),
            remote: Endpoint {
                address: address.to_owned(),
                port: 0,
            },
            local: Endpoint::default(),
            is_loopback: true,
            remote_pid: 0,
            remote_uid: None,
        };
        self.callers.push(Caller {
            peer,
            got: Vec::new(),
            seen: 0,
            unsent: Vec::new(),
            deaf: false,
            left: false,
        });
        (accepted, self.callers.len() - 1)
    }

    /// Connects a client that sends a start-up packet.
    pub(super) fn dial(&mut self, user: &str, parameters: &[(&str, &str)]) -> usize {
        self.dial_from("", user, parameters)
    }

    /// Connects a client from this address that sends a start-up packet.
    pub(super) fn dial_from(
        &mut self,
        address: &str,
        user: &str,
        parameters: &[(&str, &str)],
    ) -> usize {
        let index = self.connect_from(address);
        let mut packet = Vec::new();
        let mut all = vec![("user", user)];
        if parameters.iter().all(|(name, _)| *name != "database") {
            all.push(("database", "shop"));
        }
        all.extend(parameters);
        let all: Vec<_> = all
            .iter()
            .map(|(n, v)| (n.as_bytes(), v.as_bytes()))
            .collect();
        encode::startup(&mut packet, Version::V3_0, &all).unwrap();
        self.callers[index].say(&packet);
        index
    }

    /// Returns a client that has logged in and has read its greeting.
    #[track_caller]
    pub(super) fn login(&mut self) -> usize {
        let index = self.dial("ann", &[]);
        self.settle();
        let greeting = self.callers[index].heard();
        assert!(greeting.ends_with("Z(I)"), "{greeting}");
        index
    }

    /// Returns a client of the console, for worlds with `admin_users = ann`.
    pub(super) fn login_to_console(&mut self) -> usize {
        let index = self.dial("ann", &[("database", "pgbouncer")]);
        self.settle();
        let greeting = self.callers[index].heard();
        assert!(greeting.ends_with("Z(I)"), "{greeting}");
        index
    }

    /// Lets all groups that exist know a catalogue without a function or view of the database's own.
    pub(super) fn know_catalogue(&self) {
        let groups = self
            .workers
            .iter()
            .flat_map(|worker| worker.tables.groups.iter());
        for (_, group) in groups {
            let state = &group.global.database_state;
            if state.generation() == 0 {
                let empty = Catalogue::load([[&b"H"[..], b"1", b"", b"", b""]]);
                state.learn(empty.ok(), self.now(), Duration::from_secs(1 << 30));
            }
        }
    }

    /// Sends bytes, lets everything happen, and returns an outline of the answers.
    #[track_caller]
    pub(super) fn ask(&mut self, index: usize, bytes: &[u8]) -> String {
        self.callers[index].say(bytes);
        self.settle();
        self.callers[index].heard()
    }

    /// Sends bytes to the first server, which executes them, says this many bytes of its answer at most, and ends. Returns
    /// an outline of what the client got, and whether the answer was as long.
    pub(super) fn ask_in_vain(
        &mut self,
        index: usize,
        bytes: &[u8],
        cut: usize,
        (last_word, how): (bool, End),
    ) -> (String, bool) {
        self.callers[index].say(bytes);
        self.callers[index].serve();
        self.turn(0);
        let server = &mut self.servers[0];
        server.hear();
        while server.work() {}
        let is_cut = cut <= server.unsent();
        server.speak(cut);
        server.discard_unsent();
        self.turn(0);
        self.servers[0].die(last_word, how);
        self.settle();
        (self.callers[index].heard(), is_cut)
    }

    /// Sends a cancel request for a client. Returns the client that carries the request.
    pub(super) fn request_cancel(&mut self, of: usize) -> usize {
        let (pid, key) = self.callers[of].cancel_key();
        let index = self.connect();
        let mut packet = Vec::new();
        encode::cancel_request(&mut packet, pid, &key).unwrap();
        self.callers[index].say(&packet);
        self.protect_caller(index);
        index
    }

    /// Sends the task of an order to every worker.
    pub(super) fn task(&self, task: &Task) {
        for mailbox in self.global.workers.mailboxes.get().unwrap() {
            let task = task.clone();
            drop(mailbox.send(Message::Task { task, to: None }));
        }
    }

    // --- time and turns ---

    pub(super) fn now(&self) -> Moment {
        Moment(self.hands.load(Ordering::Relaxed))
    }

    /// Advances the clock in one step.
    pub(super) fn pass(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap();
        self.hands.fetch_add(micros, Ordering::Relaxed);
    }

    /// Advances the clock to the next deadline, if that is within a second.
    pub(super) fn leap(&self) {
        let next = self
            .workers
            .iter()
            .filter_map(|worker| worker.timers.next())
            .min();
        let soon = self.now().plus(Duration::from_secs(1));
        self.hands.fetch_max(
            next.filter(|at| *at <= soon).map_or(0, |at| at.0),
            Ordering::Relaxed,
        );
    }

    /// Advances the clock from deadline to deadline, and lets everything happen at each.
    pub(super) fn advance(&mut self, time: Duration) {
        let end = self.now().plus(time);
        loop {
            self.settle();
            let deadlines = self.workers.iter().filter(|worker| !worker.has_ended());
            let next = deadlines.filter_map(|worker| worker.timers.next()).min();
            let next = next.filter(|at| *at <= end).unwrap_or(end);
            self.hands.fetch_max(next.0, Ordering::Relaxed);
            if next == end {
                return self.settle();
            }
        }
    }

    /// Runs one turn of a worker, and answers the connections that it asks for.
    pub(super) fn turn(&mut self, number: usize) -> bool {
        let Some(worker) = self
            .workers
            .get_mut(number)
            .filter(|worker| !worker.has_ended())
        else {
            return false;
        };
        let due = worker
            .timers
            .next()
            .is_some_and(|at| at.0 <= self.hands.load(Ordering::Relaxed));
        let before = worker.driver.moves();
        let has_mail = worker.inbox.are_waiting();
        worker.driver.sending = self.sending;
        worker.driver.chunk = self.chunk;
        worker.turn().unwrap();
        let moved = due || has_mail || worker.driver.moves() != before;
        if self.has_catalogue {
            self.know_catalogue();
        }
        for (owner, peer) in self.workers[number].driver.take_dialled() {
            self.answer(number, owner, peer);
        }
        self.check();
        moved
    }

    fn answer(&mut self, number: usize, owner: Owner, peer: Peer) {
        let for_session = matches!(owner, Owner::Server(_));
        let site = self.site_of(number, owner);
        let is_down = |site: &Site| !site.is_up();
        self.protect_server(&peer);
        match self.host {
            _ if site.as_ref().is_some_and(is_down) => peer.refuse(),
            _ if !for_session => {
                peer.accept();
                self.servers.push(Postgres::new(0, peer));
            }
            Host::Refuses => peer.refuse(),
            Host::Silent => self.unanswered.push(peer),
            Host::Accepts | Host::Rejects(_) => {
                peer.accept();
                self.pids += 1;
                let mut server = Postgres::new(self.pids, peer);
                server.catalog = Arc::clone(&self.catalog);
                server.database.clone_from(&self.database);
                server.site = site;
                if let Host::Rejects(code) = self.host {
                    server.refusal = Some((code, "not now"));
                }
                self.servers.push(server);
            }
        }
    }

    /// Returns the host that a worker connects to, in a world with several.
    fn site_of(&self, worker: usize, owner: Owner) -> Option<Site> {
        let cluster = self.cluster.as_ref()?;
        let Owner::Server(id) = owner else {
            return None;
        };
        let server = self.workers[worker].tables.servers.get(id)?;
        let Target::Tcp(address, _) = &server.facts.target else {
            return None;
        };
        let std::net::IpAddr::V4(address) = address.ip() else {
            return None;
        };
        Some(cluster.site(usize::from(address.octets()[3]) - 1))
    }

    /// Moves connections that carry cancel requests from `servers` to `cancels`.
    pub(super) fn sort_out_cancels(&mut self) -> bool {
        let mut moved = false;
        for index in (0..self.servers.len()).rev() {
            if let Some((pid, key)) = self.servers[index].cancel_request() {
                let peer = self.servers.remove(index).peer;
                self.cancels.push(CancelCall {
                    pid,
                    key,
                    peer,
                    signalled: false,
                });
                moved = true;
            }
        }
        if self.cancels_at_once {
            for index in 0..self.cancels.len() {
                self.signal(index);
                self.cancels[index].peer.end(End::Orderly);
            }
            self.cancels.clear();
        }
        moved
    }

    /// Delivers the signal of a cancel request to the server that it names. True if it hit a statement.
    pub(super) fn signal(&mut self, index: usize) -> bool {
        let call = &mut self.cancels[index];
        call.signalled = true;
        let named = self
            .servers
            .iter_mut()
            .find(|server| server.pid == call.pid);
        named.is_some_and(|server| {
            assert_eq!(server.key().as_slice(), call.key, "the right key");
            server.signal()
        })
    }

    /// Lets everything happen that can happen without time passing. No order may hold clients back.
    pub(super) fn settle(&mut self) {
        self.settle_under_orders();
        self.check_quiet();
    }

    /// As [`World::settle`], while clients may be paused or suspended.
    pub(super) fn settle_under_orders(&mut self) {
        for _ in 0..10_000 {
            let mut moved = false;
            for caller in &mut self.callers {
                moved |= caller.serve();
            }
            for worker in 0..self.workers.len() {
                moved |= self.turn(worker);
            }
            for server in &mut self.servers {
                moved |= server.serve();
            }
            moved |= self.sort_out_cancels();
            moved |= self.carry();
            moved |= self.help_all();
            if !moved {
                return;
            }
        }
        panic!("the world never comes to rest");
    }

    /// Waits until a helper thread has sent a mailbox message, then lets everything happen.
    #[track_caller]
    pub(super) fn settle_with_helpers(&mut self) {
        while !self.workers.iter().any(|worker| worker.inbox.are_waiting()) {
            let rung = self.wakeups.recv_timeout(PATIENCE);
            assert!(rung.is_ok(), "no helper says anything");
        }
        self.settle();
    }

    /// Lets everything happen, and helpers work, until `is_so` returns true.
    #[track_caller]
    pub(super) fn settle_until(&mut self, mut is_so: impl FnMut(&Self) -> bool) {
        self.settle();
        while !is_so(self) {
            self.settle_with_helpers();
        }
    }

    pub(super) fn shut_down(&mut self, how: Shutdown) {
        for mailbox in self.global.workers.mailboxes.get().unwrap() {
            mailbox.send_waiting(Message::Shutdown(how));
        }
        self.settle();
    }
}

/// Makes a configuration of these lines, with the tests' own defaults.
fn setup(lines: &str, users: &str) -> Setup {
    let fallback = match lines.contains("; no others") {
        true => "",
        false => "* = host=10.0.0.1",
    };
    let or = |own: &str, default| if lines.contains(own) { "" } else { default };
    let auth = or("auth_type", "auth_type = trust");
    let delay = or("auth_failure_delay", "auth_failure_delay = 0");
    let max = or("max_client_conn", "max_client_conn = 1000");
    // The shorthand is not SQL: Weir would have to query the state after every statement.
    let state = or("session_state", "session_state = off");
    // Tests of role checks enable them; the others count the queries of servers.
    let role = or("role_check_delay", "role_check_delay = 0");
    let tls = or("server_tls_sslmode", "server_tls_sslmode = disable");
    let text = format!(
        "[databases]\n{fallback}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nauth_file = users\n\
         unix_socket_dir =\nlog_connections = 0\nlog_disconnections = 0\nlog_pooler_errors = 0\n\
         log_stats = 0\npool_mode = transaction\n{tls}\n{role}\n{state}\n{delay}\n{auth}\n{max}\n{lines}\n"
    );
    let mut read = |_: &std::path::Path| Ok(text.clone());
    let loaded = weir_config::load("weir.ini".as_ref(), &mut read, std::iter::empty());
    let users = UserList::parse(users.as_bytes()).unwrap();
    let mut loaded = loaded.unwrap().settings;
    loaded.rules = query_rules(lines);
    list_statements(lines, &mut loaded);
    let transport = if lines.contains(STAND_IN) {
        Transport::stand_in(&loaded, &CONFIG)
    } else if lines.contains("_tls_") {
        Transport::load(&loaded).unwrap()
    } else {
        Transport::default()
    };
    Setup {
        settings: Arc::new(loaded),
        users: Arc::new(users),
        access: access(lines),
        transport: Arc::new(transport),
    }
}

/// Parses lines that begin with `; rule ` as query rules of a weir.toml.
fn query_rules(lines: &str) -> Vec<weir_config::QueryRule> {
    let rules = lines
        .lines()
        .filter_map(|line| line.strip_prefix("; rule "));
    let rules: Vec<_> = rules.collect();
    let text = format!(
        "auth_type = \"any\"\n[databases.\"*\"]\nhost = \"h\"\n{}",
        rules.join("\n")
    );
    let mut read = |_: &std::path::Path| Ok(text.clone());
    let loaded = weir_config::load("weir.toml".as_ref(), &mut read, std::iter::empty());
    loaded.unwrap().settings.rules
}

/// Takes the statements behind `; listed ` for the list of ann. A line `; enforced` enforces it.
fn list_statements(lines: &str, loaded: &mut weir_config::Settings) {
    let mut list = weir_rules::StatementList::default();
    for text in lines
        .lines()
        .filter_map(|line| line.strip_prefix("; listed "))
    {
        let (known, entry) = weir_rules::StatementEntry::of(text.as_bytes());
        list.insert(known, entry);
    }
    let enforced = weir_config::StatementPolicy::Enforce;
    if let (Some(user), true) = (loaded.users.get_mut("ann"), lines.contains("; enforced")) {
        user.statement_policy = Some(enforced);
    }
    loaded
        .statement_lists
        .insert("ann".to_owned(), Arc::new(list));
}

/// Parses lines that begin with `; hba ` as an auth_hba_file.
fn access(lines: &str) -> Access {
    let rules = lines.lines().filter_map(|line| line.strip_prefix("; hba "));
    let rules: Vec<_> = rules.collect();
    let hba = Hba::parse("hba", &rules.join("\n")).unwrap();
    Access {
        hba: (!rules.is_empty()).then(|| Arc::new(hba)),
        ..Access::default()
    }
}

/// Blocks the helpers until the returned sender is dropped.
pub(super) fn hold_up(helpers: &Offload) -> crossbeam_channel::Sender<()> {
    let (gate, opened) = crossbeam_channel::bounded::<()>(0);
    // More jobs than threads: the surplus ends at once when the gate opens.
    for _ in 0..16 {
        let opened = opened.clone();
        let job = move || {
            let _ = opened.recv();
        };
        assert!(helpers.run(job).is_ok());
    }
    gate
}
