//! Facts that one host told about itself: its role, its lives, its timeline, and the WAL that it has proved to have.
//!
//! A position that was proved counts only for the life and the timeline in which it was proved: a standby that is killed
//! and started again may be behind what it showed before.

use crate::answer::Answer;
use crate::answer::Lsn;
use crate::answer::Position;
use crate::answer::Receiver;
use crate::snapshot::Generation;
use crate::snapshot::Role;

/// Change that an answer brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// First answer of the host.
    First,
    /// Another role in the same life.
    Role,
    /// Neither role nor start time changed.
    None,
    /// Another start time.
    Started,
}

/// Relation of a standby to the primary's timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follows {
    /// The standby streams on this other timeline.
    Another(u32),
    /// The standby stopped on another timeline. It may have rows that the primary never had.
    Diverged,
    /// The standby is on the primary's timeline.
    Primary,
    /// The timeline is hidden or not known.
    Unproved,
}

/// Facts about one host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// Newest answer; none since the host was last down or starting.
    answer: Option<Answer>,
    /// Start time and role in the newest answer of all.
    life: Option<(i64, Role)>,
    generation: Generation,
    /// Timeline in this life; 0 = unknown. For a standby that does not stream, a lower limit.
    timeline: u32,
    /// System identifier; none if it is not known.
    system: Option<u64>,
    /// WAL of the primary's timeline that the standby has replayed in this life.
    proven: Option<Lsn>,
}

impl Facts {
    /// Takes an answer. `reference` is the primary's timeline; none if no primary is known.
    pub(crate) fn take(&mut self, answer: &Answer, reference: Option<u32>) -> Change {
        let role = match answer.position {
            Position::Primary { .. } => Role::Primary,
            Position::Replica { .. } => Role::Replica,
        };
        let change = match self.life {
            None => Change::First,
            Some((started, _)) if started != answer.started => Change::Started,
            Some((_, before)) if before != role => Change::Role,
            Some(_) => Change::None,
        };
        if matches!(change, Change::Started | Change::Role) {
            self.generation = Generation(self.generation.0.saturating_add(1));
        }
        if change != Change::None {
            self.proven = None;
        }
        if matches!(change, Change::First | Change::Started) {
            self.timeline = 0;
            self.system = None;
        }
        self.life = Some((answer.started, role));
        self.system = answer.system.or(self.system);
        self.timeline = timeline(answer, self.timeline);
        self.prove(answer, reference);
        self.answer = Some(answer.clone());
        change
    }

    /// Keeps what the answer proves. The order of events in a standby: the receiver is started on a timeline only after
    /// all WAL that was replayed before belongs to the history of that timeline.
    fn prove(&mut self, answer: &Answer, reference: Option<u32>) {
        let Position::Replica {
            replayed, receiver, ..
        } = answer.position
        else {
            self.proven = None;
            return;
        };
        self.proven = match receiver {
            Receiver::Streaming { timeline } if Some(timeline) == reference => Some(replayed),
            Receiver::Streaming { .. } => None,
            // What was proved stays, as long as replay did not go back behind it.
            Receiver::Hidden | Receiver::None | Receiver::Other { .. } => {
                self.proven.filter(|&proven| proven <= replayed)
            }
        };
    }

    /// Drops what was proved: the connection broke, or another primary is in force.
    pub(crate) const fn drop_proven(&mut self) {
        self.proven = None;
    }

    /// Drops the newest answer: the host is down or starts.
    pub(crate) fn forget(&mut self) {
        self.answer = None;
        self.proven = None;
    }

    pub(crate) const fn answer(&self) -> Option<&Answer> {
        self.answer.as_ref()
    }

    pub(crate) const fn generation(&self) -> Generation {
        self.generation
    }

    pub(crate) const fn proven(&self) -> Option<Lsn> {
        self.proven
    }

    pub(crate) fn role(&self) -> Role {
        self.life.map_or(Role::Unknown, |(_, role)| role)
    }

    pub(crate) fn started(&self) -> Option<i64> {
        self.life.map(|(started, _)| started)
    }

    pub(crate) const fn system(&self) -> Option<u64> {
        self.system
    }

    pub(crate) const fn timeline(&self) -> u32 {
        self.timeline
    }

    /// Compares a standby's timeline with the primary's.
    pub(crate) fn follows(&self, reference: Option<u32>) -> Follows {
        let Some(Position::Replica { receiver, .. }) = self.answer.as_ref().map(|it| &it.position)
        else {
            return Follows::Unproved;
        };
        let Some(reference) = reference else {
            return Follows::Unproved;
        };
        match *receiver {
            Receiver::Streaming { timeline } if timeline != reference => Follows::Another(timeline),
            _ if self.timeline == reference => Follows::Primary,
            Receiver::Hidden => Follows::Unproved,
            _ if self.timeline == 0 => Follows::Unproved,
            _ => Follows::Diverged,
        }
    }
}

