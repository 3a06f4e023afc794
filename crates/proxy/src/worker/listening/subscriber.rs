//! Clients' side of listening: takes LISTEN and UNLISTEN from their input, and delivers notifications between messages.

use std::sync::Arc;
use std::time::Duration;

use weir_pool::Moment;
use weir_session::channels::{
    self, CHANNELS_MAX, Channel, Limits, Mail, Overflow, Recognized, Request, Seat, Subscriptions,
};
use weir_session::fault::Fault;
use weir_session::relay::Batch;
use weir_stats::Blame;
use weir_wire::backend::{NotificationResponse, TransactionStatus};
use weir_wire::encode;
use weir_wire::frame::{Side, frame};

use super::super::client::Leaving;
use super::super::ids::{ClientId, GroupId, ServerId};
use super::super::keeping::Kept;
use super::super::measure::code_of;
use super::super::slots::{Client, Phase, Stage};
use super::super::tables::Tables;
use super::super::welcome::as_fatal;
use super::super::{Missing, Worker};
use super::{Heard, Leaver, Loss, Wish};
use crate::driver::Driver;
use crate::mailbox::Message;

/// Bytes of notifications that are combined in one send.
const SEND_MAX: usize = 256 * 1024;

/// Time for which a client may leave more than [`UNREAD_BYTES`] unread.
const UNREAD_MAX: Duration = Duration::from_secs(60);

/// Bytes of notifications that may wait without a time limit for a client that does not read.
const UNREAD_BYTES: usize = 1024 * 1024;

/// Name of the limit [`UNREAD_MAX`] in the error.
const NOT_READ: &str = "not read for 60 seconds";

/// State of a client that listens or is about to listen.
#[derive(Default)]
pub(in super::super) struct Subscriber {
    /// Requests that are not answered yet.
    waiting: Option<Waiting>,
    /// True if the client's input is a request to listen or unlisten that waits for its server's answer about session
    /// state.
    is_next: bool,
    /// Notifications that may not be sent yet.
    pub(super) mail: Mail,
    /// Time since which notifications could be sent if the client read.
    unread_since: Option<Moment>,
    /// Process of the client's server, once all notifications that other clients sent there have arrived.
    pub(super) own: Option<u32>,
    /// True if the listener was asked to deliver everything before the client's ReadyForQuery.
    pub(super) is_flushing: bool,
}

/// Requests that are carried out one by one and answered together.
struct Waiting {
    requests: Vec<Request>,
    /// Number of requests done.
    done: usize,
    /// Bytes that begin the answer.
    before: Vec<u8>,
}

impl Waiting {
    fn next(&self) -> Option<&Request> {
        self.requests.get(self.done)
    }
}

impl Subscriber {
    /// True if the client has not read for too long.
    fn is_unread(&self, now: Moment) -> bool {
        let is_long = |since: Moment| since.plus(UNREAD_MAX) <= now;
        self.mail.bytes() > UNREAD_BYTES && self.unread_since.is_some_and(is_long)
    }

    /// Drops the notifications that came while the request's transaction ran, as PostgreSQL does. Keeps them if the
    /// client has unread notifications from before: PostgreSQL would have sent those.
    fn forget(&mut self, request: &Request) {
        if self.unread_since.is_none() {
            self.mail.forget(request);
        }
    }

    /// True if a request to listen or unlisten is not answered yet.
    pub(in super::super) fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }
}

impl Client {
    /// Drops subscriptions and listening state that are no longer used.
    pub(super) fn drop_unused_subscriber(&mut self) {
        let is_unused = |own: &Subscriptions| own.is_empty() && !own.is_owed_ready();
        if self.session.subscriptions().is_some_and(is_unused) {
            self.session.drop_subscriptions();
        }
        let is_used = |subscriber: &Subscriber| {
            subscriber.is_waiting() || subscriber.is_next || !subscriber.mail.is_empty()
        };
        if self.session.subscriptions().is_none()
            && !self.subscriber.as_deref().is_some_and(is_used)
        {
            self.subscriber = None;
        }
    }
}

impl<D: Driver> Worker<D> {
    // --- requests ---

