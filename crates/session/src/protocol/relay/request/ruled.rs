//! Query rules: statements that a rule rejects are replaced by one that fails.
//!
//! The server is sent a statement that PostgreSQL refuses, and the reply shows the rule's error. So the server treats the
//! transaction as after any other error: 25P02 follows, and savepoints and ReadyForQuery are the server's own.

use std::sync::Arc;

use weir_rules::Rejection;
use weir_wire::backend::TransactionStatus;
use weir_wire::frontend::BindHead;

use super::{Message, Work};
use crate::expected::{Duty, Expected, Kind, Refusal, Undo};
use crate::relay::ClientFault;
use crate::server::Sent;

impl Work<'_, '_, '_, '_> {
    /// Returns the error of a rule that rejects a simple query.
    #[inline]
    pub(super) fn rejected_query(&mut self, message: Message) -> Option<Arc<Rejection>> {
        self.link.ruling.as_ref()?;
        let body = self.body(message);
        let text = body.strip_suffix(b"\0").unwrap_or(body);
        self.rejected(text, message.is_whole())
    }

    /// Returns the error of a rule that rejects a text.
    #[inline]
    pub(super) fn rejected(&mut self, text: &[u8], is_whole: bool) -> Option<Arc<Rejection>> {
        let ruling = self.link.ruling.as_mut()?;
        match std::mem::take(&mut self.link.client.is_ruled) {
            true => None,
            false => ruling.decide(text, is_whole),
        }
    }

    /// Returns the error of a rule that rejects the statement of a Bind. The rule may be younger than the statement. In a failed
    /// transaction, PostgreSQL's own error comes first.
    #[inline]
    pub(super) fn rejected_bind(&mut self, head: &BindHead<'_>) -> Option<Arc<Rejection>> {
        let ruling = self.link.ruling.as_mut()?;
        let is_failed = self.link.server.status() == TransactionStatus::Failed;
        if std::mem::take(&mut self.link.client.is_ruled) || is_failed {
            return None;
        }
        ruling.decide_bound(self.link.client, head.statement)
    }

    /// Sends a Bind of a statement that no server has, in place of one that is rejected.
    pub(super) fn refuse_bind(
        &mut self,
        message: Message,
        head: &BindHead<'_>,
        rejection: Arc<Rejection>,
    ) -> Result<(), ClientFault> {
        let nobody = self.link.registry.nobody();
        self.link.server.sent = Sent::OpenBatch;
        self.bind_renamed(message, head, &nobody)?;
        let entry = Expected::new(Kind::Bind, Duty::Forward);
        self.expect(entry.with_undo(Undo::Refused(Refusal::Rule(rejection))));
        Ok(())
    }
}
