//! Lists of allowed statements, in all protocols.

use weir_rules::{AllowList, Policy, StatementEntry, StatementList};

use super::*;

const LISTED: &str = "SELECT a FROM t WHERE b = 1";
const OTHER: &str = "SELECT secret FROM u";

fn enforced() -> Rules {
    let mut list = StatementList::default();
    let (known, entry) = StatementEntry::of(LISTED.as_bytes());
    list.insert(known, entry);
    let mut rules = Rules::default();
    rules.set_allow_list(AllowList::new(
        "app",
        Policy::Enforce,
        Arc::new(list),
        Arc::default(),
        |_| {},
    ));
    rules
}

fn world() -> World {
    let mut world = World::new();
    world.rules = enforced();
    world
}

fn parse(name: &str, text: &str) -> Vec<u8> {
    messages(|out| encode::parse(out, name.as_bytes(), text.as_bytes(), &[0, 0]).unwrap())
}

fn run(name: &str) -> Vec<u8> {
    messages(|out| {
        bind(out, "", name);
        encode::execute(out, b"", 0).unwrap();
        encode::sync(out).unwrap();
    })
}

/// Call of a function, such as lo_open, with these bytes behind the header.
fn call(len: usize) -> Vec<u8> {
    let mut message = vec![b'F'];
    let total = u32::try_from(len + 4).unwrap();
    message.extend_from_slice(&total.to_be_bytes());
    message.resize(len + 5, 0);
    message
}

fn is_refused(heard: &[u8], why: &str) -> bool {
    let heard = text(heard);
    heard.contains("42501") && heard.contains(why)
}

const NOT_LISTED: &str = "statement is not in the list of user app";

#[test]
fn a_statement_that_is_not_listed_is_refused_in_all_protocols() {
    for name in ["", "s"] {
        let mut world = world();
        for said in [query(OTHER), [parse(name, OTHER), run(name)].concat()] {
            let sent = text(&world.send(&said));
            assert!(!sent.contains("secret"), "{sent}");
            let heard = world.answer(1, &failed("22P02", IDLE));
            assert!(is_refused(&heard, NOT_LISTED), "{}", text(&heard));
            assert!(world.server.is_free());
        }
        for said in [query(LISTED), [parse(name, LISTED), run(name)].concat()] {
            assert!(text(&world.send(&said)).contains(LISTED));
            let is_batch = said[0] == b'P';
            let answer = match (is_batch, name) {
                (true, "s") => messages(|out| {
                    plain(out, "1");
                    out.extend_from_slice(b"t\0\0\0\x06\0\0");
                    plain(out, "n2");
                    complete(out, "SELECT 1");
                    ready(out, IDLE);
                }),
                _ => done(is_batch),
            };
            assert_eq!(world.answer(1, &answer), done(is_batch), "{name}");
        }
    }
}

#[test]
fn a_statement_that_was_prepared_before_the_list_was_enforced_is_refused_when_it_runs() {
    // Tracked names, and names that only the server knows.
    for (name, max_prepared, why) in [
        ("", 10, NOT_LISTED),
        ("s", 10, NOT_LISTED),
        ("s", 0, "was prepared before the list was enforced"),
    ] {
        let mut world = World::new();
        world.policy.max_prepared = max_prepared;
        world.send(&[parse(name, OTHER), run(name)].concat());
        let heard = messages(|out| {
            plain(out, "1");
            if max_prepared > 0 && !name.is_empty() {
                out.extend_from_slice(b"t\0\0\0\x06\0\0");
                plain(out, "n");
            }
            plain(out, "2");
            complete(out, "SELECT 1");
            ready(out, IDLE);
        });
        world.answer(1, &heard);
        world.rules = enforced();
        let sent = text(&world.send(&run(name)));
        assert!(!sent.contains("secret"), "{sent}");
        let heard = world.answer(1, &failed("26000", IDLE));
        assert!(is_refused(&heard, why), "{}", text(&heard));
    }
}

#[test]
fn a_parse_of_a_name_that_only_the_server_knows_is_refused() {
    let mut world = world();
    world.policy.max_prepared = 0;
    let sent = text(&world.send(&[parse("s", OTHER), run("s")].concat()));
    assert!(!sent.contains("secret"), "{sent}");
    let heard = world.answer(1, &failed("22P02", IDLE));
    assert!(is_refused(&heard, NOT_LISTED), "{}", text(&heard));
    let sent = text(&world.send(&[parse("s", LISTED), run("s")].concat()));
    assert!(sent.contains(LISTED));
}

