//! Check of the words in code and pages (PROSE rule 3): names and sentences use the field's words.

use crate::tidy::Finding;

/// Banned words, each with the alternative. Also found as a part of a name, and in any case of characters.
const BANNED: &[(&str, &str)] = &[
    ("bell", "say wakeup"),
    ("declined", "say what happened to whom"),
    ("ears", "say subscriber"),
    ("hop", "say side (client side, server side)"),
    ("hops", "say sides (client side, server side)"),
    ("parcel", "say transfer"),
    ("parcels", "say transfers"),
    ("promise", "say delivery, or what is sure to happen"),
    ("promised", "say delivery, or what is sure to happen"),
    ("reluctant", "say under which condition"),
    ("reluctantly", "say under which condition"),
];

/// Words banned only where workers and processes exchange messages. Elsewhere they are characters of an alphabet.
const BANNED_IN_WORKERS: &[(&str, &str)] =
    &[("letter", "say message"), ("letters", "say messages")];

/// Files that keep their words: published measurements, this list, and scripts for a browser, whose word one of these
/// is.
const EXCEPT: &[&str] = &[
    "conformance/src/browser.rs",
    "crates/lab/src/report/fixture.rs",
    "crates/lab/testdata/",
    "docs/benchmarks/",
    "xtask/src/tidy/words.rs",
];

/// Checks the words of the file at `path`.
pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let is_checked = path.ends_with(".rs") || path.ends_with(".md");
    if !is_checked || EXCEPT.iter().any(|except| path.starts_with(except)) {
        return Vec::new();
    }
    let is_worker = path.starts_with("crates/pool/") || path.starts_with("crates/proxy/");
    let more = if is_worker { BANNED_IN_WORKERS } else { &[] };
    let mut findings = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let words: Vec<_> = words(line).collect();
        for (word, instead) in BANNED.iter().chain(more) {
            // The promises of the design have numbers.
            let is_numbered = |at: usize| {
                let next = words.get(at + 1).filter(|_| *word == "promise");
                next.is_some_and(|next| is_number(next))
            };
            let mut places = words.iter().enumerate().filter(|(_, found)| *found == word);
            if places.any(|(at, _)| !is_numbered(at)) {
                let what = format!("\"{word}\" is none of the field's words");
                findings.push(Finding::new(path, number + 1, what, *instead));
            }
        }
    }
    findings
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Splits a line into words in lower case. The parts of `two_words` and `TwoWords` are words too.
fn words(line: &str) -> impl Iterator<Item = String> {
    let mut words = Vec::new();
    let (mut word, mut was_lower) = (String::new(), false);
    for character in line.chars().chain([' ']) {
        let begins = was_lower && character.is_ascii_uppercase();
        if begins || !character.is_ascii_alphanumeric() {
            words.push(std::mem::take(&mut word));
        }
        if character.is_ascii_alphanumeric() {
            word.push(character.to_ascii_lowercase());
        }
        was_lower = character.is_ascii_lowercase();
    }
    words.into_iter().filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<usize> {
        check(path, text)
            .iter()
            .map(|finding| finding.line)
            .collect()
    }

    #[test]
    fn banned_words_are_found_in_sentences_and_in_names() {
        let text = "fn ring_bell() {}\nstruct ClientEars;\n/// Both hops.\nfn shop() {}\n// Bells, appears.\n";
        assert_eq!(found("crates/sql/src/a.rs", text), [1, 2, 3]);
        assert_eq!(found("docs/a.md", "A parcel.\n"), [1]);
        assert_eq!(found("docs/benchmarks/a.md", "A parcel.\n"), [0; 0]);
        assert_eq!(found("docs/a.svg", "A parcel.\n"), [0; 0]);
    }

    #[test]
    fn letters_are_banned_where_messages_pass() {
        assert_eq!(found("crates/proxy/src/a.rs", "let letter = 1;\n"), [1]);
        assert_eq!(found("crates/sql/src/a.rs", "let letter = 1;\n"), [0; 0]);
    }

    #[test]
    fn promises_of_the_design_have_numbers() {
        assert_eq!(
            found("docs/a.md", "Promise 1 rests on it.\nIt is a promise.\n"),
            [2]
        );
    }
}
