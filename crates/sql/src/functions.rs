//! Functions that are known to change their session: built-in ones, and those that an administrator lists.

use std::collections::HashSet;
use std::sync::Arc;

use crate::catalogue::Catalogue;
use crate::pieces;
use crate::sieve::Sieve;

/// Meaning that a word may have for the session, wherever it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// A built-in function, if a parenthesis follows.
    Call(Kind),
    /// An object of the database that runs code which changes the session.
    Catalogued,
    /// EXECUTE, where it may run a prepared statement (EXPLAIN, CREATE TABLE AS).
    Execute,
    /// HOLD
    Hold,
    /// A function that the administrator lists.
    Listed,
    /// TEMP, TEMPORARY
    Temporary,
    /// LANGUAGE. If C follows, the function belongs to a library, which PostgreSQL loads to check it.
    Language,
    /// The view of all settings: an UPDATE of it sets them.
    Settings,
    /// The view of prepared statements, or its function.
    Statements,
    /// A view or function of session statistics.
    Statistics,
    /// A name that begins with `pg_temp`.
    TemporarySchema,
    /// Too long to tell, or its case folds by an unknown locale.
    Unknown,
}

/// Effect of a built-in function on its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Takes a session advisory lock.
    AdvisoryLock,
    /// Releases a session advisory lock.
    AdvisoryUnlock,
    /// Returns the channels that the session listens to.
    ListsChannels,
    /// Advances a sequence.
    MovesSequence,
    /// Leaves state that the server cannot report.
    Opaque,
    /// Reads the session's last sequence values.
    ReadsSequence,
    /// Runs a text of SQL.
    RunsText,
    /// `setseed`
    Seed,
    /// `set_config`
    SetConfig,
    /// Reports the session's statistics so far.
    Statistics,
    /// `set_limit` of pg_trgm, which changes a setting.
    TrigramLimit,
}

/// Functions that act on the session, sorted; from chapters 9.9, 9.15, 9.17, 9.28 of the manual and from contrib.
/// Functions that act on the transaction (`pg_advisory_xact_lock`) are omitted.
const BUILT_IN: &[(&str, Kind)] = &[
    ("connectby", Kind::RunsText),
    ("crosstab", Kind::RunsText),
    ("crosstab2", Kind::RunsText),
    ("crosstab3", Kind::RunsText),
    ("crosstab4", Kind::RunsText),
    ("currval", Kind::ReadsSequence),
    ("cursor_to_xml", Kind::RunsText),
    ("cursor_to_xmlschema", Kind::RunsText),
    ("dblink_close", Kind::Opaque),
    ("dblink_connect", Kind::Opaque),
    ("dblink_connect_u", Kind::Opaque),
    ("dblink_disconnect", Kind::Opaque),
    ("dblink_open", Kind::Opaque),
    ("dblink_send_query", Kind::Opaque),
    ("isn_weak", Kind::Opaque),
    ("lastval", Kind::ReadsSequence),
    ("nextval", Kind::MovesSequence),
    ("pg_advisory_lock", Kind::AdvisoryLock),
    ("pg_advisory_lock_shared", Kind::AdvisoryLock),
    ("pg_advisory_unlock", Kind::AdvisoryUnlock),
    ("pg_advisory_unlock_all", Kind::AdvisoryUnlock),
    ("pg_advisory_unlock_shared", Kind::AdvisoryUnlock),
    ("pg_backup_start", Kind::Opaque),
    ("pg_backup_stop", Kind::Opaque),
    ("pg_copy_logical_replication_slot", Kind::Opaque),
    ("pg_copy_physical_replication_slot", Kind::Opaque),
    ("pg_create_logical_replication_slot", Kind::Opaque),
    ("pg_create_physical_replication_slot", Kind::Opaque),
    ("pg_listening_channels", Kind::ListsChannels),
    ("pg_replication_origin_session_reset", Kind::Opaque),
    ("pg_replication_origin_session_setup", Kind::Opaque),
    ("pg_start_backup", Kind::Opaque),
    ("pg_stat_force_next_flush", Kind::Statistics),
    ("pg_stop_backup", Kind::Opaque),
    ("pg_try_advisory_lock", Kind::AdvisoryLock),
    ("pg_try_advisory_lock_shared", Kind::AdvisoryLock),
    ("query_to_xml", Kind::RunsText),
    ("query_to_xml_and_xmlschema", Kind::RunsText),
    ("query_to_xmlschema", Kind::RunsText),
    ("set_config", Kind::SetConfig),
    ("set_limit", Kind::TrigramLimit),
    ("setseed", Kind::Seed),
    ("setval", Kind::MovesSequence),
    ("ts_rewrite", Kind::RunsText),
    ("ts_stat", Kind::RunsText),
    ("xpath_table", Kind::RunsText),
];

