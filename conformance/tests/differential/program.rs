//! Programs: the steps of some clients and of an administrator, with a text form that can be read, stored and parsed.
//!
//! ```text
//! pool 1 workers 2
//! client A user=app; DateStyle=German    clients with their start-up parameters
//! A: set app.x = 'a' ;; select 1         a simple query; `;;` separates the statements of one text
//! A> parse a int4: select $1 | sync      messages of the extended protocol, see `Item`
//! A copies 1,x/2,y: copy t from stdin    a COPY whose data is sent ahead; `-` is an empty one, `!` ends it by CopyFail
//! A cancels: select pg_sleep(60)         cancelled as soon as it sleeps or waits for a lock
//! A cancels nothing                      a cancel while nothing of the client runs
//! A leaves                               Terminate; the next step of A is a new connection
//! A vanishes                             the same by RST
//! A asks settings                        compares a part of the session, if it can be asked now
//! admin: revoke ra from app              a superuser with a direct connection
//! ```

use std::fmt;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use weir_conformance::frontend;

/// Steps of some clients that share a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) pool: u32,
    pub(crate) workers: u32,
    /// Start-up parameters of each client, including its user.
    pub(crate) clients: Vec<Vec<(String, String)>>,
    pub(crate) steps: Vec<Step>,
}

/// Client that acts; `None` is the administrator.
pub(crate) type Who = Option<usize>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) who: Who,
    pub(crate) act: Act,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Ask(Part),
    Batch(Vec<Item>),
    Cancel(Vec<String>),
    Copy {
        sql: String,
        data: Data,
    },
    Leave,
    Query(Vec<String>),
    /// Cancel request while no query of the client runs.
    Stray,
    Vanish,
}

/// Part of a session that can be queried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Channels,
    Cursors,
    Locks,
    /// Statements of the protocol, queried with Describe.
    Names,
    Settings,
    /// Statements of SQL's PREPARE.
    Statements,
    Temporary,
}

impl Part {
    pub(crate) const ALL: [Self; 7] = [
        Self::Settings,
        Self::Names,
        Self::Temporary,
        Self::Locks,
        Self::Channels,
        Self::Cursors,
        Self::Statements,
    ];

    fn word(self) -> &'static str {
        match self {
            Self::Channels => "channels",
            Self::Cursors => "cursors",
            Self::Locks => "locks",
            Self::Names => "names",
            Self::Settings => "settings",
            Self::Statements => "statements",
            Self::Temporary => "temporary",
        }
    }
}

/// Content of a COPY FROM STDIN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Data {
    pub(crate) rows: Vec<String>,
    /// True if it ends with CopyFail.
    pub(crate) fails: bool,
}

/// Message of the extended protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Bind {
        portal: String,
        statement: String,
        values: Vec<Option<String>>,
    },
    Close(u8, String),
    Describe(u8, String),
    Execute(String, i32),
    Flush,
    Parse {
        name: String,
        types: Vec<String>,
        sql: String,
    },
    /// Simple query in a pipeline.
    Query(String),
    Sync,
}

impl Item {
    /// Bytes of the message.
    pub(crate) fn encoded(&self) -> Vec<u8> {
        match self {
            Self::Bind {
                portal,
                statement,
                values,
            } => {
                let values: Vec<_> = values
                    .iter()
                    .map(|value| value.as_deref().map(str::as_bytes))
                    .collect();
                frontend::bind(portal, statement, &values)
            }
            Self::Close(kind, name) => frontend::close(*kind, name),
            Self::Describe(kind, name) => frontend::describe(*kind, name),
            Self::Execute(portal, rows) => frontend::execute(portal, *rows),
            Self::Flush => frontend::flush(),
            Self::Parse { name, types, sql } => {
                let types: Vec<i32> = types.iter().map(|name| type_oid(name)).collect();
                frontend::parse(name, &expanded(sql), &types)
            }
            Self::Query(sql) => frontend::query(&expanded(sql)),
            Self::Sync => frontend::sync(),
        }
    }
}

