//! A model of clients, a pool with a movable limit, and a database: processor sharing with an overhead per active
//! backend, I/O channels, group commit, locks held to the end of the transaction, and client think time. One seed
//! determines a run.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use weir_advisor::controller::{Decision, Observation, Totals};
use weir_advisor::random::Random;

/// Interval of the controller's observations.
pub const TICK_S: f64 = 0.05;

/// A step of a transaction; times are means in seconds.
#[derive(Debug, Clone, Copy)]
pub enum Step {
    /// Work on a core, exponentially distributed.
    Cpu(f64),
    /// Time in which the client thinks inside the transaction.
    Gap(f64),
    /// A wait for one of the I/O channels and its use, exponentially distributed.
    Io(f64),
    /// Takes one of the mix's locks and keeps it to the end.
    Lock,
    /// Sleeps in the server, within a tenth.
    Sleep(f64),
    /// A flush of the log that all commits waiting for it share.
    Flush,
}

/// A kind of transaction in a mix.
#[derive(Debug, Clone)]
pub struct Kind {
    pub weight: f64,
    /// Class that the pool knows beforehand.
    pub class: usize,
    pub steps: Vec<Step>,
}

/// A load and its machine.
#[derive(Debug, Clone)]
pub struct Mix {
    pub kinds: Vec<Kind>,
    pub cores: f64,
    /// Share of the speed lost for each active backend beyond the cores.
    pub overhead: f64,
    pub channels: usize,
    pub flush_s: f64,
    pub locks: usize,
    /// Number of clients; each has one transaction at a time.
    pub clients: usize,
    /// Mean pause between two transactions of a client, exponentially distributed.
    pub think_s: f64,
    /// True if others use the machine, too, as on most virtual ones.
    pub is_unsteady: bool,
}

/// Share of the machine that others leave: two factors of its speed, each redrawn after a while. Chosen after a virtual
/// machine with two cores on which throughput of one fixed size differed by 6 to 16 % from second to second.
#[derive(Debug, Clone, Copy)]
struct Others {
    /// Mean seconds until the next draw.
    stays_s: f64,
    /// Smallest share; values up to 1 are equally likely.
    least: f64,
}

const OTHERS: [Others; 2] = [
    Others {
        stays_s: 0.25,
        least: 0.5,
    },
    Others {
        stays_s: 4.0,
        least: 0.7,
    },
];

/// Decides the limit.
pub trait Sizer {
    /// Returns the maximum number of assigned servers from now on.
    fn limit(&mut self, observation: &Observation) -> Decision;
}

/// A fixed limit.
pub struct Fixed(pub u32);

impl Sizer for Fixed {
    fn limit(&mut self, _observation: &Observation) -> Decision {
        Decision::still(self.0)
    }
}

/// Results of a run.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Completions in each whole second.
    pub completions: Vec<u32>,
    /// Response times, queue included, of transactions that completed after `measure_from`.
    pub responses_s: Vec<f32>,
    /// The limit at the end of each second.
    pub limits: Vec<u32>,
    /// Lowest and highest limit ever in force.
    pub extremes: (u32, u32),
    /// Clients waiting at the end of each second.
    pub waiting: Vec<usize>,
}

impl Outcome {
    /// Transactions per second from second `from` to the end.
    pub fn tps(&self, from: usize) -> f64 {
        let part = &self.completions[from..];
        part.iter().map(|&count| f64::from(count)).sum::<f64>() / part.len() as f64
    }

    /// Transactions per second from second `from` to before `to`.
    pub fn tps_between(&self, from: usize, to: usize) -> f64 {
        let part = &self.completions[from..to];
        part.iter().map(|&count| f64::from(count)).sum::<f64>() / part.len() as f64
    }

    pub fn mean_response_s(&self) -> f64 {
        self.responses_s
            .iter()
            .map(|&time| f64::from(time))
            .sum::<f64>()
            / self.responses_s.len().max(1) as f64
    }

