//! Plan of a simulation, made from a seed: the settings, the clients, and a list of operations. Each operation has a
//! seed of its own, so that leaving one out changes the others as little as possible.

use std::fmt::Write;

use weir_testkit::cuts::Dice;
use weir_testkit::program::Topic;

use super::super::world::STAND_IN;
use super::TOPICS;
use crate::driver::memory::Sending;

const STEPS: usize = 2500;
/// Separates the dice of upgrades from those of the plan.
const UPGRADES: u64 = 0x7570_6772_6164_6573;
/// Separates the dice of TLS from those of the plan.
const PROTECTION: u64 = 0x5f74_6c73_5f74_6c73;
/// Configuration lines for TLS that clients may ask for.
const CLIENT_TLS: &str = "; stand-in of TLS\nclient_tls_sslmode = allow\nclient_tls_key_file = no\n\
                          client_tls_cert_file = no";
/// Configuration lines for TLS that servers are asked for.
const SERVER_TLS: [&str; 3] = [
    "; stand-in of TLS\nserver_tls_sslmode = require",
    "; stand-in of TLS\nserver_tls_sslmode = prefer",
    "; stand-in of TLS\nserver_tls_sslmode = require\nserver_tls_sslnegotiation = direct",
];
/// Separates the dice of sends from those of the plan.
const SENDS: u64 = 0x5f73_656e_6473_5f5f;
/// Beginning of the options for sends that complete later; the watermark follows.
const LATER: &str = "; sends complete later, watermark ";
/// Options for sends that complete later.
const LATERS: [&str; 3] = [
    "; sends complete later, watermark 1",
    "; sends complete later, watermark 300",
    "; sends complete later, watermark 20000",
];
/// Option of a plan: a comment in the configuration.
const CATALOGUE: &str = "; workers know the catalogue";
/// Separates the dice of catalogues from those of the plan.
const CATALOGUES: u64 = 0x6361_7461_6c6f_6775;
/// Separates the dice of typists from those of the plan.
const TYPISTS: u64 = 0x7479_7069_7374_7321;
/// Separates the dice of query rules from those of the plan.
const RULES: u64 = 0x7275_6c65_735f_5f5f;
/// Query rules that clients do not notice.
const RULES_OF_PLANS: [&str; 7] = [
    "; rule [[rules]]\n; rule name = \"watched\"\n; rule action = \"pass\"\n; rule timeout = \"1h\"\n; rule then = \"next\"",
    "; rule [[rules]]\n; rule name = \"logged\"\n; rule action = \"log\"\n; rule log = \"slow:1h\"\n; rule then = \"next\"",
    "; rule [[rules]]\n; rule name = \"late\"\n; rule match.kind = \"select\"\n; rule action = \"delay\"\n\
     ; rule delay = \"1ms\"\n; rule sample = \"20%\"\n; rule then = \"next\"",
    "; rule [[rules]]\n; rule name = \"many\"\n; rule action = \"pass\"\n; rule max_concurrency = 1000\n; rule then = \"next\"",
    "; rule [[rules]]\n; rule name = \"copied\"\n; rule action = \"mirror\"\n; rule to = \"database:copy\"\n\
     ; rule compare = \"rows\"\n; rule sample = \"50%\"\n; rule then = \"next\"",
    "; rule [[rules]]\n; rule name = \"away\"\n; rule match.database = \"shop\"\n; rule action = \"route\"\n\
     ; rule to = \"database:other\"\n; rule sample = \"30%\"\n; rule then = \"next\"",
    "digests = 0",
];
/// Part of the rule that sends clients to another database.
pub(super) const AWAY: &str = "database:other";
/// Option with room on a server for all statements that the clients of a plan prepare; without it, there is too little.
const ROOMY: &str = "max_prepared_statements = 20";
const CHECKED: &str = "session_state_check = always";

/// Operation of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Op {
    pub(super) what: What,
    /// Index of a client.
    pub(super) who: usize,
    pub(super) seed: u64,
}

