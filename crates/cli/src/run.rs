//! `weir run`: starts everything in the right order, then handles signals and console commands until the end.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, never, select};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1};
use weir_admin::Shared;
use weir_command::exit::{Exit, complain};
use weir_config::Settings;
use weir_dashboard::Dashboard;
use weir_proxy::console::{Command, Order, Refusal, Shutdown};
use weir_proxy::diagnosis::EventKind;
use weir_proxy::monitor::Monitor;
use weir_proxy::{ListenError, Running, Side};

use crate::args;
use crate::dashboard;
use crate::descriptors;
use crate::identity;
use crate::inherited;
use crate::load::{LoadError, Prepared, Source, ended_rules};
use crate::logging::{self, Logging, Manner};
use crate::notify::Notifier;
use crate::pidfile::{self, PidFile};
use crate::reload;
use crate::signals;
use crate::upgrade::{self, Inherited, Next, Outcome, Predecessor, Program, Upgrades};

pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Maximum number of errors of a reload that SHOW EVENTS names; the log has all.
const ERRORS_MAX: usize = 3;
/// Interval for checking if the engine has ended, before a shutdown was requested.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Interval for checking if the engine has ended, after a shutdown was requested.
const LOOK_INTERVAL_STOPPING: Duration = Duration::from_millis(20);

/// Runs the pooler until it ends.
pub(crate) fn run(args: &args::Run) -> Exit {
    let Some(source) = Source::choose(args.file.as_deref(), args.upstream.as_deref()) else {
        return args::report_missing("<FILE|--upstream <HOST:PORT>>");
    };
    let mut prepared = match source.load() {
        Ok(prepared) => prepared,
        Err(errors) => {
            errors.iter().for_each(complain);
            if args.as_pgbouncer {
                complain("cannot load config file");
            }
            return Exit::Config;
        }
    };
    let user = args.user.as_deref();
    let user = user.unwrap_or(&prepared.loaded.settings.global.user);
    let user = user.to_owned();
    if let Err(error) = manners(args, &prepared, &user) {
        complain(error);
        return Exit::Config;
    }
    // Before the first thread: it changes the environment.
    let (inherited, predecessor) = match inherit(args) {
        Ok(inherited) => inherited,
        Err(error) => {
            complain(error);
            return Exit::Start;
        }
    };
    if !inherited.settings.is_empty() {
        prepared = match prepared.changed(&pairs(&inherited.settings)) {
            Ok(prepared) => prepared,
            Err(errors) => {
                errors.iter().for_each(complain);
                complain(
                    "what was SET on the console since the last RELOAD does not fit this configuration",
                );
                return Exit::Config;
            }
        };
    }
    // The log and all files made from here on belong to that user.
    if let Err(error) = identity::become_user(&user) {
        complain(error);
        return Exit::Start;
    }
    let manner = Manner {
        is_quiet: args.quiet || args.daemon,
        verbose: args.verbose.into(),
    };
    let logging = match logging::start(&prepared.loaded.settings.global, manner) {
        Ok(logging) => logging,
        Err(error) => {
            complain(error);
            return Exit::Start;
        }
    };
    // The log is dropped last: it writes what is queued.
    let program = Program::new(args);
    match start(
        source,
        prepared,
        (inherited, predecessor),
        program,
        &logging,
    ) {
        Ok(service) => service.serve(),
        Err(error) => {
            tracing::error!("{error}");
            Exit::Start
        }
    }
}

/// Applies PgBouncer's conditions for starting. Runs before the first thread, because going into the background
/// forks.
fn manners(args: &args::Run, prepared: &Prepared, user: &str) -> Result<(), MannerError> {
    if !args.as_pgbouncer || args.take_over {
        return Ok(());
    }
    if user.is_empty() && rustix::process::geteuid().is_root() {
        return Err(MannerError::Root);
    }
    if args.daemon {
        if prepared.loaded.settings.global.pidfile.is_empty() {
            return Err(MannerError::NoPidFile);
        }
        // From here on the exit code says nothing any more.
        pidfile::check(Path::new(&prepared.loaded.settings.global.pidfile))?;
        weir_proxy::try_listen(&prepared.loaded.settings)?;
        // The working directory stays: paths may be relative to it.
        nix::unistd::daemon(true, false).map_err(MannerError::Fork)?;
        // The allocator's thread exists only in the parent and is started again here. Without it memory is returned
        // later, so a failure is ignored.
        let _ = tikv_jemalloc_ctl::background_thread::write(true);
    }
    Ok(())
}

