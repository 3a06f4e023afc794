//! A client that records its reported settings, its notifications and its prepared names.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Raw;
use weir_conformance::answer;
use weir_conformance::answer::Answer;
use weir_conformance::answer::Parameters;
use weir_conformance::frontend;
use weir_conformance::raw::Message;

use crate::script::Action;

/// Time limit for any byte; longer than `query_wait_timeout` of the suite's pools.
const PATIENCE: Duration = Duration::from_secs(20);

/// Protocol for a script's plain statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Prepared once under a name in a separate batch, then executed.
    Named,
    Simple,
    /// Parse, Bind, Describe, Execute, Sync each time.
    Unnamed,
}

impl Protocol {
    pub(crate) const ALL: [Self; 3] = [Self::Simple, Self::Unnamed, Self::Named];
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Session {
    raw: Raw,
    /// Parameters as last reported.
    pub(crate) parameters: Parameters,
    /// Notifications: the sender's process id and text.
    heard: VecDeque<(i32, String)>,
    /// Texts prepared by this helper; the index is the name.
    named: Vec<String>,
    pending: Vec<u8>,
    /// Status of the last `ReadyForQuery`; `b'?'` while an answer is outstanding or after the end.
    status: u8,
}

impl Session {
    /// Logs in as `postgres` unless the parameters say otherwise.
    pub(crate) fn connect(port: u16, database: &str, more: &[(String, String)]) -> Result<Self> {
        Self::connect_for(port, database, more, PATIENCE)
    }

    /// Connects like [`Session::connect`]; every answer may take as long as `patience`.
    pub(crate) fn connect_for(
        port: u16,
        database: &str,
        more: &[(String, String)],
        patience: Duration,
    ) -> Result<Self> {
        let mut parameters = vec![("database", database)];
        if !more.iter().any(|(key, _)| key == "user") {
            parameters.push(("user", "postgres"));
        }
        parameters.extend(
            more.iter()
                .map(|(key, value)| (key.as_str(), value.as_str())),
        );
        let mut session = Self {
            raw: Raw::tcp(port, patience)?,
            parameters: Parameters::new(),
            heard: VecDeque::new(),
            named: Vec::new(),
            pending: Vec::new(),
            status: b'?',
        };
        session
            .raw
            .send(&frontend::startup(frontend::VERSION_3_0, &parameters))?;
        let lines = session.read()?;
        ensure!(session.status == b'I', "login refused: {lines:?}");
        Ok(session)
    }

    /// Port of the client's end.
    pub(crate) fn port(&self) -> Result<u16> {
        Ok(self.raw.stream().local_addr()?.port())
    }

    /// True if no transaction is open and no answer is outstanding.
    pub(crate) fn is_idle(&self) -> bool {
        self.status == b'I'
    }

    /// Status byte of the last `ReadyForQuery`.
    pub(crate) fn status(&self) -> u8 {
        self.status
    }

    /// Runs one step; a lost connection counts as an answer.
    pub(crate) fn act(&mut self, action: &Action, protocol: Protocol) -> Answer {
        let lines = self.try_act(action, protocol).unwrap_or_else(|error| {
            self.status = b'?';
            vec![format!("lost: {error:#}")]
        });
        Answer {
            lines,
            parameters: self.parameters.clone(),
        }
    }

    /// Ends the session with Terminate.
    pub(crate) fn leave(self) {
        self.raw.terminate();
    }

    /// The connection itself.
    pub(crate) fn into_raw(self) -> Raw {
        self.raw
    }

    /// Sends Terminate without closing the socket yet.
    pub(crate) fn say_good_bye(&mut self) {
        // A connection that is already closed has ended, too.
        drop(self.raw.send(&frontend::terminate()));
    }

    /// Ends the connection with a RST.
    pub(crate) fn vanish(self) -> Result<()> {
        Ok(self.raw.reset()?)
    }

    /// Rows of a simple query, one line each.
    pub(crate) fn rows(&mut self, sql: &str) -> Result<Vec<String>> {
        let lines = self.simple(sql)?;
        ensure!(
            !lines.iter().any(|line| line.starts_with("E ")),
            "{sql}: {lines:?}"
        );
        let rows = lines.iter().filter_map(|line| line.strip_prefix("D "));
        Ok(rows.map(str::to_owned).collect())
    }

    /// Runs a statement in a protocol; returns the lines of its answer.
    pub(crate) fn run(&mut self, sql: &str, protocol: Protocol) -> Result<Vec<String>> {
        let lines = match protocol {
            Protocol::Named => self.named(sql)?,
            Protocol::Simple => self.simple(sql)?,
            Protocol::Unnamed => {
                let parse = frontend::parse("", sql, &[]);
                self.batch(&[parse, execution("")].concat())?
            }
        };
        let gone = ["C DEALLOCATE ALL", "C DISCARD ALL"];
        if lines.iter().any(|line| gone.contains(&line.as_str())) {
            self.named.clear();
        }
        Ok(lines)
    }

    /// Runs a text in the simple protocol.
    pub(crate) fn simple(&mut self, sql: &str) -> Result<Vec<String>> {
        self.raw.send(&frontend::query(sql))?;
        self.read()
    }

