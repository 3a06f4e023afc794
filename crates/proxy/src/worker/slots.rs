//! State that a worker keeps for each client, server and pool.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use slotmap::Key as _;
use weir_auth::secret::Secret;
use weir_config::{PoolSettings, StateCheck};
use weir_pool::{Entered, HostId, Moment, Serial, Shard, Ticket, Transfer, Want};
use weir_route::Load;
use weir_session::client::Client as ClientSession;
use weir_session::counted::DigestGroup;
use weir_session::fault::Fault;
use weir_session::hello::{Hello, Opening, Replication};
use weir_session::login::ServerLogin;
use weir_session::relay::Rules;
use weir_session::server::Server as ServerSession;
use weir_session::settings::Reported;
use weir_sql::Judge;
use weir_stats::{Counters, Endpoint};
use weir_tls::session::CertificateDer;

use super::access::{Directory, Learnt};
use super::again::Repeats;
use super::applications::Work;
use super::away::Home;
use super::cancel::HeldCancel;
use super::ids::{ClientId, GroupId, LaneId, ListenerId, ServerId, Waiter};
use super::inquiry::Inquiry;
use super::keeping::Kept;
use super::listening::Subscriber;
use super::measure::Timing;
use super::replication::{Replicating, Seeking};
use super::rewriting::Rewriter;
use super::routing::{Route, Routing};
use super::ruling::{ClientRules, GroupRules};
use super::sizing::Counted;
use super::state::Pinned;
use super::throttle::Throttled;
use crate::console::{Conversation, Role};
use crate::driver::Key;
use crate::global::{GlobalGroup, GlobalPool};
use crate::moved::Facts;
use crate::securing::Securing;
use crate::socket::Target;
use crate::tls::Protection;
use crate::transport::{Incoming, Outgoing};

// === clients ===

/// Phase of a client's life.
pub(super) enum Phase {
    /// The client is logging in.
    Authenticating(Box<Authenticating>),
    /// The connection comes from a proxy, whose header has not come yet.
    AwaitingHeader,
    /// The client's cancel request is being carried out.
    Cancelling,
    /// The client talks to the console.
    Console(Box<dyn Conversation>),
    /// The client has not sent its start-up packet.
    Opening(Opening),
    /// The client is logged in and may send queries.
    Ready,
    /// The client has a replication connection to its server.
    Replicating(Box<Replicating>),
    /// The client's TLS handshake is in progress.
    Securing(Box<Securing>),
    /// The client waits for a replication connection to a server.
    SeekingWalsender(Box<Seeking>),
    /// The client waits for the reported parameters that belong to its start-up parameters.
    Welcome,
}

impl Phase {
    /// True if the client counts in its group.
    pub(super) fn has_group(&self) -> bool {
        matches!(
            self,
            Self::Ready | Self::Replicating(_) | Self::SeekingWalsender(_) | Self::Welcome
        )
    }
}

/// A login in progress.
pub(super) struct Authenticating {
    pub(super) hello: Hello,
    pub(super) exchange: Option<Box<weir_auth::login::Exchange>>,
    /// True if the exchange is SCRAM; its failures have a name of their own.
    /// Destination after the login. None if there is no such database, which the client learns only after the login.
    pub(super) plan: Option<Plan>,
    /// Time of the client's last message. The delay of a refusal counts from here, however long the check took.
    pub(super) spoke_at: Moment,
    /// Time for which a refusal is held back; counted as soon as the failure is certain.
    pub(super) penalty: Option<Duration>,
    /// Reason why the login does not continue now.
    pub(super) busy: Busy,
    /// Facts found out for this login.
    pub(super) learnt: Learnt,
    /// Directory that checks the password, if Weir does not check it itself.
    pub(super) directory: Option<Directory>,
    /// Password that a directory checks. Once accepted, it also serves to log in to the server.
    pub(super) typed: Option<Secret>,
}

/// Event that a login waits for.
pub(super) enum Busy {
    /// Nothing: the client sends the next message.
    No,
    /// An answer of a server.
    Inquiring(Inquiry),
    /// The time at which the refusal is sent to the client.
    Refused(Fault),
    /// A helper thread.
    Waiting,
}

/// Destination of an authenticated client.
pub(super) enum Plan {
    Console(Role),
    Pool(Box<PoolSettings>),
}

