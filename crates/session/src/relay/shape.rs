//! What a statement takes and returns: fixed for a client since it prepared it, whatever server it is on.
//!
//! PostgreSQL holds to it. Parameter types stay what they were, and when tables have changed so that a prepared statement
//! would return something else, it refuses (`cached plan must not change result type`). A server that prepares the same
//! text after the change cannot know what clients go by. So each Parse of ours is described, and the answer compared.

use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use weir_wire::encode;

use crate::client::{Client, Told};
use crate::expected::Kind;
use crate::server::Server;
use crate::statement::Description;

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

/// The front entry is answered by what a statement returns (`None`: too long to be read), behind its parameter types.
///
/// All copies of a statement have one description. If this one differs, the copy is another statement's: nobody else may
/// use it, further Parses of the text get another statement, and so does the client whose own Parse it describes.
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
        // Prepared with the parameter types of the client's own Parse, so only columns can differ.
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
        // Nobody else can be sure to have the same.
        Told::TooMuch => ours.retire(),
    }
    client.was_described(&theirs, &ours, &told);
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
