//! Tokens between sessions: `weir.lsn` tells the position above a session's commits, `weir.min_lsn` asks for one.
//!
//! PostgreSQL itself answers for `weir.lsn`, in any protocol: a server has the value as a setting before it gets a text
//! that names it. A session that holds no server gets the value with its next one. On a server that a session keeps,
//! the batch waits until all before it is answered, and the value is set first. A batch that asks waits until the
//! primary was asked for its position after the session's last commit.

use std::time::Duration;

use memchr::memchr2;
use weir_pool::Moment;
use weir_route::{Ask, RouteState, Token, Verdict, Why};
use weir_session::client::Client as Session;
use weir_session::relay::{self, Batch};
use weir_session::server::Server as ServerSession;
use weir_session::splice::Splice;
use weir_watch::{Snapshot, TimelinePosition};
use weir_wire::backend::TransactionStatus;
use weir_wire::encode::EncodeError;

use super::super::Worker;
use super::super::ids::{ClientId, ServerId};
use super::super::slots::{Client, Group, Server};
use super::super::timers::Timer;
use super::route::Route;
use crate::driver::Driver;

/// Setting that tells the position above a session's commits.
const LSN: &str = "weir.lsn";

/// Maximum number of bytes between the two parts of the name: a dot, quotes and spaces.
const GAP_MAX: usize = 8;

/// Position of a session that has not committed: every host shows it.
const NOTHING_TO_SEE: &str = "0/0/0";

/// Interval at which a session that keeps its server looks for a newer position of the primary.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Answer to a batch that may ask for `weir.lsn`.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// The batch asks, and the primary was not asked yet since the session's last commit.
    Later,
    /// The batch does not ask.
    Unasked,
    /// Value for the batch.
    Value(String),
}

impl Found {
    fn of(route: &Route, session: &Session, hosts: &Snapshot, batch: &Batch<'_>) -> Self {
        if !route.asks_for_lsn(session, batch) {
            return Self::Unasked;
        }
        match position(&route.state, hosts) {
            Some(value) => Self::Value(value),
            None => Self::Later,
        }
    }
}

/// Returns the position above all commits of a session, if it is known.
fn position(state: &RouteState, hosts: &Snapshot) -> Option<String> {
    if state.last_write == Moment(0) && state.last_async_write == Moment(0) {
        return Some(NOTHING_TO_SEE.to_owned());
    }
    let above = hosts
        .positions
        .above(state.last_write, state.last_async_write);
    above.map(|position| position.to_string())
}

/// Reads a value of `weir.min_lsn`.
pub(super) fn token(value: Option<&str>) -> Token {
    match value {
        None | Some("") => Token::None,
        // Of a session that had not committed.
        Some(NOTHING_TO_SEE) => Token::None,
        Some(value) => TimelinePosition::parse(value).map_or(Token::Malformed, Token::At),
    }
}

/// True if a text names `weir.lsn`, perhaps with quotes and spaces. A text that seems to name it costs a setting.
fn names_lsn(input: &[u8]) -> bool {
    let (head, tail) = (b"weir", b"lsn");
    let mut rest = input;
    while let Some(at) = memchr2(b'w', b'W', rest) {
        let found = rest.get(at..).unwrap_or_default();
        rest = found.get(1..).unwrap_or_default();
        let is_head = found.get(..head.len());
        if !is_head.is_some_and(|found| found.eq_ignore_ascii_case(head)) {
            continue;
        }
        let behind = found.get(head.len()..).unwrap_or_default();
        let is_gap = |byte: &u8| matches!(byte, b'.' | b'"' | b' ' | b'\n' | b'\t' | b'\r');
        let gap = behind.iter().take(GAP_MAX).take_while(|byte| is_gap(byte));
        let gap = gap.count();
        let name = behind.get(gap..gap + tail.len());
        if gap > 0 && name.is_some_and(|name| name.eq_ignore_ascii_case(tail)) {
            return true;
        }
    }
    false
}

impl Route {
    /// True if a batch asks for `weir.lsn`. Prepared statements are looked at once a text has named it.
    fn asks_for_lsn(&self, session: &Session, batch: &Batch<'_>) -> bool {
        self.knows_lsn && relay::any_text(batch, session, &names_lsn)
    }

    /// Notes that a text names `weir.lsn`; from then on, prepared statements may ask for it.
    fn note_lsn(&mut self, input: &[u8]) {
        self.knows_lsn = self.knows_lsn || names_lsn(input);
    }

    /// Gives the session the value of `weir.lsn` for its next batch, or takes it away if the batch does not ask. Returns
    /// a verdict if the batch has to wait for the value, or has waited until `until`.
    pub(super) fn give_lsn(
        &mut self,
        session: &mut Session,
        hosts: &Snapshot,
        batch: &Batch<'_>,
        (now, until): (Moment, Moment),
    ) -> Option<Verdict> {
        self.note_lsn(batch.input);
        if !self.knows_lsn {
            return None;
        }
        let why = Why::Position;
        match Found::of(self, session, hosts, batch) {
            Found::Later if now < until => return Some(Verdict::Hold { until, why }),
            Found::Later => return Some(Verdict::Refuse(why)),
            Found::Unasked => session.give_setting(LSN, None),
            Found::Value(value) => session.give_setting(LSN, Some(&value)),
        }
        None
    }