/// Places of a client in limits. They are given back when the client leaves.
#[derive(Default)]
pub(super) struct Guards {
    pub(super) greeter: Option<Entered>,
    pub(super) client: Option<Entered>,
    pub(super) database: Option<Entered>,
    pub(super) user: Option<Entered>,
    /// Place among the open consoles.
    pub(super) console: Option<Entered>,
}

/// Protection of a client's TLS connection.
pub(super) struct ClientProtection {
    pub(super) protection: Protection,
    /// The client's own certificate, which has been verified.
    pub(super) certificate: Option<CertificateDer<'static>>,
}

/// Facts about a client that the hot path does not need.
pub(super) struct Identity {
    pub(super) user: Arc<str>,
    pub(super) database: Arc<str>,
    pub(super) remote: Endpoint,
    pub(super) local: Endpoint,
    pub(super) remote_pid: u32,
    pub(super) remote_uid: Option<u32>,
    pub(super) is_loopback: bool,
    /// Protection of the connection by TLS.
    pub(super) tls: Option<ClientProtection>,
    /// TLS settings of the client's handshake, kept until the client has logged in.
    pub(super) incoming: Option<Arc<Incoming>>,
    pub(super) connected_at: Moment,
    pub(super) guards: Guards,
    /// Process number in the client's cancel key; 0 if none is registered.
    pub(super) cancel_pid: u32,
    /// True if cancel keys are longer (protocol 3.2).
    pub(super) long_key: bool,
}

/// Client connection of this worker.
pub(super) struct Client {
    pub(super) key: Key,
    /// Number that log lines and the console show.
    pub(super) id: u64,
    pub(super) phase: Phase,
    pub(super) session: ClientSession,
    /// Group of the client, for ever. Null before the client has logged in, unless its login asks a server.
    pub(super) group: GroupId,
    /// Lane of the group in which the client waits or has a server.
    pub(super) lane: LaneId,
    /// Server of the client.
    pub(super) lease: Option<ServerId>,
    /// Place in the queue.
    pub(super) ticket: Option<Ticket>,
    /// Input that could not be handled yet.
    pub(super) input: Vec<u8>,
    /// True if the client's last input waits for the server's reply to earlier input.
    pub(super) stalled: bool,
    /// Cancel request for this client that waits for its turn.
    pub(super) held_cancel: Option<Box<HeldCancel>>,
    /// True if the client has not had a server since it logged in.
    pub(super) is_newcomer: bool,
    /// True if the client is a lane of a mirror.
    pub(super) is_mirror: bool,
    /// Class of the client's transaction, in a pool that finds its own size.
    pub(super) class: u8,
    pub(super) wait_since: Moment,
    pub(super) request_at: Moment,
    /// Time at which the last request was answered.
    pub(super) replied_at: Moment,
    pub(super) transaction_at: Moment,
    pub(super) identity: Box<Identity>,
    /// Place among the pinned clients; boxed, since few clients are pinned.
    pub(super) pinned: Option<Box<Pinned>>,
    /// Listening state; most clients do not listen.
    pub(super) subscriber: Option<Box<Subscriber>>,
    /// Repeats of the present request; none for nearly all.
    pub(super) repeats: Option<Box<Repeats>>,
    /// Query rules that fit the client, once that was asked.
    pub(super) rules: Option<Box<ClientRules>>,
    /// Set while a query rule lets the client wait.
    pub(super) throttled: Option<Box<Throttled>>,
    /// Position in the client's messages, if its texts may be rewritten.
    pub(super) rewriter: Option<Box<Rewriter>>,
    /// Place of the client at its own database, while a rule has sent it to another one.
    pub(super) away: Option<Box<Home>>,
    /// Host of the client's transaction, if its database has several.
    pub(super) route: Option<Box<Route>>,
    /// Counters of the client.
    pub(super) work: Work,
    /// Time of the client's timer, if armed.
    pub(super) timer: Option<Moment>,
}

impl Client {
    /// Returns the state of a connection that has just come in.
    pub(super) fn new(key: Key, id: u64, phase: Phase, identity: Identity, now: Moment) -> Self {
        Self {
            key,
            id,
            phase,
            session: ClientSession::default(),
            group: GroupId::null(),
            lane: LaneId::null(),
            lease: None,
            ticket: None,
            input: Vec::new(),
            stalled: false,
            held_cancel: None,
            is_newcomer: false,
            is_mirror: false,
            class: 0,
            wait_since: now,
            request_at: now,
            replied_at: now,
            transaction_at: now,
            identity: Box::new(identity),
            pinned: None,
            subscriber: None,
            repeats: None,
            rules: None,
            throttled: None,
            rewriter: None,
            away: None,
            route: None,
            work: Work::default(),
            timer: None,
        }
    }

