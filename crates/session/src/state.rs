//! What a client's session holds beyond a transaction, and how it is found out: the server is asked.
//!
//! A statement that may change the state (see `weir_sql`) adds to a [`Question`]. When its transaction is over, and before
//! the server goes to anybody else, the question is put to the server. Its [`Answer`] is the truth, whatever a ROLLBACK
//! undid and whatever a function did: settings become the client's own and follow it, what cannot move pins it.

use std::collections::HashSet;
use std::fmt::Write;
use std::sync::Arc;

use weir_sql::{Effects, Reason, Reasons};
use weir_wire::backend::DataRow;

use crate::custom::{CustomNames, Known, is_custom};
use crate::settings::{Settings, push_literal};

/// More names than this in one question, and all settings are asked for.
const NAMES_MAX: usize = 16;

/// More names than this in one question are not kept: the client keeps its server.
const NAMES_KEPT_MAX: usize = 512;

/// Settings that belong to a transaction, though `pg_settings` calls their source a session.
const OF_TRANSACTIONS: [&str; 3] = [
    "transaction_deferrable",
    "transaction_isolation",
    "transaction_read_only",
];

/// Settings that `pg_settings` shows to few, though a session can have them: who became somebody else may not see them.
const HIDDEN: [&str; 2] = ["dynamic_library_path", "session_preload_libraries"];

/// What pins and can be asked about, each with the word that stands for it in the answer.
const ASKABLE: [(Reason, &str); 5] = [
    (Reason::AdvisoryLock, "lock"),
    (Reason::Cursor, "cursor"),
    (Reason::Listen, "listen"),
    (Reason::Prepared, "prepared"),
    (Reason::TemporaryObject, "temporary"),
];

/// All settings that the session has set by itself. Everything is qualified: the client's `search_path` is in force.
const ALL_SETTINGS: &str = "SELECT 's', name, setting FROM pg_catalog.pg_settings \
     WHERE source OPERATOR(pg_catalog.=) 'session'";

/// Statements of the protocol.
const STATEMENTS: &str =
    "SELECT 'n', name, '' FROM pg_catalog.pg_prepared_statements WHERE NOT from_sql";

/// Custom settings to ask for, beside those in the question itself.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Customs {
    /// All that will be known by the time of the question.
    Known,
    /// These.
    Asked(Arc<Known>),
}

/// What the server has to be asked when the transaction is over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Question {
    /// Settings that may have changed, by name.
    names: Vec<Box<str>>,
    /// Any setting that the server lists may have changed. It does not list custom ones (`app.tenant`): these are found by
    /// their names only.
    all: bool,
    /// Any custom setting may have changed: all names that were seen in the database are asked for.
    customs: Option<Customs>,
    /// A setting may have changed whose name is not kept: the client keeps its server.
    is_partial: bool,
    /// `RESET ALL` by itself: no custom setting is left, whatever its name.
    resets_all: bool,
    /// What may have come or gone that pins.
    reasons: Reasons,
    /// No statement gave a reason to ask.
    is_check: bool,
    /// Nothing is asked by this: the session is to report what it has counted.
    reports: bool,
    /// Which of its statements the client has under their own names.
    statements: bool,
}

impl Question {
    /// Everything that can be asked.
    pub fn everything() -> Self {
        Self {
            all: true,
            customs: Some(Customs::Known),
            reasons: askable(),
            ..Self::default()
        }
    }

    /// The same, though no statement gave a reason to ask: any change is a surprise.
    pub fn check() -> Self {
        Self {
            is_check: true,
            ..Self::everything()
        }
    }

    /// Whether no statement gave a reason to ask.
    pub fn is_check(&self) -> bool {
        self.is_check
    }

    /// Whether there is nothing to ask.
    #[inline]
    pub fn is_nothing(&self) -> bool {
        !self.is_about_settings() && self.reasons.is_empty() && !self.reports
    }

    /// Whether settings may have changed.
    pub fn is_about_settings(&self) -> bool {
        self.all || !self.names.is_empty()
    }

    /// Whether it asks for all settings: those not in the answer are not set.
    pub fn is_about_all_settings(&self) -> bool {
        self.all
    }

    /// What it asks about that pins.
    pub fn reasons(&self) -> Reasons {
        self.reasons
    }

