//! Net below a replica: a batch that a hot standby refuses runs on the primary instead. Below a primary, it is for a batch
//! that is lost with its server and has done nothing: it runs on the next primary.
//!
//! A text that seems to read may still need the primary: a STABLE function that writes, an unlogged table, an object
//! that the standby has not replayed yet. PostgreSQL refuses it there without an effect. If the batch only reads, and
//! none of its reply has gone to the client, the client need not see that: the caller sends the batch to the primary.

use std::sync::Arc;

use weir_wire::backend;
use weir_wire::frame::{Side, header};
use weir_wire::frontend::{Close, Kind, Parse, tag};
use weir_wire::sqlstate::SqlState;

use super::failure;
use super::lost_block::Before;
use super::reply::{Replied, Work};
use crate::client::Client;
use crate::expected::{Duty, Expected, Undo};
use crate::rarities::ServerRarity;
use crate::server::{Future, HostFacts, Server};
use crate::settings::Reported;

/// State of the net below the batch in progress.
///
/// ```text
/// Off ──arm_net──► Armed ──refused──► Refused ──ReadyForQuery──► Off
///  ▲                 │
///  └──a reply goes───┘
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Net {
    /// None of the batch's reply has gone to the client.
    Armed,
    /// An error goes to the client.
    #[default]
    Off,
    /// The standby has refused the batch: the rest of its reply is dropped. `by_text` is true if it will refuse the text
    /// again.
    Refused { by_text: bool },
}

/// Errors by which a hot standby refuses what a text does, and which the primary does not give. The manual names them in
/// 27.4 ("Hot Standby").
const REFUSALS_BY_TEXT: [SqlState; 4] = [
    SqlState::READ_ONLY_SQL_TRANSACTION,
    SqlState::FEATURE_NOT_SUPPORTED,
    SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
    SqlState::INTERNAL_ERROR,
];

/// Length of a message's length, in bytes.
const LENGTH_LEN: usize = 4;

/// Last words of a server whose host shuts down, on a primary too.
const SHUTDOWNS: [SqlState; 2] = [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN];

/// Errors of a moment: recovery conflicts, and objects that the standby may not have replayed yet.
const REFUSALS_OF_A_MOMENT: [SqlState; 7] = [
    SqlState::T_R_SERIALIZATION_FAILURE,
    SqlState::T_R_DEADLOCK_DETECTED,
    SqlState::UNDEFINED_TABLE,
    SqlState::UNDEFINED_COLUMN,
    SqlState::UNDEFINED_FUNCTION,
    SqlState::UNDEFINED_OBJECT,
    SqlState::INVALID_SCHEMA_NAME,
];

/// Warning of a shutdown that came over the net.
#[derive(Debug)]
pub(crate) struct Warning {
    body: Box<[u8]>,
    /// True if the beginning of a reply came before it, in the same turn.
    is_in_reply: bool,
}

impl Server {
    /// Arms the net below the batch that is sent next. The batch only reads, and the caller keeps its bytes.
    pub fn arm_net(&mut self) {
        self.net = Net::Armed;
    }

    /// Sends the next batch without a net: its errors go to the client.
    pub fn disarm_net(&mut self) {
        self.net = Net::Off;
        self.warning = None;
        self.hidden_reply.clear();
    }

    /// True if the server has said that its session ends, or warned of that.
    pub fn is_ending(&self) -> bool {
        self.is_dying() || self.warning.is_some()
    }

    /// True if the server has said over the net that an administrator ended its session, or shuts PostgreSQL down.
    pub fn is_ended_on_purpose(&self) -> bool {
        let warning = self.warning.iter().map(|warning| &warning.body);
        let mut said = self.hidden_words.iter().chain(warning);
        said.any(|body| has_code(body, &[SqlState::ADMIN_SHUTDOWN]))
    }

    /// Hides changes of the values that belong to the host. Clients of this server may use another host next. On a
    /// standby, leases have no mark: a NOTIFY fails there. A server that says that it is no standby is none any more.
    pub fn hide_host_facts(&mut self, is_standby: bool) {
        self.host_facts = match (self.host_facts, is_standby) {
            (HostFacts::HiddenOnPrimary, _) => HostFacts::HiddenOnPrimary,
            (_, true) => HostFacts::HiddenOnStandby,
            (_, false) => HostFacts::Hidden,
        };
    }

