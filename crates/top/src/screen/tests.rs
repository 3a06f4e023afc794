//! Screens of all views, at 80 and at 160 columns.

use expect_test::{Expect, expect_file};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::{Color, Modifier};

use super::*;
use crate::console::Lost;
use crate::fixture::{Answers, DIAGNOSIS, HOSTILE, PGBOUNCER, Player, WEIR};
use crate::question::Question;
use crate::state::Event;

fn terminal(player: &Player) -> Terminal<TestBackend> {
    let (columns, lines) = player.state.size;
    let mut terminal = Terminal::new(TestBackend::new(columns, lines)).unwrap();
    terminal.draw(|frame| draw(frame, &player.state)).unwrap();
    terminal
}

/// Lines of the screen, without spaces at their ends.
fn screen(player: &Player) -> String {
    let terminal = terminal(player);
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for y in 0..buffer.area.height {
        let mut line = String::new();
        let mut skip = 0;
        for x in 0..buffer.area.width {
            if skip > 0 {
                skip -= 1;
                continue;
            }
            let symbol = buffer[(x, y)].symbol();
            skip = text::width(symbol).saturating_sub(1);
            line += symbol;
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// All views of a console, one below the other.
fn views(answers: &Answers, columns: u16) -> String {
    let mut all = String::new();
    for view in View::ALL {
        let mut player = Player::new(answers, view, (columns, 18));
        player.wait(1.0);
        player.answer();
        player.wait(0.3);
        let screen = screen(&player);
        let lines = screen.trim_end().lines();
        assert!(
            lines
                .clone()
                .all(|line| text::width(line) <= usize::from(columns))
        );
        all += &format!("=== {}\n{screen}", view.name());
    }
    all
}

#[test]
fn each_view_fits_into_80_columns_and_uses_160() {
    let sets = [
        (Answers::read(&[PGBOUNCER]), "pgbouncer"),
        (Answers::of_pgbouncer_1_25(), "pgbouncer-1.25"),
        (Answers::read(&[WEIR]), "weir"),
        (Answers::read(&[WEIR, DIAGNOSIS]), "diagnosis"),
    ];
    for (answers, name) in sets {
        for columns in [80, 160] {
            let path = format!("../../testdata/screens/{name}-{columns}.txt");
            expect_file![path].assert_eq(&views(&answers, columns));
        }
    }
}

fn check(player: &Player, expect: &Expect) {
    expect.assert_eq(&screen(player));
}

#[test]
fn hostile_names_reach_no_terminal_and_keep_the_columns() {
    let answers = Answers::read(&[WEIR, HOSTILE]);
    let player = Player::new(&answers, View::Clients, (80, 16));
    let text = screen(&player);
    assert!(
        !text
            .chars()
            .any(|character| character.is_control() && character != '\n')
    );
    assert!(!text.contains('\u{202e}'));
    expect_test::expect![[r#"
        127.0.0.1:6432  Weir 0.1.0  every 1s  data 0.0 s old
        no verdict: this pooler has no SHOW DIAGNOSIS
        clients 4 active, 3 waiting (oldest 4.30s), 1 pinned  servers 3 busy, 1 idle
        transactions -/s                  queries -/s       waiting █
        1 diagnoses 2 pools 3 clients 4 servers 5 pins 6 errors 7 hosts 8 statements
        what each client does  6 by xact, falling
         id application    user database state     xact waits for pinned by address
        100 �[2J�]0;owned� ann  shop     in query 6.00s -         -         127.0.0.1
        101 �gnp.exe       ann  shop     in query 5.00s -         -         127.0.0.1
        102 �31mred        ann  shop     in query 4.00s -         -         127.0.0.1
        103 数据库报表服务 ann  shop     in query 3.00s -         -         127.0.0.1
        104 équipe 😀      ann  shop     in query 2.00s -         -         127.0.0.1
        105 tab here line  ann  shop     in query 1.00s -         -         127.0.0.1


        ? keys  Enter detail  < > r sort  / filter  space pause  K kill  q quit
    "#]]
    .assert_eq(&text);
}

#[test]
fn empty_tables_say_why_and_what_to_do() {
    let mut answers = Answers::read(&[WEIR]);
    let empty = [
        (View::Pools, Question::ExtendedPools),
        (View::Clients, Question::Clients),
        (View::Servers, Question::Servers),
        (View::Pins, Question::Pins),
        (View::Errors, Question::Errors),
        (View::Hosts, Question::Databases),
        (View::Statements, Question::Digests),
    ];
    let mut said = String::new();
    for (view, question) in empty {
        answers.clear(question);
        answers.clear(Question::Pools);
        let player = Player::new(&answers, view, (80, 12));
        let screen = screen(&player);
        let lines: Vec<_> = screen.lines().skip(7).take(2).collect();
        said += &format!("{}: {}\n", view.name(), lines.join(" ").trim_end());
    }
    expect_test::expect![[r#"
        pools: No pools yet: they appear with the first client. Connect one, for example by psql.
        clients: No clients. Connect one to this address, for example by psql, and look again.
        servers: No server connections: no client has needed one lately. View 3 shows the clients.
        pins: No client keeps a server beyond its transaction: nothing stands in the way of pooling.
        errors: No client has received an error since the start.
        hosts: No hosts of databases with replicas.
        statements: No statements yet: none has run since the start or RESET DIGESTS, or digests are off.
    "#]].assert_eq(&said);
}

#[test]
fn a_lost_console_is_told_with_its_reason_and_the_view_is_kept_in_grey() {
    let answers = Answers::read(&[WEIR]);
    let mut player = Player::new(&answers, View::Pools, (80, 14));
    player.event(Event::Lost(Lost::new("connection refused (os error 111)")));
    player.wait(12.0);
    check(
        &player,
        &expect_test::expect![[r#"
            127.0.0.1:6432  no data for 12 s: connection refused (os error 111)
            no verdict: this pooler has no SHOW DIAGNOSIS
            clients 4 active, 3 waiting (oldest 4.30s), 1 pinned  servers 3 busy, 1 idle
            transactions -/s                  queries -/s       waiting █
            1 diagnoses 2 pools 3 clients 4 servers 5 pins 6 errors 7 hosts 8 statements
            who waits, how long and for what  3 by max wait, falling
            database  user      waiting max wait waits for clients busy idle size xact/s
            shop      ann             3    4.27s pool full       2    2    0    2      -
            bank      postgres        0        0 -               2    1    1   20      -
            pgbouncer pgbouncer       0        0 -               1    0    0    2      -



            ? keys  Enter detail  < > r sort  / filter  space pause  K kill  q quit
        "#]],
    );
    let terminal = terminal(&player);
    let buffer = terminal.backend().buffer();
    assert_eq!(buffer[(0, 7)].fg, Color::DarkGray);
    assert_ne!(buffer[(0, 4)].fg, Color::DarkGray, "keys work");
    player.answer();
    assert!(screen(&player).contains("data 0.0 s old"));
}

#[test]
fn no_colour_is_used_where_none_is_wanted() {
    let answers = Answers::read(&[WEIR, DIAGNOSIS]);
    let mut player = Player::new(&answers, View::Diagnoses, (80, 14));
    let used = |player: &Player| {
        let terminal = terminal(player);
        let cells = terminal.backend().buffer().content.iter();
        cells
            .clone()
            .any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
    };
    assert!(used(&player));
    player.state.settings.has_color = false;
    assert!(!used(&player));
    player.event(Event::Lost(Lost::new("gone")));
    assert!(!used(&player));
    let terminal = terminal(&player);
    let dim = terminal.backend().buffer()[(0, 7)].modifier;
    assert!(dim.contains(Modifier::DIM));
}

#[test]
fn pages_of_a_row_and_of_the_keys() {
    let answers = Answers::read(&[WEIR, DIAGNOSIS]);
    let mut player = Player::new(&answers, View::Diagnoses, (80, 20));
    player.press("\n");
    check(
        &player,
        &expect_test::expect![[r#"
            127.0.0.1:6432  Weir 0.1.0  every 1s  data 0.0 s old
            CRITICAL  3 conditions, see view 1
            clients 4 active, 3 waiting (oldest 4.30s), 1 pinned  servers 3 busy, 1 idle
            transactions -/s                  queries -/s       waiting █
            1 diagnoses 2 pools 3 clients 4 servers 5 pins 6 errors 7 hosts 8 statements
            condition  pool full of idle transactions
            severity   critical
            scope      shop/ann
            since      2026-11-27 14:06:00 UTC
            seconds    44
            evidence   2 of 2 servers sit in open transactions of billing, oldest 48 s; 3
                       clients wait
            advice     End them, or set idle_transaction_timeout.
            command    KILL_CLIENT 7





            j k scroll  y copy  Esc back  q quit
        "#]],
    );
    player.press("\x1b?");
    check(
        &player,
        &expect_test::expect![[r#"
            127.0.0.1:6432  Weir 0.1.0  every 1s  data 0.0 s old
            CRITICAL  3 conditions, see view 1
            clients 4 active, 3 waiting (oldest 4.30s), 1 pinned  servers 3 busy, 1 idle
            transactions -/s                  queries -/s       waiting █
            1 diagnoses 2 pools 3 clients 4 servers 5 pins 6 errors 7 hosts 8 statements
            1 to 8       diagnoses pools clients servers pins errors hosts statements
            j k, arrows  move; PgUp, PgDn, Home and End move further
            Enter        all columns of the row
            Esc          back
            < >          sort by the column to the left or right
            r            reverse the order
            /            filter rows by a regular expression; ! in front inverts it
            n            no filter
            space        pause or resume the display
            + -          longer or shorter interval, 0.5 s to 10 s
            w            wide: all columns; left and right move over them
            i            hide or show what is idle
            t            time of clients and servers: xact, session or query
            y            copy the row (OSC 52)
            j k scroll  y copy  Esc back  q quit
        "#]],
    );
}

#[test]
fn a_pause_is_told_and_keeps_the_rows() {
    let mut answers = Answers::read(&[WEIR]);
    let mut player = Player::new(&answers, View::Errors, (80, 12));
    player.press(" ");
    answers.set(Question::Errors, 0, "count", "777");
    player.answers = answers;
    player.wait(4.0);
    player.answer();
    check(
        &player,
        &expect_test::expect![[r#"
            127.0.0.1:6432  Weir 0.1.0  every 1s  PAUSED, data 4.0 s old
            no verdict: this pooler has no SHOW DIAGNOSIS
            clients 4 active, 3 waiting (oldest 4.30s), 1 pinned  servers 3 busy, 1 idle
            transactions 0/s                  queries 0/s       waiting ██
            1 diagnoses 2 pools 3 clients 4 servers 5 pins 6 errors 7 hosts 8 statements
            which errors clients get  2 by count, falling
            origin sqlstate count per second condition
            server 22012        1          - division_by_zero
            server 42P01        1          - undefined_table


            ? keys  Enter detail  < > r sort  / filter  space pause  K kill  q quit
        "#]],
    );
    player.press(" ");
    assert!(screen(&player).contains("777"));
}

#[test]
fn a_restart_of_the_pooler_is_told() {
    let mut answers = Answers::read(&[WEIR]);
    let mut player = Player::new(&answers, View::Errors, (80, 12));
    player.wait(1.0);
    answers.set(Question::Stats, 2, "total_xact_count", "0");
    player.answers = answers;
    player.answer();
    player.wait(5.0);
    assert!(screen(&player).contains("counters fell 5.0 s ago: restarted"));
}

#[test]
fn small_terminals_are_told_what_is_needed() {
    let answers = Answers::read(&[WEIR]);
    let mut player = Player::new(&answers, View::Pools, (30, 5));
    assert!(screen(&player).contains("needs 40 columns, 10 lines"));
    for (columns, lines) in [(40, 10), (1, 1), (300, 3), (41, 200)] {
        player.event(Event::Size(columns, lines));
        screen(&player);
    }
}

#[test]
fn views_without_answers_say_for_what_they_wait() {
    let answers = Answers::read(&[WEIR]);
    let mut player = Player::new(&answers, View::Pools, (80, 12));
    player.press("3");
    assert!(screen(&player).contains("asking the console"));
    player.press("2");
    player.answer();
    player.press(" 3");
    assert!(screen(&player).contains("paused in another view"));
    player.press(" ");
    player.event(Event::Lost(Lost::new("refused")));
    assert!(screen(&player).contains("no data of this view yet: refused"));
}

#[test]
fn numbers_of_processes_are_not_rounded() {
    let mut answers = Answers::read(&[WEIR]);
    answers.set(Question::Servers, 0, "remote_pid", "4194303");
    answers.set(Question::Clients, 0, "id", "12345678901");
    let player = Player::new(&answers, View::Servers, (80, 14));
    assert!(screen(&player).contains("4194303 shop"));
    assert!(screen(&player).contains("12345678901"));
}

#[test]
fn a_silent_console_is_told() {
    let answers = Answers::read(&[WEIR]);
    let mut player = Player::new(&answers, View::Pools, (80, 12));
    player.wait(4.0);
    assert!(screen(&player).contains("data 4.0 s old"));
    player.wait(0.1);
    assert!(screen(&player).contains("no data for 4.1 s: the console does not answer"));
    // A pause is no silence: answers come all the time.
    player.answer();
    player.press(" ");
    for _ in 0..10 {
        player.wait(1.0);
        player.answer();
    }
    assert!(screen(&player).contains("PAUSED, data 10 s old"));
}
