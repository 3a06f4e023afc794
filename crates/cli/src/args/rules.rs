//! Arguments of `weir rules`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::Format;

/// Questions about query rules.
#[derive(Debug, Subcommand)]
pub(crate) enum Rules {
    /// Count the statements of the past that each rule of a file would have met
    #[command(
        after_help = "Decides as a running Weir does: the first rule that a statement meets counts it, and later rules only if \
        that rule has then = \"next\", dry_run or sample. A rule that has ended by `expires` meets nothing. What INPUT does not \
        tell about a client is taken as met, and the table says so:\n\n  \
        digests     printed by `weir digests --format json --limit 0`; has databases, users, calls and server time, but no \
        literals and comments, so rules with match.text or match.comment are not decided\n  \
        log         log of PostgreSQL with log_statement or log_min_duration_statement, in English; tells nothing about clients\n  \
        csvlog      the same with log_destination = csvlog; has the databases, users and application_names of servers\n  \
        statements  statements, separated by semicolons\n\n\
        Logs of any length are read; they are not kept in memory. Nothing is started or connected to, and examples have ? \
        for literals.\n\nExit codes:\n  0  done\n  1  FILE has mistakes or no rules, or INPUT is not of its kind; each mistake \
        is told with file and line\n  3  FILE or INPUT cannot be read"
    )]
    Test(RulesTest),
}

/// Arguments of `weir rules test`.
#[derive(Debug, Args)]
pub(crate) struct RulesTest {
    /// Rules: a file of rules_dir, or a weir.toml, of which only its rules are read
    pub(crate) file: PathBuf,
    /// Statements to test with; `-` reads them from the standard input
    #[arg(long, value_name = "INPUT")]
    pub(crate) against: PathBuf,
    /// Kind of INPUT; by default its beginning tells
    #[arg(long = "as", value_name = "KIND", value_enum)]
    pub(crate) kind: Option<InputKind>,
    /// Maximum number of example statements for each rule
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) examples: u8,
    /// Form of the output
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: Format,
}

/// Kind of an input of statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InputKind {
    /// Digests as JSON
    Digests,
    /// Log of PostgreSQL on stderr
    Log,
    /// Log of PostgreSQL as CSV
    Csvlog,
    /// Statements, separated by semicolons
    Statements,
}