/// Reason why PgBouncer would not start.
#[derive(Debug, thiserror::Error)]
enum MannerError {
    #[error("cannot go into the background: {0}")]
    Fork(nix::errno::Errno),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error("daemon needs pidfile configured")]
    NoPidFile,
    #[error(transparent)]
    PidFile(#[from] pidfile::PidFileError),
    #[error("PgBouncer should not run as root")]
    Root,
}

/// Returns the listening sockets that another process has opened, and the process to replace, if there is one.
fn inherit(
    args: &args::Run,
) -> Result<(Inherited, Option<Predecessor>), Box<dyn std::error::Error>> {
    if args.take_over {
        let (inherited, predecessor) = upgrade::take_over()?;
        return Ok((inherited, Some(predecessor)));
    }
    let inherited = Inherited {
        passed: inherited::take()?,
        ..Inherited::default()
    };
    Ok((inherited, None))
}

fn pairs(settings: &[(String, String)]) -> Vec<(&str, &str)> {
    let pairs = settings.iter();
    pairs.map(|(key, value)| (&**key, &**value)).collect()
}

/// Options whose values are of use together only.
const TLS_PAIRS: [[&str; 2]; 2] = [
    ["client_tls_key_file", "client_tls_cert_file"],
    ["server_tls_key_file", "server_tls_cert_file"],
];

/// A running pooler, as the main thread uses it.
struct Service<'a> {
    running: Running,
    notifier: Notifier,
    pidfile: Option<PidFile>,
    signals: Receiver<i32>,
    source: Source,
    /// Keys and certificates that were set and wait for the other of the two.
    halves: Vec<(String, String)>,
    /// Options set since the last reload, in the order of their last change.
    changed: Vec<(String, String)>,
    /// Configuration of the last load, with the console's changes since.
    prepared: Prepared,
    settings: Arc<Settings>,
    shared: Shared,
    /// Last shutdown requested; each further signal makes it more urgent.
    stopping: Option<Shutdown>,
    upgrades: Upgrades,
    dashboard: Option<Dashboard>,
    logging: &'a Logging,
}

/// Events that the main thread waits for.
enum Event {
    Command(Command),
    Look,
    Upgrade(UnixStream),
    Upgraded(Outcome),
    Signal(i32),
}

/// Starts the engine with a configuration. A failure leaves nothing changed outside the process, except that the log
/// file may exist.
fn start<'a>(
    source: Source,
    prepared: Prepared,
    (inherited, predecessor): (Inherited, Option<Predecessor>),
    program: Program,
    logging: &'a Logging,
) -> Result<Service<'a>, Box<dyn std::error::Error>> {
    let settings = prepared.settings();
    let pidfile = Path::new(&settings.global.pidfile);
    let has_pidfile = !settings.global.pidfile.is_empty();
    // The file of a replaced process will be overwritten.
    if has_pidfile && predecessor.is_none() {
        pidfile::check(pidfile)?;
    }
    // Before the first worker exists: a signal must find its handler.
    let signals = signals::listen()?;
    warn_all(&prepared, None);
    if rustix::process::geteuid().is_root() {
        tracing::warn!("running as root: set the option user, or start Weir as another user");
    }
    descriptors::prepare(&settings);
    let shared = Shared::new(Arc::clone(&settings), prepared.user_names());
    let console = Arc::new(weir_admin::console(shared.clone(), VERSION));
    let monitor = Monitor::bind(&settings.global.metrics_listen)?;
    let sockets = weir_proxy::monitor::open(&settings.global.dashboard_listen)?;
    let Inherited {
        passed,
        settings: changed,
        orders,
    } = inherited;
    for (key, _) in &changed {
        tracing::info!("upgrade: SET {key} still holds");
    }
    let setup = prepared.setup(Arc::clone(&settings));
    let running = weir_proxy::start(setup, console, passed, orders)?;
    running.monitor(monitor, Arc::new(weir_admin::metrics(VERSION)))?;
    let dashboard = dashboard::start(sockets, &running, &shared)?;
    let pidfile = has_pidfile.then(|| PidFile::create(pidfile)).transpose()?;
    let upgrades = Upgrades::new(program);
    if let Some(predecessor) = predecessor {
        predecessor.succeed(&running)?;
    }
    let workers = settings.global.workers;
    tracing::info!("process up: Weir {VERSION}, {workers} workers");
    tell_of_upstream(&settings);
    running.note(EventKind::Process, format!("Weir {VERSION} has started"));
    let notifier = Notifier::new();
    notifier.ready();
    Ok(Service {
        running,
        notifier,
        pidfile,
        signals,
        source,
        halves: Vec::new(),
        changed,
        prepared,
        settings,
        shared,
        stopping: None,
        upgrades,
        dashboard,
        logging,
    })
}

