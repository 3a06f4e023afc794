//! Errors in the extended protocol, behind which PostgreSQL skips requests.

use super::{ServerFault, Verdict, Work};
use crate::expected::Expected;
use crate::relay::failure;
use crate::unnamed;

impl Work<'_, '_> {
    /// Undoes the effects of skipped requests (last first) on the unnamed statement. If the failed request was a Parse,
    /// it has dropped the old unnamed statement.
    fn skip_unnamed(&mut self, skipped: &[Expected]) {
        let failed = skipped.last().and_then(|entry| entry.unnamed);
        if failed.is_some() {
            self.server.unnamed_confirmed = unnamed::NONE;
        }
        for (i, effect) in skipped
            .iter()
            .rev()
            .filter_map(|entry| entry.unnamed)
            .enumerate()
        {
            match (effect.of_client, i == 0 && failed.is_some()) {
                (true, true) => self.client.unnamed().fail(),
                (true, false) => self.client.unnamed().skip(),
                (false, _) => {}
            }
        }
        self.server.recall_unnamed();
    }

    /// Handles an error in the extended protocol: the server answers nothing up to the next Sync.
    ///
    /// # Errors
    /// Fails if a fence failed for another reason than an interrupt.
    pub(super) fn skip(&mut self, body: &[u8]) -> Result<Verdict, ServerFault> {
        let mut skipped = self.server.queue.skip_to_sync();
        let is_fence = skipped.last().is_some_and(|entry| entry.duty.is_fence());
        if is_fence && !self.server.is_dying() {
            self.break_fence(&mut skipped, body)?;
        }
        let renamed = skipped
            .last()
            .and_then(|first| failure::renamed(first, body));
        let for_client = Self::is_for_client(&skipped);
        let first = skipped.last();
        let repeats = first.is_some_and(|failed| failure::repeats(self.server, failed, body));
        self.skip_unnamed(&skipped);
        self.server.end_skipped_watch(&mut skipped);
        if !repeats && (for_client || renamed.is_some()) {
            self.count_skipped(&mut skipped, body);
        }
        let first = skipped.last();
        if let Some(failed) = first {
            failure::learn(self.server, failed, body);
        }
        self.server.take_back(skipped, self.client);
        if repeats {
            self.server.repeat.fall_due();
            self.server.queue.swallow_sync();
            return Ok(Verdict::Drop);
        }
        Ok(match renamed {
            Some(message) => {
                self.to_client.insert().extend_from_slice(&message);
                Verdict::Drop
            }
            None if for_client || self.server.is_dying() => Verdict::Keep,
            None => Verdict::Drop,
        })
    }
}
