//! A request of a client that is one LISTEN or UNLISTEN and nothing else: as a Query, or as one batch of the extended
//! protocol up to its Sync. Everything else is for a server.

use weir_wire::backend::tag as answer;
use weir_wire::frame::{Frame, Side, frame, header};
use weir_wire::frontend::{self, Kind, tag};

use super::{Request, statement};
use crate::client::Client;
use crate::relay::{Rules, STATEMENTS_MAX};
use crate::statement::{NAME_PREFIX, Registry};
use crate::unnamed;

/// A longer message does not belong to such a request.
const MESSAGE_MAX: usize = 4096;

/// ParameterDescription of no parameters.
const NO_PARAMETERS: [u8; 7] = [answer::PARAMETER_DESCRIPTION, 0, 0, 0, 6, 0, 0];

/// What [`request`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recognized {
    /// So far it could become one; no server would answer it yet either.
    More,
    /// Something else.
    Nothing,
    /// The whole of a request.
    Request {
        /// Bytes of the input.
        consumed: usize,
        /// What it asks for.
        request: Request,
        /// The answers that come before its CommandComplete, or before its error.
        before: Vec<u8>,
    },
}

/// Looks whether what a client without a server sent is a request to listen or to stop; if so, what the request did to
/// the client's statements is done.
#[must_use]
pub fn request(
    client: &mut Client,
    registry: &mut Registry,
    rules: Rules,
    input: &[u8],
) -> Recognized {
    match input.first() {
        Some(&tag::QUERY) if !rules.refuse_simple_query => query(client, input),
        Some(&(tag::PARSE | tag::BIND)) => match Batch::read(client, rules, input) {
            Ok(batch) => batch.take(client, registry),
            Err(Stop::More) => Recognized::More,
            Err(Stop::Nothing) => Recognized::Nothing,
        },
        _ => Recognized::Nothing,
    }
}

fn query(client: &mut Client, input: &[u8]) -> Recognized {
    let Ok(Some(frame)) = frame(input, Side::Frontend) else {
        return Recognized::Nothing;
    };
    let text = frontend::Query::parse(frame.body).ok();
    let Some(request) = text.and_then(|query| statement::read(query.sql)) else {
        return Recognized::Nothing;
    };
    if !client.has_no_unnamed() {
        // A simple query drops the unnamed statement.
        client.unnamed().define(unnamed::NONE, &[]);
        client.unnamed().confirm();
    }
    Recognized::Request {
        consumed: frame.raw.len(),
        request,
        before: Vec::new(),
    }
}

/// Why a batch is not one, or not yet.
enum Stop {
    More,
    Nothing,
}

/// `[Parse [Describe]] Bind [Describe] Execute Sync` of one statement.
struct Batch<'i> {
    /// Name and definition of the statement that it prepares.
    parsed: Option<(&'i [u8], &'i [u8])>,
    request: Request,
    before: Vec<u8>,
    consumed: usize,
}

/// Steps through the messages of a batch.
struct Steps<'i> {
    input: &'i [u8],
    at: usize,
}

impl<'i> Steps<'i> {
    fn next(&mut self) -> Result<Frame<'i>, Stop> {
        let rest = self.input.get(self.at..).unwrap_or_default();
        match header(rest, Side::Frontend) {
            Ok(Some(header)) if header.total_len() > MESSAGE_MAX => return Err(Stop::Nothing),
            Ok(_) => {}
            Err(_) => return Err(Stop::Nothing),
        }
        let frame = frame(rest, Side::Frontend).map_err(|_| Stop::Nothing)?;
        let frame = frame.ok_or(Stop::More)?;
        self.at += frame.raw.len();
        Ok(frame)
    }
}

