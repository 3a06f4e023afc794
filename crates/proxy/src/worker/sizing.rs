//! Pools that find their own size: the counts of this worker, and its turn at the controller.

use std::sync::Arc;
use std::time::Duration;

use slotmap::SecondaryMap;
use slotmap::secondary::Entry;
use weir_advisor::controller::Totals;
use weir_pool::{Moment, Usage};
use weir_wire::sqlstate::SqlState;

use super::Worker;
use super::ids::LaneId;
use super::slots::{Lane, Stage};
use super::tables::Tables;
use super::timers::Timer;
use crate::driver::Driver;
use crate::sizing::{Sizing, TICK, few};

/// Counts of this worker's part of a pool that finds its own size.
#[derive(Debug)]
pub(super) struct Counted {
    pub(super) sizing: Arc<Sizing>,
    totals: Totals,
    /// Usage that the shard has reported so far.
    usage: Usage,
}

impl Counted {
    fn new(sizing: Arc<Sizing>, worker: usize) -> Self {
        Self {
            totals: sizing.totals_of(worker),
            sizing,
            usage: Usage::default(),
        }
    }

    /// Records the time for which a finished transaction had its server.
    #[inline]
    pub(super) fn record(&mut self, class: u8, hold: Duration) {
        if hold <= self.sizing.pin_after() {
            self.totals.record(usize::from(class), hold);
        }
    }

    fn add_usage(&mut self, usage: Usage) {
        let seconds = |now: u64, before: u64| now.saturating_sub(before) as f64 / 1e6;
        self.totals.in_use_s += seconds(usage.in_use_us, self.usage.in_use_us);
        self.totals.waiting_s += seconds(usage.waiting_us, self.usage.waiting_us);
        self.usage = usage;
    }
}

/// Activity of a pool's servers at this moment.
#[derive(Debug, Clone, Copy, Default)]
struct Look {
    idle_in_transaction: u32,
    pinned: u32,
}

impl Lane {
    /// Starts or stops counting, as the settings say.
    pub(super) fn settle_sizing(&mut self, worker: usize) {
        let sizing = self.global.sizing();
        self.counted = match (self.counted.take(), sizing) {
            (Some(counted), Some(_)) => Some(counted),
            (None, Some(sizing)) => Some(Box::new(Counted::new(sizing, worker))),
            (_, None) => None,
        };
    }

    /// Counts an error by which the host refuses a request.
    pub(super) fn count_refusal(&mut self, code: Option<SqlState>) {
        let Some(counted) = &mut self.counted else {
            return;
        };
        let errors = &mut counted.totals.errors;
        match code.as_ref().map(SqlState::as_str) {
            Some("40P01") => errors.deadlocks += 1,
            Some("53200") => errors.out_of_memory += 1,
            Some("53300") => errors.too_many_connections += 1,
            Some("57P03") => errors.cannot_connect += 1,
            _ => {}
        }
    }

    /// Counts a failure to connect to the host.
    pub(super) fn count_unreachable(&mut self) {
        if let Some(counted) = &mut self.counted {
            counted.totals.errors.cannot_connect += 1;
        }
    }

    /// Counts a client that has waited too long.
    pub(super) fn count_queue_timeout(&mut self) {
        if let Some(counted) = &mut self.counted {
            counted.totals.queue_timeouts += 1;
        }
    }
}

impl<D: Driver> Worker<D> {
    /// Arms the timer for pools that find their own size, if this pool is one.
    pub(super) fn arm_sizing(&mut self, lane_id: LaneId) {
        let lane = self.tables.lanes.must_get(lane_id);
        if !self.is_sizing && lane.is_some_and(|lane| lane.counted.is_some()) {
            self.is_sizing = true;
            self.timers.arm(self.now.plus(TICK), Timer::Sizing);
        }
    }

    pub(super) fn sizing_timer(&mut self) {
        self.is_sizing = false;
        let looks = self.tables.looks(self.now);
        let (now, worker) = (self.now, self.number);
        let (mut is_needed, mut wakes) = (false, false);
        for (id, lane) in &mut self.tables.lanes {
            let Some(counted) = &mut lane.counted else {
                continue;
            };
            counted.add_usage(lane.shard.usage(now));
            let look = looks.get(id).copied().unwrap_or_default();
            let waiting = few(lane.shard.waiting());
            counted.sizing.publish(worker, |figures| {
                figures.totals.clone_from(&counted.totals);
                figures.waiting = waiting;
                figures.idle_in_transaction = look.idle_in_transaction;
                figures.pinned = look.pinned;
            });
            let name = (
                &*lane.global.group.key.database,
                &*lane.global.group.key.user,
            );
            wakes |= counted.sizing.tick(now, name, &lane.global.shared);
            let group = self.tables.groups.must_get(lane.group);
            let has_clients = group.is_some_and(|group| group.clients > 0);
            is_needed |= has_clients || lane.shard.assigned() > 0;
        }
        if wakes {
            self.global.wake_all();
        }
        let counted = self
            .tables
            .lanes
            .iter()
            .filter(|(_, lane)| lane.counted.is_some());
        let counted: Vec<_> = counted.map(|(id, _)| id).collect();
        for id in counted {
            // Servers may have become surplus.
            self.arm_lane(id);
        }
        if is_needed {
            self.is_sizing = true;
            self.timers.arm(now.plus(TICK), Timer::Sizing);
        }
    }
}

impl Tables {
    /// Looks at the servers of all pools, in one pass.
    fn looks(&self, now: Moment) -> SecondaryMap<LaneId, Look> {
        let mut looks: SecondaryMap<_, Look> = SecondaryMap::new();
        for (_, server) in &self.servers {
            let client = server
                .lease
                .and_then(|client| self.clients.must_get(client));
            let (Some(client), Stage::Leased) = (client, &server.stage) else {
                continue;
            };
            let counted = self.lanes.must_get(server.lane);
            let counted = counted.and_then(|lane| lane.counted.as_ref());
            let look = looks.entry(server.lane).map(Entry::or_default);
            let (Some(look), Some(counted)) = (look, counted) else {
                continue;
            };
            look.idle_in_transaction += u32::from(!server.session.is_busy());
            let since: Moment = client.transaction_at;
            let is_long = now.since(since) > counted.sizing.pin_after();
            look.pinned += u32::from(is_long || client.session.pin().is_some());
        }
        looks
    }
}
