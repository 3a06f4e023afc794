//! Adds what replies show to the digests of the client's requests.

use weir_wire::backend::ErrorFields;

use super::Work;
use crate::counted::Rows;
use crate::expected::Expected;
use crate::server::Server;

impl Work<'_, '_> {
    /// Counts the end of a statement, if the reply in front is the client's.
    #[inline]
    pub(super) fn count_end(&mut self, rows: Rows<'_>) {
        let Server {
            queue, counting, ..
        } = &mut *self.server;
        if let Some(counted) = queue.counted_in_front() {
            counting.end(counted, rows, self.end.saturating_sub(self.counted));
            self.counted = self.end;
        }
    }

    /// Counts the failure of a simple query in front.
    #[inline]
    pub(super) fn count_failure(&mut self, body: &[u8]) {
        let Server {
            queue, counting, ..
        } = &mut *self.server;
        if let Some(counted) = queue.counted_in_front() {
            let bytes = self.end.saturating_sub(self.counted);
            counting.fail(counted, code(body), bytes);
            self.counted = self.end;
        }
    }

    /// Counts the failure of the first of these requests, the last in the list, for the statement that it belongs to.
    #[inline]
    pub(super) fn count_skipped(&mut self, skipped: &mut [Expected], body: &[u8]) {
        let mut first = skipped.iter_mut().rev();
        if let Some(entry) = first.find(|entry| entry.counted.is_some()) {
            let bytes = self.end.saturating_sub(self.counted);
            let counting = &mut self.server.counting;
            counting.fail(&mut entry.counted, code(body), bytes);
            self.counted = self.end;
        }
    }

    /// Leaves ReadyForQuery out of the bytes of statements.
    #[inline]
    pub(super) fn count_ready(&mut self) {
        self.server.counting.drop_bytes();
        self.counted = self.end;
    }
}

impl Server {
    /// Sets the time of the events that follow, for digests: microseconds of any clock, and Unix time in seconds.
    #[inline]
    pub fn tick(&mut self, now_us: u64, unix: u64) {
        self.counting.tick(now_us, unix);
    }

    /// Records how long the client of the new lease waited for it, in microseconds.
    #[inline]
    pub fn begin_counting(&mut self, wait_us: u64) {
        if self.is_watching() {
            self.forget_mirrored();
        }
        self.counting.begin(wait_us);
    }
}

fn code(error: &[u8]) -> Option<[u8; 5]> {
    let fields = ErrorFields::parse(error).ok()?;
    fields.get(b'C')?.try_into().ok()
}
