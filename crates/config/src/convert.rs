//! Converts PgBouncer's ini to weir.toml: the same configuration, with the file's comments in their places and the
//! meaning of each option above it.
//!
//! TOML requires global options before all tables, so `[pgbouncer]` comes first; within a section the order stays. If
//! the ini sets an option twice, only the value in force is written.

use std::io;
use std::path::Path;

use crate::error::ConfigError;
use crate::options::{Opt, Scope};
use crate::point::HostPoint;
use crate::raw::{Origin, Raw, Traced, Values};
use crate::settings::default_of;
use crate::settings::{Format, Settings};
use crate::value::{Value, toml_string, toml_text};
use crate::{check, expand, ini};

/// Width that comments are wrapped to.
const WIDTH: usize = 100;

/// A converted configuration. The text may hold passwords.
#[derive(Clone, PartialEq, Eq)]
pub struct Converted {
    /// Text of the weir.toml.
    pub text: String,
    /// Warnings about the ini, as loading it would give.
    pub notes: Vec<String>,
    /// True if the text holds a password.
    pub has_secrets: bool,
}

/// Reads an ini and all files that it includes, and converts it to weir.toml. Loading the result gives the same
/// settings, except for `conffile`. The environment is ignored.
///
/// # Errors
/// Returns every mistake in the ini.
pub fn convert(
    path: &Path,
    read: &mut dyn FnMut(&Path) -> io::Result<String>,
) -> Result<Converted, Vec<ConfigError>> {
    let mut raw = Raw {
        trace: Some(Vec::new()),
        ..Raw::default()
    };
    ini::read_file(&mut raw, path, read);
    // As in loading, so that both refuse the same mistakes.
    expand::read_passwords(&mut raw, read);
    let name = path.to_string_lossy();
    let settings = Settings::build(&raw, Format::Ini, &name);
    if raw.errors.is_empty() {
        let file = Origin::File((&*name).into(), 0);
        check::check(&mut raw, &settings, &file);
    }
    if !raw.errors.is_empty() {
        return Err(raw.errors);
    }
    let trace = raw.trace.take().unwrap_or_default();
    let mut writer = Writer {
        raw: &raw,
        out: String::new(),
        has_secrets: false,
    };
    writer.head(&name);
    writer.document(trace);
    Ok(Converted {
        text: writer.out,
        has_secrets: writer.has_secrets,
        notes: raw.notes,
    })
}

struct Writer<'a> {
    raw: &'a Raw,
    out: String,
    has_secrets: bool,
}