    /// Requirement of the client's next request on its server.
    #[inline]
    pub(super) fn want(&self) -> Want {
        match self.session.wants_new_server() {
            true => Want::Fresh(Serial(self.id)),
            false => Want::Any,
        }
    }
}

/// Writes the prefix of PgBouncer's log lines.
impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let identity = &self.identity;
        let or = |name: &Arc<str>, none: &'static str| -> String {
            if name.is_empty() {
                none.to_owned()
            } else {
                name.to_string()
            }
        };
        let (database, user) = (
            or(&identity.database, "(nodb)"),
            or(&identity.user, "(nouser)"),
        );
        write!(
            f,
            "C-{:#x}: {database}/{user}@{}",
            self.id,
            Address(&identity.remote, identity.remote_pid)
        )
    }
}

/// End of a connection as the log shows it.
pub(super) struct Address<'a>(pub(super) &'a Endpoint, pub(super) u32);

impl fmt::Display for Address<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Endpoint { address, port } = self.0;
        match address.as_str() {
            "unix" if self.1 > 0 => write!(f, "unix({}):{port}", self.1),
            text if text.contains(':') => write!(f, "[{text}]:{port}"),
            text => write!(f, "{text}:{port}"),
        }
    }
}

// === servers ===

/// Purpose of a test of a server connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Test {
    /// Runs `server_check_query` before this client gets the server.
    Check(Waiter),
    /// Runs `connect_query`.
    Connect,
    /// Reads what the database's functions and relations may do to a session.
    Load {
        /// True if the server has just logged in and was not used yet.
        is_new: bool,
    },
    /// Asks whether the functions and relations have changed since.
    Look,
    /// Asks whether the role and its defaults are still those of the session's login. If a client is named, it gets the
    /// server afterwards.
    Role(Option<ClientId>),
    /// Runs an empty query after a cancel, so that a late cancel hits no client.
    Ping,
    /// Runs `server_reset_query`.
    Reset,
}

impl Test {
    /// Returns the reason for closing a server that fails the test.
    pub(super) const fn failure(self) -> &'static str {
        match self {
            Self::Check(_) | Self::Ping => "test query failed",
            Self::Role(_) => "role check failed",
            Self::Connect => "exec_on_connect query failed",
            Self::Load { .. } | Self::Look => "catalogue query failed",
            Self::Reset => "reset query failed",
        }
    }
}

/// Stage of a server connection's life.
pub(super) enum Stage {
    /// The server waits until the cancel that was sent to it is over.
    BeingCancelled,
    /// The client has left, and the server finishes its work.
    Cleaning,
    /// The connection is being made.
    Connecting,
    /// No client uses the server.
    Idle,
    /// The server works for the client in `lease`.
    Leased,
    /// The server listens for the clients of a database.
    Listening(ListenerId),
    /// The server connection is logging in.
    Login(Box<ServerLogin>),
    /// The server goes to another worker as soon as the driver gives its connection back.
    Moving(Box<Departure>),
    /// The server was asked for TLS; these settings apply once it has answered.
    Negotiating(Arc<Outgoing>),
    /// The client of a replication connection has left: the server gets the last bytes and ends.
    Parting,
    /// The connection is the replication connection of the client in `lease`.
    Replicating,
    /// The addresses of the server's host are being looked up, by this name.
    Resolving(String),
    /// The server's TLS handshake is in progress.
    Securing(Box<Securing>),
    /// A request of our own runs.
    Testing(Test),
}

/// Server that goes to another worker.
pub(super) struct Departure {
    /// Worker that gets the server.
    pub(super) worker: usize,
    /// True if that worker has asked for it.
    pub(super) asked: bool,
    pub(super) transfer: Transfer,
}

impl Stage {
    /// True if the connection has not logged in yet.
    pub(super) fn is_beginning(&self) -> bool {
        self.is_before_startup() || matches!(self, Self::Login(_))
    }

    /// True if the server can be told that the connection ends.
    pub(super) fn takes_terminate(&self) -> bool {
        !self.is_before_startup() && !matches!(self, Self::Parting | Self::Replicating)
    }