    /// Returns the length of the input that a server may get before a batch that asks for `weir.lsn`: the batch waits
    /// until all before it is answered. All of the input if it does not ask.
    pub(super) fn before_lsn(
        &mut self,
        session: &Session,
        input: &[u8],
        server: &ServerSession,
    ) -> usize {
        self.note_lsn(input);
        if !self.knows_lsn {
            return input.len();
        }
        let mut at = session.owed_bytes().min(input.len());
        // The rest of a batch is never held back: its replies may come only with its end.
        let mut may_pass = server.is_quiet_and_synced() || server.is_in_batch() || at > 0;
        while at < input.len() {
            let batch = Batch::scan(input.get(at..).unwrap_or_default());
            if !may_pass && self.asks_for_lsn(session, &batch) {
                return at;
            }
            may_pass = false;
            // A message has at least five bytes, or its header has not arrived.
            match batch.extent().len {
                0 => break,
                len => at += len,
            }
        }
        input.len()
    }

    /// True once for each token that says nothing about the hosts' positions.
    pub(super) fn tells_foreign_token(&mut self, foreign: &Foreign) -> bool {
        let Foreign(token) = *foreign;
        let is_news = token != Token::None && self.told_token != token;
        self.told_token = token;
        is_news
    }
}

/// Token of a session if it says nothing about the hosts' positions; else none.
pub(super) struct Foreign(Token);

impl Foreign {
    pub(super) fn of(ask: &Ask<'_>) -> Self {
        // Before the first probe every token is foreign, which is no news.
        let is_foreign = ask.has_foreign_token() && ask.hosts.positions.timeline().is_some();
        Self(match is_foreign {
            true => ask.session.token,
            false => Token::None,
        })
    }
}

impl<D: Driver> Worker<D> {
    /// True if a client's batch on the server that it keeps has to wait, because the batch asks for `weir.lsn` and the
    /// value is not known yet. The client's input is offered again soon.
    pub(in super::super) fn waits_for_lsn(
        &mut self,
        id: ClientId,
        server_id: ServerId,
        input: &[u8],
    ) -> bool {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return false;
        };
        let Some(route) = &mut client.route else {
            return false;
        };
        route.note_lsn(input);
        if !route.knows_lsn {
            return false;
        }
        let group_id = client.group;
        self.follow_hosts_of(group_id);
        let now = self.now;
        let Some(link) = self.tables.link(id, server_id) else {
            return false;
        };
        let found = link.client.lsn_on(link.server, link.group, input);
        let waits = found == Found::Later;
        if waits {
            link.client.stalled = true;
            self.timers.arm(now.plus(LOOK_AGAIN), Timer::Hold(id));
        }
        waits
    }

    /// Offers the input of a client again that waits for `weir.lsn` on the server that it keeps.
    pub(super) fn look_for_lsn(&mut self, id: ClientId) {
        let client = self.tables.clients.get(id);
        if client.is_some_and(|client| client.lease.is_some() && client.stalled) {
            self.end_stall(id);
        }
    }
}

impl Client {
    /// Returns the value of `weir.lsn` for input on a server that the client keeps, if the server is between
    /// transactions.
    fn lsn_on(&self, server: &Server, group: &Group, input: &[u8]) -> Found {
        let (Some(route), Some(routing)) = (&self.route, &group.routing) else {
            return Found::Unasked;
        };
        let is_between = server.session.is_quiet_and_synced()
            && server.session.status() == TransactionStatus::Idle
            && self.session.owed_bytes() == 0;
        match is_between && route.knows_lsn {
            true => Found::of(route, &self.session, &routing.hosts, &Batch::scan(input)),
            false => Found::Unasked,
        }
    }

    /// Sets `weir.lsn` on a server that the client keeps, if the input asks for it.
    ///
    /// # Errors
    /// Never in practice: the value has no NUL.
    #[inline]
    pub(in super::super) fn renew_lsn(
        &mut self,
        server: &mut Server,
        group: &Group,
        input: &[u8],
        out: &mut Splice<'_>,
    ) -> Result<(), EncodeError> {
        if self.route.as_ref().is_none_or(|route| !route.knows_lsn) {
            return Ok(());
        }
        match self.lsn_on(server, group, input) {
            Found::Value(value) => {
                let setting = (LSN, Some(&*value));
                relay::give_setting_now(&mut self.session, &mut server.session, setting, out)
            }
            Found::Later | Found::Unasked => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_watch::Lsn;

    use super::*;

    #[test]
    fn the_name_is_found_in_any_spelling() {
        for text in [
            "SHOW weir.lsn",
            "show WEIR . LSN",
            "show \"weir\".\"lsn\"",
            "select wwweir.current_setting('weir.lsn')",
        ] {
            assert!(names_lsn(text.as_bytes()), "{text}");
        }
        for text in [
            "",
            "w",
            "weir",
            "weir.",
            "weir.ls",
            "weir.min_lsn",
            "weirlsn",
            "weir,lsn",
        ] {
            assert!(!names_lsn(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn a_token_is_a_position_or_malformed() {
        let at = TimelinePosition {
            timeline: 3,
            lsn: Lsn(0x1A2B),
        };
        assert_eq!(token(Some("3/0/1A2B")), Token::At(at));
        assert_eq!(token(None), Token::None);
        assert_eq!(token(Some("")), Token::None);
        assert_eq!(
            token(position(&RouteState::default(), &Snapshot::default()).as_deref()),
            Token::None
        );
        for malformed in ["0/1A2B", "x", "3/0/1A2B ", "latest"] {
            assert_eq!(token(Some(malformed)), Token::Malformed, "{malformed}");
        }
    }
}
