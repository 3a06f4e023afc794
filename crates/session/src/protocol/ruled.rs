//! Query rules of a client's group, as they apply to one client.

use std::sync::Arc;

use weir_rules::{Fits, Now, Rejection, Rules};
use weir_sql::Shaper;
use weir_wire::frontend::{self, tag};

use crate::client::Client;
use crate::statement::Statement;

/// Rules that may concern a client.
#[derive(Debug)]
pub struct Ruling<'a> {
    /// Rules of the client's group.
    pub rules: &'a mut Rules,
    /// Those that fit the client.
    pub fits: &'a Fits,
    /// Finds the shapes of texts.
    pub shaper: &'a Shaper,
    /// Circumstances of the decisions.
    pub now: Now,
}

impl Ruling<'_> {
    /// Returns the error of a rule that rejects a text of one or more statements.
    pub fn decide(&mut self, text: &[u8], is_whole: bool) -> Option<Arc<Rejection>> {
        self.now.dice = self.now.dice.wrapping_add(1);
        self.rules
            .decide(self.shaper, self.fits, text, is_whole, self.now)
    }

    /// Returns the error of a rule that rejects the statement of a message, with which a batch begins outside of a transaction.
    /// If there is none, the statement is not judged again behind the lease of a server. PostgreSQL forgets the unnamed
    /// statement when a simple query or an unnamed Parse fails.
    pub(crate) fn decide_first(
        &mut self,
        client: &mut Client,
        message: u8,
        body: &[u8],
    ) -> Option<Arc<Rejection>> {
        let (rejection, forgets) = match message {
            tag::QUERY => {
                let text = body.strip_suffix(b"\0").unwrap_or(body);
                (self.decide(text, true), true)
            }
            tag::PARSE => {
                let parse = frontend::Parse::parse(body).ok()?;
                (self.decide(parse.sql, true), parse.name.is_empty())
            }
            tag::BIND => {
                let head = frontend::Bind::head(body).ok()??;
                (self.decide_bound(client, head.statement), false)
            }
            _ => return None,
        };
        match &rejection {
            Some(_) if forgets => client.forget_unnamed(),
            Some(_) => {}
            None => client.is_ruled = true,
        }
        rejection
    }

    /// Returns the error of a rule that rejects what the client's name of a statement stands for.
    pub(crate) fn decide_bound(&mut self, client: &Client, name: &[u8]) -> Option<Arc<Rejection>> {
        if name.is_empty() {
            let body = client.unnamed_body();
            let text = body.split(|byte| *byte == 0).next().unwrap_or_default();
            return self.decide(text, true);
        }
        let (_, statement) = client.statement(name)?;
        self.decide_prepared(statement?)
    }

    /// Returns the error of a rule that rejects a prepared statement.
    pub(crate) fn decide_prepared(&mut self, statement: &Statement) -> Option<Arc<Rejection>> {
        self.now.dice = self.now.dice.wrapping_add(1);
        let shape = statement.shape_key(self.shaper)?;
        let text = statement.text();
        self.rules
            .decide_one(shape, self.fits, text, text, self.now)
    }
}

#[cfg(test)]
mod tests;
