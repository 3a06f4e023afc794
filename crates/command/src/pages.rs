//! Manual pages of section 1, one for each command, and shell completions, both from a command line's definition.
//! Packages write them when they are built, so neither can be out of date.
//!
//! clap_mangen writes the pages, except the list of commands and the text after the help. A paragraph with a heading
//! there becomes a section.

use std::fs;
use std::io;
use std::path::Path;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

/// Version in the pages' footers; the text of `--version` may have more lines.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Replaces the date, so that the same source always gives the same pages. The crate omits an empty one.
pub const DATE: &str = " ";

/// A manual page.
#[derive(Clone, Debug)]
pub struct Page {
    /// Name of the file, which ends in the number of its section.
    pub file: String,
    /// Text in roff.
    pub text: String,
}

/// Returns the pages of a program and of all commands below it that are not hidden. The program's page refers to
/// `others`, such as `psql(1)`; the pages below refer to the program too.
///
/// # Errors
/// If clap_mangen cannot write a page.
pub fn of(program: Command, others: &[&str]) -> io::Result<Vec<Page>> {
    let mut program = program.version(VERSION).disable_help_subcommand(true);
    program.build();
    let others = others.join(", ");
    let mut pages = vec![page(&program, &others)?];
    let others = format!("{}(1), {others}", display_name(&program));
    visible(&program).try_for_each(|below| collect(below, &others, &mut pages))?;
    Ok(pages)
}

/// Writes each page into the directory of its section, such as `man1`, below this one.
///
/// # Errors
/// If a directory or a file cannot be written.
pub fn write(pages: &[Page], directory: &Path) -> io::Result<()> {
    for page in pages {
        let section = page.file.rsplit('.').next().unwrap_or_default();
        let directory = directory.join(format!("man{section}"));
        fs::create_dir_all(&directory)?;
        fs::write(directory.join(&page.file), &page.text)?;
    }
    Ok(())
}

/// Returns the completions of a program of this name for a shell.
#[must_use]
pub fn completions(name: &'static str, program: &Command, shell: Shell) -> String {
    // Without this filter clap_complete offers hidden commands too.
    let mut command = Command::new(name)
        .version(VERSION)
        .subcommands(visible(program).cloned());
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
}

fn collect(command: &Command, others: &str, pages: &mut Vec<Page>) -> io::Result<()> {
    pages.push(page(command, others)?);
    visible(command).try_for_each(|below| collect(below, others, pages))
}

fn page(command: &Command, others: &str) -> io::Result<Page> {
    let shown = command.clone().subcommand_value_name("COMMAND");
    let name = display_name(command).to_owned();
    let man = Man::new(shown)
        .title(name.to_uppercase())
        .date(DATE)
        .source(format!("Weir {VERSION}"))
        .manual("Weir");
    let mut bytes = Vec::new();
    man.render_title(&mut bytes)?;
    man.render_name_section(&mut bytes)?;
    man.render_synopsis_section(&mut bytes)?;
    man.render_description_section(&mut bytes)?;
    if command.get_arguments().any(|arg| !arg.is_hide_set()) {
        man.render_options_section(&mut bytes)?;
    }
    let mut roff = Roff::default();
    commands(command, &mut roff);
    let extra = command
        .get_after_long_help()
        .or_else(|| command.get_after_help());
    if let Some(extra) = extra {
        sections(&extra.to_string(), &mut roff);
    }
    roff.control("SH", ["SEE ALSO"]);
    roff.text([roman(others)]);
    roff.to_writer(&mut bytes)?;
    Ok(Page {
        file: format!("{name}.1"),
        text: String::from_utf8_lossy(&bytes).into_owned(),
    })
}

/// Lists the commands by the names of their pages, which clap_mangen would derive from this command's name.
fn commands(command: &Command, roff: &mut Roff) {
    if visible(command).next().is_none() {
        return;
    }
    roff.control("SH", ["COMMANDS"]);
    for below in visible(command) {
        roff.control("TP", []);
        roff.text([roman(format!("{}(1)", display_name(below)))]);
        if let Some(about) = below.get_about() {
            roff.text([roman(about.to_string())]);
        }
    }
}

/// Writes the text after the help. A paragraph whose first line ends in a colon becomes a section with its lines
/// unchanged; any other is prose.
fn sections(text: &str, roff: &mut Roff) {
    let mut prose = false;
    for paragraph in text.split("\n\n") {
        let (first, rest) = paragraph.split_once('\n').unwrap_or((paragraph, ""));
        match first.strip_suffix(':') {
            Some(heading) if !rest.is_empty() => {
                roff.control("SH", [heading.to_uppercase().as_str()]);
                roff.control("nf", []);
                for line in rest.lines() {
                    roff.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
                }
                roff.control("fi", []);
                prose = false;
            }
            _ => {
                if prose {
                    roff.control("PP", []);
                } else {
                    roff.control("SH", ["NOTES"]);
                }
                paragraph.lines().for_each(|line| {
                    roff.text([roman(line)]);
                });
                prose = true;
            }
        }
    }
}

/// Name of a command in the form `weir-hba-explain`.
fn display_name(command: &Command) -> &str {
    command
        .get_display_name()
        .unwrap_or_else(|| command.get_name())
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    fn program() -> Command {
        let told = Command::new("tell").about("Tell something").arg(
            Arg::new("loud")
                .long("loud")
                .help("Tell it to everybody")
                .num_args(0),
        );
        let other = Command::new("ask")
            .about("Ask something")
            .display_name("other-ask");
        Command::new("thing")
            .about("Tells and asks.")
            .after_help("Examples:\n  thing tell   as it is\n\nNothing is written.")
            .subcommands([told, other, Command::new("secret").hide(true)])
    }

    #[test]
    fn each_visible_command_has_a_page_and_is_listed_by_its_name() {
        let pages = of(program(), &["psql(1)"]).unwrap();
        let files: Vec<&str> = pages.iter().map(|page| page.file.as_str()).collect();
        assert_eq!(files, ["thing.1", "thing-tell.1", "other-ask.1"]);
        let texts: Vec<String> = pages
            .iter()
            .map(|page| page.text.replace("\\-", "-"))
            .collect();
        for (text, parts) in texts.iter().zip([
            &["thing-tell(1)\nTell something", "other-ask(1)"][..],
            &["--loud", "thing(1), psql(1)"],
            &["other-ask - Ask something", "thing(1), psql(1)"],
        ]) {
            for part in parts {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
        assert!(!texts[0].contains("secret"), "{}", texts[0]);
    }

    #[test]
    fn the_text_after_the_help_becomes_sections_and_notes() {
        let text = &of(program(), &[]).unwrap()[0].text;
        assert!(
            text.contains(".SH EXAMPLES\n.nf\nthing tell   as it is\n.fi\n"),
            "{text}"
        );
        assert!(text.contains(".SH NOTES\nNothing is written.\n"), "{text}");
    }

    #[test]
    fn completions_offer_what_is_visible() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let text = completions("thing", &program(), shell);
            assert!(text.contains("tell") && text.contains("loud"), "{shell}");
            assert!(!text.contains("secret"), "{shell} offers a hidden command");
        }
    }
}
