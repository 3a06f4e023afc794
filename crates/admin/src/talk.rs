//! Conversation with one client of the console: simple queries here, the extended protocol in `talk/extended.rs`.
//!
//! The result of a statement does not depend on the protocol. [`Talk::begin`] answers it at once or tells the engine
//! what to do; then [`Conversation::performed`] or [`Conversation::gathered`] makes a [`Product`] of the outcome.

mod extended;

use std::borrow::Cow;
use std::sync::Arc;

use weir_config::PgBouncerVersion;
use weir_proxy::console::{Conversation, Refusal, Role, RouteAnswer, Step};
use weir_stats::Snapshot;
use weir_wire::encode::{self, ErrorReport, Severity};
use weir_wire::frontend::{Query, tag};
use weir_wire::sqlstate::SqlState;

use self::extended::Extended;
use crate::digests::{self, Question};
use crate::explain;
use crate::reply::{Formats, Reply};
use crate::shared::Shared;
use crate::show::{Context, Heading, Row, Show};
use crate::statement::{Refused, Statement, usages};

/// Conversation with one client.
pub(crate) struct Talk {
    role: Role,
    shared: Shared,
    version: Arc<str>,
    extended: Extended,
    /// Statement that waits for the engine.
    due: Option<(Statement, Asked)>,
}

/// Protocol by which a statement was requested.
enum Asked {
    /// Query message.
    Simply,
    /// Execute of this portal, with a maximum of rows; 0 or less means all.
    ByPortal(Vec<u8>, i32),
}

