//! Tests of lists: what is written can be read, and the mistakes that refuse a configuration.

use std::path::{Path, PathBuf};
use std::{fmt, io};

use weir_rules::{Known, StatementEntry};

use crate::files::Files;
use crate::load::{Loaded, load};
use crate::statement_list_text;

const MAIN: &str = "auth_type = \"any\"\nstatement_list_dir = \"lists\"\n[databases.shop]\nhost = \"x\"\n\
                    [users.app]\nstatement_policy = \"enforce\"\n";

/// weir.toml, and one file in the directory, if there is one.
struct Tree<'a>(&'a str, Option<&'a str>);

impl Files for Tree<'_> {
    fn read(&mut self, path: &Path) -> io::Result<String> {
        let is_main = path == Path::new("weir.toml");
        let list = self.1.map(str::to_owned);
        match is_main {
            true => Ok(self.0.to_owned()),
            false => list.ok_or_else(|| io::Error::other("no such file")),
        }
    }

    fn list(&mut self, _: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(self
            .1
            .map(|_| "lists/app.toml".into())
            .into_iter()
            .collect())
    }
}

fn loaded(main: &str, list: Option<&str>) -> Result<Loaded, String> {
    let loaded = load(
        Path::new("weir.toml"),
        &mut Tree(main, list),
        std::iter::empty(),
    );
    let text = |all: &[&dyn fmt::Display]| {
        let lines: Vec<_> = all.iter().map(ToString::to_string).collect();
        lines.join("\n")
    };
    loaded.map_err(|errors| {
        let errors: Vec<&dyn fmt::Display> = errors.iter().map(|error| error as _).collect();
        text(&errors)
    })
}

fn entries(texts: &[&str]) -> Vec<(Known, StatementEntry)> {
    let entries = texts.iter().map(|text| StatementEntry::of(text.as_bytes()));
    entries.collect()
}

#[test]
fn a_list_that_is_written_can_be_read() {
    let long = format!("SELECT {}b", "a, ".repeat(5_000));
    let all = entries(&[
        "SELECT a FROM t WHERE b = 'x'",
        "DO $$\nBEGIN\n  PERFORM \"x\"; -- \\\nEND\n$$",
        "SELECT 'a\\'",
        "SET \"ü\" = 5",
        &long,
    ]);
    let only: Vec<_> = all.iter().map(|(_, entry)| entry.clone()).collect();
    let text = statement_list_text("app", only.clone());
    let reversed = only.into_iter().rev().collect();
    assert_eq!(text, statement_list_text("app", reversed));
    let settings = loaded(MAIN, Some(&text)).unwrap().settings;
    let list = &settings.statement_lists["app"];
    assert_eq!(list.len(), all.len());
    for (known, entry) in all {
        assert!(list.contains(&known), "{}", entry.text);
    }
    assert!(!list.contains(&entries(&["DO $$ other $$"])[0].0));
}

#[test]
fn a_list_can_be_written_by_hand() {
    let text = "user = \"app\"\n[[statements]]\ntext = \"select a from t where b = 5 -- why\"\n";
    let settings = loaded(MAIN, Some(text)).unwrap().settings;
    let known = entries(&["SELECT a FROM t WHERE b = $1"])[0].0;
    assert!(settings.statement_lists["app"].contains(&known));
}

#[test]
fn mistakes_in_a_list_have_their_file_and_line() {
    let key = "0123456789abcdef";
    let statement = |keys: &str| format!("user = \"app\"\n\n[[statements]]\n{keys}\n");
    for (text, expected) in [
        (
            "[[statements]]\ntext = \"SELECT 1\"\n".to_owned(),
            "lists/app.toml: the file needs the name of its user at the top: user = \"app\"",
        ),
        (
            "user = 5\n".to_owned(),
            "lists/app.toml:1: user must be the name of a user, and not 5",
        ),
        (
            "user = \"app\"\nrules = []\n".to_owned(),
            "lists/app.toml:2: \"rules\" is not allowed here: a file of statement_list_dir has user, and [[statements]] \
             with text, whole, sha256 and fingerprint",
        ),
        (
            statement("fingerprint = \"x\""),
            "lists/app.toml:4: fingerprint: a fingerprint has 16 hexadecimal digits",
        ),
        (
            statement(&format!("fingerprint = \"{key}\"")),
            "lists/app.toml:3: a statement needs its text, without literals: text = \"SELECT ?\"",
        ),
        (
            statement("text = \"DO 'x'\""),
            "lists/app.toml:3: literals of such a statement are code; the entry needs the key whole in place of text",
        ),
        (
            statement("text = \"SELECT 1; SELECT 2\""),
            "lists/app.toml:3: the text is not one statement that can be read without knowing its literals; copy it from \
             `weir statements export`, which adds sha256 where it is needed",
        ),
        (
            statement("text = \"DO ?\"\nwhole = \"DO 'x'\""),
            "lists/app.toml:3: the key whole stands alone, without text and sha256",
        ),
        (
            statement("txt = \"SELECT 1\""),
            "lists/app.toml:4: unknown key \"txt\" in a statement; there are text, whole, sha256 and fingerprint",
        ),
    ] {
        assert_eq!(loaded(MAIN, Some(&text)).unwrap_err(), expected);
    }
}

/// Notes about lists.
fn notes(main: &str, list: Option<&str>) -> Vec<String> {
    let notes = loaded(main, list).unwrap().notes.into_iter();
    notes.filter(|note| note.contains("statement")).collect()
}

#[test]
fn a_list_that_does_not_exist_is_not_enforced() {
    let expected = "weir.toml:6: statement_policy = enforce needs a list of statements for user \"app\", and no file in \
                    statement_list_dir has one; begin with learn, write the list by `weir statements export`, and review it";
    assert_eq!(loaded(MAIN, None).unwrap_err(), expected);
    assert_eq!(
        loaded(MAIN, Some("user = \"other\"\n")).unwrap_err(),
        expected
    );
    let learns = MAIN.replace("enforce", "learn");
    assert!(notes(&learns, None).is_empty());
    // A list may be empty: then nothing runs but BEGIN and the like.
    assert!(loaded(MAIN, Some("user = \"app\"\n")).is_ok());
    let off = MAIN.replace("enforce", "off");
    assert_eq!(
        notes(&off, Some("user = \"app\"\n")),
        ["statement_list_dir has a list for user \"app\", whose statement_policy is off"]
    );
}

#[test]
fn the_directory_changes_only_by_a_reload() {
    let loaded = loaded(MAIN, Some("user = \"app\"\n")).unwrap();
    let refused = loaded.set("statement_list_dir", "other").unwrap_err();
    assert_eq!(
        refused[0].message,
        "\"statement_list_dir\" changes only by a reload, which reads its files"
    );
}
