//! Simulations of a database with several hosts: replicas that lag, crashes, promotions, and clients that read back what
//! they have written.
//!
//! | name | check |
//! |---|---|
//! | R-01 | a statement that writes runs on the host that Weir knows as the primary, and no client sees a replica refuse it |
//! | R-02 | a read shows all commits that its consistency demands, as far as no failover has lost them |
//! | R-03 | all statements of a transaction run on one server |
//! | R-04 | no row is inserted twice |
//! | R-05 | each error has a reason |
//!
//! Clients that wait for ever, leaks and limits are found as in the other simulations.

use std::collections::BTreeSet;
use std::time::Duration;

use weir_testkit::backend::Database;
use weir_testkit::cluster::Cluster;
use weir_testkit::cuts::{Cuts, Dice};

use super::super::postgres::Postgres;
use super::super::world::{Sentry, World};
use super::run::{self, Order, Tally};
use crate::driver::memory::End;

mod found;
mod item;
mod keeper;
mod plan;
mod shrink;

use keeper::Keeper;
use plan::{Op, Plan, What};

/// Length of a step while clients come to rest.
const REST_STEP: Duration = Duration::from_millis(20);
/// Maximum number of such steps.
const REST_STEPS: usize = 2_000;
/// Separates the dice of the watch from those of the plan.
const WATCH: u64 = 0x7761_7463_685f_5f5f;

/// Rows that clients know to be committed.
pub(super) type Ledger = BTreeSet<String>;

struct Simulation {
    world: World,
    cluster: Cluster,
    sentry: Sentry,
    keepers: Vec<Keeper>,
    acked: Ledger,
    tally: Tally,
    /// Story of the run in words; kept only when a failure is reported.
    story: Option<Vec<String>>,
}

impl Simulation {
    fn new(plan: &Plan) -> Self {
        let mut world = World::new(plan.workers, &plan.lines());
        let cluster = Cluster::new(plan.hosts);
        world.database = Some(Database::default());
        world.cluster = Some(cluster.clone());
        let sentry = Sentry::new(&world.global, &cluster, world.now(), plan.seed ^ WATCH);
        let declares = plan.declares_reads();
        let keepers = (0..plan.people).map(|who| Keeper::new(who, plan.consistency, declares));
        Self {
            keepers: keepers.collect(),
            world,
            cluster,
            sentry,
            acked: Ledger::new(),
            tally: Tally::default(),
            story: None,
        }
    }

    fn run(&mut self, ops: &[Op]) {
        for op in ops {
            self.step(op);
        }
        self.come_to_rest();
        self.leave();
    }

