//! Step 2: PostgreSQL's own grammar says what a text may do.

use serde_json::Value;

use crate::effects::{Channel, Effects, Resets, Sequences};
use crate::functions::{Functions, Kind};
use crate::lex::Lexer;
use crate::reason::Reason;
use crate::scan::is_temporary_schema;

/// Longer texts are not parsed.
const LENGTH_MAX: usize = 64 * 1024;

/// What the text may do to its session. Never panics; of a text that PostgreSQL 18's grammar does
/// not take, or that is beyond the limits, everything possible.
pub fn judge(text: &[u8], functions: &Functions) -> Effects {
    parse(text).map_or_else(unknown, |statements| {
        let mut effects = Effects {
            statements: statements.len(),
            ..Effects::default()
        };
        for statement in &statements {
            top(statement, functions, &mut effects);
        }
        effects
    })
}

fn unknown() -> Effects {
    let mut effects = Effects {
        frees: true,
        ..Effects::default()
    };
    effects.may_leave(Reason::Unknown);
    effects.sequences(Sequences::Reads);
    effects
}

/// The statements of a text, as values.
fn parse(text: &[u8]) -> Option<Vec<Value>> {
    if text.len() > LENGTH_MAX || !is_clear(text) {
        return None;
    }
    let text = String::from_utf8_lossy(text);
    let parsed = std::panic::catch_unwind(|| pg_query::parse(&text, 0))
        .ok()?
        .ok()?;
    let Value::Object(mut tree) = serde_json::to_value(&parsed.protobuf).ok()? else {
        return None;
    };
    let Value::Array(statements) = tree.remove("stmts")? else {
        return None;
    };
    Some(statements)
}

fn is_clear(text: &[u8]) -> bool {
    let mut lexer = Lexer::new(text);
    loop {
        match lexer.token() {
            Ok(Some(_)) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// A whole statement: `{stmt: {node: {SelectStmt: {..}}}, ..}`.
fn top(statement: &Value, functions: &Functions, effects: &mut Effects) {
    let Some((kind, node)) = statement.get("stmt").and_then(node) else {
        return;
    };
    utility(kind, node, effects);
    walk(statement, functions, effects);
}

fn node(value: &Value) -> Option<(&str, &Value)> {
    let node = value.get("node")?.as_object()?;
    node.iter().next().map(|(kind, node)| (kind.as_str(), node))
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

fn utility(kind: &str, node: &Value, effects: &mut Effects) {
    match kind {
        "VariableSetStmt" => set(node, effects),
        "DiscardStmt" => discard(number(node, "target"), effects),
        "PrepareStmt" => effects.may_leave(Reason::Prepared),
        "DeallocateStmt" | "ClosePortalStmt" | "DropStmt" | "DropOwnedStmt" => effects.frees = true,
        "ListenStmt" => {
            effects.may_leave(Reason::Listen);
            channel(effects, Channel::Listen(cut(text(node, "conditionname"))));
        }
        "UnlistenStmt" => {
            effects.frees = true;
            let name = text(node, "conditionname");
            let gone = if name.is_empty() {
                Channel::UnlistenAll
            } else {
                Channel::Unlisten(cut(name))
            };
            channel(effects, gone);
        }
        "LoadStmt" => effects.leaves(Reason::Library),
        "DoStmt" | "CallStmt" | "ExecuteStmt" => effects.ask_all(),
        "DeclareCursorStmt" if number(node, "options") & 0x20 != 0 => {
            effects.may_leave(Reason::Cursor);
        }
        _ => {}
    }
}

fn channel(effects: &mut Effects, channel: Channel) {
    if effects.statements == 1 {
        effects.channel = Some(channel);
    }
}

fn cut(name: &str) -> Box<[u8]> {
    name.bytes().take(63).collect()
}

fn discard(target: i64, effects: &mut Effects) {
    // DISCARD_ALL, _PLANS, _SEQUENCES, _TEMP.
    match target {
        2 => {}
        3 | 4 => effects.frees = true,
        _ => {
            effects.frees = true;
            effects.resets = Resets::All;
            effects.ask_all();
        }
    }
}

fn set(node: &Value, effects: &mut Effects) {
    if flag(node, "is_local") {
        return;
    }
    let name = text(node, "name").to_ascii_lowercase();
    // VAR_SET_VALUE, _DEFAULT, _CURRENT, _MULTI, VAR_RESET, VAR_RESET_ALL.
    match number(node, "kind") {
        1 if name == "seed" => effects.leaves(Reason::Seed),
        1 => ask(&name, effects),
        2 | 5 => {
            effects.reset(&name);
            ask(&name, effects);
        }
        4 if name.eq_ignore_ascii_case("transaction")
            || name.eq_ignore_ascii_case("transaction snapshot") => {}
        4 if name.eq_ignore_ascii_case("session characteristics") => {
            for name in ["isolation", "read_only", "deferrable"] {
                effects.ask(&format!("default_transaction_{name}"));
            }
        }
        6 => {
            effects.resets = Resets::All;
            effects.ask_all();
        }
        _ => effects.ask_all(),
    }
}

fn ask(name: &str, effects: &mut Effects) {
    if !name.is_ascii() {
        effects.ask_all();
    }
    effects.ask(name);
    if name == "session_authorization" {
        effects.ask("role");
    }
}

/// Everything below: calls, temporary relations, names of temporary schemas.
fn walk(value: &Value, functions: &Functions, effects: &mut Effects) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match name.as_str() {
                    "FuncCall" | "funccall" => call(field, functions, effects),
                    "relpersistence" if field == "t" => effects.may_leave(Reason::TemporaryObject),
                    "catalogname" | "schemaname" | "sval" if is_temporary(field) => {
                        effects.may_leave(Reason::TemporaryObject);
                    }
                    _ => {}
                }
                walk(field, functions, effects);
            }
        }
        Value::Array(values) => values
            .iter()
            .for_each(|value| walk(value, functions, effects)),
        _ => {}
    }
}

