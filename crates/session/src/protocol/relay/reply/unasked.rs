//! Handles messages that answer no request: notifications and changed parameters.

use std::sync::Arc;

use weir_wire::backend::{self, tag};
use weir_wire::encode;

use super::{ServerFault, Verdict, Work};
use crate::client::Client;
use crate::expected::{Duty, Kind};
use crate::rarities::ServerRarity;
use crate::server::HostFacts;
use crate::settings::{Settings, is_host_fact, is_settable};

impl Work<'_, '_> {
    /// Decides on a notice. The client saw notices about a statement when it prepared it, so those about our copies are
    /// dropped.
    pub(super) fn notice(&mut self, body: &[u8]) -> Verdict {
        let parsed = (self.server.queue.front()).filter(|front| front.kind == Kind::Parse);
        if let Some(statement) = parsed.and_then(|front| front.statement.as_ref()) {
            statement.has_talked();
        }
        match self.duty() {
            Some((_, duty)) if duty != Duty::Forward => Verdict::Drop,
            _ if self.keeps_warning(body) => Verdict::Drop,
            _ => Verdict::Keep,
        }
    }

    /// Handles a notification from the leased server. If the client is subscribed to its channel through the hub, it
    /// gets the notification from there. In a notification of its own, the server's process id is replaced by the one
    /// the client knows. No other client uses the server while it listens for this client.
    pub(super) fn notified(&mut self, body: &[u8]) -> Verdict {
        let Ok(told) = backend::NotificationResponse::parse(body) else {
            return Verdict::Keep;
        };
        let Client {
            process,
            subscriptions,
            ..
        } = &mut *self.client;
        if subscriptions
            .as_mut()
            .is_some_and(|own| own.hears(told.channel))
        {
            return Verdict::Drop;
        }
        if *process == 0 || told.pid != self.server.process {
            return Verdict::Keep;
        }
        // Cannot fail: it came in a message of that length.
        let out = self.to_client.insert();
        let _ = encode::notification_response(out, *process, told.channel, told.payload);
        Verdict::Drop
    }

    /// Handles a changed parameter, which is the client's unless Weir itself is changing settings.
    pub(super) fn parameter_status(&mut self, body: &[u8]) -> Result<Verdict, ServerFault> {
        let bad = || ServerFault::Malformed(tag::PARAMETER_STATUS);
        let status = backend::ParameterStatus::parse(body).map_err(|_| bad())?;
        let name = std::str::from_utf8(status.name).map_err(|_| bad())?;
        let value = String::from_utf8_lossy(status.value);
        if self.server.host_facts != HostFacts::Shown && is_host_fact(name) {
            if name == "in_hot_standby" {
                self.server.note_standby(&value);
            }
            return Ok(Verdict::Drop);
        }
        if self.server.reported.get(name) != Some(&*value) {
            Arc::make_mut(&mut self.server.reported).set(name, &value)?;
        }
        let for_nobody = self.asynchronous() == Verdict::Drop;
        let on_behalf = matches!(self.duty(), Some((_, Duty::Try)));
        if for_nobody && !self.server.is_tolerant() && !on_behalf {
            return Ok(Verdict::Drop);
        }
        if !for_nobody && self.client.reported.get(name) == Some(&*value) {
            // PostgreSQL reports only changes; a value that the fence has set is no change for the client.
            return Ok(Verdict::Drop);
        }
        if is_settable(name) {
            let default = self.server.default_of(name).map(str::to_owned);
            let is_default = default.as_deref() == Some(&*value);
            let change = |settings: &mut Arc<Settings>| {
                let settings = Arc::make_mut(settings);
                if is_default {
                    settings.unset(name);
                } else {
                    settings.set(name, &value);
                }
            };
            let is_anothers = self.client.began_with_another(name, &value);
            if self.server.rarities.has(ServerRarity::RanUnread)
                && !for_nobody
                && is_default
                && is_anothers
            {
                // The value was reset, so the client's own value is set again, and reported, before its next message.
                Arc::make_mut(&mut self.server.settings).unset(name);
                return Ok(Verdict::Drop);
            }
            let same = Arc::ptr_eq(&self.client.settings, &self.server.settings);
            change(&mut self.server.settings);
            if same {
                self.client.settings = Arc::clone(&self.server.settings);
            } else if !self.server.is_tolerant() {
                change(&mut self.client.settings);
            }
        }
        if self.is_held_back() {
            return Ok(Verdict::Drop);
        }
        if for_nobody {
            // After a rollback for a client that left, its values are gone. A present client is told of our changes
            // when our request is done.
            return Ok(Verdict::Drop);
        }
        if self.server.fence.is_some() || self.server.rarities.has(ServerRarity::RanUnread) {
            // Values set by the fence are not reported yet, but the client knows them. Values reset by a text are not
            // reported.
            Arc::make_mut(&mut self.client.reported).set(name, &value)?;
        } else {
            self.client.reported = Arc::clone(&self.server.reported);
        }
        Ok(Verdict::Keep)
    }
}
