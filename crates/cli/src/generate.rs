//! `weir generate`: manual pages and shell completions, from the command line's definition and the table of options.
//! Packages run it when they are built, so neither can be out of date.

mod command;
mod options;

use std::fs;
use std::io;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::Shell;

use crate::args::{self, Cli};
use crate::exit::{Exit, complain, print};

/// Version in the pages' footers; the text of `--version` has a second line.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Replaces the date, so that the same source always gives the same pages. The crate omits an empty one.
const DATE: &str = " ";

/// Writes the pages, or prints the completions.
pub(crate) fn generate(args: &args::Generate) -> Exit {
    match args {
        args::Generate::Man { directory } => match write_all(directory) {
            Ok(()) => Exit::Ok,
            Err(error) => {
                complain(format_args!("{}: {error}", directory.display()));
                Exit::Start
            }
        },
        args::Generate::Completions { shell } => {
            print(&completions(*shell));
            Exit::Ok
        }
    }
}

fn write_all(directory: &Path) -> io::Result<()> {
    for page in pages()? {
        let section = page.file.rsplit('.').next().unwrap_or_default();
        let directory = directory.join(format!("man{section}"));
        fs::create_dir_all(&directory)?;
        fs::write(directory.join(page.file), page.text)?;
    }
    Ok(())
}

fn completions(shell: Shell) -> String {
    // Without this filter clap_complete offers hidden commands too.
    let all = Cli::command();
    let visible = all.get_subcommands().filter(|below| !below.is_hide_set());
    let mut command = Command::new("weir")
        .version(VERSION)
        .subcommands(visible.cloned());
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, "weir", &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// A manual page.
struct Page {
    file: String,
    /// Text in roff.
    text: String,
}

fn pages() -> io::Result<Vec<Page>> {
    let mut pages = command::pages(Cli::command().version(VERSION))?;
    pages.push(options::page());
    Ok(pages)
}

#[cfg(test)]
mod tests;
