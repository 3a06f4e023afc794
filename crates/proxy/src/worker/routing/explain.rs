//! `EXPLAIN ROUTE`: tells where a text would run now, by the judge, the catalogue and the router that decide on clients'
//! requests. Sends nothing to a server.

use std::time::Duration;

use weir_config::PoolSettings;
use weir_pool::{HostId, Moment};
use weir_route::{Ask, Explanation, Load, Ready, RouteState, Router, Rules, Verdict};
use weir_rules::RouteTo;
use weir_session::client::Client as Session;
use weir_session::relay::Batch;
use weir_sql::Judge;
use weir_watch::{Generation, HostView, Role, Snapshot, State, Writes};
use weir_wire::encode;

use super::super::Worker;
use super::super::ids::GroupId;
use super::super::state;
use super::hint::{Hinted, by_rule, hinted};
use super::reading::unread;
use super::{Routing, default_isolation, destination, loads, next_dice, rules};
use crate::console::{RouteAnswer, RouteQuestion};
use crate::driver::Driver;
use crate::orders::Refusal;

/// Assumption of each answer: what a session has done decides as well.
const OF_SESSION: &str =
    "for a session that has not written and has set nothing, outside of a transaction";
/// Note if no client's server has read the definitions of functions and relations.
const NO_CATALOGUE: &str = "the definitions of functions and relations are not known yet: \
                            no client of this database has had a server since the start";
/// Note if the worker has no pools of this user.
const NO_POOL: &str = "the load of the hosts, and texts that replicas have refused, are not known: \
                       no client of this user is on the worker of this console";

impl<D: Driver> Worker<D> {
    /// Answers `EXPLAIN ROUTE`.
    pub(in super::super) fn explain_route(
        &mut self,
        question: &RouteQuestion,
    ) -> Result<RouteAnswer, Refusal> {
        let database = self.routed_database(question.database.as_deref())?;
        let user = question.user.as_deref();
        match self.routed_group(&database, user) {
            Some(group) => {
                self.follow_hosts_of(group);
                self.explain_in(group, &question.text)
                    .ok_or(Refusal::NotRouted(database))
            }
            None => self.explain_anew(database, user.unwrap_or_default(), &question.text),
        }
    }

    /// Returns the database that is meant: the named one, or the only one that has several hosts.
    fn routed_database(&self, named: Option<&str>) -> Result<String, Refusal> {
        if let Some(name) = named {
            return self.global.known_database(name, "explain a route in");
        }
        let settled = self.global.settled();
        let settings = &settled.settings;
        let is_routed = |name: &&String| {
            let pool = settings.pool(name, "");
            pool.is_some_and(|pool| pool.cluster.is_some() && !pool.is_auto)
        };
        let mut routed = settings.databases.keys().filter(is_routed);
        match (routed.next(), routed.next()) {
            (Some(only), None) => Ok(only.clone()),
            _ => Err(Refusal::DatabaseNeeded),
        }
    }

    /// Returns the group of clients of this database, and of this user if one is named, on this worker.
    fn routed_group(&self, database: &str, user: Option<&str>) -> Option<GroupId> {
        let mut groups = self.tables.groups.iter();
        let found = groups.find(|(_, group)| {
            let key = &group.global.key;
            group.routing.is_some()
                && key.purpose.serves_clients()
                && *key.database == *database
                && user.is_none_or(|user| *key.user == *user)
        });
        found.map(|(id, _)| id)
    }

    /// Asks the router of a group.
    fn explain_in(&mut self, id: GroupId, text: &[u8]) -> Option<RouteAnswer> {
        let tables = &mut self.tables;
        let group = tables.groups.must_get_mut(id)?;
        let routing = group.routing.as_deref_mut()?;
        let database_state = &group.global.database_state;
        if group.judge.generation() != database_state.generation() {
            let (catalogue, generation) = database_state.catalogue();
            group.judge.set_catalogue(&catalogue, generation);
        }
        let load = loads(&tables.lanes, &group.lanes, routing.share(&group.settings));
        let unix = i64::try_from(self.global.clock.unix_seconds(self.now)).unwrap_or(i64::MAX);
        let rules = group.query_rules.as_mut();
        let explained = rules.map(|rules| rules.explain(&tables.shaper, text, unix));
        let explained = explained.unwrap_or_default();
        let route = explained.route.as_ref();
        let mut answer = routing.explain(text, &mut group.judge, &load, (self.now, route));
        answer.notes.extend(explained.notes);
        if !database_state.is_loaded() {
            answer.notes.push(NO_CATALOGUE.to_owned());
        }
        Some(answer)
    }

    /// Asks a router that is made for the question, because this worker has none for these clients.
    fn explain_anew(
        &self,
        database: String,
        user: &str,
        text: &[u8],
    ) -> Result<RouteAnswer, Refusal> {
        let settled = self.global.settled();
        let pool = settled.settings.pool(&database, user);
        let Some(pool) = pool.filter(|pool| pool.cluster.is_some()) else {
            return Err(Refusal::NotRouted(database));
        };
        let Some(mut routing) = Routing::of(&pool, &self.global, self.global.next_id()) else {
            return Err(Refusal::NotRouted(database));
        };
        let (mut judge, is_loaded) = self.judge_for(&pool);
        let mut answer = routing.explain(text, &mut judge, &|_| Load::default(), (self.now, None));
        answer.notes.push(NO_POOL.to_owned());
        if !is_loaded {
            answer.notes.push(NO_CATALOGUE.to_owned());
        }
        Ok(answer)
    }

