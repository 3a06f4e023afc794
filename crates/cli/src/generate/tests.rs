//! Pages and completions cover everything that a user can type or write.

use clap::Command;
use clap_complete::Shell;
use weir_config::Scope;

use super::*;

fn page(file: &str) -> String {
    let found = written()
        .unwrap()
        .into_iter()
        .find(|page| page.file == file);
    found.map(|page| unescaped(&page.text)).unwrap()
}

/// Reverses the escapes of roff.
fn unescaped(roff: &str) -> String {
    roff.replace("\\-", "-").replace("\\*(Aq", "'")
}

/// Calls `look` with each visible command below this one that is not weir-lab's, and its name in the form
/// `weir-hba-explain`.
fn each_command(command: &Command, name: &str, look: &mut dyn FnMut(&Command, &str)) {
    look(command, name);
    let is_own =
        |below: &&Command| !below.is_hide_set() && !lab::COMMANDS.contains(&below.get_name());
    for below in command.get_subcommands().filter(is_own) {
        each_command(below, &format!("{name}-{}", below.get_name()), look);
    }
}

#[test]
fn every_command_has_a_page_with_its_flags() {
    each_command(&Cli::command(), "weir", &mut |command, name| {
        let page = page(&format!("{name}.1"));
        assert!(page.contains(&format!("{name} - ")), "{name}");
        let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
        for flag in shown.filter_map(|arg| arg.get_long()) {
            assert!(page.contains(&format!("--{flag}")), "{name}: --{flag}");
        }
    });
}

#[test]
fn a_page_shows_what_the_help_ends_with_as_sections() {
    let page = page("weir.1");
    for heading in [
        "EXAMPLES",
        "ENVIRONMENT",
        "SIGNALS",
        "EXIT CODES",
        "SEE ALSO",
    ] {
        assert!(
            page.contains(&format!(".SH {heading}\n"))
                || page.contains(&format!(".SH \"{heading}\"\n"))
        );
    }
    assert!(page.contains("\nweir run weir.toml                      the native format\n"));
}

#[test]
fn the_commands_of_weir_lab_are_listed_and_their_pages_come_with_it() {
    let weir = page("weir.1");
    for name in lab::COMMANDS {
        assert!(weir.contains(&format!("weir-{name}(1)")), "{weir}");
        let file = format!("weir-{name}.1");
        assert!(written().unwrap().iter().all(|page| page.file != file));
    }
}

#[test]
fn every_option_is_in_the_page_of_the_file() {
    let page = page("weir.toml.5");
    for scope in [
        Scope::Global,
        Scope::Database,
        Scope::Listener,
        Scope::Pool,
        Scope::User,
        Scope::Peer,
    ] {
        for option in scope.options() {
            assert!(
                page.contains(&format!("\\fB{}\\fR", option.name)),
                "{}",
                option.name
            );
        }
    }
    assert!(page.contains("\\fBlisten_port\\fR (1 to 65535), default 6432 (restart)"));
}

#[test]
fn completions_know_every_command_and_flag() {
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let text = pages::completions("weir", &Cli::command(), shell);
        assert!(
            !text.contains("generate"),
            "{shell} offers a hidden command"
        );
        each_command(&Cli::command(), "weir", &mut |command, name| {
            assert!(text.contains(command.get_name()), "{shell}: {name}");
            for flag in command.get_arguments().filter_map(|arg| arg.get_long()) {
                assert!(text.contains(flag), "{shell}: {name} --{flag}");
            }
        });
    }
}
