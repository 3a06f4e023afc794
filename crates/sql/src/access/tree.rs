//! Step 2: where a text may run, by PostgreSQL's own parse tree.
//!
//! A statement of any kind that is not known to read, at any depth, belongs to the primary.

use pg_query::ParserOptions;
use serde_json::Value;

use super::settings::host_setting;
use super::{Access, Cause, Isolation, Modes, Names, Why};
use crate::parsed::{Visitor, called, flag, number, statements, text, walk};

/// Kinds of nodes that end in `Stmt` and belong to a SELECT.
const PARTS: [&str; 2] = ["SelectStmt", "RawStmt"];

/// Returns where a text may run; `None` if it has no tree ([`statements`]).
pub(super) fn access(text: &str, names: &Names) -> Option<Access> {
    let trees = statements(text, ParserOptions::DEFAULT)?;
    let mut all: Option<Access> = None;
    for tree in &trees {
        let access = statement_access(tree.pointer("/stmt/node")?, names)?;
        all = Some(match all {
            None => access,
            Some(before) => before.beside(access),
        });
    }
    Some(all.unwrap_or(Access::Anywhere))
}

/// Returns where a statement may run, given its node: an object with one field, its kind.
fn statement_access(node: &Value, names: &Names) -> Option<Access> {
    let (kind, fields) = node.as_object()?.iter().next()?;
    let inner = |field: &str| {
        let inner = fields.pointer(&format!("/{field}/node"))?;
        statement_access(inner, names)
    };
    Some(match kind.as_str() {
        "SelectStmt" => read(node, names),
        "ExplainStmt" => explain(inner("query")?),
        "CopyStmt" => copy(fields, names)?,
        "DeclareCursorStmt" | "PrepareStmt" => inner("query")?,
        "TransactionStmt" => transaction(fields),
        "VariableSetStmt" => set(fields),
        "VariableShowStmt" => match host_setting(text(fields, "name")) {
            Some(name) => Access::Primary(Cause::Setting(name)),
            None => Access::Anywhere,
        },
        "FetchStmt" | "ClosePortalStmt" | "ConstraintsSetStmt" | "DeallocateStmt"
        | "DiscardStmt" => Access::Anywhere,
        kind => Access::Primary(statement(kind)),
    })
}

/// Names a kind of statement as SQL does: `AlterTableStmt` is `ALTER TABLE`.
fn statement(kind: &str) -> Cause {
    let mut words = String::new();
    for letter in kind.strip_suffix("Stmt").unwrap_or(kind).chars() {
        if letter.is_ascii_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.push(letter.to_ascii_uppercase());
    }
    Cause::Statement(words.into())
}

/// EXPLAIN goes where its statement goes. Without ANALYZE it only plans, but with the statistics of the host that would
/// execute the statement.
fn explain(inner: Access) -> Access {
    match inner {
        Access::Anywhere | Access::Begin(_) => Access::Primary(statement("ExplainStmt")),
        Access::Primary(_) | Access::Read { .. } => inner,
    }
}

/// COPY TO STDOUT of a table or a query that reads.
fn copy(fields: &Value, names: &Names) -> Option<Access> {
    let is_from = flag(fields, "is_from");
    let is_elsewhere = flag(fields, "is_program") || !text(fields, "filename").is_empty();
    if is_from || is_elsewhere {
        return Some(Access::Primary(statement("CopyStmt")));
    }
    match fields.pointer("/query/node") {
        Some(query) => statement_access(query, names),
        None => Some(read(fields, names)),
    }
}

fn transaction(fields: &Value) -> Access {
    /// Numbers of `TransactionStmtKind` in pg_query.proto.
    const BEGIN: i64 = 1;
    const START: i64 = 2;
    const PREPARE: i64 = 8;
    match number(fields, "kind") {
        BEGIN | START => Access::Begin(modes(fields)),
        // PREPARE TRANSACTION, COMMIT PREPARED, ROLLBACK PREPARED
        PREPARE.. => Access::Primary(Cause::Statement("PREPARE TRANSACTION".into())),
        _ => Access::Anywhere,
    }
}

