//! Client of the simulator, with its twin.

use std::collections::{BTreeMap, VecDeque};

use weir_pool::Moment;
use weir_session::relay::STREAM_MIN;
use weir_testkit::backend::{Backend, Database, Output, Sight};
use weir_testkit::cuts::Dice;
use weir_testkit::program::{Speaker, Step};
use weir_testkit::reading::{Message, messages, outline, sort_channels, sort_reports};
use weir_testkit::say::say;
use weir_wire::backend::{ParameterStatus, TransactionStatus, tag};
use weir_wire::frame::{Side, frame};

use super::super::world::World;
use super::plan::Person;
use crate::driver::memory::End;
use crate::worker::keeping::KEPT_MAX;

mod exposed;

use exposed::Pending;

/// Error that a process sends to a client that it could not move.
const SHUT_DOWN: &str = "pooler is shutting down";
/// Maximum number of requests of a client in flight.
const AHEAD_MAX: usize = 3;
/// Factor between client numbers: more than a client has lives.
const LIVES_MAX: usize = 1000;

#[derive(Debug)]
pub(super) struct Actor {
    /// Number that is unique for each life of each client.
    number: usize,
    person: Person,
    speaker: Speaker,
    /// Index of the client's connection in the world.
    caller: Option<usize>,
    /// Number of received bytes at which the greeting ends.
    greeted: Option<usize>,
    twin: Backend,
    /// Model of the rows that the twin committed.
    database: Database,
    expected: Vec<u8>,
    /// States of the twin at each statement that names its client, in the order in which the statements run.
    sights: BTreeMap<String, VecDeque<Vec<String>>>,
    /// Number of bytes that were compared.
    compared: usize,
    /// True if the client waits for all answers before its next request.
    waits: bool,
    /// True if Weir queries the session state at every release.
    is_checked: bool,
    /// True if the last request may have changed the session.
    uncertain: bool,
    /// True if the last request may have changed the session and was interrupted: Weir asks about it once more, after
    /// the next one.
    is_unsettled: bool,
    /// True if the client has inserted rows: Weir may leave it its server for a while, for its `lastval`.
    inserts: bool,
    /// Time at which the client last received bytes.
    heard: Moment,
    /// Time at which the connection ended.
    ended: Option<Moment>,
    /// True if the client ran a statement that may leave state which no server can be asked about. This pins the
    /// client, though its twin holds nothing.
    hides: bool,
    /// True if the client may listen on its own server too, beside the listening connection. Nothing then tells the
    /// order of notifications of different channels.
    listens_apart: bool,
    /// True if the client has sent Terminate.
    left: bool,
    /// True if the connection has TLS.
    is_protected: bool,
    /// Connections of the client's cancel requests.
    askers: Vec<usize>,
    /// Unanswered request of an exposed client.
    pending: Option<Pending>,
    /// Number of bytes that were judged, of an exposed client.
    judged: usize,
}

impl Actor {
    pub(super) fn new(number: usize, person: &Person) -> Self {
        Self::reborn(number * LIVES_MAX, person)
    }

    fn reborn(number: usize, person: &Person) -> Self {
        let database = Database::default();
        Self {
            number,
            person: person.clone(),
            speaker: Speaker::new(number, &person.topics).with_large(person.large),
            caller: None,
            greeted: None,
            twin: Backend::open(&database, "ann", &[]),
            database,
            expected: Vec::new(),
            sights: BTreeMap::new(),
            compared: 0,
            waits: false,
            is_checked: person.is_checked,
            uncertain: false,
            is_unsettled: false,
            inserts: false,
            heard: Moment(0),
            ended: None,
            hides: false,
            listens_apart: false,
            left: false,
            is_protected: false,
            askers: Vec::new(),
            pending: None,
            judged: 0,
        }
    }

    /// True if this is the client's number in its current life.
    pub(super) fn is(&self, number: usize) -> bool {
        self.number == number
    }

    /// Notes that a server ran a statement of this client. Returns the state that its twin had at that point.
    /// One that only reads may have run before, on a server that was lost.
    pub(super) fn saw(&mut self, sight: &Sight, is_read: bool) -> Option<Vec<String>> {
        if self.person.is_exposed {
            return self.saw_exposed(sight, is_read);
        }
        let states = self.sights.get_mut(&sight.statement);
        states.and_then(VecDeque::pop_front)
    }