fn is_temporary(name: &Value) -> bool {
    name.as_str()
        .is_some_and(|name| is_temporary_schema(name.as_bytes()))
}

fn call(call: &Value, functions: &Functions, effects: &mut Effects) {
    let names: Vec<&str> = call
        .get("funcname")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|part| part.pointer("/node/String/sval").and_then(Value::as_str))
        .collect();
    let Some((name, schemas)) = names.split_last() else {
        return;
    };
    let schema = schemas.last().map(|schema| schema.as_bytes());
    if functions.is_listed(schema, name.as_bytes()) {
        effects.leaves(Reason::Function);
    }
    match functions.built_in(name.as_bytes()) {
        Some(Kind::AdvisoryLock) => effects.may_leave(Reason::AdvisoryLock),
        Some(Kind::AdvisoryUnlock) => effects.frees = true,
        Some(Kind::MovesSequence) => effects.sequences(Sequences::Moves),
        Some(Kind::Opaque) => effects.leaves(Reason::Function),
        Some(Kind::ReadsSequence) => effects.sequences(Sequences::Reads),
        Some(Kind::RunsText) => effects.ask_all(),
        Some(Kind::Seed) => effects.leaves(Reason::Seed),
        Some(Kind::SetConfig) => set_config(call, effects),
        Some(Kind::TrigramLimit) => effects.ask("pg_trgm.similarity_threshold"),
        Some(Kind::Temporary) | None => {}
    }
}

fn set_config(call: &Value, effects: &mut Effects) {
    let local = call.pointer("/args/2/node/AConst/val/Boolval/boolval");
    let name = call.pointer("/args/0/node/AConst/val/Sval/sval");
    let (local, name) = (local.and_then(Value::as_bool), name.and_then(Value::as_str));
    match (local, name) {
        (Some(true), _) => {}
        (Some(false), Some(name)) => ask(&name.to_ascii_lowercase(), effects),
        _ => effects.ask_all(),
    }
}
