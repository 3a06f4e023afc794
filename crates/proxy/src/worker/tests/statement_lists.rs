//! Lists of the statements that a user may run, in whole workers.

use weir_testkit::say::{Say, say};

use super::world::World;
use crate::global::lock;

const ROW: &str = "T D(x) C(SELECT 1) Z(I)";
const REFUSED: &str = "E(42501 statement is not in the list of user ann)";

/// Lines with a policy for ann.
fn policy(policy: &str) -> String {
    format!("[users]\nann = statement_policy={policy}\n")
}

/// Lines that enforce a list of these statements.
fn enforced(listed: &[&str]) -> String {
    let lines = listed.iter().map(|text| format!("; listed {text}\n"));
    let lines: String = lines.collect();
    format!("{lines}; enforced\n{}", policy("learn"))
}

/// Texts of the statements that are not in the list, with what was done about them.
fn recorded(world: &World) -> Vec<String> {
    let settled = world.global.settled();
    let records = lock(&world.global.halting.statements);
    let rows = records.rows(&settled.settings).into_iter();
    let others = rows.filter(|row| row.state != "listed");
    let mut others: Vec<_> = others
        .map(|row| format!("{} {}", row.state, row.text))
        .collect();
    others.sort();
    others
}

fn counts(world: &World) -> (u64, u64, u64) {
    let settled = world.global.settled();
    let records = lock(&world.global.halting.statements);
    let counts = records.counts(&settled.settings);
    let counts = counts.first().cloned().unwrap_or_default();
    (counts.recorded, counts.warned, counts.refused)
}

/// A statement in all protocols: simple, without a name, and with one.
fn all(text: &str) -> [Say; 3] {
    [
        say().query(text),
        say().parse("", text).bind("", "").execute("", 0).sync(),
        say()
            .parse("s", text)
            .bind("", "s")
            .execute("", 0)
            .close_statement("s")
            .sync(),
    ]
}

#[test]
fn what_a_user_has_run_is_what_it_may_run() {
    let mut world = World::new(1, &policy("learn"));
    let client = world.login();
    for said in all("row x") {
        assert!(world.ask(client, &said).contains("D(x)"));
    }
    world.ask(client, &say().query("row a; row b"));
    assert_eq!(
        recorded(&world),
        ["learnt row a", "learnt row b", "learnt row x"]
    );
    assert_eq!(counts(&world), (3, 0, 0));
    world.reload(&enforced(&["row x"]));
    for said in all("row x") {
        assert!(world.ask(client, &said).contains("D(x)"));
    }
    for said in all("row y") {
        assert_eq!(world.ask(client, &said), format!("{REFUSED} Z(I)"));
    }
    assert_eq!(
        world.ask(client, &say().query("row x; row y")),
        format!("{REFUSED} Z(I)")
    );
    assert_eq!(world.ask(client, &say().query("row x")), ROW);
    assert_eq!(counts(&world).2, 4);
    assert!(recorded(&world).contains(&"refused row y".to_owned()));
}

#[test]
fn in_a_transaction_the_block_fails_and_can_be_rolled_back() {
    let mut world = World::new(1, &enforced(&["row x"]));
    let client = world.login();
    for said in all("row y") {
        assert!(world.ask(client, &say().query("begin")).ends_with("Z(T)"));
        assert_eq!(world.ask(client, &said), format!("{REFUSED} Z(E)"));
        assert!(world.ask(client, &say().query("row x")).contains("25P02"));
        let ended = world.ask(client, &say().query("rollback"));
        assert!(ended.ends_with("Z(I)"), "{ended}");
    }
    assert_eq!(world.ask(client, &say().query("row x")), ROW);
}

#[test]
fn a_statement_that_was_prepared_before_the_list_was_enforced_is_refused() {
    for before in ["", &*policy("learn"), &*policy("warn")] {
        let mut world = World::new(1, before);
        let client = world.login();
        world.ask(client, &say().parse("s", "row y").sync());
        let run = say().bind("", "s").execute("", 0).sync();
        assert!(world.ask(client, &run).contains("D(y)"));
        world.reload(&enforced(&["row x"]));
        assert_eq!(world.ask(client, &run), format!("{REFUSED} Z(I)"));
        world.reload(&enforced(&["row x", "row y"]));
        assert!(world.ask(client, &run).contains("D(y)"));
    }
}

