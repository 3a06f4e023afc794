//! Number of receive buffers that the kernel should have. Pure: no system calls.

use crate::token::Token;

/// See the module's page.
///
/// The number doubles when the kernel had too few for the connections that received in one turn. It stays when a few
/// connections have used them all: more buffers would only let these bring more than can be passed on.
#[derive(Debug)]
pub(crate) struct Demand {
    target: usize,
    min: usize,
    max: usize,
    /// Receives of the present turn.
    received: usize,
    /// Connections among them; the kernel reports what a connection brings at once one behind the other.
    connections: usize,
    last: Option<Token>,
    /// Maximum of `connections` since the last [`Demand::falls`].
    peak: usize,
}

impl Demand {
    pub(crate) fn new(first: usize, max: usize) -> Self {
        let min = first.min(max);
        Self {
            target: min,
            min,
            max,
            received: 0,
            connections: 0,
            last: None,
            peak: 0,
        }
    }

    #[inline]
    pub(crate) fn target(&self) -> usize {
        self.target
    }

    /// Notes that a buffer was used.
    #[inline]
    pub(crate) fn received(&mut self, token: Token) {
        self.received += 1;
        if self.last != Some(token) {
            self.connections += 1;
            self.last = Some(token);
        }
    }

    /// Ends a turn, in which the kernel had too few buffers or enough.
    #[inline]
    pub(crate) fn turn_ends(&mut self, has_starved: bool) {
        self.peak = self.peak.max(self.connections);
        if has_starved && self.connections * 2 >= self.received {
            self.target = (self.target * 2).min(self.max);
        }
        (self.received, self.connections, self.last) = (0, 0, None);
    }

    /// Halves the number if a quarter would have sufficed since the last call. True if it did.
    pub(crate) fn falls(&mut self) -> bool {
        let is_much = self.target > self.min && self.peak * 4 <= self.target;
        if is_much {
            self.target = (self.target / 2).max(self.min);
        }
        self.peak = 0;
        is_much
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(demand: &mut Demand, connections: u32, each: usize, has_starved: bool) {
        for i in 0..connections {
            for _ in 0..each {
                demand.received(Token::new(i, 1).unwrap());
            }
        }
        demand.turn_ends(has_starved);
    }

    #[test]
    fn many_connections_get_more_buffers_and_a_flood_does_not() {
        let mut demand = Demand::new(8, 64);
        turn(&mut demand, 2, 4, true);
        assert_eq!(demand.target(), 8);
        turn(&mut demand, 8, 1, false);
        assert_eq!(demand.target(), 8);
        for target in [16, 32, 64, 64] {
            turn(&mut demand, 8, 1, true);
            assert_eq!(demand.target(), target);
        }
    }

    #[test]
    fn the_number_falls_to_the_first_one_when_few_are_used() {
        let mut demand = Demand::new(8, 64);
        while demand.target() < 64 {
            turn(&mut demand, 64, 1, true);
        }
        assert!(!demand.falls(), "all were used");
        turn(&mut demand, 17, 1, false);
        assert!(!demand.falls(), "more than a quarter was used");
        for target in [32, 16, 8] {
            turn(&mut demand, 1, 5, false);
            assert!(demand.falls());
            assert_eq!(demand.target(), target);
        }
        assert!(!demand.falls());
    }
}
