//! The extended protocol (manual, 55.2.3 "Extended Query"): statements and portals of one client, by name.
//!
//! Statements have no parameters. The console is never in a transaction block, so portals live until Sync.

use std::collections::HashMap;

use weir_proxy::console::Step;
use weir_wire::encode::{self, Format};
use weir_wire::frontend::{Bind, Close, Describe, Execute, Kind, Parse, tag};
use weir_wire::sqlstate::SqlState;

use super::{Asked, Product, Talk, error, finish};
use crate::reply::{Formats, Reply};
use crate::show::{Heading, Row};
use crate::statement::{Refused, Statement};

/// Maximum of prepared statements per client; drivers keep at most 256 by default.
const STATEMENTS_MAX: usize = 512;
/// Maximum of open portals per client.
const PORTALS_MAX: usize = 16;
/// Maximum length of a name in bytes.
const NAME_LEN_MAX: usize = 127;

/// Statements and portals of one client.
#[derive(Default)]
pub(super) struct Extended {
    statements: HashMap<Vec<u8>, Statement>,
    portals: HashMap<Vec<u8>, Portal>,
    /// True after an error: messages are skipped until Sync.
    is_skipping: bool,
}

struct Portal {
    statement: Statement,
    formats: Formats,
    state: State,
}

/// Progress of a portal.
enum State {
    New,
    /// The command was executed, which happens only once.
    Done,
    /// Remaining rows.
    Rows(std::vec::IntoIter<Row>),
}

impl Talk {
    pub(super) fn extended_message(&mut self, message: u8, body: &[u8]) -> Step {
        let extended = &mut self.extended;
        let reply = Reply::default();
        let reply = match message {
            tag::PARSE => read(Parse::parse(body)).and_then(|parse| {
                let version = self.shared.compat();
                let statement = Statement::read(self.role, version, parse.sql)?;
                extended
                    .parse(&parse, statement)
                    .map(|()| reply.bare(encode::parse_complete))
            }),
            tag::BIND => read(Bind::parse(body))
                .and_then(|bind| extended.bind(&bind))
                .map(|()| reply.bare(encode::bind_complete)),
            tag::DESCRIBE => {
                read(Describe::parse(body)).and_then(|describe| extended.describe(reply, &describe))
            }
            tag::CLOSE => read(Close::parse(body)).map(|close| {
                extended.close(&close);
                reply.bare(encode::close_complete)
            }),
            tag::EXECUTE => match read(Execute::parse(body)) {
                Ok(execute) => return self.execute(&execute),
                Err(refused) => Err(refused),
            },
            tag::SYNC => {
                extended.is_skipping = false;
                extended.portals.clear();
                return Step::Reply(reply.ready());
            }
            // Flush: no answer is ever held back.
            _ => Ok(reply),
        };
        Step::Reply(match reply {
            Ok(reply) => reply.unfinished(),
            Err(refused) => self.extended.refuse(&refused),
        })
    }

    fn execute(&mut self, execute: &Execute<'_>) -> Step {
        let name = execute.portal;
        let Some(portal) = self.extended.portals.get_mut(name) else {
            return Step::Reply(self.extended.refuse(&no_portal(name)));
        };
        match portal.state {
            State::New => {
                let statement = portal.statement.clone();
                let asked = Asked::ByPortal(name.to_owned(), execute.max_rows);
                self.begin(statement, asked)
            }
            State::Rows(_) => Step::Reply(portal.fetch(execute.max_rows)),
            State::Done => {
                let code = SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
                let message = format!("portal \"{}\" cannot be run", shown(name));
                Step::Reply(self.extended.refuse(&Refused::with(code, message)))
            }
        }
    }
}

impl Extended {
    pub(super) fn is_skipping(&self) -> bool {
        self.is_skipping
    }

    /// Removes the unnamed statement and all portals: Query replaces the one and ends the transaction of
    /// the others.
    pub(super) fn forget_unnamed(&mut self) {
        self.statements.remove(&b""[..]);
        self.portals.clear();
    }