    /// True if the start-up packet was not sent yet.
    pub(super) fn is_before_startup(&self) -> bool {
        matches!(
            self,
            Self::Connecting | Self::Negotiating(_) | Self::Resolving(..) | Self::Securing(_)
        )
    }
}

/// Server connection of this worker.
pub(super) struct Server {
    pub(super) key: Key,
    pub(super) group: GroupId,
    pub(super) lane: LaneId,
    pub(super) stage: Stage,
    pub(super) session: ServerSession,
    /// Client that uses the server.
    pub(super) lease: Option<ClientId>,
    /// Input that could not be handled yet.
    pub(super) input: Vec<u8>,
    pub(super) request_at: Moment,
    /// Number of cancels on their way to the server.
    pub(super) cancels: u32,
    /// True if one of them is sent again, for which nobody waits. The client's next input does.
    pub(super) is_cancelled_again: bool,
    /// Time of a cancel that may have come before its query, and the client at that time.
    pub(super) cancelled_at: Option<(Moment, ClientId)>,
    /// Time at which an abandoned server is closed if it is not free; none if it is not abandoned.
    pub(super) cleaning_until: Option<Moment>,
    /// Answer about the database, while the server is asked.
    pub(super) heard: Option<Vec<u8>>,
    /// True if a client may have left something in the session that only `server_reset_query` removes.
    pub(super) is_used: bool,
    /// True if the server was just asked about its session although no statement gave a reason.
    pub(super) is_checked: bool,
    /// Reason why the free server stays with its client.
    pub(super) kept: Kept,
    /// True from the login until the server first goes back to its pool or is idle there.
    pub(super) is_new: bool,
    /// True if the server refused something in a way that may mean that its role is gone.
    pub(super) is_role_doubtful: bool,
    /// Answer so far to [`Test::Role`].
    pub(super) answer: Vec<u8>,
    /// Time of that question, and the count of statements about roles at that time.
    pub(super) role_asked: (Moment, u64),
    /// Reason for closing the server when it is released.
    pub(super) doomed: Option<&'static str>,
    pub(super) facts: Box<Facts>,
    /// TLS settings for the connection, until its handshake is done.
    pub(super) outgoing: Option<Arc<Outgoing>>,
    /// Channel binding data of the server's certificate for SCRAM (RFC 5929), until the login.
    pub(super) end_point: Option<Vec<u8>>,
    /// Addresses of the host to try next if the login fails.
    pub(super) targets: Vec<Target>,
    /// Batch in progress, if it may run on another server instead. The buffer is reused.
    pub(super) kept_batch: Vec<u8>,
    /// True if the server has got nothing of that batch yet, because requests of ours come first (one host).
    pub(super) net_waits: bool,
    pub(super) timer: Option<Moment>,
    /// Time of the timer for the statement that runs, if a query rule has set one.
    pub(super) watch_at: Option<Moment>,
}

impl Server {
    /// Returns the state of an idle connection.
    pub(super) fn new(
        key: Key,
        (group, lane): (GroupId, LaneId),
        session: ServerSession,
        facts: Facts,
        now: Moment,
    ) -> Self {
        Self {
            key,
            group,
            lane,
            stage: Stage::Idle,
            session,
            lease: None,
            input: Vec::new(),
            request_at: now,
            cancels: 0,
            is_cancelled_again: false,
            cancelled_at: None,
            cleaning_until: None,
            heard: None,
            is_used: false,
            is_checked: false,
            kept: Kept::No,
            is_new: false,
            is_role_doubtful: false,
            answer: Vec::new(),
            role_asked: (now, 0),
            doomed: None,
            facts: Box::new(facts),
            outgoing: None,
            end_point: None,
            targets: Vec::new(),
            kept_batch: Vec::new(),
            net_waits: false,
            timer: None,
            watch_at: None,
        }
    }
}

// === groups and lanes ===

/// Servers of a group at one host, or at the hosts of one list, on this worker.
pub(super) struct Lane {
    pub(super) global: Arc<GlobalPool>,
    pub(super) group: GroupId,
    pub(super) shard: Shard,
    /// Client that has the lane to itself, for a replication connection.
    pub(super) owner: Option<Owner>,
    /// Counts for a pool that finds its own size.
    pub(super) counted: Option<Box<Counted>>,
    /// Time at which the shard wants its next tick.
    pub(super) tick: Option<Moment>,
}

