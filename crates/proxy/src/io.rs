//! Choice of the driver through which workers use their sockets.

use weir_config::Io;
use weir_ring::{Options, Refusal, Ring};
use weir_stats::{DriverInUse, DriverName};

use crate::global::Global;

/// Reason for which `auto` does not take io_uring (docs/internals/performance.md has the figures).
const NOT_BY_ITSELF: &str = "io_uring costs less from ten clients on and more for one or two, and was measured on one kernel only, \
     so it is used if io = io_uring asks for it";

/// Returns the reason for which workers cannot use io_uring here. `None` if they can: a trial with a pair of sockets has
/// succeeded.
#[must_use]
pub fn io_uring_refusal() -> Option<String> {
    let refusal = Ring::probe(&sizes()).err()?;
    Some(refusal.to_string())
}

/// Returns the driver that workers use with this option.
#[must_use]
pub fn driver_for(io: Io) -> DriverInUse {
    let refusal = match io {
        Io::Epoll => None,
        Io::Auto => Some(NOT_BY_ITSELF.to_owned()),
        Io::IoUring => io_uring_refusal(),
    };
    decide(io, refusal)
}

/// Sizes of a worker's ring.
pub(crate) fn sizes() -> Options {
    #[cfg_attr(
        not(feature = "debug-spin"),
        expect(unused_mut, reason = "trouble is for test builds")
    )]
    let mut sizes = Options::default();
    #[cfg(feature = "debug-spin")]
    crate::spin::trouble(&mut sizes);
    sizes
}

/// Rings of all workers, or none if they use epoll.
pub(crate) type Rings = Option<Vec<Ring>>;

/// Returns the driver for this option, with the rings of so many workers.
pub(crate) fn prepare(io: Io, workers: usize) -> (DriverInUse, Rings) {
    let driver = driver_for(io);
    if driver.name == DriverName::Epoll {
        return (driver, None);
    }
    let sizes = sizes();
    let rings: Result<Vec<_>, Refusal> = (0..workers).map(|_| Ring::new(&sizes)).collect();
    match rings {
        Ok(rings) => (driver, Some(rings)),
        Err(refusal) => (decide(io, Some(refusal.to_string())), None),
    }
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
    fn auto_says_why_it_does_not_take_io_uring() {
        let driver = driver_for(Io::Auto);
        assert_eq!(driver.name, DriverName::Epoll);
        assert!(driver.reason.starts_with("io = auto; io_uring costs"));
    }

    #[test]
    fn without_a_question_nobody_asks_the_kernel() {
        assert_eq!(driver_for(Io::Epoll), decide(Io::Epoll, None));
    }
}
