//! Session state that outlives a transaction, and the questions to the server that find it.
//!
//! A statement that may change the state (see `weir_sql`) adds to a [`Question`]. The server is asked after the
//! transaction, before it goes to another client. Its [`Answer`] is authoritative, whatever a ROLLBACK undid or a
//! function did. Settings are recorded for the client and follow it; state that cannot move pins it.

use std::collections::HashSet;
use std::fmt::Write;
use std::sync::Arc;

use weir_sql::{Effects, Reason, Reasons};
use weir_wire::backend::DataRow;

use crate::custom::{CustomNames, Known, is_custom};
use crate::settings::{Settings, push_literal};

/// Maximum number of names in one question; with more, the question asks for all settings.
const NAMES_MAX: usize = 16;

/// Maximum number of names kept for one question; with more, the client keeps its server.
const NAMES_KEPT_MAX: usize = 512;

/// Settings of a transaction, although `pg_settings` shows their source as `session`.
const OF_TRANSACTIONS: [&str; 3] = [
    "transaction_deferrable",
    "transaction_isolation",
    "transaction_read_only",
];

/// Settings that `pg_settings` hides from most roles. After a change of role they may be invisible although the session
/// has them.
const HIDDEN: [&str; 2] = ["dynamic_library_path", "session_preload_libraries"];

/// Reasons to pin that a question can detect, each with its word in the answer.
const ASKABLE: [(Reason, &str); 5] = [
    (Reason::AdvisoryLock, "lock"),
    (Reason::Cursor, "cursor"),
    (Reason::Listen, "listen"),
    (Reason::Prepared, "prepared"),
    (Reason::TemporaryObject, "temporary"),
];

/// Query for all settings made in the session. Names are qualified, since the client's `search_path` is in force.
const ALL_SETTINGS: &str = "SELECT 's', name, setting FROM pg_catalog.pg_settings \
     WHERE source OPERATOR(pg_catalog.=) 'session'";

/// Query for statements that were prepared by the protocol.
const STATEMENTS: &str =
    "SELECT 'n', name, '' FROM pg_catalog.pg_prepared_statements WHERE NOT from_sql";

/// Custom settings to ask for, in addition to those in the question itself.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Customs {
    /// All that are known when the question is sent.
    Known,
    /// These names.
    Asked(Arc<Known>),
}

/// Question for the server after the transaction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Question {
    /// Names of settings that may have changed.
    names: Vec<Box<str>>,
    /// True if any setting that the server lists may have changed. The server does not list custom settings
    /// (`app.tenant`), which are found only by their names.
    all: bool,
    /// Set if any custom setting may have changed: all names seen in the database are asked for.
    customs: Option<Customs>,
    /// True if a setting may have changed whose name is not kept, so the client keeps its server.
    is_partial: bool,
    /// True after a lone `RESET ALL`: no custom setting is left, whatever its name.
    resets_all: bool,
    /// Reasons to pin that may have come or gone.
    reasons: Reasons,
    /// True if no statement gave a reason to ask.
    is_check: bool,
    /// True if the session must report its statistics; this is not a question.
    reports: bool,
    /// True if the question asks which statements the client has under their own names.
    statements: bool,
}

impl Question {
    /// Returns a question for everything that can be asked.
    pub fn everything() -> Self {
        Self {
            all: true,
            customs: Some(Customs::Known),
            reasons: askable(),
            ..Self::default()
        }
    }

    /// Returns a question for everything that no statement gave a reason for: any change is unexpected.
    pub fn check() -> Self {
        Self {
            is_check: true,
            ..Self::everything()
        }
    }

    /// True if no statement gave a reason to ask.
    pub fn is_check(&self) -> bool {
        self.is_check
    }

    /// True if nothing but settings may have changed, which a rollback undoes.
    pub(crate) fn ends_with_rollback(&self) -> bool {
        self.reasons.is_empty() && !self.statements
    }

    /// True if there is nothing to ask.
    #[inline]
    pub fn is_nothing(&self) -> bool {
        !self.is_about_settings() && self.reasons.is_empty() && !self.reports
    }

    /// True if settings may have changed.
    pub fn is_about_settings(&self) -> bool {
        self.all || !self.names.is_empty()
    }

    /// True if the question asks for all settings: those missing from the answer are not set.
    pub fn is_about_all_settings(&self) -> bool {
        self.all
    }

    /// Returns the reasons to pin that the question asks about.
    pub fn reasons(&self) -> Reasons {
        self.reasons
    }