    /// Returns a judge that knows the objects of a database, and true if these have been read.
    fn judge_for(&self, pool: &PoolSettings) -> (Judge, bool) {
        let mut judge = state::judge(pool);
        let Some(known) = self.global.database_state_of(&pool.database) else {
            return (judge, false);
        };
        let (catalogue, generation) = known.catalogue();
        judge.set_catalogue(&catalogue, generation);
        (judge, known.is_loaded())
    }
}

/// Tells where a text would run, by a configuration alone: with one primary and one replica that take everything, and
/// without knowledge of the database's functions and relations. None if the database has one host.
#[must_use]
pub fn explain_route_offline(pool: &PoolSettings, text: &[u8]) -> Option<RouteAnswer> {
    let configured = pool.cluster.as_ref()?;
    let hosts = Snapshot {
        writes: Writes::To(HostId(0)),
        hosts: vec![
            assumed(HostId(0), "the primary", Role::Primary),
            assumed(HostId(1), "a replica", Role::Replica),
        ],
        ..Snapshot::default()
    };
    let mut message = Vec::new();
    encode::query(&mut message, text).ok()?;
    let mut judge = state::judge(pool);
    let router = Router::new(rules::rules(configured, "", pool.comment_hints));
    let batch = Batch::scan(&message);
    let destination = destination(&batch, &Session::default(), &mut judge, router.rules());
    let session = RouteState::default();
    let hints = hints_of(text, router.rules(), &session);
    let ask = Ask {
        access: &destination.access,
        session: hints.as_ref().map_or(&session, |hinted| &hinted.state),
        hosts: &hosts,
        ready: &Ready::of(&hosts),
        last_write_of_all: Moment(0),
        last_async_write_of_all: Moment(0),
        since: Moment(0),
        now: Moment(0),
        may_guard: true,
        dice: 0,
    };
    let explanation = router.explain(&ask, &|_| Load::default());
    Some(in_words(explanation, &hosts, hints))
}

/// Returns a host that takes everything that its role allows.
fn assumed(host: HostId, name: &str, role: Role) -> HostView {
    HostView {
        host,
        name: name.into(),
        az: "".into(),
        role,
        state: State::Up,
        since: Moment(0),
        generation: Generation(1),
        timeline: 1,
        fresh_to: Moment::NEVER,
        fresh_to_async: Moment::NEVER,
        lag_bytes: Some(0),
        lag: Some(Duration::ZERO),
        takes_reads: true,
        weight: 100,
        probe_time: None,
        last_error: None,
        replayed: None,
    }
}

impl Routing {
    /// Decides on a text as on a Query of a client that has done nothing yet.
    fn explain(
        &mut self,
        text: &[u8],
        judge: &mut Judge,
        load: &dyn Fn(HostId) -> Load,
        (now, route): (Moment, Option<&RouteTo>),
    ) -> RouteAnswer {
        let mut message = Vec::new();
        // A text from a message fits into a message.
        let _ = encode::query(&mut message, text);
        let batch = Batch::scan(&message);
        let destination = match self.learnt.has(|| text, now) {
            true => unread(&self.fixed.refused),
            false => destination(&batch, &Session::default(), judge, self.router.rules()),
        };
        let session = RouteState {
            isolation: default_isolation(judge),
            ..RouteState::default()
        };
        let hints = hints_of(text, self.router.rules(), &session);
        let hints = match route {
            Some(to) => Some(by_rule(to, hints, &session, &self.hosts)),
            None => hints,
        };
        let ask = Ask {
            access: &destination.access,
            session: hints.as_ref().map_or(&session, |hinted| &hinted.state),
            hosts: &self.hosts,
            ready: &self.ready,
            last_write_of_all: self.cluster.last_write(),
            last_async_write_of_all: self.cluster.last_write(),
            since: now,
            now,
            may_guard: true,
            dice: next_dice(&mut self.dice),
        };
        in_words(self.router.explain(&ask, load), &self.hosts, hints)
    }
}

/// Returns the hints of a text, if the rules let them count.
fn hints_of(text: &[u8], rules: &Rules, session: &RouteState) -> Option<Hinted> {
    rules.comment_hints.then(|| hinted(text, session)).flatten()
}

fn in_words(explanation: Explanation, hosts: &Snapshot, hints: Option<Hinted>) -> RouteAnswer {
    let wrong = hints.and_then(|hinted| hinted.wrong);
    let view = match explanation.verdict {
        Verdict::Go { host, .. } => hosts.host(host),
        Verdict::Hold { .. } | Verdict::Refuse(_) => None,
    };
    let verdict = match (explanation.verdict, view.map(|view| view.role)) {
        (Verdict::Go { .. }, Some(Role::Primary)) => "primary",
        (Verdict::Go { .. }, Some(Role::Replica)) => "replica",
        (Verdict::Go { .. }, Some(Role::Unknown) | None) => "host",
        (Verdict::Hold { .. }, _) => "waits",
        (Verdict::Refuse(_), _) => "refused",
    };
    RouteAnswer {
        verdict,
        host: view.map(|view| view.name.to_string()),
        reason: explanation.reason,
        rules: explanation.rules,
        hosts: explanation.hosts,
        notes: std::iter::once(OF_SESSION.to_owned())
            .chain(wrong.map(|wrong| wrong.to_string()))
            .collect(),
    }
}
