//! Facts of a statement that rules ask for: its kind, the tables and functions that it names, its fingerprint.

use std::fmt;

use pg_query::ParserOptions;
use serde_json::Value;

use crate::fingerprint::{Fingerprint, STATEMENT_MAX};
use crate::parsed::{Visitor, called, statements, text, walk};

/// Kind of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StatementKind {
    /// CALL
    Call,
    /// COPY
    Copy,
    /// CREATE, ALTER, DROP, TRUNCATE, COMMENT, GRANT, REVOKE, and what else changes the schema.
    Ddl,
    /// DELETE
    Delete,
    /// DO
    Do,
    /// EXPLAIN
    Explain,
    /// INSERT
    Insert,
    /// MERGE
    Merge,
    /// SELECT, VALUES, TABLE
    Select,
    /// SET, RESET, SHOW
    Setting,
    /// BEGIN, COMMIT, ROLLBACK, SAVEPOINT, PREPARE TRANSACTION
    Transaction,
    /// UPDATE
    Update,
    /// Any other statement, such as VACUUM, LISTEN or LOCK.
    Utility,
}

impl StatementKind {
    /// All kinds with their names in a configuration.
    pub const NAMES: [(&'static str, Self); 13] = [
        ("call", Self::Call),
        ("copy", Self::Copy),
        ("ddl", Self::Ddl),
        ("delete", Self::Delete),
        ("do", Self::Do),
        ("explain", Self::Explain),
        ("insert", Self::Insert),
        ("merge", Self::Merge),
        ("select", Self::Select),
        ("setting", Self::Setting),
        ("transaction", Self::Transaction),
        ("update", Self::Update),
        ("utility", Self::Utility),
    ];

    /// True if the fingerprint of a statement of this kind tells what it does: not of those whose text is a literal.
    #[must_use]
    pub fn has_telling_fingerprint(self) -> bool {
        matches!(
            self,
            Self::Call
                | Self::Delete
                | Self::Explain
                | Self::Insert
                | Self::Merge
                | Self::Select
                | Self::Update
        )
    }

    fn of(node: &str) -> Self {
        match node {
            "CallStmt" => Self::Call,
            "CopyStmt" => Self::Copy,
            "DeleteStmt" => Self::Delete,
            "DoStmt" => Self::Do,
            "ExplainStmt" => Self::Explain,
            "InsertStmt" => Self::Insert,
            "MergeStmt" => Self::Merge,
            "SelectStmt" => Self::Select,
            "TransactionStmt" => Self::Transaction,
            "UpdateStmt" => Self::Update,
            "VariableSetStmt" | "VariableShowStmt" => Self::Setting,
            node if DDL.iter().any(|begin| node.starts_with(begin)) => Self::Ddl,
            _ => Self::Utility,
        }
    }
}

impl fmt::Display for StatementKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = Self::NAMES.iter().find(|(_, kind)| kind == self);
        formatter.write_str(found.map_or("", |(name, _)| *name))
    }
}

/// Beginnings of the names of nodes that change the schema.
const DDL: [&str; 15] = [
    "Alter",
    "Comment",
    "CompositeType",
    "Create",
    "Createdb",
    "Define",
    "Drop",
    "Grant",
    "Import",
    "Index",
    "Refresh",
    "Rename",
    "Rule",
    "Truncate",
    "View",
];

/// A name in a statement, folded as PostgreSQL folds it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Named {
    /// The schema, if the statement names one.
    pub schema: Option<String>,
    /// Name of the table or function.
    pub name: String,
}

/// Facts of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Kind of the statement.
    pub kind: StatementKind,
    /// Tables and views at any depth; a name that a WITH clause gives counts too.
    pub tables: Vec<Named>,
    /// Functions that are called at any depth, other than by operators and casts.
    pub functions: Vec<Named>,
    /// Fingerprint for rules ([`Fingerprint::exact`]).
    pub fingerprint: Option<Fingerprint>,
    /// Greatest number of a parameter, such as 2 for `$2`; 0 without parameters.
    pub parameters: u32,
}

impl Facts {
    /// Reads a statement. `None` if PostgreSQL's grammar (version 18) rejects it, if it is longer than 2 KiB, nested too
    /// deeply, or not exactly one statement.
    ///
    /// ```
    /// use weir_sql::{Facts, StatementKind};
    ///
    /// let facts = Facts::of("SELECT app.total(id) FROM shop.orders WHERE id = $1").unwrap();
    /// assert_eq!(facts.kind, StatementKind::Select);
    /// assert_eq!((facts.tables[0].name.as_str(), facts.functions[0].name.as_str()), ("orders", "total"));
    /// assert_eq!(facts.parameters, 1);
    /// ```
    #[must_use]
    pub fn of(statement: &str) -> Option<Self> {
        if statement.len() > STATEMENT_MAX {
            return None;
        }
        let trees = statements(statement, ParserOptions::default())?;
        let [tree] = trees.as_slice() else {
            return None;
        };
        let node = tree.pointer("/stmt/node")?.as_object()?.keys().next()?;
        let mut found = Found {
            facts: Self {
                kind: StatementKind::of(node),
                tables: Vec::new(),
                functions: Vec::new(),
                fingerprint: Fingerprint::exact(statement),
                parameters: 0,
            },
        };
        walk(tree, &mut found);
        let mut facts = found.facts;
        for names in [&mut facts.tables, &mut facts.functions] {
            names.sort();
            names.dedup();
        }
        Some(facts)
    }
}

