//! Digests of this worker: the statements of its clients, counted by shape.

use weir_config::Global as Options;
use weir_pool::Moment;
use weir_stats::{DigestRows, Digests};

use super::Worker;
use super::ids::ServerId;
use super::tables::Tables;
use crate::driver::Driver;

impl<D: Driver> Worker<D> {
    /// Begins or ends counting, as the options say.
    pub(super) fn settle_digests(&mut self, options: &Options) {
        let max = options.digest_max as usize;
        match (&mut self.tables.digests, options.digests) {
            (Some(digests), true) => digests.resize(max),
            (None, true) => self.tables.digests = Some(Box::new(Digests::new(max))),
            (_, false) => self.tables.digests = None,
        }
    }

    /// Returns the digests of this worker, if they are wanted and statements are counted.
    pub(super) fn digests(&self, are_wanted: bool) -> Option<Box<DigestRows>> {
        let digests = self.tables.digests.as_ref().filter(|_| are_wanted)?;
        Some(Box::new(digests.show()))
    }

    /// Tells a server the time, if statements are counted or query rules may watch them.
    #[inline]
    pub(super) fn tick_server(&mut self, id: ServerId) {
        if (self.tables.digests.is_some() || self.has_rules)
            && let Some(server) = self.tables.servers.must_get_mut(id)
        {
            let Moment(now_us) = self.now;
            let unix = self.global.clock.unix_seconds(self.now);
            server.session.tick(now_us, unix);
        }
    }
}

impl Tables {
    /// Forgets the figures of all statements.
    pub(super) fn reset_digests(&mut self) {
        if let Some(digests) = &mut self.digests {
            digests.reset();
        }
    }
}
