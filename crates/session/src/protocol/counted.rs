//! Counting: the digest that a request belongs to, and what its reply adds to it.
//!
//! Each expected reply of the client's keeps its digest, so whatever ends or undoes the request ends the counting too. Without
//! digests (`digests = off`) nothing here is reached but tests for `None`.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::FixedState;
use weir_sql::{Blank, ShapeKey, Shaper, without_literals};
use weir_stats::{Digest, DigestKey, DigestName, Digests, Ended};

/// Maximum number of statements of one text that are counted.
const TEXTS_MAX: usize = 64;

/// Maximum number of portals of one client whose statements are counted.
const PORTALS_MAX: usize = 64;

/// Maximum length in bytes of the text that is kept for a digest, without literals and comments.
pub const DIGEST_TEXT_MAX: usize = 2048;

/// Digests of a worker, for requests of one group.
#[derive(Debug)]
pub struct Digesting<'a> {
    /// Digests of the worker.
    pub table: &'a mut Digests,
    /// Finds the shapes of texts.
    pub shaper: &'a Shaper,
    /// Group of the client.
    pub group: &'a DigestGroup,
}

/// Database and user, whose statements are counted together.
#[derive(Debug, Clone)]
pub struct DigestGroup {
    /// Hash of the names.
    number: u64,
    database: Arc<str>,
    user: Arc<str>,
}

impl DigestGroup {
    /// Creates the group of this entry in `[databases]`, and of the role that its clients logged in as.
    #[must_use]
    pub fn new(database: &str, user: &str) -> Self {
        Self {
            number: FixedState::default().hash_one((database, user)),
            database: database.into(),
            user: user.into(),
        }
    }
}

impl Digesting<'_> {
    /// Returns the digest of a statement, whose text is needed if it is new.
    pub(crate) fn enter(&mut self, shape: ShapeKey, unix: u64, text: &[u8]) -> Arc<Digest> {
        let group = self.group;
        let key = DigestKey {
            group: group.number,
            shape: shape.0,
        };
        self.table.enter(key, unix, || {
            let blank = without_literals(text, Blank::Sample, DIGEST_TEXT_MAX);
            (!blank.is_empty()).then(|| DigestName {
                database: Arc::clone(&group.database),
                user: Arc::clone(&group.user),
                text: blank.into_boxed_str(),
            })
        })
    }
}

/// Digests of one request, as part of its expected reply.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    digest: Option<Arc<Digest>>,
    /// Further statements of the text. Boxed: each owed reply has this field, and hardly any text has several statements.
    #[expect(clippy::box_collection, reason = "16 bytes less for each owed reply")]
    more: Option<Box<VecDeque<Arc<Digest>>>>,
    /// Time at which the request was sent, in microseconds.
    sent_us: u64,
    /// Execute: number of rows after which the portal is suspended.
    rows_max: u64,
    /// Execute: true if the portal was executed before.
    continues: bool,
}

impl Counted {
    pub(crate) fn new(digest: Arc<Digest>, counting: &Counting) -> Self {
        Self {
            digest: Some(digest),
            sent_us: counting.now_us,
            ..Self::default()
        }
    }

    /// Adds a further statement of the text.
    pub(crate) fn push(&mut self, digest: Arc<Digest>, counting: &Counting) {
        if self.digest.is_none() {
            *self = Self::new(digest, counting);
            return;
        }
        let more = self.more.get_or_insert_default();
        if more.len() < TEXTS_MAX {
            more.push_back(digest);
        }
    }

    /// Charges the client's wait to the statement.
    #[inline]
    pub(crate) fn charge(&self, counting: &mut Counting) {
        if let Some(digest) = &self.digest {
            counting.charge(digest);
        }
    }

    /// True if a statement is counted.
    #[inline]
    pub(crate) fn is_some(&self) -> bool {
        self.digest.is_some()
    }

    /// Takes the digest of the statement that ends, and turns to the next one.
    fn take(&mut self) -> Option<Arc<Digest>> {
        let ended = self.digest.take();
        self.digest = self.more.as_mut().and_then(|more| more.pop_front());
        ended
    }
}

/// Number of rows that a reply stands for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rows<'a> {
    /// As many as the Execute asked for.
    Max,
    /// The number in this body of a CommandComplete.
    Tag(&'a [u8]),
}

/// A portal of the client.
#[derive(Debug)]
struct Portal {
    name: Box<[u8]>,
    digest: Arc<Digest>,
    has_run: bool,
}