    /// Records the server's value of `in_hot_standby`, which PostgreSQL 14 and later report: at login, and before the
    /// first ReadyForQuery behind a promotion.
    pub fn note_standby(&mut self, value: &str) {
        if value == "off" {
            self.host_facts = HostFacts::HiddenOnPrimary;
        }
    }

    /// True if the server has said that it is no standby.
    pub fn is_on_primary(&self) -> bool {
        self.host_facts == HostFacts::HiddenOnPrimary
    }

    /// Takes the body of a primary's last message, if the net has hidden it. Whoever does not run the batch again passes it
    /// on.
    pub fn take_hidden_words(&mut self) -> Option<Box<[u8]>> {
        self.hidden_words.take()
    }

    /// Takes the reply to the batch over the net, up to the server's last message, if the net has hidden both. Whoever does
    /// not run the batch again passes it on: it may tell of what was committed.
    pub fn take_hidden_reply(&mut self) -> Option<Vec<u8>> {
        let is_end = self.hidden_words.is_some();
        is_end.then(|| self.take_reply()).flatten()
    }

    /// Takes the beginning of the reply to the batch over the net, up to a warning of a shutdown and with it, if the net has
    /// hidden both. Whoever does not run the batch again passes it on, and says then that the server is lost.
    pub fn take_begun_reply(&mut self) -> Option<Vec<u8>> {
        let is_begun = self.hidden_words.is_none();
        is_begun.then(|| self.take_reply()).flatten()
    }

    fn take_reply(&mut self) -> Option<Vec<u8>> {
        let reply = std::mem::take(&mut self.hidden_reply);
        (!reply.is_empty()).then_some(reply)
    }

    /// True if each Parse of a batch, which is lost with this server, gave the client a name that was free, so that
    /// PostgreSQL accepts it again elsewhere.
    pub fn may_prepare_again(&self, client: &Client, batch: &[u8]) -> bool {
        let in_flight = |name: &[u8]| {
            let given = |entry: &Expected| match entry.undo.as_deref() {
                Some(Undo::Named(given, ..)) => **given == *name,
                _ => false,
            };
            self.queue.iter().any(given)
        };
        let mut closed = Vec::new();
        let mut rest = batch;
        while let Ok(Some(header)) = header(rest, Side::Frontend) {
            let body = rest.get(weir_wire::frame::HEADER_LEN..header.total_len());
            match (header.tag, body) {
                (tag::CLOSE, Some(body)) => match Close::parse(body) {
                    Ok(close) if close.kind == Kind::Statement => closed.push(close.name),
                    Ok(_) => {}
                    Err(_) => return false,
                },
                (tag::PARSE, Some(body)) => {
                    let Ok(parse) = Parse::parse(body) else {
                        return false;
                    };
                    // A Parse that is undone by now has left its name free.
                    let was_free = parse.name.is_empty()
                        || closed.contains(&parse.name)
                        || client.statement(parse.name).is_none()
                        || in_flight(parse.name);
                    if !was_free {
                        return false;
                    }
                }
                _ => {}
            }
            rest = rest.get(header.total_len()..).unwrap_or_default();
        }
        true
    }

    /// True if none of the reply to the batch over an armed net has gone to the client.
    pub fn is_over_net(&self) -> bool {
        self.net != Net::Off
    }
}

impl Client {
    /// Lets the client's next lease begin with a transaction block: READ COMMITTED, and otherwise as the defaults say. The
    /// client has begun it on another server, where only reads have run.
    pub fn reopen_block(&mut self) {
        self.reopens = true;
    }

    /// Undoes what a batch has done to the client's statements, so that the same batch can run on another server. Nothing
    /// else of the client's is in flight.
    pub fn undo_batch(&mut self, batch: &[u8]) {
        if self.has_unnamed_on_its_way() {
            self.unnamed().skip_all();
        }
        let mut rest = batch;
        while let Ok(Some(header)) = header(rest, Side::Frontend) {
            let body = rest.get(weir_wire::frame::HEADER_LEN..header.total_len());
            if header.tag == tag::PARSE
                && let Some(Ok(parse)) = body.map(Parse::parse)
                && !parse.name.is_empty()
            {
                self.forget(parse.name);
            }
            rest = rest.get(header.total_len()..).unwrap_or_default();
        }
    }
}