pub(super) const SETTLE: Op = Op {
    what: What::Settle,
    who: 0,
    seed: 0,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// A client sends something.
    Act,
    /// A client asks to cancel its own statement.
    AskCancel,
    /// A cancel reaches the server, or its connection ends.
    Cancel,
    /// A session outside of Weir alters a table, or makes or drops a view.
    Change,
    /// Some bytes of some client move.
    Client,
    /// All clients send and read what they can; only a shrunk plan has it.
    Clients,
    /// A client stops reading, or reads again.
    Deafen,
    /// A role or value is forbidden, or everything is allowed again.
    Decree,
    Fault,
    /// The statement that a server runs times out, whichever client's it is.
    Hit,
    /// Time passes to the next deadline.
    Leap,
    /// An administrator pauses, resumes, kills, or has servers replaced.
    Order,
    Pass,
    /// Another configuration comes into force.
    Reload,
    /// Some server receives, executes or sends.
    Server,
    /// All servers receive, execute and send; only a shrunk plan has it.
    Servers,
    /// Everything happens that can; only a shrunk plan has it, or one with typists.
    Settle,
    /// A worker runs out of descriptors, or has some again.
    Shortage,
    /// Some worker has a turn.
    Turn,
    /// Every worker has a turn; only a shrunk plan has it.
    Turns,
    /// A typist sends something.
    Type,
    /// Another process takes over from the first one.
    Upgrade,
    Vanish,
}

/// Faults that any plan may have.
const FAULTS: [What; 7] = [
    What::AskCancel,
    What::Deafen,
    What::Fault,
    What::Order,
    What::Reload,
    What::Shortage,
    What::Vanish,
];
/// Faults that only exposed clients survive: their twins are told later.
const STRIKES: [What; 2] = [What::Decree, What::Hit];
/// Weights for a kind of fault, beside about 400 other operations: mostly never, or often.
const RATES: [usize; 5] = [0, 0, 5, 12, 24];

impl What {
    /// True if only a fault or an administrator causes the operation.
    pub(super) fn is_fault(self) -> bool {
        self == Self::Upgrade || FAULTS.contains(&self) || STRIKES.contains(&self)
    }

    /// True if the operation happens by itself when everything that can happen does.
    pub(super) fn is_done_by_settling(self) -> bool {
        self.at_once().is_some()
    }

    /// Returns the operation that does at once, for all, what this operation does in pieces, for one.
    pub(super) fn at_once(self) -> Option<Self> {
        match self {
            Self::Client | Self::Clients => Some(Self::Clients),
            Self::Server | Self::Servers => Some(Self::Servers),
            Self::Turn | Self::Turns => Some(Self::Turns),
            _ => None,
        }
    }

    /// True if a client performs the operation.
    pub(super) fn is_personal(self) -> bool {
        matches!(
            self,
            Self::Act | Self::AskCancel | Self::Deafen | Self::Vanish
        )
    }
}

