//! Fairness among clients that never stop, over several workers: whatever reason a client has to keep its server, the
//! others are served in turn.

use std::time::Duration;

use weir_testkit::backend::Database;
use weir_testkit::cuts::Dice;
use weir_testkit::say::say;

use super::world::World;

/// Longer than the grace within which a worker serves its own clients first.
const TICK: Duration = Duration::from_millis(2);
const TICKS: usize = 300;

/// Transactions, query by query, that give a client a reason to keep its server.
const REASONS: [(&str, &[&str]); 8] = [
    ("none", &["BEGIN", "SELECT 'y'", "COMMIT"]),
    ("none, without a block", &["SELECT 'y'"]),
    (
        "a sequence is moved and read",
        &[
            "BEGIN",
            "SELECT nextval('public.seq_1')",
            "SELECT lastval()",
            "COMMIT",
        ],
    ),
    (
        "currval",
        &[
            "BEGIN",
            "SELECT nextval('public.seq_1')",
            "SELECT currval('public.seq_1')",
            "COMMIT",
        ],
    ),
    ("a sequence is moved", &["SELECT nextval('public.seq_1')"]),
    (
        "a first INSERT",
        &["INSERT INTO public.sink VALUES ('x')", "SELECT 'y'"],
    ),
    (
        "a question about the session",
        &["BEGIN", "DO $$ BEGIN END $$", "COMMIT"],
    ),
    ("a question without a block", &["DO $$ BEGIN END $$"]),
];

struct Caller {
    /// Index of the next query in the script.
    next: usize,
    waits: bool,
    is_outside: bool,
    /// Number of transactions of all clients when the client sent its last query.
    since: usize,
    done: usize,
}

impl Caller {
    /// Number of transactions that other clients have done while this one waits for a server.
    fn others(&self, done: usize) -> usize {
        if self.is_outside {
            done - self.since
        } else {
            0
        }
    }
}

struct Run {
    world: World,
    dice: Dice,
    clients: Vec<Caller>,
    done: usize,
    /// Maximum number of other clients' transactions that any client has waited for.
    worst: usize,
}

impl Run {
    fn new(workers: usize, size: usize, seed: u64) -> Self {
        let lines =
            format!("default_pool_size = {size}\nsession_state = track\nquery_wait_notify = 0");
        let mut world = World::new(workers, &lines);
        world.database = Some(Database::default());
        // More than one client on most workers, and one on some.
        let count = 3 * size + workers / 2 + 3;
        let clients = (0..count).map(|_| {
            world.login();
            Caller {
                next: 0,
                waits: false,
                is_outside: true,
                since: 0,
                done: 0,
            }
        });
        let clients = clients.collect();
        Self {
            world,
            dice: Dice::new(seed),
            clients,
            done: 0,
            worst: 0,
        }
    }

    /// Gives each worker, server and client a turn, in random order.
    fn tick(&mut self, script: &[&str]) {
        let (workers, servers) = (self.world.workers.len(), self.world.servers.len());
        let mut order: Vec<_> = (0..workers + servers + self.clients.len()).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, self.dice.below(last + 1));
        }
        for who in order {
            if who < workers {
                self.world.turn(who);
            } else if who < workers + servers {
                self.world.servers[who - workers].serve();
            } else {
                self.serve(who - workers - servers, script);
            }
        }
        self.world.sort_out_cancels();
        self.world.pass(TICK);
    }

    fn serve(&mut self, index: usize, script: &[&str]) {
        let caller = &mut self.world.callers[index];
        caller.serve();
        let heard = caller.heard();
        let client = &mut self.clients[index];
        if client.waits {
            if !heard.contains("Z(") {
                return;
            }
            client.waits = false;
            self.worst = self.worst.max(client.others(self.done));
            client.next = (client.next + 1) % script.len();
            client.is_outside = heard.contains("Z(I)");
            client.done += usize::from(client.is_outside);
            self.done += usize::from(client.is_outside);
        }
        // Some clients pause here, most do not.
        if self.dice.below(8) == 0 {
            return;
        }
        client.waits = true;
        client.since = self.done;
        caller.say(&say().query(script[client.next]));
        caller.serve();
    }

    fn end(&mut self) {
        for client in &self.clients {
            if client.waits {
                self.worst = self.worst.max(client.others(self.done));
            }
        }
    }
}

#[test]
fn whatever_clients_keep_servers_for_nobody_waits_for_more_than_its_turn() {
    let mut failures = Vec::new();
    for (reason, script) in REASONS {
        for workers in [1, 2, 4, 8] {
            for size in [1, 2, 5] {
                let mut run = Run::new(workers, size, 1 + workers as u64 * 10 + size as u64);
                (0..TICKS).for_each(|_| run.tick(script));
                run.end();
                // For each server, the other clients' share of transactions, and two more.
                let bound = run.clients.len() + 2 * size;
                let least = run.clients.iter().map(|client| client.done).min();
                if run.worst > bound || least.is_none_or(|least| least == 0) {
                    let (worst, done, clients) = (run.worst, run.done, run.clients.len());
                    failures.push(format!(
                        "{reason}: {workers} workers, {size} servers, {clients} clients: one waited for {worst} of {done} \
                         transactions, {bound} at most; the least served had {least:?}"
                    ));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
