//! JSON schema of weir.toml, generated from the table, for editors that complete and check while the user types.
//!
//! Draft 7, which the TOML language servers support. The schema is as lenient as the loader, except that words of
//! enumerations must be in lower case, because a completion should write them that way.

use serde_json::{Map, Value as Json, json};

use crate::options::{Effect, Kind, Opt, Scope, Unit};
use crate::settings::{Format, default_of};
use crate::value::Value;

mod rules;

/// Pattern of a text with environment variables, whatever their values.
const VARIABLE: &str = r"\$\{[A-Za-z_][A-Za-z0-9_]*\}";
const SCHEMA: &str = "http://json-schema.org/draft-07/schema#";

/// Returns the schema as text, with a final line end.
#[must_use]
pub fn schema_json() -> String {
    let mut properties = section(Scope::Global);
    for (name, scope, doc) in [
        (
            "databases",
            Scope::Database,
            "Databases by the name that clients use; \"*\" is every other.",
        ),
        (
            "listeners",
            Scope::Listener,
            "Further ports and unix sockets, by any name.",
        ),
        ("users", Scope::User, "What is different for some users."),
        ("peers", Scope::Peer, "Other poolers, by their peer_id."),
    ] {
        let mut options = section(scope);
        if scope == Scope::Database {
            let doc = "Single hosts of a database with several, by HOST or HOST:PORT.";
            options.insert("hosts".to_owned(), tables(doc, section(Scope::Host)));
        }
        properties.insert(name.to_owned(), tables(doc, options));
    }
    let doc = "Users of this database, by name.";
    let pools = json!({
        "type": "object",
        "description": "What is different for one user of one database, by the names of both.",
        "additionalProperties": tables(doc, section(Scope::Pool)),
    });
    properties.insert("pools".to_owned(), pools);
    properties.insert("rules".to_owned(), rules::rules());
    let schema = json!({
        "$schema": SCHEMA,
        "title": "weir.toml",
        "description": "The native configuration of Weir.",
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    });
    // A tree of maps, texts and numbers can always be written as text.
    format!("{schema:#}\n")
}

/// Describes tables of any name with these options.
fn tables(doc: &str, options: Map<String, Json>) -> Json {
    json!({
        "type": "object",
        "description": doc,
        "additionalProperties": {
            "type": "object",
            "properties": options,
            "additionalProperties": false,
        },
    })
}

fn section(scope: Scope) -> Map<String, Json> {
    let mut properties = Map::new();
    for opt in scope.options() {
        properties.insert(opt.name.to_owned(), Json::Object(property(opt)));
        for alias in opt.aliases {
            let mut other = property(opt);
            let doc = format!("Another name of {}.", opt.name);
            other.insert("description".to_owned(), json!(doc));
            properties.insert((*alias).to_owned(), Json::Object(other));
        }
    }
    properties
}

fn property(opt: &Opt) -> Map<String, Json> {
    let mut doc = opt.doc.trim().to_owned();
    if let Effect::None(why) = opt.effect {
        doc.push_str(&format!(" Without effect: {why}"));
    }
    if !opt.reloadable {
        doc.push_str(" A change needs a restart.");
    }
    let mut property = match shape(opt) {
        Json::Object(property) => property,
        _ => Map::new(),
    };
    property.insert("description".to_owned(), json!(doc));
    if let Some(default) = default(opt) {
        property.insert("default".to_owned(), default);
    }
    property
}

fn shape(opt: &Opt) -> Json {
    let pattern =
        |text: &str| json!({ "type": "string", "pattern": format!("^({text})$|{VARIABLE}") });
    let integer = json!({ "type": "integer", "minimum": opt.min, "maximum": opt.max });
    let number = json!({ "type": "number", "minimum": opt.min, "maximum": opt.max });
    let either = |one: Json, other: Json| json!({ "anyOf": [one, other] });
    match opt.kind {
        Kind::Bool => json!({ "anyOf": [
            { "type": "boolean" },
            { "enum": [0, 1] },
            pattern("0|1|true|false|on|off|yes|no"),
        ] }),
        Kind::Int => either(integer, pattern("[+]?[0-9][0-9A-Za-z]*")),
        Kind::Mode => either(integer, pattern("(0o?)?[0-7]+")),
        Kind::Size => either(integer, pattern("[0-9]+ ?(B|KiB|MiB|GiB)?")),
        Kind::Duration(_) => either(number, pattern(r"[0-9.]+([eE][0-9]+)? ?(us|ms|s|min|h|d)?")),
        Kind::Enum(words) => either(
            json!({ "enum": words }),
            json!({ "type": "string", "pattern": VARIABLE }),
        ),
        Kind::PoolSize => either(integer, pattern("[+]?[0-9][0-9A-Za-z]*|auto")),
        Kind::StateCheck => pattern(r"off|always|sample\([0-9.]+%\)"),
        Kind::Text | Kind::Secret => json!({ "type": "string", "maxLength": opt.max }),
        Kind::Functions
        | Kind::Hints
        | Kind::HostPoints
        | Kind::Hosts
        | Kind::List
        | Kind::Listen
        | Kind::ListenPoints
        | Kind::Networks
        | Kind::Patterns => either(
            json!({ "type": "array", "items": { "type": "string" } }),
            json!({ "type": "string" }),
        ),
    }
}

/// Returns the default as weir.toml would spell it.
fn default(opt: &Opt) -> Option<Json> {
    opt.default?;
    Some(match default_of(opt, Format::Native) {
        Value::Bool(truth) => json!(truth),
        Value::Int(number) => json!(number),
        Value::Text(text) => json!(text),
        Value::List(items) => json!(items),
        value @ Value::Duration(_) => match opt.kind {
            Kind::Duration(Unit::Milliseconds) => json!(format!("{}ms", value.to_ini(opt.kind))),
            Kind::Duration(Unit::Microseconds) => json!(format!("{}us", value.to_ini(opt.kind))),
            _ => json!(format!("{}s", value.to_ini(opt.kind))),
        },
        Value::Unset => json!(0),
        Value::Secret(_) => return None,
    })
}
