//! Thread of the generator: an event loop that starts the transactions of its clients in time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::{Events, Poll, Token, Waker};

use crate::load::client::{Client, Happened, Running, Shared};
use crate::load::clock;
use crate::load::control::{Control, Gauges};
use crate::load::failure::Failure;
use crate::load::plan::{Pace, Plan};
use crate::load::schedule::{Schedule, Share};
use crate::load::tally::{Tally, Window};
use crate::load::target::{Keys, Target};
use crate::load::timer::Timer;
use crate::load::work::Work;

const WAKER: Token = Token(usize::MAX - 1);
const TIMER: Token = Token(usize::MAX - 2);

/// Maximum number of clients per thread that log in at a time. More would overflow the target's accept queue.
const CONNECTING_MAX: usize = 32;

/// Size of the receive buffer.
const SCRATCH: usize = 64 * 1024;

/// Shortest pause of a client after a failure; it doubles with each further failure.
const RETRY_MIN: Duration = Duration::from_millis(10);
const RETRY_MAX: Duration = Duration::from_secs(1);

/// Parts that all threads share.
#[derive(Clone, Copy)]
pub(super) struct Parts<'a> {
    pub(super) plan: &'a Plan,
    pub(super) work: &'a Work,
    pub(super) target: &'a Target,
    pub(super) control: &'a Control,
}

/// Thread of the generator.
pub(super) struct Worker<'a> {
    parts: Parts<'a>,
    number: u32,
    poll: Poll,
    timer: Timer,
    shared: Shared<'a>,
    clients: Vec<Client>,
    /// Clients that may begin a transaction, the longest-waiting first.
    idle: VecDeque<usize>,
    /// Clients without a connection that may open one.
    to_connect: VecDeque<usize>,
    connecting: usize,
    retries: BinaryHeap<Reverse<(Instant, usize)>>,
    window: Option<Window>,
    schedule: Option<Schedule>,
    tally: Tally,
    /// Number of transactions in progress.
    running: usize,
    /// Number of clients that have done all their transactions.
    exhausted: usize,
    connected: u32,
    /// [`Shared::payload`] when it was last read.
    payload: u64,
}

impl<'a> Worker<'a> {
    /// Creates the thread with this number, and its waker.
    pub(super) fn new(parts: Parts<'a>, number: u32) -> io::Result<(Self, Waker)> {
        let plan = parts.plan;
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let timer = Timer::new(poll.registry(), TIMER)?;
        let step = plan.thread_count() as usize;
        let indices = (u64::from(number)..u64::from(plan.clients)).step_by(step);
        let clients: Vec<Client> = indices.map(|i| Client::new(plan.seed, i)).collect();
        let all = 0..clients.len();
        // A client that connects for each transaction does not connect in advance.
        let (idle, to_connect) = match plan.reconnect {
            true => (all.collect(), VecDeque::new()),
            false => (VecDeque::new(), all.collect()),
        };
        let worker = Self {
            parts,
            number,
            poll,
            timer,
            shared: Shared {
                work: parts.work,
                target: parts.target,
                keys: Keys::default(),
                scratch: vec![0; SCRATCH],
                payload: 0,
            },
            clients,
            idle,
            to_connect,
            connecting: 0,
            retries: BinaryHeap::new(),
            window: None,
            schedule: None,
            tally: Tally::new(is_open(plan.pace)),
            running: 0,
            exhausted: 0,
            connected: 0,
            payload: 0,
        };
        Ok((worker, waker))
    }

    /// Runs to the end of the plan, or until told to stop.
    pub(super) fn run(mut self, gauges: &Gauges) -> io::Result<Tally> {
        let mut events = Events::with_capacity(1024);
        loop {
            let now = clock::now();
            self.advance(now);
            gauges.set(self.connected, self.tally.total, self.tally.total_errors);
            if self.is_over(now) {
                return Ok(self.finish());
            }
            self.timer.set(self.deadline(now), now)?;
            match self.poll.poll(&mut events, None) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for event in &events {
                if let Token(index) = event.token()
                    && index < self.clients.len()
                {
                    self.event(index, event);
                }
            }
            let carried = self.shared.payload - self.payload;
            self.payload = self.shared.payload;
            self.tally.carried(carried, clock::now());
        }
    }

