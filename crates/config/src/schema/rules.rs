//! Schema of query rules.

use serde_json::{Map, Value as Json, json};
use weir_sql::StatementKind;

use crate::native::rules::{ACTIONS, CONNECTIONS, CONNECTIONS_MAX};
use crate::rules::NAME_LEN_MAX;

/// Pattern of a time above zero.
const TIME: &str = r"^[0-9.]+([eE][0-9]+)? ?(us|ms|s|min|h|d)?$";

/// Describes `[[rules]]`.
pub(super) fn rules() -> Json {
    json!({
        "type": "array",
        "description": "Query rules, in the order in which they are asked.",
        "items": {
            "type": "object",
            "properties": keys(),
            "required": ["name", "action"],
            "additionalProperties": false,
        },
    })
}

fn keys() -> Json {
    let (Json::Object(mut keys), Json::Object(of_mirrors)) = (general(), of_mirrors()) else {
        return Json::Null;
    };
    keys.extend(of_mirrors);
    Json::Object(keys)
}

fn of_mirrors() -> Json {
    json!({
        "compare": described(
            json!({ "enum": ["count", "rows"], "default": "count" }),
            "mirror: what is compared beside the SQLSTATE, the number of rows or the rows in any order.",
        ),
        "writes": described(
            json!({ "type": "boolean", "default": false }),
            "mirror: true if statements that write are sent too.",
        ),
        "connections": described(
            json!({ "type": "integer", "minimum": 1, "maximum": CONNECTIONS_MAX, "default": CONNECTIONS }),
            "mirror: number of connections, which run one transaction each at a time.",
        ),
    })
}

fn general() -> Json {
    let actions = ACTIONS.replace(" and ", ", ");
    let actions: Vec<_> = actions.split(", ").collect();
    json!({
        "name": {
            "description": "Name of the rule, unique among all rules.",
            "type": "string",
            "pattern": format!("^[A-Za-z0-9._-]{{1,{NAME_LEN_MAX}}}$"),
        },
        "match": {
            "description": "Conditions, all of which must hold; of a list, one element. Without any, the rule is met by all.",
            "type": "object",
            "properties": conditions(),
            "additionalProperties": false,
        },
        "action": {
            "description": "Effect on the statements that meet the rule.",
            "enum": actions,
        },
        "message": described(text(), "reject: message of the error."),
        "sqlstate": described(
            json!({ "type": "string", "pattern": "^[0-9A-Z]{5}$", "default": "42501" }),
            "reject: SQLSTATE of the error.",
        ),
        "hint": described(text(), "reject: hint of the error."),
        "to": described(
            text(),
            "rewrite: the new text. route: \"primary\", \"replica\", \"host:\" and the address of a host, or \"database:\" and an \
             entry of [databases]. mirror: \"database:\" and an entry of [databases].",
        ),
        "delay": described(time(), "delay: time for which the transaction waits before it asks for a server."),
        "timeout": described(time(), "Time after which the statement is cancelled."),
        "max_concurrency": described(
            json!({ "type": "integer", "minimum": 1, "maximum": u32::MAX }),
            "Number of statements of the rule that run at once, on all workers together.",
        ),
        "max_waiting": described(
            json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX, "default": 100 }),
            "Number of clients that wait for their turn; needs max_concurrency.",
        ),
        "log": described(
            json!({ "type": "string", "pattern": "^(all|slow:.+)$" }),
            "Statements that are logged: \"all\", or \"slow:200ms\" for those that take at least this time.",
        ),
        "dry_run": described(
            json!({ "type": "boolean", "default": false }),
            "True if the rule only counts the statements that it would meet.",
        ),
        "expires": described(
            text(),
            "Time at which the rule ends, with an offset from UTC: 2026-12-01T00:00:00Z.",
        ),
        "sample": described(
            json!({ "anyOf": [
                { "type": "number", "exclusiveMinimum": 0, "maximum": 1 },
                { "type": "string", "pattern": "^[0-9.]+%?$" },
            ] }),
            "Share of the statements for which the rule is in force: \"5%\" or 0.05.",
        ),
        "then": described(
            json!({ "enum": ["stop", "next"], "default": "stop" }),
            "\"next\" if later rules are asked too.",
        ),
    })
}

fn conditions() -> Json {
    let kinds: Vec<_> = StatementKind::NAMES.iter().map(|(name, _)| *name).collect();
    json!({
        "database": described(texts(), "Names as clients use them; billing* is every name that begins so."),
        "user": described(texts(), "Names of users; a * at the end stands for anything."),
        "application_name": described(texts(), "Values of application_name; a * at the end stands for anything."),
        "client_addr": described(texts(), "Addresses or networks of clients."),
        "port": described(
            one_or_more(json!({ "type": "integer", "minimum": 0, "maximum": u16::MAX })),
            "Ports that clients connect to.",
        ),
        "kind": described(one_or_more(json!({ "enum": kinds })), "Kinds of statements."),
        "tables": described(texts(), "Tables in the statement: orders in any schema, or audit.*."),
        "functions": described(texts(), "Functions in the statement."),
        "fingerprint": described(
            texts(),
            "A statement, which stands for all that differ from it in literals and white space only, or 16 digits.",
        ),
        "text": described(text(), "Regular expression over the text as it was sent."),
        "comment": {
            "description": "Keys and values in a comment of sqlcommenter; a * at the end stands for anything.",
            "type": "object",
            "additionalProperties": text(),
        },
    })
}

fn text() -> Json {
    json!({ "type": "string" })
}

fn texts() -> Json {
    one_or_more(text())
}

fn time() -> Json {
    json!({ "anyOf": [
        { "type": "integer", "minimum": 1 },
        { "type": "string", "pattern": TIME },
    ] })
}

fn one_or_more(item: Json) -> Json {
    json!({ "anyOf": [item.clone(), { "type": "array", "items": item, "minItems": 1 }] })
}

fn described(shape: Json, doc: &str) -> Json {
    let mut found = match shape {
        Json::Object(found) => found,
        _ => Map::new(),
    };
    found.insert("description".to_owned(), json!(doc));
    Json::Object(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::rules::{CONDITIONS, KEYS};

    fn names(schema: &Json) -> Vec<&str> {
        schema
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect()
    }

    fn sorted<'t>(names: impl IntoIterator<Item = &'t str>) -> Vec<&'t str> {
        let mut names: Vec<_> = names.into_iter().collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn each_key_that_is_read_is_described() {
        assert_eq!(sorted(names(&keys())), sorted(KEYS));
        assert_eq!(sorted(names(&conditions())), sorted(CONDITIONS));
    }
}