/// Knowledge of a server about the statements that it runs.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    /// Time of the present turn in microseconds, of any clock.
    now_us: u64,
    /// Unix time of the present turn in seconds.
    unix: u64,
    /// Microseconds that the client waited for the server, until its first statement is counted.
    wait_us: u64,
    /// Time at which the last statement ended.
    ended_us: u64,
    /// Bytes of the reply that came with earlier input.
    bytes: u64,
    portals: Vec<Portal>,
}

impl Counting {
    /// Sets the time.
    #[inline]
    pub(crate) fn tick(&mut self, now_us: u64, unix: u64) {
        (self.now_us, self.unix) = (now_us, unix);
    }

    pub(crate) fn now_us(&self) -> u64 {
        self.now_us
    }

    pub(crate) fn unix(&self) -> u64 {
        self.unix
    }

    /// Begins a lease, for which the client waited this long.
    #[inline]
    pub(crate) fn begin(&mut self, wait_us: u64) {
        self.wait_us = wait_us;
        self.bytes = 0;
    }

    /// Forgets the portals of the client before.
    #[inline]
    pub(crate) fn forget_portals(&mut self) {
        self.portals.clear();
    }

    /// Charges the client's wait to its first statement.
    #[inline]
    pub(crate) fn charge(&mut self, digest: &Digest) {
        if self.wait_us > 0 {
            digest.wait(std::mem::take(&mut self.wait_us));
        }
    }

    /// Records what a portal will run; `None` if that is not counted.
    pub(crate) fn bind(&mut self, name: &[u8], digest: Option<Arc<Digest>>) {
        let known = self.portals.iter().position(|portal| *portal.name == *name);
        match (known, digest) {
            (Some(place), None) => {
                self.portals.swap_remove(place);
            }
            (Some(place), Some(digest)) => {
                if let Some(portal) = self.portals.get_mut(place) {
                    (portal.digest, portal.has_run) = (digest, false);
                }
            }
            (None, Some(digest)) if self.portals.len() < PORTALS_MAX => self.portals.push(Portal {
                name: name.into(),
                digest,
                has_run: false,
            }),
            (None, _) => {}
        }
    }

    /// Returns what an Execute of a portal counts for.
    pub(crate) fn execute(&mut self, name: &[u8], rows_max: i32) -> Counted {
        let now_us = self.now_us;
        let mut portals = self.portals.iter_mut();
        let Some(portal) = portals.find(|portal| *portal.name == *name) else {
            return Counted::default();
        };
        Counted {
            digest: Some(Arc::clone(&portal.digest)),
            more: None,
            sent_us: now_us,
            rows_max: u64::try_from(rows_max).unwrap_or_default(),
            continues: std::mem::replace(&mut portal.has_run, true),
        }
    }

    /// Counts `bytes` of a reply that has not ended.
    #[inline]
    pub(crate) fn carry(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// Forgets the bytes so far: they belong to no statement.
    #[inline]
    pub(crate) fn drop_bytes(&mut self) {
        self.bytes = 0;
    }

    /// Records that the statement in front has succeeded, `bytes` behind what was carried.
    pub(crate) fn end(&mut self, counted: &mut Counted, rows: Rows<'_>, bytes: usize) {
        let rows = match rows {
            Rows::Max => counted.rows_max,
            Rows::Tag(tag) => rows_of(tag),
        };
        let ended = self.ended(counted, rows, bytes);
        if let Some(digest) = counted.take() {
            digest.end(&ended);
        }
    }

    /// Records that the statement in front has failed; the rest of its text does not run.
    pub(crate) fn fail(&mut self, counted: &mut Counted, code: Option<[u8; 5]>, bytes: usize) {
        let ended = self.ended(counted, 0, bytes);
        if let Some(digest) = std::mem::take(counted).take() {
            digest.fail(&ended, code);
        }
    }

    fn ended(&mut self, counted: &Counted, rows: u64, bytes: usize) -> Ended {
        let begun_us = counted.sent_us.max(self.ended_us);
        self.ended_us = self.now_us;
        Ended {
            rows,
            bytes: std::mem::take(&mut self.bytes) + bytes as u64,
            server_us: self.now_us.saturating_sub(begun_us),
            unix: self.unix,
            continues: counted.continues,
        }
    }
}

/// Returns the number of rows in a tag such as `INSERT 0 5`; 0 if there is none.
#[must_use]
pub fn rows_of(tag: &[u8]) -> u64 {
    let tag = tag.strip_suffix(b"\0").unwrap_or(tag);
    let digits = tag.iter().rev().take_while(|byte| byte.is_ascii_digit());
    let count = digits.count();
    let number = tag.get(tag.len() - count..).unwrap_or_default();
    let number = std::str::from_utf8(number).unwrap_or_default();
    number.parse().unwrap_or_default()
}

#[cfg(test)]
mod tests;
