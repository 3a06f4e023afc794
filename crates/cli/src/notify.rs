//! What a service manager is told (sd_notify(3)): ready, reloading, stopping, how it goes, and that it goes at all.
//!
//! Without `NOTIFY_SOCKET` in the environment nothing is said. What cannot be said is logged and changes nothing.

use std::time::Duration;

use sd_notify::NotifyState;

/// A service manager that listens, or none.
#[derive(Debug)]
pub(crate) struct Notifier {
    is_heard: bool,
    /// How long it waits for a sign of life, if it does.
    watchdog: Option<Duration>,
    /// The last status that was told.
    status: String,
}

impl Notifier {
    /// Looks into the environment.
    pub(crate) fn new() -> Self {
        let is_heard = std::env::var_os("NOTIFY_SOCKET").is_some_and(|path| !path.is_empty());
        Self {
            is_heard,
            watchdog: sd_notify::watchdog_enabled().filter(|limit| is_heard && !limit.is_zero()),
            status: String::new(),
        }
    }

    /// How often a sign of life is due: four times within the limit, since the first that is late costs the process.
    pub(crate) fn watchdog_interval(&self) -> Option<Duration> {
        let interval = self.watchdog? / 4;
        Some(interval.max(Duration::from_millis(1)))
    }

    /// Clients are served.
    pub(crate) fn ready(&self) {
        self.tell(&[NotifyState::Ready]);
    }

    /// The configuration is read again; [`Notifier::ready`] ends that, well or not.
    pub(crate) fn reloading(&self) {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => self.tell(&[NotifyState::Reloading, now]),
            // Without the time systemd would take it for a failure.
            Err(error) => tracing::warn!("cannot tell the service manager of a reload: {error}"),
        }
    }

    /// Another process is the one to look at from now on.
    pub(crate) fn succeeded_by(&mut self, pid: u32) {
        self.tell(&[NotifyState::MainPid(pid)]);
        self.is_heard = false;
        self.watchdog = None;
    }

    /// The end has begun.
    pub(crate) fn stopping(&self) {
        self.tell(&[NotifyState::Stopping]);
    }

    /// All workers turn.
    pub(crate) fn alive(&self) {
        if self.watchdog.is_some() {
            self.tell(&[NotifyState::Watchdog]);
        }
    }

    /// One line for whoever asks how it goes.
    pub(crate) fn status(&mut self, clients: usize, is_stopping: bool) {
        if !self.is_heard {
            return;
        }
        let verb = match is_stopping {
            true => "stopping",
            false => "serving",
        };
        let status = format!("{verb}, {clients} clients");
        if status != self.status {
            self.tell(&[NotifyState::Status(&status)]);
            self.status = status;
        }
    }

    fn tell(&self, states: &[NotifyState<'_>]) {
        if !self.is_heard {
            return;
        }
        if let Err(error) = sd_notify::notify(states) {
            tracing::warn!("cannot tell the service manager: {error}");
        }
    }
}
