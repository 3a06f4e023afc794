//! Statements that query rules watch: their timeouts end in a cancel, and their ends in the log.

use std::time::Duration;

use weir_pool::Moment;

use super::Worker;
use super::ids::{ClientId, ServerId};
use super::slots::Stage;
use super::timers::Timer;
use crate::driver::Driver;

/// Time after which a cancel is tried again that could not be sent, or that would have hit a request of ours.
const AGAIN: Duration = Duration::from_millis(20);

impl<D: Driver> Worker<D> {
    /// Writes what rules log about the statements of a client's server, and sets the timer for the one that runs now.
    #[inline]
    pub(super) fn follow_watches(&mut self, id: ClientId, server_id: ServerId) {
        // The server may be closed, or be with another client.
        let server = self.tables.servers.get(server_id);
        if self.has_rules && server.is_some_and(|server| server.session.is_watching()) {
            self.follow_watched(id, server_id);
        }
    }

    #[cold]
    fn follow_watched(&mut self, id: ClientId, server_id: ServerId) {
        let Some(server) = self.tables.servers.must_get_mut(server_id) else {
            return;
        };
        let lines = server.session.take_log_lines();
        if !lines.is_empty()
            && let Some(client) = self.tables.clients.get(id)
        {
            for line in lines {
                let millis = line.took.as_secs_f64() * 1e3;
                let code = line.code.unwrap_or_default();
                match std::str::from_utf8(&code) {
                    Ok(code) if line.code.is_some() => tracing::info!(
                        "{client} rule {}: {millis:.1} ms, error {code}: {}",
                        line.rule,
                        line.text
                    ),
                    _ => {
                        tracing::info!("{client} rule {}: {millis:.1} ms: {}", line.rule, line.text)
                    }
                }
            }
        }
        let mirrored = server.session.take_mirrored();
        if let Some(ends_us) = server.session.watch_ends_us() {
            self.arm_watch(server_id, Moment(ends_us));
        }
        if !mirrored.is_empty() {
            self.follow_mirrored(id, server_id, mirrored);
        }
    }

    /// Sets a server's timer for the statement that runs now, unless it rings earlier.
    fn arm_watch(&mut self, id: ServerId, at: Moment) {
        let Some(server) = self.tables.servers.must_get_mut(id) else {
            return;
        };
        if server.watch_at.is_some_and(|armed| armed <= at) {
            return;
        }
        if let Some(later) = server.watch_at.replace(at) {
            self.timers.disarm(later, Timer::Watch(id));
        }
        self.timers.arm(at, Timer::Watch(id));
    }

    /// Cancels the statement of a server whose timeout is over.
    pub(super) fn watch_timer(&mut self, id: ServerId) {
        // The timer is not disarmed when a statement ends, or its server.
        let Some(server) = self.tables.servers.get_mut(id) else {
            return;
        };
        server.watch_at = None;
        let Some(ends_us) = server.session.watch_ends_us() else {
            return;
        };
        let ends = Moment(ends_us);
        if ends > self.now {
            return self.arm_watch(id, ends);
        }
        let is_leased = server.lease.is_some() && matches!(server.stage, Stage::Leased);
        if !is_leased || server.cancels > 0 || !server.session.is_busy() {
            return self.arm_watch(id, self.now.plus(AGAIN));
        }
        // Requests that follow wait, so that the cancel hits none of them.
        server.is_cancelled_again = true;
        self.cancel_server(id, None);
        let Some(server) = self.tables.servers.get_mut(id) else {
            return;
        };
        if server.cancels == 0 {
            server.is_cancelled_again = false;
            return self.arm_watch(id, self.now.plus(AGAIN));
        }
        server.session.watch_is_over();
    }
}
