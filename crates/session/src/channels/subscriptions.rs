//! What one client listens to without a server of its own, and how that ends on a server that it has for something else.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use weir_sql::Effects;

use super::{CHANNELS_MAX, Channel, Request, Seat, lease, statement};

/// See the module's page.
#[derive(Debug, Default)]
pub struct Subscriptions {
    /// Confirmed.
    channels: HashSet<Channel>,
    /// Where the client is, for [`super::Hub`].
    seat: Option<Seat>,
    ready: Ready,
    /// UNLISTENs that the client's own server has been sent and has not answered.
    asked: VecDeque<Request>,
    /// Those it has run in the transaction in progress.
    run: Vec<Request>,
    /// Those it has committed within the text that it still runs.
    committed: Vec<Request>,
    /// Channels on which the client's own server has told something since the last statement was over, if the transaction
    /// unlistens: it listens to them, so the transaction has listened to them again.
    heard: Vec<Channel>,
    /// Those whose transaction was committed.
    ended: Vec<Request>,
}

/// A ReadyForQuery outside of a transaction, which the client gets when it has heard all that was said before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Ready {
    /// It is owed, and the client has heard all.
    Due,
    /// None is owed.
    #[default]
    Told,
    /// It is owed.
    Waits,
}

impl Subscriptions {
    /// How many channels it listens to.
    #[must_use]
    pub fn len(&self) -> usize {
        self.channels.len()
    }

    /// Whether it listens to none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.channels.is_empty()
    }

    /// Whether it listens to this channel.
    #[must_use]
    pub fn contains(&self, channel: &[u8]) -> bool {
        self.channels.contains(channel)
    }

    /// Whether a request would change nothing.
    #[must_use]
    pub fn is_so(&self, request: &Request) -> bool {
        match request {
            Request::Listen(channel) => self.channels.contains(channel),
            Request::Unlisten(channel) => !self.channels.contains(channel),
            Request::UnlistenAll => self.channels.is_empty(),
        }
    }

    /// A request has been carried out.
    pub fn done(&mut self, request: &Request) {
        match request {
            Request::Listen(channel) => drop(self.channels.insert(Arc::clone(channel))),
            Request::Unlisten(channel) => drop(self.channels.remove(channel)),
            Request::UnlistenAll => self.channels.clear(),
        }
    }

    /// Where the client is.
    pub fn sit(&mut self, seat: Seat) {
        self.seat = Some(seat);
    }

    /// Whether the client waits for its ReadyForQuery until it has heard everything.
    #[inline]
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.ready == Ready::Waits
    }

    /// Whether it has not got its ReadyForQuery yet.
    #[must_use]
    pub fn is_owed_ready(&self) -> bool {
        self.ready != Ready::Told
    }

    /// It has heard everything that was committed before. False if it was not waiting for that.
    pub fn is_told(&mut self) -> bool {
        let was_behind = self.is_behind();
        if was_behind {
            self.ready = Ready::Due;
        }
        was_behind
    }

    /// A ReadyForQuery outside of a transaction has come.
    pub(crate) fn fall_behind(&mut self) {
        debug_assert!(self.ready == Ready::Told, "nothing is read behind one");
        self.ready = Ready::Waits;
    }

    /// Whether it is to be sent now.
    pub(crate) fn take_due(&mut self) -> bool {
        let is_due = self.ready == Ready::Due;
        if is_due {
            self.ready = Ready::Told;
        }
        is_due
    }

    /// What to say on a server that comes from another client ([`lease`]).
    pub(crate) fn mark(&self) -> Option<String> {
        self.seat.map(lease::mark)
    }

    /// What makes a server listen to the same, and what makes it stop; None if a name is not UTF-8.
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

    /// UNLISTENs that took effect on the client's own server since the last call: they hold here too.
    pub fn take_ended(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.ended)
    }

    /// A statement with these effects goes to the client's own server.
    pub(crate) fn note(&mut self, effects: &Effects) {
        let room = CHANNELS_MAX.saturating_sub(self.asked.len());
        let unlistens = effects.unlistens.iter().take(room);
        self.asked.extend(unlistens.map(Request::from_sql));
    }

    /// The client's own server tells a notification. True if the client hears it on the connection that listens for all.
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

    /// A statement on the client's own server is over. Notifications of its transaction come behind it, earlier ones have
    /// come before.
    #[inline]
    pub(crate) fn statement_over(&mut self) {
        self.heard.clear();
    }

    /// The client's own server has run an UNLISTEN of the client's. Those that it was sent are run in their order; one that
    /// the text did not show is not among them.
    pub(crate) fn has_unlistened(&mut self) {
        self.run.extend(self.asked.pop_front());
    }

    /// A COMMIT: a later ROLLBACK in the same text does not undo what came before.
    pub(crate) fn commit(&mut self) {
        self.committed.append(&mut self.run);
    }

    /// A ROLLBACK of some kind: what was run before may be undone. To hear too much does less harm than to hear too little.
    pub(crate) fn undo(&mut self) {
        self.run.clear();
    }

    /// An error: what was sent may not be run either.
    pub(crate) fn doubt(&mut self) {
        self.undo();
        self.asked.clear();
    }

    /// The client's own server has answered everything: the rest of what it was sent has not been run.
    pub(crate) fn all_answered(&mut self) {
        self.asked.clear();
    }

    /// DISCARD ALL was run, which no transaction takes back.
    pub(crate) fn discard(&mut self) {
        self.ended.push(Request::UnlistenAll);
    }

    /// The client's own server is outside of a transaction. A channel to which the transaction has listened again stays
    /// here: what was said in it is heard once, on one connection, in its order.
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
        // The last one was bound and never executed.
        subscriptions.all_answered();
        subscriptions.note(&unlisten(&[unlisten_of(b"e")]));
        subscriptions.has_unlistened();
        subscriptions.transaction_over();
        assert_eq!(subscriptions.take_ended(), [named(b"e")]);
        // No text showed this one.
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
            // Said before the transaction.
            assert!(subscriptions.hears(b"b"));
            subscriptions.statement_over();
            assert!(subscriptions.hears(b"a") && subscriptions.hears(b"a"));
            assert!(!subscriptions.hears(b"c"));
            subscriptions.transaction_over();
            let ended = subscriptions.take_ended();
            let ends_b = |request: &Request| *request == Request::Unlisten(b"b".as_slice().into());
            assert!(!ended.is_empty() && ended.iter().all(ends_b), "{ended:?}");
            // What is heard later is no part of that transaction.
            subscriptions.hears(b"a");
            subscriptions.note(&self::unlisten(&[asked]));
            subscriptions.has_unlistened();
            subscriptions.transaction_over();
            assert_eq!(subscriptions.take_ended().len(), 1);
        }
    }
}
