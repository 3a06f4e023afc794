//! Requests that run again because their server was lost before it answered.
//!
//! The first batch of a lease is kept until a byte of its reply goes to the client. If texts decide on hosts, the router has
//! judged the batch before it was sent. Elsewhere nobody has read it: it is judged when the server is lost, and at no other
//! time. A batch runs again if it reads, or only begins a block: whatever has become of it, doing it again changes nothing.

use std::time::Duration;

use weir_pool::Moment;
use weir_session::relay::{self, Batch, Destination, End};
use weir_sql::Access;
use weir_wire::frame::{Side, header};
use weir_wire::frontend::{Bind, Close, Describe, Kind, Parse, tag};

use super::Worker;
use super::ids::ClientId;
use super::slots::{Client, Group, Phase, Server};
use super::tables::Tables;
use crate::driver::Driver;

/// Maximum length in bytes of a batch that is kept to run again.
pub(super) const NET_MAX: usize = 16 * 1024;

/// Number of shutdowns of the primary for which a request is sent again.
const REPEATS_MAX: u8 = 5;

/// Likewise of ends without a word. The request may be what crashes PostgreSQL.
const CRASHES_MAX: u8 = 2;

/// A request that has run for longer is not sent again if its server on the primary says that it was ended: an administrator
/// may have meant just this one.
const REPEATED_WITHIN: Duration = Duration::from_secs(1);

/// Number of times that a client's present request was sent again.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Repeats {
    count: u8,
    /// True if the request that waits for a server is sent again.
    is_waiting: bool,
    /// Time of the last loss that counts. Servers that were there before are lost by the same event.
    counted_at: Moment,
}

impl Repeats {
    /// Begins the next request, unless it is the same one. True if it is the next one.
    pub(super) fn begin(&mut self) -> bool {
        let is_next = !std::mem::take(&mut self.is_waiting);
        if is_next {
            *self = Self::default();
        }
        is_next
    }

    /// Sends the request again, which a server has lost now that was connected at `connected_at`.
    pub(super) fn add(&mut self, now: Moment, connected_at: Moment) {
        if self.counts(connected_at) {
            self.count = self.count.saturating_add(1);
            self.counted_at = now;
        }
        self.is_waiting = true;
    }

    fn counts(self, connected_at: Moment) -> bool {
        self.count == 0 || connected_at >= self.counted_at
    }

    /// True if a request may run again after the loss of a server that is no replica, which the server has explained or not,
    /// and which was at work on it for this time. The request itself may be the reason: an administrator has ended it, or it
    /// crashes PostgreSQL.
    pub(super) fn may_go_on(
        self,
        is_explained: bool,
        took: Duration,
        connected_at: Moment,
    ) -> bool {
        let max = if is_explained {
            REPEATS_MAX
        } else {
            CRASHES_MAX
        };
        let is_recent = !is_explained || took < REPEATED_WITHIN;
        is_recent && (self.count < max || !self.counts(connected_at))
    }
}

impl Server {
    /// Keeps the first input of a lease or of a request on a kept server, in case that it is to run again. Nobody reads it now.
    #[inline]
    pub(super) fn keep_unread(&mut self, input: &[u8]) {
        self.kept_batch.clear();
        self.net_waits = false;
        if input.len() <= NET_MAX {
            self.kept_batch.extend_from_slice(input);
            self.session.arm_net();
        } else {
            self.session.disarm_net();
        }
    }

    /// Forgets the first input, because the server has not got all of it, or gets more.
    #[inline]
    pub(super) fn give_up_net(&mut self) {
        self.net_waits = false;
        if self.session.is_over_net() {
            self.session.disarm_net();
        }
    }
}

impl Client {
    /// Returns how often the present request was sent again.
    fn repeats(&self) -> Repeats {
        match &self.route {
            Some(route) => route.repeats(),
            None => self.repeats.as_deref().copied().unwrap_or_default(),
        }
    }
}

impl Client {
    /// True if a request of the client has arrived that its server has not got, because something of ours comes first.
    pub(super) fn has_waiting_request(&self) -> bool {
        self.stalled && !self.input.is_empty() && self.ticket.is_none()
    }

    /// True if that request may begin again after the loss of a server that was connected at this time. What comes first
    /// may be what crashes PostgreSQL.
    pub(super) fn may_begin_again(&self, connected_at: Moment) -> bool {
        self.repeats()
            .may_go_on(false, Duration::ZERO, connected_at)
    }
}

impl<D: Driver> Worker<D> {
    /// Lets a client's request begin again, of which its server, connected at `connected_at`, has got nothing.
    pub(super) fn begin_elsewhere(&mut self, id: ClientId, connected_at: Moment) {
        self.tables.end_lease(id);
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        match &mut client.route {
            Some(route) => route.begin_again(self.now, connected_at),
            None => (client.repeats.get_or_insert_default()).add(self.now, connected_at),
        }
        tracing::debug!("{client}: a request that waited for one of ours begins elsewhere");
        self.end_stall(id);
    }
}

