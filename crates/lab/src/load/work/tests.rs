//! Tests of the bytes that are sent.

use rand::SeedableRng as _;
use weir_wire::frame::{Side, frame};
use weir_wire::frontend;

use super::*;
use crate::load::plan::Transaction;

fn work(protocol: Protocol, transactions: Vec<Transaction>) -> Work {
    Work::new(&Plan {
        protocol,
        transactions,
        ..Plan::new("")
    })
}

/// Returns all steps of the first script as text.
fn sent(work: &Work, prepared: &[bool], seed: u64) -> Vec<String> {
    let mut out = Vec::new();
    let script = &work.scripts[0];
    let mut to = Sending {
        protocol: work.protocol,
        values: &mut Values::default(),
        random: &mut Xoshiro256PlusPlus::seed_from_u64(seed),
        prepared,
        parses: &mut Vec::new(),
        out: &mut out,
    };
    for step in &script.steps {
        script.send(*step, &mut to).unwrap();
    }
    let mut told = Vec::new();
    let mut rest = out.as_slice();
    while let Some(message) = frame(rest, Side::Frontend).unwrap() {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        told.push(match message.header.tag {
            b'Q' => text(frontend::Query::parse(message.body).unwrap().sql),
            b'P' => {
                let parse = frontend::Parse::parse(message.body).unwrap();
                format!("P {} {}", text(parse.name), text(parse.sql))
            }
            b'B' => {
                let bind = frontend::Bind::parse(message.body).unwrap();
                format!("B {} {:?}", text(bind.statement), bind.rest)
            }
            tag => char::from(tag).to_string(),
        });
        rest = &rest[message.raw.len()..];
    }
    told
}

fn one(sql: &str) -> Transaction {
    Transaction::new([sql]).with("aid", Draw::Uniform { min: 7, max: 7 })
}

#[test]
fn variables_are_found_as_pgbench_finds_them() {
    let text = |sql: &str| sent(&work(Protocol::Simple, vec![one(sql)]), &[], 0).join("");
    assert_eq!(text("SELECT :aid"), "SELECT 7");
    assert_eq!(text(":aid,:aid+1"), "7,7+1");
    assert_eq!(text("':aid'::text"), "'7'::text");
    assert_eq!(
        text("1::aid :: :::aid :aids a:"),
        "1::aid :: :::aid :aids a:"
    );
    assert_eq!(text("a:-:aid"), "a:-7");
    assert_eq!(text(""), "");
}

#[test]
fn each_place_of_a_variable_is_a_parameter() {
    let work = work(Protocol::Extended, vec![one("SELECT :aid, :aid")]);
    let bind = "B  [0, 0, 0, 2, 0, 0, 0, 1, 55, 0, 0, 0, 1, 55, 0, 0]";
    assert_eq!(sent(&work, &[], 0), ["P  SELECT $1, $2", bind, "D", "E"]);
}

#[test]
fn a_prepared_statement_is_parsed_once() {
    let mut transaction = one("SELECT 1");
    transaction.statements[0].repeat = 2;
    let work = work(Protocol::Prepared, vec![transaction]);
    let bind = "B s0 [0, 0, 0, 0, 0, 0]";
    let parse = "P s0 SELECT 1";
    assert_eq!(
        sent(&work, &[false], 0),
        [parse, bind, "D", "E", bind, "D", "E"]
    );
    assert_eq!(sent(&work, &[true], 0), [bind, "D", "E", bind, "D", "E"]);
}

#[test]
fn repetitions_draw_again_and_statements_do_not() {
    let mut transaction = Transaction::new([":a", ":a"]).with(
        "a",
        Draw::Uniform {
            min: 0,
            max: i64::MAX,
        },
    );
    transaction.statements[0].repeat = 2;
    let told = sent(&work(Protocol::Simple, vec![transaction]), &[], 1);
    assert_ne!(told[0], told[1]);
    assert_eq!(told[1], told[2]);
}

#[test]
fn the_same_seed_draws_the_same() {
    let transaction = Transaction::new([":a :b :c"])
        .with("a", Draw::Uniform { min: 1, max: 1000 })
        .with(
            "b",
            Draw::Uniform {
                min: i64::MIN,
                max: i64::MAX,
            },
        )
        .with("c", Draw::Filler { bytes: 3 });
    let work = work(Protocol::Simple, vec![transaction]);
    assert_eq!(sent(&work, &[], 5), sent(&work, &[], 5));
    assert_ne!(sent(&work, &[], 5), sent(&work, &[], 6));
    // Fixed values: other machines and later versions must draw the same.
    assert_eq!(sent(&work, &[], 5), ["293 -7167677685577955866 xxx"]);
}

#[test]
fn an_excepted_value_is_never_drawn_and_all_others_are() {
    let transaction = Transaction::new([":a :b"])
        .with("a", Draw::Uniform { min: 1, max: 4 })
        .with(
            "b",
            Draw::UniformExcept {
                min: 1,
                max: 3,
                except: "a".into(),
            },
        );
    let work = work(Protocol::Simple, vec![transaction]);
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..500 {
        let told = sent(&work, &[], seed).remove(0);
        let (a, b) = told.split_once(' ').unwrap();
        assert_ne!(a, b);
        seen.insert((a.to_owned(), b.to_owned()));
    }
    assert_eq!(seen.len(), 3 * 2 + 3);
}

#[test]
fn zipfs_law_prefers_the_first_of_the_range() {
    let law = Draw::Zipf {
        min: 10,
        max: 1009,
        exponent: 1.0,
    };
    let mut transaction = Transaction::new([":a"]).with("a", law);
    transaction.statements[0].repeat = 10_000;
    let told = sent(&work(Protocol::Simple, vec![transaction]), &[], 3);
    let drawn: Vec<i64> = told.iter().map(|text| text.parse().unwrap()).collect();
    assert!(drawn.iter().all(|number| (10..=1009).contains(number)));
    let count = |number: i64| drawn.iter().filter(|drawn| **drawn == number).count();
    // Expected counts: 10,000 times 1 / 7.485, half of that, and a tenth of it.
    for (number, expected) in [(10, 1336), (11, 668), (19, 134)] {
        assert!(
            count(number).abs_diff(expected) < expected / 4,
            "{}",
            count(number)
        );
    }
}

#[test]
fn weights_decide_how_often() {
    let mut transactions = vec![one("a"), one("b"), one("c")];
    transactions[0].weight = 60;
    transactions[1].weight = 25;
    transactions[2].weight = 15;
    let work = work(Protocol::Simple, transactions);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(9);
    let mut counts = [0_i32; 3];
    for _ in 0..10_000 {
        counts[work.choose(&mut random)] += 1;
    }
    let expected = [6000, 2500, 1500];
    let is_near = |(count, expected): (&i32, &i32)| (count - expected).abs() < 200;
    assert!(counts.iter().zip(&expected).all(is_near), "{counts:?}");
}
