//! Typists: clients that rely on what PostgreSQL resolved at their Parse, while they and others change tables and
//! views.
//!
//! All typists prepare the same few texts, so that they share copies and objects: no twin can know when a server
//! parses. A request is judged when its answer has come, by the objects since it was sent. The type of a parameter is
//! one that the column had at the client's own Parse or later. It stays the type that the client saw first. A name
//! finds a view that was found at the client's own Parse or later, and none that was gone before.

use std::collections::{BTreeMap, BTreeSet};

use weir_testkit::backend::{Database, NUMBERS, Number};
use weir_testkit::cuts::Dice;
use weir_testkit::reading::{Message, messages, outline};
use weir_testkit::say::{Say, say};
use weir_wire::backend::ErrorFields;

use super::super::world::World;
use super::actor::greeting_end;

/// Names of the statements of a client.
const NAMES: [&str; 3] = ["p0", "p1", "p2"];
/// Value that no number type accepts; the error names the type.
const BAD: &str = "x";
/// Errors from outside of the session, in plans that have them.
const IMPOSED: [&str; 3] = ["57014", "42501", "22023"];

/// Statement text that clients share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Text {
    /// INSERT into the table with this number.
    Insert(usize),
    Returning(usize),
    Spot,
}

/// Possible sets of texts of a plan.
const TEXTS: [&[Text]; 6] = [
    &[Text::Spot],
    &[Text::Insert(0)],
    &[Text::Returning(0)],
    &[Text::Spot, Text::Returning(0)],
    &[Text::Insert(0), Text::Returning(0)],
    &[
        Text::Insert(0),
        Text::Insert(1),
        Text::Returning(0),
        Text::Returning(1),
        Text::Spot,
    ],
];

impl Text {
    /// Returns the texts of a plan.
    pub(super) fn of_plan(seed: u64) -> &'static [Self] {
        let texts: &&[Self] = Dice::new(seed).pick(&TEXTS);
        texts
    }

    fn sql(self) -> String {
        match self {
            Self::Insert(table) => format!("INSERT INTO public.kind_{table} VALUES ($1)"),
            Self::Returning(table) => {
                format!("INSERT INTO public.kind_{table} VALUES ($1) RETURNING pg_typeof($1)::text")
            }
            Self::Spot => "SELECT name FROM spot".to_owned(),
        }
    }

    /// Returns the types that the parameter may have had, in order.
    fn numbers(self, database: &Database) -> Vec<Number> {
        match self {
            Self::Insert(table) | Self::Returning(table) => {
                database.numbers(&format!("kind_{table}"))
            }
            Self::Spot => Vec::new(),
        }
    }
}

/// Knowledge of a client about a statement of its own.
#[derive(Debug, Clone)]
struct Known {
    text: Text,
    /// Index of the column's type when the Parse was sent, among all types that the column had.
    first: usize,
    /// Type of the parameter, once the client has seen it.
    number: Option<Number>,
    /// Views that the name has found since the Parse: true for `ann.spot`, false for `public.spot`.
    views: BTreeSet<bool>,
    /// Number of states of the view that were taken into account.
    seen: usize,
}

/// Message of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Bind { name: String, is_bad: bool },
    Close(String),
    Describe(String),
    Execute(String),
    Parse(String),
    Query(String),
    Sync,
}

/// Request that was sent and is not answered.
#[derive(Debug)]
struct Pending {
    parts: Vec<Part>,
    /// Statements that the request parses.
    parsed: BTreeMap<String, Known>,
    /// True if the transaction had failed when the request was sent.
    has_failed: bool,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Typist {
    is_struck: bool,
    /// Texts that the client prepares.
    texts: &'static [Text],
    /// Index of the client's connection in the world.
    caller: Option<usize>,
    /// Number of bytes that are judged; `None` before the end of the greeting.
    judged: Option<usize>,
    pending: Option<Pending>,
    names: BTreeMap<String, Known>,
    /// Transaction status of the last ReadyForQuery.
    status: u8,
    /// State of the view `ann.spot` inside of the client's transaction, if the transaction has changed it.
    view: Option<bool>,
}

impl Typist {
    pub(super) fn new(is_struck: bool, texts: &'static [Text]) -> Self {
        Self {
            is_struck,
            texts,
            caller: None,
            judged: None,
            pending: None,
            names: BTreeMap::new(),
            status: b'I',
            view: None,
        }
    }

    // --- what it says ---

