//! Reader of `[[rules]]`.

use std::sync::Arc;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use weir_rules::{ALWAYS, CommentPattern, Conditions, Rule, TextPattern};
use weir_sql::{Facts, Fingerprint, Pattern, StatementKind};

use super::{Reader, in_order, shown};
use crate::error::ErrorKind;
use crate::network::Network;
use crate::raw::{Origin, quoted};
use crate::rules::{NAME_LEN_MAX, NameMask, QueryRule, RULES_MAX, RuleClients};
use crate::value::parse_seconds;

mod action;

use action::Given;
pub(crate) use action::{ACTIONS, CONNECTIONS, CONNECTIONS_MAX};

/// Keys of a rule, for messages.
pub(crate) const KEYS: [&str; 19] = [
    "action",
    "compare",
    "connections",
    "delay",
    "dry_run",
    "expires",
    "hint",
    "log",
    "match",
    "max_concurrency",
    "max_waiting",
    "message",
    "name",
    "sample",
    "sqlstate",
    "then",
    "timeout",
    "to",
    "writes",
];
/// Keys of `match`.
pub(crate) const CONDITIONS: [&str; 11] = [
    "application_name",
    "client_addr",
    "comment",
    "database",
    "fingerprint",
    "functions",
    "kind",
    "port",
    "tables",
    "text",
    "user",
];

/// A rule that is being read.
struct Draft {
    name: String,
    at: Origin,
    clients: RuleClients,
    conditions: Conditions,
    /// Statements among the fingerprints.
    statements: Vec<String>,
    /// Number of fingerprints that were given as digits.
    digits: usize,
    given: Given,
    timeout: Option<Duration>,
    log: Option<Duration>,
    is_dry: bool,
    expires: Option<i64>,
    sample: u32,
    goes_on: bool,
    has_mistake: bool,
}