/// Words that are not functions.
const WORDS: [(&str, Meaning); 8] = [
    ("execute", Meaning::Execute),
    ("hold", Meaning::Hold),
    ("language", Meaning::Language),
    ("pg_prepared_statement", Meaning::Statements),
    ("pg_prepared_statements", Meaning::Statements),
    ("pg_settings", Meaning::Settings),
    ("temp", Meaning::Temporary),
    ("temporary", Meaning::Temporary),
];

const TEMPORARY_SCHEMA: &[u8] = b"pg_temp";

/// Prefixes of statistics that sessions report with a delay (manual 28.2.2). Excludes statistics about processes, and
/// about activities that are counted by processes of their own.
const STATISTICS: [&[u8]; 6] = [
    b"pg_stat_all_",
    b"pg_stat_database",
    b"pg_stat_get_",
    b"pg_stat_sys_",
    b"pg_stat_user_",
    b"pg_statio_",
];

/// Length in bytes at which PostgreSQL truncates names: NAMEDATALEN - 1.
pub(crate) const NAME_MAX: usize = 63;

/// Functions that have effects on the session: built-in ones, and those that the administrator lists.
#[derive(Clone, Debug)]
pub struct Functions {
    listed: Vec<Listed>,
    sieve: Box<Sieve>,
    /// True if a listed name has characters beyond ASCII, whose case PostgreSQL folds by locale.
    wide: bool,
    /// Words within names that need quotes, where such a name contains any.
    in_quotes: HashSet<Box<[u8]>>,
    /// True if a name contains no words.
    has_nameless: bool,
    catalogue: Arc<Catalogue>,
}

#[derive(Clone, Debug)]
struct Listed {
    schema: Option<Box<str>>,
    name: Box<str>,
    /// The name as written between quotes, with each quote doubled.
    written: Box<str>,
}

impl Default for Functions {
    fn default() -> Self {
        Self::new(std::iter::empty::<&str>())
    }
}

impl Functions {
    /// Creates the built-in functions and these. Each name may have a schema, and quotes where needed: `set_tenant`,
    /// `app.set_tenant`, `"App"."set.tenant"`.
    pub fn new<S: AsRef<str>>(listed: impl IntoIterator<Item = S>) -> Self {
        let listed: Vec<Listed> = listed
            .into_iter()
            .map(|name| Listed::new(name.as_ref()))
            .collect();
        let mut sieve = Box::new(Sieve::default());
        let built_in = BUILT_IN.iter().map(|(name, _)| *name);
        let words = WORDS.iter().map(|(name, _)| *name);
        for name in built_in.chain(words) {
            sieve.pass(name.as_bytes());
        }
        for listed in &listed {
            sieve.pass(listed.written.as_bytes());
        }
        let wide = listed.iter().any(|listed| !listed.name.is_ascii());
        let mut functions = Self {
            sieve,
            wide,
            in_quotes: HashSet::new(),
            has_nameless: false,
            catalogue: Arc::default(),
            listed: Vec::new(),
        };
        for listed in &listed {
            functions.note_quotes(listed.name.as_bytes());
        }
        functions.listed = listed;
        functions
    }

    /// Adds a word of a name that needs quotes.
    fn note_quotes(&mut self, name: &[u8]) {
        let Some(word) = pieces::word_in(name) else {
            return;
        };
        self.has_nameless |= word.is_empty();
        self.sieve.pass(&word);
        self.in_quotes.insert(word);
    }

