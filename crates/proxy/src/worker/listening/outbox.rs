//! Messages about listening: none is lost and none overtakes another, even if a mailbox is full.
//!
//! A worker that falls behind makes the listening connections that feed it pause. PostgreSQL's own queue then holds the
//! notifications.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::super::Worker;
use super::super::slots::Stage;
use super::super::timers::Timer;
use crate::driver::{Driver, Why};
use crate::mailbox::Message;

/// Maximum number of unread messages with notifications for one worker. Each message holds the notifications of one
/// receive.
const UNHEARD_MAX: usize = 64;
/// Number of messages kept back for one worker at which the listening connections are paused.
const KEPT_MAX: usize = 64;
/// Interval after which a full mailbox is tried again.
const RETRY: Duration = Duration::from_millis(2);

/// Messages that wait for room in mailboxes; see the module documentation.
pub(super) struct Outbox {
    /// Messages by worker.
    kept: Vec<VecDeque<Message>>,
    is_holding_back: bool,
}

impl Outbox {
    pub(super) fn new(workers: usize) -> Self {
        Self {
            kept: (0..workers).map(|_| VecDeque::new()).collect(),
            is_holding_back: false,
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.kept.iter().map(VecDeque::len).sum()
    }

    /// True if the listening connections are paused.
    pub(super) fn is_holding_back(&self) -> bool {
        self.is_holding_back
    }
}

impl<D: Driver> Worker<D> {
    /// Sends a message behind those that were sent before it.
    pub(in crate::worker) fn mail(&mut self, worker: usize, message: Message) {
        let waits = self.listening.outbox.kept.get(worker);
        let is_first = waits.is_none_or(VecDeque::is_empty);
        let kept = if is_first {
            self.mail_now(worker, message).err()
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
        if let Some(kept) = outbox.kept.get_mut(worker) {
            kept.push_back(message);
            if kept.len() >= KEPT_MAX && !outbox.is_holding_back {
                self.hold_listeners_back(true);
            }
        }
    }

    fn mail_now(&self, worker: usize, message: Message) -> Result<(), Message> {
        let (Message::Heard(_), Some(unheard)) =
            (&message, self.global.workers.unheard.get(worker))
        else {
            return self.post(worker, message);
        };
        if unheard.fetch_add(1, Ordering::Relaxed) >= UNHEARD_MAX {
            unheard.fetch_sub(1, Ordering::Relaxed);
            return Err(message);
        }
        self.post(worker, message).inspect_err(|_| {
            unheard.fetch_sub(1, Ordering::Relaxed);
        })
    }

    /// Counts a message with notifications as read.
    pub(super) fn heard_one(&self) {
        if let Some(unheard) = self.global.workers.unheard.get(self.number) {
            unheard.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Sends the messages that were kept back, as far as the mailboxes have room.
    pub(in super::super) fn send_outboxes(&mut self) {
        for worker in 0..self.listening.outbox.kept.len() {
            while let Some(message) = self.take_kept(worker) {
                if let Err(message) = self.mail_now(worker, message) {
                    if let Some(kept) = self.listening.outbox.kept.get_mut(worker) {
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

    fn take_kept(&mut self, worker: usize) -> Option<Message> {
        self.listening.outbox.kept.get_mut(worker)?.pop_front()
    }

    fn hold_listeners_back(&mut self, is_held: bool) {
        self.listening.outbox.is_holding_back = is_held;
        for (_, server) in &self.tables.servers {
            match server.stage {
                Stage::Listening(_) if is_held => self.driver.stop(server.key, Why::Outbox),
                Stage::Listening(_) => self.driver.go(server.key, Why::Outbox),
                _ => {}
            }
        }
    }
}
