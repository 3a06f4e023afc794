//! LISTEN without a server for each client: which client gets which notification, and what faults do.

mod own;

use std::time::Duration;

use weir_testkit::backend::Database;
use weir_testkit::say::say;

use super::postgres::TIMED_OUT;
use super::world::{Host, World};
use crate::console::Shutdown;
use crate::driver::memory::End;
use crate::global::lock;
use crate::worker::slots::Stage;

const LISTENS: &str = "C(LISTEN) Z(I)";
const UNLISTENS: &str = "C(UNLISTEN) Z(I)";

/// Returns a world with one server for all clients, beside the one that listens.
fn world(workers: usize) -> World {
    world_with(workers, "")
}

fn world_with(workers: usize, lines: &str) -> World {
    let lines =
        format!("session_state = track\ndefault_pool_size = 1\nquery_wait_notify = 0\n{lines}");
    let mut world = World::new(workers, &lines);
    world.database = Some(Database::default());
    world
}

#[track_caller]
fn listen(world: &mut World, client: usize, channel: &str) {
    let heard = world.ask(client, &say().query(&format!("listen {channel}")));
    assert_eq!(heard, LISTENS);
}

/// Sends NOTIFY. The client itself may get only its own notification with the answer.
#[track_caller]
fn notify(world: &mut World, client: usize, channel: &str, payload: &str) {
    let text = format!("notify {channel}, '{payload}'");
    let heard = world.ask(client, &say().query(&text));
    let own = format!("C(NOTIFY) A({channel}: {payload}) Z(I)");
    assert!(heard == "C(NOTIFY) Z(I)" || heard == own, "{heard}");
}

/// Returns the index of the server that listens.
fn listener(world: &World) -> usize {
    let servers = world
        .workers
        .iter()
        .flat_map(|worker| &worker.tables.servers);
    let mut listening = servers.filter(|(_, server)| matches!(server.stage, Stage::Listening(_)));
    let pid = listening.next().expect("one listens").1.facts.pid;
    assert!(listening.next().is_none(), "and only one");
    let mut servers = world.servers.iter();
    servers.position(|server| server.pid == pid).unwrap()
}

fn heard(world: &mut World, client: usize) -> String {
    world.callers[client].heard()
}

/// Returns the worker of a client.
fn worker_of(world: &World, client: usize) -> usize {
    let pid = world.callers[client].cancel_key().0;
    let has = |worker: &crate::worker::Worker<crate::driver::memory::MemoryDriver>| {
        let mut clients = worker.tables.clients.iter();
        clients.any(|(_, client)| client.identity.cancel_pid == pid)
    };
    world.workers.iter().position(has).unwrap()
}

