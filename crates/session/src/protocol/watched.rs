//! Statements that a query rule watches while they run: their timeouts, their log lines, their permits.
//!
//! Each expected reply of such a statement has its watch, so whatever ends or undoes the request ends the watch too. Without
//! such rules nothing here is reached but tests for `None`.

use std::sync::Arc;
use std::time::Duration;

use weir_rules::{Mirroring, Permit, Watch, Wish};
use weir_wire::backend::ErrorFields;

use crate::expected::{Duty, Expected, Kind};
use crate::fault::Fault;
use crate::mirrored::{Copied, Mirrored, Request, Tally};
use crate::ruled::Judged;
use crate::server::Server;

/// Maximum number of portals of one client whose statements are watched.
const PORTALS_MAX: usize = 64;

/// Maximum number of log lines that wait to be written.
const LINES_MAX: usize = 64;

/// Maximum number of mirrored requests that wait to be taken.
const COPIES_MAX: usize = 256;

/// Maximum bytes of a client's requests that are copied at a time. What exceeds them is not mirrored.
const COPIED_MAX: usize = 256 * 1024;

/// Watch over one statement.
#[derive(Debug)]
pub(crate) struct Watched {
    watch: Watch,
    /// Time at which the request was sent, in microseconds.
    sent_us: u64,
    /// Copied of the request for another database.
    copy: Option<Box<Copied>>,
    /// Given back when the statement ends.
    #[expect(dead_code, reason = "held for its drop")]
    permit: Option<Permit>,
}

/// A statement that is to be logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Name of the rule.
    pub rule: Arc<str>,
    /// The statement without literals.
    pub text: Arc<str>,
    /// Time from the request, or from the end of the statement before, to the end of this one.
    pub took: Duration,
    /// SQLSTATE, if the statement has failed.
    pub code: Option<[u8; 5]>,
}

/// Facts about the watched statements of a server.
#[derive(Debug, Default)]
pub(crate) struct Watching {
    portals: Vec<(Box<[u8]>, Watched)>,
    /// Time at which the last statement ended, in microseconds.
    ended_us: u64,
    /// SQLSTATE of the error that the simple query in front has had.
    code: Option<[u8; 5]>,
    /// Timeout of the statement in front, if it is over.
    is_over: Option<Wish<Duration>>,
    lines: Vec<LogLine>,
    /// Rows of the reply in front.
    tally: Tally,
    /// Mirrored requests that have ended, and the ends of their transactions.
    copies: Vec<MirrorEvent>,
    /// True if a request of the transaction in front was mirrored.
    is_mirrored: bool,
    /// Bytes of the requests that were copied for the client and have not ended.
    copied: usize,
    undone: Undone,
}

/// Something that happened to mirrored requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MirrorEvent {
    /// A request has ended.
    Request(Mirrored),
    /// The transaction of the requests so far has ended, of which this was rolled back.
    End(Undone),
}

/// Rollbacks of the transaction in front, by command tags.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Undone {
    /// Nothing was rolled back.
    #[default]
    Nothing,
    /// A rollback came last.
    Last,
    /// Something ran behind a rollback, which was one to a savepoint.
    Part,
}

impl Watched {
    /// Creates the watch over a statement that is sent now. None if nothing is to be watched.
    pub(crate) fn new(judged: Judged, sent_us: u64) -> Option<Box<Self>> {
        let Judged {
            verdict, permit, ..
        } = judged;
        let is_idle = verdict.watch.is_empty() && permit.is_none();
        (!is_idle).then(|| {
            Box::new(Self {
                watch: verdict.watch,
                sent_us,
                copy: None,
                permit,
            })
        })
    }

    /// Adds the copy of the request, if it is mirrored.
    pub(crate) fn copy(&mut self, copy: impl FnOnce(Wish<Arc<Mirroring>>) -> Copied) {
        if let Some(wish) = self.watch.mirror.take() {
            self.copy = Some(Box::new(copy(wish)));
        }
    }
}

impl Server {
    /// Watches what a portal will run.
    pub(crate) fn watch_portal(&mut self, name: &[u8], watched: Option<Box<Watched>>) {
        if let Some(watching) = &mut self.watching {
            watching.portals.retain(|(known, _)| **known != *name);
        }
        let Some(watched) = watched else { return };
        let watching = self.watching.get_or_insert_default();
        if watching.portals.len() < PORTALS_MAX {
            watching.portals.push((name.into(), *watched));
        }
    }

