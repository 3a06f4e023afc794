//! Functions and relations that a replica may use: lists of the administrator, the database's own objects, and
//! PostgreSQL's.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::error::Error;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};

use super::Why;
use crate::sieve::Sieve;

/// Functions of `pg_catalog` that read only, on any host alike: those of PostgreSQL 15 and 18 that are not VOLATILE,
/// and some that are, without those that look at a host, a session or a transaction. Functions behind operators, types
/// and aggregates are left out, because nobody calls them by name.
const READS: &str = include_str!("reads.txt");

/// Tables and views of `pg_catalog` that are the same on every host. All others show what a host or a session does.
const CATALOGUE: [&str; 58] = [
    "pg_aggregate",
    "pg_am",
    "pg_amop",
    "pg_amproc",
    "pg_attrdef",
    "pg_attribute",
    "pg_auth_members",
    "pg_authid",
    "pg_cast",
    "pg_class",
    "pg_collation",
    "pg_constraint",
    "pg_conversion",
    "pg_database",
    "pg_default_acl",
    "pg_depend",
    "pg_description",
    "pg_enum",
    "pg_event_trigger",
    "pg_extension",
    "pg_foreign_data_wrapper",
    "pg_foreign_server",
    "pg_foreign_table",
    "pg_group",
    "pg_index",
    "pg_indexes",
    "pg_inherits",
    "pg_init_privs",
    "pg_language",
    "pg_matviews",
    "pg_namespace",
    "pg_opclass",
    "pg_operator",
    "pg_opfamily",
    "pg_partitioned_table",
    "pg_policies",
    "pg_policy",
    "pg_proc",
    "pg_publication",
    "pg_publication_rel",
    "pg_range",
    "pg_rewrite",
    "pg_roles",
    "pg_rules",
    "pg_sequence",
    "pg_shdepend",
    "pg_shdescription",
    "pg_tables",
    "pg_tablespace",
    "pg_transform",
    "pg_trigger",
    "pg_ts_config",
    "pg_ts_dict",
    "pg_ts_parser",
    "pg_ts_template",
    "pg_type",
    "pg_user",
    "pg_views",
];

/// Reasons for built-in functions that are not in [`READS`], by the beginnings of their names.
const REASONS: [(&str, Why); 16] = [
    ("currval", Why::Session),
    ("dblink", Why::Writes),
    ("lastval", Why::Session),
    ("lo", Why::Writes),
    ("nextval", Why::Writes),
    ("pg_create_", Why::Writes),
    ("pg_current_xact_id", Why::Writes),
    ("pg_drop_", Why::Writes),
    ("pg_logical_emit_message", Why::Writes),
    ("pg_notify", Why::Writes),
    ("pg_replication_origin_", Why::Writes),
    ("pg_", Why::Host),
    ("inet_server_", Why::Host),
    ("set", Why::Session),
    ("txid_", Why::Writes),
    ("version", Why::Host),
];

/// Names of the database that are not in `pg_catalog`, as its catalogue knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Objects {
    functions: HashMap<Box<str>, Own>,
    /// Relations by name, over all schemas: those that a replica cannot read, and those that call functions or read
    /// tables of the system catalogue.
    relations: HashMap<Box<str>, Relation>,
    /// Filter for names in `relations`.
    sieve: Sieve,
    /// True if transactions of some role are not READ COMMITTED by default.
    pub(crate) has_isolation: bool,
}

impl Objects {
    /// Adds a function.
    pub fn add_function(&mut self, function: &Called, nature: Nature) {
        let own = self.functions.entry(function.name.clone()).or_default();
        own.is_volatile |= nature.is_volatile;
        own.is_built_in_too |= nature.is_built_in_too;
        if !own.schemas.contains(&function.schema) {
            own.schemas.push(function.schema.clone());
        }
    }

    /// Adds a relation of this name.
    pub fn add_relation(&mut self, name: &str, relation: &Relation) {
        self.sieve.pass(name.as_bytes());
        let known = self.relations.entry(name.into()).or_default();
        known.join(relation);
    }

