//! Elements of random programs.

#![allow(
    clippy::indexing_slicing,
    reason = "a panic in a test is a failure, and is wanted"
)]

use std::fmt;

use weir_conformance::frontend;
use weir_conformance::random::Random;

use crate::script::Action;
use crate::session::Protocol;
use crate::session::Session;

/// Runs before all programs.
pub(crate) const FIXTURE: &str = "
    do $$ begin create role reader; exception when duplicate_object or unique_violation then null; end $$;
    do $$ begin create role writer; exception when duplicate_object or unique_violation then null; end $$";

/// Settings that programs change, each with some values; the last two are not allowed in the start-up packet.
const SETTINGS: [(&str, [&str; 3]); 10] = [
    ("DateStyle", ["German", "SQL, DMY", "ISO, YMD"]),
    ("TimeZone", ["Asia/Tokyo", "America/New_York", "UTC"]),
    ("IntervalStyle", ["iso_8601", "sql_standard", "postgres"]),
    ("application_name", ["one", "two", ""]),
    ("work_mem", ["5MB", "6MB", "7000kB"]),
    (
        "search_path",
        ["pg_catalog", "public, pg_catalog", "\"$user\""],
    ),
    ("extra_float_digits", ["0", "-3", "3"]),
    ("statement_timeout", ["1h", "2h", "0"]),
    ("my.var", ["x", "it's", ""]),
    ("other.var", ["1", "2", "3"]),
];

/// Steps of two clients.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// With one server: a client in a transaction continues until the transaction ends.
    pub(crate) in_turns: bool,
    /// Start-up parameters of each client.
    pub(crate) starts: Vec<Vec<(String, String)>>,
    pub(crate) steps: Vec<Step>,
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "  in turns: {}, starts: {:?}",
            self.in_turns, self.starts
        )?;
        for step in &self.steps {
            let probes = if step.probes { " (and asks)" } else { "" };
            writeln!(f, "  {}: {step}{probes}", step.client)?;
        }
        Ok(())
    }
}

/// A step of one client.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) client: usize,
    act: Act,
    /// Reads all settings afterwards.
    pub(crate) probes: bool,
}

#[derive(Clone, Debug)]
enum Act {
    /// Several statements before one Sync.
    Pipeline(Vec<String>),
    /// Disconnects and connects again.
    Renew,
    Run(String, Protocol),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.act {
            Act::Pipeline(texts) => write!(f, "pipeline {texts:?}"),
            Act::Renew => f.write_str("leaves and comes again"),
            Act::Run(sql, protocol) => write!(f, "{protocol:?} {sql}"),
        }
    }
}

impl Step {
    /// Runs the step; returns the result.
    pub(crate) fn run(
        &self,
        session: &mut Session,
        port: u16,
        database: &str,
        start: &[(String, String)],
    ) -> String {
        let lines = match &self.act {
            Act::Pipeline(texts) => {
                let messages = texts.iter().flat_map(|sql| {
                    let head = [frontend::parse("", sql, &[]), frontend::bind("", "", &[])];
                    [head.concat(), frontend::execute("", 0)].concat()
                });
                session.batch(&messages.collect::<Vec<_>>())
            }
            Act::Renew => {
                // Ends the old connection first, because the new one may need its server.
                session.say_good_bye();
                Session::connect(port, database, start).map(|new| {
                    *session = new;
                    Vec::new()
                })
            }
            Act::Run(sql, protocol) => {
                let run = Action::Run {
                    sql: sql.clone(),
                    refused: None,
                };
                Ok(session.act(&run, *protocol).lines)
            }
        };
        lines.map_or_else(
            |error| format!("lost: {error:#}"),
            |lines| lines.join(" / "),
        )
    }
}

/// Settings that were last reported to the client.
pub(crate) fn report(session: &Session) -> String {
    format!("told {:?}", session.parameters)
}

/// Values on the server of all settings that programs change.
pub(crate) fn probe(session: &mut Session) -> String {
    let columns = SETTINGS.map(|(name, _)| format!("nullif(current_setting('{name}', true), '')"));
    let sql = format!(
        "select current_user, session_user, {}, current_setting('default_transaction_read_only')",
        columns.join(", ")
    );
    let shown = |lines: Vec<String>| {
        // The names of the columns are always equal.
        let lines = lines.into_iter().filter(|line| !line.starts_with("T "));
        lines.collect::<Vec<_>>().join(" / ")
    };
    let lines = session.simple(&sql);
    lines.map_or_else(|error| format!("lost: {error:#}"), shown)
}