    /// Returns the answer to an Execute, with or without help of the engine.
    pub(super) fn executed(
        &mut self,
        name: &[u8],
        max_rows: i32,
        product: Result<Product, Refused>,
    ) -> Vec<u8> {
        let Some(portal) = self.portals.get_mut(name) else {
            return self.refuse(&no_portal(name));
        };
        match product {
            Ok(Product::Table(_, rows)) => {
                portal.state = State::Rows(rows.into_iter());
                portal.fetch(max_rows)
            }
            Ok(product) => {
                portal.state = State::Done;
                finish(Reply::default(), &product).unfinished()
            }
            Err(refused) => self.refuse(&refused),
        }
    }

    fn refuse(&mut self, refused: &Refused) -> Vec<u8> {
        self.is_skipping = true;
        error(Reply::default(), refused).unfinished()
    }

    fn parse(&mut self, parse: &Parse<'_>, statement: Statement) -> Result<(), Refused> {
        let mut rest = Rest(parse.rest);
        // A Parse may leave types open, but there are no parameters to have types.
        if rest.i16()? != 0 {
            return Err(no_parameters());
        }
        check_name(parse.name)?;
        if !parse.name.is_empty() && self.statements.contains_key(parse.name) {
            let message = format!(
                "prepared statement \"{}\" already exists",
                shown(parse.name)
            );
            let code = SqlState::DUPLICATE_PSTATEMENT;
            return Err(Refused::with(code, message));
        }
        if !self.statements.contains_key(parse.name) {
            check_room(self.statements.len(), STATEMENTS_MAX, "prepared statements")?;
        }
        self.statements.insert(parse.name.to_owned(), statement);
        Ok(())
    }

    fn bind(&mut self, bind: &Bind<'_>) -> Result<(), Refused> {
        let statement = self.statement(bind.statement)?.clone();
        check_name(bind.portal)?;
        if !bind.portal.is_empty() && self.portals.contains_key(bind.portal) {
            let message = format!("cursor \"{}\" already exists", shown(bind.portal));
            return Err(Refused::with(SqlState::DUPLICATE_CURSOR, message));
        }
        if !self.portals.contains_key(bind.portal) {
            check_room(self.portals.len(), PORTALS_MAX, "portals")?;
        }
        let formats = formats(bind.rest, statement.headings().as_deref())?;
        let portal = Portal {
            statement,
            formats,
            state: State::New,
        };
        self.portals.insert(bind.portal.to_owned(), portal);
        Ok(())
    }

    fn describe(&self, reply: Reply, describe: &Describe<'_>) -> Result<Reply, Refused> {
        let (reply, statement, formats) = match describe.kind {
            Kind::Statement => {
                let statement = self.statement(describe.name)?;
                (reply.bare(encode::no_parameters), statement, &Formats::TEXT)
            }
            Kind::Portal => {
                let portal = self.portals.get(describe.name);
                let portal = portal.ok_or_else(|| no_portal(describe.name))?;
                (reply, &portal.statement, &portal.formats)
            }
        };
        Ok(match statement.headings() {
            Some(headings) => reply.headings(&headings, formats),
            None => reply.bare(encode::no_data),
        })
    }

    /// Closes a statement or portal; a missing one is not an error.
    fn close(&mut self, close: &Close<'_>) {
        match close.kind {
            Kind::Statement => drop(self.statements.remove(close.name)),
            Kind::Portal => drop(self.portals.remove(close.name)),
        }
    }

    fn statement(&self, name: &[u8]) -> Result<&Statement, Refused> {
        self.statements.get(name).ok_or_else(|| {
            let message = match name {
                b"" => "unnamed prepared statement does not exist".to_owned(),
                name => format!("prepared statement \"{}\" does not exist", shown(name)),
            };
            Refused::with(SqlState::INVALID_SQL_STATEMENT_NAME, message)
        })
    }
}

