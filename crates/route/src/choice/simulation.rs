//! Simulation of hosts with pools of servers, on virtual time and with integers only: the figures of the decision
//! record are the same on every machine. A test compares them with the record.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::VecDeque;

use weir_pool::HostId;
use weir_watch::HostView;
use weir_watch::Role;

use super::Places;
use super::choose;
use super::draw;
use super::mix;
use crate::ask::Load;
use crate::fixture;

/// Ways to choose a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    /// The host with the fewest clients per weight.
    Least,
    /// Two draws by weight; the host that has the fewest clients per weight with this request.
    PairWithOne,
    /// Two draws by weight; the host that has the fewest clients per weight without this request.
    PairWithoutOne,
    /// A draw by weight.
    Random,
    /// Each worker takes the hosts in turn.
    RoundRobin,
    /// [`choose`].
    TwoChoices,
}

/// Load and hosts of an experiment. Times in nanoseconds.
struct Setup {
    /// Weight and mean time of a transaction, for each host.
    hosts: Vec<(u32, u64)>,
    /// Mean time between two requests of all clients.
    between: u64,
    /// Time after which the loads of the hosts are published again; 0 = each request sees them.
    period: u64,
}

/// Results of an experiment.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    /// Times from request to answer.
    median: u64,
    p99: u64,
    /// Share of the requests at the last host, per thousand.
    share_of_last: u64,
    /// Maximum number of waiting clients at a host.
    waiting_max: usize,
    /// Number of servers in use at each host, as the sum over all requests when each one arrives.
    in_use: Vec<u64>,
}

const REQUESTS: usize = 60_000;
const WORKERS: usize = 4;
const SERVERS: u32 = 20;
const MILLI: u64 = 1_000_000;

#[derive(Default)]
struct Host {
    in_use: u32,
    /// Times at which the waiting requests arrived.
    queue: VecDeque<u64>,
}

struct World {
    views: Vec<HostView>,
    hosts: Vec<Host>,
    means: Vec<u64>,
    /// Ends of transactions: time, host, time of the request.
    ends: BinaryHeap<Reverse<(u64, usize, u64)>>,
    /// Times from request to answer.
    spans: Vec<u64>,
    waiting_max: usize,
    random: u64,
}

impl World {
    fn new(setup: &Setup) -> Self {
        let view = |(number, (weight, _)): (u32, &(u32, u64))| HostView {
            weight: *weight,
            ..fixture::host(number, Role::Replica)
        };
        Self {
            views: (0..).zip(&setup.hosts).map(view).collect(),
            hosts: setup.hosts.iter().map(|_| Host::default()).collect(),
            means: setup.hosts.iter().map(|(_, mean)| *mean).collect(),
            ends: BinaryHeap::new(),
            spans: Vec::new(),
            waiting_max: 0,
            random: 1,
        }
    }

    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(1);
        mix(self.random)
    }

    /// Returns a span with about an exponential distribution: `-ln(x)` for a random `x`, by its leading zeros and a
    /// line between two powers of two.
    fn span(&mut self, mean: u64) -> u64 {
        let number = self.random() | 1;
        let zeros = u64::from(number.leading_zeros());
        let fraction = (number << zeros << 1) >> 48;
        let log2 = (zeros << 16) + (1 << 16) - fraction;
        (mean * ((log2 * 45_426) >> 16)) >> 16
    }

    fn loads(&self) -> Vec<Load> {
        let load = |host: &Host| Load {
            in_use: host.in_use,
            waiting: u32::try_from(host.queue.len()).unwrap(),
            size: SERVERS,
        };
        self.hosts.iter().map(load).collect()
    }

    fn start(&mut self, now: u64, host: usize, requested: u64) {
        let end = now + self.span(self.means[host]);
        self.hosts[host].in_use += 1;
        self.ends.push(Reverse((end, host, requested)));
    }

    fn request(&mut self, now: u64, host: usize) {
        if self.hosts[host].in_use < SERVERS {
            self.start(now, host, now);
        } else {
            self.hosts[host].queue.push_back(now);
            self.waiting_max = self.waiting_max.max(self.hosts[host].queue.len());
        }
    }

    /// Ends the transactions that are over at `now`.
    fn advance(&mut self, now: u64) {
        while let Some(Reverse((end, host, requested))) = self.ends.peek().copied() {
            if end > now {
                break;
            }
            self.ends.pop();
            self.spans.push(end - requested);
            self.hosts[host].in_use -= 1;
            if let Some(next) = self.hosts[host].queue.pop_front() {
                self.start(end, host, next);
            }
        }
    }

    fn pick(&mut self, policy: Policy, turn: &mut usize, loads: &[Load]) -> usize {
        let (dice, views) = (self.random(), &self.views);
        let load = |id: HostId| loads[id.0 as usize];
        let key = |view: &HostView, extra: u64| {
            let clients = load(view.host).clients() + extra;
            // Millionths tell all loads apart that occur here.
            clients * 1_000_000 / u64::from(view.weight)
        };
        let all = Places::of(views, &|_| true);
        let pair = |extra: u64| {
            let (place, first) = draw(views, all, mix(dice)).unwrap();
            let (_, second) = draw(views, all.without(place), mix(!dice)).unwrap();
            let is_better = key(second, extra) < key(first, extra);
            if is_better { second.host } else { first.host }
        };
        let host = match policy {
            Policy::Least => views.iter().min_by_key(|view| key(view, 1)).unwrap().host,
            Policy::PairWithOne => pair(1),
            Policy::PairWithoutOne => pair(0),
            Policy::Random => draw(views, all, mix(dice)).unwrap().1.host,
            Policy::RoundRobin => {
                *turn = (*turn + 1) % views.len();
                views[*turn].host
            }
            Policy::TwoChoices => choose(views, Places::of(views, &|_| true), &load, dice).unwrap(),
        };
        host.0 as usize
    }
}

