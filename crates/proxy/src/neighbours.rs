//! Other processes of online upgrades: the one before us while it has clients, and the one that follows us.
//!
//! What one of them has to know goes from process to process along this chain: each passes on what it gets from one side
//! to the other side.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

use crate::global::{Place, lock};
use crate::handover::{Link, LinkError, LinkMessage, Stay};
use crate::orders::Order;

/// Side on which another process stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// Process that we follow.
    Older,
    /// Process that follows us.
    Newer,
}

impl Side {
    const ALL: [Self; 2] = [Self::Newer, Self::Older];

    fn other(self) -> Self {
        match self {
            Self::Older => Self::Newer,
            Self::Newer => Self::Older,
        }
    }
}

/// Connection of a cancel request in any of the processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct FarAsker {
    /// Number of its process, which no other has.
    pub(crate) process: u64,
    pub(crate) place: Place,
}

/// Message that must not get lost when a link is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Report {
    /// Cancel request of that side is over.
    CancelOver(FarAsker),
    /// Order of that side is done here.
    OrderOver(u64),
    /// Clients that stay with this process.
    Stay(Stay),
}

impl From<Report> for LinkMessage {
    fn from(report: Report) -> Self {
        match report {
            Report::CancelOver(asker) => Self::CancelOver(asker),
            Report::OrderOver(number) => Self::OrderOver(number),
            Report::Stay(stay) => Self::Stay(stay),
        }
    }
}

#[derive(Debug, Default)]
struct Links {
    older: Option<Arc<Link>>,
    newer: Option<Arc<Link>>,
    /// True once the process that follows us serves clients.
    has_successor: bool,
}

impl Links {
    fn at(&self, side: Side) -> Option<&Arc<Link>> {
        match side {
            Side::Older => self.older.as_ref(),
            Side::Newer => self.newer.as_ref(),
        }
    }

    fn serving(&self, side: Side) -> Option<&Arc<Link>> {
        self.at(side)
            .filter(|_| side == Side::Older || self.has_successor)
    }
}

/// Links to the other processes, and the cancel requests and orders sent through them.
///
/// The connection of a cancel request stays open here until the other process reports that the cancel is over. Its
/// client may then send the next statement, which the cancel must not hit.
#[derive(Debug)]
pub(crate) struct Neighbours {
    /// Number of this process among them.
    number: u64,
    links: Mutex<Links>,
    /// Cancel requests that the process on this side handles.
    passed: Mutex<HashMap<FarAsker, Side>>,
    /// Orders of ours that the process on this side has not carried out yet.
    ordered: Mutex<HashMap<u64, Side>>,
    last_order: AtomicU64,
    /// Reports that a full link did not take.
    untold: Mutex<Vec<(Side, Report)>>,
}

impl Default for Neighbours {
    fn default() -> Self {
        // The simulator has several of these in one process.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Self {
            number: u64::from(std::process::id()) << 32 | u64::from(count),
            links: Mutex::default(),
            passed: Mutex::default(),
            ordered: Mutex::default(),
            last_order: AtomicU64::new(0),
            untold: Mutex::default(),
        }
    }
}

impl Neighbours {
    /// Begins to pass on to the process before us.
    pub(crate) fn follow(&self, link: Arc<Link>) {
        lock(&self.links).older = Some(link);
    }

    /// Gives a process that starts what it has to know, and passes all later orders on to it. Nothing is ordered between
    /// the two.
    pub(crate) fn offer(
        &self,
        link: &Arc<Link>,
        send: impl FnOnce(&Link) -> Result<(), LinkError>,
    ) -> Result<(), LinkError> {
        let mut links = lock(&self.links);
        send(link)?;
        (links.newer, links.has_successor) = (Some(Arc::clone(link)), false);
        Ok(())
    }

    /// Takes the process that has started for the one that follows us.
    pub(crate) fn succeed_by(&self, link: Arc<Link>) {
        let mut links = lock(&self.links);
        (links.newer, links.has_successor) = (Some(link), true);
    }

    /// Forgets the process that was to follow us, and has not started.
    pub(crate) fn withdraw(&self) {
        let mut links = lock(&self.links);
        if !links.has_successor {
            links.newer = None;
            drop(links);
            self.forget(Side::Newer);
        }
    }

    /// Forgets the process at the end of this link, which has ended. Returns the connections here whose requests it handled.
    pub(crate) fn part(&self, ended: &Arc<Link>) -> Vec<Place> {
        let mut links = lock(&self.links);
        let is_ended = |link: &&Arc<Link>| Arc::ptr_eq(link, ended);
        let side = Side::ALL
            .into_iter()
            .find(|side| links.at(*side).filter(is_ended).is_some());
        match side {
            Some(Side::Older) => links.older = None,
            Some(Side::Newer) => links.newer = None,
            None => {}
        }
        drop(links);
        side.map(|side| self.forget(side)).unwrap_or_default()
    }