impl Portal {
    /// Sends the requested number of rows.
    fn fetch(&mut self, max_rows: i32) -> Vec<u8> {
        let State::Rows(rows) = &mut self.state else {
            return Vec::new();
        };
        let headings = self.statement.headings().unwrap_or_default();
        let max = usize::try_from(max_rows).ok().filter(|max| *max > 0);
        let sent: Vec<_> = rows.take(max.unwrap_or(usize::MAX)).collect();
        // Like PostgreSQL, this does not look for further rows once the requested number is sent.
        let is_suspended = max == Some(sent.len());
        let reply = Reply::default().rows(&headings, &sent, &self.formats);
        match is_suspended {
            true => reply.bare(encode::portal_suspended),
            false => reply.complete("SHOW"),
        }
        .unfinished()
    }
}

/// Parses the rest of a Bind: values, and formats for a result with these columns.
fn formats(rest: &[u8], headings: Option<&[Heading]>) -> Result<Formats, Refused> {
    let mut rest = Rest(rest);
    for _ in 0..rest.i16()?.max(0) {
        rest.format()?;
    }
    if rest.i16()? != 0 {
        return Err(no_parameters());
    }
    let columns = headings.map_or(0, <[_]>::len);
    let count = rest.i16()?;
    let formats = (0..count)
        .map(|_| rest.format())
        .collect::<Result<Vec<_>, _>>()?;
    if !rest.0.is_empty() {
        return Err(Refused::new("invalid message format"));
    }
    match formats.as_slice() {
        [] => Ok(Formats::TEXT),
        [all] => Ok(Formats::All(*all)),
        each if each.len() == columns || headings.is_none() => Ok(Formats::Each(formats)),
        each => Err(Refused::new(format!(
            "bind message has {} result formats but query has {columns} columns",
            each.len()
        ))),
    }
}

/// Unread rest of a message body.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn i16(&mut self) -> Result<i16, Refused> {
        let split = self.0.split_first_chunk();
        let (chunk, rest) =
            split.ok_or_else(|| Refused::new("insufficient data left in message"))?;
        self.0 = rest;
        Ok(i16::from_be_bytes(*chunk))
    }

    fn format(&mut self) -> Result<Format, Refused> {
        let code = self.i16()?;
        Format::from_i16(code).ok_or_else(|| {
            let message = format!("unsupported format code: {code}");
            Refused::with(SqlState::INVALID_PARAMETER_VALUE, message)
        })
    }
}

fn read<T, E: std::fmt::Display>(read: Result<T, E>) -> Result<T, Refused> {
    read.map_err(|error| Refused::new(error.to_string()))
}

fn no_parameters() -> Refused {
    let code = SqlState::FEATURE_NOT_SUPPORTED;
    Refused::with(code, "the admin console takes no parameters")
}

fn no_portal(name: &[u8]) -> Refused {
    let message = format!("portal \"{}\" does not exist", shown(name));
    Refused::with(SqlState::INVALID_CURSOR_NAME, message)
}

fn check_name(name: &[u8]) -> Result<(), Refused> {
    if name.len() > NAME_LEN_MAX {
        let message = format!("names have {NAME_LEN_MAX} bytes at most");
        return Err(Refused::with(SqlState::NAME_TOO_LONG, message));
    }
    Ok(())
}

fn check_room(len: usize, max: usize, what: &str) -> Result<(), Refused> {
    if len >= max {
        let message = format!("the admin console keeps at most {max} {what} for a client");
        return Err(Refused::with(
            SqlState::CONFIGURATION_LIMIT_EXCEEDED,
            message,
        ));
    }
    Ok(())
}

/// Name in a form that can be shown: with bounded length and without NUL.
fn shown(name: &[u8]) -> String {
    let start = name.get(..NAME_LEN_MAX).unwrap_or(name);
    String::from_utf8_lossy(start).into_owned()
}