    /// Performs all actions that are due.
    fn advance(&mut self, now: Instant) {
        if self.window.is_none()
            && let Some(window) = self.parts.control.window()
        {
            self.open(window, now);
        }
        while let Some(Reverse((at, index))) = self.retries.peek().copied() {
            if at > now {
                break;
            }
            self.retries.pop();
            match self.parts.plan.reconnect {
                true => self.available(index, now),
                false => self.to_connect.push_back(index),
            }
        }
        while self.connecting < CONNECTING_MAX
            && let Some(index) = self.to_connect.pop_front()
        {
            self.connecting += 1;
            self.connect(index, now);
        }
        self.begin_due(now);
    }

    fn open(&mut self, window: Window, now: Instant) {
        self.window = Some(window);
        self.tally.open(window);
        let plan = self.parts.plan;
        let share = Share {
            thread: self.number,
            threads: plan.thread_count(),
            clients: plan.clients,
        };
        let between = (window.start, window.until);
        self.schedule = Schedule::new(plan.pace, share, plan.seed, between);
        if plan.pace == Pace::Closed {
            for index in std::mem::take(&mut self.idle) {
                self.available(index, now);
            }
        }
    }

    fn event(&mut self, index: usize, event: &Event) {
        let Some(client) = self.clients.get_mut(index) else {
            return;
        };
        match client.ready(event, &mut self.shared) {
            Ok(Happened::Nothing) => {}
            Ok(Happened::LoggedIn) => self.logged_in(index),
            Ok(Happened::Over(over)) => self.over(index, over.failure),
            Err(failure) => self.lost(index, failure, clock::now()),
        }
    }

    fn connect(&mut self, index: usize, now: Instant) {
        let Some(client) = self.clients.get_mut(index) else {
            return;
        };
        let registry = self.poll.registry();
        if let Err(failure) = client.connect(&self.shared, registry, Token(index)) {
            self.lost(index, failure, now);
        }
    }

    fn logged_in(&mut self, index: usize) {
        self.connected += 1;
        let plan = self.parts.plan;
        if plan.reconnect {
            return match plan.transactions.is_empty() {
                true => self.over(index, None),
                false => self.send(index),
            };
        }
        self.connecting -= 1;
        let now = clock::now();
        if let Some(client) = self.clients.get_mut(index) {
            client.failures = 0;
        }
        match plan.pace {
            Pace::Idle if plan.transactions.is_empty() => {}
            Pace::Idle => self.begin(index, now, now),
            _ => self.available(index, now),
        }
    }

    /// Lets a client begin its next transaction, or queues it until it may.
    fn available(&mut self, index: usize, now: Instant) {
        let plan = self.parts.plan;
        if self
            .clients
            .get(index)
            .is_none_or(|client| is_done(plan, client))
        {
            self.exhausted += 1;
            return;
        }
        match (plan.pace, self.window) {
            (Pace::Idle, _) => {}
            (Pace::Closed, Some(window)) if now < window.until => self.begin(index, now, now),
            _ => self.idle.push_back(index),
        }
    }

    /// Begins the scheduled transactions that are due, as long as clients are idle.
    fn begin_due(&mut self, now: Instant) {
        while !self.idle.is_empty()
            && let Some(schedule) = &mut self.schedule
            && let Some(intended) = schedule.take(now)
            && let Some(index) = self.idle.pop_front()
        {
            self.begin(index, intended, now);
        }
    }

    fn begin(&mut self, index: usize, intended: Instant, now: Instant) {
        let Some(client) = self.clients.get_mut(index) else {
            return;
        };
        client.begun += 1;
        client.running = Some(Running { intended });
        self.running += 1;
        self.tally.began(intended, now);
        match self.parts.plan.reconnect {
            true => self.connect(index, now),
            false => self.send(index),
        }
    }

