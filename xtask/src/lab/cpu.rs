//! CPU time of a process from the scheduler's own books. Tick accounting (`/proc/PID/stat`,
//! getrusage) under-counts a busy proxy by up to a factor of three; schedstat does not.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

/// CPU time that all live threads of `pid` have used so far. A thread that ended takes its time
/// with it, so measure processes whose threads stay.
pub(crate) fn process_time(pid: u32) -> Result<Duration> {
    let tasks = format!("/proc/{pid}/task");
    let mut total = Duration::ZERO;
    for task in fs::read_dir(&tasks).with_context(|| format!("cannot read {tasks}"))? {
        let path = task?.path().join("schedstat");
        // A thread may end between the listing and the reading.
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        total += on_cpu(&text).ok_or_else(|| anyhow!("{}: not a schedstat", path.display()))?;
    }
    Ok(total)
}

/// First field: nanoseconds on a CPU (Documentation/scheduler/sched-stats.rst in the kernel).
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
