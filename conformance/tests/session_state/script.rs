//! Scripts of two clients, one step per line, in a form that is easy to read.
//!
//! ```text
//! A connects: datestyle=German     logs in with these start-up parameters (else at the first step, with none)
//! A: show datestyle                runs a statement in the protocol of the run; ⏎ is the end of a line
//! A simple: begin; set a.b = 1     always the simple protocol, also several statements at once
//! A may 55000: select lastval()    may also fail with this SQLSTATE at the target; documented as refused
//! A sends: select 1                simple, without reading the answer
//! A receives                       the answer to that
//! A parse s1: select $1::int       one message of the extended protocol; `-` is the unnamed statement or portal
//! A parse s1 int4: select $1       the same with types
//! A bind p1 s1 7                   portal, statement, parameters
//! A describe S s1
//! A execute p1 2                   with a limit of rows
//! A close S s1
//! A flush
//! A sync                           sends what has been gathered and reads to `ReadyForQuery`
//! A hears                          waits for one notification
//! A heard                          the notifications that have come so far
//! A heard whose                    the same with a word on whether they are the client's own
//! A pinned: listen                 at Weir: keeps its server, for this reason
//! A free                           at Weir: keeps none
//! A leaves                         says good-bye; the next step of A is a new connection
//! A vanishes                       the same by RST
//! ```

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;

/// Action of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Bind {
        portal: String,
        statement: String,
        parameters: Vec<String>,
    },
    Close(u8, String),
    Connect(Vec<(String, String)>),
    Describe(u8, String),
    Execute(String, i32),
    Flush,
    Heard,
    HeardWhose,
    Hears,
    Leave,
    /// Reason of the pin; empty if the client must be free.
    Pinned(String),
    Parse {
        name: String,
        types: Vec<i32>,
        sql: String,
    },
    Receive,
    Run {
        sql: String,
        /// SQLSTATE that is also correct at the target.
        refused: Option<String>,
    },
    Send(String),
    Simple(String),
    Sync,
    Vanish,
}

/// A client and its action.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) client: char,
    pub(crate) action: Action,
    /// Text as written in the script.
    pub(crate) text: String,
}

/// A named conversation of some clients with one pool.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) name: String,
    /// Servers of the pool: one if the state follows its client, two if it pins.
    pub(crate) servers: u32,
    /// True if every step may be on new servers.
    pub(crate) moves: bool,
    pub(crate) steps: Vec<Step>,
}

/// All clients take turns on one server: their state must follow them.
pub(crate) fn on_one_server(name: &str, text: &str) -> Script {
    script(name, 1, true, text)
}

/// A keeps its server, the other clients use another one.
pub(crate) fn on_two_servers(name: &str, text: &str) -> Script {
    script(name, 2, false, text)
}

/// A keeps the only server for some steps, and B waits for it.
pub(crate) fn waiting_for_one_server(name: &str, text: &str) -> Script {
    script(name, 1, false, text)
}

/// A pool of many servers.
pub(crate) fn on_servers(name: &str, servers: u32, text: &str) -> Script {
    script(name, servers, false, text)
}

fn script(name: &str, servers: u32, moves: bool, text: &str) -> Script {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let steps = lines.map(|line| match step(line) {
        Ok(step) => step,
        Err(error) => panic!("{name}: {line}: {error:#}"),
    });
    Script {
        name: name.to_owned(),
        servers,
        moves,
        steps: steps.collect(),
    }
}

fn step(line: &str) -> Result<Step> {
    // A statement may contain colons; the text before the first colon never does.
    let (head, rest) = line.split_once(':').unwrap_or((line, ""));
    let rest = rest.trim().replace('⏎', "\n");
    let words: Vec<&str> = head.split_whitespace().collect();
    let (client, words) = words.split_first().context("no client")?;
    Ok(Step {
        client: client.chars().next().context("no client")?,
        action: action(words, rest)?,
        text: line.to_owned(),
    })
}

fn action(words: &[&str], rest: String) -> Result<Action> {
    Ok(match *words {
        [] => Action::Run {
            sql: rest,
            refused: None,
        },
        ["may", state] => Action::Run {
            sql: rest,
            refused: Some(state.to_owned()),
        },
        ["simple"] => Action::Simple(rest),
        ["sends"] => Action::Send(rest),
        ["receives"] => Action::Receive,
        ["connects"] => Action::Connect(pairs(&rest)?),
        ["parse", name, ref types @ ..] => Action::Parse {
            name: object(name),
            types: types
                .iter()
                .map(|name| type_oid(name))
                .collect::<Result<_>>()?,
            sql: rest,
        },
        ["bind", portal, statement, ref parameters @ ..] => Action::Bind {
            portal: object(portal),
            statement: object(statement),
            parameters: parameters.iter().map(|&text| text.to_owned()).collect(),
        },
        ["describe", kind, name] => Action::Describe(letter(kind)?, object(name)),
        ["execute", portal] => Action::Execute(object(portal), 0),
        ["execute", portal, rows] => Action::Execute(object(portal), rows.parse()?),
        ["close", kind, name] => Action::Close(letter(kind)?, object(name)),
        ["flush"] => Action::Flush,
        ["sync"] => Action::Sync,
        ["hears"] => Action::Hears,
        ["heard"] => Action::Heard,
        ["heard", "whose"] => Action::HeardWhose,
        ["pinned"] => Action::Pinned(rest),
        ["free"] => Action::Pinned(String::new()),
        ["leaves"] => Action::Leave,
        ["vanishes"] => Action::Vanish,
        _ => bail!("{words:?}"),
    })
}

fn object(name: &str) -> String {
    if name == "-" { "" } else { name }.to_owned()
}

fn letter(kind: &str) -> Result<u8> {
    kind.bytes().next().context("no kind")
}

fn type_oid(name: &str) -> Result<i32> {
    Ok(match name {
        "int4" => 23,
        "int8" => 20,
        "text" => 25,
        other => bail!("type {other}"),
    })
}

/// Parses `key=value` pairs separated by semicolons.
fn pairs(text: &str) -> Result<Vec<(String, String)>> {
    let pairs = text
        .split(';')
        .map(str::trim)
        .filter(|text| !text.is_empty());
    pairs
        .map(|pair| {
            let (key, value) = pair.split_once('=').context("no value")?;
            Ok((key.to_owned(), value.to_owned()))
        })
        .collect()
}
