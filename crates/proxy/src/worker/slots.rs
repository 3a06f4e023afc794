//! What a worker keeps per client, server and pool.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use slotmap::Key as _;
use weir_auth::secret::Secret;
use weir_config::{PoolSettings, StateCheck};
use weir_pool::{Entered, Moment, Shard, Ticket};
use weir_session::client::Client as ClientSession;
use weir_session::fault::Fault;
use weir_session::hello::{Hello, Opening};
use weir_session::login::ServerLogin;
use weir_session::relay::Rules;
use weir_session::server::Server as ServerSession;
use weir_session::settings::Reported;
use weir_sql::Judge;
use weir_stats::{Counters, Endpoint};
use weir_tls::session::CertificateDer;

use super::access::{Directory, Learnt};
use super::cancel::HeldCancel;
use super::ids::{ClientId, ListenerId, PoolId, ServerId, Waiter};
use super::inquiry::Inquiry;
use super::keeping::Kept;
use super::listening::Ears;
use super::measure::Timing;
use super::secure::Securing;
use super::sizing::Counted;
use super::state::Pinned;
use crate::console::{Conversation, Role};
use crate::driver::Key;
use crate::global::GlobalPool;
use crate::moved::Facts;
use crate::socket::Target;
use crate::tls::Protection;
use crate::transport::{Incoming, Outgoing};

// === clients ===

/// Where a client is in its life.
pub(super) enum Phase {
    /// It proves who it is.
    Authenticating(Box<Authenticating>),
    /// Its cancel request is being carried out.
    Cancelling,
    /// It talks to the console.
    Console(Box<dyn Conversation>),
    /// It has not said who it is.
    Opening(Opening),
    /// It works.
    Ready,
    /// Its TLS handshake is going on.
    Securing(Box<Securing>),
    /// It waits for the reported parameters that belong to its start-up parameters.
    Welcome,
}

/// A login in progress.
pub(super) struct Authenticating {
    pub(super) hello: Hello,
    pub(super) exchange: Option<Box<weir_auth::login::Exchange>>,
    /// The exchange is SCRAM's; a failure has a name of its own then.
    pub(super) is_sasl: bool,
    /// None: there is no such database, which is said only after the login.
    pub(super) plan: Option<Plan>,
    /// When its last message came: the answer to a failure is held back from then on, however long the verdict took.
    pub(super) spoke_at: Moment,
    /// How long its refusal is held back: counted as soon as it is certain.
    pub(super) penalty: Option<Duration>,
    /// Why it does not go on.
    pub(super) busy: Busy,
    /// What has been found out for it.
    pub(super) learnt: Learnt,
    /// Who checks its password, if not we.
    pub(super) directory: Option<Directory>,
    /// The password that a directory checks: good for the server as well, once it is known to be right.
    pub(super) typed: Option<Secret>,
}

/// What a login waits for.
pub(super) enum Busy {
    /// Nothing: the client has the word.
    No,
    /// An answer of a server.
    Inquiring(Inquiry),
    /// The time at which it is told that it has failed.
    Refused(Fault),
    /// A helper thread.
    Waiting,
}

/// Where an authenticated client goes.
pub(super) enum Plan {
    Console(Role),
    Pool(Box<PoolSettings>),
}

/// Places that a client takes in limits; given back when it leaves.
#[derive(Default)]
pub(super) struct Guards {
    #[expect(dead_code, reason = "held for its drop")]
    pub(super) greeter: Option<Entered>,
    pub(super) client: Option<Entered>,
    pub(super) database: Option<Entered>,
    pub(super) user: Option<Entered>,
}

/// A protected connection from a client.
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
    /// What protects the connection.
    pub(super) tls: Option<ClientProtection>,
    /// What it was shown in its TLS handshake, until it has logged in.
    pub(super) incoming: Option<Arc<Incoming>>,
    pub(super) connected_at: Moment,
    pub(super) guards: Guards,
    /// Number for cancels; 0 if none is registered.
    pub(super) cancel_pid: u32,
    /// Longer cancel keys (protocol 3.2).
    pub(super) long_key: bool,
}

