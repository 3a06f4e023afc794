//! Tests of the state that workers and the watching thread share.

use std::io;
use std::sync::atomic::AtomicUsize;
use std::thread;

use weir_pool::HostId;
use weir_watch::{Generation, Held, HostView, Role, State};

use super::*;

#[derive(Debug, Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(&self) -> io::Result<()> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

impl Counter {
    fn take(&self) -> usize {
        self.0.swap(0, Ordering::SeqCst)
    }
}

fn cluster() -> (Arc<Cluster>, Arc<Counter>) {
    let clusters = Clusters::default();
    let counter = Arc::new(Counter::default());
    clusters.wakeup().set(Arc::<Counter>::clone(&counter));
    (clusters.of("shop"), counter)
}

/// Returns a cluster whose writes hasten probes.
fn followed() -> (Arc<Cluster>, Arc<Counter>) {
    let (cluster, wakeups) = cluster();
    cluster.follow_writes();
    assert_eq!(cluster.uncovered_write(Moment(1)), None);
    wakeups.take();
    (cluster, wakeups)
}

fn view(host: u32) -> HostView {
    HostView {
        host: HostId(host),
        name: "a:5432".into(),
        az: "".into(),
        role: Role::Replica,
        state: State::Up,
        since: Moment(1),
        generation: Generation(0),
        timeline: 1,
        fresh_to: Moment(1),
        fresh_to_async: Moment(1),
        replayed: None,
        lag_bytes: None,
        lag: None,
        takes_reads: true,
        weight: 100,
        probe_time: None,
        last_error: None,
    }
}

fn snapshot(hosts: Vec<HostView>) -> Arc<Snapshot> {
    Arc::new(Snapshot {
        hosts,
        ..Snapshot::default()
    })
}

#[test]
fn commits_wake_the_thread_only_if_somebody_may_read_elsewhere() {
    let (cluster, wakeups) = cluster();
    cluster.wrote(Moment(10));
    assert_eq!(wakeups.take(), 0);
    assert_eq!(cluster.uncovered_write(Moment(5)), None);
    // Whoever reads elsewhere sees what was written before, and a probe comes soon.
    assert_eq!(cluster.last_write(), Moment(10));
    cluster.follow_writes();
    cluster.follow_writes();
    assert_eq!(wakeups.take(), 1);
    assert_eq!(cluster.uncovered_write(Moment(5)), Some(Moment(10)));
    assert_eq!(cluster.uncovered_write(Moment(11)), None);
    cluster.wrote(Moment(12));
    assert_eq!(wakeups.take(), 1);
}

#[test]
fn commits_wake_the_thread_if_somebody_asks_for_positions() {
    let (cluster, wakeups) = cluster();
    cluster.note_lsn();
    cluster.wrote(Moment(10));
    assert_eq!(wakeups.take(), 1);
}

#[test]
fn only_the_first_commit_after_a_quiet_time_wakes_the_thread() {
    let (cluster, wakeups) = followed();
    for at in [10, 11, 11, 9, 50] {
        cluster.wrote(Moment(at));
    }
    assert_eq!(wakeups.take(), 1);
    assert_eq!(cluster.last_write(), Moment(50));
    // A probe covers commits before it was sent, and no others.
    assert_eq!(cluster.uncovered_write(Moment(50)), Some(Moment(50)));
    cluster.wrote(Moment(60));
    assert_eq!(cluster.uncovered_write(Moment(51)), Some(Moment(60)));
    assert_eq!(wakeups.take(), 0, "the thread looks by itself");
    assert_eq!(cluster.uncovered_write(Moment(61)), None);
    cluster.wrote(Moment(55));
    assert_eq!(wakeups.take(), 0, "a late report of a covered commit");
    cluster.wrote(Moment(61));
    assert_eq!(wakeups.take(), 1);
}

#[test]
fn suspicions_wake_once_until_the_thread_has_taken_them() {
    let (cluster, wakeups) = cluster();
    assert!(!cluster.take_suspicion());
    cluster.suspect();
    cluster.suspect();
    assert_eq!(wakeups.take(), 1);
    assert!(cluster.take_suspicion() && !cluster.take_suspicion());
    cluster.suspect();
    assert_eq!(wakeups.take(), 1);
}

