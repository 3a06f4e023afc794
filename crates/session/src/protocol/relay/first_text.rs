//! Text of a batch's first statement, also if it was prepared earlier.

use weir_wire::before_nul;
use weir_wire::frame::{Side, frame};
use weir_wire::frontend::{Bind, tag};

use super::Batch;
use crate::client::Client;

/// Returns the text of the first statement of a batch: of its Query or Parse, or of the statement that its first Bind
/// names. None if the batch begins otherwise, or the text is not known.
#[must_use]
pub fn first_text<'t>(batch: &Batch<'t>, client: &'t Client) -> Option<&'t [u8]> {
    if let Some(text) = batch.text() {
        return Some(text);
    }
    let message = frame(batch.input, Side::Frontend).ok()??;
    if message.header.tag != tag::BIND {
        return None;
    }
    let head = Bind::head(message.body).ok()??;
    let known = match head.statement {
        b"" => client.unnamed_stand_in(),
        name => client.statement(name).and_then(|(_, known)| known),
    };
    if let Some(known) = known {
        return Some(known.text());
    }
    let (_, body) = client.current_unnamed();
    let text = before_nul(body);
    (head.statement.is_empty() && !text.is_empty()).then_some(text)
}
