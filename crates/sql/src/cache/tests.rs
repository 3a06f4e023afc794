//! Tests of the judge's caches.

use std::collections::HashMap;

use super::generations::{BYTES_MAX, TEXT_MAX, TEXTS_MAX};
use super::*;
use crate::access::{Pattern, Why};
use crate::short::{SHORT_COUNT, SHORT_MAX};

#[test]
fn a_verdict_is_found_again_and_the_memory_stays_bounded() {
    let mut judge = Judge::new(Functions::default());
    let kept = judge.effects(b"SET ROLE kept", false).unwrap();
    for number in 0..5000 {
        let text = format!("SET ROLE n{number}");
        assert!(judge.effects(text.as_bytes(), false).is_some());
        let again = judge.effects(b"SET ROLE kept", false).unwrap();
        assert!(Arc::ptr_eq(&kept, &again), "after {number}");
    }
    assert!(judge.effects.young.len() + judge.effects.old.len() <= 2 * TEXTS_MAX);
}

#[test]
fn bytes_are_bounded_too() {
    let mut judge = Judge::new(Functions::default());
    for number in 0..200 {
        let text = format!("SET NAMES '{number}{}'", "x".repeat(TEXT_MAX / 2));
        assert!(judge.effects(text.as_bytes(), false).is_some());
    }
    let bytes = |texts: &HashMap<Box<[u8]>, _>| texts.keys().map(|text| text.len()).sum::<usize>();
    assert!(bytes(&judge.effects.young) <= BYTES_MAX && bytes(&judge.effects.old) <= BYTES_MAX);
    assert_eq!(bytes(&judge.effects.young), judge.effects.young_bytes);
    judge.effects(
        &[b"SET NAMES ".as_slice(), &[b'1'; TEXT_MAX]].concat(),
        false,
    );
    assert!(
        judge
            .effects
            .young
            .keys()
            .all(|text| text.len() <= TEXT_MAX)
    );
}

#[test]
fn a_harmless_text_is_found_again_and_never_taken_for_another() {
    let mut judge = Judge::new(Functions::default());
    for round in 0..3 {
        for number in 0..300 {
            let harmless = format!("SELECT {number}");
            assert_eq!(judge.effects(harmless.as_bytes(), true), None, "{round}");
            let other = format!("LISTEN n{number}");
            assert!(judge.effects(other.as_bytes(), false).is_some(), "{round}");
        }
    }
    assert_eq!(judge.harmless.slots.len(), SHORT_COUNT);
    for length in [0, 1, 7, 8, 9, SHORT_MAX - 1, SHORT_MAX, SHORT_MAX + 1, 300] {
        let text = format!("select {}", "1".repeat(length));
        for _ in 0..2 {
            assert_eq!(judge.effects(text.as_bytes(), true), None);
            assert!(
                judge
                    .effects(text.replace("select", "listen").as_bytes(), true)
                    .is_some()
            );
        }
    }
}

#[test]
fn what_was_harmless_without_a_pin_is_looked_at_again_with_one() {
    let mut judge = Judge::new(Functions::default());
    for text in ["DROP TABLE t", "CLOSE c", "DROP TABLE t"] {
        assert_eq!(judge.effects(text.as_bytes(), false), None, "{text}");
        assert!(judge.effects(text.as_bytes(), true).is_some(), "{text}");
    }
    // Conversely, a scan with a pin suffices for one without.
    assert_eq!(judge.effects(b"SELECT 1", true), None);
    assert_eq!(judge.effects(b"SELECT 1", false), None);
    assert!(judge.harmless.find(slot(b"SELECT 1"), b"SELECT 1") == Some(&true));
}

#[test]
fn what_ends_a_pin_counts_only_while_pinned() {
    let mut judge = Judge::new(Functions::default());
    for text in ["DROP TABLE t", "CLOSE c", "SELECT pg_advisory_unlock(1)"] {
        assert!(
            judge.effects(text.as_bytes(), true).unwrap().frees,
            "{text}"
        );
        assert_eq!(judge.effects(text.as_bytes(), false), None, "{text}");
    }
}

fn with_lists(judge: &mut Judge, primary: &str, read: &str) {
    let list = |texts: &str| {
        let texts = texts.split_whitespace();
        texts.map(|text| Pattern::read(text).unwrap()).collect()
    };
    judge.set_names(Names::new(list(primary), list(read)));
}