    /// Returns the watch over what an Execute of a portal runs. A portal is watched when it is executed first.
    pub(crate) fn watch_execute(&mut self, name: &[u8], rows_max: i32) -> Option<Box<Watched>> {
        let now_us = self.counting.now_us();
        let portals = &mut self.watching.as_mut()?.portals;
        let place = portals.iter().position(|(known, _)| **known == *name)?;
        let (_, mut watched) = portals.swap_remove(place);
        watched.sent_us = now_us;
        if let Some(copy) = &mut watched.copy {
            copy.is_partial = rows_max > 0;
        }
        Some(Box::new(watched))
    }

    /// Forgets the portals of a transaction that has ended.
    #[inline]
    pub(crate) fn forget_watched_portals(&mut self) {
        if let Some(watching) = &mut self.watching {
            watching.portals.clear();
        }
    }

    /// Begins to watch, if that was not begun before.
    pub(crate) fn begin_watching(&mut self) {
        self.watching.get_or_insert_default();
    }

    /// True if statements on this server are or were watched.
    #[inline]
    pub fn is_watching(&self) -> bool {
        self.watching.is_some()
    }

    /// Takes the statements that are to be logged.
    pub fn take_log_lines(&mut self) -> Vec<LogLine> {
        let watching = self.watching.as_mut();
        watching.map_or_else(Vec::new, |watching| std::mem::take(&mut watching.lines))
    }

    /// Adds the bytes of a copy, or takes the copy away if there are too many.
    pub(crate) fn bound_copy(&mut self, watched: &mut Watched) {
        let (Some(copy), Some(watching)) = (&mut watched.copy, &mut self.watching) else {
            return;
        };
        let len = copy.request.as_ref().map_or(0, Request::len);
        if watching.copied + len > COPIED_MAX {
            copy.request = None;
        } else {
            watching.copied += len;
        }
    }

    /// Forgets what was copied for the client before: it may have left in the middle of a transaction.
    pub(crate) fn forget_mirrored(&mut self) {
        if let Some(watching) = &mut self.watching {
            watching.copies.clear();
            (watching.is_mirrored, watching.copied) = (false, 0);
            watching.tally = Tally::default();
            watching.undone = Undone::Nothing;
        }
    }

    /// Takes the mirrored requests that have ended, and the ends of their transactions.
    pub fn take_mirrored(&mut self) -> Vec<MirrorEvent> {
        let watching = self.watching.as_mut();
        watching.map_or_else(Vec::new, |watching| std::mem::take(&mut watching.copies))
    }

    /// Notes that the transaction in front is over.
    #[cold]
    pub(crate) fn end_mirrored(&mut self) {
        if let Some(watching) = &mut self.watching {
            let undone = std::mem::take(&mut watching.undone);
            if std::mem::take(&mut watching.is_mirrored) {
                watching.copies.push(MirrorEvent::End(undone));
            }
        }
    }

    /// True if the rows of the reply in front are summed up for a mirror.
    #[inline]
    pub(crate) fn sums_rows(&self) -> bool {
        self.watching.is_some() && self.sums_rows_in_front()
    }

    #[cold]
    fn sums_rows_in_front(&self) -> bool {
        let front = self.queue.front().and_then(|front| front.watched.as_ref());
        let copy = front.and_then(|watched| watched.copy.as_ref());
        copy.is_some_and(|copy| copy.wish.value.compares_rows)
    }

    /// Adds a DataRow of this length, of whose body this is here.
    #[cold]
    pub(crate) fn sum_row(&mut self, total: usize, body: &[u8]) {
        if let Some(watching) = &mut self.watching {
            watching.tally.row(total, body);
        }
    }

    /// Adds what has come of the rest of a message.
    #[cold]
    pub(crate) fn sum_rest(&mut self, bytes: &[u8]) {
        if let Some(watching) = &mut self.watching {
            watching.tally.rest(bytes);
        }
    }

