//! Tests of the counts: which rule a statement counts for, and what an input leaves open.

use super::*;

/// Time at which the tests take place.
const NOW: i64 = 1_800_000_000;

fn rules(text: &str) -> Vec<QueryRule> {
    crate::load::rules_of("rules.toml", text).unwrap()
}

/// Rule with a condition.
fn rule(name: &str, more: &str) -> String {
    format!("[[rules]]\nname = \"{name}\"\naction = \"reject\"\n{more}\n")
}

fn sent(text: &str) -> Seen<'_> {
    Seen {
        text: text.as_bytes(),
        is_whole: true,
        calls: 1,
        ..Seen::default()
    }
}

/// Statements that each rule has met, and those that met none.
fn counts(rules: &[QueryRule], texts: &[&str]) -> (Vec<u64>, u64) {
    let mut tally = Tally::new(rules, InputKind::Log, 3, NOW);
    texts.iter().for_each(|text| tally.add(sent(text)));
    let counts = tally.counts.iter().map(|count| count.statements);
    (counts.collect(), tally.unmet.statements)
}

const TEXTS: [&str; 4] = [
    "SELECT a FROM orders WHERE b = 1",
    "SELECT a FROM orders WHERE b = 2 -- x",
    "SELECT a FROM other",
    "no SQL",
];

#[test]
fn a_statement_counts_for_the_first_rule_that_it_meets() {
    let first = rule("first", "match.tables = \"orders\"");
    let second = rule("second", "match.kind = \"select\"");
    let rules = rules(&format!("{first}{second}"));
    assert_eq!(counts(&rules, &TEXTS), (vec![2, 1], 1));
}

#[test]
fn later_rules_count_too_behind_one_that_does_not_decide() {
    let second = rule("second", "match.kind = \"select\"");
    for more in ["then = \"next\"", "dry_run = true", "sample = \"5%\""] {
        let first = rule("first", &format!("match.tables = \"orders\"\n{more}"));
        let rules = rules(&format!("{first}{second}"));
        assert_eq!(counts(&rules, &TEXTS), (vec![2, 3], 1), "{more}");
    }
}

#[test]
fn rules_that_rewrite_are_asked_first_and_leave_the_others_theirs() {
    let first = rule("first", "match.tables = \"orders\"");
    let rewrite = |name: &str| {
        format!(
            "[[rules]]\nname = \"{name}\"\naction = \"rewrite\"\n\
             match.fingerprint = \"SELECT a FROM orders WHERE b = $1\"\nto = \"SELECT a FROM orders WHERE b = $1 LIMIT 1\"\n"
        )
    };
    let rules = rules(&format!("{first}{}{}", rewrite("second"), rewrite("third")));
    assert_eq!(counts(&rules, &TEXTS), (vec![2, 2, 0], 2));
}

#[test]
fn a_rule_that_has_ended_meets_nothing() {
    let ended = rule(
        "ended",
        "match.tables = \"orders\"\nexpires = 2020-01-01T00:00:00Z",
    );
    let second = rule("second", "match.tables = \"orders\"");
    let rules = rules(&format!("{ended}{second}"));
    assert_eq!(counts(&rules, &TEXTS), (vec![0, 2], 2));
}

#[test]
fn texts_and_comments_decide_in_a_log() {
    let text = rule("text", "match.text = \"b = 2\"");
    let comment = rule("comment", "match.comment.route = \"/cart*\"");
    let rules = rules(&format!("{text}{comment}"));
    let texts = ["SELECT b = 2", "SELECT 1 /*route='%2Fcart'*/", "SELECT 1"];
    assert_eq!(counts(&rules, &texts), (vec![1, 1], 1));
}

#[test]
fn statements_of_one_text_count_apart_and_their_time_once() {
    let rules = rules(&rule("r", "match.kind = \"select\""));
    let mut tally = Tally::new(&rules, InputKind::Log, 3, NOW);
    tally.add(Seen {
        server_us: Some(500),
        ..sent("SELECT 1; SELECT a FROM t; DELETE FROM t")
    });
    tally.add(Seen {
        server_us: Some(7),
        ..sent("SELECT 2")
    });
    let [count] = tally.counts.as_slice() else {
        panic!();
    };
    assert_eq!((count.statements, count.server_us), (3, 507));
    assert_eq!(count.examples, ["SELECT ?", "SELECT a FROM t"]);
    assert_eq!((tally.unmet.statements, tally.unmet.server_us), (1, 500));
    assert!(tally.has_times);
}