impl Reader<'_> {
    /// Reads all rules of a file, in its order.
    pub(super) fn rules(&mut self, value: &Spanned<DeValue<'_>>, at: &Origin) {
        let DeValue::Array(tables) = value.get_ref() else {
            let message = "rules must be a list of tables: [[rules]]";
            return self.raw.fail_at(at, ErrorKind::Syntax, message);
        };
        for table in tables.iter() {
            let at = self.at(table.span().start);
            let DeValue::Table(table) = table.get_ref() else {
                self.raw
                    .fail_at(&at, ErrorKind::Syntax, "a rule must be a table: [[rules]]");
                continue;
            };
            if self.raw.rules.len() == RULES_MAX {
                let message = format!("more than {RULES_MAX} rules");
                return self.raw.fail_at(&at, ErrorKind::Conflict, message);
            }
            self.rule(table, at);
        }
    }

    fn rule(&mut self, table: &DeTable<'_>, at: Origin) {
        let mut draft = Draft {
            name: String::new(),
            at,
            clients: RuleClients::default(),
            conditions: Conditions::default(),
            statements: Vec::new(),
            digits: 0,
            given: Given::default(),
            timeout: None,
            log: None,
            is_dry: false,
            expires: None,
            sample: ALWAYS,
            goes_on: false,
            has_mistake: false,
        };
        for (key, value) in in_order(table) {
            let at = self.at(key.span().start);
            let read = self.key(&mut draft, key.get_ref(), value.get_ref(), &at);
            if let Err((kind, message)) = read {
                draft.has_mistake = true;
                self.raw.fail_at(&at, kind, message);
            }
        }
        self.finish(draft);
    }

    fn key(
        &mut self,
        draft: &mut Draft,
        key: &str,
        value: &DeValue<'_>,
        at: &Origin,
    ) -> Result<(), Mistake> {
        match key {
            "name" => draft.name = name(value)?,
            "match" => self.conditions(draft, value)?,
            "action" => draft.given.action = Some((text(key, value)?, at.clone())),
            "message" => draft.given.message = Some((text(key, value)?, at.clone())),
            "hint" => draft.given.hint = Some((text(key, value)?, at.clone())),
            "sqlstate" => draft.given.code = Some((code(value)?, at.clone())),
            "to" => draft.given.to = Some((text(key, value)?, at.clone())),
            "delay" => draft.given.delay = Some((span(key, value)?, at.clone())),
            "compare" => draft.given.compare = Some((text(key, value)?, at.clone())),
            "connections" => draft.given.connections = Some((count(key, value)?, at.clone())),
            "writes" => draft.given.writes = Some((truth(key, value)?, at.clone())),
            "max_concurrency" => draft.given.max = Some((count(key, value)?, at.clone())),
            "max_waiting" => draft.given.waiting_max = Some((count(key, value)?, at.clone())),
            "timeout" => draft.timeout = Some(span(key, value)?),
            "log" => draft.log = Some(logged(value)?),
            "dry_run" => draft.is_dry = truth(key, value)?,
            "expires" => draft.expires = Some(time(value)?),
            "sample" => draft.sample = share(value)?,
            "then" => {
                draft.goes_on = match text(key, value)?.as_str() {
                    "next" => true,
                    "stop" => false,
                    _ => return Err(bad("then must be \"stop\" or \"next\"")),
                };
            }
            _ => return Err(unknown(key, "in a rule", &KEYS)),
        }
        Ok(())
    }

    fn conditions(&mut self, draft: &mut Draft, value: &DeValue<'_>) -> Result<(), Mistake> {
        let DeValue::Table(table) = value else {
            return Err(bad("match must be a table: match.database = [\"shop\"]"));
        };
        for (key, value) in in_order(table) {
            let at = self.at(key.span().start);
            if let Err((kind, message)) = condition(draft, key.get_ref(), value.get_ref()) {
                draft.has_mistake = true;
                self.raw.fail_at(&at, kind, message);
            }
        }
        Ok(())
    }

    /// Checks a rule as a whole, and keeps it.
    fn finish(&mut self, draft: Draft) {
        let fail = |reader: &mut Self, at: &Origin, message: String| {
            reader.raw.fail_at(at, ErrorKind::Conflict, message);
        };
        if draft.name.is_empty() {
            if !draft.has_mistake {
                fail(
                    self,
                    &draft.at,
                    "a rule needs a name: name = \"stop-report-42\"".to_owned(),
                );
            }
            return;
        }
        let shown = quoted(&draft.name);
        let known = self.raw.rule_names.get(&*draft.name);
        if let Some(other) = known.and_then(|place| self.raw.rules.get(*place)) {
            let message = format!("there is a rule {shown} already, at {}", other.at);
            return fail(self, &draft.at, message);
        }
        let (action, concurrency) = match action::read(&draft, &shown) {
            Ok(read) => read,
            Err((at, kind, message)) => return self.raw.fail_at(&at, kind, message),
        };
        if draft.has_mistake {
            return;
        }
        let name: Arc<str> = draft.name.into();
        let place = self.raw.rules.len();
        self.raw.rule_names.insert(Arc::clone(&name), place);
        self.raw.rules.push(QueryRule {
            at: draft.at,
            clients: draft.clients,
            rule: Rule {
                name,
                conditions: draft.conditions,
                log: draft.log.or_else(|| action::default_log(&action)),
                action,
                timeout: draft.timeout,
                concurrency,
                is_dry: draft.is_dry,
                expires: draft.expires,
                sample: draft.sample,
                goes_on: draft.goes_on,
            },
        });
    }
}

/// Kind and text of a mistake.
type Mistake = (ErrorKind, String);

fn bad(message: impl Into<String>) -> Mistake {
    (ErrorKind::BadValue, message.into())
}

fn unknown(key: &str, place: &str, known: &[&str]) -> Mistake {
    let message = format!(
        "unknown key {} {place}; there are {}",
        quoted(key),
        known.join(", ")
    );
    (ErrorKind::UnknownKey, message)
}

