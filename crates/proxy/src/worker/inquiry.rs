//! Questions that a login asks a server: the secret of a user (`auth_query`), and the roles of a user.
//!
//! They run on pools of their own, as `auth_user`, with one bound parameter (the name in the start-up packet). They use
//! none of the client's settings, which are not checked yet at that time (hazard SEC-43, CVE-2025-12819).

use slotmap::Key as _;
use weir_config::{AUTH_QUERY, AuthLookup};
use weir_session::fault::Fault;
use weir_session::relay::{self, Link};
use weir_session::splice::Splice;
use weir_wire::backend::{self, DataRow, ErrorFields};
use weir_wire::encode::{self, EncodeError};
use weir_wire::frame::{Side, frame};

use super::access::Answered;
use super::client::Leaving;
use super::ids::{ClientId, GroupId, LaneId, ServerId};
use super::slots::{Busy, Phase};
use super::tables::Tables;
use super::{Missing, Worker};
use crate::driver::Driver;
use crate::global::Purpose;

/// Maximum bytes of an answer. A user's roles are names of at most 63 bytes each.
const ANSWER_MAX: usize = 1024 * 1024;

/// Default auth_query with the end of the secret's validity, which a cached secret must not outlive (hazard SEC-42).
pub(super) const AUTH_QUERY_WITH_END: &str = "SELECT rolname, CASE WHEN rolvaliduntil < now() THEN NULL ELSE rolpassword END, \
    rolvaliduntil FROM pg_authid WHERE rolname=$1 AND rolcanlogin";

/// Row of an answer: one text per column; `None` is NULL.
pub(super) type Row = Vec<Option<Vec<u8>>>;

/// Question about a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    /// Roles that the user belongs to.
    Roles,
    /// Secret of the user.
    Secret,
}

