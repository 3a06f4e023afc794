//! Weir's configuration while it is put together, and its text. Secrets go to the user list only.

use std::collections::BTreeMap;

use weir_config::{Kind, Scope};

use crate::finding::Finding;
use crate::{FileNames, Product};

/// Number of clients that stands for no limit.
const CLIENTS_MAX: i64 = 1_000_000;

/// Table of weir.toml.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Table {
    Global,
    Database(String),
    /// A host of a database, as `HOST:PORT`.
    Host(String, String),
    /// A user of a database.
    Pool(String, String),
    User(String),
}

impl Table {
    /// Returns the full name of an option in this table, for findings.
    pub(crate) fn path(&self, name: &str) -> String {
        match self {
            Self::Global => name.to_owned(),
            Self::Database(database) => format!("databases.{database}.{name}"),
            Self::Host(database, host) => format!("databases.{database}.hosts.{host}.{name}"),
            Self::Pool(database, user) => format!("pools.{database}.{user}.{name}"),
            Self::User(user) => format!("users.{user}.{name}"),
        }
    }

    fn head(&self) -> Option<String> {
        Some(match self {
            Self::Global => return None,
            Self::Database(name) => format!("[databases.{}]", quoted(name)),
            Self::Host(database, host) => {
                format!("[databases.{}.hosts.{}]", quoted(database), quoted(host))
            }
            Self::Pool(database, user) => {
                format!("[pools.{}.{}]", quoted(database), quoted(user))
            }
            Self::User(name) => format!("[users.{}]", quoted(name)),
        })
    }
}

/// Value of an option, as TOML will have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Term {
    Flag(bool),
    Number(i64),
    Text(String),
    List(Vec<String>),
}