    /// Notes the command tag of a statement of the client's.
    #[inline]
    pub(crate) fn watch_tag(&mut self, tag: &[u8]) {
        if let Some(watching) = &mut self.watching {
            watching.tally.complete(tag);
            watching.undone = match (tag, watching.undone) {
                (b"ROLLBACK\0", Undone::Nothing) => Undone::Last,
                (_, Undone::Nothing) => Undone::Nothing,
                _ => Undone::Part,
            };
        }
    }

    /// Returns the time at which the statement that runs now is to be cancelled, in microseconds of [`Server::tick`].
    #[must_use]
    pub fn watch_ends_us(&self) -> Option<u64> {
        let watching = self.watching.as_ref()?;
        let mut runs = self.queue.iter().filter(|entry| is_run(entry));
        let watched = runs.next()?.watched.as_ref()?;
        let timeout = watched.watch.timeout.as_ref()?.value;
        let micros = u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX);
        let begun_us = watched.sent_us.max(watching.ended_us);
        (watching.is_over.is_none()).then(|| begun_us.saturating_add(micros))
    }

    /// Records that the timeout of the statement that runs now is over: it is cancelled, and its error names the rule.
    pub fn watch_is_over(&mut self) {
        let mut runs = self.queue.iter().filter(|entry| is_run(entry));
        let watched = runs.next().and_then(|entry| entry.watched.as_ref());
        let timeout = watched.and_then(|watched| watched.watch.timeout.clone());
        if let Some(watching) = &mut self.watching {
            watching.is_over = timeout;
        }
    }

    /// Notes an error of the statement in front. Returns the error to be told in its place, if a rule has cancelled it.
    pub(crate) fn watch_error(&mut self, body: &[u8]) -> Option<Vec<u8>> {
        let watching = self.watching.as_mut()?;
        let fields = ErrorFields::parse(body).ok()?;
        let code: [u8; 5] = fields.get(b'C')?.try_into().ok()?;
        watching.code = Some(code);
        let over = watching.is_over.take_if(|_| code == *b"57014")?;
        let mut message = Vec::new();
        Fault::RuleTimeout(over).encode(&mut message);
        Some(message)
    }

    /// Ends the watch over a statement whose reply is complete, or that has failed.
    #[inline]
    pub(crate) fn end_watch(&mut self, entry: &mut Expected) {
        if self.watching.is_some() && is_run(entry) {
            self.end_watched(entry);
        }
    }

    /// Ends the watch over the first of these requests that runs statements; the last in the list comes first.
    #[inline]
    pub(crate) fn end_skipped_watch(&mut self, skipped: &mut [Expected]) {
        if self.watching.is_none() {
            return;
        }
        if let Some(entry) = skipped.iter_mut().rev().find(|entry| is_run(entry)) {
            self.end_watched(entry);
        }
        if let Some(watching) = &mut self.watching {
            watching.code = None;
        }
    }

    fn end_watched(&mut self, entry: &mut Expected) {
        let now_us = self.counting.now_us();
        let Some(watching) = &mut self.watching else {
            return;
        };
        let begun_us = std::mem::replace(&mut watching.ended_us, now_us);
        let code = watching.code.take();
        let tally = std::mem::take(&mut watching.tally);
        let Some(watched) = entry.watched.take() else {
            return;
        };
        watching.is_over = None;
        let Watched {
            watch,
            sent_us,
            copy,
            ..
        } = *watched;
        let took = Duration::from_micros(now_us.saturating_sub(sent_us.max(begun_us)));
        let len = copy.as_ref().and_then(|copy| copy.request.as_ref());
        watching.copied = watching.copied.saturating_sub(len.map_or(0, Request::len));
        if let Some(copy) = copy
            && watching.copies.len() < COPIES_MAX
        {
            let outcome = tally.outcome(&copy, code, took);
            watching.is_mirrored = true;
            watching.copies.push(MirrorEvent::Request(Mirrored {
                wish: copy.wish,
                request: copy.request,
                outcome,
            }));
        }
        if let (Some(log), Some(text)) = (watch.log, watch.text)
            && took >= log.value
            && watching.lines.len() < LINES_MAX
        {
            watching.lines.push(LogLine {
                rule: log.rule,
                text,
                took,
                code,
            });
        }
    }
}

/// True if a request of the client's runs statements.
fn is_run(entry: &Expected) -> bool {
    entry.duty == Duty::Forward && matches!(entry.kind, Kind::Execute | Kind::Query)
}
