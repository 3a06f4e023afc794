//! Query rules: statements that a rule rejects are replaced by one that fails, and others are watched.
//!
//! In place of a rejected statement the server is sent one that PostgreSQL refuses, and the reply shows the rule's error. So the
//! server treats the transaction as after any other error: 25P02 follows, and savepoints and ReadyForQuery are the server's own.

use std::sync::Arc;

use weir_rules::{Mirroring, Rejection, Stage, Wish};
use weir_wire::frame::Header;
use weir_wire::frontend::{self, BindHead};

use super::{Message, Work};
use crate::expected::{Duty, Expected, Kind, Refusal, Undo};
use crate::mirrored::Copied;
use crate::relay::ClientFault;
use crate::ruled::Judged;
use crate::server::Sent;
use crate::watched::Watched;

impl Work<'_, '_, '_, '_> {
    /// Decides on a simple query. Returns the error of a rule that rejects it, and keeps the decision otherwise.
    #[inline]
    pub(super) fn judge_query(&mut self, message: Message) -> Option<Refusal> {
        let ruling = self.link.ruling.as_mut()?;
        let body = self
            .input
            .get(message.at + super::HEAD..message.at + message.have)
            .unwrap_or_default();
        let text = (body.strip_suffix(b"\0").unwrap_or(body), message.is_whole());
        let before = self.link.client.take_judged();
        let judged = ruling.judged(before, &mut |ruling, stage| ruling.decide(text, stage));
        self.admit(judged)
    }

    /// Decides on the text of a Parse. Returns the error of a rule that rejects it.
    #[inline]
    pub(super) fn judge_parse(&mut self, text: &[u8], is_whole: bool) -> Option<Refusal> {
        let ruling = self.link.ruling.as_mut()?;
        if self.link.client.take_prepared() && !ruling.rules.enforce_list() {
            return None;
        }
        let verdict = ruling.decide((text, is_whole), Stage::Prepare);
        verdict.rejection.map(Refusal::Rule)
    }

    /// Decides on the statement of a Bind, which may be older than the rules. Returns the error of a rule that rejects it, and
    /// keeps the decision otherwise. In a failed transaction, PostgreSQL's own error comes first, unless a request on its way may
    /// end the transaction.
    #[inline]
    pub(super) fn judge_bind(&mut self, head: &BindHead<'_>) -> Option<Refusal> {
        if self.has_failed() {
            return None;
        }
        let ruling = self.link.ruling.as_mut()?;
        let before = self.link.client.take_judged();
        let client = &*self.link.client;
        let judged = ruling.judged(before, &mut |ruling, stage| {
            ruling.decide_bound(client, head.statement, stage)
        });
        self.admit(judged)
    }

    /// Decides on a function call of the protocol. Returns the error of a list of statements.
    #[inline]
    pub(super) fn judge_function(&self) -> Option<Refusal> {
        let ruling = self.link.ruling.as_ref()?;
        ruling.decide_function().map(Refusal::Rule)
    }

    /// True if a message is kept until it is complete, although it is long.
    #[inline]
    pub(super) fn is_read_whole(&self, header: Header) -> bool {
        let ruling = self.link.ruling.as_ref();
        self.link.client.is_read_whole(header)
            || ruling.is_some_and(|ruling| ruling.reads_whole(header))
    }

    /// Notes that the client prepares a statement whose text is not kept.
    #[inline]
    pub(super) fn note_unlisted(&mut self) {
        let ruling = self.link.ruling.as_ref();
        self.link.client.has_unlisted |= ruling.is_none_or(|ruling| !ruling.rules.enforce_list());
    }

    /// Lets a statement pass its bulkhead. Returns the error of a rejection, or of a bulkhead that is full.
    fn admit(&mut self, mut judged: Judged) -> Option<Refusal> {
        if let Some(rejection) = judged.verdict.rejection {
            return Some(Refusal::Rule(rejection));
        }
        if let Some(limit) = &judged.verdict.limit {
            judged.permit = judged.permit.filter(|permit| permit.is_of(&limit.bulkhead));
            if judged.permit.is_none() {
                judged.permit = limit.bulkhead.try_enter();
            }
            if judged.permit.is_none() {
                return Some(Refusal::Rule(full(&limit.rule, limit.max)));
            }
        }
        self.judged = Some(judged);
        None
    }

