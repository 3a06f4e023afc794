//! What the simulator has found, each as the shortest conversation that shows it.

use weir_testkit::backend::Database;
use weir_testkit::say::say;

use super::super::world::World;

const STYLE: (&str, &str) = ("DateStyle", "SQL, DMY");

/// With servers that behave as PostgreSQL's.
fn world() -> World {
    let mut world = World::new(1, "session_state = track\n");
    world.database = Some(Database::default());
    world
}

#[test]
fn a_greeting_shows_nobody_elses_application_name() {
    let mut world = world();
    world.dial("ann", &[("application_name", "one"), STYLE]);
    world.settle();
    let other = world.dial("ann", &[STYLE]);
    world.settle();
    let greeting = world.callers[other].heard();
    assert!(greeting.contains(" S(application_name=) "), "{greeting}");
}

#[test]
fn what_returns_to_a_value_given_at_startup_is_not_reported_on_the_way() {
    let mut world = world();
    let client = world.dial("ann", &[STYLE]);
    world.settle();
    world.callers[client].heard();
    for (sql, tag) in [("DISCARD ALL", "DISCARD ALL"), ("RESET DateStyle", "RESET")] {
        let heard = world.ask(client, &say().query(sql));
        assert_eq!(heard, format!("C({tag}) Z(I)"));
    }
}