    fn forget(&self, side: Side) -> Vec<Place> {
        lock(&self.ordered).retain(|_, at| *at != side);
        lock(&self.untold).retain(|(at, _)| *at != side);
        let mut passed = lock(&self.passed);
        let there: Vec<_> = passed.extract_if(|_, at| *at == side).collect();
        drop(passed);
        let mut ours = Vec::new();
        for (asker, _) in there {
            match asker.process == self.number {
                true => ours.push(asker.place),
                false => self.report(side.other(), Report::CancelOver(asker)),
            }
        }
        ours
    }

    // --- cancels ---

    /// Passes on a cancel request without a client here: another process may have the client. Returns false if there is none,
    /// or if its link does not take the message.
    pub(crate) fn pass_cancel(&self, pid: u32, key: &[u8], place: Place) -> bool {
        let asker = FarAsker {
            process: self.number,
            place,
        };
        self.relay_cancel(None, pid, key, asker)
    }

    /// Passes on a cancel request as [`Neighbours::pass_cancel`], not to the side that it comes from.
    pub(crate) fn relay_cancel(
        &self,
        from: Option<Side>,
        pid: u32,
        key: &[u8],
        asker: FarAsker,
    ) -> bool {
        let links = lock(&self.links);
        let sides = Side::ALL.into_iter().filter(|side| Some(*side) != from);
        let there = sides.filter_map(|side| Some((side, links.serving(side)?)));
        for (side, link) in there {
            lock(&self.passed).insert(asker, side);
            let key = key.to_vec();
            match link.send(&LinkMessage::Cancel { pid, key, asker }, None) {
                Ok(()) => return true,
                Err(error) => {
                    tracing::debug!("cannot pass a cancel request on to another process: {error}");
                    lock(&self.passed).remove(&asker);
                }
            }
        }
        false
    }

    /// Notes that the other process has finished a cancel request. Returns the connection if it is one of ours.
    pub(crate) fn cancel_is_over(&self, asker: FarAsker) -> Option<Place> {
        let side = lock(&self.passed).remove(&asker)?;
        if asker.process == self.number {
            return Some(asker.place);
        }
        self.report(side.other(), Report::CancelOver(asker));
        None
    }

    // --- orders ---

    /// Passes on an order, not to the side that it comes from. Returns numbers that [`Neighbours::has_open`] knows until it is
    /// carried out there.
    pub(crate) fn pass_order(&self, order: &Order, from: Option<Side>) -> Vec<u64> {
        let links = lock(&self.links);
        let sides = Side::ALL.into_iter().filter(|side| Some(*side) != from);
        let there = sides.filter_map(|side| Some((side, links.at(side)?)));
        let numbers = there.filter_map(|(side, link)| {
            let number = self.last_order.fetch_add(1, Ordering::Relaxed);
            lock(&self.ordered).insert(number, side);
            let message = LinkMessage::Order(number, Box::new(order.clone()));
            match link.send(&message, None) {
                Ok(()) => Some(number),
                Err(error) => {
                    tracing::error!(
                        "upgrade: an order cannot be passed on to the other process: {error}"
                    );
                    lock(&self.ordered).remove(&number);
                    None
                }
            }
        });
        numbers.collect()
    }

    /// Notes that the other process has carried out an order.
    pub(crate) fn order_is_over(&self, number: u64) {
        lock(&self.ordered).remove(&number);
    }

    /// True if another process has not carried out one of these orders.
    pub(crate) fn has_open(&self, numbers: &[u64]) -> bool {
        if numbers.is_empty() {
            return false;
        }
        let open: HashSet<u64> = lock(&self.ordered).keys().copied().collect();
        numbers.iter().any(|number| open.contains(number))
    }

    // --- reports ---

    /// Reports to the process on this side, later if the link is full.
    pub(crate) fn report(&self, to: Side, report: Report) {
        lock(&self.untold).push((to, report));
        self.tell();
    }

    /// Sends the reports that a full link did not take before.
    pub(crate) fn tell(&self) {
        let mut untold = lock(&self.untold);
        if untold.is_empty() {
            return;
        }
        let links = lock(&self.links);
        untold.retain(|(side, report)| {
            let link = links.at(*side);
            link.is_some_and(|link| link.send(&(*report).into(), None).is_err())
        });
    }
}
