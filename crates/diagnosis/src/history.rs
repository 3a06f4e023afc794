//! History: figures of the process and of the 50 busiest pools, an hour at a second and a day at 30 seconds.
//!
//! A row of a pool has 12 figures of 4 bytes, so a full pool takes (3600 + 2880) x 48 = 311 KB, and 50 pools 15.6 MB.
//! The process adds 156 KB, and the histograms of the sample before 2.1 KB a pool. Rings grow with time: after an hour
//! a pool has 179 KB. A second that is missing is NaN. If the clock is set back, the older points move with it.

use std::collections::BTreeSet;

use weir_stats::{Histogram, PoolRow, Snapshot, Times};

use crate::history::ring::{DAY, DAY_STEP, HOUR, Lines, Reduction, Ring, narrow};
use crate::pace::Step;
use crate::text::float;
use crate::windows::{PoolFigure, Span, Windows};

mod ring;

/// Pools that have series.
const PLACES: usize = 50;
/// Samples between two looks for pools that deserve a place more than others do.
const ELECTION_SAMPLES: u64 = 10;
/// Places that change their pool in one look, at most.
const MOVES_MAX: usize = 5;
/// Score of a waiting client, in transactions per second.
const WAITING_SCORE: f64 = 1000.0;

/// Line of a chart, before it has values.
struct Kind {
    name: &'static str,
    unit: &'static str,
    reduction: Reduction,
}

const fn mean(name: &'static str, unit: &'static str) -> Kind {
    let reduction = Reduction::Mean;
    Kind {
        name,
        unit,
        reduction,
    }
}

const fn highest(name: &'static str, unit: &'static str) -> Kind {
    let reduction = Reduction::Highest;
    Kind {
        name,
        unit,
        reduction,
    }
}

/// Figures of a pool.
const POOL: [Kind; 12] = [
    mean("transactions", "1/s"),
    mean("queries", "1/s"),
    highest("waiting", "clients"),
    highest("oldest_wait", "s"),
    highest("wait_p99", "s"),
    highest("query_p99", "s"),
    mean("servers", "servers"),
    mean("leased", "servers"),
    mean("idle_in_transaction", "clients"),
    mean("clients", "clients"),
    mean("errors", "1/s"),
    mean("bytes", "B/s"),
];

/// Figures of the process.
const PROCESS: [Kind; 6] = [
    mean("cpu", "cores"),
    mean("resident", "B"),
    mean("clients", "clients"),
    highest("waiting", "clients"),
    mean("servers", "servers"),
    mean("transactions", "1/s"),
];

/// Values of several figures over the same time.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Time of the first point in Unix seconds. A point stands for the time from its own on.
    pub start: i64,
    /// Seconds between two points.
    pub step_seconds: u32,
    /// Lines, in the same order for all objects of a kind.
    pub lines: Vec<Line>,
}

/// Values of one figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Name of the figure.
    pub name: &'static str,
    /// Unit of the values.
    pub unit: &'static str,
    /// Values, oldest first; NaN if unknown.
    pub values: Vec<f32>,
}

/// Rings of the process and of pools.
#[derive(Debug, Default)]
pub(crate) struct History {
    process: Lines<6>,
    places: Vec<Place>,
    /// Time of the newest row of the hour, in Unix seconds.
    end: i64,
    /// Time of the newest row of the day.
    day_end: i64,
    /// Rows of the hour that the day does not have yet.
    pending: usize,
    samples: u64,
}

/// Rings of one pool.
#[derive(Debug)]
struct Place {
    key: (String, String),
    scope: String,
    lines: Lines<12>,
    /// Histograms of waits and queries at the sample before; none without one.
    before: Option<Box<(Histogram, Histogram)>>,
}

impl History {
    /// Adds a sample.
    pub(crate) fn sample(&mut self, snapshot: &Snapshot, windows: &Windows, step: Step) {
        let is_known = step.is_continuous();
        if self.samples.is_multiple_of(ELECTION_SAMPLES) || self.places.len() < PLACES {
            self.elect(snapshot, windows);
        }
        self.samples += 1;
        self.skip(step);
        let is_same_second = step == Step::Regular(0);
        // A sample that is late by less than a second stands for both: its rates are those of two seconds.
        let rows = if step == Step::Regular(2) { 2 } else { 1 };
        let process = process_row(snapshot, windows, is_known);
        put(&mut self.process.hour, process, rows, is_same_second);
        for place in &mut self.places {
            let row = place.row(snapshot.pools.get(&place.key), windows, is_known);
            put(&mut place.lines.hour, row, rows, is_same_second);
        }
        self.end = snapshot.unix;
        if !is_same_second {
            self.pending += rows;
        }
        self.end_day_steps();
    }

