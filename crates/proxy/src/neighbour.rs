//! The other process of an online upgrade: the one that takes our clients, or whose clients we take.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use crate::global::{Place, lock};
use crate::handover::{Letter, Link};

/// The link to the other process while there is one, and the cancel requests that went through it.
///
/// The connection of a cancel request stays here and open until the other process has said that the cancel is over: its
/// client may then send the next statement, which must not be hit.
#[derive(Debug, Default)]
pub(crate) struct Neighbour {
    link: Mutex<Option<Arc<Link>>>,
    /// Connections here whose requests the other process deals with.
    passed: Mutex<HashSet<Place>>,
    /// Connections there whose requests are over, which could not be said yet.
    untold: Mutex<Vec<Place>>,
}

impl Neighbour {
    pub(crate) fn meet(&self, link: Arc<Link>) {
        *lock(&self.link) = Some(link);
    }

    /// The other process has ended. Returns the connections whose requests it had.
    pub(crate) fn part(&self) -> HashSet<Place> {
        *lock(&self.link) = None;
        lock(&self.untold).clear();
        std::mem::take(&mut *lock(&self.passed))
    }

    /// Passes on a cancel request for nobody here: perhaps its client lives with the other process. False if there is none.
    pub(crate) fn pass_cancel(&self, pid: u32, key: &[u8], asker: Place) -> bool {
        let link = lock(&self.link);
        let Some(link) = link.as_ref() else {
            return false;
        };
        lock(&self.passed).insert(asker);
        let key = key.to_vec();
        let sent = link.send(&Letter::Cancel { pid, key, asker }, None);
        if let Err(error) = &sent {
            tracing::debug!("a cancel request could not be passed on: {error}");
            lock(&self.passed).remove(&asker);
        }
        sent.is_ok()
    }

    /// The other process is done with a cancel request of ours; false if it had none from there.
    pub(crate) fn is_over(&self, asker: Place) -> bool {
        lock(&self.passed).remove(&asker)
    }

    /// A cancel request of the other process is over.
    pub(crate) fn cancel_over(&self, asker: Place) {
        lock(&self.untold).push(asker);
        self.tell();
    }

    /// Says what could not be said before, as the link was full.
    pub(crate) fn tell(&self) {
        let mut untold = lock(&self.untold);
        if untold.is_empty() {
            return;
        }
        let link = lock(&self.link);
        let Some(link) = link.as_ref() else {
            return untold.clear();
        };
        untold.retain(|asker| link.send(&Letter::CancelOver(*asker), None).is_err());
    }
}
