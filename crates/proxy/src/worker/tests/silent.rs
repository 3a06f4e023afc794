//! A host that falls silent: its connections stay open, and nothing comes over them.

use weir_testkit::say::say;

use super::world::TwoHosts;

#[test]
fn clients_of_a_silent_primary_are_told_once_another_host_has_taken_over() {
    let mut hosts = TwoHosts::new();
    let clients: Vec<_> = (0..3).map(|_| hosts.world.login()).collect();
    let [idle, writes, between] = clients[..] else {
        unreachable!();
    };
    for client in [idle, writes] {
        let heard = hosts.world.ask(client, &say().query("BEGIN"));
        assert!(heard.ends_with("Z(T)"), "{heard}");
    }
    for server in &mut hosts.world.servers {
        let site = server.site.as_ref();
        server.stalled = site.is_some_and(|site| site.host() == 0);
    }
    let request = say().query("SELECT nextval('public.seq_1')");
    hosts.world.callers[writes].say(&request);
    hosts.world.settle();
    hosts.cluster.crash(0);
    hosts.watch_until(|sentry| sentry.primary().is_none());
    assert!(
        !hosts.world.callers[writes].is_closed(),
        "nobody has taken over"
    );
    hosts.cluster.promote(1);
    hosts.watch_until(|sentry| sentry.primary() == Some(1));
    for client in [idle, writes] {
        let heard = hosts.world.callers[client].heard();
        assert!(heard.contains("FATAL 08006"), "{heard}");
        assert!(hosts.world.callers[client].is_closed());
    }
    let heard = hosts.world.ask(between, &say().query("SELECT 'x'"));
    assert!(heard.ends_with("D(x) C(SELECT 1) Z(I)"), "{heard}");
}
