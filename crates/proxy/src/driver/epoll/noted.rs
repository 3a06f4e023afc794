//! Events of epoll for a socket.

use mio::event::Event;

/// Events that epoll reports for one socket.
#[derive(Debug, Clone, Copy)]
pub(super) struct Noted {
    pub(super) readable: bool,
    pub(super) writable: bool,
    pub(super) hung_up: bool,
    pub(super) broken: bool,
}

impl Noted {
    pub(super) fn new(event: &Event) -> Self {
        Self {
            readable: event.is_readable(),
            writable: event.is_writable(),
            hung_up: event.is_read_closed(),
            broken: event.is_error() || event.is_write_closed(),
        }
    }
}
