//! Both poolers side by side: each probe asks Debian's PgBouncer 1.18 and Weir with `pgbouncer_compat = 1.18` the same,
//! and compares the answers. The page of probes is generated from the table; the reason of each difference is a line of
//! "Different from PgBouncer" in the changelog.

#[path = "probes/bench.rs"]
mod bench;
#[path = "probes/console.rs"]
mod console;
#[path = "probes/logins.rs"]
mod logins;
#[path = "probes/processes.rs"]
mod processes;
#[path = "probes/sessions.rs"]
mod sessions;
#[path = "probes/why.rs"]
mod why;

use std::fmt::Write;
use std::thread;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use expect_test::expect_file;
use weir_conformance::tools;

use crate::support::database;

use self::bench::Bench;
use self::bench::Kind;
use self::bench::Seen;

/// Question that both poolers are asked.
struct Probe {
    name: &'static str,
    run: Run,
    expected: Expected,
}

/// Question of a probe, and the form of its answer.
enum Run {
    /// Queries of an administrator, one after the other in one session.
    Console(&'static [&'static str]),
    /// Names and types of a table's columns.
    Columns(&'static str),
    /// A table with its rows.
    Table(&'static str),
    Does(fn(&Bench) -> Result<Seen>),
}

/// Outcome of the comparison.
enum Expected {
    Same,
    /// The answers differ for a reason, which the page of differences has in these words.
    Differs {
        why: &'static str,
    },
}

const fn same(name: &'static str, run: Run) -> Probe {
    let expected = Expected::Same;
    Probe {
        name,
        run,
        expected,
    }
}

const fn differs(name: &'static str, run: Run, why: &'static str) -> Probe {
    let expected = Expected::Differs { why };
    Probe {
        name,
        run,
        expected,
    }
}

/// Probes by area, in the order of the page.
const AREAS: [(&str, &[Probe]); 6] = [
    ("Tables of the console", console::TABLES),
    ("Commands of the console", console::COMMANDS),
    ("Access to the console", console::ACCESS),
    ("Logins", logins::PROBES),
    ("Sessions", sessions::PROBES),
    ("Processes", processes::PROBES),
];

fn probes() -> impl Iterator<Item = &'static Probe> {
    AREAS.into_iter().flat_map(|(_, probes)| probes)
}

/// Answers of a pooler to these probes.
fn answers(probes: &[Probe], kind: Kind, postgres_port: u16) -> Result<Vec<Seen>> {
    let bench = Bench::new(kind, postgres_port)?;
    Ok(probes.iter().map(|probe| bench.ask(&probe.run)).collect())
}

/// Answers of both poolers to all probes. Each area has poolers of its own, at the same time.
fn all_answers(postgres_port: u16) -> Result<[Vec<Seen>; 2]> {
    thread::scope(|scope| {
        let both = [Kind::PgBouncer, Kind::Weir].map(|kind| {
            AREAS.map(|(_, probes)| scope.spawn(move || answers(probes, kind, postgres_port)))
        });
        let mut seen = [Vec::new(), Vec::new()];
        for (threads, seen) in both.into_iter().zip(&mut seen) {
            for thread in threads {
                seen.extend(thread.join().ok().context("a probe panicked")??);
            }
        }
        Ok(seen)
    })
}

/// Text of a section of the changelog, on one line.
fn section(title: &str) -> Result<String> {
    let text = std::fs::read_to_string(tools::workspace().join("CHANGELOG.md"))?;
    let (_, rest) = text.split_once(title).context("no such section")?;
    let text = rest.split("\n### ").next().unwrap_or_default();
    Ok(words(text))
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Page of the probes.
fn page() -> String {
    let count = probes().count();
    let differ = probes().filter(|probe| matches!(probe.expected, Expected::Differs { .. }));
    let mut page = format!(
        "# Probes beside PgBouncer\n\n\
         <!-- Generated from the table of probes in conformance/tests/drop_in; edit that. -->\n\n\
         A test asks PgBouncer 1.18 and Weir (with `pgbouncer_compat = 1.18`) the same {count} things and compares the answers: columns and\n\
         types, errors with SQLSTATE and text, notices, command tags, exit codes, files. {} of them differ, each for a reason that stands under\n\
         [Different from PgBouncer](../../CHANGELOG.md#different-from-pgbouncer). Process ids, ports and times are left out, and so is the field V\n\
         of errors.\n",
        differ.count()
    );
    for (area, probes) in AREAS {
        page += &format!("\n## {area}\n\n| probe | answer | reason |\n|---|---|---|\n");
        for probe in probes {
            let (answer, why) = match probe.expected {
                Expected::Same => ("same", ""),
                Expected::Differs { why } => ("differs", why),
            };
            // Writing to a String cannot fail.
            let _ = writeln!(page, "| {} | {answer} | {why} |", probe.name);
        }
    }
    page
}

/// After a change of the table run this test with UPDATE_EXPECT=1.
#[test]
fn both_poolers_answer_alike_but_for_what_the_page_of_differences_says() -> Result<()> {
    let postgres = database("drop_probes")?;
    let [theirs, ours] = all_answers(postgres.port())?;
    let reasons = section("### Different from PgBouncer")?;
    let mut faults = String::new();
    for ((probe, theirs), ours) in probes().zip(theirs).zip(ours) {
        let is_same = theirs.is_matched_by(&ours);
        let is_lost = [&theirs, &ours]
            .iter()
            .any(|seen| matches!(seen, Seen::Failed(_)));
        let verdict = match probe.expected {
            _ if is_lost => "could not ask",
            Expected::Same if is_same => continue,
            Expected::Same => "differs",
            Expected::Differs { .. } if is_same => "does not differ",
            Expected::Differs { why } if reasons.contains(&words(why)) => continue,
            Expected::Differs { .. } => "differs for a reason that is not on the page",
        };
        let _ = writeln!(
            faults,
            "=== {} {verdict}\n--- PgBouncer\n{theirs}\n--- Weir\n{ours}",
            probe.name
        );
    }
    ensure!(faults.is_empty(), "{faults}");
    expect_file!["../../../docs/reference/pgbouncer-probes.md"].assert_eq(&page());
    Ok(())
}
