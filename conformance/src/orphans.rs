//! Reaps PostgreSQL processes whose parents have ended.
//!
//! Servers of an agent or of `pg_ctl` are children of process 1. Patroni takes a server for running until it is reaped, and in a container
//! process 1 may do so late or never, which would be measured as a part of each failover. Therefore this process adopts
//! and reaps them. It must reap no other process: those have owners who wait for them.

use std::fs;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use rustix::process::Pid;
use rustix::process::WaitOptions;
use rustix::process::getpid;
use rustix::process::set_child_subreaper;
use rustix::process::waitpid;

/// Pause between two looks for ended processes.
const LOOK: Duration = Duration::from_millis(20);

/// Makes this process the parent of orphans below it, and reaps those of PostgreSQL from now on.
pub(crate) fn adopt() -> Result<()> {
    static REAPER: OnceLock<bool> = OnceLock::new();
    let adopts = *REAPER.get_or_init(|| {
        let adopts = set_child_subreaper(Some(getpid())).is_ok();
        thread::spawn(|| {
            loop {
                reap();
                thread::park_timeout(LOOK);
            }
        });
        adopts
    });
    adopts
        .then_some(())
        .context("this kernel lets no process adopt orphans")
}

fn reap() {
    let ours = getpid().as_raw_nonzero().to_string();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    for pid in pids {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let is_orphan = stat
            .split_once(" (postgres) Z ")
            .is_some_and(|(_, rest)| rest.starts_with(&format!("{ours} ")));
        if is_orphan {
            let _ = waitpid(Pid::from_raw(pid), WaitOptions::NOHANG);
        }
    }
}
