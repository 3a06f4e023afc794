//! Course of a client's transaction: its host, what the server may get now, and what is known of the session.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use weir_pool::{HostId, Moment};
use weir_route::{RouteState, Token};
use weir_session::client::Client as Session;
use weir_session::relay::{self, Batch, Destination, End, Taken};
use weir_session::server::Server as ServerSession;
use weir_session::settings::Settings as Asked;
use weir_sql::Judge;
use weir_watch::{Snapshot, TimelinePosition};

use super::super::again::{
    NET_MAX, Names, Repeats, has_done_nothing, is_one_batch, only_reads, redefines,
};
use super::super::keeping::Kept;
use super::super::slots::{Client, Server};
use super::{default_isolation, rules, trace};
use crate::global::FreshnessWaiter;
use crate::handover::Wrote;

/// Time for which a replica with `WAIT FOR LSN` waits in a guard. The read runs on the primary afterwards.
const GUARD_WAIT: Duration = Duration::from_millis(20);

/// Host of a client's transaction, and facts about its session that decide on the next one.
pub(in super::super) struct Route {
    pub(super) state: RouteState,
    /// Settings that `state` was read from.
    pub(super) settings: Arc<Asked>,
    pub(super) course: Course,
    /// True if the server has got a part of the request.
    has_begun: bool,
    /// Time since which the request waits for a host.
    pub(super) since: Option<Moment>,
    /// True if a replica has refused the request: it needs the primary.
    pub(super) needs_primary: bool,
    /// True if the texts of the session's requests decide on their hosts.
    pub(super) is_judged: bool,
    repeats: Repeats,
    /// Length in bytes of the batch that was judged for the next lease, if all of it was there.
    judged: Option<usize>,
    /// True unless the next batch to be kept is known to leave all names their meanings.
    defines: bool,
    /// True if a text of the client has named `synchronous_commit`: its commits may be acknowledged before their WAL is
    /// flushed.
    pub(super) may_commit_async: bool,
    /// True if a text has named `weir.lsn`.
    pub(super) knows_lsn: bool,
    /// Token of the session that was logged because it says nothing about the hosts' positions.
    pub(super) told_token: Token,
    /// True if a hint without a meaning was logged for this client.
    pub(super) told_hint: bool,
    /// Asks for wakeups while the request waits for a fresher replica.
    pub(super) waiter: Option<FreshnessWaiter>,
    /// Position that the server must have replayed, if it is a replica that may be too old for the next lease.
    pub(super) guard: Option<TimelinePosition>,
    /// True if the session wants a notice about each route.
    pub(super) is_traced: bool,
    /// Notice about the route of the next lease.
    pub(super) notice: Option<Box<[u8]>>,
}

/// Course of a client's transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Course {
    /// The server gets everything; `reads` is true if all of it reads: a commit there needs no mark. `net` is the net below
    /// the first batch.
    Primary { reads: bool, net: Below },
    /// The server is a replica and gets one batch at a time.
    Replica {
        left: Left,
        has_net: bool,
        block: Block,
    },
}

/// Net below the first batch of a transaction on the primary: if the server is lost before any reply, a batch that has done
/// nothing runs on the next primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Below {
    /// There is none.
    Nothing,
    /// There may be one, if the batch is small.
    Wanted,
    /// There is one, and the server has still to get this number of bytes of the batch.
    Kept(usize),
}

/// Transaction block on a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Block {
    /// None, or one that stays on its server.
    Stays,
    /// Block that the present batch begins, and that goes to the primary with its first write.
    Begins,
    /// Such a block that an earlier batch has begun.
    Goes,
}

/// Rest of the batch that a replica gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// Number of bytes up to the end of the batch; 0 if all of it was sent.
    Bytes(usize),
    /// The end of the batch is not known yet.
    Open,
}

/// Part of a client's input that its server may get now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Portion {
    /// Number of bytes.
    len: usize,
    /// Number of bytes up to the end of the batch, if it is known.
    end: Option<usize>,
}

impl Portion {
    fn up_to(end: usize, input: &[u8]) -> Self {
        Self {
            len: end.min(input.len()),
            end: Some(end),
        }
    }
}

