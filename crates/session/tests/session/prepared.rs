//! Prepared statements: what is shared between clients, and what needs no server.

use weir_testkit::backend::Output;
use weir_testkit::reading::outline;
use weir_testkit::say::{Say, say};

use crate::pooler::{Pooler, rules};

fn pooler(clients: usize, servers: usize) -> Pooler {
    Pooler::new(clients, servers, rules(10), Output::Buffered)
}

/// What a client gets for this, with everything delivered.
fn hears(pooler: &mut Pooler, client: usize, what: &Say) -> String {
    pooler.clients[client].got.clear();
    pooler.client_sends(client, what);
    pooler.deliver_all();
    outline(&pooler.clients[client].got)
}

#[test]
fn cor_15_clients_share_a_statement_only_under_settings_that_plan_it_alike() {
    let mut pooler = pooler(3, 1);
    let first = say().parse("s", "row x").run("s").sync();
    hears(&mut pooler, 1, &say().query("set TimeZone CET"));
    hears(&mut pooler, 2, &say().query("set application_name other"));
    for (client, held) in [(0, 1), (1, 2), (2, 2)] {
        let heard = hears(&mut pooler, client, &first);
        assert_eq!(heard, "1 2 D(x) C(SELECT 1) Z(I)");
        assert_eq!(pooler.servers[0].really_prepared().len(), held);
    }
}

#[test]
fn cor_15_a_statement_is_taken_anew_when_its_clients_settings_have_changed() {
    let mut pooler = pooler(1, 1);
    hears(&mut pooler, 0, &say().parse("s", "row x").sync());
    for (zone, held) in [("CET", 2), ("EET", 3), ("UTC", 3), ("CET", 3)] {
        hears(
            &mut pooler,
            0,
            &say().query(&format!("set TimeZone {zone}")),
        );
        let heard = hears(&mut pooler, 0, &say().run("s").sync());
        assert_eq!(heard, "2 D(x) C(SELECT 1) Z(I)");
        assert_eq!(pooler.servers[0].really_prepared().len(), held, "{zone}");
    }
}

/// All servers are taken by others.
fn without_servers() -> Pooler {
    let mut pooler = pooler(3, 1);
    hears(
        &mut pooler,
        0,
        &say().parse("a", "row x").parse("b", "row y").sync(),
    );
    assert_eq!(
        hears(&mut pooler, 0, &say().query("begin")),
        "C(BEGIN) Z(T)"
    );
    pooler
}

#[test]
fn what_is_known_to_be_good_is_prepared_without_a_server() {
    let mut pooler = without_servers();
    let known = say().parse("s", "row x").parse("t", "row y").sync();
    assert_eq!(hears(&mut pooler, 1, &known), "1 1 Z(I)");
    let closed = say()
        .close_statement("s")
        .close_statement("x")
        .close_portal("s");
    assert_eq!(hears(&mut pooler, 1, &closed.sync()), "3 3 3 Z(I)");
    let again = say().parse("s", "row y").sync().sync();
    assert_eq!(hears(&mut pooler, 1, &again), "1 Z(I) Z(I)");

    hears(&mut pooler, 0, &say().query("commit"));
    let both = say().run("s").run("t").sync();
    let rows = "2 D(y) C(SELECT 1) 2 D(y) C(SELECT 1) Z(I)";
    assert_eq!(hears(&mut pooler, 1, &both), rows);
}

#[test]
fn cut_anywhere_it_needs_no_server_either() {
    let known = say().parse("s", "row x").close_statement("s").sync();
    for cut in 1..known.len() {
        let mut pooler = without_servers();
        assert_eq!(hears(&mut pooler, 1, &say().raw(&known[..cut])), "");
        assert_eq!(hears(&mut pooler, 1, &say().raw(&known[cut..])), "1 3 Z(I)");
    }
}

#[test]
fn what_is_not_known_to_be_good_waits_for_a_server() {
    let batches = [
        say().parse("s", "row z").sync(),
        say().parse("s", "row x").parse("s", "row x").sync(),
        say().parse("s", "row x").describe_statement("s").sync(),
        say().parse("s", "row x").run("s").sync(),
        say().parse("", "row x").sync(),
        say().parse("s", "error parse").sync(),
    ];
    for batch in batches {
        let mut pooler = without_servers();
        let early = hears(&mut pooler, 1, &batch);
        assert!(!early.contains('Z'), "{early}");
        hears(&mut pooler, 0, &say().query("commit"));
        let direct = weir_testkit::backend::Backend::default().converse(&batch);
        assert_eq!(outline(&pooler.clients[1].got), outline(&direct));
    }
}

#[test]
fn a_statement_that_failed_is_not_known_to_be_good() {
    let mut pooler = without_servers();
    let refused = say().parse("s", "error parse").sync();
    hears(&mut pooler, 0, &refused);
    hears(&mut pooler, 0, &say().query("rollback").query("begin"));
    assert_eq!(hears(&mut pooler, 1, &refused), "");
}

#[test]
fn other_settings_prove_nothing() {
    let mut pooler = pooler(2, 1);
    hears(&mut pooler, 1, &say().query("set TimeZone CET"));
    hears(
        &mut pooler,
        0,
        &say().parse("a", "row x").sync().query("begin"),
    );
    assert_eq!(hears(&mut pooler, 1, &say().parse("a", "row x").sync()), "");
}

#[test]
fn the_unnamed_statement_is_gone_after_a_close_without_a_server() {
    let mut pooler = pooler(2, 1);
    hears(&mut pooler, 1, &say().parse("", "row x").sync());
    hears(&mut pooler, 0, &say().query("begin"));
    assert_eq!(
        hears(&mut pooler, 1, &say().close_statement("").sync()),
        "3 Z(I)"
    );
    hears(&mut pooler, 0, &say().query("commit"));
    let heard = hears(&mut pooler, 1, &say().run("").sync());
    assert_eq!(
        heard,
        "E(26000 unnamed prepared statement does not exist) Z(I)"
    );
}
