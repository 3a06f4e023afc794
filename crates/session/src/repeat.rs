//! The batch under way, kept to be put to the server again (issue: a statement of ours is of no use there any more).
//!
//! A server may hold a copy of a statement that tables have outgrown, or have lost one in silence, for which the client is
//! not to blame. If that is the first thing that the batch asks for, nothing has been executed and nothing but the names
//! of statements has been answered, so all of it can be said again. Kept per server, in a buffer that is used again.

use weir_wire::frontend::tag;

/// Bytes of a batch that are kept at most. Of a longer one the client hears the error, and can try again.
const BYTES_MAX: usize = 16 * 1024;

/// See the module's page.
#[derive(Debug, Default)]
pub(crate) struct Repeat {
    /// Whole messages of the client.
    bytes: Vec<u8>,
    stage: Stage,
}

/// ```text
/// Nothing ──begin──► Open ──Sync──► Closed
///    ▲ ▲──too long────┘ │              │
///    │                  └──fails───┬───┘
///    └───────all is sent──────── Due
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    /// All of the batch is here, its Sync too.
    Closed,
    /// It has to be put to the server again; `behind_sync`: one of ours has to be sent first.
    Due { behind_sync: bool },
    #[default]
    Nothing,
    /// More of it may come.
    Open,
}

impl Repeat {
    /// A batch begins with the next message, as far as it would have to be said again.
    #[inline]
    pub(crate) fn begin(&mut self) {
        if !self.is_due() {
            self.bytes.clear();
            self.stage = Stage::Open;
        }
    }

    /// Whether messages are to be added.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.stage == Stage::Open
    }

    /// The client's next message was sent; `missing`: not all of it.
    pub(crate) fn add(&mut self, tag: u8, message: &[u8], missing: bool) {
        let is_of_batches = matches!(
            tag,
            tag::BIND
                | tag::CLOSE
                | tag::DESCRIBE
                | tag::EXECUTE
                | tag::FLUSH
                | tag::PARSE
                | tag::SYNC
        );
        if missing || !is_of_batches || self.bytes.len() + message.len() > BYTES_MAX {
            self.stage = Stage::Nothing;
            return;
        }
        self.bytes.extend_from_slice(message);
        if tag == tag::SYNC {
            self.stage = Stage::Closed;
        }
    }

    /// Whether all that was sent since [`Repeat::begin`] is here.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.stage, Stage::Closed | Stage::Open)
    }

    /// It has failed and has to be said again, behind a Sync of ours if the client has sent none.
    pub(crate) fn fall_due(&mut self) {
        self.stage = Stage::Due {
            behind_sync: self.stage == Stage::Open,
        };
    }

    /// Whether anything has to be said again.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        matches!(self.stage, Stage::Due { .. })
    }

    /// What has to be said again, and whether a Sync of ours comes first.
    pub(crate) fn take(&mut self) -> Option<(Vec<u8>, bool)> {
        let Stage::Due { behind_sync } = self.stage else {
            return None;
        };
        Some((std::mem::take(&mut self.bytes), behind_sync))
    }

    /// So much of that was said; the rest is still due.
    pub(crate) fn give_back(&mut self, mut bytes: Vec<u8>, said: usize) {
        bytes.drain(..said.min(bytes.len()));
        self.stage = if bytes.is_empty() {
            Stage::Nothing
        } else {
            Stage::Due { behind_sync: false }
        };
        self.bytes = bytes;
    }

    /// Nobody waits for it any more.
    pub(crate) fn forget(&mut self) {
        self.stage = Stage::Nothing;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun() -> Repeat {
        let mut repeat = Repeat::default();
        repeat.begin();
        repeat.add(tag::BIND, b"bind", false);
        repeat
    }

    #[test]
    fn a_batch_is_said_again_as_it_was_said() {
        let mut repeat = begun();
        repeat.add(tag::SYNC, b"sync", false);
        assert!(!repeat.is_open() && repeat.is_whole());
        repeat.fall_due();
        let (bytes, behind_sync) = repeat.take().unwrap();
        assert_eq!((&*bytes, behind_sync), (&b"bindsync"[..], false));
        repeat.give_back(bytes, 4);
        assert_eq!(repeat.take(), Some((b"sync".to_vec(), false)));
        repeat.give_back(b"sync".to_vec(), 4);
        assert!(!repeat.is_due());
    }

    #[test]
    fn one_without_a_sync_is_said_again_behind_ours() {
        let mut repeat = begun();
        repeat.fall_due();
        assert_eq!(repeat.take(), Some((b"bind".to_vec(), true)));
    }

    #[test]
    fn what_is_too_long_or_not_all_here_is_not_said_again() {
        for (tag, len, missing) in [
            (tag::PARSE, BYTES_MAX, false),
            (tag::PARSE, 1, true),
            (tag::QUERY, 1, false),
        ] {
            let mut repeat = begun();
            repeat.add(tag, &vec![0; len], missing);
            assert!(!repeat.is_whole() && !repeat.is_open());
        }
    }

    #[test]
    fn what_is_due_is_not_overwritten() {
        let mut repeat = begun();
        repeat.fall_due();
        repeat.begin();
        assert_eq!(repeat.take(), Some((b"bind".to_vec(), true)));
    }
}
