//! Tests of the crate's interface: files in, settings or mistakes out.

mod auth;
mod cluster;
mod clusters_refused;
mod convert;
mod dashboard;
mod effects;
mod errors;
mod formats;
mod hostile;
mod listeners;
mod native;
mod pgbouncer;
mod pools;
mod properties;
mod resolve;
mod text;
mod tls;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use weir_config::{ConfigError, Files, Loaded, Upstream};

/// Loads `path` from files that exist in memory only.
fn load_files(
    path: &str,
    files: &[(&str, &str)],
    env: &[(&str, &str)],
) -> Result<Loaded, Vec<ConfigError>> {
    let mut files = Memory(files.iter().copied().collect());
    weir_config::load(Path::new(path), &mut files, pairs(env))
}

/// Files that exist in memory only, in directories that all exist.
struct Memory<'a>(BTreeMap<&'a str, &'a str>);

impl Files for Memory<'_> {
    fn read(&mut self, path: &Path) -> io::Result<String> {
        match self.0.get(path.to_str().unwrap_or_default()) {
            Some(text) => Ok((*text).to_owned()),
            None => Err(io::Error::new(io::ErrorKind::NotFound, "no such file")),
        }
    }

    fn list(&mut self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let paths = self.0.keys().map(PathBuf::from);
        Ok(paths
            .filter(|path| path.parent() == Some(directory))
            .collect())
    }
}

/// Reads no file.
fn no_file(_: &Path) -> io::Result<String> {
    Err(io::ErrorKind::NotFound.into())
}

/// Upstream without a user.
fn to(server: &str) -> Upstream {
    Upstream {
        server: server.to_owned(),
        ..Upstream::default()
    }
}

fn pairs(env: &[(&str, &str)]) -> impl Iterator<Item = (String, String)> {
    env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
}

fn ini(text: &str) -> Result<Loaded, Vec<ConfigError>> {
    load_files("pgbouncer.ini", &[("pgbouncer.ini", text)], &[])
}

fn native(text: &str) -> Result<Loaded, Vec<ConfigError>> {
    load_files("weir.toml", &[("weir.toml", text)], &[])
}

/// Returns the mistakes of a whole ini, or else its notes, one per line.
fn said(text: &str) -> String {
    match ini(text) {
        Ok(loaded) => loaded.notes.iter().map(|n| format!("{n}\n")).collect(),
        errors => lines(errors),
    }
}

/// Returns the mistakes, one per line.
fn lines(result: Result<Loaded, Vec<ConfigError>>) -> String {
    match result {
        Ok(_) => "no mistake".to_owned(),
        Err(errors) => errors.iter().map(|e| format!("{e}\n")).collect(),
    }
}
