//! Proof of a client's identity: the exchange of messages that [`super::access`] has decided on, and its verdict.

use std::time::Duration;

use weir_auth::kdf::ScramKeys;
use weir_auth::login::{
    Acceptance, Account, Challenge, Exchange, LoginError, LoginInput, Method, Opening, Progress,
};
use weir_auth::stored::StoredSecret;
use weir_pool::Moment;
use weir_session::fault::{Credential, Fault};
use weir_session::relay::ClientFault;
use weir_wire::encode;
use weir_wire::frame::{Side, frame};
use weir_wire::frontend::tag;

use super::access::lookup;
use super::client::Leaving;
use super::ids::ClientId;
use super::login::wishes;
use super::slots::{Address, Authenticating, Busy, Identity, Phase, Plan};
use super::{Missing, Worker};
use crate::console::DATABASES;
use crate::driver::Driver;
use crate::global::{lock, since_start, source};
use crate::mailbox::Asker;
use crate::settled::Settled;

impl<D: Driver> Worker<D> {
    /// Starts the exchange in which a client proves its identity.
    pub(super) fn begin_exchange(
        &mut self,
        id: ClientId,
        settled: &Settled,
        method: Method,
        account: Account,
    ) {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        let Phase::Authenticating(login) = &mut client.phase else {
            return self.global.broken.report(Missing::State);
        };
        let Some(random) = Self::login_random() else {
            return self.fail_client(id, &Fault::NoRandom);
        };
        let incoming = client.identity.incoming.as_ref();
        let opening = Exchange::begin(LoginInput {
            method,
            user: login.hello.user.as_bytes(),
            account,
            random,
            server_secret: &self.global.secrets.server,
            iterations: settled.settings.global.scram_iterations,
            channel_binding: incoming.and_then(|incoming| incoming.end_point.as_deref()),
            population: &settled.population,
        });
        match opening {
            Opening::Accepted => self.authenticated(id),
            Opening::Rejected => {
                let credential = match method {
                    Method::Trust => Credential::Trust,
                    _ => Credential::Password,
                };
                let fault = login.failed(credential);
                self.refuse_login(id, fault);
            }
            Opening::Ask {
                challenge,
                exchange,
            } => {
                login.exchange = Some(exchange);
                self.driver.send(client.key, &encoded(&challenge));
                self.take_input(id);
            }
        }
    }

