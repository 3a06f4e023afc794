//! Settings: their names, the values they accept, and their behaviour in a transaction (`utils/misc/guc.c`).

use std::collections::{BTreeMap, BTreeSet};

use super::Failure;

/// Values that a setting accepts.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Bool,
    /// A word of this list.
    Enum(&'static [&'static str]),
    /// Read-only.
    Fact,
    Int(i64, i64),
    /// A list of names.
    List,
    /// Kilobytes.
    Memory,
    /// Milliseconds.
    Time,
    /// Any value, unless it begins with `bad`.
    Text,
}

struct Known {
    name: &'static str,
    kind: Kind,
    default: &'static str,
}

const fn known(name: &'static str, kind: Kind, default: &'static str) -> Known {
    Known {
        name,
        kind,
        default,
    }
}

const DATE_STYLES: Kind = Kind::Enum(&[
    "ISO, MDY",
    "ISO, DMY",
    "ISO, YMD",
    "SQL, DMY",
    "German, DMY",
]);
const COMMIT_MODES: Kind = Kind::Enum(&["local", "remote_write", "remote_apply", "on", "off"]);
const ISOLATION: Kind = Kind::Enum(&[
    "read committed",
    "repeatable read",
    "serializable",
    "read uncommitted",
]);

/// Known settings, in the order in which PostgreSQL 15 reports them.
const KNOWN: &[Known] = &[
    known("application_name", Kind::Text, ""),
    known("bytea_output", Kind::Enum(&["hex", "escape"]), "hex"),
    known(
        "client_encoding",
        Kind::Enum(&["UTF8", "LATIN1", "SJIS", "SQL_ASCII"]),
        "UTF8",
    ),
    known("DateStyle", DATE_STYLES, "ISO, MDY"),
    known("default_transaction_isolation", ISOLATION, "read committed"),
    known("default_transaction_read_only", Kind::Bool, "off"),
    known("enable_seqscan", Kind::Bool, "on"),
    known("extra_float_digits", Kind::Int(-15, 3), "1"),
    known("in_hot_standby", Kind::Fact, "off"),
    known("integer_datetimes", Kind::Fact, "on"),
    known(
        "IntervalStyle",
        Kind::Enum(&["postgres", "postgres_verbose", "sql_standard", "iso_8601"]),
        "postgres",
    ),
    known("is_superuser", Kind::Fact, "on"),
    known("lock_timeout", Kind::Time, "0"),
    known("role", Kind::Text, "none"),
    known("search_path", Kind::List, "\"$user\", public"),
    known("server_encoding", Kind::Fact, "UTF8"),
    known("server_version", Kind::Fact, "15.18"),
    known("session_authorization", Kind::Text, "ann"),
    known("standard_conforming_strings", Kind::Bool, "on"),
    known("statement_timeout", Kind::Time, "0"),
    known("synchronous_commit", COMMIT_MODES, "on"),
    known("TimeZone", Kind::Text, "UTC"),
    known("work_mem", Kind::Memory, "4096"),
];

/// Settings that `RESET ALL` does not change (`GUC_NO_RESET_ALL`).
const IDENTITY: [&str; 2] = ["role", "session_authorization"];

fn find(name: &str) -> Option<&'static Known> {
    KNOWN
        .iter()
        .find(|known| known.name.eq_ignore_ascii_case(name))
}

/// Settings of a session, which a rollback to a transaction's or savepoint's beginning restores. Names are in lower
/// case, values in base units.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Values {
    session: BTreeMap<String, String>,
    /// Values that hold to the end of the transaction; `None` means the default.
    local: BTreeMap<String, Option<String>>,
}

impl Values {
    fn get(&self, name: &str) -> Option<Option<&str>> {
        match self.local.get(name) {
            Some(value) => Some(value.as_deref()),
            None => self.session.get(name).map(|value| Some(value.as_str())),
        }
    }

    /// True if a value holds only to the end of the transaction.
    pub(super) fn has_local(&self) -> bool {
        !self.local.is_empty()
    }

    pub(super) fn end_local(&mut self) {
        self.local.clear();
    }

    pub(super) fn set(&mut self, name: &str, value: Option<String>, local: bool) {
        let name = name.to_ascii_lowercase();
        if name == "session_authorization" {
            // `SetSessionAuthorization` in miscinit.c resets the role.
            self.set("role", None, local);
        }
        if local {
            self.local.insert(name, value);
            return;
        }
        self.local.remove(&name);
        match value {
            Some(value) => self.session.insert(name, value),
            None => self.session.remove(&name),
        };
    }

    pub(super) fn reset_all(&mut self) {
        let is_identity = |name: &str| IDENTITY.contains(&name);
        self.session.retain(|name, _| is_identity(name));
        self.local.retain(|name, _| is_identity(name));
    }

