//! Timeouts, minimum size, and the administrator's commands.

use std::sync::Arc;
use std::time::Duration;

use crate::action::Action;
use crate::action::CloseReason;
use crate::action::WaitError;
use crate::atomic::Ordering::SeqCst;
use crate::moment::Moment;
use crate::moment::ServerId;
use crate::policy::Policy;
use crate::shard::IDLE_SPREAD;
use crate::shard::MIN_SIZE_RETRY;
use crate::shard::SURPLUS_IDLE;
use crate::shard::SURPLUS_SPACING;
use crate::shard::Shard;
use crate::shared::HANDOVER_IDLE;
use crate::shared::Refusal;

impl Shard {
    /// Maintenance: timeouts of waiters, servers idle or alive too long, `min_pool_size`, the reserve.
    pub fn tick(&mut self, now: Moment) {
        self.see(now);
        self.fail_late_waiters(now);
        self.notify_waiters(now);
        self.close_surplus();
        self.close_expired(now);
        self.close_unused(now);
        self.serve_queue(now);
        self.fill(now);
    }

    /// Moment at which `tick` has something to do; None if only a command can change that. Ask again after each
    /// command.
    #[must_use]
    pub fn next_tick(&self) -> Option<Moment> {
        let mut next = self.next_expiry;
        // Asked twice a transaction, mostly with an empty queue.
        if !self.queue.is_empty() {
            let moments = [self.next_for_waiters(), self.next_to_grow()];
            next = moments.into_iter().flatten().fold(next, Moment::min);
        }
        if let Some((end, _)) = self.next_unused() {
            next = next.min(end);
        }
        if self.wants_fill() {
            next = next.min(self.min_at);
        }
        (next != Moment::NEVER).then_some(next)
    }

    /// Sets the number of connected clients of this pool on this lane. Call it whenever that changes.
    pub fn clients(&mut self, now: Moment, count: usize) {
        self.see(now);
        self.shared.clients.fetch_add(count, SeqCst);
        self.shared.clients.fetch_sub(self.clients, SeqCst);
        self.clients = count;
        self.fill(now);
    }

    /// Applies new settings after a reload. Call it on every shard of the pool.
    pub fn set_policy(&mut self, now: Moment, policy: Arc<Policy>) {
        self.see(now);
        self.shared.set_size(policy.size);
        self.hosts = self.shared.hosts();
        let is_other = policy.limits_assigned != self.policy.limits_assigned;
        self.policy = policy;
        if is_other {
            self.count_assigned();
        }
        // Servers that the limit kept idle beside waiters may stay only under the limit.
        self.close_paused();
        self.close_surplus();
        self.serve_queue(now);
        self.fill(now);
    }

    /// Makes all servers obsolete: RECONNECT, or a reload that changed the host or the user. Idle servers are closed
    /// now, the others on release, also those in transfer. Call it on every shard of the pool.
    pub fn recycle(&mut self, now: Moment) {
        self.see(now);
        self.shared.make_obsolete(now);
        let obsolete = self.idle_where(|entry| entry.started <= now);
        for server in obsolete {
            self.close_idle(server, CloseReason::Obsolete);
        }
    }

    /// Acts on a pause or its end. Call it on every shard of the pool.
    pub fn settle(&mut self, now: Moment) {
        self.see(now);
        self.close_paused();
        self.serve_queue(now);
        self.fill(now);
    }

    /// Closes idle servers and reclaims kept ones while the pool is paused.
    pub(super) fn close_paused(&mut self) {
        while self.shared.is_paused()
            && let Some((server, _)) = self.coldest_idle()
        {
            self.close_idle(server, CloseReason::Paused);
        }
        if self.shared.is_paused() {
            self.reclaim(usize::MAX);
        }
    }

    /// Closes this idle server, because another pool needs its place; false if it is not idle.
    pub fn evict(&mut self, now: Moment, server: ServerId) -> bool {
        self.see(now);
        self.close_idle(server, CloseReason::Evicted)
    }

    /// The server of this shard that has been idle longest, and since when: the next one to be evicted.
    #[must_use]
    pub fn coldest_idle(&self) -> Option<(ServerId, Moment)> {
        self.idle.front().copied()
    }

    fn fail_late_waiters(&mut self, now: Moment) {
        let Some(timeout) = self.policy.wait_timeout else {
            return;
        };
        while self
            .queue
            .head_since()
            .is_some_and(|since| now >= since.plus(timeout))
        {
            if let Some(client) = self.queue.pop() {
                self.actions.push_back(Action::Fail {
                    client,
                    error: WaitError::Timeout,
                });
            }
        }
    }

    fn notify_waiters(&mut self, now: Moment) {
        let Some(delay) = self.policy.wait_notify else {
            return;
        };
        while self
            .queue
            .unnotified_since()
            .is_some_and(|since| now >= since.plus(delay))
        {
            let Some(client) = self.queue.notify(now) else {
                return;
            };
            self.actions.push_back(Action::Notify { client });
        }
    }

