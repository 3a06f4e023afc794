//! Whether servers still have the role and the defaults that a new connection would have.
//!
//! A session of PostgreSQL keeps its role's number and the values of `ALTER ROLE … SET` and `ALTER DATABASE … SET` from
//! its login. A role that was dropped and created again under the same name has another number and other rights.
//! So before a client gets its first server since its login, that server is asked what a login would find, unless the
//! pool has been told within `role_check_delay`. If that is not what the pool's servers began with, all of them go.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use weir_pool::Moment;
use weir_session::settings::push_literal;
use weir_wire::sqlstate::SqlState;

use super::Worker;
use super::ids::{ClientId, PoolId, ServerId, Waiter};
use super::inquiry::rows;
use super::slots::{Stage, Test};
use crate::driver::Driver;
use crate::global::{GlobalPool, lock};
use crate::mailbox::Message;
use crate::socket::Target;

/// Addresses of one pool that answers are remembered of.
const ADDRESSES_MAX: usize = 16;

/// Longest answer that is looked at, in bytes: beyond it nothing is known.
const ANSWER_MAX: usize = 256 * 1024;

/// What a login of the pool's role finds, as one row: the role's number by its name, the number of this session's role,
/// and the defaults of both role and database, with the transactions that wrote them.
const QUESTION: [&str; 2] = [
    "/* Weir: role_check_delay */ SELECT \
     (SELECT r.oid FROM pg_catalog.pg_roles AS r WHERE r.rolname OPERATOR(pg_catalog.=) ",
    ") AS role, a.usesysid AS session, \
     (SELECT pg_catalog.string_agg(pg_catalog.concat_ws(' ', s.setdatabase, s.setrole, s.xmin, s.setconfig), E'\\n' \
     ORDER BY s.setdatabase, s.setrole) FROM pg_catalog.pg_db_role_setting AS s \
     WHERE s.setrole IN (0, a.usesysid) AND s.setdatabase IN (0, a.datid)) AS defaults \
     FROM pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()) AS a",
];

/// One server's answer: a row of texts.
type Answer = Vec<Option<Vec<u8>>>;

/// What the servers of a pool began with, as far as anybody has asked.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// By address: hosts of one pool may be different clusters.
    known: Vec<(Target, Answer)>,
    /// When the last answer was asked for.
    asked_at: Option<Moment>,
    /// The process's count of statements about roles by then.
    changes: u64,
}

/// What an answer means for the server that gave it.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// It is as a new connection would be.
    Current,
    /// It, and every server of its pool that is as old, may have another role or other defaults.
    Outdated,
}

impl Standing {
    fn is_due(&self, now: Moment, delay: Duration, changes: u64) -> bool {
        self.changes != changes || self.asked_at.is_none_or(|at| now.since(at) >= delay)
    }

    /// Compares an answer with the one that servers of this address gave before. Without one, a server that has just
    /// logged in is as it says, and of an older one nobody knows.
    fn judge(&mut self, target: &Target, answer: Answer, is_new: bool) -> Verdict {
        let place = self.known.iter().position(|(of, _)| of == target);
        let known = place.and_then(|place| self.known.get(place));
        match known {
            Some((_, known)) if *known == answer => Verdict::Current,
            None if is_new => {
                if self.known.len() >= ADDRESSES_MAX {
                    self.known.clear();
                }
                self.known.push((target.clone(), answer));
                Verdict::Current
            }
            Some(_) | None => {
                // The next one that is new says what holds.
                *self = Self::default();
                Verdict::Outdated
            }
        }
    }
}

impl<D: Driver> Worker<D> {
    /// True if a server has to be asked first; its client waits for that.
    #[inline]
    pub(super) fn checks_role(&mut self, id: ClientId, server_id: ServerId) -> bool {
        let client = self.clients.must_get_mut(id);
        if !client.is_some_and(|client| std::mem::take(&mut client.is_newcomer)) {
            return false;
        }
        self.is_role_check_due(server_id) && self.ask_role(server_id, Some(id))
    }

    fn is_role_check_due(&self, server_id: ServerId) -> bool {
        let settled = self.global.settled();
        let server = self.servers.must_get(server_id);
        let pool = server.and_then(|server| self.pools.must_get(server.pool));
        let Some((pool, delay)) = pool.zip(settled.settings.global.role_check_delay) else {
            return false;
        };
        let changes = self.global.role_changes.load(SeqCst);
        lock(&pool.global.standing).is_due(self.now, delay, changes)
    }

