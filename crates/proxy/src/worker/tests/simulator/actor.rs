//! One client of the simulator, with its twin.

use weir_testkit::backend::Backend;
use weir_testkit::cuts::Dice;
use weir_testkit::reading::{Message, messages, outline};
use weir_testkit::say::say;
use weir_wire::backend::TransactionStatus;
use weir_wire::frame::{Side, frame};

use super::super::postgres::CANCELLED;
use super::super::world::World;
use super::script;
use crate::driver::memory::End;

/// Requests that a client may have in flight.
const AHEAD_MAX: usize = 3;

#[derive(Debug)]
pub(super) struct Actor {
    number: usize,
    serial: usize,
    /// Its connection.
    caller: Option<usize>,
    /// Where its greeting ends.
    greeted: Option<usize>,
    twin: Backend,
    expected: Vec<u8>,
    /// Bytes that were compared.
    compared: usize,
    /// It waits for all answers before it says anything.
    waits: bool,
    /// It said good-bye.
    left: bool,
    /// It cancels: its rows are judged by their tags.
    cancels: bool,
    /// Connections of its cancel requests.
    askers: Vec<usize>,
    /// A cancel was on its way at some time since its last request was sent.
    tainted: bool,
    /// Requests that it sent as one that cancels.
    requests: usize,
}

impl Actor {
    pub(super) fn new(number: usize, cancels: bool) -> Self {
        Self {
            number,
            serial: 0,
            caller: None,
            greeted: None,
            twin: Backend::default(),
            expected: Vec::new(),
            compared: 0,
            waits: false,
            left: false,
            cancels,
            askers: Vec::new(),
            tainted: false,
            requests: 0,
        }
    }

    /// Connects, says the next thing, or waits for answers.
    pub(super) fn act(&mut self, world: &mut World, dice: &mut Dice) {
        let Some(caller) = self.caller else {
            self.caller = Some(world.dial("ann", &[]));
            return;
        };
        if world.callers[caller].is_closed() {
            let (number, cancels, serial) = (self.number, self.cancels, self.serial);
            *self = Self::new(number, cancels);
            self.serial = serial;
            return;
        }
        if self.greeted.is_none() || self.left || self.twin.is_closed() {
            return;
        }
        self.serial += 1;
        if self.cancels {
            return self.act_cancelling(world, caller, dice);
        }
        let owed = self.expected.len().saturating_sub(self.body(world).len());
        if owed > 0 && (self.waits || dice.below(AHEAD_MAX) > 0) {
            return;
        }
        if dice.below(30) == 0 {
            self.left = true;
            world.callers[caller].say(&say().terminate());
            return;
        }
        let said = script::next(&self.twin, self.number, self.serial, owed > 0, dice);
        // Names that are forgotten are not used again before the answer, and nothing is said behind a COPY that may
        // have failed.
        let copied = self.twin.is_copying();
        self.say(world, caller, &said);
        let text = String::from_utf8_lossy(&said);
        let forgets = ["deallocate", "discard"]
            .iter()
            .any(|word| text.contains(word));
        self.waits = forgets || copied || self.twin.is_copying();
    }

    fn say(&mut self, world: &mut World, caller: usize, bytes: &[u8]) {
        self.expected.extend(self.twin.converse(bytes));
        world.callers[caller].say(bytes);
    }

    /// One that cancels sends one simple query after the other.
    fn act_cancelling(&mut self, world: &mut World, caller: usize, dice: &mut Dice) {
        if self.answers(world) < self.requests {
            return;
        }
        let tag = format!("c{}-{}", self.number, self.serial);
        let sql = match dice.below(6) {
            0 => "begin".to_owned(),
            1 => "rollback".to_owned(),
            2 => format!("rows 4 {tag}"),
            _ => format!("row {tag}"),
        };
        self.requests += 1;
        self.tainted = self.is_cancelling(world);
        world.callers[caller].say(&say().query(&sql));
    }