impl Lane {
    /// Returns the load of the pool as this worker sees it: its own servers and waiters, and `size`, its share of the size.
    pub(super) fn load(&self, size: u32) -> Load {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Load {
            in_use: count(self.shard.servers().saturating_sub(self.shard.idle())),
            waiting: count(self.shard.waiting()),
            size,
        }
    }
}

/// Owner of a lane: a client with a replication connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner {
    pub(super) client: ClientId,
    pub(super) kind: Replication,
}

/// Lanes of a group on this worker, one for each host. The one of a waiting room has none.
#[derive(Debug, Clone, Default)]
pub(super) struct Lanes {
    places: Vec<(Option<HostId>, LaneId)>,
    /// Lanes that belong to one client each.
    owned: Vec<LaneId>,
}

impl Lanes {
    /// Adds the lane of a host.
    pub(super) fn push(&mut self, host: Option<HostId>, id: LaneId) {
        self.places.push((host, id));
    }

    /// Returns the lane of a host.
    #[inline]
    pub(super) fn at(&self, host: Option<HostId>) -> Option<LaneId> {
        let found = self.places.iter().find(|(place, _)| *place == host);
        found.map(|(_, id)| *id)
    }

    /// Iterates over all lanes, with those that belong to one client each.
    pub(super) fn ids(&self) -> impl Iterator<Item = LaneId> {
        let places = self.places.iter().map(|(_, id)| *id);
        places.chain(self.owned.iter().copied())
    }

    /// Adds a lane that belongs to one client.
    pub(super) fn push_owned(&mut self, id: LaneId) {
        self.owned.push(id);
    }

    /// Removes such a lane.
    pub(super) fn remove_owned(&mut self, id: LaneId) {
        self.owned.retain(|owned| *owned != id);
    }

    /// True if there are such lanes.
    pub(super) fn has_owned(&self) -> bool {
        !self.owned.is_empty()
    }
}

/// This worker's part of a group: what its clients share, whichever host they use.
pub(super) struct Group {
    pub(super) global: Arc<GlobalGroup>,
    /// Lanes of the group. The first one is made with the group.
    pub(super) lanes: Lanes,
    pub(super) settings: Arc<PoolSettings>,
    pub(super) rules: Rules,
    /// Judges what statements may do to a session.
    pub(super) judge: Judge,
    /// Whose statements are counted together.
    pub(super) digests: DigestGroup,
    /// Query rules; none if none concerns the group.
    pub(super) query_rules: Option<Box<GroupRules>>,
    /// Router; none if the database has one host.
    pub(super) routing: Option<Box<Routing>>,
    /// Frequency of checks for session state that no statement shows.
    pub(super) checks: StateCheck,
    /// Interval at which the servers look at what the database's functions do, if at all.
    pub(super) looks: Option<Duration>,
    /// State of the random generator that decides when `checks` are due.
    pub(super) draw: u64,
    /// Pins since the process began, by reason.
    pub(super) pins: BTreeMap<&'static str, u64>,
    pub(super) counters: Counters,
    /// Durations measured; none until something was measured.
    pub(super) timing: Option<Box<Timing>>,
    /// Counters at the start of the current and of the last period.
    pub(super) period: [Counters; 2],
    /// Number of clients on this worker, with those of other databases that a rule has sent here.
    pub(super) clients: usize,
    /// Number of these clients whose transactions run in other databases.
    pub(super) away: usize,
    /// Distinct sets of reported values, so that equal ones are shared.
    pub(super) reported: Vec<Arc<Reported>>,
    /// Time since which the group is unused.
    pub(super) unused_since: Option<Moment>,
    /// Value of `server_reset_query_always`.
    pub(super) reset_always: bool,
    /// True if the group's pools find their own size.
    pub(super) finds_size: bool,
    /// True if clients may outlive their servers in a transaction (`keep_client`).
    pub(super) keeps_clients: bool,
    /// True if a request that is lost with its server may run again without having been judged before.
    pub(super) repeats: bool,
    /// True if any of the client timeouts is on.
    pub(super) has_timeouts: bool,
    /// True if the database is no longer configured.
    pub(super) is_removed: bool,
}

/// Returns the addresses of a host name as targets.
pub(crate) fn tcp_targets(
    name: &str,
    addresses: Vec<IpAddr>,
    port: u16,
) -> impl Iterator<Item = Target> {
    let name: Arc<str> = name.into();
    addresses
        .into_iter()
        .map(move |ip| Target::Tcp((ip, port).into(), Some(Arc::clone(&name))))
}
