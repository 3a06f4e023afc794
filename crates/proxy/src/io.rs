//! Choice of the driver through which workers use their sockets.

use weir_config::Io;
use weir_stats::{DriverInUse, DriverName};

use crate::global::Global;

/// Returns the reason for which workers cannot use io_uring here. `None` if they can.
#[must_use]
pub fn io_uring_refusal() -> Option<String> {
    Some("this build has no io_uring driver".to_owned())
}

/// Returns the driver that workers use with this option.
#[must_use]
pub fn driver_for(io: Io) -> DriverInUse {
    let refusal = match io {
        Io::Epoll => None,
        Io::Auto | Io::IoUring => io_uring_refusal(),
    };
    decide(io, refusal)
}

/// Notes the driver of all workers, and logs the choice.
pub(crate) fn put(global: &Global, driver: DriverInUse) {
    let is_refused = global.settled().settings.global.io == Io::IoUring;
    match driver.name {
        DriverName::Epoll if is_refused => tracing::warn!("io: {driver}"),
        DriverName::Epoll | DriverName::IoUring => tracing::info!("io: {driver}"),
    }
    // The only place that sets it.
    let _ = global.facts.driver.set(driver);
}

/// Decides on the driver. `refusal` is the reason for which workers cannot use io_uring.
fn decide(io: Io, refusal: Option<String>) -> DriverInUse {
    let (name, reason) = match (io, refusal) {
        (Io::Epoll, _) => (DriverName::Epoll, format!("io = {io}")),
        (Io::Auto | Io::IoUring, Some(refusal)) => {
            (DriverName::Epoll, format!("io = {io}; {refusal}"))
        }
        (Io::Auto | Io::IoUring, None) => (DriverName::IoUring, format!("io = {io}")),
    };
    DriverInUse { name, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_names_the_option_and_the_refusal() {
        let decided = |io, refusal: Option<&str>| {
            let driver = decide(io, refusal.map(str::to_owned));
            driver.to_string()
        };
        let refusal = Some("the kernel refuses io_uring_setup (EPERM)");
        assert_eq!(decided(Io::Epoll, None), "epoll (io = epoll)");
        assert_eq!(decided(Io::IoUring, None), "io_uring (io = io_uring)");
        assert_eq!(
            decided(Io::IoUring, refusal),
            "epoll (io = io_uring; the kernel refuses io_uring_setup (EPERM))"
        );
        assert_eq!(
            decided(Io::Auto, refusal),
            "epoll (io = auto; the kernel refuses io_uring_setup (EPERM))"
        );
    }

    #[test]
    fn without_a_question_nobody_asks_the_kernel() {
        assert_eq!(driver_for(Io::Epoll), decide(Io::Epoll, None));
    }
}
