//! Tells where the next batch of a client without a server may run, if its database has replicas.
//!
//! The batch is read once, message by message: of a Query or Parse its text, of the other messages the names. The judge
//! says where each text may run; a prepared statement has its verdict with it. The parts of a batch run on one host, so
//! the verdicts are joined, and whatever is not known is for the primary.
//!
//! **A batch without its end** keeps its server until the Sync, and what follows may be anything. It may go to a replica
//! only if everything that has arrived belongs to statements that read: at least one Parse, Bind, Describe or Execute of
//! such a statement, besides any Close or Flush. Each message must be complete, but a Bind needs its two names only, and
//! of the message behind them less than a header does not count. So may go, for example: the Parse, Describe and Flush
//! with which asyncpg prepares a SELECT before it sends Bind, Execute and Sync; the beginning of a pipeline of SELECTs;
//! a SELECT whose Sync was cut off, or whose values are still on their way. For the primary are: a Parse of a BEGIN or a
//! SET; a Close or Flush alone; a Query, Parse, Describe, Execute or Close that is cut off.

use std::sync::Arc;

use weir_sql::{Access, Cause, Judge, Modes, Step};
use weir_wire::before_nul;
use weir_wire::frame::{HEADER_LEN, Header, Side, header};
use weir_wire::frontend::{self, Kind, tag};

use super::{Batch, STATEMENT_MAX};
use crate::client::Client;
use crate::unnamed;

/// Maximum number of names that are remembered while a batch is read; with more, it is for the primary.
const NAMES_MAX: usize = 64;

/// Hosts on which a batch may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// Verdict on the batch as a whole.
    pub access: Arc<Access>,
    /// Block that the batch begins with, if other statements follow. `access` is then [`Cause::Block`]: a router that
    /// can place a block together with its first statements decides by this instead.
    pub block: Option<Block>,
    /// True if the batch has arrived to its end, and so cannot go on with something else.
    pub is_complete: bool,
    /// Length in bytes of the batch, as far as it has arrived.
    pub len: usize,
    /// True if each statement reads and does nothing else: another host can get the batch again if this one refuses it,
    /// as long as no answer was passed on. SET, DISCARD, DEALLOCATE and BEGIN are not plain.
    pub is_plain: bool,
    /// True if the batch may give a name of a statement another meaning, or none.
    pub defines: bool,
    /// Step that the batch is for a block which has only read so far. [`Step::Other`] if the batch may leave a portal.
    pub step: Step,
    /// Id of the batch's first statement, if the batch begins with a use of one that was prepared before. It stands for one
    /// text.
    pub statement: Option<u64>,
}

/// A transaction block with statements in the batch that begins it. JDBC drivers send BEGIN so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Modes of the BEGIN.
    pub modes: Modes,
    /// Verdict on the statements behind it.
    pub rest: Arc<Access>,
    /// Step that they are.
    pub step: Step,
}

/// Tells where a batch may run that begins without a server, outside of a transaction. The step is not looked for.
#[must_use]
pub fn destination(batch: &Batch<'_>, client: &Client, judge: &mut Judge) -> Destination {
    read(batch, Reader::new(client, judge))
}

/// Tells where a batch may run, like [`destination`], and the step that it is for a block that has only read so far.
#[must_use]
pub fn destination_with_step(batch: &Batch<'_>, client: &Client, judge: &mut Judge) -> Destination {
    let reader = Reader {
        has_steps: true,
        ..Reader::new(client, judge)
    };
    read(batch, reader)
}

fn read<'i>(batch: &Batch<'i>, mut reader: Reader<'_, 'i>) -> Destination {
    let mut is_complete = false;
    let mut rest = batch.input;
    // Also behind the limit of the scan: what has arrived costs nothing but its headers.
    while let Ok(Some(header)) = header(rest, Side::Frontend)
        && !is_complete
    {
        let total = header.total_len();
        let here = rest.get(..total).unwrap_or(rest);
        if !reader.is_decided() {
            reader.message(header, here);
        }
        reader.defines |= matches!(header.tag, tag::PARSE | tag::CLOSE | tag::QUERY);
        let is_end = matches!(header.tag, tag::SYNC | tag::QUERY | tag::FUNCTION_CALL);
        is_complete = is_end && here.len() == total;
        rest = rest.get(total..).unwrap_or_default();
    }
    let len = batch.input.len() - rest.len();
    reader.destination(is_complete, len)
}

