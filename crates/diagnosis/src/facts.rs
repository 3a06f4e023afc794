//! Facts that a condition is judged by: the present snapshot, with the windows and peaks of the ones before.

use weir_stats::{ApplicationKey, ApplicationRow, HolderRow, PoolRow, Snapshot, WaitReason};

use crate::peaks::Peaks;
use crate::windows::{PoolFigure, PoolTrack, Span, Windows};

/// Name under which workers count applications that had to make room. Its counters leap when one is added.
const OTHER: &str = "(other)";

/// True if the counters of an application are those of one application.
pub(crate) fn is_one((_, _, name): &ApplicationKey) -> bool {
    name != OTHER
}

/// Facts of one sample.
#[derive(Debug)]
pub(crate) struct Facts<'a> {
    pub(crate) now: &'a Snapshot,
    pub(crate) windows: &'a Windows,
    pub(crate) peaks: &'a Peaks,
    /// Pools in the order of their names.
    pub(crate) pools: Vec<PoolFacts<'a>>,
}

/// Facts about one pool.
#[derive(Debug)]
pub(crate) struct PoolFacts<'a> {
    pub(crate) key: &'a (String, String),
    pub(crate) row: &'a PoolRow,
    /// Servers that clients have held for at least a second.
    pub(crate) holders: Vec<&'a HolderRow>,
    windows: &'a Windows,
    /// Windows of the pool; none beyond their bound. Looked up once: the conditions ask many times.
    track: Option<&'a PoolTrack>,
    /// True if the database has no other pool. With a forced user, clients bear other names than their pool.
    is_only: bool,
}

impl<'a> Facts<'a> {
    pub(crate) fn new(now: &'a Snapshot, windows: &'a Windows, peaks: &'a Peaks) -> Self {
        let mut facts = Self {
            now,
            windows,
            peaks,
            pools: Vec::with_capacity(now.pools.len()),
        };
        // Pools of a database stand side by side.
        let mut rows = now.pools.iter().peekable();
        let mut before = None;
        while let Some((key, row)) = rows.next() {
            let database = Some(key.0.as_str());
            let next = rows.peek().map(|(key, _)| key.0.as_str());
            facts.pools.push(PoolFacts {
                key,
                row,
                holders: Vec::new(),
                windows,
                track: windows.pool(key),
                is_only: before != database && next != database,
            });
            before = database;
        }
        for holder in &now.holders {
            if let Some(pool) = facts.pool_of(&holder.database, &holder.user) {
                pool.holders.push(holder);
            }
        }
        facts
    }

    fn pool_of(&mut self, database: &str, user: &str) -> Option<&mut PoolFacts<'a>> {
        let at = self.pools.binary_search_by(|pool| {
            let (of, by) = pool.key;
            (of.as_str(), by.as_str()).cmp(&(database, user))
        });
        let at = at.unwrap_or_else(|next| {
            // The only pool of a database is the one before or behind the place of a missing one.
            let before = next.checked_sub(1).and_then(|at| self.pools.get(at));
            match before {
                Some(before) if before.key.0 == database => next - 1,
                _ => next,
            }
        });
        let pool = self.pools.get_mut(at)?;
        let is_it = pool.key.0 == database && (pool.key.1 == user || pool.is_only);
        is_it.then_some(pool)
    }

    /// Applications of a pool, without those that are counted together.
    pub(crate) fn applications(
        &self,
        pool: &PoolFacts<'_>,
    ) -> impl Iterator<Item = (&'a ApplicationKey, &'a ApplicationRow)> {
        let (database, user) = pool.key.clone();
        let from = if pool.is_only {
            (database.clone(), String::new(), String::new())
        } else {
            (database.clone(), user.clone(), String::new())
        };
        let is_only = pool.is_only;
        let rows = self.now.applications.range(from..);
        let rows =
            rows.take_while(move |((of, by, _), _)| *of == database && (is_only || *by == user));
        rows.filter(|(key, _)| is_one(key))
    }
}

impl PoolFacts<'_> {
    /// Name for people: database and user.
    pub(crate) fn scope(&self) -> String {
        format!("{}/{}", self.key.0, self.key.1)
    }

    /// Change of a figure over a window.
    pub(crate) fn change(&self, figure: PoolFigure, span: Span) -> f64 {
        self.track
            .map_or(0.0, |track| track.change(figure as usize, span))
    }

    /// Change of a figure per second.
    pub(crate) fn rate(&self, figure: PoolFigure, span: Span) -> f64 {
        self.windows.rate(self.change(figure, span), span)
    }

    /// Clients that wait for this reason.
    pub(crate) fn waits(&self, reason: WaitReason) -> u64 {
        let count = self.row.activity.waits.get(&reason);
        count.copied().unwrap_or_default()
    }

    /// Clients that wait because the pool has assigned all its servers.
    pub(crate) fn waits_full(&self) -> u64 {
        self.waits(WaitReason::PoolFull)
            .saturating_add(self.waits(WaitReason::SizeLimit))
    }

    /// Servers that the pool may assign; the open ones if their number has no limit.
    pub(crate) fn size(&self) -> u64 {
        match self.row.size {
            0 => self.row.servers,
            size => size,
        }
    }
}