/// Input that is offered to a server.
pub(in super::super) struct Offered<'i> {
    /// Part that the server may get now.
    pub(in super::super) input: &'i [u8],
    /// Number of bytes of all input.
    whole: usize,
    /// Extent of that part, if the client's database has several hosts.
    portion: Option<Portion>,
}

impl Client {
    /// Returns the part of the client's input that the server may get now. `fresh` is true for the first input of a lease,
    /// and `repeats` if requests may run again.
    #[inline]
    pub(in super::super) fn offer<'i>(
        &mut self,
        server: &mut Server,
        (judge, repeats): (&mut Judge, bool),
        input: &'i [u8],
        fresh: bool,
    ) -> Offered<'i> {
        let begins_on_kept = server.kept != Kept::No && self.begins_on_kept(server, input);
        let Some(route) = &mut self.route else {
            if fresh && self.repeats.as_mut().is_some_and(|repeats| repeats.begin()) {
                self.repeats = None;
            }
            if begins_on_kept {
                self.repeats = None;
            }
            // Unless an error of ours was told in the meantime.
            let begins_late = server.net_waits && server.session.is_over_net() && !input.is_empty();
            if (fresh || begins_on_kept || begins_late) && repeats {
                server.keep_unread(input);
            } else if !input.is_empty() {
                server.give_up_net();
            }
            return Offered {
                input,
                whole: input.len(),
                portion: None,
            };
        };
        let is_renewed = begins_on_kept && route.renew_net(&self.session, judge, input);
        let begins = fresh || is_renewed || route.begins_batch_of_block();
        let judged = route.judged.take().filter(|_| fresh);
        let portion = route.portion(&self.session, input, &server.session, judged);
        if !input.is_empty() && route.only_reads() {
            // The router has judged the first batch of a lease, if all of it was there then.
            let rest = input.get(judged.unwrap_or(0)..).unwrap_or_default();
            let is_its_turn = fresh || is_its_turn(&self.session, &server.session);
            let writes = !(is_its_turn && reads_on(&self.session, judge, rest));
            if let Course::Primary { reads, .. } = &mut route.course {
                *reads = !writes;
            }
        }
        let part = input.get(..portion.len).unwrap_or(input);
        if begins && portion.len > 0 {
            route.keep_batch(portion, part, server);
        } else if !fresh && !input.is_empty() {
            route.go_on_without_net(server);
        }
        if fresh {
            let guard = route.guard.take();
            let guard = guard.as_ref().map(|guard| &guard.lsn as &dyn fmt::Display);
            server.session.set_guard(guard.map(|lsn| (lsn, GUARD_WAIT)));
            let is_standby = matches!(route.course, Course::Replica { .. });
            server.session.hide_host_facts(is_standby);
        }
        Offered {
            input: part,
            whole: input.len(),
            portion: Some(portion),
        }
    }

    /// True if an input begins a request on the server that the client has kept, and the client could do without that server.
    #[cold]
    fn begins_on_kept(&self, server: &Server, input: &[u8]) -> bool {
        let is_settled = server.session.is_free() && server.session.is_settled();
        let is_first = is_settled && is_its_turn(&self.session, &server.session);
        is_first && self.session.pin().is_none() && !input.is_empty()
    }

    /// Notes how much of the offered input the server got.
    #[inline]
    pub(in super::super) fn took(
        &mut self,
        offered: &Offered<'_>,
        taken: &Taken,
        server: &mut Server,
    ) {
        // If a request of ours is repeated, the client's input still waits for it.
        self.stalled = taken.stalled || (self.stalled && offered.whole == 0);
        if let (Some(route), Some(portion)) = (&mut self.route, offered.portion) {
            let is_quiet = server.session.is_quiet_and_synced();
            route.passed(portion, taken.consumed, is_quiet);
            // The rest goes on when the replica has answered.
            self.stalled |= offered.input.len() < offered.whole;
        } else if taken.consumed == 0 && taken.stalled && offered.whole > 0 {
            server.net_waits = server.session.is_over_net();
        } else if taken.consumed < offered.whole {
            server.give_up_net();
        }
    }
}

