//! Rules about the state of hosts: freshness, waits, fallbacks, zones, explanations.

use std::time::Duration;

use weir_pool::HostId;
use weir_pool::Moment;
use weir_watch::Held;
use weir_watch::HostView;
use weir_watch::Lsn;
use weir_watch::Positions;
use weir_watch::Role;
use weir_watch::Snapshot;
use weir_watch::State;
use weir_watch::TimelinePosition;
use weir_watch::Writes;

use crate::ask::Load;
use crate::ask::Token;
use crate::ask::Wanted;
use crate::fixture::BEGIN_READ_ONLY;
use crate::fixture::PRIMARY;
use crate::fixture::Question;
use crate::fixture::READ;
use crate::fixture::WRITE;
use crate::fixture::at;
use crate::fixture::host;
use crate::rules::Consistency;
use crate::rules::Fallback;
use crate::rules::Rules;
use crate::rules::Split;
use crate::rules::Target;
use crate::verdict::Verdict;
use crate::verdict::Why;

fn auto() -> Question {
    Question::new(Rules {
        split: Split::Auto,
        ..Rules::default()
    })
}

fn target(target: Target) -> Question {
    Question::new(Rules {
        target,
        ..Rules::default()
    })
}

fn to_primary(why: Why) -> Verdict {
    Verdict::Go {
        host: PRIMARY,
        why,
        has_net: false,
    }
}

fn load(in_use: u32, waiting: u32, size: u32) -> Load {
    Load {
        in_use,
        waiting,
        size,
    }
}

/// Returns the hosts that many random numbers choose, in order.
fn hosts_of(question: &mut Question) -> Vec<u32> {
    let mut hosts = Vec::new();
    for dice in 0..200 {
        question.dice = dice;
        hosts.extend(question.host().map(|host| host.0));
    }
    hosts.sort_unstable();
    hosts.dedup();
    hosts
}

/// Position on a timeline, as a session's token.
fn token(timeline: u32, lsn: u64) -> Token {
    Token::At(TimelinePosition {
        timeline,
        lsn: Lsn(lsn),
    })
}

#[test]
fn a_token_needs_a_replica_that_has_replayed_it() {
    // Replicas have replayed up to 990.
    for consistency in [
        Consistency::Session,
        Consistency::Eventual,
        Consistency::Global,
    ] {
        let mut question = auto();
        question.rules.consistency = consistency;
        question.session.token = token(1, 990);
        assert!(question.is_on_replica(), "{consistency}");
        question.session.token = token(1, 991);
        assert_eq!(
            question.verdict(),
            to_primary(Why::TooFresh),
            "{consistency}"
        );
        question.rules.fallback = Fallback::Error;
        assert_eq!(question.verdict(), Verdict::Refuse(Why::TooFresh));
        question.rules.read_wait = Duration::from_millis(20);
        let until = at(10_020);
        let why = Why::TooFresh;
        assert_eq!(question.verdict(), Verdict::Hold { until, why });
        question.hosts.hosts[1].replayed = Some(Lsn(991));
        assert_eq!(question.host(), Some(HostId(2)));
        question.each_replica(|host| host.replayed = None);
        assert_eq!(question.host(), None);
    }
}

#[test]
fn a_token_of_another_timeline_or_none_at_all_needs_the_primary() {
    for foreign in [token(2, 1), token(0, 1), Token::Malformed] {
        let mut question = auto();
        question.session.token = foreign;
        assert_eq!(question.verdict(), to_primary(Why::Token), "{foreign:?}");
        question.session.role = Wanted::Replica;
        assert_eq!(question.verdict(), to_primary(Why::Token), "{foreign:?}");
        question.hosts.positions = Positions::on_timeline(2);
        let is_known = foreign == token(2, 1);
        assert_eq!(question.is_on_replica(), is_known, "{foreign:?}");
        let mut bound = target(Target::Standby);
        bound.session.token = foreign;
        assert_eq!(
            bound.verdict(),
            Verdict::Refuse(Why::TooFresh),
            "{foreign:?}"
        );
        let mut any = target(Target::PreferStandby);
        any.session.token = foreign;
        assert_eq!(any.verdict(), to_primary(Why::Token), "{foreign:?}");
    }
}