    /// Connects, or sends the next request if nothing is in flight. Returns a description of the act.
    pub(super) fn act(
        &mut self,
        world: &mut World,
        database: &Database,
        dice: &mut Dice,
    ) -> Option<String> {
        let Some(caller) = self.caller else {
            self.caller = Some(world.dial("ann", &[]));
            return Some("connects".to_owned());
        };
        if world.callers[caller].is_closed() {
            *self = Self::new(self.is_struck, self.texts);
            return None;
        }
        if self.judged.is_none() || self.pending.is_some() {
            return None;
        }
        let parts = match self.status {
            b'I' => self.request(database, dice),
            b'T' if dice.below(3) > 0 => self.request(database, dice),
            _ => query(["COMMIT", "ROLLBACK"][dice.below(2)]),
        };
        Some(self.ask(world, caller, database, parts, dice))
    }

    fn request(&self, database: &Database, dice: &mut Dice) -> Vec<Part> {
        let name = (*dice.pick(&NAMES)).to_owned();
        let is_idle = self.status == b'I';
        match dice.below(30) {
            0 | 1 if is_idle => query("BEGIN"),
            2 => self.change(database, dice),
            16..23 if !is_idle && self.view.is_none() => self.change(database, dice),
            3 | 4 => vec![
                Part::Parse(String::new()),
                bind("", dice),
                Part::Execute(String::new()),
                Part::Sync,
            ],
            5 | 6 if self.names.contains_key(&name) => vec![Part::Close(name), Part::Sync],
            7..12 if self.names.contains_key(&name) => {
                let mut parts = vec![Part::Close(name.clone()), Part::Parse(name.clone())];
                parts.append(&mut uses(&name, dice));
                parts
            }
            _ if self.names.contains_key(&name) => uses(&name, dice),
            12..16 => vec![Part::Parse(name), Part::Sync],
            _ => {
                let mut parts = vec![Part::Parse(name.clone())];
                parts.append(&mut uses(&name, dice));
                parts
            }
        }
    }

    /// Returns a request that changes what a text is resolved to.
    fn change(&self, database: &Database, dice: &mut Dice) -> Vec<Part> {
        let table = match dice.pick(self.texts) {
            Text::Insert(table) | Text::Returning(table) if self.status == b'I' => *table,
            _ if self.sees_view(database) => return query("DROP VIEW ann.spot"),
            _ => return query("CREATE VIEW ann.spot AS SELECT 'ann'::text AS name"),
        };
        let number = dice.pick(&NUMBERS).name();
        query(&format!(
            "ALTER TABLE public.kind_{table} ALTER COLUMN v TYPE {number}"
        ))
    }

    fn ask(
        &mut self,
        world: &mut World,
        caller: usize,
        database: &Database,
        parts: Vec<Part>,
        dice: &mut Dice,
    ) -> String {
        self.look(database);
        let mut parsed = BTreeMap::new();
        let mut said = say();
        for part in &parts {
            if let Part::Parse(name) = part {
                parsed.insert(name.clone(), self.known(*dice.pick(self.texts), database));
            }
            said = self.say(said, part, &parsed);
        }
        let told = format!("{parts:?} {parsed:?}");
        self.pending = Some(Pending {
            parts,
            parsed,
            has_failed: self.status == b'E',
        });
        world.callers[caller].say(&said);
        told
    }

    fn say(&self, said: Say, part: &Part, parsed: &BTreeMap<String, Known>) -> Say {
        let known = |name: &String| parsed.get(name).or_else(|| self.names.get(name));
        match part {
            Part::Bind { name, is_bad } => match known(name).map(|known| known.text) {
                None | Some(Text::Spot) => said.bind("", name),
                Some(_) => said.bind_value("", name, if *is_bad { BAD } else { "1" }),
            },
            Part::Close(name) => said.close_statement(name),
            Part::Describe(name) => said.describe_statement(name),
            Part::Execute(_) => said.execute("", 0),
            Part::Parse(name) => {
                let text = known(name).map(|known| known.text.sql());
                said.parse(name, &text.unwrap_or_default())
            }
            Part::Query(sql) => said.query(sql),
            Part::Sync => said.sync(),
        }
    }

    /// Returns a statement whose Parse is sent now.
    fn known(&self, text: Text, database: &Database) -> Known {
        let numbers = text.numbers(database);
        Known {
            text,
            first: numbers.len().saturating_sub(1),
            number: None,
            views: [self.sees_view(database)].into(),
            seen: database.views().len(),
        }
    }

    fn sees_view(&self, database: &Database) -> bool {
        let now = || database.views().last().copied().unwrap_or_default();
        self.view.unwrap_or_else(now)
    }

