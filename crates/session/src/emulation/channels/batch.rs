//! Recognises client requests that contain nothing but LISTEN and UNLISTEN.
//!
//! Such a request is a Query with any number of these statements. In the extended protocol, it is a single statement,
//! sent as one batch up to its Sync. Everything else goes to a server.

use std::sync::Arc;

use weir_sql::{Effects, Judge};
use weir_wire::backend::tag as answer;
use weir_wire::frame::{Frame, Side, frame, header};
use weir_wire::frontend::{self, Kind, tag};

use super::Request;
use crate::client::{self, Client};
use crate::relay::{Batch, First, Rules, STATEMENTS_MAX, StatePolicy};
use crate::statement::{Proven, Registry};
use crate::unnamed;

/// Maximum length of a message in such a request; a longer message is something else.
const MESSAGE_MAX: usize = 4096;

/// ParameterDescription with no parameters.
const NO_PARAMETERS: [u8; 7] = [answer::PARAMETER_DESCRIPTION, 0, 0, 0, 6, 0, 0];

/// Result of [`request`].
#[derive(Debug, PartialEq, Eq)]
pub enum Recognized<'i> {
    /// Incomplete: it may still become such a request, and no server would answer it yet.
    More,
    /// Not such a request.
    Nothing,
    /// A complete request.
    Request(Found<'i>),
}

/// LISTEN or UNLISTEN requests found in a client's input.
#[derive(Debug, PartialEq, Eq)]
pub struct Found<'i> {
    /// Length of the request in bytes of the input.
    pub consumed: usize,
    /// LISTEN and UNLISTEN statements in order; at least one.
    pub requests: Vec<Request>,
    /// Replies that precede its CommandComplete or its error.
    pub before: Vec<u8>,
    statement: Defined<'i>,
}

/// Effect of the request on the client's prepared statements.
#[derive(Debug, PartialEq, Eq)]
enum Defined<'i> {
    /// Drops the unnamed statement.
    Dropped,
    /// Defines a named statement: name and definition.
    Named(&'i [u8], &'i [u8]),
    Nothing,
    /// Defines the unnamed statement.
    Unnamed(&'i [u8], Arc<Effects>),
}

/// Checks if the batch of a client without a server is a request to listen or to stop.
#[must_use]
pub fn request<'i>(
    client: &Client,
    judge: &mut Judge,
    rules: Rules,
    batch: &Batch<'i>,
) -> Recognized<'i> {
    let found = match (batch.first, batch.input.first()) {
        _ if rules.state != StatePolicy::Track => Err(Stop::Nothing),
        (First::Query(text) | First::Parse(text), _) if !begins_with_verb(text) => {
            Err(Stop::Nothing)
        }
        (First::Query(text), _) if !rules.refuse_simple_query => query(judge, batch, text),
        (_, Some(&(tag::PARSE | tag::BIND))) => extended(client, judge, rules, batch.input),
        _ => Err(Stop::Nothing),
    };
    match found {
        Ok(found) => Recognized::Request(found),
        Err(Stop::More) => Recognized::More,
        Err(Stop::Nothing) => Recognized::Nothing,
    }
}

impl Found<'_> {
    /// Applies the request to the client's prepared statements.
    pub fn take(&self, client: &mut Client, registry: &mut Registry, proven: &Arc<Proven>) {
        match &self.statement {
            Defined::Named(name, definition) => {
                // No server is needed: PostgreSQL looks nothing up when it parses LISTEN or UNLISTEN.
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

/// Reason why the input is not a request, or not a complete one.
enum Stop {
    More,
    Nothing,
}

fn query<'i>(judge: &mut Judge, batch: &Batch<'_>, text: &[u8]) -> Result<Found<'i>, Stop> {
    let effects = judged(judge, text)?;
    Ok(Found {
        consumed: batch.extent().len,
        requests: Request::all_of(&effects).ok_or(Stop::Nothing)?,
        before: Vec::new(),
        statement: Defined::Dropped,
    })
}

/// Iterator over the messages of a batch.
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

/// Parses `[Parse [Describe]] Bind [Describe] Execute Sync` of one statement.
fn extended<'i>(
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

/// Parse message of a LISTEN or UNLISTEN.
struct Parsed<'i> {
    name: &'i [u8],
    definition: &'i [u8],
    effects: Arc<Effects>,
}

/// Returns the Parse in this message, or `None` if the message is not a Parse. Fails at once, without waiting for the
/// rest of the batch, if the statement does something else or its name is taken.
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

/// True if a text may be LISTEN or UNLISTEN. Rules out nearly every other text without judging it.
fn begins_with_verb(sql: &[u8]) -> bool {
    let start = sql.trim_ascii_start();
    let is_verb = |verb: &[u8]| {
        let word = start.get(..verb.len());
        word.is_some_and(|word| word.eq_ignore_ascii_case(verb))
    };
    is_verb(b"listen") || is_verb(b"unlisten")
}

/// Returns the effects of a text that may be LISTEN or UNLISTEN.
fn judged(judge: &mut Judge, sql: &[u8]) -> Result<Arc<Effects>, Stop> {
    let text = Some(sql).filter(|sql| begins_with_verb(sql));
    (text.and_then(|text| judge.effects(text, true))).ok_or(Stop::Nothing)
}

/// Returns the effects of a statement that the client has prepared.
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

/// Returns the statement name of a Bind that has no parameter values and uses the unnamed portal.
fn bound<'i>(frame: &Frame<'i>) -> Result<&'i [u8], Stop> {
    if frame.header.tag != tag::BIND {
        return Err(Stop::Nothing);
    }
    let bind = frontend::Bind::parse(frame.body).map_err(|_| Stop::Nothing)?;
    // No format codes or a single one, then no values. Result formats do not matter, since there is no result.
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

/// Appends a reply that consists of a tag only.
fn complete(out: &mut Vec<u8>, tag: u8) {
    out.extend_from_slice(&[tag, 0, 0, 0, 4]);
}

#[cfg(test)]
mod tests;
