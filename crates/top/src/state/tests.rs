//! Keys and answers, without a terminal.

use std::time::Duration;

use super::*;
use crate::columns::Direction;
use crate::console::Lost;
use crate::fixture::{Answers, DIAGNOSIS, PGBOUNCER, Player, WEIR};

fn player(view: View) -> Player {
    Player::new(&Answers::read(&[WEIR]), view, (80, 24))
}

/// Values of a column, from the top.
fn column(player: &Player, heading: &str) -> Vec<String> {
    let grid = player.state.grid.as_ref().unwrap();
    let headings = &mut grid.headings.iter();
    let place = headings.position(|found| found.text == heading).unwrap();
    let cells = grid
        .lines
        .iter()
        .map(|line| line.cells[place].text().to_owned());
    cells.collect()
}

fn chosen(player: &Player, heading: &str) -> String {
    column(player, heading)[player.state.position().row].clone()
}

#[test]
fn digits_choose_views_and_ask_only_what_they_need() {
    let mut player = player(View::Pools);
    let effects = player.press("3");
    assert_eq!(player.state.view, View::Clients);
    let mut questions = HEADER.to_vec();
    questions.push(Question::Clients);
    let interval = Duration::from_secs(1);
    assert_eq!(
        effects,
        [Effect::Plan(Plan {
            questions,
            interval
        })]
    );
    assert!(
        player.state.grid.is_none(),
        "the old answers are no clients"
    );
    assert_eq!(player.press("39"), [], "nothing changes");
}

#[test]
fn diagnoses_need_no_other_tables_where_the_pooler_has_them() {
    let answers = Answers::read(&[WEIR, DIAGNOSIS]);
    let mut player = Player::new(&answers, View::Pools, (80, 24));
    let effects = player.press("1");
    let questions = HEADER.to_vec();
    let interval = Duration::from_secs(1);
    assert_eq!(
        effects,
        [Effect::Plan(Plan {
            questions,
            interval
        })]
    );
    player.answer();
    assert_eq!(column(&player, "severity"), ["critical", "warning", "info"]);
}

#[test]
fn the_chosen_row_stays_chosen_when_rows_move() {
    let mut player = player(View::Clients);
    assert_eq!(chosen(&player, "id"), "6");
    player.press("jj");
    let id = chosen(&player, "id");
    let mut moved = player.answers.clone();
    let row = 5;
    moved.set(Question::Clients, 4, "activity_us", "1");
    moved.set(Question::Clients, row, "activity_us", "99000000");
    player.answers = moved;
    player.answer();
    assert_eq!(chosen(&player, "id"), id);
    player.event(Event::Key(Key::End));
    player.event(Event::Key(Key::Down));
    assert_eq!(player.state.position().row, 7);
    player.event(Event::Key(Key::Home));
    assert_eq!(player.state.position().row, 0);
}

#[test]
fn rows_are_sorted_by_value_and_not_by_text() {
    let mut player = player(View::Clients);
    assert_eq!(
        player.state.grid.as_ref().unwrap().sort,
        ("time", Direction::Falling)
    );
    player.press("<<<<<<<<");
    assert_eq!(player.state.grid.as_ref().unwrap().sort.0, "id");
    assert_eq!(
        column(&player, "id"),
        ["31", "24", "19", "18", "17", "12", "7", "6"]
    );
    player.press("r");
    assert_eq!(column(&player, "id").first().unwrap(), "6");
    player.press(">");
    assert_eq!(
        player.state.grid.as_ref().unwrap().sort,
        ("application", Direction::Rising)
    );
    player.press("1");
    player.press("3");
    player.answer();
    assert_eq!(
        player.state.grid.as_ref().unwrap().sort.0,
        "application",
        "each view keeps its order"
    );
}

#[test]
fn filters_are_regular_expressions_and_may_be_inverted() {
    let mut player = player(View::Clients);
    player.press("/WEB-[12]\n");
    assert_eq!(column(&player, "application"), ["web-2", "web-1"]);
    player.press("/\x08\x08\x08\x08\x08\x08\x08\x08\x08\x08!web|billing\n");
    assert_eq!(column(&player, "application").len(), 3);
    player.press("n");
    assert_eq!(column(&player, "application").len(), 8);
    player.press("/web(\n");
    assert!(
        matches!(player.state.mode, Mode::Filter(_)),
        "a mistake can be corrected"
    );
    assert!(player.state.notice().unwrap().contains("unclosed group"));
    player.press("\x1b");
    assert_eq!(player.state.mode, Mode::List);
    assert_eq!(column(&player, "application").len(), 8);
    player.press("/qqq");
    assert_eq!(
        player.state.mode,
        Mode::Filter("qqq".to_owned()),
        "letters are no commands there"
    );
}

