//! PgBouncer's command line, for a binary named `pgbouncer`: its flags, messages and exit codes.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::{ArgAction, CommandFactory, Parser};
use weir_admin::PGBOUNCER_VERSION;
use weir_command::exit::{self, Exit, complain, print};

use crate::args::Run;
use crate::run;
use crate::upgrade::{self, TAKE_OVER};

/// A PostgreSQL connection pooler, in place of PgBouncer.
#[derive(Debug, Parser)]
#[command(name = "pgbouncer", disable_version_flag = true)]
struct Cli {
    /// Run in the background; needs `pidfile`
    #[arg(short, long)]
    daemon: bool,
    /// Replace the running process without losing a client, as `weir upgrade` does: the process that `pidfile` names, or
    /// else the one that listens on the unix socket
    #[arg(short = 'R', long)]
    reboot: bool,
    /// Become this user
    #[arg(short, long, value_name = "NAME")]
    user: Option<String>,
    /// Log more; may be repeated
    #[arg(short, long, action = ArgAction::Count)]
    verbose: u8,
    /// Do not log to standard error
    #[arg(short, long)]
    quiet: bool,
    /// Print the version
    #[arg(short = 'V', long)]
    version: bool,
    /// pgbouncer.ini
    #[arg(value_name = "CONFIG_FILE")]
    file: Option<PathBuf>,
}

/// True if the binary was called by PgBouncer's name, and not by a process of that name that it replaces.
pub(crate) fn is_meant() -> bool {
    is_meant_by(std::env::args_os())
}

fn is_meant_by(mut arguments: impl Iterator<Item = OsString>) -> bool {
    let name = arguments.next();
    let is_ours =
        name.is_some_and(|name| Path::new(&name).file_name() == Some(OsStr::new("pgbouncer")));
    is_ours && !arguments.take(TAKE_OVER.len()).eq(TAKE_OVER)
}

/// Runs as PgBouncer would. Every failure exits with 1, as there.
pub(crate) fn main() -> Exit {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return one(exit::report::<Cli>(&error)),
    };
    if cli.version {
        print(&version());
        return Exit::Ok;
    }
    let Some(file) = cli.file else {
        complain("pgbouncer: no configuration file specified");
        complain(format_args!("{}", Cli::command().render_usage()));
        return Exit::Config;
    };
    if cli.reboot {
        return one(upgrade::reboot(file));
    }
    one(run::run(&Run {
        file: Some(file),
        upstream: None,
        take_over: false,
        as_pgbouncer: true,
        daemon: cli.daemon,
        user: cli.user,
        verbose: cli.verbose,
        quiet: cli.quiet,
    }))
}

/// Text of `--version`. The first line is PgBouncer's, because scripts look for its number.
fn version() -> String {
    let weir = env!("CARGO_PKG_VERSION");
    format!("PgBouncer {PGBOUNCER_VERSION}\nweir {weir}\ntls: rustls, AWS-LC\n")
}

fn one(exit: Exit) -> Exit {
    match exit {
        Exit::Ok => Exit::Ok,
        _ => Exit::Config,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_of_that_name_starts_the_next_one_under_it() {
        let is_meant = |line: &str| is_meant_by(line.split(' ').map(OsString::from));
        assert!(is_meant("/usr/sbin/pgbouncer -d a.ini"));
        assert!(is_meant("pgbouncer"));
        assert!(is_meant("pgbouncer run"));
        assert!(!is_meant("pgbouncer run --take-over --as-pgbouncer a.ini"));
        assert!(!is_meant("weir run a.ini"));
    }

    #[test]
    fn the_command_line_is_consistent_and_pgbouncers() {
        Cli::command().debug_assert();
        let cli = Cli::try_parse_from(["pgbouncer", "-qvvd", "-u", "nobody", "a.ini"]).unwrap();
        assert!(cli.quiet && cli.daemon && !cli.reboot && !cli.version);
        assert_eq!((cli.verbose, cli.user.as_deref()), (2, Some("nobody")));
        assert_eq!(cli.file, Some("a.ini".into()));
    }
}
