//! A request of a client that is nothing but LISTEN and UNLISTEN: as a Query, or, one of them, as one batch of the
//! extended protocol up to its Sync. Everything else is for a server.

use std::sync::Arc;

use weir_sql::{Effects, Judge};
use weir_wire::backend::tag as answer;
use weir_wire::frame::{Frame, Side, frame, header};
use weir_wire::frontend::{self, Kind, tag};

use super::Request;
use crate::client::{self, Client};
use crate::relay::{Rules, STATEMENTS_MAX, StatePolicy};
use crate::statement::{Proven, Registry};
use crate::unnamed;

/// A longer message does not belong to such a request.
const MESSAGE_MAX: usize = 4096;

/// ParameterDescription of no parameters.
const NO_PARAMETERS: [u8; 7] = [answer::PARAMETER_DESCRIPTION, 0, 0, 0, 6, 0, 0];

/// What [`request`] found.
#[derive(Debug, PartialEq, Eq)]
pub enum Recognized<'i> {
    /// So far it could become one; no server would answer it yet either.
    More,
    /// Something else.
    Nothing,
    /// The whole of a request.
    Request(Found<'i>),
}

/// A request to listen or to stop, in the bytes that a client sent.
#[derive(Debug, PartialEq, Eq)]
pub struct Found<'i> {
    /// Bytes of the input.
    pub consumed: usize,
    /// What it asks for: at least one, in order.
    pub requests: Vec<Request>,
    /// The answers that come before its CommandComplete, or before its error.
    pub before: Vec<u8>,
    statement: Defined<'i>,
}

/// What becomes of the client's statements.
#[derive(Debug, PartialEq, Eq)]
enum Defined<'i> {
    /// The unnamed one is dropped.
    Dropped,
    /// It gets a name.
    Named(&'i [u8], &'i [u8]),
    Nothing,
    /// It is prepared.
    Unnamed(&'i [u8], Arc<Effects>),
}

/// Looks whether what a client without a server sent is a request to listen or to stop.
#[must_use]
pub fn request<'i>(
    client: &Client,
    judge: &mut Judge,
    rules: Rules,
    input: &'i [u8],
) -> Recognized<'i> {
    let found = match input.first() {
        _ if rules.state != StatePolicy::Track => Err(Stop::Nothing),
        Some(&tag::QUERY) if !rules.refuse_simple_query => query(judge, input),
        Some(&(tag::PARSE | tag::BIND)) => batch(client, judge, rules, input),
        _ => Err(Stop::Nothing),
    };
    match found {
        Ok(found) => Recognized::Request(found),
        Err(Stop::More) => Recognized::More,
        Err(Stop::Nothing) => Recognized::Nothing,
    }
}

impl Found<'_> {
    /// Does to the client's statements what the request does.
    pub fn take(&self, client: &mut Client, registry: &mut Registry, proven: &Arc<Proven>) {
        match &self.statement {
            Defined::Named(name, definition) => {
                // A server would take it: PostgreSQL looks nothing up for it.
                let settings = &client.settings;
                let context = client.planned.context(settings, registry, proven);
                let statement = registry.intern(context, definition);
                let parsed = client::Parsed::Deferred;
                client.remember((*name).into(), Some(statement), parsed);
            }
            Defined::Dropped if client.has_no_unnamed() => {}
            Defined::Dropped => {
                client.unnamed().define(unnamed::NONE, &[], None);
                client.unnamed().confirm();
            }
            Defined::Nothing => {}
            Defined::Unnamed(definition, effects) => {
                let effects = Some(Arc::clone(effects));
                client
                    .unnamed()
                    .define(registry.serial(), definition, effects);
                client.unnamed().confirm();
            }
        }
    }
}

/// Why it is not one, or not yet.
enum Stop {
    More,
    Nothing,
}

fn query<'i>(judge: &mut Judge, input: &'i [u8]) -> Result<Found<'i>, Stop> {
    let frame = frame(input, Side::Frontend).ok().flatten();
    let frame = frame.ok_or(Stop::Nothing)?;
    let text = frontend::Query::parse(frame.body).ok();
    let effects = judged(judge, text.ok_or(Stop::Nothing)?.sql)?;
    Ok(Found {
        consumed: frame.raw.len(),
        requests: Request::all_of(&effects).ok_or(Stop::Nothing)?,
        before: Vec::new(),
        statement: Defined::Dropped,
    })
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

