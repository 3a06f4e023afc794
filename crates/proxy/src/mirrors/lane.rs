//! Thread of a mirror: a client of the other database that blocks, and runs one transaction at a time.

use std::collections::HashMap;
use std::io::{self, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};
use weir_session::mirrored::{Mirrored, Request};
use weir_session::settings::Settings;
use weir_session::watched::Undone;
use weir_sql::Shaper;
use weir_wire::encode;
use weir_wire::encode::EncodeError;
use weir_wire::frontend::Kind;

use super::answer::Answer;
use super::counts::Counts;
use super::judged::{Judged, Judgements, Treatment};
use super::{Lane, Mirror, Newcomer, Transaction};
use crate::clock::Clock;
use crate::global::{Global, GlobalGroup, lock};
use crate::socket::{Socket, Stream};

/// Time after which an idle connection is closed.
const IDLE: Duration = Duration::from_secs(30);

/// Longest wait for a part of an answer.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Longest wait for the end of a login. Clients wait for longer, but nobody waits for a mirror.
const LOGIN_MAX: Duration = Duration::from_secs(5);

/// Maximum number of statements that a connection keeps prepared.
const NAMES_MAX: usize = 500;

/// Reads and comparisons of a lane.
pub(super) struct Runner<'m> {
    mirror: &'m Arc<Mirror>,
    lane: &'m Lane,
    global: &'m Weak<Global>,
    clock: Clock,
    judgements: Option<Judgements>,
    link: Option<Link>,
}

/// Connection of a lane.
struct Link {
    stream: BufReader<UnixStream>,
    group: Arc<GlobalGroup>,
    settings: Arc<Settings>,
    /// Numbers of the names of prepared statements, by definition.
    names: HashMap<Box<[u8]>, usize>,
    /// Number of names so far.
    named: usize,
    body: Vec<u8>,
}

impl<'m> Runner<'m> {
    pub(super) fn new(
        mirror: &'m Arc<Mirror>,
        lane: &'m Lane,
        global: &'m Weak<Global>,
        clock: Clock,
    ) -> Self {
        Self {
            mirror,
            lane,
            global,
            clock,
            judgements: None,
            link: None,
        }
    }

    /// Runs transactions until the mirror ends.
    pub(super) fn run(mut self, queue: &Receiver<Transaction>) {
        loop {
            let next = match self.link {
                Some(_) => queue.recv_timeout(IDLE),
                None => queue.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match next {
                Ok(transaction) => {
                    self.mirror.forget(&transaction);
                    if self.mirror.has_ended.load(Ordering::Relaxed) {
                        self.counts().drop_one();
                    } else {
                        self.transaction(&transaction);
                    }
                }
                Err(RecvTimeoutError::Timeout) => self.close(),
                Err(RecvTimeoutError::Disconnected) => return self.close(),
            }
        }
    }

    fn counts(&self) -> &'m Counts {
        &self.mirror.counts
    }

    fn close(&mut self) {
        *lock(&self.lane.socket) = None;
        self.link = None;
    }

    /// Runs what the mirror may run of a transaction.
    fn transaction(&mut self, transaction: &Transaction) {
        let mirror = self.mirror;
        let is_old = self.link.is_some();
        let pass = match is_old {
            true => None,
            false => mirror.door.enter(|| mirror.is_quiet(self.clock.now())),
        };
        if !is_old && pass.is_none() {
            return self.counts().drop_one();
        }
        let Some(runs) = self.judged(transaction) else {
            return;
        };
        let statements = runs.len();
        if statements == 0 {
            return;
        }
        let mut done = self.attempt(transaction, &runs);
        if is_old && !self.mirror.plan.writes && matches!(done, Err((0, _))) {
            // The connection may have ended since it was last used.
            self.close();
            done = self.attempt(transaction, &runs);
        }
        if let Some(pass) = pass {
            pass.end();
        }
        let place = (self.global, self.clock);
        self.mirror.answered(place, self.clock.now(), done.is_ok());
        if let Err((done, error)) = done {
            self.close();
            if !self.mirror.has_ended.load(Ordering::Relaxed) {
                let reason = shown(&error);
                self.counts().fail(statements - done, &reason);
            }
        }
    }