impl Route {
    pub(super) fn new() -> Self {
        Self {
            state: RouteState::default(),
            settings: Arc::default(),
            course: Course::Primary {
                reads: true,
                net: Below::Nothing,
            },
            has_begun: false,
            since: None,
            needs_primary: false,
            is_judged: false,
            repeats: Repeats::default(),
            judged: None,
            defines: true,
            may_commit_async: false,
            knows_lsn: false,
            told_token: Token::None,
            told_hint: false,
            waiter: None,
            guard: None,
            is_traced: false,
            notice: None,
        }
    }

    /// Returns the last commits of a client that leaves for another process; without a route it has sent no request.
    pub(in super::super) fn wrote(route: Option<&Self>, now: Moment) -> Wrote {
        let state = route.map(|route| &route.state);
        let age = |at: Moment| (at != Moment(0)).then(|| now.0.saturating_sub(at.0));
        Wrote {
            any: state.and_then(|state| age(state.last_write)),
            asynchronous: state.and_then(|state| age(state.last_async_write)),
        }
    }

    /// Returns the route of a client that arrives from another process, which it left before `on_the_way` microseconds. If
    /// it is not known when the client wrote, it may just have done so.
    pub(in super::super) fn arrived(
        now: Moment,
        wrote: Option<Wrote>,
        on_the_way: u64,
    ) -> Box<Self> {
        // A commit from before this process began is not none: hosts have to prove that they show it.
        let at = |age: u64| Moment(now.0.saturating_sub(age.saturating_add(on_the_way)).max(1));
        let place = |age: Option<u64>| age.map_or(Moment(0), at);
        let mut route = Self::new();
        let state = &mut route.state;
        (state.last_write, state.last_async_write) = match wrote {
            Some(wrote) => (place(wrote.any), place(wrote.asynchronous)),
            None => (now, now),
        };
        Box::new(route)
    }

    /// Reads the session's settings that decide on hosts, if they have changed.
    #[inline]
    pub(super) fn follow_settings(&mut self, session: &Session) {
        if !Arc::ptr_eq(&self.settings, session.settings()) {
            self.settings = Arc::clone(session.settings());
            rules::read_settings(&mut self.state, &self.settings);
            let traced = self.settings.get(trace::SETTING);
            self.is_traced = traced.is_some_and(|value| rules::is_on(&value.to_ascii_lowercase()));
            self.may_commit_async |= self.settings.get("synchronous_commit").is_some();
        }
    }

    /// Takes the isolation level from the database if the session has set none.
    pub(super) fn follow_isolation(&mut self, judge: &Judge) {
        if self.settings.get("default_transaction_isolation").is_none() {
            self.state.isolation = default_isolation(judge);
        }
    }

    /// Notes that a text of the client names `synchronous_commit`, from then on for all its commits: the text may be a
    /// prepared statement, a SET LOCAL or a function's argument.
    pub(super) fn note_commit_mode(&mut self, input: &[u8]) {
        self.may_commit_async = self.may_commit_async || rules::names_commit_mode(input);
    }

    pub(super) fn take_course(
        &mut self,
        hosts: &Snapshot,
        host: HostId,
        has_net: bool,
        block: Block,
        destination: &Destination,
    ) {
        let is_replica = hosts.primary().is_none_or(|primary| primary.host != host);
        self.course = match is_replica {
            true => Course::Replica {
                left: Left::Bytes(0),
                has_net: has_net && destination.is_complete && has_done_nothing(destination),
                block,
            },
            false => {
                let reads = only_reads(destination);
                let may_repeat = reads && destination.is_complete;
                // What nobody has read is judged when it is lost.
                let has_net = !self.is_judged || may_repeat && has_done_nothing(destination);
                let net = match has_net {
                    true => Below::Wanted,
                    false => Below::Nothing,
                };
                Course::Primary { reads, net }
            }
        };
        self.judged = destination.is_complete.then_some(destination.len);
        self.defines = destination.defines;
        self.repeats.begin();
        (self.since, self.needs_primary, self.waiter) = (None, false, None);
        self.has_begun = false;
    }