/// Returns the timeline after an answer; `known` was known before, in the same life.
fn timeline(answer: &Answer, known: u32) -> u32 {
    let checkpoint = answer.checkpoint_timeline.unwrap_or_default();
    match answer.position {
        Position::Primary { timeline, .. } => timeline,
        Position::Replica { receiver, .. } => match receiver {
            Receiver::Streaming { timeline } => timeline,
            Receiver::Other { timeline } => timeline.max(checkpoint).max(known),
            Receiver::Hidden | Receiver::None => checkpoint.max(known),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(replayed: u64, receiver: Receiver) -> Answer {
        Answer {
            position: Position::Replica {
                replayed: Lsn(replayed),
                received: Some(Lsn(replayed)),
                receiver,
                is_paused: false,
            },
            started: 1,
            system: Some(42),
            checkpoint_timeline: None,
            is_read_only: false,
        }
    }

    fn primary(timeline: u32) -> Answer {
        Answer {
            position: Position::Primary {
                flushed: Lsn(100),
                inserted: Lsn(100),
                timeline,
            },
            ..replica(0, Receiver::None)
        }
    }

    const ON_6: Receiver = Receiver::Streaming { timeline: 6 };

    fn facts(answers: &[Answer]) -> Facts {
        let mut facts = Facts::default();
        for answer in answers {
            facts.take(answer, Some(6));
        }
        facts
    }

    #[test]
    fn generations_grow_with_starts_and_roles() {
        let mut facts = Facts::default();
        assert_eq!(facts.take(&replica(1, ON_6), Some(6)), Change::First);
        assert_eq!(facts.take(&replica(2, ON_6), Some(6)), Change::None);
        assert_eq!(facts.generation(), Generation(0));
        assert_eq!(facts.take(&primary(7), Some(6)), Change::Role);
        assert_eq!(facts.generation(), Generation(1));
        facts.forget();
        let restarted = Answer {
            started: 2,
            ..primary(7)
        };
        assert_eq!(facts.take(&restarted, Some(6)), Change::Started);
        assert_eq!(facts.generation(), Generation(2));
    }

    #[test]
    fn a_position_is_proved_only_by_streaming_on_the_primarys_timeline() {
        let on = |timeline| Receiver::Streaming { timeline };
        assert_eq!(facts(&[replica(10, on(6))]).proven(), Some(Lsn(10)));
        assert_eq!(facts(&[replica(10, on(5))]).proven(), None);
        assert_eq!(facts(&[replica(10, on(7))]).proven(), None);
        assert_eq!(facts(&[replica(10, Receiver::Hidden)]).proven(), None);
        assert_eq!(facts(&[replica(10, Receiver::None)]).proven(), None);
        let mut before = Facts::default();
        before.take(&replica(10, on(6)), None);
        assert_eq!(before.proven(), None);
    }

    #[test]
    fn a_proved_position_outlives_its_receiver_but_not_its_life() {
        let lost = |replayed| replica(replayed, Receiver::None);
        assert_eq!(
            facts(&[replica(10, ON_6), lost(30)]).proven(),
            Some(Lsn(10))
        );
        assert_eq!(facts(&[replica(10, ON_6), lost(9)]).proven(), None);
        // Replay may go back within one life as seen from here; the smaller position counts.
        assert_eq!(
            facts(&[replica(10, ON_6), replica(7, ON_6)]).proven(),
            Some(Lsn(7))
        );
        let restarted = Answer {
            started: 2,
            ..lost(30)
        };
        assert_eq!(facts(&[replica(10, ON_6), restarted]).proven(), None);
        let away = replica(30, Receiver::Streaming { timeline: 7 });
        assert_eq!(facts(&[replica(10, ON_6), away]).proven(), None);
    }

    #[test]
    fn a_standby_that_stopped_on_another_timeline_has_diverged() {
        let follows = |receiver, checkpoint| {
            let answer = Answer {
                checkpoint_timeline: checkpoint,
                ..replica(10, receiver)
            };
            facts(&[answer]).follows(Some(6))
        };
        let other = |timeline| Receiver::Other { timeline };
        let on = |timeline| Receiver::Streaming { timeline };
        assert_eq!(follows(on(6), None), Follows::Primary);
        assert_eq!(follows(on(5), Some(5)), Follows::Another(5));
        assert_eq!(follows(on(7), Some(5)), Follows::Another(7));
        assert_eq!(follows(other(5), Some(5)), Follows::Diverged);
        assert_eq!(follows(other(6), Some(5)), Follows::Primary);
        assert_eq!(follows(other(7), Some(5)), Follows::Diverged);
        assert_eq!(follows(Receiver::None, Some(6)), Follows::Primary);
        assert_eq!(follows(Receiver::None, Some(5)), Follows::Diverged);
        assert_eq!(follows(Receiver::None, None), Follows::Unproved);
        assert_eq!(follows(Receiver::Hidden, Some(6)), Follows::Primary);
        assert_eq!(follows(Receiver::Hidden, Some(5)), Follows::Unproved);
        let unknown = facts(&[replica(10, ON_6)]).follows(None);
        assert_eq!(unknown, Follows::Unproved);
    }

    #[test]
    fn a_lost_receiver_does_not_hide_a_known_timeline() {
        let lost = facts(&[replica(10, ON_6), replica(10, Receiver::None)]);
        assert_eq!(lost.follows(Some(6)), Follows::Primary);
        assert_eq!(lost.follows(Some(7)), Follows::Diverged);
    }
}