#[test]
fn the_primary_shows_every_position_of_its_timeline() {
    let mut question = target(Target::Any);
    question.session.token = token(1, 5_000);
    assert_eq!(question.verdict(), to_primary(Why::Target));
    let line = question.explanation().hosts.remove(1);
    assert!(
        line.ends_with("not fresh enough for weir.min_lsn 1/0/1388: shows 1/0/3DE"),
        "{line}"
    );
}

#[test]
fn reads_and_blocks_of_the_split_go_to_replicas_with_a_net() {
    let mut question = auto();
    assert_eq!(hosts_of(&mut question), [2, 3]);
    let has_net = |question: &Question| match question.verdict() {
        Verdict::Go { has_net, .. } => has_net,
        Verdict::Hold { .. } | Verdict::Refuse(_) => panic!("{:?}", question.verdict()),
    };
    assert!(has_net(&question));
    question.access = BEGIN_READ_ONLY;
    assert!(question.is_on_replica() && has_net(&question));
    question.access = READ;
    question.session.role = Wanted::Replica;
    assert!(question.is_on_replica() && !has_net(&question));
    let mut question = target(Target::PreferStandby);
    assert!(question.is_on_replica() && !has_net(&question));
    question.access = WRITE;
    assert!(question.is_on_replica() && !has_net(&question));
}

/// Change of a host.
type Change = fn(&mut HostView);

#[test]
fn hosts_that_do_not_qualify_get_no_read() {
    let changes: [(&str, Change); 9] = [
        ("reads", |host| host.takes_reads = false),
        ("weight", |host| host.weight = 0),
        ("role", |host| host.role = Role::Unknown),
        ("down", |host| host.state = State::Down),
        ("fenced", |host| host.state = State::Fenced),
        ("foreign", |host| host.state = State::Foreign),
        ("diverged", |host| host.state = State::Diverged),
        ("refusing", |host| host.state = State::Refusing),
        ("unknown", |host| host.state = State::Unknown),
    ];
    for (name, change) in changes {
        let mut question = auto();
        change(&mut question.hosts.hosts[1]);
        assert_eq!(hosts_of(&mut question), [3], "{name}");
        question.each_replica(change);
        assert_eq!(question.verdict(), to_primary(Why::NoReplica), "{name}");
    }
}

#[test]
fn a_second_primary_gets_no_read_even_from_target_any() {
    let mut question = target(Target::Any);
    assert_eq!(hosts_of(&mut question), [1, 2, 3]);
    question.hosts.hosts[1] = host(2, Role::Primary);
    assert_eq!(hosts_of(&mut question), [1, 3]);
    question.hosts.writes = Writes::Held(Held::SplitBrain);
    assert_eq!(hosts_of(&mut question), [3]);
}

#[test]
fn the_host_of_the_writes_is_no_replica_even_if_its_role_is_old() {
    let mut question = auto();
    question.hosts.writes = Writes::To(HostId(2));
    assert_eq!(hosts_of(&mut question), [3]);
}

/// Checks for each consistency if a replica is fresh enough.
fn is_fresh(change: impl Fn(&mut Question)) -> [bool; 3] {
    let modes = [
        Consistency::Eventual,
        Consistency::Session,
        Consistency::Global,
    ];
    modes.map(|consistency| {
        let mut question = auto();
        question.rules.consistency = consistency;
        change(&mut question);
        match question.verdict() {
            Verdict::Go { host, why, .. } => {
                let is_on_replica = host != PRIMARY;
                assert_eq!(why == Why::TooFresh, !is_on_replica);
                is_on_replica
            }
            verdict => panic!("{verdict:?}"),
        }
    })
}

#[test]
fn replicas_show_the_commits_that_the_consistency_names() {
    // Replicas show all commits that were acknowledged before 9,900 ms.
    assert_eq!(is_fresh(|_| ()), [true, true, true]);
    let own = |millis| is_fresh(|question| question.session.last_write = at(millis));
    assert_eq!(own(9_899), [true, true, true]);
    assert_eq!(own(9_900), [true, false, false]);
    let any = |millis| is_fresh(|question| question.last_write_of_all = at(millis));
    assert_eq!(any(9_899), [true, true, true]);
    assert_eq!(any(9_900), [true, true, false]);
    // The moment for unflushed commits lags behind.
    let own = |millis| {
        is_fresh(|question| {
            question.session.last_async_write = at(millis);
            question.each_replica(|host| host.fresh_to_async = at(9_800));
        })
    };
    assert_eq!(own(9_799), [true, true, true]);
    assert_eq!(own(9_850), [true, false, false]);
    let any = |millis| {
        is_fresh(|question| {
            question.last_async_write_of_all = at(millis);
            question.each_replica(|host| host.fresh_to_async = at(9_800));
        })
    };
    assert_eq!(any(9_850), [true, true, false]);
}