    /// Uses all statements, so that the end of a plan reveals any wrong one.
    pub(super) fn use_all(&mut self, world: &mut World, database: &Database, dice: &mut Dice) {
        if let Some(caller) = self.ready(world).filter(|_| self.status == b'I') {
            let mut parts = Vec::new();
            for name in self.names.keys() {
                let name = name.clone();
                let is_bad = false;
                parts.extend([
                    Part::Describe(name.clone()),
                    Part::Bind {
                        name: name.clone(),
                        is_bad,
                    },
                ]);
                parts.push(Part::Execute(name));
            }
            parts.push(Part::Sync);
            self.ask(world, caller, database, parts, dice);
        }
    }

    /// Ends the transaction, so that others get the server.
    pub(super) fn finish(&mut self, world: &mut World, database: &Database, dice: &mut Dice) {
        if let Some(caller) = self.ready(world).filter(|_| self.status != b'I') {
            self.ask(world, caller, database, query("ROLLBACK"), dice);
        }
    }

    /// Returns the connection, if the client may send a request.
    fn ready(&self, world: &World) -> Option<usize> {
        let is_ready = self.judged.is_some() && self.pending.is_none();
        self.caller
            .filter(|caller| is_ready && !world.callers[*caller].is_closed())
    }

    // --- what it gets ---

    /// Notes the states of the view since the last call.
    fn look(&mut self, database: &Database) {
        let all = database.views();
        let coming = self.pending.as_mut().map(|pending| &mut pending.parsed);
        let coming = coming.into_iter().flat_map(BTreeMap::values_mut);
        for known in self.names.values_mut().chain(coming) {
            if let Some(own) = self.view {
                // No other client changes the view until the transaction is over.
                known.views.insert(own);
                continue;
            }
            known.views.extend(all.last());
            known.views.extend(&all[known.seen..]);
            known.seen = all.len();
        }
    }

    /// Checks that a direct connection could have sent the same answers.
    pub(super) fn check(&mut self, world: &World, database: &Database) {
        let Some(caller) = self.caller.map(|caller| &world.callers[caller]) else {
            return;
        };
        if self.judged.is_none() {
            self.judged = greeting_end(&caller.got);
        }
        let Some(judged) = self.judged else { return };
        let fresh = &caller.got[judged..];
        if fresh.is_empty() {
            return;
        }
        let (found, _) = messages(fresh);
        let Some(ready) = found.iter().position(|message| message.tag == b'Z') else {
            return;
        };
        self.look(database);
        let answer = &found[..=ready];
        self.judged = Some(
            judged
                + answer
                    .iter()
                    .map(|message| message.raw.len())
                    .sum::<usize>(),
        );
        let pending = self.pending.take();
        let pending = pending.unwrap_or_else(|| panic!("I-03: nobody asked: {}", outline(fresh)));
        self.judge(pending, answer, database);
        self.status = answer[ready].body[0];
        if self.status == b'I' {
            self.view = None;
            self.look(database);
        }
    }

    fn judge(&mut self, mut pending: Pending, answer: &[Message<'_>], database: &Database) {
        let story = format!("{pending:?} of {:?}", self.names);
        let mut rest = answer.iter().filter(|m| !b"NSA".contains(&m.tag));
        let mut next = || *rest.next().unwrap_or_else(|| panic!("I-02: {story}"));
        for part in std::mem::take(&mut pending.parts) {
            for expected in self.tags(&part, &pending).iter().copied() {
                let message = next();
                if message.tag == b'E' {
                    self.judge_error(&part, message, &pending, database, &story);
                    assert_eq!(next().tag, b'Z', "I-02: behind an error: {story}");
                    return;
                }
                let line = outline(message.raw);
                assert_eq!(
                    char::from(message.tag),
                    char::from(expected),
                    "I-02: {line}: {story}"
                );
                self.judge_message(&part, message, &mut pending, database, &story);
            }
        }
    }

    /// Returns the tags of the messages that answer a part.
    fn tags(&self, part: &Part, pending: &Pending) -> &'static [u8] {
        let text = |name: &String| {
            let known = pending.parsed.get(name).or_else(|| self.names.get(name));
            known.map(|known| known.text)
        };
        match part {
            Part::Bind { .. } => b"2",
            Part::Close(_) => b"3",
            Part::Describe(name) if matches!(text(name), Some(Text::Insert(_))) => b"tn",
            Part::Describe(_) => b"tT",
            Part::Execute(name) if matches!(text(name), Some(Text::Insert(_))) => b"C",
            Part::Execute(_) => b"DC",
            Part::Parse(_) => b"1",
            Part::Query(_) => b"CZ",
            Part::Sync => b"Z",
        }
    }

