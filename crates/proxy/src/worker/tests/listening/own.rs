//! Process numbers in notifications: a client's own notification shows the client's own number, any other shows another
//! number.

use weir_testkit::say::say;

use super::*;

#[test]
fn own_notifications_show_the_clients_own_number_and_no_others_do() {
    for workers in [1, 2] {
        let mut world = world(workers);
        let (one, other) = (world.login(), world.login());
        let number = world.callers[one].cancel_key().0;
        listen(&mut world, one, "a");
        let at = listener(&world);
        // One server runs both clients' queries, and answers late.
        for round in 0..3 {
            world.servers[at].stalled = true;
            for (client, text) in [(other, "theirs"), (one, "own"), (one, "own again")] {
                let sql = format!("notify a, '{text}'");
                world.callers[client].say(&say().query(&sql));
                world.settle();
            }
            world.servers[at].stalled = false;
            world.settle();
            world.callers[other].say(&say().query("notify a, 'theirs'"));
            world.settle();
            let own: Vec<_> = senders(&mut world, one)
                .into_iter()
                .map(|(text, pid)| (text, pid == number))
                .collect();
            let expected = [
                ("theirs", false),
                ("own", true),
                ("own again", true),
                ("theirs", false),
            ];
            let expected = expected.map(|(text, is_own)| (text.to_owned(), is_own));
            assert_eq!(own, expected, "{round}");
        }
    }
}

/// Guards against a timeout that hits the marker for the sender of the notifications that follow.
#[test]
fn nothing_is_said_under_another_number_when_the_mark_was_interrupted() {
    let simple = say().query("notify a, 'own'");
    let extended = say().parse("", "notify a, 'own'").run("").sync();
    for request in [simple, extended] {
        let mut world = world(1);
        let (one, other) = (world.login(), world.login());
        let number = world.callers[one].cancel_key().0;
        listen(&mut world, one, "a");
        notify(&mut world, other, "a", "theirs");
        senders(&mut world, one);
        world.callers[one].say(&request);
        let mut is_hit = false;
        for _ in 0..20 {
            world.turn(0);
            world.callers[one].serve();
            for server in &mut world.servers {
                server.hear();
                while server.begin() {
                    let asked = server.asked.last();
                    let is_mark = asked.is_some_and(|sql| sql.contains("NOTIFY \"weir_lease\""));
                    is_hit |= is_mark && !is_hit && server.strike(TIMED_OUT);
                    server.finish();
                }
                server.speak(usize::MAX);
            }
        }
        world.settle();
        assert!(is_hit);
        assert_eq!(heard(&mut world, one), format!("E(57014 {TIMED_OUT}) Z(I)"));
        world.callers[one].say(&request);
        world.settle();
        assert_eq!(senders(&mut world, one), [("own".to_owned(), number)]);
    }
}

#[test]
fn what_is_said_on_a_server_of_its_own_is_its_own_too() {
    let mut world = world_with(1, "pool_mode = session\ndefault_pool_size = 2");
    let (one, other) = (world.login(), world.login());
    let number = world.callers[one].cancel_key().0;
    world.ask(one, &say().query("listen a"));
    senders(&mut world, one);
    for client in [one, other] {
        world.callers[client].say(&say().query("notify a, 'x'"));
        world.settle();
    }
    let senders = senders(&mut world, one);
    let is_own: Vec<_> = senders.iter().map(|(_, pid)| *pid == number).collect();
    assert_eq!(is_own, [true, false]);
}
