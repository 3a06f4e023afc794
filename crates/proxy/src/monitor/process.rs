//! Figures of the process from the operating system.

use std::fs;

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};
use weir_stats::ProcessRow;

use crate::clock::Clock;

/// Returns the current figures; 0 for those that the system does not give.
pub(super) fn describe(clock: Clock) -> ProcessRow {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(used.tv_sec).unwrap_or_default();
    let started = weir_pool::Moment(0);
    ProcessRow {
        cpu_us: seconds * 1_000_000 + u64::try_from(used.tv_nsec).unwrap_or_default() / 1_000,
        resident_bytes: resident_bytes(),
        open_files: open_files(),
        open_files_max: getrlimit(Resource::Nofile).current.unwrap_or_default(),
        started_at: clock.unix_seconds(started),
    }
}

/// Returns the resident memory in bytes. The second number of statm(5) counts its pages.
fn resident_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    let page = rustix::param::page_size() as u64;
    pages.unwrap_or(0_u64) * page
}

/// Returns the number of open files. Since Linux 6.2 it is the size of the directory; earlier kernels need a count.
fn open_files() -> u64 {
    let size = fs::metadata("/proc/self/fd").map_or(0, |directory| directory.len());
    match size {
        0 => fs::read_dir("/proc/self/fd").map_or(0, |files| files.count() as u64),
        size => size,
    }
}
