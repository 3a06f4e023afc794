//! Servers that other lanes may give: a waiter needs no login of its own while another lane has an idle server, or a login in
//! progress whose waiter was served meanwhile.
//!
//! Each lane publishes its balance, the number of its logins in progress less that of its waiters, and the number of its
//! waiters that rely on other lanes. A lane with a waiter opens nothing while more servers come to the other lanes, from
//! logins or from other lanes, than their waiters and those who rely on others need. Such a server goes to the waiter by
//! `Shared::deliver_to_oldest`. If a lane has fewer to spare for another reason (a login failed, or a waiter came there), the
//! lanes that marked themselves in `Shared::defer` look again.

use crate::action::Action;
use crate::line::Line;
use crate::moment::Moment;
use crate::shard::ASK_PATIENCE;
use crate::shard::Shard;
use crate::shard::TRANSFERS_PER_LOGIN;
use crate::shard::TRANSFERS_PERIOD;
use crate::shared::surplus;

/// Idle servers that this lane has asked other lanes for, so that it opens its own where that is cheaper.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asked {
    count: u32,
    since: Moment,
}

impl Shard {
    /// Number of waiters that no login in progress and no server in transfer is meant for.
    pub(super) fn unmet(&self) -> usize {
        self.unmet_here().saturating_sub(self.relying)
    }

    /// Moment until which an answer to `Action::Ask` is waited for, if there is one to come.
    pub(super) fn answer_due(&self) -> Option<Moment> {
        self.asking.then(|| self.asked_at.plus(ASK_PATIENCE))
    }

    /// Asks this lane for an idle server.
    pub(super) fn begin_asking(&mut self, lane: usize) {
        self.asking = true;
        self.asked_at = self.last;
        self.actions.push_back(Action::Ask { lane });
    }

    /// Number of waiters that rely on other lanes. Those that were served meanwhile do not.
    pub(super) fn relying(&self) -> usize {
        self.relying.min(self.unmet_here())
    }

    /// As `unmet`, without regard to logins of other lanes.
    fn unmet_here(&self) -> usize {
        let waiting = self.queue.len();
        if waiting == 0 {
            return 0;
        }
        let coming = self.tokens + self.connecting + self.shared.deliveries(self.lane);
        let is_answer_near = self.answer_due().is_some_and(|due| self.last < due);
        waiting.saturating_sub(coming + usize::from(is_answer_near))
    }

    /// Number of logins in progress less the number of waiters.
    pub(super) fn balance(&self) -> isize {
        let logins = self.tokens + self.connecting;
        // Both are numbers of things in memory.
        logins.cast_signed() - self.queue.len().cast_signed()
    }

    /// True if other lanes may rely on fewer servers than by the state of this lane that they know.
    pub(super) fn has_less_to_spare(&self, line: &Line) -> bool {
        // Another lane may have sent a server since this one last published its state.
        let before = surplus(self.announced.balance, self.shared.deliveries(self.lane));
        line.balance < self.announced.balance && before > 0
    }

    /// Counts the waiters that servers which come to other lanes will serve.
    pub(super) fn rely_on_others(&mut self) {
        // Other lanes give nothing to a waiter that wants a fresh server.
        let is_alone = self.shared.lanes() == 1 || self.queue.choosy() > 0;
        self.relying = match is_alone {
            true => 0,
            false => (self.unmet_here()).min(self.shared.spare_elsewhere(self.lane)),
        };
    }

    /// Marks that this lane relies on others. If their servers have found other waiters meanwhile, it looks again.
    pub(super) fn await_others(&mut self) {
        if self.relying == 0 {
            return;
        }
        self.shared.defer();
        self.wake |= self.shared.spare_elsewhere(self.lane) < self.relying;
    }