    /// Asks a free server, which its client, if any, gets when it has answered. False if nobody wants to know.
    pub(super) fn ask_role(&mut self, server_id: ServerId, client: Option<ClientId>) -> bool {
        let is_wanted = self
            .global
            .settled()
            .settings
            .global
            .role_check_delay
            .is_some();
        let Some(server) = self.servers.must_get_mut(server_id) else {
            return false;
        };
        server.is_role_doubtful = false;
        let Some(pool) = self.pools.must_get(server.pool).filter(|_| is_wanted) else {
            return false;
        };
        let mut sql = QUESTION[0].to_owned();
        push_literal(&mut sql, &pool.settings.user);
        sql.push_str(QUESTION[1]);
        server.answer.clear();
        server.role_asked = (self.now, self.global.role_changes.load(SeqCst));
        if let Some(client) = client.and_then(|client| self.clients.must_get_mut(client)) {
            client.ticket = None;
            client.lease = Some(server_id);
        }
        self.test_server(server_id, Test::Role(client), &sql);
        true
    }

    /// A server has answered.
    pub(super) fn role_answered(&mut self, server_id: ServerId, client: Option<ClientId>) {
        let Some(server) = self.servers.must_get_mut(server_id) else {
            return;
        };
        // An error here is nobody's.
        let _ = server.session.take_errors();
        let answer = std::mem::take(&mut server.answer);
        let (is_new, pool_id) = (server.is_new, server.pool);
        let (asked_at, changes) = server.role_asked;
        let target = server.facts.target.clone();
        let Some(pool) = self.pools.must_get(pool_id) else {
            return;
        };
        let verdict = match rows(
            answer
                .get(..ANSWER_MAX.min(answer.len()))
                .unwrap_or_default(),
        ) {
            Ok(rows) if rows.len() == 1 && answer.len() <= ANSWER_MAX => {
                let mut standing = lock(&pool.global.standing);
                standing.asked_at = Some(asked_at);
                standing.changes = changes;
                let row = rows.into_iter().next().unwrap_or_default();
                standing.judge(&target, row, is_new)
            }
            // Whatever it is, it has no such catalogue, or the settings of its last client do not let it answer.
            other => {
                tracing::debug!("role check of {target:?} is without an answer: {other:?}");
                Verdict::Current
            }
        };
        match (verdict, client) {
            (Verdict::Outdated, _) => self.replace_outdated(server_id, pool_id, client),
            (Verdict::Current, Some(client)) => {
                self.test_passed(pool_id, server_id);
                self.start(Waiter::Client(client), server_id);
            }
            (Verdict::Current, None) => {
                self.test_passed(pool_id, server_id);
                self.check_in(server_id);
            }
        }
    }

    /// Closes this server, and all others of its pool when they are free. A client that was to get it waits on, and asks
    /// again what it gets: the first new one tells what all later ones are compared with.
    fn replace_outdated(&mut self, server_id: ServerId, pool_id: PoolId, client: Option<ClientId>) {
        if let Some(server) = self.servers.must_get_mut(server_id) {
            server.stage = Stage::Testing(Test::Role(client));
        }
        let Some(pool) = self.pools.must_get(pool_id) else {
            return;
        };
        let global = Arc::clone(&pool.global);
        tracing::info!(
            "pool {}/{}: the role or its defaults have changed, servers are replaced",
            global.database,
            global.user
        );
        let before = self.now;
        for lane in (0..self.global.lanes()).filter(|lane| *lane != self.lane) {
            let pool = Arc::clone(&global);
            // Without it that worker's idle servers live on until they are used; the others are closed on release.
            drop(self.post(lane, Message::Outdated { pool, before }));
        }
        self.outdated(&global, before);
        self.close_server(server_id, "role or defaults have changed");
    }

    /// The server that a client was to get is gone: it waits on, and asks again what it gets.
    pub(super) fn wait_for_role(&mut self, id: ClientId) {
        if let Some(client) = self.clients.must_get_mut(id) {
            client.is_newcomer = true;
        }
        self.wait_again(id);
    }

    /// Servers of this pool that began until then are replaced.
    pub(super) fn outdated(&mut self, pool: &GlobalPool, before: Moment) {
        lock(&pool.welcomes).clear();
        let Some(id) = self.find_pool(pool) else {
            // This worker has no servers of it.
            return;
        };
        if let Some(pool) = self.pools.must_get_mut(id) {
            pool.shard.recycle(before);
        }
        self.pump(id);
    }

    /// A role that is gone shows by errors: it does not exist (42704), or has none of its rights (42501). Both have other
    /// reasons too, so the server is asked before anybody else gets it.
    pub(super) fn doubt_role(&mut self, server_id: ServerId, codes: &[Option<SqlState>]) {
        const SIGNS: [SqlState; 2] = [SqlState::UNDEFINED_OBJECT, SqlState::INSUFFICIENT_PRIVILEGE];
        let is_wanted = || {
            self.global
                .settled()
                .settings
                .global
                .role_check_delay
                .is_some()
        };
        let is_sign = codes.iter().flatten().any(|code| SIGNS.contains(code)) && is_wanted();
        if is_sign && let Some(server) = self.servers.must_get_mut(server_id) {
            server.is_role_doubtful = true;
        }
    }
}
