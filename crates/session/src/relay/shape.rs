//! What a statement returns: fixed for a client once it was told (manual, 55.2.3: Describe), whatever server it is on.
//!
//! PostgreSQL holds to it: when tables have changed so that a prepared statement would return something else, it refuses
//! (`cached plan must not change result type`). A server that prepares the same text after the change cannot know what
//! clients were told, so it is asked to describe what it has prepared, and the answer is compared.

use std::hash::{DefaultHasher, Hasher};

use weir_wire::encode;

use super::reply::ServerFault;
use crate::client::Client;
use crate::expected::{Duty, Expected, Kind};

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

/// The front entry is answered by what a statement returns. An error if the client was told something else, and does not
/// hear this: its own requests are on their way to the server, so the server has to go with whatever comes of them, and
/// the client has to hear it before it reads a row.
pub(super) fn described(
    entry: &Expected,
    client: &mut Client,
    shape: u64,
) -> Result<(), ServerFault> {
    let renamed = entry.renamed.as_ref();
    let Some(renamed) = renamed.filter(|_| entry.kind == Kind::Describe) else {
        return Ok(());
    };
    let statement = &renamed.ours;
    if runs_another(statement.text()) {
        return Ok(());
    }
    if statement.shape() == 0 {
        statement.set_shape(shape);
    } else if statement.shape() != shape {
        // Others were told something else.
        statement.outdate();
        if entry.duty == Duty::Swallow {
            return Err(ServerFault::ResultChanged(error_body()));
        }
        client.was_told(&renamed.theirs);
    }
    Ok(())
}

/// EXECUTE and FETCH return what something else returns, which is looked up each time.
fn runs_another(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    [b"execute".as_slice(), b"fetch"].iter().any(|word| {
        text.get(..word.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(word))
    })
}

fn error_body() -> Box<[u8]> {
    let message = error();
    message
        .get(weir_wire::frame::HEADER_LEN..)
        .unwrap_or_default()
        .into()
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
