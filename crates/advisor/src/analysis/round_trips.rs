//! Cost of chatty clients: the same work sent one statement at a time or all at once.

use crate::analysis::sweep::Sweep;

/// Comparison of chatty and pipelined clients at the same number of connections.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// Connections of both.
    pub connections: u32,
    /// Ratio of the throughput, pipelined to chatty.
    pub speed_up: f64,
    /// Cost of each saved round trip, in seconds: network, wakeups and the time in which the server waited for its
    /// client.
    pub round_trip_s: f64,
}

/// Compares the two sweeps at each number of connections that both have. `trips` is the mean number of round trips of a
/// transaction, chatty and pipelined. With 60 % transfers of six and 40 % reads of one it is 4 and 1.
pub fn compare(chatty: &Sweep, pipelined: &Sweep, trips: (f64, f64)) -> Vec<Comparison> {
    let saved = trips.0 - trips.1;
    if saved <= 0.0 {
        return Vec::new();
    }
    chatty
        .points()
        .iter()
        .filter_map(|slow| {
            let fast = pipelined
                .points()
                .iter()
                .find(|fast| fast.connections == slow.connections)?;
            Some(Comparison {
                connections: slow.connections,
                speed_up: fast.tps / slow.tps,
                round_trip_s: (slow.latency_s - fast.latency_s) / saved,
            })
        })
        .collect()
}

/// Returns the cost of a round trip without other waits, that is, at the fewest connections.
pub fn cost_s(comparisons: &[Comparison]) -> Option<f64> {
    comparisons
        .iter()
        .min_by_key(|comparison| comparison.connections)
        .map(|comparison| comparison.round_trip_s)
}
