//! A look at the workers from a thread outside of them: figures, a few orders, and passwords of console users.
//!
//! The dashboard uses it. Every call may block, and none is for a worker.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::bounded;
use weir_auth::kdf::{ScramKeys, derive};
use weir_auth::login::{Account, Exchange, LoginInput, LoginRandom, Method, Opening, Progress};
use weir_auth::throttle::Source;
use weir_config::AuthType;
use weir_stats::Snapshot;
use weir_tls::session::ServerConfig;

use crate::console::{Command, Role};
use crate::diagnosis::{EventKind, Series};
use crate::global::{Global, lock, random, since_start};
use crate::mailbox::Message;
use crate::monitor::collect;
use crate::orders::{Order, Receipt, Refusal, RuleOrder, Task};
use crate::running::Running;
use crate::worker::rule_rows;

/// Protocol of browsers in ALPN. HTTP/2 is not offered: its many requests in a connection would pass its limits.
const HTTP: &[u8] = b"http/1.1";
/// Time for the outcome of a reload.
const RELOAD_MAX: Duration = Duration::from_secs(30);
/// Time for all workers to end a client.
const WORKERS_MAX: Duration = Duration::from_secs(2);

/// Depth of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Detail {
    /// Pools, and a row for each client, server and statement.
    Digests,
    /// Figures of the page of metrics.
    Metrics,
    /// Pools, and a row for each client and server.
    Rows,
    /// Pools, and whatever the servers show: no client without a server is visited.
    Watch,
}

/// Reason for which a password is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Barred {
    /// The address has failed too often; nothing was checked.
    TooMany,
    /// User or password is wrong, or the user has no right to the console. No answer may be sent before this time is over.
    Wrong(Duration),
}

/// See the module's page.
#[derive(Clone)]
pub struct Inspector {
    global: Arc<Global>,
}

impl Running {
    /// Returns a handle for a thread that watches the workers.
    #[must_use]
    pub fn inspector(&self) -> Inspector {
        Inspector {
            global: Arc::clone(self.global()),
        }
    }
}

impl Inspector {
    /// Collects the figures of all workers.
    ///
    /// # Errors
    /// A worker does not answer in time.
    pub fn snapshot(&self, detail: Detail) -> Result<Snapshot, String> {
        let global = &self.global;
        let mut snapshot = collect(global, detail)?;
        let now = global.clock.now();
        snapshot.rules = rule_rows(global, &snapshot);
        snapshot.hosts = global.resolver.rows(now);
        Ok(snapshot)
    }

    /// Returns the figures of the last `seconds`: of a pool, `database/user`, or of the process if the scope is empty. None if
    /// the scope has no history.
    #[must_use]
    pub fn history(&self, scope: &str, seconds: u32) -> Option<Series> {
        self.global.diagnosing.series(scope, seconds)
    }

    /// Notes an event for `SHOW EVENTS`.
    pub fn note(&self, kind: EventKind, text: String) {
        self.global.note(kind, text);
    }

    /// Returns the wall-clock time in Unix seconds.
    #[must_use]
    pub fn unix(&self) -> i64 {
        self.global.unix()
    }

    /// Returns the time since the start, which never goes back.
    #[must_use]
    pub fn now(&self) -> Duration {
        since_start(self.global.clock.now())
    }

    /// Returns the TLS of clients for HTTP; `None` if the configuration in force has none.
    #[must_use]
    pub fn web_tls(&self) -> Option<Arc<ServerConfig>> {
        let settled = self.global.settled();
        let mut config = settled.transport.listener()?.config();
        config.alpn_protocols = vec![HTTP.to_vec()];
        Some(Arc::new(config))
    }

    // --- users ---

    /// Returns the rights of a user in the console.
    #[must_use]
    pub fn role(&self, user: &str) -> Option<Role> {
        let settled = self.global.settled();
        let global = &settled.settings.global;
        let is_named = |names: &[String]| names.iter().any(|name| name == user);
        if settled.settings.trust_loopback || is_named(&global.admin_users) {
            Some(Role::Admin)
        } else if is_named(&global.stats_users) {
            Some(Role::Stats)
        } else {
            None
        }
    }

    /// Checks the password of a console user against `auth_file`. Failures share the throttle of all logins. Unknown users
    /// cost the same time as others.
    ///
    /// # Errors
    /// The login is refused.
    pub fn check_password(
        &self,
        user: &str,
        password: &[u8],
        address: IpAddr,
    ) -> Result<Role, Barred> {
        let source = Source::from_ip(address);
        let is_allowed = || {
            let now = since_start(self.global.clock.now());
            lock(&self.global.sources.failures)
                .allow(source, now)
                .is_ok()
        };
        if !is_allowed() {
            return Err(Barred::TooMany);
        }
        let is_right = self.is_right(user, password);
        // Others may have failed meanwhile.
        if !is_allowed() {
            return Err(Barred::TooMany);
        }
        match self.role(user) {
            Some(role) if is_right => Ok(role),
            _ => {
                let now = since_start(self.global.clock.now());
                let mut failures = lock(&self.global.sources.failures);
                Err(Barred::Wrong(failures.failure(source, now)))
            }
        }
    }

