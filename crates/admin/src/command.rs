//! The one table of commands. Parser, `SHOW HELP`, authorisation and the reference page come from it; nothing is
//! recognised or permitted outside of it (hazard SEC-44).

mod table;

use weir_proxy::console::{Role, Shutdown};

use crate::show::Show;
use crate::token::Token;

pub(crate) use self::table::COMMANDS;

/// One command.
pub(crate) struct Entry {
    /// Its words.
    pub(crate) name: &'static str,
    pub(crate) arguments: Arguments,
    /// The least role that may use it.
    pub(crate) role: Role,
    pub(crate) action: Action,
    /// One sentence for the reference page.
    pub(crate) doc: &'static str,
}

/// What follows the words of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arguments {
    /// A number.
    Id,
    None,
    /// `[DATABASE]`.
    OptionalDatabase,
    /// `DATABASE`.
    Database,
    /// `KEY = VALUE` or `KEY TO VALUE`.
    Setting,
    /// `= VALUE` or `TO VALUE`.
    Value,
}

/// What a command does.
pub(crate) enum Action {
    /// Answers one text, for drivers that ask on connecting.
    Constant {
        column: &'static str,
        value: &'static str,
    },
    Help,
    /// SET of something that drivers set on connecting: nothing happens.
    Ignore,
    /// Comes with a later version.
    Later,
    Reload,
    Show(&'static Show),
    Shutdown(Shutdown),
}

/// Why the tokens are no command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    DatabaseMissing,
    Unknown,
}

/// The entry that these tokens call for. The longest name wins; SELECT stands for SHOW.
pub(crate) fn find(tokens: &[Token]) -> Option<(&'static Entry, &[Token])> {
    let calls = |entry: &&'static Entry| {
        let mut given = tokens.iter();
        let mut words = entry.name.split(' ');
        words.all(|word| {
            let is_alias = |token: &Token| word == "SHOW" && token.is("SELECT");
            given
                .next()
                .is_some_and(|token| token.is(word) || is_alias(token))
        })
    };
    let words = |entry: &'static Entry| entry.name.split(' ').count();
    let entry = COMMANDS
        .iter()
        .filter(calls)
        .max_by_key(|entry| words(entry))?;
    Some((entry, tokens.get(words(entry)..).unwrap_or_default()))
}

impl Entry {
    /// Whether somebody of this role may use it.
    pub(crate) fn allows(&self, role: Role) -> bool {
        role >= self.role
    }

    /// Checks what follows the name.
    pub(crate) fn check(&self, rest: &[Token]) -> Result<(), Fault> {
        let is_word = |token: &Token| token.word().is_some();
        let is_sign = |token: &Token| *token == Token::Equals || token.is("TO");
        let is_value = |token: &Token| *token != Token::Equals;
        let fits = match (self.arguments, rest) {
            (Arguments::None | Arguments::OptionalDatabase, []) => true,
            (Arguments::Database, []) => return Err(Fault::DatabaseMissing),
            (Arguments::OptionalDatabase | Arguments::Database, [name]) => is_word(name),
            (Arguments::Id, [id]) => id.word().is_some_and(|id| id.parse::<u64>().is_ok()),
            (Arguments::Setting, [key, sign, value]) => {
                is_word(key) && is_sign(sign) && is_value(value)
            }
            (Arguments::Value, [sign, value]) => is_sign(sign) && is_value(value),
            _ => false,
        };
        if fits { Ok(()) } else { Err(Fault::Unknown) }
    }

    /// The command as one would type it.
    pub(crate) fn usage(&self) -> String {
        let arguments = match self.arguments {
            Arguments::None => return self.name.to_owned(),
            Arguments::Id => "ID",
            Arguments::OptionalDatabase => "[DATABASE]",
            Arguments::Database => "DATABASE",
            Arguments::Setting => "KEY = VALUE",
            Arguments::Value => "= VALUE",
        };
        format!("{} {arguments}", self.name)
    }

    /// Only there for drivers; people need not know it.
    pub(crate) fn is_courtesy(&self) -> bool {
        matches!(self.action, Action::Constant { .. } | Action::Ignore)
    }

    /// Known, but refused by this version.
    pub(crate) fn is_later(&self) -> bool {
        matches!(self.action, Action::Later)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::tokens;

    fn name_of(sql: &str) -> Option<&'static str> {
        find(&tokens(sql.as_bytes()).unwrap()).map(|(entry, _)| entry.name)
    }

    #[test]
    fn the_longest_name_wins_in_any_case() {
        assert_eq!(name_of("show pools"), Some("SHOW POOLS"));
        assert_eq!(name_of("sElEcT version;"), Some("SHOW VERSION"));
        assert_eq!(
            name_of("shutdown wait_for_clients"),
            Some("SHUTDOWN WAIT_FOR_CLIENTS")
        );
        assert_eq!(name_of("set timezone = x"), Some("SET TIMEZONE"));
        assert_eq!(name_of("set verbose = 2"), Some("SET"));
        assert_eq!(name_of("select 1"), None);
        assert_eq!(name_of("select"), None);
    }

    #[test]
    fn names_are_unique_and_documented() {
        let mut names: Vec<_> = COMMANDS.iter().map(|entry| entry.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), COMMANDS.len());
        for entry in COMMANDS {
            assert!(entry.doc.ends_with('.'), "{}", entry.name);
            assert_eq!(entry.name, entry.name.to_uppercase());
        }
    }

    /// The rule itself, written down a second time: who only looks may only look.
    #[test]
    fn whatever_changes_something_is_for_administrators() {
        for entry in COMMANDS {
            let looks = entry.name.starts_with("SHOW ") && entry.name != "SHOW FDS";
            let looks = looks || matches!(entry.action, Action::Ignore);
            let least = if looks { Role::Stats } else { Role::Admin };
            assert_eq!(entry.role, least, "{}", entry.name);
        }
    }
}
