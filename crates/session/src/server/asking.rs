//! Questions of our own to a server: what the session on it holds, and what its database has.

use std::sync::Arc;

use weir_sql::{Definition, Reasons};
use weir_wire::backend::TransactionStatus;
use weir_wire::encode;

use super::Server;
use crate::custom::CustomNames;
use crate::expected::{Duty, Expected, Kind};
use crate::settings::Settings;
use crate::state::{Answer, Question};

impl Server {
    /// Queues a question of our own about the database to a free server, and writes it. All settings of the session are
    /// given back first; an error in answer to the question itself is of no consequence.
    ///
    /// # Errors
    /// If `sql` holds a NUL or is longer than PostgreSQL takes.
    pub fn ask_apart(&mut self, sql: &str, out: &mut Vec<u8>) -> Result<(), encode::EncodeError> {
        let reset = self.settings.statements_to(&Settings::default());
        if !reset.is_empty() {
            self.ask(&reset, out)?;
            self.settings = Arc::default();
        }
        self.ask_for(sql, Duty::Try, out)
    }

    /// True if the client is about to define code by which sessions may be changed.
    #[inline]
    pub fn has_definitions(&self) -> bool {
        !self.defines.is_empty()
    }

    /// That code, once. It counts from before the server hears of it.
    pub fn take_definitions(&mut self) -> Vec<Definition> {
        std::mem::take(&mut self.defines)
    }

    /// The server's major version; 0 if it does not say.
    pub fn version(&self) -> u32 {
        let version = self.reported.get("server_version").unwrap_or_default();
        let end = version.find(|letter: char| !letter.is_ascii_digit());
        let major = version.get(..end.unwrap_or(version.len()));
        major.and_then(|major| major.parse().ok()).unwrap_or(0)
    }

    /// Before a free server goes to anybody else: asks what its client has left there, if it may have left anything.
    /// True if the answer has to come first. `names` are those of custom settings that were seen in the database.
    pub fn ask_state(&mut self, names: &CustomNames, out: &mut Vec<u8>) -> bool {
        if self.question.is_nothing() {
            return false;
        }
        if let Some(sql) = self.lent.take() {
            // Quoted names hold no NUL.
            let _ = self.ask_for(&sql, Duty::Try, out);
        }
        let mut question = std::mem::take(&mut self.question);
        if self.has_own_names {
            question.add_statements();
        }
        question.settle(names, &self.settings);
        // Names in it come from a message of the client, and are far shorter than one.
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

    /// A transaction of the client is over: what was not answered before it is asked again.
    #[inline]
    pub(crate) fn ask_again(&mut self) {
        if let Some(question) = self.unanswered.take() {
            self.question.join(*question);
        }
    }

    /// True if nothing that the client has sent is in a transaction that goes on: what comes next begins one.
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

    /// Asks for everything the next time, whatever its client did (`session_state_check`).
    pub fn suspect(&mut self) {
        self.question = Question::check();
    }

    /// True if a question without a reason found a change.
    #[inline]
    pub fn has_found(&self) -> bool {
        self.found
    }

    /// As [`Server::has_found`], once.
    pub fn take_found(&mut self) -> bool {
        std::mem::take(&mut self.found)
    }

    /// Reasons to pin that a client with `held` may have by its next request, as far as the server can be asked.
    pub(crate) fn may_hold(&self, held: Reasons) -> Reasons {
        let asked = self.asked.iter().map(|asked| asked.0.reasons());
        let unanswered = (self.unanswered.iter()).map(|question| question.reasons());
        let asked = asked.chain(unanswered);
        asked.fold(held.union(self.question.reasons()), Reasons::union)
    }

    /// Whether it may hold state that nobody has asked about.
    #[inline]
    pub fn is_uncertain(&self) -> bool {
        !self.question.is_nothing() || !self.asked.is_empty()
    }

    /// Whether it does nothing but answer what it was asked about its session.
    pub fn is_asked_only(&self) -> bool {
        !self.asked.is_empty() && self.queue.is_ours() && !self.needs_sync
    }

    /// Whether its settings may be others than [`Server::settings`] until it has been asked.
    pub fn is_settings_unsure(&self) -> bool {
        self.plans_locally
            || self.question.is_about_settings()
            || self.unanswered.is_some()
            || (self.asked.iter()).any(|asked| asked.0.is_about_settings())
    }

    /// Whether it can be told to report what it has counted: since PostgreSQL 15.
    pub(crate) fn can_report(&self) -> bool {
        self.version() >= 15
    }
}
