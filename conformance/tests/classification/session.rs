//! A client session on its way to the primary: each text is judged, and its verdict is compared with a standby.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use weir_conformance::cluster::LIMIT;
use weir_conformance::raw::Message;
use weir_conformance::{Raw, wait_until};
use weir_sql::{Access, Cause, Names, access};

use super::mirror::{Mirror, Outcome};
use super::objects::Catalogue;
use super::report::{Fault, Report};

/// First words of statements that define no objects.
const NO_DEFINITIONS: [&str; 10] = [
    "analyze", "copy", "delete", "explain", "insert", "lock", "notify", "table", "update", "vacuum",
];
/// Number of runs of a read that the standby cancels because of what it replays.
const CONFLICTS_MAX: usize = 10;

/// First words of texts for the primary that a standby might answer as well.
const MAYBE_READS: [&str; 9] = [
    "(select", "copy", "declare", "explain", "select", "show", "table", "values", "with",
];
/// First words of texts that change the settings of their session.
const SETTINGS: [&str; 4] = ["deallocate", "discard", "reset", "set"];
/// Settings of a session, as calls that give them to another.
const COPY_SETTINGS: &str = "
    SELECT string_agg(format('pg_catalog.set_config(%L, %L, false)', name, setting), ', ')
    FROM (SELECT name, setting FROM pg_catalog.pg_settings
          WHERE context IN ('user', 'superuser') AND source IN ('session', 'client')
          UNION ALL SELECT 'session_authorization', session_user::text
          UNION ALL SELECT 'role', pg_catalog.current_setting('role')) s";

/// State that all sessions share.
pub(crate) struct Shared {
    pub(crate) primary: u16,
    pub(crate) standby: u16,
    pub(crate) report: Mutex<Report>,
    /// Number of texts so far that may have defined objects.
    definitions: AtomicU64,
    /// Sessions on both hosts that watch what the texts do.
    watch: Mutex<Watch>,
}

impl Shared {
    /// # Errors
    /// When a host refuses the login.
    pub(crate) fn new(primary: u16, standby: u16) -> Result<Self> {
        Ok(Self {
            primary,
            standby,
            report: Mutex::default(),
            definitions: AtomicU64::new(1),
            watch: Mutex::new(Watch {
                primary: Raw::connect(primary, "postgres")?,
                standby: Raw::connect(standby, "postgres")?,
                marks: None,
                is_replayed: false,
            }),
        })
    }

