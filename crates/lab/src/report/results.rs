//! Reads a result directory of a finished run, or of one that was interrupted at any moment.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use super::Error;
use crate::record::{Cell, FORMAT, Run};

/// Contents of a result directory.
#[derive(Debug, Clone, PartialEq)]
pub struct Results {
    /// Contents of `run.json`.
    pub run: Run,
    /// Contents of `cells.jsonl`, each cell once, in the order of the file.
    pub cells: Vec<Cell>,
    /// Number of lines that are no cell, such as one that was being written when the machine stopped.
    pub unreadable: usize,
    /// Number of cells with an outcome that a later line replaced.
    pub replaced: usize,
}

impl Results {
    /// Reads `run.json` and `cells.jsonl` in `directory`. A missing `cells.jsonl` means a run without cells.
    ///
    /// # Errors
    ///
    /// `run.json` cannot be read, does not describe a run or has a later format, or `cells.jsonl` cannot be read.
    pub fn read(directory: &Path) -> Result<Self, Error> {
        let path = directory.join("run.json");
        let text = fs::read_to_string(&path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => Error::NoResults(directory.to_owned()),
            _ => Error::Read(path.clone(), source),
        })?;
        // The format comes first: a later record may well not parse.
        let format = serde_json::from_str::<Version>(&text)
            .map_err(|source| Error::NotARun(path.clone(), source))?
            .format;
        if format > FORMAT {
            return Err(Error::Newer { path, format });
        }
        let run = serde_json::from_str(&text).map_err(|source| Error::NotARun(path, source))?;
        let path = directory.join("cells.jsonl");
        let lines = match fs::read(&path) {
            // A line cut in the middle of a character makes one unreadable line, not an unreadable file.
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(source) if source.kind() == io::ErrorKind::NotFound => String::new(),
            Err(source) => return Err(Error::Read(path, source)),
        };
        Ok(Self::new(run, &lines))
    }

    /// Parses the text of `cells.jsonl` for a run.
    #[must_use]
    pub fn new(run: Run, lines: &str) -> Self {
        let mut results = Self {
            run,
            cells: Vec::new(),
            unreadable: 0,
            replaced: 0,
        };
        let mut places = BTreeMap::new();
        for line in lines.lines().filter(|line| !line.trim().is_empty()) {
            match serde_json::from_str::<Cell>(line) {
                Ok(cell) => results.add(cell, &mut places),
                Err(_) => results.unreadable += 1,
            }
        }
        results
    }

    /// Adds a cell; one that was run again replaces the first.
    fn add(&mut self, cell: Cell, places: &mut BTreeMap<String, usize>) {
        let key = format!(
            "{:?}",
            (&cell.experiment, &cell.target, cell.block, &cell.factors)
        );
        let at = *places.entry(key).or_insert(self.cells.len());
        match self.cells.get_mut(at) {
            Some(slot) => {
                self.replaced += usize::from(slot.outcome.is_some());
                *slot = cell;
            }
            None => self.cells.push(cell),
        }
    }
}

#[derive(serde::Deserialize)]
struct Version {
    format: u32,
}
