//! Timer with a resolution of microseconds; epoll's time-out has milliseconds only.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::Instant;

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// Timer that wakes an event loop.
#[derive(Debug)]
pub(super) struct Timer {
    fd: OwnedFd,
    /// Time that the timer is set to.
    deadline: Option<Instant>,
}

impl Timer {
    pub(super) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        registry.register(&mut SourceFd(&fd.as_raw_fd()), token, Interest::READABLE)?;
        Ok(Self { fd, deadline: None })
    }

    /// Sets the timer. Setting it again makes its next event an edge, so its descriptor is never
    /// read.
    pub(super) fn set(&mut self, deadline: Option<Instant>, now: Instant) -> io::Result<()> {
        if self.deadline == deadline && deadline.is_none_or(|at| at > now) {
            return Ok(());
        }
        let wait = deadline.map_or(0, |at| {
            // Zero would switch the timer off.
            (at.saturating_duration_since(now).as_nanos()).max(1)
        });
        let nanos = i64::try_from(wait).unwrap_or(i64::MAX);
        let zero = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let value = Timespec {
            tv_sec: nanos / 1_000_000_000,
            tv_nsec: nanos % 1_000_000_000,
        };
        let spec = Itimerspec {
            it_interval: zero,
            it_value: value,
        };
        timerfd_settime(&self.fd, TimerfdTimerFlags::empty(), &spec)?;
        self.deadline = deadline;
        Ok(())
    }
}