/// Expands `{y*1000}`, which keeps long texts readable.
pub(crate) fn expanded(sql: &str) -> String {
    let Some((head, rest)) = sql.split_once("{y*") else {
        return sql.to_owned();
    };
    let (count, tail) = rest.split_once('}').unwrap_or((rest, ""));
    let filler = "y".repeat(count.parse().unwrap_or(0));
    format!("{head}{filler}{}", expanded(tail))
}

/// Oids of parameter types that programs declare; any other name is left to the server.
fn type_oid(name: &str) -> i32 {
    match name {
        "int4" => 23,
        "int8" => 20,
        "text" => 25,
        "float4" => 700,
        "date" => 1082,
        "timestamp" => 1114,
        "numeric" => 1700,
        _ => 0,
    }
}

// === Text form ===

/// Name of a client: an upper-case character.
pub(crate) fn letter(client: usize) -> char {
    char::from(b'A' + u8::try_from(client % 26).unwrap_or(0))
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "pool {} workers {}", self.pool, self.workers)?;
        for (client, start) in self.clients.iter().enumerate() {
            let pairs: Vec<String> = start
                .iter()
                .map(|(key, value)| format!("{key}={value}"))
                .collect();
            writeln!(f, "client {} {}", letter(client), pairs.join("; "))?;
        }
        for step in &self.steps {
            writeln!(f, "{step}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.who {
            Some(client) => write!(f, "{}", letter(client))?,
            None => f.write_str("admin")?,
        }
        match &self.act {
            Act::Ask(part) => write!(f, " asks {}", part.word()),
            Act::Batch(items) => {
                let items: Vec<String> = items.iter().map(Item::to_string).collect();
                write!(f, "> {}", items.join(" | "))
            }
            Act::Cancel(texts) => write!(f, " cancels: {}", texts.join(" ;; ")),
            Act::Copy { sql, data } => write!(f, " copies {data}: {sql}"),
            Act::Leave => f.write_str(" leaves"),
            Act::Query(texts) => write!(f, ": {}", texts.join(" ;; ")),
            Act::Stray => f.write_str(" cancels nothing"),
            Act::Vanish => f.write_str(" vanishes"),
        }
    }
}

impl fmt::Display for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.rows.join("/");
        let rows = if rows.is_empty() { "-" } else { &rows };
        write!(f, "{rows}{}", if self.fails { "!" } else { "" })
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind {
                portal,
                statement,
                values,
            } => {
                let values: Vec<&str> = values
                    .iter()
                    .map(|value| value.as_deref().unwrap_or("NULL"))
                    .collect();
                write!(f, "bind {} {}", object(portal), object(statement))?;
                match values.is_empty() {
                    true => Ok(()),
                    false => write!(f, ": {}", values.join(",")),
                }
            }
            Self::Close(kind, name) => write!(f, "close {} {}", char::from(*kind), object(name)),
            Self::Describe(kind, name) => {
                write!(f, "describe {} {}", char::from(*kind), object(name))
            }
            Self::Execute(portal, rows) => write!(f, "execute {} {rows}", object(portal)),
            Self::Flush => f.write_str("flush"),
            Self::Parse { name, types, sql } => {
                write!(f, "parse {}", object(name))?;
                for name in types {
                    write!(f, " {name}")?;
                }
                write!(f, ": {sql}")
            }
            Self::Query(sql) => write!(f, "query: {sql}"),
            Self::Sync => f.write_str("sync"),
        }
    }
}

/// Text form of a name; `-` stands for the unnamed statement or portal.
fn object(name: &str) -> &str {
    if name.is_empty() { "-" } else { name }
}

