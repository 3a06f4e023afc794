//! Kernel statistics of a process: memory and processor time.

use std::fs;

use anyhow::Context;
use anyhow::Result;

/// Current resident memory in bytes (`VmRSS`).
///
/// # Errors
/// When the process is gone.
pub fn rss(pid: u32) -> Result<u64> {
    status_bytes(pid, "VmRSS:")
}

/// Largest resident memory so far, in bytes (`VmHWM`).
///
/// # Errors
/// When the process is gone.
pub fn rss_peak(pid: u32) -> Result<u64> {
    status_bytes(pid, "VmHWM:")
}

/// Processor time of all living threads, in nanoseconds.
///
/// Read from `schedstat`, because tick accounting under-counts a busy proxy by up to a factor of
/// three.
///
/// # Errors
/// When the process is gone.
pub fn cpu_ns(pid: u32) -> Result<u64> {
    let mut total = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = fs::read_to_string(task?.path().join("schedstat"))?;
        let on_cpu = text
            .split_whitespace()
            .next()
            .context("schedstat is empty")?;
        total += on_cpu.parse::<u64>()?;
    }
    Ok(total)
}

fn status_bytes(pid: u32, key: &str) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    let kib = line.and_then(|rest| rest.split_whitespace().next());
    Ok(kib
        .with_context(|| format!("{key} is missing"))?
        .parse::<u64>()?
        * 1024)
}
