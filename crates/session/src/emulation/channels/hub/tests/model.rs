//! Random clients, notifications and delays against a model of the server: each client gets exactly what it must get.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const CHANNELS: [&str; 3] = ["a", "b", "c"];
const CLIENTS: u64 = 6;

#[derive(Debug, Clone)]
enum Step {
    Flush(u64),
    Leave(u64),
    Listen(u64, usize),
    Notify(usize),
    /// The server processes the next request.
    Serve,
    /// This many bytes from the server arrive.
    Arrive(usize),
    Unlisten(u64, usize),
    UnlistenAll(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let client = || 0..CLIENTS;
    let channel = || 0..CHANNELS.len();
    prop_oneof![
        2 => client().prop_map(Step::Flush),
        1 => client().prop_map(Step::Leave),
        4 => (client(), channel()).prop_map(|(who, what)| Step::Listen(who, what)),
        6 => channel().prop_map(Step::Notify),
        6 => Just(Step::Serve),
        6 => (1..80_usize).prop_map(Step::Arrive),
        2 => (client(), channel()).prop_map(|(who, what)| Step::Unlisten(who, what)),
        1 => client().prop_map(Step::UnlistenAll),
    ]
}

/// Notifications of a channel that a client is due: everything in `must`, and nothing that is not in `may`.
#[derive(Debug, Default)]
struct Due {
    /// True if the client's LISTEN was confirmed and it has not asked to stop.
    is_sure: bool,
    /// True if the client has asked to listen, and was not told that it has stopped.
    is_open: bool,
    must: BTreeSet<u32>,
    may: BTreeSet<u32>,
    heard: Vec<u32>,
}

#[derive(Default)]
struct World {
    hub: Hub,
    /// Number of times each client has left. Its successor has a new id ([`Seat`]).
    lives: BTreeMap<u64, u64>,
    requests: VecDeque<String>,
    listened: BTreeSet<String>,
    wire: VecDeque<u8>,
    input: Vec<u8>,
    due: BTreeMap<(u64, usize), Due>,
    pending: BTreeMap<u64, Request>,
    /// Notifications that each client must have received when its flush is answered: channel and number.
    flushes: BTreeMap<u64, Vec<(usize, u32)>>,
    number: u32,
}

impl World {
    fn step(&mut self, step: &Step) {
        match step {
            Step::Flush(who) => self.flush(self.id(*who)),
            Step::Leave(who) => {
                self.leave(self.id(*who));
                *self.lives.entry(*who).or_default() += 1;
            }
            Step::Listen(who, what) => self.ask(self.id(*who), listen(CHANNELS[*what])),
            Step::Unlisten(who, what) => self.ask(self.id(*who), unlisten(CHANNELS[*what])),
            Step::UnlistenAll(who) => self.ask(self.id(*who), Request::UnlistenAll),
            Step::Notify(what) => self.notify(*what),
            Step::Serve => self.serve(),
            Step::Arrive(count) => self.arrive(*count),
        }
        self.requests.extend(all_sent(&mut self.hub));
        self.listen_to_hub();
    }

    /// Returns the id of the client that is in this place now.
    fn id(&self, who: u64) -> u64 {
        who + CLIENTS * self.lives.get(&who).copied().unwrap_or_default()
    }

    fn leave(&mut self, who: u64) {
        self.hub.leave(seat(who));
        self.flushes.remove(&who);
        self.pending.remove(&who);
        // No client is left to receive outstanding notifications.
        self.due.retain(|(client, _), due| {
            if *client == who {
                due.check();
            }
            *client != who
        });
    }

    fn channels(request: &Request) -> Vec<usize> {
        let index = |name: &Channel| CHANNELS.iter().position(|own| own.as_bytes() == &**name);
        match request {
            Request::Listen(name) | Request::Unlisten(name) => index(name).into_iter().collect(),
            Request::UnlistenAll => (0..CHANNELS.len()).collect(),
        }
    }

    fn ask(&mut self, who: u64, request: Request) {
        if self.pending.contains_key(&who) {
            return;
        }
        for what in Self::channels(&request) {
            let due = self.due.entry((who, what)).or_default();
            match request {
                Request::Listen(_) => due.is_open = true,
                _ => due.is_sure = false,
            }
        }
        self.pending.insert(who, request.clone());
        self.hub.request(seat(who), request);
    }

    fn flush(&mut self, who: u64) {
        if self.flushes.contains_key(&who) {
            return;
        }
        let mine = (self.due.iter()).filter(|((client, _), due)| *client == who && due.is_sure);
        let all = mine.flat_map(|((_, what), due)| due.must.iter().map(|said| (*what, *said)));
        self.flushes.insert(who, all.collect());
        self.hub.flush(seat(who));
    }

