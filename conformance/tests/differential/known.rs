//! Differences that the documentation names, and topics whose faults are not fixed yet.

use weir_conformance::answer::Answer;

use crate::program::{self, Act, Item};

/// Result of comparing one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Alike,
    Differs,
    /// A documented difference, after which the sides cannot be compared further.
    Known(&'static str),
}

/// PostgreSQL's message for a statement whose columns have changed.
pub(crate) const OUTDATED: &str = "0A000 cached plan must not change result type";

const SEQUENCE: &str = "currval and lastval may be refused (docs/internals/sequences.md)";
const SEQUENCE_OF_OTHERS: &str = "currval and lastval behind other statements of a transaction may tell what another client got \
     (docs/internals/sequences.md)";
const MODES: &str = "currval and lastval in a text that sets the modes of its transaction block may be refused \
     (docs/internals/sequences.md)";
const UNKEPT: &str = "an unnamed statement that was passed on while it arrived is not kept (docs/internals/expected-replies.md)";
const UNREAD: &str = "what stands behind the first 32 KiB of a text finds no statement of the protocol by its name \
     (docs/internals/shared-names.md)";
const UNNAMEABLE: &str = "a statement that cannot be parsed any more fails in front of a text of the same batch that may name it \
     (docs/internals/shared-names.md)";
const GONE_NAME: &str = "EXECUTE does not find a statement that cannot be parsed any more (docs/internals/shared-names.md)";

const FREE_NAME: &str = "PREPARE may use the name of a statement that cannot be parsed any more (docs/internals/shared-names.md)";

const LATE_REPORT: &str = "a parameter of the start-up packet that a text above 32 KiB sets to the server's default is reported with \
     the client's next statement (docs/internals/session-state.md)";

/// Difference in notifications on channels that a client listens to in two ways.
pub(crate) const ORDER: &str = "what comes on a client's own server and on the listening connection may come in any order \
     (docs/concepts/listen-notify.md)";

const EARLY: &str = "a session that listens to one channel and begins to listen to another in a transaction hears from \
     PostgreSQL what was committed there before (docs/concepts/listen-notify.md)";

const TAKEN: &str = "a setting whose privilege or role was taken away cannot be set on another server: \
     the statement is refused and not run (docs/internals/session-state.md)";
const GONE_ROLE: &str = "PostgreSQL itself goes on under the oid of a role that is gone";

/// Weir learns with the client's first statement that a start-up value is refused.
pub(crate) const LOGIN: &str = "a login that PostgreSQL refuses for a start-up value";

const DESCRIBED: &str = "Describe of a statement that cannot be parsed any more is an error: PostgreSQL says so \
     at Bind, if it returns no rows (docs/internals/prepared-statements.md)";

const UNBOUND: &str = "a statement that cannot be parsed any more fails with that, also if a parameter is bad: \
     PostgreSQL reads parameters first (docs/internals/prepared-statements.md)";

const LATE: &str = "a Parse for which no server was free is resolved at its first use: under a type or table that has \
     changed since, if it cannot be parsed any more directly (docs/internals/prepared-statements.md)";

const LOST_TYPE: &str = "PostgreSQL itself looks for the oid of a column's type that is gone (XX000): a server without a \
     copy finds that the columns have changed (docs/internals/prepared-statements.md)";

const INDIRECT: &str = "Describe of a FETCH or EXECUTE tells the columns of the cursor or statement that is there now \
     (docs/internals/prepared-statements.md)";

const ENDED: &str = "a text that deals with a statement by name, whose columns have changed, ends the connection \
     (docs/internals/shared-names.md)";

/// SQLSTATEs of a statement that can no longer be parsed.
const MISSING: [&str; 7] = [
    "25P02", "42P01", "42703", "42704", "42804", "42883", "3F000",
];

const CACHED: &str = "PostgreSQL itself may see within a transaction that a role was revoked, or not: \
     that depends on what its session has in its caches";

/// SQLSTATEs of a server's refusal of a setting that was taken away.
const REFUSED: [&str; 4] = ["42501", "42704", "22023", "0LP01"];

/// True if a statement of the administrator takes away what settings of clients may rest on.
pub(crate) fn is_risk(sql: &str) -> bool {
    sql.starts_with("revoke") || sql.starts_with("drop role") || sql.starts_with("alter role")
}

/// True if a step prepares a FETCH or EXECUTE, which returns the columns of a cursor or another statement.
pub(crate) fn prepares_indirect(act: &Act) -> bool {
    let is_indirect = |item: &Item| match item {
        Item::Parse { name, sql, .. } => {
            let is_of = |word| sql.trim_start().to_lowercase().starts_with(word);
            !name.is_empty() && (is_of("fetch") || is_of("execute"))
        }
        _ => false,
    };
    matches!(act, Act::Batch(items) if items.iter().any(is_indirect))
}

/// True if a step is a query of more than 32 KiB, which Weir passes on in pieces.
pub(crate) fn is_long_query(act: &Act) -> bool {
    matches!(act, Act::Query(all) if all.iter().any(|sql| program::expanded(sql).len() > 32 * 1024))
}

