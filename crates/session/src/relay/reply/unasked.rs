//! Messages that belong to no request: notifications and changed parameters.

use std::sync::Arc;

use weir_wire::backend::{self, tag};
use weir_wire::encode;

use super::{ServerFault, Verdict, Work};
use crate::client::Client;
use crate::expected::Duty;
use crate::settings::{Settings, is_settable};

impl Work<'_, '_> {
    /// A client that listens to the channel on another connection too hears it from there. Its own has to show the number
    /// that it takes for its own: nobody else says anything on its server as long as that listens for it.
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
        // It came in a message of that length.
        let out = self.to_client.insert();
        let _ = encode::notification_response(out, *process, told.channel, told.payload);
        Verdict::Drop
    }

    /// A changed parameter belongs to whoever caused it: to the client, unless we are changing settings ourselves.
    pub(super) fn parameter_status(&mut self, body: &[u8]) -> Result<Verdict, ServerFault> {
        let bad = || ServerFault::Malformed(tag::PARAMETER_STATUS);
        let status = backend::ParameterStatus::parse(body).map_err(|_| bad())?;
        let name = std::str::from_utf8(status.name).map_err(|_| bad())?;
        let value = String::from_utf8_lossy(status.value);
        if self.server.reported.get(name) != Some(&*value) {
            Arc::make_mut(&mut self.server.reported).set(name, &value)?;
        }
        let for_nobody = self.asynchronous() == Verdict::Drop;
        let on_behalf = matches!(self.duty(), Some((_, Duty::Try)));
        if for_nobody && !self.server.tolerant && !on_behalf {
            return Ok(Verdict::Drop);
        }
        if !for_nobody && self.client.reported.get(name) == Some(&*value) {
            // PostgreSQL reports changes only: what a fence has set is none for its client.
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
            let began = self.client.began_with(name);
            if self.server.ran_unread && !for_nobody && is_default && began {
                // Reset, so the client's own is set again, and told, in front of its next message.
                Arc::make_mut(&mut self.server.settings).unset(name);
                return Ok(Verdict::Drop);
            }
            let same = Arc::ptr_eq(&self.client.settings, &self.server.settings);
            change(&mut self.server.settings);
            if same {
                self.client.settings = Arc::clone(&self.server.settings);
            } else if !self.server.tolerant {
                change(&mut self.client.settings);
            }
        }
        if self.is_held_back() {
            return Ok(Verdict::Drop);
        }
        if for_nobody {
            // The rollback of a client that left took back what it had set; and the client that is there is told of
            // what we did for it when it is done.
            return Ok(Verdict::Drop);
        }
        if self.server.fence.is_some() || self.server.ran_unread {
            // What the fence has set is not reported yet, but known to the client; what a text has reset is not told.
            Arc::make_mut(&mut self.client.reported).set(name, &value)?;
        } else {
            self.client.reported = Arc::clone(&self.server.reported);
        }
        Ok(Verdict::Keep)
    }
}
