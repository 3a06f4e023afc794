//! Step 2: where a text may run, by PostgreSQL's own parse tree.
//!
//! The tree is walked as generic values, so that no kind of node is missed: a statement of any kind that is not known
//! to read, at any depth, belongs to the primary.

use std::panic::catch_unwind;

use serde_json::Value;

use super::{Access, Cause, Modes, Names, Why};

/// Settings that each host has for itself, or that decide which host is needed.
const HOST_SETTINGS: [&str; 10] = [
    "config_file",
    "data_directory",
    "default_transaction_isolation",
    "default_transaction_read_only",
    "hba_file",
    "in_hot_standby",
    "port",
    "primary_conninfo",
    "transaction_isolation",
    "transaction_read_only",
];

/// Beginnings of names of settings that each host has for itself.
const HOST_PREFIXES: [&str; 3] = ["recovery_", "hot_standby", "synchronous_standby"];

/// Kinds of nodes that end in `Stmt` and belong to a SELECT.
const PARTS: [&str; 2] = ["SelectStmt", "RawStmt"];

/// Returns where a text may run; none if PostgreSQL's grammar rejects it, or if it is nested too deep.
pub(super) fn access(text: &str, names: &Names) -> Option<Access> {
    // The parser would panic on an unknown kind of node.
    let parsed = catch_unwind(|| pg_query::parse(text, pg_query::ParserOptions::DEFAULT));
    let parsed = parsed.ok()?.ok()?;
    let mut all: Option<Access> = None;
    for statement in &parsed.protobuf.stmts {
        let tree = serde_json::to_value(statement).ok()?;
        let access = statement_access(tree.pointer("/stmt/node")?, names)?;
        all = Some(match all {
            None => access,
            Some(before) => before.join(access),
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
        "SelectStmt" => walk(node, names),
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
        None => Some(walk(fields, names)),
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
                modes.is_serializable |= level.and_then(Value::as_str) == Some("serializable");
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
        return match modes.is_serializable || modes.read_only == Some(false) {
            true => Access::Primary(Cause::Setting(name.into())),
            false => Access::Anywhere,
        };
    }
    match host_setting(&name) {
        Some(name) => Access::Primary(Cause::Setting(name)),
        None => Access::Anywhere,
    }
}

fn host_setting(name: &str) -> Option<Box<str>> {
    let name = name.to_ascii_lowercase();
    let is_one = HOST_SETTINGS.contains(&name.as_str())
        || HOST_PREFIXES.iter().any(|start| name.starts_with(start));
    is_one.then(|| name.into())
}

/// Returns where a SELECT may run, by everything in it.
fn walk(tree: &Value, names: &Names) -> Access {
    let mut walk = Walk {
        names,
        reads_catalogue: false,
        cause: None,
    };
    walk.value(tree);
    match walk.cause {
        Some(cause) => Access::Primary(cause),
        None => Access::Read {
            reads_catalogue: walk.reads_catalogue,
        },
    }
}

struct Walk<'a> {
    names: &'a Names,
    reads_catalogue: bool,
    /// First reason found for the primary.
    cause: Option<Cause>,
}

impl Walk<'_> {
    fn value(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => fields.iter().for_each(|field| self.field(field)),
            Value::Array(values) => values.iter().for_each(|value| self.value(value)),
            _ => {}
        }
    }

    /// Visits a field of a value: either the kind and fields of a node, or the name and value of a field.
    fn field(&mut self, (name, value): (&String, &Value)) {
        match name.as_str() {
            "FuncCall" | "funccall" => self.call(value),
            "into_clause" if value.is_object() => self.found(Cause::Into),
            "LockingClause" => self.found(Cause::Locks),
            "RangeVar" | "relation" => self.relation(value),
            kind if kind.ends_with("Stmt") && !PARTS.contains(&kind) => {
                self.found(statement(kind));
            }
            _ => {}
        }
        self.value(value);
    }

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
        let parts = call.get("funcname").and_then(Value::as_array);
        let mut parts = parts.into_iter().flatten().rev().map(|part| {
            let name = part.pointer("/node/String/sval");
            name.and_then(Value::as_str).unwrap_or_default()
        });
        let name = parts.next().unwrap_or_default();
        let schema = parts.next();
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

fn text<'a>(node: &'a Value, field: &str) -> &'a str {
    node.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn number(node: &Value, field: &str) -> i64 {
    node.get(field).and_then(Value::as_i64).unwrap_or_default()
}

fn flag(node: &Value, field: &str) -> bool {
    node.get(field).and_then(Value::as_bool).unwrap_or_default()
}