    /// Adds unknown rows for the seconds that are missing.
    fn skip(&mut self, step: Step) {
        let missing = match step {
            Step::Late(seconds) | Step::Gap(seconds) => seconds as usize - 1,
            Step::First | Step::Regular(_) | Step::Back => return,
        };
        if missing >= DAY * DAY_STEP {
            self.process = Lines::default();
            self.places.clear();
            self.pending = 0;
            return;
        }
        for _ in 0..missing {
            self.process.hour.push([f32::NAN; 6]);
            for place in &mut self.places {
                place.lines.hour.push([f32::NAN; 12]);
            }
            self.pending += 1;
            self.end += 1;
            self.end_day_steps();
        }
    }

    fn end_day_steps(&mut self) {
        if self.pending < DAY_STEP {
            return;
        }
        self.pending -= DAY_STEP;
        self.day_end = self.end;
        self.process
            .end_day_step(&PROCESS.each_ref().map(|kind| kind.reduction));
        let reductions = POOL.each_ref().map(|kind| kind.reduction);
        for place in &mut self.places {
            place.lines.end_day_step(&reductions);
        }
    }

    /// Gives places to the pools that deserve them: free ones, then those of the least busy pools. A pool has to be
    /// twice as busy as the one that it drives out, so that two equal ones do not take turns.
    fn elect(&mut self, snapshot: &Snapshot, windows: &Windows) {
        let present: BTreeSet<_> = self.places.iter().map(|place| &place.key).collect();
        let others = snapshot.pools.iter();
        let others = others.filter(|(key, _)| !present.contains(key));
        let mut others: Vec<_> = others
            .map(|(key, row)| (score(key, Some(row), windows), key))
            .collect();
        others.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        let mut moves = 0;
        for (wish, key) in others {
            if self.places.len() < PLACES {
                self.places.push(Place::new(key.clone()));
                continue;
            }
            let scores = self.places.iter_mut().map(|place| {
                let row = snapshot.pools.get(&place.key);
                (score(&place.key, row, windows), place)
            });
            let Some((least, place)) = scores.min_by(|(a, _), (b, _)| a.total_cmp(b)) else {
                return;
            };
            if moves >= MOVES_MAX || wish <= 2.0 * least.max(0.0) {
                return;
            }
            *place = Place::new(key.clone());
            moves += 1;
        }
    }

    /// Scopes of the pools with series.
    pub(crate) fn scopes(&self) -> impl Iterator<Item = &str> {
        self.places.iter().map(|place| place.scope.as_str())
    }

    /// Bytes that the rings take.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        let places = self.places.iter();
        let pools: usize = places
            .map(|place| place.lines.hour.bytes() + place.lines.day.bytes())
            .sum();
        pools + self.process.hour.bytes() + self.process.day.bytes()
    }

    /// Returns the series of an object, reduced to at most `points_max` points.
    pub(crate) fn series(
        &self,
        scope: &str,
        window_seconds: u32,
        points_max: usize,
    ) -> Option<Series> {
        let cut = Cut::new(self, window_seconds, points_max);
        if scope.is_empty() {
            return Some(cut.series(&self.process, &PROCESS));
        }
        let place = self.places.iter().find(|place| place.scope == scope)?;
        Some(cut.series(&place.lines, &POOL))
    }
}

/// Score of a pool for a place in the history; below 0 if the pool is gone.
fn score(key: &(String, String), row: Option<&PoolRow>, windows: &Windows) -> f64 {
    let Some(row) = row else {
        return -1.0;
    };
    let track = windows.pool(key);
    let change = track.map_or(0.0, |track| {
        track.change(PoolFigure::Transactions as usize, Span::Long)
    });
    float(row.counts.cl_waiting) * WAITING_SCORE + windows.rate(change, Span::Long)
}

fn put<const N: usize>(ring: &mut Ring<N>, row: [f32; N], rows: usize, is_same_second: bool) {
    if is_same_second && ring.len() > 0 {
        ring.replace(row);
        return;
    }
    (0..rows).for_each(|_| ring.push(row));
}

fn process_row(snapshot: &Snapshot, windows: &Windows, is_known: bool) -> [f32; 6] {
    let pools = snapshot.pools.values();
    let (mut clients, mut waiting, mut servers) = (0_u64, 0_u64, 0_u64);
    for row in pools {
        clients = row.clients.saturating_add(clients);
        waiting = row.counts.cl_waiting.saturating_add(waiting);
        servers = row.servers.saturating_add(servers);
    }
    let transactions = windows.last_of_pools(PoolFigure::Transactions);
    let known = |value: f64| if is_known { narrow(value) } else { f32::NAN };
    [
        known(windows.process_load_now()),
        narrow(float(snapshot.process.resident_bytes)),
        narrow(float(clients)),
        narrow(float(waiting)),
        narrow(float(servers)),
        known(transactions),
    ]
}