    /// Returns the part of the input that the server may get now. A replica gets the next batch when it has answered the
    /// last one. `judged` is the length of the batch in front, if it is known.
    fn portion(
        &mut self,
        session: &Session,
        input: &[u8],
        server: &ServerSession,
        judged: Option<usize>,
    ) -> Portion {
        let whole = Portion {
            len: input.len(),
            end: None,
        };
        let Course::Replica { left, .. } = self.course else {
            self.note_commit_mode(input);
            let len = self.before_lsn(session, input, server);
            let len = match self.course {
                // What follows has no net below it.
                Course::Primary {
                    net: Below::Kept(left @ 1..),
                    ..
                } => len.min(left),
                _ => len,
            };
            return Portion { len, end: None };
        };
        let begun = match left {
            Left::Bytes(0) if !server.is_quiet_and_synced() => {
                return Portion { len: 0, end: None };
            }
            Left::Bytes(0) => match judged {
                Some(end) => return Portion::up_to(end, input),
                None => 0,
            },
            Left::Bytes(end) => return Portion::up_to(end, input),
            Left::Open => session.owed_bytes().min(input.len()),
        };
        let batch = Batch::scan(input.get(begun..).unwrap_or_default()).extent();
        match batch.end {
            End::Open => whole,
            End::Call | End::Sync => Portion::up_to(begun + batch.len, input),
        }
    }

    /// True if all that the primary got in this lease reads.
    pub(in super::super) fn only_reads(&self) -> bool {
        matches!(self.course, Course::Primary { reads: true, .. })
    }

    /// True if the primary got in this lease what may write.
    pub(super) fn writes(&self) -> bool {
        matches!(self.course, Course::Primary { reads: false, .. })
    }

    /// True if the next input begins a batch of a block that may still go to the primary.
    fn begins_batch_of_block(&self) -> bool {
        matches!(
            self.course,
            Course::Replica {
                left: Left::Bytes(0),
                block: Block::Goes,
                ..
            }
        )
    }

    /// True if the client's block may still go to the primary.
    pub(super) fn may_go(&self) -> bool {
        matches!(
            self.course,
            Course::Replica {
                block: Block::Begins | Block::Goes,
                ..
            }
        )
    }

    /// Lets a block that has only read stay on its replica for its next batch, with a net below if that reads.
    pub(super) fn stay(&mut self, reads: bool) {
        if let Course::Replica { has_net, block, .. } = &mut self.course {
            (*has_net, *block) = (reads, Block::Goes);
        }
    }

    /// True if the batch over the net belongs to a block that an earlier batch has begun.
    pub(super) fn is_in_block(&self) -> bool {
        matches!(
            self.course,
            Course::Replica {
                block: Block::Goes,
                ..
            }
        )
    }

    /// Wants a net below the first batch of another transaction on the primary, whose server the client has kept
    /// ([`Client::begins_on_kept`]), if the batch has done nothing when it is lost.
    #[cold]
    fn renew_net(&mut self, session: &Session, judge: &mut Judge, input: &[u8]) -> bool {
        let Course::Primary { net, .. } = &mut self.course else {
            return false;
        };
        if !self.is_judged {
            return false;
        }
        let found = relay::destination(&Batch::scan(input), session, judge);
        if !found.is_complete || !only_reads(&found) || !has_done_nothing(&found) {
            return false;
        }
        (*net, self.repeats) = (Below::Wanted, Repeats::default());
        self.defines = found.defines;
        true
    }

    /// Notes how much of a portion was sent.
    fn passed(&mut self, portion: Portion, consumed: usize, is_quiet: bool) {
        self.has_begun |= consumed > 0;
        if let Course::Primary {
            net: Below::Kept(left),
            ..
        } = &mut self.course
        {
            *left = left.saturating_sub(consumed);
        }
        if let Course::Replica { left, .. } = &mut self.course {
            match portion.end {
                Some(end) => *left = Left::Bytes(end.saturating_sub(consumed)),
                // The batch has begun, with requests of ours in front if the server has got nothing else of it.
                None if consumed > 0 || portion.len > 0 && !is_quiet => *left = Left::Open,
                None => {}
            }
        }
    }

