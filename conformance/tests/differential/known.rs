//! The few differences that the documentation names, and the topics whose faults are not mended yet.

use weir_conformance::answer::Answer;

use crate::program::{self, Act};

/// Comparison of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Alike,
    Differs,
    /// Documented; the sides have gone separate ways.
    Known(&'static str),
}

/// PostgreSQL's words for a statement whose columns have changed.
pub(crate) const OUTDATED: &str = "0A000 cached plan must not change result type";

const SEQUENCE: &str = "currval and lastval may be refused (docs/internals/sequences.md)";
const SEQUENCE_OF_OTHERS: &str = "currval and lastval behind other statements of a transaction may tell what another client got \
     (docs/internals/sequences.md)";
const UNKEPT: &str = "an unnamed statement that was passed on while it arrived is not kept (docs/internals/expected-replies.md)";
const UNREAD: &str = "what stands behind the first 32 KiB of a text finds no statement of the protocol by its name \
     (docs/internals/shared-names.md)";
const UNNAMEABLE: &str = "a statement that cannot be parsed any more fails in front of a text of the same batch that may name it \
     (docs/internals/shared-names.md)";
const GONE_NAME: &str = "EXECUTE does not find a statement that cannot be parsed any more (docs/internals/shared-names.md)";

/// Notifications on channels that a client listens to in two ways.
pub(crate) const ORDER: &str = "what comes on a client's own server and on the listening connection may come in any order \
     (docs/concepts/listen-notify.md)";

/// A text that ends listening behind the end of its transaction.
pub(crate) const HEARD: &str = "what was said during a transaction is heard although UNLISTEN stands behind its COMMIT in the same text \
     (docs/concepts/listen-notify.md)";

const TAKEN: &str = "a setting whose privilege or role was taken away cannot be set on another server: \
     the statement is refused and not run (docs/internals/session-state.md)";
const GONE_ROLE: &str = "PostgreSQL itself goes on under the oid of a role that is gone";

/// Weir learns that a start-up value is refused with the client's first statement.
pub(crate) const LOGIN: &str = "a login that PostgreSQL refuses for a start-up value";

const DESCRIBED: &str = "Describe of a statement that cannot be parsed any more is an error: PostgreSQL says so \
     at Bind, if it returns no rows (docs/internals/prepared-statements.md)";

const UNBOUND: &str = "a statement that cannot be parsed any more fails with that, also if a parameter is bad: \
     PostgreSQL reads parameters first (docs/internals/prepared-statements.md)";

const LATE: &str = "a Parse for which no server was free is resolved at its first use: under a type or table that has \
     changed since, if it cannot be parsed any more directly (docs/internals/prepared-statements.md)";

const LOST_TYPE: &str = "PostgreSQL itself looks for the oid of a column's type that is gone (XX000): a server without a \
     copy finds that the columns have changed (docs/internals/prepared-statements.md)";

const ENDED: &str = "a text that deals with a statement by name, whose columns have changed, ends the connection \
     (docs/internals/shared-names.md)";

/// SQLSTATEs of a statement that cannot be parsed any more.
const MISSING: [&str; 7] = [
    "25P02", "42P01", "42703", "42704", "42804", "42883", "3F000",
];

const CACHED: &str = "PostgreSQL itself may see within a transaction that a role was revoked, or not: \
     that depends on what its session has in its caches";

/// SQLSTATEs with which a server refuses a setting that has been taken away.
const REFUSED: [&str; 4] = ["42501", "42704", "22023", "0LP01"];

/// True if a statement of the administrator takes away what settings of clients may rest on.
pub(crate) fn is_risk(sql: &str) -> bool {
    sql.starts_with("revoke") || sql.starts_with("drop role") || sql.starts_with("alter role")
}

/// What came before a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Past {
    /// A transaction or batch of the client's has begun.
    pub(crate) is_inside: bool,
    /// See [`is_risk`].
    pub(crate) is_at_risk: bool,
    /// A client has prepared a text of more than 32 KiB.
    pub(crate) has_long: bool,
}

