//! A copy of the tree to put faults into, with a build directory of its own. The work tree's build directory cannot
//! be used: cargo names artifacts by the path inside the workspace. A faulty library would be taken for the real one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::list::Mutant;
use crate::workspace::root;

/// Copy of every file that git tracks or would add.
pub(super) struct Tree {
    directory: PathBuf,
    pub(super) build: PathBuf,
    logs: PathBuf,
}

impl Tree {
    /// Updates the copy of this number. Unchanged files keep their times, so that cargo builds only what has changed.
    ///
    /// # Errors
    /// If files cannot be listed or copied.
    pub(super) fn new(base: &Path, number: usize) -> Result<Self> {
        let tree = Self {
            directory: base.join(format!("tree-{number}")),
            build: match number {
                0 => base.join("build"),
                _ => base.join(format!("build-{number}")),
            },
            logs: base.join("logs"),
        };
        fs::create_dir_all(&tree.directory)?;
        fs::create_dir_all(&tree.logs)?;
        let files = files()?;
        tree.remove_others(&base.join(format!("tree-{number}.files")), &files)?;
        for file in &files {
            tree.copy(file)
                .with_context(|| format!("cannot copy {file}"))?;
        }
        Ok(tree)
    }

    pub(super) fn path(&self) -> &Path {
        &self.directory
    }

    /// Empties the file for the output of a trial and returns its path.
    pub(super) fn log(&self, name: &str) -> Result<PathBuf> {
        let path = self.logs.join(format!("{name}.log"));
        fs::write(&path, "")?;
        Ok(path)
    }

    /// Applies the fault to the copy.
    ///
    /// # Errors
    /// If the entry is stale.
    pub(super) fn apply(&self, mutant: &Mutant) -> Result<()> {
        let path = self.directory.join(&mutant.file);
        let text = fs::read_to_string(&path)?;
        Ok(fs::write(&path, mutant.apply(&text)?)?)
    }

    /// Restores the file of the fault.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn restore(&self, mutant: &Mutant) -> Result<()> {
        self.copy(&mutant.file)
    }

    fn copy(&self, file: &str) -> Result<()> {
        let to = self.directory.join(file);
        let content = fs::read(root().join(file))?;
        if fs::read(&to).is_ok_and(|present| present == content) {
            return Ok(());
        }
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&to, content)?;
        let permissions = fs::metadata(root().join(file))?.permissions();
        Ok(fs::set_permissions(&to, permissions)?)
    }

    /// Removes files that were copied before and have left the tree: cargo finds tests and crates by their files.
    fn remove_others(&self, record: &Path, files: &BTreeSet<String>) -> Result<()> {
        let before = fs::read_to_string(record).unwrap_or_default();
        for gone in before.lines().filter(|file| !files.contains(*file)) {
            let _ = fs::remove_file(self.directory.join(gone));
        }
        let all: Vec<_> = files.iter().map(String::as_str).collect();
        Ok(fs::write(record, all.join("\n"))?)
    }
}

fn files() -> Result<BTreeSet<String>> {
    let output = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root())
        .output()
        .context("cannot run git")?;
    if !output.status.success() {
        bail!("git cannot list the files");
    }
    let text = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    let there = |file: &&str| !file.is_empty() && root().join(file).is_file();
    Ok(text.split('\0').filter(there).map(str::to_owned).collect())
}
