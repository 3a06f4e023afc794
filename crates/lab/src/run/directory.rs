//! Result directory, written while a run is in progress: whenever the run stops, a valid part of it remains.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Error;
use crate::error::Error as SystemError;
use crate::record::{Cell, FORMAT, Run};

const RUN: &str = "run.json";
const CELLS: &str = "cells.jsonl";
/// Directory of each cell's configurations, scripts and logs.
const CONFIGURATIONS: &str = "configurations";

/// A result directory that is being written.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    cells: File,
}

impl Directory {
    /// Creates a new result directory.
    ///
    /// # Errors
    /// The directory has a run already, or cannot be written.
    pub(super) fn create(path: &Path) -> Result<Self, Error> {
        if path.join(RUN).exists() {
            return Err(Error::Occupied(path.to_owned()));
        }
        fs::create_dir_all(path).map_err(SystemError::file("create", path))?;
        let file = path.join(CELLS);
        let cells = File::create(&file).map_err(SystemError::file("create", &file))?;
        Ok(Self {
            path: path.to_owned(),
            cells,
        })
    }

    /// Opens the directory of a run that was stopped; returns the finished cells. Incomplete lines and failed cells
    /// are dropped: these cells are run again.
    ///
    /// # Errors
    /// The directory has no run, or one of a newer version.
    pub(super) fn open(path: &Path) -> Result<(Self, Run, Vec<Cell>), Error> {
        let run: Run = read(&path.join(RUN))?;
        if run.format > FORMAT {
            return Err(Error::TooNew(path.to_owned()));
        }
        let file = path.join(CELLS);
        let text = fs::read_to_string(&file).map_err(SystemError::file("read", &file))?;
        let done: Vec<Cell> = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .filter(|cell: &Cell| cell.outcome.is_some())
            .collect();
        let mut lines = String::new();
        for cell in &done {
            lines.push_str(&line(cell)?);
        }
        replace(&file, &lines)?;
        let cells = OpenOptions::new()
            .append(true)
            .open(&file)
            .map_err(SystemError::file("write", &file))?;
        let directory = Self {
            path: path.to_owned(),
            cells,
        };
        Ok((directory, run, done))
    }

    /// Adds a cell; it is on the disk when this returns.
    pub(super) fn append(&mut self, cell: &Cell) -> Result<(), Error> {
        let line = line(cell)?;
        let path = self.path.join(CELLS);
        self.cells
            .write_all(line.as_bytes())
            .and_then(|()| self.cells.sync_data())
            .map_err(SystemError::file("write", &path))?;
        Ok(())
    }

    /// Writes `run.json`.
    pub(super) fn write_run(&self, run: &Run) -> Result<(), Error> {
        self.write(RUN, run)
    }

    /// Writes a file of JSON. A concurrent reader sees either the old or the new file.
    pub(super) fn write(&self, name: &str, value: &impl Serialize) -> Result<(), Error> {
        let path = self.path.join(name);
        let text = serde_json::to_string_pretty(value).map_err(|source| Error::Json {
            path: path.clone(),
            source,
        })?;
        replace(&path, &text)
    }

    /// Reads a file that [`Directory::write`] wrote.
    pub(super) fn read<T: DeserializeOwned>(&self, name: &str) -> Result<T, Error> {
        read(&self.path.join(name))
    }

    /// Reads a file that [`Directory::write`] wrote; `None` if there is none.
    pub(super) fn read_if_there<T: DeserializeOwned>(
        &self,
        name: &str,
    ) -> Result<Option<T>, Error> {
        let path = self.path.join(name);
        if path.exists() {
            read(&path).map(Some)
        } else {
            Ok(None)
        }
    }