#[track_caller]
fn session(judge: &mut Judge, text: &str, state: &str) {
    match &*judge.access(text.as_bytes()) {
        Access::Primary(Cause::Session(found)) => assert_eq!(*found, state, "{text}"),
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn what_a_text_does_to_its_session_belongs_to_the_primary() {
    let mut judge = Judge::new(Functions::default());
    // Lists cannot make these functions read.
    with_lists(
        &mut judge,
        "",
        "pg_advisory* pg_try_advisory* nextval currval set_config query_to_xml pg_listening_channels dblink_connect setseed",
    );
    for (text, state) in [
        ("SELECT pg_advisory_lock(1)", "advisory lock"),
        ("SELECT pg_catalog.pg_try_advisory_lock(1)", "advisory lock"),
        ("SELECT pg_advisory_unlock(1)", "lock or cursor"),
        ("SELECT nextval('s')", "sequence"),
        ("SELECT currval('s')", "sequence"),
        ("SELECT set_config('a.b', 'c', false)", "setting"),
        (
            "SELECT query_to_xml('select 1', true, true, '')",
            "code that is not known",
        ),
        ("SELECT pg_listening_channels()", "listen"),
        ("SELECT dblink_connect('x')", "function"),
        ("SELECT setseed(0.5)", "seed"),
        (
            "DECLARE c CURSOR WITH HOLD FOR SELECT 1",
            "cursor with hold",
        ),
        ("PREPARE p AS SELECT 1", "prepare"),
        ("SET SEED = 0.5", "seed"),
        ("SET plpgsql.unknown = 1", "load"),
    ] {
        session(&mut judge, text, state);
        session(&mut judge, text, state);
    }
    for text in [
        "SET search_path = a",
        "SET TIME ZONE 'UTC'",
        "RESET ALL",
        "DISCARD ALL",
        "DEALLOCATE p",
        "CLOSE c",
        "COMMIT",
        "",
    ] {
        assert_eq!(*judge.access(text.as_bytes()), Access::Anywhere, "{text}");
    }
    for text in ["SELECT 1", "DECLARE c CURSOR FOR SELECT 1", "TABLE t"] {
        assert!(judge.access(text.as_bytes()).is_read(), "{text}");
    }
    for text in [
        "EXECUTE p",
        "LISTEN a",
        "UNLISTEN *",
        "DO 'x'",
        "CREATE TEMP TABLE t ()",
    ] {
        let access = judge.access(text.as_bytes());
        assert!(matches!(*access, Access::Primary(_)), "{text}: {access:?}");
    }
}

#[test]
fn where_a_text_may_run_is_found_again_and_the_memory_stays_bounded() {
    let mut judge = Judge::new(Functions::default());
    // Too long for a slot, so each use counts in the generations.
    let long = format!("TABLE kept{}", " ".repeat(SHORT_MAX));
    let kept = judge.access(long.as_bytes());
    for number in 0..5000 {
        for text in [
            format!("TABLE n{number}"),
            format!("SELECT a FROM t WHERE k = {number}"),
            format!("UPDATE t SET a = {number}"),
        ] {
            let verdict = judge.access(text.as_bytes());
            assert_eq!(verdict.is_read(), !text.starts_with("UPDATE"), "{text}");
        }
        let again = judge.access(long.as_bytes());
        assert!(Arc::ptr_eq(&kept, &again), "after {number}");
    }
    let parsed = &judge.accesses.parsed;
    assert!(parsed.young.len() + parsed.old.len() <= 2 * TEXTS_MAX);
    assert_eq!(judge.accesses.short.slots.len(), SHORT_COUNT);
    let (one, other) = (
        judge.access(b"DELETE FROM a"),
        judge.access(b"DELETE FROM b"),
    );
    assert!(Arc::ptr_eq(&one, &other), "a new text allocates nothing");
}

#[test]
fn nothing_is_kept_before_somebody_asks_where_a_text_may_run() {
    let mut judge = Judge::new(Functions::default());
    for text in ["SELECT 1", "SET ROLE a", "LISTEN a"] {
        judge.effects(text.as_bytes(), true);
    }
    let accesses = &judge.accesses;
    assert_eq!(accesses.short.slots.capacity(), 0);
    assert_eq!(accesses.parsed.young.capacity(), 0);
}

#[test]
fn lists_count_from_the_moment_they_are_set_and_outlive_a_catalogue() {
    let mut judge = Judge::new(Functions::default());
    let text = b"SELECT search(1), upper(a) FROM t";
    let cause = |judge: &mut Judge| match &*judge.access(text) {
        Access::Primary(Cause::Function(name, why)) => Some((name.clone(), *why)),
        _ => None,
    };
    let version = judge.access_version();
    assert_eq!(cause(&mut judge), Some(("search".into(), Why::Unknown)));
    with_lists(&mut judge, "", "search");
    assert_ne!(judge.access_version(), version);
    assert_eq!(cause(&mut judge), None);
    let version = judge.access_version();
    judge.set_catalogue(&Arc::default(), 1);
    assert_ne!(judge.access_version(), version);
    assert_eq!(cause(&mut judge), None);
    with_lists(&mut judge, "upper", "search");
    assert_eq!(cause(&mut judge), Some(("upper".into(), Why::Listed)));
}
