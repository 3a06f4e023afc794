//! Check that servers still have the role and the defaults that a new connection would have.
//!
//! A session of PostgreSQL keeps its role's number and the values of `ALTER ROLE … SET` and `ALTER DATABASE … SET` from
//! its login. A role that was dropped and created again under the same name has another number and other rights. So
//! before a client gets its first server since its login, that server is asked what a login would find. The question is
//! left out if the pool got an answer within `role_check_delay`. If the answer differs from that of the pool's servers
//! at their start, all of them are replaced.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use weir_pool::Moment;
use weir_session::settings::push_literal;
use weir_wire::sqlstate::SqlState;

use super::Worker;
use super::ids::{ClientId, LaneId, ServerId, Waiter};
use super::inquiry::rows;
use super::slots::{Stage, Test};
use crate::driver::Driver;
use crate::global::{GlobalPool, lock};
use crate::mailbox::Message;
use crate::socket::Target;

/// Maximum number of addresses of one pool whose answers are remembered.
const ADDRESSES_MAX: usize = 16;

/// Maximum bytes of an answer. A longer answer is ignored.
const ANSWER_MAX: usize = 256 * 1024;

/// Query for what a login of the pool's role finds. Its one row has the role's number by its name, the number of this
/// session's role, and the defaults. The defaults are those of both role and database, with the transactions that wrote
/// them.
const QUESTION: [&str; 2] = [
    "/* Weir: role_check_delay */ SELECT \
     (SELECT r.oid FROM pg_catalog.pg_roles AS r WHERE r.rolname OPERATOR(pg_catalog.=) ",
    ") AS role, a.usesysid AS session, \
     (SELECT pg_catalog.string_agg(pg_catalog.concat_ws(' ', s.setdatabase, s.setrole, s.xmin, s.setconfig), E'\\n' \
     ORDER BY s.setdatabase, s.setrole) FROM pg_catalog.pg_db_role_setting AS s \
     WHERE s.setrole IN (0, a.usesysid) AND s.setdatabase IN (0, a.datid)) AS defaults \
     FROM pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()) AS a",
];

/// Answer of one server: a row of texts.
type Answer = Vec<Option<Vec<u8>>>;

/// Role and defaults with which the servers of a pool began, as far as any was asked.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// Answers by address: hosts of one pool may be different clusters.
    known: Vec<(Target, Answer)>,
    /// Time of the question that was answered last.
    asked_at: Option<Moment>,
    /// Time of the question whose answer showed a change last.
    changed_at: Option<Moment>,
    /// The process's count of statements about roles at that time.
    changes: u64,
}

/// Meaning of an answer for the server that gave it.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// The server is as a new connection would be.
    Current,
    /// The server, and every server of its pool that is as old, may have another role or other defaults.
    Outdated,
}

impl Standing {
    fn is_due(&self, now: Moment, delay: Duration, changes: u64) -> bool {
        self.changes != changes || self.asked_at.is_none_or(|at| now.since(at) >= delay)
    }

    /// Compares an answer with the earlier one from this address. Without an earlier one, a server that has just logged
    /// in counts as current, and so does one that answers like a server at another address, as hosts of one cluster do,
    /// if it has logged in since the last change. Any other one counts as outdated.
    fn judge(&mut self, server: &Asked, answer: Answer) -> Verdict {
        let mut known = self.known.iter();
        let at_address = known.find(|(of, _)| *of == server.target);
        if at_address.is_some_and(|(_, known)| *known == answer) {
            return Verdict::Current;
        }
        let has_changed = at_address.is_some();
        let is_since = self.changed_at.is_none_or(|at| server.began > at);
        let is_like_others = || is_since && self.known.iter().any(|(_, known)| *known == answer);
        if !has_changed && (server.is_new || is_like_others()) {
            if self.known.len() >= ADDRESSES_MAX {
                self.known.clear();
            }
            self.known.push((server.target.clone(), answer));
            return Verdict::Current;
        }
        if has_changed {
            self.changed_at = Some(server.asked_at);
        }
        // The answer of the next new server becomes the standard.
        self.known.clear();
        self.asked_at = None;
        Verdict::Outdated
    }
}

