//! CPU time of a process from the scheduler's statistics. Tick accounting (`/proc/PID/stat`,
//! getrusage) under-counts a busy proxy by up to a factor of three; schedstat does not.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, Result};

/// Returns the CPU time that all live threads of `pid` have used so far. The time of threads that
/// have ended is missing, so use this for processes with stable threads, or use a [`super::Meter`].
///
/// # Errors
/// The process does not exist.
pub fn process_time(pid: u32) -> Result<Duration> {
    let tasks = PathBuf::from(format!("/proc/{pid}/task"));
    let entries = fs::read_dir(&tasks).map_err(Error::file("read", &tasks))?;
    // A thread may end between the listing and the reading.
    let times = entries.filter_map(|task| schedstat(&task.ok()?.path().join("schedstat")));
    Ok(times.sum())
}

/// Returns the CPU time of one thread; `None` if it has ended.
pub(super) fn thread_time(pid: u32, tid: u32) -> Option<Duration> {
    schedstat(Path::new(&format!("/proc/{pid}/task/{tid}/schedstat")))
}

fn schedstat(path: &Path) -> Option<Duration> {
    on_cpu(&fs::read_to_string(path).ok()?)
}

/// Parses the first field: nanoseconds on a CPU (Documentation/scheduler/sched-stats.rst in the
/// kernel).
fn on_cpu(schedstat: &str) -> Option<Duration> {
    schedstat
        .split_whitespace()
        .next()?
        .parse()
        .ok()
        .map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_first_field_in_nanoseconds() {
        assert_eq!(on_cpu("1500 77 9\n"), Some(Duration::from_nanos(1500)));
        assert_eq!(on_cpu(""), None);
    }

    #[test]
    fn time_of_a_process_grows_as_it_works() {
        let pid = std::process::id();
        let before = process_time(pid).unwrap();
        let mut sum = 0_u64;
        while process_time(pid).unwrap() <= before {
            sum = sum.wrapping_add(1);
        }
        assert!(process_time(pid).unwrap() > before, "{sum}");
    }
}
