//! Processes of a PostgreSQL server that another program has started, found by their data directory.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;

use crate::cluster::LIMIT;
use crate::tools;
use crate::wait_until;

/// Process id of the running postmaster, by its `postmaster.pid`.
///
/// # Errors
/// When it does not run.
pub(crate) fn pid(data: &Path) -> Result<u32> {
    let file = fs::read_to_string(data.join("postmaster.pid"))?;
    let pid: u32 = file.lines().next().context("no pid")?.trim().parse()?;
    ensure!(
        works_in(pid, data),
        "process {pid} does not work in {}",
        data.display()
    );
    Ok(pid)
}

/// Processes that work in a data directory: those of its server.
pub(crate) fn processes(data: &Path) -> Result<Vec<u32>> {
    let entries = fs::read_dir("/proc")?.flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Ok(pids.filter(|pid| works_in(*pid, data)).collect())
}

/// Sends a signal to the postmaster, and returns when no process of its server is left.
pub(crate) fn end(data: &Path, signal: &str) -> Result<()> {
    let pid = pid(data)?;
    let old = processes(data)?;
    send(signal, pid)?;
    // PostgreSQL does not start while a process of the old postmaster has its shared memory.
    wait_until("the end of the server's processes", LIMIT, || {
        Ok(!old.iter().any(|pid| works_in(*pid, data)))
    })
}

/// Stops all processes of a server and adds their ids to `frozen`.
pub(crate) fn freeze(data: &Path, frozen: &mut Vec<u32>) -> Result<()> {
    // The postmaster first: it starts no process meanwhile.
    let postmaster = pid(data)?;
    frozen.push(postmaster);
    send("STOP", postmaster)?;
    for pid in processes(data)? {
        if pid != postmaster {
            frozen.push(pid);
            send("STOP", pid)?;
        }
    }
    Ok(())
}

/// Lets stopped processes go on, the last one first. All of them go on, also if one has ended.
pub(crate) fn thaw(frozen: &mut Vec<u32>) -> Result<()> {
    let sent: Vec<_> = frozen
        .drain(..)
        .rev()
        .map(|pid| send("CONT", pid))
        .collect();
    sent.into_iter().collect()
}

pub(crate) fn send(signal: &str, pid: u32) -> Result<()> {
    tools::run(Command::new("kill").args(["-s", signal, &pid.to_string()]))?;
    Ok(())
}

/// True if a process works in a directory. PostgreSQL's do so in their data directory.
fn works_in(pid: u32, directory: &Path) -> bool {
    fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|place| place == directory)
}