/// Server that was asked about its role.
struct Asked {
    target: Target,
    /// Time of its login.
    began: Moment,
    asked_at: Moment,
    /// True if it has just logged in.
    is_new: bool,
}

impl<D: Driver> Worker<D> {
    /// Asks a server about its role before a client's first use, if that is due. True if it was asked; the client waits
    /// for the answer.
    #[inline]
    pub(super) fn checks_role(&mut self, id: ClientId, server_id: ServerId) -> bool {
        let client = self.tables.clients.must_get_mut(id);
        if !client.is_some_and(|client| std::mem::take(&mut client.is_newcomer)) {
            return false;
        }
        self.is_role_check_due(server_id) && self.ask_role(server_id, Some(id))
    }

    fn is_role_check_due(&self, server_id: ServerId) -> bool {
        let settled = self.global.settled();
        let server = self.tables.servers.must_get(server_id);
        let group = server.and_then(|server| self.tables.groups.must_get(server.group));
        let Some((group, delay)) = group.zip(settled.settings.global.role_check_delay) else {
            return false;
        };
        let changes = self.global.role_changes.load(SeqCst);
        lock(&group.global.standing).is_due(self.now, delay, changes)
    }

    /// Asks a free server about its role. The client, if any, gets the server afterwards. False if the check is off.
    pub(super) fn ask_role(&mut self, server_id: ServerId, client: Option<ClientId>) -> bool {
        let is_wanted = self
            .global
            .settled()
            .settings
            .global
            .role_check_delay
            .is_some();
        let Some(server) = self.tables.servers.must_get_mut(server_id) else {
            return false;
        };
        server.is_role_doubtful = false;
        let Some(group) = self
            .tables
            .groups
            .must_get(server.group)
            .filter(|_| is_wanted)
        else {
            return false;
        };
        let mut sql = QUESTION[0].to_owned();
        push_literal(&mut sql, &group.settings.user);
        sql.push_str(QUESTION[1]);
        server.answer.clear();
        server.role_asked = (self.now, self.global.role_changes.load(SeqCst));
        if let Some(client) = client.and_then(|client| self.tables.clients.must_get_mut(client)) {
            client.ticket = None;
            client.lease = Some(server_id);
        }
        self.test_server(server_id, Test::Role(client), &sql);
        true
    }

    /// Evaluates a server's answer about its role.
    pub(super) fn role_answered(&mut self, server_id: ServerId, client: Option<ClientId>) {
        let Some(server) = self.tables.servers.must_get_mut(server_id) else {
            return;
        };
        // Errors of this query belong to no client.
        let _ = server.session.take_errors();
        let answer = std::mem::take(&mut server.answer);
        let lane_id = server.lane;
        let (asked_at, changes) = server.role_asked;
        let asked = Asked {
            target: server.facts.target.clone(),
            began: server.facts.connected_at,
            asked_at,
            is_new: server.is_new,
        };
        let Some(lane) = self.tables.lanes.must_get(lane_id) else {
            return;
        };
        let verdict = match rows(
            answer
                .get(..ANSWER_MAX.min(answer.len()))
                .unwrap_or_default(),
        ) {
            Ok(rows) if rows.len() == 1 && answer.len() <= ANSWER_MAX => {
                let mut standing = lock(&lane.global.group.standing);
                standing.asked_at = Some(asked_at);
                standing.changes = changes;
                let row = rows.into_iter().next().unwrap_or_default();
                standing.judge(&asked, row)
            }
            // The server has no such catalogue, or its last client's settings do not let it answer.
            other => {
                let target = &asked.target;
                tracing::debug!("role check of {target:?} got no answer: {other:?}");
                Verdict::Current
            }
        };
        match (verdict, client) {
            (Verdict::Outdated, _) => self.replace_outdated(server_id, lane_id, client),
            (Verdict::Current, Some(client)) => {
                self.tables.test_passed(lane_id, server_id);
                self.start(Waiter::Client(client), server_id);
            }
            (Verdict::Current, None) => {
                self.tables.test_passed(lane_id, server_id);
                self.check_in(server_id);
            }
        }
    }