    pub fn percentile_s(&mut self, part: f64) -> f64 {
        let count = self.responses_s.len();
        if count == 0 {
            return f64::INFINITY;
        }
        let index = ((count as f64 * part) as usize).min(count - 1);
        let (_, value, _) = self
            .responses_s
            .select_nth_unstable_by(index, f32::total_cmp);
        f64::from(*value)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Event {
    Arrive(u32),
    FlushOver,
    GapOver(u32),
    IoOver(u32),
    OthersChange(usize),
    SleepOver(u32),
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Timed {
    at: f64,
    event: Event,
}

impl Eq for Timed {}

impl PartialOrd for Timed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timed {
    /// Reversed, so that the heap returns the earliest first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.at.total_cmp(&self.at)
    }
}

/// Work on the cores, done when the virtual time reaches `until`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Work {
    until: f64,
    client: u32,
}

impl Eq for Work {}

impl PartialOrd for Work {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Work {
    fn cmp(&self, other: &Self) -> Ordering {
        other.until.total_cmp(&self.until)
    }
}

#[derive(Debug, Clone, Default)]
struct Client {
    kind: usize,
    step: usize,
    enqueued: f64,
    assigned: f64,
    lock: Option<usize>,
    has_server: bool,
    pinned: bool,
}

#[derive(Debug, Clone, Default)]
struct Lock {
    held: bool,
    queue: VecDeque<u32>,
}

/// Model of one run.
pub struct Model<'a> {
    phases: &'a [(f64, Mix)],
    phase: usize,
    random: Random,
    now: f64,
    heap: BinaryHeap<Timed>,
    clients: Vec<Client>,
    // the pool
    limit: u32,
    in_use: u32,
    queue: VecDeque<u32>,
    totals: Totals,
    idle_in_transaction: u32,
    lock_waits: u32,
    pinned: u32,
    // the database
    works: BinaryHeap<Work>,
    virtual_time: f64,
    io_busy: usize,
    io_queue: VecDeque<u32>,
    flushing: Vec<u32>,
    flush_next: Vec<u32>,
    locks: Vec<Lock>,
    /// A separate stream, so that all runs of a seed have the same machine.
    others: Random,
    left: [f64; OTHERS.len()],
    // the record
    measure_from: f64,
    outcome: Outcome,
    completions: u32,
}

impl<'a> Model<'a> {
    /// Creates a run through `phases`, each with its length in seconds and its mix. All have the same clients.
    pub fn new(phases: &'a [(f64, Mix)], seed: u64, measure_from: f64) -> Self {
        let mix = &phases[0].1;
        let locks = phases.iter().map(|(_, mix)| mix.locks).max().unwrap_or(0);
        let mut model = Self {
            phases,
            phase: 0,
            random: Random::new(seed),
            now: 0.0,
            heap: BinaryHeap::new(),
            clients: vec![Client::default(); mix.clients],
            limit: 0,
            in_use: 0,
            queue: VecDeque::new(),
            totals: Totals::default(),
            idle_in_transaction: 0,
            lock_waits: 0,
            pinned: 0,
            works: BinaryHeap::new(),
            virtual_time: 0.0,
            io_busy: 0,
            io_queue: VecDeque::new(),
            flushing: Vec::new(),
            flush_next: Vec::new(),
            locks: vec![Lock::default(); locks],
            others: Random::new(!seed),
            left: [1.0; OTHERS.len()],
            measure_from,
            outcome: Outcome {
                extremes: (u32::MAX, 0),
                ..Outcome::default()
            },
            completions: 0,
        };
        for client in 0..u32::try_from(mix.clients).unwrap() {
            let spread = if mix.think_s > 0.0 { mix.think_s } else { 0.01 };
            let at = model.random.exponential(spread);
            model.at(at, Event::Arrive(client));
        }
        if mix.is_unsteady {
            (0..OTHERS.len()).for_each(|index| model.draw_others(index));
        }
        model
    }

    /// Plays all phases with `sizer`.
    pub fn play(mut self, sizer: &mut dyn Sizer) -> Outcome {
        let ends: Vec<f64> = self
            .phases
            .iter()
            .scan(0.0, |end, (seconds, _)| {
                *end += seconds;
                Some(*end)
            })
            .collect();
        let ticks = (ends.last().unwrap() / TICK_S).round() as u32;
        self.tick(sizer);
        for tick in 1..=ticks {
            self.run_until(f64::from(tick) * TICK_S);
            self.tick(sizer);
            if tick % 20 == 0 {
                self.outcome
                    .completions
                    .push(std::mem::take(&mut self.completions));
                self.outcome.limits.push(self.limit);
                self.outcome.waiting.push(self.queue.len());
            }
            if self.phase + 1 < self.phases.len() && self.now >= ends[self.phase] - 1e-9 {
                self.phase += 1;
            }
        }
        self.outcome
    }

