//! Events of watching: one log line for each change of a role, a state or the host that takes writes, with its evidence.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::rules::Configured;
use crate::rules::SplitBrain;
use crate::snapshot::Role;
use crate::snapshot::State;

/// Maximum number of events that wait for the caller. Beyond it, the oldest are dropped and counted.
const EVENTS_MAX: usize = 256;

/// Change that an operator should know. [`fmt::Display`] writes one line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Events were dropped because nobody fetched them.
    Dropped(u64),
    /// A host belongs to another cluster.
    Foreign {
        /// Name of the host.
        host: Arc<str>,
        /// System identifier of the host.
        system: u64,
        /// System identifier of the watched cluster; none if the hosts disagree and none of them decides.
        expected: Option<u64>,
    },
    /// The role of a host contradicts the configuration.
    Misconfigured {
        /// Name of the host.
        host: Arc<str>,
        /// Configured role.
        configured: Configured,
    },
    /// No host takes writes.
    NoPrimary {
        /// Host that took writes before, with the reason for which it does not now.
        before: Option<(Arc<str>, Lost)>,
    },
    /// A host takes writes.
    Primary {
        /// Name of the host.
        host: Arc<str>,
        /// Timeline of the host.
        timeline: u32,
        /// Another host that was the primary before, with its timeline.
        before: Option<(Arc<str>, u32)>,
        /// Evidence.
        why: Evidence,
    },
    /// Transactions on the primary are, or are no longer, READ ONLY by default. Weir passes on the errors of writes.
    ReadOnly {
        /// Name of the host.
        host: Arc<str>,
        /// True if they are.
        is_on: bool,
    },
    /// A replica gets reads, or gets none.
    Reads {
        /// Name of the host.
        host: Arc<str>,
        /// Reason for which it gets none; none if it gets reads.
        barred: Option<Barred>,
    },
    /// A host has another role.
    Role {
        /// Name of the host.
        host: Arc<str>,
        /// New role.
        role: Role,
        /// Timeline of the host; 0 = unknown.
        timeline: u32,
    },
    /// Timeline of the primary is lower than one that the cluster had: commits on the higher one are lost.
    SetBack {
        /// Name of the primary.
        host: Arc<str>,
        /// Timeline of the primary.
        timeline: u32,
        /// Higher timeline of the former primary, or of standbys if none was known.
        known: u32,
    },
    /// Several hosts say that they are the primary, or one does against evidence. Writes wait.
    SplitBrain {
        /// Hosts that say so, with their timelines.
        claims: Vec<(Arc<str>, u32)>,
        /// Time for which writes wait for a witness.
        hold: Duration,
    },
    /// A host has another state.
    State {
        /// Name of the host.
        host: Arc<str>,
        /// New state.
        state: State,
        /// Reason, if a probe failed.
        why: Option<Arc<str>>,
    },
}

/// Evidence for a primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// The host that was the primary before is in recovery.
    InRecovery,
    /// A tool that makes failovers names the host as leader.
    Named,
    /// No other host says that it is the primary.
    Only,
    /// The host was the primary before and says so again.
    Returned,
    /// The rule for split brains decides.
    Rule(SplitBrain),
    /// The host that was the primary before does not answer.
    Silent,
    /// This standby streams on the timeline of the new primary.
    Streams(Arc<str>),
}

/// Reason for which a host lost the role of a primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The probe failed: the last error.
    Failed(Option<Arc<str>>),
    /// The host is in recovery.
    InRecovery,
    /// The host is fenced or belongs to another cluster, or the configuration does not let it be the primary.
    Unusable,
}

/// Reason for which a replica that is up gets no reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barred {
    /// The configuration excludes the host: `reads` is off or `weight` is 0.
    Configured,
    /// The lag exceeds, or is not known to be below, `max_lag` or `max_staleness`.
    Lag {
        /// WAL in bytes that is not replayed.
        bytes: Option<u64>,
        /// Age of the newest sample that is replayed.
        age: Option<Duration>,
    },
    /// Replay is paused, and the primary is ahead.
    Paused,
    /// The hosts of the database were not all probed yet, or their system identifiers differ.
    Pending,
    /// The replica follows this timeline, and the primary is on another one.
    Timeline(u32),
    /// The timeline is hidden from the user of the probe, or not known yet.
    Unproved,
}

