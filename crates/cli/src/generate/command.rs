//! Manual pages of section 1: one for the program and one per command. clap_mangen writes them, except the text
//! after the help. A paragraph with a heading there becomes a section.

use std::io;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use super::Page;

/// Pages of a command and of all commands below it.
pub(super) fn pages(command: Command) -> io::Result<Vec<Page>> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    collect(&command, &mut pages)?;
    Ok(pages)
}

fn collect(command: &Command, pages: &mut Vec<Page>) -> io::Result<()> {
    pages.push(page(command)?);
    command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
        .try_for_each(|below| collect(below, pages))
}

fn page(command: &Command) -> io::Result<Page> {
    let shown = command.clone();
    let shown = shown
        .subcommand_help_heading("COMMANDS")
        .subcommand_value_name("COMMAND");
    let name = display_name(command).to_owned();
    let man = Man::new(shown)
        .title(name.to_uppercase())
        .date(super::DATE)
        .source(format!("Weir {}", super::VERSION))
        .manual("Weir");
    let mut bytes = Vec::new();
    man.render_title(&mut bytes)?;
    man.render_name_section(&mut bytes)?;
    man.render_synopsis_section(&mut bytes)?;
    man.render_description_section(&mut bytes)?;
    if command.get_arguments().any(|arg| !arg.is_hide_set()) {
        man.render_options_section(&mut bytes)?;
    }
    if command.get_subcommands().any(|below| !below.is_hide_set()) {
        man.render_subcommands_section(&mut bytes)?;
    }
    let mut roff = Roff::default();
    let extra = command
        .get_after_long_help()
        .or_else(|| command.get_after_help());
    if let Some(extra) = extra {
        sections(&extra.to_string(), &mut roff);
    }
    see_also(command, &mut roff);
    roff.to_writer(&mut bytes)?;
    Ok(Page {
        file: format!("{name}.1"),
        text: String::from_utf8_lossy(&bytes).into_owned(),
    })
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

fn see_also(command: &Command, roff: &mut Roff) {
    let mut others = vec!["weir.toml(5)", "psql(1)"];
    if display_name(command) != "weir" {
        others.insert(0, "weir(1)");
    }
    roff.control("SH", ["SEE ALSO"]);
    roff.text([roman(others.join(", "))]);
}

/// Name of a command in the form `weir-hba-explain`.
fn display_name(command: &Command) -> &str {
    command
        .get_display_name()
        .unwrap_or_else(|| command.get_name())
}