impl Work<'_, '_> {
    /// Returns the values to return to if the standby refuses the batch in these replies.
    #[inline]
    pub(super) fn told_before(&self) -> Option<Arc<Reported>> {
        (self.server.net != Net::Off).then(|| Arc::clone(&self.client.reported))
    }

    /// Hides a server's last message from a client that is between two transactions and does not know the server, or whose
    /// next request the server has not got yet.
    #[inline]
    fn hides_last_word(&mut self, body: &[u8]) -> bool {
        let server = &mut *self.server;
        let is_needless = server.is_between(self.client) || server.has_yet_to_begin(self.client);
        if !is_needless || !failure::is_fatal(body) {
            return false;
        }
        server.future = Future::Dying;
        server.hidden_words = Some(body.into());
        self.replied.ends_unheard = true;
        true
    }

    /// Hides a server's last message from a client that outlives the server in its transaction.
    #[inline]
    fn hides_end_of_block(&mut self, body: &[u8]) -> bool {
        let server = &mut *self.server;
        if matches!(server.before, Before::Unneeded) || !failure::is_fatal(body) {
            return false;
        }
        // It says that the transaction is rolled back.
        let is_undone = has_code(body, &SHUTDOWNS) || !server.is_outcome_unknown();
        let is_hidden = is_undone && server.is_outlived(self.client);
        if is_hidden {
            server.future = Future::Dying;
            server.hidden_words = Some(body.into());
            self.replied.ends_unheard = true;
        }
        is_hidden
    }

    /// Looks at an error over an armed net, and at a server's last word. True if the client must not get it.
    pub(super) fn look_for_refusal(&mut self, body: &[u8]) -> bool {
        if self.hides_last_word(body) || self.hides_end_of_block(body) {
            return true;
        }
        let is_ours = matches!(
            self.duty(),
            Some((_, Duty::Fence | Duty::Guard | Duty::Learn)) | None
        );
        if is_ours {
            return false;
        }
        if self.server.host_facts != HostFacts::HiddenOnStandby {
            let is_shutdown = failure::is_fatal(body) && has_code(body, &SHUTDOWNS);
            if self.server.net == Net::Armed && is_shutdown {
                self.server.hidden_words = Some(body.into());
                self.server.net = Net::Refused { by_text: false };
            }
        } else if self.server.net == Net::Armed && is_refusal(body) {
            let by_text = has_code(body, &REFUSALS_BY_TEXT) && !failure::is_fatal(body);
            self.server.net = Net::Refused { by_text };
        } else {
            self.replied.was_refused_late |= writes(body);
        }
        false
    }

    /// Keeps a warning of a shutdown from the client over an armed net: PostgreSQL ends a session with it, and closes the
    /// connection. If a reply follows nevertheless, the client gets both.
    #[inline]
    pub(super) fn keeps_warning(&mut self, body: &[u8]) -> bool {
        let is_first = self.server.net == Net::Armed && self.server.warning.is_none();
        if !is_first || !has_code(body, &SHUTDOWNS) {
            return false;
        }
        let is_in_reply = !self.to_client.is_empty();
        if is_in_reply && !self.server.owes_client() {
            // The reply is complete, and the client waits for it.
            return false;
        }
        self.server.warning = Some(Warning {
            body: body.into(),
            is_in_reply,
        });
        !is_in_reply
    }

    /// Drops the reply to a refused batch, or ends the net because a reply goes to the client.
    #[cold]
    pub(super) fn settle_net(&mut self, told: Arc<Reported>) {
        match self.server.net {
            Net::Armed if !self.to_client.is_empty() => match self.server.warning.take() {
                None => self.server.net = Net::Off,
                Some(warning) => self.settle_warning(warning, &told),
            },
            Net::Armed | Net::Off => {}
            Net::Refused { by_text } => {
                match self.server.hidden_words.is_some() {
                    true => {
                        let mut said = self.to_client.take();
                        self.server.hidden_reply.append(&mut said);
                    }
                    false => {
                        self.to_client.discard();
                        self.server.hidden_reply.clear();
                        self.server.warning = None;
                    }
                }
                self.client.reported = told;
                self.server.errors.clear();
                self.replied = Replied::default();
                // A block that the batch was part of has failed on the standby, and is still open there. So is the
                // transaction of a guard, if its Sync was answered.
                let broken = self.server.broken_fence.take();
                if broken.flatten().is_some() || !self.server.is_quiet_and_synced() {
                    self.server.broken_fence = broken;
                } else {
                    self.server.rarities.remove(ServerRarity::BrokenFence);
                    self.server.fence = None;
                    self.server.net = Net::Off;
                    self.replied.is_refused = true;
                    self.replied.is_refused_by_text = by_text;
                }
            }
        }
    }

