//! Reference page of the conditions.

use std::fmt::Write as _;

use crate::conditions::{CONDITIONS, Condition};

const INTRO: &str = "\
# Conditions

<!-- Generated from the table of conditions in crates/diagnosis; edit that. -->

Weir watches its own figures once a second and names what is wrong, with the evidence and with advice. A condition begins
when its evidence has held for the stated number of samples in a row, and ends after 30 samples without it. Evidence
and advice follow the figures while it holds. The name of a condition never changes.

A condition belongs to an object: a pool (`database/user`), a host, a worker, a limit, or the whole process. If a more
specific condition explains another one on the same object, only the specific one is shown. Of each condition, at most 100
objects are kept.

| condition | severity | meaning |
|---|---|---|
";

/// Returns the reference page of all conditions, in Markdown.
#[must_use]
pub fn reference_markdown() -> String {
    let mut out = INTRO.to_owned();
    for condition in CONDITIONS {
        let (name, meaning) = (condition.name, condition.meaning);
        let severities = severities(condition);
        // Writing to a String cannot fail.
        let _ = writeln!(out, "| [`{name}`](#{name}) | {severities} | {meaning} |");
    }
    for condition in CONDITIONS {
        entry(&mut out, condition);
    }
    out
}

fn entry(out: &mut String, condition: &Condition) {
    let Condition {
        name,
        meaning,
        evidence,
        advice,
        sustain,
        ..
    } = condition;
    let severities = severities(condition);
    let samples = crate::text::count((*sustain).into(), "sample");
    // Writing to a String cannot fail.
    let _ = write!(
        out,
        "\n## {name}\n\n{meaning}\n\n- Severity: {severities}.\n- Evidence, for {samples}: {evidence}\n- Advice: {advice}\n"
    );
    if !condition.explains.is_empty() {
        let names: Vec<_> = condition
            .explains
            .iter()
            .map(|name| format!("`{name}`"))
            .collect();
        let _ = writeln!(out, "- Hides: {}.", names.join(", "));
    }
}

fn severities(condition: &Condition) -> String {
    let names: Vec<_> = condition.severities.iter().map(|one| one.name()).collect();
    names.join(" or ")
}

#[cfg(test)]
mod tests {
    use expect_test::expect_file;

    /// After a change of the table run this test with UPDATE_EXPECT=1.
    #[test]
    fn the_page_in_the_docs_is_fresh() {
        expect_file!["../../../docs/reference/conditions.md"]
            .assert_eq(&super::reference_markdown());
    }
}
