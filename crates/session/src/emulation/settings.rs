//! Run-time parameters: values that a client asked for, and values that a server reports.
//!
//! [`Settings`] are explicit values (start-up packet, `options`, a `SET` that the server reported), which must follow a
//! client from server to server. [`Reported`] is the set of ParameterStatus values that a client has been told. Both
//! are immutable and shared, so that comparing with the last set is one pointer comparison.

use std::fmt::Write;

/// Parameters whose value is a list of quoted names (PostgreSQL marks them `GUC_LIST_QUOTE`). They are set by
/// `set_config`, since `SET x TO 'a, b'` would turn the list into one name.
const QUOTED_LISTS: [&str; 5] = [
    "search_path",
    "temp_tablespaces",
    "session_preload_libraries",
    "local_preload_libraries",
    "unix_socket_directories",
];

/// Reported parameters that no `SET` can restore: facts about the server or the identity.
const FACTS: [&str; 7] = [
    "in_hot_standby",
    "integer_datetimes",
    "is_superuser",
    "server_encoding",
    "server_version",
    "session_authorization",
    "server_version_num",
];

/// Parameters of the session's identity, in the order in which they must be set: a role belongs to the session's user.
const IDENTITY: [&str; 2] = ["session_authorization", "role"];

/// Settings that make a change of settings awaited, so that nothing is sent before it is confirmed. These are the
/// session's identity, and timeouts that may interrupt the change itself, which is then tried again.
const AWAITED: [&str; 5] = [
    "lock_timeout",
    "role",
    "session_authorization",
    "statement_timeout",
    "transaction_timeout",
];

/// Parameters whose value may be partial and then keeps the rest of the previous value: `DateStyle = ISO`.
const PARTIAL: [&str; 1] = ["datestyle"];

/// A parameter: name (lower case in [`Settings`], as sent by the server in [`Reported`]) and value.
pub type Parameter = (Box<str>, Box<str>);

// === Settings ===

/// Explicit parameter values that differ from those of a fresh server connection; sorted by name, names in lower case.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub struct Settings {
    values: Vec<Parameter>,
}

impl Settings {
    /// Creates settings from (name, value) pairs; the last value of a name wins, as in a start-up packet.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut settings = Self::default();
        for (name, value) in pairs {
            settings.set(name, value);
        }
        settings
    }

    /// Sets one value.
    pub fn set(&mut self, name: &str, value: &str) {
        let name = name.to_ascii_lowercase().into_boxed_str();
        match self.find(&name) {
            Ok(at) => {
                if let Some(slot) = self.values.get_mut(at) {
                    slot.1 = value.into();
                }
            }
            Err(at) => self.values.insert(at, (name, value.into())),
        }
    }

    /// Removes one value, which returns it to the server's default.
    pub fn unset(&mut self, name: &str) {
        if let Ok(at) = self.find(&name.to_ascii_lowercase()) {
            self.values.remove(at);
        }
    }

    /// Returns the value of a name (lower case).
    pub fn get(&self, name: &str) -> Option<&str> {
        let at = self.find(name).ok()?;
        self.values.get(at).map(|(_, value)| &**value)
    }

    /// Returns only the values of these names (lower case).
    pub(crate) fn only(&self, names: &[&str]) -> Self {
        let values = self.values.iter();
        let wanted = values.filter(|(name, _)| names.contains(&&**name));
        Self {
            values: wanted.cloned().collect(),
        }
    }

    /// True if no value differs from the server's defaults.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Iterates over all values, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(name, value)| (&**name, &**value))
    }

    fn find(&self, name: &str) -> Result<usize, usize> {
        self.values.binary_search_by(|(have, _)| (**have).cmp(name))
    }

    /// Returns the SQL that turns a server with `self` into one with `wanted`; empty if they are equal.
    ///
    /// All values are set by the login user, since a role may lack the privilege. So roles are reset first and set
    /// last.
    pub fn statements_to(&self, wanted: &Self) -> String {
        self.changes_to(wanted).join(";")
    }

    /// Returns the statements of [`Settings::statements_to`] one by one.
    pub(crate) fn changes_to(&self, wanted: &Self) -> Vec<String> {
        let mut changes = Vec::new();
        if self == wanted {
            return changes;
        }
        let reset = |name| Self::statement_or_reset(name, None);
        let identity = IDENTITY.iter().filter(|name| self.get(name).is_some());
        changes.extend(identity.map(|name| reset(name)));
        let gone = self.plain().filter(|(name, _)| wanted.get(name).is_none());
        changes.extend(gone.map(|(name, _)| reset(name)));
        for (name, value) in wanted.plain() {
            if self.get(name) == Some(value) {
                continue;
            }
            if self.get(name).is_some() && PARTIAL.contains(&name) {
                changes.push(reset(name));
            }
            changes.push(Self::statement(name, value, false));
        }
        let identity = IDENTITY
            .iter()
            .filter_map(|name| wanted.get(name).map(|value| (name, value)));
        changes.extend(identity.map(|(name, value)| Self::statement(name, value, false)));
        changes
    }

    /// True if the settings contain the session's identity or a timeout that interrupts statements: changes are then
    /// awaited.
    pub(crate) fn has_to_be_awaited(&self) -> bool {
        AWAITED.iter().any(|name| self.get(name).is_some())
    }

    /// Returns the statement that sets one value, for the session or for the transaction.
    pub(crate) fn statement(name: &str, value: &str, is_local: bool) -> String {
        let mut sql = String::new();
        push_set(&mut sql, name, value, is_local);
        sql
    }

    /// Returns the statement that sets one value, or without a value the one that resets it to the server's default.
    pub(crate) fn statement_or_reset(name: &str, value: Option<&str>) -> String {
        match value {
            Some(value) => Self::statement(name, value, false),
            None => {
                let mut sql = String::new();
                push_reset(&mut sql, name);
                sql
            }
        }
    }

    /// Returns a statement for each value, in the order in which they can be set; with or without the session's
    /// identity.
    pub(crate) fn set_statements(&self, with_identity: bool) -> Vec<String> {
        let plain = self.plain();
        let identity = IDENTITY
            .iter()
            .filter(|_| with_identity)
            .filter_map(|name| Some((*name, self.get(name)?)));
        let all = plain.chain(identity);
        all.map(|(name, value)| Self::statement(name, value, false))
            .collect()
    }

    /// Iterates over all values except the session's identity.
    fn plain(&self) -> impl Iterator<Item = (&str, &str)> {
        self.iter()
            .filter(|(name, _)| !IDENTITY.iter().any(|identity| identity == name))
    }
}