    /// Keeps the beginning of a reply from the client that ends with a warning of a shutdown, or ends the net because more
    /// of the reply follows.
    fn settle_warning(&mut self, warning: Warning, told: &Arc<Reported>) {
        let rest = self.to_client.take();
        let is_begun = warning.is_in_reply && self.server.owes_client();
        let is_new = is_begun && self.server.hidden_reply.is_empty();
        // The value that a reply reports is not reported again.
        if is_new && rest.ends_with(&warning.body) && Arc::ptr_eq(told, &self.client.reported) {
            self.server.hidden_reply = rest;
            self.server.warning = Some(warning);
            return;
        }
        self.server.net = Net::Off;
        let begun = std::mem::take(&mut self.server.hidden_reply);
        let out = self.to_client.insert();
        out.extend_from_slice(&begun);
        if !warning.is_in_reply {
            let len = u32::try_from(warning.body.len() + LENGTH_LEN).unwrap_or(u32::MAX);
            out.push(backend::tag::NOTICE_RESPONSE);
            out.extend_from_slice(&len.to_be_bytes());
            out.extend_from_slice(&warning.body);
        }
        out.extend_from_slice(&rest);
    }
}

/// True for the error of a statement that writes on a standby.
fn writes(body: &[u8]) -> bool {
    let fields = backend::ErrorFields::parse(body).ok();
    let code = fields.and_then(|fields| fields.sqlstate());
    code == Some(SqlState::READ_ONLY_SQL_TRANSACTION)
}

/// True for an error with one of these codes.
fn has_code(body: &[u8], codes: &[SqlState]) -> bool {
    let fields = backend::ErrorFields::parse(body).ok();
    let code = fields.and_then(|fields| fields.sqlstate());
    code.is_some_and(|code| codes.contains(&code))
}

/// True for an error behind which another host may answer the batch.
fn is_refusal(body: &[u8]) -> bool {
    let is_one = has_code(body, &REFUSALS_BY_TEXT) || has_code(body, &REFUSALS_OF_A_MOMENT);
    // An outdated plan is repeated on the same server. A FATAL is followed by the end of the connection.
    is_one && !failure::is_outdated(body) || failure::is_fatal(body)
}

#[cfg(test)]
mod tests {
    use weir_sql::{Functions, Judge};
    use weir_testkit::say::{Say, say};
    use weir_wire::backend::TransactionStatus;
    use weir_wire::encode;

    use super::super::{Link, Rules, SequencePolicy, StatePolicy, replies, requests};
    use super::*;
    use crate::splice::Splice;
    use crate::statement::Registry;

    const RULES: Rules = Rules {
        max_prepared: 10,
        tracks_unnamed: true,
        prepare_unnamed: 0,
        refuse_simple_query: false,
        message_max: u32::MAX,
        state: StatePolicy::Track,
        sequences: SequencePolicy::Learn,
    };

    /// A client and a replica that got this batch over a net.
    fn sent(batch: &Say) -> (Client, Server) {
        let (mut client, mut server) = (Client::default(), Server::new(Arc::default()));
        server.hide_host_facts(true);
        server.arm_net();
        let mut registry = Registry::new(0, 1);
        let mut link = Link {
            client: &mut client,
            server: &mut server,
            registry: &mut registry,
            judge: &mut Judge::new(Functions::default()),
            proven: &Arc::default(),
            rules: RULES,
            digests: None,
            ruling: None,
        };
        let (mut buffer, mut answers) = (Vec::new(), Vec::new());
        let mut out = Splice::new(batch, &mut buffer);
        let taken = requests(&mut link, batch, &mut out, &mut answers).unwrap();
        assert_eq!(taken.consumed, batch.len());
        (client, server)
    }

    fn error(severity: &str, code: &str, text: &str) -> Vec<u8> {
        let fields = [
            (b'S', severity.as_bytes()),
            (b'V', severity.as_bytes()),
            (b'C', code.as_bytes()),
            (b'M', text.as_bytes()),
        ];
        let mut message = Vec::new();
        encode::error_response(&mut message, &fields).unwrap();
        message
    }

