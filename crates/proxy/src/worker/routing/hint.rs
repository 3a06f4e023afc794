//! Hints: what the comment of a text says about the host of its transaction (`comment_hints = 1`).

use std::fmt;
use std::time::Duration;

use weir_config::parse_seconds;
use weir_route::{RouteState, Split, Wanted};
use weir_rules::RouteTo;
use weir_sql::hints;
use weir_watch::Snapshot;

use super::rules::{consistency, role, split};

/// Names of hints.
const NAMES: &str = "role, read_write_split, read_consistency, max_staleness, timeout";

/// Facts of a session with the hints of a text.
#[derive(Debug)]
pub(super) struct Hinted {
    /// The facts that decide on this transaction.
    pub(super) state: RouteState,
    /// First hint that was ignored.
    pub(super) wrong: Option<WrongHint>,
}

/// Hint without a meaning.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WrongHint {
    name: Box<str>,
    value: Box<str>,
}

impl fmt::Display for WrongHint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, value } = self;
        write!(
            f,
            "the hint {name}={value} in a comment is ignored: hints are {NAMES}, with the values of the settings and options \
             of these names"
        )
    }
}

/// Returns the facts of a session as the hints of a text change them. None for a text without hints.
pub(super) fn hinted(text: &[u8], session: &RouteState) -> Option<Hinted> {
    let mut found: Option<Hinted> = None;
    hints(text, &mut |name, value| {
        let hinted = found.get_or_insert_with(|| Hinted {
            state: session.clone(),
            wrong: None,
        });
        if !take(&mut hinted.state, name, value) && hinted.wrong.is_none() {
            hinted.wrong = Some(WrongHint {
                name: name.into(),
                value: value.into(),
            });
        }
    });
    found
}

/// Describes the first hint of a text that has no meaning.
pub(in crate::worker) fn wrong_hint(text: &[u8]) -> Option<String> {
    let wrong = hinted(text, &RouteState::default())?.wrong?;
    Some(wrong.to_string())
}

/// Returns the facts of a session as a query rule changes them, behind the hints of the text. A host that the database does not
/// have decides nothing.
pub(super) fn by_rule(
    to: &RouteTo,
    hints: Option<Hinted>,
    session: &RouteState,
    hosts: &Snapshot,
) -> Hinted {
    let mut hinted = hints.unwrap_or_else(|| Hinted {
        state: session.clone(),
        wrong: None,
    });
    let state = &mut hinted.state;
    match to {
        RouteTo::Primary => state.role = Wanted::Primary,
        // What does not read stays on the primary.
        RouteTo::Replica => (state.role, state.split) = (Wanted::Auto, Some(Split::Auto)),
        RouteTo::Host(name) => {
            let host = hosts.hosts.iter().find(|host| is_named(&host.name, name));
            let primary = hosts.primary().map(|primary| primary.host);
            match host.map(|host| host.host) {
                Some(host) if Some(host) == primary => state.role = Wanted::Primary,
                Some(host) => {
                    (state.role, state.split) = (Wanted::Auto, Some(Split::Auto));
                    state.only = Some(host);
                }
                None => {}
            }
        }
        // The client is there by now.
        RouteTo::Database(_) => {}
    }
    hinted
}

/// True if a host has this name, with or without its port.
fn is_named(host: &str, name: &str) -> bool {
    let without_port = || {
        host.rsplit_once(':')
            .map(|(address, _)| address.trim_matches(['[', ']']))
    };
    host == name || without_port() == Some(name)
}

/// Lets a hint decide. False if its name or value has no meaning.
fn take(state: &mut RouteState, name: &str, value: &str) -> bool {
    let value = value.to_ascii_lowercase();
    match name {
        "role" => role(&value).map(|role| state.role = role),
        "read_write_split" => split(&value).map(|split| state.split = Some(split)),
        "read_consistency" => consistency(&value).map(|level| state.consistency = Some(level)),
        "max_staleness" => time(&value).map(|max| state.max_staleness = max),
        // The session reads it when the statement runs.
        "timeout" => time(&value).map(drop),
        _ => None,
    }
    .is_some()
}

/// Reads a time as the option does; 0 = no limit.
fn time(value: &str) -> Option<Option<Duration>> {
    let time = parse_seconds(value)?;
    Some((!time.is_zero()).then_some(time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_route::{Consistency, Split, Wanted};

    fn read(text: &str) -> (RouteState, Option<String>) {
        let hinted = hinted(text.as_bytes(), &RouteState::default()).unwrap();
        (hinted.state, hinted.wrong.map(|wrong| wrong.to_string()))
    }

    #[test]
    fn a_hint_decides_like_the_setting_of_its_name() {
        let all = "/* weir: role=Replica read_write_split=auto read_consistency=eventual max_staleness=500ms */ SELECT 1";
        let (state, wrong) = read(all);
        assert_eq!(state.role, Wanted::Replica);
        assert_eq!(state.split, Some(Split::Auto));
        assert_eq!(state.consistency, Some(Consistency::Eventual));
        assert_eq!(state.max_staleness, Some(Duration::from_millis(500)));
        assert_eq!(wrong, None);
        assert!(hinted(b"/* a */ SELECT 1", &RouteState::default()).is_none());
    }

    #[test]
    fn a_hint_without_a_meaning_is_named_and_others_count() {
        for wrong in ["role=slave", "rôle=replica", "max_staleness=soon"] {
            let (state, told) = read(&format!(
                "/* weir: {wrong} read_write_split=off */ SELECT 1"
            ));
            assert_eq!(state.split, Some(Split::Off), "{wrong}");
            assert!(told.unwrap().contains(wrong), "{wrong}");
        }
        assert_eq!(read("/* weir: role=auto */ SELECT 1").0.role, Wanted::Auto);
        let told = wrong_hint(b"/* weir: role=primary timeout=abc */ SELECT 1");
        assert!(
            told.unwrap()
                .starts_with("the hint timeout=abc in a comment is ignored: ")
        );
        assert_eq!(
            wrong_hint(b"/* weir: timeout=2s role=replica */ SELECT 1"),
            None
        );
        assert_eq!(wrong_hint(b"SELECT 1"), None);
    }
}