    /// Adds the effects of a statement that was sent; `held` are the reasons that may keep the client on its server so
    /// far.
    pub fn add(&mut self, effects: &Effects, held: Reasons) {
        self.all |= effects.asks.all;
        (effects.asks.names.iter()).for_each(|name| self.add_name(name));
        if effects.frees {
            self.reasons = union(self.reasons, held);
            // Effects of an EXECUTE in the meantime were not asked about.
            if held.contains(Reason::Prepared) {
                self.add_unseen();
            }
        }
        if effects.unseen || effects.reasons.contains(Reason::Unknown) {
            self.reasons = askable();
            self.add_unseen();
        }
        self.resets_all &= !effects.certain.contains(Reason::Setting);
        self.reasons = union(self.reasons, effects.reasons);
    }

    /// Adds a setting that may have changed.
    pub fn add_name(&mut self, name: &str) {
        if self.names.iter().any(|known| **known == *name) {
            return;
        }
        if self.names.len() >= NAMES_KEPT_MAX {
            self.is_partial = true;
            return;
        }
        self.names.push(name.into());
        self.all |= self.names.len() > NAMES_MAX;
    }

    /// Records that unseen code was run, which may have changed any setting.
    fn add_unseen(&mut self) {
        self.all = true;
        self.customs = Some(Customs::Known);
    }

    /// Records a lone `RESET ALL` outside a transaction.
    pub(crate) fn reset_all(&mut self) {
        self.resets_all = true;
    }

    /// Records that code with unknown settings was sent behind a `RESET ALL` that is not answered.
    pub(crate) fn forget_reset_all(&mut self) {
        self.resets_all = false;
    }

    /// True if the session has no custom setting, even if some were unknown before.
    pub(crate) fn has_reset_all(&self) -> bool {
        self.resets_all
    }

    /// True if a setting may have changed that the question does not ask for.
    pub(crate) fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// Adds another question, which was not answered.
    pub(crate) fn join(&mut self, other: Self) {
        self.all |= other.all;
        other.names.iter().for_each(|name| self.add_name(name));
        if other.customs.is_some() {
            self.customs = Some(Customs::Known);
        }
        self.is_partial |= other.is_partial;
        // An error in between may have prevented the effect of the other RESET ALL.
        self.resets_all = false;
        self.reasons = union(self.reasons, other.reasons);
        self.is_check &= other.is_check;
        self.reports |= other.reports;
        self.statements |= other.statements;
    }

    /// Fixes the custom names to ask for, and adds the question's own names to the database's list.
    pub(crate) fn settle(&mut self, names: &CustomNames, known: &Settings) {
        let of_settings = known.iter().map(|(name, _)| name);
        names.add(self.names.iter().map(|name| &**name).chain(of_settings));
        if self.customs.is_some() {
            let all = names.known();
            self.is_partial |= all.is_partial;
            self.customs = Some(Customs::Asked(all));
        }
    }

    /// Records that state that pins for this reason may have come or gone.
    pub(crate) fn add_reason(&mut self, reason: Reason) {
        self.reasons.insert(reason);
    }

    /// Has the session report its statistics.
    pub(crate) fn report(&mut self) {
        self.reports = true;
    }

    /// Adds the names of statements prepared by the protocol.
    pub(crate) fn add_statements(&mut self) {
        self.statements = true;
    }

    /// True if the question asks for statements prepared by the protocol.
    pub(crate) fn is_about_statements(&self) -> bool {
        self.statements
    }

    /// Widens the question after an error: it is unknown which of the names were set, so only the session's real values
    /// count.
    pub(crate) fn widen(&mut self) {
        self.all |= !self.names.is_empty();
        self.resets_all = false;
    }

    /// Returns the question as one SQL statement. Its rows have three columns: a kind (`s`: a setting, `p`: a reason to
    /// pin, `n`: a statement, `r`: a report, which is ignored), a name, and a value. `known` are the settings before.
    pub(crate) fn sql(&self, known: &Settings) -> String {
        let mut sql = String::new();
        let mut ask = |part: &str| {
            if !sql.is_empty() {
                sql.push_str(" UNION ALL ");
            }
            sql.push_str(part);
        };
        if self.all {
            ask(ALL_SETTINGS);
            ask(&current("role"));
            ask(&current("session_authorization"));
            let before = known.iter().map(|(name, _)| name);
            let named = self.names.iter().map(|name| &**name);
            let named = named.filter(|name| known.get(name).is_none());
            let is_new = |name: &&str| known.get(name).is_none() && !self.has_name(name);
            let others = self.customs().iter().map(|name| &**name).filter(is_new);
            let all = before.chain(named).chain(others);
            all.filter(|name| is_custom(name))
                .for_each(|name| ask(&current(name)));
        } else {
            self.names.iter().for_each(|name| ask(&current(name)));
        }
        for (reason, word) in ASKABLE {
            if let Some(condition) = condition(reason).filter(|_| self.reasons.contains(reason)) {
                ask(&format!("SELECT 'p', '{word}', '' WHERE {condition}"));
            }
        }
        if self.statements {
            ask(STATEMENTS);
        }
        if self.reports {
            ask("SELECT 'r', '', pg_catalog.pg_stat_force_next_flush()::pg_catalog.text");
        }
        sql
    }
}