    /// Connects, sends the next request, or waits for answers. Returns a description of the act.
    pub(super) fn act(&mut self, world: &mut World, dice: &mut Dice) -> Option<String> {
        let Some(caller) = self.caller else {
            return Some(self.connect(world, dice));
        };
        if world.callers[caller].is_closed() {
            *self = Self::reborn(self.number + 1, &self.person);
            return None;
        }
        if self.greeted.is_none() || self.left || self.twin.is_closed() {
            return None;
        }
        if self.person.is_exposed {
            return self.act_exposed(world, caller, dice);
        }
        let owed = self.expected.len().saturating_sub(self.body(world).len());
        if owed > 0 && (self.waits || dice.below(AHEAD_MAX) > 0) {
            return None;
        }
        match dice.below(60) {
            0 => {
                self.left = true;
                world.callers[caller].say(&say().terminate());
                return Some("Terminate".to_owned());
            }
            1 if self.twin.is_at_rest() && self.twin.setting("is_superuser") == Some("on") => {
                let sql = "SELECT pg_terminate_backend(pg_backend_pid())";
                self.say(world, caller, &say().query(sql));
                return Some(sql.to_owned());
            }
            _ => {}
        }
        let is_copying = self.twin.is_copying();
        let step = self.speaker.next(&self.twin, owed > 0, dice);
        // COPY data belongs to the request before, and requests sent ahead share one query for the state.
        self.uncertain &= is_copying || owed > 0;
        self.listens_apart |= self.may_listen_apart(&step);
        self.say(world, caller, &step.bytes);
        self.uncertain |= may_change(&step) || self.is_checked;
        self.inserts |= inserts(&step);
        self.hides |= hides(&step);
        // Forgotten names are not used again before the answer, and nothing is sent behind a COPY that may have failed.
        self.waits = step.waits || self.twin.is_copying();
        Some(step.text)
    }

    fn connect(&mut self, world: &mut World, dice: &mut Dice) -> String {
        let offered = [
            ("application_name", "at start"),
            ("TimeZone", "MST"),
            ("DateStyle", "SQL, DMY"),
            ("options", "-c work_mem=16MB -c my.a=start"),
        ];
        let chosen = offered.into_iter().filter(|_| dice.below(4) == 0);
        let chosen: Vec<_> = chosen.collect();
        let mut settings = chosen.clone();
        if let Some(("options", _)) = settings.last() {
            settings.pop();
            settings.extend([("work_mem", "16MB"), ("my.a", "start")]);
        }
        self.twin = Backend::open(&self.database, "ann", &settings);
        self.twin.watch();
        if self.person.is_exposed {
            self.twin.set_output(Output::Immediate);
        }
        let caller = world.dial("ann", &chosen);
        world.protect_caller(caller);
        self.is_protected = world.callers[caller].peer.is_protected();
        self.caller = Some(caller);
        format!("connects with {chosen:?}")
    }

    fn say(&mut self, world: &mut World, caller: usize, bytes: &[u8]) {
        self.expected.extend(self.twin.converse(bytes));
        for sight in self.twin.take_sights() {
            let states = self.sights.entry(sight.statement).or_default();
            states.push_back(sight.state);
        }
        world.callers[caller].say(bytes);
    }

    /// Makes the client stop reading, or read again.
    pub(super) fn deafen(&self, world: &mut World, dice: &mut Dice) {
        if let Some(caller) = self.caller {
            world.callers[caller].deaf = dice.below(3) == 0;
        }
    }

    /// Disconnects without a Terminate, perhaps in the middle of a message.
    pub(super) fn vanish(&mut self, world: &mut World, dice: &mut Dice) {
        let Some(caller) = self.caller.take() else {
            return;
        };
        if self.greeted.is_some() && dice.below(2) == 0 {
            let said = say().parse("half", "SELECT 'half'").run("half").sync();
            let half = 1 + dice.below(said.len() - 1);
            let sent = world.callers[caller].unsent() == 0;
            if sent && !self.twin.is_copying() {
                world.callers[caller].say(&said[..half]);
                world.callers[caller].serve();
            }
        }
        world.callers[caller].leave(*dice.pick(&[End::Orderly, End::Reset]));
        *self = Self::reborn(self.number + 1, &self.person);
    }

    /// Queries the session's state, if the client is between two requests: nothing of it was lost (I-08).
    pub(super) fn look(&mut self, world: &mut World) {
        let Some(caller) = self.caller.filter(|_| !self.left && self.greeted.is_some()) else {
            return;
        };
        let is_idle = self.twin.is_at_rest() && !self.twin.is_closed() && self.pending.is_none();
        let owed = self.expected.len() > self.body(world).len();
        if world.callers[caller].is_closed() || !is_idle || owed {
            return;
        }
        let step = self.speaker.look(&self.twin);
        if self.person.is_exposed {
            // Only the first message: one statement is in flight.
            let first = frame(&step.bytes, Side::Frontend).unwrap().unwrap();
            self.ask(world, caller, first.raw);
        } else {
            self.say(world, caller, &step.bytes);
        }
    }

