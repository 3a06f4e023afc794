//! Query rules of ProxySQL. A rule is mapped as a whole or not at all; regular expressions over digests have no counterpart,
//! except those of the usual split of reads and writes.

use super::facts::{Facts, Row, column, is_active};
use super::table;
use crate::apply::{millis, set_other};
use crate::draft::{Draft, Table, Term};
use crate::finding::Outcome;
use crate::verify::rule_error;

/// Columns that say nothing about what a rule does.
const SILENT: [&str; 3] = ["rule_id", "active", "comment"];
/// Columns that a rule of Weir may have.
const KNOWN: [&str; 14] = [
    "username",
    "database",
    "schemaname",
    "client_addr",
    "proxy_port",
    "match_pattern",
    "re_modifiers",
    "destination_hostgroup",
    "error_msg",
    "timeout",
    "delay",
    "log",
    "apply",
    "OK_msg",
];
/// Columns with their value for "nothing".
const EMPTY: [(&str, &str); 4] = [
    ("flagIN", "0"),
    ("negate_match_pattern", "0"),
    ("retries", ""),
    ("attributes", ""),
];

/// Maps a rule; the outcome is that of all its columns.
pub(super) fn map(rule: &Row, facts: &Facts, draft: &mut Draft) -> Outcome {
    if !is_active(rule) {
        return Outcome::NoMeaning("the rule is not active");
    }
    if let Some(outcome) = split(rule, facts, draft) {
        return outcome;
    }
    match keys(rule, facts) {
        Ok(keys) => {
            let name = format!("proxysql-{}", column(rule, "rule_id", "0"));
            match rule_error(&name, &keys) {
                Some(error) => Outcome::NotMapped(format!("Weir refuses such a rule: {error}")),
                None => {
                    draft.rule(name.clone(), keys);
                    Outcome::Mapped(format!("rules.{name}"))
                }
            }
        }
        Err(why) => Outcome::NotMapped(why),
    }
}

/// Recognizes the rules that send SELECT to the readers, and those with a lock to the writer.
fn split(rule: &Row, facts: &Facts, draft: &mut Draft) -> Option<Outcome> {
    let used = set_columns(rule);
    let expected = [
        "match_digest",
        "match_pattern",
        "destination_hostgroup",
        "apply",
        "username",
        "re_modifiers",
    ];
    if !used.iter().all(|name| expected.contains(name)) {
        return None;
    }
    let pattern = match column(rule, "match_digest", "") {
        pattern if pattern.is_empty() => column(rule, "match_pattern", ""),
        pattern => pattern,
    };
    let pattern = pattern
        .to_lowercase()
        .replace("\\s*", "")
        .replace("\\s+", " ");
    let pattern = pattern.trim_end_matches('$').trim_end_matches(".*").trim();
    let group = column(rule, "destination_hostgroup", "");
    let begins = pattern.strip_prefix("^select")?;
    if group == facts.writer
        && ["for update", "for share"]
            .iter()
            .any(|lock| begins.contains(lock))
    {
        return Some(Outcome::NoMeaning(
            "statements that lock run on the primary",
        ));
    }
    if !facts.readers.contains(&group)
        || !matches!(begins, "" | "\\b" | "[^a-z]")
        || !facts.has_roles()
    {
        return None;
    }
    let place = match column(rule, "username", "") {
        user if user.is_empty() => table(),
        user => Table::User(user),
    };
    let why = "statements that are proved to read go to replicas, not all that begin with SELECT";
    Some(set_other(
        draft,
        place,
        "read_write_split",
        Term::text("auto"),
        why,
    ))
}

/// Returns the columns of a rule that do something.
fn set_columns(rule: &Row) -> Vec<&str> {
    let is_empty = |name: &str, value: &str| {
        value.is_empty()
            || EMPTY
                .iter()
                .any(|(known, empty)| *known == name && *empty == value)
    };
    let columns = rule.iter().filter(|(name, value)| !is_empty(name, value));
    let names = columns.map(|(name, _)| name.as_str());
    names.filter(|name| !SILENT.contains(name)).collect()
}