    fn ready() -> Vec<u8> {
        let mut message = Vec::new();
        encode::ready_for_query(&mut message, TransactionStatus::Idle).unwrap();
        message
    }

    /// Passes replies on. Returns what the client gets, and the result.
    fn hear(client: &mut Client, server: &mut Server, bytes: &[u8]) -> (Vec<u8>, Replied) {
        let mut buffer = Vec::new();
        let mut out = Splice::new(bytes, &mut buffer);
        let replied = replies(client, server, bytes, &mut out).unwrap();
        (out.finish().to_vec(), replied)
    }

    #[test]
    fn a_refused_query_is_hidden_from_its_client() {
        for code in [
            "25006", "0A000", "55000", "XX000", "40001", "40P01", "42P01",
        ] {
            let (mut client, mut server) = sent(&say().query("select f()"));
            let refusal = error("ERROR", code, "no");
            let (heard, replied) = hear(&mut client, &mut server, &refusal);
            assert_eq!((heard.len(), replied.is_refused), (0, false), "{code}");
            let (heard, replied) = hear(&mut client, &mut server, &ready());
            assert_eq!((heard.len(), replied.is_refused), (0, true), "{code}");
            assert_eq!((replied.errors, replied.transactions), (0, 0), "{code}");
            let is_of_a_moment = ["40001", "40P01", "42P01"].contains(&code);
            assert_eq!(replied.is_refused_by_text, !is_of_a_moment, "{code}");
            assert!(server.is_free() && !server.is_over_net());
        }
    }

    #[test]
    fn names_that_a_refused_batch_has_prepared_are_free_again() {
        let batch = say().parse("s", "select f()").run("s").sync();
        let (mut client, mut server) = sent(&batch);
        // A Describe of ours follows the client's Parse.
        let prepared = b"1\0\0\0\x04t\0\0\0\x06\0\0n\0\0\0\x042\0\0\0\x04".to_vec();
        let told = [prepared, error("ERROR", "25006", "no"), ready()].concat();
        let (heard, replied) = hear(&mut client, &mut server, &told);
        assert_eq!((heard.len(), replied.is_refused), (0, true));
        assert_eq!(client.statement_count(), 1);
        client.undo_batch(&batch);
        assert_eq!(client.statement_count(), 0);
    }

    #[test]
    fn an_unnamed_statement_of_a_lost_batch_is_none() {
        let batch = say().parse("", "select f()").run("").sync();
        let (mut client, _) = sent(&batch);
        assert!(client.has_unnamed_on_its_way());
        client.undo_batch(&batch);
        assert!(!client.has_unnamed_on_its_way() && client.has_no_unnamed());
    }

    #[test]
    fn an_error_that_the_primary_would_repeat_goes_to_the_client() {
        let (mut client, mut server) = sent(&say().query("select 1/0"));
        let told = [error("ERROR", "22012", "division by zero"), ready()].concat();
        let (heard, replied) = hear(&mut client, &mut server, &told);
        assert_eq!((heard, replied.is_refused), (told, false));
        assert!(!server.is_over_net());
    }

    #[test]
    fn nothing_is_hidden_once_a_row_has_gone_to_the_client() {
        let (mut client, mut server) = sent(&say().query("select f()"));
        let row = b"D\0\0\0\x06\0\0".to_vec();
        assert_eq!(hear(&mut client, &mut server, &row).0, row);
        let told = [error("ERROR", "25006", "no"), ready()].concat();
        let (heard, replied) = hear(&mut client, &mut server, &told);
        assert_eq!((heard, replied.is_refused), (told, false));
    }

    #[test]
    fn a_write_that_shows_late_is_reported_to_the_caller() {
        let (mut client, mut server) = sent(&say().query("select f()"));
        hear(&mut client, &mut server, b"D\0\0\0\x06\0\0");
        let told = [error("ERROR", "25006", "no"), ready()].concat();
        assert!(hear(&mut client, &mut server, &told).1.was_refused_late);
    }

    #[test]
    fn the_last_word_of_a_server_over_the_net_is_hidden_and_the_batch_stays_over_it() {
        let (mut client, mut server) = sent(&say().query("select 1"));
        let word = error("FATAL", "57P01", "terminating connection");
        assert_eq!(hear(&mut client, &mut server, &word).0, b"");
        assert!(server.is_dying() && server.is_over_net());
    }