impl Place {
    fn new(key: (String, String)) -> Self {
        Self {
            scope: format!("{}/{}", key.0, key.1),
            key,
            lines: Lines::default(),
            before: None,
        }
    }

    fn row(&mut self, row: Option<&PoolRow>, windows: &Windows, is_known: bool) -> [f32; 12] {
        let Some(row) = row else {
            self.before = None;
            return [f32::NAN; 12];
        };
        let track = windows.pool(&self.key);
        let rate = |figure: PoolFigure| match track {
            Some(track) if is_known => narrow(windows.last(track, figure as usize)),
            _ => f32::NAN,
        };
        let [wait, query] = self.percentiles(row.times.as_deref(), is_known);
        let gauge = |value: u64| narrow(float(value));
        [
            rate(PoolFigure::Transactions),
            rate(PoolFigure::Queries),
            gauge(row.counts.cl_waiting),
            narrow(float(row.maxwait_us) / 1e6),
            wait,
            query,
            gauge(row.servers),
            gauge(row.leased),
            gauge(row.activity.in_transaction),
            gauge(row.clients),
            rate(PoolFigure::Errors),
            rate(PoolFigure::Bytes),
        ]
    }

    /// 99th percentiles of waits and queries since the sample before, in seconds; NaN without any.
    fn percentiles(&mut self, times: Option<&Times>, is_known: bool) -> [f32; 2] {
        let Some(times) = times else {
            return [f32::NAN; 2];
        };
        let of = |now: &Histogram, before: &Histogram| {
            let percentile = (now - before).percentile(0.99);
            percentile.map_or(f32::NAN, |us| narrow(float(us) / 1e6))
        };
        let found = match &self.before {
            Some(before) if is_known => [of(&times.wait, &before.0), of(&times.query, &before.1)],
            _ => [f32::NAN; 2],
        };
        match &mut self.before {
            Some(before) => **before = (times.wait.clone(), times.query.clone()),
            before @ None => *before = Some(Box::new((times.wait.clone(), times.query.clone()))),
        }
        found
    }
}

/// Part of the rings that a series shows.
struct Cut {
    is_day: bool,
    end: i64,
    rows: usize,
    /// Rows that become a point.
    group: usize,
    seconds: usize,
}

impl Cut {
    fn new(history: &History, window_seconds: u32, points_max: usize) -> Self {
        let window = window_seconds as usize;
        let is_day = window > HOUR;
        let (seconds, capacity, end) = match is_day {
            true => (DAY_STEP, DAY, history.day_end),
            false => (1, HOUR, history.end),
        };
        let rows = window.div_ceil(seconds).min(capacity);
        let group = rows.div_ceil(points_max.max(1)).max(1);
        Self {
            is_day,
            end,
            rows,
            group,
            seconds,
        }
    }

    fn series<const N: usize>(&self, lines: &Lines<N>, kinds: &[Kind; N]) -> Series {
        let ring = if self.is_day { &lines.day } else { &lines.hour };
        let count = self.rows.min(ring.len());
        let length = |rows: usize| i64::try_from(rows * self.seconds).unwrap_or(i64::MAX);
        // Time at which the oldest row begins; `end` is the time at which the newest one ends.
        let first = self.end.saturating_sub(length(count));
        // Points begin at multiples of the step, so that they stay where they are while time goes on.
        let step = length(self.group);
        let partial = first.rem_euclid(step);
        let dropped = match partial {
            0 => 0,
            partial => usize::try_from(step - partial).unwrap_or(0) / self.seconds,
        };
        let dropped = if dropped < count { dropped } else { 0 };
        let rows: Vec<_> = ring.last(count - dropped).collect();
        let lines = kinds.iter().enumerate().map(|(figure, kind)| {
            let values = rows.chunks(self.group).map(|rows| {
                let values = rows.iter().map(|row| row.get(figure));
                kind.reduction
                    .of(values.map(|value| value.copied().unwrap_or(f32::NAN)))
            });
            Line {
                name: kind.name,
                unit: kind.unit,
                values: values.collect(),
            }
        });
        Series {
            start: first.saturating_add(length(dropped)),
            step_seconds: u32::try_from(step).unwrap_or(u32::MAX),
            lines: lines.collect(),
        }
    }
}

#[cfg(test)]
mod tests;
