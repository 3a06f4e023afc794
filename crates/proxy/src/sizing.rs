//! Pools that find their own size: the figures that workers collect for the controller of `weir-advisor`, and its
//! decisions.
//!
//! Each worker keeps its own totals on the hot path, and publishes a copy here every [`TICK`]. The first worker after a
//! tick is due adds up the copies and asks the controller. Other workers find the lock taken, or nothing due, and go
//! on. No transaction waits for a lock in here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::Duration;

use weir_advisor::controller::{
    Controller, Decision, Goal, Mode, Observation, Phase, Settings, Stillness, Totals, Turns,
};
use weir_config::{HostAddr, PoolSettings, SizingGoal, SizingMode};
use weir_pool::{Moment, Shared};
use weir_stats::{SizingDecision, SizingRow};

use crate::global::{lock, since_start};

/// Period of the controller.
pub(crate) const TICK: Duration = Duration::from_millis(50);

/// Tolerance for a tick that comes early.
const EARLY: Duration = Duration::from_millis(5);

/// Multiple of the size beyond which servers are surplus: no comparison and no step needs them.
const ENOUGH: u32 = 2;

/// Time after a reload during which the size stays: servers may be opened anew, and caches are cold.
const RELOADED: Duration = Duration::from_secs(5);

/// Time after failed logins during which the size stays: servers are missing, and their clients try again.
const FAILED: Duration = Duration::from_secs(5);

/// Maximum number of log lines about one pool per [`LINES_PERIOD`]; further lines are counted.
const LINES_MAX: u32 = 20;
const LINES_PERIOD: Duration = Duration::from_secs(60);

/// Number of decisions that are shown.
const SHOWN: usize = 50;

/// Figures of one worker about a pool.
#[derive(Debug, Clone, Default)]
pub(crate) struct Figures {
    /// Totals since the process began, even if the worker forgot the pool in between.
    pub(crate) totals: Totals,
    /// Number of clients in the queue.
    pub(crate) waiting: u32,
    /// Number of servers that wait for their client inside of a transaction.
    pub(crate) idle_in_transaction: u32,
    /// Number of servers that are kept for long.
    pub(crate) pinned: u32,
}

/// State of one pool that finds its size, shared by all workers.
#[derive(Debug)]
pub(crate) struct Sizing {
    id: u64,
    workers: Box<[Mutex<Figures>]>,
    /// Time after which a transaction counts as pinned, in microseconds.
    pin_after_us: AtomicU64,
    pilot: Mutex<Pilot>,
}

#[derive(Debug)]
struct Pilot {
    controller: Controller,
    /// Tokens of the pool's hosts, in the order in which every pool asks for them.
    turns: Vec<Arc<Mutex<Turns>>>,
    ticked_at: Moment,
    wants_turn: Option<f64>,
    /// End of the pause after a reload, during which no other size is tried.
    still_until: Moment,
    lines: Lines,
}

/// Limit on log lines, which keeps the log readable.
#[derive(Debug, Default)]
struct Lines {
    since: Moment,
    written: u32,
    left_out: u32,
}

