//! PgBouncer's command line, for a binary that is called `pgbouncer`: scripts and units that start it stay as they are.
//!
//! It is a translation and nothing more: the process becomes `weir run FILE`, or starts it in the background.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::{ArgAction, Parser};
use weir_config::Global;

use crate::exit::{Exit, complain, print};
use crate::load::Source;

/// Under which name this command line is spoken.
const NAME: &str = "pgbouncer";
/// How long the process in the background may take until it accepts clients.
const START_MAX: Duration = Duration::from_secs(60);
/// How often to look whether it has ended before that.
const LOOK: Duration = Duration::from_millis(50);

const VERSION: &str = concat!(" (Weir ", env!("CARGO_PKG_VERSION"), ")\n");

/// Weir in the place of PgBouncer.
#[derive(Debug, Parser)]
#[command(name = "pgbouncer", disable_version_flag = true, max_term_width = 100)]
#[command(after_help = "This is Weir under PgBouncer's name; `weir --help` has more.")]
pub(crate) struct Flags {
    /// Run in the background (as a daemon); needs `pidfile`, and `logfile` or `syslog`
    #[arg(short, long)]
    daemon: bool,
    /// Refused, as by PgBouncer 1.26: `weir upgrade` replaces a running process without losing a client
    #[arg(short = 'R', long)]
    reboot: bool,
    /// Assume the identity of this user
    #[arg(short, long, value_name = "NAME")]
    user: Option<String>,
    /// Increase verbosity
    #[arg(short, long, action = ArgAction::Count)]
    verbose: u8,
    /// Be quiet: do not log to standard error
    #[arg(short, long)]
    quiet: bool,
    /// Show the version
    #[arg(short = 'V', long)]
    version: bool,
    /// PgBouncer's ini, or weir.toml
    file: Option<PathBuf>,
}

/// Why the process in the background does not run.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("cannot start in the background: {0}")]
    Start(#[from] io::Error),
    #[error("the process in the background ended; its reasons are in the log")]
    Ended(Option<i32>),
    #[error("the process in the background does not accept clients after 60 s")]
    Late,
}

/// Whether the program was called by PgBouncer's name.
pub(crate) fn is_meant(program: Option<&OsStr>) -> bool {
    program.and_then(|path| Path::new(path).file_name()) == Some(OsStr::new(NAME))
}

/// Does what PgBouncer does with this command line.
pub(crate) fn main() -> Exit {
    let flags = match Flags::try_parse() {
        Ok(flags) => flags,
        Err(error) => return crate::args::report(&error),
    };
    if flags.version {
        print(&format!(
            "PgBouncer {}{VERSION}",
            weir_admin::PGBOUNCER_VERSION
        ));
        return Exit::Ok;
    }
    if flags.reboot {
        complain("-R is not supported: use `weir upgrade FILE`, which loses no client");
        return Exit::Usage;
    }
    let Some(file) = &flags.file else {
        complain("no configuration file specified");
        return Exit::Config;
    };
    let global = match Source::File(file.clone()).config() {
        Ok(loaded) => loaded.settings.global,
        Err(errors) => {
            errors.iter().for_each(complain);
            return Exit::Config;
        }
    };
    match flags.daemon {
        true => in_background(&flags, file, &global),
        false => in_foreground(&flags, file),
    }
}

/// `weir run FILE` with what the flags say, as environment.
fn command(flags: &Flags, file: &Path) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    // Not PgBouncer's name, or it would read this command line as PgBouncer's.
    command.arg0("weir").arg("run").arg(file);
    if let Some(user) = &flags.user {
        command.env("WEIR_USER", user);
    }
    if flags.verbose > 0 {
        command.env("WEIR_VERBOSE", flags.verbose.to_string());
    }
    Ok(command)
}

fn in_foreground(flags: &Flags, file: &Path) -> Exit {
    let error = match command(flags, file) {
        Ok(mut command) => {
            if flags.quiet {
                command.stderr(Stdio::null());
            }
            // Comes back only if it fails.
            command.exec()
        }
        Err(error) => error,
    };
    complain(format_args!("cannot start: {error}"));
    Exit::Start
}

fn in_background(flags: &Flags, file: &Path, global: &Global) -> Exit {
    if global.pidfile.is_empty() {
        complain("daemon needs pidfile configured");
        return Exit::Config;
    }
    if global.logfile.is_empty() && !global.syslog {
        complain("daemon needs logfile or syslog configured");
        return Exit::Config;
    }
    match start(flags, file) {
        Ok(()) => Exit::Ok,
        Err(error) => {
            complain(&error);
            Exit::Start
        }
    }
}

/// Starts it and waits until it accepts clients: whoever comes next may connect, and a failure is ours to tell.
fn start(flags: &Flags, file: &Path) -> Result<(), Failed> {
    // In the abstract namespace, where nothing has to be removed.
    let name = format!("weir-daemon-{}", std::process::id());
    let address = std::os::linux::net::SocketAddrExt::from_abstract_name(&name);
    let socket = UnixDatagram::bind_addr(&address?)?;
    socket.set_read_timeout(Some(LOOK))?;
    let mut child = command(flags, file)?
        .arg("--own-session")
        .env("NOTIFY_SOCKET", OsString::from(format!("@{name}")))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    wait_ready(&socket, &mut child)
}

fn wait_ready(socket: &UnixDatagram, child: &mut Child) -> Result<(), Failed> {
    let deadline = Instant::now() + START_MAX;
    let mut told = [0; 4096];
    while Instant::now() < deadline {
        if let Ok(len) = socket.recv(&mut told)
            && told.get(..len).is_some_and(says_ready)
        {
            return Ok(());
        }
        if let Some(status) = child.try_wait()? {
            let mut why = String::new();
            if let Some(stderr) = &mut child.stderr {
                // What can be read is better than nothing.
                let _ = stderr.read_to_string(&mut why);
            }
            why.lines().for_each(complain);
            return Err(Failed::Ended(status.code()));
        }
    }
    Err(Failed::Late)
}

fn says_ready(told: &[u8]) -> bool {
    told.split(|byte| *byte == b'\n')
        .any(|line| line == b"READY=1")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_name_decides_however_it_is_reached() {
        let meant = |path: &str| is_meant(Some(OsStr::new(path)));
        assert!(meant("pgbouncer") && meant("/usr/sbin/pgbouncer") && meant("./pgbouncer"));
        assert!(!meant("weir") && !meant("/opt/pgbouncer/weir") && !is_meant(None));
    }

    #[test]
    fn the_flags_are_pgbouncers() {
        Flags::command().debug_assert();
        let flags = Flags::parse_from(["pgbouncer", "-dqvv", "-u", "postgres", "a.ini"]);
        assert!(flags.daemon && flags.quiet && !flags.reboot);
        assert_eq!(
            (flags.verbose, flags.user.as_deref()),
            (2, Some("postgres"))
        );
    }

    #[test]
    fn ready_is_a_line_of_its_own() {
        assert!(says_ready(b"STATUS=x\nREADY=1\n"));
        assert!(!says_ready(b"STATUS=READY=1"));
    }
}
