//! Queues of the lanes, as they are published for the others.

use super::Shared;
use crate::atomic::Ordering::Relaxed;
use crate::atomic::Ordering::SeqCst;
use crate::line::Line;

impl Shared {
    pub(crate) fn announce_wait(&self, lane: usize, line: &Line) {
        let Some(lane) = self.lanes.get(lane) else {
            return;
        };
        let waiting = &lane.waiting.0;
        for (slot, head) in waiting.heads.iter().zip(line.heads) {
            slot.store(head.0, Relaxed);
        }
        waiting.unmet_since.store(line.unmet_since.0, SeqCst);
        waiting.balance.store(line.balance, SeqCst);
        waiting.relying.store(line.relying, SeqCst);
        waiting.count.store(line.count, SeqCst);
    }

    /// Number of clients that wait in other lanes than this one.
    pub(crate) fn waiting_beside(&self, lane: usize) -> usize {
        let others = self.others(lane);
        others
            .map(|(_, lane)| lane.waiting.0.count.load(Relaxed))
            .sum()
    }
}
