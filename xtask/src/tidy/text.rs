//! Checks of single files: head, length, words and imports.

use crate::tidy::Finding;

/// Maximum of lines of a Rust file before its tests. STYLE recommends at most 400.
const LINES_MAX: usize = 800;

/// Banned words, each with the alternative. Split so that this file does not match itself.
const BANNED_IN_RUST: &[(&str, &str)] = &[
    (
        concat!("FIX", "ME"),
        "mend it now, or open an issue and say why it can wait",
    ),
    (
        concat!("dbg", "!("),
        "use tracing, or an assertion in a test",
    ),
    (
        concat!("todo", "!("),
        "return a typed error, or leave the branch out",
    ),
    (
        concat!("unimplemented", "!("),
        "return a typed error, or leave the branch out",
    ),
    (
        concat!("#[", "ignore"),
        "make the test fast and sure, or delete it",
    ),
    (
        concat!("#[", "should_panic"),
        "test for the error that is returned",
    ),
];

/// Crate of the readiness driver, as its paths begin, and the only file and directory that may name it: a driver over
/// io_uring must not need it.
const READINESS: (&str, &str) = (concat!("mio", "::"), "crates/proxy/src/driver/epoll");

/// Directories that exist only on a developer's machine.
const MACHINE_PATHS: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
];

/// Checks the text of the file at `path`.
pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = machine_paths(path, text);
    if path.ends_with(".rs") {
        findings.extend(head(path, text));
        findings.extend(length(path, text));
        findings.extend(banned(path, text));
        findings.extend(readiness(path, text));
        findings.extend(imports(path, text));
        findings.extend(doc_openings(path, text));
    }
    if path.ends_with(".md") {
        findings.extend(titles(path, text));
    }
    findings
}

/// Words with which no doc comment begins (PROSE rule 1).
const OPENINGS: &[&str] = &[
    "How", "It", "Its", "Of", "One", "So many", "That", "The same", "What", "Whether", "Who",
];

/// Checks that the first line of each doc comment names its thing or begins with a verb.
fn doc_openings(path: &str, text: &str) -> Vec<Finding> {
    let doc = |line: &str| {
        let line = line.trim_start();
        let doc = line
            .strip_prefix("///")
            .or_else(|| line.strip_prefix("//!"));
        doc.map(str::to_owned)
    };
    let begins = |said: &str| {
        let is_opening = |word: &&&str| {
            let rest = said.strip_prefix(**word);
            rest.is_some_and(|rest| rest.starts_with([' ', ',', ':']))
        };
        OPENINGS.iter().find(is_opening)
    };
    let (mut findings, mut is_inside) = (Vec::new(), false);
    for (number, line) in numbered(text) {
        let said = doc(line);
        let first = said.as_deref().filter(|_| !is_inside).map(str::trim_start);
        if let Some(word) = first.and_then(begins) {
            let what = format!("a doc comment begins with \"{word}\"");
            let instead =
                "begin with the thing (\"Number of…\") or a verb (\"Returns…\", \"True if…\")";
            findings.push(Finding::new(path, number, what, instead));
        }
        is_inside = said.is_some();
    }
    findings
}

fn machine_paths(path: &str, text: &str) -> Vec<Finding> {
    let hit = |line: &str| {
        MACHINE_PATHS.iter().copied().find(|&banned| {
            line.match_indices(banned).any(|(at, _)| {
                // In `network/` or `https://host/home/` the text is not an absolute path of a
                // machine.
                let before = line.get(..at).and_then(|head| head.chars().next_back());
                !before.is_some_and(|before| before.is_alphanumeric() || "._-~}*".contains(before))
            })
        })
    };
    numbered(text)
        .filter_map(|(number, line)| Some((number, hit(line)?)))
        .map(|(number, banned)| {
            let what = format!("`{banned}` is a path of one machine");
            Finding::new(
                path,
                number,
                what,
                "use a path from the root of the repository",
            )
        })
        .collect()
}

fn head(path: &str, text: &str) -> Option<Finding> {
    if text.starts_with("//!") {
        return None;
    }
    let instead = "begin with `//!`: what the file is for and what it must never do";
    Some(Finding::new(path, 1, "no file comment", instead))
}

