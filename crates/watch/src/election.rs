//! Decision which host is the primary. A pure function of what the hosts say; it never decides by silence alone.
//!
//! PostgreSQL gives each promotion a higher timeline. So of two hosts that say that they are the primary, the one with
//! the higher timeline was promoted later. That alone proves nothing: a standby may be promoted by mistake beside a live
//! primary. The higher timeline therefore needs a witness: the former primary does not answer or is in recovery, a
//! standby streams on the new timeline, or a tool that makes failovers names the host as leader. A name makes no host the
//! primary: the host must say so itself, and on a higher timeline than all others. Equal timelines are two copies of one
//! data directory, and no witness can tell them apart.

use crate::rules::SplitBrain;

/// Facts about one host that matter here. Hosts of other clusters are all `None` and `false`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seat {
    /// Opinion of the host about itself; none if nothing usable is known.
    pub(crate) says: Option<Says>,
    /// True if the host does not answer, or starts or stops: it takes no writes.
    pub(crate) is_silent: bool,
    /// True if `says` is the answer to the last probe. An older opinion contests an election and wins none.
    pub(crate) is_answering: bool,
}

/// Opinion of a host about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    /// Primary on this timeline. The host may be elected.
    Primary(u32),
    /// Standby whose timeline is at least this; 0 = unknown. It does not stream.
    Standby(u32),
    /// Standby that streams on this timeline.
    Streams(u32),
}

/// Host that was elected last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Incumbent {
    pub(crate) host: usize,
    pub(crate) timeline: u32,
}

/// Patience with hosts that contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Time is over: this rule decides.
    Over(SplitBrain),
    /// A witness may still come.
    Waits,
}

/// Decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ruling {
    /// Hosts contradict each other, or evidence is against the only candidate.
    Contested,
    /// This host is the primary.
    Elected(Incumbent, Proof),
    /// No host says that it is the primary.
    Nobody,
}

/// Evidence for a decision. Numbers are those of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    InRecovery,
    Named,
    Only,
    Returned,
    Rule(SplitBrain),
    Silent,
    Streams(usize),
}

/// Decides which host is the primary. `leader` is the host that a tool names now.
pub(crate) fn elect(
    seats: &[Seat],
    before: Option<Incumbent>,
    leader: Option<usize>,
    patience: Patience,
) -> Ruling {
    let claims: Vec<Incumbent> = claims(seats).collect();
    let Some(top) = claims.iter().max_by_key(|claim| claim.timeline).copied() else {
        return Ruling::Nobody;
    };
    let is_tie = claims
        .iter()
        .any(|claim| claim.timeline == top.timeline && claim.host != top.host);
    let again = before.and_then(|before| {
        let claim = claims.iter().find(|claim| claim.host == before.host)?;
        (claim.timeline >= before.timeline).then_some(*claim)
    });
    if let Some(again) = again
        && again.timeline == top.timeline
    {
        return Ruling::Elected(again, Proof::Returned);
    }
    let is_answering = seats.get(top.host).is_some_and(|seat| seat.is_answering);
    let candidate = (!is_tie && is_answering).then_some(top);
    let is_only = claims.len() == 1;
    let proof = candidate.and_then(|top| proof(seats, before, top, leader, is_only));
    if let (Some(top), Some(proof)) = (candidate, proof) {
        return Ruling::Elected(top, proof);
    }
    let ruled = match patience {
        Patience::Waits | Patience::Over(SplitBrain::Refuse) => None,
        Patience::Over(SplitBrain::Keep) => again,
        Patience::Over(SplitBrain::Newest) => {
            candidate.filter(|&top| may_be_newest(seats, before, top))
        }
    };
    match (ruled, patience) {
        (Some(ruled), Patience::Over(rule)) => Ruling::Elected(ruled, Proof::Rule(rule)),
        _ => Ruling::Contested,
    }
}

/// Returns the hosts that say that they are the primary.
pub(crate) fn claims(seats: &[Seat]) -> impl Iterator<Item = Incumbent> {
    seats
        .iter()
        .enumerate()
        .filter_map(|(host, seat)| match seat.says {
            Some(Says::Primary(timeline)) => Some(Incumbent { host, timeline }),
            _ => None,
        })
}

/// Returns a standby that streams on this timeline. (A higher one would be a witness for another host.)
pub(crate) fn witness(seats: &[Seat], timeline: u32) -> Option<usize> {
    seats
        .iter()
        .position(|seat| seat.says == Some(Says::Streams(timeline)))
}

