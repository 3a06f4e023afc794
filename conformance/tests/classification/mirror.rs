//! A session beside a client's own: on the standby, or a second one on the primary, with the client's settings.

use std::cmp::Reverse;

use anyhow::{Context, Result};
use weir_conformance::raw::Message;
use weir_conformance::{Raw, answer, frontend};

/// Answer of a session to a text, in a form that two hosts can be compared by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Rows, their description and command tags. Rows are sorted: SQL promises no order.
    lines: Vec<String>,
    /// First error.
    pub(crate) error: Option<Failure>,
}

/// An error of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: String,
    pub(crate) text: String,
    /// Functions that were running.
    pub(crate) context: String,
}

impl Outcome {
    /// True if the standby has cancelled the read because of what it replays.
    pub(crate) fn is_conflict(&self) -> bool {
        let error = self.error.as_ref();
        error.is_some_and(|error| {
            error.code == "40001" && error.text.contains("conflict with recovery")
        })
    }

    /// # Errors
    /// When a message is not well formed.
    pub(crate) fn of(messages: &[Message]) -> Result<Self> {
        let mut lines = Vec::new();
        for message in messages {
            if matches!(message.tag, b'T' | b'D' | b'C' | b'd') {
                lines.push(answer::line(message)?);
            }
        }
        lines.sort_unstable_by(|a, b| Reverse(a).cmp(&Reverse(b)));
        let error = messages.iter().find(|message| message.tag == b'E');
        let field = |message: &Message, code| message.field(code).unwrap_or_default();
        let error = error.map(|message| Failure {
            code: field(message, b'C'),
            text: field(message, b'M'),
            context: field(message, b'W'),
        });
        Ok(Self { lines, error })
    }

    pub(crate) fn succeeded(&self) -> bool {
        self.error.is_none()
    }

    /// True for an answer that a hot standby gives because it is one.
    pub(crate) fn is_refusal(&self) -> bool {
        let Some(error) = &self.error else {
            return false;
        };
        let names_recovery = ["recovery", "hot standby"]
            .iter()
            .any(|word| error.text.contains(word));
        error.code == "25006" || names_recovery
    }

    /// Describes how two answers differ.
    pub(crate) fn difference(&self, other: &Self) -> String {
        let side = |outcome: &Self, other: &Self| match &outcome.error {
            Some(error) => format!("{} {}", error.code, error.text),
            None => {
                let own = outcome
                    .lines
                    .iter()
                    .filter(|line| !other.lines.contains(line));
                own.take(2).cloned().collect::<Vec<_>>().join(" / ")
            }
        };
        format!(
            "primary: {}; standby: {}",
            side(self, other),
            side(other, self)
        )
    }
}

/// A session with the settings of another.
pub(crate) struct Mirror {
    port: u16,
    /// Start-up packet of the client.
    startup: Vec<u8>,
    raw: Option<Raw>,
}

impl Mirror {
    pub(crate) fn new(port: u16, startup: &[u8]) -> Self {
        Self {
            port,
            startup: startup.to_owned(),
            raw: None,
        }
    }

    /// Runs a text outside of a transaction block.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub(crate) fn run(&mut self, text: &str) -> Result<Outcome> {
        let mut messages = Vec::new();
        let asked = self.ask(text, &mut messages);
        if asked.is_err() || !ends_idle(&messages) {
            // The session has ended, or the text has left a transaction open.
            self.raw = None;
        }
        asked?;
        Outcome::of(&messages)
    }

    /// Runs a text in a transaction that is rolled back.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub(crate) fn try_out(&mut self, text: &str) -> Result<Outcome> {
        let mut messages = Vec::new();
        self.ask("BEGIN", &mut Vec::new())?;
        let asked = self.ask(text, &mut messages);
        if asked.is_err() || self.ask("ROLLBACK", &mut Vec::new()).is_err() {
            self.raw = None;
        }
        asked?;
        Outcome::of(&messages)
    }

    fn ask(&mut self, text: &str, messages: &mut Vec<Message>) -> Result<()> {
        if self.raw.is_none() {
            let mut raw = Raw::tcp(self.port, weir_conformance::cluster::LIMIT)?;
            raw.send(&self.startup)?;
            raw.welcomed()?;
            self.raw = Some(raw);
        }
        let raw = self.raw.as_mut().context("it has just been connected")?;
        raw.send(&frontend::query(text))?;
        loop {
            let message = raw.read_message()?;
            match message.tag {
                b'G' => raw.send(&frontend::copy_fail("no data"))?,
                b'Z' => {
                    messages.push(message);
                    return Ok(());
                }
                _ => messages.push(message),
            }
        }
    }

    /// True if the session exists, so that settings given to the client before are its own.
    pub(crate) fn is_open(&self) -> bool {
        self.raw.is_some()
    }
}

/// True if the answer ended outside of a transaction block.
fn ends_idle(messages: &[Message]) -> bool {
    messages
        .last()
        .is_some_and(|last| last.tag == b'Z' && last.body == b"I")
}