struct Found {
    facts: Facts,
}

impl Visitor for Found {
    type Scope = ();

    fn enter(&mut self, name: &str, value: &Value) {
        match name {
            "FuncCall" | "funccall" => {
                let (schema, name) = called(value);
                let schema = schema.map(str::to_owned);
                self.facts.functions.push(Named {
                    schema,
                    name: name.to_owned(),
                });
            }
            "ParamRef" => {
                let number = value.get("number").and_then(Value::as_u64);
                let number = number.and_then(|number| u32::try_from(number).ok());
                self.facts.parameters = self.facts.parameters.max(number.unwrap_or_default());
            }
            // A table stands in fields of several names.
            _ if value.get("relname").is_some() => {
                let schema = text(value, "schemaname");
                self.facts.tables.push(Named {
                    schema: (!schema.is_empty()).then(|| schema.to_owned()),
                    name: text(value, "relname").to_owned(),
                });
            }
            _ => {}
        }
    }

    fn leave(&mut self, (): ()) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[Named]) -> Vec<String> {
        let shown = names.iter().map(|named| match &named.schema {
            Some(schema) => format!("{schema}.{}", named.name),
            None => named.name.clone(),
        });
        shown.collect()
    }

    #[test]
    fn kinds_are_those_of_the_outermost_statement() {
        for (text, kind) in [
            ("SELECT 1", "select"),
            ("VALUES (1)", "select"),
            ("TABLE t", "select"),
            (
                "WITH a AS (DELETE FROM t RETURNING *) SELECT * FROM a",
                "select",
            ),
            ("INSERT INTO t SELECT 1", "insert"),
            ("UPDATE t SET a = 1", "update"),
            ("DELETE FROM t", "delete"),
            (
                "MERGE INTO t USING u ON true WHEN MATCHED THEN DELETE",
                "merge",
            ),
            ("COPY t TO STDOUT", "copy"),
            ("BEGIN", "transaction"),
            ("ROLLBACK TO SAVEPOINT a", "transaction"),
            ("SET a.b = 1", "setting"),
            ("SHOW search_path", "setting"),
            ("EXPLAIN SELECT 1", "explain"),
            ("CREATE TABLE t (a int)", "ddl"),
            ("CREATE INDEX ON t (a)", "ddl"),
            ("CREATE VIEW v AS SELECT 1", "ddl"),
            ("ALTER TABLE t RENAME TO u", "ddl"),
            ("DROP TABLE t", "ddl"),
            ("TRUNCATE t", "ddl"),
            ("GRANT SELECT ON t TO u", "ddl"),
            ("VACUUM t", "utility"),
            ("LISTEN a", "utility"),
            ("CALL p()", "call"),
            ("DO 'x'", "do"),
        ] {
            let facts = Facts::of(text);
            let found = facts.map(|facts| facts.kind.to_string());
            assert_eq!(found.as_deref(), Some(kind), "{text}");
        }
    }

    #[test]
    fn tables_and_functions_are_found_at_any_depth() {
        for (text, tables, functions) in [
            (
                "SELECT f(a), s.g(b) FROM t JOIN s.u ON true",
                &["t", "s.u"][..],
                &["f", "s.g"][..],
            ),
            (
                "SELECT * FROM a WHERE b IN (SELECT c FROM d WHERE h(c) > 1)",
                &["a", "d"],
                &["h"],
            ),
            ("INSERT INTO t SELECT * FROM u", &["t", "u"], &[]),
            ("UPDATE t SET a = u.a FROM u", &["t", "u"], &[]),
            ("DELETE FROM \"T\" USING u", &["T", "u"], &[]),
            (
                "MERGE INTO t USING u ON true WHEN MATCHED THEN DELETE",
                &["t", "u"],
                &[],
            ),
            ("COPY s.t TO STDOUT", &["s.t"], &[]),
            ("CREATE TABLE n AS SELECT * FROM t", &["n", "t"], &[]),
            ("TRUNCATE t, s.u", &["t", "s.u"], &[]),
            ("LOCK TABLE t", &["t"], &[]),
            (
                "WITH a AS (SELECT * FROM t) SELECT * FROM a",
                &["a", "t"],
                &[],
            ),
            (
                "SELECT * FROM generate_series(1, 2)",
                &[],
                &["generate_series"],
            ),
            ("CALL s.p(f(1))", &[], &["f", "s.p"]),
        ] {
            let facts = Facts::of(text).unwrap();
            let sorted = |expected: &[&str]| {
                let mut expected: Vec<_> = expected.iter().map(|name| (*name).to_owned()).collect();
                expected.sort();
                expected
            };
            let mut found = (names(&facts.tables), names(&facts.functions));
            found.0.sort();
            found.1.sort();
            assert_eq!(found, (sorted(tables), sorted(functions)), "{text}");
        }
    }

    #[test]
    fn what_is_not_one_statement_has_no_facts() {
        for text in [
            "",
            "SELECT 1; SELECT 2",
            "SELECT 1 +",
            &format!("SELECT {}", "a + ".repeat(600)),
        ] {
            assert!(Facts::of(text).is_none(), "{text}");
        }
        assert_eq!(Facts::of("SELECT $3, $1;").unwrap().parameters, 3);
    }
}