/// Finds evidence that `top` is the primary, in place of `before`.
fn proof(
    seats: &[Seat],
    before: Option<Incumbent>,
    top: Incumbent,
    leader: Option<usize>,
    is_only_claim: bool,
) -> Option<Proof> {
    let witnessed = || match witness(seats, top.timeline) {
        Some(standby) => Some(Proof::Streams(standby)),
        None => (leader == Some(top.host)).then_some(Proof::Named),
    };
    let is_newer_seen = |seat: &Seat| match seat.says {
        Some(Says::Streams(timeline)) => timeline > top.timeline,
        // A standby that was on a newer timeline once weighs only if no primary was known.
        Some(Says::Standby(timeline)) => before.is_none() && timeline > top.timeline,
        Some(Says::Primary(_)) | None => false,
    };
    if seats.iter().any(is_newer_seen) {
        return None;
    }
    let Some(before) = before else {
        return if is_only_claim {
            Some(Proof::Only)
        } else {
            witnessed()
        };
    };
    let former = seats.get(before.host).copied().unwrap_or_default();
    if top.timeline > before.timeline {
        return match former.says {
            _ if !is_only_claim => witnessed(),
            Some(Says::Standby(_) | Says::Streams(_)) => Some(Proof::InRecovery),
            _ if former.is_silent => Some(Proof::Silent),
            _ => witnessed(),
        };
    }
    // Each promotion raises the timeline. Without one, only the former primary itself can vouch for the host: it was
    // restarted and streams from it.
    let follows = former.says == Some(Says::Streams(top.timeline));
    (is_only_claim && follows).then_some(Proof::InRecovery)
}