    /// True if a word, not folded, is part of a name that needs quotes.
    pub(crate) fn is_in_quotes(&self, word: &[u8]) -> bool {
        !self.in_quotes.is_empty() && self.in_quotes.contains(&*word.to_ascii_lowercase())
    }

    /// True if the name of some function contains no word by which it could be found.
    pub(crate) fn has_nameless(&self) -> bool {
        self.has_nameless
    }

    /// Returns these functions together with a database's catalogue.
    #[must_use]
    pub fn with_catalogue(&self, catalogue: &Arc<Catalogue>) -> Self {
        let listed = self.listed.iter().map(|listed| listed.to_string());
        let mut functions = Self::new(listed);
        for name in catalogue.names() {
            functions.sieve.pass(name);
            functions.note_quotes(name);
        }
        functions.wide |= catalogue.is_wide();
        functions.catalogue = Arc::clone(catalogue);
        functions
    }

    /// Returns the catalogue of the database.
    pub(crate) fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// True if the word may have a meaning. Never false for a word that has one.
    #[inline]
    pub(crate) fn may_mean(&self, word: &[u8]) -> bool {
        self.sieve.may_pass(word)
            || matches!(word, [b'p' | b'P', _, b'_', ..])
            || self.wide && !word.is_ascii()
    }

    /// Returns the meaning that the word may have. The word need not be folded.
    pub(crate) fn meaning(&self, word: &[u8]) -> Option<Meaning> {
        let mut folded = [0; NAME_MAX];
        let Some(folded) = folded.get_mut(..word.len()) else {
            return Some(Meaning::Unknown);
        };
        folded.copy_from_slice(word);
        folded.make_ascii_lowercase();
        if folded.starts_with(TEMPORARY_SCHEMA) {
            return Some(Meaning::TemporarySchema);
        }
        if let Some(kind) = built_in(folded) {
            return Some(Meaning::Call(kind));
        }
        let listed = |listed: &Listed| listed.written.as_bytes().eq_ignore_ascii_case(folded);
        if self.listed.iter().any(listed) {
            return Some(Meaning::Listed);
        }
        let known = WORDS.iter().find(|(known, _)| known.as_bytes() == folded);
        match known {
            Some((_, meaning)) => Some(*meaning),
            None if self.catalogue.has(folded) => Some(Meaning::Catalogued),
            None if STATISTICS.iter().any(|name| folded.starts_with(name)) => {
                Some(Meaning::Statistics)
            }
            None => {
                let is_unknown = |listed: &Listed| !listed.name.is_ascii() && !folded.is_ascii();
                (self.listed.iter().any(is_unknown)).then_some(Meaning::Unknown)
            }
        }
    }

    /// True if the administrator lists the function. A call without a schema may mean any schema.
    pub(crate) fn is_listed(&self, schema: Option<&str>, name: &str) -> bool {
        // Replaced bytes may have been any character of a listed name.
        let any = self.wide && name.contains(char::REPLACEMENT_CHARACTER);
        let name = name.to_lowercase();
        any || self.listed.iter().any(|listed| {
            let same_schema = match (listed.schema.as_deref(), schema) {
                (Some(ours), Some(theirs)) => ours.eq_ignore_ascii_case(theirs),
                _ => true,
            };
            same_schema && listed.name.to_lowercase() == name
        })
    }
}

/// Returns the built-in function with this name (lower case).
pub(crate) fn built_in(name: &[u8]) -> Option<Kind> {
    BUILT_IN
        .binary_search_by(|(known, _)| known.as_bytes().cmp(name))
        .ok()
        .and_then(|place| BUILT_IN.get(place))
        .map(|(_, kind)| *kind)
}

/// Returns the names of built-in functions that may change the session by themselves.
pub(crate) fn that_change() -> impl Iterator<Item = &'static str> {
    let changes = |kind: &Kind| {
        !matches!(
            kind,
            Kind::ListsChannels | Kind::MovesSequence | Kind::ReadsSequence | Kind::AdvisoryUnlock
        )
    };
    let all = BUILT_IN.iter().filter(move |(_, kind)| changes(kind));
    all.map(|(name, _)| *name)
}

/// True for `pg_temp`, `pg_temp_3` and the like.
pub(crate) fn is_temporary_schema(name: &[u8]) -> bool {
    name.get(..TEMPORARY_SCHEMA.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(TEMPORARY_SCHEMA))
}