    /// Takes a request to listen or unlisten from a client without a server. Returns the number of bytes
    /// handled, or None if the input is something else and needs a server.
    #[inline]
    pub(in super::super) fn listen_request(
        &mut self,
        id: ClientId,
        batch: &Batch<'_>,
    ) -> Option<usize> {
        let client = self.tables.clients.must_get_mut(id)?;
        if let Some(subscriber) = client.subscriber.as_deref_mut() {
            // The server that had to answer first may have died instead.
            subscriber.is_next = false;
        }
        let group = self.tables.groups.must_get_mut(client.group)?;
        let rules = group.rules;
        let found = match channels::request(&client.session, &mut group.judge, rules, batch) {
            Recognized::Nothing => return None,
            Recognized::More => None,
            Recognized::Request(found) => Some(found),
        };
        if client.session.pin().is_some() || !is_in_listening_encoding(client) {
            return None;
        }
        let Some(found) = found else { return Some(0) };
        found.take(
            &mut client.session,
            &mut self.tables.registry,
            &group.global.proven,
        );
        client.request_at = self.now;
        let waiting = Waiting {
            requests: found.requests,
            done: 0,
            before: found.before,
        };
        self.listen(id, waiting);
        Some(found.consumed)
    }

    /// Releases a client's server if the input is a request to listen or unlisten, which needs no server. Applies if
    /// the server is only kept, has only prepared something, or is being asked about its session state. Returns true if
    /// the client has released its server. A request that has to wait for the server's answer is marked for
    /// [`Worker::waits_to_listen`].
    #[inline]
    pub(in super::super) fn lets_go_to_listen(
        &mut self,
        id: ClientId,
        server_id: ServerId,
        input: &[u8],
    ) -> bool {
        let Some(server) = self.tables.servers.must_get(server_id) else {
            return false;
        };
        let may_go = server.kept != Kept::No
            || server.session.is_asked_only()
            || server.session.has_open_batch();
        may_go && server.lease == Some(id) && self.lets_go_for(id, server_id, input)
    }

