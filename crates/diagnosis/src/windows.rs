//! Changes of counters over the last 10 and 60 samples, and a baseline of the last hour, in bounded memory.
//!
//! A window has samples, not seconds, and knows the seconds that they cover: a rate stays right if a sample is late. A
//! gap empties all windows. A counter that falls, because a worker or a table began anew, counts as 0.

use std::collections::BTreeMap;

use weir_stats::{ApplicationKey, Blame, PoolRow, Snapshot};

use crate::pace::Step;

/// Samples of the short window.
pub(crate) const SHORT: usize = 10;
/// Samples of the long window.
pub(crate) const LONG: usize = 60;

/// Pools with windows, at most; each takes 4.2 KiB.
const POOLS_MAX: usize = 1024;
/// Applications with windows, at most; each takes 1.2 KiB.
const APPLICATIONS_MAX: usize = 512;
/// Hosts with windows, at most; each takes 0.6 KiB.
const HOSTS_MAX: usize = 256;
/// Codes of errors with windows, at most; each takes 0.6 KiB. There are fewer codes than this.
const CODES_MAX: usize = 1024;
/// Workers with windows, at most; each takes 0.3 KiB.
const WORKERS_MAX: usize = 1024;

/// Length of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Span {
    /// Last [`SHORT`] samples.
    Short,
    /// Last [`LONG`] samples.
    Long,
}

/// Figures of a pool that have windows. The last two are gauges: their window is the sum of the samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PoolFigure {
    Transactions,
    Queries,
    QueryTime,
    ClientLogins,
    ServerLogins,
    ServersLost,
    ServerParses,
    Evictions,
    Binds,
    WaitTimeouts,
    Errors,
    ListenOverflows,
    Bytes,
    Leased,
    InQuery,
    InTransaction,
}

const POOL_FIGURES: usize = 16;
const POOL_GAUGES: usize = 3;

/// Windows of a pool.
pub(crate) type PoolTrack = Track<POOL_FIGURES>;

fn pool_figures(row: &PoolRow) -> [u64; POOL_FIGURES] {
    let totals = &row.totals;
    [
        totals.transactions,
        totals.queries,
        totals.query_us,
        totals.client_logins,
        totals.server_logins,
        totals.servers_lost,
        totals.server_parses,
        totals.statement_evictions,
        totals.binds,
        totals.wait_timeouts,
        totals.errors,
        totals.listen_overflows,
        totals.bytes_received.wrapping_add(totals.bytes_sent),
        row.leased,
        row.activity.in_query,
        row.activity.in_transaction,
    ]
}

/// Figures of an application that have windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApplicationFigure {
    BusyTime,
    Errors,
    Logins,
}

const APPLICATION_FIGURES: usize = 3;

/// Figures of logins at a host that have windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoginFigure {
    Succeeded,
    Failed,
}

const LOGIN_FIGURES: usize = 2;