impl std::fmt::Display for Listed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        match &self.schema {
            Some(schema) => write!(f, "{}.{}", quoted(schema), quoted(&self.name)),
            None => f.write_str(&quoted(&self.name)),
        }
    }
}

impl Listed {
    fn new(name: &str) -> Self {
        let (first, rest) = identifier(name.trim());
        let (schema, name) = match rest.trim_start().strip_prefix('.') {
            Some(name) => (Some(first.into()), identifier(name.trim()).0),
            None => (None, first),
        };
        Self {
            schema,
            written: name.replace('"', "\"\"").into(),
            name: name.into(),
        }
    }
}

/// Splits an identifier off the front of a text. Without a closing quote, the identifier extends to the end.
fn identifier(text: &str) -> (String, &str) {
    let Some(mut rest) = text.strip_prefix('"') else {
        let (name, _) = text.split_once('.').unwrap_or((text, ""));
        return (name.trim().to_owned(), text.get(name.len()..).unwrap_or(""));
    };
    let mut name = String::new();
    loop {
        let (part, behind) = rest.split_once('"').unwrap_or((rest, ""));
        name.push_str(part);
        match behind.strip_prefix('"') {
            Some(more) => {
                name.push('"');
                rest = more;
            }
            None => return (name, behind),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        assert!(BUILT_IN.is_sorted_by(|one, next| one.0 < next.0));
    }

    #[test]
    fn the_sieve_lets_every_name_of_interest_through() {
        let functions = Functions::new(["app.set_tenant", "\"Größe\"", "x"]);
        let more = [
            "pg_temp",
            "pg_temp_17",
            "PG_TEMP_x",
            "set_tenant",
            "größe",
            "GRÖSSE",
            "X",
        ];
        let long = "a".repeat(100);
        let names = BUILT_IN.iter().map(|(name, _)| *name);
        let words = WORDS.iter().map(|(name, _)| *name);
        for name in names.chain(words).chain(more).chain([&*long]) {
            for name in [name.to_owned(), name.to_ascii_uppercase()] {
                assert!(functions.may_mean(name.as_bytes()), "{name}");
                assert!(functions.meaning(name.as_bytes()).is_some(), "{name}");
            }
        }
    }

    #[test]
    fn the_sieve_holds_common_words_back() {
        let functions = Functions::default();
        for word in [
            "",
            "select",
            "pgbench_accounts",
            "values",
            "tid",
            "set",
            "customer",
            "total",
        ] {
            assert!(!functions.may_mean(word.as_bytes()), "{word}");
        }
    }

    #[test]
    fn dots_and_quotes_in_quotes_are_part_of_a_name() {
        let functions = Functions::new(["\"App\".\"set.tenant\"", "\"a.b\"", "\"c\"\"d\""]);
        for (schema, name) in [
            (Some("App"), "set.tenant"),
            (None, "a.b"),
            (Some("x"), "a.b"),
            (None, "c\"d"),
        ] {
            assert!(functions.is_listed(schema, name), "{name}");
        }
        for (schema, name) in [
            (None, "tenant"),
            (Some("a"), "b"),
            (None, "b"),
            (None, "App"),
        ] {
            assert!(!functions.is_listed(schema, name), "{name}");
        }
        for word in ["set.tenant", "a.b", "c\"\"d"] {
            assert!(functions.may_mean(word.as_bytes()), "{word}");
            let meaning = functions.meaning(word.as_bytes());
            assert_eq!(meaning, Some(Meaning::Listed), "{word}");
        }
        let text = "SELECT \"App\".\"set.tenant\"(1)";
        assert!(!crate::is_harmless(text.as_bytes(), &functions));
    }

    #[test]
    fn a_listed_schema_counts_where_a_schema_is_given() {
        let functions = Functions::new(["app.set_tenant", "other"]);
        assert!(functions.is_listed(None, "set_tenant"));
        assert!(functions.is_listed(Some("app"), "set_tenant"));
        assert!(!functions.is_listed(Some("web"), "set_tenant"));
        assert!(functions.is_listed(Some("web"), "other"));
    }
}
