//! Login of a client: TLS, start-up packet, limits. [`super::access`] stands between them, and [`super::welcome`]
//! follows.

use std::sync::Arc;

use weir_config::{Listener, PoolSettings};
use weir_session::fault::Fault;
use weir_session::hello::{Hello, Opened, Opening, Replication};
use weir_session::settings::Settings as Asked;
use weir_wire::startup::Version;

use super::access::Learnt;
use super::cancel::CancelAsker;
use super::client::Leaving;
use super::ids::ClientId;
use super::proof::log_login;
use super::replication::Seeking;
use super::slots::{Authenticating, Busy, ClientProtection, Identity, Phase, Plan};
use super::tables::Tables;
use super::{Missing, Worker};
use crate::console::{DATABASES, Role};
use crate::driver::Driver;
use crate::global::Place;
use crate::mailbox::{Asker, CancelFrom, Message};
use crate::peering;
use crate::securing::Securing;
use crate::settled::Settled;
use crate::tls::Session;

/// Setting of a session that says on which hosts it runs.
const ROLE: &str = "weir.role";

impl<D: Driver> Worker<D> {
    /// Handles the first bytes of a connection. Returns the number of bytes handled.
    pub(super) fn opening_input(&mut self, id: ClientId, input: &[u8]) -> usize {
        let mut at = 0;
        loop {
            let Some(client) = self.tables.clients.must_get_mut(id) else {
                return input.len();
            };
            let Phase::Opening(opening) = &mut client.phase else {
                self.global.broken.report(Missing::State);
                return at;
            };
            let rest = input.get(at..).unwrap_or_default();
            match opening.handle(rest) {
                Ok((consumed, opened)) => {
                    at += consumed;
                    match opened {
                        Opened::More => return at,
                        Opened::Refuse => {
                            self.driver.send(client.key, b"N");
                        }
                        Opened::Encrypt => {
                            self.driver.send(client.key, b"S");
                            self.secure_client(id, false);
                            return at;
                        }
                        Opened::EncryptAtOnce => {
                            self.secure_client(id, true);
                            return at;
                        }
                        Opened::Cancel { pid, key } => {
                            self.cancel_requested(id, pid, &key);
                            return input.len();
                        }
                        Opened::Hello(hello) => {
                            self.hello(id, *hello);
                            return at;
                        }
                    }
                }
                Err(fault) => {
                    self.fail_client(id, &fault);
                    return input.len();
                }
            }
        }
    }

    /// Starts a TLS handshake with a client.
    fn secure_client(&mut self, id: ClientId, is_direct: bool) {
        let settled = self.global.settled();
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        let incoming = settled.transport.listener().cloned();
        let handshake = incoming
            .as_ref()
            .and_then(|incoming| incoming.handshake(is_direct).ok());
        match handshake {
            Some(handshake) => {
                client.identity.incoming = incoming;
                client.phase = Phase::Securing(Box::new(Securing::new(handshake)));
            }
            // A reload has just switched TLS off.
            None => self.remove_client(id, Leaving::Lost, "TLS is not offered any more"),
        }
    }

    /// Passes bytes to a client's handshake.
    pub(super) fn securing_input(&mut self, id: ClientId, input: &[u8]) -> usize {
        self.advance_handshake(Asker::Client(id), input);
        input.len()
    }

    pub(super) fn client_not_secured(&mut self, id: ClientId, reason: &str) {
        if let Some(client) = self.tables.clients.must_get(id)
            && self.global.settled().settings.global.log_pooler_errors
        {
            tracing::warn!("{client} {reason}");
        }
        self.remove_client(id, Leaving::Lost, reason);
    }

