//! What a statement returns: fixed for a client since it prepared it, whatever server it is on.
//!
//! PostgreSQL holds to it: when tables have changed so that a prepared statement would return something else, it refuses
//! (`cached plan must not change result type`). A server that prepares the same text after the change cannot know what
//! clients go by, so it is asked to describe what it has prepared, and the answer is compared.

use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use weir_wire::encode;

use crate::client::Client;
use crate::expected::{Duty, Kind};
use crate::server::Server;

/// The text that PostgreSQL has for it.
const TEXT: &[u8] = b"cached plan must not change result type";

/// What a statement without rows returns.
pub(super) const NO_DATA: u64 = 1;

/// Stands for the columns in the body of a RowDescription, by what PostgreSQL compares (`equalTupleDescs`): names, types
/// and their modifiers, but not where they come from. Never 0 nor [`NO_DATA`].
pub(super) fn of_rows(body: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut rest = body.get(2..).unwrap_or_default();
    while let Some(end) = rest.iter().position(|byte| *byte == 0) {
        let (name, column) = rest.split_at(end);
        hasher.write(name);
        // Behind the NUL: table (6 bytes), type (4), length (2), modifier (4), format (2).
        hasher.write(column.get(..1).unwrap_or_default());
        hasher.write(column.get(7..17).unwrap_or_default());
        rest = column.get(19..).unwrap_or_default();
    }
    hasher.finish().max(2)
}

/// The front entry is answered by what a statement returns. The client of this entry waits for the comparison, hears the
/// answer itself, or does not rely on any other.
pub(super) fn described(client: &mut Client, server: &mut Server, shape: u64) {
    let Some(entry) = server.queue.front() else {
        return;
    };
    let renamed = entry.renamed.as_ref();
    let Some(renamed) = renamed.filter(|_| entry.kind == Kind::Describe) else {
        return;
    };
    let statement = &renamed.ours;
    if !statement.returns_rows {
        return;
    }
    if let Some(asked) = &mut server.comparison
        && Arc::ptr_eq(&asked.next, statement)
    {
        asked.said = shape;
    }
    if statement.shape() == shape {
        return;
    }
    if statement.shape() == 0 {
        return statement.set_shape(shape);
    }
    // Others go by something else.
    statement.outdate();
    if entry.is_fresh || entry.duty == Duty::Forward {
        client.returns_now(&renamed.theirs, statement, shape);
    }
}

/// PostgreSQL's own error, as it would come if the server had known.
pub(super) fn error() -> Vec<u8> {
    let mut message = Vec::new();
    let fields = [
        (b'S', &b"ERROR"[..]),
        (b'V', b"ERROR"),
        (b'C', b"0A000"),
        (b'M', TEXT),
        (b'R', b"RevalidateCachedQuery"),
    ];
    // Constant texts fit.
    let _ = encode::error_response(&mut message, &fields);
    message
}
