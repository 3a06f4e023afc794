//! The command line as data. Its help texts are part of the interface and written to be read.

mod import;
mod rules;
mod statements;
mod top;

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::error::{ContextKind, ErrorKind};
use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use weir_command::exit::{self, Exit};

pub(crate) use self::import::{Import, ImportFrom};
pub(crate) use self::rules::{InputKind, Rules, RulesTest};
pub(crate) use self::statements::{Statements, StatementsExport};
pub(crate) use self::top::Top;

const EXAMPLES: &str = "\
Examples:
  weir run --upstream postgresql://app@db.example
                                          pool one server, no file at all
  weir run /etc/pgbouncer/pgbouncer.ini   PgBouncer's own file, unchanged
  weir run weir.toml                      the native format
  weir run conf.d/                        every *.toml in a directory, as one configuration
  weir check weir.toml                    say what is wrong, or what is in force
  weir upgrade weir.toml                  replace a running one, without losing a client
  weir convert pgbouncer.ini -o weir.toml write the same configuration as weir.toml
  weir import --from pgcat pgcat.toml     write another pooler's configuration as weir.toml
  weir route explain queries.sql          say where each statement would run, and why
  weir digests --format csv               export the statements that a running one has seen
  weir statements export app              write the statements that a user may run
  weir rules test new.toml --against log  count the statements of a log that new rules would meet
  weir hba explain ann shop 10.1.2.3      say which line of auth_hba_file decides, and why
  weir top                                watch a running one, or a PgBouncer
  psql -p 6432 -d weir -c 'SHOW POOLS'    look inside a running one

Environment:
  WEIR_<OPTION>   sets any global option and wins over the file, e.g. WEIR_WORKERS=2
  WEIR_CONFIG     the file or directory, if the command line names none
  WEIR_UPSTREAM   the server, likewise
  WEIR_LOG        error, warning, log, debug or noise; wins over `verbose`

Signals:
  SIGTERM, SIGINT  stop: accept nobody, let transactions end within `drain_timeout`;
                   the second one stops at once
  SIGQUIT          stop at once
  SIGUSR1, SIGUSR2 PAUSE and RESUME: let clients wait while the server is away, and go on
  SIGHUP           read configuration, users, rules, certificates and keys again, reopen
                   the log file

Exit codes:
  0  done, or stopped as asked
  1  the configuration has mistakes; each is printed on a line of its own
  2  the command line has mistakes
  3  could not start: an address in use, a file that cannot be written, weir-lab not installed
  4  ended without a shutdown request";

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\nin place of PgBouncer 1.25.2");

/// A PostgreSQL connection pooler.
///
/// Weir stands between applications and PostgreSQL and lets thousands of clients share a few server connections. It
/// reads PgBouncer's configuration and answers PgBouncer's console.
#[derive(Debug, Parser)]
#[command(name = "weir", version = VERSION, after_long_help = EXAMPLES, arg_required_else_help = true)]
#[command(max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Commands of the program. `bench` and `tune` are here for the help: [`crate::lab`] runs them, with their arguments
/// unread.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the pooler in the foreground
    #[command(
        after_help = "With --upstream Weir listens on port 6432 of the loopback addresses and pools by \
        transaction. With a user in the URL, clients log in as this user by SCRAM with the password that PostgreSQL has. It \
        comes from the URL, the environment variable PGPASSWORD, or libpq's password file ~/.pgpass. Without a user, \
        whoever reaches these addresses is let in without a password, to the console too; WEIR_AUTH_TYPE and \
        WEIR_AUTH_FILE change that."
    )]
    Run(Run),
    /// Check a configuration and print what would be in force
    #[command(
        after_help = "The printed text is a valid weir.toml; behind each value stands where it was set: file and line, \
        environment, or default. With --database it is what one database and user get instead, and which entry says \
        so. Secrets are shown as ***. Nothing is started, written or connected to."
    )]
    Check(Check),
    /// Replace a running pooler by the installed program, without losing a client
    #[command(
        after_help = "The running process starts the program that is installed where it was started from, with the same \
        configuration file. The new process takes the listening sockets and, as each becomes idle, the clients with their \
        sessions. Clients with TLS, and those that hold something on their server, stay with the old process until they \
        leave, or for `upgrade_drain_timeout`; after `drain_timeout` the command tells how many, and does not wait for \
        them. If the new process does not start, nothing changes.\n\n\
        Exit codes:\n  0  upgraded\n  3  nothing has changed; the last line says why\n  4  the outcome is not known"
    )]
    Upgrade(Upgrade),
    /// Write PgBouncer's ini as weir.toml
    #[command(
        after_help = "The text has the same settings, the comments of the ini and what each option means; files that \
        the ini includes become part of it. It holds the passwords that the ini holds. Nothing is started, and \
        nothing but FILE is written."
    )]
    Convert(Convert),
    /// Write another pooler's configuration as weir.toml
    #[command(after_help = import::AFTER_HELP)]
    Import(Import),
    /// Print the JSON schema of weir.toml, for editors
    #[command(
        after_help = "Save it beside weir.toml and begin that with the line\n  #:schema weir.schema.json"
    )]
    Schema,
    /// Show the statements that a running pooler has seen, the most expensive first
    #[command(
        after_help = "Asks the console of a running Weir by SHOW DIGESTS, as a user of admin_users or stats_users; the password is \
        read from PGPASSWORD. Statements that differ in literals only are one row, and no literal is shown. Times are in \
        microseconds; server_us_error is what may be missing in server_us.\n\nExit codes:\n  0  done\n  3  no console answers\n  \
        4  the console refused the question, or the connection was lost"
    )]
    Digests(Digests),
    /// Say what is wrong with a running pooler, and what to do
    #[command(
        after_help = "Asks the console of a running Weir by SHOW DIAGNOSIS, as a user of admin_users or stats_users; the         password is read from PGPASSWORD. NO_COLOR turns colours off.\n\nExit codes:\n  0  nothing that needs attention\n          3  no console answers\n  4  the console refused the question, or the connection was lost\n  5  a warning\n          6  a critical condition"
    )]
    Doctor(Doctor),
    /// Ask the rules of auth_hba_file
    #[command(subcommand)]
    Hba(Hba),
    /// Ask where statements run
    #[command(subcommand)]
    Route(Route),
    /// Try query rules on statements of the past
    #[command(subcommand)]
    Rules(Rules),
    /// Write the statements that a user may run
    #[command(subcommand)]
    Statements(Statements),
    /// Watch a running pooler in the terminal: who waits, for what, and who holds the servers
    #[command(after_help = top::AFTER_HELP)]
    Top(Top),
    /// Compare poolers by reproducible benchmarks
    Bench,
    /// Find out how many connections a database is worth
    Tune,
    /// Write what a package needs: manual pages and shell completions
    #[command(subcommand, hide = true)]
    Generate(Generate),
}

