//! The weir binary: flags, wiring, exit codes. All decisions about connections are made in the engine.

mod access;
mod args;
mod check;
mod console;
mod convert;
mod dashboard;
mod descriptors;
mod digests;
mod doctor;
mod generate;
mod hba;
mod identity;
mod import;
mod inherited;
mod lab;
mod load;
mod logging;
mod notify;
mod pgbouncer;
mod pidfile;
mod reload;
mod route;
mod rules;
mod run;
mod secrets;
mod signals;
mod statements;
mod top;
mod upgrade;
mod upstream;

use std::process::ExitCode;

use clap::Parser;
use weir_command::exit::{self, Exit};

use crate::args::{Cli, Command};

/// Returns memory to the system after a burst, which glibc's allocator does not
/// (`docs/internals/decisions/allocator.md`).
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    if pgbouncer::is_meant() {
        return pgbouncer::main().into();
    }
    if lab::is_meant() {
        return lab::run().into();
    }
    let exit = match Cli::try_parse() {
        Ok(cli) => match &cli.command {
            Command::Bench | Command::Tune => lab::run(),
            Command::Check(args) => check::check(args),
            Command::Generate(args) => generate::generate(args),
            Command::Convert(args) => convert::convert(args),
            Command::Import(args) => import::import(args),
            Command::Digests(args) => digests::print(args),
            Command::Doctor(args) => doctor::examine(args),
            Command::Hba(args::Hba::Explain(args)) => hba::explain(args),
            Command::Route(args::Route::Explain(args)) => route::explain(args),
            Command::Rules(args::Rules::Test(args)) => rules::test(args),
            Command::Run(args) => run::run(args),
            Command::Statements(args::Statements::Export(args)) => statements::export(args),
            Command::Top(args) => top::show(args),
            Command::Upgrade(args) => upgrade::ask(args),
            Command::Schema => {
                exit::print(&weir_config::schema_json());
                Exit::Ok
            }
        },
        Err(error) => exit::report::<Cli>(&error),
    };
    exit.into()
}
