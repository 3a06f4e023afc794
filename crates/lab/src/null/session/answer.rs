//! The bytes of answers, large ones a piece at a time.

use std::collections::VecDeque;

use weir_wire::encode::EncodeError;

use crate::null::canned::{Canned, description};
use crate::null::session::OUT_HIGH;
use crate::null::sql::Kind;

/// What goes out behind what is in the output already. Nothing, nearly always.
#[derive(Default)]
pub(super) struct Pending(VecDeque<Piece>);

/// A part of an answer that is not made yet.
enum Piece {
    Bytes(Vec<u8>),
    Rows { left: u64, is_copy: bool },
}

impl Pending {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Where the next bytes belong: the output, or behind what comes behind it.
    pub(super) fn sink<'a>(&'a mut self, out: &'a mut Vec<u8>) -> &'a mut Vec<u8> {
        if self.0.is_empty() {
            return out;
        }
        if !matches!(self.0.back(), Some(Piece::Bytes(_))) {
            self.0.push_back(Piece::Bytes(Vec::new()));
        }
        match self.0.back_mut() {
            Some(Piece::Bytes(bytes)) => bytes,
            // Not reached: it was put there.
            _ => out,
        }
    }

    /// The rows of the canned result, or its COPY data.
    pub(super) fn push_rows(&mut self, is_copy: bool, canned: &Canned, out: &mut Vec<u8>) {
        let left = canned.rows;
        self.0.push_back(Piece::Rows { left, is_copy });
        self.pump(canned, out);
    }

    /// Makes what is pending, as far as there is room.
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

/// Appends the RowDescription of what has rows; false if it has none.
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

/// CopyInResponse and CopyOutResponse: one column, everything in text.
pub(super) fn copy_response(out: &mut Vec<u8>, tag: u8) {
    out.push(tag);
    out.extend_from_slice(&[0, 0, 0, 9, 0, 0, 1, 0, 0]);
}

/// ParameterDescription: all of them text.
pub(super) fn parameter_description(out: &mut Vec<u8>, count: u16) {
    out.push(b't');
    out.extend_from_slice(&(6 + 4 * u32::from(count)).to_be_bytes());
    out.extend_from_slice(&count.to_be_bytes());
    for _ in 0..count {
        out.extend_from_slice(&25_u32.to_be_bytes());
    }
}
