//! Transaction blocks: the host on which one begins, and a block that has only read goes to the primary.
//!
//! Decision record: `docs/internals/decisions/until-write.md`.

use std::sync::Arc;

use weir_pool::Moment;
use weir_route::Rules;
use weir_session::client::Client as Session;
use weir_session::relay::{self, Batch, Destination};
use weir_sql::{Access, Isolation, Judge, Step};
use weir_wire::backend::TransactionStatus;
use weir_wire::frame::HEADER_LEN;

use super::super::Worker;
use super::super::ids::{ClientId, ServerId};
use super::super::tables::{Link, Tables};
use crate::driver::{Driver, Why};

impl<D: Driver> Worker<D> {
    /// Takes a client's block from its replica, for a batch that may not run there. The block has only read so far, so it
    /// begins anew on the primary. True if it did.
    #[inline]
    pub(in super::super) fn goes_to_primary(
        &mut self,
        id: ClientId,
        server_id: ServerId,
        input: &[u8],
    ) -> bool {
        let client = self.tables.clients.must_get(id);
        let route = client.and_then(|client| client.route.as_ref());
        if !route.is_some_and(|route| route.may_go())
            || self.tables.stays(self.now, id, server_id, input)
        {
            return false;
        }
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return false;
        };
        client.lease = None;
        client.stalled = false;
        self.driver.go(client.key, Why::Partner);
        client.session.reopen_block();
        if let Some(route) = &mut client.route {
            route.needs_primary = true;
        }
        tracing::debug!("{client}: a transaction that has only read goes to the primary");
        self.end_block(server_id);
        true
    }

    /// Ends a transaction of a client that has gone to another host, and puts its server back.
    pub(super) fn end_block(&mut self, server_id: ServerId) {
        let Some(server) = self.tables.servers.must_get_mut(server_id) else {
            return;
        };
        server.lease = None;
        let mut message = Vec::new();
        if server.session.roll_back(&mut message) {
            self.driver.clear_reasons(server.key);
            self.driver.send(server.key, &message);
            self.clean(server_id);
        } else {
            self.release_later(server_id);
        }
    }
}

impl Tables {
    /// True if the next input of a client, whose block on a replica has only read so far, goes to that replica too: the
    /// batch reads or ends the block, the block has failed, or it is not the batch's turn yet.
    fn stays(&mut self, now: Moment, id: ClientId, server_id: ServerId, input: &[u8]) -> bool {
        let Some(Link {
            client,
            server,
            group,
            ..
        }) = self.link(id, server_id)
        else {
            return true;
        };
        let is_its_turn = server.session.is_quiet_and_synced()
            && server.session.status() == TransactionStatus::InTransaction
            && !client.session.is_sending_to_server();
        let Some(route) = client.route.as_mut().filter(|_| is_its_turn) else {
            return true;
        };
        let batch = Batch::scan(input);
        if input.len() < HEADER_LEN {
            return true;
        }
        let found = relay::destination_with_step(&batch, &client.session, &mut group.judge);
        let text = || relay::first_text(&batch, &client.session).unwrap_or_default();
        let is_learnt =
            (group.routing.as_mut()).is_some_and(|routing| routing.learnt.has(text, now));
        let stays = found.is_complete
            && match found.step {
                Step::Ends => *found.access == Access::Anywhere,
                Step::Queries => found.is_plain && !is_learnt,
                Step::Other => false,
            };
        if stays {
            route.stay(found.step == Step::Queries);
        }
        stays
    }
}

/// Returns the destination of a batch by its texts and the rules of the database.
pub(super) fn destination(
    batch: &Batch<'_>,
    session: &Session,
    judge: &mut Judge,
    rules: &Rules,
) -> Destination {
    let mut found = match rules.until_write {
        true => relay::destination_with_step(batch, session, judge),
        false => relay::destination(batch, session, judge),
    };
    in_block(&mut found, rules.until_write);
    found
}

/// Returns the isolation level of blocks without one; none for READ COMMITTED. Some role's default may be another.
pub(super) fn default_isolation(judge: &Judge) -> Option<Isolation> {
    (!judge.begins_read_committed()).then_some(Isolation::RepeatableRead)
}

/// Lets the modes of a block decide on a batch that begins with it, if the rest of the batch reads.
///
/// A block that may go to the primary with its first write (`until_write`) begins on a replica with reads only.
fn in_block(found: &mut Destination, until_write: bool) {
    let Some(block) = &found.block else {
        return;
    };
    let is_read_only = block.modes.read_only == Some(true);
    let fits = is_read_only || !until_write || block.step == Step::Queries;
    if fits && !matches!(*block.rest, Access::Primary(_)) {
        found.access = Arc::new(Access::Begin(block.modes));
    }
}