#[test]
fn a_text_that_is_too_long_to_be_looked_up_is_refused_and_dropped() {
    let long = format!("{LISTED} /*{}*/", " ".repeat(40_000));
    let mut world = world();
    assert!(text(&world.send(&query(&long))).contains(LISTED));
    world.answer(1, &done(false));
    let end = "; DROP TABLE t".to_owned();
    let hidden = format!("{LISTED} /*{}*/{end}", " ".repeat(40_000));
    assert!(!text(&world.send(&query(&hidden))).contains("DROP"));
    world.answer(1, &failed("22P02", IDLE));
    let too_long = format!("{LISTED} /*{}*/{end}", " ".repeat(2 << 20));
    for said in [
        query(&too_long),
        parse("", &too_long),
        parse("s", &too_long),
    ] {
        let is_query = said[0] == b'Q';
        for part in said.chunks(1 << 20) {
            let sent = text(&world.send(part));
            assert!(!sent.contains("SELECT a") && !sent.contains("DROP"));
        }
        if !is_query {
            world.send(&messages(|out| encode::sync(out).unwrap()));
        }
        let heard = world.answer(1, &failed("22P02", IDLE));
        assert!(is_refused(&heard, "too long"), "{}", text(&heard));
        assert!(world.server.is_free());
    }
}

#[test]
fn a_call_by_the_protocol_is_refused() {
    let mut world = world();
    for len in [14, 2 << 20] {
        for part in call(len).chunks(1 << 20) {
            let sent = world.send(part);
            assert!(sent.first() != Some(&b'F') && sent.len() < 100);
        }
        let heard = world.answer(1, &failed("22P02", IDLE));
        assert!(is_refused(&heard, "function call"), "{}", text(&heard));
        assert!(world.server.is_free());
    }
}

#[test]
fn a_decision_about_another_statement_does_not_let_one_pass() {
    // The batch had not ended when it was decided on.
    for enforces in [true, false] {
        let mut world = match enforces {
            true => world(),
            false => World::with_rules([stop(OTHER)]),
        };
        world.client.decided = Some(Box::new(Decided {
            judged: Some(Judged {
                is_guess: !enforces,
                ..Judged::default()
            }),
            is_prepared: true,
            ..Decided::default()
        }));
        let sent = text(&world.send(&query(OTHER)));
        assert!(!sent.contains("secret"), "{sent}");
    }
}

#[test]
fn behind_a_rollback_on_its_way_an_older_statement_is_refused_too() {
    let mut world = World::new();
    world.send(&[parse("s", OTHER), run("s")].concat());
    let answer = messages(|out| {
        plain(out, "1");
        out.extend_from_slice(b"t\0\0\0\x06\0\0");
        plain(out, "n2");
        complete(out, "SELECT 1");
        ready(out, IDLE);
    });
    world.answer(1, &answer);
    world.send(&query("BEGIN; SELECT 1 / 0"));
    world.answer(1, &failed("22012", TransactionStatus::Failed));
    world.rules = enforced();
    let sent = text(&world.send(&[query("ROLLBACK"), run("s")].concat()));
    assert!(sent.contains("ROLLBACK"), "{sent}");
    let answers = messages(|out| {
        complete(out, "ROLLBACK");
        ready(out, IDLE);
        out.extend(failed("26000", IDLE));
    });
    let heard = text(&world.answer(1, &answers));
    assert!(heard.contains("42501"), "{heard}");
}

#[test]
fn in_a_block_the_transaction_fails_as_after_any_other_error() {
    let mut world = world();
    let in_block = TransactionStatus::InTransaction;
    world.send(&query("BEGIN"));
    world.answer(
        1,
        &messages(|out| {
            complete(out, "BEGIN");
            ready(out, in_block);
        }),
    );
    world.send(&query(OTHER));
    let heard = world.answer(1, &failed("22P02", TransactionStatus::Failed));
    assert!(is_refused(&heard, NOT_LISTED));
    assert!(text(&world.send(&query("ROLLBACK"))).contains("ROLLBACK"));
}