impl Lines {
    /// Takes a place for one line. Returns the number of lines left out before it, or `None` if the limit is reached.
    fn take(&mut self, now: Moment) -> Option<u32> {
        if now.since(self.since) >= LINES_PERIOD {
            (self.since, self.written) = (now, 0);
        }
        if self.written >= LINES_MAX {
            self.left_out += 1;
            return None;
        }
        self.written += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

impl Sizing {
    /// Makes the sizing of a pool with these settings, and puts its limit in force.
    pub(crate) fn new(
        settings: &PoolSettings,
        workers: usize,
        id: u64,
        turns: Vec<Arc<Mutex<Turns>>>,
        shared: &Shared,
    ) -> Self {
        let settings = settings_of(settings);
        shared.set_limit(count(settings.size));
        Self {
            id,
            workers: (0..workers).map(|_| Mutex::default()).collect(),
            pin_after_us: AtomicU64::new(u64::MAX),
            pilot: Mutex::new(Pilot {
                controller: Controller::new(settings, id),
                turns,
                ticked_at: Moment(0),
                wants_turn: None,
                still_until: Moment(0),
                lines: Lines::default(),
            }),
        }
    }

    /// Applies the settings of a reload, and the tokens of the hosts that they name. Returns true if waiters have to
    /// look again.
    pub(crate) fn configure(
        &self,
        settings: &PoolSettings,
        turns: Vec<Arc<Mutex<Turns>>>,
        now: Moment,
        shared: &Shared,
    ) -> bool {
        let settings = settings_of(settings);
        let mut pilot = lock(&self.pilot);
        pilot.still_until = now.plus(RELOADED);
        if !are_same(&pilot.turns, &turns) {
            // A pool that has moved holds up no other pool of its former hosts.
            ask_for_turn(&pilot.turns, self.id, None, since_start(now));
            pilot.turns = turns;
        }
        if settings != *pilot.controller.settings() {
            pilot.controller.configure(settings);
        }
        // The next tick decides anew; until then the bounds hold.
        let limit = pilot.controller.status().limit;
        shared.set_limit(count(limit.clamp(settings.size_min, settings.size_max)))
    }

    /// Returns the totals that a worker had counted before it forgot the pool.
    pub(crate) fn totals_of(&self, worker: usize) -> Totals {
        let figures = self.workers.get(worker);
        figures.map_or_else(Totals::default, |figures| lock(figures).totals.clone())
    }

    /// Publishes the figures of a worker.
    pub(crate) fn publish(&self, worker: usize, write: impl FnOnce(&mut Figures)) {
        if let Some(figures) = self.workers.get(worker) {
            write(&mut lock(figures));
        }
    }

    pub(crate) fn pin_after(&self) -> Duration {
        Duration::from_micros(self.pin_after_us.load(Ordering::Relaxed))
    }

    /// Runs the controller if it is due and no other thread runs it. Returns true if waiters have to look again.
    pub(crate) fn tick(&self, now: Moment, name: (&str, &str), shared: &Shared) -> bool {
        let mut pilot = match self.pilot.try_lock() {
            Ok(pilot) => pilot,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        if now.plus(EARLY) < pilot.ticked_at.plus(TICK) {
            return false;
        }
        pilot.ticked_at = now;
        let seen = self.observe(now, &pilot, shared);
        let decision = pilot.controller.tick(&seen);
        pilot.wants_turn = decision.wants_turn;
        let pin_after = u64::try_from(decision.pin_after.as_micros()).unwrap_or(u64::MAX);
        self.pin_after_us.store(pin_after, Ordering::Relaxed);
        pilot.tell(now, name, decision);
        let size = pilot.controller.status().size;
        shared.set_enough(count(ENOUGH.saturating_mul(size.max(decision.limit))));
        shared.set_limit(count(decision.limit))
    }

    fn observe(&self, now: Moment, pilot: &Pilot, shared: &Shared) -> Observation {
        let at = since_start(now);
        let mut seen = Observation {
            now: at,
            in_use: few(shared.assigned()),
            stillness: pilot.stillness(now, shared),
            has_turn: ask_for_turn(&pilot.turns, self.id, pilot.wants_turn, at),
            ..Observation::default()
        };
        for worker in &self.workers {
            let figures = lock(worker);
            seen.totals.add(&figures.totals);
            seen.waiting += figures.waiting;
            seen.idle_in_transaction += figures.idle_in_transaction;
            seen.pinned += figures.pinned;
        }
        seen
    }

    /// Returns the row for `SHOW POOL_SIZE` and the metrics.
    pub(crate) fn row(&self, now: Moment, name: (&str, &str), shared: &Shared) -> SizingRow {
        let pilot = lock(&self.pilot);
        let (status, settings) = (pilot.controller.status(), pilot.controller.settings());
        let at = since_start(now);
        let decisions = pilot.controller.journal().iter().rev().take(SHOWN);
        let decisions = decisions.map(|entry| SizingDecision {
            age_seconds: at.saturating_sub(entry.at).as_secs(),
            from: entry.from.into(),
            to: entry.to.into(),
            reason: entry.reason.clone(),
        });
        SizingRow {
            database: name.0.to_owned(),
            user: name.1.to_owned(),
            mode: match settings.mode {
                Mode::Off => "off",
                Mode::Advise => "advise",
                Mode::On => "on",
            },
            state: match (status.phase, status.frozen) {
                (Phase::Frozen, reason) => reason.unwrap_or("keeps still").to_owned(),
                (Phase::Holding, _) => "holds".to_owned(),
                (Phase::Off, _) => "off".to_owned(),
                (Phase::Probing, _) => "compares".to_owned(),
                (Phase::Ramping, _) => "searches".to_owned(),
            },
            size: u64::from(status.size),
            limit: shared.limit() as u64,
            assigned: shared.assigned() as u64,
            servers: shared.servers() as u64,
            bounds: (u64::from(settings.size_min), u64::from(settings.size_max)),
            knee: status.knee.map(|(low, high)| (low.into(), high.into())),
            elasticity: status.elasticity.map(|found| (found.value, found.error)),
            pairs: status.counts.pairs,
            moves: status.counts.moves,
            stalls: status.counts.stalls,
            cuts: status.counts.cuts,
            decisions: decisions.collect(),
        }
    }
}

impl Pilot {
    fn stillness(&self, now: Moment, shared: &Shared) -> Option<Stillness> {
        let closed = shared.host_closed_until();
        let is_down = closed.is_some_and(|until| now < until.plus(FAILED));
        if shared.is_paused() {
            Some(Stillness::Paused)
        } else if shared.has_obsolete() {
            Some(Stillness::Reconnecting)
        } else if is_down {
            Some(Stillness::Failover)
        } else if now < self.still_until {
            Some(Stillness::Reloaded)
        } else {
            None
        }
    }

    /// Logs each new decision.
    fn tell(&mut self, now: Moment, (database, user): (&str, &str), decision: Decision) {
        let fresh = usize::try_from(decision.entries).unwrap_or(usize::MAX);
        let journal = self.controller.journal();
        for entry in journal.iter().skip(journal.len().saturating_sub(fresh)) {
            match self.lines.take(now) {
                Some(0) => tracing::info!("pool size of {database}/{user}: {entry}"),
                Some(more) => {
                    tracing::info!(
                        "pool size of {database}/{user}: {entry} ({more} earlier lines suppressed)"
                    );
                }
                None => {}
            }
        }
    }
}

/// Requests the tokens of all hosts of a pool, or gives them up (`worth` is `None`). True if the pool has them all. All
/// pools ask in the same order, so two pools never wait for each other.
fn ask_for_turn(turns: &[Arc<Mutex<Turns>>], pool: u64, worth: Option<f64>, at: Duration) -> bool {
    let mut has_all = worth.is_some();
    for turns in turns {
        let worth = worth.filter(|_| has_all);
        has_all &= lock(turns).ask(pool, worth, at);
    }
    has_all
}

fn are_same(these: &[Arc<Mutex<Turns>>], those: &[Arc<Mutex<Turns>>]) -> bool {
    let mut pairs = these.iter().zip(those);
    these.len() == those.len() && pairs.all(|(this, that)| Arc::ptr_eq(this, that))
}

/// Derives the controller's settings from the options.
fn settings_of(pool: &PoolSettings) -> Settings {
    let sizing = &pool.sizing;
    let limits = [pool.max_db_connections, pool.max_user_connections];
    let most = limits.into_iter().filter(|limit| *limit > 0).min();
    let size_max = most.map_or(sizing.max, |most| sizing.max.min(most));
    let size_min = sizing.min.min(size_max);
    let goal = match sizing.goal {
        SizingGoal::Throughput => Goal::Throughput,
        SizingGoal::Balanced => Goal::Balanced,
        SizingGoal::Latency => Goal::Latency,
    };
    Settings {
        mode: match sizing.mode {
            SizingMode::Off => Mode::Off,
            SizingMode::Advise => Mode::Advise,
            SizingMode::On => Mode::On,
        },
        elasticity: goal.elasticity(),
        size: sizing.start.clamp(size_min, size_max),
        size_min,
        size_max,
        cores: cores(&pool.hosts),
        ..Settings::default()
    }
}

/// Returns the number of cores of the hosts, if all hosts are this machine.
fn cores(hosts: &[HostAddr]) -> Option<u32> {
    let is_here = |host: &HostAddr| match host {
        HostAddr::Abstract(_) | HostAddr::UnixDir(_) => true,
        HostAddr::Ip(ip) => ip.is_loopback(),
        HostAddr::Name(name) => name.eq_ignore_ascii_case("localhost"),
    };
    let cores = std::thread::available_parallelism().ok();
    let cores = cores.filter(|_| !hosts.is_empty() && hosts.iter().all(is_here));
    cores.map(|cores| few(cores.get()))
}

/// Returns the class of a transaction that begins with `input`, from what is known before it runs. A query is classed
/// by the text before the first number or string, since these differ from call to call. A prepared statement is classed
/// by its name.
pub(crate) fn class_of(input: &[u8]) -> u8 {
    const WORDS: usize = 6;
    let body = input.get(5..).unwrap_or_default();
    let text = match input.first() {
        // Skips the first string: a Parse's statement name, or a Bind's portal, which precedes the statement name.
        Some(b'P' | b'B') => {
            let name = body.iter().position(|byte| *byte == 0);
            body.get(name.map_or(0, |end| end + 1)..)
                .unwrap_or_default()
        }
        _ => body,
    };
    let is_named = matches!(input.first(), Some(b'B'));
    let mut hash = 0_u64;
    let mut rest = text;
    // Eight bytes at a time: this runs for every transaction.
    for _ in 0..WORDS {
        let word = match rest.split_first_chunk() {
            Some((word, more)) => {
                rest = more;
                u64::from_le_bytes(*word)
            }
            None => rest
                .iter()
                .rev()
                .fold(0, |word, byte| word << 8 | u64::from(*byte)),
        };
        let end = ends_in(word, is_named);
        let begun = word.checked_shl(64 - end).unwrap_or(0) | 0x2020_2020_2020_2020;
        hash = (hash.rotate_left(23) ^ begun).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // A short word has zeros above its bytes, so it has an end.
        if end < 64 {
            break;
        }
    }
    // Only the high bits of a product depend on all of its factors: mix once more for the last word.
    let mixed = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    u8::try_from(mixed >> 58).unwrap_or_default()
}

/// Number of bits of `word` (little-endian) before the first NUL, digit or quote; in a name, before the NUL. "Determine
/// if a word has a byte less than n" (Bit Twiddling Hacks): exact up to the first such byte.
fn ends_in(word: u64, is_named: bool) -> u32 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let less = |word: u64, than: u64| word.wrapping_sub(ONES * than) & !word & (ONES << 7);
    let nul = less(word, 1);
    let found = if is_named {
        nul
    } else {
        let quote = less(word ^ (ONES * u64::from(b'\'')), 1);
        let digit = less(word ^ (ONES * u64::from(b'0')), 10);
        nul | quote | digit
    };
    // The high bit of the first such byte; 64 if there is none.
    found.trailing_zeros() & !7
}

fn count(servers: u32) -> usize {
    usize::try_from(servers).unwrap_or(usize::MAX)
}

pub(crate) fn few(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    fn settings(lines: &str) -> Settings {
        let text = format!(
            "[databases]\na = host=h\n[pgbouncer]\nauth_type=trust\nauth_file=u\npool_mode=transaction\n{lines}\n"
        );
        let mut read = |path: &Path| {
            Ok(if path == Path::new("a.ini") {
                text.clone()
            } else {
                String::new()
            })
        };
        let loaded = weir_config::load(Path::new("a.ini"), &mut read, std::iter::empty());
        settings_of(&loaded.unwrap().settings.pool("a", "u").unwrap())
    }

    #[test]
    fn sizing_follows_the_options() {
        let fixed = settings("default_pool_size = 7");
        assert_eq!(fixed.mode, Mode::Off);
        let found = settings("default_pool_size = auto");
        assert_eq!(found.mode, Mode::On);
        assert_eq!((found.size, found.size_min, found.size_max), (20, 1, 100));
        assert_eq!(found.elasticity, Goal::Balanced.elasticity());
        let other = settings(
            "default_pool_size = auto\npool_size_mode = advise\npool_size_goal = latency\n\
             pool_size_start = 9\npool_size_min = 3\npool_size_max = 40\nmax_db_connections = 30",
        );
        assert_eq!(other.mode, Mode::Advise);
        assert_eq!((other.size, other.size_min, other.size_max), (9, 3, 30));
        assert_eq!(other.elasticity, Goal::Latency.elasticity());
    }

    #[test]
    fn a_class_is_told_by_the_words_and_not_by_what_differs_from_call_to_call() {
        let query = |text: &str| class_of(&[b"Q\0\0\0\0", text.as_bytes(), b"\0"].concat());
        assert_eq!(
            query("SELECT a WHERE id = 17"),
            query("select a where id = 4711")
        );
        assert_ne!(query("SELECT 1"), query("UPDATE t SET a = 1"));
        assert_eq!(
            query("INSERT INTO t VALUES ('abc', 1)"),
            query("INSERT INTO t VALUES ('something else', 2)")
        );
        let tables = [
            "SELECT * FROM orders",
            "SELECT * FROM users",
            "SELECT * FROM items",
        ];
        let classes: BTreeSet<u8> = tables.into_iter().map(query).collect();
        assert!(classes.len() > 1, "{classes:?}");
        let bind = |name: &str| class_of(&[b"B\0\0\0\0\0", name.as_bytes(), b"\0more"].concat());
        assert_ne!(bind("p1"), bind("p2"));
        // The bytes after the name are parameters.
        let other = class_of(b"B\0\0\0\0\0p1\0other");
        assert_eq!(bind("p1"), other);
        for cut in [&b""[..], b"B", b"P\0\0\0\0", b"B\0\0\0\0abc"] {
            assert!(class_of(cut) < 64);
        }
    }

    #[test]
    fn a_word_ends_before_its_first_number_string_or_end() {
        let ends = |text: &[u8; 8], is_named| ends_in(u64::from_le_bytes(*text), is_named) / 8;
        for (text, found) in [
            (b"id = 17 ", 5),
            (b"SELECT *", 8),
            (b"a = 'b' ", 4),
            (b"0       ", 0),
            (b"abc\0 def", 3),
            (b"(a:/;<9>", 6),
            (b"\xb0\xa7\x80\xff\xb9abc", 8),
        ] {
            assert_eq!(ends(text, false), found, "{text:?}");
        }
        assert_eq!(ends(b"p1_'2\0\0\0", true), 5);
    }

    #[test]
    fn the_log_is_not_flooded_and_tells_what_is_left_out() {
        let mut lines = Lines::default();
        let now = Moment(1_000_000_000);
        let written = (0..100).filter(|_| lines.take(now).is_some()).count();
        assert_eq!(written, LINES_MAX as usize);
        assert_eq!(lines.take(now.plus(LINES_PERIOD)), Some(100 - LINES_MAX));
    }
}