fn length(path: &str, text: &str) -> Option<Finding> {
    let is_test = path.ends_with("tests.rs") || path.split('/').any(|part| part == "tests");
    let generated = text
        .lines()
        .take(5)
        .any(|line| line.to_lowercase().contains("generated"));
    let count = text
        .lines()
        .take_while(|line| !line.starts_with("#[cfg(test)]"))
        .count();
    if is_test || generated || count <= LINES_MAX {
        return None;
    }
    let what = format!("{count} lines before the tests, {LINES_MAX} are the end");
    Some(Finding::new(
        path,
        LINES_MAX,
        what,
        "split it by what forbids a dependency or an audience",
    ))
}

fn banned(path: &str, text: &str) -> Vec<Finding> {
    numbered(text)
        .flat_map(|(number, line)| {
            BANNED_IN_RUST
                .iter()
                .filter(move |(word, _)| line.contains(word))
                .map(move |(word, instead)| (number, *word, *instead))
        })
        .map(|(number, word, instead)| {
            Finding::new(path, number, format!("`{word}` is banned"), instead)
        })
        .collect()
}

/// Checks that the engine names no readiness library.
fn readiness(path: &str, text: &str) -> Vec<Finding> {
    let (name, home) = READINESS;
    if !path.starts_with("crates/proxy/") || path.starts_with(home) {
        return Vec::new();
    }
    let names = numbered(text).filter(|(_, line)| line.contains(name));
    let instead = "speak to `trait Driver` or `trait Wake`";
    names
        .map(|(number, _)| {
            Finding::new(path, number, format!("`{name}` outside of {home}"), instead)
        })
        .collect()
}

/// Origin of an import, in the order of the blocks.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum Block {
    Std,
    External,
    Crate,
}

const BLOCKS: &str = "three blocks with an empty line between: std, external, crate";

/// Checks that imports at the head of a file stand in blocks. Only the first line of a `use` is
/// examined: the lines in braces belong to the same import.
fn imports(path: &str, text: &str) -> Vec<Finding> {
    let modules: Vec<&str> = numbered(text)
        .filter_map(|(_, line)| module_name(line))
        .collect();
    let mut findings = Vec::new();
    let mut last: Option<Block> = None;
    let mut blank = true;
    for (number, line) in numbered(text) {
        if line.is_empty() {
            blank = true;
        }
        if ends_head(line) {
            break;
        }
        let Some(rest) = line.strip_prefix("use ") else {
            continue;
        };
        let Some(block) = block_of(rest, &modules) else {
            continue;
        };
        match last {
            Some(last) if block < last => {
                findings.push(Finding::new(path, number, "import out of order", BLOCKS));
            }
            Some(last) if block > last && !blank => {
                findings.push(Finding::new(path, number, "imports run together", BLOCKS));
            }
            _ => {}
        }
        last = Some(block);
        blank = false;
    }
    findings
}

/// True for the first line of an item, which ends the imports. A later `use` is something else, such
/// as a macro's.
fn ends_head(line: &str) -> bool {
    let line = line.strip_prefix("pub ").unwrap_or(line);
    let line = line.strip_prefix("pub(crate) ").unwrap_or(line);
    let word = line.split([' ', '!', '<']).next().unwrap_or_default();
    let items = [
        "#[cfg(test)]",
        "async",
        "const",
        "enum",
        "fn",
        "impl",
        "macro_rules",
        "static",
        "struct",
        "trait",
        "type",
    ];
    items.contains(&word)
}

fn module_name(line: &str) -> Option<&str> {
    let line = line
        .strip_prefix("pub(crate) ")
        .or_else(|| line.strip_prefix("pub "))
        .unwrap_or(line);
    line.strip_prefix("mod ")?.strip_suffix(';')
}

/// Block of an import; none for a module that this file declares, because rustfmt sorts `use own::..`
/// among the external ones.
fn block_of(import: &str, modules: &[&str]) -> Option<Block> {
    let first = import.split([':', ';', ' ']).next().unwrap_or_default();
    match first {
        "std" | "core" | "alloc" => Some(Block::Std),
        "crate" | "self" | "super" => Some(Block::Crate),
        name if modules.contains(&name) => None,
        _ => Some(Block::External),
    }
}