#[test]
fn examples_are_few_and_have_no_literals() {
    let rules = rules(&rule("r", "match.kind = \"select\""));
    let mut tally = Tally::new(&rules, InputKind::Log, 2, NOW);
    for text in [
        "SELECT 'secret'",
        "SELECT 'other' /* token */",
        "SELECT a",
        "SELECT b",
    ] {
        tally.add(sent(text));
    }
    assert_eq!(tally.counts[0].statements, 4);
    assert_eq!(tally.counts[0].examples, ["SELECT ?", "SELECT a"]);
}

#[test]
fn conditions_about_clients_hold_as_far_as_the_input_tells() {
    let more = "match.kind = \"select\"\nmatch.database = \"shop\"\nmatch.user = \"b*\"\nmatch.application_name = \"cart\"\n\
                match.client_addr = \"10.0.0.0/8\"\nmatch.port = 6433";
    let rules = rules(&rule("r", more));
    let hits = |client: Client<'_>| {
        let mut tally = Tally::new(&rules, InputKind::Csvlog, 0, NOW);
        tally.add(Seen {
            client,
            ..sent("SELECT 1")
        });
        tally.counts[0].statements
    };
    let known = Client {
        database: Some("shop"),
        user: Some("bob"),
        application: Some("cart"),
    };
    assert_eq!(hits(known), 1);
    assert_eq!(hits(Client::default()), 1);
    for other in [
        Client {
            database: Some("x"),
            ..known
        },
        Client {
            user: Some("x"),
            ..known
        },
        Client {
            application: Some("x"),
            ..known
        },
    ] {
        assert_eq!(hits(other), 0, "{other:?}");
    }
    let assumed = |kind| Tally::new(&rules, kind, 0, NOW).assumed(&rules[0]).len();
    let kinds = [
        InputKind::Digests,
        InputKind::Csvlog,
        InputKind::Log,
        InputKind::Statements,
    ];
    assert_eq!(kinds.map(assumed), [3, 2, 5, 5]);
}

#[test]
fn digests_decide_neither_about_texts_nor_about_what_was_cut() {
    let text = rule("text", "match.text = \"a\"\nmatch.kind = \"select\"");
    let second = rule("second", "match.kind = \"select\"");
    let rules = rules(&format!("{text}{second}"));
    let mut tally = Tally::new(&rules, InputKind::Digests, 3, NOW);
    let facts = |text| Digest::Facts(Facts::of(text).map(Box::new));
    for (text, digest) in [
        ("SELECT a", facts("SELECT a")),
        ("SELECT b...", Digest::Unknown),
        ("no SQL", facts("no SQL")),
    ] {
        tally.add(Seen {
            digest: Some(&digest),
            calls: 10,
            server_us: Some(70),
            ..sent(text)
        });
    }
    let figures = |count: &Count| (count.statements, count.calls, count.server_us);
    assert_eq!(figures(&tally.counts[0]), (0, 0, 0));
    assert_eq!(figures(&tally.counts[1]), (1, 10, 70));
    assert_eq!(figures(&tally.undecided), (1, 10, 70));
    assert_eq!(figures(&tally.unmet), (1, 10, 70));
    assert_eq!(tally.undecidable(&rules[0]), ["match.text"]);
    assert!(tally.undecidable(&rules[1]).is_empty());
}

#[test]
fn many_shapes_and_clients_are_not_kept() {
    let rules = rules(&rule("r", "match.kind = \"select\""));
    let mut tally = Tally::new(&rules, InputKind::Csvlog, 1, NOW);
    for number in 0..2 * KEPT_MAX {
        let name = format!("c{number}");
        let text = format!("SELECT {name}");
        let client = Client {
            application: Some(&name),
            ..Client::default()
        };
        tally.add(Seen {
            client,
            ..sent(&text)
        });
    }
    assert!(tally.plans.len() <= KEPT_MAX && tally.fits.len() <= KEPT_MAX);
    assert_eq!(tally.counts[0].statements, 2 * KEPT_MAX as u64);
}