/// Tells who is let in by `--upstream`, where no file says so.
fn tell_of_upstream(settings: &Settings) {
    let port = settings.global.listen_port;
    if let Some(user) = &settings.upstream_user {
        tracing::info!(
            "clients log in as \"{user}\" with the password that PostgreSQL has; the console too: psql -p {port} -U \"{user}\" pgbouncer"
        );
    } else if settings.trust_loopback {
        tracing::warn!(
            "whoever reaches these addresses is let in without a password, to the console too, where SHUTDOWN ends Weir; a user \
             in the URL of --upstream changes that"
        );
    }
}

/// Logs what is to be known about a configuration, except what is known about the one that it replaces.
fn warn_all(prepared: &Prepared, replaced: Option<&Prepared>) {
    let notes = |prepared: &Prepared| -> Vec<String> {
        let notes = prepared.loaded.notes.iter();
        notes.chain(&prepared.warnings).cloned().collect()
    };
    let known = replaced.map(notes).unwrap_or_default();
    for note in notes(prepared) {
        if !known.contains(&note) {
            tracing::warn!("{note}");
        }
    }
    let rules = |prepared: &Prepared| prepared.access.hba.as_ref().map(Arc::as_ptr);
    if let Some(hba) = &prepared.access.hba
        && replaced.and_then(rules) != rules(prepared)
    {
        tracing::info!("auth_hba_file read, {} lines", hba.rules().len());
    }
}