/// `[Parse [Describe]] Bind [Describe] Execute Sync` of one statement.
fn batch<'i>(
    client: &Client,
    judge: &mut Judge,
    rules: Rules,
    input: &'i [u8],
) -> Result<Found<'i>, Stop> {
    let mut steps = Steps { input, at: 0 };
    let mut before = Vec::new();
    let mut next = steps.next()?;
    let parsed = parsed(client, judge, rules, &next)?;
    if let Some(parsed) = &parsed {
        complete(&mut before, answer::PARSE_COMPLETE);
        next = steps.next()?;
        if describes(&next, Kind::Statement, parsed.name) {
            before.extend_from_slice(&NO_PARAMETERS);
            complete(&mut before, answer::NO_DATA);
            next = steps.next()?;
        }
    }
    let name = bound(&next)?;
    let (effects, statement) = match parsed {
        Some(parsed) if name == parsed.name => {
            let defined = if name.is_empty() {
                Defined::Unnamed(parsed.definition, Arc::clone(&parsed.effects))
            } else {
                Defined::Named(name, parsed.definition)
            };
            (parsed.effects, defined)
        }
        Some(_) => return Err(Stop::Nothing),
        None => (prepared(client, judge, rules, name)?, Defined::Nothing),
    };
    // PostgreSQL prepares one statement at a time.
    let requests = Request::all_of(&effects).filter(|all| all.len() == 1);
    let requests = requests.ok_or(Stop::Nothing)?;
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
    Ok(Found {
        consumed: steps.at,
        requests,
        before,
        statement,
    })
}

/// A Parse of a request to listen or to stop.
struct Parsed<'i> {
    name: &'i [u8],
    definition: &'i [u8],
    effects: Arc<Effects>,
}

/// What a Parse prepares; none if it is no Parse. Not worth waiting for the rest if it prepares something else, or under a
/// name that is taken.
fn parsed<'i>(
    client: &Client,
    judge: &mut Judge,
    rules: Rules,
    frame: &Frame<'i>,
) -> Result<Option<Parsed<'i>>, Stop> {
    if frame.header.tag != tag::PARSE {
        return Ok(None);
    }
    let parse = frontend::Parse::parse(frame.body).map_err(|_| Stop::Nothing)?;
    let effects = judged(judge, parse.sql)?;
    let is_free = if parse.name.is_empty() {
        rules.tracks_unnamed
    } else {
        client.maps_names.unwrap_or(rules.max_prepared > 0)
            && client.own_names.is_none()
            && client.statement(parse.name).is_none()
            && client.statement_count() < STATEMENTS_MAX
    };
    // No parameter types.
    if !is_free || parse.rest != [0, 0] || effects.channels.len() != 1 {
        return Err(Stop::Nothing);
    }
    Ok(Some(Parsed {
        name: parse.name,
        definition: frame.body.get(parse.name.len() + 1..).unwrap_or_default(),
        effects,
    }))
}

/// What a text does that could be such a request; nearly every other is told apart by its first letters.
fn judged(judge: &mut Judge, sql: &[u8]) -> Result<Arc<Effects>, Stop> {
    let start = sql.trim_ascii_start();
    let is_verb = |verb: &[u8]| {
        let word = start.get(..verb.len());
        word.is_some_and(|word| word.eq_ignore_ascii_case(verb))
    };
    let may_be = is_verb(b"listen") || is_verb(b"unlisten");
    if !may_be {
        return Err(Stop::Nothing);
    }
    judge.effects(sql, true).ok_or(Stop::Nothing)
}

/// What a statement does that the client has.
fn prepared(
    client: &Client,
    judge: &mut Judge,
    rules: Rules,
    name: &[u8],
) -> Result<Arc<Effects>, Stop> {
    if name.is_empty() {
        let effects = client.unnamed_effects().cloned();
        return effects.ok_or(Stop::Nothing);
    }
    let known = client
        .statement(name)
        .filter(|_| client.maps_names.unwrap_or(rules.max_prepared > 0))
        .and_then(|(_, statement)| statement);
    let statement = known.ok_or(Stop::Nothing)?;
    statement.effects(judge).ok_or(Stop::Nothing)
}

/// The statement in a Bind without values, for the unnamed portal.
fn bound<'i>(frame: &Frame<'i>) -> Result<&'i [u8], Stop> {
    if frame.header.tag != tag::BIND {
        return Err(Stop::Nothing);
    }
    let bind = frontend::Bind::parse(frame.body).map_err(|_| Stop::Nothing)?;
    // Formats of no values, perhaps one for all of them, then no values; the formats of a result that does not exist are of
    // no consequence.
    let has_no_values = matches!(bind.rest, [0, 0, 0, 0, ..] | [0, 1, 0, 0 | 1, 0, 0, ..]);
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
