//! Reader of a list of statements: `user`, and `[[statements]]`.

use toml::de::{DeTable, DeValue};
use weir_rules::{BadEntry, Form, Known, StatementEntry};
use weir_sql::Fingerprint;

use super::{Reader, in_order, shown};
use crate::error::ErrorKind;
use crate::raw::{Origin, quoted};

/// Maximum number of statements in the list of a user.
const STATEMENTS_MAX: usize = 100_000;

/// Keys of a statement, for messages.
const KEYS: &str = "text, whole, sha256 and fingerprint";

/// Kind and text of a mistake.
type Mistake = (ErrorKind, String);

/// Statement that is being read.
#[derive(Default)]
struct Draft {
    text: Option<String>,
    whole: Option<String>,
    known: Option<Known>,
    fingerprint: Option<Fingerprint>,
}

impl Reader<'_> {
    /// Reads the list of one user.
    pub(super) fn only_statements(mut self, text: &str) {
        let Some(document) = self.parse(text) else {
            return;
        };
        let (mut user, mut statements) = (None, None);
        for (key, value) in in_order(document.get_ref()) {
            let at = self.at(key.span().start);
            let name: &str = key.get_ref();
            match (name, value.get_ref()) {
                ("user", DeValue::String(name)) if !name.is_empty() => {
                    user = Some(name.clone().into_owned());
                }
                ("user", other) => {
                    let message =
                        format!("user must be the name of a user, and not {}", shown(other));
                    self.raw.fail_at(&at, ErrorKind::BadValue, message);
                }
                ("statements", DeValue::Array(tables)) => statements = Some(tables),
                ("statements", _) => {
                    let message = "statements must be a list of tables: [[statements]]";
                    self.raw.fail_at(&at, ErrorKind::Syntax, message);
                }
                _ => {
                    let message = format!(
                        "{} is not allowed here: a file of statement_list_dir has user, and [[statements]] with {KEYS}",
                        quoted(name)
                    );
                    self.raw.fail_at(&at, ErrorKind::UnknownKey, message);
                }
            }
        }
        let Some(user) = user else {
            if self.raw.errors.is_empty() {
                let at = Origin::File(self.file.clone(), 0);
                let message = "the file needs the name of its user at the top: user = \"app\"";
                self.raw.fail_at(&at, ErrorKind::Conflict, message);
            }
            return;
        };
        let mut list = self.raw.statement_lists.remove(&user).unwrap_or_default();
        for table in statements.into_iter().flat_map(|tables| tables.iter()) {
            let at = self.at(table.span().start);
            if list.len() == STATEMENTS_MAX {
                let message = format!("user {user:?} has more than {STATEMENTS_MAX} statements");
                self.raw.fail_at(&at, ErrorKind::Conflict, message);
                break;
            }
            let DeValue::Table(table) = table.get_ref() else {
                let message = "a statement must be a table: [[statements]]";
                self.raw.fail_at(&at, ErrorKind::Syntax, message);
                continue;
            };
            if let Some((known, entry)) = self.statement(table, &at) {
                list.insert(known, entry);
            }
        }
        self.raw.statement_lists.insert(user, list);
    }

    fn statement(&mut self, table: &DeTable<'_>, at: &Origin) -> Option<(Known, StatementEntry)> {
        let mut draft = Draft::default();
        let mut is_good = true;
        for (key, value) in in_order(table) {
            let at = self.at(key.span().start);
            if let Err((kind, message)) = draft.key(key.get_ref(), value.get_ref()) {
                is_good = false;
                self.raw.fail_at(&at, kind, message);
            }
        }
        if !is_good {
            return None;
        }
        match draft.finish() {
            Ok(read) => Some(read),
            Err(message) => {
                self.raw.fail_at(at, ErrorKind::BadValue, message);
                None
            }
        }
    }
}

impl Draft {
    fn key(&mut self, key: &str, value: &DeValue<'_>) -> Result<(), Mistake> {
        let bad = |message: String| (ErrorKind::BadValue, message);
        let DeValue::String(text) = value else {
            return Err(bad(format!(
                "{key} must be a text, and not {}",
                shown(value)
            )));
        };
        match key {
            "text" => self.text = Some(text.clone().into_owned()),
            "whole" => self.whole = Some(text.clone().into_owned()),
            "sha256" => {
                let known = text.parse::<Known>();
                self.known = Some(known.map_err(|why| bad(format!("sha256: {why}")))?);
            }
            "fingerprint" => {
                let print = text.parse::<Fingerprint>();
                self.fingerprint = Some(print.map_err(|why| bad(format!("fingerprint: {why}")))?);
            }
            _ => {
                let message = format!(
                    "unknown key {} in a statement; there are {KEYS}",
                    quoted(key)
                );
                return Err((ErrorKind::UnknownKey, message));
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<(Known, StatementEntry), String> {
        let (text, form) = match (self.text, self.whole, self.known) {
            (Some(text), None, Some(known)) => (text, Form::Hash(known)),
            (Some(text), None, None) => (text, Form::Text),
            (None, Some(text), None) => (text, Form::Whole),
            (None, None, _) => {
                return Err(
                    "a statement needs its text, without literals: text = \"SELECT ?\"".to_owned(),
                );
            }
            (_, Some(_), _) => {
                return Err("the key whole stands alone, without text and sha256".to_owned());
            }
        };
        let entry = StatementEntry {
            text: text.into(),
            form,
            fingerprint: self.fingerprint,
        };
        match entry.known() {
            Ok(known) => Ok((known, entry)),
            Err(why @ BadEntry::Unclear) => Err(format!(
                "{why}; copy it from `weir statements export`, which adds sha256 where it is needed"
            )),
            Err(why) => Err(why.to_string()),
        }
    }
}
