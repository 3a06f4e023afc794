//! The console as the engine sees it: a query in, messages out.

use weir_config::Settings;
use weir_proxy::console::{Command, Console, Role, Step};
use weir_stats::Snapshot;
use weir_wire::encode::{ErrorReport, Severity};
use weir_wire::sqlstate::SqlState;

use crate::command::{self, Action, COMMANDS, Entry};
use crate::reply::Reply;
use crate::shared::{Shared, View};
use crate::show::{Context, Show, text};
use crate::token::{self, tokens};

/// The version of PgBouncer whose console this is. Tools read it and decide which columns they expect.
pub const PGBOUNCER_VERSION: &str = "1.25.2";

/// How many bytes of a wrong query its error repeats.
const ECHO_LEN_MAX: usize = 100;

/// Makes the console. `version` is Weir's own, such as `0.1.0`.
pub fn console(shared: Shared, version: &str) -> impl Console + use<> {
    // Tools look for "PgBouncer" at the start and for the first number after it.
    let version = format!("PgBouncer {PGBOUNCER_VERSION} (Weir {version})");
    Answer { shared, version }
}

struct Answer {
    shared: Shared,
    /// What SHOW VERSION says.
    version: String,
}

impl Console for Answer {
    fn greeting(&self) -> Vec<(String, String)> {
        [
            ("server_version", format!("{PGBOUNCER_VERSION}/bouncer")),
            ("client_encoding", "UTF8".to_owned()),
            ("server_encoding", "UTF8".to_owned()),
            ("DateStyle", "ISO".to_owned()),
            ("TimeZone", "GMT".to_owned()),
            ("standard_conforming_strings", "on".to_owned()),
            ("is_superuser", "on".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    fn query(&self, role: Role, sql: &[u8]) -> Step {
        let tokens = match tokens(sql) {
            Ok(tokens) if tokens.is_empty() => {
                return Step::Reply(Reply::default().empty().ready());
            }
            Ok(tokens) => tokens,
            Err(token::Fault::Invalid) => return invalid(sql),
            Err(token::Fault::LongWord) => return refuse("bad arguments"),
        };
        let Some((entry, rest)) = command::find(&tokens) else {
            return invalid(sql);
        };
        if !entry.allows(role) {
            return refuse("admin access needed");
        }
        match entry.check(rest) {
            Ok(()) => self.run(entry),
            Err(command::Fault::DatabaseMissing) => refuse("a database is required"),
            Err(command::Fault::Unknown) => invalid(sql),
        }
    }

    /// PgBouncer answers each message of a batch with an error and ReadyForQuery, which leaves a driver that sent
    /// Parse, Bind, Describe, Execute and Sync with four answers too many. Here the first gets the error and Sync
    /// gets ReadyForQuery, as PostgreSQL does it (manual, 55.2.3 "Extended Query").
    fn unsupported(&self, tag: u8) -> Step {
        let reply = Reply::default();
        match tag {
            b'P' => {
                let message = "extended query protocol not supported by admin console";
                Step::Reply(protocol_error(reply, message).unfinished())
            }
            b'B' | b'C' | b'D' | b'E' | b'H' => Step::Reply(reply.unfinished()),
            b'S' => Step::Reply(reply.ready()),
            b'X' => Step::Close(reply.unfinished()),
            _ => {
                let message = format!("unsupported packet type for admin console: {tag}");
                Step::Reply(protocol_error(reply, &message).ready())
            }
        }
    }
}

impl Answer {
    /// Does what the table says. Whoever calls it has checked role and arguments.
    fn run(&self, entry: &'static Entry) -> Step {
        let reply = Reply::default();
        match &entry.action {
            Action::Constant { column, value } => {
                let row = vec![Some((*value).to_owned())];
                Step::Reply(reply.table(&[text(column)], &[row]).ready())
            }
            Action::Help => Step::Reply(help(reply).complete("SHOW").ready()),
            Action::Ignore => {
                let notice = notice("SET ignored");
                Step::Reply(reply.report(notice).complete("SET").ready())
            }
            Action::Later => {
                let message = format!("{} is not supported yet", entry.name);
                Step::Reply(
                    reply
                        .error(SqlState::FEATURE_NOT_SUPPORTED, &message)
                        .ready(),
                )
            }
            Action::Reload => {
                let notice = notice("the log tells what the reload changed");
                let reply = reply.report(notice).complete("RELOAD");
                Step::Act(Command::Reload, reply.ready())
            }
            Action::Show(show) => self.show(show),
            Action::Shutdown(how) => {
                Step::Act(Command::Shutdown(*how), reply.complete("SHUTDOWN").ready())
            }
        }
    }

    fn show(&self, show: &'static Show) -> Step {
        let view = self.shared.view();
        if !show.is_live {
            let snapshot = Snapshot::default();
            return Step::Reply(render(show, &view, &snapshot, &self.version));
        }
        let version = self.version.clone();
        Step::Gather(Box::new(move |snapshot| {
            render(show, &view, snapshot, &version)
        }))
    }
}

fn render(show: &Show, view: &View, snapshot: &Snapshot, version: &str) -> Vec<u8> {
    let settings: &Settings = &view.settings;
    let rows = (show.rows)(&Context {
        settings,
        users: &view.users,
        snapshot,
        version,
    });
    Reply::default().table(show.headings, &rows).ready()
}

/// One notice with a line per command, as PgBouncer's.
fn help(reply: Reply) -> Reply {
    let mut detail = String::new();
    for entry in COMMANDS {
        if !entry.is_courtesy() && !entry.is_later() {
            detail.push_str("\n\t");
            detail.push_str(&entry.usage());
        }
    }
    reply.report(ErrorReport {
        detail: Some(&detail),
        ..notice("Console usage")
    })
}

fn notice(message: &str) -> ErrorReport<'_> {
    ErrorReport::new(Severity::Notice, SqlState::SUCCESSFUL_COMPLETION, message)
}

/// PgBouncer's code for whatever the console refuses.
fn protocol_error(reply: Reply, message: &str) -> Reply {
    reply.error(SqlState::PROTOCOL_VIOLATION, message)
}

fn refuse(message: &str) -> Step {
    Step::Reply(protocol_error(Reply::default(), message).ready())
}

/// Repeats the query, short and printable.
fn invalid(sql: &[u8]) -> Step {
    let start = sql.get(..ECHO_LEN_MAX).unwrap_or(sql);
    let mut echo: String = String::from_utf8_lossy(start)
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if start.len() < sql.len() {
        echo.push_str("...");
    }
    refuse(&format!("invalid command '{echo}', use SHOW HELP;"))
}

#[cfg(test)]
mod tests;