impl<'i> Batch<'i> {
    fn read(client: &Client, rules: Rules, input: &'i [u8]) -> Result<Self, Stop> {
        let mut steps = Steps { input, at: 0 };
        let mut before = Vec::new();
        let mut parsed = None;
        let mut next = steps.next()?;
        if next.header.tag == tag::PARSE {
            let parse = frontend::Parse::parse(next.body).map_err(|_| Stop::Nothing)?;
            if !may_define(client, rules, parse.name) {
                return Err(Stop::Nothing);
            }
            let definition = next.body.get(parse.name.len() + 1..).unwrap_or_default();
            // Not worth waiting for the rest if it is something else.
            defined(definition)?;
            parsed = Some((parse.name, definition));
            complete(&mut before, answer::PARSE_COMPLETE);
            next = steps.next()?;
            if describes(&next, Kind::Statement, parse.name) {
                before.extend_from_slice(&NO_PARAMETERS);
                complete(&mut before, answer::NO_DATA);
                next = steps.next()?;
            }
        }
        let name = bound(&next)?;
        let request = match parsed {
            Some((parsed, definition)) if parsed == name => defined(definition)?,
            Some(_) => return Err(Stop::Nothing),
            None => prepared(client, rules, name)?,
        };
        complete(&mut before, answer::BIND_COMPLETE);
        next = steps.next()?;
        if describes(&next, Kind::Portal, b"") {
            complete(&mut before, answer::NO_DATA);
            next = steps.next()?;
        }
        let runs = next.header.tag == tag::EXECUTE
            && frontend::Execute::parse(next.body).is_ok_and(|execute| execute.portal.is_empty());
        if !runs || steps.next()?.header.tag != tag::SYNC {
            return Err(Stop::Nothing);
        }
        Ok(Self {
            parsed,
            request,
            before,
            consumed: steps.at,
        })
    }

    fn take(self, client: &mut Client, registry: &mut Registry) -> Recognized {
        match self.parsed {
            Some((b"", definition)) => {
                client.unnamed().define(registry.serial(), definition);
                client.unnamed().confirm();
            }
            Some((name, definition)) => {
                client.remember(name.into(), Some(registry.intern(definition)));
            }
            None => {}
        }
        Recognized::Request {
            consumed: self.consumed,
            request: self.request,
            before: self.before,
        }
    }
}

/// Whether a Parse under this name succeeds if its text is right.
fn may_define(client: &Client, rules: Rules, name: &[u8]) -> bool {
    if name.is_empty() {
        return rules.tracks_unnamed;
    }
    rules.max_prepared > 0
        && !name.starts_with(NAME_PREFIX)
        && client.statement(name).is_none()
        && client.statement_count() < STATEMENTS_MAX
}

/// What a statement asks for that a Parse defined: its text, NUL, and no parameter types.
fn defined(definition: &[u8]) -> Result<Request, Stop> {
    let text = definition.strip_suffix(&[0, 0, 0]);
    text.and_then(statement::read).ok_or(Stop::Nothing)
}

/// What a statement asks for that the client has.
fn prepared(client: &Client, rules: Rules, name: &[u8]) -> Result<Request, Stop> {
    if name.is_empty() {
        return defined(client.current_unnamed().1);
    }
    let known = client
        .statement(name)
        .filter(|_| rules.max_prepared > 0)
        .and_then(|(_, statement)| statement);
    defined(&known.ok_or(Stop::Nothing)?.body)
}

/// The statement in a Bind without values, for the unnamed portal.
fn bound<'i>(frame: &Frame<'i>) -> Result<&'i [u8], Stop> {
    if frame.header.tag != tag::BIND {
        return Err(Stop::Nothing);
    }
    let bind = frontend::Bind::parse(frame.body).map_err(|_| Stop::Nothing)?;
    // Formats of no values, then no values; the formats of a result that does not exist are of no consequence.
    let has_no_values = bind.rest.starts_with(&[0, 0, 0, 0]);
    if !bind.portal.is_empty() || !has_no_values {
        return Err(Stop::Nothing);
    }
    Ok(bind.statement)
}

fn describes(frame: &Frame<'_>, kind: Kind, name: &[u8]) -> bool {
    frame.header.tag == tag::DESCRIBE
        && frontend::Describe::parse(frame.body)
            .is_ok_and(|describe| describe.kind == kind && describe.name == name)
}

/// An answer that is nothing but its tag.
fn complete(out: &mut Vec<u8>, tag: u8) {
    out.extend_from_slice(&[tag, 0, 0, 0, 4]);
}

#[cfg(test)]
mod tests;
