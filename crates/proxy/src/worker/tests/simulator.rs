//! Simulator: clients, workers, servers and faults in an order that a seed decides, with invariants checked after every
//! event.
//!
//! Each client has a twin: a model of the session that the client would have with PostgreSQL itself. The twin is told
//! the same messages. The client must get, byte for byte, what its twin says, up to one fatal error if its server was
//! lost (I-01, I-02, I-03, I-08). A server must work with the state that the twin has at that point (I-08). What was
//! committed is what the client was told (I-05, I-06). Clients that cancel are judged by the tags of their rows instead
//! (I-07).
//!
//! A failure is shrunk: clients, operations and bytes are left out as long as the failure stays. `cargo xtask sim` runs
//! seeds with optimisations; docs/internals/simulator.md explains it.

use std::time::Duration;

use weir_testkit::backend::{Database, NUMBERS};
use weir_testkit::cuts::{Cuts, Dice};
use weir_testkit::program::Topic;

use super::postgres::{Postgres, TIMED_OUT};
use super::world::{Caller, Host, Protecting, World};
use crate::driver::memory::End;
use crate::orders::Task;
use crate::worker::slots::Stage;

mod actor;
mod found;
mod plan;
mod routed;
mod run;
mod shrink;
mod typist;

use actor::Actor;
use plan::{Op, Plan, What};
use run::Tally;
use typist::{Text, Typist};

/// Limit on buffered bytes: a worker may keep one message, which is never larger here, and the bytes that it reads
/// ahead.
const BUFFERED_MAX: usize = 256 * 1024;
/// Maximum number of half seconds that all clients may take to come to rest.
const PATIENCE: usize = 60;

/// Separates the dice of sends from those of an operation.
const SENDS: u64 = 0x7365_6e64_735f_6c61;
/// Separates the dice of helpers from those of an operation.
const HELPERS: u64 = 0x6865_6c70_6572_7300;

struct Simulation {
    world: World,
    database: Database,
    actors: Vec<Actor>,
    typists: Vec<Typist>,
    /// Maximum number of servers, by the most generous configuration so far.
    places: usize,
    lines: String,
    /// True if another process is to take over as soon as half of the clients are logged in.
    wants_upgrade: bool,
    tally: Tally,
    /// Story of the run in words; kept only when a failure is reported.
    story: Option<Vec<String>>,
}

impl Simulation {
    fn new(plan: &Plan) -> Self {
        let lines = format!("{}default_pool_size = {}\n", plan.lines(), plan.places);
        let mut world = World::with_room(plan.workers, &lines, plan.room);
        world.cancels_at_once = false;
        world.sending = plan.sending();
        world.has_catalogue = plan.has_catalogue();
        if plan.is_protected() {
            world.protect(Protecting::new(plan.seed, &lines));
        }
        let database = Database::default();
        world.database = Some(database.clone());
        let actors = plan.people.iter().enumerate();
        let actors = actors.map(|(number, person)| Actor::new(number, person));
        Self {
            actors: actors.collect(),
            typists: (0..plan.typists)
                .map(|_| Typist::new(plan.is_struck(), Text::of_plan(plan.seed)))
                .collect(),
            world,
            database,
            places: plan.places,
            lines: plan.lines(),
            wants_upgrade: false,
            tally: Tally::default(),
            story: None,
        }
    }

