//! Encodes answers, large ones piece by piece.

use std::collections::VecDeque;

use weir_wire::encode::EncodeError;

use crate::null::canned::{Canned, description};
use crate::null::session::OUT_HIGH;
use crate::null::sql::Kind;

/// Answers that follow the current output. Nearly always empty.
#[derive(Default)]
pub(super) struct Pending(VecDeque<Piece>);

/// Part of an answer that is not encoded yet.
enum Piece {
    Bytes(Vec<u8>),
    Rows { left: u64, is_copy: bool },
}

impl Pending {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the buffer for the next bytes: the output, or a new piece at the end of the queue.
    pub(super) fn sink<'a>(&'a mut self, out: &'a mut Vec<u8>) -> &'a mut Vec<u8> {
        if self.0.is_empty() {
            return out;
        }
        if !matches!(self.0.back(), Some(Piece::Bytes(_))) {
            self.0.push_back(Piece::Bytes(Vec::new()));
        }
        match self.0.back_mut() {
            Some(Piece::Bytes(bytes)) => bytes,
            // Not reached: the piece was added above.
            _ => out,
        }
    }

    /// Queues the rows of the canned result, or its COPY data.
    pub(super) fn push_rows(&mut self, is_copy: bool, canned: &Canned, out: &mut Vec<u8>) {
        let left = canned.rows;
        self.0.push_back(Piece::Rows { left, is_copy });
        self.pump(canned, out);
    }

    /// Encodes queued answers, as far as there is room.
    pub(super) fn pump(&mut self, canned: &Canned, out: &mut Vec<u8>) {
        while out.len() < OUT_HIGH
            && let Some(piece) = self.0.front_mut()
        {
            match piece {
                Piece::Bytes(bytes) => out.append(bytes),
                Piece::Rows { left, is_copy } => {
                    *left -= canned.block(*is_copy).append(*left, out);
                    if *left > 0 {
                        continue;
                    }
                }
            }
            self.0.pop_front();
        }
    }
}

/// Appends the RowDescription of a statement; returns false if it has no rows.
pub(super) fn describe(
    kind: &Kind,
    canned: &Canned,
    out: &mut Vec<u8>,
) -> Result<bool, EncodeError> {
    match kind {
        Kind::Rows => out.extend_from_slice(&canned.description),
        Kind::One(_) => out.extend_from_slice(&description(&["value"])?),
        Kind::Show(name) => out.extend_from_slice(&description(&[name])?),
        Kind::State => out.extend_from_slice(&description(&["what", "name", "value"])?),
        _ => return Ok(false),
    }
    Ok(true)
}

/// Appends CopyInResponse or CopyOutResponse: one column, in text format.
pub(super) fn copy_response(out: &mut Vec<u8>, tag: u8) {
    out.push(tag);
    out.extend_from_slice(&[0, 0, 0, 9, 0, 0, 1, 0, 0]);
}

/// Appends ParameterDescription; all parameters are text.
pub(super) fn parameter_description(out: &mut Vec<u8>, count: u16) {
    out.push(b't');
    out.extend_from_slice(&(6 + 4 * u32::from(count)).to_be_bytes());
    out.extend_from_slice(&count.to_be_bytes());
    for _ in 0..count {
        out.extend_from_slice(&25_u32.to_be_bytes());
    }
}
