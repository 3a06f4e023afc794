//! Letters about listening: none is lost and none overtakes another, whatever the mailboxes have room for.
//!
//! A worker that does not keep up holds back the listening connections that feed it, so that PostgreSQL's own queue takes
//! what is said meanwhile.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::super::Worker;
use super::super::slots::Stage;
use super::super::timers::Timer;
use crate::driver::Driver;
use crate::mailbox::Message;

/// Letters with notifications that one worker may have unread: each holds what one receive brought.
const UNHEARD_MAX: usize = 64;
/// Letters kept back for one worker before the listening connections are not read any more.
const KEPT_MAX: usize = 64;
/// How soon a full mailbox is tried again.
const RETRY: Duration = Duration::from_millis(2);

/// See the module's page.
pub(super) struct Outbox {
    /// By lane.
    kept: Vec<VecDeque<Message>>,
    is_holding_back: bool,
}

impl Outbox {
    pub(super) fn new(lanes: usize) -> Self {
        Self {
            kept: (0..lanes).map(|_| VecDeque::new()).collect(),
            is_holding_back: false,
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.kept.iter().map(VecDeque::len).sum()
    }

    /// Whether the listening connections are not read.
    pub(super) fn is_holding_back(&self) -> bool {
        self.is_holding_back
    }
}

impl<D: Driver> Worker<D> {
    /// Sends a letter behind those that were sent before it.
    pub(in crate::worker) fn mail(&mut self, lane: usize, message: Message) {
        let waits = self.listening.outbox.kept.get(lane);
        let is_first = waits.is_none_or(VecDeque::is_empty);
        let kept = if is_first {
            self.mail_now(lane, message).err()
        } else {
            Some(message)
        };
        let Some(message) = kept else {
            return;
        };
        let outbox = &mut self.listening.outbox;
        if outbox.kept.iter().all(VecDeque::is_empty) {
            self.timers.arm(self.now.plus(RETRY), Timer::Outbox);
        }
        if let Some(kept) = outbox.kept.get_mut(lane) {
            kept.push_back(message);
            if kept.len() >= KEPT_MAX && !outbox.is_holding_back {
                self.hold_listeners_back(true);
            }
        }
    }

    fn mail_now(&self, lane: usize, message: Message) -> Result<(), Message> {
        let (Message::Heard(_), Some(unheard)) = (&message, self.global.unheard.get(lane)) else {
            return self.post(lane, message);
        };
        if unheard.fetch_add(1, Ordering::Relaxed) >= UNHEARD_MAX {
            unheard.fetch_sub(1, Ordering::Relaxed);
            return Err(message);
        }
        self.post(lane, message).inspect_err(|_| {
            unheard.fetch_sub(1, Ordering::Relaxed);
        })
    }

    /// A letter with notifications was read.
    pub(super) fn heard_one(&self) {
        if let Some(unheard) = self.global.unheard.get(self.lane) {
            unheard.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Tries again to send what was kept.
    pub(in super::super) fn send_outboxes(&mut self) {
        for lane in 0..self.listening.outbox.kept.len() {
            while let Some(message) = self.take_kept(lane) {
                if let Err(message) = self.mail_now(lane, message) {
                    if let Some(kept) = self.listening.outbox.kept.get_mut(lane) {
                        kept.push_front(message);
                    }
                    break;
                }
            }
        }
        let outbox = &self.listening.outbox;
        if outbox.kept.iter().any(|kept| !kept.is_empty()) {
            return self.timers.arm(self.now.plus(RETRY), Timer::Outbox);
        }
        if outbox.is_holding_back {
            self.hold_listeners_back(false);
        }
    }

    fn take_kept(&mut self, lane: usize) -> Option<Message> {
        self.listening.outbox.kept.get_mut(lane)?.pop_front()
    }

    fn hold_listeners_back(&mut self, is_held: bool) {
        self.listening.outbox.is_holding_back = is_held;
        for (_, server) in &self.servers {
            match server.stage {
                Stage::Listening(_) if is_held => self.driver.pause(server.key),
                Stage::Listening(_) => self.driver.resume(server.key),
                _ => {}
            }
        }
    }
}
