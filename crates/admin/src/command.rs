//! The table of commands. Parser, `SHOW HELP`, authorisation and the reference page come from it; no command is
//! recognised or permitted without an entry (hazard SEC-44).

mod table;

use std::borrow::Cow;

use weir_config::PgBouncerVersion;
use weir_proxy::console::{Order, Role, Shutdown};

use crate::show::Show;
use crate::statement::{Refused, Statement};
use crate::token::Token;

use self::table::PAUSE_WRITES;
pub(crate) use self::table::{COMMANDS, EXPLAIN_ROUTE, RULE, SHOW_DIGESTS};

/// Maximum length of a database's name in bytes, as in PostgreSQL.
const DATABASE_LEN_MAX: usize = 63;

/// A command.
pub(crate) struct Entry {
    /// Words of the command.
    pub(crate) name: &'static str,
    /// Lowest role that may use it.
    pub(crate) role: Role,
    pub(crate) action: Action,
    /// Sentence for the reference page.
    pub(crate) doc: &'static str,
}

/// Effect of a command, which also determines its arguments.
pub(crate) enum Action {
    /// Returns one text, for drivers that ask on connecting.
    Constant {
        column: &'static str,
        value: &'static str,
    },
    /// Question for digests.
    Digests,
    /// Question where a statement would run.
    Explain,
    /// Command of earlier versions of PgBouncer, with the reason why it is missing.
    Gone(&'static str),
    Help,
    /// Accepts `= VALUE` or `TO VALUE` without effect: SET of a parameter that drivers set on connecting.
    Ignore,
    Perform(Takes),
    /// Change of the query rules.
    Rule,
    Show(&'static Show),
    /// Table of which the first column may be named.
    ShowOf(&'static Show),
    Shutdown(Shutdown),
}

/// Arguments of an order.
pub(crate) enum Takes {
    /// Id of a client.
    Client(fn(u64) -> Order),
    /// `DATABASE`.
    Database(fn(String) -> Order),
    /// `DATABASE IS HOST:PORT`.
    Host(fn(String, String) -> Order),
    Nothing(fn() -> Order),
    /// `[DATABASE]`.
    OptionalDatabase(fn(Option<String>) -> Order),
    /// `KEY = VALUE` or `KEY TO VALUE`.
    Setting(fn(String, String) -> Order),
}

/// Reason why the tokens are not a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    DatabaseMissing,
    /// Command of earlier versions of PgBouncer.
    Gone(&'static str),
    /// The name of a database is longer than PostgreSQL's may be.
    LongName,
    /// The argument is not the id of a client.
    NoClient,
    Unknown,
}

/// Finds the entry for these tokens. The longest name wins; SELECT stands for SHOW.
pub(crate) fn find(tokens: &[Token]) -> Option<(&'static Entry, &[Token])> {
    let calls = |entry: &&'static Entry| {
        if entry.name == PAUSE_WRITES && tokens.len() == 2 {
            return false;
        }
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

/// Refuses the command of this name to a user whose role is too low.
pub(crate) fn permit(name: &str, role: Role) -> Result<(), Refused> {
    let entry = COMMANDS.iter().find(|entry| entry.name == name);
    match entry.is_some_and(|entry| entry.allows(role)) {
        true => Ok(()),
        false => Err(Refused::new("admin access needed")),
    }
}

impl Entry {
    /// True if this role may use the command.
    pub(crate) fn allows(&self, role: Role) -> bool {
        role >= self.role
    }

    /// Parses the tokens after the name into a statement.
    pub(crate) fn read(
        &self,
        rest: &[Token],
        version: PgBouncerVersion,
    ) -> Result<Statement, Fault> {
        let statement = match (&self.action, rest) {
            (Action::Constant { column, value }, []) => Statement::Constant { column, value },
            (Action::Gone(why), _) => return Err(Fault::Gone(why)),
            (Action::Help, []) => Statement::Help,
            (Action::Ignore, [sign, _]) if sign.is_assignment() => Statement::Ignore,
            (Action::Perform(takes), rest) => {
                let order = takes.read(rest)?;
                let tag = self.tag(&order);
                Statement::Perform(order, tag)
            }
            (Action::Show(show), []) => Statement::Show(show, version),
            (Action::ShowOf(show), []) => Statement::ShowOf(show, None),
            (Action::ShowOf(show), [Token::Word(name)]) => {
                Statement::ShowOf(show, Some(name.clone()))
            }
            (Action::Shutdown(how), []) => Statement::Stop(*how),
            _ => return Err(Fault::Unknown),
        };
        Ok(statement)
    }

    /// PgBouncer's command tag: the command's words; for SET also the assignment.
    fn tag(&self, order: &Order) -> Cow<'static, str> {
        match order {
            Order::Set { key, value } => format!("SET {key}={value}").into(),
            _ => self.name.into(),
        }
    }

    /// The command as a user types it.
    pub(crate) fn usage(&self) -> String {
        let arguments = match &self.action {
            Action::Digests => "[FOR DATABASE[/USER]] [ORDER BY COLUMN] [LIMIT ROWS]",
            Action::Explain => "[FOR DATABASE[/USER]] STATEMENT",
            Action::Ignore => "= VALUE",
            Action::Rule => "ADD $$...$$ [FOR TIME] | DROP NAME | DRY NAME | LIVE NAME",
            Action::Perform(Takes::Client(_)) => "ID",
            Action::Perform(Takes::Database(_)) => "DATABASE",
            Action::Perform(Takes::Host(_)) => "DATABASE IS HOST:PORT",
            Action::Perform(Takes::OptionalDatabase(_)) => "[DATABASE]",
            Action::Perform(Takes::Setting(_)) => "KEY = VALUE",
            Action::ShowOf(_) => "[USER]",
            _ => return self.name.to_owned(),
        };
        format!("{} {arguments}", self.name)
    }

    /// True if the command exists only for drivers and is not listed for users.
    pub(crate) fn is_courtesy(&self) -> bool {
        matches!(self.action, Action::Constant { .. } | Action::Ignore)
    }

    /// True if only earlier versions of PgBouncer had the command.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self.action, Action::Gone(_))
    }
}

impl Takes {
    fn read(&self, rest: &[Token]) -> Result<Order, Fault> {
        let is_long = |name: &String| name.len() > DATABASE_LEN_MAX;
        match (self, rest) {
            (Self::Database(_) | Self::OptionalDatabase(_), [Token::Word(name)])
                if is_long(name) =>
            {
                Err(Fault::LongName)
            }
            (Self::Client(order), [id]) => id.id().map(order).ok_or(Fault::NoClient),
            (Self::Client(_), []) => Err(Fault::NoClient),
            (Self::Database(order), [Token::Word(name)]) => Ok(order(name.clone())),
            (Self::Database(_), []) => Err(Fault::DatabaseMissing),
            (Self::Host(_), []) => Err(Fault::DatabaseMissing),
            (
                Self::Host(order),
                [
                    Token::Word(database),
                    is,
                    Token::Word(host) | Token::Value(host),
                ],
            ) if is.is("IS") => Ok(order(database.clone(), host.clone())),
            (Self::Nothing(order), []) => Ok(order()),
            (Self::OptionalDatabase(order), [Token::Word(name)]) => Ok(order(Some(name.clone()))),
            (Self::OptionalDatabase(order), []) => Ok(order(None)),
            (
                Self::Setting(order),
                [
                    Token::Word(key),
                    sign,
                    Token::Word(value) | Token::Value(value),
                ],
            ) if sign.is_assignment() => Ok(order(key.clone(), value.clone())),
            _ => Err(Fault::Unknown),
        }
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

    #[test]
    fn a_primary_is_named_by_database_and_host() {
        let read = |sql: &str| {
            let tokens = tokens(sql.as_bytes()).unwrap();
            let (entry, rest) = find(&tokens).unwrap();
            entry
                .read(rest, PgBouncerVersion::V1_25)
                .map(|statement| match statement {
                    Statement::Perform(order, tag) => (order, tag),
                    _ => panic!("no order: {sql}"),
                })
        };
        let order = |database: &str, host: &str| Order::Primary {
            database: database.to_owned(),
            host: host.to_owned(),
        };
        for (sql, database, host) in [
            ("PRIMARY shop IS 10.0.0.2:5432", "shop", "10.0.0.2:5432"),
            (
                "primary \"my shop\" is '[::1]:5432';",
                "my shop",
                "[::1]:5432",
            ),
            ("primary is is \"db1:5432\"", "is", "db1:5432"),
        ] {
            let expected = (order(database, host), "PRIMARY".into());
            assert_eq!(read(sql), Ok(expected), "{sql}");
        }
        assert_eq!(read("primary"), Err(Fault::DatabaseMissing));
        for sql in [
            "primary shop",
            "primary shop is",
            "primary shop = a:1",
            "primary 'shop' is a:1",
        ] {
            assert_eq!(read(sql), Err(Fault::Unknown), "{sql}");
        }
    }

    #[test]
    fn a_name_that_no_database_can_have_is_told_as_such() {
        let fault = |command: &str, length: usize| {
            let sql = format!("{command} {}", "a".repeat(length));
            let tokens = tokens(sql.as_bytes()).unwrap();
            let (entry, rest) = find(&tokens).unwrap();
            entry.read(rest, PgBouncerVersion::V1_25).err()
        };
        for command in ["PAUSE", "DISABLE", "WAIT_CLOSE"] {
            assert_eq!(fault(command, 63), None, "{command}");
            assert_eq!(fault(command, 64), Some(Fault::LongName), "{command}");
        }
    }

    /// States the rule independently of the table: commands below the administrator's role only read.
    #[test]
    fn whatever_changes_something_is_for_administrators() {
        for entry in COMMANDS {
            // Whole texts of listed statements have their literals.
            let secret = ["SHOW FDS", "SHOW LISTED_STATEMENTS"].contains(&entry.name);
            let looks = entry.name.starts_with("SHOW ") && !secret;
            let looks = looks || entry.name == "EXPLAIN ROUTE";
            let looks = looks || matches!(entry.action, Action::Ignore);
            let least = if looks { Role::Stats } else { Role::Admin };
            assert_eq!(entry.role, least, "{}", entry.name);
        }
    }
}
