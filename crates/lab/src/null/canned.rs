//! Canned answers, encoded once.

use weir_wire::encode;
use weir_wire::encode::{Column, EncodeError};

/// Oid of the type `text`.
const TEXT: u32 = 25;

/// Maximum size of a block of rows, unless a single row is longer.
const BLOCK: usize = 64 * 1024;

/// The result that every query gets.
#[derive(Debug)]
pub(super) struct Canned {
    /// RowDescription of the result.
    pub(super) description: Vec<u8>,
    /// Number of rows of the result.
    pub(super) rows: u64,
    data: Block,
    copied: Block,
    /// CommandComplete of a SELECT; the next field is that of a COPY.
    pub(super) selected: Vec<u8>,
    pub(super) copy_complete: Vec<u8>,
}

/// Sequence of equal rows.
#[derive(Debug)]
pub(super) struct Block {
    bytes: Vec<u8>,
    /// Number of rows in `bytes`.
    rows: u64,
    row_len: usize,
}

impl Canned {
    /// Creates a result of `rows` rows with one text column of `row_bytes` bytes.
    ///
    /// # Errors
    /// A row does not fit into a message.
    pub(super) fn new(rows: u64, row_bytes: usize) -> Result<Self, EncodeError> {
        let text = vec![b'x'; row_bytes];
        let mut line = text.clone();
        line.pop();
        line.push(b'\n');
        let mut row = Vec::new();
        encode::data_row(&mut row, &[Some(&text)])?;
        let mut copied = Vec::new();
        encode::copy_data(&mut copied, &line)?;
        let mut canned = Self {
            description: description(&["canned"])?,
            rows,
            data: Block::new(&row, rows),
            copied: Block::new(&copied, rows),
            selected: Vec::new(),
            copy_complete: Vec::new(),
        };
        encode::command_complete(&mut canned.selected, format!("SELECT {rows}").as_bytes())?;
        encode::command_complete(&mut canned.copy_complete, format!("COPY {rows}").as_bytes())?;
        Ok(canned)
    }

    pub(super) fn block(&self, is_copy: bool) -> &Block {
        match is_copy {
            true => &self.copied,
            false => &self.data,
        }
    }
}

impl Block {
    fn new(row: &[u8], rows: u64) -> Self {
        let fitting = (BLOCK / row.len().max(1)).max(1) as u64;
        let count = fitting.min(rows);
        let repeated = usize::try_from(count).unwrap_or(1);
        Self {
            bytes: row.repeat(repeated),
            rows: count,
            row_len: row.len(),
        }
    }

    /// Appends at most `left` rows and at most one block; returns the number of rows.
    pub(super) fn append(&self, left: u64, out: &mut Vec<u8>) -> u64 {
        let count = left.min(self.rows);
        let len = usize::try_from(count).unwrap_or(0) * self.row_len;
        out.extend_from_slice(self.bytes.get(..len).unwrap_or_default());
        count
    }
}

/// Returns the RowDescription of text columns.
pub(super) fn description(names: &[&str]) -> Result<Vec<u8>, EncodeError> {
    let columns: Vec<Column<'_>> = names
        .iter()
        .map(|name| Column {
            name,
            type_oid: TEXT,
            type_len: -1,
        })
        .collect();
    let mut out = Vec::new();
    encode::row_description(&mut out, &columns)?;
    Ok(out)
}