    pub(super) fn discard(&mut self) {
        self.session.clear();
        self.local.clear();
    }
}

/// Values that no transaction changes: defaults and the start-up packet. Also the custom names that were ever set,
/// which a rollback does not remove.
#[derive(Debug, Clone, Default)]
pub(super) struct Defaults {
    pub(super) user: String,
    /// True if every setting accepts any value.
    pub(super) lenient: bool,
    startup: BTreeMap<String, String>,
    placeholders: BTreeSet<String>,
}

impl Defaults {
    pub(super) fn of(user: &str) -> Self {
        Self {
            user: user.to_owned(),
            ..Self::default()
        }
    }

    pub(super) fn start(&mut self, name: &str, value: &str) -> Result<(), Failure> {
        let value = self.accept(name, value)?;
        self.startup.insert(name.to_ascii_lowercase(), value);
        Ok(())
    }

    /// Returns the value in base units; an error if the setting does not exist or does not accept the value.
    pub(super) fn accept(&mut self, name: &str, value: &str) -> Result<String, Failure> {
        if self.lenient {
            return Ok(value.to_owned());
        }
        let Some(known) = find(name) else {
            if !name.contains('.') {
                return Err(unrecognized(name));
            }
            self.placeholders.insert(name.to_ascii_lowercase());
            return Ok(value.to_owned());
        };
        parse(known, name, value)
    }

    /// Checks a RESET: the setting must exist and be changeable.
    pub(super) fn check(&mut self, name: &str) -> Result<(), Failure> {
        match find(name) {
            Some(known) if matches!(known.kind, Kind::Fact) => Err(fact(name)),
            Some(_) => Ok(()),
            None if self.placeholders.contains(&name.to_ascii_lowercase()) => Ok(()),
            None if name.contains('.') => {
                // `RESET a.b` makes a placeholder.
                self.placeholders.insert(name.to_ascii_lowercase());
                Ok(())
            }
            None => Err(unrecognized(name)),
        }
    }

    /// Value in base units.
    pub(super) fn base<'v>(&'v self, values: &'v Values, name: &str) -> Option<&'v str> {
        let key = name.to_ascii_lowercase();
        let own = values.get(&key).flatten();
        if let Some(value) = own.or_else(|| self.startup.get(&key).map(String::as_str)) {
            return Some(value);
        }
        match key.as_str() {
            "session_authorization" => Some(&self.user),
            "is_superuser" if self.current_user(values) == self.user => Some("on"),
            "is_superuser" => Some("off"),
            _ => match find(name) {
                Some(known) => Some(known.default),
                None => self.placeholders.contains(&key).then_some(""),
            },
        }
    }

    /// Value as SHOW prints it; none if there is no such setting.
    pub(super) fn show(&self, values: &Values, name: &str) -> Option<String> {
        let base = self.base(values, name)?;
        Some(match find(name).map(|known| known.kind) {
            Some(Kind::Memory) => with_unit(base, &[(1 << 20, "GB"), (1 << 10, "MB"), (1, "kB")]),
            Some(Kind::Time) => with_unit(
                base,
                &[
                    (86_400_000, "d"),
                    (3_600_000, "h"),
                    (60_000, "min"),
                    (1000, "s"),
                    (1, "ms"),
                ],
            ),
            _ => base.to_owned(),
        })
    }

    pub(super) fn current_user<'v>(&'v self, values: &'v Values) -> &'v str {
        match self.base(values, "role") {
            None | Some("none") => self.session_user(values),
            Some(role) => role,
        }
    }

    pub(super) fn session_user<'v>(&'v self, values: &'v Values) -> &'v str {
        self.base(values, "session_authorization")
            .unwrap_or_default()
    }

    /// Checks if the session's user may become `who` by `SET ROLE` or `SET SESSION AUTHORIZATION`.
    pub(super) fn may_become(&self, values: &Values, name: &str, who: &str) -> Result<(), Failure> {
        if !["role", "session_authorization"].contains(&name.to_ascii_lowercase().as_str()) {
            return Ok(());
        }
        let known = ["none", "alice", "bobby", &self.user];
        if !known.contains(&who) {
            let text = format!("role \"{who}\" does not exist");
            return Err(Failure::new("22023", text));
        }
        let session = self.session_user(values);
        let may = session == self.user || who == "none" || who == session;
        if name.eq_ignore_ascii_case("role") && !may {
            let text = format!("permission denied to set role \"{who}\"");
            return Err(Failure::new("42501", text));
        }
        Ok(())
    }