    /// Asks the lane whose server has been idle longest, unless this lane has asked so often that a server of its own costs
    /// less.
    pub(super) fn ask_before_login(&mut self, now: Moment) {
        if !self.wants_ask() {
            return;
        }
        let Some((lane, _)) = self.shared.coldest_lane(self.lane) else {
            return;
        };
        if now >= self.asked.since.plus(TRANSFERS_PERIOD) {
            self.asked = Asked {
                count: 0,
                since: now,
            };
        }
        if self.asked.count < TRANSFERS_PER_LOGIN {
            self.asked.count += 1;
            self.begin_asking(lane);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::of_size;
    use super::super::tests::pool;
    use super::super::tests::serve;
    use super::*;
    use crate::Checkin;
    use crate::Checkout;
    use crate::ClientId;
    use crate::FailureKind;
    use crate::Serial;
    use crate::ServerId;
    use crate::Want;

    fn queue(shard: &mut Shard, client: u64) {
        let answer = shard.checkout(Moment(9), ClientId(client), Want::Any);
        assert!(matches!(answer, Checkout::Queued(_)), "{answer:?}");
    }

    /// Actions other than wakeups, by name.
    fn actions(shard: &mut Shard) -> Vec<Action> {
        let all = std::iter::from_fn(|| shard.poll(Moment(9)));
        all.filter(|action| !matches!(action, Action::WakeOthers))
            .collect()
    }

    fn begin_login(shard: &mut Shard, server: u64) {
        let Ok([Action::Connect(token)]) = <[Action; 1]>::try_from(actions(shard)) else {
            panic!("not one login")
        };
        shard.connect_started(token, ServerId(server), Serial(0));
    }

    #[test]
    fn a_server_that_has_just_become_idle_elsewhere_is_asked_for_before_one_is_opened() {
        let mut pool = pool(2, of_size(9));
        serve(&mut pool.shards[0], Moment(1), 1, 1);
        assert_eq!(
            pool.shards[0].checkin(Moment(9), ServerId(1)),
            Checkin::Idle
        );
        queue(&mut pool.shards[1], 2);
        let asked = actions(&mut pool.shards[1]);
        assert!(matches!(asked[..], [Action::Ask { lane: 0 }]), "{asked:?}");
        // Somebody was faster: now a server of its own is needed.
        pool.shards[1].ask_answered(Moment(9), false);
        begin_login(&mut pool.shards[1], 2);
    }

    #[test]
    fn a_lane_whose_question_is_not_answered_soon_opens_a_server() {
        let mut pool = pool(2, of_size(9));
        serve(&mut pool.shards[0], Moment(1), 1, 1);
        let answer = pool.shards[0].checkin(Moment(9), ServerId(1));
        assert_eq!(answer, Checkin::Idle);
        let two = &mut pool.shards[1];
        queue(two, 2);
        assert!(matches!(actions(two)[..], [Action::Ask { lane: 0 }]));
        let due = Moment(9).plus(ASK_PATIENCE);
        assert_eq!(two.next_tick(), Some(due));
        two.tick(due);
        begin_login(two, 2);
    }

    #[test]
    fn a_lane_that_asks_all_the_time_opens_a_server_of_its_own() {
        let mut pool = pool(2, of_size(9));
        let [one, two] = &mut pool.shards[..] else {
            panic!("two lanes")
        };
        serve(one, Moment(1), 1, 1);
        assert_eq!(one.checkin(Moment(9), ServerId(1)), Checkin::Idle);
        for round in 0..TRANSFERS_PER_LOGIN {
            queue(two, 2);
            let asked = actions(two);
            assert!(matches!(asked[..], [Action::Ask { lane: 0 }]), "{round}");
            assert_eq!(one.asked(Moment(9), 1), Some(ServerId(1)));
            let transfer = one.detach(ServerId(1)).unwrap();
            let answer = two.adopt(Moment(9), ServerId(1), transfer);
            assert_eq!(answer, Checkin::Assigned(ClientId(2)));
            two.ask_answered(Moment(9), true);
            // A client of the first lane takes the server back.
            assert_eq!(two.checkin(Moment(9), ServerId(1)), Checkin::Idle);
            assert_eq!(two.asked(Moment(9), 0), None);
            queue(one, 1);
            assert_eq!(two.asked(Moment(9), 0), Some(ServerId(1)));
            let transfer = two.detach(ServerId(1)).unwrap();
            let _ = one.adopt(Moment(9), ServerId(1), transfer);
            drop(actions(one));
            one.ask_answered(Moment(9), true);
            assert_eq!(one.checkin(Moment(9), ServerId(1)), Checkin::Idle);
        }
        queue(two, 2);
        begin_login(two, 2);
    }

    #[test]
    fn a_login_whose_waiter_was_served_meanwhile_serves_the_next_one_of_any_lane() {
        let mut pool = pool(2, of_size(9));
        let [one, two] = &mut pool.shards[..] else {
            panic!("two lanes")
        };
        serve(one, Moment(1), 1, 1);
        queue(one, 2);
        begin_login(one, 2);
        // The first server comes back before the login is over.
        assert_eq!(
            one.checkin(Moment(9), ServerId(1)),
            Checkin::Assigned(ClientId(2))
        );
        queue(two, 3);
        assert!(actions(two).is_empty(), "a login in progress is enough");
        queue(two, 4);
        begin_login(two, 3);
        // The login is over, and its server goes to the other lane.
        let answer = one.connected(Moment(9), ServerId(2));
        assert_eq!(answer, Checkin::HandOver { lane: 1 });
    }

    #[test]
    fn if_the_login_of_another_lane_fails_the_waiter_gets_its_own() {
        let mut pool = pool(2, of_size(9));
        let [one, two] = &mut pool.shards[..] else {
            panic!("two lanes")
        };
        serve(one, Moment(1), 1, 1);
        queue(one, 2);
        begin_login(one, 2);
        let _ = one.checkin(Moment(9), ServerId(1));
        queue(two, 3);
        assert!(actions(two).is_empty());
        one.connect_failed(Moment(9), ServerId(2), FailureKind::Local);
        let woken = std::iter::from_fn(|| one.poll(Moment(9)))
            .any(|action| matches!(action, Action::WakeOthers));
        assert!(woken);
        two.retry(Moment(9));
        begin_login(two, 3);
    }
}