impl Event {
    /// True if an operator should be warned: writes wait, or hosts contradict each other.
    #[must_use]
    pub const fn is_alert(&self) -> bool {
        match self {
            Self::Dropped(_)
            | Self::Foreign { .. }
            | Self::Misconfigured { .. }
            | Self::NoPrimary { .. }
            | Self::SetBack { .. }
            | Self::SplitBrain { .. } => true,
            Self::ReadOnly { is_on, .. } => *is_on,
            Self::State { state, .. } => matches!(state, State::Diverged | State::Fenced),
            Self::Primary { .. } | Self::Reads { .. } | Self::Role { .. } => false,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dropped(count) => write!(f, "{count} events of hosts were dropped"),
            Self::Foreign {
                host,
                system,
                expected,
            } => foreign(f, host, *system, *expected),
            Self::Misconfigured { host, configured } => match configured {
                Configured::Primary => write!(
                    f,
                    "host {host} is configured as primary and is in recovery: it takes no writes"
                ),
                Configured::Auto | Configured::Replica => write!(
                    f,
                    "host {host} is configured as replica and says that it is a primary: it gets no statement"
                ),
            },
            Self::NoPrimary { before } => match before {
                None => f.write_str("no host is a primary: writes wait"),
                Some((host, lost)) => {
                    write!(f, "no host is a primary ({host} {lost}): writes wait")
                }
            },
            Self::Primary {
                host,
                timeline,
                before,
                why,
            } => primary(f, host, *timeline, before.as_ref(), why),
            Self::ReadOnly { host, is_on } => {
                let value = if *is_on { "on" } else { "off" };
                write!(
                    f,
                    "primary {host} has default_transaction_read_only = {value}"
                )
            }
            Self::Reads { host, barred } => match barred {
                None => write!(f, "host {host} gets reads"),
                Some(barred) => write!(f, "host {host} gets no reads: {barred}"),
            },
            Self::Role {
                host,
                role,
                timeline,
            } => {
                let role = match role {
                    Role::Primary => "is not in recovery",
                    Role::Replica => "is in recovery",
                    Role::Unknown => "has no known role",
                };
                write!(f, "host {host} {role} (timeline {timeline})")
            }
            Self::SetBack {
                host,
                timeline,
                known,
            } => write!(
                f,
                "the timeline goes back: primary {host} is on timeline {timeline}, and there was timeline {known}; \
                 commits on that one are lost"
            ),
            Self::SplitBrain { claims, hold } => split_brain(f, claims, *hold),
            Self::State { host, state, why } => {
                write!(f, "host {host} {}", state_words(*state))?;
                why.as_ref().map_or(Ok(()), |why| write!(f, ": {why}"))
            }
        }
    }
}

fn foreign(
    f: &mut fmt::Formatter<'_>,
    host: &str,
    system: u64,
    expected: Option<u64>,
) -> fmt::Result {
    write!(f, "host {host} belongs to cluster {system}")?;
    match expected {
        Some(expected) => write!(f, ", not to {expected}: it gets no statement"),
        None => f.write_str(", another host to another one: neither gets a statement"),
    }
}

fn split_brain(
    f: &mut fmt::Formatter<'_>,
    claims: &[(Arc<str>, u32)],
    hold: Duration,
) -> fmt::Result {
    f.write_str("no witness tells which host is the primary:")?;
    for (host, timeline) in claims {
        write!(f, " {host} says so (timeline {timeline}),")?;
    }
    write!(f, " writes wait for {} s at most", hold.as_secs_f32())
}