    /// Asks to cancel what it is doing.
    pub(super) fn cancel(&mut self, world: &mut World) {
        if !self.cancels || self.greeted.is_none() {
            return;
        }
        if let Some(caller) = self.caller.filter(|_| self.askers.len() < 5) {
            self.tainted = true;
            self.askers.push(world.request_cancel(caller));
        }
    }

    fn is_cancelling(&mut self, world: &World) -> bool {
        self.askers
            .retain(|asker| !world.callers[*asker].peer.is_closed());
        !self.askers.is_empty()
    }

    /// Goes away without a word, perhaps in the middle of a message.
    pub(super) fn vanish(&mut self, world: &mut World, dice: &mut Dice) {
        let Some(caller) = self.caller.take() else {
            return;
        };
        if self.greeted.is_some() && dice.below(2) == 0 {
            let said = say().parse("s0", "row half").run("s0").sync();
            let half = 1 + dice.below(said.len() - 1);
            let sent = world.callers[caller].unsent() == 0;
            if sent && !self.twin.is_copying() {
                world.callers[caller].say(&said[..half]);
                world.callers[caller].serve();
            }
        }
        world.callers[caller].leave([End::Orderly, End::Reset][dice.below(2)]);
        *self = Self {
            serial: self.serial,
            ..Self::new(self.number, self.cancels)
        };
    }

    /// Ends what it began, so that others get its server.
    pub(super) fn finish(&mut self, world: &mut World) {
        let Some(caller) = self.caller.filter(|_| !self.left && self.greeted.is_some()) else {
            return;
        };
        if world.callers[caller].is_closed() {
            return;
        }
        if self.cancels {
            if self.answers(world) == self.requests {
                self.requests += 1;
                self.tainted |= self.is_cancelling(world);
                world.callers[caller].say(&say().query("rollback"));
            }
            return;
        }
        if self.twin.is_closed() {
            return;
        }
        if self.twin.is_copying() {
            self.say(world, caller, &say().copy_done().sync());
        }
        if !self.twin.is_at_rest() {
            // It may be skipping to the next Sync.
            self.say(world, caller, &say().sync());
        }
        if self.twin.status() != TransactionStatus::Idle {
            self.say(world, caller, &say().query("rollback"));
        }
    }

    // --- what it got ---

