//! The online upgrade: a running process starts the next one, which takes its sockets and its clients.
//!
//! ```text
//! weir upgrade ──► old process ──starts──► new process: configuration, workers, sockets
//!                      │  ◄──── ready ────────┤
//!                      │  ─── idle clients ──►│
//!                      └─ ends when empty     └─► says to weir upgrade how it went
//! ```
//!
//! Nothing has changed until the new process reports that it accepts clients; from then on it owns everything.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, never};
use weir_proxy::console::Order;
use weir_proxy::{Link, LinkError, Offer, Passed, Running, Stay, Succeeded};

use crate::args::Run;
use crate::load::Source;

mod ask;
mod door;

pub(crate) use ask::{ask, reboot};

/// Arguments of the next process, under whatever name.
pub(crate) const TAKE_OVER: [&str; 2] = ["run", "--take-over"];
/// End of the line that tells that the next process accepts clients.
const ACCEPTS: &str = " accepts clients";
/// Time limit until the next process accepts clients.
const START_MAX: Duration = Duration::from_secs(60);
/// Time limit for the old process to send its sockets.
const OFFER_MAX: Duration = Duration::from_secs(10);

/// Reason why an upgrade failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpgradeError {
    #[error("cannot start the next process: {0}")]
    Start(#[from] io::Error),
    #[error("the next process did not start: {0}; the log has its errors")]
    NotReady(LinkError),
    #[error("cannot offer the listening sockets: {0}")]
    Offer(LinkError),
    #[error("{0}, which the next process would not take over; {1} first")]
    Halted(String, &'static str),
}

/// The program as found when this process began: by the time of an upgrade the file is a different one.
#[derive(Debug)]
pub(crate) struct Program {
    path: Option<PathBuf>,
    /// Name under which the process was started, which the next one gets as well.
    name: OsString,
    as_pgbouncer: bool,
    quiet: bool,
    verbose: u8,
}

impl Program {
    pub(crate) fn new(args: &Run) -> Self {
        Self {
            path: path(),
            name: std::env::args_os().next().unwrap_or_else(|| "weir".into()),
            as_pgbouncer: args.as_pgbouncer,
            quiet: args.quiet || args.daemon,
            verbose: args.verbose,
        }
    }

    fn command(&self, source: &Source) -> io::Result<Command> {
        let missing = || {
            io::Error::new(
                io::ErrorKind::NotFound,
                "the path of the program is unknown",
            )
        };
        let mut command = Command::new(self.path.as_ref().ok_or_else(missing)?);
        command.arg0(&self.name).args(TAKE_OVER);
        if self.as_pgbouncer {
            command.arg("--as-pgbouncer");
        }
        if self.quiet {
            command.arg("--quiet");
        }
        if self.verbose > 0 {
            command.args(["--verbose", &self.verbose.to_string()]);
        }
        match source {
            Source::File(path) => command.arg(path),
            Source::Upstream(server) => command.args(["--upstream", server]),
        };
        // For the service manager the next process is a separate one; it receives this process's sockets instead.
        for name in ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID"] {
            command.env_remove(name);
        }
        Ok(command)
    }
}

/// Returns the path by which this process was started, by a symbolic link as well: the system calls the next process by
/// the last part of it.
fn path() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let name = std::env::args_os().next().unwrap_or_default();
    let search = std::env::var_os("PATH").unwrap_or_default();
    let candidates: Vec<PathBuf> = match Path::new(&name).components().count() {
        1 if !name.as_encoded_bytes().contains(&b'/') => std::env::split_paths(&search)
            .map(|directory| directory.join(&name))
            .collect(),
        _ => vec![PathBuf::from(&name)],
    };
    let is_program = |path: &PathBuf| path.canonicalize().is_ok_and(|path| path == program);
    let started_as = candidates.into_iter().find(is_program);
    // The working directory may be another one by then.
    let started_as = started_as.and_then(|path| std::path::absolute(path).ok());
    Some(started_as.unwrap_or(program))
}

/// Result of starting the next process.
pub(crate) struct Outcome {
    pub(crate) report: UnixStream,
    pub(crate) next: Result<Next, UpgradeError>,
}

/// A new process that accepts clients.
pub(crate) struct Next {
    pub(crate) pid: u32,
    pub(crate) link: Arc<Link>,
}

/// Requested upgrades, and the result of the current one.
pub(crate) struct Upgrades {
    program: Program,
    pub(crate) asked: Receiver<UnixStream>,
    pub(crate) outcomes: Receiver<Outcome>,
    sender: Sender<Outcome>,
    is_under_way: bool,
}

impl Upgrades {
    /// True if signals have PgBouncer's meanings.
    pub(crate) fn is_as_pgbouncer(&self) -> bool {
        self.program.as_pgbouncer
    }

    /// Opens the socket for upgrade requests. Without it everything else still works.
    pub(crate) fn new(program: Program) -> Self {
        let asked = door::open().unwrap_or_else(|error| {
            tracing::warn!("this process cannot be upgraded: {error}");
            never()
        });
        let (sender, outcomes) = bounded(1);
        Self {
            program,
            asked,
            outcomes,
            sender,
            is_under_way: false,
        }
    }

