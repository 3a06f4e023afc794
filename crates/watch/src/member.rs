//! Member: all that is known about one host, and the views of it that the election and the snapshot need.

use std::sync::Arc;
use std::time::Duration;

use weir_pool::Moment;

use crate::answer::Answer;
use crate::answer::Position;
use crate::answer::Receiver;
use crate::election::Says;
use crate::election::Seat;
use crate::event::Barred;
use crate::facts::Change;
use crate::facts::Facts;
use crate::facts::Follows;
use crate::failure::Failure;
use crate::failure::FailureKind;
use crate::health::Health;
use crate::health::Vitals;
use crate::pace::Pace;
use crate::rules::Configured;
use crate::rules::Host;
use crate::rules::Rules;
use crate::samples::Age;
use crate::samples::Samples;
use crate::snapshot::Role;
use crate::snapshot::State;

/// Probe of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// No probe is under way; the last one was ordered at this time, if there was one.
    Idle(Option<Moment>),
    /// A probe was ordered at this time and has no result yet.
    UnderWay(Moment),
}

/// Reason for which a host gets no statement although it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Exclusion {
    /// The host said that it is the primary and was not elected.
    Fenced,
    /// The host belongs to another cluster.
    Foreign,
    /// None.
    #[default]
    None,
}

/// Lag of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lag {
    pub(crate) bytes: Option<u64>,
    pub(crate) age: Age,
    /// True if the lag exceeds a limit, or has exceeded it and is not below half of it yet.
    pub(crate) is_behind: bool,
}

/// Values that were shown in the last snapshot and told by events.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    pub(crate) role: Role,
    pub(crate) state: State,
    pub(crate) since: Moment,
    /// Reads of a replica that is up; none before they were told.
    pub(crate) reads: Option<bool>,
}

/// Host with all that is known about it.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) host: Host,
    pub(crate) probe: Probe,
    pub(crate) vitals: Vitals,
    pub(crate) facts: Facts,
    pub(crate) pace: Pace,
    pub(crate) lag: Lag,
    pub(crate) exclusion: Exclusion,
    pub(crate) shown: Shown,
    pub(crate) last_error: Option<Arc<str>>,
    /// True if a probe had any result.
    pub(crate) is_heard: bool,
}

impl Member {
    pub(crate) fn new(host: Host, now: Moment) -> Self {
        Self {
            host,
            probe: Probe::Idle(None),
            vitals: Vitals::default(),
            facts: Facts::default(),
            pace: Pace::default(),
            lag: Lag {
                bytes: None,
                age: Age::Unknown,
                is_behind: true,
            },
            exclusion: Exclusion::None,
            shown: Shown {
                since: now,
                ..Shown::default()
            },
            last_error: None,
            is_heard: false,
        }
    }

    /// Takes an answer.
    pub(crate) fn answered(
        &mut self,
        now: Moment,
        answer: &Answer,
        reference: Option<u32>,
        rise: u32,
    ) -> Change {
        self.is_heard = true;
        let before = self.vitals.health();
        self.vitals.answered(rise);
        let change = self.facts.take(answer, reference);
        let was_away = matches!(before, Health::Busy | Health::Down);
        let is_back = was_away && self.vitals.health() == Health::Up;
        if is_back || change == Change::Started {
            self.pace.came_back(now);
        }
        change
    }

    /// Takes a failure. Returns true if the host was answering before.
    pub(crate) fn failed(&mut self, failure: &Failure, fall: u32) -> bool {
        self.is_heard = true;
        let was_answering = self.vitals.health() == Health::Up && !self.vitals.has_failed();
        self.vitals.failed(failure.kind, fall);
        self.last_error = Some(if failure.text.is_empty() {
            failure.kind.to_string().into()
        } else {
            Arc::clone(&failure.text)
        });
        self.facts.drop_proven();
        if matches!(self.vitals.health(), Health::Busy | Health::Down) {
            self.facts.forget();
            self.lag.is_behind = true;
        }
        was_answering
    }

    /// True if a failure without a probe under way is news: the idle connection broke. A second report of a failure, or
    /// the time-out of a probe that has ended, is none.
    pub(crate) const fn is_news(&self, kind: FailureKind) -> bool {
        match self.probe {
            Probe::UnderWay(_) => true,
            Probe::Idle(_) => !self.vitals.has_failed() && !matches!(kind, FailureKind::Timeout),
        }
    }

    /// Returns what the host says about itself, if it is in a state to say anything.
    pub(crate) fn seat(&self) -> Seat {
        let health = self.vitals.health();
        let (is_silent, is_answering) = (self.vitals.serves_nobody(), self.is_answering());
        let says = match (health, self.facts.answer()) {
            (Health::Busy | Health::Down | Health::Unknown, _) | (_, None) => None,
            (_, Some(answer)) => self.says(&answer.position),
        };
        match self.exclusion {
            Exclusion::Foreign => Seat::default(),
            Exclusion::Fenced if matches!(says, Some(Says::Primary(_))) => Seat {
                says: None,
                is_silent,
                is_answering,
            },
            Exclusion::Fenced | Exclusion::None => Seat {
                says,
                is_silent,
                is_answering,
            },
        }
    }

