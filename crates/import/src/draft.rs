//! Weir's configuration while it is put together, and its text. Secrets go to the user list only.

use std::collections::BTreeMap;

use weir_config::{Kind, Scope};

use crate::Product;
use crate::finding::Finding;

/// Table of weir.toml.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Table {
    Global,
    Database(String),
    User(String),
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
                Table::Global => false,
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

    /// Formats the configuration. Settings that are not mapped follow as comments.
    pub(crate) fn text(&self, product: Product, auth_file: &str, findings: &[Finding]) -> String {
        let mut out = format!(
            "# Made by `weir import` from the files of {}.\n\n",
            product.version()
        );
        if self.has_secrets() {
            out.push_str(&format!("auth_file = {}\n", quoted(auth_file)));
        }
        for (table, options) in &self.tables {
            match table {
                Table::Global => {}
                Table::Database(name) => out.push_str(&format!("\n[databases.{}]\n", quoted(name))),
                Table::User(name) => out.push_str(&format!("\n[users.{}]\n", quoted(name))),
            }
            for (name, term) in options {
                out.push_str(&format!("{name} = {}\n", term.toml()));
            }
        }
        let mut blocking = findings
            .iter()
            .filter(|finding| finding.blocks())
            .peekable();
        if blocking.peek().is_some() {
            out.push('\n');
        }
        for finding in blocking {
            let line = format!("# not mapped: {finding}").replace(char::is_control, " ");
            out.push_str(&line);
            out.push('\n');
        }
        out
    }
}

impl Term {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    fn toml(&self) -> String {
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
    let value = toml::Value::String(text.replace("${", "$${"));
    value.to_string().replace('\n', "\\n")
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
