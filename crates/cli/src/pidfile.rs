//! The pid file: names the running process, and prevents the start of a second one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::Pid;

/// Reason why the pid file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PidFileError {
    #[error("pidfile {path} belongs to process {pid}, which is running")]
    InUse { path: String, pid: i32 },
    #[error("cannot use pidfile {path}: {error}")]
    Io { path: String, error: io::Error },
}

/// Pid file of this process; dropping it removes the file.
#[derive(Debug)]
pub(crate) struct PidFile {
    path: PathBuf,
    content: String,
}

/// Checks that the file does not name a running process. A file left by a process that is gone is accepted.
///
/// # Errors
/// [`PidFileError::InUse`], or if the file exists and cannot be read.
pub(crate) fn check(path: &Path) -> Result<(), PidFileError> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io_error(path, error)),
    };
    let text = String::from_utf8_lossy(&text);
    // Negative numbers mean process groups, and rustix panics at them.
    let number = text.trim().parse::<i32>().ok().filter(|pid| *pid > 0);
    match number.and_then(Pid::from_raw) {
        Some(pid) if is_foreign_and_alive(pid) => Err(PidFileError::InUse {
            path: path.display().to_string(),
            pid: pid.as_raw_nonzero().get(),
        }),
        _ => Ok(()),
    }
}

/// True if the process runs and is not this one: in a container an old file often names the same number.
fn is_foreign_and_alive(pid: Pid) -> bool {
    let is_own = pid == rustix::process::getpid();
    // Any error but "no such process" means that the process exists, perhaps as another user.
    !is_own && rustix::process::test_kill_process(pid) != Err(Errno::SRCH)
}

impl PidFile {
    /// Writes the id of this process.
    ///
    /// # Errors
    /// If the file cannot be written.
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
    /// Keeps a file that another process has written in the meantime.
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

    /// Returns a path in the directory for temporary files that no other test uses.
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