    fn attempt(
        &mut self,
        transaction: &Transaction,
        runs: &[(&Request, &Mirrored, Judged)],
    ) -> Result<(), (usize, io::Error)> {
        self.connect(transaction).map_err(|error| (0, error))?;
        self.replay(transaction, runs)
    }

    /// Returns the statements that the mirror runs. None if it cannot run the transaction.
    fn judged<'t>(
        &mut self,
        transaction: &'t Transaction,
    ) -> Option<Vec<(&'t Request, &'t Mirrored, Judged)>> {
        let (mut runs, mut skips) = (Vec::new(), 0);
        for mirrored in &transaction.requests {
            let Some(request) = &mirrored.request else {
                skips += 1;
                continue;
            };
            match self.judge(request.text(), &transaction.group.key.user) {
                Some(judged) if judged.treatment == Treatment::Runs => {
                    runs.push((request, mirrored, judged));
                }
                Some(judged) if judged.treatment == Treatment::Ignores => {}
                _ => skips += 1,
            }
        }
        // A rollback to a savepoint undid some of them: which, is not known here. Without a part, writes are others.
        let cannot_write = self.mirror.plan.writes && skips > 0;
        if transaction.undone == Undone::Part || cannot_write {
            self.counts().skip(runs.len() + skips);
            return None;
        }
        if skips > 0 {
            self.counts().skip(skips);
        }
        Some(runs)
    }

    fn judge(&mut self, text: &[u8], user: &str) -> Option<Judged> {
        if self.judgements.is_none() {
            let global = self.global.upgrade()?;
            let shaper = Shaper::new(global.secrets.shapes);
            let names = global.names_of(&self.mirror.plan.database, user);
            let writes = self.mirror.plan.writes;
            self.judgements = Some(Judgements::new(shaper, names, writes));
        }
        self.judgements.as_mut()?.of(text)
    }

    /// Makes sure that the lane's connection has the user and the settings of the mirrored client.
    fn connect(&mut self, transaction: &Transaction) -> io::Result<()> {
        let fits = |link: &Link| {
            link.group.key.user == transaction.group.key.user
                && *link.settings == *transaction.settings
                && link.named < NAMES_MAX
        };
        if self.link.as_ref().is_some_and(fits) {
            return Ok(());
        }
        self.close();
        self.open(transaction)
    }

    fn open(&mut self, transaction: &Transaction) -> io::Result<()> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(LOGIN_MAX))?;
        ours.set_write_timeout(Some(ANSWER_MAX))?;
        theirs.set_nonblocking(true)?;
        {
            let mut socket = lock(&self.lane.socket);
            if self.mirror.has_ended.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::NotConnected.into());
            }
            *socket = Some(ours.try_clone()?);
        }
        let mut settings = Settings::clone(&transaction.settings);
        if !self.mirror.plan.writes {
            settings.set("default_transaction_read_only", "on");
        }
        let newcomer = Newcomer {
            stream: Stream::from(Socket::Unix(theirs)),
            database: Arc::clone(&self.mirror.plan.database),
            group: Arc::clone(&transaction.group),
            settings: Arc::new(settings),
        };
        let global = self.global.upgrade().ok_or(io::ErrorKind::NotConnected)?;
        global.welcome_mirror(newcomer).map_err(io::Error::other)?;
        drop(global);
        let mut link = Link {
            stream: BufReader::new(ours),
            group: Arc::clone(&transaction.group),
            settings: Arc::clone(&transaction.settings),
            names: HashMap::new(),
            named: 0,
            body: Vec::new(),
        };
        let greeting = link.answer().map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => io::Error::other("no server within 5 s"),
            _ => error,
        })?;
        link.stream.get_ref().set_read_timeout(Some(ANSWER_MAX))?;
        if let Some((code, text)) = greeting.error {
            let code = String::from_utf8_lossy(&code).into_owned();
            return Err(io::Error::other(format!("{code}: {text}")));
        }
        self.link = Some(link);
        Ok(())
    }

    /// Runs statements, and compares their answers. Fails with the number of those that were answered.
    fn replay(
        &mut self,
        transaction: &Transaction,
        runs: &[(&Request, &Mirrored, Judged)],
    ) -> Result<(), (usize, io::Error)> {
        let Some(link) = &mut self.link else {
            return Ok(());
        };
        let (counts, clock) = (&self.mirror.counts, self.clock);
        let is_block = runs.len() > 1 || transaction.undone != Undone::Nothing;
        if is_block {
            link.run(&Request::Simple((*b"BEGIN").into()), clock)
                .map_err(|error| (0, error))?;
        }
        for (done, (request, mirrored, judged)) in runs.iter().enumerate() {
            let answer = link.run(request, clock).map_err(|error| (done, error))?;
            let outcome = &mirrored.outcome;
            match answer.compare(outcome, judged.has_same_rows) {
                Some(compared) => {
                    counts.compare(&judged.text, &compared, (outcome.took, answer.took));
                }
                None => match &answer.error {
                    Some((code, text)) if code != b"25006" && code != b"25P02" => {
                        let code = String::from_utf8_lossy(code);
                        counts.fail(1, &format!("{code}: {text}"));
                    }
                    _ => counts.skip(1),
                },
            }
        }
        if is_block {
            let end: &[u8] = match transaction.undone {
                Undone::Nothing => b"COMMIT",
                _ => b"ROLLBACK",
            };
            let ended = link.run(&Request::Simple(end.into()), clock);
            ended.map_err(|error| (runs.len(), error))?;
        }
        Ok(())
    }
}

