//! `weir-lab generate`: manual pages and shell completions, from the command line's definition.

use std::io;

use clap::CommandFactory;
use weir_command::exit::{Exit, complain, print};
use weir_command::pages::{self, Page};

use crate::args::{self, Cli};

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
            print(&pages::completions("weir-lab", &Cli::command(), *shell));
            Exit::Ok
        }
    }
}

/// Returns the pages of the program and those of `weir bench` and `weir tune`, whose synopsis names weir.
fn written() -> io::Result<Vec<Page>> {
    let others = ["weir(1)", "pgbench(1)", "psql(1)"];
    let own = pages::of(Cli::command(), &others)?;
    let called = pages::of(Cli::command().name("weir"), &["weir-lab(1)", "pgbench(1)"])?;
    let is_own = |page: &Page| page.file.starts_with("weir-lab");
    let is_called = |page: &Page| {
        ["weir-bench", "weir-tune"]
            .iter()
            .any(|name| page.file.starts_with(name))
    };
    let own = own.into_iter().filter(is_own);
    Ok(own.chain(called.into_iter().filter(is_called)).collect())
}

#[cfg(test)]
mod tests {
    use clap::Command;
    use clap_complete::Shell;

    use super::*;

    /// Calls `look` with each visible command below this one, and its words, such as `bench run`.
    fn each_command(command: &Command, words: &str, look: &mut dyn FnMut(&Command, &str)) {
        for below in command
            .get_subcommands()
            .filter(|below| !below.is_hide_set())
        {
            let words = format!("{words} {}", below.get_name());
            look(below, &words);
            each_command(below, &words, look);
        }
    }

    #[test]
    fn every_command_has_a_page_under_the_name_it_is_called_by() {
        let pages = written().unwrap();
        let text = |file: &str| {
            let page = pages.iter().find(|page| page.file == file);
            page.map(|page| page.text.replace("\\-", "-").replace("\\fB", ""))
                .unwrap_or_else(|| panic!("no {file}"))
        };
        let all = text("weir-lab.1");
        for listed in ["weir-bench(1)", "weir-tune(1)", "WEIR_BIN", "EXIT CODES"] {
            assert!(all.contains(listed), "{listed}: {all}");
        }
        each_command(&Cli::command(), "weir", &mut |command, words| {
            let words = &words.replace("weir accept", "weir-lab accept");
            let page = text(&format!("{}.1", words.replace(' ', "-")));
            assert!(page.contains(words), "{words}: {page}");
            let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
            for flag in shown.filter_map(|arg| arg.get_long()) {
                assert!(page.contains(&format!("--{flag}")), "{words}: --{flag}");
            }
        });
    }

    #[test]
    fn completions_know_every_command_and_flag() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let text = pages::completions("weir-lab", &Cli::command(), shell);
            assert!(!text.contains("generate"), "{shell}");
            each_command(&Cli::command(), "weir", &mut |command, words| {
                assert!(text.contains(command.get_name()), "{shell}: {words}");
                for flag in command.get_arguments().filter_map(|arg| arg.get_long()) {
                    assert!(text.contains(flag), "{shell}: {words} --{flag}");
                }
            });
        }
    }
}
