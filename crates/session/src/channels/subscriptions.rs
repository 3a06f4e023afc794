//! What one client listens to without a server of its own, and how that ends on a server that it has for something else.

use std::collections::HashSet;
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
    /// UNLISTENs in the transaction in progress on the client's own server.
    asked: Vec<Request>,
    /// Something in that transaction failed or was rolled back, perhaps those.
    is_doubtful: bool,
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

    /// True if the transaction in progress on the client's own server has ended this: what that server says of the channel
    /// comes of a LISTEN behind it, and is not told here any more.
    pub(crate) fn is_ending(&self, channel: &[u8]) -> bool {
        let ends = |asked: &Request| match asked {
            Request::Listen(_) => false,
            Request::Unlisten(name) => **name == *channel,
            Request::UnlistenAll => true,
        };
        !self.is_doubtful && self.asked.iter().any(ends)
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

    /// An error, or a ROLLBACK of some kind: what was asked for before may not have happened. To hear too much does less
    /// harm than to hear too little.
    pub(crate) fn doubt(&mut self) {
        self.is_doubtful = true;
    }

    /// DISCARD ALL was run, which no transaction takes back.
    pub(crate) fn discard(&mut self) {
        self.ended.push(Request::UnlistenAll);
    }

    /// The client's own server is outside of a transaction.
    pub(crate) fn transaction_over(&mut self) {
        if !std::mem::take(&mut self.is_doubtful) {
            self.ended.append(&mut self.asked);
        }
        self.asked.clear();
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

    #[test]
    fn a_channel_ends_with_an_unlisten_in_the_transaction() {
        let mut subscriptions = Subscriptions::default();
        let unlisten_a = weir_sql::Channel::Unlisten(b"a".as_slice().into());
        subscriptions.note(&unlisten(&[unlisten_a]));
        assert!(subscriptions.is_ending(b"a") && !subscriptions.is_ending(b"b"));
        subscriptions.doubt();
        assert!(!subscriptions.is_ending(b"a"));
        subscriptions.transaction_over();
        subscriptions.note(&unlisten(&[weir_sql::Channel::UnlistenAll]));
        assert!(subscriptions.is_ending(b"b"));
        subscriptions.transaction_over();
        assert!(!subscriptions.is_ending(b"b"));
    }

    #[test]
    fn an_unlisten_counts_when_its_transaction_is_committed() {
        let a = || weir_sql::Channel::Unlisten(b"a".as_slice().into());
        let mut subscriptions = Subscriptions::default();
        subscriptions.note(&unlisten(&[a(), weir_sql::Channel::UnlistenAll]));
        assert!(subscriptions.take_ended().is_empty());
        subscriptions.transaction_over();
        let ended = [
            Request::Unlisten(b"a".as_slice().into()),
            Request::UnlistenAll,
        ];
        assert_eq!(subscriptions.take_ended(), ended);
        subscriptions.note(&unlisten(&[a()]));
        subscriptions.doubt();
        subscriptions.transaction_over();
        subscriptions.transaction_over();
        assert!(subscriptions.take_ended().is_empty());
    }
}