    /// Keeps the files that describe the run: directory, name, text.
    pub(super) fn write_texts(
        &self,
        texts: &[(&'static str, String, String)],
    ) -> Result<(), Error> {
        for (directory, name, text) in texts {
            let directory = self.path.join(directory);
            fs::create_dir_all(&directory).map_err(SystemError::file("create", &directory))?;
            let path = directory.join(name);
            fs::write(&path, text).map_err(SystemError::file("write", &path))?;
        }
        Ok(())
    }

    /// Returns the files in a directory of the result, sorted by name; none if it does not exist.
    pub(super) fn files(&self, directory: &str) -> Result<Vec<PathBuf>, Error> {
        let directory = self.path.join(directory);
        if !directory.exists() {
            return Ok(Vec::new());
        }
        let entries = fs::read_dir(&directory).map_err(SystemError::file("read", &directory))?;
        let mut files: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect();
        files.sort_unstable();
        Ok(files)
    }

    /// Creates the directory for a cell's configurations; returns its path relative to the result directory, and in
    /// full. Files of an interrupted attempt are removed.
    pub(super) fn of_cell(
        &self,
        experiment: &str,
        block: u32,
        order: u32,
        target: &str,
    ) -> Result<(String, PathBuf), Error> {
        let relative = format!("{CONFIGURATIONS}/{experiment}/{block}-{order:03}-{target}");
        let full = self.path.join(&relative);
        if full.exists() {
            fs::remove_dir_all(&full).map_err(SystemError::file("remove", &full))?;
        }
        fs::create_dir_all(&full).map_err(SystemError::file("create", &full))?;
        Ok((relative, full))
    }
}

/// Replaces a password by `***` in every file below `path`.
pub(super) fn redact(path: &Path, password: &str) -> Result<(), Error> {
    let entries = fs::read_dir(path).map_err(SystemError::file("read", path))?;
    for entry in entries.filter_map(Result::ok) {
        let path = entry.path();
        if path.is_dir() {
            redact(&path, password)?;
        } else if let Ok(text) = fs::read_to_string(&path)
            && text.contains(password)
        {
            let text = text.replace(password, "***");
            fs::write(&path, text).map_err(SystemError::file("write", &path))?;
        }
    }
    Ok(())
}

fn line(cell: &Cell) -> Result<String, Error> {
    let mut line = serde_json::to_string(cell).map_err(|source| Error::Json {
        path: PathBuf::from(CELLS),
        source,
    })?;
    line.push('\n');
    Ok(line)
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T, Error> {
    let text = fs::read_to_string(path).map_err(SystemError::file("read", path))?;
    serde_json::from_str(&text).map_err(|source| Error::Json {
        path: path.to_owned(),
        source,
    })
}

fn replace(path: &Path, text: &str) -> Result<(), Error> {
    let new = path.with_extension("new");
    let written = || {
        let mut file = File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_data()?;
        fs::rename(&new, path)
    };
    written().map_err(SystemError::file("write", path))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::record::{Costs, Outcome};

    fn run() -> Run {
        Run {
            format: FORMAT,
            profile: "smoke".to_owned(),
            seed: 7,
            started_unix_s: 1,
            ended_unix_s: None,
            command: Vec::new(),
            experiments: Vec::new(),
            targets: Vec::new(),
            environment: BTreeMap::new(),
        }
    }

    fn cell(target: &str, failed: Option<&str>) -> Cell {
        Cell {
            experiment: "p1".to_owned(),
            target: target.to_owned(),
            block: 0,
            order: 0,
            factors: BTreeMap::new(),
            generator: "pgbench".to_owned(),
            command: Vec::new(),
            configurations: String::new(),
            outcome: failed.is_none().then(Outcome::default),
            failed: failed.map(str::to_owned),
            costs: Costs::default(),
            on_replicas: None,
            flags: Vec::new(),
            started_unix_s: 1,
        }
    }

    #[test]
    fn what_is_done_is_found_again_and_what_failed_or_broke_off_is_not() {
        let root = tempfile::tempdir().unwrap();
        let mut directory = Directory::create(root.path()).unwrap();
        directory.write_run(&run()).unwrap();
        directory.append(&cell("direct", None)).unwrap();
        directory.append(&cell("pgbouncer", Some("no"))).unwrap();
        let file = root.path().join(CELLS);
        let mut text = fs::read_to_string(&file).unwrap();
        text.push_str("{\"experiment\":\"p1\",\"tar");
        fs::write(&file, text).unwrap();

        let (mut directory, run, done) = Directory::open(root.path()).unwrap();
        assert_eq!(run.seed, 7);
        assert_eq!(done, [cell("direct", None)]);
        directory.append(&cell("weir-1", None)).unwrap();
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(text.lines().count(), 2);
        assert!(
            text.lines()
                .all(|line| serde_json::from_str::<Cell>(line).is_ok())
        );
    }

    #[test]
    fn a_run_is_never_written_over_and_a_newer_one_never_read() {
        let root = tempfile::tempdir().unwrap();
        let directory = Directory::create(root.path()).unwrap();
        let newer = Run {
            format: FORMAT + 1,
            ..run()
        };
        directory.write_run(&newer).unwrap();
        assert!(matches!(
            Directory::create(root.path()),
            Err(Error::Occupied(_))
        ));
        assert!(matches!(
            Directory::open(root.path()),
            Err(Error::TooNew(_))
        ));
    }

    #[test]
    fn a_password_is_taken_out_of_every_file() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("target-0");
        fs::create_dir(&inner).unwrap();
        fs::write(inner.join("users.txt"), "ann s3cret").unwrap();
        fs::write(root.path().join("other"), "nothing").unwrap();
        redact(root.path(), "s3cret").unwrap();
        assert_eq!(
            fs::read_to_string(inner.join("users.txt")).unwrap(),
            "ann ***"
        );
        assert_eq!(
            fs::read_to_string(root.path().join("other")).unwrap(),
            "nothing"
        );
    }

    #[test]
    fn a_second_attempt_at_a_cell_finds_an_empty_directory() {
        let root = tempfile::tempdir().unwrap();
        let directory = Directory::create(root.path()).unwrap();
        let (relative, full) = directory.of_cell("p1", 0, 3, "weir-1").unwrap();
        assert_eq!(relative, "configurations/p1/0-003-weir-1");
        fs::write(full.join("left"), "over").unwrap();
        let (_, full) = directory.of_cell("p1", 0, 3, "weir-1").unwrap();
        assert_eq!(fs::read_dir(full).unwrap().count(), 0);
    }
}