fn push_reset(sql: &mut String, name: &str) {
    sql.push_str("RESET ");
    push_name(sql, name);
}

fn push_set(sql: &mut String, name: &str, value: &str, is_local: bool) {
    if QUOTED_LISTS.contains(&name) {
        sql.push_str("SELECT pg_catalog.set_config(");
        push_literal(sql, name);
        sql.push(',');
        push_literal(sql, value);
        let _ = write!(sql, ",{is_local})");
    } else {
        sql.push_str(if is_local { "SET LOCAL " } else { "SET " });
        push_name(sql, name);
        sql.push_str(" TO ");
        push_literal(sql, value);
    }
}

/// Appends a name; each part of a dotted name is quoted as an identifier of its own.
fn push_name(sql: &mut String, name: &str) {
    for (i, part) in name.split('.').enumerate() {
        if i > 0 {
            sql.push('.');
        }
        sql.push('"');
        sql.push_str(&part.replace('"', "\"\""));
        sql.push('"');
    }
}

/// Appends an escape string, whose meaning does not depend on `standard_conforming_strings`.
pub fn push_literal(sql: &mut String, value: &str) {
    sql.push_str("E'");
    for c in value.chars() {
        if c == '\'' || c == '\\' {
            sql.push(c);
        }
        sql.push(c);
    }
    sql.push('\'');
}

// === Reported ===

/// Maximum number of parameters that a server may report. PostgreSQL has 15; the rest is for extensions, which may add
/// their own.
pub const REPORTED_NAMES_MAX: usize = 128;

/// Error: a server reports more parameters than [`REPORTED_NAMES_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server reports more than {REPORTED_NAMES_MAX} parameters")]
pub struct TooManyReported;

/// ParameterStatus values in the order in which the server first sent them, which is the order in which clients get
/// them.
///
/// There are at most [`REPORTED_NAMES_MAX`] names, so a linear search is short.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Reported {
    values: Vec<Parameter>,
}

