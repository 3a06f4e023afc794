//! Clients that need a server which no other client has used.

use weir_testkit::say::say;

use super::world::World;

const SHOWS_THE_PAST: &str = "set plpgsql.foo = 1";

fn with(lines: &str) -> String {
    format!("session_state = track\n{lines}")
}

/// Returns the indexes of the servers that ran this text.
fn asked(world: &World, text: &str) -> Vec<usize> {
    let servers = world.servers.iter().enumerate();
    let asked = servers.filter(|(_, server)| server.asked.iter().any(|sql| sql == text));
    asked.map(|(index, _)| index).collect()
}

#[test]
fn an_idle_server_that_another_used_makes_room_for_a_new_one() {
    let mut world = World::new(1, &with("default_pool_size = 1"));
    let (one, other) = (world.login(), world.login());
    world.ask(one, &say().query("select 'one'"));
    world.ask(one, &say().query("select 'again'"));
    assert_eq!(world.servers.len(), 1);
    assert!(
        world
            .ask(other, &say().query(SHOWS_THE_PAST))
            .ends_with("Z(I)")
    );
    assert_eq!(asked(&world, SHOWS_THE_PAST), [1]);
    assert_eq!(world.live_servers(), 1);
    // The client keeps that server, and no other client gets it.
    world.ask(one, &say().query("select 'waits'"));
    world.ask(other, &say().query("select 'other'").terminate());
    assert_eq!(asked(&world, "select 'other'"), [1]);
    assert_eq!(asked(&world, "select 'waits'"), [2]);
}

#[test]
fn a_server_of_its_own_suits_a_client() {
    let mut world = World::new(1, &with("default_pool_size = 1"));
    let one = world.login();
    world.ask(one, &say().query("select 'one'"));
    world.ask(one, &say().query(SHOWS_THE_PAST));
    assert_eq!(asked(&world, SHOWS_THE_PAST), [0]);
}

#[test]
fn who_waits_for_a_new_server_holds_up_nobody() {
    let mut world = World::new(1, &with("default_pool_size = 3"));
    let busy: Vec<_> = (0..3).map(|_| world.login()).collect();
    for client in &busy {
        world.ask(*client, &say().query("begin"));
    }
    let (picky, behind) = (world.login(), world.login());
    world.ask(picky, &say().query(SHOWS_THE_PAST));
    world.pass(std::time::Duration::from_micros(1));
    world.ask(behind, &say().query("select 'behind'"));
    for client in &busy {
        world.callers[*client].say(&say().query("commit"));
        world.callers[*client].serve();
    }
    world.settle();
    let heard = |world: &mut World, client: usize| world.callers[client].heard();
    assert!(heard(&mut world, picky).ends_with("Z(I)"));
    assert!(heard(&mut world, behind).ends_with("C(SELECT 1) Z(I)"));
    assert_eq!(asked(&world, SHOWS_THE_PAST), [3]);
    // One server made room; the next went to the client that waited behind.
    assert_eq!(asked(&world, "select 'behind'"), [1]);
}

#[test]
fn where_state_is_off_nobody_gets_a_new_server() {
    let mut world = World::new(1, "default_pool_size = 1\nsession_state = off");
    let (one, other) = (world.login(), world.login());
    world.ask(one, &say().query("select 'one'"));
    world.ask(other, &say().query(SHOWS_THE_PAST));
    assert_eq!(asked(&world, SHOWS_THE_PAST), [0]);
}
