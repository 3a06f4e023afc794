//! What a seed decides: the settings, the clients, and a list of operations of which each carries a seed of its own, so
//! that leaving one out changes as little as possible of what the others do.

use std::fmt::Write;

use weir_testkit::cuts::Dice;
use weir_testkit::program::Topic;

use super::TOPICS;

const STEPS: usize = 2500;
const CHECKED: &str = "session_state_check = always";

/// One thing that happens.
#[derive(Debug, Clone, Copy)]
pub(super) struct Op {
    pub(super) what: What,
    /// A client.
    pub(super) who: usize,
    pub(super) seed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// A client says something.
    Act,
    /// A client asks to cancel what it is doing.
    AskCancel,
    /// A cancel reaches the server, or its connection ends.
    Cancel,
    /// Some bytes of some client move.
    Client,
    /// A client does not read, or reads again.
    Deafen,
    Fault,
    /// Time passes to the next deadline.
    Leap,
    /// An administrator pauses, resumes, or has servers made anew.
    Order,
    Pass,
    /// Some server hears, works or speaks.
    Server,
    /// Everything happens that can; only a shrunk plan has it.
    Settle,
    /// Some worker has a turn.
    Turn,
    Vanish,
}

/// What is special about a client.
#[derive(Debug, Clone)]
pub(super) struct Person {
    pub(super) cancels: bool,
    pub(super) topics: Vec<Topic>,
    /// Its session is asked for at every release.
    pub(super) is_checked: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) lanes: usize,
    pub(super) places: usize,
    /// Bytes that fit into a connection.
    pub(super) room: usize,
    pub(super) people: Vec<Person>,
    options: Vec<&'static str>,
    pub(super) ops: Vec<Op>,
}

impl Plan {
    pub(super) fn new(seed: u64) -> Self {
        let dice = &mut Dice::new(seed);
        let options = [
            "server_round_robin = 1",
            "server_check_delay = 0",
            "server_reset_query_always = 1",
            CHECKED,
        ];
        let mut people: Vec<_> = (0..2 + dice.below(6)).map(|_| person(dice)).collect();
        let options: Vec<_> = options.into_iter().filter(|_| dice.below(4) == 0).collect();
        for person in &mut people {
            person.is_checked = options.contains(&CHECKED);
        }
        Self {
            seed,
            lanes: 1 + dice.below(3),
            places: 1 + dice.below(4),
            room: *dice.pick(&[48, 600, 1 << 20]),
            options,
            ops: (0..STEPS).map(|_| op(dice, people.len())).collect(),
            people,
        }
    }

    /// For the configuration.
    pub(super) fn lines(&self) -> String {
        let mut lines = format!(
            "default_pool_size = {}\nserver_login_retry = 1\nquery_wait_notify = 0\nsession_state = track\nmax_prepared_statements = 2\n",
            self.places
        );
        for option in &self.options {
            writeln!(lines, "{option}").unwrap();
        }
        lines
    }

    /// For people.
    pub(super) fn summary(&self) -> String {
        let Self {
            lanes,
            places,
            room,
            options,
            ..
        } = self;
        format!("{lanes} workers, {places} servers at most, {room} bytes of room, {options:?}")
    }
}

/// Most clients move freely; some speak about what pins them, too.
fn person(dice: &mut Dice) -> Person {
    let pins = dice.below(3) == 0;
    let moves = [
        Topic::Settings,
        Topic::Ledger,
        Topic::Notifications,
        Topic::SearchPath,
        Topic::Roles,
        Topic::Copy,
    ];
    let of: &[Topic] = if pins { &TOPICS } else { &moves };
    let topics = of.iter().copied().filter(|_| dice.below(2) == 0);
    Person {
        topics: topics.collect(),
        cancels: dice.below(4) == 0,
        is_checked: false,
    }
}

fn op(dice: &mut Dice, people: usize) -> Op {
    let what = match dice.below(400) {
        0..60 => What::Act,
        60..150 => What::Client,
        150..260 => What::Turn,
        260..370 => What::Server,
        370..380 => What::Pass,
        380..388 => What::Cancel,
        388..391 => What::AskCancel,
        391..393 => What::Vanish,
        393..395 => What::Deafen,
        395..398 => What::Fault,
        398 => What::Order,
        _ => What::Leap,
    };
    Op {
        what,
        who: dice.below(people),
        seed: dice.roll(),
    }
}