/// History of the program before a step, and of its client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Past<'a> {
    /// Start-up parameters of the client.
    pub(crate) start: &'a [(String, String)],
    /// True if a transaction or batch of the client is open.
    pub(crate) is_inside: bool,
    /// See [`is_risk`].
    pub(crate) is_at_risk: bool,
    /// True if a statement has changed or dropped objects.
    pub(crate) has_changed_objects: bool,
    /// True if a client has prepared a FETCH or EXECUTE under a name.
    pub(crate) has_indirect: bool,
    /// True if a client has prepared a text of more than 32 KiB.
    pub(crate) has_long: bool,
    /// True if a client has sent a query of more than 32 KiB, or does so in this step.
    pub(crate) has_long_query: bool,
}

/// Judges two answers that differ.
pub(crate) fn judge(act: &Act, (expected, found): (&Answer, &Answer), past: Past<'_>) -> Verdict {
    if is_described_alike(expected, found) || has_temporary_schema(expected, found) {
        return Verdict::Alike;
    }
    let pair = Answers {
        text: format!("{act:?}").to_lowercase(),
        expected,
        found,
        direct: error_of_one(expected, found),
        weir: error_of_one(found, expected),
    };
    let known = (pair.of_sequences(past))
        .or_else(|| pair.of_long_texts(act, past))
        .or_else(|| pair.of_reports(past))
        .or_else(|| pair.of_names(past))
        .or_else(|| pair.of_indirect(past))
        .or_else(|| pair.of_changes())
        .or_else(|| pair.of_privileges(past));
    known.map_or(Verdict::Differs, Verdict::Known)
}

/// First error that only this side has.
fn error_of_one(one: &Answer, other: &Answer) -> Option<String> {
    let mut lines = one.lines.iter();
    let found = lines.find(|line| line.starts_with("E ") && !other.lines.contains(line));
    found.cloned()
}

/// Two answers that differ.
struct Answers<'a> {
    /// Text of the step, in lower case.
    text: String,
    expected: &'a Answer,
    found: &'a Answer,
    /// Error of PostgreSQL alone.
    direct: Option<String>,
    /// Error of Weir alone.
    weir: Option<String>,
}