    /// Ends the client's transaction and drops its session state, so that others get its server.
    pub(super) fn finish(&mut self, world: &mut World) {
        let Some(caller) = self.caller.filter(|_| !self.left && self.greeted.is_some()) else {
            return;
        };
        if world.callers[caller].is_closed() {
            return;
        }
        if self.person.is_exposed {
            return self.finish_exposed(world, caller);
        }
        if self.twin.is_closed() {
            return;
        }
        if self.twin.is_copying() {
            self.say(world, caller, &say().copy_done().sync());
        } else if !self.twin.has_said_all() {
            // The session skips to the next Sync.
            self.say(world, caller, &say().sync());
        } else if self.twin.status() != TransactionStatus::Idle {
            self.say(world, caller, &say().query("ROLLBACK"));
        } else if !self.twin.holds_nothing() || std::mem::take(&mut self.hides) {
            self.say(world, caller, &say().query("DISCARD ALL"));
        }
    }

    // --- what it got ---

    fn body<'w>(&self, world: &'w World) -> &'w [u8] {
        match (self.caller, self.greeted) {
            (Some(caller), Some(greeted)) => &world.callers[caller].got[greeted..],
            _ => &[],
        }
    }

    /// Checks that every byte received belongs to this client.
    pub(super) fn check(&mut self, world: &World) {
        let Some(caller) = self.caller.map(|caller| &world.callers[caller]) else {
            return;
        };
        if self.greeted.is_none() {
            self.greeted = greeting_end(&caller.got);
            if let Some(end) = self.greeted {
                self.twin.set_process(caller.cancel_key().0);
                self.check_greeting(&caller.got[..end]);
            }
            if caller.is_closed() && self.greeted.is_none() {
                let last = fatal_at_end(&caller.got);
                assert!(
                    last.is_some() || caller.peer.is_spoilt(),
                    "not let in, without a word: client {}",
                    self.number
                );
                return;
            }
        }
        let body = self.body(world);
        if body.len() == self.compared && !caller.is_closed() {
            return;
        }
        self.compared = body.len();
        if caller.is_closed() {
            self.ended.get_or_insert_with(|| world.now());
        } else {
            self.heard = world.now();
        }
        if caller.is_closed() && outline(&caller.got).contains(SHUT_DOWN) {
            let may = world.may_end_clients();
            assert!(may, "ended before drain_timeout: {}", self.story(body));
        }
        if self.person.is_exposed {
            self.check_exposed(body, caller.is_closed());
        } else {
            self.check_twin(body, caller.is_closed());
        }
    }

    /// Checks that the greeting reports the session's settings (I-08).
    fn check_greeting(&self, greeting: &[u8]) {
        let (found, _) = messages(greeting);
        let told = found.iter().filter(|message| message.tag == b'S');
        let told: BTreeMap<_, _> = told
            .map(|message| {
                let status = ParameterStatus::parse(message.body).unwrap();
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                (text(status.name), text(status.value))
            })
            .collect();
        let expected = self.twin.greeting();
        let expected: BTreeMap<_, _> = expected.map(|(n, v)| (n.to_owned(), v)).collect();
        assert_eq!(
            told, expected,
            "I-08: the greeting of client {}",
            self.number
        );
    }

    /// Checks that the client was told what was committed, and that nothing was committed twice (I-05, I-06).
    pub(super) fn check_ledger(&self, world: &World, database: &Database) {
        let Some(caller) = self.caller else {
            return;
        };
        let tag = format!("{}-", self.speaker.tag());
        let (found, told) = (database.ledger(&tag), self.database.ledger(&tag));
        if !world.callers[caller].is_closed() {
            assert_eq!(found, told, "I-05, I-06");
            return;
        }
        // The server was lost, with the last transaction or before its answer came.
        let may = if self.pending.is_some() {
            found.starts_with(&told)
        } else {
            told.starts_with(&found)
        };
        assert!(may, "I-05, I-06: {found:?} of {told:?}");
    }

    fn check_twin(&self, body: &[u8], closed: bool) {
        if self.expected.starts_with(body) {
            return self.check_said(body, &self.expected, closed);
        }
        let (expected, _) = self.in_order(&self.expected);
        let (body, settled) = self.in_order(body);
        // The rest of a last run is still on its way.
        let is_in_run = settled < body.len() && !closed && expected.starts_with(&body[..settled]);
        if !is_in_run {
            self.check_said(&body, &expected, closed);
        }
    }

    /// Sorts messages whose order means nothing. The second value is the length up to a last run of them that may go on.
    fn in_order(&self, bytes: &[u8]) -> (Vec<u8>, usize) {
        let (sorted, settled) = sort_reports(bytes);
        let in_reports = sorted[settled..].starts_with(&[tag::PARAMETER_STATUS]);
        let settled = if in_reports { settled } else { sorted.len() };
        if !self.listens_apart {
            return (sorted, settled);
        }
        let (sorted, quiet) = sort_channels(&sorted);
        let in_notifications = sorted[quiet..].starts_with(&[tag::NOTIFICATION_RESPONSE]);
        (sorted, if in_notifications { quiet } else { settled })
    }

    /// True for a LISTEN that a server of the client may run: in a transaction, among other statements, or pinned.
    fn may_listen_apart(&self, step: &Step) -> bool {
        let alone = self.twin.is_at_rest() && !step.text.contains(';');
        step.text.contains("LISTEN") && !(alone && !self.uncertain && self.twin.keeps_no_server())
    }

    fn check_said(&self, body: &[u8], expected: &[u8], closed: bool) {
        if expected.starts_with(body) {
            let whole = body.len() == expected.len();
            // An error cannot be sent in the middle of a message.
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
            .zip(expected)
            .take_while(|(a, b)| a == b)
            .count();
        let error_at = (0..=same).rev().find(|at| is_fatal(&body[*at..], closed));
        let Some(at) = error_at else {
            panic!("I-01: not what it asked for: {}", self.story(body));
        };
        let whole = messages(&body[..at]).1.is_empty();
        assert!(whole, "an error inside of a message: {}", self.story(body));
        // The server's own fatal error may come right behind the last reply.
        let spoken = !is_fatal(&body[at..], true) || is_last_word(&body[at..]);
        let idle = at == expected.len() && self.twin.is_at_rest();
        // The state of the session is unknown, or was lost with the server.
        let lost = self.uncertain || self.is_kept() || !self.twin.holds_nothing();
        let lost = lost || self.cannot_move(&body[at..]);
        assert!(
            !idle || spoken || lost,
            "COR-20: idle, and yet ended: {}",
            self.story(body)
        );
    }

    /// True if this was sent to a client because no process can hand over its TLS.
    fn cannot_move(&self, said: &[u8]) -> bool {
        self.is_protected && outline(said).contains(SHUT_DOWN)
    }

    /// True if Weir may still have left the client the server that it inserted rows on.
    fn is_kept(&self) -> bool {
        let until = self.heard.plus(KEPT_MAX);
        self.inserts && self.ended.is_none_or(|ended| ended <= until)
    }

    /// Checks, once faults are over, that every request was answered, by a reply or by an error.
    pub(super) fn check_answered(&self, world: &World) {
        let Some(caller) = self.caller.map(|caller| &world.callers[caller]) else {
            return;
        };
        if caller.is_closed() || caller.left {
            return;
        }
        assert!(
            self.greeted.is_some(),
            "I-11: never let in: client {}",
            self.number
        );
        let body = self.body(world);
        let answered = if self.person.is_exposed {
            self.pending.is_none()
        } else {
            self.in_order(body).0 == self.in_order(&self.expected).0
        };
        let held = || world.holdings();
        assert!(
            answered,
            "I-11: not answered: {}{}",
            self.story(body),
            held()
        );
    }

    fn story(&self, body: &[u8]) -> String {
        format!(
            "client {}\n     got {}\nexpected {}\n    with {:?}",
            self.number,
            outline(body),
            outline(&self.expected),
            self.twin.visible_state()
        )
    }
}

