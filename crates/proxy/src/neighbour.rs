//! Other process of an online upgrade: our successor, or our predecessor.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use crate::global::{Place, lock};
use crate::handover::{Link, LinkMessage};

/// Link to the other process while there is one, and the cancel requests sent through it.
///
/// The connection of a cancel request stays open here until the other process reports that the cancel is over. Its
/// client may then send the next statement, which the cancel must not hit.
#[derive(Debug, Default)]
pub(crate) struct Neighbour {
    link: Mutex<Option<Arc<Link>>>,
    /// Connections here whose cancel requests the other process handles.
    passed: Mutex<HashSet<Place>>,
    /// Connections there whose cancel requests are over, but not reported yet.
    untold: Mutex<Vec<Place>>,
}

impl Neighbour {
    pub(crate) fn meet(&self, link: Arc<Link>) {
        *lock(&self.link) = Some(link);
    }

    /// Forgets the other process at the end of this link, which has ended. Returns the connections whose requests it handled.
    /// An upgrade since then has met another process.
    pub(crate) fn part(&self, ended: &Arc<Link>) -> HashSet<Place> {
        let mut link = lock(&self.link);
        if link.as_ref().is_some_and(|link| !Arc::ptr_eq(link, ended)) {
            return HashSet::new();
        }
        *link = None;
        drop(link);
        lock(&self.untold).clear();
        std::mem::take(&mut *lock(&self.passed))
    }

    /// Passes on a cancel request without a client here: the other process may have the client. Returns false if there
    /// is no other process, or if the link does not take the message.
    pub(crate) fn pass_cancel(&self, pid: u32, key: &[u8], asker: Place) -> bool {
        let link = lock(&self.link);
        let Some(link) = link.as_ref() else {
            return false;
        };
        lock(&self.passed).insert(asker);
        let key = key.to_vec();
        let sent = link.send(&LinkMessage::Cancel { pid, key, asker }, None);
        if let Err(error) = &sent {
            tracing::debug!("cannot pass a cancel request on to the other process: {error}");
            lock(&self.passed).remove(&asker);
        }
        sent.is_ok()
    }

    /// Notes that the other process has finished a cancel request of ours. Returns false if it had none from `asker`.
    pub(crate) fn is_over(&self, asker: Place) -> bool {
        lock(&self.passed).remove(&asker)
    }

    /// Reports to the other process that its cancel request is over.
    pub(crate) fn cancel_over(&self, asker: Place) {
        lock(&self.untold).push(asker);
        self.tell();
    }

    /// Sends the reports that a full link did not take before.
    pub(crate) fn tell(&self) {
        let mut untold = lock(&self.untold);
        if untold.is_empty() {
            return;
        }
        let link = lock(&self.link);
        let Some(link) = link.as_ref() else {
            return untold.clear();
        };
        untold.retain(|asker| link.send(&LinkMessage::CancelOver(*asker), None).is_err());
    }
}