    fn lets_go_for(&mut self, id: ClientId, server_id: ServerId, input: &[u8]) -> bool {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return false;
        };
        let Some(group) = self.tables.groups.must_get_mut(client.group) else {
            return false;
        };
        let batch = Batch::scan(input);
        let found = channels::request(&client.session, &mut group.judge, group.rules, &batch);
        let is_outside = self
            .tables
            .servers
            .must_get(server_id)
            .is_some_and(|server| server.session.status() == TransactionStatus::Idle);
        if found == Recognized::Nothing || client.session.pin().is_some() || !is_outside {
            return false;
        }
        if let Some(server) = self.tables.servers.must_get_mut(server_id)
            && server.session.has_open_batch()
        {
            if !matches!(found, Recognized::Request(_)) {
                return false;
            }
            let mut sync = Vec::new();
            server.session.end_batch(&mut sync);
            self.driver.send(server.key, &sync);
        } else if self.release_kept(server_id) {
            return true;
        } else if let Some(server) = self.tables.servers.must_get(server_id)
            && !server.session.is_asked_only()
        {
            // The server has begun something that only the client can end.
            return false;
        }
        let subscriber = self
            .tables
            .clients
            .must_get_mut(id)
            .map(|client| &mut client.subscriber);
        if let Some(subscriber) = subscriber {
            subscriber.get_or_insert_default().is_next = true;
        }
        false
    }

    /// Continues with the next request that changes a subscription. The answer follows the last request.
    fn listen(&mut self, id: ClientId, mut waiting: Waiting) {
        let seat = self.seat(id);
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        let is_so = |request: &Request| match (client.session.subscriptions(), request) {
            (Some(own), _) => own.is_so(request),
            (None, Request::Listen(_)) => false,
            (None, _) => true,
        };
        while waiting.next().is_some_and(is_so) {
            waiting.done += 1;
        }
        let Some(request) = waiting.next() else {
            return self.answer_requests(id, waiting, None);
        };
        let count = client.session.subscriptions().map_or(0, Subscriptions::len);
        if count >= CHANNELS_MAX && matches!(request, Request::Listen(_)) {
            let mut error = Vec::new();
            Fault::TooManyChannels.encode(&mut error);
            return self.answer_requests(id, waiting, Some(&error));
        }
        let wish = Wish::Request(request.clone());
        client.subscriber.get_or_insert_default().waiting = Some(waiting);
        self.mail_wish(seat, wish);
    }

    /// Sends the answer to a client's requests; `error` is a whole ErrorResponse.
    fn answer_requests(&mut self, id: ClientId, waiting: Waiting, error: Option<&[u8]>) {
        let mut message = waiting.before;
        match error {
            Some(error) => message.extend_from_slice(error),
            None => {
                for request in &waiting.requests {
                    // A constant text fits.
                    let _ = encode::command_complete(&mut message, request.tag());
                }
            }
        }
        // Six bytes always fit.
        let _ = encode::ready_for_query(&mut message, TransactionStatus::Idle);
        if let Some(client) = self.tables.clients.must_get_mut(id)
            && let Some(group) = self.tables.groups.must_get_mut(client.group)
        {
            client.replied_at = self.now;
            group.counters.queries += 1;
            group.counters.transactions += 1;
            group.counters.errors += u64::from(error.is_some());
            group.counters.bytes_sent += message.len() as u64;
        }
        if let Some(error) = error {
            self.count_error(Blame::Server, code_of(error));
        }
        self.send_to_client(id, &message);
    }

    // --- messages from the listening connection ---

    pub(in super::super) fn heard(&mut self, heard: Vec<Heard>) {
        self.heard_one();
        // Clients with new notifications: each gets all of them in one send.
        let mut told = Vec::new();
        let limits = self.mail_limits();
        for one in heard {
            if let Heard::Notification(message, to) = one {
                self.keep_mails(&message, &to, limits, &mut told);
                continue;
            }
            self.deliver_mails(&mut told);
            match one {
                Heard::Done(seat) => self.request_done(seat, None),
                Heard::Flushed(seat) => self.flushed(seat),
                Heard::Leased(seat, pid) => self.tables.leased(seat, pid),
                Heard::Refused(seat, body) => self.request_done(seat, Some(&body)),
                Heard::Lost(seats, loss) => self.stopped_hearing(&seats, &loss),
                Heard::Notification(..) => {}
            }
        }
        self.deliver_mails(&mut told);
    }

    /// Limits of the queue of each client, as configured.
    fn mail_limits(&self) -> Limits {
        let settled = self.global.settled();
        let global = &settled.settings.global;
        let count = match global.listen_queue_size {
            0 => usize::MAX,
            count => usize::try_from(count).unwrap_or(usize::MAX),
        };
        let bytes = usize::try_from(global.listen_queue_bytes).unwrap_or(usize::MAX);
        Limits { bytes, count }
    }

    fn keep_mails(
        &mut self,
        message: &Arc<[u8]>,
        to: &[Seat],
        limits: Limits,
        told: &mut Vec<ClientId>,
    ) {
        let frame = frame(message, Side::Backend).ok().flatten();
        let notification = frame.and_then(|frame| NotificationResponse::parse(frame.body).ok());
        let Some(notification) = notification else {
            debug_assert!(false, "the hub has read it");
            return;
        };
        for seat in to {
            if self.keep_mail(*seat, notification.channel, message, limits) {
                told.push(seat.client.into());
            }
        }
    }

    fn deliver_mails(&mut self, told: &mut Vec<ClientId>) {
        told.sort_unstable();
        told.dedup();
        for id in told.drain(..) {
            self.deliver_mail(id);
        }
    }

    /// Handles the listener's answer to a request: done, or refused with an ErrorResponse of this body.
    fn request_done(&mut self, seat: Seat, refusal: Option<&[u8]>) {
        let Some(client) = self.tables.seated(seat) else {
            return;
        };
        let waiting = client
            .subscriber
            .as_deref_mut()
            .map(|subscriber| subscriber.waiting.take());
        let Some(mut waiting) = waiting.flatten() else {
            return self.global.broken.report(Missing::State);
        };
        let error = refusal.map(as_it_was);
        if let (None, Some(request)) = (&error, waiting.next()) {
            let own = client.session.subscriptions_mut();
            own.sit(seat);
            own.done(request);
            waiting.done += 1;
        }
        client.drop_unused_subscriber();
        match error {
            None => self.listen(seat.client.into(), waiting),
            Some(error) => self.answer_requests(seat.client.into(), waiting, Some(&error)),
        }
        if self.ending.has_begun() {
            self.close_if_idle(seat.client.into());
        }
        // Input that the client has sent meanwhile.
        self.take_input(seat.client.into());
    }

    fn stopped_hearing(&mut self, seats: &[Seat], loss: &Loss) {
        for seat in seats {
            let Some(client) = self.tables.seated(*seat) else {
                continue;
            };
            // A request that came too late for this listener may reach the next one: the client's end withdraws it.
            let waiting = client
                .subscriber
                .take()
                .and_then(|subscriber| subscriber.waiting);
            client.subscriber = waiting.map(|waiting| {
                Box::new(Subscriber {
                    waiting: Some(waiting),
                    ..Subscriber::default()
                })
            });
            client.session.drop_subscriptions();
            if self.tables.is_in_a_message(seat.client.into()) {
                // No error can be sent in the middle of a message.
                self.remove_client(seat.client.into(), Leaving::Lost, "listening server lost");
                continue;
            }
            match loss {
                Loss::Fault(fault) => self.fail_client(seat.client.into(), fault),
                Loss::LastWord(body) => {
                    self.end_client(
                        seat.client.into(),
                        &as_fatal(body),
                        "listening server closed",
                    );
                }
            }
        }
    }

    // --- delivery ---

    /// Puts a notification into a client's queue. True if it is the first there.
    fn keep_mail(
        &mut self,
        seat: Seat,
        channel: &[u8],
        message: &Arc<[u8]>,
        limits: Limits,
    ) -> bool {
        let now = self.now;
        // The client may have stopped listening while the notification was on its way.
        let listens = |client: &mut Client| {
            let subscriptions = client.session.subscriptions();
            subscriptions.is_some_and(|own| own.contains(channel))
        };
        if !self.tables.seated(seat).is_some_and(listens) {
            return false;
        }
        for is_second in [false, true] {
            let Some(client) = self.tables.seated(seat) else {
                return false;
            };
            let own = client.own_notification(message);
            let message = own.as_ref().unwrap_or(message);
            let subscriber = client.subscriber.get_or_insert_default();
            if subscriber.is_unread(now) {
                self.end_full(seat.client.into(), NOT_READ);
                return false;
            }
            match subscriber.mail.push(message, limits) {
                // If more notifications are queued, an event that sends them is already due.
                Ok(()) => return subscriber.mail.len() == 1,
                Err(Overflow::Bytes) if is_second => {
                    self.end_full(seat.client.into(), "listen_queue_bytes")
                }
                Err(Overflow::Count) if is_second => {
                    self.end_full(seat.client.into(), "listen_queue_size")
                }
                // The client may take the queued notifications now.
                Err(_) => self.deliver_mail(seat.client.into()),
            }
        }
        false
    }

    /// Ends a client whose queue is full: it would miss a notification. `limit` names the limit.
    fn end_full(&mut self, id: ClientId, limit: &'static str) {
        let fault = Fault::ListenQueueFull(limit);
        let group = self.tables.clients.must_get(id).map(|client| client.group);
        if let Some(group) = group.and_then(|group| self.tables.groups.must_get_mut(group)) {
            group.counters.listen_overflows += 1;
        }
        if self.tables.is_in_a_message(id) {
            return self.remove_client(id, Leaving::Lost, &fault.text());
        }
        self.fail_client(id, &fault);
    }

    /// Sends a client its waiting notifications, if PostgreSQL could send them now: between messages, outside a
    /// transaction.
    #[inline]
    pub(in super::super) fn deliver_mail(&mut self, id: ClientId) {
        // An earlier step may have ended the client.
        let Some(client) = self.tables.clients.get(id) else {
            return;
        };
        let has_mail = |subscriber: &Subscriber| !subscriber.mail.is_empty();
        if client.subscriber.as_deref().is_some_and(has_mail) {
            self.deliver_now(id);
        }
    }

    fn deliver_now(&mut self, id: ClientId) {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        let may_be_told = match client.lease {
            None => matches!(client.phase, Phase::Ready),
            Some(server) => self.tables.servers.must_get(server).is_some_and(|server| {
                server.lease == Some(id)
                    && matches!(server.stage, Stage::Leased)
                    && server.session.is_free()
            }),
        };
        if !may_be_told {
            return;
        }
        if !self.driver.is_full(client.key) {
            self.send_some_mail(id, false);
        } else if let Some(subscriber) = client.subscriber.as_deref_mut() {
            subscriber.unread_since.get_or_insert(self.now);
        }
    }

    /// Sends a client all waiting notifications.
    pub(super) fn send_mail(&mut self, id: ClientId) {
        self.send_some_mail(id, true);
    }

    /// Sends a client its waiting notifications: all of them, or as many as its socket takes.
    fn send_some_mail(&mut self, id: ClientId, all: bool) {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        let Some(subscriber) = client.subscriber.as_deref_mut() else {
            return self.global.broken.report(Missing::State);
        };
        let mut messages = std::mem::take(&mut self.answers);
        let (mut count, mut bytes) = (0, 0);
        while !subscriber.mail.is_empty() && (all || !self.driver.is_full(client.key)) {
            messages.clear();
            count += subscriber.mail.take(&mut messages, SEND_MAX);
            bytes += messages.len();
            self.driver.send(client.key, &messages);
        }
        subscriber.unread_since = (!subscriber.mail.is_empty()).then_some(self.now);
        client.drop_unused_subscriber();
        if let Some(group) = self.tables.groups.must_get_mut(client.group) {
            group.counters.bytes_sent += bytes as u64;
            group.counters.notifications += count as u64;
        }
        super::super::trim(&mut messages);
        self.answers = messages;
    }

    // --- the end ---

    /// Follows the replies to a listening client: ends the subscriptions that it ended on its own server, and sends
    /// waiting notifications if allowed.
    #[inline]
    pub(in super::super) fn after_hearing(&mut self, id: ClientId) {
        let listens = |client: &Client| client.subscriber.is_some();
        // The replies may have ended the client.
        if self.tables.clients.get(id).is_some_and(listens) {
            self.end_unlistened(id);
            self.deliver_mail(id);
            self.flush_if_behind(id);
            self.take_next(id);
        }
    }

    /// Handles the input that waited for an answer of the client's server.
    fn take_next(&mut self, id: ClientId) {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        let is_next = |subscriber: &mut Subscriber| std::mem::take(&mut subscriber.is_next);
        if client.subscriber.as_deref_mut().is_some_and(is_next) {
            client.drop_unused_subscriber();
            self.take_input(id);
        }
    }

    fn end_unlistened(&mut self, id: ClientId) {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        if client.session.subscriptions().is_none() {
            return;
        }
        let group = client.group;
        for request in client.session.subscriptions_mut().take_ended() {
            let Some(client) = self.tables.clients.must_get_mut(id) else {
                return;
            };
            let subscriptions = client.session.subscriptions_mut();
            if subscriptions.is_so(&request) {
                continue;
            }
            subscriptions.done(&request);
            if let Some(subscriber) = client.subscriber.as_deref_mut() {
                subscriber.forget(&request);
            }
            let channel = match request {
                Request::Unlisten(channel) => Some(channel),
                Request::Listen(_) | Request::UnlistenAll => None,
            };
            self.mail_end(id, group, channel);
        }
        if let Some(client) = self.tables.clients.must_get_mut(id) {
            client.drop_unused_subscriber();
        }
    }

    /// Ends the subscriptions of a client that leaves.
    pub(in super::super) fn stop_listening(&mut self, id: ClientId, client: &mut Client) {
        if client.subscriber.take().is_some() {
            self.mail_end(id, client.group, None);
        }
    }

    fn mail_end(&mut self, id: ClientId, group: GroupId, channel: Option<Channel>) {
        let Some(group) = self.tables.groups.must_get(group) else {
            return;
        };
        let leaver = Leaver {
            database: Arc::clone(&group.global.key.database),
            seat: self.seat(id),
            channel,
        };
        let worker = self.listening_worker(&leaver.database);
        self.mail(worker, Message::ListenEnd(Box::new(leaver)));
    }
}

