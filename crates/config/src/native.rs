//! Reader of weir.toml: global options at the top level, and the tables `[databases.NAME]`, `[users.NAME]`,
//! `[pools.DATABASE.USER]`, `[peers.ID]`; in a database's table `[databases.NAME.hosts.ADDRESS]`. Values may use variables of the environment, `${NAME}`. The toml crate parses; its messages are used
//! without the excerpts, which could show a password.

pub(crate) mod rules;
mod statements;

use std::io;
use std::path::Path;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{ConfigError, ErrorKind};
use crate::expand::{Variables, expand};
use crate::files::Files;
use crate::ini::insert_entry;
use crate::options::{Kind, Opt, Scope};
use crate::point::HostPoint;
use crate::raw::{Origin, Raw, Values, quoted};
use crate::rules::{QueryRule, finished};
use crate::rules_dir;
use crate::value::{BadValue, Dialect, Value};

/// Reads a native file.
pub(crate) fn read_file(
    raw: &mut Raw,
    path: &Path,
    read: &mut dyn FnMut(&Path) -> io::Result<String>,
    variables: &Variables,
) {
    let file: Arc<str> = path.to_string_lossy().into();
    match read(path) {
        Ok(text) => Reader {
            lines: line_starts(&text),
            file,
            raw,
            variables,
        }
        .document(&text),
        Err(why) => {
            let at = Origin::File(Arc::clone(&file), 0);
            raw.fail_at(
                &at,
                ErrorKind::Read,
                format!("cannot read {}: {why}", quoted(&file)),
            );
        }
    }
}

/// Reads a file of `rules_dir`, which has nothing but query rules, and adds them behind those that are known.
pub(crate) fn read_rules(raw: &mut Raw, path: &Path, files: &mut dyn Files) {
    read_part(raw, path, files, |reader: Reader<'_>, text| {
        reader.only_rules(text, Others::Refused);
    });
}

/// Reads a file of `statement_list_dir`, which has the statements of one user.
pub(crate) fn read_statements(raw: &mut Raw, path: &Path, files: &mut dyn Files) {
    read_part(raw, path, files, |reader: Reader<'_>, text| {
        reader.only_statements(text)
    });
}

/// Reads a file beside the configuration file.
fn read_part(
    raw: &mut Raw,
    path: &Path,
    files: &mut dyn Files,
    read: impl FnOnce(Reader<'_>, &str),
) {
    let file: Arc<str> = path.to_string_lossy().into();
    match files.read(path) {
        Ok(text) => {
            let reader = Reader {
                lines: line_starts(&text),
                file,
                raw,
                variables: &Variables::default(),
            };
            read(reader, &text);
        }
        Err(why) => {
            let at = Origin::File(Arc::clone(&file), 0);
            let message = format!("cannot read {}: {why}", quoted(&file));
            raw.fail_at(&at, ErrorKind::Read, message);
        }
    }
}

/// Reads the query rules of a weir.toml or of a file of `rules_dir`, and of the files in its own `rules_dir`, which `files`
/// has. Everything else in it is left unread. Mistakes name it as `file`. `env` has the environment's variables.
///
/// # Errors
/// Returns every mistake found in the rules.
pub fn rules_of(
    file: &str,
    text: &str,
    files: &mut dyn Files,
    env: impl Iterator<Item = (String, String)>,
) -> Result<Vec<QueryRule>, Vec<ConfigError>> {
    let mut raw = Raw::default();
    let reader = Reader {
        lines: line_starts(text),
        file: file.into(),
        raw: &mut raw,
        variables: &env.collect(),
    };
    reader.only_rules(text, Others::Ignored);
    rules_dir::read(&mut raw, files);
    match raw.errors.is_empty() {
        true => Ok(finished(raw.rules)),
        false => Err(raw.errors),
    }
}

/// Reads a text that has nothing but query rules, `[[rules]]`. Mistakes name it as `file`.
///
/// # Errors
/// Returns every mistake found.
pub fn query_rules(file: &str, text: &str) -> Result<Vec<QueryRule>, Vec<ConfigError>> {
    let mut raw = Raw::default();
    let reader = Reader {
        lines: line_starts(text),
        file: file.into(),
        raw: &mut raw,
        variables: &Variables::default(),
    };
    reader.document(text);
    if let Some(at) = raw.has_more_than_rules() {
        raw.fail_at(
            &at,
            ErrorKind::Syntax,
            "nothing but the keys of a rule may stand here",
        );
    }
    match raw.errors.is_empty() {
        true => Ok(finished(raw.rules)),
        false => Err(raw.errors),
    }
}

/// Offsets at which the lines after the first begin.
fn line_starts(text: &str) -> Vec<usize> {
    text.match_indices('\n').map(|(at, _)| at + 1).collect()
}

struct Reader<'a> {
    raw: &'a mut Raw,
    file: Arc<str>,
    lines: Vec<usize>,
    variables: &'a Variables,
}