fn condition(draft: &mut Draft, key: &str, value: &DeValue<'_>) -> Result<(), Mistake> {
    let conditions = &mut draft.conditions;
    let clients = &mut draft.clients;
    match key {
        "database" => clients.databases = masks(key, value)?,
        "user" => clients.users = masks(key, value)?,
        "application_name" => clients.applications = masks(key, value)?,
        "client_addr" => {
            let network = |text: &str| {
                Network::parse(text)
                    .map_err(|why| bad(format!("match.client_addr {}: {why}", quoted(text))))
            };
            clients.networks = texts(key, value)?
                .iter()
                .map(|text| network(text))
                .collect::<Result<_, _>>()?;
        }
        "port" => clients.ports = ports(value)?,
        "kind" => {
            let kind = |text: &str| {
                let found = StatementKind::NAMES.iter().find(|(name, _)| *name == text);
                let known: Vec<_> = StatementKind::NAMES.iter().map(|(name, _)| *name).collect();
                let refused = || {
                    bad(format!(
                        "unknown kind {}; there are {}",
                        quoted(text),
                        known.join(", ")
                    ))
                };
                found.map(|(_, kind)| *kind).ok_or_else(refused)
            };
            conditions.kinds = texts(key, value)?
                .iter()
                .map(|text| kind(text))
                .collect::<Result<_, _>>()?;
        }
        "tables" => conditions.tables = patterns(key, value)?,
        "functions" => conditions.functions = patterns(key, value)?,
        "fingerprint" => {
            let list = texts(key, value)?;
            conditions.fingerprints = list
                .iter()
                .map(|text| fingerprint(text))
                .collect::<Result<_, _>>()?;
            let (digits, statements) = list
                .into_iter()
                .partition::<Vec<_>, _>(|text| text.parse::<Fingerprint>().is_ok());
            (draft.digits, draft.statements) = (digits.len(), statements);
        }
        "text" => {
            let pattern = text(key, value)?;
            let refused = |why: weir_rules::BadText| bad(format!("match.text: {why}"));
            conditions.text = Some(TextPattern::new(&pattern).map_err(refused)?);
        }
        "comment" => {
            let DeValue::Table(table) = value else {
                return Err(bad(
                    "match.comment must be a table: match.comment.route = \"/reports\"",
                ));
            };
            for (key, value) in in_order(table) {
                let value = text(key.get_ref(), value.get_ref())?;
                conditions
                    .comments
                    .push(CommentPattern::new(key.get_ref(), &value));
            }
        }
        _ => return Err(unknown(key, "in match", &CONDITIONS)),
    }
    Ok(())
}

/// Reads a fingerprint, or the fingerprint of a statement.
fn fingerprint(text: &str) -> Result<Fingerprint, Mistake> {
    if let Ok(found) = text.parse() {
        return Ok(found);
    }
    let refused = "match.fingerprint must be 16 hexadecimal digits, as `weir digests --rules` shows them, or one statement";
    let facts = Facts::of(text).ok_or_else(|| bad(refused))?;
    if !facts.kind.has_telling_fingerprint() {
        return Err(bad(format!(
            "match.fingerprint: all statements of kind {} that differ in a literal have one fingerprint; use match.text",
            facts.kind
        )));
    }
    facts.fingerprint.ok_or_else(|| bad(refused))
}

fn name(value: &DeValue<'_>) -> Result<String, Mistake> {
    let name = text("name", value)?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_good = !name.is_empty() && name.len() <= NAME_LEN_MAX && name.chars().all(is_plain);
    match is_good {
        true => Ok(name),
        false => Err(bad(format!(
            "the name {} of a rule must be 1 to {NAME_LEN_MAX} letters, digits, and - _ .",
            quoted(&name)
        ))),
    }
}

fn text(key: &str, value: &DeValue<'_>) -> Result<String, Mistake> {
    match value {
        DeValue::String(text) => Ok(text.clone().into_owned()),
        other => Err(bad(format!(
            "{key} must be a text, and not {}",
            shown(other)
        ))),
    }
}

/// Reads a text or a list of texts.
fn texts(key: &str, value: &DeValue<'_>) -> Result<Vec<String>, Mistake> {
    let DeValue::Array(items) = value else {
        return Ok(vec![text(key, value)?]);
    };
    if items.is_empty() {
        return Err(bad(format!(
            "match.{key} is an empty list, which nothing meets; leave it out for any"
        )));
    }
    items.iter().map(|item| text(key, item.get_ref())).collect()
}

fn masks(key: &str, value: &DeValue<'_>) -> Result<Vec<NameMask>, Mistake> {
    let list = texts(key, value)?;
    Ok(list.iter().map(|text| NameMask::new(text)).collect())
}

fn patterns(key: &str, value: &DeValue<'_>) -> Result<Vec<Pattern>, Mistake> {
    let list = texts(key, value)?;
    let pattern =
        |text: &String| Pattern::read(text).map_err(|why| bad(format!("match.{key}: {why}")));
    list.iter().map(pattern).collect()
}