    /// Number of names of functions.
    #[must_use]
    pub fn function_count(&self) -> usize {
        self.functions.len()
    }

    /// Returns the relations with their names.
    pub fn relations(&self) -> impl Iterator<Item = (&str, &Relation)> {
        (self.relations.iter()).map(|(name, relation)| (&**name, relation))
    }
}

/// Properties of a function that count for where it may run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nature {
    /// True if the function is VOLATILE or a procedure.
    pub is_volatile: bool,
    /// True if `pg_catalog` has a function of its name, which a call without a schema may mean.
    pub is_built_in_too: bool,
}

/// Functions of one name, over all schemas and argument types.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Own {
    /// True if one of them is VOLATILE or a procedure.
    is_volatile: bool,
    /// True if `pg_catalog` has a function of this name, which a call without a schema may mean.
    is_built_in_too: bool,
    /// Schemas that have one.
    schemas: Vec<Box<str>>,
}

/// Relations of one name, over all schemas, with everything that reading them reaches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Relation {
    /// Reason for which a replica cannot read one of them.
    pub why: Option<Why>,
    /// True if reading one of them reads tables of the system catalogue.
    pub reads_catalogue: bool,
    /// Functions that reading them calls, if these are not known to read only.
    pub calls: BTreeSet<Called>,
}

/// Function outside of any text: one of the database, or one that a view or policy calls.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Called {
    /// Schema of the function.
    pub schema: Box<str>,
    /// Name of the function.
    pub name: Box<str>,
}

impl Relation {
    /// Adds what other relations reach.
    pub(crate) fn join(&mut self, other: &Self) {
        self.why = self.why.or(other.why);
        self.reads_catalogue |= other.reads_catalogue;
        self.calls.extend(other.calls.iter().cloned());
    }
}

/// Names of functions in a list: `name`, `schema.name`, `name*`, `schema.*`. Case does not count.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    schema: Option<Box<str>>,
    name: Box<str>,
    /// True if further characters may follow `name`.
    is_open: bool,
}

/// A text that is no [`Pattern`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPattern(Box<str>);

impl fmt::Display for BadPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is no name of functions; write name, schema.name, name* or schema.*",
            self.0
        )
    }
}

impl Error for BadPattern {}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(schema) = &self.schema {
            write!(f, "{schema}.")?;
        }
        let end = if self.is_open { "*" } else { "" };
        write!(f, "{}{end}", self.name)
    }
}

impl Pattern {
    /// Makes a pattern for functions of this name or, if it is open, of all names that begin so. Names are as PostgreSQL
    /// has them in its catalogue.
    #[must_use]
    pub fn new(schema: Option<&str>, name: &str, is_open: bool) -> Self {
        Self {
            schema: schema.map(Into::into),
            name: name.into(),
            is_open,
        }
    }

    /// Reads a pattern.
    ///
    /// # Errors
    /// The text has more than two parts, an empty one, or a `*` that is not its end.
    pub fn read(text: &str) -> Result<Self, BadPattern> {
        let bad = || BadPattern(text.into());
        let folded = text.trim().to_lowercase();
        let (schema, name) = match folded.split_once('.') {
            Some((schema, name)) => (Some(schema), name),
            None => (None, folded.as_str()),
        };
        let (name, is_open) = match name.strip_suffix('*') {
            Some(name) => (name, true),
            None => (name, false),
        };
        let is_empty = name.is_empty() && !(is_open && schema.is_some());
        let is_plain = |part: &str| !part.contains(['.', '*', '(', ' ']);
        if is_empty
            || schema.is_some_and(|part| part.is_empty() || !is_plain(part))
            || !is_plain(name)
        {
            return Err(bad());
        }
        Ok(Self {
            schema: schema.map(Into::into),
            name: name.into(),
            is_open,
        })
    }

    /// True if a statement that writes a name like this names what the pattern is for: a pattern without a schema is for any
    /// schema, one with a schema only for names that are written with it.
    #[must_use]
    pub fn covers(&self, schema: Option<&str>, name: &str) -> bool {
        self.matches(schema, name, None)
    }

