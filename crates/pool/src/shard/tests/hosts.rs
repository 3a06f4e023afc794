//! Tests of pools with several hosts, and of pools that move to another host.

use super::*;

/// A lane of a pool whose logins try these hosts in order, and the gates of the hosts.
fn lane_of(hosts: &[u32]) -> (Shard, Vec<Arc<HostGate>>) {
    let gate = |host: &u32| Arc::new(HostGate::new(HostId(*host), 1));
    let gates: Vec<_> = hosts.iter().map(gate).collect();
    let policy = Arc::new(of_size(4));
    let quota = || Arc::new(Quota::new(0));
    let hosts = Alternatives::in_order(gates.clone());
    let shared = Arc::new(Shared::new(&policy, 1, quota(), quota(), hosts));
    (Shard::new(shared, policy, 0, 1), gates)
}

/// Begins the login that the lane asks for. Returns its host.
fn begin(shard: &mut Shard, now: Moment, server: u64) -> Option<HostId> {
    let action = std::iter::from_fn(|| shard.poll(now)).find_map(|action| match action {
        Action::Connect(token) => Some(token),
        _ => None,
    });
    let token = action?;
    let host = token.host();
    shard.connect_started(token, ServerId(server), Serial(server));
    Some(host)
}

fn logins(gates: &[Arc<HostGate>]) -> Vec<usize> {
    gates.iter().map(|gate| gate.logins()).collect()
}

#[test]
fn a_login_counts_at_the_host_that_it_tries() {
    let (mut shard, gates) = lane_of(&[1, 2]);
    let _ = ticket(shard.checkout(Moment(1), ClientId(1), Want::Any));
    assert_eq!(begin(&mut shard, Moment(1), 1), Some(HostId(1)));
    assert_eq!(logins(&gates), [1, 0]);
    let next = shard.next_host(Moment(5), ServerId(1), FailureKind::Refused);
    assert_eq!(next, Some(HostId(2)));
    assert_eq!(logins(&gates), [0, 1]);
    // The first host is known to fail, and the second has no room for one more login.
    assert!(gates[0].closed_until().is_some() && gates[1].closed_until().is_none());
    let _ = ticket(shard.checkout(Moment(6), ClientId(2), Want::Any));
    assert_eq!(begin(&mut shard, Moment(6), 2), None);
    // No host is left.
    let none = shard.next_host(Moment(7), ServerId(1), FailureKind::Refused);
    assert_eq!(none, None);
    shard.connect_failed(Moment(7), ServerId(1), FailureKind::Refused);
    assert_eq!((logins(&gates), shard.waiting()), (vec![0, 0], 0));
}

#[test]
fn clients_wait_while_another_host_may_still_let_them_in() {
    let (mut shard, gates) = lane_of(&[1, 2]);
    for client in 1..=2 {
        let _ = ticket(shard.checkout(Moment(client), ClientId(client), Want::Any));
    }
    // Each gate admits one login.
    assert_eq!(begin(&mut shard, Moment(2), 1), Some(HostId(1)));
    assert_eq!(begin(&mut shard, Moment(2), 2), Some(HostId(2)));
    let busy = shard.next_host(Moment(3), ServerId(1), FailureKind::Refused);
    assert_eq!(busy, None, "the other host is asked already");
    shard.connect_failed(Moment(3), ServerId(1), FailureKind::Refused);
    assert_eq!(shard.waiting(), 2, "that login may succeed");
    let first = shard.connected(Moment(4), ServerId(2));
    assert_eq!(first, Checkin::Assigned(ClientId(1)));
    assert_eq!(begin(&mut shard, Moment(4), 3), Some(HostId(2)));
    assert!(gates[0].closed_until().is_some());
}

#[test]
fn a_pool_that_moves_to_another_host_forgets_the_failures_of_the_first() {
    let (mut shard, gates) = lane_of(&[1]);
    let _ = ticket(shard.checkout(Moment(1), ClientId(1), Want::Any));
    assert_eq!(begin(&mut shard, Moment(1), 1), Some(HostId(1)));
    shard.connect_failed(Moment(2), ServerId(1), FailureKind::Refused);
    let refused = shard.checkout(Moment(3), ClientId(2), Want::Any);
    assert_eq!(refused, Checkout::FailFast);
    let other = Arc::new(HostGate::new(HostId(2), 1));
    let shared = Arc::clone(shard.shared());
    shared.set_hosts(Alternatives::in_order([Arc::clone(&other)]));
    assert_eq!(shared.host_closed_until(), None);
    // Until it knows the new settings, the lane connects to the host that belongs to the old ones.
    let _ = ticket(shard.checkout(Moment(4), ClientId(2), Want::Any));
    assert_eq!(begin(&mut shard, Moment(4), 2), None);
    let policy = Arc::clone(shard.policy());
    shard.set_policy(Moment(5), policy);
    assert_eq!(begin(&mut shard, Moment(5), 2), Some(HostId(2)));
    assert_eq!((gates[0].logins(), other.logins()), (0, 1));
    shard.connect_failed(Moment(6), ServerId(2), FailureKind::Refused);
    assert!(other.closed_until().is_some());
}
