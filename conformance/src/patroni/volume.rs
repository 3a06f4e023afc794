//! A small volume for the WAL of a node, which a test fills up. Mounting needs root.

use std::fs;
use std::fs::File;
use std::io;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;

use crate::tools;

/// Size: a few WAL segments of 16 MB, and those that `wal_keep_size` keeps.
const SIZE: &str = "size=256m,mode=0700";
/// File that fills the volume.
const BALLAST: &str = "ballast";

/// A mounted volume; dropping it unmounts it.
#[derive(Debug)]
pub(super) struct Volume {
    mount: PathBuf,
}

impl Volume {
    /// Mounts an empty volume at this path, which the servers' user owns.
    pub(super) fn new(mount: PathBuf) -> Result<Self> {
        ensure!(tools::is_root(), "a volume needs root");
        fs::create_dir(&mount)?;
        let options = ["-t", "tmpfs", "-o", SIZE, "weir-drill"];
        tools::run(Command::new("mount").args(options).arg(&mount))?;
        let volume = Self { mount };
        tools::run(Command::new("chown").arg("postgres:").arg(&volume.mount))?;
        fs::create_dir(volume.wal())?;
        tools::run(Command::new("chown").arg("postgres:").arg(volume.wal()))?;
        Ok(volume)
    }

    /// Directory for the WAL.
    pub(super) fn wal(&self) -> PathBuf {
        self.mount.join("wal")
    }

    /// Writes until no byte fits any more.
    pub(super) fn fill(&self) -> Result<()> {
        let mut ballast = File::create(self.ballast())?;
        // Large blocks, then small ones for the rest.
        for block in [vec![0; 1 << 20], vec![0; 1 << 12]] {
            fill_by(&mut ballast, &block).context("fill the volume")?;
        }
        Ok(())
    }

    /// Removes what [`Volume::fill`] has written.
    pub(super) fn free(&self) -> Result<()> {
        Ok(fs::remove_file(self.ballast())?)
    }

    fn ballast(&self) -> PathBuf {
        self.mount.join(BALLAST)
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        // Lazily: a process that is about to end may still have a file there.
        drop(unmount(&self.mount));
    }
}

fn fill_by(file: &mut File, block: &[u8]) -> io::Result<()> {
    loop {
        match file.write_all(block) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::StorageFull => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

fn unmount(mount: &Path) -> Result<()> {
    tools::run(Command::new("umount").arg("-l").arg(mount)).map(drop)
}