fn ports(value: &DeValue<'_>) -> Result<Vec<u16>, Mistake> {
    let refused = || bad("match.port must be a port or a list of ports, such as 6433");
    let port = |value: &DeValue<'_>| match value {
        DeValue::Integer(number) => number.as_str().parse().map_err(|_| refused()),
        _ => Err(refused()),
    };
    match value {
        DeValue::Array(items) if !items.is_empty() => {
            items.iter().map(|item| port(item.get_ref())).collect()
        }
        value => Ok(vec![port(value)?]),
    }
}

fn truth(key: &str, value: &DeValue<'_>) -> Result<bool, Mistake> {
    match value {
        DeValue::Boolean(truth) => Ok(*truth),
        other => Err(bad(format!(
            "{key} must be true or false, and not {}",
            shown(other)
        ))),
    }
}

fn code(value: &DeValue<'_>) -> Result<[u8; 5], Mistake> {
    let text = text("sqlstate", value)?;
    let is_code = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
    let code: Option<[u8; 5]> = text.as_bytes().try_into().ok().filter(|_| is_code);
    let refused = || {
        bad(format!(
            "sqlstate {} must be 5 digits or capital letters",
            quoted(&text)
        ))
    };
    let code = code.ok_or_else(refused)?;
    // 00, 01 and 02 are no errors; drivers would take the statement for done.
    match matches!(&code, [b'0', b'0'..=b'2', ..]) {
        true => Err(bad(format!(
            "sqlstate {} is of a class that is no error",
            quoted(&text)
        ))),
        false => Ok(code),
    }
}

/// Reads a time with its offset from UTC.
fn time(value: &DeValue<'_>) -> Result<i64, Mistake> {
    let text = match value {
        DeValue::String(text) => text.clone().into_owned(),
        DeValue::Datetime(time) => time.to_string(),
        other => shown(other),
    };
    let parsed: Result<jiff::Timestamp, _> = text.parse();
    parsed.map(jiff::Timestamp::as_second).map_err(|_| {
        bad(format!(
            "expires {} must be a time with an offset from UTC, such as 2026-12-01T00:00:00Z",
            quoted(&text)
        ))
    })
}

/// Reads a time above zero.
fn span(key: &str, value: &DeValue<'_>) -> Result<Duration, Mistake> {
    let text = match value {
        DeValue::Integer(number) => number.as_str().to_owned(),
        value => text(key, value)?,
    };
    let span = parse_seconds(&text).filter(|span| !span.is_zero());
    span.ok_or_else(|| {
        bad(format!(
            "{key} {} must be a time above zero, such as \"500ms\" or \"2s\"",
            quoted(&text)
        ))
    })
}

/// Reads which statements are logged: `all`, or `slow:200ms` for those that take so long.
fn logged(value: &DeValue<'_>) -> Result<Duration, Mistake> {
    let text = text("log", value)?;
    let slow = text
        .strip_prefix("slow:")
        .and_then(|time| parse_seconds(time.trim()));
    match (text.as_str(), slow.filter(|time| !time.is_zero())) {
        ("all", _) => Ok(Duration::ZERO),
        (_, Some(time)) => Ok(time),
        _ => Err(bad(format!(
            "log {} must be \"all\", or \"slow:\" and a time, such as \"slow:200ms\"",
            quoted(&text)
        ))),
    }
}

fn count(key: &str, value: &DeValue<'_>) -> Result<u32, Mistake> {
    let number = match value {
        DeValue::Integer(number) => number.as_str().parse().ok(),
        _ => None,
    };
    number.ok_or_else(|| bad(format!("{key} must be a number from 0 to {}", u32::MAX)))
}

/// Reads a share such as `5%` or 0.05, in parts of a million.
fn share(value: &DeValue<'_>) -> Result<u32, Mistake> {
    let refused = || bad("sample must be a share above 0 and up to 1, such as \"5%\" or 0.05");
    let share: f64 = match value {
        DeValue::String(text) => match text.strip_suffix('%') {
            Some(percent) => percent.trim().parse::<f64>().map_err(|_| refused())? / 100.0,
            None => text.parse().map_err(|_| refused())?,
        },
        DeValue::Float(number) => number.as_str().parse().map_err(|_| refused())?,
        DeValue::Integer(number) => number.as_str().parse().map_err(|_| refused())?,
        _ => return Err(refused()),
    };
    if !(share > 0.0 && share <= 1.0) {
        return Err(refused());
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and a million"
    )]
    let parts = (share * f64::from(ALWAYS)).ceil() as u32;
    Ok(parts.clamp(1, ALWAYS))
}

#[cfg(test)]
mod tests;