impl Writer<'_> {
    fn head(&mut self, name: &str) {
        self.comment(&format!(
            "Made from {name} by `weir convert`. `weir check` on both shows the same values."
        ));
        self.out.push('\n');
    }

    /// Sorts the lines by section; lines before the first section stay in front.
    fn document(&mut self, trace: Vec<Traced>) {
        let scopes = [
            Scope::Global,
            Scope::Database,
            Scope::Host,
            Scope::Listener,
            Scope::Pool,
            Scope::User,
            Scope::Peer,
        ];
        let mut front = Vec::new();
        let mut parts: [Vec<Traced>; 7] = Default::default();
        let mut section = None;
        // Comments right above a section's header belong to the section.
        let mut waiting = Vec::new();
        for line in trace {
            match line {
                Traced::Section(scope) => {
                    section = scopes.iter().position(|other| *other == scope);
                    let part = section.and_then(|at| parts.get_mut(at));
                    part.unwrap_or(&mut front).append(&mut waiting);
                }
                Traced::Blank => {
                    let part = section.and_then(|at| parts.get_mut(at));
                    let part = part.unwrap_or(&mut front);
                    part.append(&mut waiting);
                    part.push(Traced::Blank);
                }
                Traced::Comment(_) => waiting.push(line),
                Traced::Global(..) | Traced::Entry(..) => {
                    let part = section.and_then(|at| parts.get_mut(at));
                    let part = part.unwrap_or(&mut front);
                    part.append(&mut waiting);
                    part.push(line);
                }
            }
        }
        let last = section.and_then(|at| parts.get_mut(at));
        last.unwrap_or(&mut front).append(&mut waiting);
        self.lines(front);
        let [global, rest @ ..] = parts;
        self.defaults();
        self.lines(global);
        rest.into_iter().for_each(|part| self.lines(part));
    }

    /// Writes PgBouncer's default where the ini sets nothing and weir.toml's default differs.
    fn defaults(&mut self) {
        for opt in Scope::Global.options() {
            if opt.default_native.is_some() && !self.raw.global.contains_key(opt.name) {
                self.gap();
                self.comment(
                    "Not in the ini: PgBouncer's default, which is not that of weir.toml.",
                );
                self.option(opt, &default_of(opt, Format::Ini));
                self.gap();
            }
        }
    }

    fn lines(&mut self, lines: Vec<Traced>) {
        for line in lines {
            match line {
                Traced::Blank => self.gap(),
                Traced::Comment(text) => self.comment(&text),
                Traced::Section(_) => {}
                Traced::Global(name, at) => self.global(name, &at),
                Traced::Entry(Scope::Host, key, at) => self.host(&key, &at),
                Traced::Entry(Scope::Pool, key, at) => self.pool(&key, &at),
                Traced::Entry(scope, name, at) => self.entry(scope, &name, &at),
            }
        }
        self.gap();
    }

    fn global(&mut self, name: &str, at: &Origin) {
        let found = self.raw.global.get(name).filter(|(_, last)| last == at);
        let (Some((value, _)), Some(opt)) = (found, Scope::Global.find(name)) else {
            return;
        };
        self.gap_before_option();
        self.comment(opt.doc.trim());
        if name == "conffile" {
            self.comment("Left out: a reload would read that file instead of this one.");
            self.out.push_str("# ");
        }
        self.option(opt, value);
    }

    fn entry(&mut self, scope: Scope, name: &str, at: &Origin) {
        let (section, found) = match scope {
            Scope::Database => ("databases", self.raw.databases.get(name)),
            Scope::Listener => ("listeners", self.raw.listeners.get(name)),
            Scope::User => ("users", self.raw.users.get(name)),
            Scope::Global | Scope::Host | Scope::Peer | Scope::Pool => {
                let id = name.parse().ok();
                ("peers", id.and_then(|id: u32| self.raw.peers.get(&id)))
            }
        };
        let Some((values, _)) = found.filter(|(_, last)| last == at) else {
            return;
        };
        let header = format!("[{section}.{}]", toml_key(name));
        self.table(scope, &header, values);
    }

    /// Writes a line of `[hosts]`, whose key is `DATABASE/HOST`.
    fn host(&mut self, key: &str, at: &Origin) {
        let Ok((database, point)) = ini::split_host(key, self.raw) else {
            return;
        };
        let tables = self.raw.hosts.get(&database);
        let found = tables.and_then(|tables| tables.get(&point));
        if let Some((values, _)) = found.filter(|(_, last)| last == at) {
            let header = host_header(&database, &point);
            self.table(Scope::Host, &header, values);
        }
    }

    /// Writes a line of `[pools]`, whose key is `DATABASE/USER`.
    fn pool(&mut self, key: &str, at: &Origin) {
        let Ok((database, user)) = ini::split_pool(key, self.raw) else {
            return;
        };
        let entries = self.raw.pools.get(&database);
        let found = entries.and_then(|entries| entries.get(&user));
        if let Some((values, _)) = found.filter(|(_, last)| last == at) {
            let header = format!("[pools.{}.{}]", toml_key(&database), toml_key(&user));
            self.table(Scope::Pool, &header, values);
        }
    }

    fn table(&mut self, scope: Scope, header: &str, values: &Values) {
        self.out.push_str(header);
        self.out.push('\n');
        // A password from a file is not part of the entry; the file's name is.
        let given = |opt: &&Opt| !(opt.name == "password" && values.contains_key("password_file"));
        for opt in scope.options().iter().filter(given) {
            if let Some((value, _)) = values.get(opt.name) {
                self.option(opt, value);
            }
        }
        self.gap();
    }

    /// Writes an assignment, with secrets in the clear.
    fn option(&mut self, opt: &Opt, value: &Value) {
        let text = match value {
            Value::Secret(secret) => {
                self.has_secrets |= !secret.is_empty();
                toml_text(secret.expose())
            }
            value => value.to_toml(opt.kind),
        };
        self.out.push_str(&format!("{} = {text}\n", opt.name));
    }

    fn comment(&mut self, text: &str) {
        let mut line = String::from("#");
        // Tabs and other control characters are not allowed in comments (toml.io, v1.0.0, "Comment").
        for word in text.split(|c: char| c == ' ' || c.is_control()) {
            if line.len() > 1 && line.len() + word.len() >= WIDTH {
                self.out.push_str(line.trim_end());
                self.out.push_str("\n#");
                line.clear();
            }
            line.push(' ');
            line.push_str(word);
        }
        self.out.push_str(line.trim_end());
        self.out.push('\n');
    }

    /// Writes an empty line, but never two and none at the beginning.
    fn gap(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }

    /// Separates options by an empty line, but keeps an option next to the user's comment.
    fn gap_before_option(&mut self) {
        let last = self.out.trim_end_matches('\n').lines().next_back();
        if !last.is_some_and(|line| line.starts_with('#')) {
            self.gap();
        }
    }
}

/// Formats the header of the table of one host.
pub(crate) fn host_header(database: &str, point: &HostPoint) -> String {
    let host = toml_string(&point.to_string());
    format!("[databases.{}.hosts.{host}]", toml_key(database))
}

/// Formats a TOML key, bare if possible.
pub(crate) fn toml_key(name: &str) -> String {
    let bare = |b: u8| b.is_ascii_alphanumeric() || b"_-".contains(&b);
    match !name.is_empty() && name.bytes().all(bare) {
        true => name.to_owned(),
        false => toml_string(name),
    }
}
