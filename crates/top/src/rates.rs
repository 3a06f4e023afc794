//! Rates of the whole pooler: increase of the totals of SHOW STATS between two answers, and their history.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use weir_proxy::blocking::Table;

use crate::data::{field, is_console, number};

/// Number of samples that are kept.
const HISTORY_MAX: usize = 240;

/// Transactions and queries.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Pair {
    pub(crate) transactions: f64,
    pub(crate) queries: f64,
}

/// Totals by database at a time.
#[derive(Debug, Clone)]
struct Sample {
    at: Duration,
    totals: BTreeMap<String, Pair>,
}

/// Rates now and before.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rates {
    last: Option<Sample>,
    now: Option<Pair>,
    /// Transactions per second, the latest last.
    transactions: VecDeque<u64>,
    /// Waiting clients, the latest last.
    waiting: VecDeque<u64>,
    /// Time at which counters had fallen.
    fell_at: Option<Duration>,
}

impl Rates {
    /// Takes a new answer: totals of SHOW STATS, and the number of waiting clients.
    pub(crate) fn add(&mut self, at: Duration, stats: &Table, waiting: Option<f64>) {
        let sample = Sample {
            at,
            totals: totals(stats),
        };
        if let Some(last) = self.last.take() {
            self.now = self.rate(&last, &sample);
        }
        self.last = Some(sample);
        if let Some(now) = self.now {
            push(&mut self.transactions, now.transactions);
        }
        if let Some(waiting) = waiting {
            push(&mut self.waiting, waiting);
        }
    }

    fn rate(&mut self, last: &Sample, sample: &Sample) -> Option<Pair> {
        let seconds = sample.at.checked_sub(last.at)?.as_secs_f64();
        if seconds <= 0.0 {
            return self.now;
        }
        let mut sum = Pair::default();
        let mut fell = false;
        for (database, now) in &sample.totals {
            let before = last.totals.get(database).copied().unwrap_or_default();
            fell |= now.transactions < before.transactions || now.queries < before.queries;
            sum.transactions += now.transactions - before.transactions;
            sum.queries += now.queries - before.queries;
        }
        if fell {
            self.fell_at = Some(sample.at);
            return None;
        }
        Some(Pair {
            transactions: sum.transactions / seconds,
            queries: sum.queries / seconds,
        })
    }

    /// Rates between the last two answers; `None` before the second one, and after a restart.
    pub(crate) const fn now(&self) -> Option<Pair> {
        self.now
    }

    pub(crate) const fn transactions(&self) -> &VecDeque<u64> {
        &self.transactions
    }

    pub(crate) const fn waiting(&self) -> &VecDeque<u64> {
        &self.waiting
    }

    /// Time at which counters had fallen, which a restart of the pooler explains.
    pub(crate) const fn fell_at(&self) -> Option<Duration> {
        self.fell_at
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "heights of a sparkline: saturation is right, and values are not negative"
)]
fn push(history: &mut VecDeque<u64>, value: f64) {
    if history.len() == HISTORY_MAX {
        history.pop_front();
    }
    history.push_back(value.round() as u64);
}

/// Totals by database, without the console's own.
fn totals(stats: &Table) -> BTreeMap<String, Pair> {
    let mut totals = BTreeMap::new();
    for row in &stats.rows {
        let database = field(stats, row, "database").unwrap_or_default();
        let read = |name: &str| number(stats, row, name);
        let counts = (read("total_xact_count"), read("total_query_count"));
        if let (false, (Some(transactions), Some(queries))) = (is_console(database), counts) {
            let pair = Pair {
                transactions,
                queries,
            };
            totals.insert(database.to_owned(), pair);
        }
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(rows: &[(&str, u32, u32)]) -> Table {
        let columns = ["total_query_count", "database", "total_xact_count"];
        let row = |(database, transactions, queries): &(&str, u32, u32)| {
            let values = [
                queries.to_string(),
                (*database).to_owned(),
                transactions.to_string(),
            ];
            values.map(Some).to_vec()
        };
        Table {
            columns: columns.map(str::to_owned).to_vec(),
            rows: rows.iter().map(row).collect(),
            ..Table::default()
        }
    }

    #[test]
    fn rates_are_increases_by_the_time_between_two_answers() {
        let mut rates = Rates::default();
        let second = Duration::from_secs;
        rates.add(
            second(1),
            &stats(&[("a", 10, 20), ("pgbouncer", 5, 5)]),
            Some(1.0),
        );
        assert_eq!(rates.now(), None);
        rates.add(
            second(3),
            &stats(&[("a", 30, 60), ("b", 2, 4), ("pgbouncer", 99, 99)]),
            None,
        );
        let pair = Pair {
            transactions: 11.0,
            queries: 22.0,
        };
        assert_eq!(rates.now(), Some(pair));
        assert_eq!(rates.transactions(), &[11]);
        assert_eq!(rates.waiting(), &[1]);
    }

    #[test]
    fn counters_that_fell_are_a_restart_and_no_rate() {
        let mut rates = Rates::default();
        let second = Duration::from_secs;
        rates.add(second(1), &stats(&[("a", 10, 20)]), None);
        rates.add(second(2), &stats(&[("a", 3, 4)]), None);
        assert_eq!((rates.now(), rates.fell_at()), (None, Some(second(2))));
        rates.add(second(3), &stats(&[("a", 4, 6)]), None);
        assert_eq!(
            rates.now(),
            Some(Pair {
                transactions: 1.0,
                queries: 2.0
            })
        );
    }
}