impl Question {
    fn has_name(&self, name: &str) -> bool {
        self.names.iter().any(|known| **known == *name)
    }

    fn customs(&self) -> &[Box<str>] {
        match &self.customs {
            Some(Customs::Asked(known)) => &known.names,
            Some(Customs::Known) | None => &[],
        }
    }
}

/// Returns all reasons that a question can detect.
fn askable() -> Reasons {
    let mut all = Reasons::default();
    ASKABLE.iter().for_each(|(reason, _)| all.insert(*reason));
    all
}

/// Returns the union of both, limited to what a question can detect.
fn union(one: Reasons, other: Reasons) -> Reasons {
    let mut both = Reasons::default();
    for (reason, _) in ASKABLE {
        if one.contains(reason) || other.contains(reason) {
            both.insert(reason);
        }
    }
    both
}

/// Returns a query for one setting, by a name that a client wrote.
fn current(name: &str) -> String {
    let mut sql = String::from("SELECT 's', ");
    push_literal(&mut sql, name);
    sql.push_str(", pg_catalog.current_setting(");
    push_literal(&mut sql, name);
    let _ = write!(sql, ", true)");
    sql
}

/// Returns the SQL condition that is true if the session has state that pins for this reason.
fn condition(reason: Reason) -> Option<&'static str> {
    Some(match reason {
        Reason::AdvisoryLock => {
            "EXISTS (SELECT 1 FROM pg_catalog.pg_locks WHERE locktype OPERATOR(pg_catalog.=) 'advisory' \
             AND pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid())"
        }
        Reason::Cursor => "EXISTS (SELECT 1 FROM pg_catalog.pg_cursors WHERE is_holdable)",
        Reason::Listen => "EXISTS (SELECT 1 FROM pg_catalog.pg_listening_channels())",
        Reason::Prepared => {
            "EXISTS (SELECT 1 FROM pg_catalog.pg_prepared_statements WHERE from_sql)"
        }
        // Every object in a schema depends on the schema. 2615 is the OID of pg_namespace, which never changes
        // (pg_namespace.h).
        Reason::TemporaryObject => {
            "EXISTS (SELECT 1 FROM pg_catalog.pg_depend WHERE refclassid OPERATOR(pg_catalog.=) '2615' \
             AND refobjid OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema())"
        }
        _ => return None,
    })
}

// === Answer ===

/// Answer of the server so far.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Answer {
    settings: Vec<(Box<str>, Option<Box<str>>)>,
    reasons: Reasons,
    /// Names of statements prepared by the protocol.
    pub(crate) statements: HashSet<Box<[u8]>>,
    /// True if the answer could not be read, or the server refused: nothing is known.
    is_bad: bool,
    /// True if the reason is an interrupt.
    is_interrupted: bool,
}

impl Answer {
    /// Reads one row. Values that are not UTF-8 (the client uses another encoding) cannot be kept.
    pub(crate) fn row(&mut self, body: &[u8]) {
        if self.take(body).is_none() {
            self.is_bad = true;
        }
    }

    fn take(&mut self, body: &[u8]) -> Option<()> {
        let row = DataRow::parse(body).ok()?;
        let mut columns = row;
        let kind = columns.next()??;
        let name = columns.next()??;
        if kind == b"n" {
            self.statements.insert(name.into());
            return Some(());
        }
        let name = std::str::from_utf8(name).ok()?;
        let value = columns.next()?;
        match kind {
            b"s" if OF_TRANSACTIONS.contains(&name) => {}
            b"s" => {
                let value = value.map(std::str::from_utf8).transpose().ok()?;
                let name = name.to_ascii_lowercase().into_boxed_str();
                self.settings.push((name, value.map(Box::from)));
            }
            b"p" => {
                let (reason, _) = ASKABLE.iter().find(|(_, word)| *word == name)?;
                self.reasons.insert(*reason);
            }
            b"r" => {}
            _ => return None,
        }
        Some(())
    }

    /// Records that the server refused the question.
    pub(crate) fn fail(&mut self) {
        self.is_bad = true;
    }

    /// Records that the server was interrupted while it answered: the question may be asked again at once.
    pub(crate) fn interrupt(&mut self) {
        self.is_bad = true;
        self.is_interrupted = true;
    }