impl Tables {
    /// True if the client's input is a request to listen or unlisten that has to wait for its server's answer to a
    /// question of ours.
    #[inline]
    pub(in super::super) fn waits_to_listen(&self, id: ClientId) -> bool {
        let subscriber = self
            .clients
            .must_get(id)
            .and_then(|client| client.subscriber.as_deref());
        subscriber.is_some_and(|subscriber| subscriber.is_next)
    }

    /// Returns the client that a message is for. None if the client has left while the message was on its way.
    pub(super) fn seated(&mut self, seat: Seat) -> Option<&mut Client> {
        self.clients.get_mut(seat.client.into())
    }

    /// True if a client's server is in the middle of a message to the client.
    fn is_in_a_message(&self, id: ClientId) -> bool {
        let server = self.clients.must_get(id).and_then(|client| client.lease);
        let server = server.and_then(|server| self.servers.must_get(server));
        server.is_some_and(|server| server.lease == Some(id) && server.session.is_mid_message())
    }
}

/// True if names and payloads are the same bytes for this client as on the listening connection, whose encoding is
/// UTF-8. Databases in SQL_ASCII convert nothing. A client with another encoding gets a server of its own.
fn is_in_listening_encoding(client: &Client) -> bool {
    let reported = client.session.reported();
    let encoding = reported.get("client_encoding");
    encoding.is_none_or(|encoding| encoding == "UTF8")
        || reported.get("server_encoding") == Some("SQL_ASCII")
}

/// Returns an ErrorResponse with this body.
fn as_it_was(body: &[u8]) -> Vec<u8> {
    let mut message = vec![weir_wire::backend::tag::ERROR_RESPONSE];
    // The body came in a message of that length.
    let length = u32::try_from(body.len() + 4).unwrap_or(u32::MAX);
    message.extend_from_slice(&length.to_be_bytes());
    message.extend_from_slice(body);
    message
}