/// Result of a statement.
enum Product {
    /// Result of an empty statement.
    Empty,
    /// A completed command: its notice with an optional detail, and its tag.
    Done(Option<(&'static str, Option<String>)>, Cow<'static, str>),
    /// Result with rows.
    Table(Cow<'static, [Heading]>, Vec<Row>),
}

impl Product {
    fn tag(tag: impl Into<Cow<'static, str>>) -> Self {
        Self::Done(None, tag.into())
    }
}

impl Conversation for Talk {
    fn handle(&mut self, message: u8, body: &[u8]) -> Step {
        if self.extended.is_skipping() && !matches!(message, tag::SYNC | tag::TERMINATE) {
            return Step::Reply(Vec::new());
        }
        let reply = Reply::default();
        match message {
            tag::QUERY => self.query(body),
            tag::TERMINATE => Step::Close(Vec::new()),
            tag::PARSE
            | tag::BIND
            | tag::DESCRIBE
            | tag::EXECUTE
            | tag::CLOSE
            | tag::FLUSH
            | tag::SYNC => self.extended_message(message, body),
            // Clients expect no answer to these.
            tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL => {
                Step::Reply(error(reply, &unsupported(message)).unfinished())
            }
            _ => Step::Reply(error(reply, &unsupported(message)).ready()),
        }
    }

    fn explained(&mut self, answer: Result<RouteAnswer, Refusal>) -> Vec<u8> {
        let Some((_, asked)) = self.due.take() else {
            return Vec::new();
        };
        let table = |answer| Product::Table(explain::HEADINGS.into(), explain::rows(answer));
        self.answer(answer.map(table).map_err(Refused::from), asked)
    }

    fn gathered(&mut self, snapshot: &Snapshot) -> Vec<u8> {
        match self.due.take() {
            Some((Statement::Digests(question), asked)) => {
                let product = self.digests(&question, snapshot);
                self.answer(product, asked)
            }
            Some((Statement::Show(show, version), asked)) => {
                let product = self.render(show, version, snapshot, None);
                self.answer(Ok(product), asked)
            }
            Some((Statement::ShowOf(show, name), asked)) => {
                let version = self.shared.compat();
                let product = self.render(show, version, snapshot, name.as_deref());
                self.answer(Ok(product), asked)
            }
            // The engine always answers its last request, so this is a bug; the client still needs an answer.
            Some((_, asked)) => self.answer(Err(Refused::new("bouncer config error")), asked),
            None => Vec::new(),
        }
    }

    fn performed(&mut self, outcome: Result<(), Refusal>) -> Vec<u8> {
        let Some((statement, asked)) = self.due.take() else {
            return Vec::new();
        };
        let tag = match statement {
            Statement::Perform(_, tag) => tag,
            _ => Cow::Borrowed(""),
        };
        let product = outcome.map(|()| Product::tag(tag)).map_err(Refused::from);
        self.answer(product, asked)
    }
}

impl Talk {
    pub(crate) fn new(role: Role, shared: Shared, version: Arc<str>) -> Self {
        Self {
            role,
            shared,
            version,
            extended: Extended::default(),
            due: None,
        }
    }

    fn query(&mut self, body: &[u8]) -> Step {
        self.extended.forget_unnamed();
        // As in PostgreSQL, except for bytes after the NUL: the engine's tests send these, and an error serves as
        // well.
        let read = Query::parse(body).map_err(|error| Refused::new(error.to_string()));
        let read =
            read.and_then(|query| Statement::read(self.role, self.shared.compat(), query.sql));
        match read {
            Ok(statement) => self.begin(statement, Asked::Simply),
            Err(refused) => Step::Reply(self.answer(Err(refused), Asked::Simply)),
        }
    }

    /// Executes a statement, or asks the engine to.
    fn begin(&mut self, statement: Statement, asked: Asked) -> Step {
        let product = match &statement {
            Statement::Constant { column, value } => {
                let row = vec![Some((*value).to_owned())];
                Product::Table(vec![crate::show::text(column)].into(), vec![row])
            }
            Statement::Digests(_) => {
                self.due = Some((statement, asked));
                return Step::Gather { digests: true };
            }
            Statement::Empty => Product::Empty,
            Statement::Explain(question) => {
                let question = question.clone();
                self.due = Some((statement, asked));
                return Step::Explain(question);
            }
            Statement::Help => {
                Product::Done(Some(("Console usage", Some(usages()))), "SHOW".into())
            }
            Statement::Ignore => Product::Done(Some(("SET ignored", None)), "SET".into()),
            Statement::Perform(order, _) => {
                let order = order.clone();
                self.due = Some((statement, asked));
                return Step::Perform(order);
            }
            Statement::ShowOf(..) => {
                self.due = Some((statement, asked));
                return Step::Gather { digests: false };
            }
            Statement::Show(show, _) if show.is_live => {
                self.due = Some((statement, asked));
                return Step::Gather { digests: false };
            }
            Statement::Show(show, version) => {
                self.render(show, *version, &Snapshot::default(), None)
            }
            Statement::Stop(how) => {
                let how = *how;
                return Step::Stop(how, self.answer(Ok(Product::tag("SHUTDOWN")), asked));
            }
        };
        Step::Reply(self.answer(Ok(product), asked))
    }

    /// Returns a table, or its rows with this value in the first column.
    fn render(
        &self,
        show: &'static Show,
        version: PgBouncerVersion,
        snapshot: &Snapshot,
        name: Option<&str>,
    ) -> Product {
        let view = self.shared.view();
        let context = Context {
            settings: &view.settings,
            users: &view.users,
            snapshot,
            version: &self.version,
        };
        let mut rows = show.rows(&context, version);
        if name.is_some() {
            rows.retain(|row| row.first().is_some_and(|value| value.as_deref() == name));
        }
        Product::Table(show.columns(version).into(), rows)
    }

    fn digests(&self, question: &Question, snapshot: &Snapshot) -> Result<Product, Refused> {
        let digests = snapshot.digests.as_deref();
        let digests = digests.ok_or_else(|| {
            let hint = "statements are not counted; SET digests = 1 counts them from now on";
            Refused::with(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, hint)
        })?;
        let rows = self.shared.known_digests().rows(question, digests);
        Ok(Product::Table(digests::HEADINGS.into(), rows))
    }

    /// Messages for the result of a statement.
    fn answer(&mut self, product: Result<Product, Refused>, asked: Asked) -> Vec<u8> {
        match asked {
            Asked::Simply => simple_answer(product),
            Asked::ByPortal(name, max_rows) => self.extended.executed(&name, max_rows, product),
        }
    }
}

fn simple_answer(product: Result<Product, Refused>) -> Vec<u8> {
    let reply = Reply::default();
    match product {
        Ok(Product::Table(headings, rows)) => reply
            .headings(&headings, &Formats::TEXT)
            .rows(&headings, &rows, &Formats::TEXT)
            .complete("SHOW"),
        Ok(product) => finish(reply, &product),
        Err(refused) => error(reply, &refused),
    }
    .ready()
}

/// Finishes an answer. Results without rows look the same in both protocols.
fn finish(reply: Reply, product: &Product) -> Reply {
    match product {
        Product::Empty => reply.bare(encode::empty_query_response),
        Product::Done(notice, tag) => match notice {
            Some((message, detail)) => reply.report(ErrorReport {
                detail: detail.as_deref(),
                ..ErrorReport::new(Severity::Notice, SqlState::SUCCESSFUL_COMPLETION, message)
            }),
            None => reply,
        }
        .complete(tag),
        Product::Table(..) => reply.complete("SHOW"),
    }
}

fn error(reply: Reply, refused: &Refused) -> Reply {
    reply.error(refused.code, &refused.message)
}

fn unsupported(tag: u8) -> Refused {
    Refused::new(format!("unsupported packet type for admin console: {tag}"))
}