/// Treatment of what is no query rule.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Others {
    Ignored,
    Refused,
}

impl Reader<'_> {
    /// Parses a text, or records its mistakes.
    fn parse<'t>(&mut self, text: &'t str) -> Option<Spanned<DeTable<'t>>> {
        let (document, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            let at = self.at(error.span().map_or(0, |span| span.start));
            self.raw
                .fail_at(&at, ErrorKind::Syntax, error.message().replace('\n', "; "));
        }
        errors.is_empty().then_some(document)
    }

    fn only_rules(mut self, text: &str, others: Others) {
        let Some(document) = self.parse(text) else {
            return;
        };
        for (key, value) in in_order(document.get_ref()) {
            let at = self.at(key.span().start);
            let name: &str = key.get_ref();
            if name == "rules" {
                self.rules(value, &at);
            } else if others == Others::Ignored && name == rules_dir::OPTION {
                let mut global = std::mem::take(&mut self.raw.global);
                let section = "at the top level";
                self.assign(Scope::Global, &mut global, name, section, value, &at);
                self.raw.global = global;
            } else if others == Others::Refused {
                let message = format!(
                    "{} is not allowed here: a file of rules_dir has nothing but [[rules]]; \
                     options and other tables belong in the configuration file",
                    quoted(name)
                );
                self.raw.fail_at(&at, ErrorKind::UnknownKey, message);
            }
        }
    }

    fn document(mut self, text: &str) {
        let Some(document) = self.parse(text) else {
            return;
        };
        // Another file of the same directory may have set some already.
        let mut global = std::mem::take(&mut self.raw.global);
        for (key, value) in in_order(document.get_ref()) {
            let at = self.at(key.span().start);
            let name: &str = key.get_ref();
            match (name, value.get_ref()) {
                ("databases", DeValue::Table(table)) => self.entries(Scope::Database, name, table),
                ("listeners", DeValue::Table(table)) => self.entries(Scope::Listener, name, table),
                ("pools", DeValue::Table(table)) => self.pools(table),
                ("users", DeValue::Table(table)) => self.entries(Scope::User, name, table),
                ("peers", DeValue::Table(table)) => self.entries(Scope::Peer, name, table),
                ("rules", _) => self.rules(value, &at),
                ("databases" | "listeners" | "users" | "peers" | "pools", _) => {
                    let more = if name == "pools" {
                        "DATABASE.USER"
                    } else {
                        "NAME"
                    };
                    let message = format!("{name} must be tables, such as [{name}.{more}]");
                    self.raw.fail_at(&at, ErrorKind::Syntax, message);
                }
                (_, DeValue::Table(_)) if Scope::Global.find(name).is_none() => {
                    let message = format!(
                        "unknown table {}; global options stand at the top level, the others in \
                         [databases.NAME], [users.NAME], [pools.DATABASE.USER], [listeners.NAME] and [peers.ID]",
                        quoted(name)
                    );
                    self.raw.fail_at(&at, ErrorKind::UnknownKey, message);
                }
                _ => self.assign(
                    Scope::Global,
                    &mut global,
                    name,
                    "at the top level",
                    value,
                    &at,
                ),
            }
        }
        self.raw.global = global;
    }

    fn entries(&mut self, scope: Scope, section: &str, table: &DeTable<'_>) {
        for (key, value) in in_order(table) {
            let at = self.at(key.span().start);
            let name: &str = key.get_ref();
            let DeValue::Table(table) = value.get_ref() else {
                let message = format!("{section}.{} must be a table", quoted(name));
                self.raw.fail_at(&at, ErrorKind::Syntax, message);
                continue;
            };
            let shown = format!("in [{section}.{}]", quoted(name));
            let mut values = Values::new();
            for (key, value) in in_order(table) {
                let at = self.at(key.span().start);
                match (scope, &**key.get_ref()) {
                    (Scope::Database, "hosts") => self.hosts(name, value.get_ref(), &at),
                    (_, key) => self.assign(scope, &mut values, key, &shown, value, &at),
                }
            }
            insert_entry(self.raw, scope, name.to_owned(), values, &at);
        }
    }

    /// Reads the tables of single users of databases.
    fn pools(&mut self, databases: &DeTable<'_>) {
        for (key, value) in in_order(databases) {
            let at = self.at(key.span().start);
            let database: &str = key.get_ref();
            let DeValue::Table(users) = value.get_ref() else {
                let message = format!(
                    "pools.{} must be tables, such as [pools.{}.USER]",
                    quoted(database),
                    quoted(database)
                );
                self.raw.fail_at(&at, ErrorKind::Syntax, message);
                continue;
            };
            for (key, value) in in_order(users) {
                let at = self.at(key.span().start);
                let user: &str = key.get_ref();
                let section = format!("[pools.{}.{}]", quoted(database), quoted(user));
                let DeValue::Table(options) = value.get_ref() else {
                    let message = format!(
                        "pools.{}.{} must be a table of the user {}, such as {section}",
                        quoted(database),
                        quoted(user),
                        quoted(user)
                    );
                    self.raw.fail_at(&at, ErrorKind::Syntax, message);
                    continue;
                };
                let shown = format!("in {section}");
                let mut values = Values::new();
                for (key, value) in in_order(options) {
                    let at = self.at(key.span().start);
                    let name: &str = key.get_ref();
                    if matches!(value.get_ref(), DeValue::Table(_)) {
                        let message = format!(
                            "unknown table {} {shown}; a name with dots needs quotes: \
                             [pools.\"my.db\".\"my.user\"]",
                            quoted(name)
                        );
                        self.raw.fail_at(&at, ErrorKind::UnknownKey, message);
                        continue;
                    }
                    self.assign(Scope::Pool, &mut values, name, &shown, value, &at);
                }
                self.raw
                    .insert_pool(database.to_owned(), user.to_owned(), values, &at);
            }
        }
    }

    /// Reads the tables of single hosts of a database.
    fn hosts(&mut self, database: &str, value: &DeValue<'_>, at: &Origin) {
        let section = format!("databases.{}.hosts", quoted(database));
        let DeValue::Table(tables) = value else {
            let message = format!("{section} must be tables, such as [{section}.\"10.0.0.7\"]");
            return self.raw.fail_at(at, ErrorKind::Syntax, message);
        };
        for (key, value) in in_order(tables) {
            let at = self.at(key.span().start);
            let host: &str = key.get_ref();
            let DeValue::Table(options) = value.get_ref() else {
                let message = format!("{section}.{} must be a table", quoted(host));
                self.raw.fail_at(&at, ErrorKind::Syntax, message);
                continue;
            };
            let point = match HostPoint::parse(host) {
                Ok(point) => point,
                Err(why) => {
                    let message = format!("bad host {} in [{section}]: {why}", quoted(host));
                    self.raw.fail_at(&at, ErrorKind::BadValue, message);
                    continue;
                }
            };
            let shown = format!("in [{section}.{}]", quoted(host));
            let mut values = Values::new();
            for (key, value) in in_order(options) {
                let at = self.at(key.span().start);
                let name: &str = key.get_ref();
                if matches!(value.get_ref(), DeValue::Table(_)) && Scope::Host.find(name).is_none()
                {
                    let message = format!(
                        "unknown table {} {shown}; a host with dots needs quotes: \
                         [databases.NAME.hosts.\"10.0.0.7\"]",
                        quoted(name)
                    );
                    self.raw.fail_at(&at, ErrorKind::UnknownKey, message);
                    continue;
                }
                self.assign(Scope::Host, &mut values, name, &shown, value, &at);
            }
            self.raw
                .insert_host(database.to_owned(), point, values, &at);
        }
    }

    fn assign(
        &mut self,
        scope: Scope,
        values: &mut Values,
        key: &str,
        section: &str,
        value: &Spanned<DeValue<'_>>,
        at: &Origin,
    ) {
        let Some(opt) = self.raw.find(scope, key, section, at) else {
            return;
        };
        match convert(opt, value.get_ref(), self.variables) {
            Ok((value, names)) => {
                let at = match (at, names.first()) {
                    (Origin::File(file, line), Some(name)) => {
                        Origin::Variable(Arc::clone(file), *line, name.clone())
                    }
                    _ => at.clone(),
                };
                self.raw.used_variables.extend(names);
                self.raw.store(values, opt, value, &at);
            }
            Err(bad) => self.raw.bad_value(opt, &shown(value.get_ref()), at, bad),
        }
    }

    /// Returns the origin of a byte offset.
    fn at(&self, offset: usize) -> Origin {
        let line = self.lines.partition_point(|start| *start <= offset) + 1;
        Origin::File(
            Arc::clone(&self.file),
            u32::try_from(line).unwrap_or(u32::MAX),
        )
    }
}

