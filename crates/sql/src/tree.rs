//! Step 2: effects of a text by PostgreSQL's own parse tree.

use serde_json::Value;

use crate::effects::{Channel, Effects, Resets};
use crate::functions::{Functions, Kind, NAME_MAX, built_in, is_temporary_schema};
use crate::library;
use crate::parsed::{Visitor, called, number, statements, text, walk};
use crate::reason::Reason;
use crate::words;

/// Returns the effects that the text may have; `None` if it has no tree ([`statements`]).
pub(crate) fn effects(text: &str, escapes: bool, functions: &Functions) -> Option<Effects> {
    let options = match escapes {
        true => pg_query::ParserOptions::DISABLE_STANDARD_CONFORMING_STRINGS,
        false => pg_query::ParserOptions::DEFAULT,
    };
    let trees = statements(text, options)?;
    let mut effects = Effects {
        statements: trees.len(),
        ..Effects::default()
    };
    for tree in &trees {
        // In other places a SET says what a function or a role will set.
        if let Some(node) = tree.pointer("/stmt/node/VariableSetStmt") {
            set(node, &mut effects);
        }
        let mut found = Found {
            functions,
            effects: &mut effects,
            creates: false,
            is_dropped: false,
        };
        walk(tree, &mut found);
    }
    Some(effects)
}

struct Found<'a> {
    functions: &'a Functions,
    effects: &'a mut Effects,
    /// True inside a node that creates objects.
    creates: bool,
    /// True if the created object is ON COMMIT DROP.
    is_dropped: bool,
}

impl Visitor for Found<'_> {
    /// `creates` and `is_dropped` of the field around.
    type Scope = (bool, bool);

    fn enter(&mut self, name: &str, value: &Value) -> Self::Scope {
        let scope = (self.creates, self.is_dropped);
        match name {
            "FuncCall" | "funccall" => self.call(value),
            "into" | "into_clause" if value.is_object() => {
                self.creates = true;
                self.is_dropped = is_on_commit_drop(value, "on_commit");
            }
            "relpersistence" if value == "t" && !self.is_dropped => self.temporary(),
            "schemaname" | "String" if self.creates && !self.is_dropped => self.schema(value),
            kind => self.statement(kind, value),
        }
        scope
    }

    fn leave(&mut self, scope: Self::Scope) {
        (self.creates, self.is_dropped) = scope;
    }
}

impl Found<'_> {
    /// Handles kinds of statements, wherever they stand: EXPLAIN, CREATE SCHEMA and rules contain others.
    fn statement(&mut self, kind: &str, node: &Value) {
        let effects = &mut *self.effects;
        match kind {
            "DiscardStmt" => discard(number(node, "target"), effects),
            "PrepareStmt" => effects.may_leave(Reason::Prepared),
            "DeallocateStmt" => words::deallocate(effects),
            "ClosePortalStmt"
            | "DropStmt"
            | "DropOwnedStmt"
            | "DropRoleStmt"
            | "DropdbStmt"
            | "DropTableSpaceStmt"
            | "DropSubscriptionStmt"
            | "DropUserMappingStmt" => {
                effects.frees = true;
            }
            "ListenStmt" | "UnlistenStmt" => listen(kind, text(node, "conditionname"), effects),
            "LoadStmt" => words::load(effects),
            "CallStmt" | "DoStmt" => effects.runs_unseen(),
            "DeclareCursorStmt" if number(node, "options") & CURSOR_OPT_HOLD != 0 => {
                effects.may_leave(Reason::Cursor);
            }
            "CreateStmt" => {
                self.creates = true;
                self.is_dropped = is_on_commit_drop(node, "oncommit");
            }
            "ViewStmt" => self.creates = true,
            _ if is_creation(kind) => self.creates = true,
            _ => {}
        }
    }

    fn temporary(&mut self) {
        self.effects.may_leave(Reason::TemporaryObject);
    }

    /// Checks the schema of a relation, or a part of any other name.
    fn schema(&mut self, value: &Value) {
        let name = value.as_str().or_else(|| value.get("sval")?.as_str());
        if name.is_some_and(|name| is_temporary_schema(name.as_bytes())) {
            self.temporary();
        }
    }

    fn call(&mut self, call: &Value) {
        let (schema, name) = called(call);
        if self.functions.is_listed(schema, name) {
            self.effects.leaves(Reason::Function);
        }
        match built_in(name.to_ascii_lowercase().as_bytes()) {
            Some(Kind::SetConfig) => set_config(call, self.effects),
            Some(kind) => words::call(kind, self.effects),
            None => {}
        }
    }
}

