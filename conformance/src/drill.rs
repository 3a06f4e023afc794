//! Drills: a fault of a real cluster of Patroni or repmgr under load, and a ledger that shows what clients lost by it.
//!
//! A drill fails when its guarantee is broken; it never forgives. `cargo xtask drill` runs them.

use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;

use crate::Patroni;
use crate::Raw;
use crate::Repmgr;
use crate::clock::now;
use crate::cluster::LIMIT;
use crate::tools;
use crate::wait_until;

mod catalogue;
mod client;
mod ledger;
mod load;
mod outcome;
mod pooler;
mod report;
mod subject;
mod world;

pub use catalogue::DRILLS;
pub use outcome::Outcome;
pub use report::report;
pub use subject::Subject;
pub use world::World;

use load::Load;
use load::Pulse;
use subject::Entry;
use subject::Front;
use world::Cluster;

/// Hosts that a drill disturbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbs {
    /// The primary: what is in flight there may fail.
    Primary,
    /// Replicas only: nothing but a transaction on such a replica may fail.
    Replicas,
    /// The primary, and Weir itself, which loses all connections.
    Weir,
    /// The primary, whose last words may be that its disk is full.
    Disk,
    /// The primary, which is the only host that Weir knows, by a name that moves.
    Name,
}

/// A fault and the guarantee that holds in spite of it.
#[derive(Debug)]
pub struct Drill {
    /// Name for the command line.
    pub name: &'static str,
    /// Event, in a sentence.
    pub about: &'static str,
    /// Kind of the cluster.
    pub world: World,
    /// Hosts that the event disturbs.
    pub disturbs: Disturbs,
    /// Hosts in Weir's configuration.
    entry: Entry,
    /// Subjects that the drill is for.
    subjects: Subjects,
    /// Makes the event, and returns when the fault is over or as much as is needed for [`Patroni::wait_whole`].
    event: fn(&mut Stage<'_>) -> Result<()>,
}

impl Drill {
    /// True if the event can happen with this subject.
    #[must_use]
    pub fn is_for(&self, subject: Subject) -> bool {
        self.subjects == Subjects::All || subject == Subject::Weir
    }
}

/// Subjects that a drill is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subjects {
    All,
    Weir,
}

/// Parameters of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Program between the clients and the cluster.
    pub subject: Subject,
    /// Number of times that the event happens.
    pub rounds: u32,
    /// Time of load before the first event, after each event, and while a drill keeps hosts down.
    pub time: Duration,
    /// Number of clients; one of five only reads.
    pub clients: u32,
    /// Seed of the clients' choices.
    pub seed: u64,
    /// Options of Weir beside its defaults.
    pub settings: Vec<(String, String)>,
    /// True if times count. On a busy machine they say more about the machine than about Weir.
    pub is_timed: bool,
}

/// Cluster and load, as the event sees them.
#[derive(Debug)]
struct Stage<'a> {
    cluster: &'a mut Cluster,
    front: &'a mut Front,
    time: Duration,
    /// Time without a Weir.
    outage: Duration,
}

impl Stage<'_> {
    /// Returns the cluster of a drill of Patroni.
    fn patroni(&mut self) -> Result<&mut Patroni> {
        self.parts().map(|(patroni, _)| patroni)
    }

    /// Returns the cluster of a drill of Patroni, and the subject.
    fn parts(&mut self) -> Result<(&mut Patroni, &mut Front)> {
        match self.cluster {
            Cluster::Patroni(patroni) => Ok((patroni, self.front)),
            Cluster::Repmgr(_) => bail!("this drill is about Patroni"),
        }
    }

    /// Returns the cluster of a drill of repmgr.
    fn repmgr(&self) -> Result<&Repmgr> {
        match &*self.cluster {
            Cluster::Repmgr(repmgr) => Ok(repmgr),
            Cluster::Patroni(_) => bail!("this drill is about repmgr"),
        }
    }

    /// Lets the load go on for its time.
    fn dwell(&self) {
        dwell(self.time);
    }
}

/// Time from an event to the end of the load after it.
#[derive(Clone, Copy, Debug)]
struct Window {
    begin: Instant,
    end: Instant,
    /// Time without a Weir.
    outage: Duration,
}

/// Runs a drill.
///
/// # Errors
/// When the drill cannot be carried out. A broken guarantee is no error, but a part of the outcome.
pub fn run(drill: &'static Drill, options: &Options) -> Result<Outcome> {
    let mut cluster = Cluster::start(drill.world)?;
    create_tables(&cluster)?;
    let mut front = Front::start(options, drill.entry, &cluster)?;

    let pulse = Pulse::start(&cluster.addresses());
    let load = Load::start(front.entrance(), options);
    let begin = load.begin;
    let ran = run_events(drill, options, (&mut cluster, &mut front), &load);
    let end = now();
    let record = load.stop()?;
    let own = pulse.stop()?;
    let windows = ran.with_context(|| {
        let log = tools::tail(&front.log(), 40);
        format!("{:?}\n{}\n{log}", record.errors, cluster.states())
    })?;
    let mut primary = cluster.connect_leader()?;
    let audit = ledger::audit(&record, &mut primary)?;
    Ok(Outcome::new(outcome::Facts {
        drill,
        options: options.clone(),
        time: end - begin,
        begin,
        windows,
        record,
        own,
        audit,
        health: front.check_healthy().map_err(|error| format!("{error:#}")),
        log: front.log(),
    }))
}

/// Lets the events happen under load, and returns their windows.
fn run_events(
    drill: &Drill,
    options: &Options,
    (cluster, front): (&mut Cluster, &mut Front),
    load: &Load,
) -> Result<Vec<Window>> {
    load.wait_successes(1)?;
    dwell(options.time);
    let mut windows = Vec::new();
    for round in 1..=options.rounds {
        let begin = now();
        let mut stage = Stage {
            cluster,
            front,
            time: options.time,
            outage: Duration::ZERO,
        };
        (drill.event)(&mut stage).with_context(|| format!("event {round}"))?;
        let outage = stage.outage;
        cluster.wait_whole()?;
        dwell(options.time);
        windows.push(Window {
            begin,
            end: now(),
            outage,
        });
    }
    Ok(windows)
}

/// Creates the tables, and returns when each host has them: the first read of a session may run on any replica.
fn create_tables(cluster: &Cluster) -> Result<()> {
    let mut leader = cluster.connect_leader()?;
    leader.query(ledger::TABLE)?;
    leader.query(Pulse::TABLE)?;
    leader.terminate();
    for address in cluster.addresses() {
        let mut host = Raw::at(address, LIMIT)?;
        host.login(&[("user", "postgres"), ("database", "postgres")])?;
        wait_until("the tables on each host", LIMIT, || {
            Ok(host.query_one("SELECT to_regclass('pulse') IS NOT NULL")? == "t")
        })?;
        host.terminate();
    }
    Ok(())
}

/// Lets the load go on for a time: the measurement itself, not a wait for something.
fn dwell(time: Duration) {
    let end = now() + time;
    while now() < end {
        std::thread::park_timeout(end - now());
    }
}
