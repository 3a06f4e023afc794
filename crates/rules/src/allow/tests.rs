//! Allow-lists: statements that are known, and others that look like them.

use std::cell::RefCell;

use weir_sql::{Fingerprint, Shaper};

use super::*;

thread_local! {
    static TOLD: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

fn tell(news: &News<'_>) {
    TOLD.with_borrow_mut(|told| told.push(news.entry.text.to_string()));
}

fn known(text: &str) -> Known {
    Entry::of(text.as_bytes()).0
}

fn list(texts: &[&str]) -> Arc<StatementList> {
    let mut list = StatementList::default();
    for text in texts {
        let (known, entry) = Entry::of(text.as_bytes());
        list.insert(known, entry);
    }
    Arc::new(list)
}

fn allow(policy: Policy, listed: &[&str], record: &Arc<Record>) -> AllowList {
    AllowList::new("app", policy, list(listed), Arc::clone(record), tell)
}

/// Judges each statement of a text. True if all pass.
fn passes(allow: &mut AllowList, text: &str) -> bool {
    let mut is_refused = false;
    Shaper::new(1).shapes(text.as_bytes(), true, &mut |shape, place| {
        let alone = &text.as_bytes()[place];
        is_refused |= allow.judge(Some(shape), alone, Stage::Run).is_some();
    });
    !is_refused
}

#[test]
fn a_statement_is_known_however_it_is_written() {
    for (one, other) in [
        ("SET a = 'x'", "set A = 'y'"),
        ("CREATE TABLE t (a int)", "create table t(a int) ; -- now"),
        (
            "SELECT a FROM t WHERE b IN (1)",
            "select a\nfrom t where b in ($1, $2)",
        ),
        ("/* x */ DO 'x'", "DO 'x';"),
    ] {
        assert_eq!(known(one), known(other), "{one}");
    }
    for (one, other) in [
        ("DO 'x'", "DO 'y'"),
        ("SELECT a FROM t", "SELECT a FROM \"T\""),
        ("SELECT a.* FROM t a, u b", "SELECT a.* FROM t b, u a"),
        ("COPY t FROM 'a'", "COPY t FROM 'b'"),
        ("SELECT 'a\\'", "SELECT 'b\\'"),
    ] {
        assert_ne!(known(one), known(other), "{one}");
    }
    let one = Fingerprint::exact("SELECT a.* FROM t a, u b");
    assert_eq!(one, Fingerprint::exact("SELECT a.* FROM t b, u a"));
    let long = |end: &str| format!("SELECT {}{end}", "a, ".repeat(10_000));
    assert_ne!(known(&long("b")), known(&long("c")));
}

#[test]
fn an_entry_stands_for_the_statement_from_which_it_was_made() {
    let long = format!("SELECT {}b", "a, ".repeat(10_000));
    for (text, form) in [
        ("SELECT a -> 'x' FROM t WHERE b = $1", "text"),
        ("SELECT E'a\\'b', 'ü'", "text"),
        ("CREATE TABLE t (a int)", "text"),
        ("DO $$ BEGIN x; END $$", "whole"),
        ("SET ROLE 'a'", "whole"),
        ("SELECT 'a\\'", "hash"),
        (&long, "hash"),
        ("no SQL 'x'", "whole"),
    ] {
        let (known, entry) = Entry::of(text.as_bytes());
        assert_eq!(entry.known(), Ok(known), "{text}");
        let found = match entry.form {
            Form::Text => "text",
            Form::Whole => "whole",
            Form::Hash(_) => "hash",
        };
        assert_eq!(found, form, "{text}");
    }
    let (known, _) = Entry::of(b"x");
    assert_eq!(known.to_string().parse(), Ok(known));
    for bad in ["", "x", &"g".repeat(64), &"ü".repeat(32), &"+1".repeat(32)] {
        assert!(bad.parse::<Known>().is_err(), "{bad}");
    }
}

#[test]
fn an_entry_that_stands_for_nothing_is_told() {
    let entry = |text: &str, form| Entry {
        text: text.into(),
        form,
        fingerprint: None,
    };
    let bad = |text, form| entry(text, form).known().unwrap_err();
    assert_eq!(bad("", Form::Text), BadEntry::Unclear);
    assert_eq!(bad("SELECT 1; SELECT 2", Form::Text), BadEntry::Unclear);
    assert_eq!(bad("SELECT 'a", Form::Whole), BadEntry::Unclear);
    assert_eq!(bad("DO 'x'", Form::Text), BadEntry::Literals);
    // A DO without its body stands for no DO.
    let blank = entry("DO ?", Form::Text).known();
    assert!(blank != Ok(known("DO 'x'")));
    // A reviewer may write any statement about data by hand.
    let hand = entry("select a from t where b = 5", Form::Text).known();
    assert_eq!(hand, Ok(known("SELECT a FROM t WHERE b = 'x'")));
}

#[test]
fn what_was_learnt_passes_when_the_list_is_enforced() {
    let record = Arc::default();
    let texts = [
        "SELECT a FROM t WHERE b = 1",
        "DO 'x'",
        "SET application_name = 'x'",
        "INSERT INTO t VALUES (1, 'x'); UPDATE t SET a = 'a\\'",
    ];
    let mut learns = allow(Policy::Learn, &[], &record);
    assert!(texts.iter().all(|text| passes(&mut learns, text)));
    let learnt = record.statements();
    assert_eq!(learnt.len(), 5);
    let mut list = StatementList::default();
    for one in learnt {
        assert_eq!(one.entry.known(), Ok(one.known));
        list.insert(one.known, (*one.entry).clone());
    }
    let (list, record) = (Arc::new(list), Arc::default());
    let mut enforces = AllowList::new("app", Policy::Enforce, list, Arc::clone(&record), tell);
    for text in texts {
        assert!(passes(&mut enforces, text), "{text}");
        assert!(passes(&mut enforces, text), "{text}, again");
    }
    for text in [
        "SELECT a FROM u WHERE b = 1",
        "DO 'y'",
        "SELECT a FROM t WHERE b = 1; DROP TABLE t",
        "UPDATE t SET a = 'a\\'' -- '",
        "BEGIN; DROP TABLE t",
        "COMMIT PREPARED 'x'",
    ] {
        assert!(!passes(&mut enforces, text), "{text}");
        assert!(!passes(&mut enforces, text), "{text}, again");
    }
    assert!(passes(&mut enforces, "BEGIN; SAVEPOINT x; ROLLBACK"));
    assert_eq!(record.totals().refused, 12);
}

#[test]
fn a_constant_that_may_end_earlier_is_not_taken_for_a_value() {
    // With standard_conforming_strings off, the constant ends in front of UNION.
    let record = Arc::default();
    let mut enforces = allow(Policy::Enforce, &["SELECT a FROM t WHERE b = 'x'"], &record);
    assert!(passes(&mut enforces, "SELECT a FROM t WHERE b = 'y'"));
    let text = "SELECT a FROM t WHERE b = 'a\\'' UNION SELECT c FROM u --'";
    assert!(!passes(&mut enforces, text));
    assert!(passes(&mut enforces, "SELECT a FROM t WHERE b = 'a\\b'"));
}

#[test]
fn a_new_statement_is_told_once_and_counted_whenever_it_runs() {
    TOLD.take();
    let record = Arc::default();
    let mut one = allow(Policy::Warn, &["SELECT 1"], &record);
    let mut other = allow(Policy::Warn, &["SELECT 1"], &record);
    for text in ["SELECT 1", "SELECT b", "SELECT  b"] {
        assert!(passes(&mut one, text) && passes(&mut other, text));
    }
    assert_eq!(TOLD.take(), ["SELECT b"]);
    assert_eq!(record.totals().warned, 4);
    let mut enforces = allow(Policy::Enforce, &["SELECT 1"], &record);
    assert!(!passes(&mut enforces, "SELECT b"));
    assert_eq!(TOLD.take(), ["SELECT b"]);
    assert_eq!(record.statements()[0].standing, Standing::Refused);
    let shape = Shaper::new(1).first(b"SELECT b", true);
    let rejection = enforces.judge(shape, b"SELECT b", Stage::Prepare).unwrap();
    assert_eq!(
        rejection.message,
        "statement is not in the list of user app"
    );
    assert!(rejection.hint.starts_with("It has fingerprint "));
}

#[test]
fn a_record_has_a_bound() {
    let record = Arc::default();
    let mut learns = allow(Policy::Learn, &[], &record);
    for number in 0..10_010 {
        passes(&mut learns, &format!("SELECT a{number}"));
    }
    let totals = record.totals();
    assert_eq!((totals.recorded, totals.left_out), (10_000, 10));
    assert!(learns.decisions.current.len() + learns.decisions.before.len() <= 2 * SHAPES_MAX);
    let record = Arc::default();
    let mut learns = allow(Policy::Learn, &[], &record);
    let body = "x".repeat(16_000);
    for number in 0..600 {
        let text = format!("DO '{number}{body}'");
        assert!(learns.judge(None, text.as_bytes(), Stage::Run).is_none());
    }
    assert!(record.totals().left_out > 0);
}

#[test]
fn what_cannot_be_read_is_refused_only_by_an_enforced_list() {
    let record = Arc::default();
    let warns = allow(Policy::Warn, &[], &record);
    assert!(warns.judge_unread().is_none() && warns.judge_function().is_none());
    let enforces = allow(Policy::Enforce, &[], &record);
    assert!(enforces.judge_unread().is_some() && enforces.judge_unknown().is_some());
    let totals = record.totals();
    assert_eq!((totals.unread, totals.refused), (4, 2));
}