/// Question on its way.
pub(super) struct Inquiry {
    pub(super) question: Question,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl<D: Driver> Worker<D> {
    /// Asks a question as `lookup` says. The answer goes to [`Worker::answered`].
    pub(super) fn inquire(&mut self, id: ClientId, lookup: &AuthLookup, question: Question) {
        let settled = self.global.settled();
        let Some(settings) = settled.settings.pool(&lookup.dbname, &lookup.user) else {
            tracing::warn!(
                "authentication database \"{}\" is not configured",
                lookup.dbname
            );
            return self.answered(id, question, None);
        };
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        let Phase::Authenticating(login) = &mut client.phase else {
            return self.global.broken.report(Missing::State);
        };
        let sql = match question {
            Question::Secret if lookup.query == AUTH_QUERY => AUTH_QUERY_WITH_END,
            Question::Secret => lookup.query.as_str(),
            Question::Roles => weir_access::ROLES_QUERY,
        };
        let Ok(request) = request(sql, &login.hello.user) else {
            return self.answered(id, question, None);
        };
        login.busy = Busy::Inquiring(Inquiry {
            question,
            request,
            answer: Vec::new(),
        });
        let is_own = lookup.query == AUTH_QUERY || question == Question::Roles;
        let purpose = if is_own {
            Purpose::OwnQuestions
        } else {
            Purpose::CustomQuestions
        };
        let Ok(pool) = self.global.private_pool(settings, &lookup.user, purpose) else {
            return self.answered(id, question, None);
        };
        let place = self.lane_of(&pool);
        if let Some(client) = self.tables.clients.must_get_mut(id) {
            (client.group, client.lane) = place;
        }
        if self.check_out_for(id, None) {
            let server = self
                .tables
                .clients
                .must_get(id)
                .and_then(|client| client.lease);
            if let Some(server) = server {
                self.put_question(id, server);
            }
        }
    }

    /// Sends a question on the server that the login waited for. The relay's messages to the client are dropped: the
    /// client is not logged in yet.
    pub(super) fn put_question(&mut self, id: ClientId, server_id: ServerId) {
        let (Some(client), Some(server)) = (
            self.tables.clients.must_get_mut(id),
            self.tables.servers.must_get_mut(server_id),
        ) else {
            return;
        };
        let mut message = Vec::new();
        let mut out = Splice::new(&[], &mut message);
        let begun = relay::begin(
            &mut client.session,
            &mut server.session,
            &mut out,
            &mut Vec::new(),
        );
        let bytes = out.finish();
        if !bytes.is_empty() {
            self.driver.send(server.key, bytes);
        }
        match begun {
            Ok(()) => self.put_request(id, server_id),
            Err(_) => self.fail_inquiry(id),
        }
    }

    /// Sends the part of the question that the server may get now: none before it has the settings that the question
    /// needs.
    fn put_request(&mut self, id: ClientId, server_id: ServerId) {
        let (Some(client), Some(server)) = (
            self.tables.clients.must_get_mut(id),
            self.tables.servers.must_get_mut(server_id),
        ) else {
            return;
        };
        let Some(group) = self.tables.groups.must_get_mut(client.group) else {
            return;
        };
        let Phase::Authenticating(login) = &mut client.phase else {
            return self.global.broken.report(Missing::State);
        };
        let Busy::Inquiring(inquiry) = &mut login.busy else {
            return self.global.broken.report(Missing::State);
        };
        let (mut buffer, mut untold) = (Vec::new(), Vec::new());
        let mut out = Splice::new(&inquiry.request, &mut buffer);
        let mut link = Link {
            client: &mut client.session,
            server: &mut server.session,
            registry: &mut self.tables.registry,
            judge: &mut group.judge,
            proven: &group.global.proven,
            rules: group.rules,
            digests: None,
            ruling: None,
        };
        let taken = relay::requests(&mut link, &inquiry.request, &mut out, &mut untold);
        let bytes = out.finish();
        if !bytes.is_empty() {
            server.request_at = self.now;
            self.driver.send(server.key, bytes);
        }
        match taken {
            Ok(taken) => drop(inquiry.request.drain(..taken.consumed)),
            Err(_) => self.fail_inquiry(id),
        }
    }

    /// True if a part of the question is not sent yet.
    fn has_request(&self, id: ClientId) -> bool {
        let phase = self.tables.clients.must_get(id).map(|client| &client.phase);
        let Some(Phase::Authenticating(login)) = phase else {
            self.global.broken.report(Missing::State);
            return false;
        };
        matches!(&login.busy, Busy::Inquiring(inquiry) if !inquiry.request.is_empty())
    }

    /// Handles a server's reply to a question. Returns the number of bytes handled.
    pub(super) fn inquiry_replied(
        &mut self,
        server_id: ServerId,
        id: ClientId,
        input: &[u8],
    ) -> usize {
        let (Some(client), Some(server)) = (
            self.tables.clients.must_get_mut(id),
            self.tables.servers.must_get_mut(server_id),
        ) else {
            return input.len();
        };
        let mut buffer = Vec::new();
        let mut told = Splice::new(input, &mut buffer);
        let replied = relay::replies(&mut client.session, &mut server.session, input, &mut told);
        let told = told.finish();
        if let Phase::Authenticating(login) = &mut client.phase
            && let Busy::Inquiring(inquiry) = &mut login.busy
        {
            inquiry.answer.extend_from_slice(told);
            if inquiry.answer.len() > ANSWER_MAX {
                tracing::warn!(
                    "authentication query failed: its answer is longer than {ANSWER_MAX} bytes"
                );
                self.close_server(server_id, "authentication query: answer too long");
                return input.len();
            }
        }
        match replied {
            Ok(replied) => {
                if self.has_request(id) {
                    self.put_request(id, server_id);
                    return replied.consumed;
                }
                let (Some(client), Some(server)) = (
                    self.tables.clients.must_get_mut(id),
                    self.tables.servers.must_get_mut(server_id),
                ) else {
                    return replied.consumed;
                };
                if server.session.is_free() {
                    server.lease = None;
                    client.lease = None;
                    (client.group, client.lane) = (GroupId::null(), LaneId::null());
                    self.release_later(server_id);
                    self.question_answered(id);
                }
                replied.consumed
            }
            Err(fault) => {
                self.server_fault(server_id, &fault);
                input.len()
            }
        }
    }

    fn question_answered(&mut self, id: ClientId) {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        let Phase::Authenticating(login) = &mut client.phase else {
            return self.global.broken.report(Missing::State);
        };
        let Busy::Inquiring(inquiry) = std::mem::replace(&mut login.busy, Busy::No) else {
            return self.global.broken.report(Missing::State);
        };
        // The next question, or the client's own session, begins with a new session.
        client.session = weir_session::client::Client::default();
        let rows = match rows(&inquiry.answer) {
            Ok(rows) => Some(rows),
            Err(text) => {
                tracing::warn!("{client} authentication query failed: {text}");
                None
            }
        };
        self.answered(id, inquiry.question, rows);
    }

    /// Ends a question for which no server can be had. The client is not told the reason.
    pub(super) fn inquiry_failed(&mut self, id: ClientId, why: &str) {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        let Phase::Authenticating(login) = &mut client.phase else {
            return self.global.broken.report(Missing::State);
        };
        let Busy::Inquiring(inquiry) = std::mem::replace(&mut login.busy, Busy::No) else {
            return self.remove_client(id, Leaving::Lost, why);
        };
        (client.group, client.lane) = (GroupId::null(), LaneId::null());
        client.session = weir_session::client::Client::default();
        tracing::warn!("{client} authentication query failed: {why}");
        self.answered(id, inquiry.question, None);
    }

    /// Ends a question of a client whose database, which only `*` provides for, PostgreSQL does not have. There is nobody
    /// to ask about the user, so the client learns this before its login, as from PostgreSQL.
    pub(super) fn inquiry_without_database(&mut self, id: ClientId, why: &str) {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        (client.group, client.lane) = (GroupId::null(), LaneId::null());
        client.session = weir_session::client::Client::default();
        tracing::warn!("{client} authentication query failed: {why}");
        let database = client.identity.database.to_string();
        self.fail_client(id, &Fault::NoDatabase(database));
    }

    /// Ends a question whose server is gone.
    pub(super) fn inquiry_lost(&mut self, id: ClientId, why: &str) {
        if let Some(client) = self.tables.clients.must_get_mut(id) {
            client.lease = None;
        }
        self.inquiry_failed(id, why);
    }

    fn answered(&mut self, id: ClientId, question: Question, rows: Option<Vec<Row>>) {
        let answered = match (question, rows) {
            (Question::Roles, Some(rows)) => {
                let names = rows.into_iter().filter_map(|row| row.into_iter().next()?);
                let names = names.map(|name| String::from_utf8_lossy(&name).into_owned());
                Answered::Roles(Some(names.collect()))
            }
            (Question::Roles, None) => Answered::Roles(None),
            (Question::Secret, rows) => Answered::Secret(rows),
        };
        self.learn(id, answered);
    }
}

impl Tables {
    /// True if a client's login waits for a server's answer.
    pub(super) fn is_asked_about(&self, id: ClientId) -> bool {
        let client = self.clients.must_get(id);
        client.is_some_and(|client| matches!(client.phase, Phase::Authenticating(_)))
    }
}

/// Returns Parse, Bind with the name as its only parameter, Execute and Sync.
fn request(sql: &str, user: &str) -> Result<Vec<u8>, EncodeError> {
    let mut out = Vec::new();
    // No parameter types: the server infers them.
    encode::parse(&mut out, b"", sql.as_bytes(), &[0, 0])?;
    // The name came in a start-up packet of at most 10,000 bytes.
    let len = i32::try_from(user.len()).unwrap_or(i32::MAX);
    let mut rest = vec![0, 0, 0, 1];
    rest.extend_from_slice(&len.to_be_bytes());
    rest.extend_from_slice(user.as_bytes());
    rest.extend_from_slice(&[0, 0]);
    encode::bind_renamed(&mut out, b"", b"", &rest)?;
    encode::execute(&mut out, b"", 0)?;
    encode::sync(&mut out)?;
    Ok(out)
}

/// Returns the rows of an answer, or the reason why there are none.
pub(super) fn rows(answer: &[u8]) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    let mut at = 0;
    while let Ok(Some(message)) = frame(answer.get(at..).unwrap_or_default(), Side::Backend) {
        at += message.raw.len();
        match message.header.tag {
            backend::tag::DATA_ROW => {
                rows.push(row(message.body).ok_or("malformed row in the answer")?);
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

fn row(body: &[u8]) -> Option<Row> {
    let row = DataRow::parse(body).ok()?;
    Some(row.map(|value| value.map(<[u8]>::to_vec)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_with_their_nulls_and_errors_are_told() {
        let mut answer = Vec::new();
        encode::parse_complete(&mut answer).unwrap();
        encode::data_row(&mut answer, &[Some(b"ann"), None]).unwrap();
        encode::data_row(&mut answer, &[Some(b""), Some(b"x")]).unwrap();
        let expected = vec![
            vec![Some(b"ann".to_vec()), None],
            vec![Some(Vec::new()), Some(b"x".to_vec())],
        ];
        assert_eq!(rows(&answer), Ok(expected));
        encode::error_response(&mut answer, &[(b'M', b"no such function")]).unwrap();
        assert_eq!(rows(&answer), Err("no such function".to_owned()));
    }

    #[test]
    fn a_row_that_does_not_add_up_is_refused() {
        for body in [
            &b""[..],
            b"\0\x01",
            b"\0\x01\0\0\0\x05ab",
            b"\0\0x",
            b"\xff\xff",
        ] {
            assert_eq!(row(body), None, "{body:?}");
        }
    }
}