    /// Handles a client's start-up packet.
    fn hello(&mut self, id: ClientId, hello: Hello) {
        let settled = self.global.settled();
        let limits = &self.global.limits;
        let guard = limits.clients.try_enter().or_else(|| {
            // An operator gets in, to see who fills the pooler.
            let client = self.tables.clients.must_get(id)?;
            let plan = plan(&settled, &hello, &client.identity);
            matches!(plan, Some(Plan::Console(_))).then(|| limits.consoles.try_enter())?
        });
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        client.identity.user = hello.user.as_str().into();
        client.identity.database = hello.database.as_str().into();
        client.identity.long_key = hello.version >= Version::V3_2;
        client.phase = Phase::Authenticating(Box::new(Authenticating {
            hello,
            exchange: None,
            plan: None,
            spoke_at: self.now,
            penalty: None,
            busy: Busy::No,
            learnt: Learnt::default(),
            directory: None,
            typed: None,
        }));
        match guard {
            Some(guard) => client.identity.guards.client = Some(guard),
            None => return self.fail_client(id, &Fault::TooManyClients("max_client_conn")),
        }
        let Phase::Authenticating(login) = &mut client.phase else {
            return self.global.broken.report(Missing::State);
        };
        let is_unix = client.identity.remote.address == "unix";
        if settled.transport.requires_tls() && client.identity.tls.is_none() && !is_unix {
            return self.fail_client(id, &Fault::TlsRequired);
        }
        if !login.hello.negotiation.is_empty() {
            self.driver.send(client.key, &login.hello.negotiation);
        }
        if ignores(&settled, "options") {
            login.hello.options = Ok(Vec::new());
        }
        // PostgreSQL itself reads the options of a replication connection.
        if login.hello.replication == Replication::None
            && let Err(fault) = &login.hello.options
        {
            let fault = fault.clone();
            return self.fail_client(id, &fault);
        }
        login.plan = plan(&settled, &login.hello, &client.identity);
        if settled.settings.global.log_connections {
            log_login(client.id, login, &client.identity);
        }
        let is_us_at_the_console = matches!(login.plan, Some(Plan::Console(_)))
            && login.hello.user == "pgbouncer"
            && is_us(client.identity.remote_uid);
        if is_us_at_the_console {
            self.authenticated(id);
        } else {
            self.authenticate(id);
        }
    }

    /// Enters the client into the limits, then into its pool.
    pub(super) fn join(&mut self, id: ClientId, settings: PoolSettings, wishes: Wishes) {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        let user = Arc::clone(&client.identity.user);
        let (database_quota, user_quota) = self.global.client_quotas(&settings, &user);
        let guards = &mut client.identity.guards;
        guards.database = database_quota.try_enter();
        guards.user = user_quota.try_enter();
        if guards.database.is_none() {
            return self.fail_client(id, &Fault::TooManyClients("max_db_client_connections"));
        }
        if guards.user.is_none() {
            return self.fail_client(id, &Fault::TooManyClients("max_user_client_connections"));
        }
        let port = client.identity.local.port;
        match self.global.pool_of_port(settings, port) {
            Ok(pool) => {
                let place = self.lane_of(&pool);
                match wishes {
                    Wishes::Session(asked) => self.greet(id, place, Arc::new(asked)),
                    Wishes::Walsender(seeking) => self.seek_walsender_first(id, place, seeking),
                }
            }
            Err(_) => self.fail_client(id, &Fault::TooManyClients("max_pools")),
        }
    }

    /// Handles a cancel request: finds the client that it names, on any worker. The requester gets no answer.
    ///
    /// Requests with a right key are not limited, so an attacker cannot use up the share of others at the same address.
    /// A wrong key costs only a look-up.
    fn cancel_requested(&mut self, id: ClientId, pid: u32, key: &[u8]) {
        if let Some(peer) = self.peer_of(pid) {
            return self.forward_cancel(id, peer, pid, key);
        }
        let mut key = key.to_vec();
        if self.global.settled().settings.global.peer_id != 0 {
            peering::restore(&mut key);
        }
        let Some(place) = self.global.cancellable(pid, &key) else {
            tracing::debug!("cancel request with an unknown key");
            return self.pass_cancel(id, pid, &key);
        };
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        client.phase = Phase::Cancelling;
        if place.worker == self.number {
            return self.cancel_client(place.client, Some(CancelAsker::Here(id)));
        }
        // The client's worker tells when the cancel is over.
        let request = Message::Cancel {
            client: place.client,
            asker: CancelFrom::Worker(self.place_of(id)),
        };
        if self.post(place.worker, request).is_err() {
            self.remove_client(id, Leaving::Orderly, "cancel request");
        }
    }

    /// Returns the place of a client of this worker.
    pub(super) fn place_of(&self, client: ClientId) -> Place {
        let worker = self.number;
        Place { worker, client }
    }

