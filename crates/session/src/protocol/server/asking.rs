//! Questions of ours to a server about its session state and its database.

use std::sync::Arc;

use weir_sql::{Definition, Reasons};
use weir_wire::backend::TransactionStatus;
use weir_wire::encode;

use super::{Sent, Server};
use crate::client::Client;
use crate::custom::CustomNames;
use crate::expected::{Duty, Expected, Kind};
use crate::rarities::ServerRarity;
use crate::settings::Settings;
use crate::state::{Answer, Question};

impl Server {
    /// Sends a question about the database to a free server. All session settings are reset first. An error in answer
    /// to the question itself is ignored.
    ///
    /// # Errors
    /// Fails if `sql` contains a NUL or is longer than PostgreSQL accepts.
    pub fn ask_apart(&mut self, sql: &str, out: &mut Vec<u8>) -> Result<(), encode::EncodeError> {
        let reset = self.settings.statements_to(&Settings::default());
        if !reset.is_empty() {
            self.ask(&reset, out)?;
            self.settings = Arc::default();
        }
        self.ask_for(sql, Duty::Try, out)
    }

    /// True if the client is about to define code that may change sessions.
    #[inline]
    pub fn has_definitions(&self) -> bool {
        !self.defines.is_empty()
    }

    /// Takes that code. It counts even before the server receives it.
    pub fn take_definitions(&mut self) -> Vec<Definition> {
        std::mem::take(&mut self.defines)
    }

    /// Returns the server's major version; 0 if it is unknown.
    pub fn version(&self) -> u32 {
        let version = self.reported.get("server_version").unwrap_or_default();
        let end = version.find(|letter: char| !letter.is_ascii_digit());
        let major = version.get(..end.unwrap_or(version.len()));
        major.and_then(|major| major.parse().ok()).unwrap_or(0)
    }

    /// Asks a free server which state its client has left, if any is possible, before the server goes to another
    /// client. Returns true if the answer must come first. `names` are the custom settings that were seen in the
    /// database.
    pub fn ask_state(&mut self, names: &CustomNames, out: &mut Vec<u8>) -> bool {
        if self.question.is_nothing() {
            return false;
        }
        if let Some(sql) = self.lent.take() {
            // Cannot fail: quoted names contain no NUL.
            let _ = self.ask_for(&sql, Duty::Try, out);
        }
        let mut question = std::mem::take(&mut self.question);
        if self.has_own_names {
            question.add_statements();
        }
        question.settle(names, &self.settings);
        // Names in the question come from a message of the client and are far shorter than one.
        if self
            .ask_for(&question.sql(&self.settings), Duty::Learn, out)
            .is_err()
        {
            return false;
        }
        self.asked
            .push_back(Box::new((question, Answer::default())));
        true
    }

    /// Asks an unanswered question again after a transaction of the client.
    pub(crate) fn ask_again(&mut self) {
        self.rarities.remove(ServerRarity::Unanswered);
        if let Some(question) = self.unanswered.take() {
            self.question.join(*question);
        }
    }

    /// True if nothing that the client has sent belongs to a transaction that continues: the next request begins one.
    pub(crate) fn is_outside(&self) -> bool {
        let runs = |entry: &Expected| {
            entry.duty == Duty::Forward
                && matches!(
                    entry.kind,
                    Kind::Execute | Kind::FunctionCall | Kind::Query | Kind::CopyEnd
                )
        };
        self.status == TransactionStatus::Idle && !self.queue.iter().any(runs)
    }

    /// Asks for everything the next time, whatever the client has done (`session_state_check`).
    pub fn suspect(&mut self) {
        self.question = Question::check();
    }

    /// True if a question that no statement gave a reason for found a change.
    #[inline]
    pub fn has_found(&self) -> bool {
        self.rarities.has(ServerRarity::Found)
    }

    /// Takes the result of [`Server::has_found`].
    pub fn take_found(&mut self) -> bool {
        self.rarities.take(ServerRarity::Found)
    }

    /// Returns the reasons to pin that a client with `held` may have by its next request, as far as a question can
    /// tell.
    pub(crate) fn may_hold(&self, held: Reasons) -> Reasons {
        let asked = self.asked.iter().map(|asked| asked.0.reasons());
        let unanswered = (self.unanswered.iter()).map(|question| question.reasons());
        let asked = asked.chain(unanswered);
        asked.fold(held.union(self.question.reasons()), Reasons::union)
    }

    /// True if the session may have state that no question has covered yet.
    #[inline]
    pub fn is_uncertain(&self) -> bool {
        !self.question.is_nothing() || !self.asked.is_empty()
    }

    /// True if the session has no state that Weir does not know, as far as anything can tell. A client may then go on
    /// without this server.
    pub fn is_settled(&self) -> bool {
        !self.is_uncertain() && self.unanswered.is_none() && self.rarities.is_empty()
    }

    /// True if the server has got nothing of the client's next request, which waits for requests of ours outside of a
    /// transaction. The request may run on another server then, and nothing is lost.
    pub fn has_yet_to_begin(&self, client: &Client) -> bool {
        let waits = match &self.comparison {
            Some(comparison) => comparison.is_first,
            None => self.queue.awaits_required() && self.sent != Sent::OpenBatch,
        };
        waits
            && self.status == TransactionStatus::Idle
            && self.queue.is_ours()
            && !self.has_to_repeat()
            && self.is_settled()
            && client.may_lose_server()
    }

    /// True if the server does nothing but answer questions about its session.
    pub fn is_asked_only(&self) -> bool {
        !self.asked.is_empty() && self.queue.is_ours() && self.sent != Sent::OpenBatch
    }

    /// True if the settings may differ from [`Server::settings`] until the server has answered.
    pub fn is_settings_unsure(&self) -> bool {
        self.plans_locally
            || self.question.is_about_settings()
            || self.unanswered.is_some()
            || (self.asked.iter()).any(|asked| asked.0.is_about_settings())
    }

    /// True if the server can be told to report its statistics (since PostgreSQL 15).
    pub(crate) fn can_report(&self) -> bool {
        self.version() >= 15
    }
}
