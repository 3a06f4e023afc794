//! The driver through which workers use their sockets.

use std::fmt;

/// Name of a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverName {
    /// Readiness events: epoll(7).
    Epoll,
    /// Completions: io_uring(7).
    IoUring,
}

/// Driver in use, the same for all workers until the process ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverInUse {
    /// Name of the driver.
    pub name: DriverName,
    /// Reason for the choice, such as `io = epoll`.
    pub reason: String,
}

impl DriverName {
    /// Returns the name, as the option `io` spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Epoll => "epoll",
            Self::IoUring => "io_uring",
        }
    }
}

impl fmt::Display for DriverInUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, reason } = self;
        write!(f, "{} ({reason})", name.as_str())
    }
}