/// One client.
pub(super) struct Client {
    pub(super) key: Key,
    /// The number that log lines and the console show.
    pub(super) id: u64,
    pub(super) phase: Phase,
    pub(super) session: ClientSession,
    /// Null before the client has logged in, unless its login asks a server.
    pub(super) pool: PoolId,
    /// Its server.
    pub(super) lease: Option<ServerId>,
    /// Its place in the queue.
    pub(super) ticket: Option<Ticket>,
    /// What it sent and nobody could take yet.
    pub(super) input: Vec<u8>,
    /// Not receiving, because `input` is full.
    pub(super) held: bool,
    /// Not receiving, because it does not take our answers.
    pub(super) blocked: bool,
    /// Not receiving, because its server owes it too many replies.
    pub(super) flooding: bool,
    /// What it sent last waits for a reply of its server to what it sent before.
    pub(super) stalled: bool,
    /// A cancel request of its own that waits for its turn.
    pub(super) held_cancel: Option<Box<HeldCancel>>,
    /// It has not had a server since it logged in.
    pub(super) is_newcomer: bool,
    /// How many servers that it could not use it has been given since it waits.
    pub(super) declined: u8,
    /// The class of its transaction, where its pool finds its own size.
    pub(super) class: u8,
    pub(super) wait_since: Moment,
    pub(super) request_at: Moment,
    /// When its last request was answered.
    pub(super) replied_at: Moment,
    pub(super) transaction_at: Moment,
    pub(super) identity: Box<Identity>,
    /// Its place among the pinned ones; boxed, since few are.
    pub(super) pinned: Option<Box<Pinned>>,
    /// What it listens to; most clients listen to nothing.
    pub(super) ears: Option<Box<Ears>>,
    /// Its timer, if armed.
    pub(super) timer: Option<Moment>,
}

impl Client {
    /// A connection that has just come in.
    pub(super) fn new(key: Key, id: u64, phase: Phase, identity: Identity, now: Moment) -> Self {
        Self {
            key,
            id,
            phase,
            session: ClientSession::default(),
            pool: PoolId::null(),
            lease: None,
            ticket: None,
            input: Vec::new(),
            held: false,
            blocked: false,
            flooding: false,
            stalled: false,
            held_cancel: None,
            is_newcomer: false,
            declined: 0,
            class: 0,
            wait_since: now,
            request_at: now,
            replied_at: now,
            transaction_at: now,
            identity: Box::new(identity),
            pinned: None,
            ears: None,
            timer: None,
        }
    }

    /// True if there is a reason of its own not to receive from it.
    pub(super) fn is_stopped(&self) -> bool {
        self.held || self.blocked || self.flooding
    }
}

/// The prefix of PgBouncer's log lines.
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

/// An end of a connection as the log shows it.
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

/// What a server connection is tested for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Test {
    /// `server_check_query`, before this client gets it.
    Check(Waiter),
    /// `connect_query`.
    Connect,
    /// Reads what the database's functions and relations may do to a session.
    Load {
        /// True if the server has just logged in and was not used yet.
        is_new: bool,
    },
    /// Whether that has changed.
    Look,
    /// Whether the role and its defaults are those that the session began with; before this client gets it, if any.
    Role(Option<ClientId>),
    /// An empty query after a cancel, so that a late one hits nobody.
    Ping,
    /// `server_reset_query`.
    Reset,
}

impl Test {
    /// What a server is closed for that does not pass.
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

/// Where a server connection is in its life.
pub(super) enum Stage {
    /// It waits until the cancel that was sent to it is over.
    BeingCancelled,
    /// Its client left; what it began is being finished.
    Cleaning,
    /// The connection is being made.
    Connecting,
    /// Nobody's.
    Idle,
    /// It works for `lease`.
    Leased,
    /// It listens for the clients of a database.
    Listening(ListenerId),
    /// It logs in.
    Login(Box<ServerLogin>),
    /// It was asked for TLS; once it has answered, this is how.
    Negotiating(Arc<Outgoing>),
    /// Its address is being looked up.
    Resolving(Vec<(String, u16)>, Vec<Target>),
    /// Its TLS handshake is going on.
    Securing(Box<Securing>),
    /// A request of our own runs.
    Testing(Test),
}

impl Stage {
    /// Whether the connection is not of use yet.
    pub(super) fn is_beginning(&self) -> bool {
        self.is_before_startup() || matches!(self, Self::Login(_))
    }