    fn send(&mut self, index: usize) {
        let Some(client) = self.clients.get_mut(index) else {
            return;
        };
        if let Err(failure) = client.begin(&mut self.shared) {
            self.lost(index, failure, clock::now());
        }
    }

    /// Ends a transaction whose connection is still usable.
    fn over(&mut self, index: usize, failure: Option<Failure>) {
        let now = clock::now();
        let Some(client) = self.clients.get_mut(index) else {
            return;
        };
        client.failures = 0;
        if let Some(running) = client.running.take() {
            self.running -= 1;
            match failure {
                Some(failure) => self.tally.failed(failure, true, now),
                None => {
                    let counts = self.tally.finished(running.intended, now);
                    client.count += u64::from(counts);
                }
            }
        }
        if self.parts.plan.reconnect {
            client.disconnect();
            self.connected -= 1;
        }
        self.available(index, now);
        self.begin_due(now);
    }

    /// Handles a connection that was lost or could not be made.
    fn lost(&mut self, index: usize, failure: Failure, now: Instant) {
        let Some(client) = self.clients.get_mut(index) else {
            return;
        };
        let was_up = client.is_up();
        client.disconnect();
        let is_transaction = client.running.take().is_some();
        self.running -= usize::from(is_transaction);
        self.tally.failed(failure, is_transaction, now);
        self.connected -= u32::from(was_up);
        let plan = self.parts.plan;
        if !was_up && !plan.reconnect {
            self.connecting -= 1;
        }
        if is_done(plan, client) {
            self.exhausted += 1;
            return;
        }
        let wait = RETRY_MIN * 2_u32.saturating_pow(client.failures.min(16));
        client.failures += 1;
        // Idle connections are not reopened: the number that lasts is the result.
        if plan.pace != Pace::Idle || !was_up {
            let at = now + wait.min(RETRY_MAX);
            self.retries.push(Reverse((at, index)));
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        if self.parts.control.is_stopped() {
            return true;
        }
        let Some(window) = self.window else {
            return false;
        };
        if self.running == 0 && self.exhausted == self.clients.len() {
            return true;
        }
        if now < window.until {
            return false;
        }
        let is_scheduled = self.schedule.as_ref().is_some_and(|s| s.next().is_some());
        let is_done = self.running == 0 && !is_scheduled;
        is_done || self.parts.plan.pace == Pace::Idle || now >= self.patience(window)
    }

    fn patience(&self, window: Window) -> Instant {
        window.until + Duration::from_secs_f64(self.parts.plan.drain_s)
    }

    /// Returns the time of the next action that needs no event.
    fn deadline(&self, now: Instant) -> Option<Instant> {
        let retry = self.retries.peek().map(|Reverse((at, _))| *at);
        let scheduled = self.schedule.as_ref().filter(|_| !self.idle.is_empty());
        let scheduled = scheduled.and_then(Schedule::next);
        let end = self.window.map(|window| match now < window.until {
            true => window.until,
            false => self.patience(window),
        });
        [retry, scheduled, end].into_iter().flatten().min()
    }

    fn finish(mut self) -> Tally {
        let now = clock::now();
        for client in &self.clients {
            if let Some(running) = client.running {
                self.tally.unfinished(running.intended, now);
            }
        }
        // Transactions that were due but never began. If each client has done its number, there are none.
        if self.exhausted < self.clients.len() {
            while let Some(intended) = self.schedule.as_mut().and_then(|s| s.take(now)) {
                self.tally.unfinished(intended, now);
            }
        }
        let up = self.clients.iter().filter(|client| client.is_up());
        let connected = up.count() as u64;
        let counts = self.clients.iter().map(|client| client.count).collect();
        self.tally.close(counts, connected);
        self.clients.iter_mut().for_each(Client::disconnect);
        self.tally
    }
}

/// True if a client has begun all its transactions.
fn is_done(plan: &Plan, client: &Client) -> bool {
    plan.transactions_per_client
        .is_some_and(|count| client.begun >= count)
}

/// True if transactions begin by a schedule.
pub(super) fn is_open(pace: Pace) -> bool {
    matches!(pace, Pace::Fixed { .. } | Pace::Poisson { .. })
}
