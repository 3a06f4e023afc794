//! Exit codes, and text to the standard streams.

use std::io::Write;
use std::process::ExitCode;

use clap::CommandFactory;
use clap::error::ErrorKind;

/// Exit codes of the programs. `--help` documents the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done, or stopped as asked.
    Ok = 0,
    /// The configuration has mistakes, or the rules asked about refuse.
    Config = 1,
    /// The command line has mistakes.
    Usage = 2,
    /// An address, a file or the operating system prevented the start.
    Start = 3,
    /// The process ended without a request to do so.
    Failed = 4,
    /// A condition of severity `warning` holds, and none that is worse (`weir doctor`).
    Warning = 5,
    /// A condition of severity `critical` holds (`weir doctor`).
    Critical = 6,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Writes to standard output. A reader that is gone (`weir check FILE | head`) causes neither an error nor a
/// panic.
pub fn print(text: &str) {
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}

/// Writes one line to standard error; a failure is ignored, because it cannot be reported anywhere.
pub fn complain(line: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Prints clap's message: a mistake, or help and version, which are not mistakes. After an unknown command the list
/// of the program's commands follows.
pub fn report<Program: CommandFactory>(error: &clap::Error) -> Exit {
    // A closed stream must not cause a panic.
    let _ = error.print();
    if error.kind() == ErrorKind::InvalidSubcommand {
        complain(format_args!("\n{}", Program::command().render_help()));
    }
    if error.exit_code() == 0 {
        Exit::Ok
    } else {
        Exit::Usage
    }
}
