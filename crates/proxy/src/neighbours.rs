//! Other processes of online upgrades: the one before us while it has clients, and the one that follows us.
//!
//! Orders and cancel requests go from process to process along this chain: each passes on to one side what it gets from
//! the other.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

use crate::global::{Place, lock};
use crate::handover::{Link, LinkError, LinkMessage};
use crate::orders::Order;

/// Maximum number of messages that wait for a link when another order comes.
const WAITING_MAX: usize = 1_000;

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

#[derive(Debug, Default)]
struct Links {
    older: Option<Arc<Link>>,
    newer: Option<Arc<Link>>,
    progress: Progress,
}

/// Progress of the process that follows us.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// Not all is sent that it has to know to start. Later messages wait.
    #[default]
    Offered,
    /// Started, and not ready.
    Starting,
    /// Ready: serves clients.
    Serving,
}

impl Links {
    /// True if messages to this side wait.
    fn is_deaf(&self, side: Side) -> bool {
        side == Side::Newer && self.progress == Progress::Offered
    }

    fn at(&self, side: Side) -> Option<&Arc<Link>> {
        match side {
            Side::Older => self.older.as_ref(),
            Side::Newer => self.newer.as_ref(),
        }
    }

    fn serving(&self, side: Side) -> Option<&Arc<Link>> {
        self.at(side)
            .filter(|_| side == Side::Older || self.progress == Progress::Serving)
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
    /// Messages that must not get lost, which a full link did not take.
    untold: Mutex<Vec<(Side, LinkMessage)>>,
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

    /// Gives a process that starts what it has to know, and passes all later orders on to it: `collect` reads the orders that
    /// hold, and none falls between these and the later ones. `send` sends them, and may wait.
    pub(crate) fn offer(
        &self,
        link: &Arc<Link>,
        collect: impl FnOnce() -> Vec<Order>,
        send: impl FnOnce(Vec<Order>) -> Result<(), LinkError>,
    ) -> Result<(), LinkError> {
        let mut links = lock(&self.links);
        (links.newer, links.progress) = (Some(Arc::clone(link)), Progress::Offered);
        let orders = collect();
        drop(links);
        if let Err(error) = send(orders) {
            self.withdraw();
            return Err(error);
        }
        lock(&self.links).progress = Progress::Starting;
        self.tell();
        Ok(())
    }

    /// Takes the process that has started for the one that follows us.
    pub(crate) fn succeed_by(&self, link: Arc<Link>) {
        let mut links = lock(&self.links);
        (links.newer, links.progress) = (Some(link), Progress::Serving);
    }

    /// Forgets the process that was to follow us, and has not started.
    pub(crate) fn withdraw(&self) {
        let mut links = lock(&self.links);
        if links.progress != Progress::Serving {
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
                false => self.report(side.other(), LinkMessage::CancelOver(asker)),
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
        self.report(side.other(), LinkMessage::CancelOver(asker));
        None
    }

    // --- orders ---

    /// Passes on an order, not to the side that it comes from. Returns numbers that [`Neighbours::has_open`] knows until it is
    /// carried out there.
    pub(crate) fn pass_order(&self, order: &Order, from: Option<Side>) -> Vec<u64> {
        let sides = Side::ALL.into_iter().filter(|side| Some(*side) != from);
        let numbers = sides.filter_map(|side| {
            lock(&self.links).at(side)?;
            if lock(&self.untold).len() >= WAITING_MAX {
                tracing::error!(
                    "upgrade: an order is not passed on: too many wait for the other process"
                );
                return None;
            }
            let number = self.last_order.fetch_add(1, Ordering::Relaxed);
            lock(&self.ordered).insert(number, side);
            self.report(side, LinkMessage::Order(number, Box::new(order.clone())));
            Some(number)
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

    // --- messages that must not get lost ---

    /// Sends a message to the process on this side, later if the link is full.
    pub(crate) fn report(&self, to: Side, message: LinkMessage) {
        lock(&self.untold).push((to, message));
        self.tell();
    }

    /// Sends the messages that a full link did not take before, in their order.
    pub(crate) fn tell(&self) {
        let mut untold = lock(&self.untold);
        if untold.is_empty() {
            return;
        }
        let links = lock(&self.links);
        let mut full = HashSet::new();
        untold.retain(|(side, message)| {
            let Some(link) = links.at(*side) else {
                return false;
            };
            if links.is_deaf(*side) || full.contains(side) {
                return true;
            }
            let Err(error) = link.send(message, None) else {
                return false;
            };
            if error.is_full() {
                full.insert(*side);
                return true;
            }
            tracing::error!("upgrade: a message to the other process is lost: {error}");
            if let LinkMessage::Order(number, _) = message {
                lock(&self.ordered).remove(number);
            }
            false
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(name: &str) -> Order {
        Order::Pause(Some(name.to_owned()))
    }

    fn received(link: &Link) -> Vec<String> {
        let mut all = Vec::new();
        while link.has_news() {
            match link.receive() {
                Ok((LinkMessage::Standing(order), _)) => all.push(format!("standing {order:?}")),
                Ok((LinkMessage::Order(_, order), _)) => all.push(format!("{order:?}")),
                Ok((message, _)) => all.push(format!("{message:?}")),
                Err(_) => break,
            }
        }
        all
    }

    fn pair() -> (Arc<Link>, Link) {
        let (ours, theirs) = Link::pair().unwrap();
        (Arc::new(ours), Link::from(theirs))
    }

    #[test]
    fn an_order_during_an_offer_comes_behind_it_and_none_is_lost() {
        let neighbours = Neighbours::default();
        let (ours, theirs) = pair();
        let offered = neighbours.offer(
            &ours,
            || vec![order("before")],
            |orders| {
                // Somebody orders while the other process does not read yet.
                assert_eq!(neighbours.pass_order(&order("meanwhile"), None).len(), 1);
                for order in orders {
                    ours.send(&LinkMessage::Standing(Box::new(order)), None)?;
                }
                Ok(())
            },
        );
        assert!(offered.is_ok());
        let numbers = neighbours.pass_order(&order("behind"), None);
        assert!(neighbours.has_open(&numbers));
        let expected = [
            "standing Pause(Some(\"before\"))",
            "Pause(Some(\"meanwhile\"))",
            "Pause(Some(\"behind\"))",
        ];
        assert_eq!(received(&theirs), expected);
        // A process that does not start keeps nobody waiting.
        neighbours.withdraw();
        assert!(!neighbours.has_open(&numbers));
        assert!(neighbours.pass_order(&order("nobody"), None).is_empty());
    }

    #[test]
    fn messages_wait_for_a_full_link_and_keep_their_order() {
        let neighbours = Neighbours::default();
        let (ours, theirs) = pair();
        neighbours.follow(Arc::clone(&ours));
        let mut sent = 0;
        while lock(&neighbours.untold).is_empty() {
            neighbours.pass_order(&order(&format!("{sent}")), None);
            sent += 1;
        }
        while lock(&neighbours.untold).len() < WAITING_MAX {
            neighbours.pass_order(&order(&format!("{sent}")), None);
            sent += 1;
        }
        assert!(neighbours.pass_order(&order("too many"), None).is_empty());
        let mut heard = received(&theirs);
        while !lock(&neighbours.untold).is_empty() {
            neighbours.tell();
            heard.extend(received(&theirs));
        }
        heard.extend(received(&theirs));
        let expected: Vec<_> = (0..sent)
            .map(|number| format!("{:?}", order(&format!("{number}"))))
            .collect();
        assert_eq!(heard, expected);
    }

    #[test]
    fn a_process_between_two_others_passes_on_and_finds_the_way_back() {
        let (first, middle, last) = <(Neighbours, Neighbours, Neighbours)>::default();
        let ((first_end, older_end), (middle_end, newer_end)) = (pair(), pair());
        first.succeed_by(first_end);
        middle.follow(Arc::new(older_end));
        middle.succeed_by(middle_end);
        last.follow(Arc::new(newer_end));
        let place = Place {
            worker: 2,
            client: 5_u64.into(),
        };
        assert!(last.pass_cancel(7, b"key", place));
        let at =
            |neighbours: &Neighbours, side| Arc::clone(lock(&neighbours.links).at(side).unwrap());
        let read = |neighbours: &Neighbours, side| at(neighbours, side).receive().unwrap().0;
        let LinkMessage::Cancel { pid, key, asker } = read(&middle, Side::Newer) else {
            panic!("no cancel");
        };
        assert!(middle.relay_cancel(Some(Side::Newer), pid, &key, asker));
        assert!(matches!(
            read(&first, Side::Newer),
            LinkMessage::Cancel { pid: 7, .. }
        ));
        first.report(Side::Newer, LinkMessage::CancelOver(asker));
        let LinkMessage::CancelOver(over) = read(&middle, Side::Older) else {
            panic!("not over");
        };
        assert_eq!(middle.cancel_is_over(over), None);
        let LinkMessage::CancelOver(over) = read(&last, Side::Older) else {
            panic!("not over");
        };
        assert_eq!(last.cancel_is_over(over), Some(place));
        assert_eq!(last.cancel_is_over(over), None);
        // The end of the first process ends what it had.
        assert!(last.pass_cancel(8, b"key", place));
        let LinkMessage::Cancel { pid, key, asker } = read(&middle, Side::Newer) else {
            panic!("no cancel");
        };
        assert!(middle.relay_cancel(Some(Side::Newer), pid, &key, asker));
        let ended = at(&middle, Side::Older);
        assert_eq!(middle.part(&ended), []);
        assert!(matches!(
            read(&last, Side::Older),
            LinkMessage::CancelOver(_)
        ));
    }
}
