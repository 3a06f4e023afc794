//! Clients that want a fresh server ([`Want::Fresh`]): who meets what, and room for a new login.
//!
//! Such a client waits in the queue with the others. It gets the first server that meets its requirement; others may be
//! assigned to waiters behind it meanwhile. If the limits have no room for a new server, an idle server, or the next one
//! that is free when it is the client's turn, is closed in its place: one for each such client, never more.
//!
//! Other lanes send their servers to such a client only for that purpose: a server that nobody can use would otherwise
//! go from lane to lane without end.

use crate::action::CloseReason;
use crate::line::Line;
use crate::moment::ClientId;
use crate::moment::Moment;
use crate::moment::ServerId;
use crate::shard::Shard;
use crate::shard::State;
use crate::want::Want;

impl Shard {
    /// True if this server meets the requirement of this client. False if the server is not here.
    #[must_use]
    pub fn meets(&self, server: ServerId, client: ClientId, want: Want) -> bool {
        let entry = self.servers.get(&server);
        entry.is_some_and(|entry| want.is_met(client, entry.users, entry.serial))
    }

    /// Moment since which the first waiter waits whose requirement this server meets.
    pub(super) fn first_met_by(&self, server: ServerId) -> Option<Moment> {
        match self.queue.choosy() {
            0 => self.queue.head_since(),
            _ => (self.queue).first_where(|client, want| self.meets(server, client, want)),
        }
    }

    /// Assigns a server to the first waiter whose requirement it meets. The waiter leaves the queue.
    pub(super) fn pop_for(&mut self, server: ServerId, state: State) -> Option<ClientId> {
        let entry = self.servers.get_mut(&server)?;
        let (users, serial) = (entry.users, entry.serial);
        let client = (self.queue).pop_where(|client, want| want.is_met(client, users, serial))?;
        entry.users = users.and(client);
        entry.state = state;
        Some(client)
    }

    /// The idle server that is used next by a waiter of this lane.
    pub(super) fn next_for_waiters_here(&self) -> Option<ServerId> {
        if self.queue.choosy() == 0 {
            return self.next_idle().map(|(server, _)| server);
        }
        let is_usable = |server: &ServerId| self.first_met_by(*server).is_some();
        self.idle_by_turn().find(is_usable)
    }

    /// The idle server that is used next by a client with this requirement.
    pub(super) fn idle_for(&self, client: ClientId, want: Want) -> Option<ServerId> {
        match want {
            Want::Any => self.next_idle().map(|(server, _)| server),
            Want::Fresh(_) => {
                (self.idle_by_turn()).find(|server| self.meets(*server, client, want))
            }
        }
    }

    /// Idle servers in the order in which they are used.
    fn idle_by_turn(&self) -> impl Iterator<Item = ServerId> {
        let (first, last) = match self.policy.round_robin {
            true => (Some(self.idle.iter()), None),
            false => (None, Some(self.idle.iter().rev())),
        };
        let (first, last) = (first.into_iter().flatten(), last.into_iter().flatten());
        first.chain(last).map(|(server, _)| *server)
    }

    /// Number of waiters that want a fresh server and for whom neither a login is in progress nor a place becomes free.
    fn rooms_missing(&self) -> usize {
        let choosy = self.queue.choosy();
        if choosy == 0 {
            return 0;
        }
        let states = self.servers.values().map(|entry| &entry.state);
        let closing = states.filter(|state| matches!(state, State::Closing));
        choosy.saturating_sub(self.tokens + self.connecting + closing.count())
    }

    /// Number of waiters that want a fresh server and for whom a used one has to be closed.
    fn rooms_wanted(&self) -> usize {
        match self.rooms_missing() {
            0 => 0,
            missing if self.is_full(self.last) => missing,
            _ => 0,
        }
    }

    /// Number of waiters that servers of other lanes can help.
    pub(super) fn attracting(&self) -> usize {
        self.queue.len() - self.queue.choosy() + self.rooms_wanted()
    }

    /// State of the queue for the other lanes.
    pub(super) fn line(&self) -> Line {
        let mut line = self.queue.line(self.rooms_wanted());
        line.unmet = self.unmet();
        line.balance = self.balance();
        line.relying = self.relying();
        if line.unmet > 0 {
            line.unmet_since = self.first_unmet().unwrap_or(Moment::NEVER);
        }
        line
    }

    /// True if this free server is to be closed for the longest waiter, which wants a fresh one.
    pub(super) fn makes_room(&self, server: ServerId) -> bool {
        let head = self.queue.head().filter(|_| self.queue.choosy() > 0);
        let is_unmet = head.is_some_and(|(client, want)| !self.meets(server, client, want));
        is_unmet && self.rooms_wanted() > 0
    }

