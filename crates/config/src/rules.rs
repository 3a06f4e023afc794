//! Query rules: `[[rules]]` of weir.toml.

use std::fmt;
use std::net::IpAddr;

use weir_rules::{ALWAYS, Action, RouteTo, Rule, TextPattern};

use crate::network::Network;
use crate::raw::Origin;
use crate::value::toml_duration;

/// Longest name of a rule in bytes.
pub(crate) const NAME_LEN_MAX: usize = 63;
/// Maximum number of rules.
pub(crate) const RULES_MAX: usize = 100_000;

/// A query rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryRule {
    /// Place of the rule.
    pub at: Origin,
    /// Conditions about the client.
    pub clients: RuleClients,
    /// Conditions about the statement, and the effect.
    pub rule: Rule,
}

impl QueryRule {
    /// True if the other rule does the same, wherever it stands.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        let other = Self {
            at: self.at.clone(),
            ..other.clone()
        };
        *self == other
    }

    /// Returns the rule as a table of weir.toml, with its place in a comment.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let rule = &self.rule;
        let place = self.at.to_string();
        let place: String = place.chars().filter(|c| !c.is_control()).collect();
        let mut out = format!("[[rules]]  # {place}\nname = {}\n", quoted(&rule.name));
        let mut list = |key: &str, values: Vec<String>| {
            if !values.is_empty() {
                out.push_str(&format!("match.{key} = [{}]\n", values.join(", ")));
            }
        };
        let clients = &self.clients;
        list("database", texts(&clients.databases));
        list("user", texts(&clients.users));
        list("application_name", texts(&clients.applications));
        list("client_addr", texts(&clients.networks));
        let ports = clients.ports.iter().map(ToString::to_string);
        list("port", ports.collect());
        let conditions = &rule.conditions;
        list("kind", texts(&conditions.kinds));
        list("tables", texts(&conditions.tables));
        list("functions", texts(&conditions.functions));
        match &rule.action {
            Action::Rewrite(rewritings) => {
                let from = rewritings.iter().map(|rewriting| quoted(rewriting.from()));
                list("fingerprint", from.collect());
            }
            _ => list("fingerprint", texts(&conditions.fingerprints)),
        }
        if let Some(pattern) = &conditions.text {
            out.push_str(&format!("match.text = {}\n", quoted(pattern.as_str())));
        }
        for comment in &conditions.comments {
            let (key, value) = (quoted(comment.key()), quoted(&comment.value()));
            out.push_str(&format!("match.comment.{key} = {value}\n"));
        }
        out.push_str(&format!("action = {}\n", quoted(self.action())));
        out.push_str(&effects(rule));
        if rule.is_dry {
            out.push_str("dry_run = true\n");
        }
        let expires = rule
            .expires
            .and_then(|unix| jiff::Timestamp::from_second(unix).ok());
        if let Some(expires) = expires {
            out.push_str(&format!("expires = {expires}\n"));
        }
        if rule.sample < ALWAYS {
            let percent = f64::from(rule.sample) * 100.0 / f64::from(ALWAYS);
            out.push_str(&format!("sample = \"{percent}%\"\n"));
        }
        if rule.goes_on {
            out.push_str("then = \"next\"\n");
        }
        out
    }

    /// Name of the action, as in the file.
    #[must_use]
    pub fn action(&self) -> &'static str {
        action_name(&self.rule.action)
    }

    /// Action of the rule in a few words, such as `reject` or `reject (dry run)`.
    #[must_use]
    pub fn summary(&self) -> String {
        let action = self.action();
        match self.rule.is_dry {
            true => format!("{action} (dry run)"),
            false => action.to_owned(),
        }
    }
}

/// Returns the rules in their order, ready to be asked.
pub(crate) fn finished(mut rules: Vec<QueryRule>) -> Vec<QueryRule> {
    let conditions = rules.iter_mut().map(|rule| &mut rule.rule.conditions);
    TextPattern::join(conditions.filter_map(|conditions| conditions.text.as_mut()));
    rules
}

/// Maximum number of rules that mirror: each has threads and connections of its own.
pub const MIRRORS_MAX: usize = 16;

/// Returns the name of an action, as in the file.
#[must_use]
pub fn action_name(action: &Action) -> &'static str {
    match action {
        Action::Delay(_) => "delay",
        Action::Log => "log",
        Action::Mirror(_) => "mirror",
        Action::Pass => "pass",
        Action::Reject(_) => "reject",
        Action::Rewrite(_) => "rewrite",
        Action::Route(_) => "route",
    }
}

