//! Client of either side, which acts in steps and keeps what it received.

use std::io::ErrorKind;
use std::io::Read;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Raw;
use weir_conformance::answer;
use weir_conformance::answer::Parameters;
use weir_conformance::frontend;
use weir_conformance::raw::Message;

use crate::program;
use crate::program::Data;
use crate::program::Item;

/// Time limit for any byte; longer than `query_wait_timeout` of the suite's pools.
const PATIENCE: Duration = Duration::from_secs(30);

/// Maximum length of a line that is shown and compared unchanged.
const LINE_MAX: usize = 2_000;

/// Connection of a client, direct or through Weir.
#[derive(Debug)]
pub(crate) struct Client {
    raw: Raw,
    /// Parameters as last reported.
    pub(crate) parameters: Parameters,
    /// Notifications that were not collected yet.
    heard: Vec<String>,
    /// Status of the last `ReadyForQuery`.
    status: u8,
    /// True if messages were sent after the last Sync.
    is_open: bool,
    /// True after an error until the Sync that ends its batch is sent.
    is_skipping: bool,
}

impl Client {
    /// Logs in.
    pub(crate) fn connect(port: u16, database: &str, start: &[(String, String)]) -> Result<Self> {
        let pairs = start.iter();
        let mut parameters: Vec<_> = pairs
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        parameters.push(("database", database));
        let mut client = Self {
            raw: Raw::tcp(port, PATIENCE)?,
            parameters: Parameters::new(),
            heard: Vec::new(),
            status: b'?',
            is_open: false,
            is_skipping: false,
        };
        let packet = frontend::startup(frontend::VERSION_3_0, &parameters);
        client.raw.send(&packet)?;
        let lines = client.read(1)?;
        ensure!(client.status == b'I', "login refused: {lines:?}");
        Ok(client)
    }

    /// True outside of transactions and batches.
    pub(crate) fn is_idle(&self) -> bool {
        self.status == b'I' && !self.is_open
    }

    /// True if a query can return rows now.
    pub(crate) fn can_ask(&self) -> bool {
        matches!(self.status, b'I' | b'T') && !self.is_open
    }

    /// True if a batch was begun and not ended by a Sync.
    pub(crate) fn is_in_batch(&self) -> bool {
        self.is_open
    }

    /// Port of the client's end.
    pub(crate) fn port(&self) -> Result<u16> {
        Ok(self.raw.stream().local_addr()?.port())
    }

    /// Runs a text in the simple protocol.
    pub(crate) fn simple(&mut self, sql: &str) -> Result<Vec<String>> {
        self.begin(sql)?;
        self.end()
    }

    /// Sends a simple query without reading the answer. An open batch is ended with a Sync first.
    pub(crate) fn begin(&mut self, sql: &str) -> Result<()> {
        if self.is_open {
            self.batch(&[Item::Sync])?;
        }
        self.status = b'?';
        Ok(self.raw.send(&frontend::query(&program::expanded(sql)))?)
    }

    /// Reads the answer to the query of [`Client::begin`].
    pub(crate) fn end(&mut self) -> Result<Vec<String>> {
        self.read(1)
    }

    /// True if a byte of an answer has arrived. Notices may arrive before the end of a query.
    pub(crate) fn has_news(&self) -> Result<bool> {
        let stream = self.raw.stream();
        stream.set_nonblocking(true)?;
        let peeked = stream.peek(&mut [0]);
        stream.set_nonblocking(false)?;
        Ok(peeked.is_ok())
    }

    /// Sends a cancel request for the running query.
    pub(crate) fn cancel(&self, port: u16) -> Result<()> {
        self.raw.cancel(port)
    }

    /// Sends a COPY with its data ahead of the answer.
    pub(crate) fn copy(&mut self, sql: &str, data: &Data) -> Result<Vec<String>> {
        if self.is_open {
            self.batch(&[Item::Sync])?;
        }
        let mut bytes = frontend::query(sql);
        for row in &data.rows {
            bytes.extend(frontend::copy_data(format!("{row}\n").as_bytes()));
        }
        bytes.extend(match data.fails {
            true => frontend::copy_fail("no more"),
            false => frontend::copy_done(),
        });
        self.raw.send(&bytes)?;
        self.read(1)
    }