/// Judges two answers that are not alike.
pub(crate) fn judge(act: &Act, (expected, found): (&Answer, &Answer), past: Past) -> Verdict {
    let Past {
        is_inside,
        is_at_risk,
        has_long,
    } = past;
    let text = format!("{act:?}");
    let reads_sequence = text.contains("currval") || text.contains("lastval");
    // Errors that only one side has.
    let error = |one: &Answer, other: &Answer| {
        let mut lines = one.lines.iter();
        let found = lines.find(|line| line.starts_with("E ") && !other.lines.contains(line));
        found.cloned()
    };
    let (ours, theirs) = (error(expected, found), error(found, expected));
    let state = theirs.as_deref().and_then(|line| line.split(' ').nth(2));
    if reads_sequence && ours.is_none() && state == Some("55000") {
        return Verdict::Known(SEQUENCE);
    }
    let is_sequence_missing = |line: &String| line.contains(" 55000 ");
    if reads_sequence
        && is_inside
        && theirs.is_none()
        && ours.as_ref().is_some_and(is_sequence_missing)
    {
        return Verdict::Known(SEQUENCE_OF_OTHERS);
    }
    let is_unkept = |line: &String| line.contains("26000 unnamed prepared statement");
    if has_long && ours.is_none() && theirs.as_ref().is_some_and(is_unkept) {
        return Verdict::Known(UNKEPT);
    }
    let lower = text.to_lowercase();
    if ours.is_none()
        && lower.contains("parse")
        && lower.contains("do $$")
        && state.is_some_and(|state| MISSING.contains(&state))
    {
        return Verdict::Known(UNNAMEABLE);
    }
    let is_long = matches!(act, Act::Query(all) if all.iter().any(|sql| program::expanded(sql).len() > 32 * 1024));
    if ours.is_none() && state == Some("26000") && is_long {
        return Verdict::Known(UNREAD);
    }
    let own = ours.as_deref().and_then(|line| line.split(' ').nth(2));
    if lower.contains("execute")
        && state == Some("26000")
        && own.is_some_and(|own| MISSING.contains(&own) || own == "42601")
    {
        return Verdict::Known(GONE_NAME);
    }
    if is_described_alike(expected, found) || has_temporary_schema(expected, found) {
        return Verdict::Alike;
    }
    let describes = text.contains("Describe(83") || text.contains("Ask(Names");
    let is_gone = |line: &String| line.contains(" XX000 cache lookup failed for type");
    if describes
        && ours.as_ref().is_none_or(is_gone)
        && state.is_some_and(|state| MISSING.contains(&state))
    {
        return Verdict::Known(DESCRIBED);
    }
    let is_ended = |line: &String| line.starts_with("E FATAL") && line.contains(OUTDATED);
    if theirs.as_ref().is_some_and(is_ended) {
        return Verdict::Known(ENDED);
    }
    let missing = |answer: &Answer| {
        let codes =
            (answer.lines.iter()).filter_map(|line| line.strip_prefix("E ERROR ")?.get(..5));
        codes.filter(|code| MISSING.contains(code)).count()
    };
    if describes && theirs.is_none() && missing(expected) > missing(found) {
        return Verdict::Known(LATE);
    }
    let is_lost = |line: &String| line.contains("XX000 cache lookup failed for type");
    let is_outdated = |line: &String| line.contains(OUTDATED);
    if expected.lines.iter().any(is_lost) && theirs.as_ref().is_some_and(is_outdated) {
        return Verdict::Known(LOST_TYPE);
    }
    let is_bad_value = |line: &String| {
        line.split(' ')
            .nth(2)
            .is_some_and(|code| code.starts_with("22") || code == "08P01")
    };
    let is_missing = state.is_some_and(|state| MISSING.contains(&state));
    if text.contains("Bind") && ours.as_ref().is_some_and(is_bad_value) && is_missing {
        return Verdict::Known(UNBOUND);
    }
    if is_at_risk {
        let is_stale = |line: &String| line.contains("OID") || line.contains("role with");
        if ours.as_ref().is_some_and(is_stale) {
            return Verdict::Known(GONE_ROLE);
        }
        let is_cached = |line: &String| line.contains(" 42501 permission denied to set role");
        if theirs.is_none() && ours.as_ref().is_some_and(is_cached) {
            return Verdict::Known(CACHED);
        }
        if ours != theirs && state.is_some_and(|state| REFUSED.contains(&state)) {
            return Verdict::Known(TAKEN);
        }
    }
    Verdict::Differs
}

/// Judges notifications that are not alike. `is_split`: some of the client's LISTENs stood beside other statements, so that
/// its server listens as well.
pub(crate) fn judge_heard(
    text: &str,
    expected: &[String],
    found: &[String],
    is_split: bool,
) -> Verdict {
    let sorted = |lines: &[String]| {
        let mut lines = lines.to_vec();
        lines.sort_unstable();
        lines
    };
    if is_split && sorted(expected) == sorted(found) {
        return Verdict::Known(ORDER);
    }
    let mut rest = found.iter();
    let is_more = expected.iter().all(|line| rest.any(|other| other == line));
    let lower = text.to_lowercase();
    let ends = lower
        .find("commit")
        .is_some_and(|at| lower[at..].contains("unlisten"));
    if is_more && ends {
        return Verdict::Known(HEARD);
    }
    Verdict::Differs
}

/// The temporary schema that a server has made for an earlier client is there: PostgreSQL never drops it.
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

/// PostgreSQL describes the parameters of a statement before it says that its columns have changed or cannot be had.
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