    /// Handles input during the exchange: `p` messages, one at a time, and nothing else (hazard SEC-40).
    pub(super) fn authentication_input(&mut self, id: ClientId, input: &[u8]) -> usize {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return input.len();
        };
        let Phase::Authenticating(login) = &mut client.phase else {
            self.global.broken.report(Missing::State);
            return input.len();
        };
        if !matches!(login.busy, Busy::No) {
            return 0;
        }
        let message = match frame(input, Side::Frontend) {
            Ok(Some(message)) => message,
            Ok(None) => match input.first() {
                // The rest of the message is on its way.
                None | Some(&(tag::PASSWORD | tag::TERMINATE)) => return 0,
                Some(first) => {
                    self.fail_client(id, &Fault::Protocol(ClientFault::OutOfPlace(*first)));
                    return input.len();
                }
            },
            Err(error) => {
                self.fail_client(id, &Fault::Protocol(error.into()));
                return input.len();
            }
        };
        let tag = message.header.tag;
        if tag == tag::TERMINATE {
            self.remove_client(id, Leaving::Orderly, "client close request");
            return input.len();
        }
        if login.exchange.is_none() || tag != tag::PASSWORD {
            self.fail_client(id, &Fault::Protocol(ClientFault::OutOfPlace(tag)));
            return input.len();
        }
        let taken = message.raw.len();
        if self.bar(id) {
            return input.len();
        }
        let now = self.now;
        let Some(login) = self.login(id) else {
            return input.len();
        };
        login.spoke_at = now;
        let Some(exchange) = login.exchange.as_mut() else {
            self.global.broken.report(Missing::State);
            return input.len();
        };
        let progress = exchange.handle_response(message.body);
        self.progress(id, progress);
        if self.tables.clients.contains(id) {
            taken
        } else {
            input.len()
        }
    }

    /// Ends a client whose source has failed too often, so that an attacker learns nothing more. Called when a proof
    /// arrives and again when its verdict is known, since others may have failed meanwhile. True if the client was
    /// ended.
    pub(super) fn bar(&mut self, id: ClientId) -> bool {
        let Some(client) = self.tables.clients.must_get(id) else {
            return true;
        };
        if matches!(&client.phase, Phase::Authenticating(login) if login.penalty.is_some()) {
            return false;
        }
        let source = source(&client.identity.remote, client.identity.remote_uid);
        let allowed = lock(&self.global.sources.failures).allow(source, since_start(self.now));
        let Err(wait) = allowed else {
            return false;
        };
        tracing::warn!(
            "{client} too many failed logins from this address (auth_failures_per_minute); {wait}"
        );
        self.fail_client(id, &Fault::TooManyFailures);
        true
    }

    /// Returns the login of a client that must be logging in.
    #[track_caller]
    pub(super) fn login(&mut self, id: ClientId) -> Option<&mut Authenticating> {
        match &mut self.tables.clients.must_get_mut(id)?.phase {
            Phase::Authenticating(login) => Some(login),
            _ => {
                self.global.broken.report(Missing::State);
                None
            }
        }
    }

    /// Counts a failure that is certain. Returns the time for which the refusal is held back.
    fn count_failure(&mut self, id: ClientId) -> Duration {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return Duration::ZERO;
        };
        let source = source(&client.identity.remote, client.identity.remote_uid);
        let Phase::Authenticating(login) = &mut client.phase else {
            self.global.broken.report(Missing::State);
            return Duration::ZERO;
        };
        *login.penalty.get_or_insert_with(|| {
            lock(&self.global.sources.failures).failure(source, since_start(self.now))
        })
    }

    /// Continues a client's login with derived keys. `are_cached` is true if the keys were not computed now.
    pub(super) fn client_keys(&mut self, id: ClientId, keys: Option<&ScramKeys>, are_cached: bool) {
        if !are_cached && self.bar(id) {
            return;
        }
        let Some(login) = self.login(id) else {
            return;
        };
        login.busy = Busy::No;
        let (Some(keys), Some(exchange)) = (keys, login.exchange.as_mut()) else {
            return self.fail_overloaded(id);
        };
        let progress = if are_cached {
            exchange.provide_cached_keys(keys)
        } else {
            exchange.provide_keys(keys)
        };
        self.progress(id, progress);
        if !are_cached {
            self.take_input(id);
        }
    }

    /// Carries out the result of an exchange's step.
    pub(super) fn progress(&mut self, id: ClientId, progress: Result<Progress, LoginError>) {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        let key = client.key;
        let Phase::Authenticating(login) = &mut client.phase else {
            return self.global.broken.report(Missing::State);
        };
        match progress {
            Err(error) => self.fail_client(id, &Fault::LoginProtocol(error)),
            Ok(Progress::Rejected) => {
                let fault = login.failed(login.credential());
                self.refuse_login(id, fault);
            }
            Ok(Progress::Continue(text)) => {
                let mut message = Vec::new();
                // SCRAM messages are short.
                let _ = encode::authentication_sasl_continue(&mut message, &text);
                self.driver.send(key, &message);
            }
            Ok(Progress::NeedKdf(request)) => {
                login.busy = Busy::Waiting;
                if login
                    .exchange
                    .as_ref()
                    .is_some_and(|exchange| exchange.is_lost())
                {
                    self.count_failure(id);
                }
                self.derive_keys(Asker::Client(id), request);
            }
            Ok(Progress::NeedCheck(password)) => self.check_password(id, password),
            Ok(Progress::Accepted(acceptance)) => self.accepted_proof(id, acceptance),
        }
    }

    fn accepted_proof(&mut self, id: ClientId, acceptance: Acceptance) {
        let Some(client) = self.tables.clients.must_get(id) else {
            return;
        };
        if let Some(text) = acceptance.final_message {
            let mut message = Vec::new();
            // As above.
            let _ = encode::authentication_sasl_final(&mut message, &text);
            self.driver.send(client.key, &message);
        }
        if let Phase::Authenticating(login) = &client.phase
            && let Some(Plan::Pool(settings)) = &login.plan
            && !settings.is_user_forced
            && let Some(keys) = acceptance.pass_through
            && let Ok(pool) = self
                .global
                .pool_of_port(settings.as_ref().clone(), client.identity.local.port)
        {
            // The keys let Weir log in to the server as the same user (hazard SEC-64).
            *lock(&pool.group.pass_through) = Some(keys);
        }
        self.authenticated(id);
    }

    /// Refuses a login after a delay, which is longer for sources that fail often and for no others (hazard SEC-67).
    pub(super) fn refuse_login(&mut self, id: ClientId, fault: Fault) {
        if !matches!(fault, Fault::AuthenticationFailed(..)) {
            return self.fail_client(id, &fault);
        }
        let delay = self.count_failure(id);
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        let Phase::Authenticating(login) = &mut client.phase else {
            return self.global.broken.report(Missing::State);
        };
        if let Some(lookup) = lookup(&self.global.settled(), login) {
            self.global.forget_account(&lookup, &login.hello.user);
        }
        let at = login.spoke_at.plus(delay);
        if at <= self.now {
            return self.fail_client(id, &fault);
        }
        login.busy = Busy::Refused(fault);
        login.exchange = None;
        // A client that can log in may use the place meanwhile.
        client.identity.guards.client = None;
        let at = client.timer.map_or(at, |deadline| deadline.min(at));
        self.arm_client(id, Some(at));
    }

    /// Ends a client whose login time is over, or whose refusal has been held back long enough.
    pub(super) fn login_time_over(&mut self, id: ClientId) {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        let fault = match &mut client.phase {
            Phase::Authenticating(login) => match std::mem::replace(&mut login.busy, Busy::No) {
                Busy::Refused(fault) => fault,
                _ => Fault::LoginTimeout,
            },
            Phase::SeekingWalsender(_) | Phase::Welcome => Fault::LoginTimeoutServerDown,
            _ => Fault::LoginTimeout,
        };
        self.fail_client(id, &fault);
    }

    /// Continues with a client whose identity is proved. Only now is it told whether there is such a database (hazard
    /// SEC-49).
    pub(super) fn authenticated(&mut self, id: ClientId) {
        let settled = self.global.settled();
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        let Phase::Authenticating(login) = &mut client.phase else {
            return self.global.broken.report(Missing::State);
        };
        client.identity.incoming = None;
        let is_late = is_late(self.ending.since(), client.identity.connected_at);
        let secret = login.learnt_secret();
        match login.plan.take() {
            None if DATABASES.contains(&login.hello.database.as_str()) => {
                self.fail_client(id, &Fault::NotAllowed);
            }
            None => {
                let database = login.hello.database.clone();
                self.fail_client(id, &Fault::NoDatabase(database));
            }
            Some(Plan::Console(role)) => self.join_console(id, role),
            // The client came by a socket that is open for administrators only.
            Some(Plan::Pool(_)) if is_late => {
                self.fail_client(id, &Fault::ShuttingDown);
            }
            Some(Plan::Pool(settings)) if self.global.is_disabled(&settings.database) => {
                let name = settings.database;
                self.fail_client(id, &Fault::DatabaseDisabled(name));
            }
            Some(Plan::Pool(settings)) => {
                let port = client.identity.local.port;
                let mut wishes = wishes(&settled, &login.hello, &client.identity.remote);
                if settings.cluster.is_some() {
                    wishes.begin_by_role(settled.settings.listener(port));
                }
                if let Some(secret) = secret.filter(|_| !settings.is_user_forced)
                    && let Ok(pool) = self.global.pool_of_port(settings.as_ref().clone(), port)
                {
                    *lock(&pool.group.learnt) = Some(secret);
                }
                self.join(id, *settings, wishes);
            }
        }
    }
}