impl Reported {
    /// Sets one value; a known name keeps its place.
    ///
    /// # Errors
    /// Fails if the name is new and the limit is reached; nothing is changed then.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), TooManyReported> {
        let has_room = self.values.len() < REPORTED_NAMES_MAX;
        let known = self
            .values
            .iter_mut()
            .find(|(have, _)| have.eq_ignore_ascii_case(name));
        match known {
            Some(slot) => slot.1 = value.into(),
            None if has_room => self.values.push((name.into(), value.into())),
            None => return Err(TooManyReported),
        }
        Ok(())
    }

    /// Returns the value of a name, in any case.
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self
            .values
            .iter()
            .find(|(have, _)| have.eq_ignore_ascii_case(name));
        found.map(|(_, value)| &**value)
    }

    /// Iterates over all values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// True if there are no values.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

/// Reported parameters that belong to the host of a server.
const HOST_FACTS: [&str; 2] = ["in_hot_standby", "server_version"];

/// True if the value of this reported parameter belongs to the host of a server.
pub fn is_host_fact(name: &str) -> bool {
    HOST_FACTS
        .iter()
        .any(|fact| fact.eq_ignore_ascii_case(name))
}

/// True if a client can set this reported parameter, false if it is a fact about the server.
pub fn is_settable(name: &str) -> bool {
    !FACTS.iter().any(|fact| fact.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        Settings::from_pairs(pairs.iter().copied())
    }

    #[test]
    fn equal_settings_need_no_statement() {
        let both = settings(&[("TimeZone", "UTC"), ("a.b", "1")]);
        assert_eq!(both.statements_to(&both.clone()), "");
    }

    #[test]
    fn the_difference_is_reset_and_set() {
        let have = settings(&[("timezone", "UTC"), ("datestyle", "ISO")]);
        let want = settings(&[("TimeZone", "Europe/Berlin"), ("my.thing", "x")]);
        assert_eq!(
            have.statements_to(&want),
            "RESET \"datestyle\";SET \"my\".\"thing\" TO E'x';SET \"timezone\" TO E'Europe/Berlin'"
        );
    }

    #[test]
    fn a_role_is_given_back_first_and_taken_on_last_as_the_sessions_user() {
        let ours = settings(&[
            ("role", "tenant"),
            ("session_authorization", "app"),
            ("timezone", "UTC"),
        ]);
        assert_eq!(
            Settings::default().statements_to(&ours),
            r#"SET "timezone" TO E'UTC';SET "session_authorization" TO E'app';SET "role" TO E'tenant'"#
        );
        assert_eq!(
            ours.statements_to(&settings(&[("timezone", "CET")])),
            r#"RESET "session_authorization";RESET "role";SET "timezone" TO E'CET'"#
        );
    }

    #[test]
    fn a_value_that_may_say_only_a_part_keeps_nothing_of_the_one_before() {
        let have = settings(&[("datestyle", "SQL, DMY")]);
        let want = settings(&[("datestyle", "ISO")]);
        assert_eq!(
            have.statements_to(&want),
            r#"RESET "datestyle";SET "datestyle" TO E'ISO'"#
        );
    }

    #[test]
    fn quotes_and_backslashes_cannot_leave_the_literal() {
        let want = settings(&[("application_name", r"a'; drop table t; --\")]);
        let sql = Settings::default().statements_to(&want);
        assert_eq!(
            sql,
            r#"SET "application_name" TO E'a''; drop table t; --\\'"#
        );
    }

    #[test]
    fn lists_of_names_keep_their_commas() {
        let want = settings(&[("search_path", "a, \"B c\"")]);
        let sql = Settings::default().statements_to(&want);
        assert_eq!(
            sql,
            "SELECT pg_catalog.set_config(E'search_path',E'a, \"B c\"',false)"
        );
    }

    #[test]
    fn reported_values_keep_the_servers_order() {
        let mut reported = Reported::default();
        for (name, value) in [
            ("TimeZone", "UTC"),
            ("client_encoding", "UTF8"),
            ("timezone", "CET"),
        ] {
            assert_eq!(reported.set(name, value), Ok(()));
        }
        assert_eq!(
            reported.iter().collect::<Vec<_>>(),
            [("TimeZone", "CET"), ("client_encoding", "UTF8")]
        );
    }

    #[test]
    fn names_beyond_the_limit_are_refused_and_known_ones_go_on() {
        let mut reported = Reported::default();
        for number in 0..REPORTED_NAMES_MAX {
            assert_eq!(reported.set(&format!("name{number}"), "a"), Ok(()));
        }
        assert_eq!(reported.set("one_more", "a"), Err(TooManyReported));
        assert_eq!(reported.len(), REPORTED_NAMES_MAX);
        assert_eq!(reported.set("NAME7", "b"), Ok(()));
        assert_eq!(reported.get("name7"), Some("b"));
    }
}
