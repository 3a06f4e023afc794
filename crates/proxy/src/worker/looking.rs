//! Reads from a server what the functions, triggers and views of its database may do to a session.
//!
//! The first server of a database reads it before it is used. Afterwards one server per `catalogue_refresh` is asked
//! for changes when it goes back to its pool. If reading fails, the error is logged and reading is tried again after
//! that interval.

use std::time::Duration;

use weir_pool::Moment;
use weir_session::relay::StatePolicy;
use weir_session::server::Server as ServerSession;
use weir_sql::{Catalogue, load_query, stamp_query};
use weir_wire::backend::{self, DataRow, ErrorFields};
use weir_wire::frame::{Side, frame};

use super::Worker;
use super::ids::{GroupId, ServerId};
use super::slots::{Group, Stage, Test};
use super::tables::Tables;
use crate::driver::Driver;
use crate::global::Purpose;

/// Maximum bytes of an answer.
const ANSWER_MAX: usize = 64 * 1024 * 1024;

/// Maximum time for a server's answer.
const LOOK_MAX: Duration = Duration::from_secs(15);

impl<D: Driver> Worker<D> {
    /// Starts reading the catalogue on a server that has logged in, if no server has read it yet. True if it started.
    pub(super) fn loads_first(&mut self, server_id: ServerId) -> bool {
        let Some(server) = self.tables.servers.must_get(server_id) else {
            return false;
        };
        let is_owned = self.tables.owner_of(server.lane).is_some();
        let group = self.tables.groups.must_get(server.group);
        let is_due = group.filter(|_| !is_owned).is_some_and(|group| {
            group.looks.is_some()
                && !group.global.database_state.is_loaded()
                && self.tables.shows_catalogue(server, group)
        });
        is_due && self.look(server_id, Test::Load { is_new: true })
    }

    /// Asks a free server whether the catalogue has changed, if that is due. True if it was asked.
    #[inline]
    pub(super) fn looks_again(&mut self, server_id: ServerId, group: GroupId) -> bool {
        let Some(group) = self.tables.groups.must_get(group) else {
            return false;
        };
        let Some(every) = group.looks else {
            return false;
        };
        let state = &group.global.database_state;
        let shows = || {
            let server = self.tables.servers.must_get(server_id);
            server.is_some_and(|server| self.tables.shows_catalogue(server, group))
        };
        (group.routing.is_none() || shows())
            && state.is_look_due(self.now, every)
            && self.look(server_id, Test::Look)
    }

    #[cold]
    fn look(&mut self, server_id: ServerId, test: Test) -> bool {
        let Some(server) = self.tables.servers.must_get_mut(server_id) else {
            return false;
        };
        let query = match test {
            Test::Load { .. } => load_query(server.session.version()),
            _ => stamp_query(),
        };
        let mut message = Vec::new();
        if server.session.ask_apart(&query, &mut message).is_err() {
            return false;
        }
        server.stage = Stage::Testing(test);
        server.heard = Some(Vec::new());
        self.driver.send(server.key, &message);
        if !matches!(test, Test::Load { is_new: true })
            && let Some(lane) = self.tables.lanes.must_get_mut(server.lane)
        {
            lane.shard.test_started(server_id.into());
        }
        self.arm_server(server_id, Some(LOOK_MAX));
        true
    }

    /// Handles a server that has not answered in time: the others are used without its answer.
    pub(super) fn gave_up_looking(&mut self, server_id: ServerId, test: Test) {
        if let Test::Load { .. } = test {
            self.looked(server_id, test);
        }
    }