    /// Starts the next process and waits for it on a separate thread; [`Upgrades::outcomes`] receives the result.
    pub(crate) fn begin(
        &mut self,
        running: &Running,
        (source, settings): (&Source, Vec<Order>),
        report: UnixStream,
    ) {
        if self.is_under_way {
            return tell(&report, "failed: an upgrade is under way");
        }
        match self.start(running, (source, settings), &report) {
            Ok((child, link)) => {
                self.is_under_way = true;
                tracing::info!("upgrade: process {} was started", child.id());
                let sender = self.sender.clone();
                let waiting = std::thread::Builder::new().name("weir-upgrade".to_owned());
                let outcome = waiting.spawn(move || drop(sender.send(wait(child, link, report))));
                if let Err(error) = outcome {
                    self.is_under_way = false;
                    running.withdraw();
                    tracing::error!("upgrade failed: {error}");
                }
            }
            Err(error) => self.failed(&report, &error),
        }
    }

    /// True while a next process was started and its result is not known.
    pub(crate) fn is_under_way(&self) -> bool {
        self.is_under_way
    }

    /// Records a failed upgrade; this process continues unchanged.
    pub(crate) fn failed(&mut self, report: &UnixStream, error: &UpgradeError) {
        self.is_under_way = false;
        tracing::error!("upgrade failed, this process continues: {error}");
        tell(report, &format!("failed: {error}"));
    }

    fn start(
        &self,
        running: &Running,
        (source, settings): (&Source, Vec<Order>),
        report: &UnixStream,
    ) -> Result<(Child, Arc<Link>), UpgradeError> {
        if let Some((what, take_back)) = running.unportable() {
            return Err(UpgradeError::Halted(what, take_back));
        }
        let (link, theirs) = Link::pair()?;
        let link = Arc::new(link);
        let mut command = self.program.command(source)?;
        let mut child = command.stdin(Stdio::from(theirs)).spawn()?;
        drop(command);
        if let Err(error) = running.offer(&link, settings, report) {
            let _ = child.kill();
            let _ = child.wait();
            return Err(match error {
                // It was faster: its configuration has a mistake, perhaps.
                LinkError::Ended => UpgradeError::NotReady(error),
                _ => UpgradeError::Offer(error),
            });
        }
        Ok((child, link))
    }
}

/// Waits until the next process accepts clients or has failed.
fn wait(mut child: Child, link: Arc<Link>, report: UnixStream) -> Outcome {
    let ready = link.set_patience(Some(START_MAX));
    let ready = ready
        .map_err(LinkError::from)
        .and_then(|()| link.wait_ready());
    let ready = ready.and_then(|()| Ok(link.set_patience(None)?));
    let next = match ready {
        Ok(()) => Ok(Next {
            pid: child.id(),
            link,
        }),
        Err(error) => {
            let _ = child.kill();
            let _ = child.wait();
            Err(UpgradeError::NotReady(error))
        }
    };
    Outcome { report, next }
}

/// Sends a line to the process that requested the upgrade; a failure is ignored.
pub(crate) fn tell(mut report: &UnixStream, line: &str) {
    let _ = writeln!(report, "{line}");
}

// === the next process ===

/// Sockets and orders that a process gets from the service manager, or from the process that it replaces.
#[derive(Default)]
pub(crate) struct Inherited {
    pub(crate) passed: Vec<Passed>,
    /// Options that were set on the console since the last reload, and their values.
    pub(crate) settings: Vec<(String, String)>,
    /// Other orders that hold.
    pub(crate) orders: Vec<Order>,
}

/// The process that this one replaces.
pub(crate) struct Predecessor {
    link: Link,
    report: UnixStream,
}

/// Receives the listening sockets of the process that started this one, and the orders that hold.
///
/// # Errors
/// If there is no such process, or its version of the protocol differs.
pub(crate) fn take_over() -> Result<(Inherited, Predecessor), LinkError> {
    let link = Link::from_stdin()?;
    link.set_patience(Some(OFFER_MAX))?;
    let Offer {
        listeners,
        standing,
        report,
    } = link.accept()?;
    link.set_patience(None)?;
    let mut inherited = Inherited {
        passed: listeners,
        ..Inherited::default()
    };
    for order in standing {
        match order {
            Order::Set { key, value } => inherited.settings.push((key, value)),
            order => inherited.orders.push(order),
        }
    }
    Ok((inherited, Predecessor { link, report }))
}

impl Predecessor {
    /// Takes over the clients of the other process. Clients must be accepted here already.
    ///
    /// # Errors
    /// If the other process is gone.
    pub(crate) fn succeed(self, running: &Running) -> Result<(), LinkError> {
        let Self { link, report } = self;
        link.ready()?;
        let pid = std::process::id();
        tell(&report, &format!("process {pid}{ACCEPTS}"));
        let report = Arc::new(report);
        running.take_over(link, move |succeeded| tell_outcome(&report, succeeded));
        Ok(())
    }
}

/// Tells how an upgrade went, once: when the old process has ended, or what could move has moved.
fn tell_outcome(report: &UnixStream, succeeded: Succeeded) {
    let Succeeded {
        moved,
        longest_pause,
        stay,
    } = succeeded;
    let pause = longest_pause.as_secs_f64() * 1000.0;
    let text = format!("{moved} clients moved, longest pause {pause:.1} ms");
    let stay = stay.map(|stay| {
        let Stay {
            pid,
            clients,
            with_tls,
        } = stay;
        format!("; {clients} stay with process {pid} until they leave, {with_tls} of them with TLS")
    });
    match &stay {
        Some(stay) => tracing::info!("upgraded: {text}{stay}"),
        None => tracing::info!("upgraded: {text}; the process before this one has ended"),
    }
    tell(
        report,
        &format!("upgraded: {text}{}", stay.unwrap_or_default()),
    );
    // Nobody waits for the end of clients that may stay for days.
    let _ = report.shutdown(std::net::Shutdown::Both);
}