    /// Sends messages of the extended protocol at once and reads all their replies.
    pub(crate) fn batch(&mut self, items: &[Item]) -> Result<Vec<String>> {
        let bytes: Vec<u8> = items.iter().flat_map(Item::encoded).collect();
        self.raw.send(&bytes)?;
        let mut lines = Vec::new();
        for part in items.split_inclusive(|item| matches!(item, Item::Sync | Item::Query(_))) {
            if lines
                .iter()
                .any(|line: &String| line.starts_with("E FATAL"))
            {
                break;
            }
            match part.last() {
                Some(Item::Sync | Item::Query(_)) => {
                    lines.extend(self.read(1)?);
                    (self.is_open, self.is_skipping) = (false, false);
                }
                _ => lines.extend(self.read_replies(part)?),
            }
        }
        Ok(lines)
    }

    /// Reads one reply to each message of an open batch, or an error.
    fn read_replies(&mut self, items: &[Item]) -> Result<Vec<String>> {
        self.is_open = true;
        let mut owed = items.iter().filter(|item| **item != Item::Flush).count();
        let mut lines = Vec::new();
        while owed > 0 && !self.is_skipping {
            let message = self.raw.read_message().context("no reply")?;
            lines.extend(self.take(&message)?);
            match message.tag {
                b'E' => self.is_skipping = true,
                b'1' | b'2' | b'3' | b'T' | b'n' | b'C' | b'I' | b's' => owed -= 1,
                _ => {}
            }
        }
        Ok(lines)
    }

    /// Notifications since the last call. Waits for this number, up to [`PATIENCE`].
    pub(crate) fn heard(&mut self, at_least: usize) -> Result<Vec<String>> {
        while self.heard.len() < at_least {
            let message = match self.raw.read_message() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                message => message.context("no notification")?,
            };
            let line = self.take(&message)?;
            ensure!(line.is_none(), "{line:?} instead of a notification");
        }
        Ok(std::mem::take(&mut self.heard))
    }

    /// Ends the session with Terminate and waits until the peer has closed.
    pub(crate) fn leave(mut self) {
        // A connection that is already closed has ended, too.
        drop(self.raw.send(&frontend::terminate()));
        drop(self.raw.reader().read_to_end(&mut Vec::new()));
    }

    /// Ends the connection with a RST.
    pub(crate) fn vanish(self) -> Result<()> {
        Ok(self.raw.reset()?)
    }

    /// Reads up to the `count`th `ReadyForQuery`.
    fn read(&mut self, count: usize) -> Result<Vec<String>> {
        self.status = b'?';
        let mut lines = Vec::new();
        for _ in 0..count {
            for message in self.raw.read_until_ready()? {
                lines.extend(self.take(&message)?);
                if message.tag == b'Z' {
                    self.status = *message.body.first().context("no status")?;
                }
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
                let (_, text) = message.body.split_at_checked(4).context("short message")?;
                self.heard.push(text.escape_ascii().to_string());
            }
            b'K' => {
                let (pid, secret) = message.body.split_at_checked(4).context("short key")?;
                self.raw.key = (i32::from_be_bytes(pid.try_into()?), secret.to_vec());
            }
            b'R' => {}
            _ => return Ok(Some(shortened(normal(&answer::line(message)?)))),
        }
        Ok(None)
    }
}

/// Words before the number of a session's own schema.
const GIVEN: [&str; 2] = ["pg_temp_", "pg_toast_temp_"];
/// Words before an oid in PostgreSQL's messages.
const OIDS: [&str; 5] = ["OID ", "OID: ", "type ", "relation ", "function "];

/// Removes numbers that PostgreSQL assigns itself: of temporary schemas, and oids in errors.
fn normal(line: &str) -> String {
    let mut rest = line;
    let mut text = String::with_capacity(line.len());
    while let Some(at) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let (head, tail) = rest.split_at(at);
        let end = tail.find(|letter: char| !letter.is_ascii_digit());
        let (number, tail) = tail.split_at(end.unwrap_or(tail.len()));
        text.push_str(head);
        let is_oid = number.parse::<u32>().is_ok_and(|oid| oid >= 16_384);
        let is_given = GIVEN.iter().any(|word| head.ends_with(word))
            || (is_oid && OIDS.iter().any(|word| head.ends_with(word)));
        text.push_str(if is_given { "N" } else { number });
        rest = tail;
    }
    text.push_str(rest);
    text
}

/// Replaces a long line by its beginning, its length and a hash.
fn shortened(line: String) -> String {
    if line.len() <= LINE_MAX {
        return line;
    }
    let hash = line.bytes().fold(0_u64, |hash, byte| {
        hash.wrapping_mul(31).wrapping_add(u64::from(byte))
    });
    let begin: String = line.chars().take(80).collect();
    format!("{begin}… {} bytes, {hash:x}", line.len())
}