fn titles(path: &str, text: &str) -> Option<Finding> {
    let mut fenced = false;
    let mut titles = Vec::new();
    for (number, line) in numbered(text) {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced && line.starts_with("# ") {
            titles.push(number);
        }
    }
    match titles.as_slice() {
        [_] => None,
        [] => Some(Finding::new(
            path,
            1,
            "no title",
            "begin with one `# Title` line",
        )),
        [_, second, ..] => Some(Finding::new(
            path,
            *second,
            "a second title",
            "use `##` below the first",
        )),
    }
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whats(path: &str, text: &str) -> Vec<String> {
        check(path, text)
            .into_iter()
            .map(|found| format!("{}: {}", found.line, found.what))
            .collect()
    }

    #[test]
    fn a_clean_file_has_no_findings() {
        let text = "//! Doc.\n\nmod own;\n\nuse std::fmt;\nuse std::io;\n\nuse anyhow::Result;\nuse own::Thing;\n\n\
                    use crate::thing;\n";
        assert_eq!(whats("a.rs", text), Vec::<String>::new());
        assert_eq!(
            whats("a.md", "# Title\n\n```sh\n# comment\n```\n"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_file_without_a_comment_is_found() {
        assert_eq!(whats("a.rs", "use std::fmt;\n"), ["1: no file comment"]);
    }

    #[test]
    fn a_long_file_is_found_but_its_tests_do_not_count() {
        let long = format!("//! Doc.\n{}", "fn f() {}\n".repeat(800));
        assert_eq!(whats("a.rs", &long).len(), 1);
        let tests = format!("//! Doc.\n#[cfg(test)]\n{}", "fn f() {}\n".repeat(800));
        assert_eq!(whats("a.rs", &tests), Vec::<String>::new());
    }

    #[test]
    fn banned_words_are_found_with_their_line() {
        let text = format!("//! Doc.\n// {}: later\n", concat!("FIX", "ME"));
        let found = whats("a.rs", &text);
        assert_eq!(found.len(), 1);
        assert!(
            found.iter().all(|what| what.starts_with("2: ")),
            "{found:?}"
        );
    }

    #[test]
    fn a_readiness_library_is_found_outside_of_its_driver() {
        let text = format!("//! Doc.\nuse {}Poll;\n", concat!("mio", "::"));
        assert_eq!(whats("crates/proxy/src/worker.rs", &text).len(), 1);
        assert_eq!(
            whats("crates/proxy/src/driver/epoll/noted.rs", &text).len(),
            0
        );
        assert_eq!(whats("crates/lab/src/load.rs", &text).len(), 0);
    }

    #[test]
    fn doc_comments_that_begin_without_their_thing_are_found() {
        let whether = "//! Doc.\n\n/// Whether it is free.\n/// How so.\nfn f() {}\n";
        assert_eq!(
            whats("a.rs", whether),
            ["3: a doc comment begins with \"Whether\""]
        );
        let head = "//! What this does.\n";
        assert_eq!(
            whats("a.rs", head),
            ["1: a doc comment begins with \"What\""]
        );
        let fine =
            "//! Doc.\n\n/// Items of a list.\n///\n/// It may be empty.\n// Of note.\nfn f() {}\n";
        assert_eq!(whats("a.rs", fine), Vec::<String>::new());
    }

    #[test]
    fn imports_out_of_order_or_run_together_are_found() {
        let order = "//! Doc.\nuse anyhow::Result;\n\nuse std::fmt;\n";
        assert_eq!(whats("a.rs", order), ["4: import out of order"]);
        let together = "//! Doc.\nuse std::fmt;\nuse anyhow::Result;\n";
        assert_eq!(whats("a.rs", together), ["3: imports run together"]);
    }

    #[test]
    fn markdown_has_exactly_one_title() {
        assert_eq!(whats("a.md", "text\n"), ["1: no title"]);
        assert_eq!(whats("a.md", "# A\n# B\n"), ["2: a second title"]);
    }

    #[test]
    fn paths_of_a_machine_are_found_in_any_file() {
        let text = format!("log = {}me/log\n", concat!("/ho", "me/"));
        assert_eq!(whats("a.ini", &text).len(), 1);
        assert_eq!(
            whats("a.ini", "net = a/network/b\nurl = x.org/home/\n"),
            Vec::<String>::new()
        );
    }
}