    /// Rows of `pg_settings` with the source `session`.
    pub(super) fn of_session(&self, values: &Values) -> Vec<(String, String)> {
        let names: BTreeSet<&String> = values.session.keys().chain(values.local.keys()).collect();
        let shown = names.into_iter().filter_map(|name| {
            values.get(name).flatten()?;
            let name = find(name).map_or(name.as_str(), |known| known.name);
            // Hidden in `pg_settings` (`GUC_NO_SHOW_ALL`).
            let hidden = IDENTITY.contains(&name);
            (!hidden).then(|| {
                (
                    name.to_owned(),
                    self.base(values, name).unwrap_or_default().to_owned(),
                )
            })
        });
        shown.collect()
    }

    /// Settings that differ from a fresh session without a start-up packet, as SHOW prints them.
    pub(super) fn visible(&self, values: &Values) -> BTreeMap<String, String> {
        let names = KNOWN.iter().map(|known| known.name);
        let custom = self.placeholders.iter().map(String::as_str);
        let all = names.chain(custom).filter_map(|name| {
            let value = self.show(values, name)?;
            let default = match name {
                "session_authorization" => &self.user,
                _ => find(name).map_or("", |known| known.default),
            };
            let is_default = self.base(values, name) == Some(default);
            (!is_default).then(|| (name.to_owned(), value))
        });
        all.collect()
    }
}

/// Name in PostgreSQL's spelling.
pub(super) fn canonical(name: &str) -> &str {
    find(name).map_or(name, |known| known.name)
}

pub(super) fn unrecognized(name: &str) -> Failure {
    let text = format!("unrecognized configuration parameter \"{name}\"");
    Failure::new("42704", text)
}

/// Error after a membership was revoked, a role dropped, or a value (such as a time zone) is no longer known.
pub(super) fn forbidden(name: &str, value: &str) -> Failure {
    match name.to_ascii_lowercase().as_str() {
        "role" => {
            let text = format!("permission denied to set role \"{value}\"");
            Failure::new("42501", text)
        }
        "session_authorization" => {
            Failure::new("22023", format!("role \"{value}\" does not exist"))
        }
        _ => {
            let text = format!("invalid value for parameter \"{name}\": \"{value}\"");
            Failure::new("22023", text)
        }
    }
}

fn fact(name: &str) -> Failure {
    Failure::new("55P02", format!("parameter \"{name}\" cannot be changed"))
}

/// Parses a value. `name` is spelled as the client wrote it; errors of some settings use the canonical name instead.
fn parse(known: &Known, name: &str, value: &str) -> Result<String, Failure> {
    let name = match known.name {
        "DateStyle" | "TimeZone" | "client_encoding" => known.name,
        _ => name,
    };
    let invalid = || {
        let text = format!("invalid value for parameter \"{name}\": \"{value}\"");
        Failure::new("22023", text)
    };
    match known.kind {
        Kind::Fact => Err(fact(name)),
        Kind::Bool => match value.to_ascii_lowercase().as_str() {
            "on" | "true" | "yes" | "1" => Ok("on".to_owned()),
            "off" | "false" | "no" | "0" => Ok("off".to_owned()),
            _ => {
                let text = format!("parameter \"{name}\" requires a Boolean value");
                Err(Failure::new("22023", text))
            }
        },
        Kind::Enum(values) => values
            .iter()
            .find(|known| known.eq_ignore_ascii_case(value))
            .map(|known| (*known).to_owned())
            .ok_or_else(invalid),
        Kind::Int(min, max) => {
            let number: i64 = value.parse().map_err(|_| invalid())?;
            if number < min || number > max {
                let text = format!(
                    "{number} is outside the valid range for parameter \"{name}\" ({min} .. {max})"
                );
                return Err(Failure::new("22023", text));
            }
            Ok(number.to_string())
        }
        Kind::Memory => {
            units(value, &[("kB", 1), ("MB", 1 << 10), ("GB", 1 << 20)]).ok_or_else(invalid)
        }
        Kind::Time => {
            let known = [("ms", 1), ("s", 1000), ("min", 60_000), ("h", 3_600_000)];
            units(value, &known).ok_or_else(invalid)
        }
        Kind::List => Ok(value.to_owned()),
        Kind::Text if name == "TimeZone" && value.starts_with("bad") => Err(invalid()),
        Kind::Text => Ok(value.to_owned()),
    }
}

fn units(value: &str, known: &[(&str, i64)]) -> Option<String> {
    let end = value
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(value.len());
    let (number, unit) = value.split_at(end);
    let number: i64 = number.parse().ok()?;
    let unit = unit.trim_start();
    let factor = known.iter().find(|(name, _)| *name == unit);
    let factor = if unit.is_empty() { 1 } else { factor?.1 };
    Some((number * factor).to_string())
}

fn with_unit(base: &str, units: &[(i64, &str)]) -> String {
    let number: i64 = base.parse().unwrap_or(0);
    let fits = units
        .iter()
        .find(|(size, _)| number != 0 && number % size == 0);
    fits.map_or_else(
        || base.to_owned(),
        |(size, unit)| format!("{}{unit}", number / size),
    )
}
