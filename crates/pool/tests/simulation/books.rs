//! Invariants that hold after every step, and those that hold once nothing moves any more.

use weir_pool::FAIRNESS_GRACE;
use weir_pool::Moment;
use weir_pool::Ticket;
use weir_pool::Want;

use crate::world::CLIENTS;
use crate::world::Client;
use crate::world::Message;
use crate::world::Place;
use crate::world::World;

impl World {
    pub(crate) fn check(&self) {
        let mut total = 0;
        for (number, shared) in self.pools.iter().enumerate() {
            let shards = self.shards.iter().filter(|(place, _)| place.0 == number);
            let shards: Vec<_> = shards.map(|(_, shard)| shard).collect();
            shared.check(&shards).unwrap();
            total += shared.servers();
            let waiting: usize = shards.iter().map(|shard| shard.waiting()).sum();
            assert_eq!(
                waiting,
                self.waiters(number).len(),
                "who waits is in a queue"
            );
            for shard in &shards {
                let spare = shard.policy().min.max(1);
                let servers = shard.servers();
                assert!(
                    shard.connecting() <= servers && shard.connecting() <= CLIENTS as usize + spare
                );
            }
        }
        assert_eq!(self.database.used(), total);
        assert_eq!(self.user.used(), total);
        assert!(self.setup.database_max == 0 || total <= self.setup.database_max);
        assert!(self.setup.user_max == 0 || total <= self.setup.user_max);
        let cap = self.setup.logins_max;
        assert!(cap == 0 || self.gate.logins() <= cap);
    }

    /// Every client's server is counted, and never more than the limit or the number that was assigned when it fell.
    pub(crate) fn check_assigned(&mut self) {
        for (number, shared) in self.pools.iter().enumerate() {
            let (assigned, limit) = (shared.assigned(), shared.limit());
            if !self.setup.policy.limits_assigned {
                let coming = shared.in_transit();
                assert!(assigned <= coming, "only what is on its way is counted");
                continue;
            }
            let holders = self.servers.iter();
            let holders = holders.filter(|((at, _), by)| at.0 == number && by.is_some());
            assert!(holders.count() <= assigned, "a server without a seat");
            let here = self.shards.iter().filter(|(place, _)| place.0 == number);
            let here: usize = here.map(|(_, shard)| shard.assigned()).sum();
            assert!(here <= assigned && assigned <= here + shared.in_transit());
            let before = std::mem::replace(&mut self.assigned[number], assigned);
            assert!(
                limit == 0 || assigned <= limit.max(before),
                "{assigned} of {limit}"
            );
        }
    }

    /// No client waits while a server is idle or a place is free.
    pub(crate) fn check_nothing_unused(&self) {
        for (number, shared) in self.pools.iter().enumerate() {
            let mut waiting = self.waiters(number);
            // A used server may be idle beside those that want fresh ones, if logins for these are in progress.
            let choosy = |client: &u64| self.wants[client].1 != Want::Any;
            if waiting.iter().any(|(client, ..)| choosy(client)) {
                waiting.retain(|(client, ..)| !choosy(client));
            }
            if waiting.is_empty() {
                continue;
            }
            let kept = self.clients.iter().filter(|(client, state)| {
                matches!(state, Client::Keeping(_)) && self.home(**client).0 == number
            });
            // Logins in progress are meant for these waiters, whatever server comes first.
            let coming: usize = (self.shards.iter())
                .filter(|(place, _)| place.0 == number)
                .map(|(_, shard)| shard.connecting())
                .sum();
            if coming < waiting.len() {
                assert_eq!(kept.count(), 0, "{waiting:?} wait beside kept servers");
            }
            let is_bound = self.setup.policy.limits_assigned && shared.limit() != 0;
            if is_bound && shared.assigned() >= shared.limit() {
                continue;
            }
            let of_pool = || self.shards.iter().filter(|(place, _)| place.0 == number);
            let idle: usize = of_pool().map(|(_, shard)| shard.idle()).sum();
            assert_eq!(idle, 0, "{waiting:?} wait beside idle servers");
            let size = of_pool().next().unwrap().1.policy().size;
            let has_room = |used: usize, max: usize| max == 0 || used < max;
            let free = has_room(shared.servers(), size)
                && has_room(self.database.used(), self.setup.database_max)
                && has_room(self.user.used(), self.setup.user_max);
            assert!(!free, "{waiting:?} wait beside a free place");
        }
    }

    /// Once all lanes know of the pause, a paused pool has only servers that work for a client.
    pub(crate) fn check_paused(&self) {
        for (number, _) in self.pools.iter().enumerate().filter(|(_, p)| p.is_paused()) {
            let of_pool = self.servers.iter().filter(|((at, _), _)| at.0 == number);
            assert!(of_pool.clone().all(|(_, holder)| holder.is_some()));
            assert_eq!(of_pool.count(), self.pools[number].connected());
        }
    }

    /// No client has waited longer, except those whose server is already on its way to their lane.
    pub(crate) fn check_order(&self, place: Place, ticket: Ticket) {
        let waiting = self.waiters(place.0);
        for lane in 0..self.setup.lanes {
            let here = waiting.iter().filter(|(_, _, other)| *other == lane);
            if lane == place.1 {
                let is_plain = |client: &u64| self.wants[client].1 == Want::Any;
                let mut plain = here.clone().filter(|(client, ..)| is_plain(client));
                assert!(
                    plain.all(|(_, since, _)| *since >= ticket.since()),
                    "FIFO in a lane"
                );
            } else if self.setup.immediate && !self.is_loose {
                let older = here.filter(|(client, since, _)| {
                    let is_plain = self.wants[client].1 == Want::Any;
                    is_plain && since.plus(FAIRNESS_GRACE) < ticket.since()
                });
                let coming = self.mail.iter().filter(|message| match message {
                    Message::Move { to, .. }
                    | Message::Answer {
                        to,
                        transfer: Some(_),
                    } => *to == (place.0, lane),
                    _ => false,
                });
                assert!(
                    older.count() <= coming.count(),
                    "lane {lane} has waited longer"
                );
            }
        }
    }

    /// Clients of a pool that wait: number, since, lane.
    pub(crate) fn waiters(&self, pool: usize) -> Vec<(u64, Moment, usize)> {
        let waiting = self
            .clients
            .iter()
            .filter_map(|(client, state)| match state {
                Client::Waiting(ticket) => Some((*client, ticket.since(), self.home(*client))),
                _ => None,
            });
        waiting
            .filter(|(_, _, home)| home.0 == pool)
            .map(|(c, s, home)| (c, s, home.1))
            .collect()
    }
}