/// True if a step inserts rows, now or when its statement is executed by name.
fn inserts(step: &Step) -> bool {
    step.text.to_ascii_lowercase().contains("insert")
}

/// True for statements that may leave state which no server can be asked about: a block, or a text of which only the
/// beginning is there when it is judged.
fn hides(step: &Step) -> bool {
    step.text.contains("DO $$") || step.bytes.len() > STREAM_MIN
}

/// True if Weir may query the server about the effects of a request; also about a text that it has read only in pieces.
fn may_change(step: &Step) -> bool {
    let text = step.text.to_ascii_lowercase();
    // A client keeps its server for a moment after its first INSERT, for its `lastval`.
    let words = "oops set do copy discard insert listen lock temp declare close fetch prepare execute deallocate b(";
    step.bytes.len() > STREAM_MIN || words.split(' ').any(|word| text.contains(word))
}

/// Returns the position after the first ReadyForQuery.
pub(super) fn greeting_end(got: &[u8]) -> Option<usize> {
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

/// True for a server's own fatal error. An upgraded process sends none to a client that it can move.
fn is_last_word(bytes: &[u8]) -> bool {
    let said = outline(bytes);
    said.contains("57P01") && !said.contains(SHUT_DOWN)
}

/// True for exactly one FATAL error, or for the beginning of one unless `all` bytes have come.
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
