//! Generator of the reference page `docs/reference/errors.md`: one line per error of Weir, and what became of each of
//! PgBouncer's texts.

mod pgbouncer;
mod samples;

use std::fmt::Write;

use self::pgbouncer::{Instead, texts};
use self::samples::samples;
use super::Fault;

const INTRO: &str = "\
# Errors of Weir itself

<!-- Generated from crates/session/src/protocol/fault; edit that, then UPDATE_EXPECT=1 cargo test -p weir-session fault -->

Whatever else a client sees is PostgreSQL's own and comes through unchanged. Where PgBouncer has a text for the same
occasion, Weir uses it; the code is PostgreSQL's ([Appendix A](https://www.postgresql.org/docs/current/errcodes-appendix.html)) and
says what happened, where PgBouncer sends 08P01 for everything. FATAL ends the connection. The log has each of them as a
line `pooler error: …` (`log_pooler_errors`), with database, user and address of the client; `/metrics` counts them by code
(`weir_errors_total`).
";

const UNCHANGED: &str = "
## Errors of the server that clients get in its name

| when | what the client gets |
|---|---|
| The server refuses Weir's login, none of the pool's servers is connected | The server's own code and text, as FATAL. Waiting clients get it at once, new ones for `server_login_retry` from then on. |
| The same with 57P01, 57P02, 57P03 (starting up, shutting down) or 53300 (too many clients) | Nothing: it will pass. Clients wait up to `query_wait_timeout` while logins are tried again; that error then quotes the server. So do clients that come after nobody could be reached, from the server's first such answer on. |
| The server ends a session while it works for a client | Its last words (57P01, 57P02, 57P05 and the like), then the end of the connection. |
| The server refuses a setting from the start-up packet | The error that it would give at a login. |

## Notices

| code | text | when |
|---|---|---|
| 00000 | `No server connection available in postgres backend, client being queued` | A request has waited for a server for `query_wait_notify`; told once. |
| 00000 | the text of `login_notify_message` | After each login, if the option is set. |

The console answers with ERROR 08P01 and PgBouncer's texts, see [console](console.md).
";

const PGBOUNCER: &str = "
## PgBouncer's texts

For those who search logs: every text that PgBouncer (1.25) tells clients, and what Weir says on that occasion. *same* means
that text; a part that varies is `…`.

| PgBouncer | Weir |
|---|---|
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
    out.push_str(PGBOUNCER);
    for (text, instead) in texts() {
        let instead = match instead {
            Instead::Argued(why) => why.to_owned(),
            Instead::Same(fault) => format!("same, {}", fault.code()),
        };
        let _ = writeln!(out, "| `{}` | {instead} |", text.replace('|', "\\|"));
    }
    out
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
    use std::collections::BTreeSet;

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
        assert!(same > 40, "only {same}");
    }
}
