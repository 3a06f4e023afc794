//! Requests after whose loss nobody knows if something was committed.

use weir_wire::backend::TransactionStatus;

use super::Work;
use crate::server::Server;

impl Work<'_, '_, '_, '_> {
    /// Notes a text that goes to the server now, or whose statement is bound: it may commit. None stands for a text that
    /// is not here as a whole.
    #[inline]
    pub(super) fn note_commit(&mut self, text: Option<&[u8]>) {
        let server = &mut *self.link.server;
        server.may_commit |= match text {
            None => true,
            Some(text) => match server.status {
                TransactionStatus::Idle => !only_begins(text),
                TransactionStatus::InTransaction | TransactionStatus::Failed => ends_block(text),
            },
        };
    }

    /// Notes an Execute. In a block, the text of its statement was noted before, unless it was bound in an earlier batch.
    #[inline]
    pub(super) fn note_execute(&mut self) {
        let server = &mut *self.link.server;
        server.may_commit |= server.status == TransactionStatus::Idle || server.bound == 0;
    }
}

impl Server {
    /// True if the client waits for the answer to a request that may have committed: if the connection is lost now, nobody
    /// knows if it did. False in a transaction whose end was not asked for: that is certainly rolled back.
    pub fn is_outcome_unknown(&self) -> bool {
        self.may_commit && self.owes_client()
    }
}

/// True if a text outside of a block does nothing but begin one.
#[inline]
fn only_begins(text: &[u8]) -> bool {
    // The cheapest test comes first: it is made for each request.
    matches!(text.first(), Some(b'b' | b'B')) && is_single(text)
}

/// True unless a text in a block surely does not end it: it is one statement, and none of COMMIT, END and PREPARE
/// TRANSACTION.
#[inline]
fn ends_block(text: &[u8]) -> bool {
    let is_other = |byte: &u8| !matches!(byte, b'c' | b'C' | b'e' | b'E' | b'p' | b'P');
    let begins = text.first().is_some_and(u8::is_ascii_alphabetic);
    !(begins && text.first().is_some_and(is_other) && is_single(text))
}

/// True if nothing follows the first semicolon of a text.
fn is_single(text: &[u8]) -> bool {
    let mut parts = text.splitn(2, |byte| *byte == b';');
    parts.next();
    parts.next().unwrap_or_default().trim_ascii().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_may_end_a_block_are_found() {
        for text in [
            "COMMIT",
            "commit;",
            "end",
            "prepare transaction 'x'",
            "update t set a = 1; commit",
            " commit",
            "/* a */ commit",
            "; commit",
            "execute c",
            "",
            "select 1; end;",
        ] {
            assert!(ends_block(text.as_bytes()), "{text}");
        }
        for text in [
            "update t set a = 1",
            "select 1;",
            "select 1; ",
            "rollback",
            "insert into t",
        ] {
            assert!(!ends_block(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn a_begin_alone_commits_nothing() {
        for text in ["begin", "BEGIN ISOLATION LEVEL SERIALIZABLE; "] {
            assert!(only_begins(text.as_bytes()), "{text}");
        }
        for text in [
            "begin; insert into t values (1); commit",
            "insert into t values (1)",
            "",
        ] {
            assert!(!only_begins(text.as_bytes()), "{text}");
        }
    }
}