    /// Gives back the decision about a statement that has to wait for replies. The next server that may get it uses it.
    pub(super) fn keep_decision(&mut self) {
        if let Some(judged) = self.judged.take() {
            let decided = self.link.client.decided.get_or_insert_default();
            decided.judged = Some(judged);
        }
    }

    /// Watches the statement of a Bind.
    #[inline]
    pub(super) fn watch_bound(&mut self, message: Message, head: &BindHead<'_>) {
        let mut watched = self.watched();
        if let Some(watched) = &mut watched {
            watched.copy(|wish| self.copy_bound(message, head, wish));
            self.link.server.bound_copy(watched);
        }
        if watched.is_some() || self.link.server.is_watching() {
            self.link.server.watch_portal(head.portal, watched);
        }
    }

    /// Returns the watch over what an Execute runs.
    #[inline]
    pub(super) fn watch_execute(&mut self, message: Message) -> Option<Box<Watched>> {
        if !self.link.server.is_watching() {
            return None;
        }
        let execute = frontend::Execute::parse(self.body(message)).ok()?;
        let (portal, rows_max) = (execute.portal, execute.max_rows);
        self.link.server.watch_execute(portal, rows_max)
    }

    /// Copies a Bind with its statement for a mirror.
    fn copy_bound(
        &self,
        message: Message,
        head: &BindHead<'_>,
        wish: Wish<Arc<Mirroring>>,
    ) -> Copied {
        let client = &self.link.client;
        let definition = match head.statement {
            b"" => client.unnamed_body(),
            name => {
                let named = client.statement(name).and_then(|(_, statement)| statement);
                named.map_or(&[][..], |statement| statement.definition())
            }
        };
        let body = self.body(message);
        let values = body.get(head.len_consumed..).unwrap_or_default();
        let is_named = !head.statement.is_empty();
        Copied::bound(wish, (definition, is_named), (values, message.is_whole()))
    }

    /// Returns the watch over a simple query that was decided on.
    #[inline]
    pub(super) fn watch_query(&mut self, message: Message) -> Option<Box<Watched>> {
        let mut watched = self.watched()?;
        let body = self.body(message);
        let text = body.strip_suffix(b"\0").unwrap_or(body);
        watched.copy(|wish| Copied::simple(wish, text, message.is_whole()));
        self.link.server.bound_copy(&mut watched);
        Some(watched)
    }

    /// Returns the watch over the statement that was decided on.
    #[inline]
    pub(super) fn watched(&mut self) -> Option<Box<Watched>> {
        let judged = self.judged.take()?;
        let watched = Watched::new(judged, self.link.server.counting.now_us())?;
        self.link.server.begin_watching();
        Some(watched)
    }

    /// Sends a Bind of a statement that no server has, in place of one that is rejected.
    pub(super) fn refuse_bind(
        &mut self,
        message: Message,
        head: &BindHead<'_>,
        refusal: Refusal,
    ) -> Result<(), ClientFault> {
        let nobody = self.link.registry.nobody();
        self.link.server.sent = Sent::OpenBatch;
        self.bind_renamed(message, head, &nobody)?;
        let entry = Expected::new(Kind::Bind, Duty::Forward);
        self.expect(entry.with_undo(Undo::Refused(refusal)));
        Ok(())
    }
}

/// Returns the error for a statement of a rule of which `max` statements run already.
#[cold]
#[must_use]
pub fn full(rule: &Arc<str>, max: u32) -> Arc<Rejection> {
    Arc::new(Rejection {
        rule: Arc::clone(rule),
        message: format!("{max} statements of rule {rule} run already (max_concurrency)"),
        code: *b"53400",
        hint: "Try again later.".to_owned(),
    })
}