    /// True for a function of this name. A call without a schema may mean each of the database's own functions.
    fn matches(&self, schema: Option<&str>, name: &str, own: Option<&Own>) -> bool {
        let fits = match self.is_open {
            true => name.starts_with(&*self.name),
            false => *name == *self.name,
        };
        let is_in = match (&self.schema, schema) {
            (None, _) => true,
            (Some(wanted), Some(schema)) => **wanted == *schema,
            (Some(wanted), None) => own.is_some_and(|own| own.schemas.contains(wanted)),
        };
        fits && is_in
    }

    /// True if a call without a schema certainly means this function.
    fn is_certain(&self, schema: Option<&str>) -> bool {
        self.schema.is_none() || schema.is_some()
    }
}

/// Everything that is known about the names in a text.
#[derive(Clone, Debug, Default)]
pub struct Names {
    primary: Vec<Pattern>,
    read: Vec<Pattern>,
    objects: Arc<Objects>,
}

impl Names {
    /// Makes the names of a database from its lists `primary_functions` and `read_functions`. As long as its objects are
    /// unknown, its own functions belong to the primary.
    #[must_use]
    pub fn new(primary: Vec<Pattern>, read: Vec<Pattern>) -> Self {
        Self {
            primary,
            read,
            objects: Arc::default(),
        }
    }

    /// Returns these names with the database's present objects.
    #[must_use]
    pub fn with_objects(mut self, objects: &Arc<Objects>) -> Self {
        self.objects = Arc::clone(objects);
        self
    }

    /// Returns a number that differs, but for a negligible chance, if the lists differ.
    pub(crate) fn lists(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.primary, &self.read).hash(&mut hasher);
        hasher.finish()
    }

    /// True if [`Names::relation`] may know a relation of this name, whose case need not be the name's.
    #[inline]
    pub(super) fn may_be_relation(&self, name: &[u8]) -> bool {
        self.objects.sieve.may_pass(name)
    }

    /// True if the database has a function of this name outside `pg_catalog`.
    pub(super) fn has_function(&self, name: &str) -> bool {
        self.objects.functions.contains_key(name)
    }

    /// Returns the reason for which a function is not for replicas. The names are as the catalogue has them.
    pub(super) fn function(&self, schema: Option<&str>, name: &str) -> Result<(), Why> {
        let own = match schema {
            Some("pg_catalog") => None,
            _ => self.objects.functions.get(name),
        };
        let is_in = |entry: &Pattern| entry.matches(schema, name, own);
        if self.primary.iter().any(is_in) {
            return Err(Why::Listed);
        }
        let mut reads = self.read.iter().filter(|entry| entry.is_certain(schema));
        if reads.any(is_in) {
            return Ok(());
        }
        if own.is_some_and(|own| own.is_volatile) {
            return Err(Why::Volatile);
        }
        let is_built_in = schema.is_none_or(|schema| schema == "pg_catalog");
        let is_own = own.is_some_and(|own| schema.is_some() || !own.is_built_in_too);
        if is_own || (is_built_in && reads_only(name)) {
            return Ok(());
        }
        let reason = REASONS.iter().find(|(start, _)| name.starts_with(start));
        Err(reason
            .filter(|_| is_built_in)
            .map_or(Why::Unknown, |(_, why)| *why))
    }

    /// Returns the reason for which a relation is not for replicas, else true if reading it reads the system catalogue.
    pub(super) fn relation(&self, schema: Option<&str>, name: &str) -> Result<bool, Why> {
        if schema.is_some_and(|schema| schema.starts_with("pg_temp")) {
            return Err(Why::Session);
        }
        if let Some(found) = of_system(schema, name) {
            return found;
        }
        let Some(relation) = self.objects.relations.get(name) else {
            return Ok(false);
        };
        if let Some(why) = relation.why {
            return Err(why);
        }
        for called in &relation.calls {
            self.function(Some(&called.schema), &called.name)?;
        }
        Ok(relation.reads_catalogue)
    }
}