    fn mix(&self) -> &'a Mix {
        &self.phases[self.phase].1
    }

    fn at(&mut self, at: f64, event: Event) {
        self.heap.push(Timed { at, event });
    }

    fn tick(&mut self, sizer: &mut dyn Sizer) {
        let decision = sizer.limit(&Observation {
            now: Duration::from_secs_f64(self.now),
            totals: self.totals.clone(),
            in_use: self.in_use,
            waiting: u32::try_from(self.queue.len()).unwrap(),
            idle_in_transaction: self.idle_in_transaction,
            lock_waits: Some(self.lock_waits),
            pinned: self.pinned,
            stillness: None,
            has_turn: true,
        });
        self.pin_older_than(decision.pin_after.as_secs_f64());
        self.limit = decision.limit;
        let (lowest, highest) = self.outcome.extremes;
        self.outcome.extremes = (lowest.min(self.limit), highest.max(self.limit));
        self.assign();
    }

    fn pin_older_than(&mut self, seconds: f64) {
        for client in &mut self.clients {
            if client.has_server && !client.pinned && self.now - client.assigned > seconds {
                client.pinned = true;
                self.pinned += 1;
            }
        }
    }

    // === the flow of time ===

    /// Speed of the virtual time of one piece of work.
    fn speed(&self) -> f64 {
        let mix = self.mix();
        let active = f64::from(self.in_use - self.idle_in_transaction);
        let efficiency = 1.0 / (1.0 + mix.overhead * (active - mix.cores).max(0.0));
        let left: f64 = self.left.iter().product();
        (mix.cores / self.works.len() as f64).min(1.0) * efficiency * left
    }

    fn draw_others(&mut self, index: usize) {
        let Others { stays_s, least } = OTHERS[index];
        self.left[index] = least + (1.0 - least) * self.others.fraction();
        let stays_s = self.others.exponential(stays_s);
        self.at(self.now + stays_s, Event::OthersChange(index));
    }

    fn run_until(&mut self, end: f64) {
        loop {
            let timed = self.heap.peek().map_or(f64::INFINITY, |timed| timed.at);
            let work = self.works.peek().map_or(f64::INFINITY, |work| {
                self.now + (work.until - self.virtual_time).max(0.0) / self.speed()
            });
            let next = timed.min(work);
            self.pass_to(next.min(end));
            if next > end {
                return;
            }
            if work <= timed {
                let work = self.works.pop().unwrap();
                self.virtual_time = self.virtual_time.max(work.until);
                self.next_step(work.client);
            } else {
                let timed = self.heap.pop().unwrap();
                self.handle(timed.event);
            }
        }
    }