impl Tables {
    /// True if a client's request still waits for ours on a server that is lost, and may begin on another one.
    pub(super) fn may_begin_elsewhere(&self, id: ClientId, server: &Server) -> bool {
        self.clients.must_get(id).is_some_and(|client| {
            let is_free = client.session.pin().is_none() && !client.session.is_sending_to_server();
            is_free
                && client.has_waiting_request()
                && matches!(client.phase, Phase::Ready)
                && server.session.has_yet_to_begin(&client.session)
                && client.may_begin_again(server.facts.connected_at)
        })
    }

    /// True if a lost server, which was at work for this time, owes its client nothing but a batch that may run again.
    pub(super) fn may_run_again(&mut self, id: ClientId, server: &Server, took: Duration) -> bool {
        let Some(client) = self.clients.must_get(id) else {
            return false;
        };
        let group = self.groups.must_get_mut(client.group);
        group.is_some_and(|group| may_run_again(client, server, group, took))
    }
}

/// See [`Tables::may_run_again`].
pub(super) fn may_run_again(
    client: &Client,
    server: &Server,
    group: &mut Group,
    took: Duration,
) -> bool {
    if !server.session.is_over_net() || server.kept_batch.is_empty() {
        return false;
    }
    let is_explained = server.session.is_ending();
    // After a crash, nobody has ended just this request.
    let took = match server.session.is_ended_on_purpose() {
        true => took,
        false => Duration::ZERO,
    };
    let may_go_on =
        |repeats: Repeats| repeats.may_go_on(is_explained, took, server.facts.connected_at);
    match &client.route {
        Some(route) => {
            (route.is_on_replica() || may_go_on(client.repeats()))
                && match route.has_judged() {
                    true => may_define_again(client, server),
                    false => is_harmless(client, server, group),
                }
        }
        None => may_go_on(client.repeats()) && is_harmless(client, server, group),
    }
}

/// True if the kept batch may give names of statements once more, and means the same by them then: it gives only names that
/// were free, and no name another meaning behind a use.
#[cold]
fn may_define_again(client: &Client, server: &Server) -> bool {
    let batch = &server.kept_batch;
    !redefines(batch, Names::All) && server.session.may_prepare_again(&client.session, batch)
}

/// True if the kept batch, which nobody has read before, is one batch, and does nothing that doing it twice would show.
#[cold]
fn is_harmless(client: &Client, server: &Server, group: &mut Group) -> bool {
    let input = &server.kept_batch;
    group.keep_judge_fresh();
    // Without a catalogue, nobody knows what the views and functions of the database do.
    if !group.repeats
        || !group.judge.has_read_catalogue()
        || !is_one_batch(input)
        || !may_define_again(client, server)
    {
        return false;
    }
    let found = relay::destination(&Batch::scan(input), &client.session, &mut group.judge);
    found.is_complete && only_reads(&found) && has_done_nothing(&found)
}

/// Returns what of a kept batch its server has got: nothing if it waits for requests of ours.
pub(super) fn sent_batch(kept_batch: &[u8], net_waits: bool) -> &[u8] {
    match net_waits {
        true => &[],
        false => kept_batch,
    }
}

/// True if an input is one batch as a whole.
pub(super) fn is_one_batch(input: &[u8]) -> bool {
    let extent = Batch::scan(input).extent();
    extent.end != End::Open && extent.len == input.len()
}

/// Names of statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    All,
    Unnamed,
}

/// True if a batch that was sent gives a name another meaning behind a use of what the name meant before the batch: what the
/// client means by it now is not what the server was asked for.
pub(super) fn redefines(batch: &[u8], names: Names) -> bool {
    let mut uses = false;
    let mut at = 0;
    while let Some((tag, body, len)) = message(batch, at) {
        match Touch::of(tag, body) {
            Touch::Uses(_) => uses = true,
            Touch::Defines(name) if uses && (names == Names::All || name.is_empty()) => {
                if begins_with_use(batch.get(..at).unwrap_or_default(), name) {
                    return true;
                }
            }
            Touch::Defines(_) | Touch::Nothing => {}
            Touch::Unknown => return true,
        }
        at += len;
    }
    false
}

/// True if the first message of these that touches the statement with this name uses it.
#[cold]
fn begins_with_use(batch: &[u8], name: &[u8]) -> bool {
    let mut at = 0;
    while let Some((tag, body, len)) = message(batch, at) {
        match Touch::of(tag, body) {
            Touch::Uses(used) if used == name => return true,
            Touch::Defines(defined) if defined == name => return false,
            _ => at += len,
        }
    }
    false
}

