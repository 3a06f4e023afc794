//! Health of one host: counts failures and answers in a row, and decides when the host is up or down.
//!
//! ```text
//!                  answer                        answer
//!   Unknown ------------------> Up <--------------------------- Busy, Full, Opaque
//!      |                        ^ |
//!      |            rise answers| | refused; two resets; fall failures in a row
//!      `---------------------- Down <-- from every state
//! ```
//!
//! - A refused connection proves that no postmaster listens. A closed connection may be the end of one session only, so
//!   it needs a second failure, for which the host is probed at once.
//! - A host that answers 57P03 or 53300, or that refuses only the probe, is alive: no number of these makes it down.

use crate::failure::FailureKind;

/// Health of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Health {
    /// The host starts or stops.
    Busy,
    /// The host does not answer.
    Down,
    /// The host has no connection left for the probe.
    Full,
    /// The host is alive and cannot be probed: it refuses the login or the statement.
    Opaque,
    /// Neither an answer nor enough failures yet.
    #[default]
    Unknown,
    /// The host answers.
    Up,
}

/// Health of a host with the counts that decide the next change.
#[derive(Clone, Debug, Default)]
pub(crate) struct Vitals {
    health: Health,
    /// Failures since the last answer, of the kind of `is_silent`.
    failures: u32,
    /// True if the failures are silence (refused, reset, timeout); false if the host spoke.
    is_silent: bool,
    /// True if the last failure was a refused connection, or there were `fall` silent failures in a row.
    is_proved: bool,
    /// Answers since the last failure. Counted up to `rise`.
    answers: u32,
}

impl Vitals {
    pub(crate) const fn health(&self) -> Health {
        self.health
    }

    /// True if a host that is down has answered since.
    pub(crate) fn is_returning(&self) -> bool {
        self.health == Health::Down && self.answers > 0
    }

    /// True if the last probe failed.
    pub(crate) const fn has_failed(&self) -> bool {
        self.failures > 0
    }

    /// True if the host is proved to serve nobody: it starts or stops, refuses connections, or has not answered `fall`
    /// probes. Two closed connections make writes wait, but prove less.
    pub(crate) fn serves_nobody(&self) -> bool {
        match self.health {
            Health::Busy => true,
            Health::Down => self.is_proved,
            Health::Full | Health::Opaque | Health::Unknown | Health::Up => false,
        }
    }

    /// Counts an answer.
    pub(crate) fn answered(&mut self, rise: u32) {
        self.failures = 0;
        self.is_proved = false;
        self.answers = self.answers.saturating_add(1);
        if self.health != Health::Down || self.answers >= rise {
            self.health = Health::Up;
        }
    }

    /// Counts a failure.
    pub(crate) fn failed(&mut self, kind: FailureKind, fall: u32) {
        self.answers = 0;
        let is_silent = matches!(
            kind,
            FailureKind::Refused | FailureKind::Reset | FailureKind::Timeout
        );
        if self.is_silent != is_silent {
            self.failures = 0;
        }
        self.is_silent = is_silent;
        self.failures = self.failures.saturating_add(1);
        self.is_proved = is_silent && (self.failures >= fall || kind == FailureKind::Refused);
        self.health = match kind {
            FailureKind::Busy => Health::Busy,
            FailureKind::Full => Health::Full,
            FailureKind::Refused => Health::Down,
            FailureKind::Reset if self.failures >= fall.min(2) => Health::Down,
            FailureKind::Timeout if self.failures >= fall => Health::Down,
            FailureKind::BadAnswer | FailureKind::Login if self.failures >= fall => Health::Opaque,
            _ => self.health,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use FailureKind::{BadAnswer, Busy, Full, Login, Refused, Reset, Timeout};

    const FALL: u32 = 3;
    const RISE: u32 = 2;

    /// Health after one answer and these failures.
    fn after(failures: &[FailureKind]) -> Health {
        let mut vitals = Vitals::default();
        vitals.answered(RISE);
        failures.iter().for_each(|&kind| vitals.failed(kind, FALL));
        vitals.health()
    }

    #[test]
    fn a_host_never_seen_is_up_with_its_first_answer() {
        let mut vitals = Vitals::default();
        vitals.failed(Timeout, FALL);
        assert_eq!(vitals.health(), Health::Unknown);
        vitals.answered(RISE);
        assert_eq!(vitals.health(), Health::Up);
    }

    #[test]
    fn silence_needs_more_proof_than_a_refusal() {
        assert_eq!(after(&[Timeout, Timeout]), Health::Up);
        assert_eq!(after(&[Timeout, Timeout, Timeout]), Health::Down);
        assert_eq!(after(&[Refused]), Health::Down);
        assert_eq!(after(&[Reset]), Health::Up);
        assert_eq!(after(&[Reset, Reset]), Health::Down);
        assert_eq!(after(&[Timeout, Reset]), Health::Down);
    }

    #[test]
    fn two_closed_connections_are_no_proof() {
        let mut vitals = Vitals::default();
        vitals.answered(RISE);
        vitals.failed(Reset, FALL);
        vitals.failed(Reset, FALL);
        assert_eq!(
            (vitals.health(), vitals.serves_nobody()),
            (Health::Down, false)
        );
        vitals.failed(Reset, FALL);
        assert!(vitals.serves_nobody());
        vitals.answered(RISE);
        assert_eq!(
            (vitals.health(), vitals.serves_nobody()),
            (Health::Down, false)
        );
        vitals.failed(Refused, FALL);
        assert!(vitals.serves_nobody());
    }

    #[test]
    fn a_host_that_speaks_is_never_down() {
        assert_eq!(after(&[Busy; 9]), Health::Busy);
        assert_eq!(after(&[Full; 9]), Health::Full);
        assert_eq!(after(&[Login, BadAnswer]), Health::Up);
        assert_eq!(after(&[Login, BadAnswer, Login]), Health::Opaque);
        assert_eq!(after(&[Login, Login, Timeout]), Health::Up);
        assert_eq!(after(&[Timeout, Timeout, Login, Timeout]), Health::Up);
    }

    #[test]
    fn a_host_that_was_down_has_to_answer_in_a_row() {
        let mut vitals = Vitals::default();
        vitals.failed(Refused, FALL);
        vitals.answered(RISE);
        assert_eq!(vitals.health(), Health::Down);
        assert!(vitals.is_returning());
        vitals.failed(Timeout, FALL);
        vitals.answered(RISE);
        assert_eq!(vitals.health(), Health::Down);
        vitals.answered(RISE);
        assert_eq!(vitals.health(), Health::Up);
    }

    #[test]
    fn a_host_that_starts_is_up_with_its_first_answer() {
        let mut vitals = Vitals::default();
        vitals.failed(Refused, FALL);
        vitals.failed(Busy, FALL);
        vitals.answered(RISE);
        assert_eq!(vitals.health(), Health::Up);
    }
}