#[test]
fn a_statement_that_another_client_has_prepared_is_looked_up_too() {
    let mut world = World::new(1, &enforced(&["row x"]));
    let (ann, bob) = (world.login(), world.dial("bob", &[]));
    world.settle();
    world.callers[bob].heard();
    let [_, _, said] = all("row y");
    assert!(world.ask(bob, &said).contains("D(y)"), "no list for bob");
    assert_eq!(world.ask(ann, &said), format!("{REFUSED} Z(I)"));
}

#[test]
fn a_batch_that_comes_in_parts_hides_nothing() {
    let mut world = World::new(1, &enforced(&["row x"]));
    let client = world.login();
    let parts = [
        say().parse("", "row x").into_bytes(),
        say().parse("t", "row y").into_bytes(),
        say().bind("", "t").execute("", 0).sync().into_bytes(),
    ];
    let mut heard = String::new();
    for part in parts {
        world.callers[client].say(&part);
        world.settle();
        heard += &world.callers[client].heard();
    }
    assert!(
        heard.contains(REFUSED) && !heard.contains("D(y)"),
        "{heard}"
    );
    // A guess about a Parse says nothing about the Query behind it.
    world.callers[client].say(&say().parse("", "row x").into_bytes());
    world.settle();
    let heard = world.ask(client, &say().query("row y"));
    assert!(
        heard.contains(REFUSED) && !heard.contains("D(y)"),
        "{heard}"
    );
}

#[test]
fn the_bodies_of_blocks_count() {
    let mut world = World::new(1, &enforced(&["do 'row x'"]));
    let client = world.login();
    let heard = world.ask(client, &say().query("do 'row x'"));
    assert!(!heard.contains("42501"), "{heard}");
    for text in ["do 'row y'", "/* row x */ do $$row x$$"] {
        assert_eq!(
            world.ask(client, &say().query(text)),
            format!("{REFUSED} Z(I)")
        );
    }
}

#[test]
fn a_call_by_the_protocol_is_refused_in_and_out_of_transactions() {
    let mut world = World::new(1, &enforced(&["row x"]));
    let client = world.login();
    let call = say().function_call(1);
    let refused = "E(42501 a function call of the protocol is not in the list of user ann)";
    assert_eq!(world.ask(client, &call), format!("{refused} Z(I)"));
    world.ask(client, &say().query("begin"));
    assert_eq!(world.ask(client, &call), format!("{refused} Z(E)"));
}

#[test]
fn a_warning_lets_the_statement_run() {
    let mut world = World::new(1, &policy("warn"));
    let client = world.login();
    for said in all("row y") {
        assert!(world.ask(client, &said).contains("D(y)"));
    }
    assert_eq!(counts(&world), (1, 3, 0));
    assert_eq!(recorded(&world), ["warned row y"]);
    world.reload(&policy("off"));
    assert_eq!(counts(&world), (0, 0, 0));
    assert!(world.ask(client, &say().query("row y")).contains("D(y)"));
}

#[test]
fn a_long_text_is_looked_up_whole() {
    let mut world = World::new(1, &enforced(&["row x"]));
    let client = world.login();
    let long = |end: &str| format!("row x /*{}*/{end}", " ".repeat(300_000));
    for in_block in [false, true] {
        if in_block {
            world.ask(client, &say().query("begin"));
        }
        for said in all(&long("")) {
            let heard = world.ask(client, &said);
            assert!(heard.contains("D(x"), "{heard}");
        }
        let status = if in_block { "E" } else { "I" };
        let heard = world.ask(client, &say().query(&long("; row y")));
        assert_eq!(heard, format!("{REFUSED} Z({status})"));
    }
    world.ask(client, &say().query("rollback"));
    let too_long = say().query(&" row x".repeat(300_000));
    let refused =
        "E(42501 a statement that is too long to be looked up is not in the list of user ann)";
    assert_eq!(world.ask(client, &too_long), format!("{refused} Z(I)"));
    assert_eq!(world.ask(client, &say().query("row x")), ROW);
}
