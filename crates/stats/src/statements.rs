//! Lists of the statements that users may run.

use std::sync::Arc;

/// Counts of a user with a list of statements.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatementCounts {
    /// The user.
    pub user: String,
    /// Treatment of statements that are not in the list.
    pub policy: &'static str,
    /// Statements in the list.
    pub listed: u64,
    /// Other statements that were recorded.
    pub recorded: u64,
    /// Other statements that found no room, some of them counted several times.
    pub left_out: u64,
    /// Executions of other statements with the policy `warn`.
    pub warned: u64,
    /// Refused statements.
    pub refused: u64,
    /// Statements that were too long to be looked up, and calls of functions by the protocol.
    pub unread: u64,
}

/// Statement in a user's list, or another one that the user has sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatementRow {
    /// The user.
    pub user: String,
    /// `listed`, `learnt`, `warned` or `refused`.
    pub state: &'static str,
    /// Key of the text in a file: `text`, `whole`, or `sha256` if the text is not enough.
    pub form: &'static str,
    /// Identity of the statement, if the text is not enough.
    pub sha256: Option<String>,
    /// Fingerprint for rules, if that tells something.
    pub fingerprint: Option<String>,
    /// The statement.
    pub text: Arc<str>,
}
