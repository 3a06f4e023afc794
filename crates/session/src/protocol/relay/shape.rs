//! Checks that a statement takes and returns the same types on every server as when the client prepared it.
//!
//! PostgreSQL guarantees this. Parameter types never change. If tables changed so that a prepared statement would
//! return other columns, it refuses (`cached plan must not change result type`). A server that prepares the same text
//! after such a change cannot know what clients rely on. So Weir has each of its own Parses described and compares the
//! result.

use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use weir_wire::encode;

use crate::client::{Client, Told};
use crate::expected::Kind;
use crate::server::Server;
use crate::statement::Description;

/// PostgreSQL's text of the error.
const TEXT: &[u8] = b"cached plan must not change result type";

/// Shape of a statement that returns no rows.
pub(super) const NO_DATA: u64 = 1;

/// Returns a hash of the columns in the body of a RowDescription. Covers what PostgreSQL compares (`equalTupleDescs`):
/// names, types and type modifiers, but not the origin of columns. Never 0 or [`NO_DATA`].
pub(super) fn of_rows(body: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut rest = body.get(2..).unwrap_or_default();
    while let Some(end) = rest.iter().position(|byte| *byte == 0) {
        let (name, column) = rest.split_at(end);
        hasher.write(name);
        // Behind the NUL: table and column (6 bytes), type (4), length (2), modifier (4), format (2).
        hasher.write(column.get(..1).unwrap_or_default());
        hasher.write(column.get(7..17).unwrap_or_default());
        rest = column.get(19..).unwrap_or_default();
    }
    hasher.finish().max(2)
}

/// Records the description of the front entry's statement: parameter types and `shape` (`None`: too long to be read).
///
/// All copies of a statement have the same description. If this one differs, the copy belongs to another statement, and
/// no other client may use it. Later Parses of the text get another statement, as does the client whose own Parse was
/// described.
pub(super) fn described(client: &mut Client, server: &mut Server, shape: Option<u64>) {
    let Some(entry) = server.queue.front() else {
        return;
    };
    let renamed = entry.renamed.as_ref();
    let Some(renamed) = renamed.filter(|_| entry.kind == Kind::Describe) else {
        return;
    };
    let (ours, theirs) = (Arc::clone(&renamed.ours), Arc::clone(&renamed.theirs));
    let is_fresh = entry.is_fresh;
    if !ours.needs_description() {
        return;
    }
    let types = std::mem::take(&mut server.parameters);
    let told = match shape.filter(|_| !types.is_empty()) {
        None => Told::TooMuch,
        Some(shape) if ours.describe(&types, shape) => Told::Same,
        Some(shape) => Told::Other(Description {
            types: (&*types).into(),
            shape,
        }),
    };
    server.parameters = types;
    server.parameters.clear();
    if let Some(asked) = &mut server.comparison
        && Arc::ptr_eq(&asked.next, &ours)
    {
        // The copy was prepared with the parameter types of the client's own Parse, so only columns can differ.
        asked.is_same = matches!(told, Told::Same);
        if asked.is_same {
            server.prepared.was_described(&ours);
        } else {
            server.prepared.doubt(&ours);
        }
        return;
    }
    if !is_fresh {
        return;
    }
    match &told {
        Told::Same => server.prepared.was_described(&ours),
        Told::Other(_) => {
            ours.retire();
            server.prepared.doubt(&ours);
        }
        // No other client can be sure to have the same statement.
        Told::TooMuch => ours.retire(),
    }
    client.was_described(&theirs, &ours, &told);
}

/// Returns the error that PostgreSQL itself would have sent.
pub(super) fn error() -> Vec<u8> {
    let mut message = Vec::new();
    let fields = [
        (b'S', &b"ERROR"[..]),
        (b'V', b"ERROR"),
        (b'C', b"0A000"),
        (b'M', TEXT),
        (b'R', b"RevalidateCachedQuery"),
    ];
    // Cannot fail: constant texts fit.
    let _ = encode::error_response(&mut message, &fields);
    message
}
