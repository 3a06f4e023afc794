//! `weir upgrade`: requests an upgrade from a running process, and prints its progress.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use weir_command::exit::{Exit, complain};

use super::door::address;
use crate::args;
use crate::load::Source;

/// Waits until the old process has ended or the upgrade has failed.
pub(crate) fn ask(args: &args::Upgrade) -> Exit {
    let pid = match args.pid.map_or_else(|| pid_in_file(args), Ok) {
        Ok(pid) => pid,
        Err(exit) => return exit,
    };
    let stream = address(pid).and_then(|address| UnixStream::connect_addr(&address));
    let stream = match stream {
        Ok(stream) => stream,
        Err(error) => {
            complain(format_args!(
                "process {pid} is no Weir that can be upgraded: {error}"
            ));
            return Exit::Start;
        }
    };
    let mut last = String::new();
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        // A closed standard output does not stop the upgrade.
        let _ = writeln!(std::io::stdout(), "{line}");
        last = line;
    }
    match last.starts_with("upgraded: ") {
        true => Exit::Ok,
        false if last.starts_with("failed: ") => Exit::Start,
        false => {
            complain("the outcome is not known: the process that should tell it has ended");
            Exit::Failed
        }
    }
}

/// Process id from the configuration's `pidfile`.
fn pid_in_file(args: &args::Upgrade) -> Result<u32, Exit> {
    let Some(source) = Source::choose(args.file.as_deref(), None) else {
        return Err(args::report_missing("<FILE|--pid <PID>>"));
    };
    let loaded = source.config().map_err(|errors| {
        errors.iter().for_each(complain);
        Exit::Config
    })?;
    let path = loaded.settings.global.pidfile;
    if path.is_empty() {
        complain("the configuration has no pidfile: use --pid");
        return Err(Exit::Start);
    }
    let text = fs::read_to_string(&path).map_err(|error| {
        complain(format_args!("cannot read pidfile {path}: {error}"));
        Exit::Start
    })?;
    text.trim().parse().map_err(|_| {
        complain(format_args!("pidfile {path} holds no process number"));
        Exit::Start
    })
}
