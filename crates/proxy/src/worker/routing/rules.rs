//! Rules of a router, from the configuration and from a session's own settings.

use std::sync::Arc;

use memchr::memchr2;
use weir_config::{
    Cluster, ReadConsistency, ReadFallback, ReadWriteSplit, SplitBegin, Target as ConfiguredTarget,
};
use weir_route::{Consistency, Fallback, RouteState, Rules, Split, Target, Wanted};
use weir_session::settings::Settings as Asked;
use weir_sql::Isolation;

use super::token;

/// Setting that decides if a commit waits for its WAL.
const COMMIT_MODE: &[u8] = b"synchronous_commit";

/// Returns the rules of a database's router. `az` is the zone of this process.
pub(super) fn rules(cluster: &Cluster, az: &str, comment_hints: bool) -> Rules {
    Rules {
        target: match cluster.target {
            ConfiguredTarget::Any => Target::Any,
            ConfiguredTarget::PreferStandby => Target::PreferStandby,
            ConfiguredTarget::Primary => Target::Primary,
            ConfiguredTarget::ReadOnly => Target::ReadOnly,
            ConfiguredTarget::ReadWrite => Target::ReadWrite,
            ConfiguredTarget::Standby => Target::Standby,
        },
        split: match cluster.split {
            ReadWriteSplit::Auto => Split::Auto,
            ReadWriteSplit::Hint => Split::Hint,
            ReadWriteSplit::Off => Split::Off,
        },
        until_write: cluster.split_begin == SplitBegin::UntilWrite,
        consistency: match cluster.consistency {
            ReadConsistency::Eventual => Consistency::Eventual,
            ReadConsistency::Global => Consistency::Global,
            ReadConsistency::Primary => Consistency::Primary,
            ReadConsistency::Session => Consistency::Session,
        },
        read_wait: cluster.read_wait,
        fallback: match cluster.fallback {
            ReadFallback::Error => Fallback::Error,
            ReadFallback::Primary => Fallback::Primary,
        },
        fallback_max_share: cluster.fallback_max_share,
        failover_hold: cluster.failover_hold,
        max_staleness: cluster.max_staleness,
        max_lag: cluster.max_lag,
        read_guard: cluster.read_guard,
        comment_hints,
        az: az.into(),
    }
}

/// Reads the settings of a session that decide on its hosts. Values that mean nothing leave the decision to the database's
/// rules.
pub(super) fn read_settings(state: &mut RouteState, settings: &Arc<Asked>) {
    let word = |name: &str| settings.get(name).map(str::to_ascii_lowercase);
    let wanted = word("weir.role").and_then(|word| role(&word));
    state.role = wanted.unwrap_or_default();
    state.split = word("weir.read_write_split").and_then(|word| split(&word));
    state.consistency = word("weir.read_consistency").and_then(|word| consistency(&word));
    state.token = token::token(settings.get("weir.min_lsn"));
    let isolation = word("default_transaction_isolation");
    state.isolation = isolation.as_deref().and_then(Isolation::named);
    state.is_read_only = word("default_transaction_read_only").is_some_and(|value| is_on(&value));
}

/// Reads a value of `weir.role`, in lower case.
pub(super) fn role(word: &str) -> Option<Wanted> {
    match word {
        "auto" => Some(Wanted::Auto),
        "primary" => Some(Wanted::Primary),
        "replica" => Some(Wanted::Replica),
        _ => None,
    }
}

/// Reads a value of `weir.read_write_split`, in lower case.
pub(super) fn split(word: &str) -> Option<Split> {
    match word {
        "auto" => Some(Split::Auto),
        "hint" => Some(Split::Hint),
        "off" => Some(Split::Off),
        _ => None,
    }
}

/// Reads a value of `weir.read_consistency`, in lower case.
pub(super) fn consistency(word: &str) -> Option<Consistency> {
    match word {
        "eventual" => Some(Consistency::Eventual),
        "global" => Some(Consistency::Global),
        "primary" => Some(Consistency::Primary),
        "session" => Some(Consistency::Session),
        _ => None,
    }
}

/// True for the spellings of a true boolean, of which PostgreSQL accepts any unique beginning.
pub(super) fn is_on(value: &str) -> bool {
    let is_beginning = |word: &str| !value.is_empty() && word.starts_with(value);
    value == "1" || value == "on" || is_beginning("true") || is_beginning("yes")
}

/// True if bytes of a client name the setting that decides if a commit waits for its WAL.
pub(super) fn names_commit_mode(input: &[u8]) -> bool {
    let len = COMMIT_MODE.len();
    let mut rest = input;
    // A character that is rare in texts is looked for, so few places are compared.
    while let Some(at) = memchr2(b'y', b'Y', rest) {
        let found = at
            .checked_sub(1)
            .and_then(|from| rest.get(from..from + len));
        if found.is_some_and(|found| found.eq_ignore_ascii_case(COMMIT_MODE)) {
            return true;
        }
        rest = rest.get(at + 1..).unwrap_or_default();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_chooses_by_its_settings() {
        let read = |pairs: &[(&str, &str)]| {
            let mut state = RouteState::default();
            read_settings(
                &mut state,
                &Arc::new(Asked::from_pairs(pairs.iter().copied())),
            );
            state
        };
        assert_eq!(read(&[("weir.role", "Replica")]).role, Wanted::Replica);
        assert_eq!(read(&[("weir.role", "?")]).role, Wanted::Auto);
        assert_eq!(
            read(&[("weir.read_write_split", "off")]).split,
            Some(Split::Off)
        );
        let global = read(&[("weir.read_consistency", "GLOBAL")]);
        assert_eq!(global.consistency, Some(Consistency::Global));
        let level = read(&[("default_transaction_isolation", "Repeatable Read")]).isolation;
        assert_eq!(level, Some(Isolation::RepeatableRead));
        for (value, expect) in [
            ("on", true),
            ("t", true),
            ("off", false),
            ("", false),
            ("1", true),
        ] {
            let read = read(&[("default_transaction_read_only", value)]);
            assert_eq!(read.is_read_only, expect, "{value}");
        }
    }

    #[test]
    fn the_commit_mode_is_found_wherever_it_stands() {
        for text in [
            "set local Synchronous_Commit = off",
            "synchronous_commit",
            "yyysynchronous_commity",
        ] {
            assert!(names_commit_mode(text.as_bytes()), "{text}");
        }
        for text in ["", "y", "synchronous_commi", "select 'synchronous commit'"] {
            assert!(!names_commit_mode(text.as_bytes()), "{text}");
        }
    }
}