    fn notify(&mut self, what: usize) {
        self.number += 1;
        for ((_, channel), due) in &mut self.due {
            if *channel == what && due.is_sure {
                due.must.insert(self.number);
            }
            if *channel == what && due.is_open {
                due.may.insert(self.number);
            }
        }
        // The server sends a notification as soon as it is committed.
        if self.listened.contains(CHANNELS[what]) {
            self.wire
                .extend(notification(CHANNELS[what], &self.number.to_string()));
        }
    }

    fn serve(&mut self) {
        let Some(request) = self.requests.pop_front() else {
            return;
        };
        let name = |text: &str| text.trim_matches('"').to_owned();
        for statement in request.split(';') {
            if let Some(channel) = statement.strip_prefix("LISTEN ") {
                self.listened.insert(name(channel));
            } else if let Some(channel) = statement.strip_prefix("UNLISTEN ") {
                self.listened.remove(&name(channel));
            }
        }
        self.wire.extend(answer("X"));
    }

    fn arrive(&mut self, count: usize) {
        let count = count.min(self.wire.len());
        self.input.extend(self.wire.drain(..count));
        let taken = self.hub.handle(&self.input).unwrap();
        self.input.drain(..taken);
    }

    fn listen_to_hub(&mut self) {
        while let Some(event) = self.hub.poll() {
            match event {
                Event::Refused(..) => panic!("nothing is refused here"),
                Event::Leased(..) => panic!("nobody marks anything"),
                Event::Flushed(seat) => {
                    // Without an entry, the client that asked has left since.
                    let due = self.flushes.remove(&seat.client).unwrap_or_default();
                    for (what, said) in due {
                        let due = self.due.get(&(seat.client, what));
                        // A client that has left or stopped need not get it.
                        let listens = due.filter(|due| due.is_sure);
                        assert!(listens.is_none_or(|due| due.heard.contains(&said)));
                    }
                }
                Event::Done(seat) => {
                    let request = self.pending.remove(&seat.client).expect("it had asked");
                    for what in Self::channels(&request) {
                        let due = self.due.entry((seat.client, what)).or_default();
                        let listens = matches!(request, Request::Listen(_));
                        (due.is_sure, due.is_open) = (listens, listens);
                        if !listens {
                            due.check();
                        }
                    }
                }
                Event::Deliver { message, to, .. } => self.deliver(&message, &to),
            }
        }
    }

    fn deliver(&mut self, message: &[u8], to: &[Seat]) {
        let (messages, _) = messages(message);
        let notification = NotificationResponse::parse(messages[0].body).unwrap();
        let index = CHANNELS
            .iter()
            .position(|own| own.as_bytes() == notification.channel)
            .unwrap();
        let number = std::str::from_utf8(notification.payload).unwrap();
        for seat in to {
            let due = self
                .due
                .get_mut(&(seat.client, index))
                .expect("it is there");
            due.heard.push(number.parse().unwrap());
        }
    }

    /// Delivers everything outstanding, and checks the result.
    fn finish(&mut self) {
        while !(self.requests.is_empty() && self.wire.is_empty()) {
            self.step(&Step::Serve);
            self.step(&Step::Arrive(usize::MAX));
        }
        assert!(self.pending.is_empty(), "everybody is answered");
        assert!(self.flushes.is_empty(), "and told");
        for due in self.due.values() {
            due.check_all();
        }
        let held = self.hub.channels.keys();
        let mut held: BTreeSet<_> = held
            .map(|name| String::from_utf8(name.to_vec()).unwrap())
            .collect();
        if !held.is_empty() {
            held.insert("weir_lease".to_owned());
        }
        assert_eq!(held, self.listened, "the server listens to what is needed");
    }
}

impl Due {
    /// Checks that the client got only permitted notifications, in order.
    fn check(&self) {
        assert!(self.heard.is_sorted_by(|a, b| a < b), "order: {self:?}");
        assert!(
            self.heard.iter().all(|number| self.may.contains(number)),
            "{self:?}"
        );
    }

    fn check_all(&self) {
        self.check();
        assert!(
            self.must.iter().all(|number| self.heard.contains(number)),
            "lost: {self:?}"
        );
    }
}

/// Checks that the answer to a flush is not given to a client that took the place of the one that asked.
#[test]
fn an_answer_to_a_client_that_left_is_not_its_successors() {
    use Step::{Arrive, Flush, Leave, Listen, Notify, Serve};
    let all = || Arrive(usize::MAX);
    let steps = [
        [Flush(2), Leave(2), Listen(2, 1), Flush(2)],
        // The second flush is unanswered when the notification that the third must wait for is sent.
        [Serve, Serve, Serve, all()],
        [Serve, Notify(1), Flush(2), all()],
    ];
    let mut world = World::default();
    world.hub.connected();
    for step in steps.as_flattened() {
        world.step(step);
    }
    world.finish();
}

proptest! {
    #[test]
    fn everybody_hears_what_was_said_while_it_listened_and_nothing_else(steps in vec(step(), 0..120)) {
        let mut world = World::default();
        world.hub.connected();
        for step in &steps {
            world.step(step);
        }
        world.finish();
    }
}