/// Reader of one batch.
struct Reader<'a, 'i> {
    client: &'a Client,
    judge: &'a mut Judge,
    /// Verdict on what was read; `None` before the first statement.
    access: Option<Arc<Access>>,
    /// Modes of the first statement, if that is BEGIN, and the verdict on those behind it.
    block: Option<(Modes, Option<Arc<Access>>)>,
    is_plain: bool,
    defines: bool,
    /// True if the step is looked for.
    has_steps: bool,
    /// Step that was read; `None` before the first statement. Not the BEGIN in front.
    step: Option<Step>,
    /// Id of the first statement, if that was prepared before.
    statement: Option<u64>,
    statements: Names<'i>,
    portals: Names<'i>,
}

/// Names that the batch itself has defined so far.
#[derive(Default)]
struct Names<'i> {
    has_unnamed: bool,
    named: Vec<&'i [u8]>,
}

impl<'i> Names<'i> {
    fn has(&self, name: &[u8]) -> bool {
        match name {
            b"" => self.has_unnamed,
            name => self.named.contains(&name),
        }
    }

    /// Adds a name. False if there are too many.
    fn add(&mut self, name: &'i [u8]) -> bool {
        if name.is_empty() {
            self.has_unnamed = true;
        } else if !self.named.contains(&name) {
            self.named.push(name);
        }
        self.named.len() <= NAMES_MAX
    }
}

impl<'a, 'i> Reader<'a, 'i> {
    fn new(client: &'a Client, judge: &'a mut Judge) -> Self {
        Self {
            client,
            judge,
            access: None,
            block: None,
            is_plain: true,
            defines: false,
            has_steps: false,
            step: None,
            statement: None,
            statements: Names::default(),
            portals: Names::default(),
        }
    }

    /// True if the batch is for the primary whatever follows. Behind a BEGIN, the statements to come still count.
    fn is_decided(&self) -> bool {
        let is_primary = |access: &Option<Arc<Access>>| {
            let access = access.as_deref();
            matches!(access, Some(Access::Primary(_)))
        };
        is_primary(&self.access) && self.block.as_ref().is_none_or(|(_, rest)| is_primary(rest))
    }

    /// Reads a message, of which `here` has arrived.
    fn message(&mut self, header: Header, here: &'i [u8]) {
        let body = here.get(HEADER_LEN..).unwrap_or_default();
        let is_whole = here.len() == header.total_len();
        match header.tag {
            tag::CLOSE | tag::FLUSH | tag::SYNC if is_whole => {}
            tag::QUERY if is_whole => self.query(body),
            tag::PARSE if is_whole => self.parse(body),
            tag::BIND => self.bind(body),
            tag::DESCRIBE if is_whole => self.describe(body),
            tag::EXECUTE if is_whole => self.execute(body),
            tag::QUERY | tag::PARSE => self.primary(Cause::Long),
            tag::CLOSE | tag::DESCRIBE | tag::EXECUTE | tag::FLUSH | tag::SYNC => {
                self.primary(Cause::Open);
            }
            _ => self.primary(Cause::Message),
        }
    }

    fn query(&mut self, body: &[u8]) {
        match frontend::Query::parse(body) {
            Ok(query) => self.text(query.sql),
            Err(_) => self.primary(Cause::Message),
        }
    }

    fn parse(&mut self, body: &'i [u8]) {
        let Ok(parse) = frontend::Parse::parse(body) else {
            return self.primary(Cause::Message);
        };
        if HEADER_LEN + body.len() > STATEMENT_MAX {
            return self.primary(Cause::Long);
        }
        self.text(parse.sql);
        if !self.statements.add(parse.name) {
            self.primary(Cause::Long);
        }
    }

    /// Reads a Bind, of which only the names have to be there.
    fn bind(&mut self, body: &'i [u8]) {
        match frontend::Bind::head(body) {
            Ok(Some(head)) => {
                self.statement(head.statement);
                if !head.portal.is_empty() {
                    self.step = Some(Step::Other);
                }
                if !self.portals.add(head.portal) {
                    self.primary(Cause::Long);
                }
            }
            Ok(None) => self.primary(Cause::Open),
            Err(_) => self.primary(Cause::Message),
        }
    }