impl Service<'_> {
    /// Handles signals and console commands until all workers have ended.
    fn serve(mut self) -> Exit {
        let mut commands = self.running.commands();
        while !self.running.is_finished() {
            match self.next(&mut commands) {
                Event::Command(command) => self.obey(command),
                Event::Look => {}
                Event::Signal(signal) => self.signal(signal),
                Event::Upgrade(report) => self.upgrade(report),
                Event::Upgraded(outcome) => self.upgraded(outcome),
            }
            self.report();
        }
        self.finish()
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Reload { from, receipt } => receipt.done(self.reload("RELOAD", from)),
            Command::Set {
                key,
                value,
                from,
                receipt,
            } => receipt.done(self.change(key, value, from)),
            Command::Shutdown(how) => self.stop("SHUTDOWN", how),
        }
    }

    /// Sends watchdog and status to the service manager.
    fn report(&mut self) {
        if self.notifier.watchdog_interval().is_some() && self.running.beats() {
            self.notifier.alive();
        }
        let clients = self.running.clients();
        self.notifier.status(clients, self.stopping.is_some());
    }

    fn next(&self, commands: &mut Receiver<Command>) -> Event {
        let interval = match self.stopping {
            None => LOOK_INTERVAL,
            Some(_) => LOOK_INTERVAL_STOPPING,
        };
        let due = self.notifier.watchdog_interval();
        let interval = due.map_or(interval, |due| interval.min(due));
        select! {
            recv(self.signals) -> signal => signal.map_or(Event::Look, Event::Signal),
            recv(commands) -> command => match command {
                Ok(command) => Event::Command(command),
                Err(_) => {
                    // A closed channel is always ready; replaced to avoid a busy loop.
                    *commands = never();
                    Event::Look
                }
            },
            recv(self.upgrades.asked) -> asked => asked.map_or(Event::Look, Event::Upgrade),
            recv(self.upgrades.outcomes) -> outcome => outcome.map_or(Event::Look, Event::Upgraded),
            default(interval) => Event::Look,
        }
    }

    fn signal(&mut self, signal: i32) {
        let name = signals::name(signal);
        match signal {
            // The result is in the log.
            SIGHUP => drop(self.reload(name, None)),
            SIGQUIT => self.stop(name, Shutdown::Now),
            SIGTERM if self.upgrades.is_as_pgbouncer() && self.stopping.is_none() => {
                self.stop(name, Shutdown::WaitForClients);
            }
            SIGINT | SIGTERM => self.stop(name, next_shutdown(self.stopping)),
            SIGUSR1 => match self.running.pause() {
                Ok(()) => {
                    tracing::info!("got {name}, pausing all activity");
                    (self.running).note(EventKind::Order, format!("PAUSE by signal {name}"));
                }
                Err(refusal) => tracing::warn!("got {name}, but: {refusal}"),
            },
            _ => match self.running.resume() {
                Ok(()) => {
                    tracing::info!("got {name}, continuing");
                    (self.running).note(EventKind::Order, format!("RESUME by signal {name}"));
                }
                Err(refusal) => tracing::warn!("got {name}, but: {refusal}"),
            },
        }
    }

    fn upgrade(&mut self, report: UnixStream) {
        if self.stopping.is_some() {
            return upgrade::tell(&report, "failed: this process is stopping");
        }
        // The next process will listen on these addresses.
        self.running.stop_monitor();
        if let Some(dashboard) = self.dashboard.take() {
            dashboard.stop();
        }
        // Halves of a pair are not in force, and the next process would refuse them.
        let is_half = |key: &str| self.halves.iter().any(|(half, _)| half == key);
        let settings = self.changed.iter().filter(|(key, _)| !is_half(key));
        let settings = settings
            .cloned()
            .map(|(key, value)| Order::Set { key, value });
        let given = (&self.source, settings.collect());
        self.upgrades.begin(&self.running, given, report);
        if !self.upgrades.is_under_way() {
            self.monitor_again();
        }
    }

    /// Listens on `metrics_listen` and `dashboard_listen` again after a failed upgrade.
    fn monitor_again(&mut self) {
        let points = &self.settings.global.dashboard_listen;
        match dashboard::open(points, &self.running, &self.shared) {
            Ok(dashboard) => self.dashboard = dashboard,
            Err(error) => tracing::error!("dashboard_listen: {error}"),
        }
        let points = &self.settings.global.metrics_listen;
        match Monitor::bind(points) {
            Err(error) => tracing::error!("metrics_listen: {error}"),
            Ok(monitor) => {
                let pages = Arc::new(weir_admin::metrics(VERSION));
                if let Err(error) = self.running.monitor(monitor, pages) {
                    tracing::error!("metrics_listen: {error}");
                }
            }
        }
    }

    /// Handles the result of an upgrade: if the next process accepts clients, this process transfers its clients and
    /// ends when the last has left.
    fn upgraded(&mut self, outcome: Outcome) {
        let Outcome { report, next } = outcome;
        match next {
            Ok(Next { pid, .. }) if self.stopping.is_some() => {
                tracing::warn!(
                    "upgrade: process {pid} has taken over while this process was stopping"
                );
            }
            Ok(Next { pid, link }) => {
                tracing::info!(
                    "upgrade: process {pid} accepts clients; the clients of this process move there"
                );
                self.notifier.succeeded_by(pid);
                self.stopping = Some(Shutdown::WaitForClients);
                let text = format!("upgrade: process {pid} takes the clients");
                self.running.note(EventKind::Process, text);
                self.running.hand_over(link);
            }
            Err(error) => {
                self.running.withdraw();
                self.upgrades.failed(&report, &error);
                self.monitor_again();
            }
        }
    }

    fn stop(&mut self, cause: &str, how: Shutdown) {
        let drain = self.settings.global.drain_timeout.as_secs();
        match how {
            Shutdown::Now => tracing::info!("{cause}: shutting down at once"),
            Shutdown::WaitForServers => {
                tracing::info!("{cause}: shutting down, transactions may end within {drain} s");
            }
            Shutdown::WaitForClients => {
                tracing::info!("{cause}: shutting down, clients may leave within {drain} s");
            }
        }
        self.stopping = Some(how);
        (self.running).note(EventKind::Process, format!("{cause}: shutting down"));
        self.notifier.stopping();
        self.running.shutdown(how);
    }

    /// Reloads the configuration here, and at the other processes of an upgrade, except the one that orders it.
    fn reload(&mut self, cause: &str, from: Option<Side>) -> Result<(), Refusal> {
        self.notifier.reloading();
        let outcome = self.read_again(cause);
        if outcome.is_ok() {
            self.running.pass_on(&Order::Reload, from);
        }
        self.notifier.ready();
        outcome
    }

    /// Reloads the configuration. A configuration with a mistake changes nothing.
    fn read_again(&mut self, cause: &str) -> Result<(), Refusal> {
        tracing::info!("{cause}: reading the configuration again");
        // The option `conffile` may name another file than the command line.
        if let Source::File(path) = &mut self.source
            && !self.settings.global.conffile.is_empty()
        {
            *path = (&self.settings.global.conffile).into();
        }
        self.halves.clear();
        let has_users = self.prepared.has_users;
        let loaded = self.source.load().and_then(|mut prepared| {
            // Users who could log in must not be locked out by a file that is gone for a moment.
            if let Some(error) = prepared.missing_users.take_if(|_| has_users) {
                return Err(vec![error]);
            }
            let now = jiff::Timestamp::now().as_second();
            let ended = ended_rules(&prepared.settings(), &self.settings.rules, now);
            match ended.is_empty() {
                true => Ok(prepared),
                false => Err(ended.into_iter().map(LoadError::from).collect()),
            }
        });
        let prepared = loaded.map_err(|errors| {
            for error in &errors {
                tracing::error!("{error}");
            }
            tracing::error!("reload failed, the running configuration stays as it was");
            let texts = errors.iter().map(ToString::to_string);
            let texts = texts.take(ERRORS_MAX).collect::<Vec<_>>().join("; ");
            self.running.note_reload(Some(texts));
            Refusal::ReloadFailed
        })?;
        warn_all(&prepared, None);
        let changes = self.put_in_force("reload", prepared);
        self.changed.clear();
        self.running.note_reload(None);
        tracing::info!("reload done, {changes} changes");
        Ok(())
    }

    /// Sets an option here, and at the other processes of an upgrade, except the one that orders it.
    fn change(&mut self, key: String, value: String, from: Option<Side>) -> Result<(), Refusal> {
        self.set(&key, &value)?;
        self.changed.retain(|(changed, _)| *changed != key);
        self.changed.push((key.clone(), value.clone()));
        self.running.pass_on(&Order::Set { key, value }, from);
        Ok(())
    }

    /// Executes SET of the console: the option has another value until the next reload. The content of files is not
    /// read again.
    fn set(&mut self, key: &str, value: &str) -> Result<(), Refusal> {
        let refused = |errors: &[LoadError]| {
            let texts = errors.iter().map(ToString::to_string);
            // The place "SET" is known to the user.
            let texts = texts.map(|text| text.trim_start_matches("SET: ").to_owned());
            Refusal::SetFailed(texts.collect::<Vec<_>>().join("; "))
        };
        let errors = match self.prepare_set(&[(key, value)]) {
            Ok(prepared) => {
                self.halves.retain(|(half, _)| half != key);
                warn_all(&prepared, Some(&self.prepared));
                self.put_in_force("SET", prepared);
                return Ok(());
            }
            Err(errors) => errors,
        };
        // Keys and certificates are set one after the other, and are of use together only.
        let Some(pair) = TLS_PAIRS.iter().find(|pair| pair.contains(&key)) else {
            return Err(refused(&errors));
        };
        if !errors.iter().all(LoadError::is_half_of_a_pair) {
            return Err(refused(&errors));
        }
        let other = self
            .halves
            .iter()
            .find(|(half, _)| half != key && pair.contains(&&**half));
        let both = other.map(|(other, it)| self.prepare_set(&[(other, it), (key, value)]));
        if let Some(Ok(prepared)) = both {
            self.halves.retain(|(half, _)| !pair.contains(&&**half));
            warn_all(&prepared, Some(&self.prepared));
            self.put_in_force("SET", prepared);
            return Ok(());
        }
        tracing::warn!("SET {key}: takes effect once the other of key and certificate is set");
        self.halves.retain(|(half, _)| half != key);
        self.halves.push((key.to_owned(), value.to_owned()));
        Ok(())
    }

    /// Prepares the configuration in force with these options changed.
    fn prepare_set(&self, pairs: &[(&str, &str)]) -> Result<Prepared, Vec<LoadError>> {
        self.prepared.changed(pairs)
    }

    /// Puts a configuration in force; returns the number of changed options.
    fn put_in_force(&mut self, cause: &str, prepared: Prepared) -> usize {
        let mut settings = Settings::clone(&prepared.settings());
        let changes = reload::merge(&self.settings, &mut settings);
        for change in &changes {
            match change.is_reloadable() {
                true => tracing::info!("{cause}: {change}"),
                false => tracing::warn!("{cause}: {change}"),
            }
        }
        self.settings = Arc::new(settings);
        self.logging.apply(&self.settings.global);
        // SHOW CONFIG shows the settings in force.
        self.running
            .reload(prepared.setup(Arc::clone(&self.settings)));
        self.shared
            .replace(Arc::clone(&self.settings), prepared.user_names());
        self.prepared = prepared;
        changes.len()
    }

    fn finish(self) -> Exit {
        self.running.wait();
        drop(self.pidfile);
        if self.stopping.is_some() {
            tracing::info!("stopped");
            Exit::Ok
        } else {
            tracing::error!("all workers ended without a shutdown request");
            Exit::Failed
        }
    }
}

/// Shutdown mode of SIGTERM and SIGINT: the first signal drains, any further one does not wait.
fn next_shutdown(asked: Option<Shutdown>) -> Shutdown {
    match asked {
        None => Shutdown::WaitForServers,
        Some(_) => Shutdown::Now,
    }
}
