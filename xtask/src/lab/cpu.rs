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

/// The same of all processes that `pid`, which has one thread, has started: a PostgreSQL server's, whose first process
/// does little itself. Fails where the kernel does not list them (CONFIG_PROC_CHILDREN).
pub(crate) fn children_time(pid: u32) -> Result<Duration> {
    let list = format!("/proc/{pid}/task/{pid}/children");
    let text = fs::read_to_string(&list).with_context(|| format!("cannot read {list}"))?;
    let children = text
        .split_whitespace()
        .filter_map(|child| child.parse().ok());
    // One that ended meanwhile is gone with its time, as a thread is.
    Ok(children.filter_map(|child| process_time(child).ok()).sum())
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
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn reads_the_first_field_in_nanoseconds() {
        assert_eq!(on_cpu("1500 77 9\n"), Some(Duration::from_nanos(1500)));
        assert_eq!(on_cpu(""), None);
    }

    #[test]
    fn the_time_of_children_is_their_own() {
        // The child ends by SIGPIPE once nobody reads.
        let mut parent = Command::new("sh")
            .args(["-c", "yes & wait"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut time = Duration::ZERO;
        while time == Duration::ZERO {
            time = children_time(parent.id()).unwrap();
        }
        drop(parent.stdout.take());
        parent.wait().unwrap();
        assert!(children_time(std::process::id()).is_ok());
        assert!(children_time(u32::MAX).is_err());
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
