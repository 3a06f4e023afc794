//! Rails in action: they apply at every tick and override experiments.

use crate::controller::decide::ADVISE_RATIO;
use crate::controller::journal::Cause;
use crate::controller::observation::Observation;
use crate::controller::rails::Ceiling;
use crate::controller::settings::Mode;
use crate::controller::{Controller, Search};
use crate::rounding::servers;

/// Share of long transactions below which short ones need no room beside them.
const LONG_SHARE_MIN: f64 = 0.1;
/// Upper limit of that share. Queues for locks look like long transactions, too, and must not keep a pool large.
const LONG_SHARE_MAX: f64 = 0.8;

impl Controller {
    pub(super) fn obey_rails(&mut self, passed_s: f64, seen: &Observation, has_completed: bool) {
        let now_s = self.now_s;
        let errors = seen.totals.errors;
        if let Some(reason) = self
            .ceiling
            .note(now_s, passed_s, errors, self.limit, &self.pace)
        {
            self.cut(reason);
        }
        if self
            .valve
            .is_stalled(now_s, seen, has_completed, self.limit, &self.pace)
        {
            self.open_valve(seen);
        }
        let quiet_start_s = self.settings.quiet_start.as_secs_f64();
        if self
            .freeze
            .note(now_s, now_s, quiet_start_s, seen, &self.pace)
        {
            self.note_freeze();
        }
    }

    fn cut(&mut self, reason: &str) {
        let lower = servers(f64::from(self.size.min(self.limit)) * Ceiling::FACTOR)
            .min(self.size.saturating_sub(1))
            .max(self.settings.size_min);
        self.ceiling.cut(self.now_s, lower);
        self.counts.cuts += 1;
        self.search.is_ramping = false;
        self.hold(Search::HOLD_MAX_S);
        self.move_to(lower, Cause::Errors, reason.to_owned());
    }

    fn open_valve(&mut self, seen: &Observation) {
        let higher = (self.limit + (self.limit / 4).max(1)).min(self.settings.size_max);
        let is_first = self.valve.count_stall(self.now_s);
        self.counts.stalls += u64::from(is_first);
        if higher <= self.limit || self.settings.mode == Mode::Advise {
            if is_first {
                let reason = format!(
                    "stall: {} clients wait, none can go on, and the size must not grow",
                    seen.waiting
                );
                self.hold(Search::HOLD_MAX_S);
                self.note(self.size, Cause::Stall, reason);
            }
            return;
        }
        self.hold(Search::HOLD_MAX_S);
        let reason = format!(
            "stall: {} clients wait, and none of {} servers can go on before one of them gets a server",
            seen.waiting, seen.in_use
        );
        self.move_to(higher.max(self.size), Cause::Stall, reason);
        self.valve.opened(self.now_s, self.size);
    }

    fn note_freeze(&mut self) {
        match self.freeze.reason {
            Some(reason) => {
                self.counts.freezes += 1;
                self.abandon();
                self.note(self.size, Cause::Freeze, format!("keeps still: {reason}"));
            }
            None => {
                self.hold(0.0);
                self.note(self.size, Cause::Freeze, "goes on".to_owned());
            }
        }
    }

    /// Returns the smallest size that the rails allow.
    pub(super) fn size_least(&self) -> u32 {
        self.valve
            .floor(self.now_s)
            .max(self.settings.size_min)
            .min(self.size_most())
    }

    /// Returns the largest size that the rails allow.
    pub(super) fn size_most(&self) -> u32 {
        self.ceiling
            .height(self.now_s, self.settings.size_max)
            .min(self.settings.size_max.saturating_sub(self.room))
            .max(self.settings.size_min)
    }

    /// Returns the size below which short transactions have no room beside the long ones.
    pub(super) fn variability_floor(&self) -> u32 {
        let share = self.long_share;
        if !self.settings.room_for_short || share < LONG_SHARE_MIN {
            return 0;
        }
        // Long transactions leave m · (1 - share) servers, which must be as many as there are cores.
        let cores = f64::from(self.settings.cores.unwrap_or(1));
        servers(cores / (1.0 - share.min(LONG_SHARE_MAX)))
    }

    /// Returns the limits that the mode and the rails allow.
    pub(super) fn limits_allowed(&self) -> (u32, u32) {
        if self.settings.mode == Mode::Advise {
            let size = f64::from(self.settings.size);
            let least = servers(size / ADVISE_RATIO).max(self.settings.size_min);
            let most = servers(size * ADVISE_RATIO).min(self.settings.size_max);
            return (least.min(most), most.max(least));
        }
        (self.size_least(), self.size_most())
    }
}
