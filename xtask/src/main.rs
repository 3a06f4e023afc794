//! Tasks of CI and developers; `cargo xtask --help` lists them. Nothing here is part of a release.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool talks"
)]

mod ci;
mod cost;
mod demo;
mod docs;
mod drill;
mod mutants;
mod pgbouncer;
mod sim;
mod sqlstate;
mod tidy;
mod weir;
mod workspace;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Chores of the Weir workspace
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Flags {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Everything that CI checks: format, lints, docs, tidy, licences, then all tests
    Ci(ci::Flags),
    /// Compare what a transaction costs two builds of Weir, and PgBouncer, by turns
    Cost(cost::Flags),
    /// Show a pgbench run through Weir beside the same run through PgBouncer and direct, and a pool that finds its size
    Demo(demo::Flags),
    /// Write docs/reference from the tables in the code
    Docs {
        /// Write nothing; fail if a page is stale
        #[arg(long)]
        check: bool,
    },
    /// Break a real Patroni cluster under load, and check what clients lose by it
    Drill(drill::Flags),
    /// Put known faults into a copy of the tree, and check that the tests find each
    Mutants(mutants::Flags),
    /// Run the seeded simulator: workers between clients and servers, with faults
    Sim(sim::Flags),
    /// Write the SQLSTATE table of crates/wire from PostgreSQL's errcodes.txt
    #[command(visible_alias = "codegen")]
    Sqlstate {
        /// src/backend/utils/errcodes.txt of a PostgreSQL source tree, or the installed errcodes.txt
        errcodes: PathBuf,
    },
    /// Check what neither the compiler nor clippy knows about this repository
    Tidy,
}

fn main() -> ExitCode {
    match run(Flags::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    match task {
        Task::Ci(flags) => ci::run(&flags),
        Task::Cost(flags) => cost::run(&flags),
        Task::Demo(flags) => demo::run(&flags),
        Task::Docs { check: true } => docs::check(),
        Task::Docs { check: false } => docs::write(),
        Task::Drill(flags) => drill::run(&flags),
        Task::Mutants(flags) => mutants::run(&flags),
        Task::Sim(flags) => sim::run(&flags),
        Task::Sqlstate { errcodes } => sqlstate::write(&errcodes),
        Task::Tidy => tidy::run(),
    }
}