    /// Closes idle servers above size plus reserve (after a reload). As in PgBouncer, a server of the reserve is
    /// otherwise an ordinary server once it exists, and ends by idle timeout or lifetime.
    fn close_surplus(&mut self) {
        while let Some((server, _)) = self.coldest_idle()
            && self.close_idle(server, CloseReason::TooMany)
        {}
    }

    fn close_expired(&mut self, now: Moment) {
        if now < self.next_expiry {
            return;
        }
        for server in self.idle_where(|entry| entry.expires <= now) {
            self.close_idle(server, CloseReason::Lifetime);
        }
        // Expired servers in use are closed on release and need no tick.
        let coming = self
            .servers
            .values()
            .map(|entry| entry.expires)
            .filter(|end| *end > now);
        self.next_expiry = coming.min().unwrap_or(Moment::NEVER);
    }

    fn close_unused(&mut self, now: Moment) {
        while let Some((_, reason)) = self.next_unused().filter(|(end, _)| now >= *end) {
            let Some((server, _)) = self.coldest_idle() else {
                return;
            };
            if !self.close_idle(server, reason) {
                return;
            }
            self.unused_after = now.plus(self.idle_spacing(reason));
        }
    }

    /// Spaces the closes of idle servers. The servers of one burst would otherwise all close at once, and their
    /// backends with them; now the last one closes a tenth of the timeout later.
    fn idle_spacing(&self, reason: CloseReason) -> Duration {
        if reason == CloseReason::Surplus {
            return SURPLUS_SPACING;
        }
        let timeout = self.policy.idle_timeout.unwrap_or_default();
        // A pool without a limit uses its current number of servers.
        let most = self.policy.size.max(self.servers.len()).max(1);
        timeout / IDLE_SPREAD / u32::try_from(most).unwrap_or(u32::MAX)
    }

    /// Moment at which the longest-idle server's time is over, and the reason. None if the minimum needs the server or
    /// `server_idle_timeout` is off.
    fn next_unused(&self) -> Option<(Moment, CloseReason)> {
        let timeout = self.policy.idle_timeout?;
        let (_, since) = self.coldest_idle()?;
        let is_surplus =
            self.policy.limits_assigned && timeout > SURPLUS_IDLE && self.shared.has_surplus();
        let (timeout, reason) = match is_surplus {
            true => (SURPLUS_IDLE, CloseReason::Surplus),
            false => (timeout, CloseReason::IdleTimeout),
        };
        let spare = self.policy.min == 0 || self.shared.staying() > self.policy.min;
        spare.then(|| (since.plus(timeout).max(self.unused_after), reason))
    }

    /// Opens servers up to `min_pool_size`; exact across lanes.
    fn fill(&mut self, now: Moment) {
        if now < self.min_at {
            return;
        }
        while self.wants_fill() {
            if !self.open(now, self.policy.min) {
                self.min_at = now.plus(MIN_SIZE_RETRY);
                return;
            }
        }
    }

    fn wants_fill(&self) -> bool {
        self.policy.min > 0
            && !self.shared.is_paused()
            && (self.policy.keep_min_without_clients || self.shared.clients.load(SeqCst) > 0)
            && self.shared.servers() < self.policy.min.min(self.policy.ceiling())
    }

    fn next_for_waiters(&self) -> Option<Moment> {
        let late = self.policy.wait_timeout.zip(self.queue.head_since());
        let told = self.policy.wait_notify.zip(self.queue.unnotified_since());
        let moments = [late, told].into_iter().flatten();
        moments.map(|(span, since)| since.plus(span)).min()
    }

    /// Moment at which waiters may be able to get a server that they cannot get now.
    fn next_to_grow(&self) -> Option<Moment> {
        if self.queue.is_empty() || self.shared.is_paused() {
            return None;
        }
        // Waiters for a seat or for their turn get a wakeup.
        let has_idle = self.next_for_waiters_here().is_some();
        if self.policy.limits_assigned && (has_idle || self.is_out_of_seats()) {
            return None;
        }
        let moment = Some(self.grow_at).filter(|moment| *moment != Moment::NEVER);
        let limit = match self.refusal {
            Some(Refusal::Database | Refusal::User) => true,
            Some(Refusal::Pool) => self.shared.is_annex(),
            None => false,
        };
        let evict = (limit && !self.asking).then_some(self.evict_at);
        let reserve = self
            .reserve_due()
            .filter(|due| *due > self.served_at && self.unmet() > 0);
        let surplus = || self.shared.coldest_lane(self.lane).map(|(_, since)| since);
        let ask = self
            .wants_ask()
            .then(surplus)
            .flatten()
            .map(|since| since.plus(HANDOVER_IDLE));
        let answer = self.answer_due().filter(|due| *due > self.served_at);
        [moment, evict, reserve, ask, answer]
            .into_iter()
            .flatten()
            .min()
    }

    fn idle_where(&self, wanted: impl Fn(&super::Entry) -> bool) -> Vec<ServerId> {
        let idle = self.idle.iter().map(|(server, _)| *server);
        idle.filter(|server| self.servers.get(server).is_some_and(&wanted))
            .collect()
    }
}