    fn body<'w>(&self, world: &'w World) -> &'w [u8] {
        match (self.caller, self.greeted) {
            (Some(caller), Some(greeted)) => &world.callers[caller].got[greeted..],
            _ => &[],
        }
    }

    fn answers(&self, world: &World) -> usize {
        weir_testkit::reading::count(self.body(world), b'Z')
    }

    /// Everything it got is its own.
    pub(super) fn check(&mut self, world: &World) {
        let Some(caller) = self.caller.map(|caller| &world.callers[caller]) else {
            return;
        };
        if self.greeted.is_none() {
            self.greeted = greeting_end(&caller.got);
            if caller.is_closed() && self.greeted.is_none() {
                let last = fatal_at_end(&caller.got);
                assert!(last.is_some(), "not let in, without a word: {self:?}");
                return;
            }
        }
        let body = self.body(world);
        if body.len() == self.compared && !caller.is_closed() {
            return;
        }
        self.compared = body.len();
        if self.cancels {
            self.check_tags(body);
        } else {
            self.check_twin(body, caller.is_closed());
        }
    }

    fn check_twin(&self, body: &[u8], closed: bool) {
        if self.expected.starts_with(body) {
            let whole = body.len() == self.expected.len();
            // In the middle of a message there is no place for an error.
            let torn = !messages(body).1.is_empty();
            let may_end = self.left || torn || (self.twin.is_closed() && whole);
            assert!(
                !closed || may_end,
                "closed without a word: {}",
                self.story(body)
            );
            return;
        }
        let same = body
            .iter()
            .zip(&self.expected)
            .take_while(|(a, b)| a == b)
            .count();
        let error_at = (0..=same).rev().find(|at| is_fatal(&body[*at..], closed));
        let Some(at) = error_at else {
            panic!("I-01: not what it asked for: {}", self.story(body));
        };
        let whole = messages(&body[..at]).1.is_empty();
        assert!(whole, "an error inside of a message: {}", self.story(body));
        // Its server's own last word may come right behind the last reply.
        let spoken = !is_fatal(&body[at..], true) || outline(&body[at..]).contains("57P01");
        let idle = at == self.expected.len() && self.twin.is_at_rest();
        assert!(
            !idle || spoken,
            "COR-20: idle, and yet ended: {}",
            self.story(body)
        );
    }

    fn check_tags(&self, body: &[u8]) {
        let tag = format!("c{}-", self.number);
        let error_at = (0..body.len())
            .rev()
            .find(|at| is_fatal(&body[*at..], false));
        let (found, _) = messages(&body[..error_at.unwrap_or(body.len())]);
        for message in &found {
            let own = message.tag != b'D' || message.body[6..].starts_with(tag.as_bytes());
            assert!(own, "I-01: {}", self.story(body));
        }
        assert!(
            self.answers_in(&found) <= self.requests,
            "I-03: {}",
            self.story(body)
        );
        let last = found.iter().rposition(|message| message.tag == b'Z');
        let before = last.map(|last| &found[..last]).unwrap_or_default();
        let from = before.iter().rposition(|message| message.tag == b'Z');
        let newest = from.map_or(before, |from| &before[from + 1..]);
        // An answer to the latest request, which no cancel was on its way for.
        if self.answers_in(&found) == self.requests && !self.tainted {
            let hit = newest.iter().any(|message| is_cancelled(message));
            assert!(!hit, "I-07: cancelled later: {}", self.story(body));
        }
    }

    fn answers_in(&self, found: &[Message<'_>]) -> usize {
        found.iter().filter(|message| message.tag == b'Z').count()
    }

    /// With faults over: all it asked for was answered, or it was told why not.
    pub(super) fn check_answered(&self, world: &World) {
        let Some(caller) = self.caller.map(|caller| &world.callers[caller]) else {
            return;
        };
        if caller.is_closed() || caller.left {
            return;
        }
        assert!(self.greeted.is_some(), "I-11: never let in: {self:?}");
        let body = self.body(world);
        let answered = if self.cancels {
            self.answers(world) == self.requests
        } else {
            body == self.expected
        };
        assert!(answered, "I-11: not answered: {}", self.story(body));
    }

    fn story(&self, body: &[u8]) -> String {
        format!(
            "client {}\n     got {}\nexpected {}\n{:?}",
            self.number,
            outline(body),
            outline(&self.expected),
            self.twin
        )
    }
}

/// Behind the first ReadyForQuery.
fn greeting_end(got: &[u8]) -> Option<usize> {
    let (found, _) = messages(got);
    let mut at = 0;
    for message in found {
        at += message.raw.len();
        if message.tag == b'Z' {
            return Some(at);
        }
    }
    None
}

fn fatal_at_end(got: &[u8]) -> Option<Message<'_>> {
    let (found, _) = messages(got);
    found
        .last()
        .copied()
        .filter(|message| is_fatal(message.raw, true))
}

/// Exactly one FATAL error, or the beginning of one unless all has come.
fn is_fatal(bytes: &[u8], all: bool) -> bool {
    if bytes.first().is_none_or(|tag| *tag != b'E') {
        return false;
    }
    match frame(bytes, Side::Backend) {
        Ok(Some(error)) => error.raw.len() == bytes.len() && outline(bytes).contains("FATAL"),
        Ok(None) => !all,
        Err(_) => false,
    }
}

fn is_cancelled(message: &Message<'_>) -> bool {
    let line = outline(message.raw);
    message.tag == b'E' && (line.contains(CANCELLED) || line.contains("canceling"))
}
