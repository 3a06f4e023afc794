//! The channels that one client listens to through the hub, and UNLISTENs that it runs on its own server.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use weir_sql::Effects;

use super::{CHANNELS_MAX, Channel, Request, Seat, lease, statement};

/// Subscriptions of one client, see the module documentation.
#[derive(Debug, Default)]
pub struct Subscriptions {
    /// Channels confirmed by the hub.
    channels: HashSet<Channel>,
    /// Address of the client for [`super::Hub`].
    seat: Option<Seat>,
    ready: Ready,
    /// UNLISTENs sent to the client's own server and not answered.
    asked: VecDeque<Request>,
    /// UNLISTENs run in the transaction in progress.
    run: Vec<Request>,
    /// UNLISTENs committed within the query text that is still running.
    committed: Vec<Request>,
    /// Channels of notifications that came from the client's own server since the last statement ended, if the
    /// transaction unlistens. The server still listens to them, so the transaction must have listened to them again.
    heard: Vec<Channel>,
    /// UNLISTENs whose transaction was committed.
    ended: Vec<Request>,
}

/// State of a ReadyForQuery outside a transaction. It is held back until the client has all notifications sent before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Ready {
    /// Owed, and the client has all notifications: send it.
    Due,
    /// None is owed.
    #[default]
    Told,
    /// Owed, and held back until all notifications have been delivered.
    Waits,
}

impl Subscriptions {
    /// Number of channels the client listens to.
    #[must_use]
    pub fn len(&self) -> usize {
        self.channels.len()
    }