impl Link {
    /// Sends a request, and reads its answer.
    fn run(&mut self, request: &Request, clock: Clock) -> io::Result<Answer> {
        let mut message = Vec::new();
        self.encode(request, &mut message)
            .map_err(io::Error::other)?;
        let begun = clock.now();
        self.stream.get_mut().write_all(&message)?;
        let mut answer = self.answer()?;
        answer.took = clock.now().since(begun);
        if let (Some(_), Request::Bound { definition, .. }) = (&answer.error, request) {
            // The statement may not exist.
            self.names.remove(definition);
        }
        Ok(answer)
    }

    fn answer(&mut self) -> io::Result<Answer> {
        let answer = Answer::read(&mut self.stream, &mut self.body)?;
        match answer.wants_copy {
            // Nothing that copies data runs here; a function cannot begin a COPY either.
            true => Err(io::ErrorKind::Unsupported.into()),
            false => Ok(answer),
        }
    }

    fn encode(&mut self, request: &Request, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let Request::Bound {
            definition,
            is_named,
            values,
        } = request
        else {
            return encode::query(out, request.text());
        };
        let text = request.text();
        let types = definition.get(text.len() + 1..).unwrap_or_default();
        let mut name = String::new();
        let mut is_known = false;
        // A statement with a name keeps its plan here as it does for the client.
        if *is_named {
            let next = self.named;
            let number = *self.names.entry(definition.clone()).or_insert(next);
            is_known = number != next;
            self.named += usize::from(!is_known);
            name = format!("m{number}");
        }
        if !is_known {
            encode::parse(out, name.as_bytes(), text, types)?;
        }
        encode::bind_renamed(out, b"", name.as_bytes(), values)?;
        encode::describe(out, Kind::Portal, b"")?;
        encode::execute(out, b"", 0)?;
        encode::sync(out)
    }
}

/// Returns the reason of a failure, for people.
fn shown(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("no answer within {} s", ANSWER_MAX.as_secs())
        }
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe => {
            "the connection was closed".to_owned()
        }
        _ => error.to_string(),
    }
}