    /// Closes idle servers, which no waiter can use, for those that want fresh ones.
    pub(super) fn make_room(&mut self) {
        for _ in 0..self.rooms_wanted() {
            let coldest = self.idle.front().copied();
            let Some((server, _)) = coldest else {
                return;
            };
            if !self.close_idle(server, CloseReason::NewSession) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::of_size;
    use super::super::tests::pool;
    use super::super::tests::serve;
    use super::*;
    use crate::Action;
    use crate::Checkin;
    use crate::Checkout;
    use crate::FailureKind;
    use crate::want::Serial;

    const FRESH: Want = Want::Fresh(Serial(10));

    /// Begins the login that the shard asks for.
    fn connect(shard: &mut Shard, server: u64, serial: u64) {
        let mut action = shard.poll(Moment(9));
        if matches!(action, Some(Action::WakeOthers)) {
            action = shard.poll(Moment(9));
        }
        let Some(Action::Connect(token)) = action else {
            panic!("no connect: {action:?}")
        };
        shard.connect_started(token, ServerId(server), Serial(serial));
    }

    fn queue(shard: &mut Shard, client: u64, want: Want) {
        let answer = shard.checkout(Moment(9), ClientId(client), want);
        assert!(matches!(answer, Checkout::Queued(_)), "{answer:?}");
    }

    #[test]
    fn a_client_gets_its_own_server_again_and_no_other_ones() {
        let mut pool = pool(1, of_size(2));
        let shard = &mut pool.shards[0];
        serve(shard, Moment(1), 1, 1);
        serve(shard, Moment(1), 2, 2);
        assert_eq!(shard.checkin(Moment(2), ServerId(1)), Checkin::Idle);
        assert_eq!(shard.checkin(Moment(3), ServerId(2)), Checkin::Idle);
        let answer = shard.checkout(Moment(4), ClientId(1), FRESH);
        assert_eq!(answer, Checkout::Granted(ServerId(1)));
    }

    #[test]
    fn while_there_is_room_nothing_is_closed_and_others_use_the_idle_servers() {
        let mut pool = pool(1, of_size(2));
        let shard = &mut pool.shards[0];
        serve(shard, Moment(1), 1, 1);
        assert_eq!(shard.checkin(Moment(2), ServerId(1)), Checkin::Idle);
        queue(shard, 2, FRESH);
        let answer = shard.checkout(Moment(4), ClientId(3), Want::Any);
        assert_eq!(answer, Checkout::Granted(ServerId(1)));
        connect(shard, 2, 11);
        assert!(shard.poll(Moment(4)).is_none());
        let answer = shard.connected(Moment(5), ServerId(2));
        assert_eq!(answer, Checkin::Assigned(ClientId(2)));
    }

    #[test]
    fn while_no_login_can_begin_nothing_is_closed() {
        let mut pool = pool(1, of_size(2));
        let shard = &mut pool.shards[0];
        serve(shard, Moment(1), 1, 1);
        assert_eq!(shard.checkin(Moment(2), ServerId(1)), Checkin::Idle);
        queue(shard, 2, FRESH);
        let Some(Action::Connect(token)) = shard.poll(Moment(9)) else {
            panic!("no connect")
        };
        shard.connect_abandoned(Moment(9), token, FailureKind::Local);
        while let Some(action) = shard.poll(Moment(9)) {
            assert!(matches!(action, Action::WakeOthers), "{action:?}");
        }
        assert_eq!((shard.idle(), shard.waiting()), (1, 1));
    }

    #[test]
    fn without_room_the_longest_idle_server_makes_it() {
        let mut pool = pool(1, of_size(2));
        let shard = &mut pool.shards[0];
        serve(shard, Moment(1), 1, 1);
        serve(shard, Moment(1), 2, 2);
        assert_eq!(shard.checkin(Moment(2), ServerId(2)), Checkin::Idle);
        assert_eq!(shard.checkin(Moment(3), ServerId(1)), Checkin::Idle);
        queue(shard, 3, FRESH);
        let Some(Action::Close { server, reason }) = shard.poll(Moment(4)) else {
            panic!("nothing is closed")
        };
        assert_eq!((server, reason), (ServerId(2), CloseReason::NewSession));
        assert!(shard.poll(Moment(4)).is_none(), "one is enough");
        shard.closed(Moment(5), server);
        connect(shard, 3, 11);
        let answer = shard.connected(Moment(6), ServerId(3));
        assert_eq!(answer, Checkin::Assigned(ClientId(3)));
        assert_eq!(shard.idle(), 1);
    }

    #[test]
    fn when_it_is_its_turn_one_free_server_makes_room_and_the_next_ones_go_to_others() {
        let mut pool = pool(1, of_size(2));
        let shard = &mut pool.shards[0];
        serve(shard, Moment(1), 1, 1);
        serve(shard, Moment(1), 2, 2);
        queue(shard, 3, Want::Any);
        queue(shard, 4, FRESH);
        queue(shard, 5, Want::Any);
        queue(shard, 6, Want::Any);
        let now = Moment(10);
        assert_eq!(
            shard.checkin(now, ServerId(1)),
            Checkin::Assigned(ClientId(3))
        );
        let answer = shard.checkin(now, ServerId(1));
        assert_eq!(answer, Checkin::Close(CloseReason::NewSession));
        assert_eq!(
            shard.checkin(now, ServerId(2)),
            Checkin::Assigned(ClientId(5))
        );
        shard.closed(now, ServerId(1));
        connect(shard, 3, 11);
        assert_eq!(
            shard.checkin(now, ServerId(2)),
            Checkin::Assigned(ClientId(6))
        );
        let answer = shard.connected(now, ServerId(3));
        assert_eq!(answer, Checkin::Assigned(ClientId(4)));
    }

    #[test]
    fn a_login_that_began_before_the_client_came_does_not_serve_it() {
        let mut pool = pool(1, of_size(1));
        let shard = &mut pool.shards[0];
        queue(shard, 1, FRESH);
        connect(shard, 1, 9);
        let answer = shard.connected(Moment(9), ServerId(1));
        assert_eq!(answer, Checkin::Close(CloseReason::NewSession));
        shard.closed(Moment(9), ServerId(1));
        connect(shard, 2, 11);
        let answer = shard.connected(Moment(9), ServerId(2));
        assert_eq!(answer, Checkin::Assigned(ClientId(1)));
    }
}