/// True if the rule `newest` may elect this host: no standby streams on a newer timeline, and the host is newer than the
/// former primary or is that host.
fn may_be_newest(seats: &[Seat], before: Option<Incumbent>, top: Incumbent) -> bool {
    let is_newer = |seat: &Seat| match seat.says {
        Some(Says::Streams(timeline)) => timeline > top.timeline,
        _ => false,
    };
    let is_later =
        before.is_none_or(|before| top.timeline > before.timeline || top.host == before.host);
    is_later && !seats.iter().any(is_newer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Says::{Primary, Standby, Streams};

    const KEEP: Patience = Patience::Over(SplitBrain::Keep);
    const NEWEST: Patience = Patience::Over(SplitBrain::Newest);
    const REFUSE: Patience = Patience::Over(SplitBrain::Refuse);
    const SILENT: Seat = Seat {
        says: None,
        is_silent: true,
        is_answering: false,
    };
    const ALIVE: Seat = Seat {
        is_silent: false,
        ..SILENT
    };

    const fn seat(says: Says) -> Seat {
        Seat {
            says: Some(says),
            is_silent: false,
            is_answering: true,
        }
    }

    const fn host(host: usize, timeline: u32) -> Incumbent {
        Incumbent { host, timeline }
    }

    /// Host 0 on timeline 6 was the primary before.
    const BEFORE: Option<Incumbent> = Some(host(0, 6));

    fn check(seats: &[Seat], before: Option<Incumbent>, patience: Patience, expected: Ruling) {
        check_led(seats, before, None, patience, expected);
    }

    /// Checks a decision while a tool names a leader.
    fn check_led(
        seats: &[Seat],
        before: Option<Incumbent>,
        leader: Option<usize>,
        patience: Patience,
        expected: Ruling,
    ) {
        let ruling = elect(seats, before, leader, patience);
        assert_eq!(
            ruling, expected,
            "{seats:?} {before:?} {leader:?} {patience:?}"
        );
    }

    fn elected(host: usize, timeline: u32, proof: Proof) -> Ruling {
        Ruling::Elected(Incumbent { host, timeline }, proof)
    }

    #[test]
    fn nobody_is_elected_by_silence() {
        let standbys = [seat(Streams(6)), seat(Standby(6))];
        check(&standbys, None, Patience::Waits, Ruling::Nobody);
        let seats = [SILENT, seat(Streams(6)), seat(Streams(6))];
        for patience in [Patience::Waits, KEEP, NEWEST, REFUSE] {
            check(&seats, BEFORE, patience, Ruling::Nobody);
            check(&[], BEFORE, patience, Ruling::Nobody);
        }
    }

    #[test]
    fn the_only_primary_is_elected() {
        let seats = [seat(Streams(6)), seat(Primary(6))];
        check(&seats, None, Patience::Waits, elected(1, 6, Proof::Only));
    }

    #[test]
    fn a_primary_that_restarts_in_place_stays() {
        let expected = |timeline| elected(0, timeline, Proof::Returned);
        for timeline in [6, 7] {
            let seats = [seat(Primary(timeline)), seat(Standby(6))];
            check(&seats, BEFORE, Patience::Waits, expected(timeline));
        }
    }

    #[test]
    fn a_higher_timeline_needs_a_witness() {
        let new = seat(Primary(7));
        let waits = Patience::Waits;
        check(&[SILENT, new], BEFORE, waits, elected(1, 7, Proof::Silent));
        let recovering = [seat(Standby(0)), new];
        check(&recovering, BEFORE, waits, elected(1, 7, Proof::InRecovery));
        let both = [seat(Primary(6)), new, seat(Streams(7))];
        check(&both, BEFORE, waits, elected(1, 7, Proof::Streams(2)));
        let standby = [seat(Primary(6)), new, seat(Streams(6))];
        check(&standby, BEFORE, waits, Ruling::Contested);
        let waiting = [seat(Primary(6)), new, seat(Standby(7))];
        check(&waiting, BEFORE, waits, Ruling::Contested);
        // Alive, but nothing is known about its role.
        check(&[ALIVE, new], BEFORE, waits, Ruling::Contested);
        // A witness for another host.
        let newer = [SILENT, new, seat(Streams(8))];
        check(&newer, BEFORE, NEWEST, Ruling::Contested);
    }

    #[test]
    fn the_rule_decides_when_patience_is_over() {
        let seats = [seat(Primary(6)), seat(Primary(7))];
        let rule = |host, timeline, rule| elected(host, timeline, Proof::Rule(rule));
        check(&seats, BEFORE, KEEP, rule(0, 6, SplitBrain::Keep));
        check(&seats, BEFORE, NEWEST, rule(1, 7, SplitBrain::Newest));
        check(&seats, BEFORE, REFUSE, Ruling::Contested);
        // Without a former primary there is nothing to keep.
        check(&seats, None, KEEP, Ruling::Contested);
        check(&seats, None, NEWEST, rule(1, 7, SplitBrain::Newest));
        let tie = [seat(Primary(6)), seat(Primary(7)), seat(Primary(7))];
        check(&tie, BEFORE, NEWEST, Ruling::Contested);
    }

    #[test]
    fn an_opinion_that_is_not_confirmed_wins_no_election() {
        let late = Seat {
            is_answering: false,
            ..seat(Primary(7))
        };
        for patience in [Patience::Waits, KEEP, NEWEST, REFUSE] {
            check(&[SILENT, late], BEFORE, patience, Ruling::Contested);
            check(&[SILENT, late], None, patience, Ruling::Contested);
        }
        // The former primary keeps its place while its last probes are late.
        let late = Seat {
            is_answering: false,
            ..seat(Primary(6))
        };
        let expected = elected(0, 6, Proof::Returned);
        check(&[late], BEFORE, Patience::Waits, expected);
    }

    #[test]
    fn equal_timelines_never_switch() {
        let both = [seat(Primary(6)), seat(Primary(6)), seat(Streams(6))];
        for patience in [Patience::Waits, KEEP, NEWEST, REFUSE] {
            check(&both, BEFORE, patience, elected(0, 6, Proof::Returned));
            // Its copy stays alone. A receiver may show `streaming` long after its primary went.
            let copy = [SILENT, seat(Primary(6)), seat(Streams(6))];
            check(&copy, BEFORE, patience, Ruling::Contested);
        }
        let follows = [seat(Streams(6)), seat(Primary(6))];
        let expected = elected(1, 6, Proof::InRecovery);
        check(&follows, BEFORE, Patience::Waits, expected);
        let recovering = [seat(Standby(6)), seat(Primary(6))];
        check(&recovering, BEFORE, Patience::Waits, Ruling::Contested);
    }

    #[test]
    fn an_older_timeline_is_never_elected_by_itself() {
        let seats = [SILENT, seat(Primary(5))];
        for patience in [Patience::Waits, KEEP, NEWEST, REFUSE] {
            check(&seats, BEFORE, patience, Ruling::Contested);
        }
        // A start of Weir beside a former primary: a standby proves that there was a newer one.
        let start = [seat(Primary(6)), seat(Standby(7))];
        check(&start, None, Patience::Waits, Ruling::Contested);
        check(&start, None, REFUSE, Ruling::Contested);
        let ruled = elected(0, 6, Proof::Rule(SplitBrain::Newest));
        check(&start, None, NEWEST, ruled);
        let streams = [seat(Primary(6)), seat(Streams(7))];
        check(&streams, None, NEWEST, Ruling::Contested);
    }

    #[test]
    fn a_former_primary_that_streams_from_an_older_one_vouches_for_it() {
        let seats = [seat(Streams(5)), seat(Primary(5)), seat(Streams(5))];
        let expected = elected(1, 5, Proof::InRecovery);
        check(&seats, BEFORE, Patience::Waits, expected);
        let newer = [seat(Streams(5)), seat(Primary(5)), seat(Streams(6))];
        check(&newer, BEFORE, Patience::Waits, Ruling::Contested);
    }

    #[test]
    fn the_same_host_on_an_older_timeline_needs_the_rule() {
        let seats = [seat(Primary(5)), seat(Standby(6))];
        check(&seats, BEFORE, Patience::Waits, Ruling::Contested);
        let expected = elected(0, 5, Proof::Rule(SplitBrain::Newest));
        check(&seats, BEFORE, NEWEST, expected);
    }

    #[test]
    fn three_primaries_need_a_standby() {
        let seats = [SILENT, seat(Primary(7)), seat(Primary(8))];
        check(&seats, BEFORE, Patience::Waits, Ruling::Contested);
        let seats = [SILENT, seat(Primary(7)), seat(Primary(8)), seat(Streams(8))];
        let expected = elected(2, 8, Proof::Streams(3));
        check(&seats, BEFORE, Patience::Waits, expected);
    }

    #[test]
    fn a_named_leader_on_a_higher_timeline_needs_no_other_witness() {
        let waits = Patience::Waits;
        let both = [seat(Primary(6)), seat(Primary(7)), seat(Streams(6))];
        let named = elected(1, 7, Proof::Named);
        check_led(&both, BEFORE, Some(1), waits, named);
        check_led(&both, None, Some(1), waits, named);
        // Alive, but nothing is known about its role.
        check_led(&[ALIVE, seat(Primary(7))], BEFORE, Some(1), waits, named);
        let three = [seat(Primary(6)), seat(Primary(7)), seat(Primary(8))];
        let expected = elected(2, 8, Proof::Named);
        check_led(&three, BEFORE, Some(2), waits, expected);
        // Evidence of the hosts themselves is told first.
        let streams = [seat(Primary(6)), seat(Primary(7)), seat(Streams(7))];
        let expected = elected(1, 7, Proof::Streams(2));
        check_led(&streams, BEFORE, Some(1), waits, expected);
        let expected = elected(1, 7, Proof::Silent);
        check_led(
            &[SILENT, seat(Primary(7))],
            BEFORE,
            Some(1),
            waits,
            expected,
        );
    }

    #[test]
    fn a_name_alone_makes_no_host_the_primary() {
        let standbys = [SILENT, seat(Streams(6)), seat(Standby(6))];
        for patience in [Patience::Waits, KEEP, NEWEST, REFUSE] {
            for leader in [0, 1, 2, 9] {
                check_led(&standbys, BEFORE, Some(leader), patience, Ruling::Nobody);
                check_led(&standbys, None, Some(leader), patience, Ruling::Nobody);
            }
        }
        // The name of another host helps nobody.
        let both = [seat(Primary(6)), seat(Primary(7)), seat(Streams(6))];
        for leader in [0, 2, 9] {
            let leader = Some(leader);
            check_led(&both, BEFORE, leader, Patience::Waits, Ruling::Contested);
            check_led(&both, None, leader, Patience::Waits, Ruling::Contested);
        }
        let late = Seat {
            is_answering: false,
            ..seat(Primary(7))
        };
        let seats = [seat(Primary(6)), late];
        check_led(&seats, BEFORE, Some(1), Patience::Waits, Ruling::Contested);
    }

    #[test]
    fn a_named_leader_on_no_higher_timeline_wins_nothing() {
        let waits = Patience::Waits;
        // The primary in force has the higher timeline.
        let both = [seat(Primary(6)), seat(Primary(5))];
        let stays = elected(0, 6, Proof::Returned);
        check_led(&both, BEFORE, Some(1), waits, stays);
        let lower = [seat(Primary(6)), seat(Primary(7))];
        check_led(&lower, BEFORE, Some(0), waits, Ruling::Contested);
        check_led(&lower, None, Some(0), waits, Ruling::Contested);
        // Copies of one data directory.
        let copies = [ALIVE, seat(Primary(7)), seat(Primary(7))];
        check_led(&copies, BEFORE, Some(1), waits, Ruling::Contested);
        check_led(&copies, None, Some(1), waits, Ruling::Contested);
        // No host was promoted since the former primary was elected.
        for timeline in [5, 6] {
            let seats = [SILENT, seat(Primary(timeline))];
            check_led(&seats, BEFORE, Some(1), waits, Ruling::Contested);
        }
        // A standby streams from a newer primary, or there was one before Weir started.
        let newer = [seat(Primary(6)), seat(Primary(7)), seat(Streams(8))];
        check_led(&newer, BEFORE, Some(1), waits, Ruling::Contested);
        let start = [seat(Primary(5)), seat(Primary(6)), seat(Standby(7))];
        check_led(&start, None, Some(1), waits, Ruling::Contested);
    }
}