/// Characteristics of a client.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Person {
    /// True if the client cancels, and bears errors that its twin cannot know.
    pub(super) is_exposed: bool,
    pub(super) topics: Vec<Topic>,
    /// True if Weir queries the session state at every release.
    pub(super) is_checked: bool,
    /// True if statements may fail for reasons outside of the session.
    pub(super) is_struck: bool,
    /// Length of the longest rows in bytes; 0 = short rows.
    pub(super) large: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) workers: usize,
    pub(super) places: usize,
    /// Capacity of a connection, in bytes.
    pub(super) room: usize,
    pub(super) people: Vec<Person>,
    /// Number of clients that rely on the objects that their statements were resolved to.
    pub(super) typists: usize,
    pub(super) options: Vec<&'static str>,
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
        let is_struck = dice.below(2) == 0;
        let room = *dice.pick(&[48, 600, 20_000, 1 << 20]);
        let large = *dice.pick(&[0, 0, 20_000, 40_000]);
        let mut people: Vec<_> = (0..2 + dice.below(6)).map(|_| person(dice)).collect();
        let options: Vec<_> = options.into_iter().filter(|_| dice.below(4) == 0).collect();
        for person in &mut people {
            person.is_checked = options.contains(&CHECKED);
            person.is_struck = is_struck;
            person.is_exposed |= is_struck;
            // A long row would use up all operations.
            person.large = if room > 600 { large } else { 0 };
        }
        let weights = weights(is_struck, dice);
        let mut plan = Self {
            seed,
            workers: 1 + dice.below(3),
            places: 1 + dice.below(4),
            room,
            options,
            ops: (0..STEPS)
                .map(|_| op(&weights, dice, people.len()))
                .collect(),
            people,
            typists: 0,
        };
        plan.add_upgrade();
        plan.add_protection();
        plan.add_typists();
        plan.add_sends();
        plan.add_catalogue();
        plan.add_rules();
        plan
    }

    /// Lets workers know the catalogue in half of the plans, so that reads run again. Uses dice of its own, like upgrades.
    fn add_catalogue(&mut self) {
        let dice = &mut Dice::new(self.seed ^ CATALOGUES);
        if dice.below(2) == 0 {
            self.options.push(CATALOGUE);
        }
    }

    /// Adds query rules that clients do not notice to half of the plans. Uses dice of its own, like upgrades.
    fn add_rules(&mut self) {
        let dice = &mut Dice::new(self.seed ^ RULES);
        if dice.below(2) == 0 {
            let mut rules: Vec<_> = RULES_OF_PLANS
                .iter()
                .filter(|_| dice.below(3) == 0)
                .collect();
            // Weir follows the definitions of objects by entry, and typists alter them by one that leads to the same data.
            rules.retain(|rule| self.typists == 0 || !rule.contains(AWAY));
            self.options.extend(rules);
        }
    }

    /// True if workers know the catalogue.
    pub(super) fn has_catalogue(&self) -> bool {
        self.options.contains(&CATALOGUE)
    }

    /// Makes sends complete later in two plans of three. Uses dice of its own, like upgrades.
    fn add_sends(&mut self) {
        let dice = &mut Dice::new(self.seed ^ SENDS);
        if dice.below(3) > 0 {
            let of: &[&'static str] = &LATERS;
            self.options.push(*dice.pick(of));
        }
    }

    /// Returns the manner in which sends complete.
    pub(super) fn sending(&self) -> Sending {
        let mut options = self.options.iter();
        let watermark = options.find_map(|option| option.strip_prefix(LATER));
        let watermark = watermark.and_then(|watermark| watermark.parse().ok());
        watermark.map_or(Sending::AtOnce, |watermark| Sending::Later { watermark })
    }

    /// Replaces clients by typists in one plan of three, and adds changes of their objects. Uses dice of its own, like
    /// upgrades.
    fn add_typists(&mut self) {
        let dice = &mut Dice::new(self.seed ^ TYPISTS);
        if dice.below(3) > 0 {
            return;
        }
        self.typists = 2 + dice.below(3);
        if dice.below(3) > 0 {
            self.options.push(ROOMY);
        }
        let mut ops = Vec::with_capacity(2 * self.ops.len());
        for op in &self.ops {
            if op.what != What::Act {
                ops.push(*op);
            }
            let what = match dice.below(120) {
                0..40 => What::Type,
                40 => What::Change,
                _ => continue,
            };
            ops.push(Op {
                what,
                who: dice.below(self.typists),
                seed: dice.roll(),
            });
            // If everything moved byte by byte, a plan would end before copies grow old.
            let settles = what == What::Type && dice.below(3) == 0;
            ops.extend(settles.then_some(SETTLE));
        }
        self.ops = ops;
    }

    /// True if statements may fail for reasons outside of the session.
    pub(super) fn is_struck(&self) -> bool {
        self.people.iter().any(|person| person.is_struck)
    }

    /// Puts an upgrade into one plan of four. Uses dice of its own, which leave everything else of a seed as it is.
    fn add_upgrade(&mut self) {
        let dice = &mut Dice::new(self.seed ^ UPGRADES);
        let place = dice.below(4 * self.ops.len());
        if let Some(op) = self.ops.get_mut(place) {
            op.what = What::Upgrade;
        }
    }

    /// Adds TLS to connections of clients or of servers in one plan of three. Uses dice of its own, which leave all
    /// other plans as they are.
    fn add_protection(&mut self) {
        let dice = &mut Dice::new(self.seed ^ PROTECTION);
        let pick = dice.below(9);
        if pick < 2 {
            self.options.push(CLIENT_TLS);
        }
        if (1..3).contains(&pick) {
            let of: &[&'static str] = &SERVER_TLS;
            self.options.push(*dice.pick(of));
        }
    }

    /// True if any connection may have TLS.
    pub(super) fn is_protected(&self) -> bool {
        let mut options = self.options.iter();
        options.any(|option| option.contains(STAND_IN))
    }

    /// Returns the lines of the configuration, except for the number of servers.
    pub(super) fn lines(&self) -> String {
        let mut lines = "server_login_retry = 1\nquery_wait_notify = 0\nsession_state = track\n\
                         drain_timeout = 10\nupgrade_drain_timeout = 20\n"
            .to_owned();
        if !self.options.contains(&ROOMY) {
            lines.push_str("max_prepared_statements = 2\n");
        }
        for option in &self.options {
            writeln!(lines, "{option}").unwrap();
        }
        lines
    }

    /// Returns the plan as Rust source for `found.rs`.
    pub(super) fn source(&self) -> String {
        let Self {
            seed,
            workers,
            places,
            room,
            people,
            typists,
            options,
            ops,
        } = self;
        let ops = ops.iter().map(|Op { what, who, seed }| {
            format!("        Op {{ what: What::{what:?}, who: {who}, seed: {seed:#x} }},\n")
        });
        let people: String = people.iter().map(Person::source).collect();
        format!(
            "Plan {{\n    seed: {seed},\n    workers: {workers},\n    places: {places},\n    room: {room},\n    \
             people: vec![\n{people}    ],\n    typists: {typists},\n    options: vec!{options:?},\n    ops: vec![\n{}    ],\n}}",
            ops.collect::<String>(),
        )
    }
}

impl Person {
    fn source(&self) -> String {
        let Self {
            is_exposed,
            topics,
            is_checked,
            is_struck,
            large,
        } = self;
        let topics = topics.iter().map(|topic| format!("Topic::{topic:?}"));
        let topics = topics.collect::<Vec<_>>().join(", ");
        format!(
            "        Person {{ is_exposed: {is_exposed}, topics: vec![{topics}], is_checked: {is_checked}, \
             is_struck: {is_struck}, large: {large} }},\n"
        )
    }
}

/// Makes a client. Most clients move freely; some use topics that pin them, too.
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
        is_exposed: dice.below(4) == 0,
        is_checked: false,
        is_struck: false,
        large: 0,
    }
}

/// Returns the weights of all operations.
fn weights(is_struck: bool, dice: &mut Dice) -> Vec<(What, usize)> {
    let mut weights = vec![
        (What::Act, 60),
        (What::Client, 90),
        (What::Turn, 110),
        (What::Server, 110),
        (What::Pass, 10),
        (What::Cancel, 8),
        (What::Leap, 1),
    ];
    let strikes: &[What] = if is_struck { &STRIKES } else { &[] };
    let faults = FAULTS.iter().chain(strikes);
    weights.extend(faults.map(|fault| (*fault, *dice.pick(&RATES))));
    weights
}

fn op(weights: &[(What, usize)], dice: &mut Dice, people: usize) -> Op {
    let mut at = dice.below(weights.iter().map(|(_, weight)| weight).sum());
    let mut found = What::Turn;
    for (what, weight) in weights {
        if at < *weight {
            found = *what;
            break;
        }
        at -= weight;
    }
    Op {
        what: found,
        who: dice.below(people),
        seed: dice.roll(),
    }
}