fn primary(
    f: &mut fmt::Formatter<'_>,
    host: &str,
    timeline: u32,
    before: Option<&(Arc<str>, u32)>,
    why: &Evidence,
) -> fmt::Result {
    write!(f, "host {host} is the primary (timeline {timeline}; ")?;
    if let Some((before, timeline)) = before {
        write!(f, "it was {before}, timeline {timeline}, ")?;
        match why {
            Evidence::InRecovery => f.write_str("which is in recovery")?,
            Evidence::Only | Evidence::Returned => f.write_str("which says so no longer")?,
            Evidence::Rule(_) => f.write_str("which still says so")?,
            Evidence::Silent => f.write_str("which does not answer")?,
            Evidence::Named | Evidence::Streams(_) => f.write_str("which may still say so")?,
        }
    }
    let and = if before.is_some() { "; " } else { "" };
    match why {
        Evidence::Rule(SplitBrain::Keep) => write!(f, "{and}split_brain = keep)"),
        Evidence::Rule(SplitBrain::Newest) => write!(f, "{and}split_brain = newest)"),
        Evidence::Named => write!(f, "{and}failover_hints name it as leader)"),
        Evidence::Streams(standby) => write!(f, "{and}{standby} streams on this timeline)"),
        _ if before.is_some() => f.write_str(")"),
        Evidence::Returned => f.write_str("as before)"),
        _ => f.write_str("no other host says so)"),
    }
}

const fn state_words(state: State) -> &'static str {
    match state {
        State::Diverged => "does not follow the primary's timeline",
        State::Down => "is down",
        State::Fenced => "is fenced: it was not seen in recovery on the primary's timeline",
        State::Foreign => "belongs to another cluster",
        State::Refusing => "refuses sessions",
        State::Unknown => "was not probed yet",
        State::Up => "is up",
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(Some(error)) => write!(f, "does not answer: {error}"),
            Self::Failed(None) => f.write_str("does not answer"),
            Self::InRecovery => f.write_str("is in recovery"),
            Self::Unusable => f.write_str("cannot be used"),
        }
    }
}

impl fmt::Display for Barred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configured => f.write_str("the configuration excludes it"),
            Self::Lag { bytes, age } => {
                f.write_str("it is behind the primary")?;
                if let Some(bytes) = bytes {
                    write!(f, " by {bytes} bytes")?;
                }
                age.map_or(Ok(()), |age| write!(f, ", {:.1} s", age.as_secs_f32()))
            }
            Self::Paused => f.write_str("replay is paused"),
            Self::Pending => f.write_str("the other hosts were not probed yet, or disagree"),
            Self::Timeline(timeline) => {
                write!(f, "it is on timeline {timeline}, the primary on another one")
            }
            Self::Unproved => f.write_str(
                "its timeline is not known (the user of the probe should be a member of pg_monitor)",
            ),
        }
    }
}

/// Events that wait for the caller.
#[derive(Clone, Debug, Default)]
pub(crate) struct Events {
    queue: VecDeque<Event>,
    dropped: u64,
}

impl Events {
    pub(crate) fn push(&mut self, event: Event) {
        if self.queue.len() >= EVENTS_MAX {
            self.queue.pop_front();
            self.dropped = self.dropped.saturating_add(1);
        }
        self.queue.push_back(event);
    }

    pub(crate) fn pop(&mut self) -> Option<Event> {
        match std::mem::take(&mut self.dropped) {
            0 => self.queue.pop_front(),
            count => Some(Event::Dropped(count)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_gives_the_evidence() {
        let line = |why| {
            Event::Primary {
                host: "b:5432".into(),
                timeline: 7,
                before: Some(("c:5432".into(), 6)),
                why,
            }
            .to_string()
        };
        assert_eq!(
            line(Evidence::Silent),
            "host b:5432 is the primary (timeline 7; it was c:5432, timeline 6, which does not answer)"
        );
        assert_eq!(
            line(Evidence::Streams("d:5432".into())),
            "host b:5432 is the primary (timeline 7; it was c:5432, timeline 6, which may still say so; \
             d:5432 streams on this timeline)"
        );
        assert_eq!(
            line(Evidence::Named),
            "host b:5432 is the primary (timeline 7; it was c:5432, timeline 6, which may still say so; \
             failover_hints name it as leader)"
        );
    }

    #[test]
    fn a_queue_that_nobody_reads_drops_the_oldest_and_says_so() {
        let mut events = Events::default();
        for count in 0..300 {
            events.push(Event::Dropped(1000 + count));
        }
        assert_eq!(events.pop(), Some(Event::Dropped(44)));
        assert_eq!(events.pop(), Some(Event::Dropped(1044)));
        assert_eq!(std::iter::from_fn(|| events.pop()).count(), 255);
    }
}