    fn judge_message(
        &mut self,
        part: &Part,
        message: Message<'_>,
        pending: &mut Pending,
        database: &Database,
        story: &str,
    ) {
        match (part, message.tag) {
            (Part::Parse(name), _) => {
                if let Some(known) = pending.parsed.remove(name) {
                    self.names.insert(name.clone(), known);
                }
            }
            (Part::Close(name), _) => drop(self.names.remove(name)),
            (Part::Describe(name), b't') => {
                let oid = message.body.get(2..).and_then(<[u8]>::first_chunk);
                let oid = oid.map(|oid| u32::from_be_bytes(*oid));
                self.sees_number(name, oid.and_then(Number::of_oid), database, story);
            }
            (Part::Execute(name), b'D') => {
                let value = String::from_utf8_lossy(&message.body[6..]);
                let known = self.names.get(name);
                let known = known.unwrap_or_else(|| panic!("I-02: {story}"));
                if known.text == Text::Spot {
                    let may = known.views.contains(&(value == "ann"));
                    assert!(may, "I-08: {name} finds the view of {value}: {story}");
                } else {
                    self.sees_number(name, named(&value), database, story);
                }
            }
            (Part::Query(sql), b'C') if sql.starts_with("CREATE") => self.view = Some(true),
            (Part::Query(sql), b'C') if sql.starts_with("DROP") => self.view = Some(false),
            _ => {}
        }
        // The unnamed statement is not used again.
        if message.tag == b'Z' {
            self.names.remove("");
        }
    }

    /// Checks the type of a statement's parameter.
    fn sees_number(
        &mut self,
        name: &str,
        number: Option<Number>,
        database: &Database,
        story: &str,
    ) {
        let known = self.names.get_mut(name);
        let known = known.unwrap_or_else(|| panic!("I-02: {story}"));
        let all = known.text.numbers(database);
        if all.is_empty() {
            assert_eq!(number, None, "I-08: a parameter of {name}: {story}");
            return;
        }
        let number = number.unwrap_or_else(|| panic!("I-08: no type of {name}: {story}"));
        let since = &all[known.first..];
        let may = known
            .number
            .map_or_else(|| since.contains(&number), |seen| seen == number);
        assert!(
            may,
            "I-08: {name} takes {}, the column had {since:?}: {story}",
            number.name()
        );
        known.number = Some(number);
    }

    fn judge_error(
        &mut self,
        part: &Part,
        message: Message<'_>,
        pending: &Pending,
        database: &Database,
        story: &str,
    ) {
        let fields = ErrorFields::parse(message.body).unwrap();
        let field = |code| {
            let found = fields.get(code).unwrap_or_default();
            String::from_utf8_lossy(found).into_owned()
        };
        let (code, text) = (field(b'C'), field(b'M'));
        self.names.remove("");
        match (part, code.as_str()) {
            (Part::Bind { name, is_bad: true }, "22P02") => {
                let kind = text.strip_prefix("invalid input syntax for type ");
                let kind = kind.and_then(|rest| rest.split(':').next());
                if !name.is_empty() {
                    self.sees_number(name, kind.and_then(named), database, story);
                }
            }
            (_, "25P02") if pending.has_failed => {}
            (Part::Query(sql), "55P03" | "42P07" | "42P01") if sql.ends_with("spot") => {}
            (Part::Query(sql), "55P03" | "42P07") if sql.starts_with("CREATE") => {}
            (_, code) if self.is_struck && IMPOSED.contains(&code) => {}
            _ => panic!("I-08: {}: {story}", outline(message.raw)),
        }
    }

    /// Checks, once faults are over, that the client is let in and its last request was answered.
    pub(super) fn check_answered(&self, world: &World) {
        let Some(caller) = self.caller.map(|caller| &world.callers[caller]) else {
            return;
        };
        let is_quiet = self.judged.is_some() && self.pending.is_none();
        assert!(
            caller.is_closed() || is_quiet,
            "I-11: not answered: {self:?}{}",
            world.holdings()
        );
    }
}

fn query(sql: &str) -> Vec<Part> {
    vec![Part::Query(sql.to_owned())]
}

fn bind(name: &str, dice: &mut Dice) -> Part {
    Part::Bind {
        name: name.to_owned(),
        is_bad: dice.below(4) == 0,
    }
}

/// Returns parts that describe a statement, execute it, or both.
fn uses(name: &str, dice: &mut Dice) -> Vec<Part> {
    let pick = dice.below(4);
    let mut parts = Vec::new();
    if pick < 2 {
        parts.push(Part::Describe(name.to_owned()));
    }
    if pick > 0 {
        parts.push(bind(name, dice));
        parts.push(Part::Execute(name.to_owned()));
    }
    parts.push(Part::Sync);
    parts
}

/// Returns the number type of this name.
fn named(name: &str) -> Option<Number> {
    NUMBERS.into_iter().find(|number| number.name() == name)
}