    /// A statement with these effects was sent; `held` is what may keep the client on its server so far.
    pub fn add(&mut self, effects: &Effects, held: Reasons) {
        self.all |= effects.asks.all;
        (effects.asks.names.iter()).for_each(|name| self.add_name(name));
        if effects.frees {
            self.reasons = union(self.reasons, held);
            // What an EXECUTE did in the meantime was not asked about.
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

    /// One setting may have changed.
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

    /// Code that nobody has seen was run: it may have changed any setting.
    fn add_unseen(&mut self) {
        self.all = true;
        self.customs = Some(Customs::Known);
    }

    /// `RESET ALL` was sent by itself, outside a transaction.
    pub(crate) fn reset_all(&mut self) {
        self.resets_all = true;
    }

    /// Code of which nobody knows what it sets was sent behind a `RESET ALL` that has not been answered.
    pub(crate) fn forget_reset_all(&mut self) {
        self.resets_all = false;
    }

    /// True if the session has no custom setting, whatever was not known of it before.
    pub(crate) fn has_reset_all(&self) -> bool {
        self.resets_all
    }

    /// True if a setting may have changed that it does not ask for.
    pub(crate) fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// Asks for all of the other question, too, which was not answered.
    pub(crate) fn join(&mut self, other: Self) {
        self.all |= other.all;
        other.names.iter().for_each(|name| self.add_name(name));
        if other.customs.is_some() {
            self.customs = Some(Customs::Known);
        }
        self.is_partial |= other.is_partial;
        // An error in between may have kept the other one's from its effect.
        self.resets_all = false;
        self.reasons = union(self.reasons, other.reasons);
        self.is_check &= other.is_check;
        self.reports |= other.reports;
        self.statements |= other.statements;
    }

    /// Settles which custom names it asks for, and tells the database's list of those that it has itself.
    pub(crate) fn settle(&mut self, names: &CustomNames, known: &Settings) {
        let of_settings = known.iter().map(|(name, _)| name);
        names.add(self.names.iter().map(|name| &**name).chain(of_settings));
        if self.customs.is_some() {
            let all = names.known();
            self.is_partial |= all.is_partial;
            self.customs = Some(Customs::Asked(all));
        }
    }

    /// Something that pins for this reason may have come or gone.
    pub(crate) fn add_reason(&mut self, reason: Reason) {
        self.reasons.insert(reason);
    }

    /// What the session has counted is to be reported.
    pub(crate) fn report(&mut self) {
        self.reports = true;
    }

    /// Statements of the protocol are asked for by name.
    pub(crate) fn add_statements(&mut self) {
        self.statements = true;
    }

    /// Whether they are.
    pub(crate) fn is_about_statements(&self) -> bool {
        self.statements
    }

    /// Something has failed, so it is not known which of the names were set: only what the session really has counts.
    pub(crate) fn widen(&mut self) {
        self.all |= !self.names.is_empty();
        self.resets_all = false;
    }

    /// The one statement that asks it. Its rows have three columns: what it is about (`s`: a setting, `p`: something that
    /// pins, `n`: a statement, `r`: a report, which says nothing), a name, and a value. `known` is what was set before.
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

/// Everything that can be asked about.
fn askable() -> Reasons {
    let mut all = Reasons::default();
    ASKABLE.iter().for_each(|(reason, _)| all.insert(*reason));
    all
}

/// Both, as far as they can be asked about.
fn union(one: Reasons, other: Reasons) -> Reasons {
    let mut both = Reasons::default();
    for (reason, _) in ASKABLE {
        if one.contains(reason) || other.contains(reason) {
            both.insert(reason);
        }
    }
    both
}

/// The value of one setting, by a name that a client wrote.
fn current(name: &str) -> String {
    let mut sql = String::from("SELECT 's', ");
    push_literal(&mut sql, name);
    sql.push_str(", pg_catalog.current_setting(");
    push_literal(&mut sql, name);
    let _ = write!(sql, ", true)");
    sql
}

/// Whether the session holds something that pins, as the server can tell.
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
        // Whatever stands in a schema depends on it; 2615 is pg_namespace, by a number that never
        // changes (pg_namespace.h).
        Reason::TemporaryObject => {
            "EXISTS (SELECT 1 FROM pg_catalog.pg_depend WHERE refclassid OPERATOR(pg_catalog.=) '2615' \
             AND refobjid OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema())"
        }
        _ => return None,
    })
}

// === Answer ===

/// What the server said so far.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Answer {
    settings: Vec<(Box<str>, Option<Box<str>>)>,
    reasons: Reasons,
    /// Statements of the protocol.
    pub(crate) statements: HashSet<Box<[u8]>>,
    /// Something in it could not be read, or the server refused: nothing is known.
    is_bad: bool,
    /// That is because the server was interrupted.
    is_interrupted: bool,
}

impl Answer {
    /// One row. Values that are not UTF-8 (the client's encoding is another one) cannot be kept.
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

    /// The server refused the question.
    pub(crate) fn fail(&mut self) {
        self.is_bad = true;
    }

    /// The server was interrupted while it answered: it may be asked again at once.
    pub(crate) fn interrupt(&mut self) {
        self.is_bad = true;
        self.is_interrupted = true;
    }

    /// True if [`Answer::interrupt`] is why nothing is known.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.is_interrupted
    }

    /// What pins, out of what was asked.
    pub(crate) fn reasons(&self) -> Reasons {
        self.reasons
    }

    /// Whether nothing is known.
    pub(crate) fn is_bad(&self) -> bool {
        self.is_bad
    }

    /// What the server has set, given what it had before. `user` is who logged in.
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

    /// What belongs to the client: what it has set, else what it began with.
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
        // A client that began with a role and has given it up is not back at its start.
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

/// Nobody but who logged in.
fn is_default(name: &str, value: &str, user: &str) -> bool {
    match name {
        "role" => value == "none",
        "session_authorization" => value == user,
        _ => false,
    }
}

/// Whether settings were found that nobody knew of. PostgreSQL writes some values that a client began with in its own way
/// (`5MB` is 5120 to it): that is none.
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
