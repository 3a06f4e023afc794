//! Rows about mirrors: query rules that send statements to another database too.

use std::ops::AddAssign;

/// Counts of mirrored statements.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MirrorCounts {
    /// Statements that the other database has answered.
    pub sent: u64,
    /// Statements with the same result there: the same SQLSTATE, or the same number of rows and, where they are compared, the
    /// same rows.
    pub same: u64,
    /// Statements with as many rows, of which some differ.
    pub other_rows: u64,
    /// Statements with another number of rows.
    pub other_counts: u64,
    /// Statements that had an error on one side only, or another one.
    pub other_errors: u64,
    /// Time on the client's server, of the statements with the same or another result, in microseconds.
    pub client_us: u64,
    /// Time in the other database, likewise.
    pub mirror_us: u64,
}

impl AddAssign for MirrorCounts {
    fn add_assign(&mut self, other: Self) {
        self.sent += other.sent;
        self.same += other.same;
        self.other_rows += other.other_rows;
        self.other_counts += other.other_counts;
        self.other_errors += other.other_errors;
        self.client_us += other.client_us;
        self.mirror_us += other.mirror_us;
    }
}

/// A mirror.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MirrorRow {
    /// Name of the rule.
    pub rule: String,
    /// Database that gets the statements.
    pub database: String,
    /// Number of its connections.
    pub connections: u32,
    /// Transactions that wait.
    pub waiting: u64,
    /// Bytes of these transactions.
    pub waiting_bytes: u64,
    /// Counts of all statements.
    pub counts: MirrorCounts,
    /// Statements that are not mirrored: not one read, too long, or without an answer that can be compared.
    pub skipped: u64,
    /// Statements that the other database could not answer, because of its state or that of its connection.
    pub failed: u64,
    /// Transactions that found no room.
    pub dropped: u64,
    /// Reason of the last failure; empty without one.
    pub last_failure: String,
    /// The last difference, with its statement without literals; empty without one.
    pub last_difference: String,
    /// Counts of each statement.
    pub statements: Vec<MirrorStatementRow>,
}

/// A statement of a mirror.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MirrorStatementRow {
    /// Text without literals.
    pub text: String,
    /// Counts of the statement.
    pub counts: MirrorCounts,
}