    fn is_right(&self, user: &str, password: &[u8]) -> bool {
        let settled = self.global.settled();
        let global = &settled.settings.global;
        if settled.settings.trust_loopback
            || matches!(global.auth_type, AuthType::Any | AuthType::Trust)
        {
            return true;
        }
        let (Ok(md5_salt), Ok(scram_nonce)) = (random(), random()) else {
            return false;
        };
        let account = settled.users.get(user.as_bytes());
        let opening = Exchange::begin(LoginInput {
            method: Method::Plain,
            user: user.as_bytes(),
            account: account.map_or(Account::Unknown, |secret| Account::Known(secret.clone())),
            random: LoginRandom {
                md5_salt,
                scram_nonce,
            },
            server_secret: &self.global.secrets.server,
            iterations: global.scram_iterations,
            channel_binding: None,
            population: &settled.population,
        });
        let Opening::Ask { mut exchange, .. } = opening else {
            return false;
        };
        // PasswordMessage ends with a zero byte.
        let message = [password, b"\0"].concat();
        match exchange.handle_response(&message) {
            Ok(Progress::Accepted(_)) => true,
            Ok(Progress::NeedKdf(request)) => {
                let keys = ScramKeys::from_salted(&derive(&request));
                matches!(exchange.provide_keys(&keys), Ok(Progress::Accepted(_)))
            }
            _ => false,
        }
    }

    // --- orders ---

    /// Pauses a database. Returns at once; servers in use stay until their clients release them.
    ///
    /// # Errors
    /// There is no such database.
    pub fn pause(&self, database: &str) -> Result<(), Refusal> {
        self.global.pause(Some(database), "pause")?;
        self.tell_all(&Task::Settle);
        self.pass(&Order::Pause(Some(database.to_owned())));
        Ok(())
    }

    /// Takes a pause of a database back; the pause of everything, if that is what holds.
    ///
    /// # Errors
    /// The database is not paused.
    pub fn resume(&self, database: &str) -> Result<(), Refusal> {
        let halts = self.global.halts();
        let is_of_all = halts.all && !halts.paused.contains(database);
        let database = (!is_of_all).then_some(database);
        self.global.resume(database)?;
        self.tell_all(&Task::Settle);
        self.pass(&Order::Resume(database.map(str::to_owned)));
        Ok(())
    }

    /// Ends a client.
    ///
    /// # Errors
    /// No client has this number, or the workers do not answer.
    pub fn kill_client(&self, id: u64) -> Result<(), Refusal> {
        let snapshot = self.snapshot(Detail::Rows).map_err(|_| Refusal::Busy)?;
        if !snapshot.clients.iter().any(|client| client.id == id) {
            return Err(Refusal::ClientNotFound);
        }
        self.tell_all(&Task::KillClient(id));
        let (sender, done) = bounded(self.global.worker_count());
        for mailbox in self.mailboxes() {
            mailbox.send_waiting(Message::Barrier(sender.clone()));
        }
        drop(sender);
        for _ in self.mailboxes() {
            done.recv_timeout(WORKERS_MAX).map_err(|_| Refusal::Busy)?;
        }
        Ok(())
    }

    /// Lets a query rule only count (true), or puts it in force (false).
    ///
    /// # Errors
    /// No rule has this name.
    pub fn set_rule_dry(&self, name: &str, is_dry: bool) -> Result<(), Refusal> {
        let order = RuleOrder::Dry(name.to_owned(), is_dry);
        self.global.order_rule(order.clone(), self.unix())?;
        self.tell_all(&Task::Rules);
        self.pass(&Order::Rule(order));
        Ok(())
    }

    /// Reads the configuration again, and waits for the outcome.
    ///
    /// # Errors
    /// The configuration has a mistake, or too many commands are waiting.
    pub fn reload(&self) -> Result<(), Refusal> {
        let (receipt, outcome) = Receipt::channel();
        let sent = self.global.commands.try_send(Command::Reload {
            from: None,
            receipt,
        });
        sent.map_err(|_| Refusal::Busy)?;
        let outcome = outcome.recv_timeout(RELOAD_MAX);
        outcome.unwrap_or(Err(Refusal::Busy))
    }

    fn mailboxes(&self) -> impl Iterator<Item = &crate::mailbox::Mailbox> {
        self.global.workers.mailboxes.get().into_iter().flatten()
    }

    /// Passes an order on to the other processes of an upgrade.
    fn pass(&self, order: &Order) {
        self.global.succession.neighbours.pass_order(order, None);
    }

    fn tell_all(&self, task: &Task) {
        for mailbox in self.mailboxes() {
            let task = task.clone();
            mailbox.send_waiting(Message::Task { task, to: None });
        }
    }
}