/// Files to write; all content comes from these definitions and from the table of options.
#[derive(Debug, Subcommand)]
pub(crate) enum Generate {
    /// Write the manual pages weir(1), one of each command, and weir.toml(5)
    Man {
        /// Where to write them, each into man1 or man5 there
        directory: PathBuf,
    },
    /// Print the completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// Questions about the rules.
#[derive(Debug, Subcommand)]
pub(crate) enum Hba {
    /// Say which line decides about a client, and why the lines before it do not
    #[command(
        after_help = "Starts nothing, and asks neither a server nor a resolver: give roles and host names that a line \
        needs by --role and --host.\n\nExit codes:\n  0  a line lets the client in by some method\n  1  refused, or the \
        configuration has mistakes\n  2  undecided: a flag is missing, and the text says which"
    )]
    Explain(Explain),
}

/// Questions about routes.
#[derive(Debug, Subcommand)]
pub(crate) enum Route {
    /// Say of each statement in a file on which kind of host it would run, and why
    #[command(
        after_help = "Asks the console of a running Weir by EXPLAIN ROUTE, as a user of admin_users or stats_users; the \
        password is read from PGPASSWORD. With --config nothing is asked: the configuration decides, without knowledge of \
        the database's functions and tables, for one primary and one replica that take everything.\n\nExit codes:\n  \
        0  each statement has a line\n  1  the file, the configuration or a statement has mistakes; each is told with file \
        and line\n  3  the file cannot be read, or no console answers\n  4  the connection to the console was lost"
    )]
    Explain(RouteExplain),
}

/// Arguments of `weir digests`.
#[derive(Debug, Args)]
pub(crate) struct Digests {
    /// Address of the running Weir, or the path of its unix socket
    #[arg(value_name = "HOST:PORT", default_value = crate::console::ADDRESS)]
    pub(crate) address: String,
    /// User of the console; by default PGUSER, else USER
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Only statements of this database
    #[arg(long, value_name = "NAME")]
    pub(crate) database: Option<String>,
    /// Only statements of clients with this user; needs --database
    #[arg(long, value_name = "NAME", requires = "database")]
    pub(crate) of: Option<String>,
    /// Column to sort by, the largest first
    #[arg(long, value_name = "COLUMN", default_value = "server_us")]
    pub(crate) order_by: String,
    /// Number of statements; 0 = all
    #[arg(long, value_name = "ROWS", default_value_t = 20)]
    pub(crate) limit: u32,
    /// Form of the output: `table` has the most important columns, the others have all
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: Format,
}

/// Arguments of `weir doctor`.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Address of the running Weir, or the path of its unix socket
    #[arg(value_name = "HOST:PORT", default_value = crate::console::ADDRESS)]
    pub(crate) address: String,
    /// User of the console; by default PGUSER, else USER
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Print a JSON list of objects
    #[arg(long)]
    pub(crate) json: bool,
}

/// Form of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Aligned columns for people
    Table,
    /// CSV with a line of headings (RFC 4180)
    Csv,
    /// JSON: a list of objects
    Json,
}