    /// Evaluates a server's answer. True if the server has to be asked more.
    pub(super) fn looked(&mut self, server_id: ServerId, test: Test) -> bool {
        let Some(server) = self.tables.servers.must_get_mut(server_id) else {
            return false;
        };
        let heard = server.heard.take().unwrap_or_default();
        let Some(group) = self.tables.groups.must_get(server.group) else {
            return false;
        };
        let (database, state) = (&group.global.key.database, &group.global.database_state);
        let rows = rows(&heard);
        if test == Test::Look {
            let stamp = rows.ok().and_then(|rows| rows.first().map(|row| row[0]));
            let has_changed = stamp.is_some_and(|stamp| *stamp != *state.stamp());
            return has_changed && self.look(server_id, Test::Load { is_new: false });
        }
        let catalogue =
            rows.and_then(|rows| Catalogue::load(rows).map_err(|error| error.to_string()));
        match &catalogue {
            Ok(catalogue) => tracing::debug!(
                "database \"{database}\": loaded {} names of functions and relations that may change session state",
                catalogue.len()
            ),
            Err(why) => tracing::warn!(
                "database \"{database}\": cannot load the functions and relations that change session state: {why}; \
                 until a later load succeeds only the texts of statements count (catalogue_refresh)"
            ),
        }
        state.learn(catalogue.ok(), self.now, group.looks.unwrap_or(LOOK_MAX));
        false
    }
}

impl Tables {
    /// Collects a server's answer about the catalogue.
    pub(super) fn hear(&mut self, server_id: ServerId, bytes: &[u8]) {
        if let Some(server) = self.servers.must_get_mut(server_id)
            && let Some(heard) = &mut server.heard
            && heard.len() <= ANSWER_MAX
        {
            heard.extend_from_slice(bytes);
        }
    }
}

impl Group {
    /// Makes the judge use the current catalogue, if that has changed.
    #[inline]
    pub(super) fn keep_judge_fresh(&mut self) {
        if self.judge.generation() != self.global.database_state.generation() {
            self.refresh_judge();
        }
    }

    /// Shares the code that a client defines with all workers: other clients may use it as soon as the server knows it.
    #[inline]
    pub(super) fn share_definitions(&self, session: &mut ServerSession, now: Moment) {
        if session.has_definitions() {
            self.define(session, now);
        }
    }

    #[cold]
    fn define(&self, session: &mut ServerSession, now: Moment) {
        let definitions = session.take_definitions();
        if self.looks.is_some() {
            self.global.database_state.define(definitions, now);
        }
    }

    /// Makes the judge use the current catalogue.
    #[cold]
    pub(super) fn refresh_judge(&mut self) {
        let (catalogue, generation) = self.global.database_state.catalogue();
        self.judge.set_catalogue(&catalogue, generation);
    }
}

/// Returns the interval at which the servers of a pool look at the catalogue. None if they do not.
pub(super) fn interval(
    every: Option<Duration>,
    state: StatePolicy,
    purpose: Purpose,
) -> Option<Duration> {
    let follows = matches!(
        state,
        StatePolicy::Pin | StatePolicy::Refuse | StatePolicy::Track
    );
    every.filter(|_| follows && purpose.serves_clients())
}

/// Returns the rows of an answer, each with five columns, or the reason why there are none.
fn rows(answer: &[u8]) -> Result<Vec<[&[u8]; 5]>, String> {
    if answer.len() > ANSWER_MAX {
        return Err("the answer is too long".to_owned());
    }
    let mut rows = Vec::new();
    let mut at = 0;
    while let Ok(Some(message)) = frame(answer.get(at..).unwrap_or_default(), Side::Backend) {
        at += message.raw.len();
        match message.header.tag {
            backend::tag::DATA_ROW => {
                let row = DataRow::parse(message.body).map_err(|error| error.to_string())?;
                let mut columns = [&b""[..]; 5];
                for (column, value) in columns.iter_mut().zip(row) {
                    *column = value.unwrap_or_default();
                }
                rows.push(columns);
            }
            backend::tag::ERROR_RESPONSE => {
                let fields = ErrorFields::parse(message.body).ok();
                let text = fields.and_then(|fields| fields.message());
                return Err(text.map_or_else(
                    || "the server reports an error".to_owned(),
                    |text| String::from_utf8_lossy(text).into_owned(),
                ));
            }
            _ => {}
        }
    }
    Ok(rows)
}