#[test]
fn sessions_that_never_wrote_read_from_replicas_of_unknown_freshness() {
    let mut question = auto();
    question.each_replica(|host| (host.fresh_to, host.fresh_to_async) = (Moment(0), Moment(0)));
    assert!(question.is_on_replica());
    question.session.last_write = Moment(1);
    assert_eq!(question.verdict(), to_primary(Why::TooFresh));
}

#[test]
fn the_fresh_replica_is_chosen_among_stale_ones() {
    let mut question = auto();
    question.session.last_write = at(9_950);
    question.hosts.hosts[2].fresh_to = at(9_951);
    assert_eq!(hosts_of(&mut question), [3]);
}

#[test]
fn a_stale_read_waits_and_then_falls_back() {
    let mut question = auto();
    question.rules.read_wait = Duration::from_millis(20);
    question.session.last_write = at(10_000);
    let wait = Verdict::Hold {
        until: at(10_020),
        why: Why::TooFresh,
    };
    assert_eq!(question.verdict(), wait);
    question.now = Moment(at(10_020).0 - 1);
    assert_eq!(question.verdict(), wait);
    question.now = at(10_020);
    assert_eq!(question.verdict(), to_primary(Why::TooFresh));
    question.rules.fallback = Fallback::Error;
    assert_eq!(question.verdict(), Verdict::Refuse(Why::TooFresh));
    question.each_replica(|host| host.fresh_to = at(10_010));
    assert!(question.is_on_replica());
}

#[test]
fn a_read_without_any_replica_falls_back_at_once() {
    let mut question = auto();
    question.rules.read_wait = Duration::from_millis(20);
    question.each_replica(|host| host.takes_reads = false);
    assert_eq!(question.verdict(), to_primary(Why::NoReplica));
    question.rules.fallback = Fallback::Error;
    assert_eq!(
        question.verdict(),
        Verdict::Hold {
            until: at(10_020),
            why: Why::NoReplica
        }
    );
    question.rules.read_wait = Duration::ZERO;
    assert_eq!(question.verdict(), Verdict::Refuse(Why::NoReplica));
}

#[test]
fn a_target_of_replicas_never_falls_back() {
    for mode in [Target::Standby, Target::ReadOnly] {
        let mut question = target(mode);
        question.access = WRITE;
        assert_eq!(hosts_of(&mut question), [2, 3]);
        question.each_replica(|host| host.state = State::Down);
        assert_eq!(question.verdict(), Verdict::Refuse(Why::NoReplica));
        question.hosts.writes = Writes::Held(Held::NoPrimary);
        assert_eq!(question.verdict(), Verdict::Refuse(Why::NoReplica));
        // Before the first probe the request waits.
        question.hosts.writes = Writes::Unknown;
        let until = at(70_000);
        let why = Why::NoReplica;
        assert_eq!(question.verdict(), Verdict::Hold { until, why });
        question.now = until;
        assert_eq!(question.verdict(), Verdict::Refuse(why));
    }
}

#[test]
fn a_target_of_replicas_takes_consistency_primary_for_global() {
    let mut question = target(Target::Standby);
    question.rules.consistency = Consistency::Primary;
    assert!(question.is_on_replica());
    question.last_write_of_all = at(9_950);
    assert_eq!(question.verdict(), Verdict::Refuse(Why::TooFresh));
}

#[test]
fn without_a_primary_writes_wait_and_reads_go_on() {
    let cases = [
        (Writes::Held(Held::NoPrimary), Why::NoPrimary),
        (Writes::Held(Held::SplitBrain), Why::SplitBrain),
        (Writes::Unknown, Why::NoPrimary),
        // A snapshot that names a host that it does not have.
        (Writes::To(HostId(99)), Why::NoPrimary),
    ];
    for (writes, why) in cases {
        let mut question = auto();
        question.hosts.writes = writes;
        assert!(question.is_on_replica());
        question.access = WRITE;
        let until = at(70_000);
        assert_eq!(question.verdict(), Verdict::Hold { until, why });
        question.now = at(69_999);
        assert_eq!(question.verdict(), Verdict::Hold { until, why });
        question.now = until;
        assert_eq!(question.verdict(), Verdict::Refuse(why));
        // A read that no replica can serve waits for the primary as well.
        question.now = question.since;
        question.access = READ;
        question.each_replica(|host| host.weight = 0);
        assert_eq!(question.verdict(), Verdict::Hold { until, why });
    }
}

