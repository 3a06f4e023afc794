//! Generator of the reference page `docs/reference/errors.md`: one line per error of Weir, and what became of each of
//! PgBouncer's texts.

mod beside;
mod pgbouncer;
mod samples;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::mem::discriminant;

use self::beside::{Beside, Reaction, beside, reactions};
use self::pgbouncer::{Instead, texts};
use self::samples::samples;
use super::Fault;

const INTRO: &str = "\
# Errors of Weir itself

<!-- Generated from crates/session/src/protocol/fault; edit that, then UPDATE_EXPECT=1 cargo test -p weir-session fault -->

This page lists every error that Weir itself sends to clients. Weir passes all other errors on from PostgreSQL unchanged.

- **Texts** of refused logins are PostgreSQL's, which name the user and the database. All other texts are PgBouncer's where
  PgBouncer has one for the same occasion, so that tools which read its texts keep working.
- **Codes** are PostgreSQL's ([Appendix A](https://www.postgresql.org/docs/current/errcodes-appendix.html)), one for each kind
  of error. PgBouncer sends 08P01 for nearly all.
- **FATAL** ends the connection.
- The log has a line `pooler error: …` for each (`log_pooler_errors`), with database, user and address of the client.
- `/metrics` counts errors by code (`weir_errors_total`).
";

const UNCHANGED: &str = "
## Errors of PostgreSQL that Weir passes on

| when | what the client gets |
|---|---|
| PostgreSQL refuses Weir's login, and the pool has no connected server | PostgreSQL's code and text, as FATAL. Waiting clients get the error at once, new clients get it for `server_login_retry` from then on. |
| PostgreSQL refuses Weir's login with 57P01, 57P02, 57P03 (starting up, shutting down) or 53300 (too many clients) | Nothing, because these conditions pass. Clients wait up to `query_wait_timeout` while Weir tries again; the error after that time quotes PostgreSQL. If PostgreSQL was unreachable before, new clients wait from its first such answer on. |
| PostgreSQL ends a session while it works for a client | PostgreSQL's last error (57P01, 57P02, 57P05 and the like), then the end of the connection. |
| PostgreSQL refuses a setting from the start-up packet | The error that PostgreSQL would give at a direct login. |

## Notices

| code | text | when |
|---|---|---|
| 00000 | `No server connection available in postgres backend, client being queued` | A request has waited for a server for `query_wait_notify`. Weir sends the notice once per wait. |
| 00000 | the text of `login_notify_message` | After each login, if the option is set. |

The [console](console.md) sends its errors as ERROR 08P01 with PgBouncer's texts.
";

const PGBOUNCER: &str = "
## PgBouncer's texts

Use this table to translate searches of logs. It lists every text that PgBouncer 1.25 sends to clients, and the text that
Weir sends on the same occasion. *same* means the identical text; `…` stands for a part that varies.

| PgBouncer | Weir |
|---|---|
";

const BESIDE: &str = "
## Codes beside PgBouncer's and PostgreSQL's

Drivers sort errors by their code. PgBouncer has 08P01 for each of its own errors, which tells nothing apart; its column
shows which events it knows. Where PostgreSQL knows the same event, Weir has PostgreSQL's code, unless a reason is given.

| text | Weir | PgBouncer | PostgreSQL, same event | why |
|---|---|---|---|---|
";

const REACTIONS: &str = "
## What drivers make of a code

psycopg raises the exception of the code's class; SQLAlchemy and Django keep its name. pgx returns a `*pgconn.ConnectError` for
every login that fails, and goes to the next host of its list after some of them. pgjdbc has one exception for all,
`PSQLException`. HikariCP wraps every failed login in `SQLTransientConnectionException`, once its `connectionTimeout` is over, and closes
a connection after some errors. The suite `error_classes` reads this table and asks the drivers.

| code | psycopg | pgx: next host | HikariCP: closes |
|---|---|---|---|
";

/// Section of the page to which an error belongs. The sections are in the order of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Theme {
    Login,
    Limits,
    Times,
    Servers,
    Operator,
    State,
    Protocol,
}

impl Theme {
    const ALL: [Self; 7] = [
        Self::Login,
        Self::Limits,
        Self::Times,
        Self::Servers,
        Self::Operator,
        Self::State,
        Self::Protocol,
    ];

    const fn heading(self) -> &'static str {
        match self {
            Self::Limits => "Limits",
            Self::Login => "Logging in",
            Self::Operator => "By the operator",
            Self::Protocol => "Protocol",
            Self::Servers => "Servers",
            Self::State => "Session state",
            Self::Times => "Time limits",
        }
    }
}

/// Help for users who meet an error.
struct Guide {
    theme: Theme,
    when: &'static str,
    what_to_do: &'static str,
}

