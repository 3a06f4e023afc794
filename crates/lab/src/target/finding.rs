//! Finds a target's programs on this machine, and their versions.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{Definition, Instance};
use crate::environment;
use crate::process::{BIN_DIRECTORIES, find_program};

/// First two numbers of a version; zeros if a program reports none.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Version {
    /// Number before the first point.
    pub major: u32,
    /// Number after the first point.
    pub minor: u32,
}

impl Version {
    /// Returns the first version in a program's output: a word that begins with two numbers and a
    /// point between them.
    #[must_use]
    pub fn in_text(text: &str) -> Option<Self> {
        text.split(|c: char| !(c.is_ascii_digit() || c == '.'))
            .find_map(|word| {
                let mut numbers = word.split('.');
                Some(Self {
                    major: numbers.next()?.parse().ok()?,
                    minor: numbers.next()?.parse().ok()?,
                })
            })
    }
}

/// Programs of a target on this machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Path of each program.
    pub programs: BTreeMap<String, PathBuf>,
    /// Versions that the programs report, in one line.
    pub text: Option<String>,
    /// Version of the program that clients connect to.
    pub version: Version,
    /// SHA-256 of the program that clients connect to, hexadecimal.
    pub sha256: Option<String>,
}

impl Found {
    /// True if [`Self::look`] would find all programs. Starts none of them.
    #[must_use]
    pub fn is_here(
        instance: &Instance,
        given: &BTreeMap<String, PathBuf>,
        first: &[PathBuf],
    ) -> bool {
        let mut programs = instance.definition.program.iter();
        programs.all(|(key, program)| locate(key, &program.names, given, first).is_ok())
    }

    /// Looks for the programs of `instance`: `given` has the paths that the user named, `first` the directories that
    /// come before the path of the system.
    ///
    /// # Errors
    /// The text names the program that is missing.
    pub fn look(
        instance: &Instance,
        given: &BTreeMap<String, PathBuf>,
        first: &[PathBuf],
    ) -> Result<Self, String> {
        let definition = &instance.definition;
        let mut programs = BTreeMap::new();
        let mut texts = Vec::new();
        for (key, program) in &definition.program {
            let path = locate(key, &program.names, given, first)?;
            let text = environment::version(&path, &program.version);
            texts.push((key.clone(), text));
            programs.insert(key.clone(), path);
        }
        let facing = facing(definition);
        let text = |key: &str| {
            let mut texts = texts.iter();
            texts
                .find(|(found, _)| found == key)
                .and_then(|(_, text)| text.clone())
        };
        let version = facing.and_then(text);
        let all: Vec<String> = texts.iter().filter_map(|(_, text)| text.clone()).collect();
        Ok(Self {
            sha256: facing
                .and_then(|key| programs.get(key))
                .and_then(|path| sha256(path).ok()),
            version: version
                .as_deref()
                .and_then(Version::in_text)
                .unwrap_or_default(),
            text: (!all.is_empty()).then(|| all.join("; ")),
            programs,
        })
    }
}

/// Returns the program that clients connect to: the last one that is started.
fn facing(definition: &Definition) -> Option<&str> {
    let last = definition.process.last()?;
    Some(last.program.as_str())
}

fn locate(
    key: &str,
    names: &[String],
    given: &BTreeMap<String, PathBuf>,
    first: &[PathBuf],
) -> Result<PathBuf, String> {
    if let Some(path) = given.get(key) {
        return if path.is_file() {
            Ok(path.clone())
        } else {
            Err(format!("{} is not there", path.display()))
        };
    }
    names
        .iter()
        .find_map(|name| find_program(name, first).ok())
        .ok_or_else(|| {
            format!(
                "`{key}` is not on this machine; point at it with --target-bin {key}=PATH, or put it into a directory of {BIN_DIRECTORIES}"
            )
        })
}

fn sha256(path: &Path) -> io::Result<String> {
    let mut hasher = Sha256::new();
    io::copy(&mut File::open(path)?, &mut HashWriter(&mut hasher))?;
    let digest = hasher.finalize();
    Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

struct HashWriter<'a>(&'a mut Sha256);

impl io::Write for HashWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Catalog;
    use super::*;

    #[test]
    fn versions_are_found_in_the_words_of_programs() {
        for (text, major, minor) in [
            ("PgBouncer 1.18.0", 1, 18),
            ("HAProxy version 2.6.12-1+deb12u4 2026/10/17", 2, 6),
            ("pgpool-II version 4.3.5 (tamahomeboshi)", 4, 3),
            ("odyssey (git: 1.4rc)", 1, 4),
        ] {
            assert_eq!(Version::in_text(text), Some(Version { major, minor }));
        }
        assert_eq!(Version::in_text("no number"), None);
    }

    #[test]
    fn a_program_that_is_pointed_at_wins_and_is_told_by_its_sum() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bouncer");
        std::fs::write(&path, "abc").unwrap();
        let target = Catalog::builtin().unwrap().find("pgbouncer").unwrap();
        let given = BTreeMap::from([("pgbouncer".to_owned(), path.clone())]);
        let found = Found::look(&target, &given, &[]).unwrap();
        assert_eq!(found.programs["pgbouncer"], path);
        let sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(found.sha256.as_deref(), Some(sum));
        assert_eq!(found.version, Version::default());
    }

    #[test]
    fn a_program_that_is_not_there_is_named_with_what_to_do() {
        let target = Catalog::builtin().unwrap().find("pgbouncer").unwrap();
        let given = BTreeMap::from([("pgbouncer".to_owned(), PathBuf::from("/nowhere/x"))]);
        let error = Found::look(&target, &given, &[]).unwrap_err();
        assert_eq!(error, "/nowhere/x is not there");
        let names = ["there-is-no-such-program".to_owned()];
        let error = locate("doorman", &names, &BTreeMap::new(), &[]).unwrap_err();
        assert!(error.contains("--target-bin doorman=PATH"), "{error}");
        assert!(error.contains("WEIR_BENCH_BIN_DIR"), "{error}");
    }

    #[test]
    fn a_directory_of_programs_comes_before_the_path_and_after_a_path_that_was_named() {
        let directory = tempfile::tempdir().unwrap();
        let first = [directory.path().to_owned()];
        let names = ["sh".to_owned()];
        let find = |given: &BTreeMap<String, PathBuf>| locate("sh", &names, given, &first);
        let of_the_system = find(&BTreeMap::new()).unwrap();
        let own = directory.path().join("sh");
        assert_ne!(of_the_system, own);
        std::fs::write(&own, "").unwrap();
        assert_eq!(find(&BTreeMap::new()).unwrap(), own);
        let given = BTreeMap::from([("sh".to_owned(), of_the_system.clone())]);
        assert_eq!(find(&given).unwrap(), of_the_system);
    }
}