    fn run(&mut self, ops: &[Op]) {
        for op in ops {
            self.step(op);
        }
        self.come_to_rest();
        self.tally.moved = self.world.arrivals() as u64;
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
        if self.world.protecting.is_some() && Dice::new(op.seed ^ HELPERS).below(6) == 0 {
            self.world.help();
        }
        let dice = &mut Dice::new(op.seed);
        match op.what {
            What::Act => {
                let said = self.actors[op.who].act(&mut self.world, dice);
                if let Some(said) = said {
                    self.tell(|| format!("client {}: {said}", op.who));
                }
            }
            What::Client => self.client_step(dice),
            What::Clients => self.world.callers.iter_mut().for_each(|caller| {
                caller.serve();
            }),
            What::Turn => self.turn(op.seed, dice),
            What::Turns => (0..self.world.workers.len()).for_each(|worker| {
                self.world.turn(worker);
            }),
            What::Server => self.server_step(dice),
            What::Servers => self.servers_step(),
            What::Settle => {
                self.tell(|| "everything happens".to_owned());
                self.world.settle_under_orders();
            }
            What::Pass => {
                let time = Duration::from_micros(dice.below(3_000) as u64);
                self.world.pass(time);
            }
            What::Leap => self.world.leap(),
            What::Cancel => self.cancel_step(dice),
            What::AskCancel => self.actors[op.who].cancel(&mut self.world),
            What::Vanish => {
                self.tell(|| format!("client {} vanishes", op.who));
                self.actors[op.who].vanish(&mut self.world, dice);
            }
            What::Deafen => self.actors[op.who].deafen(&mut self.world, dice),
            What::Fault => self.fault(dice),
            What::Order => self.order(dice),
            What::Decree => self.decree(dice),
            What::Hit => self.hit(dice),
            What::Reload => self.reload(dice),
            What::Shortage => self.shortage(dice),
            What::Change => self.change(dice),
            What::Type => {
                let (world, database) = (&mut self.world, &self.database);
                let said = self.typists[op.who].act(world, database, dice);
                if let Some(said) = said {
                    self.tell(|| format!("typist {}: {said}", op.who));
                }
            }
            What::Upgrade => self.wants_upgrade = true,
        }
        if self.wants_upgrade
            && 2 * self.world.ready_clients() > self.actors.len() + self.typists.len()
        {
            self.upgrade();
        }
        self.check();
    }

    fn turn(&mut self, seed: u64, dice: &mut Dice) {
        let worker = dice.below(self.world.workers.len());
        let driver = &mut self.world.workers[worker].driver;
        driver.first = dice.below(64);
        driver.lateness = Some(Dice::new(seed ^ SENDS));
        self.world.turn(worker);
        self.world.workers[worker].driver.lateness = None;
        if dice.below(4) == 0 {
            self.world.carry();
        }
    }

    fn client_step(&mut self, dice: &mut Dice) {
        let live = |caller: &&mut Caller| !caller.left && !caller.is_closed();
        let mut live: Vec<_> = self.world.callers.iter_mut().filter(live).collect();
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
        if !server.stalled {
            server.work();
        }
        let server = &mut self.world.servers[index];
        let len = Cuts::random(dice.roll()).next_len(server.unsent());
        server.speak(len);
        if !server.is_alive() {
            self.world.servers.remove(index);
        }
    }

    fn servers_step(&mut self) {
        self.world.sort_out_cancels();
        for server in &mut self.world.servers {
            server.serve();
        }
        self.world.servers.retain(Postgres::is_alive);
    }

    fn cancel_step(&mut self, dice: &mut Dice) {
        self.world.sort_out_cancels();
        if self.world.cancels.is_empty() {
            return;
        }
        let index = dice.below(self.world.cancels.len());
        if self.world.cancels[index].signalled {
            self.world.cancels.remove(index).peer.end(End::Orderly);
        } else {
            let hit = self.world.signal(index);
            self.tell(|| format!("a cancel arrives, hits something: {hit}"));
        }
    }