    fn report(&self, edit: impl FnOnce(&mut Report)) {
        edit(&mut self.report.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Forgets what was seen, because a text may have written.
    fn forget(&self) {
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        watch.marks = None;
        watch.is_replayed = false;
    }

    fn watch<T>(&self, look: impl FnOnce(&mut Watch) -> Result<T>) -> Result<T> {
        look(&mut self.watch.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct Watch {
    primary: Raw,
    standby: Raw,
    /// Traces of the last text, as long as no other text may have left some.
    marks: Option<Marks>,
    /// True if the standby has replayed all that the texts have written.
    is_replayed: bool,
}

/// Traces that a text may leave: the next transaction id, and the number of advisory locks.
type Marks = (String, String);

impl Watch {
    fn marks(&mut self) -> Result<Marks> {
        if let Some(marks) = &self.marks {
            return Ok(marks.clone());
        }
        let sql = "SELECT pg_snapshot_xmax(pg_current_snapshot()), \
                   (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory')";
        let row = self.primary.query(sql)?.pop().context("no marks")?;
        let mut values = row.into_iter().flatten();
        let marks = values.next().zip(values.next()).context("no marks")?;
        self.marks = Some(marks.clone());
        Ok(marks)
    }

    fn marks_now(&mut self) -> Result<Marks> {
        self.marks = None;
        self.marks()
    }

    fn wait_until_replayed(&mut self) -> Result<()> {
        if self.is_replayed {
            return Ok(());
        }
        let floor = self
            .primary
            .query_one("SELECT pg_current_wal_flush_lsn()")?;
        let sql = format!("SELECT pg_last_wal_replay_lsn() >= '{floor}'");
        // Replay takes less than the pause between two questions of `wait_until`.
        let is_there =
            (0..20).any(|_| self.standby.query_one(&sql).is_ok_and(|there| there == "t"));
        if !is_there {
            wait_until("replay on the standby", LIMIT, || {
                Ok(self.standby.query_one(&sql)? == "t")
            })?;
        }
        self.is_replayed = true;
        Ok(())
    }
}

/// A session between psql and the primary.
struct Session {
    shared: Arc<Shared>,
    client: UnixStream,
    primary: Raw,
    standby: Mirror,
    /// Second session on the primary.
    control: Mirror,
    catalogue: Catalogue,
    names: Names,
    /// Definitions that `names` contain.
    seen: u64,
    /// Status of the last ReadyForQuery.
    status: u8,
    /// True if the mirrors may lack settings of the client.
    is_stale: bool,
}

/// Serves a client until it leaves.
///
/// # Errors
/// When the client or a server breaks the protocol.
pub(crate) fn serve(mut client: UnixStream, shared: Arc<Shared>) -> Result<()> {
    let mut length = [0; 4];
    client.read_exact(&mut length)?;
    let size = usize::try_from(u32::from_be_bytes(length))?;
    let mut startup = vec![0; size.checked_sub(4).context("short packet")?];
    client.read_exact(&mut startup)?;
    let database = parameter(&startup, "database");
    let startup = [&length[..], &startup].concat();
    let mut primary = Raw::tcp(shared.primary, LIMIT)?;
    primary.send(&startup)?;
    if startup.get(4..8) == Some(&80_877_102_u32.to_be_bytes()) {
        // A cancel request has no answer.
        return Ok(());
    }
    let mut session = Session {
        standby: Mirror::new(shared.standby, &startup),
        control: Mirror::new(shared.primary, &startup),
        catalogue: Catalogue::of(shared.primary, &database)
            .or_else(|_| Catalogue::of(shared.primary, "postgres"))?,
        shared,
        client,
        primary,
        names: Names::default(),
        seen: 0,
        status: b'I',
        is_stale: false,
    };
    session.relay()?;
    while let Some(message) = read(&mut session.client)? {
        match message.tag {
            b'X' => break,
            b'Q' => session.query(&message)?,
            tag => {
                session.primary.send(&message.wire())?;
                if matches!(tag, b'S' | b'F') {
                    session.relay()?;
                    session.shared.forget();
                }
            }
        }
    }
    session.primary.terminate();
    Ok(())
}

impl Session {
    fn query(&mut self, message: &Message) -> Result<()> {
        let text = message.body.strip_suffix(b"\0").unwrap_or(&message.body);
        let text = String::from_utf8_lossy(text).into_owned();
        let first = first_word(&text);
        self.learn(&text)?;
        let verdict = access(text.as_bytes(), &self.names);
        self.shared.report(|report| report.verdict(label(&verdict)));
        let was_idle = self.status == b'I';
        let before = match verdict.is_read() && was_idle {
            true => Some(self.shared.watch(Watch::marks)?),
            false => None,
        };
        self.primary.send(&message.wire())?;
        let outcome = Outcome::of(&self.relay()?)?;
        match before {
            Some(before) => self.compare_marks(&text, &before)?,
            None => self.shared.forget(),
        }
        let is_block = !was_idle || self.status != b'I';
        match verdict {
            Access::Read { .. } => self.read(&text, &outcome, is_block)?,
            Access::Primary(cause) => self.for_primary(&text, &cause, &outcome, is_block)?,
            Access::Anywhere if SETTINGS.contains(&first.as_str()) => {
                self.setting(&text, is_block)?
            }
            Access::Anywhere if first == "rollback" => self.is_stale = true,
            Access::Anywhere | Access::Begin(_) => {}
        }
        Ok(())
    }

    /// Reads the database's objects again if a text before may have changed them.
    fn learn(&mut self, text: &str) -> Result<()> {
        let now = self.shared.definitions.load(Ordering::SeqCst);
        let first = first_word(text);
        if self.seen != now && (MAYBE_READS.contains(&first.as_str()) || first == "prepare") {
            self.names = self.catalogue.load()?;
            self.seen = now;
        }
        Ok(())
    }

    /// Looks for traces of a read. They count if a second session leaves them too: a session of before may still be
    /// dropping its temporary tables, and temporary tables with ON COMMIT are written by each transaction that reads.
    fn compare_marks(&mut self, text: &str, before: &Marks) -> Result<()> {
        let after = self.shared.watch(Watch::marks_now)?;
        if after == *before {
            return Ok(());
        }
        self.control.run(text)?;
        let again = self.shared.watch(Watch::marks_now)?;
        if after.0 != before.0 && again.0 != after.0 {
            let evidence = "a transaction id".to_owned();
            self.shared
                .report(|report| report.found(Fault::Writes, text, evidence));
        }
        if after.1 != before.1 && again.1 != after.1 {
            let evidence = "an advisory lock".to_owned();
            self.shared
                .report(|report| report.found(Fault::Locks, text, evidence));
        }
        Ok(())
    }

    /// Compares the answer to a read with that of the standby.
    fn read(&mut self, text: &str, here: &Outcome, is_block: bool) -> Result<()> {
        if self.status == b'E' {
            return Ok(());
        }
        let there = self.on_standby(text, is_block)?;
        self.shared.report(|report| report.compared += 1);
        if there.is_refusal() && *here != there {
            let error = there
                .error
                .unwrap_or_else(|| unreachable!("a refusal is an error"));
            let evidence = format!("{} {} {}", error.code, error.text, error.context);
            self.shared
                .report(|report| report.found(Fault::Refused, text, evidence));
            return Ok(());
        }
        // In a block, the standby lacks what the block has done.
        if is_block || *here == there || (!here.succeeded() && !there.succeeded()) {
            return Ok(());
        }
        let control = self.control.try_out(text)?;
        self.shared.report(|report| match control == *here {
            true => report.found(Fault::Differs, text, here.difference(&there)),
            false => report.of_one_session += 1,
        });
        Ok(())
    }

    /// Looks whether the standby could have answered a text for the primary.
    fn for_primary(
        &mut self,
        text: &str,
        cause: &Cause,
        here: &Outcome,
        is_block: bool,
    ) -> Result<()> {
        let first = first_word(text);
        if !NO_DEFINITIONS.contains(&first.as_str()) {
            self.shared.definitions.fetch_add(1, Ordering::SeqCst);
        }
        if text.to_ascii_lowercase().contains("set") {
            self.is_stale = true;
        }
        let is_candidate = MAYBE_READS.contains(&first.as_str()) && here.succeeded() && !is_block;
        if is_candidate && self.on_standby(text, false)? == *here {
            self.shared.report(|report| report.lost(cause, text));
        }
        Ok(())
    }

    fn setting(&mut self, text: &str, is_block: bool) -> Result<()> {
        if is_block {
            self.is_stale = true;
            return Ok(());
        }
        for mirror in [&mut self.standby, &mut self.control] {
            if mirror.is_open() {
                let outcome = mirror.run(text)?;
                if outcome.is_refusal() {
                    let evidence = format!("{outcome:?}");
                    self.shared
                        .report(|report| report.found(Fault::Refused, text, evidence));
                }
            }
        }
        Ok(())
    }

    /// Runs a text on the standby, after all that the primary has committed.
    fn on_standby(&mut self, text: &str, is_block: bool) -> Result<Outcome> {
        self.shared.watch(Watch::wait_until_replayed)?;
        if self.status == b'I'
            && (self.is_stale || !self.standby.is_open() || !self.control.is_open())
        {
            let settings = self.primary.query_one(COPY_SETTINGS)?;
            for mirror in [&mut self.standby, &mut self.control] {
                // The client may hold a lock that its second session waits for.
                mirror.run("RESET ALL; SET lock_timeout = '1s'")?;
                mirror.run(&format!("SELECT {settings}"))?;
            }
            self.is_stale = false;
        }
        let mut run = || match is_block {
            true => self.standby.try_out(text),
            false => self.standby.run(text),
        };
        // What the standby replays just now may cancel any read; Weir runs it again.
        for _ in 1..CONFLICTS_MAX {
            let outcome = run()?;
            if !outcome.is_conflict() {
                return Ok(outcome);
            }
        }
        run()
    }

    /// Passes messages to the client up to ReadyForQuery, and its COPY data to the primary.
    fn relay(&mut self) -> Result<Vec<Message>> {
        let mut messages = Vec::new();
        loop {
            let message = self.primary.read_message()?;
            self.client.write_all(&message.wire())?;
            match message.tag {
                b'G' => self.copy_in()?,
                b'Z' => {
                    self.status = message.body.first().copied().unwrap_or_default();
                    return Ok(messages);
                }
                b'E' if message.field(b'S').as_deref() == Some("FATAL") => {
                    bail!("{}", message.error())
                }
                _ => {}
            }
            messages.push(message);
        }
    }

    fn copy_in(&mut self) -> Result<()> {
        loop {
            let message = read(&mut self.client)?.context("the client left inside COPY")?;
            self.primary.send(&message.wire())?;
            if matches!(message.tag, b'c' | b'f') {
                return Ok(());
            }
        }
    }
}

/// Reads a client's message; none at the end of its connection.
fn read(client: &mut UnixStream) -> Result<Option<Message>> {
    let mut head = [0; 5];
    match client.read_exact(&mut head) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let [tag, length @ ..] = head;
    let size = usize::try_from(u32::from_be_bytes(length))?;
    let mut body = vec![0; size.checked_sub(4).context("short message")?];
    client.read_exact(&mut body)?;
    Ok(Some(Message { tag, body }))
}

/// Value of a start-up parameter.
fn parameter(startup: &[u8], name: &str) -> String {
    let mut words = startup
        .get(4..)
        .unwrap_or_default()
        .split(|byte| *byte == 0);
    while let Some(key) = words.next() {
        let value = words.next().unwrap_or_default();
        if key == name.as_bytes() {
            return String::from_utf8_lossy(value).into_owned();
        }
    }
    String::new()
}

/// First word of a text in lower case, behind comments of one line.
fn first_word(text: &str) -> String {
    let lines = text.lines().map(str::trim_start);
    let mut lines = lines.skip_while(|line| line.is_empty() || line.starts_with("--"));
    let line = lines.next().unwrap_or_default();
    let end = line
        .find(|c: char| !c.is_ascii_alphabetic() && c != '(')
        .unwrap_or(line.len());
    line.get(..end).unwrap_or_default().to_ascii_lowercase()
}

fn label(verdict: &Access) -> &'static str {
    match verdict {
        Access::Anywhere => "anywhere",
        Access::Begin(_) => "begin",
        Access::Primary(_) => "primary",
        Access::Read { .. } => "read",
    }
}
