//! Figures of the process from the operating system.

use std::fs;
use std::path::{Path, PathBuf};

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
        memory_max: memory_max(),
        throttled: throttled(),
    }
}

/// Directory of the process' control group (version 2), of which only the limits directly on it are read.
fn control_group() -> Option<PathBuf> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(Path::new("/sys/fs/cgroup").join(path))
}

/// Returns the limit on memory in bytes; 0 if there is none.
fn memory_max() -> u64 {
    let text = control_group().and_then(|group| fs::read_to_string(group.join("memory.max")).ok());
    // Without a limit, the file says "max".
    text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// Returns the number of periods in which the quota of processor time was used up.
fn throttled() -> u64 {
    let text = control_group().and_then(|group| fs::read_to_string(group.join("cpu.stat")).ok());
    let text = text.unwrap_or_default();
    let count = text
        .lines()
        .find_map(|line| line.strip_prefix("nr_throttled "));
    count.and_then(|count| count.parse().ok()).unwrap_or(0)
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