#[test]
fn a_pause_keeps_what_is_shown_while_answers_come() {
    let mut player = player(View::Errors);
    player.press(" ");
    player.answers.set(Question::Errors, 0, "count", "777");
    player.wait(3.0);
    player.answer();
    assert_eq!(column(&player, "count"), ["1", "1"]);
    assert_eq!(player.state.age(), Some(Duration::from_secs(3)));
    player.press(" ");
    assert_eq!(column(&player, "count"), ["777", "1"]);
    assert_eq!(player.state.age(), Some(Duration::ZERO));
}

#[test]
fn rates_of_rows_are_increases_between_two_answers() {
    let mut player = player(View::Errors);
    assert_eq!(column(&player, "per second"), ["-", "-"]);
    player.wait(2.0);
    player.answers.set(Question::Errors, 0, "count", "8");
    player.answer();
    assert_eq!(column(&player, "per second"), ["3.50", "0"]);
    player.wait(2.0);
    player.answers.set(Question::Errors, 0, "count", "2");
    player.answer();
    assert_eq!(
        column(&player, "per second"),
        ["-", "0"],
        "a counter that fell has no rate"
    );
}

#[test]
fn the_interval_has_bounds() {
    let mut player = player(View::Pools);
    player.press("------");
    assert_eq!(player.state.interval, INTERVAL_MIN);
    let effects = player.press("++++++++++++++++++");
    assert_eq!(player.state.interval, INTERVAL_MAX);
    assert!(matches!(effects.last(), Some(Effect::Plan(plan)) if plan.interval == INTERVAL_MAX));
}

#[test]
fn idle_rows_can_be_hidden() {
    let mut player = player(View::Clients);
    player.press("i");
    assert!(!column(&player, "state").contains(&"idle".to_owned()));
    player.press("2");
    player.answer();
    assert_eq!(column(&player, "database"), ["shop", "bank"]);
    player.press("i");
    assert_eq!(column(&player, "database").len(), 3);
}

#[test]
fn the_time_is_that_of_the_query_the_transaction_or_the_session() {
    let mut player = player(View::Clients);
    player.press("/billing|report|bad|web-3\n");
    let check = |player: &Player, heading: &str, expected: [&str; 5]| {
        let states = column(player, "state").into_iter();
        let mut rows: Vec<_> = states.zip(column(player, heading)).collect();
        rows.sort();
        let states = [
            "idle",
            "idle in transaction",
            "in query",
            "pinned",
            "waiting",
        ];
        let expected = states.into_iter().zip(expected);
        let expected = expected.map(|(state, time)| (state.to_owned(), time.to_owned()));
        assert_eq!(rows, expected.collect::<Vec<_>>());
    };
    check(&player, "xact", ["-", "5.59s", "5.62s", "-", "4.39s"]);
    player.press("t");
    check(
        &player,
        "session",
        ["4.00s", "5.00s", "5.00s", "5.00s", "4.00s"],
    );
    player.press("t");
    check(&player, "query", ["-", "-", "5.62s", "-", "4.39s"]);
}

#[test]
fn a_client_is_disconnected_only_after_y() {
    let mut player = player(View::Clients);
    assert_eq!(player.press("K"), []);
    let expected = "client 6 (billing, shop/ann from 127.0.0.1)";
    assert!(matches!(&player.state.mode, Mode::Confirm { label, .. } if label == expected));
    // Rows that move under the question change nothing.
    player.answers.set(Question::Clients, 4, "activity_us", "1");
    player.answer();
    assert_eq!(player.press("y"), [Effect::Kill("6".to_owned())]);
    player.event(Event::Killed(
        "6".to_owned(),
        Err("no such client".to_owned()),
    ));
    assert_eq!(
        player.state.notice(),
        Some("client 6 is not disconnected: no such client")
    );
    assert_eq!(player.press("Kn"), []);
    assert_eq!(player.state.notice(), Some("nothing is disconnected"));
    assert_eq!(player.press("K\n"), []);
}

#[test]
fn no_client_is_disconnected_where_that_is_not_possible() {
    let mut reader = player(View::Clients);
    reader.state.settings.is_read_only = true;
    assert_eq!(reader.press("K"), []);
    assert_eq!(reader.state.mode, Mode::List);
    let mut pools = player(View::Pools);
    assert_eq!(pools.press("K"), []);
    assert_eq!(pools.state.mode, Mode::List);
    // PgBouncer 1.18 knows no ids.
    let answers = Answers::read(&[PGBOUNCER]);
    let mut old = Player::new(&answers, View::Clients, (80, 24));
    assert_eq!(old.press("K"), []);
    assert_eq!(
        old.state.notice(),
        Some("this pooler shows no ids of clients, and cannot disconnect one")
    );
    // An id is never more than a word in the command.
    let mut hostile = player(View::Clients);
    hostile
        .answers
        .set(Question::Clients, 4, "id", "6; SHUTDOWN");
    hostile.answer();
    assert_eq!(hostile.press("K"), []);
    assert_eq!(hostile.state.mode, Mode::List);
}

