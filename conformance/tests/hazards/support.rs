//! Helpers of the hazard tests: start the binary, read the end of a connection, and measure a
//! process.

use std::fmt::Write as _;
use std::io;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;
use weir_conformance::Kind;
use weir_conformance::PoolOptions;
use weir_conformance::Raw;
use weir_conformance::SOON;
use weir_conformance::Target;
use weir_conformance::TempDir;
use weir_conformance::clock;
use weir_conformance::frontend;
use weir_conformance::process;
use weir_conformance::raw::Message;

pub(crate) const MIB: u64 = 1024 * 1024;
/// A query that must never run.
pub(crate) const SMUGGLED: &[u8] = b"select 'smuggled'";

/// Starts Weir in front of a server on a loopback port.
pub(crate) fn start(server: u16, options: &PoolOptions) -> Result<Target> {
    Target::start_kind(Kind::Weir, server, options)
}

/// Weir with an authentication file, and the directory of that file.
pub(crate) struct Guard {
    pub(crate) target: Target,
    _files: TempDir,
}

/// Starts Weir with this `auth_type`, lines of the `auth_file` and further settings.
pub(crate) fn start_with_users(
    server: u16,
    auth_type: &str,
    users: &str,
    settings: &[&str],
) -> Result<Guard> {
    let files = TempDir::new()?;
    let users = files.write("users.txt", users)?;
    let mut ini = format!(
        "[databases]\n* = host=127.0.0.1 port={server}\n\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
         listen_port = {{port}}\nunix_socket_dir =\npool_mode = transaction\nauth_type = {auth_type}\n\
         auth_file = {}\n",
        users.display()
    );
    for line in settings {
        writeln!(ini, "{line}")?;
    }
    let target = Target::start_weir("pooler.ini", &ini)?;
    Ok(Guard {
        target,
        _files: files,
    })
}

/// The query that must never run, as a message.
pub(crate) fn smuggled() -> Vec<u8> {
    frontend::query("select 'smuggled'")
}

/// Message head with any length, right or wrong.
pub(crate) fn head(tag: u8, length: u32) -> Vec<u8> {
    [&[tag][..], &length.to_be_bytes()].concat()
}

/// All messages up to the close.
pub(crate) fn last_words(raw: &mut Raw) -> Result<Vec<Message>> {
    let mut messages = Vec::new();
    loop {
        match raw.read_message() {
            Ok(message) => messages.push(message),
            Err(error) => match error.kind() {
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
                    return Ok(messages);
                }
                _ => {
                    return Err(error)
                        .with_context(|| format!("no close after {}", tags(&messages)));
                }
            },
        }
    }
}

/// Checks that the connection ends with a single FATAL of this SQLSTATE.
pub(crate) fn refused(raw: &mut Raw, code: &str) -> Result<String> {
    let words = last_words(raw)?;
    let [only] = words.as_slice() else {
        bail!("wanted one FATAL {code}, got {}", describe(&words));
    };
    ensure!(
        only.tag == b'E'
            && only.field(b'S').as_deref() == Some("FATAL")
            && only.field(b'C').as_deref() == Some(code),
        "wanted FATAL {code}, got {}",
        describe(&words)
    );
    Ok(only.field(b'M').unwrap_or_default())
}

/// Reads until the connection is closed; nothing may come before. PostgreSQL, too, answers what is no start-up packet by
/// closing.
pub(crate) fn closed_in_silence(raw: &mut Raw) -> Result<()> {
    let words = raw.read_to_close()?;
    ensure!(
        words.is_empty(),
        "wanted silence, got {}",
        words.escape_ascii()
    );
    Ok(())
}

/// Tags of the messages, such as `TDCZ`.
pub(crate) fn tags(messages: &[Message]) -> String {
    messages.iter().map(|message| message.tag as char).collect()
}

/// Tags of the messages, and texts of errors.
pub(crate) fn describe(messages: &[Message]) -> String {
    let mut text = format!("[{}]", tags(messages));
    for message in messages {
        if message.tag == b'E' {
            text.push_str(&format!(" {{{}}}", message.error()));
        }
    }
    text
}

/// SQLSTATEs of the errors among the messages.
pub(crate) fn codes(messages: &[Message]) -> Vec<String> {
    let errors = messages.iter().filter(|message| message.tag == b'E');
    errors.filter_map(|error| error.field(b'C')).collect()
}

/// Checks that the process runs, has not panicked, and serves a new client.
pub(crate) fn check_serves(target: &mut Target) -> Result<()> {
    target.check_healthy()?;
    let begun = clock::now();
    let mut raw = Raw::connect(target.port(), "postgres").context("a normal client's login")?;
    let value = raw
        .query_one("select 'served'")
        .context("a normal client's query")?;
    // A scripted server returns the text, a real one evaluates it.
    ensure!(value.contains("served"), "a normal client got {value}");
    raw.terminate();
    ensure!(
        begun.elapsed() < SOON,
        "a normal client took {:?}",
        begun.elapsed()
    );
    target.check_healthy()
}

/// Lets every worker welcome a client, so that later logins need no server.
pub(crate) fn warm_up(target: &Target) -> Result<()> {
    // All at once: single clients would always be assigned to the same worker.
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(Raw::connect(target.port(), "postgres")?);
    }
    for mut client in clients {
        client.query("select 1")?;
        client.terminate();
    }
    Ok(())
}

/// Resource usage of a process since a moment.
pub(crate) struct Meter {
    pid: u32,
    rss: u64,
    cpu_ns: u64,
    at: Instant,
}

impl Meter {
    pub(crate) fn begin(target: &Target) -> Result<Self> {
        let pid = target.pid()?;
        Ok(Self {
            pid,
            rss: process::rss(pid)?,
            cpu_ns: process::cpu_ns(pid)?,
            at: clock::now(),
        })
    }

    /// Growth of resident memory since the beginning, in bytes.
    pub(crate) fn growth(&self) -> Result<u64> {
        Ok(process::rss(self.pid)?.saturating_sub(self.rss))
    }

    /// Processor time since the beginning.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        let now = process::cpu_ns(self.pid)?;
        Ok(Duration::from_nanos(now.saturating_sub(self.cpu_ns)))
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.at.elapsed()
    }

    /// Fails when memory grew by more than `bytes`.
    pub(crate) fn check_growth(&self, bytes: u64) -> Result<()> {
        let growth = self.growth()?;
        ensure!(
            growth <= bytes,
            "memory grew by {} KiB, allowed are {}",
            growth / 1024,
            bytes / 1024
        );
        Ok(())
    }

    /// Fails when more processor time than this was used.
    pub(crate) fn check_cpu(&self, limit: Duration) -> Result<()> {
        let cpu = self.cpu()?;
        ensure!(
            cpu <= limit,
            "{cpu:?} of processor time, allowed are {limit:?}"
        );
        Ok(())
    }
}

/// Number of files that a process has open.
pub(crate) fn open_files(pid: u32) -> Result<usize> {
    Ok(std::fs::read_dir(format!("/proc/{pid}/fd"))?.count())
}