/// Returns the same as [`Names::relation`] for a relation of PostgreSQL's own; `None` for any other.
pub(crate) fn of_system(schema: Option<&str>, name: &str) -> Option<Result<bool, Why>> {
    match schema {
        Some("information_schema") => Some(Ok(true)),
        // Without a schema, pg_catalog comes first.
        Some("pg_catalog") => Some(in_catalogue(name)),
        None if name.starts_with("pg_") => Some(in_catalogue(name)),
        _ => None,
    }
}

fn in_catalogue(name: &str) -> Result<bool, Why> {
    let found = CATALOGUE.binary_search(&name);
    found.map(|_| true).map_err(|_| Why::Host)
}

/// True for functions of `pg_catalog` that read only.
pub(crate) fn reads_only(name: &str) -> bool {
    static NAMES: OnceLock<HashSet<&'static str>> = OnceLock::new();
    let names = NAMES.get_or_init(|| READS.split_ascii_whitespace().collect());
    names.contains(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_can_be_searched() {
        assert!(CATALOGUE.is_sorted());
        assert!(READS.split_ascii_whitespace().is_sorted());
    }

    #[test]
    fn patterns_have_one_or_two_parts() {
        for text in ["f", "s.f", "s.*", "F*", " app.search "] {
            assert!(Pattern::read(text).is_ok(), "{text}");
        }
        for text in ["", "*", ".f", "s.", "a.b.c", "a*b", "f()", "s*.f", "a b"] {
            let error = Pattern::read(text).unwrap_err().to_string();
            assert!(error.contains("schema.name"), "{error}");
        }
    }

    fn names(primary: &[&str], read: &[&str]) -> Names {
        let all = |list: &[&str]| {
            list.iter()
                .map(|text| Pattern::read(text).unwrap())
                .collect()
        };
        let mut objects = Objects::default();
        for (schema, name, is_volatile) in [
            ("public", "steady", false),
            ("public", "changes", true),
            ("app", "lower", true),
            ("billing", "total", false),
        ] {
            let function = Called {
                schema: schema.into(),
                name: name.into(),
            };
            let nature = Nature {
                is_volatile,
                is_built_in_too: name == "lower",
            };
            objects.add_function(&function, nature);
        }
        Names::new(all(primary), all(read)).with_objects(&Arc::new(objects))
    }

    #[test]
    fn the_first_list_wins_then_the_database_then_postgresql() {
        let plain = names(&[], &[]);
        assert_eq!(plain.function(None, "steady"), Ok(()));
        assert_eq!(plain.function(Some("s"), "steady"), Ok(()));
        assert_eq!(plain.function(None, "changes"), Err(Why::Volatile));
        assert_eq!(plain.function(None, "upper"), Ok(()));
        assert_eq!(plain.function(None, "lower"), Err(Why::Volatile));
        assert_eq!(plain.function(Some("pg_catalog"), "lower"), Ok(()));
        assert_eq!(plain.function(None, "nobody_knows"), Err(Why::Unknown));
        // A function of another schema is not PostgreSQL's.
        assert_eq!(plain.function(Some("s"), "upper"), Err(Why::Unknown));
        let listed = names(&["upper", "billing.*"], &["changes", "app.search", "st_*"]);
        assert_eq!(listed.function(None, "upper"), Err(Why::Listed));
        assert_eq!(listed.function(None, "initcap"), Ok(()));
        assert_eq!(listed.function(None, "steady"), Ok(()));
        assert_eq!(listed.function(None, "total"), Err(Why::Listed));
        assert_eq!(listed.function(None, "changes"), Ok(()));
        assert_eq!(listed.function(Some("app"), "search"), Ok(()));
        assert_eq!(listed.function(None, "st_distance"), Ok(()));
        assert_eq!(
            listed.function(Some("billing"), "anything"),
            Err(Why::Listed)
        );
    }

    #[test]
    fn without_a_schema_a_name_reads_only_if_no_schema_says_otherwise() {
        // `search` may be a function of another schema than app.
        let read = names(&[], &["app.search"]);
        assert_eq!(read.function(None, "search"), Err(Why::Unknown));
        let primary = names(&["billing.total"], &[]);
        assert_eq!(primary.function(None, "total"), Err(Why::Listed));
    }
}
