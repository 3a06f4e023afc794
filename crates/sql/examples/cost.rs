//! Prints the cost of each step: nanoseconds per text, the best of several rounds. `cost count ..` runs one step often,
//! for valgrind.
#![expect(clippy::print_stdout, reason = "its only purpose")]
#![expect(clippy::disallowed_methods, reason = "it measures")]

use std::hint::black_box;
use std::time::Instant;

use weir_sql::{
    Blank, Fingerprint, Functions, Judge, Shaper, is_harmless, judge, without_literals,
};

const TEXTS: &[&str] = &[
    "BEGIN;",
    "SELECT abalance FROM pgbench_accounts WHERE aid = 4711;",
    "UPDATE pgbench_accounts SET abalance = abalance + -1234 WHERE aid = 4711;",
    "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (1, 2, 3, 4, CURRENT_TIMESTAMP);",
    "SELECT o.id, o.total, c.name FROM orders o JOIN customers c ON c.id = o.customer_id \
     WHERE o.created_at > '2024-01-01' AND c.country = 'CH' ORDER BY o.total DESC LIMIT 20",
    "SELECT pg_try_advisory_lock(1)",
    "SELECT nextval('orders_id_seq')",
    "SET search_path = app, public",
    "SET TIME ZONE 'UTC'",
    "SELECT set_config('app.tenant', '42', false), o.id, o.total FROM orders o WHERE o.id = 7 AND o.x = 'y'",
    "CREATE TEMP TABLE t (id int PRIMARY KEY, name text NOT NULL, at timestamptz DEFAULT now())",
    "INSERT INTO orders (id, a, b, c) VALUES (nextval('orders_id_seq'), 'abc', 17, now()) RETURNING id",
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some((_, rest)) = arguments.split_first() {
        return count_access(rest);
    }
    println!(
        "{:>6} {:>7} {:>9} {:>9}  text",
        "bytes", "scan", "judge", "cached"
    );
    for text in TEXTS {
        print(text);
    }
    print(&format!(
        "INSERT INTO t VALUES (17, 'some text', NULL, 3.14){}",
        ", (17, 'some text', NULL, 3.14)".repeat(200)
    ));
    println!("what takes longest of the longest that is parsed:");
    print(&format!(
        "SELECT set_config($1, $2, $3), 1{}",
        " AND (b OR c)".repeat(135)
    ));
    print(&format!(
        "SELECT set_config($1, $2, $3), a{}",
        "[1]".repeat(660)
    ));
    print(&format!(
        "SELECT set_config($1, $2, $3), {}1{}",
        "abs(".repeat(400),
        ")".repeat(400)
    ));
    print(&"SET ROLE a;".repeat(128));
    print(&format!("SET a = 1{}", ", 'b'".repeat(400)));
    println!("where a text may run:");
    println!("{:>6} {:>9} {:>9}  text", "bytes", "known", "new");
    ACCESSES.iter().for_each(|text| print_access(text));
    println!("what a text is counted as:");
    println!(
        "{:>6} {:>7} {:>9} {:>11}  text",
        "bytes", "shape", "no text", "fingerprint"
    );
    TEXTS.iter().for_each(|text| print_digest(text));
}

fn print_digest(text: &str) {
    let shaper = Shaper::new(1);
    let shape = best(500, || shaper.first(black_box(text.as_bytes()), true));
    let blank = best(500, || {
        without_literals(black_box(text.as_bytes()), Blank::Sample, 2048)
    });
    let fingerprint = best(50, || Fingerprint::of(black_box(text)));
    let shown: String = text.chars().take(60).collect();
    println!(
        "{:>6} {shape:>7.0} {blank:>9.0} {fingerprint:>11.0}  {shown}",
        text.len()
    );
}

/// Texts that `Judge::access` decides in each of its ways; `#` stands for a number that makes the text new each time.
const ACCESSES: &[&str] = &[
    "SELECT abalance FROM pgbench_accounts WHERE aid = #",
    "UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = #",
    "SELECT o.id, o.total, c.name FROM orders o JOIN customers c ON c.id = o.customer_id \
     WHERE o.created_at > '2024-01-01' AND c.country = 'CH' AND o.id > # ORDER BY o.total DESC LIMIT 20",
    "WITH a AS (SELECT b FROM t WHERE c = #) SELECT * FROM a",
    "SELECT count(*) FROM app.orders WHERE app.is_open(id) AND tenant = #",
    "COMMIT",
];

fn print_access(text: &str) {
    let mut judge = Judge::new(Functions::default());
    let once = text.replace('#', "17");
    let known = best(500, || judge.access(black_box(once.as_bytes())));
    let texts: Vec<String> = (0..NEW)
        .map(|number| text.replace('#', &number.to_string()))
        .collect();
    let mut next = texts.iter().cycle();
    let new = best(NEW / 100, || {
        judge.access(next.next().map_or(b"", |text| text.as_bytes()))
    });
    let shown: String = text.chars().take(60).collect();
    println!("{:>6} {known:>9.0} {new:>9.0}  {shown}", once.len());
}

/// Number of texts, more than a judge keeps.
const NEW: u32 = 10_000;

/// Asks where one of `ACCESSES` may run, for a count of instructions within `Judge::access`: its index, the number of
/// times, and `new` for another text each time.
fn count_access(arguments: &[String]) {
    let number = |at: usize| {
        arguments
            .get(at)
            .and_then(|text| text.parse::<usize>().ok())
    };
    let text = number(0).and_then(|which| ACCESSES.get(which));
    let (Some(text), Some(times)) = (text, number(1)) else {
        println!("count TEXT TIMES [new]");
        return;
    };
    let is_new = arguments.len() > 2;
    let mut judge = Judge::new(Functions::default());
    let reads = (0..times).filter(|time| {
        let number = 10_000 + if is_new { *time } else { 17 };
        let text = text.replace('#', &number.to_string());
        judge.access(text.as_bytes()).is_read()
    });
    println!("{} of {times} read", reads.count());
}

fn print(text: &str) {
    let functions = Functions::default();
    let mut remembered = Judge::new(functions.clone());
    let bytes = text.as_bytes();
    let scan = best(500, || is_harmless(black_box(bytes), &functions));
    let parse = best(10, || judge(black_box(bytes), &functions));
    let cached = best(500, || remembered.effects(black_box(bytes), false));
    let shown: String = text.chars().take(60).collect();
    println!(
        "{:>6} {scan:>7.0} {parse:>9.0} {cached:>9.0}  {shown}",
        text.len()
    );
}

/// Returns the time per call in nanoseconds, the best of a hundred rounds.
fn best<T>(calls: u32, mut call: impl FnMut() -> T) -> f64 {
    let round = |_| {
        let start = Instant::now();
        for _ in 0..calls {
            black_box(call());
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(calls)
    };
    (0..100).map(round).fold(f64::INFINITY, f64::min)
}
