//! Notifications to a service manager (sd_notify(3)): ready, reloading, stopping, status, and watchdog.
//!
//! Without `NOTIFY_SOCKET` in the environment nothing is sent. A failure to send is logged and has no other effect.

use std::time::Duration;

use sd_notify::NotifyState;

/// Connection to the service manager, if there is one.
#[derive(Debug)]
pub(crate) struct Notifier {
    is_heard: bool,
    /// Watchdog timeout of the service manager, if it has one.
    watchdog: Option<Duration>,
    /// Last status that was sent.
    status: String,
}

impl Notifier {
    /// Reads the environment.
    pub(crate) fn new() -> Self {
        let is_heard = std::env::var_os("NOTIFY_SOCKET").is_some_and(|path| !path.is_empty());
        Self {
            is_heard,
            watchdog: sd_notify::watchdog_enabled().filter(|limit| is_heard && !limit.is_zero()),
            status: String::new(),
        }
    }

    /// Interval of watchdog notifications: a quarter of the timeout, since the first late notification kills the
    /// process.
    pub(crate) fn watchdog_interval(&self) -> Option<Duration> {
        let interval = self.watchdog? / 4;
        Some(interval.max(Duration::from_millis(1)))
    }

    /// Notifies that clients are served.
    pub(crate) fn ready(&self) {
        self.tell(&[NotifyState::Ready]);
    }

    /// Notifies that a reload has begun; [`Notifier::ready`] ends it, even if it failed.
    pub(crate) fn reloading(&self) {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => self.tell(&[NotifyState::Reloading, now]),
            // Without the time systemd would treat the reload as failed.
            Err(error) => tracing::warn!("cannot tell the service manager of a reload: {error}"),
        }
    }

    /// Notifies that another process is now the main process.
    pub(crate) fn succeeded_by(&mut self, pid: u32) {
        self.tell(&[NotifyState::MainPid(pid)]);
        self.is_heard = false;
        self.watchdog = None;
    }

    /// Notifies that the process has begun to stop.
    pub(crate) fn stopping(&self) {
        self.tell(&[NotifyState::Stopping]);
    }

    /// Notifies the watchdog that all workers make progress.
    pub(crate) fn alive(&self) {
        if self.watchdog.is_some() {
            self.tell(&[NotifyState::Watchdog]);
        }
    }

    /// Sends the status line, if it has changed.
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
