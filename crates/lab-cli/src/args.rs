//! The command line as data. Its help texts are part of the interface and written to be read.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use crate::accept;
use crate::bench::Bench;
use crate::tune::Tune;

const EXAMPLES: &str = "\
Examples:
  weir bench run                          every kind of experiment, under 5 minutes
  weir bench list                         experiments, targets, and what of them is on this machine
  weir tune run p3                        the published study of an e-wallet, about 10 minutes
  weir tune watch postgresql://me@db/shop a look at a live server, without load
  weir-lab accept-auto --quick            what pool_size = auto reaches, about half an hour

Environment:
  WEIR_BIN   the weir to measure; without it the one beside weir-lab, then the one on PATH.
             weir bench and weir tune set it to themselves.
  WEIR_BENCH_BIN_DIR
             directories with other poolers for weir bench, separated by colons; they come before PATH.

Exit codes:
  0  done, or stopped as asked
  1  the description of an experiment or of a target has mistakes
  2  the command line has mistakes
  3  could not start, or a file cannot be read or written
  4  nothing could be measured, or a criterion of accept-auto was missed";

/// Benchmarks for connection poolers, and a study of pool sizes.
///
/// `weir bench` and `weir tune` run this program; it does the same under its own name.
#[derive(Debug, Parser)]
#[command(name = "weir-lab", version, after_long_help = EXAMPLES, arg_required_else_help = true)]
#[command(max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Commands of the program.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Compare poolers by reproducible benchmarks
    // The page has the name by which the command is called.
    #[command(subcommand, display_name = "weir-bench")]
    Bench(Bench),
    /// Find out how many connections a database is worth
    #[command(subcommand, display_name = "weir-tune")]
    Tune(Tune),
    /// Compare pools of Weir that find their size with the best fixed size, on a PostgreSQL of its own
    AcceptAuto(accept::Flags),
    /// Write what a package needs: manual pages and shell completions
    #[command(subcommand, hide = true)]
    Generate(Generate),
}

/// Files to write; all content comes from these definitions.
#[derive(Debug, Subcommand)]
pub(crate) enum Generate {
    /// Write the manual pages weir-lab(1), weir-bench(1), weir-tune(1), and one of each command below them
    Man {
        /// Where to write them, into man1 there
        directory: PathBuf,
    },
    /// Print the completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
