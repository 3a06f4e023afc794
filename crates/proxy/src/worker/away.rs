//! Transactions that a query rule sends to another database: for their time, the client is one of that database's clients.
//!
//! A client has the group of its database ("home"). Before such a transaction gets a server, the client takes the group of the
//! other database, and with it pool, limits, router and rules. It comes home when the server is released, or before its next
//! transaction at the latest.

use std::sync::Arc;

use weir_rules::{Rejection, RouteTo, Wish};
use weir_session::fault::Fault;
use weir_session::relay::{self, Batch};
use weir_stats::Blame;

use super::Worker;
use super::ids::{ClientId, GroupId, LaneId, ServerId};
use super::keeping::Kept;
use super::routing::Route;
use super::ruling::GroupRules;
use super::slots::Group;
use super::tables::Tables;
use super::throttle::Gate;
use crate::driver::Driver;
use crate::global::lock;

/// Place of a client that is away.
pub(super) struct Home {
    group: GroupId,
    lane: LaneId,
    route: Option<Box<Route>>,
}

impl Home {
    /// Returns the group of the client's own database.
    pub(super) fn group(&self) -> GroupId {
        self.group
    }
}

impl Group {
    /// Number of clients that are not away.
    pub(super) fn present(&self) -> usize {
        self.clients.saturating_sub(self.away)
    }
}

impl Tables {
    /// Takes a client that is away off the clients of its own database.
    pub(super) fn count_lost(&mut self, home: &Home) {
        if let Some(group) = self.groups.must_get_mut(home.group) {
            group.away -= 1;
        }
        self.count_leaver(home.group);
    }
}

impl Tables {
    /// True if rules may want something of the client's next transaction before it gets a server: it does not begin on the server
    /// that the client still has.
    pub(super) fn may_be_halted(&self, id: ClientId) -> bool {
        let client = self.clients.must_get(id);
        let group = client.and_then(|client| self.groups.must_get(client.group));
        let rules = group.and_then(|group| group.query_rules.as_ref());
        rules.is_some_and(|rules| rules.come_before_lease)
    }

    /// True if a rule sends the client's next transaction to another database.
    fn goes_away(&mut self, id: ClientId, input: &[u8], unix: i64) -> bool {
        let Some(client) = self.clients.must_get_mut(id) else {
            return false;
        };
        let Some(group) = self.groups.must_get_mut(client.group) else {
            return false;
        };
        let Some(rules) = group.query_rules.as_mut().filter(|rules| rules.leave) else {
            return false;
        };
        client.fit_rules(rules);
        let batch = Batch::scan(input);
        match (&client.rules, relay::first_text(&batch, &client.session)) {
            (Some(known), Some(text)) => rules.sends_away(known, &self.shaper, text, unix),
            _ => false,
        }
    }
}

impl<D: Driver> Worker<D> {
    /// True if a client that only keeps its server goes to another database with its next request.
    #[inline]
    pub(super) fn lets_go_away(&mut self, id: ClientId, server_id: ServerId, input: &[u8]) -> bool {
        if !self.has_rules {
            return false;
        }
        let server = self.tables.servers.must_get(server_id);
        let is_kept =
            server.is_some_and(|server| server.kept != Kept::No && server.lease == Some(id));
        if !is_kept {
            return false;
        }
        let unix = i64::try_from(self.unix(self.now)).unwrap_or(i64::MAX);
        self.tables.goes_away(id, input, unix) && self.release_kept(server_id)
    }

    /// Makes a client without a server one of another database's clients, if a rule wants that for the batch in front.
    #[inline]
    pub(super) fn leave_home(&mut self, id: ClientId) -> Gate {
        if !self.has_rules {
            return Gate::Open;
        }
        self.leave_home_by_rule(id)
    }

    #[cold]
    fn leave_home_by_rule(&mut self, id: ClientId) -> Gate {
        let Some(client) = self.tables.clients.must_get(id) else {
            return Gate::Open;
        };
        let wishes = client.session.wishes_before_lease();
        let Some(Wish {
            rule,
            value: RouteTo::Database(database),
        }) = wishes.and_then(|wishes| wishes.route.clone())
        else {
            return Gate::Open;
        };
        // What keeps a session's state on one server, or at one database, stays at home.
        let stays = client.session.pin().is_some() || client.subscriber.is_some();
        if stays || client.away.is_some() || *client.identity.database == *database {
            return Gate::Open;
        }
        let user = Arc::clone(&client.identity.user);
        let home = client.group;
        let settings = self.global.settled().settings.pool(&database, &user);
        let Some(pool) = settings.and_then(|settings| self.global.pool(settings).ok()) else {
            self.refuse_to_leave(id, &rule, &database);
            return Gate::Refused;
        };
        if let Some(home) = self.tables.groups.must_get(home) {
            let pass_through = lock(&home.global.pass_through).clone();
            let learnt = lock(&home.global.learnt).clone();
            pool.group.take_proofs(pass_through, learnt);
        }
        let (group, lane) = self.lane_of(&pool);
        if let Some(home) = self.tables.groups.must_get_mut(home) {
            home.away += 1;
        }
        let (Some(client), Some(target)) = (
            self.tables.clients.must_get_mut(id),
            self.tables.groups.must_get_mut(group),
        ) else {
            return Gate::Open;
        };
        client.away = Some(Box::new(Home {
            group: std::mem::replace(&mut client.group, group),
            lane: std::mem::replace(&mut client.lane, lane),
            route: client.route.take(),
        }));
        target.clients += 1;
        // What was decided at home is taken by whoever has rules.
        let number = self.global.next_id();
        let rules = target
            .query_rules
            .get_or_insert_with(|| Box::new(GroupRules::empty(number)));
        client.fit_rules(rules);
        self.tables.count_clients(self.now, group);
        self.arm_sizing(lane);
        Gate::Open
    }

    /// Tells a client that the database of a rule is not there, and drops its batch.
    fn refuse_to_leave(&mut self, id: ClientId, rule: &Arc<str>, database: &str) {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        client.session.refuse_decided();
        let fault = Fault::Rejected(Arc::new(Rejection {
            rule: Arc::clone(rule),
            message: format!("rule {rule} routes to database {database}, which has no pool here"),
            code: *b"3D000",
            hint: "Ask whoever has made the rule: `SHOW RULES`.".to_owned(),
        }));
        let mut message = Vec::new();
        fault.encode(&mut message);
        self.send_to_client(id, &message);
        self.count_error(Blame::Pooler, Some(fault.code()));
    }

    /// Makes a client without a server a client of its own database again.
    #[inline]
    pub(super) fn come_home(&mut self, id: ClientId) {
        let client = self.tables.clients.get_mut(id);
        if let Some(home) = client.and_then(|client| client.away.take()) {
            self.arrive_home(id, *home);
        }
    }

    #[cold]
    fn arrive_home(&mut self, id: ClientId, home: Home) {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        let away = std::mem::replace(&mut client.group, home.group);
        (client.lane, client.route) = (home.lane, home.route);
        client.session.forget_decision();
        if let Some(group) = self.tables.groups.must_get_mut(home.group) {
            group.away -= 1;
        }
        self.tables.count_leaver(away);
        self.tables.count_clients(self.now, away);
        let is_removed = |group: &Group| group.is_removed;
        if self
            .tables
            .groups
            .must_get(home.group)
            .is_some_and(is_removed)
        {
            self.close_if_idle(id);
        }
    }
}
