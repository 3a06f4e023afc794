//! `weir bench` and `weir tune`: commands of the program `weir-lab`, which replaces this process.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use weir_command::exit::{Exit, complain};

/// Commands that `weir-lab` has.
pub(crate) const COMMANDS: [&str; 2] = ["bench", "tune"];
const PROGRAM: &str = "weir-lab";

/// True if the command line is for `weir-lab`: one of its commands, or `help` for one.
pub(crate) fn is_meant() -> bool {
    let mut words = std::env::args_os().skip(1);
    let first = words.next();
    let command = match first {
        Some(word) if word == "help" => words.next(),
        first => first,
    };
    command.is_some_and(|word| COMMANDS.iter().any(|command| word == *command))
}

/// Runs `weir-lab` with this command line in place of this process, so signals and exit codes are its own. Returns if
/// that fails.
pub(crate) fn run() -> Exit {
    let ourselves = std::env::current_exe().ok();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let Some(program) = find(ourselves.as_deref(), &path) else {
        complain(missing(ourselves.as_deref()));
        return Exit::Start;
    };
    let mut words = std::env::args_os();
    let mut command = Command::new(&program);
    // Messages and the record of a run show what the user typed.
    command.arg0(words.next().unwrap_or_else(|| OsString::from("weir")));
    command.args(words);
    if let Some(ourselves) = ourselves {
        // The Weir that is measured.
        command.env("WEIR_BIN", ourselves);
    }
    let error = command.exec();
    complain(format_args!("cannot run {}: {error}", program.display()));
    Exit::Start
}

/// Finds the program beside this one, else on `PATH`.
fn find(ourselves: Option<&Path>, path: &OsStr) -> Option<PathBuf> {
    let beside = ourselves.and_then(Path::parent).map(Path::to_owned);
    beside
        .into_iter()
        .chain(std::env::split_paths(path))
        .map(|directory| directory.join(PROGRAM))
        .find(|candidate| candidate.is_file())
}

fn missing(ourselves: Option<&Path>) -> String {
    let beside = ourselves.map_or_else(
        || "beside weir".to_owned(),
        |path| format!("beside {}", path.display()),
    );
    format!(
        "weir bench and weir tune are commands of {PROGRAM}, which is neither {beside} nor on PATH.\n\
         Install the Debian package {PROGRAM}, or build it: cargo build --release -p weir-lab-cli"
    )
}
