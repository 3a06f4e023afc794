//! Finds the digests that the client's requests count for.

use std::sync::Arc;

use weir_sql::ShapeKey;
use weir_wire::before_nul;
use weir_wire::frontend::{self, BindHead};

use super::{Message, Work};
use crate::counted::{Counted, Digesting};
use crate::statement::Statement;

impl Work<'_, '_, '_, '_> {
    /// Returns what a simple query counts for.
    #[inline]
    pub(super) fn count_query(&mut self, message: Message) -> Counted {
        match self.link.digests {
            Some(_) => self.count_text(message),
            None => Counted::default(),
        }
    }

    fn count_text(&mut self, message: Message) -> Counted {
        let body = self.body(message);
        let text = body.strip_suffix(b"\0").unwrap_or(body);
        let mut counted = Counted::default();
        let Some(digests) = &mut self.link.digests else {
            return counted;
        };
        let counting = &mut self.link.server.counting;
        digests
            .shaper
            .shapes(text, message.is_whole(), &mut |shape, place| {
                let text = text.get(place).unwrap_or_default();
                let Digesting {
                    table,
                    shaper,
                    group,
                } = &mut *digests;
                let mut digests = Digesting {
                    table,
                    shaper,
                    group,
                };
                let digest = digests.enter(shape, counting.unix(), text);
                counting.charge(&digest);
                counted.push(digest, counting);
            });
        counted
    }

    /// Returns what a Parse of the unnamed statement counts for, should it fail.
    #[inline]
    pub(super) fn count_unnamed(&mut self, message: Message, definition: &[u8]) -> Counted {
        let Some(digests) = &mut self.link.digests else {
            return Counted::default();
        };
        let text = before_nul(definition);
        let shape = digests.shaper.first(text, message.is_whole());
        self.link.client.unnamed_shape = shape;
        self.counted(shape, text)
    }

    /// Returns what a Parse of a named statement counts for, should it fail.
    #[inline]
    pub(super) fn count_statement(&mut self, statement: &Statement) -> Counted {
        let Some(digests) = &mut self.link.digests else {
            return Counted::default();
        };
        let shape = statement.shape_key(digests.shaper);
        self.counted(shape, statement.text())
    }

    fn counted(&mut self, shape: Option<ShapeKey>, text: &[u8]) -> Counted {
        let (Some(digests), Some(shape)) = (&mut self.link.digests, shape) else {
            return Counted::default();
        };
        let counting = &mut self.link.server.counting;
        let digest = digests.enter(shape, counting.unix(), text);
        Counted::new(digest, counting)
    }

    /// Records what the portal of a Bind will run: this statement of ours, or what the client's name stands for.
    #[inline]
    pub(super) fn count_bound(&mut self, head: &BindHead<'_>, ours: Option<&Arc<Statement>>) {
        if self.link.digests.is_some() {
            self.count_portal(head, ours);
        }
    }

    fn count_portal(&mut self, head: &BindHead<'_>, ours: Option<&Arc<Statement>>) {
        let Some(digests) = &mut self.link.digests else {
            return;
        };
        let (client, counting) = (&mut *self.link.client, &mut self.link.server.counting);
        let unix = counting.unix();
        // A statement of ours may stand in for the unnamed one.
        let ours = ours.filter(|ours| !ours.is_outdated()).map(|ours| &**ours);
        let digest = match ours {
            None if head.statement.is_empty() => {
                let body = client.unnamed_body();
                let text = before_nul(body);
                let shape = client.unnamed_shape;
                shape.map(|shape| digests.enter(shape, unix, text))
            }
            _ => {
                let named = client.statement(head.statement);
                let named = named.and_then(|(_, statement)| statement.map(|named| &**named));
                ours.or(named).and_then(|statement| {
                    let shape = statement.shape_key(digests.shaper)?;
                    Some(digests.enter(shape, unix, statement.text()))
                })
            }
        };
        counting.bind(head.portal, digest);
    }

    /// Returns what an Execute counts for.
    #[inline]
    pub(super) fn count_execute(&mut self, message: Message) -> Counted {
        if self.link.digests.is_none() {
            return Counted::default();
        }
        let body = self.body(message);
        let counting = &mut self.link.server.counting;
        let execute = frontend::Execute::parse(body);
        let counted = execute.map(|execute| counting.execute(execute.portal, execute.max_rows));
        let counted = counted.unwrap_or_default();
        counted.charge(counting);
        counted
    }
}