/// Reads the modes of a BEGIN or a SET TRANSACTION.
fn modes(fields: &Value) -> Modes {
    let mut modes = Modes::default();
    let lists = ["options", "args"];
    let options = lists
        .iter()
        .filter_map(|list| fields.get(*list)?.as_array());
    for option in options.flatten() {
        let Some(element) = option.pointer("/node/DefElem") else {
            continue;
        };
        let constant = element.pointer("/arg/node/AConst/val");
        match text(element, "defname") {
            "transaction_read_only" => {
                let number = constant.and_then(|value| value.pointer("/Ival/ival"));
                modes.read_only = Some(number.and_then(Value::as_i64).unwrap_or_default() != 0);
            }
            "transaction_isolation" => {
                let level = constant.and_then(|value| value.pointer("/Sval/sval"));
                let level = level.and_then(Value::as_str);
                // PostgreSQL refuses other names.
                modes.isolation = level.and_then(Isolation::named).or(modes.isolation);
            }
            _ => {}
        }
    }
    modes
}

/// SET goes with the session, except what decides which host is needed.
fn set(fields: &Value) -> Access {
    let name = text(fields, "name").to_ascii_lowercase();
    if name == "transaction" || name == "session characteristics" {
        let modes = modes(fields);
        return match modes.is_serializable() || modes.read_only == Some(false) {
            true => Access::Primary(Cause::Setting(name.into())),
            false => Access::Anywhere,
        };
    }
    match host_setting(&name) {
        Some(name) => Access::Primary(Cause::Setting(name)),
        None => Access::Anywhere,
    }
}

/// Returns where a SELECT may run, by everything in it.
fn read(tree: &Value, names: &Names) -> Access {
    let mut found = Found {
        names,
        reads_catalogue: false,
        cause: None,
    };
    walk(tree, &mut found);
    match found.cause {
        Some(cause) => Access::Primary(cause),
        None => Access::Read {
            reads_catalogue: found.reads_catalogue,
        },
    }
}

struct Found<'a> {
    names: &'a Names,
    reads_catalogue: bool,
    /// First reason found for the primary.
    cause: Option<Cause>,
}

impl Visitor for Found<'_> {
    type Scope = ();

    fn enter(&mut self, name: &str, value: &Value) {
        match name {
            "FuncCall" | "funccall" => self.call(value),
            "into_clause" if value.is_object() => self.found(Cause::Into),
            "LockingClause" => self.found(Cause::Locks),
            "RangeVar" | "relation" => self.relation(value),
            kind if kind.ends_with("Stmt") && !PARTS.contains(&kind) => {
                self.found(statement(kind));
            }
            _ => {}
        }
    }

    fn leave(&mut self, (): ()) {}
}

impl Found<'_> {
    fn found(&mut self, cause: Cause) {
        self.cause.get_or_insert(cause);
    }

    fn relation(&mut self, relation: &Value) {
        let name = text(relation, "relname");
        if name.is_empty() {
            return;
        }
        let schema = Some(text(relation, "schemaname")).filter(|schema| !schema.is_empty());
        match self.names.relation(schema, name) {
            Ok(is_catalogue) => self.reads_catalogue |= is_catalogue,
            Err(why) => self.found(Cause::Relation(name.into(), why)),
        }
    }

    fn call(&mut self, call: &Value) {
        let (schema, name) = called(call);
        if is_current_setting(schema, name) {
            return self.setting(call);
        }
        if let Err(why) = self.names.function(schema, name) {
            self.found(Cause::Function(name.into(), why));
        }
    }

    /// `current_setting` of a setting of the session, named by a constant.
    fn setting(&mut self, call: &Value) {
        let name = call.pointer("/args/0/node/AConst/val/Sval/sval");
        match name.and_then(Value::as_str) {
            None => self.found(Cause::Function("current_setting".into(), Why::Host)),
            Some(name) => {
                if let Some(name) = host_setting(name) {
                    self.found(Cause::Setting(name));
                }
            }
        }
    }
}

fn is_current_setting(schema: Option<&str>, name: &str) -> bool {
    name == "current_setting" && schema.is_none_or(|schema| schema == "pg_catalog")
}