#[test]
fn an_empty_snapshot_holds_everything() {
    for mode in [
        Target::Any,
        Target::Primary,
        Target::PreferStandby,
        Target::ReadOnly,
        Target::ReadWrite,
        Target::Standby,
    ] {
        for access in [READ, WRITE, BEGIN_READ_ONLY] {
            let mut question = target(mode);
            question.rules.split = Split::Auto;
            question.hosts = Snapshot::default();
            question.access = access;
            let is_held =
                matches!(question.verdict(), Verdict::Hold { until, .. } if until == at(70_000));
            assert!(is_held, "{mode:?} {:?}", question.verdict());
        }
    }
}

#[test]
fn reads_that_fall_back_leave_room_for_writes() {
    let mut question = auto();
    question.rules.fallback_max_share = 50;
    question.each_replica(|host| host.takes_reads = false);
    let held = Verdict::Hold {
        until: Moment::NEVER,
        why: Why::Share,
    };
    let mut with = |load: Load, share| {
        question.loads = vec![Load::default(), load];
        question.rules.fallback_max_share = share;
        question.verdict()
    };
    let goes = to_primary(Why::NoReplica);
    assert_eq!(with(load(9, 0, 20), 50), goes);
    assert_eq!(with(load(10, 0, 20), 50), held);
    assert_eq!(with(load(0, 10, 20), 50), held);
    assert_eq!(with(load(5, 5, 20), 50), held);
    // Unlimited pools, and shares without a limit, hold nobody.
    assert_eq!(with(load(500, 9, 0), 50), goes);
    assert_eq!(with(load(20, 500, 20), 100), goes);
    // A share of less than one server is one server.
    assert_eq!(with(load(0, 0, 5), 10), goes);
    assert_eq!(with(load(1, 0, 5), 10), held);
    assert_eq!(with(load(u32::MAX, u32::MAX, u32::MAX), 99), held);
    // Writes are never held by the share.
    question.access = WRITE;
    assert_eq!(question.verdict(), to_primary(Why::Access));
}

#[test]
fn hosts_of_the_zone_come_first_until_they_are_loaded() {
    let mut question = auto();
    question.rules.az = "a".into();
    assert_eq!(hosts_of(&mut question), [2, 3]);
    question.hosts.hosts[1].az = "a".into();
    question.hosts.hosts[2].az = "b".into();
    assert_eq!(hosts_of(&mut question), [2]);
    let mut with = |near: Load| {
        question.loads = vec![Load::default(), Load::default(), near, load(1_000, 0, 0)];
        hosts_of(&mut question)
    };
    assert_eq!(with(load(8, 0, 10)), [2]);
    // Beyond 80 % all hosts count, and host 2 is still the better choice.
    assert_eq!(with(load(8, 1, 10)), [2]);
    assert_eq!(with(load(u32::MAX, 0, 0)), [2]);
    question.loads = vec![Load::default(), Load::default(), load(8, 1, 10)];
    assert_eq!(hosts_of(&mut question), [3]);
    question.loads.clear();
    question.hosts.hosts[1].fresh_to = Moment(0);
    question.session.last_write = at(1);
    assert_eq!(hosts_of(&mut question), [3]);
}