/// Windows over all counters that the conditions need.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    ring: Ring,
    pools: Tracks<(String, String), POOL_FIGURES>,
    applications: Tracks<ApplicationKey, APPLICATION_FIGURES>,
    logins: Tracks<String, LOGIN_FIGURES>,
    /// Bytes that a replica lacks, as a gauge, by database and host.
    lags: Tracks<(String, String), 1>,
    errors: Tracks<(Blame, &'static str), 1>,
    hours: BTreeMap<(Blame, &'static str), Hour>,
    workers: Tracks<usize, 1>,
    /// Processor time, throttled periods, and broken look-ups.
    process: Tracks<(), 3>,
}

impl Windows {
    /// Adds a sample.
    pub(crate) fn sample(&mut self, snapshot: &Snapshot, step: Step) {
        self.ring.advance(step);
        let ring = &self.ring;
        let pools = snapshot.pools.iter();
        let pools = pools.map(|(key, row)| (key, pool_figures(row)));
        self.pools.sample(ring, POOLS_MAX, POOL_GAUGES, pools);
        let applications = snapshot.applications.iter().map(|(key, row)| {
            let counters = &row.counters;
            let figures = [counters.transaction_us, counters.errors, row.logins];
            (key, figures)
        });
        self.applications
            .sample(ring, APPLICATIONS_MAX, 0, applications);
        let logins = snapshot.logins.iter();
        let logins = logins.map(|(host, row)| (host, [row.succeeded, row.failed]));
        self.logins.sample(ring, HOSTS_MAX, 0, logins);
        let errors = snapshot.errors.iter().map(|(key, count)| (key, [*count]));
        self.errors.sample(ring, CODES_MAX, 0, errors);
        let workers = snapshot.workers.iter();
        let workers = workers.map(|row| (&row.worker, [row.cpu_us]));
        self.workers.sample(ring, WORKERS_MAX, 0, workers);
        let process = &snapshot.process;
        let process = [process.cpu_us, process.throttled, snapshot.broken_lookups];
        self.process.sample(ring, 1, 0, [(&(), process)]);
        self.sample_lags(snapshot);
        self.sample_hours(step);
    }

    fn sample_lags(&mut self, snapshot: &Snapshot) {
        let hosts = snapshot.database_hosts.iter().take(HOSTS_MAX);
        let keys: Vec<_> = hosts
            .map(|row| {
                let key = (row.database.clone(), row.host.clone());
                (key, [row.lag_bytes.unwrap_or(0)])
            })
            .collect();
        let rows = keys.iter().map(|(key, figures)| (key, *figures));
        self.lags.sample(&self.ring, HOSTS_MAX, 1, rows);
    }

    fn sample_hours(&mut self, step: Step) {
        let at = self.ring.at;
        for (key, track) in &self.errors.tracks {
            let latest = track.latest(0, at);
            self.hours.entry(*key).or_default().add(latest);
        }
        if self.ring.is_minute(step) {
            self.hours.values_mut().for_each(Hour::end_minute);
        }
    }

    /// Seconds that a window covers.
    pub(crate) fn seconds(&self, span: Span) -> f64 {
        match span {
            Span::Short => self.ring.short_seconds,
            Span::Long => self.ring.long_seconds,
        }
    }

    /// Change of a figure per second of a window.
    pub(crate) fn rate(&self, change: f64, span: Span) -> f64 {
        let seconds = self.seconds(span);
        if seconds > 0.0 { change / seconds } else { 0.0 }
    }

    /// Number of samples since the last gap, up to [`LONG`].
    pub(crate) fn samples(&self) -> usize {
        self.ring.filled
    }

    /// Change of a figure per second in the present sample.
    pub(crate) fn last<const N: usize>(&self, track: &Track<N>, figure: usize) -> f64 {
        let seconds = self.ring.seconds.get(self.ring.at).copied();
        f64::from(track.latest(figure, self.ring.at)) / seconds.unwrap_or(1.0).max(1.0)
    }

    /// Change of a figure of all pools per second in the present sample.
    pub(crate) fn last_of_pools(&self, figure: PoolFigure) -> f64 {
        let tracks = self.pools.tracks.values();
        tracks.map(|track| self.last(track, figure as usize)).sum()
    }

    /// Processor time of the process in the present sample, as a number of cores.
    pub(crate) fn process_load_now(&self) -> f64 {
        let track = self.process.tracks.get(&());
        track.map_or(0.0, |track| self.last(track, 0) / 1e6)
    }

    /// Windows of a pool.
    pub(crate) fn pool(&self, key: &(String, String)) -> Option<&PoolTrack> {
        self.pools.tracks.get(key).map(|track| &**track)
    }

    /// Change of a figure of an application.
    pub(crate) fn application(
        &self,
        key: &ApplicationKey,
        figure: ApplicationFigure,
        span: Span,
    ) -> f64 {
        self.applications.change(key, figure as usize, span)
    }

    /// Change of the logins at a host.
    pub(crate) fn logins(&self, host: &String, figure: LoginFigure, span: Span) -> f64 {
        self.logins.change(host, figure as usize, span)
    }

    /// Errors of a code.
    pub(crate) fn errors(&self, key: (Blame, &'static str), span: Span) -> f64 {
        self.errors.change(&key, 0, span)
    }

    /// Errors of a code in the median minute of the last hour; none before five minutes are known.
    pub(crate) fn errors_usual(&self, key: (Blame, &'static str)) -> Option<f32> {
        self.hours.get(&key)?.median(self.ring.minutes)
    }

    /// Processor time of a worker as a share of one core.
    pub(crate) fn worker_load(&self, worker: usize) -> f64 {
        let change = self.workers.change(&worker, 0, Span::Short);
        self.rate(change, Span::Short) / 1e6
    }

    /// Periods of the last minute in which the control group took the processor away.
    pub(crate) fn throttled(&self) -> f64 {
        self.process.change(&(), 1, Span::Long)
    }

    /// Broken look-ups of the last minute.
    pub(crate) fn broken_lookups(&self) -> f64 {
        self.process.change(&(), 2, Span::Long)
    }

    /// Growth of a replica's lag over the short window, in bytes; none before the window is full.
    pub(crate) fn lag_growth(&self, database: &str, host: &str) -> Option<f64> {
        let track = self
            .lags
            .tracks
            .get(&(database.to_owned(), host.to_owned()))?;
        let before = (self.ring.filled > SHORT).then(|| {
            let at = (self.ring.at + LONG - SHORT) % LONG;
            track.latest(0, at)
        })?;
        Some(f64::from(track.latest(0, self.ring.at)) - f64::from(before))
    }
}

impl<const N: usize> Track<N> {
    /// Change of a figure over a window.
    pub(crate) fn change(&self, figure: usize, span: Span) -> f64 {
        let sums = match span {
            Span::Short => &self.short,
            Span::Long => &self.long,
        };
        sums.get(figure).copied().unwrap_or_default()
    }

    fn latest(&self, figure: usize, at: usize) -> f32 {
        let slots = self.slots.get(figure);
        slots
            .and_then(|slots| slots.get(at))
            .copied()
            .unwrap_or(0.0)
    }
}

/// Windows of one object. Each change is a whole number, so that the sums stay exact.
#[derive(Debug)]
pub(crate) struct Track<const N: usize> {
    totals: [u64; N],
    slots: [[f32; LONG]; N],
    short: [f64; N],
    long: [f64; N],
    /// Number of the sample that had this object last.
    seen: u64,
}

impl<const N: usize> Track<N> {
    fn starting_at(totals: [u64; N]) -> Self {
        Self {
            totals,
            slots: [[0.0; LONG]; N],
            short: [0.0; N],
            long: [0.0; N],
            seen: 0,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a rate needs no more")]
    fn push(&mut self, ring: &Ring, gauges: usize, totals: [u64; N]) {
        let sums = self.short.iter_mut().zip(&mut self.long);
        let figures = self.totals.iter_mut().zip(&mut self.slots).zip(sums);
        for (figure, ((last, slots), (short, long))) in figures.enumerate() {
            let total = totals.get(figure).copied().unwrap_or_default();
            let change = match (figure + gauges >= N, ring.is_continuous) {
                (true, _) => total as f32,
                (false, true) => total.saturating_sub(*last) as f32,
                (false, false) => 0.0,
            };
            *last = total;
            if ring.filled <= 1 {
                (*short, *long) = (0.0, 0.0);
                slots.fill(0.0);
            }
            let leaves_short = slots.get(ring.leaving).copied().unwrap_or_default();
            *short += f64::from(change) - f64::from(leaves_short);
            if let Some(slot) = slots.get_mut(ring.at) {
                *long += f64::from(change) - f64::from(*slot);
                *slot = change;
            }
        }
        self.seen = ring.sample;
    }
}

/// Windows of all objects of one kind, with a bound on their number.
#[derive(Debug)]
struct Tracks<K, const N: usize> {
    tracks: BTreeMap<K, Box<Track<N>>>,
    /// True if objects of the last sample found no place.
    is_over: bool,
}

impl<K, const N: usize> Default for Tracks<K, N> {
    fn default() -> Self {
        Self {
            tracks: BTreeMap::new(),
            is_over: false,
        }
    }
}

impl<K: Ord + Clone, const N: usize> Tracks<K, N> {
    /// Adds a sample of all objects. Objects that are no longer there lose their windows.
    fn sample<'a>(
        &mut self,
        ring: &Ring,
        max: usize,
        gauges: usize,
        rows: impl IntoIterator<Item = (&'a K, [u64; N])>,
    ) where
        K: 'a,
    {
        // An object that is new begins at 0, unless it may have been there without a place.
        let begins_at_zero = ring.is_continuous && !self.is_over;
        self.is_over = false;
        for (key, totals) in rows {
            if let Some(track) = self.tracks.get_mut(key) {
                track.push(ring, gauges, totals);
            } else if self.tracks.len() < max {
                let start = if begins_at_zero { [0; N] } else { totals };
                let mut track = Box::new(Track::starting_at(start));
                track.push(ring, gauges, totals);
                self.tracks.insert(key.clone(), track);
            } else {
                self.is_over = true;
            }
        }
        self.tracks.retain(|_, track| track.seen == ring.sample);
    }

    fn change(&self, key: &K, figure: usize, span: Span) -> f64 {
        let track = self.tracks.get(key);
        track.map_or(0.0, |track| track.change(figure, span))
    }
}

/// Position in the rings of all windows, and the seconds that they cover.
#[derive(Debug)]
struct Ring {
    /// Number of the sample.
    sample: u64,
    /// Slot of the sample.
    at: usize,
    /// Slot that leaves the short window with this sample.
    leaving: usize,
    /// Samples since the last gap, up to [`LONG`].
    filled: usize,
    /// True if the changes since the sample before count.
    is_continuous: bool,
    seconds: [f64; LONG],
    short_seconds: f64,
    long_seconds: f64,
    /// Seconds of the present minute of the baseline.
    minute_seconds: u64,
    /// Minutes of the baseline that are over.
    minutes: usize,
}

impl Default for Ring {
    fn default() -> Self {
        Self {
            sample: 0,
            at: 0,
            leaving: 0,
            filled: 0,
            is_continuous: false,
            seconds: [0.0; LONG],
            short_seconds: 0.0,
            long_seconds: 0.0,
            minute_seconds: 0,
            minutes: 0,
        }
    }
}

impl Ring {
    fn advance(&mut self, step: Step) {
        self.sample += 1;
        self.at = (self.at + 1) % LONG;
        self.leaving = (self.at + LONG - SHORT) % LONG;
        self.is_continuous = step.is_continuous();
        if !self.is_continuous {
            self.filled = 0;
            self.seconds = [0.0; LONG];
            (self.short_seconds, self.long_seconds) = (0.0, 0.0);
        }
        self.filled = (self.filled + 1).min(LONG);
        let covered = match step {
            Step::Regular(seconds) | Step::Late(seconds) => f64::from(seconds),
            Step::First | Step::Gap(_) | Step::Back => 0.0,
        };
        let leaves_short = self.seconds.get(self.leaving).copied().unwrap_or_default();
        self.short_seconds += covered - leaves_short;
        if let Some(slot) = self.seconds.get_mut(self.at) {
            self.long_seconds += covered - *slot;
            *slot = covered;
        }
    }

    /// True if a minute of the baseline ends with this sample.
    fn is_minute(&mut self, step: Step) -> bool {
        self.minute_seconds += if step.is_continuous() {
            step.seconds()
        } else {
            0
        };
        let is_over = self.minute_seconds >= 60;
        if is_over {
            self.minute_seconds = 0;
            self.minutes = (self.minutes + 1).min(Hour::MINUTES);
        }
        is_over
    }
}

/// Changes of a counter in each minute of the last hour.
#[derive(Debug, Default)]
struct Hour {
    minutes: Vec<f32>,
    at: usize,
    present: f32,
}

impl Hour {
    const MINUTES: usize = 60;
    /// Minutes without which there is no baseline.
    const MINUTES_MIN: usize = 5;

    fn add(&mut self, change: f32) {
        self.present += change;
    }

    fn end_minute(&mut self) {
        let over = std::mem::take(&mut self.present);
        if self.minutes.len() < Self::MINUTES {
            self.minutes.push(over);
            return;
        }
        if let Some(slot) = self.minutes.get_mut(self.at) {
            *slot = over;
        }
        self.at = (self.at + 1) % Self::MINUTES;
    }

    /// Change in the median minute; `known` minutes have passed, those before the first change had none. The median
    /// stays what is usual for half an hour of a storm, while a mean would follow it.
    fn median(&self, known: usize) -> Option<f32> {
        if known < Self::MINUTES_MIN {
            return None;
        }
        let mut minutes = self.minutes.clone();
        minutes.resize(known.max(minutes.len()), 0.0);
        minutes.sort_unstable_by(f32::total_cmp);
        minutes.get(minutes.len() / 2).copied()
    }
}

#[cfg(test)]
mod tests;
