//! Comparison that a message of the client's waits for.

use std::sync::Arc;

use crate::statement::Statement;

/// Comparison of a statement's columns on the server with those that the client relies on.
#[derive(Debug)]
pub(crate) struct Comparison {
    /// Statement that the client's name stands for so far.
    pub of: Arc<Statement>,
    /// Statement that replaces it if the columns are the same; possibly the same statement.
    pub next: Arc<Statement>,
    /// True if the message that waits is the first of its batch.
    pub is_first: bool,
    /// True once the server has confirmed that the columns are the same.
    pub is_same: bool,
}
