//! Time and identities as the pool sees them. No clock is read here: every moment is an argument.

use std::time::Duration;

/// A point in time: microseconds since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u64);

impl Moment {
    /// Later than every real moment; also "not set" in the published atomics.
    pub const NEVER: Self = Self(u64::MAX);

    /// This moment plus `span`; stops at [`Moment::NEVER`].
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(micros))
    }

    /// The time from `earlier` to this moment; zero when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

/// A client connection. Opaque to the pool; the caller chooses the number and keeps it unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

/// A host: one PostgreSQL instance. The caller numbers hosts; a number stands for the same host for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u32);

/// A server connection. Opaque to the pool; unique among the servers of one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(pub u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adding_stops_at_never() {
        assert_eq!(Moment(5).plus(Duration::from_micros(7)), Moment(12));
        assert_eq!(Moment(5).plus(Duration::MAX), Moment::NEVER);
    }

    #[test]
    fn time_never_runs_backwards() {
        assert_eq!(Moment(9).since(Moment(4)), Duration::from_micros(5));
        assert_eq!(Moment(4).since(Moment(9)), Duration::ZERO);
    }
}