#[derive(Debug, Default)]
pub(crate) struct Draft {
    tables: BTreeMap<Table, BTreeMap<&'static str, Term>>,
    secrets: BTreeMap<String, String>,
    /// Lines of the HBA file, in their order.
    hba: Vec<String>,
    /// Query rules: name, and the other keys with their values in TOML.
    rules: Vec<(String, Vec<(&'static str, Term)>)>,
    notes: Vec<String>,
}

/// Text of a configuration, and the option that stands in each line.
pub(crate) struct Written {
    pub(crate) text: String,
    pub(crate) lines: Vec<Option<(Table, &'static str)>>,
}

impl Draft {
    /// Sets an option. False if Weir's default is the same, and nothing was written.
    pub(crate) fn set(&mut self, table: Table, name: &'static str, term: Term) -> bool {
        if table == Table::Global && is_default(name, &term) {
            return false;
        }
        self.tables.entry(table).or_default().insert(name, term);
        true
    }

    pub(crate) fn get(&self, table: &Table, name: &str) -> Option<&Term> {
        self.tables.get(table)?.get(name)
    }

    /// Removes an option. True if it was there.
    pub(crate) fn remove(&mut self, table: &Table, name: &str) -> bool {
        let options = self.tables.get_mut(table);
        options.is_some_and(|options| options.remove(name).is_some())
    }

    /// Writes that the number of clients has no limit to speak of, as in products that have none.
    pub(crate) fn no_client_limit(&mut self, product: &str) {
        self.set(Table::Global, "max_client_conn", Term::Number(CLIENTS_MAX));
        self.note(format!(
            "{product} has no limit of clients, and Weir one of 100: max_client_conn is {CLIENTS_MAX} now; a lower one \
             protects the machine"
        ));
    }

    pub(crate) fn hba(&mut self, line: String) {
        self.hba.push(line);
    }

    pub(crate) fn rule(&mut self, name: String, keys: Vec<(&'static str, Term)>) {
        self.rules.push((name, keys));
    }

    /// Adds a remark about the configuration as a whole, once.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    pub(crate) fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    /// Switches off read/write split where pooling is by session: a client keeps one server there, as it did in the other
    /// product.
    pub(crate) fn settle(&mut self) {
        let session = Term::text("session");
        let is_global = self.get(&Table::Global, "pool_mode").is_none();
        let splits = self
            .tables
            .values()
            .any(|options| options.contains_key("read_write_split"));
        for (table, options) in &mut self.tables {
            let mode = options.get("pool_mode");
            let by_session = mode.map_or(is_global, |mode| *mode == session);
            let is_split = match table {
                Table::Global | Table::Host(..) | Table::Pool(..) => false,
                Table::Database(_) => options.contains_key("read_write_split"),
                Table::User(_) => splits && mode.is_some(),
            };
            if by_session && is_split {
                options.insert("read_write_split", Term::text("off"));
            }
        }
    }

    /// Makes sure that a table exists.
    pub(crate) fn touch(&mut self, table: Table) {
        self.tables.entry(table).or_default();
    }

    /// Records the secret of a user. False if the user has another one already, which stays.
    pub(crate) fn secret(&mut self, user: &str, secret: &str) -> bool {
        let kept = self
            .secrets
            .entry(user.to_owned())
            .or_insert_with(|| secret.to_owned());
        kept == secret
    }

    pub(crate) fn has_secrets(&self) -> bool {
        !self.secrets.is_empty()
    }

    /// Formats the user list as PgBouncer has it: quotes are doubled.
    pub(crate) fn userlist(&self) -> String {
        let quote = |text: &str| text.replace('"', "\"\"");
        let line = |(user, secret): (&String, &String)| {
            format!("\"{}\" \"{}\"\n", quote(user), quote(secret))
        };
        self.secrets.iter().map(line).collect()
    }

    /// Formats the HBA file.
    pub(crate) fn hba_file(&self) -> String {
        self.hba.iter().map(|line| format!("{line}\n")).collect()
    }

    /// Formats the configuration. Settings that are not mapped follow as comments.
    pub(crate) fn text(
        &self,
        product: Product,
        names: &FileNames<'_>,
        lost: &[Finding],
    ) -> Written {
        let mut out = Written {
            text: String::new(),
            lines: Vec::new(),
        };
        let title = format!(
            "# Made by `weir import` from the files of {}.",
            product.version()
        );
        out.line(&title, None);
        out.line("", None);
        let files = [
            ("auth_file", names.auth_file, self.has_secrets()),
            ("auth_hba_file", names.hba_file, !self.hba.is_empty()),
        ];
        for (name, file, _) in files.iter().filter(|(.., is_written)| *is_written) {
            out.line(
                &format!("{name} = {}", quoted(file)),
                Some((Table::Global, name)),
            );
        }
        for (table, options) in &self.tables {
            if let Some(head) = table.head() {
                out.line("", None);
                out.line(&head, None);
            }
            for (name, term) in options {
                let line = format!("{name} = {}", term.toml());
                out.line(&line, Some((table.clone(), name)));
            }
        }
        for (name, keys) in &self.rules {
            out.line("", None);
            out.line("[[rules]]", None);
            out.line(&format!("name = {}", quoted(name)), None);
            for (key, term) in keys {
                out.line(&format!("{key} = {}", term.toml()), None);
            }
        }
        let mut blocking = lost.iter().filter(|finding| finding.blocks()).peekable();
        if blocking.peek().is_some() {
            out.line("", None);
        }
        for finding in blocking {
            let line = format!("# not mapped: {}", finding.without_verdict());
            out.line(&line.replace(char::is_control, " "), None);
        }
        out
    }
}

impl Written {
    fn line(&mut self, line: &str, option: Option<(Table, &'static str)>) {
        self.text.push_str(line);
        self.text.push('\n');
        self.lines.push(option);
    }
}

impl Term {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub(crate) fn toml(&self) -> String {
        match self {
            Self::Flag(value) => value.to_string(),
            Self::Number(value) => value.to_string(),
            Self::Text(value) => quoted(value),
            Self::List(values) => {
                let values: Vec<String> = values.iter().map(|value| quoted(value)).collect();
                format!("[{}]", values.join(", "))
            }
        }
    }
}

/// Formats a TOML string. `${` would name an environment variable; `$${` is a plain one.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.replace("${", "$${").chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn is_default(name: &str, term: &Term) -> bool {
    let Some(opt) = Scope::Global.find(name) else {
        return false;
    };
    let Some(default) = opt.default_native.or(opt.default) else {
        return false;
    };
    match (term, opt.kind) {
        (Term::Flag(value), _) => default == if *value { "1" } else { "0" },
        (Term::Text(value), Kind::Duration(weir_config::Unit::Seconds)) => {
            let (value, default) = (
                weir_config::parse_seconds(value),
                weir_config::parse_seconds(default),
            );
            value.is_some() && value == default
        }
        (Term::Number(value), _) => default == value.to_string(),
        (Term::Text(value), _) => default == value,
        (Term::List(values), _) => default == values.join(", "),
    }
}