fn simulate(setup: &Setup, policy: Policy) -> Outcome {
    let mut world = World::new(setup);
    // Each worker has a turn for round robin.
    let mut turns = [0; WORKERS];
    let (mut now, mut at_last) = (0, 0);
    let (mut published_at, mut loads) = (0, world.loads());
    let mut in_use = vec![0; world.hosts.len()];
    for turn in (0..WORKERS).cycle().take(REQUESTS) {
        now += world.span(setup.between);
        world.advance(now);
        if now - published_at >= setup.period {
            (published_at, loads) = (now, world.loads());
        }
        let host = world.pick(policy, &mut turns[turn], &loads);
        at_last += u64::from(host + 1 == world.hosts.len());
        world.request(now, host);
        for (sum, host) in in_use.iter_mut().zip(&world.hosts) {
            *sum += u64::from(host.in_use);
        }
    }
    world.advance(u64::MAX);
    assert_eq!(world.spans.len(), REQUESTS);
    world.spans.sort_unstable();
    Outcome {
        median: world.spans[world.spans.len() / 2],
        p99: world.spans[world.spans.len() * 99 / 100],
        share_of_last: at_last * 1_000 / REQUESTS as u64,
        waiting_max: world.waiting_max,
        in_use,
    }
}

/// Three hosts, of which the last takes twice the time for each transaction.
fn with_slow_host(period: u64) -> Setup {
    Setup {
        hosts: vec![(100, 2 * MILLI), (100, 2 * MILLI), (100, 4 * MILLI)],
        between: MILLI / 14,
        period,
    }
}

/// Two hosts of which the second is in slow start.
fn with_light_host(clients: u64) -> Setup {
    Setup {
        hosts: vec![(100, 2 * MILLI), (10, 2 * MILLI)],
        between: 2 * MILLI / clients,
        period: 0,
    }
}

fn tenths(number: u64, unit: u64) -> String {
    let tenths = (number * 10 + unit / 2) / unit;
    format!("{}.{}", tenths / 10, tenths % 10)
}

fn row(name: &str, cells: impl Iterator<Item = String>) -> String {
    format!("| {name} | {} |", cells.collect::<Vec<_>>().join(" | "))
}

#[test]
fn the_decision_record_has_these_figures() {
    let balance = [
        ("random", Policy::Random, 0),
        ("round robin of each worker", Policy::RoundRobin, 0),
        ("least connections", Policy::Least, 0),
        (
            "least connections, published every 5 ms",
            Policy::Least,
            5 * MILLI,
        ),
        ("two choices", Policy::TwoChoices, 0),
        (
            "two choices, published every 5 ms",
            Policy::TwoChoices,
            5 * MILLI,
        ),
    ];
    let mut rows = balance
        .map(|(name, policy, period)| {
            let outcome = simulate(&with_slow_host(period), policy);
            let cells = [
                tenths(outcome.median, MILLI),
                tenths(outcome.p99, MILLI),
                format!("{} %", tenths(outcome.share_of_last, 10)),
                outcome.waiting_max.to_string(),
            ];
            row(name, cells.into_iter())
        })
        .to_vec();
    let weights = [
        ("(load + 1) / weight", Policy::PairWithOne),
        ("load / weight", Policy::PairWithoutOne),
        ("second with it, first without", Policy::TwoChoices),
    ];
    rows.extend(weights.map(|(name, policy)| {
        let shares = [1, 4, 16].map(|clients| {
            let outcome = simulate(&with_light_host(clients), policy);
            format!("{} %", tenths(outcome.share_of_last, 10))
        });
        row(name, shares.into_iter())
    }));
    let record = include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/internals/decisions/choosing-a-host.md"
    ));
    let missing: Vec<&String> = rows.iter().filter(|row| !record.contains(*row)).collect();
    assert!(missing.is_empty(), "the record lacks {missing:#?}");
}

#[test]
fn two_choices_even_out_what_is_in_use() {
    let spread = |policy| {
        let in_use = simulate(&with_slow_host(0), policy).in_use;
        let (least, most) = (in_use.iter().min().unwrap(), in_use.iter().max().unwrap());
        most * 100 / least
    };
    let (random, two) = (spread(Policy::Random), spread(Policy::TwoChoices));
    assert!(
        two < 125,
        "the slow host has {two} % of a fast one's servers"
    );
    assert!(random > 170, "random choice evens out as well: {random} %");
}

#[test]
fn two_choices_on_old_counts_do_not_herd() {
    let old = with_slow_host(5 * MILLI);
    let p99 = |policy| simulate(&old, policy).p99;
    let (two, least) = (p99(Policy::TwoChoices), p99(Policy::Least));
    assert!(two < least, "two choices {two}, least connections {least}");
}

#[test]
fn a_light_host_gets_its_share_at_every_load() {
    for clients in [1, 4, 16] {
        let share = simulate(&with_light_host(clients), Policy::TwoChoices).share_of_last;
        assert!(
            (60..120).contains(&share),
            "{share} of 1,000 at {clients} clients"
        );
    }
}