/// Arguments of `weir route explain`.
#[derive(Debug, Args)]
pub(crate) struct RouteExplain {
    /// Statements, separated by semicolons; `-` reads them from the standard input
    pub(crate) file: PathBuf,
    /// The database that clients name; may be left out if only one has replicas
    #[arg(long, value_name = "NAME")]
    pub(crate) database: Option<String>,
    /// Address of the running Weir, 127.0.0.1:6432 by default, or the path of its unix socket
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "config")]
    pub(crate) connect: Option<String>,
    /// User of the console; by default PGUSER, else USER
    #[arg(long, value_name = "NAME", conflicts_with = "config")]
    pub(crate) user: Option<String>,
    /// Ask no running Weir, and decide by this configuration
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// Arguments of `weir hba explain`.
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// The user that the client names
    pub(crate) user: String,
    /// The database that it names
    pub(crate) database: String,
    /// Where it comes from: an IP address, or `local` for the unix socket
    #[arg(value_name = "ADDR")]
    pub(crate) address: Address,
    /// The client uses TLS
    #[arg(long)]
    pub(crate) tls: bool,
    /// The client uses TLS and has shown a certificate that client_tls_ca_file vouches for
    #[arg(long)]
    pub(crate) cert: bool,
    /// The client asks for physical replication
    #[arg(long)]
    pub(crate) replication: bool,
    /// A role that the user is a member of; may be repeated; `none` means in none
    #[arg(long = "role", value_name = "NAME")]
    pub(crate) roles: Vec<String>,
    /// The name of the host that the address belongs to; `none` means without one
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Option<String>,
    /// weir.toml, or PgBouncer's ini under any other name; without it the file that WEIR_CONFIG names
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// Origin of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Address {
    /// Unix socket.
    Local,
    /// TCP.
    Ip(IpAddr),
}

impl FromStr for Address {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "local" {
            return Ok(Self::Local);
        }
        text.parse()
            .map(Self::Ip)
            .map_err(|_| "must be an IP address, or local")
    }
}

/// Arguments of `weir run`.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// weir.toml, PgBouncer's ini under any other name, or a directory of *.toml files
    #[arg(conflicts_with = "upstream")]
    pub(crate) file: Option<PathBuf>,
    /// Pool this server, without a configuration file
    #[arg(long, value_name = "HOST:PORT|URL")]
    pub(crate) upstream: Option<String>,
    /// Take the place of the process at the other end of the standard input (used by an upgrade)
    #[arg(long, hide = true)]
    pub(crate) take_over: bool,
    /// Behave as PgBouncer where that differs (used by the name `pgbouncer`)
    #[arg(long, hide = true)]
    pub(crate) as_pgbouncer: bool,
    /// Go into the background
    #[arg(skip)]
    pub(crate) daemon: bool,
    /// In place of the option `user`
    #[arg(skip)]
    pub(crate) user: Option<String>,
    /// More than `verbose` says
    #[arg(long, hide = true, default_value_t = 0)]
    pub(crate) verbose: u8,
    /// Nothing to standard error once the log has begun
    #[arg(long, hide = true)]
    pub(crate) quiet: bool,
}

/// Arguments of `weir upgrade`.
#[derive(Debug, Args)]
pub(crate) struct Upgrade {
    /// The configuration of the process, which is found by its `pidfile`, or else by its unix socket or port
    #[arg(conflicts_with = "pid")]
    pub(crate) file: Option<PathBuf>,
    /// The process
    #[arg(long)]
    pub(crate) pid: Option<u32>,
}

/// Arguments of `weir check`.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// weir.toml, PgBouncer's ini under any other name, or a directory of *.toml files
    pub(crate) file: Option<PathBuf>,
    /// Print what applies to clients of this database
    #[arg(long, value_name = "NAME")]
    pub(crate) database: Option<String>,
    /// Clients that log in as this user
    #[arg(long, value_name = "NAME", requires = "database")]
    pub(crate) user: Option<String>,
}

/// Arguments of `weir convert`.
#[derive(Debug, Args)]
pub(crate) struct Convert {
    /// PgBouncer's ini
    pub(crate) file: PathBuf,
    /// The file to write, which must not exist; without it the text goes to standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Reports that neither the command line nor the environment names a configuration.
pub(crate) fn report_missing(what: &str) -> Exit {
    let mut error = clap::Error::new(ErrorKind::MissingRequiredArgument);
    error.insert(
        ContextKind::InvalidArg,
        clap::error::ContextValue::Strings(vec![what.to_owned()]),
    );
    exit::report::<Cli>(&error.with_cmd(&Cli::command()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_file_and_an_upstream_exclude_each_other() {
        let error = Cli::try_parse_from(["weir", "run", "a.ini", "--upstream", "b:1"]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ArgumentConflict);
    }

    #[test]
    fn the_version_names_the_pgbouncer_of_the_console() {
        assert!(VERSION.ends_with(weir_admin::PGBOUNCER_VERSION));
    }
}
