//! Resident memory of a process, as counted page by page by the kernel.

use std::fs;

use std::path::PathBuf;

use crate::error::{Error, Result};

/// Returns the bytes of all resident pages of `pid`, shared ones included. `smaps_rollup` walks the page tables;
/// the counters of `/proc/PID/statm` may lag by dozens of pages per thread.
///
/// # Errors
/// The process has ended, or belongs to another user.
pub fn resident(pid: u32) -> Result<u64> {
    kept(pid, "Rss:")
}

/// Returns the resident bytes of `pid` with each shared page divided by the number of processes that share it. Only
/// these figures can be summed over a group of processes.
///
/// # Errors
/// As [`resident`].
pub fn proportional(pid: u32) -> Result<u64> {
    kept(pid, "Pss:")
}

fn kept(pid: u32, key: &str) -> Result<u64> {
    let path = PathBuf::from(format!("/proc/{pid}/smaps_rollup"));
    let text = fs::read_to_string(&path).map_err(Error::file("read", &path))?;
    field(&text, key).ok_or_else(|| Error::Unexpected {
        what: path.display().to_string(),
        text,
    })
}

/// Parses `Rss:      1234 kB` (proc_pid_smaps(5)); the unit is always KiB.
fn field(rollup: &str, key: &str) -> Option<u64> {
    let line = rollup.lines().find_map(|line| line.strip_prefix(key))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rss_is_read_in_kibibytes() {
        let rollup = "55a-7ff ---p 00000000 00:00 0 [rollup]\nRss:    1500 kB\nPss:  900 kB\n";
        assert_eq!(field(rollup, "Rss:"), Some(1_536_000));
        assert_eq!(field(rollup, "Pss:"), Some(921_600));
        assert_eq!(field("Pss: 900 kB\n", "Rss:"), None);
    }

    #[test]
    fn memory_that_is_written_becomes_resident() {
        let before = resident(std::process::id()).unwrap();
        let block = vec![1_u8; 64 << 20];
        let after = resident(std::process::id()).unwrap();
        assert!(after >= before + (32 << 20), "{before} {after}");
        assert_eq!(block.last(), Some(&1));
    }
}
