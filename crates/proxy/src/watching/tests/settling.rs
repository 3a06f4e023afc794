//! Reloads: clusters that stay, change, come and go.

use std::time::Duration;

use weir_watch::State;

use super::hosts::Manner;
use super::world::{INTERVAL, World, host, spec};

const HOSTS: [Manner; 3] = [Manner::Primary, Manner::Standby, Manner::Standby];

#[test]
fn a_cluster_that_is_described_as_before_keeps_its_connections() {
    let mut world = World::new(&HOSTS);
    let (number, asked) = (world.cluster().number(), world.side(0).asked);
    let mut same = world.spec();
    same.login.secret = Some(weir_auth::stored::StoredSecret::parse(b"new"));
    world.watch(vec![same]);
    assert_eq!((world.dials, world.cluster().number()), (3, number));
    assert_eq!(world.side(0).asked, asked, "no extra probe");
    // The new secret is for the next login.
    world.manners[0] = Manner::AsksForPassword;
    world.end(0, crate::driver::memory::End::Reset);
    world.advance(Duration::from_millis(30));
    assert_eq!(world.side(0).passwords, ["new"]);
}

#[test]
fn a_cluster_that_has_changed_starts_anew() {
    let changes: [&dyn Fn(&mut crate::watching::ClusterSpec); 5] = [
        &|spec| drop(spec.hosts.pop()),
        &|spec| spec.hosts[1].port = 5433,
        &|spec| spec.hosts[1].host.weight = 50,
        &|spec| spec.rules.fall = 9,
        &|spec| spec.login.user = "other".to_owned(),
    ];
    for change in changes {
        let mut world = World::new(&HOSTS);
        let mut changed = world.spec();
        change(&mut changed);
        let hosts = changed.hosts.len();
        let before = world.cluster().number();
        world.watch(vec![changed]);
        assert_eq!(world.dials, 3 + hosts);
        assert!(world.sides[..3].iter().all(|side| side.is_closed()));
        assert!(world.sides[..3].iter().all(|side| side.was_terminated));
        assert!(world.cluster().number() > before);
        assert_eq!(world.cluster().snapshot().hosts.len(), hosts);
        assert_eq!(world.view(1).state, State::Up);
    }
}

#[test]
fn a_cluster_that_is_removed_is_closed_with_a_probe_under_way() {
    let mut world = World::new(&[Manner::Stuck, Manner::Silent, Manner::Standby]);
    assert_eq!(world.open(0), 1);
    world.watch(Vec::new());
    assert_eq!(world.watcher.driver.open(), 0);
    assert!(world.sides.iter().all(|side| side.is_closed()));
    world.advance(3 * INTERVAL);
    assert_eq!(world.dials, 3);
}

#[test]
fn clusters_are_watched_independently() {
    let mut world = World::empty(&HOSTS);
    let shop = spec(&world.clusters, "shop", vec![host(0), host(1)]);
    let mail = spec(&world.clusters, "mail", vec![host(0), host(2)]);
    world.watch(vec![shop.clone(), mail]);
    assert_eq!((world.dials, world.open(0)), (4, 2), "one of each database");
    world.watch(vec![shop]);
    assert_eq!((world.open(0), world.open(1), world.open(2)), (1, 1, 0));
    world.advance(INTERVAL + Duration::from_millis(20));
    assert_eq!(world.dials, 4);
}

#[test]
fn an_internal_error_begins_anew_after_a_pause() {
    let mut world = World::new(&HOSTS);
    world.watcher.start_over();
    world.settle();
    assert_eq!((world.dials, world.open(0)), (3, 0));
    world.advance(Duration::from_millis(1_100));
    assert_eq!((world.dials, world.open(0)), (6, 1));
    assert_eq!(world.view(1).state, State::Up);
}
