//! Handles failures in front of a client's requests: settings that must be applied before them ([settings
//! fence](../../../../../docs/internals/decisions/settings-fence.md)).

use std::sync::Arc;

use weir_wire::backend::{self, TransactionStatus};

use super::reply::{ServerFault, Work};
use super::request::{tell, tell_but_reset};
use crate::expected::{Duty, Expected, Kind, Required};
use crate::rarities::ServerRarity;
use crate::server::{INTERRUPTED_MAX, INTERRUPTS, Server};

impl Work<'_, '_> {
    /// Reports changed values to the client before the first ReadyForQuery behind a fence. PostgreSQL reports the
    /// values that the fence has set before that ReadyForQuery. The same applies behind a text that was not read:
    /// values that it may have reset are reported only if they stay so.
    #[cold]
    pub(super) fn report(&mut self) {
        let Server { queue, status, .. } = &*self.server;
        let is_over = *status == TransactionStatus::Idle && queue.is_ours();
        if self.client.reported == self.server.reported {
            self.client.reported = Arc::clone(&self.server.reported);
        } else if self.server.rarities.has(ServerRarity::RanUnread) && is_over {
            tell_but_reset(self.client, self.server, self.to_client.insert());
        } else {
            tell(self.client, &self.server.reported, self.to_client.insert());
        }
    }

    /// True if the error interrupts a required request of ours, which will be sent again.
    ///
    /// # Errors
    /// Fails if a required request has failed for another reason, or too often.
    pub(super) fn is_interrupted(&mut self, body: &[u8]) -> Result<bool, ServerFault> {
        let server = &mut *self.server;
        let (is_dying, is_tolerant) = (server.is_dying(), server.is_tolerant());
        let Some(required) = server.queue.required_in_front().filter(|_| !is_dying) else {
            return Ok(false);
        };
        if is_tolerant || !is_interrupt(body) || required.interrupted >= INTERRUPTED_MAX {
            return Err(ServerFault::Refused(body.into()));
        }
        required.is_due = true;
        Ok(true)
    }

    /// True if the error is forwarded to the client: at least one of the skipped requests (last first) is its own.
    /// Requests made on its behalf do not count behind a fence, since they are sent again.
    pub(super) fn is_for_client(skipped: &[Expected]) -> bool {
        let is_fence = skipped.last().is_some_and(|first| first.duty.is_fence());
        skipped.iter().any(|entry| match entry.duty {
            Duty::Answer | Duty::Forward => true,
            Duty::Fence | Duty::Guard | Duty::Swallow => false,
            Duty::Learn | Duty::Try => !is_fence,
        })
    }

    /// Handles the failure of a fence, after which PostgreSQL skips all that follows. If the fence was interrupted, the
    /// client gets that error as for its own request, and the settings are sent again first.
    pub(super) fn break_fence(
        &mut self,
        skipped: &mut [Expected],
        body: &[u8],
    ) -> Result<(), ServerFault> {
        if skipped
            .last()
            .is_some_and(|first| first.duty == Duty::Guard)
        {
            return self.break_guard(skipped, body);
        }
        let server = &mut *self.server;
        let sql = server.fence.take();
        let (Some(sql), true, false) = (sql, is_interrupt(body), server.is_tolerant()) else {
            return Err(ServerFault::Refused(body.into()));
        };
        let required = Required {
            sql,
            interrupted: 1,
            is_due: false,
        };
        server.interrupted.push((Duty::Swallow, Box::new(required)));
        // The comparison for the client's next message is asked for again.
        server.comparison = None;
        for entry in skipped.iter_mut().rev() {
            if let Some(required) = entry.required.take() {
                server.interrupted.push((entry.duty, required));
            }
        }
        let sync = self.missing_sync(skipped);
        self.end_fence(sync);
        Ok(())
    }

    /// Handles the failure of a guard: the client's batch runs on another server. If the guard was interrupted, the client
    /// gets that error as for its own request.
    fn break_guard(&mut self, skipped: &[Expected], body: &[u8]) -> Result<(), ServerFault> {
        let sync = self.missing_sync(skipped);
        // The comparison for the client's next message is asked for again, or not needed here.
        self.server.comparison = None;
        if skipped.iter().any(|entry| entry.required.is_some()) {
            return Err(ServerFault::Refused(body.into()));
        }
        if is_interrupt(body) {
            self.comes_again();
            self.end_fence(sync);
        } else if self.refuse_by_guard() {
            if sync.is_some() {
                self.end_fence(Some(Duty::Swallow));
            }
        } else {
            return Err(ServerFault::Refused(body.into()));
        }
        Ok(())
    }

    /// Returns the duty of the Sync that ends what a failed fence makes PostgreSQL skip (last request first). None if the
    /// client sends that Sync.
    fn missing_sync(&self, skipped: &[Expected]) -> Option<Duty> {
        let of_client = |entry: &&Expected| matches!(entry.duty, Duty::Answer | Duty::Forward);
        let mut theirs = skipped.iter().filter(of_client);
        let is_query = |entry: &Expected| matches!(entry.kind, Kind::FunctionCall | Kind::Query);
        // A batch of the client's ends with its own Sync.
        match theirs.clone().next() {
            _ if !self.server.queue.is_skipping() => None,
            None => Some(Duty::Swallow),
            Some(_) if theirs.any(is_query) => Some(Duty::Forward),
            Some(_) => None,
        }
    }

    /// Makes the transaction of a failed fence end, behind this Sync of ours if one is missing.
    fn end_fence(&mut self, sync: Option<Duty>) {
        self.server.broken_fence = Some(sync);
        self.server.rarities.insert(ServerRarity::BrokenFence);
    }
}

/// True if the error interrupts a statement without being the statement's fault.
pub(super) fn is_interrupt(body: &[u8]) -> bool {
    let fields = backend::ErrorFields::parse(body).ok();
    let code = fields.and_then(|fields| fields.sqlstate());
    code.is_some_and(|code| INTERRUPTS.contains(&code))
}