    fn pass_to(&mut self, now: f64) {
        let passed = now - self.now;
        if !self.works.is_empty() {
            self.virtual_time += passed * self.speed();
        }
        self.totals.in_use_s += passed * f64::from(self.in_use - self.pinned);
        self.totals.waiting_s += passed * self.queue.len() as f64;
        self.now = now;
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrive(client) => {
                self.clients[client as usize].enqueued = self.now;
                self.queue.push_back(client);
                self.assign();
            }
            Event::FlushOver => {
                let done = std::mem::take(&mut self.flushing);
                self.start_flush();
                for client in done {
                    self.next_step(client);
                }
            }
            Event::GapOver(client) => {
                self.idle_in_transaction -= 1;
                self.next_step(client);
            }
            Event::IoOver(client) => {
                self.io_busy -= 1;
                self.start_io();
                self.next_step(client);
            }
            Event::OthersChange(index) => self.draw_others(index),
            Event::SleepOver(client) => self.next_step(client),
        }
    }

    // === the pool ===

    fn assign(&mut self) {
        while self.in_use < self.limit {
            let Some(id) = self.queue.pop_front() else {
                return;
            };
            self.in_use += 1;
            let kind = self.draw_kind();
            let client = &mut self.clients[id as usize];
            client.assigned = self.now;
            client.has_server = true;
            client.kind = kind;
            client.step = 0;
            self.begin_step(id);
        }
    }

    fn draw_kind(&mut self) -> usize {
        let kinds = &self.mix().kinds;
        let total: f64 = kinds.iter().map(|kind| kind.weight).sum();
        let mut rest = self.random.fraction() * total;
        for (index, kind) in kinds.iter().enumerate() {
            rest -= kind.weight;
            if rest < 0.0 {
                return index;
            }
        }
        kinds.len() - 1
    }

    fn release(&mut self, id: u32) {
        let client = &mut self.clients[id as usize];
        client.has_server = false;
        let (assigned, enqueued) = (client.assigned, client.enqueued);
        let was_pinned = std::mem::take(&mut client.pinned);
        let lock = client.lock.take();
        let kinds = &self.phases[self.phase].1.kinds;
        let class = kinds[self.clients[id as usize].kind.min(kinds.len() - 1)].class;
        self.in_use -= 1;
        if was_pinned {
            self.pinned -= 1;
        } else {
            self.totals
                .record(class, Duration::from_secs_f64(self.now - assigned));
        }
        self.completions += 1;
        if self.now >= self.measure_from {
            self.outcome.responses_s.push((self.now - enqueued) as f32);
        }
        if let Some(lock) = lock {
            self.unlock(lock);
        }
        let think_s = self.mix().think_s;
        let pause = if think_s > 0.0 {
            self.random.exponential(think_s)
        } else {
            0.0
        };
        self.at(self.now + pause, Event::Arrive(id));
        self.assign();
    }

    // === the database ===

    fn next_step(&mut self, id: u32) {
        self.clients[id as usize].step += 1;
        self.begin_step(id);
    }

    fn begin_step(&mut self, id: u32) {
        let Client { kind, step, .. } = self.clients[id as usize];
        // A transaction that outlives its phase ends as the kind at the same index would.
        let kinds = &self.phases[self.phase].1.kinds;
        let Some(&step) = kinds[kind.min(kinds.len() - 1)].steps.get(step) else {
            return self.release(id);
        };
        match step {
            Step::Cpu(mean) => {
                let until = self.virtual_time + self.random.exponential(mean);
                self.works.push(Work { until, client: id });
            }
            Step::Flush => {
                self.flush_next.push(id);
                if self.flushing.is_empty() {
                    self.start_flush();
                }
            }
            Step::Gap(mean) => {
                self.idle_in_transaction += 1;
                // Half of a round trip is fixed, the rest is random.
                let gap = mean * 0.5 + self.random.exponential(mean * 0.5);
                self.at(self.now + gap, Event::GapOver(id));
            }
            Step::Io(_) => {
                self.io_queue.push_back(id);
                self.start_io();
            }
            Step::Lock => self.lock(id),
            Step::Sleep(mean) => {
                let sleep = mean * (0.9 + 0.2 * self.random.fraction());
                self.at(self.now + sleep, Event::SleepOver(id));
            }
        }
    }

    fn start_io(&mut self) {
        while self.io_busy < self.mix().channels {
            let Some(id) = self.io_queue.pop_front() else {
                return;
            };
            self.io_busy += 1;
            let Client { kind, step, .. } = self.clients[id as usize];
            let kinds = &self.phases[self.phase].1.kinds;
            let mean = match kinds[kind.min(kinds.len() - 1)].steps.get(step) {
                Some(&Step::Io(mean)) => mean,
                _ => 0.001,
            };
            let time = self.random.exponential(mean);
            self.at(self.now + time, Event::IoOver(id));
        }
    }

    fn start_flush(&mut self) {
        if self.flush_next.is_empty() {
            return;
        }
        std::mem::swap(&mut self.flushing, &mut self.flush_next);
        let time = self.mix().flush_s * (0.8 + 0.4 * self.random.fraction());
        self.at(self.now + time, Event::FlushOver);
    }

    fn lock(&mut self, id: u32) {
        let count = self.mix().locks.max(1).min(self.locks.len());
        let index = self.random.below(count);
        self.clients[id as usize].lock = Some(index);
        let lock = &mut self.locks[index];
        if lock.held {
            lock.queue.push_back(id);
            self.lock_waits += 1;
        } else {
            lock.held = true;
            self.next_step(id);
        }
    }

    fn unlock(&mut self, index: usize) {
        let lock = &mut self.locks[index];
        match lock.queue.pop_front() {
            Some(next) => {
                self.lock_waits -= 1;
                self.next_step(next);
            }
            None => lock.held = false,
        }
    }
}
