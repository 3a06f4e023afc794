//! Clients without a server: the part of their input that is answered without one.

use weir_session::fault::Fault;
use weir_session::relay::{self, Idle, Lobby, Next};
use weir_stats::Blame;

use super::Worker;
use super::ids::ClientId;
use super::ruling::ruling;
use crate::driver::Driver;

impl<D: Driver> Worker<D> {
    /// Looks at the input of a client without a server, and sends what is answered without one. None if the client was ended.
    #[inline]
    pub(super) fn answer_alone<'i>(
        &mut self,
        id: ClientId,
        input: &'i [u8],
        luck: (u64, u64),
    ) -> Option<Idle<'i>> {
        let client = self.tables.clients.must_get_mut(id)?;
        let group = self.tables.groups.must_get_mut(client.group)?;
        let lane = self.tables.lanes.must_get(client.lane)?;
        if let Some(rules) = &group.query_rules {
            client.fit_rules(rules);
        }
        self.answers.clear();
        let mut lobby = Lobby {
            client: &mut client.session,
            registry: &mut self.tables.registry,
            proven: &group.global.proven,
            rules: group.rules,
            ruling: ruling(
                &mut group.query_rules,
                &client.rules,
                &self.tables.shaper,
                luck,
            ),
            has_server: lane.shard.has_idle(),
        };
        let seen = match relay::idle(&mut lobby, input, &mut self.answers) {
            Ok(seen) => seen,
            Err(fault) => {
                self.fail_client(id, &Fault::Protocol(fault));
                return None;
            }
        };
        if let Next::Lease(batch) = &seen.next
            && group.query_rules.is_some()
            && let Some(wrong) = client.wrong_hint(group, batch)
        {
            tracing::warn!("{client}: {wrong}");
        }
        group.counters.client_parses += u64::from(seen.statements.client_parses);
        self.send_answers(id);
        for code in &seen.rejected {
            self.count_error(Blame::Pooler, Some(*code));
        }
        Some(seen)
    }
}