/// WITH HOLD (parsenodes.h).
const CURSOR_OPT_HOLD: i64 = 0x20;
/// Number of ONCOMMIT_DROP in pg_query.proto.
const ONCOMMIT_DROP: i64 = 4;

fn is_on_commit_drop(node: &Value, field: &str) -> bool {
    number(node, field) == ONCOMMIT_DROP
}

/// True for CreateFunctionStmt, CreateSeqStmt, CompositeTypeStmt, DefineStmt and others.
fn is_creation(kind: &str) -> bool {
    ["Create", "Composite", "Define"]
        .iter()
        .any(|start| kind.starts_with(start))
}

fn listen(kind: &str, name: &str, effects: &mut Effects) {
    let mut end = name.len().min(NAME_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let cut = name.get(..end).unwrap_or_default().as_bytes().into();
    let channel = match (kind, name) {
        ("ListenStmt", _) => Channel::Listen(cut),
        (_, "") => Channel::UnlistenAll,
        _ => Channel::Unlisten(cut),
    };
    if kind == "ListenStmt" {
        effects.may_leave(Reason::Listen);
    } else {
        effects.frees = true;
    }
    if effects.statements == 1 && !name.contains(char::REPLACEMENT_CHARACTER) {
        if kind == "UnlistenStmt" {
            effects.unlistens.push(channel.clone());
        }
        effects.channels.push(channel);
    }
}

/// Handles DISCARD, by the numbers of DiscardMode in pg_query.proto.
fn discard(target: i64, effects: &mut Effects) {
    match target {
        // PLANS
        2 => {}
        // SEQUENCES, TEMP
        3 | 4 => effects.frees = true,
        _ => {
            effects.frees = true;
            effects.resets = Resets::Session;
            effects.ask_all();
        }
    }
}

/// Handles SET and RESET, by the numbers of VariableSetKind in pg_query.proto.
fn set(node: &Value, effects: &mut Effects) {
    let name = text(node, "name").to_ascii_lowercase();
    let local = node.get("is_local").and_then(Value::as_bool);
    // The random generator's seed ignores transactions.
    if local == Some(true) && name != "seed" {
        if number(node, "kind") == 2 {
            effects.reset_locally(&name);
        }
        return;
    }
    match number(node, "kind") {
        // SET
        1 if name == "seed" => effects.leaves(Reason::Seed),
        1 => ask(&name, effects),
        // SET .. TO DEFAULT, RESET
        2 | 5 => {
            effects.reset(&name);
            ask(&name, effects);
        }
        // Several settings at once.
        4 if name == "transaction" || name == "transaction snapshot" => {}
        4 if name == "session characteristics" => characteristics(node, effects),
        // RESET ALL
        6 => {
            effects.resets = Resets::All;
            effects.ask_all();
        }
        _ => effects.ask_all(),
    }
}

/// Handles SET SESSION CHARACTERISTICS AS TRANSACTION ..: `transaction_isolation` and similar settings.
fn characteristics(node: &Value, effects: &mut Effects) {
    let modes = node.get("args").and_then(Value::as_array);
    for mode in modes.into_iter().flatten() {
        match mode
            .pointer("/node/DefElem/defname")
            .and_then(Value::as_str)
        {
            Some(name) => ask(&format!("default_{name}"), effects),
            None => effects.ask_all(),
        }
    }
}

/// Old names of settings (guc_tables.c), and settings that change others.
const ALSO: [(&str, &str); 5] = [
    ("force_parallel_mode", "debug_parallel_query"),
    ("session_authorization", "role"),
    ("sort_mem", "work_mem"),
    ("ssl_ecdh_curve", "ssl_groups"),
    ("vacuum_mem", "maintenance_work_mem"),
];

pub(crate) fn ask(name: &str, effects: &mut Effects) {
    if name.contains(char::REPLACEMENT_CHARACTER) {
        effects.leaves(Reason::Setting);
    }
    if library::refuses(name) {
        effects.leaves(Reason::Library);
        effects.wants_new = true;
    }
    effects.ask(name);
    for (_, also) in ALSO.iter().filter(|(known, _)| *known == name) {
        effects.ask(also);
    }
}

fn set_config(call: &Value, effects: &mut Effects) {
    let local = call.pointer("/args/2/node/AConst/val/Boolval/boolval");
    let name = call.pointer("/args/0/node/AConst/val/Sval/sval");
    let name = name.and_then(Value::as_str).map(str::to_ascii_lowercase);
    match (local.and_then(Value::as_bool), name.as_deref()) {
        (_, Some("seed")) => effects.leaves(Reason::Seed),
        (Some(true), _) => {}
        (_, Some(name)) => ask(name, effects),
        _ => effects.leaves(Reason::Setting),
    }
}
