//! Questions for tests: a database with a primary (host 1) and two replicas (hosts 2 and 3), to be changed at will.

use std::time::Duration;

use weir_pool::HostId;
use weir_pool::Moment;
use weir_sql::Access;
use weir_sql::Cause;
use weir_sql::Isolation;
use weir_sql::Modes;
use weir_watch::Generation;
use weir_watch::HostView;
use weir_watch::Lsn;
use weir_watch::Positions;
use weir_watch::Role;
use weir_watch::Snapshot;
use weir_watch::State;
use weir_watch::Writes;

use crate::ask::Ask;
use crate::ask::Load;
use crate::ask::RouteState;
use crate::explain::Explanation;
use crate::ready::Ready;
use crate::router::Router;
use crate::rules::Rules;
use crate::verdict::Verdict;

/// Host of the primary in [`Question::new`].
pub(crate) const PRIMARY: HostId = HostId(1);

/// Number of milliseconds after the start, as a moment.
pub(crate) fn at(millis: u64) -> Moment {
    Moment(millis * 1_000)
}

pub(crate) fn host(number: u32, role: Role) -> HostView {
    let fresh_to = match role {
        Role::Primary => Moment::NEVER,
        Role::Replica | Role::Unknown => at(9_900),
    };
    HostView {
        host: HostId(number),
        name: format!("h{number}:5432").into(),
        az: "".into(),
        role,
        state: State::Up,
        since: Moment(0),
        generation: Generation(1),
        timeline: 1,
        fresh_to,
        fresh_to_async: fresh_to,
        replayed: Some(Lsn(990)).filter(|_| role == Role::Replica),
        lag_bytes: Some(0),
        lag: Some(Duration::from_millis(100)),
        takes_reads: true,
        weight: 100,
        probe_time: None,
        last_error: None,
    }
}

/// Question with all that it depends on.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) rules: Rules,
    pub(crate) access: Access,
    pub(crate) session: RouteState,
    pub(crate) hosts: Snapshot,
    pub(crate) last_write_of_all: Moment,
    pub(crate) last_async_write_of_all: Moment,
    pub(crate) since: Moment,
    pub(crate) now: Moment,
    pub(crate) may_guard: bool,
    pub(crate) dice: u64,
    /// Loads by the number of the host; missing ones are zero.
    pub(crate) loads: Vec<Load>,
}

impl Question {
    /// Asks for a plain read at second 10. Replicas show all commits until 9.9 s.
    pub(crate) fn new(rules: Rules) -> Self {
        Self {
            rules,
            access: READ,
            session: RouteState::default(),
            hosts: Snapshot {
                number: 1,
                writes: Writes::To(PRIMARY),
                writes_since: Moment(0),
                positions: Positions::on_timeline(1),
                hosts: vec![
                    host(1, Role::Primary),
                    host(2, Role::Replica),
                    host(3, Role::Replica),
                ],
            },
            last_write_of_all: Moment(0),
            last_async_write_of_all: Moment(0),
            since: at(10_000),
            now: at(10_000),
            may_guard: true,
            dice: 1,
            loads: Vec::new(),
        }
    }

    pub(crate) fn with<R>(
        &self,
        run: impl FnOnce(&Router, &Ask<'_>, &dyn Fn(HostId) -> Load) -> R,
    ) -> R {
        self.with_ready(&Ready::of(&self.hosts), run)
    }

    pub(crate) fn with_ready<R>(
        &self,
        ready: &Ready,
        run: impl FnOnce(&Router, &Ask<'_>, &dyn Fn(HostId) -> Load) -> R,
    ) -> R {
        let ask = Ask {
            access: &self.access,
            session: &self.session,
            hosts: &self.hosts,
            ready,
            last_write_of_all: self.last_write_of_all,
            last_async_write_of_all: self.last_async_write_of_all,
            since: self.since,
            now: self.now,
            may_guard: self.may_guard,
            dice: self.dice,
        };
        let load = |host: HostId| {
            let index = usize::try_from(host.0).unwrap_or(usize::MAX);
            self.loads.get(index).copied().unwrap_or_default()
        };
        run(&Router::new(self.rules.clone()), &ask, &load)
    }

    pub(crate) fn verdict(&self) -> Verdict {
        self.with(|router, ask, load| router.ask(ask, load))
    }

    pub(crate) fn explanation(&self) -> Explanation {
        self.with(|router, ask, load| router.explain(ask, load))
    }

    /// Returns the host of a verdict to go.
    pub(crate) fn host(&self) -> Option<HostId> {
        match self.verdict() {
            Verdict::Go { host, .. } => Some(host),
            Verdict::Hold { .. } | Verdict::Refuse(_) => None,
        }
    }

    /// Returns true if the verdict is to go to a replica.
    pub(crate) fn is_on_replica(&self) -> bool {
        self.host().is_some_and(|host| host != PRIMARY)
    }

    /// Changes every replica.
    pub(crate) fn each_replica(&mut self, change: impl Fn(&mut HostView)) {
        let is_replica = |host: &&mut HostView| host.role == Role::Replica;
        self.hosts
            .hosts
            .iter_mut()
            .filter(is_replica)
            .for_each(change);
    }
}

pub(crate) const READ: Access = Access::Read {
    reads_catalogue: false,
};
pub(crate) const READ_CATALOGUE: Access = Access::Read {
    reads_catalogue: true,
};
pub(crate) const WRITE: Access = Access::Primary(Cause::Locks);
pub(crate) const BEGIN: Access = begin(None, false);
pub(crate) const BEGIN_READ_ONLY: Access = begin(Some(true), false);
pub(crate) const BEGIN_READ_WRITE: Access = begin(Some(false), false);
pub(crate) const BEGIN_SERIALIZABLE: Access = begin(Some(true), true);
pub(crate) const BEGIN_REPEATABLE: Access = Access::Begin(Modes {
    read_only: None,
    isolation: Some(Isolation::RepeatableRead),
});

const fn begin(read_only: Option<bool>, is_serializable: bool) -> Access {
    Access::Begin(Modes {
        read_only,
        isolation: if is_serializable {
            Some(Isolation::Serializable)
        } else {
            None
        },
    })
}
