//! Bench of the probes: a pooler, connections to it, and its answers as text without what differs by chance.

use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use weir_conformance::Config;
use weir_conformance::Raw;
use weir_conformance::TempDir;
use weir_conformance::Weir;
use weir_conformance::frontend;
use weir_conformance::raw::Message;

use super::Run;

/// Time limit of an answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// A pooler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    PgBouncer,
    Weir,
}

/// Answer to a probe.
pub(super) enum Seen {
    /// The probe could not ask.
    Failed(String),
    Table(Table),
    Text(String),
}

/// A table. Weir's may have more columns.
pub(super) struct Table {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Seen {
    /// True if Weir's answer is this one of PgBouncer. Weir's own columns, which come last, do not count.
    pub(super) fn is_matched_by(&self, ours: &Self) -> bool {
        let (theirs, ours) = match (self, ours) {
            (Self::Text(theirs), Self::Text(ours)) => return theirs == ours,
            (Self::Table(theirs), Self::Table(ours)) => (theirs, ours),
            _ => return false,
        };
        let width = theirs.columns.len();
        let same = |a: &Vec<String>, b: &Vec<String>| b.get(..width) == Some(a);
        let mut pairs = theirs.rows.iter().zip(&ours.rows);
        same(&theirs.columns, &ours.columns)
            && theirs.rows.len() == ours.rows.len()
            && pairs.all(|(a, b)| same(a, b))
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = match self {
            Self::Failed(text) => return write!(f, "failed: {text}"),
            Self::Text(text) => return f.write_str(text),
            Self::Table(table) => table,
        };
        writeln!(f, "{}", table.columns.join(" "))?;
        let mut rows = table.rows.iter();
        rows.try_for_each(|row| writeln!(f, "{}", row.join("|")))
    }
}

/// A running pooler for most probes, and what others need.
pub(super) struct Bench {
    pub(super) kind: Kind,
    pub(super) postgres_port: u16,
    pub(super) pooler: Weir,
    /// Directory of unix sockets.
    pub(super) sockets: TempDir,
}

/// Directory in which a pooler of another system user may write.
pub(super) fn open_directory() -> Result<TempDir> {
    let directory = TempDir::new()?;
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777))?;
    Ok(directory)
}

/// Configuration of most probes.
pub(super) fn plain(postgres_port: u16) -> Config {
    let to = format!("host=127.0.0.1 port={postgres_port} dbname=drop_probes");
    Config::new()
        .database(&format!("shop = {to}"))
        .database(&format!(
            "forced = {to} user=postgres pool_size=3 reserve_pool=1 pool_mode=session"
        ))
        .database(&format!(
            "two = host=127.0.0.1,127.0.0.1 port={postgres_port} dbname=drop_probes"
        ))
        .set("stats_users", "drop_stats")
        .set("pgbouncer_compat", "1.18")
        .userlist("\"postgres\" \"\"\n\"drop_stats\" \"\"\n\"drop_other\" \"\"\n")
}

impl Bench {
    pub(super) fn new(kind: Kind, postgres_port: u16) -> Result<Self> {
        let sockets = open_directory()?;
        let directory = sockets.path().to_string_lossy().into_owned();
        let config = plain(postgres_port).set("unix_socket_dir", &directory);
        Ok(Self {
            kind,
            postgres_port,
            pooler: start(kind, &config)?,
            sockets,
        })
    }

    /// Configuration that a probe changes for a pooler of its own.
    pub(super) fn config(&self) -> Config {
        self.fit(plain(self.postgres_port))
    }

    /// Configuration without options that this pooler does not know.
    pub(super) fn fit(&self, config: Config) -> Config {
        match self.kind {
            Kind::PgBouncer => config.without_own_options(),
            Kind::Weir => config,
        }
    }

    pub(super) fn start(&self, config: &Config) -> Result<Weir> {
        start(self.kind, config)
    }

    /// Answer to a probe.
    pub(super) fn ask(&self, run: &Run) -> Seen {
        let seen = match run {
            Run::Columns(sql) => self.table(sql).map(|table| {
                let rows = Vec::new();
                Seen::Table(Table { rows, ..table })
            }),
            Run::Console(queries) => console(&self.pooler, queries).map(|text| self.text(&text)),
            Run::Does(probe) => probe(self),
            Run::Table(sql) => self.table(sql).map(Seen::Table),
        };
        seen.unwrap_or_else(|error| Seen::Failed(format!("{error:#}")))
    }

    /// Text without ports and directories.
    pub(super) fn text(&self, text: &str) -> Seen {
        Seen::Text(self.tidy(text, &self.pooler))
    }

    /// Text of a probe with a pooler of its own.
    pub(super) fn text_of(&self, text: &str, pooler: &Weir) -> Seen {
        Seen::Text(self.tidy(text, pooler))
    }

    pub(super) fn tidy(&self, text: &str, pooler: &Weir) -> String {
        text.replace(&pooler.port().to_string(), "PORT")
            .replace(&self.postgres_port.to_string(), "PG")
            .replace(&*pooler.directory().to_string_lossy(), "DIR")
            .replace(&*self.sockets.path().to_string_lossy(), "SOCKETS")
    }

    fn table(&self, sql: &str) -> Result<Table> {
        let mut console = self.pooler.connect("pgbouncer")?;
        until("the end of earlier clients", || {
            Ok(console.query("SHOW CLIENTS")?.len() == 1)
        })?;
        let messages = console.ask(&frontend::query(sql))?;
        self.table_of(&messages, &self.pooler)
    }

