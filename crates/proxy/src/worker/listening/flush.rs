//! Order of notifications and replies. As in PostgreSQL, a listening client receives notifications sent before its
//! ReadyForQuery, its own included. So the ReadyForQuery waits until the listening connection has delivered everything
//! that was committed by then. The client keeps its server meanwhile, so that no other client sends notifications
//! there.

use std::sync::Arc;

use weir_session::channels::Seat;
use weir_wire::backend::NotificationResponse;
use weir_wire::encode;
use weir_wire::frame::{Side, frame};

use super::super::Worker;
use super::super::ids::{ClientId, number};
use super::super::slots::{Client, Server};
use super::super::tables::Tables;
use super::{Asking, Wish};
use crate::driver::{Driver, Why};
use crate::mailbox::Message;

impl Client {
    /// Notes which server process the client gets. Notifications from this process are the client's own, unless another
    /// client used the server last. In that case [`Worker::leased`] sets the process once earlier notifications have
    /// arrived.
    #[inline]
    pub(in super::super) fn takes_over(&mut self, server: &Server) {
        if let Some(subscriber) = self.subscriber.as_deref_mut() {
            let is_own = server.session.user() == self.id;
            subscriber.own = is_own.then_some(server.facts.pid);
        }
    }

    /// Returns a copy of the notification that shows the client its own process number. None if the client did not send
    /// it.
    pub(super) fn own_notification(&self, message: &[u8]) -> Option<Arc<[u8]>> {
        let own = self
            .subscriber
            .as_ref()?
            .own
            .filter(|_| self.lease.is_some())?;
        let frame = frame(message, Side::Backend).ok()??;
        let said = NotificationResponse::parse(frame.body).ok()?;
        let number = self.identity.cancel_pid;
        if said.pid != own || number == 0 {
            return None;
        }
        let mut renamed = Vec::with_capacity(message.len());
        encode::notification_response(&mut renamed, number, said.channel, said.payload).ok()?;
        Some(renamed.into())
    }
}

impl<D: Driver> Worker<D> {
    /// Requests delivery of all notifications sent so far, if a client's ReadyForQuery waits for them.
    pub(super) fn flush_if_behind(&mut self, id: ClientId) {
        let seat = self.seat(id);
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        if !client.session.is_behind() {
            return;
        }
        let subscriber = client.subscriber.get_or_insert_default();
        if std::mem::replace(&mut subscriber.is_flushing, true) {
            return;
        }
        // The server's next bytes are not read until then.
        if let Some(server) = client
            .lease
            .and_then(|server| self.tables.servers.must_get(server))
        {
            self.driver.stop(server.key, Why::Flush);
        }
        self.mail_wish(seat, Wish::Flush);
    }

    /// Continues with a client's ReadyForQuery: all notifications before it have arrived.
    pub(super) fn flushed(&mut self, seat: Seat) {
        let Some(client) = self.tables.seated(seat) else {
            return;
        };
        if let Some(subscriber) = client.subscriber.as_deref_mut() {
            subscriber.is_flushing = false;
        }
        if !client.session.is_behind() || !client.session.subscriptions_mut().is_told() {
            return;
        }
        let key = client.key;
        let server_id = client.lease;
        self.send_mail(seat.client.into());
        let Some(server_id) = server_id else {
            debug_assert!(false, "it keeps its server until it is told");
            return;
        };
        if let Some(server) = self.tables.servers.must_get(server_id) {
            if self.driver.is_full(key) {
                self.driver.stop(server.key, Why::Partner);
            }
            self.driver.go(server.key, Why::Flush);
        }
        // The ReadyForQuery, and the bytes behind it.
        self.server_received(server_id, &[]);
    }

    /// Returns where a client is, for the listener.
    pub(super) fn seat(&self, id: ClientId) -> Seat {
        Seat {
            worker: self.number,
            client: number(id),
        }
    }

    /// Sends a client's wish to the listener of its database.
    pub(super) fn mail_wish(&mut self, seat: Seat, wish: Wish) {
        let client = self.tables.clients.must_get(seat.client.into());
        let Some(lane) = client.and_then(|client| self.tables.lanes.must_get(client.lane)) else {
            return;
        };
        let asking = Asking {
            pool: Arc::clone(&lane.global),
            seat,
            wish,
        };
        let worker = self.listening_worker(&asking.pool.group.key.database);
        self.mail(worker, Message::Listen(Box::new(asking)));
    }
}

impl Tables {
    /// Marks notifications from a client's server as its own: those that other clients sent there have arrived.
    pub(super) fn leased(&mut self, seat: Seat, pid: u32) {
        let Some(client) = self.seated(seat) else {
            return;
        };
        let lease = client.lease;
        let is_server = |server: &Server| server.facts.pid == pid;
        let is_its = lease.and_then(|server| self.servers.must_get(server));
        if !is_its.is_some_and(is_server) {
            return;
        }
        if let Some(subscriber) = self
            .clients
            .must_get_mut(seat.client.into())
            .and_then(|c| c.subscriber.as_deref_mut())
        {
            subscriber.own = Some(pid);
        }
    }
}