    fn describe(&mut self, body: &[u8]) {
        match frontend::Describe::parse(body) {
            Ok(describe) if describe.kind == Kind::Statement => self.statement(describe.name),
            Ok(describe) => self.portal(describe.name),
            Err(_) => self.primary(Cause::Message),
        }
    }

    fn execute(&mut self, body: &[u8]) {
        match frontend::Execute::parse(body) {
            Ok(execute) => {
                // The end of a block gives no rows, whatever the limit: pgjdbc sets one.
                if execute.max_rows > 0 && self.step != Some(Step::Ends) {
                    self.step = Some(Step::Other);
                }
                self.portal(execute.portal);
            }
            Err(_) => self.primary(Cause::Message),
        }
    }

    /// Reads the use of a portal. Those of earlier batches have ended with their transactions.
    fn portal(&mut self, name: &[u8]) {
        if !self.portals.has(name) {
            self.primary(Cause::Unprepared);
        }
    }

    /// Reads the use of a prepared statement. The text of one that the batch itself prepares was read there.
    fn statement(&mut self, name: &[u8]) {
        if self.statements.has(name) {
            return;
        }
        let known = match name {
            b"" => self.client.unnamed_stand_in(),
            name => self.client.statement(name).and_then(|(_, known)| known),
        };
        if let Some(known) = known {
            let access = known.access(self.judge);
            if self.access.is_none() {
                self.statement = Some(known.id);
            }
            return self.add(access, known.text());
        }
        let (serial, body) = self.client.current_unnamed();
        if !name.is_empty() || serial == unnamed::NONE {
            return self.primary(Cause::Unprepared);
        }
        // The body ends in the parameter types; an empty one was too long to keep.
        match before_nul(body) {
            text if text.len() < body.len() => self.text(text),
            _ => self.primary(Cause::Long),
        }
    }

    fn text(&mut self, text: &[u8]) {
        let access = self.judge.access(text);
        self.add(access, text);
    }

    fn primary(&mut self, cause: Cause) {
        self.add(Arc::new(Access::Primary(cause)), b"");
    }

    /// Adds the verdict on the next statement, whose text this is.
    fn add(&mut self, next: Arc<Access>, text: &[u8]) {
        self.is_plain &= next.is_read();
        if self.has_steps && !matches!(*next, Access::Begin(_)) {
            self.step = Some(match (self.step, weir_sql::step(text)) {
                (None, step) => step,
                (Some(Step::Queries), Step::Queries) => Step::Queries,
                // COMMIT may be prepared, bound and described in its batch: the same text several times.
                (Some(Step::Ends), Step::Ends) => Step::Ends,
                _ => Step::Other,
            });
        }
        if let Some((_, rest)) = &mut self.block {
            *rest = Some(joined(rest.take(), Arc::clone(&next)));
        } else if let (None, Access::Begin(modes)) = (&self.access, &*next) {
            self.block = Some((*modes, None));
        }
        self.access = Some(joined(self.access.take(), next));
    }

    fn destination(self, is_complete: bool, len: usize) -> Destination {
        let is_read = (self.access.as_ref()).is_some_and(|access| access.is_read());
        let is_plain = self.is_plain && is_read;
        let access = match self.access {
            Some(access) if matches!(*access, Access::Primary(_)) => access,
            _ if !is_complete && !is_plain => Arc::new(Access::Primary(Cause::Open)),
            Some(access) => access,
            None => Arc::new(Access::Anywhere),
        };
        let step = self.step.unwrap_or(Step::Other);
        let block = self.block.and_then(|(modes, rest)| {
            let rest = rest?;
            Some(Block { modes, rest, step })
        });
        Destination {
            access,
            block: block.filter(|_| is_complete),
            is_complete,
            len,
            is_plain,
            defines: self.defines,
            step,
            statement: self.statement,
        }
    }
}

/// Joins verdicts without an allocation in the usual cases.
fn joined(before: Option<Arc<Access>>, next: Arc<Access>) -> Arc<Access> {
    match before {
        None => next,
        Some(before)
            if (Arc::ptr_eq(&before, &next) || before == next)
                && !matches!(*next, Access::Begin(_)) =>
        {
            before
        }
        Some(before) => Arc::new(Access::clone(&before).join(Access::clone(&next))),
    }
}

#[cfg(test)]
mod tests;
