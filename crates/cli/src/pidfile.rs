//! The pid file: says which process runs, and keeps a second one from starting.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::Pid;

/// Why there is no pid file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PidFileError {
    #[error("pidfile {path} belongs to process {pid}, which is running")]
    InUse { path: String, pid: i32 },
    #[error("cannot use pidfile {path}: {error}")]
    Io { path: String, error: io::Error },
}

/// A pid file of ours; removed when this is dropped.
#[derive(Debug)]
pub(crate) struct PidFile {
    path: PathBuf,
    content: String,
}

/// Refuses if the file names a process that runs. What is left of a process that is gone is no obstacle.
///
/// # Errors
/// [`PidFileError::InUse`], or the file is there and cannot be read.
pub(crate) fn check(path: &Path) -> Result<(), PidFileError> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io_error(path, error)),
    };
    let text = String::from_utf8_lossy(&text);
    // Negative numbers would mean a process group, and rustix panics on them.
    let number = text.trim().parse::<i32>().ok().filter(|pid| *pid > 0);
    match number.and_then(Pid::from_raw) {
        Some(pid) if is_foreign_and_alive(pid) => Err(PidFileError::InUse {
            path: path.display().to_string(),
            pid: pid.as_raw_nonzero().get(),
        }),
        _ => Ok(()),
    }
}

/// In a container the file of an earlier life often names our own number.
fn is_foreign_and_alive(pid: Pid) -> bool {
    let is_own = pid == rustix::process::getpid();
    // Any failure but "no such process" means that there is one, perhaps of another user.
    !is_own && rustix::process::test_kill_process(pid) != Err(Errno::SRCH)
}

impl PidFile {
    /// Writes our process id.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn create(path: &Path) -> Result<Self, PidFileError> {
        let content = format!("{}\n", std::process::id());
        fs::write(path, &content).map_err(|error| io_error(path, error))?;
        Ok(Self {
            path: path.to_owned(),
            content,
        })
    }
}

impl Drop for PidFile {
    /// Leaves a file alone that somebody else has written meanwhile.
    fn drop(&mut self) {
        if fs::read_to_string(&self.path).is_ok_and(|content| content == self.content) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn io_error(path: &Path, error: io::Error) -> PidFileError {
    let path = path.display().to_string();
    PidFileError::Io { path, error }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path in the build directory that no other test uses.
    fn path(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("weir-{}-{name}", std::process::id()));
        let _ = fs::remove_file(&path);
        path
    }

    #[test]
    fn the_file_lives_as_long_as_its_owner() {
        let path = path("owner.pid");
        let file = PidFile::create(&path).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, format!("{}\n", std::process::id()));
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_that_another_process_took_over_stays() {
        let path = path("taken.pid");
        let file = PidFile::create(&path).unwrap();
        fs::write(&path, "1\n").unwrap();
        drop(file);
        assert!(path.exists());
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn only_a_living_process_keeps_us_from_starting() {
        let path = path("check.pid");
        assert!(check(&path).is_ok());
        for stale in [
            "",
            "nonsense",
            "0",
            "-5",
            "2147483647",
            &std::process::id().to_string(),
        ] {
            fs::write(&path, stale).unwrap();
            assert!(check(&path).is_ok(), "{stale:?}");
        }
        fs::write(&path, "1\n").unwrap();
        assert!(matches!(
            check(&path),
            Err(PidFileError::InUse { pid: 1, .. })
        ));
        fs::remove_file(&path).unwrap();
    }
}