/// A program of at most `steps_max` steps.
pub(crate) fn random(random: &mut Random, in_turns: bool, steps_max: usize) -> Program {
    let count = 3 + random.below(steps_max - 3);
    let mut steps: Vec<Step> = (0..count).map(|_| step(random, in_turns)).collect();
    // Ends with no open transaction, and with all clients checked.
    for client in [0, 1, 0] {
        steps.push(Step {
            client,
            act: Act::Run("rollback".to_owned(), Protocol::Simple),
            probes: true,
        });
    }
    Program {
        in_turns,
        starts: vec![start(random), start(random)],
        steps,
    }
}

fn start(random: &mut Random) -> Vec<(String, String)> {
    let mut start = Vec::new();
    for (name, values) in SETTINGS.iter().take(8) {
        if random.chance(15) {
            start.push(((*name).to_owned(), values[random.below(3)].to_owned()));
        }
    }
    if random.chance(20) {
        let options = "-c work_mem=9MB -c statement_timeout=3h -c my.var=start";
        start.push(("options".to_owned(), options.to_owned()));
    }
    start
}

fn step(random: &mut Random, in_turns: bool) -> Step {
    let act = match random.below(100) {
        0..6 => Act::Pipeline(pipeline(random)),
        6 => Act::Renew,
        7..13 => Act::Run(several(random), Protocol::Simple),
        _ => Act::Run(statement(random, in_turns), Protocol::ALL[random.below(3)]),
    };
    Step {
        client: random.below(2),
        act,
        probes: random.chance(60),
    }
}

/// Statements of one transaction, ended early if one fails; without statements whose result depends on an earlier
/// reset to a start-up value.
fn pipeline(random: &mut Random) -> Vec<String> {
    let count = 1 + random.below(4);
    (0..count)
        .map(|_| match random.below(5) {
            0 => "select 1/0".to_owned(),
            1 => "select 1".to_owned(),
            _ => assignment(random),
        })
        .collect()
}

/// Several statements of one simple query.
fn several(random: &mut Random) -> String {
    let (one, two) = (assignment(random), assignment(random));
    match random.below(8) {
        0 => format!("{one}; {two}"),
        1 => format!("{one}; select 1/0; {two}"),
        2 => format!("begin; {one}; commit; {two}"),
        3 => format!("begin; {one}; rollback; {two}"),
        4 => format!("{one}; commit; {two}; select 1/0"),
        5 => format!("{one}; begin; {two}"),
        6 => format!("{one}; savepoint a; {two}"),
        _ => format!("{one}; rollback; {two}"),
    }
}

/// Returns a statement. A block may pin, so it is only used if each client can have a server.
fn statement(random: &mut Random, in_turns: bool) -> String {
    let point = ["a", "b"][random.below(2)];
    match random.below(100) {
        0..34 => assignment(random),
        34..44 => "begin".to_owned(),
        44..52 => "commit".to_owned(),
        52..60 => "rollback".to_owned(),
        60..69 => format!("savepoint {point}"),
        69..77 => format!("rollback to {point}"),
        77..81 => format!("release {point}"),
        81..86 => "select 1/0".to_owned(),
        86..88 => "selec 1".to_owned(),
        88..90 => "commit and chain".to_owned(),
        90..92 => "rollback and chain".to_owned(),
        92..94 => "discard all".to_owned(),
        94..97 if !in_turns => format!(
            "do $$ begin begin {}; perform 1/0; exception when division_by_zero then null; end; {}; end $$",
            in_block(random),
            in_block(random)
        ),
        _ => format!("set no_such_setting to {}", random.below(9)),
    }
}

/// Content of a block of plpgsql.
fn in_block(random: &mut Random) -> String {
    let (name, value) = value(random);
    format!("perform set_config('{name}', {value}, false)")
}

fn assignment(random: &mut Random) -> String {
    let (name, value) = value(random);
    match random.below(20) {
        0..8 => set("set", name, &value),
        8..10 => set("set session", name, &value),
        10..13 => set("set local", name, &value),
        13 => format!("reset {name}"),
        14 => format!("set {name} to default"),
        15 => format!("select set_config('{name}', {value}, false)"),
        16 => format!("select set_config('{name}', {value}, true)"),
        17 => [
            "set role reader",
            "set role writer",
            "reset role",
            "set local role reader",
        ][random.below(4)]
        .to_owned(),
        18 => "set session characteristics as transaction read only".to_owned(),
        _ => "reset all".to_owned(),
    }
}

/// Builds a SET; a list is not one quoted text.
fn set(verb: &str, name: &str, value: &str) -> String {
    if name == "search_path" {
        return format!("{verb} {name} to {}", value.trim_matches('\''));
    }
    format!("{verb} {name} to {value}")
}

/// Selects a setting and a quoted value for it.
fn value(random: &mut Random) -> (&'static str, String) {
    let (name, values) = SETTINGS[random.below(SETTINGS.len())];
    (
        name,
        format!("'{}'", values[random.below(3)].replace('\'', "''")),
    )
}