    /// Closes this server now, and all others of its pool when they are free. A client that was to get it waits on and
    /// has its next server asked. The first new server's answer is the standard for all later ones.
    fn replace_outdated(&mut self, server_id: ServerId, lane_id: LaneId, client: Option<ClientId>) {
        if let Some(server) = self.tables.servers.must_get_mut(server_id) {
            server.stage = Stage::Testing(Test::Role(client));
        }
        let Some(lane) = self.tables.lanes.must_get(lane_id) else {
            return;
        };
        let global = Arc::clone(&lane.global);
        tracing::info!(
            "pool {}/{}: the role or its defaults have changed; all servers of the pool are replaced",
            global.group.key.database,
            global.group.key.user
        );
        let before = self.now;
        for worker in (0..self.global.worker_count()).filter(|worker| *worker != self.number) {
            let pool = Arc::clone(&global);
            // If the message is lost, that worker's idle servers live on until they are used. Its other servers are
            // closed on release.
            drop(self.post(worker, Message::Outdated { pool, before }));
        }
        self.outdated(&global, before);
        self.close_server(server_id, "role or defaults have changed");
    }

    /// Queues a client again whose server is gone, and has its next server asked.
    pub(super) fn wait_for_role(&mut self, id: ClientId) {
        if let Some(client) = self.tables.clients.must_get_mut(id) {
            client.is_newcomer = true;
        }
        self.wait_again(id);
    }

    /// Replaces the servers of this pool that began before `before`.
    pub(super) fn outdated(&mut self, pool: &GlobalPool, before: Moment) {
        lock(&pool.group.welcomes).clear();
        let Some((_, id)) = self.tables.find_lane(pool) else {
            // This worker has no servers of the pool.
            return;
        };
        if let Some(lane) = self.tables.lanes.must_get_mut(id) {
            lane.shard.recycle(before);
        }
        self.pump(id);
    }

    /// Marks a server for a role check if its errors may mean that its role is gone: it does not exist (42704), or has
    /// none of its rights (42501). Both errors have other causes too, so the server is asked before another client gets
    /// it.
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
        if is_sign && let Some(server) = self.tables.servers.must_get_mut(server_id) {
            server.is_role_doubtful = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Judges the answer of a server at 10.0.0.`last` that logged in at `began` and is asked at 100.
    fn judge(standing: &mut Standing, last: u8, began: u64, role: &str, is_new: bool) -> Verdict {
        let address = std::net::SocketAddr::from(([10, 0, 0, last], 5432));
        let asked = Asked {
            target: Target::Tcp(address, None),
            began: Moment(began),
            asked_at: Moment(100),
            is_new,
        };
        standing.judge(&asked, vec![Some(role.into())])
    }

    #[test]
    fn a_pool_finds_an_answer_that_differs_from_the_last_one_at_its_address() {
        let all = &mut Standing::default();
        assert_eq!(judge(all, 1, 1, "16384", false), Verdict::Outdated);
        assert_eq!(judge(all, 1, 2, "16384", true), Verdict::Current);
        assert_eq!(judge(all, 1, 1, "16384", false), Verdict::Current);
        assert_eq!(judge(all, 1, 1, "16999", false), Verdict::Outdated);
        assert_eq!(judge(all, 1, 101, "16999", true), Verdict::Current);
    }

    #[test]
    fn an_old_server_of_another_host_is_current_if_it_answers_like_the_first() {
        let all = &mut Standing::default();
        judge(all, 1, 1, "16384", true);
        assert_eq!(judge(all, 2, 1, "16384", false), Verdict::Current);
        assert_eq!(judge(all, 3, 1, "16999", false), Verdict::Outdated);
    }

    #[test]
    fn a_server_from_before_a_change_is_outdated_at_any_host() {
        let all = &mut Standing::default();
        judge(all, 1, 1, "old", true);
        assert_eq!(judge(all, 1, 1, "new", false), Verdict::Outdated);
        assert_eq!(judge(all, 1, 101, "new", true), Verdict::Current);
        assert_eq!(judge(all, 2, 99, "new", false), Verdict::Outdated);
        assert_eq!(judge(all, 1, 102, "new", true), Verdict::Current);
        assert_eq!(judge(all, 2, 102, "new", false), Verdict::Current);
    }
}
