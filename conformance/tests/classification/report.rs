//! Texts that the verdict misjudged, by what went wrong.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use weir_sql::Cause;

/// Kind of a misjudgement of a text that was held to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// The standby refuses the text, which the primary answered.
    Refused,
    /// Both answer, and differently, although a second session on the primary answers as the first one.
    Differs,
    /// The primary assigned a transaction id.
    Writes,
    /// The number of advisory locks changed.
    Locks,
}

/// A misjudged text.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) fault: Fault,
    pub(crate) text: String,
    /// Answers of the hosts.
    pub(crate) evidence: String,
}

/// All that a run has found.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Number of texts by verdict.
    pub(crate) verdicts: BTreeMap<&'static str, usize>,
    /// Number of reads that were also run on the standby.
    pub(crate) compared: usize,
    /// Number of these that only the client's own session can answer, as those of temporary tables.
    pub(crate) of_one_session: usize,
    pub(crate) findings: Vec<Finding>,
    /// Texts for the primary that the standby answered alike, by cause.
    lost: BTreeMap<String, Lost>,
}

/// Texts that a replica could have answered, of one cause.
#[derive(Debug, Default)]
struct Lost {
    count: usize,
    /// Number by name of function, relation or setting.
    names: BTreeMap<String, usize>,
    first: String,
}

impl Report {
    pub(crate) fn verdict(&mut self, verdict: &'static str) {
        *self.verdicts.entry(verdict).or_default() += 1;
    }

    pub(crate) fn found(&mut self, fault: Fault, text: &str, evidence: String) {
        self.findings.push(Finding {
            fault,
            text: text.to_owned(),
            evidence,
        });
    }

    /// Counts a text that could have been answered by a replica.
    pub(crate) fn lost(&mut self, cause: &Cause, text: &str) {
        let (kind, name) = match cause {
            Cause::Function(name, why) => (format!("function {why}"), Some(name)),
            Cause::Relation(name, why) => (format!("relation {why}"), Some(name)),
            other => (other.to_string(), None),
        };
        let lost = self.lost.entry(kind).or_default();
        lost.count += 1;
        if let Some(name) = name {
            *lost.names.entry(name.to_string()).or_default() += 1;
        }
        if lost.first.is_empty() {
            lost.first = one_line(text);
        }
    }

    /// Prints the tables.
    pub(crate) fn print(&self) {
        println!("texts by verdict: {:?}", self.verdicts);
        println!(
            "{} reads were compared, {} of them belong to one session",
            self.compared, self.of_one_session
        );
        println!("\nmisjudged as reads: {}", self.findings.len());
        for finding in &self.findings {
            println!(
                "{:?}: {}\n    {}",
                finding.fault,
                one_line(&finding.text),
                finding.evidence
            );
        }
        let total: usize = self.lost.values().map(|lost| lost.count).sum();
        println!("\nfor the primary, but answered alike by the standby: {total}");
        let mut lost: Vec<_> = self.lost.iter().collect();
        lost.sort_by_key(|(_, lost)| Reverse(lost.count));
        for (kind, lost) in lost {
            println!("{:6}  {kind}: {}", lost.count, lost.first);
            let mut names: Vec<_> = lost.names.iter().collect();
            names.sort_by_key(|(_, count)| Reverse(**count));
            let names = names
                .iter()
                .take(40)
                .map(|(name, count)| format!("{name} {count}"));
            println!("        {}", names.collect::<Vec<_>>().join(", "));
        }
    }
}

/// Beginning of a text, on one line.
fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(160).collect()
}