/// Keys of a rule's action, and what else it does.
fn effects(rule: &Rule) -> String {
    let mut out = String::new();
    let mut put = |key: &str, value: String| out.push_str(&format!("{key} = {value}\n"));
    match &rule.action {
        Action::Log | Action::Pass => {}
        Action::Delay(time) => put("delay", toml_duration(*time)),
        Action::Mirror(to) => {
            put("to", quoted(&format!("database:{}", to.database)));
            let compare = if to.compares_rows { "rows" } else { "count" };
            put("compare", quoted(compare));
            put("writes", to.writes.to_string());
            put("connections", to.connections.to_string());
        }
        Action::Reject(rejection) => {
            put("message", quoted(&rejection.message));
            put(
                "sqlstate",
                quoted(&String::from_utf8_lossy(&rejection.code)),
            );
            if !rejection.hint.is_empty() {
                put("hint", quoted(&rejection.hint));
            }
        }
        Action::Rewrite(rewritings) => {
            let to = rewritings.first().map_or("", |rewriting| rewriting.to());
            put("to", quoted(to));
        }
        Action::Route(RouteTo::Database(name)) => put("to", quoted(&format!("database:{name}"))),
        Action::Route(RouteTo::Primary) => put("to", quoted("primary")),
        Action::Route(RouteTo::Replica) => put("to", quoted("replica")),
        Action::Route(RouteTo::Host(address)) => put("to", quoted(&format!("host:{address}"))),
    }
    if let Some(timeout) = rule.timeout {
        put("timeout", toml_duration(timeout));
    }
    match rule.log {
        Some(time) if time.is_zero() => put("log", quoted("all")),
        Some(time) => {
            let time = toml_duration(time);
            put("log", quoted(&format!("slow:{}", time.trim_matches('"'))));
        }
        None => {}
    }
    if let Some(concurrency) = rule.concurrency {
        put("max_concurrency", concurrency.max.to_string());
        put("max_waiting", concurrency.queue_max.to_string());
    }
    out
}

/// Writes a text in quotes.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn texts<T: ToString>(list: &[T]) -> Vec<String> {
    list.iter()
        .map(|value| quoted(&value.to_string()))
        .collect()
}

/// Conditions of a rule about a client; an empty list is met by all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleClients {
    /// Names of entries in `[databases]`.
    pub databases: Vec<NameMask>,
    /// Roles that clients log in as.
    pub users: Vec<NameMask>,
    /// Values of `application_name`.
    pub applications: Vec<NameMask>,
    /// Addresses of clients; a client on a unix socket has none.
    pub networks: Vec<Network>,
    /// Ports that clients connect to.
    pub ports: Vec<u16>,
}

impl RuleClients {
    /// True if the rule may be met by clients of this database and user.
    #[must_use]
    pub fn has_group(&self, database: &str, user: &str) -> bool {
        meets(&self.databases, |mask| mask.covers(database))
            && meets(&self.users, |mask| mask.covers(user))
    }

    /// True if all clients of such a group meet the rule.
    #[must_use]
    pub fn is_for_all(&self) -> bool {
        self.applications.is_empty() && self.networks.is_empty() && self.ports.is_empty()
    }

    /// True if a client of such a group meets the rule.
    #[must_use]
    pub fn has_client(&self, application: &str, address: Option<IpAddr>, port: u16) -> bool {
        let is_near = |network: &Network| address.is_some_and(|address| network.contains(address));
        meets(&self.applications, |mask| mask.covers(application))
            && meets(&self.networks, is_near)
            && meets(&self.ports, |listened| *listened == port)
    }
}

fn meets<T>(list: &[T], test: impl Fn(&T) -> bool) -> bool {
    list.is_empty() || list.iter().any(test)
}

/// A name, or the beginning of names: `billing*`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NameMask {
    begin: String,
    is_open: bool,
}

impl fmt::Display for NameMask {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = if self.is_open { "*" } else { "" };
        write!(formatter, "{}{end}", self.begin)
    }
}

impl NameMask {
    /// Reads a mask.
    #[must_use]
    pub fn new(text: &str) -> Self {
        match text.strip_suffix('*') {
            Some(begin) => Self {
                begin: begin.to_owned(),
                is_open: true,
            },
            None => Self {
                begin: text.to_owned(),
                is_open: false,
            },
        }
    }

    /// True if the mask covers the name.
    #[must_use]
    pub fn covers(&self, name: &str) -> bool {
        match self.is_open {
            true => name.starts_with(&self.begin),
            false => name == self.begin,
        }
    }
}