    fn fault(&mut self, dice: &mut Dice) {
        let pick = dice.below(8);
        let index = dice.below(self.world.servers.len());
        let server = self.world.servers.get_mut(index);
        let told = match (pick, server) {
            (0 | 1, Some(server)) => {
                let how = *dice.pick(&[End::Orderly, End::Reset]);
                let last_word = how == End::Orderly && dice.below(2) == 0;
                server.die(last_word, how);
                format!(
                    "server {} dies, {how:?}, last word: {last_word}",
                    server.pid
                )
            }
            (2, Some(server)) => {
                server.stalled = true;
                format!("server {} stalls", server.pid)
            }
            (3 | 4, _) => {
                let servers = self.world.servers.iter_mut();
                servers.for_each(|server| server.stalled = false);
                "all servers work".to_owned()
            }
            (5, _) => {
                self.world.host = Host::Refuses;
                "the host refuses".to_owned()
            }
            _ => {
                self.world.host = Host::Accepts;
                "the host accepts".to_owned()
            }
        };
        self.tell(|| told);
    }

    /// Carries out an order of an administrator. Clients may notice only that they wait.
    fn order(&mut self, dice: &mut Dice) {
        let global = &self.world.global;
        let (told, task) = match dice.below(9) {
            0 => (
                format!("PAUSE: {:?}", global.pause(None, "pause")),
                Task::Settle,
            ),
            1 => (
                format!("PAUSE shop: {:?}", global.pause(Some("shop"), "pause")),
                Task::Settle,
            ),
            2 | 3 => {
                self.world.resume_predecessor(None);
                (format!("RESUME: {:?}", global.resume(None)), Task::Settle)
            }
            4 | 5 => {
                let shop = Some("shop");
                self.world.resume_predecessor(shop);
                (
                    format!("RESUME shop: {:?}", global.resume(shop)),
                    Task::Settle,
                )
            }
            6 => (
                format!("KILL shop: {:?}", global.pause(Some("shop"), "kill")),
                Task::Kill(Some("shop".into())),
            ),
            7 => (format!("SUSPEND: {:?}", global.suspend()), Task::Settle),
            _ => ("RECONNECT".to_owned(), Task::Recycle(None)),
        };
        self.world.task(&task);
        self.tell(|| told);
    }

    /// Forbids a role or a value, or allows everything again.
    fn decree(&mut self, dice: &mut Dice) {
        let known = ["alice", "bobby", "CET", "EET", "one", "8MB", "serializable"];
        let told = match dice.below(2) {
            0 => {
                self.database.allow_everything();
                "everything is allowed".to_owned()
            }
            _ => {
                let what: &&str = dice.pick(&known);
                self.database.forbid(what);
                format!("{what} is forbidden")
            }
        };
        self.tell(|| told);
    }

    /// Changes the objects that the texts of typists are resolved to, from a session outside of Weir.
    fn change(&mut self, dice: &mut Dice) {
        let told = if dice.below(2) == 0 {
            let (table, number) = (dice.below(2), *dice.pick(&NUMBERS));
            self.database.retype(&format!("kind_{table}"), number);
            format!("the column of kind_{table} is {}", number.name())
        } else {
            let done = self.database.change_view();
            format!("a view comes or goes: {done}")
        };
        self.tell(|| told);
    }

    /// Lets the statement that runs on some server time out, whichever client's it is.
    fn hit(&mut self, dice: &mut Dice) {
        if self.world.servers.is_empty() {
            return;
        }
        let index = dice.below(self.world.servers.len());
        let server = &mut self.world.servers[index];
        if server.strike(TIMED_OUT) {
            let told = format!("server {}: {TIMED_OUT}", server.pid);
            self.tell(|| told);
        }
    }

    fn reload(&mut self, dice: &mut Dice) {
        let places = 1 + dice.below(4);
        self.places = self.places.max(places);
        let lifetime = dice.pick(&["", "server_lifetime = 1\n", "server_idle_timeout = 1\n"]);
        let lines = format!("{}default_pool_size = {places}\n{lifetime}", self.lines);
        self.world.reload_unsettled(&lines);
        self.tell(|| format!("RELOAD with {places} servers {lifetime}"));
    }