    /// Sends messages and a Sync; reads the answer.
    pub(crate) fn batch(&mut self, messages: &[u8]) -> Result<Vec<String>> {
        self.raw.send(&[messages, &frontend::sync()].concat())?;
        self.read()
    }

    /// Sends a simple query without reading the answer.
    pub(crate) fn send(&mut self, sql: &str) -> Result<()> {
        Ok(self.raw.send(&frontend::query(sql))?)
    }

    /// Waits for one notification.
    pub(crate) fn hear(&mut self) -> Result<String> {
        while self.heard.is_empty() {
            let message = self.raw.read_message().context("no notification")?;
            let line = self.take(&message)?;
            ensure!(line.is_none(), "{line:?} instead of a notification");
        }
        let (_, text) = self.heard.pop_front().context("no notification")?;
        Ok(text)
    }

    /// Notifications that arrived with answers.
    pub(crate) fn heard(&mut self) -> Vec<String> {
        self.heard.drain(..).map(|(_, text)| text).collect()
    }

    fn try_act(&mut self, action: &Action, protocol: Protocol) -> Result<Vec<String>> {
        match action {
            Action::Run { sql, .. } => return self.run(sql, protocol),
            Action::Simple(sql) => return self.simple(sql),
            Action::Receive => return self.read(),
            Action::Send(sql) => {
                self.raw.send(&frontend::query(sql))?;
                self.status = b'?';
            }
            Action::Sync => {
                let pending = std::mem::take(&mut self.pending);
                return self.batch(&pending);
            }
            Action::Flush => {
                self.pending.extend(frontend::flush());
                let pending = std::mem::take(&mut self.pending);
                self.raw.send(&pending)?;
            }
            Action::Hears => return Ok(vec![self.hear()?]),
            Action::Heard => return Ok(self.heard()),
            Action::HeardWhose => {
                let own = self.raw.key.0;
                let heard = self.heard.drain(..);
                return Ok(heard
                    .map(|(pid, text)| format!("{text} own={}", pid == own))
                    .collect());
            }
            Action::Connect(_) | Action::Leave | Action::Pinned(_) | Action::Vanish => {}
            message => self.pending.extend(encoded(message)),
        }
        Ok(Vec::new())
    }

    fn named(&mut self, sql: &str) -> Result<Vec<String>> {
        let known = self.named.iter().position(|text| text == sql);
        let name = format!("s{}", known.unwrap_or(self.named.len()));
        let mut lines = Vec::new();
        if known.is_none() {
            let parse = frontend::parse(&name, sql, &[]);
            let describe = frontend::describe(b'S', &name);
            lines = self.batch(&[parse, describe].concat())?;
            if lines.iter().any(|line| line.starts_with("E ")) {
                return Ok(lines);
            }
            self.named.push(sql.to_owned());
        }
        lines.extend(self.batch(&execution(&name))?);
        Ok(lines)
    }

    /// Reads to `ReadyForQuery`, or to the end after a FATAL error.
    fn read(&mut self) -> Result<Vec<String>> {
        self.status = b'?';
        let mut lines = Vec::new();
        for message in self.raw.read_until_ready()? {
            lines.extend(self.take(&message)?);
            if message.tag == b'Z' {
                self.status = *message.body.first().context("no status")?;
            }
        }
        Ok(lines)
    }

    /// Keeps messages that may arrive at any time; returns a line for all others.
    fn take(&mut self, message: &Message) -> Result<Option<String>> {
        match message.tag {
            b'S' => {
                let (name, value) = answer::parameter(&message.body)?;
                self.parameters.insert(name, value);
            }
            b'A' => {
                let (pid, text) = message.body.split_first_chunk().context("short message")?;
                let text = format!("A {}", text.escape_ascii());
                self.heard.push_back((i32::from_be_bytes(*pid), text));
            }
            b'K' => {
                let (pid, _) = message.body.split_first_chunk().context("short key")?;
                self.raw.key.0 = i32::from_be_bytes(*pid);
            }
            _ => return answer::line(message).map(Some),
        }
        Ok(None)
    }
}

/// Bind, Describe and Execute of a statement through the unnamed portal.
fn execution(statement: &str) -> Vec<u8> {
    let bind = frontend::bind("", statement, &[]);
    let describe = frontend::describe(b'P', "");
    [bind, describe, frontend::execute("", 0)].concat()
}

fn encoded(action: &Action) -> Vec<u8> {
    match action {
        Action::Parse { name, types, sql } => frontend::parse(name, sql, types),
        Action::Bind {
            portal,
            statement,
            parameters,
        } => {
            let parameters: Vec<_> = parameters
                .iter()
                .map(|text| Some(text.as_bytes()))
                .collect();
            frontend::bind(portal, statement, &parameters)
        }
        Action::Describe(kind, name) => frontend::describe(*kind, name),
        Action::Execute(portal, rows) => frontend::execute(portal, *rows),
        Action::Close(kind, name) => frontend::close(*kind, name),
        _ => Vec::new(),
    }
}