    /// Returns the timeline on which a fenced host says that it is the primary.
    pub(crate) fn fenced_claim(&self) -> Option<u32> {
        let is_up = self.is_answering() && self.exclusion == Exclusion::Fenced;
        match self.facts.answer().map(|answer| &answer.position) {
            Some(position) if is_up => match self.says(position) {
                Some(Says::Primary(timeline)) => Some(timeline),
                _ => None,
            },
            _ => None,
        }
    }

    fn says(&self, position: &Position) -> Option<Says> {
        match *position {
            Position::Primary { timeline, .. } => {
                (self.host.role != Configured::Replica).then_some(Says::Primary(timeline))
            }
            Position::Replica {
                receiver: Receiver::Streaming { timeline },
                ..
            } if self.is_answering() => Some(Says::Streams(timeline)),
            Position::Replica { .. } => Some(Says::Standby(self.facts.timeline())),
        }
    }

    /// True if the host is up and its last probe was answered.
    pub(crate) const fn is_answering(&self) -> bool {
        matches!(self.vitals.health(), Health::Up) && !self.vitals.has_failed()
    }

    /// Updates exclusion and lag before a snapshot. `reference` is the primary's timeline.
    pub(crate) fn judge(
        &mut self,
        now: Moment,
        rules: &Rules,
        samples: &Samples,
        reference: Option<u32>,
    ) {
        let is_replica = self.facts.role() == Role::Replica;
        if self.exclusion == Exclusion::Fenced
            && self.is_answering()
            && is_replica
            && self.facts.follows(reference) == Follows::Primary
        {
            self.exclusion = Exclusion::None;
        }
        let Some(&Position::Replica {
            replayed, received, ..
        }) = self.facts.answer().map(|answer| &answer.position)
        else {
            self.lag.bytes = None;
            self.lag.age = Age::Unknown;
            return;
        };
        self.lag.bytes = samples.newest().map(|newest| newest.lsn.since(replayed));
        self.lag.age = samples.age(now, replayed, received);
        self.lag.is_behind = self.lag.judge(rules);
    }

    /// Returns the state to show.
    pub(crate) fn state(&self, reference: Option<u32>) -> State {
        match (self.vitals.health(), self.exclusion) {
            (Health::Unknown, _) => State::Unknown,
            (Health::Down, _) => State::Down,
            (_, Exclusion::Foreign) => State::Foreign,
            (_, Exclusion::Fenced) => State::Fenced,
            (Health::Busy | Health::Full, _) => State::Refusing,
            (Health::Opaque, _) if !self.is_last_known_primary() => State::Refusing,
            _ if self.facts.role() == Role::Replica
                && self.facts.follows(reference) == Follows::Diverged =>
            {
                State::Diverged
            }
            _ => State::Up,
        }
    }

    /// True if the newest answer, since the host was last down, came from a primary.
    fn is_last_known_primary(&self) -> bool {
        self.facts.answer().is_some() && self.facts.role() == Role::Primary
    }

    /// Returns the reason for which a replica that is up gets no reads.
    pub(crate) fn barred(&self, reference: Option<u32>) -> Option<Barred> {
        if self.host.weight == 0 || !self.host.reads {
            return Some(Barred::Configured);
        }
        match self.facts.follows(reference) {
            Follows::Another(timeline) => return Some(Barred::Timeline(timeline)),
            Follows::Diverged => return Some(Barred::Timeline(self.facts.timeline())),
            Follows::Unproved => return Some(Barred::Unproved),
            Follows::Primary => {}
        }
        let is_paused = matches!(
            self.facts.answer().map(|answer| &answer.position),
            Some(Position::Replica {
                is_paused: true,
                ..
            })
        );
        if is_paused && self.lag.bytes.is_some_and(|bytes| bytes > 0) {
            return Some(Barred::Paused);
        }
        self.lag.is_behind.then(|| Barred::Lag {
            bytes: self.lag.bytes,
            age: self.lag.age.known(),
        })
    }
}

impl Lag {
    /// True if the lag exceeds a limit, or exceeded it and is not below half of it yet.
    fn judge(&self, rules: &Rules) -> bool {
        let Some(bytes) = self.bytes else {
            // No primary was measured: nothing speaks against the replica.
            return false;
        };
        let (least, is_exact) = match self.age {
            Age::AtLeast(age) => (age, false),
            Age::Exactly(age) => (age, true),
            Age::Unknown => (Duration::ZERO, false),
        };
        let is_over = rules.max_lag.is_some_and(|max| bytes >= max.max(1))
            || rules.max_staleness.is_some_and(|max| least >= max);
        let is_below = rules.max_lag.is_none_or(|max| bytes <= max / 2)
            && rules
                .max_staleness
                .is_none_or(|max| is_exact && least <= max / 2);
        is_over || self.is_behind && !is_below
    }
}

impl Age {
    /// Returns the age, if it is known exactly.
    pub(crate) const fn known(self) -> Option<Duration> {
        match self {
            Self::Exactly(age) => Some(age),
            Self::AtLeast(_) | Self::Unknown => None,
        }
    }
}