    /// True if the client listens to no channel.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.channels.is_empty()
    }

    /// True if the client listens to this channel.
    #[must_use]
    pub fn contains(&self, channel: &[u8]) -> bool {
        self.channels.contains(channel)
    }

    /// True if a request would change nothing.
    #[must_use]
    pub fn is_so(&self, request: &Request) -> bool {
        match request {
            Request::Listen(channel) => self.channels.contains(channel),
            Request::Unlisten(channel) => !self.channels.contains(channel),
            Request::UnlistenAll => self.channels.is_empty(),
        }
    }

    /// Records that the hub has carried out a request.
    pub fn done(&mut self, request: &Request) {
        match request {
            Request::Listen(channel) => drop(self.channels.insert(Arc::clone(channel))),
            Request::Unlisten(channel) => drop(self.channels.remove(channel)),
            Request::UnlistenAll => self.channels.clear(),
        }
    }

    /// Sets the address of the client.
    pub fn sit(&mut self, seat: Seat) {
        self.seat = Some(seat);
    }

    /// True if the client's ReadyForQuery is held back until it has all notifications.
    #[inline]
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.ready == Ready::Waits
    }

    /// True if a ReadyForQuery is owed.
    #[must_use]
    pub fn is_owed_ready(&self) -> bool {
        self.ready != Ready::Told
    }

    /// Records that the client has all notifications committed before. Returns false if it was not waiting for them.
    pub fn is_told(&mut self) -> bool {
        let was_behind = self.is_behind();
        if was_behind {
            self.ready = Ready::Due;
        }
        was_behind
    }

    /// Holds back a ReadyForQuery that came outside a transaction.
    pub(crate) fn fall_behind(&mut self) {
        debug_assert!(self.ready == Ready::Told, "nothing is read behind one");
        self.ready = Ready::Waits;
    }

    /// Returns true, once, if the ReadyForQuery that was held back is to be sent now.
    pub(crate) fn take_due(&mut self) -> bool {
        let is_due = self.ready == Ready::Due;
        if is_due {
            self.ready = Ready::Told;
        }
        is_due
    }

    /// Returns the mark to send on a server that was another client's ([`lease`]).
    pub(crate) fn mark(&self) -> Option<String> {
        self.seat.map(lease::mark)
    }

    /// Returns the SQL that makes a server listen to these channels, and the SQL that stops it. `None` if there are no
    /// channels or a name is not UTF-8.
    pub(crate) fn statements(&self) -> Option<(String, String)> {
        let of = |command: &str| {
            let mut sql = Vec::new();
            for channel in &self.channels {
                statement(command, channel, &mut sql);
                sql.push(b';');
            }
            String::from_utf8(sql).ok()
        };
        (!self.channels.is_empty()).then_some(())?;
        Some((of("LISTEN")?, of("UNLISTEN")?))
    }

    /// Takes the UNLISTENs that took effect on the client's own server since the last call. They must be applied here
    /// too.
    pub fn take_ended(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.ended)
    }

    /// Records the UNLISTENs of a statement that is sent to the client's own server.
    pub(crate) fn note(&mut self, effects: &Effects) {
        let room = CHANNELS_MAX.saturating_sub(self.asked.len());
        let unlistens = effects.unlistens.iter().take(room);
        self.asked.extend(unlistens.map(Request::from_sql));
    }

    /// Records a notification from the client's own server. Returns true if the client gets it through the hub anyway.
    pub(crate) fn hears(&mut self, channel: &[u8]) -> bool {
        let Some(known) = self.channels.get(channel) else {
            return false;
        };
        let unlistens = !self.run.is_empty() || !self.committed.is_empty();
        if unlistens && !self.heard.contains(known) {
            self.heard.push(Arc::clone(known));
        }
        true
    }

    /// Records the end of a statement on the client's own server. Notifications of its transaction follow later;
    /// earlier ones came before.
    #[inline]
    pub(crate) fn statement_over(&mut self) {
        self.heard.clear();
    }

    /// Records that the client's own server has run an UNLISTEN. The server runs the UNLISTENs sent to it in order. An
    /// UNLISTEN that the text did not show is not among them.
    pub(crate) fn has_unlistened(&mut self) {
        self.run.extend(self.asked.pop_front());
    }

    /// Records a COMMIT: a later ROLLBACK in the same text does not undo the UNLISTENs before it.
    pub(crate) fn commit(&mut self) {
        self.committed.append(&mut self.run);
    }

    /// Records a ROLLBACK, which may undo UNLISTENs. Too many notifications do less harm than too few.
    pub(crate) fn undo(&mut self) {
        self.run.clear();
    }

    /// Records an error: the UNLISTENs that were sent may not be run.
    pub(crate) fn doubt(&mut self) {
        self.undo();
        self.asked.clear();
    }

    /// Records that the client's own server has answered everything; UNLISTENs not answered by then were never run.
    pub(crate) fn all_answered(&mut self) {
        self.asked.clear();
    }

    /// Records DISCARD ALL, which no transaction can undo.
    pub(crate) fn discard(&mut self) {
        self.ended.push(Request::UnlistenAll);
    }

    /// Ends the transaction on the client's own server. A channel that the transaction has listened to again stays
    /// subscribed here: its notifications come once, on one connection, in order.
    pub(crate) fn transaction_over(&mut self) {
        let heard = std::mem::take(&mut self.heard);
        self.commit();
        for request in std::mem::take(&mut self.committed) {
            match request {
                Request::Unlisten(channel) if heard.contains(&channel) => {}
                Request::UnlistenAll if !heard.is_empty() => {
                    let others = self.channels.iter().filter(|one| !heard.contains(one));
                    self.ended.extend(others.cloned().map(Request::Unlisten));
                }
                request => self.ended.push(request),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unlisten(channels: &[weir_sql::Channel]) -> Effects {
        Effects {
            unlistens: channels.to_vec(),
            ..Effects::default()
        }
    }

    fn named(name: &[u8]) -> Request {
        Request::Unlisten(name.into())
    }

    #[test]
    fn an_unlisten_counts_when_its_transaction_is_committed() {
        let a = || weir_sql::Channel::Unlisten(b"a".as_slice().into());
        let mut subscriptions = Subscriptions::default();
        subscriptions.note(&unlisten(&[a(), weir_sql::Channel::UnlistenAll]));
        subscriptions.has_unlistened();
        subscriptions.has_unlistened();
        assert!(subscriptions.take_ended().is_empty());
        subscriptions.transaction_over();
        let ended = [named(b"a"), Request::UnlistenAll];
        assert_eq!(subscriptions.take_ended(), ended);
        subscriptions.note(&unlisten(&[a()]));
        subscriptions.has_unlistened();
        subscriptions.doubt();
        subscriptions.transaction_over();
        subscriptions.transaction_over();
        assert!(subscriptions.take_ended().is_empty());
    }

    #[test]
    fn a_rollback_undoes_what_was_run_before_it_in_its_transaction() {
        let unlisten_of = |name: &[u8]| weir_sql::Channel::Unlisten(name.into());
        let mut subscriptions = Subscriptions::default();
        let text = [b"a", b"b", b"c", b"d"].map(|name| unlisten_of(name));
        subscriptions.note(&unlisten(&text));
        subscriptions.has_unlistened();
        subscriptions.commit();
        subscriptions.has_unlistened();
        subscriptions.undo();
        subscriptions.has_unlistened();
        subscriptions.transaction_over();
        assert_eq!(subscriptions.take_ended(), [named(b"a"), named(b"c")]);
        // The last UNLISTEN was bound and never executed.
        subscriptions.all_answered();
        subscriptions.note(&unlisten(&[unlisten_of(b"e")]));
        subscriptions.has_unlistened();
        subscriptions.transaction_over();
        assert_eq!(subscriptions.take_ended(), [named(b"e")]);
        // No text showed this UNLISTEN.
        subscriptions.has_unlistened();
        subscriptions.transaction_over();
        assert!(subscriptions.take_ended().is_empty());
    }

    #[test]
    fn an_unlisten_does_not_count_if_its_transaction_listens_again() {
        let named = |name: &[u8]| Request::Listen(name.into());
        let unlisten = |name: &[u8]| weir_sql::Channel::Unlisten(name.into());
        for asked in [unlisten(b"a"), weir_sql::Channel::UnlistenAll] {
            let mut subscriptions = Subscriptions::default();
            subscriptions.done(&named(b"a"));
            subscriptions.done(&named(b"b"));
            subscriptions.note(&self::unlisten(&[asked.clone(), unlisten(b"b")]));
            subscriptions.has_unlistened();
            subscriptions.has_unlistened();
            // Sent before the transaction.
            assert!(subscriptions.hears(b"b"));
            subscriptions.statement_over();
            assert!(subscriptions.hears(b"a") && subscriptions.hears(b"a"));
            assert!(!subscriptions.hears(b"c"));
            subscriptions.transaction_over();
            let ended = subscriptions.take_ended();
            let ends_b = |request: &Request| *request == Request::Unlisten(b"b".as_slice().into());
            assert!(!ended.is_empty() && ended.iter().all(ends_b), "{ended:?}");
            // Later notifications are no part of that transaction.
            subscriptions.hears(b"a");
            subscriptions.note(&self::unlisten(&[asked]));
            subscriptions.has_unlistened();
            subscriptions.transaction_over();
            assert_eq!(subscriptions.take_ended().len(), 1);
        }
    }
}