/// Returns the numbers of channels and clients of all hubs.
fn counts(world: &World) -> (usize, usize) {
    let workers = world.workers.iter();
    let counts = workers.map(|worker| worker.listening.counts());
    counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

/// Returns payloads and senders of the notifications that have arrived.
fn senders(world: &mut World, client: usize) -> Vec<(String, u32)> {
    let caller = &mut world.callers[client];
    let (messages, _) = weir_testkit::reading::messages(caller.new_bytes());
    let notifications = messages.iter().filter(|message| message.tag == b'A');
    let read = |body| weir_wire::backend::NotificationResponse::parse(body).unwrap();
    let told = notifications.map(|message| read(message.body));
    told.map(|told| (String::from_utf8_lossy(told.payload).into_owned(), told.pid))
        .collect()
}

#[test]
fn clients_hear_what_is_said_on_their_channels_without_a_server() {
    for workers in [1, 2, 3] {
        let mut world = world(workers);
        let clients: Vec<_> = (0..5).map(|_| world.login()).collect();
        for client in &clients[..4] {
            listen(&mut world, *client, "a");
        }
        listen(&mut world, clients[0], "b");
        notify(&mut world, clients[4], "a", "1");
        notify(&mut world, clients[4], "b", "2");
        notify(&mut world, clients[4], "c", "3");
        assert_eq!(heard(&mut world, clients[0]), "A(a: 1) A(b: 2)");
        for client in &clients[1..4] {
            assert_eq!(heard(&mut world, *client), "A(a: 1)");
        }
        assert_eq!(heard(&mut world, clients[4]), "");
        // One server runs all queries, one listens for all clients.
        assert_eq!(world.live_servers(), 2);
        assert_eq!(counts(&world), (2, 4));
        for client in clients {
            world.ask(client, &say().terminate());
        }
        assert_eq!(counts(&world), (0, 0));
        world.check_empty();
    }
}

#[test]
fn the_extended_protocol_is_answered_message_by_message() {
    let mut world = world(2);
    let (one, other) = (world.login(), world.login());
    let batch = say().parse("", "listen a").bind("", "");
    let batch = batch.describe_portal("").execute("", 0).sync();
    assert_eq!(world.ask(one, &batch), "1 2 n C(LISTEN) Z(I)");
    // Byte by byte, and with the next request right behind.
    let next = say().query("select 'x'");
    for byte in batch.iter().chain(&*next) {
        world.callers[other].say(&[*byte]);
        world.settle();
    }
    assert_eq!(
        heard(&mut world, other),
        "1 2 n C(LISTEN) Z(I) T D(x) C(SELECT 1) Z(I)"
    );
    // Drivers that prepare every statement do this.
    let prepared = say().parse("s", "listen b").describe_statement("s").sync();
    assert_eq!(world.ask(one, &prepared), "1 t n Z(I)");
    assert_eq!(world.ask(one, &say().run("s").sync()), "2 C(LISTEN) Z(I)");
    notify(&mut world, other, "a", "1");
    notify(&mut world, other, "b", "2");
    assert_eq!(heard(&mut world, one), "A(a: 1) A(b: 2)");
    assert_eq!(counts(&world), (2, 2));
}

#[test]
fn a_clients_own_notification_comes_back_to_it_before_it_may_go_on() {
    let mut world = world(2);
    let client = world.login();
    listen(&mut world, client, "a");
    let heard = world.ask(client, &say().query("notify a, 'me'"));
    assert_eq!(heard, "C(NOTIFY) A(a: me) Z(I)");
    // Also for a client that does not wait for the answers.
    let both = say().query("notify a, '1'").query("notify a, '2'");
    let heard = world.ask(client, &both.query("listen b").query("select 'x'"));
    let order =
        "C(NOTIFY) A(a: 1) Z(I) C(NOTIFY) A(a: 2) Z(I) C(LISTEN) Z(I) T D(x) C(SELECT 1) Z(I)";
    assert_eq!(heard, order);
    assert_eq!(counts(&world), (2, 1));
    let copy = say()
        .query("COPY public.sink FROM STDIN")
        .copy_data("a\n")
        .copy_done();
    let heard = world.ask(client, &copy.query("notify b, '3'"));
    assert_eq!(heard, "G C(COPY 1) Z(I) C(NOTIFY) A(b: 3) Z(I)");
}

#[test]
fn channels_are_listed_as_if_the_client_had_a_server_of_its_own() {
    let mut world = world(1);
    let client = world.login();
    listen(&mut world, client, "a");
    let question = say().query("select pg_listening_channels()");
    assert_eq!(world.ask(client, &question), "T D(a) C(SELECT 1) Z(I)");
    let batch = say()
        .parse("", "select pg_listening_channels()")
        .run("")
        .sync();
    assert_eq!(world.ask(client, &batch), "1 2 D(a) C(SELECT 1) Z(I)");
    let named = say().parse("s", "select pg_listening_channels()");
    assert_eq!(
        world.ask(client, &named.run("s").sync()),
        "1 2 D(a) C(SELECT 1) Z(I)"
    );
    let again = world.ask(client, &say().run("s").sync());
    assert_eq!(again, "2 D(a) C(SELECT 1) Z(I)");
    // Neither a Flush nor a Query without a Sync leaves a batch open on the server.
    let unsynced = [
        say().query("select 1").flush(),
        say().parse("t", "select 1").query("select 1"),
    ];
    for messages in unsynced {
        world.ask(client, &messages);
        assert_eq!(world.ask(client, &say().sync()), "Z(I)");
        assert_eq!(world.ask(client, &question), "T D(a) C(SELECT 1) Z(I)");
    }
    // The server forgets the channels at once.
    let other = world.login();
    assert_eq!(world.ask(other, &question), "T C(SELECT 0) Z(I)");
    assert_eq!(world.ask(client, &say().query("unlisten *")), UNLISTENS);
    assert_eq!(world.ask(client, &question), "T C(SELECT 0) Z(I)");
    // The query pins no client.
    assert_eq!(world.live_servers(), 2);
}

#[test]
fn several_in_one_text_need_no_server_either() {
    let mut world = world(2);
    let (one, other) = (world.login(), world.login());
    let text = say().query("listen a; LISTEN b;unlisten a; listen b");
    let told = world.ask(one, &text);
    assert_eq!(told, "C(LISTEN) C(LISTEN) C(UNLISTEN) C(LISTEN) Z(I)");
    assert_eq!(counts(&world), (1, 1));
    notify(&mut world, other, "a", "1");
    notify(&mut world, other, "b", "2");
    assert_eq!(heard(&mut world, one), "A(b: 2)");
}

#[test]
fn what_is_said_in_a_transaction_comes_when_it_is_committed_and_in_order() {
    let mut world = world_with(2, "pool_mode = transaction");
    let (subscriber, mouth) = (world.login(), world.login());
    listen(&mut world, subscriber, "a");
    listen(&mut world, subscriber, "b");
    world.ask(mouth, &say().query("begin"));
    for text in ["notify a, '1'", "notify b, '2'", "notify a, '3'"] {
        world.ask(mouth, &say().query(text));
    }
    assert_eq!(heard(&mut world, subscriber), "");
    world.ask(mouth, &say().query("commit"));
    assert_eq!(heard(&mut world, subscriber), "A(a: 1) A(b: 2) A(a: 3)");
    world.ask(mouth, &say().query("begin"));
    world.ask(mouth, &say().query("notify a, '4'"));
    world.ask(mouth, &say().query("rollback"));
    assert_eq!(heard(&mut world, subscriber), "");
}

#[test]
fn a_client_in_a_transaction_hears_when_it_is_over() {
    let mut world = world_with(2, "default_pool_size = 2");
    let (subscriber, mouth) = (world.login(), world.login());
    listen(&mut world, subscriber, "a");
    world.ask(subscriber, &say().query("begin"));
    notify(&mut world, mouth, "a", "1");
    assert_eq!(heard(&mut world, subscriber), "");
    assert_eq!(
        world.ask(subscriber, &say().query("select 'x'")),
        "T D(x) C(SELECT 1) Z(T)"
    );
    assert_eq!(
        world.ask(subscriber, &say().query("commit")),
        "C(COMMIT) A(a: 1) Z(I)"
    );
}

#[test]
fn one_that_stops_hears_what_came_before_and_nothing_after() {
    let mut world = world(2);
    let (one, other) = (world.login(), world.login());
    for client in [one, other] {
        listen(&mut world, client, "a");
        listen(&mut world, client, "b");
    }
    assert_eq!(world.ask(one, &say().query("unlisten a")), UNLISTENS);
    notify(&mut world, other, "a", "1");
    notify(&mut world, other, "b", "2");
    assert_eq!(heard(&mut world, one), "A(b: 2)");
    assert_eq!(world.ask(one, &say().query("UNLISTEN *")), UNLISTENS);
    assert_eq!(world.ask(one, &say().query("UNLISTEN *")), UNLISTENS);
    notify(&mut world, other, "b", "3");
    assert_eq!(heard(&mut world, one), "");
    assert_eq!(counts(&world), (2, 1));
    // Notifications in flight still belong to the client.
    listen(&mut world, one, "c");
    world
        .servers
        .iter_mut()
        .for_each(|server| server.stalled = true);
    world.callers[other].say(&say().query("notify c, '4'"));
    world.settle();
    world.callers[one].say(&say().query("unlisten c"));
    world.settle();
    let at = listener(&world);
    for index in (0..world.servers.len()).filter(|index| *index != at) {
        world.servers[index].stalled = false;
    }
    world.settle();
    assert_eq!(heard(&mut world, one), "");
    world.servers[at].stalled = false;
    world.settle();
    let last = heard(&mut world, one);
    assert!(
        last == "A(c: 4) C(UNLISTEN) Z(I)" || last == "C(UNLISTEN) Z(I)",
        "{last}"
    );
}

#[test]
fn the_listening_server_rests_when_nobody_listens_and_is_used_again() {
    let mut world = world(1);
    let client = world.login();
    for _ in 0..3 {
        listen(&mut world, client, "a");
        listener(&world);
        assert_eq!(world.ask(client, &say().query("unlisten a")), UNLISTENS);
    }
    assert_eq!(world.live_servers(), 2);
    assert_eq!(counts(&world), (0, 0));
    // The idle listening server ends like any other.
    world.advance(Duration::from_secs(601));
    assert_eq!(world.live_servers(), 0);
    listen(&mut world, client, "a");
}

#[test]
fn a_client_that_goes_away_leaves_nothing_whenever_it_goes() {
    for how in [End::Orderly, End::Reset] {
        for steps in 0..25 {
            let mut world = world(2);
            let (one, other) = (world.login(), world.login());
            listen(&mut world, other, "a");
            world.callers[one].say(&say().query("listen a").query("unlisten a"));
            world.callers[one].serve();
            for step in 0..steps {
                world.turn(step % 2);
                for server in &mut world.servers {
                    server.hear();
                    server.work();
                    server.speak(11);
                }
            }
            world.callers[one].leave(how);
            world.settle();
            assert_eq!(counts(&world), (1, 1), "{steps}");
            notify(&mut world, other, "a", "x");
            world.ask(other, &say().terminate());
            assert_eq!(counts(&world), (0, 0));
            world.advance(Duration::from_secs(2));
            world.check_empty();
        }
    }
}

// === limits ===

#[test]
fn more_notifications_than_may_wait_end_the_client_with_an_error() {
    let mut world = world_with(2, "default_pool_size = 2\nlisten_queue_size = 3");
    let (subscriber, deaf, mouth) = (world.login(), world.login(), world.login());
    listen(&mut world, subscriber, "a");
    listen(&mut world, deaf, "a");
    world.ask(deaf, &say().query("begin"));
    for number in 0..4 {
        assert!(!world.callers[deaf].is_closed(), "{number}");
        notify(&mut world, mouth, "a", &number.to_string());
    }
    assert_eq!(
        heard(&mut world, deaf),
        "E(FATAL 53400 too many notifications are waiting for this client (listen_queue_size))"
    );
    assert!(world.callers[deaf].is_closed());
    // A client that reads gets all notifications, however many come at once.
    assert_eq!(
        heard(&mut world, subscriber),
        "A(a: 0) A(a: 1) A(a: 2) A(a: 3)"
    );
    world.ask(mouth, &say().query("begin"));
    for number in 0..50 {
        world.ask(mouth, &say().query(&format!("notify a, '{number}'")));
    }
    world.ask(mouth, &say().query("commit"));
    let expected: Vec<_> = (0..50).map(|number| format!("A(a: {number})")).collect();
    assert_eq!(heard(&mut world, subscriber), expected.join(" "));
}

#[test]
fn more_bytes_of_notifications_than_may_wait_end_the_client_with_an_error() {
    let mut world = world_with(2, "default_pool_size = 2\nlisten_queue_bytes = 16384");
    let (busy, mouth) = (world.login(), world.login());
    listen(&mut world, busy, "a");
    world.ask(busy, &say().query("begin"));
    let long = "x".repeat(4000);
    for number in 0..5 {
        assert!(!world.callers[busy].is_closed(), "{number}");
        notify(&mut world, mouth, "a", &long);
    }
    assert_eq!(
        heard(&mut world, busy),
        "E(FATAL 53400 too many notifications are waiting for this client (listen_queue_bytes))"
    );
}

#[test]
fn thousands_of_notifications_during_a_query_arrive_behind_it() {
    let mut world = world_with(2, "default_pool_size = 2");
    let (busy, mouth) = (world.login(), world.login());
    listen(&mut world, busy, "a");
    world.ask(busy, &say().query("begin"));
    world.ask(mouth, &say().query("begin"));
    for number in 0..2000 {
        world.ask(mouth, &say().query(&format!("notify a, '{number}'")));
    }
    world.ask(mouth, &say().query("commit"));
    assert_eq!(heard(&mut world, busy), "");
    let expected: Vec<_> = (0..2000).map(|number| format!("A(a: {number})")).collect();
    assert_eq!(
        world.ask(busy, &say().query("commit")),
        format!("C(COMMIT) {} Z(I)", expected.join(" "))
    );
}

#[test]
fn a_client_that_reads_nothing_for_a_minute_may_leave_little_unread() {
    let mut world = World::with_room(1, "session_state = track\ndefault_pool_size = 1", 4096);
    world.database = Some(Database::default());
    let (deaf, mouth) = (world.login(), world.login());
    listen(&mut world, deaf, "a");
    world.callers[deaf].deaf = true;
    let long = "x".repeat(7900);
    for _ in 0..150 {
        notify(&mut world, mouth, "a", &long);
    }
    assert_eq!(counts(&world), (1, 1), "more than 1 MiB waits");
    world.advance(Duration::from_secs(59));
    notify(&mut world, mouth, "a", "still");
    assert_eq!(counts(&world), (1, 1));
    world.advance(Duration::from_secs(1));
    notify(&mut world, mouth, "a", "too late");
    world.settle();
    assert_eq!(counts(&world), (0, 0));
}

#[test]
fn a_client_that_does_not_read_is_ended_and_costs_nobody_anything() {
    let mut world = World::with_room(
        1,
        "session_state = track\ndefault_pool_size = 1\nlisten_queue_size = 100",
        4096,
    );
    world.database = Some(Database::default());
    let (subscriber, deaf, mouth) = (world.login(), world.login(), world.login());
    listen(&mut world, subscriber, "a");
    listen(&mut world, deaf, "a");
    world.callers[deaf].deaf = true;
    let long = "x".repeat(1000);
    for number in 0..300 {
        notify(&mut world, mouth, "a", &format!("{number}{long}"));
        let told = heard(&mut world, subscriber);
        assert!(told.starts_with(&format!("A(a: {number}x")), "{told}");
    }
    assert_eq!(counts(&world), (1, 1));
    assert!(world.buffered_max() < 300_000);
}

#[test]
fn a_worker_that_does_not_keep_up_holds_the_listening_server_back_and_loses_nothing() {
    let mut world = world_with(2, "default_pool_size = 2\nlisten_queue_size = 100000");
    let clients: Vec<_> = (0..4).map(|_| world.login()).collect();
    for client in &clients[..2] {
        listen(&mut world, *client, "a");
    }
    let home = (world.workers.iter())
        .position(|worker| worker.listening.counts().1 > 0)
        .unwrap();
    let mouth = clients[2..].iter().copied();
    let mouth = mouth
        .into_iter()
        .find(|client| worker_of(&world, *client) == home)
        .unwrap();
    let total = 400;
    for number in 0..total {
        world.callers[mouth].say(&say().query(&format!("notify a, '{number}'")));
        // The other worker does not run at all.
        for _ in 0..6 {
            for caller in &mut world.callers {
                caller.serve();
            }
            world.turn(home);
            for server in &mut world.servers {
                server.serve();
            }
            world.turn(home);
            world.leap();
        }
    }
    let kept = world.workers[home].listening.kept();
    assert!(kept > 0 && kept < total, "{kept} messages kept");
    world.advance(Duration::from_secs(1));
    let expected: Vec<_> = (0..total).map(|number| format!("A(a: {number})")).collect();
    for client in &clients[..2] {
        assert_eq!(heard(&mut world, *client), expected.join(" "));
    }
}

// === errors ===

#[test]
fn a_server_that_refuses_is_quoted() {
    let mut world = world(1);
    let client = world.login();
    // Refuse as a hot standby does.
    lock(&world.catalog).is_standby = true;
    let heard = world.ask(client, &say().query("listen a").query("select 'x'"));
    assert!(
        heard.contains(" cannot execute LISTEN during recovery) Z(I) T")
            && heard.ends_with("D(x) C(SELECT 1) Z(I)"),
        "{heard}"
    );
    assert_eq!(counts(&world), (0, 0));
}

#[test]
fn the_end_of_the_listening_server_is_told_to_all_who_listen() {
    for (last_word, expected) in [
        (
            true,
            "E(FATAL 57P01 terminating connection due to administrator command)",
        ),
        (false, "E(FATAL 08006 server conn crashed?)"),
    ] {
        let mut world = world(2);
        let (one, other, third) = (world.login(), world.login(), world.login());
        listen(&mut world, one, "a");
        listen(&mut world, other, "b");
        let at = listener(&world);
        world.servers[at].die(last_word, End::Orderly);
        world.settle();
        for client in [one, other] {
            assert_eq!(heard(&mut world, client), expected);
            assert!(world.callers[client].is_closed());
        }
        // Other clients notice nothing, and new subscribers get notifications.
        listen(&mut world, third, "a");
        let told = world.ask(third, &say().query("notify a, 'x'"));
        assert_eq!(told, "C(NOTIFY) A(a: x) Z(I)");
        assert_eq!(counts(&world), (1, 1));
    }
}

/// The request reaches the next listening server. No message would ever tell that server that the client is gone.
#[test]
fn a_request_on_its_way_when_the_listening_server_ends_leaves_nothing() {
    for first in 0..4 {
        let mut world = world(1);
        let client = world.login();
        listen(&mut world, client, "a");
        let at = listener(&world);
        world.servers[at].die(false, End::Orderly);
        world.callers[client].say(&say().query("listen b"));
        world.callers[client].serve();
        world.workers[0].driver.first = first;
        world.turn(0);
        world.settle();
        let expected = "E(FATAL 08006 server conn crashed?)";
        assert_eq!(heard(&mut world, client), expected);
        assert_eq!(counts(&world), (0, 0), "{first}");
        world.check_empty();
    }
}

#[test]
fn a_listening_server_that_falls_silent_is_found_out() {
    let mut world = world(1);
    let client = world.login();
    listen(&mut world, client, "a");
    world.advance(Duration::from_secs(60));
    assert_eq!(heard(&mut world, client), "", "it answers");
    let at = listener(&world);
    world.servers[at].stalled = true;
    world.advance(Duration::from_secs(31));
    assert_eq!(
        heard(&mut world, client),
        "E(FATAL 08006 server conn crashed?)"
    );
}

#[test]
fn without_a_server_to_listen_the_client_hears_why() {
    let mut world = world(1);
    let (one, other) = (world.login(), world.login());
    world.host = Host::Rejects("53300");
    world.callers[one].say(&say().query("listen a"));
    world.settle();
    world.host = Host::Rejects("28000");
    world.advance(Duration::from_secs(20));
    let told = heard(&mut world, one);
    assert!(told.starts_with("E(FATAL 28000 "), "{told}");
    world.host = Host::Silent;
    world.advance(Duration::from_secs(20));
    world.callers[other].say(&say().query("listen a"));
    world.advance(Duration::from_secs(121));
    let told = heard(&mut world, other);
    assert!(told.starts_with("E(FATAL "), "{told}");
    assert_eq!(counts(&world), (0, 0));
}

// === beside servers of their own ===

#[test]
fn a_listen_inside_a_transaction_holds_if_it_is_committed() {
    let mut world = world_with(1, "default_pool_size = 2");
    let (one, other) = (world.login(), world.login());
    world.ask(one, &say().query("begin"));
    assert_eq!(world.ask(one, &say().query("listen a")), "C(LISTEN) Z(T)");
    world.ask(one, &say().query("rollback"));
    notify(&mut world, other, "a", "1");
    assert_eq!(heard(&mut world, one), "");
    world.ask(one, &say().query("begin"));
    world.ask(one, &say().query("listen a"));
    world.ask(one, &say().query("commit"));
    notify(&mut world, other, "a", "2");
    assert_eq!(heard(&mut world, one), "A(a: 2)");
    assert_eq!(counts(&world), (0, 0), "on its own server");
}

#[test]
fn what_both_connections_hear_is_told_once() {
    let mut world = world_with(1, "default_pool_size = 2");
    let (one, other) = (world.login(), world.login());
    listen(&mut world, one, "a");
    world.ask(one, &say().query("begin"));
    world.ask(one, &say().query("listen a"));
    world.ask(one, &say().query("listen b"));
    world.ask(one, &say().query("commit"));
    notify(&mut world, other, "a", "1");
    notify(&mut world, other, "b", "2");
    let told = heard(&mut world, one);
    assert!(
        ["A(a: 1) A(b: 2)", "A(b: 2) A(a: 1)"].contains(&told.as_str()),
        "{told}"
    );
}

#[test]
fn an_unlisten_on_a_server_of_its_own_holds_here_if_it_is_committed() {
    let mut world = world_with(1, "default_pool_size = 2");
    let (one, other) = (world.login(), world.login());
    let mut check = |batch: &[&str], expected: &str| {
        listen(&mut world, one, "a");
        for text in batch {
            world.ask(one, &say().query(text));
        }
        notify(&mut world, other, "a", "x");
        assert_eq!(heard(&mut world, one), expected, "{batch:?}");
        world.ask(one, &say().query("unlisten *"));
    };
    check(&["begin", "unlisten a", "commit"], "");
    check(&["begin", "unlisten *", "commit"], "");
    check(&["begin", "unlisten b", "commit"], "A(a: x)");
    check(&["begin", "unlisten a", "rollback"], "A(a: x)");
    check(&["begin", "unlisten a", "select 1/0", "commit"], "A(a: x)");
    check(&["select 'x'; unlisten *"], "");
    check(&["unlisten *; select 1/0"], "A(a: x)");
    check(&["discard all"], "");
}

#[test]
fn a_notification_between_unlisten_and_listen_is_heard_once() {
    let unlistens = ["unlisten *", "unlisten a"];
    for unlisten in unlistens {
        let mut world = world_with(1, "default_pool_size = 2");
        let (one, other) = (world.login(), world.login());
        let number = world.callers[one].cancel_key().0;
        let texts = [unlisten, "notify a, 'me'", "listen a"];
        let text = say().query(&texts.join(";"));
        let block = texts
            .iter()
            .fold(say().query("begin"), |all, text| all.query(text));
        let batch = texts
            .iter()
            .fold(say(), |all, text| all.parse("", text).run(""));
        for request in [text, block.query("commit"), batch.sync()] {
            listen(&mut world, one, "a");
            world.callers[one].say(&request);
            world.settle();
            assert_eq!(senders(&mut world, one), [("me".to_owned(), number)]);
            notify(&mut world, other, "a", "x");
            assert_eq!(heard(&mut world, one), "A(a: x)");
            let last = format!("{unlisten}; notify a, 'unheard'");
            let told = world.ask(one, &say().query(&last));
            assert_eq!(told, "C(UNLISTEN) C(NOTIFY) Z(I)");
        }
    }
}

#[test]
fn a_request_that_comes_while_the_server_is_asked_waits_and_pins_nobody() {
    let mut world = world(1);
    let (one, other) = (world.login(), world.login());
    for (request, answer) in [
        (say().query("listen a"), LISTENS),
        (
            say().parse("", "listen b").run("").sync(),
            "1 2 C(LISTEN) Z(I)",
        ),
    ] {
        world.callers[one].say(&say().query("set timezone to 'CET'"));
        let mut told = String::new();
        while !told.ends_with("Z(I)") {
            world.callers[one].serve();
            world.turn(0);
            world.servers[0].serve();
            if let Some(listener) = world.servers.get_mut(1) {
                listener.serve();
            }
            world.turn(0);
            world.callers[one].receive();
            told.push_str(&heard(&mut world, one));
        }
        // Now the server is asked for the state that the client has left.
        world.servers[0].stalled = true;
        world.callers[one].say(&request);
        world.settle();
        assert_eq!(heard(&mut world, one), "");
        world.servers[0].stalled = false;
        world.settle();
        assert_eq!(heard(&mut world, one), answer);
    }
    assert_eq!(counts(&world), (2, 1));
    // The client's server is free for others.
    notify(&mut world, other, "b", "x");
    assert_eq!(heard(&mut world, one), "A(b: x)");
}

#[test]
fn a_statement_that_was_prepared_and_flushed_first_pins_nobody() {
    let mut world = world(1);
    let (ann, bob) = (world.login(), world.login());
    let prepared = say().parse("s", "listen x").describe_statement("s").flush();
    assert_eq!(world.ask(ann, &prepared), "1 t n");
    assert_eq!(world.ask(ann, &say().run("s").sync()), "2 C(LISTEN) Z(I)");
    // The only server is free, and the client is subscribed.
    notify(&mut world, bob, "x", "to all");
    assert_eq!(heard(&mut world, ann), "A(x: to all)");
}

#[test]
fn a_server_that_a_client_would_only_rather_keep_is_let_go_of() {
    let mut world = world(1);
    let one = world.login();
    world.ask(one, &say().query("select nextval('s')"));
    listen(&mut world, one, "a");
    assert_eq!(counts(&world), (1, 1));
}

// === the end ===

#[test]
fn a_shutdown_ends_listening_clients_as_idle_ones() {
    let mut world = world(2);
    let client = world.login();
    listen(&mut world, client, "a");
    world.shut_down(Shutdown::WaitForServers);
    assert_eq!(
        heard(&mut world, client),
        "E(FATAL 57P01 pooler is shutting down)"
    );
    // The worker with the listening server checks again if other workers need it.
    world.advance(Duration::from_millis(20));
    assert!(world.workers.iter().all(|worker| worker.ending.is_over()));
}