/// True if a client connected when only administrators were still let in.
fn is_late(draining_since: Option<Moment>, connected_at: Moment) -> bool {
    draining_since.is_some_and(|since| connected_at > since)
}

impl Authenticating {
    /// Returns the error of a failed proof.
    pub(super) fn failed(&self, credential: Credential) -> Fault {
        Fault::AuthenticationFailed(credential, self.hello.user.clone())
    }

    /// Returns the name of the credential for a failure.
    fn credential(&self) -> Credential {
        use super::access::Directory;
        match self.directory {
            Some(Directory::Ldap(_)) => Credential::Ldap,
            Some(Directory::Pam { .. }) => Credential::Pam,
            None => Credential::Password,
        }
    }

    /// Returns the secret that the login has shown, if it can serve for the server as well.
    fn learnt_secret(&mut self) -> Option<StoredSecret> {
        match (self.typed.take(), self.learnt.account()) {
            (Some(password), _) => Some(StoredSecret::Plain(password)),
            (None, Some(Account::Known(secret))) => Some(secret.clone()),
            (None, _) => None,
        }
    }
}

/// Writes PgBouncer's line for a login attempt, before the client has proved its identity.
pub(super) fn log_login(id: u64, login: &Authenticating, identity: &Identity) {
    let (database, user) = (&login.hello.database, &login.hello.user);
    let address = Address(&identity.remote, identity.remote_pid);
    let tls = identity
        .tls
        .as_ref()
        .map_or_else(|| "no".to_owned(), |tls| tls.protection.to_string());
    tracing::info!(
        "C-{id:#x}: {database}/{user}@{address} login attempt: db={database} user={user} tls={tls} replication={}",
        login.hello.replication.logged()
    );
}

/// Returns the message of a challenge. Challenges are short, so encoding cannot fail.
fn encoded(challenge: &Challenge) -> Vec<u8> {
    let mut message = Vec::new();
    let _ = match challenge {
        Challenge::Cleartext => encode::authentication_cleartext(&mut message),
        Challenge::Md5 { salt } => encode::authentication_md5(&mut message, *salt),
        Challenge::Sasl { mechanisms } => {
            let names: Vec<_> = mechanisms.iter().map(|name| name.as_bytes()).collect();
            encode::authentication_sasl(&mut message, &names)
        }
    };
    message
}
