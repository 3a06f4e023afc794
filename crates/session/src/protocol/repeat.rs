//! Keeps the batch in progress, to send it again if a statement of ours turns out to be invalid on the server.
//!
//! A server may have a copy of a statement whose tables have changed, or may have lost a copy without notice. The
//! client has not caused this. If that statement is the first thing the batch asks for, nothing was executed, and only
//! statement names were answered. So the whole batch can be sent again. There is one reused buffer per server.

use weir_wire::frontend::tag;

/// Maximum number of bytes of a batch that are kept. With a longer batch the client gets the error and can try again.
const BYTES_MAX: usize = 16 * 1024;

/// Batch in progress, see the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Repeat {
    /// Complete messages of the client.
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
    /// The batch is complete, including its Sync.
    Closed,
    /// The batch must be sent again; `behind_sync`: a Sync of ours must be sent first.
    Due { behind_sync: bool },
    #[default]
    Nothing,
    /// More of the batch may come.
    Open,
}

impl Repeat {
    /// Starts to keep a batch with the next message.
    #[inline]
    pub(crate) fn begin(&mut self) {
        if !self.is_due() {
            self.bytes.clear();
            self.stage = Stage::Open;
        }
    }

    /// True if messages are to be added.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.stage == Stage::Open
    }

    /// Adds the client's next message after it was sent; `missing` is true if a part of it has not been sent.
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

    /// True if everything sent since [`Repeat::begin`] is kept.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.stage, Stage::Closed | Stage::Open)
    }

    /// Marks the batch to be sent again, behind a Sync of ours if the client has sent none.
    pub(crate) fn fall_due(&mut self) {
        self.stage = Stage::Due {
            behind_sync: self.stage == Stage::Open,
        };
    }

    /// True if a batch must be sent again.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        matches!(self.stage, Stage::Due { .. })
    }

    /// Takes the bytes to send again; the flag is true if a Sync of ours must come first.
    pub(crate) fn take(&mut self) -> Option<(Vec<u8>, bool)> {
        let Stage::Due { behind_sync } = self.stage else {
            return None;
        };
        Some((std::mem::take(&mut self.bytes), behind_sync))
    }

    /// Removes the first `said` bytes, which were sent; the rest stays due.
    pub(crate) fn give_back(&mut self, mut bytes: Vec<u8>, said: usize) {
        bytes.drain(..said.min(bytes.len()));
        self.stage = if bytes.is_empty() {
            Stage::Nothing
        } else {
            Stage::Due { behind_sync: false }
        };
        self.bytes = bytes;
    }

    /// Drops the batch, for which no client waits any more.
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
