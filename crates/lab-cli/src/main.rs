//! The weir-lab binary: flags and messages of `weir bench` and `weir tune`, which run it, and the study of pools that
//! find their size. The work of the first two is done in the library `weir-lab`. The daemon links none of it.

mod accept;
mod args;
mod bench;
mod generate;
mod tune;
mod weir;

use std::process::ExitCode;

use clap::Parser;
use weir_command::exit;

use crate::args::{Cli, Command};

/// Allocator of weir, too, which made the load of earlier results.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let exit = match Cli::try_parse() {
        Ok(cli) => match &cli.command {
            Command::AcceptAuto(args) => accept::accept(args),
            Command::Bench(args) => bench::bench(args),
            Command::Generate(args) => generate::generate(args),
            Command::Tune(args) => tune::tune(args),
        },
        Err(error) => exit::report::<Cli>(&error),
    };
    exit.into()
}