    /// True if nothing is known because of [`Answer::interrupt`].
    pub(crate) fn is_interrupted(&self) -> bool {
        self.is_interrupted
    }

    /// Returns the reasons to pin that the server has confirmed.
    pub(crate) fn reasons(&self) -> Reasons {
        self.reasons
    }

    /// True if nothing is known.
    pub(crate) fn is_bad(&self) -> bool {
        self.is_bad
    }

    /// Returns the server's settings, given those before. `user` is the login user.
    pub(crate) fn of_server(&self, question: &Question, before: &Settings, user: &str) -> Settings {
        let mut settings = if question.is_about_all_settings() {
            before.only(&HIDDEN)
        } else {
            Settings::clone(before)
        };
        let is_default = |name: &str, value: &str| is_default(name, value, user);
        self.change(&mut settings, is_default, Settings::unset);
        settings
    }

    /// Returns the client's settings: those it has set, otherwise those it began with.
    pub(crate) fn of_client(
        &self,
        question: &Question,
        before: &Settings,
        startup: &Settings,
        user: &str,
    ) -> Settings {
        let mut settings = if question.is_about_all_settings() {
            let mut settings = Settings::clone(startup);
            for (name, value) in before.only(&HIDDEN).iter() {
                settings.set(name, value);
            }
            settings
        } else {
            Settings::clone(before)
        };
        let unset = |settings: &mut Settings, name: &str| match startup.get(name) {
            Some(value) => settings.set(name, value),
            None => settings.unset(name),
        };
        // A client that began with a role and has reset it is not back at its start value.
        let is_default =
            |name: &str, value: &str| is_default(name, value, user) && startup.get(name).is_none();
        self.change(&mut settings, is_default, unset);
        settings
    }

    fn change(
        &self,
        settings: &mut Settings,
        is_default: impl Fn(&str, &str) -> bool,
        unset: impl Fn(&mut Settings, &str),
    ) {
        for (name, value) in &self.settings {
            match value {
                Some(value) if !is_default(name, value) => settings.set(name, value),
                _ => unset(settings, name),
            }
        }
    }
}

/// True if the value means the login user itself.
fn is_default(name: &str, value: &str, user: &str) -> bool {
    match name {
        "role" => value == "none",
        "session_authorization" => value == user,
        _ => false,
    }
}

/// True if the answer contains settings that were unknown. PostgreSQL writes some start values in its own form (5120
/// for `5MB`); this does not count.
pub(crate) fn surprises(known: &Settings, found: &Settings, startup: &Settings) -> bool {
    let is_new = |(name, value): (&str, &str)| match known.get(name) {
        Some(known) => known != value && startup.get(name) != Some(known),
        None => true,
    };
    found.iter().any(is_new) || known.iter().any(|(name, _)| found.get(name).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_asked_for_and_says_nothing() {
        let mut question = Question::default();
        question.report();
        assert!(!question.is_nothing() && !question.is_about_settings());
        let sql = question.sql(&Settings::default());
        assert!(sql.contains("pg_stat_force_next_flush"), "{sql}");
        let mut answer = Answer::default();
        answer.row(b"\0\x03\0\0\0\x01r\0\0\0\0\0\0\0\0");
        assert_eq!(answer, Answer::default());
        let everything = Question::everything().sql(&Settings::default());
        assert!(!everything.contains("flush"), "{everything}");
    }

    #[test]
    fn a_value_from_the_start_in_other_words_is_no_surprise() {
        let of = |pairs: &[(&str, &str)]| Settings::from_pairs(pairs.iter().copied());
        let start = of(&[("work_mem", "5MB")]);
        assert!(!surprises(&start, &of(&[("work_mem", "5120")]), &start));
        assert!(surprises(&start, &of(&[]), &start));
        assert!(surprises(&of(&[]), &of(&[("work_mem", "5120")]), &of(&[])));
        let set = of(&[("work_mem", "6MB")]);
        assert!(surprises(&set, &of(&[("work_mem", "5120")]), &start));
    }

    #[test]
    fn a_role_from_the_start_that_was_given_up_stays_given_up() {
        let answer = Answer {
            settings: vec![("role".into(), Some("none".into()))],
            ..Answer::default()
        };
        let question = Question::default();
        let start = Settings::from_pairs([("role", "ra")]);
        let found = answer.of_client(&question, &start, &start, "app");
        assert_eq!(found.get("role"), Some("none"));
        let nothing = Settings::default();
        let found = answer.of_client(&question, &nothing, &nothing, "app");
        assert_eq!(found.get("role"), None);
        assert_eq!(answer.of_server(&question, &start, "app").get("role"), None);
    }
}