impl Program {
    /// Reads the text form.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut program = Self {
            pool: 1,
            workers: 1,
            clients: Vec::new(),
            steps: Vec::new(),
        };
        let lines = text.lines().map(str::trim);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            program.line(line).with_context(|| line.to_owned())?;
        }
        Ok(program)
    }

    fn line(&mut self, line: &str) -> Result<()> {
        if let Some(rest) = line.strip_prefix("pool ") {
            let (pool, workers) = rest.split_once(" workers ").context("no workers")?;
            (self.pool, self.workers) = (pool.parse()?, workers.parse()?);
        } else if let Some(rest) = line.strip_prefix("client ") {
            let (_, pairs) = rest.split_once(' ').context("no parameters")?;
            let pairs = pairs.split("; ").map(|pair| {
                let (key, value) = pair.split_once('=').context("no value")?;
                Ok((key.to_owned(), value.to_owned()))
            });
            self.clients.push(pairs.collect::<Result<_>>()?);
        } else {
            self.steps.push(step(line)?);
        }
        Ok(())
    }
}

fn step(line: &str) -> Result<Step> {
    if let Some(sql) = line.strip_prefix("admin: ") {
        return Ok(Step {
            who: None,
            act: Act::Query(texts(sql)),
        });
    }
    let (who, rest) = line.split_at_checked(1).context("no client")?;
    let who = who.bytes().next().and_then(|byte| byte.checked_sub(b'A'));
    let who = Some(usize::from(who.context("no client")?));
    let act = if let Some(sql) = rest.strip_prefix(": ") {
        Act::Query(texts(sql))
    } else if let Some(sql) = rest.strip_prefix(" cancels: ") {
        Act::Cancel(texts(sql))
    } else if let Some(items) = rest.strip_prefix("> ") {
        Act::Batch(items.split(" | ").map(item).collect::<Result<_>>()?)
    } else if let Some(rest) = rest.strip_prefix(" copies ") {
        let (data, sql) = rest.split_once(": ").context("no data")?;
        Act::Copy {
            sql: sql.to_owned(),
            data: self::data(data),
        }
    } else if let Some(word) = rest.strip_prefix(" asks ") {
        let part = Part::ALL.into_iter().find(|part| part.word() == word);
        Act::Ask(part.context("no such part")?)
    } else {
        match rest {
            " leaves" => Act::Leave,
            " cancels nothing" => Act::Stray,
            " vanishes" => Act::Vanish,
            _ => bail!("no such step"),
        }
    };
    Ok(Step { who, act })
}

fn texts(sql: &str) -> Vec<String> {
    sql.split(" ;; ").map(str::to_owned).collect()
}

fn data(text: &str) -> Data {
    let fails = text.ends_with('!');
    let rows = text.trim_end_matches('!');
    let rows = rows.split('/').filter(|row| *row != "-");
    Data {
        rows: rows.map(str::to_owned).collect(),
        fails,
    }
}

fn item(text: &str) -> Result<Item> {
    let (head, rest) = match text.split_once(": ") {
        Some((head, rest)) => (head, Some(rest.to_owned())),
        None => (text, None),
    };
    let words: Vec<&str> = head.split_whitespace().collect();
    let kind = |word: &str| word.bytes().next().context("no kind");
    Ok(match *words {
        ["parse", name, ref types @ ..] => Item::Parse {
            name: named(name),
            types: types.iter().map(|&name| name.to_owned()).collect(),
            sql: rest.unwrap_or_default(),
        },
        ["bind", portal, statement] => Item::Bind {
            portal: named(portal),
            statement: named(statement),
            values: rest.map(|rest| values(&rest)).unwrap_or_default(),
        },
        ["close", word, name] => Item::Close(kind(word)?, named(name)),
        ["describe", word, name] => Item::Describe(kind(word)?, named(name)),
        ["execute", portal, rows] => Item::Execute(named(portal), rows.parse()?),
        ["flush"] => Item::Flush,
        ["query"] => Item::Query(rest.unwrap_or_default()),
        ["sync"] => Item::Sync,
        _ => bail!("no such message: {text}"),
    })
}

fn named(word: &str) -> String {
    if word == "-" { "" } else { word }.to_owned()
}

fn values(text: &str) -> Vec<Option<String>> {
    let values = text.split(',');
    values
        .map(|value| (value != "NULL").then(|| value.to_owned()))
        .collect()
}
