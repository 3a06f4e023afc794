//! Rows of the tables that map settings, and their application. Every row decides the fate of one setting.

use crate::draft::{Draft, Table, Term};
use crate::finding::Outcome;
use crate::leaf::{Leaf, Scalar};

/// Weight of a host by default.
const WEIGHT_MAX: i64 = 100;

/// Treatment of a setting.
#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    /// Copied to an option.
    Copy(&'static str),
    /// Copied to an option that takes a list; elements are separated by commas.
    List(&'static str),
    /// Copied to an option that is a flag, from any spelling of one.
    Flag(&'static str),
    /// Copied to an option that is a number.
    Number(&'static str),
    /// Milliseconds, copied to an option that takes a time.
    Millis(&'static str),
    /// Seconds, likewise.
    Seconds(&'static str),
    /// A word, translated by pairs.
    Word(&'static str, &'static [(&'static str, &'static str)]),
    /// Without effect on clients in Weir, for this reason.
    Nothing(&'static str),
    /// Without counterpart, unless it has the value that Weir has anyway; then the reason.
    Not(&'static str, &'static str),
}

/// Finds the row of a setting and applies it.
pub(crate) fn by_table(
    rows: &[(&'static str, How)],
    leaf: &Leaf,
    key: &str,
    table: &Table,
    draft: &mut Draft,
    version: &'static str,
) -> Outcome {
    match rows.iter().find(|(name, _)| *name == key) {
        Some((_, how)) => apply(*how, leaf, table.clone(), draft),
        None => Outcome::Unknown(version),
    }
}

pub(crate) fn apply(how: How, leaf: &Leaf, table: Table, draft: &mut Draft) -> Outcome {
    match how {
        How::Copy(name) => {
            let term = match &leaf.value {
                Scalar::Flag(value) => Term::Flag(*value),
                Scalar::Number(value) => Term::Number(*value),
                Scalar::Text(value) => Term::Text(value.clone()),
            };
            set(draft, table, name, term)
        }
        How::List(name) => set(draft, table, name, Term::List(elements(&leaf.text()))),
        How::Flag(name) => match leaf.flag() {
            Some(value) => set(draft, table, name, Term::Flag(value)),
            None => Outcome::NotMapped("not a flag".to_owned()),
        },
        How::Number(name) => match leaf.number() {
            Some(value) => set(draft, table, name, Term::Number(value)),
            None => Outcome::NotMapped("not a number".to_owned()),
        },
        How::Millis(name) => duration(leaf, 1, table, name, draft),
        How::Seconds(name) => duration(leaf, 1000, table, name, draft),
        How::Word(name, pairs) => {
            let text = leaf.text().to_lowercase();
            match pairs.iter().find(|(from, _)| *from == text) {
                Some((_, to)) => set(draft, table, name, Term::text(*to)),
                None => Outcome::NotMapped(format!("{name} has no value that does the same")),
            }
        }
        How::Nothing(why) => Outcome::NoMeaning(why),
        How::Not(unless, _) if is_same(leaf, unless) => Outcome::NoMeaning("Weir does the same"),
        How::Not(_, why) => Outcome::NotMapped(why.to_owned()),
    }
}

/// Writes an option and says so.
pub(crate) fn set(draft: &mut Draft, table: Table, name: &'static str, term: Term) -> Outcome {
    let to = table.path(name);
    let written = format!("{to} = {}", term.toml());
    match draft.set(table, name, term) {
        true => Outcome::Mapped(written),
        false => Outcome::Default(to),
    }
}

/// Writes an option and says so, with the difference to the other product.
pub(crate) fn set_other(
    draft: &mut Draft,
    table: Table,
    name: &'static str,
    term: Term,
    why: impl Into<String>,
) -> Outcome {
    let to = table.path(name);
    match set(draft, table, name, term) {
        Outcome::Mapped(written) => Outcome::Differs(written, why.into()),
        _ => Outcome::Differs(format!("{to}, by default"), why.into()),
    }
}

/// Splits a list at its commas.
pub(crate) fn elements(text: &str) -> Vec<String> {
    let parts = text.split(',').map(str::trim);
    parts
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect()
}

/// True if the setting has this value, in whatever spelling of a flag.
fn is_same(leaf: &Leaf, value: &str) -> bool {
    let flag = match value {
        "on" | "true" | "yes" => Some(true),
        "off" | "false" | "no" => Some(false),
        _ => None,
    };
    leaf.text() == value || flag.is_some() && leaf.flag() == flag
}

/// Writes a time. Zero stays zero; no limit at all is zero here.
fn duration(
    leaf: &Leaf,
    unit: i64,
    table: Table,
    name: &'static str,
    draft: &mut Draft,
) -> Outcome {
    let text = match leaf.millis(unit) {
        None => return Outcome::NotMapped("not a time".to_owned()),
        Some(i64::MAX) => "0s".to_owned(),
        Some(number) => millis(number),
    };
    set(draft, table, name, Term::Text(text))
}

/// Formats a time in the largest unit that is exact.
pub(crate) fn millis(number: i64) -> String {
    match number % 1000 {
        0 => format!("{}s", number / 1000),
        _ => format!("{number}ms"),
    }
}

/// Moves a secret to the user list.
pub(crate) fn secret(leaf: &Leaf, user: &str, draft: &mut Draft) -> Outcome {
    if user.is_empty() {
        return Outcome::NotMapped("there is no user for it".to_owned());
    }
    secret_text(&leaf.text(), user, draft)
}

/// Moves a secret to the user list.
pub(crate) fn secret_text(text: &str, user: &str, draft: &mut Draft) -> Outcome {
    if text.contains(['\n', '\r', '\0']) || user.contains(['\n', '\r', '\0']) {
        return Outcome::NotMapped("a user list cannot hold a line break".to_owned());
    }
    let is_hash = text.starts_with("md5") && text.len() == 35 || text.starts_with("SCRAM-SHA-256$");
    match (draft.secret(user, text), is_hash) {
        (true, true) => Outcome::Mapped("auth_file".to_owned()),
        (true, false) => Outcome::Differs("auth_file".to_owned(), "it is in clear text".to_owned()),
        (false, _) => {
            let why = format!("user {user:?} has another secret elsewhere; a user has one in Weir");
            Outcome::NotMapped(why)
        }
    }
}

/// Adds a host to a database that has one. `watcher` is the user that asks the hosts for their roles.
pub(crate) fn replica(
    point: String,
    watcher: Option<&String>,
    table: Table,
    draft: &mut Draft,
) -> Outcome {
    let Some(watcher) = watcher else {
        let why = "no user is known that could ask the hosts for their roles; see watch_user";
        return Outcome::NotMapped(why.to_owned());
    };
    let mut replicas = match draft.get(&table, "replicas") {
        Some(Term::List(replicas)) => replicas.clone(),
        _ => Vec::new(),
    };
    if !replicas.contains(&point) {
        replicas.push(point);
    }
    if table == Table::Database(weir_config::FALLBACK.to_owned())
        && draft.get(&table, "watch_dbname").is_none()
    {
        draft.set(table.clone(), "watch_dbname", Term::text("postgres"));
    }
    draft.set(table.clone(), "watch_user", Term::text(watcher));
    let why = format!("Weir asks each host for its role, as user {watcher:?} (watch_user)");
    set_other(draft, table, "replicas", Term::List(replicas), why)
}

/// Formats a host with its port as an element of `replicas`.
pub(crate) fn point(host: &str, port: &str) -> String {
    match host.contains(':') && !host.starts_with('[') && !host.starts_with('/') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

/// Finds the treatment of a setting in lists of names that share one.
pub(crate) fn by_groups(groups: &[(How, &[&str])], key: &str) -> Option<How> {
    let mut all = groups.iter();
    all.find(|(_, names)| names.contains(&key))
        .map(|(how, _)| *how)
}

/// Adds an element to an option that is a list.
pub(crate) fn push(
    draft: &mut Draft,
    table: Table,
    name: &'static str,
    element: String,
) -> Outcome {
    let mut all = match draft.get(&table, name) {
        Some(Term::List(all)) => all.clone(),
        _ => Vec::new(),
    };
    if !all.contains(&element) {
        all.push(element);
    }
    set(draft, table, name, Term::List(all))
}

/// Writes the weights of the hosts of the entry for all databases, relative to the largest; returns the fate of one host's.
pub(crate) fn shares(
    weights: impl Iterator<Item = (String, i64)> + Clone,
    own: Option<&str>,
    draft: &mut Draft,
) -> Outcome {
    let largest = weights
        .clone()
        .map(|(_, weight)| weight)
        .max()
        .unwrap_or(1)
        .max(1);
    let mut outcome = Outcome::Default("weight".to_owned());
    for (host, weight) in weights {
        let scaled = weight.clamp(0, largest).saturating_mul(WEIGHT_MAX);
        let share = scaled.saturating_add(largest - 1) / largest;
        if share == WEIGHT_MAX {
            continue;
        }
        let is_own = own == Some(host.as_str());
        let table = Table::Host(weir_config::FALLBACK.to_owned(), host);
        let why = "shares of reads are relative to 100";
        let written = set_other(draft, table, "weight", Term::Number(share), why);
        if is_own {
            outcome = written;
        }
    }
    outcome
}