/// Returns the pairs in file order; the map sorts them by key.
fn in_order<'a, 'd>(
    table: &'a DeTable<'d>,
) -> Vec<(
    &'a Spanned<std::borrow::Cow<'d, str>>,
    &'a Spanned<DeValue<'d>>,
)> {
    let mut pairs: Vec<_> = table.iter().collect();
    pairs.sort_by_key(|(key, _)| key.span().start);
    pairs
}

/// Converts a value. Returns it with the environment variables that it used.
fn convert(
    opt: &Opt,
    value: &DeValue<'_>,
    variables: &Variables,
) -> Result<(Value, Vec<String>), BadValue> {
    let plain = |value| Ok((value, Vec::new()));
    match value {
        DeValue::String(text) => {
            let expanded = expand(text, variables)?;
            let value = opt.parse(&expanded.text, Dialect::Native)?;
            Ok((value, owned(expanded.names.into_iter())))
        }
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => plain(opt.number(number)?),
            Err(_) => Err(BadValue::plain("the number is too large")),
        },
        // 1.20 and 1.2 are the same number, and different versions.
        DeValue::Float(number) if matches!(opt.kind, Kind::Enum(words) if words.contains(&number.as_str())) => {
            Err(BadValue::plain("must stand in quotes"))
        }
        DeValue::Float(number) => match number.as_str().parse() {
            Ok(number) => plain(opt.fraction(number)?),
            Err(_) => Err(BadValue::plain("not a number")),
        },
        DeValue::Boolean(truth) => plain(opt.truth(*truth)?),
        DeValue::Array(items) => {
            let texts: Option<Vec<&str>> = items.iter().map(|i| i.get_ref().as_str()).collect();
            let texts = texts.ok_or_else(|| BadValue::plain("must be a list of texts"))?;
            let texts: Vec<_> = texts
                .into_iter()
                .map(|text| expand(text, variables))
                .collect::<Result<_, _>>()?;
            let value = opt.list(texts.iter().map(|text| &*text.text))?;
            Ok((value, owned(texts.into_iter().flat_map(|text| text.names))))
        }
        DeValue::Datetime(_) | DeValue::Table(_) => {
            Err(BadValue::plain("dates and tables are no values of options"))
        }
    }
}

fn owned<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    names.map(str::to_owned).collect()
}

/// Returns the part of a wrong value that a message repeats.
fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => text.clone().into_owned(),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(truth) => truth.to_string(),
        DeValue::Datetime(date) => date.to_string(),
        DeValue::Array(_) => "[…]".to_owned(),
        DeValue::Table(_) => "{…}".to_owned(),
    }
}