    fn shortage(&mut self, dice: &mut Dice) {
        let is_short = dice.below(3) == 0;
        let worker = dice.below(self.world.workers.len());
        self.world.workers[worker].driver.is_short = is_short;
        self.tell(|| format!("worker {worker} is short of descriptors: {is_short}"));
    }

    /// Starts another process that takes over, with the initial configuration.
    fn upgrade(&mut self) {
        self.wants_upgrade = false;
        let lines = format!("{}default_pool_size = {}\n", self.lines, self.places);
        if self.world.upgrade(&lines) {
            self.tell(|| "another process takes over".to_owned());
        }
    }

    fn resume_everything(&self) {
        for database in [None, Some("shop")] {
            // The database may not be paused.
            let _ = self.world.global.resume(database);
            self.world.resume_predecessor(database);
        }
        self.world.task(&Task::Settle);
    }

    /// Stops the faults and lets clients finish what they began; then every client was answered (I-11).
    fn come_to_rest(&mut self) {
        self.tell(|| "faults stop, clients finish".to_owned());
        self.world.host = Host::Accepts;
        self.world.cancels_at_once = true;
        if let Some(protecting) = &mut self.world.protecting {
            protecting.spoils = false;
        }
        self.database.allow_everything();
        for worker in &mut self.world.workers {
            worker.driver.is_short = false;
        }
        if self.wants_upgrade {
            self.upgrade();
        }
        self.resume_everything();
        for server in &mut self.world.servers {
            server.stalled = false;
        }
        for caller in &mut self.world.callers {
            caller.deaf = false;
        }
        for turn in 0..PATIENCE {
            self.world.advance(Duration::from_millis(500));
            self.check();
            if turn == 0 {
                for actor in &mut self.actors {
                    actor.look(&mut self.world);
                }
                for typist in &mut self.typists {
                    typist.use_all(&mut self.world, &self.database, &mut Dice::new(0));
                }
                continue;
            }
            for actor in &mut self.actors {
                actor.finish(&mut self.world);
            }
            for typist in &mut self.typists {
                typist.finish(&mut self.world, &self.database, &mut Dice::new(0));
            }
        }
        self.world.settle();
        self.check();
        for actor in &self.actors {
            actor.check_answered(&self.world);
            actor.check_ledger(&self.world, &self.database);
        }
        for typist in &self.typists {
            typist.check_answered(&self.world);
        }
        self.check_places();
    }

    /// Disconnects all clients, and checks that nothing is left of them (I-14).
    fn leave(&mut self) {
        for caller in &mut self.world.callers {
            caller.leave(End::Orderly);
        }
        self.world.advance(Duration::from_secs(20));
        self.world.check_empty();
        self.check_idle();
        assert_eq!(self.database.locks(), 0, "I-04: locks");
        // server_idle_timeout
        self.world.advance(Duration::from_secs(700));
        let live = self.world.live_servers();
        assert_eq!(live, 0, "I-14: servers after the idle timeout");
    }

    // --- what must hold ---

    fn check(&mut self) {
        self.check_work();
        for actor in &mut self.actors {
            actor.check(&self.world);
        }
        for typist in &mut self.typists {
            typist.check(&self.world, &self.database);
        }
        self.check_idle();
        self.check_places();
        let buffered = self.world.buffered_max();
        assert!(buffered <= BUFFERED_MAX, "I-09: {buffered} bytes are kept");
    }

    /// Checks the limit on servers (I-10); during an upgrade each process has its own limit. A rule that sends clients to another
    /// database lets them have two pools.
    fn check_places(&self) {
        let live = self.world.live_servers();
        let pools = 1 + usize::from(self.lines.contains(plan::AWAY));
        let places = self.places * pools * self.world.processes();
        let places = places + self.world.listening_servers();
        assert!(live <= places, "I-10: {live} servers of {places}");
    }