/// Returns the text of the page. A test compares it with the committed file.
fn reference_markdown() -> String {
    let mut out = INTRO.to_owned();
    let all = samples();
    for theme in Theme::ALL {
        // Writing to a String cannot fail.
        let _ = write!(
            out,
            "\n## {}\n\n| code | severity | text | when | what to do |\n|---|---|---|---|---|\n",
            theme.heading()
        );
        for (fault, guide) in all.iter().filter(|(_, guide)| guide.theme == theme) {
            row(&mut out, fault, guide);
        }
    }
    out.push_str(UNCHANGED);
    codes(&mut out, &all);
    out.push_str(PGBOUNCER);
    for (text, instead) in texts() {
        let instead = match instead {
            Instead::Argued(why) => why.to_owned(),
            Instead::PostgreSql(fault) => {
                format!("`{}`, {}", fault.text(), fault.code())
            }
            Instead::Same(fault) => format!("same, {}", fault.code()),
        };
        let _ = writeln!(out, "| `{}` | {instead} |", text.replace('|', "\\|"));
    }
    out
}

/// Appends the tables of codes.
fn codes(out: &mut String, all: &[(Fault, Guide)]) {
    out.push_str(BESIDE);
    let known: Vec<Fault> = texts()
        .into_iter()
        .filter_map(|(_, instead)| match instead {
            Instead::PostgreSql(fault) | Instead::Same(fault) => Some(fault),
            Instead::Argued(_) => None,
        })
        .collect();
    let mut rows = BTreeSet::new();
    for (fault, _) in all {
        let (code, text) = (fault.code(), fault.text());
        if !rows.insert((code.to_string(), text.to_string())) {
            continue;
        }
        let is_known = known.iter().any(|known| is_alike(known, fault));
        let pgbouncer = if is_known { "08P01" } else { "" };
        let Beside { postgresql, why } = beside(fault);
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "| `{text}` | {code} | {pgbouncer} | {postgresql} | {why} |"
        );
    }
    out.push_str(REACTIONS);
    for reaction in reactions() {
        let Reaction { code, psycopg, .. } = reaction;
        let (next, evicts) = (reaction.next_host, if reaction.evicts { "yes" } else { "" });
        let _ = writeln!(out, "| {code} | {psycopg} | {next} | {evicts} |");
    }
}

/// True if PgBouncer knows the event of `fault`, because it knows that of `known`.
fn is_alike(known: &Fault, fault: &Fault) -> bool {
    let is_kind = discriminant(known) == discriminant(fault) && known.code() == fault.code();
    // PgBouncer has some of these limits only.
    known == fault || is_kind && !matches!(fault, Fault::TooManyClients(_))
}

fn row(out: &mut String, fault: &Fault, guide: &Guide) {
    let severity = if fault.is_fatal() { "FATAL" } else { "ERROR" };
    let (code, text) = (fault.code(), fault.text());
    let Guide {
        when, what_to_do, ..
    } = guide;
    let _ = writeln!(
        out,
        "| {code} | {severity} | `{text}` | {when} | {what_to_do} |"
    );
}

#[cfg(test)]
mod tests {
    use expect_test::expect_file;

    use super::*;

    #[test]
    fn the_page_is_what_the_code_says() {
        expect_file!["../../../../../docs/reference/errors.md"].assert_eq(&reference_markdown());
    }

    /// The name of a variant as `Debug` shows it.
    fn name(fault: &Fault) -> String {
        let text = format!("{fault:?}");
        text.split(['(', ' ', '{']).next().unwrap().to_owned()
    }

    #[test]
    fn every_error_is_on_the_page() {
        let source = include_str!("../fault.rs");
        let start = source.split_once("pub enum Fault {").unwrap().1;
        let body = start.split_once("\n}").unwrap().0;
        let variants: BTreeSet<String> = body
            .lines()
            .map(str::trim)
            .filter(|line| line.starts_with(char::is_uppercase))
            .map(|line| line.split(['(', ',']).next().unwrap().to_owned())
            .collect();
        let shown: BTreeSet<String> = samples().iter().map(|(fault, _)| name(fault)).collect();
        assert!(variants.len() > 30, "{variants:?}");
        assert_eq!(variants, shown);
    }

    #[test]
    fn every_code_is_postgresqls_or_has_a_reason() {
        for (fault, _) in samples() {
            let (code, Beside { postgresql, why }) = (fault.code(), beside(&fault));
            let is_same = postgresql.starts_with(&code.to_string());
            assert!(
                is_same == why.is_empty(),
                "{fault:?}: {code}, {postgresql}, {why}"
            );
        }
    }

    #[test]
    fn effects_are_told_for_the_codes_that_exist() {
        let told: Vec<&str> = reactions().iter().map(|reaction| reaction.code).collect();
        let used: BTreeSet<String> = samples()
            .iter()
            .map(|(fault, _)| fault.code().to_string())
            .collect();
        assert_eq!(told, used.iter().map(String::as_str).collect::<Vec<_>>());
    }

    #[test]
    fn texts_fit_where_pgbouncers_do() {
        for (fault, _) in samples() {
            let text = fault.text();
            assert!(!text.contains('\n') && !text.ends_with('.'), "{text:?}");
        }
    }

    #[test]
    fn what_is_said_to_be_the_same_is_the_same() {
        let mut same = 0;
        for (text, instead) in texts() {
            let Instead::Same(fault) = instead else {
                continue;
            };
            same += 1;
            let ours = fault.text();
            let mut rest = &*ours;
            for part in text.split('…') {
                let at = rest
                    .find(part)
                    .unwrap_or_else(|| panic!("{ours:?}, not {text:?}"));
                rest = rest.get(at + part.len()..).unwrap();
            }
        }
        assert!(same > 30, "only {same}");
    }
}