/// Effect of a message on the name of a statement; the name is empty for the unnamed one.
enum Touch<'b> {
    Uses(&'b [u8]),
    Defines(&'b [u8]),
    Nothing,
    /// The message cannot be read.
    Unknown,
}

impl<'b> Touch<'b> {
    fn of(tag: u8, body: &'b [u8]) -> Self {
        let found = match tag {
            tag::PARSE => Parse::parse(body).ok().map(|it| Self::Defines(it.name)),
            // It drops the unnamed statement.
            tag::QUERY => Some(Self::Defines(b"")),
            tag::CLOSE => Close::parse(body).ok().map(|it| match it.kind {
                Kind::Statement => Self::Defines(it.name),
                Kind::Portal => Self::Nothing,
            }),
            tag::DESCRIBE => Describe::parse(body).ok().map(|it| match it.kind {
                Kind::Statement => Self::Uses(it.name),
                Kind::Portal => Self::Nothing,
            }),
            tag::BIND => match Bind::head(body) {
                Ok(Some(head)) => Some(Self::Uses(head.statement)),
                _ => None,
            },
            _ => Some(Self::Nothing),
        };
        found.unwrap_or(Self::Unknown)
    }
}

/// Tag, body and length of the message at this place; none behind the last one.
fn message(batch: &[u8], at: usize) -> Option<(u8, &[u8], usize)> {
    let rest = batch.get(at..)?;
    let header = header(rest, Side::Frontend).ok()??;
    let len = header.total_len();
    let body = rest.get(weir_wire::frame::HEADER_LEN..len)?;
    Some((header.tag, body, len))
}

/// True if a batch can run again after the loss of its server: it reads, or only begins a block.
pub(super) fn has_done_nothing(found: &Destination) -> bool {
    found.is_plain || found.block.is_some() || matches!(*found.access, Access::Begin(_))
}

/// True if nothing of a batch writes: queries, the ends of a block's, and what belongs to the session.
pub(super) fn only_reads(found: &Destination) -> bool {
    let access = match &found.block {
        Some(block) => &block.rest,
        None => &found.access,
    };
    !matches!(**access, Access::Primary(_))
}

#[cfg(test)]
mod tests {
    use weir_testkit::say::say;

    use super::*;

    #[test]
    fn a_batch_is_not_to_run_again_if_it_redefines_what_it_has_used() {
        use Names::{All, Unnamed};
        for (batch, expected) in [
            (say().parse("", "select 1").run("").sync(), &[][..]),
            (say().parse("s", "select 1").run("s").sync(), &[]),
            (say().run("").parse("", "select 1").sync(), &[All, Unnamed]),
            (say().run("s").parse("", "select 1").run("").sync(), &[]),
            (say().run("s").close_statement("s").sync(), &[All]),
            (say().close_statement("s").run("t").sync(), &[]),
            (say().run("s").close_statement("t").sync(), &[]),
            (
                say()
                    .parse("s", "select 1")
                    .run("s")
                    .close_statement("s")
                    .sync(),
                &[],
            ),
            (say().run("").query("select 1"), &[All, Unnamed]),
        ] {
            let found: Vec<_> = [All, Unnamed]
                .into_iter()
                .filter(|names| redefines(&batch, *names))
                .collect();
            assert_eq!(found, expected, "{}", String::from_utf8_lossy(&batch));
        }
    }

    const SHORT: Duration = Duration::from_millis(1);

    #[test]
    fn servers_that_are_lost_by_one_event_count_once() {
        let mut repeats = Repeats::default();
        for lost_at in 10..20 {
            assert!(repeats.may_go_on(false, SHORT, Moment(5)));
            repeats.add(Moment(lost_at), Moment(5));
        }
        // One more event, then the last.
        assert!(repeats.may_go_on(false, SHORT, Moment(30)));
        repeats.add(Moment(31), Moment(30));
        assert!(!repeats.may_go_on(false, SHORT, Moment(40)));
        assert!(repeats.may_go_on(true, SHORT, Moment(40)));
    }

    #[test]
    fn the_next_request_begins_anew() {
        let mut repeats = Repeats::default();
        repeats.add(Moment(10), Moment(5));
        repeats.add(Moment(30), Moment(20));
        assert!(!repeats.begin(), "the same request");
        assert!(!repeats.may_go_on(false, SHORT, Moment(40)));
        assert!(repeats.begin());
        assert!(repeats.may_go_on(false, SHORT, Moment(40)));
    }

    #[test]
    fn a_request_that_ran_for_long_is_not_repeated_if_its_server_was_ended() {
        let repeats = Repeats::default();
        assert!(!repeats.may_go_on(true, REPEATED_WITHIN, Moment(5)));
        assert!(repeats.may_go_on(false, REPEATED_WITHIN, Moment(5)));
    }
}
