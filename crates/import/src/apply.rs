//! Rows of the tables that map settings, and their application. Every row decides the fate of one setting.

use crate::draft::{Draft, Table, Term};
use crate::finding::Outcome;
use crate::leaf::{Leaf, Scalar};

/// Treatment of a setting.
#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    /// Copied to an option.
    Copy(&'static str),
    /// Copied to an option with one value, which takes a list.
    List(&'static str),
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
        How::List(name) => set(draft, table, name, Term::List(vec![leaf.text()])),
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
        How::Not(unless, _) if leaf.text() == unless => Outcome::NoMeaning("Weir does the same"),
        How::Not(_, why) => Outcome::NotMapped(why.to_owned()),
    }
}

/// Writes an option and says so.
pub(crate) fn set(draft: &mut Draft, table: Table, name: &'static str, term: Term) -> Outcome {
    let to = match &table {
        Table::Global => name.to_owned(),
        Table::Database(database) => format!("databases.{database}.{name}"),
        Table::User(user) => format!("users.{user}.{name}"),
    };
    match draft.set(table, name, term) {
        true => Outcome::Mapped(to),
        false => Outcome::Default(to),
    }
}

/// Writes a time. Zero stays zero; no limit at all is zero here.
fn duration(
    leaf: &Leaf,
    unit: i64,
    table: Table,
    name: &'static str,
    draft: &mut Draft,
) -> Outcome {
    let Some(number) = leaf.number().filter(|number| *number >= 0) else {
        return Outcome::NotMapped("not a time".to_owned());
    };
    if number == i64::MAX {
        return set(draft, table, name, Term::text("0s"));
    }
    set(
        draft,
        table,
        name,
        Term::Text(millis(number.saturating_mul(unit))),
    )
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
    let text = leaf.text();
    if text.contains(['\n', '\r', '\0']) {
        return Outcome::NotMapped("a user list cannot hold a line break".to_owned());
    }
    let is_hash = text.starts_with("md5") && text.len() == 35 || text.starts_with("SCRAM-SHA-256$");
    match (draft.secret(user, &text), is_hash) {
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
    draft.set(table.clone(), "watch_user", Term::text(watcher));
    set(draft, table, "replicas", Term::List(replicas));
    let why = format!("Weir asks each host for its role, as user {watcher:?} (watch_user)");
    Outcome::Differs("replicas".to_owned(), why)
}
