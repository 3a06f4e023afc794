//! Interprets an ErrorResponse about prepared statements, for Weir and, with the client's names, for the client.

use weir_wire::backend::{self, tag};
use weir_wire::frontend;
use weir_wire::sqlstate::SqlState;

use super::shape;
use crate::expected::{CopyState, Expected, Kind, Queue};
use crate::server::Server;
use crate::statement::OUTDATED;

/// Function in PostgreSQL's `plancache.c` that reports a changed result type. The code 0A000 alone does not suffice: it
/// stands for many other errors too.
const REVALIDATE: &[u8] = b"RevalidateCachedQuery";

/// True for severity FATAL or PANIC: the server is about to close the connection.
pub(super) fn is_fatal(body: &[u8]) -> bool {
    // 'V' is the severity that is never translated (manual, 55.8); servers before 9.6 have only 'S'.
    let fields = || backend::ErrorFields::parse(body);
    let severity = fields()
        .ok()
        .and_then(|fields| fields.get(b'V').or_else(|| fields.get(b'S')));
    matches!(severity, Some(b"FATAL" | b"PANIC"))
}

/// True if the client did not cause the error, and the whole batch can be sent to the server again from a clean state.
/// Either the server's copy of a statement is lost, or the stand-in of an unnamed statement is outdated.
pub(super) fn repeats(server: &Server, failed: &Expected, body: &[u8]) -> bool {
    if !failed.begins || !server.repeat.is_whole() || !server.queue.ends_with_batch() {
        return false;
    }
    let is_alive = !server.is_tolerant() && !server.is_dying();
    is_alive && (failed.is_fresh && is_outdated(body) || is_lost(server, failed, body))
}

/// Updates the record of prepared statements after an error. If it drops a statement, the caller must recall its name
/// ([`Server::take_back`] follows).
pub(super) fn learn(server: &mut Server, failed: &Expected, body: &[u8]) {
    if failed.kind == Kind::Parse
        && let Some(statement) = &failed.statement
    {
        statement.disprove();
    }
    let Some(renamed) = &failed.renamed else {
        return;
    };
    if is_outdated(body) {
        // A client that prepared the statement before its tables changed gets this error on every use, as it would
        // without a pooler. The stand-in of an unnamed statement belongs to no client.
        if renamed.theirs.is_empty() {
            renamed.ours.retire();
            server.prepared.lose(&renamed.ours);
        }
    } else if is_lost(server, failed, body) {
        // The statement was dropped without notice (by a function, perhaps), so all others may be gone too.
        server.prepared.lose_all();
        server.recall_prepared();
    }
}

/// True for `cached plan must not change result type`.
pub(super) fn is_outdated(body: &[u8]) -> bool {
    let field = |wanted| backend::ErrorFields::parse(body).ok()?.get(wanted);
    field(b'C') == Some(SqlState::FEATURE_NOT_SUPPORTED.as_str().as_bytes())
        && field(b'R') == Some(REVALIDATE)
}

/// True if the server does not know a statement that it should have.
fn is_lost(server: &Server, failed: &Expected, body: &[u8]) -> bool {
    let renamed = failed.renamed.as_ref();
    renamed.is_some_and(|renamed| server.prepared.has_confirmed(&renamed.ours))
        && is_missing(failed, body)
}

/// True if the server does not know a name of ours.
fn is_missing(failed: &Expected, body: &[u8]) -> bool {
    let field = |wanted| backend::ErrorFields::parse(body).ok()?.get(wanted);
    let Some(renamed) = &failed.renamed else {
        return false;
    };
    matches!(failed.kind, Kind::Bind | Kind::Describe)
        && field(b'C') == Some(SqlState::INVALID_SQL_STATEMENT_NAME.as_str().as_bytes())
        && contains(body, &renamed.ours.name).is_some()
}

fn contains(body: &[u8], text: &[u8]) -> Option<usize> {
    body.windows(text.len()).position(|window| window == text)
}

/// Returns an ErrorResponse about a replaced statement name with the client's name in place of ours.
pub(super) fn renamed(entry: &Expected, body: &[u8]) -> Option<Vec<u8>> {
    let renamed = entry.renamed.as_ref()?;
    let (ours, theirs) = (&renamed.ours.name, &renamed.theirs);
    if **ours == *OUTDATED && contains(body, ours).is_some() {
        return Some(shape::error());
    }
    let code = backend::ErrorFields::parse(body).ok()?.get(b'C')?;
    let about_names = [
        SqlState::DUPLICATE_PSTATEMENT,
        SqlState::INVALID_SQL_STATEMENT_NAME,
        // Raised for a Bind with too few or too many parameters.
        SqlState::PROTOCOL_VIOLATION,
    ];
    if !about_names
        .iter()
        .any(|name| name.as_str().as_bytes() == code)
    {
        return None;
    }
    replaced(body, ours, theirs)
}

/// Returns the ErrorResponse about a message in the middle of a COPY FROM STDIN (`unexpected message type 0x50 during COPY
/// from stdin`), with the type of the client's message in place of that of ours in front of it. `waiting` is the type of
/// the client's message that waits.
pub(super) fn retyped(queue: &Queue, waiting: u8, body: &[u8]) -> Option<Vec<u8>> {
    if !matches!(queue.copy(), CopyState::In { .. }) {
        return None;
    }
    let code = backend::ErrorFields::parse(body).ok()?.get(b'C')?;
    if code != SqlState::PROTOCOL_VIOLATION.as_str().as_bytes() {
        return None;
    }
    let (ours, theirs) = queue.ours_behind_front()?;
    let number = |tag| format!("0x{tag:02X}").into_bytes();
    let theirs = theirs.map_or(waiting, frontend_tag);
    replaced(body, &number(frontend_tag(ours)), &number(theirs))
}

/// Returns the tag of a request of this kind.
fn frontend_tag(kind: Kind) -> u8 {
    match kind {
        Kind::Bind => frontend::tag::BIND,
        Kind::Close => frontend::tag::CLOSE,
        Kind::CopyEnd => frontend::tag::COPY_DONE,
        Kind::Describe => frontend::tag::DESCRIBE,
        Kind::Execute => frontend::tag::EXECUTE,
        Kind::FunctionCall => frontend::tag::FUNCTION_CALL,
        Kind::Parse => frontend::tag::PARSE,
        Kind::Query => frontend::tag::QUERY,
        Kind::Sync => frontend::tag::SYNC,
    }
}

/// Returns an ErrorResponse with this body, and the first of these texts replaced.
fn replaced(body: &[u8], text: &[u8], by: &[u8]) -> Option<Vec<u8>> {
    let at = contains(body, text)?;
    let new_body = [body.get(..at)?, by, body.get(at + text.len()..)?].concat();
    let length = u32::try_from(new_body.len() + 4).ok()?;
    let mut message = vec![tag::ERROR_RESPONSE];
    message.extend_from_slice(&length.to_be_bytes());
    message.extend_from_slice(&new_body);
    Some(message)
}