    #[test]
    fn only_a_shutdown_is_hidden_on_a_primary() {
        for (severity, code, is_hidden) in [
            ("FATAL", "57P01", true),
            ("FATAL", "57P02", true),
            ("FATAL", "57P05", false),
            ("ERROR", "25006", false),
            ("ERROR", "40001", false),
        ] {
            let (mut client, mut server) = sent(&say().query("select 1"));
            server.hide_host_facts(false);
            let word = error(severity, code, "terminating connection");
            let heard = hear(&mut client, &mut server, &word).0;
            assert_eq!(heard.is_empty(), is_hidden, "{code}");
            assert_eq!(server.is_over_net(), is_hidden, "{code}");
            assert_eq!(server.take_hidden_words().is_some(), is_hidden, "{code}");
        }
    }

    #[test]
    fn a_warning_of_a_shutdown_waits_for_what_comes_next() {
        let (mut client, mut server) = sent(&say().query("select 1"));
        server.hide_host_facts(false);
        let mut warning = error("WARNING", "57P02", "terminating connection");
        warning[0] = backend::tag::NOTICE_RESPONSE;
        assert_eq!(hear(&mut client, &mut server, &warning).0, b"");
        assert!(server.is_over_net() && server.is_ending() && !server.is_dying());
        // It was a statement's own.
        let row = b"D\0\0\0\x06\0\0".to_vec();
        let heard = hear(&mut client, &mut server, &row).0;
        assert_eq!(heard, [warning, row].concat());
        assert!(!server.is_over_net() && !server.is_ending());
    }

    #[test]
    fn a_reply_that_breaks_off_with_a_warning_of_a_shutdown_waits_too() {
        let (mut client, mut server) = sent(&say().query("select 1"));
        server.hide_host_facts(false);
        let mut warning = error("WARNING", "57P02", "terminating connection");
        warning[0] = backend::tag::NOTICE_RESPONSE;
        let row = b"D\0\0\0\x06\0\0".to_vec();
        let begun = [row.clone(), warning].concat();
        assert_eq!(hear(&mut client, &mut server, &begun).0, b"");
        assert!(server.is_over_net() && server.is_ending() && !server.is_dying());
        // It was a statement's own.
        let heard = hear(&mut client, &mut server, &row).0;
        assert_eq!(heard, [begun, row].concat());
        assert!(!server.is_over_net() && !server.is_ending());
        assert_eq!(server.take_begun_reply(), None);
    }

    #[test]
    fn warnings_of_a_statement_keep_their_number_and_place() {
        let (mut client, mut server) = sent(&say().query("select 1"));
        server.hide_host_facts(false);
        let mut warning = error("WARNING", "57P02", "in its own words");
        warning[0] = backend::tag::NOTICE_RESPONSE;
        let row = b"D\0\0\0\x06\0\0".to_vec();
        let mut heard = Vec::new();
        for said in [&warning, &warning, &row, &warning] {
            heard.append(&mut hear(&mut client, &mut server, said).0);
        }
        assert_eq!(heard, [&*warning, &*warning, &*row, &*warning].concat());
    }

    #[test]
    fn the_net_ends_with_the_client_that_had_it() {
        let (client, mut server) = sent(&say().query("select 1"));
        assert!(server.is_over_net());
        let _ = server.abandon(&client, &mut Vec::new());
        assert!(!server.is_over_net());
    }

    #[test]
    fn values_reported_with_a_refused_batch_are_told_later() {
        let (mut client, mut server) = sent(&say().query("select f()"));
        let mut told = Vec::new();
        encode::parameter_status(&mut told, b"TimeZone", b"UTC").unwrap();
        let told = [told, error("ERROR", "25006", "no"), ready()].concat();
        assert_eq!(hear(&mut client, &mut server, &told).0, b"");
        assert_eq!(client.reported().get("TimeZone"), None);
    }

    #[test]
    fn a_refused_batch_of_a_block_is_hidden_while_its_block_is_open() {
        let (mut client, mut server) = sent(&say().query("select f()"));
        let mut told = error("ERROR", "25006", "no");
        encode::ready_for_query(&mut told, TransactionStatus::Failed).unwrap();
        let (heard, replied) = hear(&mut client, &mut server, &told);
        assert_eq!((heard.len(), replied.is_refused), (0, true));
        assert!(!server.is_free(), "its block is to be ended");
    }
}