    /// True if the server has got a part of the request for which it was chosen. What follows the request may need
    /// another host.
    pub(in super::super) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Number of bytes of the batch over a net, or of a replica's batch, that the server has not got yet.
    pub(super) fn unsent(&self) -> usize {
        match self.course {
            Course::Replica {
                left: Left::Bytes(len),
                ..
            }
            | Course::Primary {
                net: Below::Kept(len),
                ..
            } => len,
            Course::Primary { .. } | Course::Replica { .. } => 0,
        }
    }

    /// True if the server is a replica.
    pub(in super::super) fn is_on_replica(&self) -> bool {
        matches!(self.course, Course::Replica { .. })
    }

    /// Takes the net away from below the first batch, because the primary gets what follows it.
    fn go_on_without_net(&mut self, server: &mut Server) {
        if let Course::Primary { net, .. } = &mut self.course
            && matches!(net, Below::Kept(0) | Below::Wanted)
        {
            *net = Below::Nothing;
            server.session.disarm_net();
        }
    }

    /// Sends the batch over the net again: on the primary, if a replica had it.
    pub(super) fn repeat(&mut self, now: Moment, connected_at: Moment) {
        self.needs_primary |= self.is_on_replica();
        self.repeats.add(now, connected_at);
    }

    /// Lets the request begin again, of which its server has got nothing.
    pub(in super::super) fn begin_again(&mut self, now: Moment, connected_at: Moment) {
        self.repeats.add(now, connected_at);
    }

    /// Returns how often the request was sent again.
    pub(in super::super) fn repeats(&self) -> Repeats {
        self.repeats
    }

    /// True if the batch over the net was judged before it was sent.
    pub(in super::super) fn has_judged(&self) -> bool {
        self.is_judged || self.is_on_replica()
    }

    /// Keeps the first batch of a transaction if it may run elsewhere, and puts the net below it.
    fn keep_batch(&mut self, portion: Portion, batch: &[u8], server: &mut Server) {
        let is_whole = match &mut self.course {
            Course::Replica { has_net, .. } => *has_net && portion.end == Some(portion.len),
            Course::Primary { net, .. } => {
                let is_wanted = *net == Below::Wanted && batch.len() <= NET_MAX;
                let is_whole = is_wanted && is_one_batch(batch);
                *net = match is_whole {
                    true => Below::Kept(batch.len()),
                    false => Below::Nothing,
                };
                is_whole
            }
        };
        let defines = std::mem::replace(&mut self.defines, true);
        let redefines = || defines && redefines(batch, Names::Unnamed);
        let has_net = is_whole && portion.len <= NET_MAX && !redefines();
        server.kept_batch.clear();
        server.net_waits = false;
        if has_net {
            server.kept_batch.extend_from_slice(batch);
            server.session.arm_net();
        } else {
            server.session.disarm_net();
        }
    }
}

/// True if a client's next input begins a batch, and its server has answered everything before.
fn is_its_turn(session: &Session, server: &ServerSession) -> bool {
    server.is_quiet_and_synced() && !session.is_sending_to_server()
}

/// True if an input consists of whole batches that do not write.
fn reads_on(session: &Session, judge: &mut Judge, mut input: &[u8]) -> bool {
    while !input.is_empty() {
        let batch = Batch::scan(input);
        let found = relay::destination(&batch, session, judge);
        if !found.is_complete || !only_reads(&found) {
            return false;
        }
        input = input.get(batch.extent().len..).unwrap_or_default();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_moves_takes_the_times_of_its_commits_along() {
        let mut left = Route::new();
        let never = Route::wrote(None, Moment(50));
        assert_eq!(never, Route::wrote(Some(&left), Moment(50)));
        left.state.last_write = Moment(7_000_000);
        let wrote = Some(Route::wrote(Some(&left), Moment(9_000_000)));
        let arrived = |now, wrote| {
            let route = Route::arrived(Moment(now), wrote, 1_000_000);
            (route.state.last_write, route.state.last_async_write)
        };
        // Two seconds before it was sent, which took one.
        assert_eq!(arrived(20_000_000, wrote), (Moment(17_000_000), Moment(0)));
        // Before this process began.
        assert_eq!(arrived(2_000_000, wrote), (Moment(1), Moment(0)));
        assert_eq!(arrived(2_000_000, Some(never)), (Moment(0), Moment(0)));
        assert_eq!(arrived(5, None), (Moment(5), Moment(5)));
    }
}