    /// Checks that an idle server holds no client's state (I-04).
    fn check_idle(&self) {
        for worker in &self.world.workers {
            let idle = worker.tables.servers.iter().map(|(_, server)| server);
            for server in idle.filter(|server| matches!(server.stage, Stage::Idle)) {
                let mut known = self.world.servers.iter();
                let Some(model) = known.find(|known| known.pid == server.facts.pid) else {
                    continue;
                };
                let clean = !model.is_alive() || model.backend.holds_nothing();
                let held = model.backend.visible_state();
                assert!(
                    clean,
                    "I-04: an idle server holds {held:?}, after {:?}",
                    model.asked
                );
            }
        }
    }

    /// Checks that each statement found the state that its client's twin had at that point, and that it ran once, unless
    /// it reads (I-05, I-08).
    fn check_work(&mut self) {
        let may_repeat = self.world.has_catalogue;
        for server in &mut self.world.servers {
            for sight in server.backend.take_sights() {
                let number = whose(&sight.statement);
                let mut actors = self.actors.iter_mut();
                let actor = actors.find(|actor| number.is_some_and(|number| actor.is(number)));
                // The client may have vanished since, in the middle of a request.
                let Some(actor) = actor else { continue };
                let shown = sight.statement.split(' ').next().unwrap_or_default();
                let mut texts = server.asked.iter().rev();
                let is_read = may_repeat && texts.any(|text| reads(text, shown));
                let expected = actor.saw(&sight, is_read);
                if expected.is_none() && is_read {
                    continue;
                }
                let asked = &server.asked[server.asked.len().saturating_sub(8)..];
                let expected = expected
                    .unwrap_or_else(|| panic!("I-05: {} runs again: {asked:?}", sight.statement));
                assert_eq!(
                    but_channels(&sight.state),
                    but_channels(&expected),
                    "I-08: {} on server {} after {asked:?}",
                    sight.statement,
                    server.pid,
                );
            }
        }
    }
}

/// True for a text that may run again when its server is lost: it shows this row, and does nothing else.
fn reads(text: &str, row: &str) -> bool {
    let query = text.strip_prefix("COPY (").unwrap_or(text);
    let constant = query.strip_prefix("SELECT '");
    let Some((constant, rest)) = constant.and_then(|rest| rest.split_once('\'')) else {
        return false;
    };
    let is_series = rest.starts_with("||i FROM generate_series(") && row.starts_with(constant);
    let is_constant = row == constant && !rest.contains(['(', ';']) && !rest.contains(" FOR ");
    is_series || is_constant
}

/// Returns the state without channels: another server may listen for the client, and its notifications are compared.
fn but_channels(state: &[String]) -> Vec<&String> {
    let state = state.iter();
    state.filter(|line| !line.starts_with("channel ")).collect()
}

/// Returns the number of the client that sent this statement.
fn whose(statement: &str) -> Option<usize> {
    let number = statement.strip_prefix('c')?.split('-').next();
    number?.parse().ok()
}

/// Topics of the simulator's clients. Topics that a twin cannot predict are left out: values of sequences (a server is
/// left to others for them), and columns that change under a prepared statement (it may have been prepared anew).
const TOPICS: [Topic; 11] = [
    Topic::AdvisoryLocks,
    Topic::Copy,
    Topic::Cursors,
    Topic::Discard,
    Topic::Ledger,
    Topic::Notifications,
    Topic::Roles,
    Topic::Settings,
    Topic::SqlPrepared,
    Topic::SearchPath,
    Topic::Temporary,
];

/// Runs one seed; see [`run::One`].
fn one(seed: u64, lists: bool) -> Result<Tally, String> {
    let plan = Plan::new(seed);
    shrink::attempt(&plan).map_err(|failure| match lists {
        true => run::in_a_line(seed, &failure),
        false => format!("\n{}\n", shrink::explain(&plan, &failure)),
    })
}

#[test]
fn nobody_gets_anothers_answer_whatever_happens() {
    run::run(&run::Order::from_environment(), one);
}