#[test]
fn an_explanation_names_each_host() {
    let mut question = auto();
    question.rules.max_staleness = Some(Duration::from_secs(10));
    question.rules.max_lag = Some(16_384);
    question.session.last_write = at(9_960);
    question.hosts.hosts[1].lag = Some(Duration::from_millis(3_250));
    question.hosts.hosts[1].lag_bytes = Some(512);
    question.hosts.hosts[2].fresh_to = at(9_990);
    question.hosts.hosts.push(HostView {
        state: State::Down,
        lag: None,
        ..host(4, Role::Replica)
    });
    question.loads = vec![Load::default(), load(20, 3, 20), load(1, 0, 0)];
    let explanation = question.explanation();
    assert_eq!(explanation.verdict, question.verdict());
    assert_eq!(
        explanation.to_string(),
        "\
target is read-write, read_write_split is auto, read_consistency is session
runs on h3:5432: the text reads
primary h1:5432: 20 of 20 servers in use, 3 clients wait: takes writes
replica h2:5432: 3.2 s behind, max_staleness is 10 s, 512 bytes behind, max_lag is 16384 bytes, 1 servers in use: \
takes reads; not fresh enough for the session's last write 40 ms ago
replica h3:5432: 100 ms behind, max_staleness is 10 s, 0 bytes behind, max_lag is 16384 bytes, 0 servers in use: \
qualifies; chosen
replica h4:5432: lag is unknown, max_staleness is 10 s, 0 bytes behind, max_lag is 16384 bytes, 0 servers in use: \
is down"
    );
}

#[test]
fn an_explanation_says_why_nobody_is_chosen() {
    let mut question = auto();
    let reason = |question: &Question| question.explanation().reason;
    question.access = WRITE;
    assert_eq!(reason(&question), "runs on h1:5432: rows are locked");
    question.hosts.writes = Writes::Held(Held::SplitBrain);
    assert_eq!(
        reason(&question),
        "waits for 60 s at most: several hosts say that they are the primary"
    );
    question.now = at(70_000);
    assert_eq!(
        reason(&question),
        "is refused: several hosts say that they are the primary"
    );
    let mut question = auto();
    question.rules.az = "a".into();
    question.hosts.hosts[1].az = "a".into();
    assert!(question.explanation().hosts[1].ends_with("qualifies, near; chosen"));
    assert!(question.explanation().hosts[2].ends_with("qualifies; a near host is preferred"));
}

/// A read that must see a position which the replicas had not replayed at their last probe.
fn guarded() -> Question {
    let mut question = auto();
    question.rules.read_guard = true;
    question.session.token = token(1, 995);
    question
}

#[test]
fn a_replica_that_may_have_caught_up_compares_its_position_itself() {
    let mut question = guarded();
    assert_eq!(hosts_of(&mut question), [2, 3]);
    let is_guarded =
        |verdict| matches!(verdict, Verdict::Go { why, has_net: true, .. } if why == Why::Guarded);
    assert!(is_guarded(question.verdict()));
    let guard = question.with(|router, ask, _| router.guard(ask));
    assert_eq!(
        guard.map(|guard| guard.to_string()).as_deref(),
        Some("1/0/3E3")
    );
    // One that is fresh enough comes first.
    question.hosts.hosts[1].replayed = Some(Lsn(995));
    assert_eq!(hosts_of(&mut question), [2]);
    assert!(!is_guarded(question.verdict()));
}

#[test]
fn a_guard_is_not_used_where_it_would_be_in_vain_or_could_not_be_undone() {
    type Change = fn(&mut Question);
    let changes: [Change; 9] = [
        |question| question.rules.read_guard = false,
        |question| question.may_guard = false,
        |question| question.access = BEGIN_READ_ONLY,
        |question| question.session.role = Wanted::Replica,
        // The primary has not told its position since the session's commit.
        |question| question.session.last_write = at(9_950),
        |question| {
            question
                .hosts
                .hosts
                .iter_mut()
                .for_each(|host| host.timeline = 2)
        },
        |question| {
            question
                .hosts
                .hosts
                .iter_mut()
                .for_each(|host| host.lag = None)
        },
        |question| {
            let late = Some(Duration::from_secs(2));
            question
                .hosts
                .hosts
                .iter_mut()
                .for_each(|host| host.lag = late);
        },
        |question| {
            let behind = Some(10_000_000);
            question
                .hosts
                .hosts
                .iter_mut()
                .for_each(|host| host.lag_bytes = behind);
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut question = guarded();
        change(&mut question);
        assert_eq!(question.verdict(), to_primary(Why::TooFresh), "{number}");
    }
}

#[test]
fn a_hint_bounds_the_age_of_the_data() {
    let mut question = auto();
    question.session.max_staleness = Some(Duration::from_millis(50));
    assert_eq!(question.verdict(), to_primary(Why::NoReplica));
    question.hosts.hosts[2].lag = Some(Duration::ZERO);
    assert_eq!(hosts_of(&mut question), [3]);
    assert!(
        question
            .explanation()
            .to_string()
            .contains("older than the hint allows")
    );
}
