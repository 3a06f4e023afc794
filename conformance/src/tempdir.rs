//! A directory below the system's temporary directory that removes itself.
//!
//! All users can read it, because PostgreSQL runs as a different user if the suite runs as root.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::process;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;

use anyhow::Context;
use anyhow::Result;

/// Directory that is removed with its content when dropped, unless `WEIR_KEEP` is set.
#[derive(Debug)]
pub struct TempDir {
    path: PathBuf,
}

impl TempDir {
    /// Creates a fresh directory; the short name keeps unix socket paths below their 107 bytes.
    ///
    /// # Errors
    /// When the directory cannot be made.
    pub fn new() -> Result<Self> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("weir-c-{}-{serial}", process::id()));
        fs::create_dir(&path).with_context(|| format!("make {}", path.display()))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(Self { path })
    }

    /// Path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file that every user may read and returns its path.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, name: &str, content: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        fs::write(&path, content).with_context(|| format!("write {}", path.display()))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644))?;
        Ok(path)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        if std::env::var_os("WEIR_KEEP").is_none() {
            drop(fs::remove_dir_all(&self.path));
        }
    }
}