impl Answers<'_> {
    fn weir_says(&self, what: &str) -> bool {
        self.weir.as_ref().is_some_and(|line| line.contains(what))
    }

    fn direct_says(&self, what: &str) -> bool {
        self.direct.as_ref().is_some_and(|line| line.contains(what))
    }

    /// True if only Weir reports that an object is missing.
    fn is_missing(&self) -> bool {
        sqlstate(self.weir.as_ref()).is_some_and(|state| MISSING.contains(&state))
    }

    fn of_sequences(&self, past: Past<'_>) -> Option<&'static str> {
        let reads = self.text.contains("currval") || self.text.contains("lastval");
        if reads && !self.direct_says(" 55000 ") && self.weir_says(" 55000 ") {
            return Some(SEQUENCE);
        }
        let sets_modes = self.text.contains("begin") || self.text.contains("transaction");
        if reads && past.is_inside && sets_modes && self.weir_says(" 25001 SET TRANSACTION") {
            return Some(MODES);
        }
        let is_of_others = past.is_inside && self.weir.is_none() && self.direct_says(" 55000 ");
        (reads && is_of_others).then_some(SEQUENCE_OF_OTHERS)
    }

    fn of_long_texts(&self, act: &Act, past: Past<'_>) -> Option<&'static str> {
        if self.direct.is_some() {
            return None;
        }
        if past.has_long && self.weir_says("26000 unnamed prepared statement") {
            return Some(UNKEPT);
        }
        (is_long_query(act) && self.weir_says(" 26000 ")).then_some(UNREAD)
    }

    /// Differences of nothing but reported parameters that the client began with.
    fn of_reports(&self, past: Past<'_>) -> Option<&'static str> {
        let (expected, found) = (self.expected, self.found);
        let begins_with = |name: &String| {
            let name = name.to_lowercase();
            past.start.iter().any(|(key, value)| {
                key.to_lowercase() == name
                    || key == "options" && value.to_lowercase().contains(&name)
            })
        };
        let mut names = expected.parameters.keys().chain(found.parameters.keys());
        let is_begun = names.all(|name| {
            expected.parameters.get(name) == found.parameters.get(name) || begins_with(name)
        });
        (past.has_long_query && is_begun && expected.lines == found.lines).then_some(LATE_REPORT)
    }

    /// Differences of texts that use statements by name.
    fn of_names(&self, past: Past<'_>) -> Option<&'static str> {
        let runs_code = self.text.contains("parse") && self.text.contains("do $$");
        if runs_code && self.direct.is_none() && self.is_missing() {
            return Some(UNNAMEABLE);
        }
        let is_gone = |state: &str| MISSING.contains(&state) || state == "42601";
        let is_gone = sqlstate(self.direct.as_ref()).is_some_and(is_gone);
        if self.text.contains("execute") && is_gone && self.weir_says(" 26000 ") {
            return Some(GONE_NAME);
        }
        let is_free = self.weir.is_none() && self.direct_says(" 42P05 ");
        if self.text.contains("prepare") && is_free && past.has_changed_objects {
            return Some(FREE_NAME);
        }
        let is_ended = self.weir_says("E FATAL") && self.weir_says(OUTDATED);
        is_ended.then_some(ENDED)
    }

    fn describes(&self) -> bool {
        self.text.contains("describe(83") || self.text.contains("ask(names")
    }

    /// Differences of statements that return the results of others: only the columns differ.
    fn of_indirect(&self, past: Past<'_>) -> Option<&'static str> {
        let (expected, found) = (self.expected, self.found);
        let is_columns = |line: &str| line == "n" || line.starts_with("T ");
        let mut pairs = expected.lines.iter().zip(&found.lines);
        let is_alike = expected.lines.len() == found.lines.len()
            && expected.parameters == found.parameters
            && pairs.all(|(ours, theirs)| ours == theirs || is_columns(ours) && is_columns(theirs));
        (past.has_indirect && self.describes() && is_alike).then_some(INDIRECT)
    }

    /// Differences of protocol statements whose objects have changed.
    fn of_changes(&self) -> Option<&'static str> {
        let describes = self.describes();
        let is_gone = |line: &String| line.contains(" XX000 cache lookup failed for type");
        if describes && self.direct.as_ref().is_none_or(is_gone) && self.is_missing() {
            return Some(DESCRIBED);
        }
        let missing = |answer: &Answer| {
            let codes =
                (answer.lines.iter()).filter_map(|line| line.strip_prefix("E ERROR ")?.get(..5));
            codes.filter(|code| MISSING.contains(code)).count()
        };
        if describes && self.weir.is_none() && missing(self.expected) > missing(self.found) {
            return Some(LATE);
        }
        if self.expected.lines.iter().any(is_gone) && self.weir_says(OUTDATED) {
            return Some(LOST_TYPE);
        }
        let is_bad_value = |state: &str| state.starts_with("22") || state == "08P01";
        let is_bad_value = sqlstate(self.direct.as_ref()).is_some_and(is_bad_value);
        (self.text.contains("bind") && is_bad_value && self.is_missing()).then_some(UNBOUND)
    }

    fn of_privileges(&self, past: Past<'_>) -> Option<&'static str> {
        if !past.is_at_risk {
            return None;
        }
        if self.direct_says("OID") || self.direct_says("role with") {
            return Some(GONE_ROLE);
        }
        if self.weir.is_none() && self.direct_says(" 42501 permission denied to set role") {
            return Some(CACHED);
        }
        let state = sqlstate(self.weir.as_ref()).filter(|_| self.direct != self.weir);
        let is_refused = state.is_some_and(|state| REFUSED.contains(&state));
        is_refused.then_some(TAKEN)
    }
}

fn sqlstate(error: Option<&String>) -> Option<&str> {
    error?.split(' ').nth(2)
}

/// Judges notifications that differ. `is_split` is true if some LISTENs of the client stood beside other statements,
/// so that its server listens as well, `is_late` if some stood in a transaction block.
pub(crate) fn judge_heard(
    expected: &[String],
    found: &[String],
    is_split: bool,
    is_late: bool,
) -> Verdict {
    let sorted = |lines: &[String]| {
        let mut lines = lines.to_vec();
        lines.sort_unstable();
        lines
    };
    if is_split && sorted(expected) == sorted(found) {
        return Verdict::Known(ORDER);
    }
    let mut rest = expected.iter();
    let is_part = found.iter().all(|line| rest.any(|other| other == line));
    if is_late && is_part && found.len() < expected.len() {
        return Verdict::Known(EARLY);
    }
    Verdict::Differs
}

/// True if only the temporary schema differs that a server has created for an earlier client: PostgreSQL never drops
/// it.
fn has_temporary_schema(expected: &Answer, found: &Answer) -> bool {
    let differing: Vec<_> = expected
        .lines
        .iter()
        .zip(&found.lines)
        .filter(|(ours, theirs)| ours != theirs)
        .collect();
    expected.lines.len() == found.lines.len()
        && expected.parameters == found.parameters
        && differing.iter().all(|(ours, theirs)| {
            let names = "schema \"pg_temp\" does not exist";
            let is_missing = |line: &str| line.contains("does not exist");
            (ours.contains(names) && is_missing(theirs))
                || (theirs.contains(names) && is_missing(ours))
        })
}

/// True if Weir only omits the description of parameters: PostgreSQL sends it before it reports that a statement's
/// columns have changed or cannot be determined.
fn is_described_alike(expected: &Answer, found: &Answer) -> bool {
    let mut lines: Vec<&String> = Vec::new();
    for line in &expected.lines {
        let is_next = found.lines.get(lines.len()) == Some(line);
        let is_described = lines.last().is_some_and(|last| last.starts_with('t'));
        if line.starts_with("E ") && is_described && !is_next {
            lines.pop();
        }
        lines.push(line);
    }
    expected.parameters == found.parameters && lines == found.lines.iter().collect::<Vec<_>>()
}