#[test]
fn no_commit_of_another_thread_is_lost() {
    const COMMITS: u64 = 20_000;
    let (cluster, wakeups) = followed();
    let writers: Vec<_> = (0..2)
        .map(|writer| {
            let cluster = Arc::clone(&cluster);
            thread::spawn(move || {
                for at in 1..=COMMITS {
                    cluster.wrote(Moment(2 * at + writer));
                }
            })
        })
        .collect();
    let last = Moment(2 * COMMITS + 1);
    let mut known = Moment(0);
    // The thread's side: it looks when it is woken, and as long as the cluster is dirty.
    while known < last {
        match cluster.uncovered_write(Moment(known.0 + 1)) {
            Some(write) => known = write,
            // Asleep: only a wakeup goes on.
            None => {
                let is_over = writers.iter().all(thread::JoinHandle::is_finished);
                if wakeups.take() == 0 {
                    assert!(!is_over || cluster.last_write() == known, "lost");
                    thread::yield_now();
                }
            }
        }
    }
    for writer in writers {
        writer.join().unwrap();
    }
    assert_eq!(cluster.last_write(), last);
}

#[test]
fn workers_are_woken_for_news_only() {
    let (cluster, _) = cluster();
    let numbers = |cluster: &Cluster| (cluster.number(), cluster.snapshot().hosts.len());
    assert_eq!(numbers(&cluster), (0, 0));
    assert!(
        cluster.publish(snapshot(vec![view(1), view(2)])),
        "new hosts"
    );
    assert_eq!(numbers(&cluster), (1, 2));
    let change = |change: &dyn Fn(&mut HostView)| {
        cluster.publish(snapshot(vec![view(1), view(2)]));
        let mut other = view(2);
        change(&mut other);
        cluster.publish(snapshot(vec![view(1), other]))
    };
    assert!(change(&|host| host.generation = Generation(1)));
    assert!(change(&|host| host.role = Role::Primary));
    assert!(change(&|host| host.takes_reads = false));
    assert!(!change(&|host| host.fresh_to = Moment(9)));
    assert!(!change(&|host| host.weight = 9));
    let mut writes = Snapshot::clone(&cluster.snapshot());
    writes.writes = Writes::To(HostId(1));
    assert!(cluster.publish(Arc::new(writes)));
}

#[test]
fn a_reader_that_waits_is_woken_by_each_snapshot() {
    let (cluster, _) = cluster();
    cluster.publish(snapshot(vec![view(1)]));
    let mut fresher = view(1);
    fresher.fresh_to = Moment(9);
    let waiters = [cluster.wait_for_freshness(), cluster.wait_for_freshness()];
    assert!(cluster.publish(snapshot(vec![fresher.clone()])));
    let [one, other] = waiters;
    drop(one);
    assert!(cluster.publish(snapshot(vec![fresher.clone()])));
    drop(other);
    assert!(!cluster.publish(snapshot(vec![fresher])));
}

#[test]
fn an_entry_keeps_its_cluster_while_anybody_uses_it() {
    let clusters = Clusters::default();
    let shop = clusters.of("shop");
    clusters.of("mail").publish(snapshot(vec![view(1)]));
    clusters.forget_unused();
    assert!(Arc::ptr_eq(&shop, &clusters.of("shop")));
    assert_eq!(clusters.of("mail").number(), 0, "made anew");
}

/// Publishes who takes writes since when.
fn publish_writes(cluster: &Cluster, writes: Writes, since: u64) {
    cluster.publish(Arc::new(Snapshot {
        writes,
        writes_since: Moment(since),
        hosts: vec![view(1)],
        ..Snapshot::default()
    }));
}

#[test]
fn a_hold_lasts_from_the_loss_of_the_primary_and_does_not_follow_another_too_soon() {
    let (cluster, _) = cluster();
    let (hold, between) = (Duration::from_micros(100), Duration::from_micros(50));
    let end = |cluster: &Cluster| cluster.hold_end(hold, between);
    publish_writes(&cluster, Writes::Held(Held::NoPrimary), 1);
    assert_eq!(end(&cluster), None, "none was ever there");
    publish_writes(&cluster, Writes::To(HostId(1)), 5);
    assert_eq!(end(&cluster), None);
    publish_writes(&cluster, Writes::Held(Held::NoPrimary), 10);
    assert_eq!(end(&cluster), Some(Moment(110)));
    publish_writes(&cluster, Writes::Held(Held::SplitBrain), 20);
    assert_eq!(end(&cluster), Some(Moment(110)), "the same outage");
    publish_writes(&cluster, Writes::To(HostId(1)), 30);
    assert_eq!(end(&cluster), None);
    publish_writes(&cluster, Writes::Held(Held::NoPrimary), 79);
    assert_eq!(end(&cluster), Some(Moment(79)), "too soon: over at once");
    publish_writes(&cluster, Writes::To(HostId(1)), 90);
    publish_writes(&cluster, Writes::Held(Held::NoPrimary), 140);
    assert_eq!(end(&cluster), Some(Moment(240)));
}