/// Returns the keys of the rule in weir.toml.
fn keys(rule: &Row, facts: &Facts) -> Result<Vec<(&'static str, Term)>, String> {
    let columns = set_columns(rule);
    if let Some(other) = columns.iter().find(|name| !KNOWN.contains(name)) {
        let advice = match *other {
            "match_digest" | "digest" => "use match.fingerprint, match.tables or match.kind",
            "replace_pattern" => "use action = \"rewrite\", which names the statement",
            "mirror_hostgroup" | "mirror_flagOUT" => {
                "use action = \"mirror\" with an entry in [databases]"
            }
            "flagIN" | "flagOUT" | "negate_match_pattern" => {
                "use the order of rules, and action = \"pass\""
            }
            "cache_ttl" => "Weir has no cache of results",
            _ => "Weir has no counterpart",
        };
        return Err(format!(
            "{other}: {advice}; see docs/guide/rules-examples.md"
        ));
    }
    let mut keys = conditions(rule)?;
    keys.extend(effects(rule, facts)?);
    if column(rule, "apply", "0") == "0" {
        keys.push(("then", Term::text("next")));
    }
    Ok(keys)
}

fn conditions(rule: &Row) -> Result<Vec<(&'static str, Term)>, String> {
    let mut keys = Vec::new();
    let texts = [
        ("username", "match.user"),
        ("database", "match.database"),
        ("schemaname", "match.database"),
    ];
    for (name, key) in texts {
        let value = column(rule, name, "");
        if value.contains('*') {
            return Err(format!(
                "{name} contains *, which stands for any text in Weir"
            ));
        }
        if !value.is_empty() {
            keys.push((key, Term::Text(value)));
        }
    }
    let address = column(rule, "client_addr", "");
    if address.contains('%') {
        return Err("client_addr has a pattern: write networks in match.client_addr".to_owned());
    }
    if !address.is_empty() {
        keys.push(("match.client_addr", Term::Text(address)));
    }
    if let Ok(port) = column(rule, "proxy_port", "").parse() {
        keys.push(("match.port", Term::Number(port)));
    }
    let pattern = column(rule, "match_pattern", "");
    if !pattern.is_empty() {
        let is_caseless = column(rule, "re_modifiers", "CASELESS")
            .to_uppercase()
            .contains("CASELESS");
        let flag = if is_caseless { "(?i)" } else { "" };
        keys.push(("match.text", Term::Text(format!("{flag}{pattern}"))));
    }
    Ok(keys)
}

fn effects(rule: &Row, facts: &Facts) -> Result<Vec<(&'static str, Term)>, String> {
    let given = |name: &str| Some(column(rule, name, "")).filter(|value| !value.is_empty());
    let number = |name: &str| given(name).and_then(|value| value.parse::<i64>().ok());
    let mut keys = Vec::new();
    let group = given("destination_hostgroup");
    if let Some(message) = given("error_msg") {
        keys.push(("action", Term::text("reject")));
        keys.push(("message", Term::Text(message)));
        return Ok(keys);
    } else if given("OK_msg").is_some() {
        return Err("OK_msg: Weir answers no statement itself; see action = \"reject\"".to_owned());
    } else if let Some(group) = group {
        let to = match facts.readers.contains(&group) {
            true => "replica",
            false if group == facts.writer => "primary",
            false => {
                let why = format!(
                    "host group {group}: give its servers an entry in [databases], and route to it"
                );
                return Err(why);
            }
        };
        if !facts.has_roles() {
            return Err("the database has no hosts with roles".to_owned());
        }
        keys.push(("action", Term::text("route")));
        keys.push(("to", Term::text(to)));
        if given("delay").is_some() {
            return Err("delay beside destination_hostgroup: write two rules".to_owned());
        }
    } else if let Some(delay) = number("delay").filter(|delay| *delay > 0) {
        keys.push(("action", Term::text("delay")));
        keys.push(("delay", Term::Text(millis(delay))));
    } else {
        keys.push(("action", Term::text("pass")));
    }
    if let Some(time) = number("timeout").filter(|time| *time > 0) {
        keys.push(("timeout", Term::Text(millis(time))));
    }
    if number("log") == Some(1) {
        keys.push(("log", Term::text("all")));
    }
    Ok(keys)
}