#[test]
fn a_row_is_copied_with_all_columns() {
    let mut player = player(View::Pins);
    let effects = player.press("y");
    let [Effect::Copy(text)] = effects.as_slice() else {
        panic!("{effects:?}");
    };
    assert!(text.contains("reason: temporary object\n"));
    assert!(text.contains("server_pid: 25435\n"));
}

#[test]
fn a_view_is_saved_with_its_time_in_the_name() {
    let mut player = player(View::Pins);
    let effects = player.press("s");
    let [Effect::Save { name, text }] = effects.as_slice() else {
        panic!("{effects:?}");
    };
    assert_eq!(name, "weir-top-pins-20261127-140644.txt");
    expect_test::expect![[r#"
        127.0.0.1:6432  2026-11-27 14:06:44 UTC
        Weir 0.1.0
        no verdict: this pooler has no SHOW DIAGNOSIS
        clients 4 active, 3 waiting (oldest 4.30s), 1 pinned servers 3 busy, 1 idle
        transactions -/s queries -/s waiting

        pins
        id  database  user      reason              age  state   address     port  server pid
        12  bank      postgres  temporary object  5.00s  active  127.0.0.1  43514       25435
    "#]]
    .assert_eq(text);
    player.event(Event::Saved(Ok(name.clone())));
    assert_eq!(
        player.state.notice(),
        Some("saved as weir-top-pins-20261127-140644.txt")
    );
    player.wait(6.0);
    assert_eq!(player.state.notice(), None);
}

#[test]
fn wide_displays_move_over_all_columns() {
    let mut player = player(View::Clients);
    let first = |player: &Player| {
        let grid = player.state.grid.as_ref().unwrap();
        let placed = player.state.placed(grid);
        grid.headings[placed[0].column].text
    };
    player.press("w");
    assert_eq!(first(&player), "id");
    player.event(Event::Key(Key::Right));
    player.event(Event::Key(Key::Right));
    assert_eq!(first(&player), "user");
    player.event(Event::Key(Key::Left));
    assert_eq!(first(&player), "application");
    for _ in 0..100 {
        player.event(Event::Key(Key::Right));
    }
    assert_eq!(first(&player), "ptr");
}

#[test]
fn old_answers_stay_while_the_console_is_away() {
    let mut player = player(View::Pools);
    player.event(Event::Lost(Lost::new("refused")));
    player.press("3");
    assert!(player.state.grid.is_none());
    player.press("2");
    assert_eq!(column(&player, "database").len(), 3, "kept");
    assert_eq!(player.press("q"), [Effect::Quit]);
    assert_eq!(player.event(Event::Key(Key::Interrupt)), [Effect::Quit]);
}

#[test]
fn pages_are_left_by_esc() {
    let mut player = player(View::Pools);
    player.press("?");
    assert_eq!(player.state.mode, Mode::Help(0));
    player.press("jjk\x1b\n");
    assert_eq!(player.state.mode, Mode::Detail(0));
    player.press("\x1b");
    assert_eq!(player.state.mode, Mode::List);
}

#[test]
fn missing_columns_are_left_out() {
    let answers = Answers::read(&[PGBOUNCER]);
    let player = Player::new(&answers, View::Pools, (80, 24));
    let grid = player.state.grid.as_ref().unwrap();
    let headings: Vec<_> = grid.headings.iter().map(|heading| heading.text).collect();
    assert!(!headings.contains(&"wait p99") && headings.contains(&"db avg wait"));
    let answers = Answers::read(&[WEIR]);
    let player = Player::new(&answers, View::Pools, (80, 24));
    let grid = player.state.grid.as_ref().unwrap();
    let headings: Vec<_> = grid.headings.iter().map(|heading| heading.text).collect();
    assert!(headings.contains(&"wait p99") && !headings.contains(&"db avg wait"));
}

#[test]
fn newer_pgbouncers_have_ids_by_which_clients_are_disconnected() {
    let answers = Answers::of_pgbouncer_1_25();
    let mut player = Player::new(&answers, View::Clients, (80, 24));
    player.press("/web-3\nK");
    assert_eq!(player.press("y"), [Effect::Kill("17".to_owned())]);
}

#[test]
fn pasted_text_is_a_filter_and_never_a_command() {
    let mut player = player(View::Clients);
    assert_eq!(player.event(Event::Paste("Kyq".to_owned())), []);
    assert_eq!(player.state.mode, Mode::List);
    player.press("/web-");
    player.event(Event::Paste("2\n".to_owned()));
    assert_eq!(player.state.mode, Mode::Filter("web-2".to_owned()));
    player.event(Event::Paste("x".repeat(1000)));
    assert_eq!(player.state.mode, Mode::Filter("web-2".to_owned()));
    player.press("\n");
    assert_eq!(column(&player, "application"), ["web-2"]);
}
