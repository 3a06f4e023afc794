//! How a client gets in: start-up packet, authentication, limits. Ends in [`super::welcome`].

use std::sync::Arc;

use weir_auth::login::{
    Account, Challenge, Exchange, LoginInput, LoginRandom, Method, Opening, Progress,
};
use weir_config::{AuthType, PoolSettings};
use weir_session::fault::Fault;
use weir_session::hello::{Hello, Opened};
use weir_session::relay::ClientFault;
use weir_session::settings::Settings as Asked;
use weir_wire::encode;
use weir_wire::frame::{Side, frame};
use weir_wire::frontend::tag;
use weir_wire::startup::Version;

use super::Worker;
use super::client::Leaving;
use super::slots::{Authenticating, Phase, Plan};
use crate::console::{DATABASES, Role};
use crate::driver::Driver;
use crate::global::{Settled, lock, random};
use crate::mailbox::{Asker, Message};

impl<D: Driver> Worker<D> {
    /// The first bytes of a connection.
    pub(super) fn opening_input(&mut self, index: usize, input: &[u8]) -> usize {
        let mut at = 0;
        loop {
            let Some(client) = self.clients.get_mut(index) else {
                return input.len();
            };
            let Phase::Opening(opening) = &mut client.phase else {
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
                        Opened::Cancel { pid, key } => {
                            self.cancel_requested(index, pid, &key);
                            return input.len();
                        }
                        Opened::Hello(hello) => {
                            self.hello(index, *hello);
                            return at;
                        }
                    }
                }
                Err(fault) => {
                    self.fail_client(index, &fault);
                    return input.len();
                }
            }
        }
    }

    /// A client said who it wants to be.
    fn hello(&mut self, index: usize, hello: Hello) {
        let settled = self.global.settled();
        let guard = self.global.clients.try_enter();
        let Some(client) = self.clients.get_mut(index) else {
            return;
        };
        client.identity.user = hello.user.as_str().into();
        client.identity.database = hello.database.as_str().into();
        client.identity.long_key = hello.version >= Version::V3_2;
        client.phase = Phase::Authenticating(Box::new(Authenticating {
            hello,
            exchange: None,
            plan: None,
            deriving: false,
        }));
        match guard {
            Some(guard) => client.identity.guards.client = Some(guard),
            None => return self.fail_client(index, &Fault::TooManyClients("max_client_conn")),
        }
        let Phase::Authenticating(login) = &mut client.phase else {
            return;
        };
        if !login.hello.negotiation.is_empty() {
            self.driver.send(client.key, &login.hello.negotiation);
        }
        if login.hello.replication {
            return self.fail_client(index, &Fault::ReplicationUnsupported);
        }
        login.plan = plan(&settled, &login.hello, client.identity.remote_uid);
        self.authenticate(index, &settled);
    }

    fn authenticate(&mut self, index: usize, settled: &Settled) {
        let Some(client) = self.clients.get_mut(index) else {
            return;
        };
        let Phase::Authenticating(login) = &mut client.phase else {
            return;
        };
        let user = login.hello.user.as_bytes();
        let global = &settled.settings.global;
        let known = settled.users.get(user).cloned();
        let same_user_on_socket = matches!(login.plan, Some(Plan::Console(_)))
            && login.hello.user == "pgbouncer"
            && is_us(client.identity.remote_uid);
        let method = match global.auth_type {
            _ if same_user_on_socket => return self.authenticated(index),
            AuthType::Any => {
                let forced = match &login.plan {
                    Some(Plan::Pool(pool)) => pool.is_user_forced,
                    _ => true,
                };
                if settled.settings.trust_loopback && !client.identity.is_loopback {
                    return self.fail_client(index, &Fault::AuthenticationFailed);
                }
                if !forced && !settled.settings.trust_loopback {
                    let text = "bouncer config error".to_owned();
                    return self.fail_client(index, &Fault::Misconfigured(text));
                }
                return self.authenticated(index);
            }
            AuthType::Trust => Method::Trust,
            AuthType::Plain => Method::Plain,
            AuthType::Md5 => Method::Md5,
            AuthType::ScramSha256 => Method::Scram,
            _ => Method::Reject,
        };
        let (Ok(md5_salt), Ok(scram_nonce)) = (random(), random()) else {
            let text = "no random bytes from the system".to_owned();
            return self.fail_client(index, &Fault::Misconfigured(text));
        };
        let opening = Exchange::begin(LoginInput {
            method,
            user,
            account: known.map_or(Account::Unknown, Account::Known),
            random: LoginRandom {
                md5_salt,
                scram_nonce,
            },
            server_secret: &self.global.server_secret,
            iterations: global.scram_iterations,
        });
        match opening {
            Opening::Accepted => self.authenticated(index),
            Opening::Rejected => self.fail_client(index, &Fault::AuthenticationFailed),
            Opening::Ask {
                challenge,
                exchange,
            } => {
                login.exchange = Some(exchange);
                let mut message = Vec::new();
                // Challenges are short.
                let _ = match challenge {
                    Challenge::Cleartext => encode::authentication_cleartext(&mut message),
                    Challenge::Md5 { salt } => encode::authentication_md5(&mut message, salt),
                    Challenge::Sasl { mechanisms } => {
                        let names: Vec<_> = mechanisms.iter().map(|name| name.as_bytes()).collect();
                        encode::authentication_sasl(&mut message, &names)
                    }
                };
                self.driver.send(client.key, &message);
            }
        }
    }

    /// A client that proves who it is may send `p` messages, one at a time, and nothing else (hazard SEC-40).
    pub(super) fn authentication_input(&mut self, index: usize, input: &[u8]) -> usize {
        let Some(client) = self.clients.get_mut(index) else {
            return input.len();
        };
        let Phase::Authenticating(login) = &mut client.phase else {
            return 0;
        };
        if login.deriving {
            return 0;
        }
        let message = match frame(input, Side::Frontend) {
            Ok(Some(message)) => message,
            Ok(None) if input.first().is_none_or(|first| *first == tag::PASSWORD) => return 0,
            Ok(None) => {
                let first = input.first().copied().unwrap_or_default();
                self.fail_client(index, &Fault::Protocol(ClientFault::OutOfPlace(first)));
                return input.len();
            }
            Err(error) => {
                self.fail_client(index, &Fault::Protocol(error.into()));
                return input.len();
            }
        };
        let tag = message.header.tag;
        if tag == tag::TERMINATE {
            self.remove_client(index, Leaving::Orderly, "client close request");
            return input.len();
        }
        let Some(exchange) = login.exchange.as_mut().filter(|_| tag == tag::PASSWORD) else {
            self.fail_client(index, &Fault::Protocol(ClientFault::OutOfPlace(tag)));
            return input.len();
        };
        let taken = message.raw.len();
        let progress = exchange.handle_response(message.body);
        self.progress(index, progress);
        if self.clients.contains(index) {
            taken
        } else {
            input.len()
        }
    }

    /// Keys for a client's login were derived.
    pub(super) fn client_keys(&mut self, index: usize, keys: Option<&weir_auth::kdf::ScramKeys>) {
        let Some(client) = self.clients.get_mut(index) else {
            return;
        };
        let Phase::Authenticating(login) = &mut client.phase else {
            return;
        };
        login.deriving = false;
        let (Some(keys), Some(exchange)) = (keys, login.exchange.as_mut()) else {
            let text = "too many logins at once".to_owned();
            return self.fail_client(index, &Fault::Misconfigured(text));
        };
        let progress = exchange.provide_keys(keys);
        self.progress(index, progress);
        self.take_input(index);
    }

    fn progress(&mut self, index: usize, progress: Result<Progress, weir_auth::login::LoginError>) {
        let Some(client) = self.clients.get_mut(index) else {
            return;
        };
        let (key, id) = (client.key, client.id);
        let Phase::Authenticating(login) = &mut client.phase else {
            return;
        };
        let mut message = Vec::new();
        match progress {
            Err(error) => self.fail_client(index, &Fault::LoginProtocol(error)),
            Ok(Progress::Rejected) => self.fail_client(index, &Fault::AuthenticationFailed),
            Ok(Progress::Continue(text)) => {
                // SCRAM messages are short.
                let _ = encode::authentication_sasl_continue(&mut message, &text);
                self.driver.send(key, &message);
            }
            Ok(Progress::NeedKdf(request)) => {
                login.deriving = true;
                self.derive_keys(Asker::Client { index, id }, request);
            }
            Ok(Progress::Accepted(acceptance)) => {
                if let Some(text) = acceptance.final_message {
                    let _ = encode::authentication_sasl_final(&mut message, &text);
                    self.driver.send(key, &message);
                }
                self.remember_pass_through(index, acceptance.pass_through);
                self.authenticated(index);
            }
        }
    }

    /// What a client's SCRAM login left lets us log in to the server as the same user (hazard SEC-64).
    fn remember_pass_through(&self, index: usize, keys: Option<weir_auth::scram::PassThrough>) {
        let Some(client) = self.clients.get(index) else {
            return;
        };
        let Phase::Authenticating(login) = &client.phase else {
            return;
        };
        if let (Some(keys), Some(Plan::Pool(settings))) = (keys, &login.plan)
            && !settings.is_user_forced
            && let Ok(pool) = self.global.pool(PoolSettings::clone(settings))
        {
            *lock(&pool.pass_through) = Some(keys);
        }
    }

    /// The client is who it says. Only now is it told whether there is such a database (hazard SEC-49).
    fn authenticated(&mut self, index: usize) {
        let settled = self.global.settled();
        let Some(client) = self.clients.get_mut(index) else {
            return;
        };
        let Phase::Authenticating(login) = &mut client.phase else {
            return;
        };
        if settled.settings.global.log_connections {
            let (database, user) = (&login.hello.database, &login.hello.user);
            let id = client.id;
            let address =
                super::slots::Address(&client.identity.remote, client.identity.remote_pid);
            tracing::info!(
                "C-{id:#x}: {database}/{user}@{address} login attempt: db={database} user={user} tls=no replication=no"
            );
        }
        match login.plan.take() {
            None => {
                let database = login.hello.database.clone();
                self.fail_client(index, &Fault::NoDatabase(database));
            }
            Some(Plan::Console(role)) => self.open_console(index, role),
            Some(Plan::Pool(settings)) => {
                let asked = asked(&settled, &login.hello, &client.identity.remote);
                self.join(index, *settings, Arc::new(asked));
            }
        }
    }

    /// Limits, then the pool.
    fn join(&mut self, index: usize, settings: PoolSettings, asked: Arc<Asked>) {
        let Some(client) = self.clients.get_mut(index) else {
            return;
        };
        let user = Arc::clone(&client.identity.user);
        let (database_quota, user_quota) = self.global.client_quotas(&settings, &user);
        let guards = &mut client.identity.guards;
        guards.database = database_quota.try_enter();
        guards.user = user_quota.try_enter();
        if guards.database.is_none() {
            return self.fail_client(index, &Fault::TooManyClients("max_db_client_connections"));
        }
        if guards.user.is_none() {
            return self.fail_client(index, &Fault::TooManyClients("max_user_client_connections"));
        }
        match self.global.pool(settings) {
            Ok(pool) => {
                let pool_index = self.pool_slot(&pool);
                self.greet(index, pool_index, asked);
            }
            Err(_) => self.fail_client(index, &Fault::TooManyClients("max_pools")),
        }
    }

    /// A cancel request: finds the client it names, wherever it lives. No answer either way.
    fn cancel_requested(&mut self, index: usize, pid: u32, key: &[u8]) {
        let Some(place) = self.global.cancellable(pid, key) else {
            tracing::debug!("cancel request with an unknown key");
            return self.remove_client(index, Leaving::Orderly, "failed cancel request");
        };
        let Some(client) = self.clients.get_mut(index) else {
            return;
        };
        client.phase = Phase::Cancelling;
        if place.lane == self.lane {
            return self.cancel_client(place.index, place.id, Some(index));
        }
        // The socket goes to the client's worker: it is closed when the cancel is over.
        let socket = self.driver.detach(client.key);
        drop(self.post(
            place.lane,
            Message::Cancel {
                client: place.index,
                id: place.id,
                socket,
            },
        ));
        self.remove_client(index, Leaving::Orderly, "cancel request");
    }
}

/// Where a client is going; `None` if there is no such database, or no right to the console.
fn plan(settled: &Settled, hello: &Hello, remote_uid: Option<u32>) -> Option<Plan> {
    if !DATABASES.contains(&hello.database.as_str()) {
        let settings = settled.settings.pool(&hello.database, &hello.user);
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

/// Whether the other end of a unix socket runs as the same user as this process.
fn is_us(uid: Option<u32>) -> bool {
    uid == Some(rustix::process::getuid().as_raw())
}

/// The parameters that follow this client from server to server.
fn asked(settled: &Settled, hello: &Hello, remote: &weir_stats::Endpoint) -> Asked {
    let global = &settled.settings.global;
    let ignored = |name: &str| {
        global
            .ignore_startup_parameters
            .iter()
            .any(|other| other.eq_ignore_ascii_case(name))
    };
    let pairs = hello.parameters.iter().filter(|(name, _)| !ignored(name));
    let mut asked = Asked::from_pairs(pairs.map(|(name, value)| (name.as_str(), value.as_str())));
    if global.application_name_add_host {
        let name = asked.get("application_name").unwrap_or("app").to_owned();
        let address = super::slots::Address(remote, 0);
        asked.set("application_name", &format!("{name} - {address}"));
    }
    asked
}
