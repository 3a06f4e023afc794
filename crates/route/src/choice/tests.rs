//! Shares of the hosts, and ends of the ranges.

use weir_pool::HostId;
use weir_watch::HostView;
use weir_watch::Role;

use super::Places;
use super::below;
use super::choose;
use crate::ask::Load;
use crate::fixture;

const DRAWS: u64 = 60_000;

fn hosts(weights: &[u32]) -> Vec<HostView> {
    let view = |(number, weight): (u32, &u32)| HostView {
        weight: *weight,
        ..fixture::host(number, Role::Replica)
    };
    (0..).zip(weights).map(view).collect()
}

/// Counts the choices of hosts with these weights and clients.
fn counts(weights: &[u32], clients: &[u32]) -> Vec<u64> {
    let hosts = hosts(weights);
    let load = |id: HostId| Load {
        in_use: clients.get(id.0 as usize).copied().unwrap_or_default(),
        ..Load::default()
    };
    let mut counts = vec![0; weights.len()];
    for dice in 0..DRAWS {
        let chosen = choose(
            &hosts,
            Places::of(&hosts, &|host| host.weight > 0),
            &load,
            dice,
        );
        counts[chosen.unwrap().0 as usize] += 1;
    }
    counts
}

/// Checks that each count is within three standard deviations of the share that its weight gives.
#[track_caller]
fn check_shares(weights: &[u32], clients: &[u32]) {
    let total: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
    for (count, weight) in counts(weights, clients).iter().zip(weights) {
        let weight = u64::from(*weight);
        let expected = DRAWS * weight / total;
        // The variance of a binomial distribution.
        let variance = DRAWS * weight * (total - weight) / total / total;
        let distance = count.abs_diff(expected);
        assert!(
            distance * distance <= 9 * variance,
            "{count} choices instead of {expected}, weights {weights:?}"
        );
    }
}

#[test]
fn hosts_of_equal_load_get_shares_by_weight() {
    check_shares(&[100, 100, 100], &[]);
    check_shares(&[100, 10], &[]);
    check_shares(&[10, 100, 50], &[]);
    check_shares(&[1, 2, 3, 4, 0, 5], &[]);
    check_shares(&[100, 100, 100], &[7, 7, 7]);
    check_shares(&[100, 10, 50], &[20, 2, 10]);
}

#[test]
fn the_lighter_load_wins() {
    assert_eq!(counts(&[100, 100], &[1, 0]), [0, DRAWS]);
    assert_eq!(counts(&[100, 100], &[5, 6]), [DRAWS, 0]);
    // With ten times the weight a host is worth ten times the clients.
    assert_eq!(counts(&[100, 10], &[20, 0]), [0, DRAWS]);
    assert_eq!(counts(&[100, 10], &[9, 2]), [DRAWS, 0]);
    // The most loaded of three is never the better of two.
    assert_eq!(counts(&[100, 100, 100], &[1, 2, 3])[2], 0);
}

#[test]
fn a_single_host_and_no_host() {
    assert_eq!(counts(&[1], &[9]), [DRAWS]);
    assert_eq!(counts(&[0, 7, 0], &[0, 9, 0]), [0, DRAWS, 0]);
    let none = Places::default();
    let none = choose(&hosts(&[1, 1]), none, &|_| Load::default(), 1);
    assert_eq!(none, None);
    assert_eq!(
        choose(&[], Places::default(), &|_| Load::default(), 1),
        None
    );
}

#[test]
fn the_largest_numbers_do_not_overflow() {
    let full = Load {
        in_use: u32::MAX,
        waiting: u32::MAX,
        size: u32::MAX,
    };
    let hosts = hosts(&[u32::MAX; 5]);
    for dice in [0, 1, u64::MAX / 2, u64::MAX] {
        let all = Places::of(&hosts, &|_| true);
        assert!(choose(&hosts, all, &|_| full, dice).is_some());
    }
    assert_eq!(below(0, u64::MAX), 0);
    assert_eq!(below(u64::MAX, u64::MAX), u64::MAX - 1);
    assert_eq!(below(u64::MAX, 0), 0);
    assert_eq!((below(u64::MAX, 3), below(u64::MAX / 2, 2)), (2, 0));
}
