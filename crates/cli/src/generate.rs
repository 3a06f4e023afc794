//! `weir generate`: manual pages and shell completions, from the command line's definition and the table of options.

mod options;

use std::io;

use clap::CommandFactory;
use weir_command::exit::{Exit, complain, print};
use weir_command::pages::{self, Page};

use crate::args::{self, Cli};
use crate::lab;

/// Writes the pages, or prints the completions.
pub(crate) fn generate(args: &args::Generate) -> Exit {
    match args {
        args::Generate::Man { directory } => {
            match written().and_then(|pages| pages::write(&pages, directory)) {
                Ok(()) => Exit::Ok,
                Err(error) => {
                    complain(format_args!("{}: {error}", directory.display()));
                    Exit::Start
                }
            }
        }
        args::Generate::Completions { shell } => {
            print(&pages::completions("weir", &Cli::command(), *shell));
            Exit::Ok
        }
    }
}

fn written() -> io::Result<Vec<Page>> {
    let mut pages = pages::of(Cli::command(), &["weir.toml(5)", "psql(1)"])?;
    // These come with weir-lab, which has their flags.
    pages.retain(|page| {
        !lab::COMMANDS
            .iter()
            .any(|name| page.file == format!("weir-{name}.1"))
    });
    pages.push(options::page());
    Ok(pages)
}

#[cfg(test)]
mod tests;