    /// True if the start-up packet was not sent.
    pub(super) fn is_before_startup(&self) -> bool {
        matches!(
            self,
            Self::Connecting | Self::Negotiating(_) | Self::Resolving(..) | Self::Securing(_)
        )
    }
}

/// One server connection.
pub(super) struct Server {
    pub(super) key: Key,
    pub(super) pool: PoolId,
    pub(super) stage: Stage,
    pub(super) session: ServerSession,
    /// Its client.
    pub(super) lease: Option<ClientId>,
    /// What it sent and nobody could judge yet.
    pub(super) input: Vec<u8>,
    pub(super) request_at: Moment,
    /// Cancels on their way to it.
    pub(super) cancels: u32,
    /// When its query was cancelled so soon that the cancel may have come before it, and its client then.
    pub(super) cancelled_at: Option<(Moment, ClientId)>,
    /// Time at which an abandoned server is closed if it is not free; none if it is not abandoned.
    pub(super) cleaning_until: Option<Moment>,
    /// What it says about its database, while it is asked.
    pub(super) heard: Option<Vec<u8>>,
    /// A client may have left something in its session that only `server_reset_query` takes away.
    pub(super) is_used: bool,
    /// It was just asked about its session, though no statement gave a reason to.
    pub(super) is_checked: bool,
    /// Why it stays with its client though it is free.
    pub(super) kept: Kept,
    /// Nobody has let go of it since it logged in.
    pub(super) is_new: bool,
    /// It refused something in a way that may mean that its role is gone.
    pub(super) is_role_doubtful: bool,
    /// Its answer so far to [`Test::Role`].
    pub(super) answer: Vec<u8>,
    /// When that was asked, and the count of statements about roles by then.
    pub(super) role_asked: (Moment, u64),
    /// It has to go on release.
    pub(super) doomed: Option<&'static str>,
    pub(super) facts: Box<Facts>,
    /// What is to protect it, until that is done.
    pub(super) outgoing: Option<Arc<Outgoing>>,
    /// What binds a SCRAM exchange to its certificate (RFC 5929), until it has logged in.
    pub(super) end_point: Option<Vec<u8>>,
    /// Where else to try if the login fails.
    pub(super) targets: Vec<Target>,
    pub(super) timer: Option<Moment>,
}

impl Server {
    /// An idle connection.
    pub(super) fn new(
        key: Key,
        pool: PoolId,
        session: ServerSession,
        facts: Facts,
        now: Moment,
    ) -> Self {
        Self {
            key,
            pool,
            stage: Stage::Idle,
            session,
            lease: None,
            input: Vec::new(),
            request_at: now,
            cancels: 0,
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
            timer: None,
        }
    }
}

// === pools ===

/// This worker's part of a pool.
pub(super) struct Pool {
    pub(super) global: Arc<GlobalPool>,
    pub(super) shard: Shard,
    /// What is counted where the pool finds its own size.
    pub(super) counted: Option<Box<Counted>>,
    pub(super) settings: Arc<PoolSettings>,
    pub(super) rules: Rules,
    /// Says what statements may do to a session.
    pub(super) judge: Judge,
    /// How often to look for what no statement shows.
    pub(super) checks: StateCheck,
    /// How often to look at what the database's functions do, if at all.
    pub(super) looks: Option<Duration>,
    /// The state of the draws for that.
    pub(super) draw: u64,
    /// Pins since the process began, by reason.
    pub(super) pins: BTreeMap<&'static str, u64>,
    pub(super) counters: Counters,
    /// How long things took; none until something did.
    pub(super) timing: Option<Box<Timing>>,
    /// The counters when the current and the last period began.
    pub(super) period: [Counters; 2],
    /// Clients on this worker.
    pub(super) clients: usize,
    /// Distinct sets of reported values, so that equal ones are shared.
    pub(super) reported: Vec<Arc<Reported>>,
    /// When the shard wants its tick.
    pub(super) tick: Option<Moment>,
    /// Since when nobody uses it.
    pub(super) unused_since: Option<Moment>,
    /// `server_reset_query_always`.
    pub(super) reset_always: bool,
    /// Any of the client timeouts is on.
    pub(super) has_timeouts: bool,
    /// Its database is not configured any more.
    pub(super) is_removed: bool,
}

/// The addresses of a host name as targets.
pub(super) fn tcp_targets(
    name: &str,
    addresses: Vec<IpAddr>,
    port: u16,
) -> impl Iterator<Item = Target> {
    let name: Arc<str> = name.into();
    addresses
        .into_iter()
        .map(move |ip| Target::Tcp((ip, port).into(), Some(Arc::clone(&name))))
}