    fn tell(&mut self, what: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            story.push(what());
        }
    }

    fn step(&mut self, op: &Op) {
        self.tally.ops += 1;
        self.tally.faults += u64::from(op.what.is_fault());
        let dice = &mut Dice::new(op.seed);
        match op.what {
            What::Act => self.act(op.who, dice),
            What::Client => self.client_step(dice),
            What::Clients => self.world.callers.iter_mut().for_each(|caller| {
                caller.serve();
            }),
            What::Server => self.server_step(dice),
            What::Servers => self.servers_step(),
            What::Turn => {
                let worker = dice.below(self.world.workers.len());
                self.world.turn(worker);
            }
            What::Turns => (0..self.world.workers.len()).for_each(|worker| {
                self.world.turn(worker);
            }),
            What::Settle => {
                self.tell(|| "everything happens".to_owned());
                self.world.settle_under_orders();
            }
            What::Pass => self.pass(dice),
            What::Leap => self.world.leap(),
            What::Replicate => self.cluster.replicate(dice),
            What::CatchUp => self.cluster.catch_up(),
            What::Vanish => {
                self.tell(|| format!("client {} vanishes", op.who));
                self.keepers[op.who].vanish(&mut self.world, dice);
            }
            What::Crash | What::Kill | What::Lose | What::Pause | What::Promote => {
                self.fault(op.what, dice);
            }
            What::Receiver | What::Start => self.fault(op.what, dice),
        }
        self.watch();
        self.check();
    }

    fn act(&mut self, who: usize, dice: &mut Dice) {
        let primary = self.sentry.primary();
        let said = self.keepers[who].act(&mut self.world, primary, &self.acked, dice);
        if let Some(said) = said {
            self.tell(|| format!("client {who}: {said}"));
        }
    }

    fn client_step(&mut self, dice: &mut Dice) {
        let callers = self.world.callers.iter_mut();
        let mut live: Vec<_> = callers
            .filter(|caller| !caller.left && !caller.is_closed())
            .collect();
        if live.is_empty() {
            return;
        }
        let index = dice.below(live.len());
        let caller = &mut live[index];
        let len = Cuts::random(dice.roll()).next_len(caller.unsent());
        caller.send_some(len);
        caller.receive();
    }

    fn server_step(&mut self, dice: &mut Dice) {
        self.world.sort_out_cancels();
        if self.world.servers.is_empty() {
            return;
        }
        let index = dice.below(self.world.servers.len());
        let server = &mut self.world.servers[index];
        server.hear();
        server.work();
        let len = Cuts::random(dice.roll()).next_len(server.unsent());
        server.speak(len);
        self.world.servers.retain(Postgres::is_alive);
    }

    fn servers_step(&mut self) {
        self.world.sort_out_cancels();
        for server in &mut self.world.servers {
            server.serve();
        }
        self.world.servers.retain(Postgres::is_alive);
    }

    fn pass(&mut self, dice: &mut Dice) {
        let max = *dice.pick(&[50, 3_000, 30_000, 300_000]);
        let time = Duration::from_micros(dice.below(max) as u64);
        self.tell(|| format!("{time:?} pass"));
        self.world.pass(time);
    }

    fn watch(&mut self) {
        let before = self.sentry.primary();
        let now = self.world.now();
        self.sentry.tick(&self.world.global, now);
        let primary = self.sentry.primary();
        if primary != before {
            self.tell(|| format!("writes go to host {primary:?}"));
        }
        for keeper in &mut self.keepers {
            keeper.note_primary(primary, &self.cluster);
        }
    }

    // --- faults ---

    fn fault(&mut self, what: What, dice: &mut Dice) {
        let host = dice.below(self.cluster.len());
        let told = match what {
            What::Crash if self.cluster.is_up(host) => {
                self.end_host(host, dice);
                format!("host {host} crashes")
            }
            What::Start if !self.cluster.is_up(host) => self.start(host, dice),
            What::Promote if self.cluster.is_standby(host) => self.promote(host, dice),
            What::Pause => {
                let is_on = dice.below(2) == 0;
                self.cluster.pause(host, is_on);
                format!("replay of host {host} is paused: {is_on}")
            }
            What::Receiver => {
                let is_on = dice.below(2) == 0;
                self.cluster.break_receiver(host, is_on);
                format!("the receiver of host {host} is broken: {is_on}")
            }
            What::Kill | What::Lose if !self.world.servers.is_empty() => {
                let index = dice.below(self.world.servers.len());
                let server = &mut self.world.servers[index];
                match what {
                    What::Lose => server.die_unheard(),
                    _ => server.die(dice.below(2) == 0, End::Orderly),
                }
                format!("server {} is lost: {what:?}", server.pid)
            }
            _ => return,
        };
        self.world.servers.retain(Postgres::is_alive);
        self.tell(|| told);
    }

    /// Ends a host and its sessions, some of them with a last word.
    fn end_host(&mut self, host: usize, dice: &mut Dice) {
        self.cluster.crash(host);
        let sessions = self.world.servers.iter_mut();
        let is_there = |server: &&mut Postgres| {
            let site = server.site.as_ref();
            site.is_some_and(|site| site.host() == host)
        };
        for server in sessions.filter(is_there) {
            match dice.below(3) {
                0 => server.die_unheard(),
                1 => server.die(true, End::Orderly),
                _ => server.die(false, End::Reset),
            }
        }
    }

    /// Starts a host: in its former role, or as a standby of the newest primary.
    fn start(&self, host: usize, dice: &mut Dice) -> String {
        let follows = dice.below(3);
        if follows > 0 {
            self.cluster.follow(host, follows > 1);
        }
        self.cluster.start(host, dice.below(2) == 0);
        let is_standby = self.cluster.is_standby(host);
        format!("host {host} starts, standby: {is_standby}, rewound: {follows}")
    }

    /// Promotes a standby. Mostly the primary has crashed before.
    fn promote(&mut self, host: usize, dice: &mut Dice) -> String {
        let leader = self.cluster.leader();
        let beside = dice.below(5) == 0;
        if !beside && self.cluster.is_up(leader) {
            self.end_host(leader, dice);
        }
        self.cluster.promote(host);
        format!("host {host} is promoted, beside a primary: {beside}")
    }

    // --- the end ---

    fn come_to_rest(&mut self) {
        self.tell(|| "faults stop, clients finish".to_owned());
        let leader = self.cluster.leader();
        let dice = &mut Dice::new(0);
        self.cluster.start(leader, false);
        for host in (0..self.cluster.len()).filter(|host| *host != leader) {
            self.cluster.pause(host, false);
            self.cluster.break_receiver(host, false);
            self.end_host(host, dice);
            self.cluster.follow(host, true);
            self.cluster.start(host, false);
        }
        for _ in 0..REST_STEPS {
            self.world.pass(REST_STEP);
            self.cluster.catch_up();
            self.watch();
            self.world.settle_under_orders();
            self.check();
            let primary = self.sentry.primary();
            for who in 0..self.keepers.len() {
                self.keepers[who].finish(&mut self.world, primary, &self.acked);
            }
            if self.keepers.iter().all(Keeper::is_done) {
                return;
            }
        }
        let waiting = self.keepers.iter().find(|keeper| !keeper.is_done());
        panic!("I-11: not answered: {waiting:?}{}", self.world.holdings());
    }

    /// Disconnects all clients, and checks that nothing is left of them (I-14).
    fn leave(&mut self) {
        for caller in &mut self.world.callers {
            caller.leave(End::Orderly);
        }
        self.world.advance(Duration::from_secs(20));
        self.world.check_empty();
        // server_idle_timeout
        self.world.advance(Duration::from_secs(700));
        let live = self.world.live_servers();
        assert_eq!(live, 0, "I-14: servers after the idle timeout");
    }

    fn check(&mut self) {
        for deed in self.cluster.take_deeds() {
            let reads = !deed.writes && self.cluster.is_standby(deed.host);
            self.tally.replica_reads += u64::from(reads);
            if let Some(keeper) = self.keepers.iter_mut().find(|it| it.is_of(&deed)) {
                keeper.saw(deed);
            }
        }
        for keeper in &mut self.keepers {
            keeper.check(&self.world, &self.cluster, &mut self.acked);
        }
    }
}

/// Runs one seed; see [`run::One`].
fn one(seed: u64, lists: bool) -> Result<Tally, String> {
    let plan = Plan::new(seed);
    shrink::attempt(&plan).map_err(|failure| match lists {
        true => run::in_a_line(seed, &failure),
        false => format!("\n{}\n", shrink::explain(&plan, &failure)),
    })
}

#[test]
fn reads_and_writes_find_their_host_whatever_happens() {
    run::run(&Order::from_environment(), one);
}
