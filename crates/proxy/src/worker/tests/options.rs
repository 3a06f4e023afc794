//! Options one by one, where one conversation shows what they do, and what a reload does to who is there already.

use weir_testkit::say::say;

use super::world::World;

const ROW: &str = "T D(x) C(SELECT 1) Z(I)";

fn row() -> Vec<u8> {
    say().query("row x").into_bytes()
}

#[test]
fn login_notify_message_is_a_notice_before_the_first_query() {
    let mut world = World::new(1, "login_notify_message = be nice");
    let client = world.dial("ann", &[]);
    world.settle();
    let heard = world.callers[client].heard();
    assert!(heard.ends_with(" N(00000 be nice) Z(I)"), "{heard}");
    world.reload("login_notify_message =");
    let client = world.dial("ann", &[]);
    world.settle();
    let heard = world.callers[client].heard();
    assert!(!heard.contains(" N("), "{heard}");
}

#[test]
fn max_packet_size_limits_what_a_client_sends() {
    for lines in ["pool_mode = transaction", "pool_mode = session"] {
        let mut world = World::new(1, &format!("{lines}\nmax_packet_size = 1024"));
        let (small, large) = (world.login(), world.login());
        let text = |len: usize| {
            say()
                .query(&format!("row {}", "x".repeat(len)))
                .into_bytes()
        };
        // Tag, length, "row " and the final NUL are ten bytes.
        assert!(world.ask(small, &text(1000)).ends_with("Z(I)"), "{lines}");
        let told = world.ask(large, &text(1015));
        assert_eq!(
            told,
            "E(FATAL 54000 message of 1025 bytes is too long (max_packet_size))"
        );
        // Later in a batch too, where the client has a server already.
        let told = world.ask(small, &[row(), text(1015)].concat());
        assert!(told.contains("E(FATAL 54000"), "{told}");
    }
}

#[test]
fn max_packet_size_limits_what_a_server_sends_and_can_be_changed() {
    let mut world = World::new(1, "");
    let client = world.login();
    // The answer is a byte longer than the question.
    let text = "x".repeat(1014);
    let long = say().query(&format!("row {text}")).into_bytes();
    assert_eq!(long.len(), 1024);
    assert!(world.ask(client, &long).ends_with("Z(I)"));
    world.reload("max_packet_size = 1024");
    assert_eq!(world.ask(client, &row()), ROW);
    let told = world.ask(client, &long);
    assert!(
        told.contains("E(FATAL 08006 server conn crashed?)"),
        "{told}"
    );
    assert_eq!(world.live_servers(), 0);
}

const SESSION: &str = "pool_mode = session\ndefault_pool_size = 3\n";
const MOVED: &str = "[databases]\n* = host=10.0.0.1 port=7000\n";

#[test]
fn server_fast_close_ends_sessions_whose_server_leads_elsewhere_now() {
    let lines = format!("{SESSION}server_fast_close = 1\n");
    let mut world = World::new(1, &lines);
    let (idle, busy) = (world.login(), world.login());
    assert_eq!(world.ask(idle, &row()), ROW);
    assert!(world.ask(busy, &say().query("begin")).ends_with("Z(T)"));
    world.reload(&format!("{lines}{MOVED}"));
    let told = "E(FATAL 57P01 database configuration changed)";
    assert_eq!(world.callers[idle].heard(), told);
    // In a transaction: not before its end.
    assert_eq!(world.ask(busy, &row()), "T D(x) C(SELECT 1) Z(T)");
    let heard = world.ask(busy, &say().query("commit"));
    assert!(heard.contains(told), "{heard}");
    assert_eq!(world.live_servers(), 0);
}

#[test]
fn without_server_fast_close_a_session_keeps_its_server() {
    let mut world = World::new(1, SESSION);
    let client = world.login();
    assert_eq!(world.ask(client, &row()), ROW);
    world.reload(&format!("{SESSION}{MOVED}"));
    assert_eq!(world.ask(client, &row()), ROW);
    assert_eq!(world.live_servers(), 1);
    world.ask(client, &say().terminate());
    assert_eq!(world.live_servers(), 0, "obsolete");
}

#[test]
fn clients_of_a_database_that_is_removed_go_when_they_have_finished() {
    let mut world = World::new(1, "");
    let (idle, busy) = (world.login(), world.login());
    assert_eq!(world.ask(idle, &row()), ROW);
    assert!(world.ask(busy, &say().query("begin")).ends_with("Z(T)"));
    // No entry `*` any more, and none of the name that they gave.
    world.reload("; no others\n[databases]\nother = host=10.0.0.1\n");
    let told = "E(FATAL 57P01 database removed)";
    assert_eq!(world.callers[idle].heard(), told);
    let heard = world.ask(busy, &say().query("commit"));
    assert!(heard.contains(told), "{heard}");
    assert_eq!(world.live_servers(), 0);
}
