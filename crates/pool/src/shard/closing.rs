//! Decides which servers are closed, and keeps two lanes from closing the same surplus.

use crate::action::Action;
use crate::action::CloseReason;
use crate::moment::Moment;
use crate::moment::ServerId;
use crate::shard::Entry;
use crate::shard::Shard;
use crate::shard::State;

impl Shard {
    /// Reason for which a server that is not in use must be closed; None if it may stay.
    pub(super) fn due(&self, now: Moment, entry: &Entry) -> Option<CloseReason> {
        if self.is_obsolete_entry(entry) {
            Some(CloseReason::Obsolete)
        } else if self.shared.is_paused() {
            Some(CloseReason::Paused)
        } else if now >= entry.expires {
            Some(CloseReason::Lifetime)
        } else if self.shared.staying() > self.floor(CloseReason::TooMany) {
            Some(CloseReason::TooMany)
        } else {
            None
        }
    }

    /// Marks a server as being closed. Returns false and changes nothing if the floor for this reason is reached, for
    /// example because another lane has just closed the surplus server.
    pub(super) fn begin_closing(&mut self, server: ServerId, reason: CloseReason) -> bool {
        let floor = self.floor(reason);
        let Some(entry) = self.servers.get_mut(&server) else {
            return false;
        };
        let goes = entry.permit.retire(floor);
        if goes {
            entry.state = State::Closing;
        }
        goes
    }

    /// Removes an idle server from the idle list and has it closed; false if it is not idle or may stay.
    pub(super) fn close_idle(&mut self, server: ServerId, reason: CloseReason) -> bool {
        let Some(place) = self.idle.iter().position(|(other, _)| *other == server) else {
            return false;
        };
        if !self.begin_closing(server, reason) {
            return false;
        }
        self.idle.remove(place);
        self.actions.push_back(Action::Close { server, reason });
        self.announce_idle();
        true
    }

    /// Number of servers of the pool that must stay when servers are closed for this reason.
    fn floor(&self, reason: CloseReason) -> usize {
        match reason {
            CloseReason::TooMany => self.policy.ceiling(),
            CloseReason::Surplus => self.policy.min.max(self.shared.enough()),
            CloseReason::IdleTimeout => self.policy.min,
            CloseReason::Evicted
            | CloseReason::Lifetime
            | CloseReason::NewSession
            | CloseReason::Obsolete
            | CloseReason::Paused => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::SeqCst;

    use super::super::tests::of_size;
    use super::super::tests::pool;
    use super::super::tests::serve;
    use super::*;
    use crate::Checkin;
    use crate::Policy;

    /// Runs `act` on all shards at the same moment, one thread each; returns the sum of the results.
    fn in_both(shards: &mut [Shard], act: impl Fn(&mut Shard) -> usize + Sync) -> usize {
        // Not a barrier, which would wake one thread long before the other.
        let (missing, act) = (&AtomicUsize::new(shards.len()), &act);
        std::thread::scope(|scope| {
            let one = |shard| {
                scope.spawn(move || {
                    missing.fetch_sub(1, SeqCst);
                    while missing.load(SeqCst) > 0 {
                        std::thread::yield_now();
                    }
                    act(shard)
                })
            };
            let workers: Vec<_> = shards.iter_mut().map(one).collect();
            let results = workers.into_iter().map(|worker| worker.join().unwrap());
            results.sum()
        })
    }

    /// Two lanes of `policy` with two servers each, in use.
    fn two_lanes(policy: &Policy) -> Vec<Shard> {
        let mut shards = pool(2, policy.clone()).shards;
        for (shard, first) in shards.iter_mut().zip([1, 3]) {
            serve(shard, Moment(1), first, first);
            serve(shard, Moment(1), first + 1, first + 1);
        }
        shards
    }

    fn own(shard: &Shard) -> [ServerId; 2] {
        let mut servers: Vec<_> = shard.servers.keys().copied().collect();
        servers.sort_unstable();
        [servers[0], servers[1]]
    }

    #[test]
    fn of_two_lanes_that_see_one_server_too_many_the_first_closes_it() {
        let mut shards = two_lanes(&of_size(4));
        let smaller = Arc::new(of_size(3));
        let at = Moment(2);
        for shard in &mut shards {
            shard.set_policy(at, Arc::clone(&smaller));
        }
        let seen = |shard: &Shard| shard.due(at, &shard.servers[&own(shard)[0]]);
        let both = shards.iter().map(seen).collect::<Vec<_>>();
        assert_eq!(both, [Some(CloseReason::TooMany); 2]);
        let close = |shard: &mut Shard| {
            let server = own(shard)[0];
            shard.begin_closing(server, CloseReason::TooMany)
        };
        let closed = shards.iter_mut().map(close).collect::<Vec<_>>();
        assert_eq!(closed, [true, false]);
    }

    /// Seen with a reload: three servers came back to two workers at the same moment, and two were closed although the
    /// smaller pool had room for two.
    #[test]
    fn workers_that_get_servers_back_at_once_close_just_the_surplus() {
        let smaller = Arc::new(of_size(3));
        for _ in 0..600 {
            let mut shards = two_lanes(&of_size(4));
            for shard in &mut shards {
                shard.set_policy(Moment(2), Arc::clone(&smaller));
            }
            let closed = in_both(&mut shards, |shard| {
                for server in own(shard) {
                    let _ = shard.checkin(Moment(3), server);
                }
                shard.counts(Moment(3)).closing
            });
            assert_eq!(closed, 1);
            shards[0].shared.check(&[&shards[0], &shards[1]]).unwrap();
        }
    }

    #[test]
    fn workers_that_close_idle_servers_at_once_leave_the_minimum_and_what_is_enough() {
        let (after_surplus, after_idle) = (Moment(6_000_000), Moment(700_000_000));
        for (min, enough, late) in [(0, 3, after_surplus), (3, 0, after_idle)] {
            let policy = Policy {
                min,
                limits_assigned: enough > 0,
                ..of_size(4)
            };
            for _ in 0..300 {
                let mut shards = two_lanes(&policy);
                shards[0].shared.set_enough(enough);
                for shard in &mut shards {
                    for server in own(shard) {
                        assert_eq!(shard.checkin(Moment(2), server), Checkin::Idle);
                    }
                }
                let closed = in_both(&mut shards, |shard| {
                    shard.tick(late);
                    shard.counts(late).closing
                });
                assert_eq!(closed, 1);
            }
        }
    }
}
