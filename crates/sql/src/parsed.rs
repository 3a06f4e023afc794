//! PostgreSQL's own parse trees as generic values, and one walk over them.
//!
//! A walk over generic values misses no kind of node, whatever version of the grammar made the tree.

use std::panic::catch_unwind;

use pg_query::ParserOptions;
use serde_json::Value;

/// Reader of a parse tree, which sees every field before the values in it.
pub(crate) trait Visitor {
    /// State that holds inside of a field only.
    type Scope;

    /// Visits a field: either the kind and fields of a node, or the name and value of a field. Returns the state that
    /// holds again behind it.
    fn enter(&mut self, name: &str, value: &Value) -> Self::Scope;

    /// Returns to the state in front of a field.
    fn leave(&mut self, scope: Self::Scope);
}

/// Returns the trees of the statements in a text. `None` if PostgreSQL's grammar (version 18) rejects the text, or if it
/// is nested deeper than about 45 levels. The tree's decoder stops there, which protects every walk from a stack
/// overflow.
pub(crate) fn statements(text: &str, options: ParserOptions) -> Option<Vec<Value>> {
    // The parser also collects names of tables and functions, and would panic on an unknown kind of node.
    let parsed = catch_unwind(|| pg_query::parse(text, options)).ok()?.ok()?;
    let statements = parsed.protobuf.stmts.iter();
    statements
        .map(|statement| serde_json::to_value(statement).ok())
        .collect()
}

/// Shows a visitor all fields of a tree, from the outside in.
pub(crate) fn walk<V: Visitor>(tree: &Value, visitor: &mut V) {
    match tree {
        Value::Object(fields) => {
            for (name, value) in fields {
                let scope = visitor.enter(name, value);
                walk(value, visitor);
                visitor.leave(scope);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| walk(value, visitor)),
        _ => {}
    }
}

/// Returns schema and name of the function in a `FuncCall`.
pub(crate) fn called(call: &Value) -> (Option<&str>, &str) {
    let parts = call.get("funcname").and_then(Value::as_array);
    let mut parts = parts.into_iter().flatten().rev().map(|part| {
        let name = part.pointer("/node/String/sval");
        name.and_then(Value::as_str).unwrap_or_default()
    });
    let name = parts.next().unwrap_or_default();
    (parts.next(), name)
}

/// Returns a field that is a text; empty if there is none.
pub(crate) fn text<'a>(node: &'a Value, field: &str) -> &'a str {
    node.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a field that is a number; 0 if there is none.
pub(crate) fn number(node: &Value, field: &str) -> i64 {
    node.get(field).and_then(Value::as_i64).unwrap_or_default()
}

/// Returns a field that is true or false; false if there is none.
pub(crate) fn flag(node: &Value, field: &str) -> bool {
    node.get(field).and_then(Value::as_bool).unwrap_or_default()
}