    /// Table of an answer.
    pub(super) fn table_of(&self, messages: &[Message], pooler: &Weir) -> Result<Table> {
        let head = messages.iter().find(|message| message.tag == b'T');
        let head = head.with_context(|| told(messages))?;
        let names = head.column_names()?;
        let mut rows = Vec::new();
        for message in messages.iter().filter(|message| message.tag == b'D') {
            let values = message.row()?;
            let values = names.iter().zip(values).map(|(name, value)| {
                let value = value.map(|value| self.tidy(&value, pooler));
                let value = value.map(|value| mask(name, value));
                value.unwrap_or_else(|| "NULL".to_owned())
            });
            rows.push(values.collect());
        }
        Ok(Table {
            columns: columns(head)?,
            rows,
        })
    }
}

fn start(kind: Kind, config: &Config) -> Result<Weir> {
    match kind {
        Kind::PgBouncer => Weir::start_pgbouncer(config),
        Kind::Weir => Weir::start(config),
    }
}

/// Hides values that differ by chance; empty ones stay.
fn mask(name: &str, value: String) -> String {
    let is_chance = name.starts_with("avg_")
        || name.ends_with("_time")
        || matches!(
            name,
            "local_port"
                | "ptr"
                | "link"
                | "remote_pid"
                | "wait"
                | "wait_us"
                | "maxwait_us"
                | "recv_pos"
                | "pkt_avail"
                | "size"
                | "free"
                | "memtotal"
        )
        || (name == "port" && value.parse::<u16>().is_ok());
    match is_chance && !value.is_empty() {
        true => "*".to_owned(),
        false => value,
    }
}

/// Names of the columns of a result with the oids and lengths of their types.
fn columns(head: &Message) -> Result<Vec<String>> {
    let mut rest = head.body.get(2..).context("description without a count")?;
    let mut columns = Vec::new();
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| *byte == 0).context("no name")?;
        let (name, tail) = rest.split_at(end);
        let (facts, tail) = tail.split_at_checked(19).context("cut short")?;
        let number = |at: usize| facts.get(at..at + 4).and_then(|it| it.try_into().ok());
        let oid = i32::from_be_bytes(number(7).context("no type")?);
        let length = facts.get(11..13).and_then(|it| it.try_into().ok());
        let length = i16::from_be_bytes(length.context("no length")?);
        columns.push(format!("{}:{oid}:{length}", String::from_utf8_lossy(name)));
        rest = tail;
    }
    Ok(columns)
}

/// Messages as text, one per line. An error has no field V, which PgBouncer never sends.
pub(super) fn told(messages: &[Message]) -> String {
    let line = |message: &Message| match message.tag {
        b'T' => format!("T {}", columns(message).unwrap_or_default().join(" ")),
        b'D' => {
            let values = message.row().unwrap_or_default().into_iter();
            let values = values.map(|value| value.unwrap_or_else(|| "NULL".to_owned()));
            format!("D {}", values.collect::<Vec<_>>().join("|"))
        }
        tag @ (b'E' | b'N') => {
            let field = |code: u8| {
                message
                    .field(code)
                    .map(|text| format!("{}={text}", char::from(code)))
            };
            let fields: Vec<_> = b"SCMDH".iter().copied().filter_map(field).collect();
            format!("{} {}", char::from(tag), fields.join(" "))
        }
        b'K' => format!("K of {} bytes", message.body.len()),
        b'R' => format!("R {:?}", message.body.get(..4).unwrap_or_default()),
        tag => {
            let text = String::from_utf8_lossy(&message.body).replace('\0', " ");
            format!("{} {}", char::from(tag), text.trim_end())
        }
    };
    let lines: Vec<_> = messages.iter().map(line).collect();
    lines.join("\n")
}

/// Answers of the console to queries of an administrator.
pub(super) fn console(pooler: &Weir, queries: &[&str]) -> Result<String> {
    transcript(&mut pooler.connect("pgbouncer")?, queries)
}

/// Answers to queries on a connection.
pub(super) fn transcript(raw: &mut Raw, queries: &[&str]) -> Result<String> {
    let mut text = String::new();
    for query in queries {
        let messages = raw.ask(&frontend::query(query))?;
        text += &format!("> {query}\n{}\n", told(&messages));
    }
    Ok(text)
}

/// All messages that come until the connection ends, or until nothing comes any more.
pub(super) fn rest(raw: &mut Raw) -> String {
    let mut messages = Vec::new();
    let end = loop {
        match raw.read_message() {
            Ok(message) => messages.push(message),
            Err(error) => match error.kind() {
                std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => break "(open)",
                _ => break "(closed)",
            },
        }
    };
    format!("{}\n{end}", told(&messages))
}

/// Answer to bytes on a new connection, with what follows until it ends or is silent for a while.
pub(super) fn answer_to(pooler: &Weir, bytes: &[u8]) -> Result<String> {
    let mut raw = Raw::tcp(pooler.port(), Duration::from_millis(700))?;
    raw.send(bytes)?;
    Ok(rest(&mut raw))
}

/// Answer to a start-up packet with these parameters.
pub(super) fn login(pooler: &Weir, parameters: &[(&str, &str)]) -> Result<String> {
    let mut raw = Raw::tcp(pooler.port(), PATIENCE)?;
    raw.send(&frontend::startup(frontend::VERSION_3_0, parameters))?;
    match raw.read_until_ready() {
        Ok(messages) => Ok(told(&messages)),
        Err(error) => Ok(format!("{error:#}")),
    }
}

/// Waits until a probe says so.
pub(super) fn until(what: &str, done: impl FnMut() -> Result<bool>) -> Result<()> {
    weir_conformance::wait_until(what, PATIENCE, done)
}

impl Table {
    /// The table as text, without the columns behind this number.
    pub(super) fn cut(mut self, width: usize) -> String {
        self.columns.truncate(width);
        self.rows.iter_mut().for_each(|row| row.truncate(width));
        Seen::Table(self).to_string()
    }
}