    /// Passes a cancel request to the other process of an upgrade, where its client may be. That process tells when the
    /// cancel is over.
    fn pass_cancel(&mut self, id: ClientId, pid: u32, key: &[u8]) {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        client.phase = Phase::Cancelling;
        let asker = self.place_of(id);
        if !self
            .global
            .succession
            .neighbours
            .pass_cancel(pid, key, asker)
        {
            self.remove_client(id, Leaving::Orderly, "failed cancel request");
        }
    }
}

impl Tables {
    /// Notes what protects a client whose handshake is done. Its start-up packet comes next.
    pub(super) fn client_secured(&mut self, id: ClientId, session: &Session) {
        if let Some(client) = self.clients.must_get_mut(id) {
            client.identity.tls = Some(ClientProtection {
                protection: session.protection(),
                certificate: session.peer_certificate().cloned(),
            });
            client.phase = Phase::Opening(Opening::inside_tls());
        }
    }
}

/// Connection that an authenticated client asks for.
pub(super) enum Wishes {
    /// An ordinary one with these settings.
    Session(Asked),
    /// A replication connection.
    Walsender(Box<Seeking>),
}

impl Wishes {
    /// Has the session begin with the role of its listener, unless the client asked for one.
    pub(super) fn begin_by_role(&mut self, listener: Option<&Listener>) {
        let role = listener.and_then(|listener| listener.role);
        if let (Self::Session(asked), Some(role)) = (self, role)
            && asked.get(ROLE).is_none()
        {
            asked.set(ROLE, role.as_str());
        }
    }
}

/// Returns the connection that a client asks for.
pub(super) fn wishes(settled: &Settled, hello: &Hello, remote: &weir_stats::Endpoint) -> Wishes {
    match hello.replication {
        Replication::None => Wishes::Session(asked(settled, hello, remote)),
        kind => {
            let asked = settings(settled, &hello.parameters, remote);
            let options = hello.options_text.clone();
            let options = options.filter(|_| !ignores(settled, "options"));
            Wishes::Walsender(Box::new(Seeking::new(kind, &asked, options)))
        }
    }
}

/// Returns a client's destination. None if there is no such database, or the user has no right to the console.
fn plan(settled: &Settled, hello: &Hello, identity: &Identity) -> Option<Plan> {
    let remote_uid = identity.remote_uid;
    if !DATABASES.contains(&hello.database.as_str()) {
        let mode = settled.settings.pool_mode_of_port(identity.local.port);
        let settings = (settled.settings).pool_in(&hello.database, &hello.user, mode);
        return settings.map(|settings| Plan::Pool(Box::new(settings)));
    }
    let global = &settled.settings.global;
    let role = if global.admin_users.contains(&hello.user)
        || settled.settings.trust_loopback
        || (hello.user == "pgbouncer" && is_us(remote_uid))
    {
        Role::Admin
    } else if global.stats_users.contains(&hello.user) {
        Role::Stats
    } else {
        return None;
    };
    Some(Plan::Console(role))
}

/// True if `ignore_startup_parameters` names this parameter.
fn ignores(settled: &Settled, name: &str) -> bool {
    let mut ignored = settled.settings.global.ignore_startup_parameters.iter();
    ignored.any(|other| other.eq_ignore_ascii_case(name))
}

/// True if the other end of a unix socket runs as the same user as this process.
fn is_us(uid: Option<u32>) -> bool {
    uid == Some(rustix::process::getuid().as_raw())
}

/// Returns the parameters that follow this client from server to server.
fn asked(settled: &Settled, hello: &Hello, remote: &weir_stats::Endpoint) -> Asked {
    let options = hello.options.iter().flatten();
    settings(settled, options.chain(&hello.parameters), remote)
}

/// Returns the settings in these parameters, without those that are ignored.
fn settings<'p>(
    settled: &Settled,
    parameters: impl IntoIterator<Item = &'p (String, String)>,
    remote: &weir_stats::Endpoint,
) -> Asked {
    let global = &settled.settings.global;
    let pairs = parameters.into_iter();
    let pairs = pairs.filter(|(name, _)| !ignores(settled, name));
    let mut asked = Asked::from_pairs(pairs.map(|(name, value)| (name.as_str(), value.as_str())));
    if global.application_name_add_host {
        let name = asked.get("application_name").unwrap_or("app").to_owned();
        let address = super::slots::Address(remote, 0);
        asked.set("application_name", &format!("{name} - {address}"));
    }
    asked
}
