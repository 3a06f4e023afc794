//! Reasons for which a system offers no ring.

use std::fs;
use std::io;

/// File that says who may use io_uring (Linux 6.6 and later).
const SYSCTL: &str = "/proc/sys/kernel/io_uring_disabled";

/// Reason for which there is no ring.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// `kernel.io_uring_disabled` is not 0.
    #[error("kernel.io_uring_disabled is {0}, so the kernel refuses io_uring")]
    Disabled(u8),
    /// A filter of system calls refuses, such as the default one of Docker.
    #[error(
        "io_uring_setup is not permitted ({0}): a seccomp filter, such as that of a container or of a systemd unit, refuses it"
    )]
    Filtered(io::Error),
    /// The kernel has no io_uring.
    #[error("the kernel has no io_uring ({0})")]
    Missing(io::Error),
    /// The limit of locked memory is too low.
    #[error(
        "the limit of locked memory (RLIMIT_MEMLOCK, LimitMEMLOCK= of systemd) is too low for a ring ({0})"
    )]
    Memory(io::Error),
    /// The kernel lacks a feature.
    #[error("the kernel is older than Linux 6.1: it lacks what the ring needs ({0})")]
    Old(io::Error),
    /// The ring was made, and did not do what it should.
    #[error("a trial of io_uring failed: {0}")]
    Trial(io::Error),
    /// Any other error.
    #[error("the kernel refuses io_uring: {0}")]
    Other(io::Error),
}

impl Refusal {
    /// Sorts an error of setting a ring up.
    pub(crate) fn new(error: io::Error) -> Self {
        let level = fs::read_to_string(SYSCTL);
        let level = level.ok().and_then(|text| text.trim().parse().ok());
        Self::sort(error, level)
    }

    fn sort(error: io::Error, level: Option<u8>) -> Self {
        match (error.raw_os_error(), level) {
            (Some(libc::EPERM | libc::EACCES), Some(level @ 1..)) => Self::Disabled(level),
            (Some(libc::EPERM | libc::EACCES), _) => Self::Filtered(error),
            (Some(libc::ENOSYS), _) => Self::Missing(error),
            (Some(libc::ENOMEM), _) => Self::Memory(error),
            (Some(libc::EINVAL), _) => Self::Old(error),
            _ => Self::Other(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(number: i32, level: Option<u8>) -> String {
        Refusal::sort(io::Error::from_raw_os_error(number), level).to_string()
    }

    #[test]
    fn each_error_of_the_kernel_names_its_likely_cause() {
        assert!(sorted(libc::EPERM, Some(2)).contains("kernel.io_uring_disabled is 2"));
        assert!(sorted(libc::EPERM, Some(0)).contains("seccomp"));
        assert!(sorted(libc::EPERM, None).contains("seccomp"));
        assert!(sorted(libc::ENOSYS, None).contains("has no io_uring"));
        assert!(sorted(libc::ENOMEM, Some(0)).contains("LimitMEMLOCK"));
        assert!(sorted(libc::EINVAL, Some(0)).contains("older than Linux 6.1"));
        assert!(sorted(libc::EMFILE, Some(0)).contains("refuses"));
    }
}
