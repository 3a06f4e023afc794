//! Properties of every verdict, over random rules, sessions, hosts and loads.

use std::time::Duration;

use proptest::prelude::*;
use weir_pool::HostId;
use weir_pool::Moment;
use weir_sql::Access;
use weir_sql::Isolation;
use weir_watch::Held;
use weir_watch::HostView;
use weir_watch::Role;
use weir_watch::Snapshot;
use weir_watch::State;
use weir_watch::Writes;

use crate::ask::Load;
use crate::ask::RouteState;
use crate::ask::Token;
use crate::ask::Wanted;
use crate::fixture::BEGIN;
use crate::fixture::BEGIN_READ_ONLY;
use crate::fixture::BEGIN_READ_WRITE;
use crate::fixture::BEGIN_SERIALIZABLE;
use crate::fixture::Question;
use crate::fixture::READ;
use crate::fixture::READ_CATALOGUE;
use crate::fixture::WRITE;
use crate::fixture::host;
use crate::ready::Ready;
use crate::rules::Consistency;
use crate::rules::Fallback;
use crate::rules::Rules;
use crate::rules::Split;
use crate::rules::Target;
use crate::verdict::Verdict;
use crate::verdict::Why;

fn of<T: Clone + std::fmt::Debug + 'static>(all: &'static [T]) -> impl Strategy<Value = T> {
    prop::sample::select(all)
}

/// Returns moments of which many are equal, and some are at the ends.
fn any_moment() -> impl Strategy<Value = Moment> {
    prop_oneof![
        2 => Just(Moment(0)),
        6 => (1..12u64).prop_map(Moment),
        1 => Just(Moment::NEVER),
    ]
}

fn any_wait() -> impl Strategy<Value = Duration> {
    prop_oneof![Just(0u64), 1..8u64, Just(u64::MAX)].prop_map(Duration::from_micros)
}

fn any_target() -> impl Strategy<Value = Target> {
    of(&[
        Target::Any,
        Target::Primary,
        Target::PreferStandby,
        Target::ReadOnly,
        Target::ReadWrite,
        Target::ReadWrite,
        Target::ReadWrite,
        Target::Standby,
    ])
}

fn any_split() -> impl Strategy<Value = Split> {
    of(&[Split::Auto, Split::Auto, Split::Hint, Split::Off])
}

fn any_consistency() -> impl Strategy<Value = Consistency> {
    of(&[
        Consistency::Eventual,
        Consistency::Global,
        Consistency::Primary,
        Consistency::Session,
        Consistency::Session,
    ])
}

fn any_rules() -> impl Strategy<Value = Rules> {
    let modes = (any_target(), any_split(), any::<bool>(), any_consistency());
    let waits = (any_wait(), any_wait());
    let fallback = (of(&[Fallback::Error, Fallback::Primary]), 0..=101u32);
    (modes, waits, fallback, of(&["", "a"])).prop_map(|(modes, waits, fallback, az)| Rules {
        target: modes.0,
        split: modes.1,
        until_write: modes.2,
        consistency: modes.3,
        read_wait: waits.0,
        failover_hold: waits.1,
        fallback: fallback.0,
        fallback_max_share: fallback.1,
        az: az.into(),
        ..Rules::default()
    })
}

fn any_session() -> impl Strategy<Value = RouteState> {
    let role = of(&[Wanted::Auto, Wanted::Auto, Wanted::Primary, Wanted::Replica]);
    let modes = (
        prop::option::weighted(0.2, any_split()),
        prop::option::weighted(0.2, any_consistency()),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.2),
    );
    (any_moment(), any_moment(), role, modes).prop_map(|(flushed, unflushed, role, modes)| {
        RouteState {
            last_write: flushed,
            last_async_write: unflushed,
            role,
            split: modes.0,
            consistency: modes.1,
            isolation: modes.2.then_some(Isolation::Serializable),
            token: Token::None,
            max_staleness: None,
            only: None,
            is_read_only: modes.3,
        }
    })
}

fn any_host() -> impl Strategy<Value = HostView> {
    let state = of(&[
        State::Up,
        State::Up,
        State::Up,
        State::Up,
        State::Diverged,
        State::Down,
        State::Fenced,
        State::Foreign,
        State::Refusing,
        State::Unknown,
    ]);
    let role = of(&[Role::Replica, Role::Replica, Role::Primary, Role::Unknown]);
    let weight = of(&[0, 1, 10, 100, u32::MAX]);
    (
        (role, state, of(&["", "a", "b"])),
        (any_moment(), any_moment()),
        prop::bool::weighted(0.8),
        weight,
    )
        .prop_map(
            |((role, state, az), fresh_to, takes_reads, weight)| HostView {
                state,
                az: az.into(),
                fresh_to: fresh_to.0,
                fresh_to_async: fresh_to.1,
                takes_reads,
                weight,
                ..host(0, role)
            },
        )
}

fn any_hosts() -> impl Strategy<Value = Snapshot> {
    let writes = prop_oneof![
        1 => Just(Writes::Unknown),
        1 => Just(Writes::Held(Held::NoPrimary)),
        1 => Just(Writes::Held(Held::SplitBrain)),
        5 => (0..6u32).prop_map(|number| Writes::To(HostId(number))),
    ];
    (writes, prop::collection::vec(any_host(), 0..6)).prop_map(|(writes, mut hosts)| {
        for (number, host) in (0..).zip(&mut hosts) {
            host.host = HostId(number);
        }
        Snapshot {
            writes,
            hosts,
            ..Snapshot::default()
        }
    })
}

fn any_load() -> impl Strategy<Value = Load> {
    let number = || prop_oneof![4 => 0..30u32, 1 => Just(u32::MAX)];
    (number(), number(), number()).prop_map(|(in_use, waiting, size)| Load {
        in_use,
        waiting,
        size,
    })
}

fn any_access() -> impl Strategy<Value = Access> {
    prop::sample::select(vec![
        Access::Anywhere,
        BEGIN,
        BEGIN_READ_ONLY,
        BEGIN_READ_WRITE,
        BEGIN_SERIALIZABLE,
        READ,
        READ,
        READ_CATALOGUE,
        WRITE,
    ])
}

fn any_question() -> impl Strategy<Value = Question> {
    let times = (any_moment(), any_moment(), any_moment(), any_moment());
    let loads = prop::collection::vec(any_load(), 0..6);
    let parts = (any_rules(), any_session(), any_access(), any_hosts());
    (parts, times, loads, any::<u64>()).prop_map(|(parts, times, loads, dice)| Question {
        rules: parts.0,
        session: parts.1,
        access: parts.2,
        hosts: parts.3,
        last_write_of_all: times.0,
        last_async_write_of_all: times.1,
        since: times.2,
        now: times.3,
        may_guard: true,
        dice,
        loads,
    })
}

/// Returns the host to which a question goes, unless that is the host of the writes.
fn replica(question: &Question) -> Option<&HostView> {
    let host = question.host()?;
    let is_replica = question.hosts.writes != Writes::To(host);
    question.hosts.host(host).filter(|_| is_replica)
}

fn is_shown(commit: Moment, fresh_to: Moment) -> bool {
    commit == Moment(0) || fresh_to > commit
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn a_replica_shows_the_commits_that_the_session_must_see(question in any_question()) {
        let consistency = question.session.consistency.unwrap_or(question.rules.consistency);
        let Some(replica) = replica(&question) else { return Ok(()) };
        if consistency != Consistency::Eventual {
            prop_assert!(is_shown(question.session.last_write, replica.fresh_to));
            prop_assert!(is_shown(question.session.last_async_write, replica.fresh_to_async));
        }
        if consistency == Consistency::Global {
            prop_assert!(is_shown(question.last_write_of_all, replica.fresh_to));
            prop_assert!(is_shown(question.last_async_write_of_all, replica.fresh_to_async));
        }
    }

    #[test]
    fn writes_reach_a_replica_only_if_the_session_or_the_target_asks(mut question in any_question()) {
        let targets = [Target::PreferStandby, Target::ReadOnly, Target::Standby];
        let is_asked_for = question.session.role == Wanted::Replica
            || targets.contains(&question.rules.target);
        for access in [WRITE, BEGIN_READ_WRITE, BEGIN_SERIALIZABLE] {
            question.access = access;
            prop_assert!(is_asked_for || replica(&question).is_none());
        }
    }

    #[test]
    fn a_replica_is_one_that_takes_reads(question in any_question()) {
        let Some(replica) = replica(&question) else { return Ok(()) };
        prop_assert_eq!(replica.role, Role::Replica);
        prop_assert_eq!(replica.state, State::Up);
        prop_assert!(replica.takes_reads && replica.weight > 0);
    }

    #[test]
    fn only_proved_reads_of_the_split_have_a_net(question in any_question()) {
        if let Verdict::Go { has_net: true, why, .. } = question.verdict() {
            prop_assert!(replica(&question).is_some());
            // A block that has only read, or only begun, begins anew.
            let begins = matches!(why, Why::ReadOnly | Why::UntilWrite);
            prop_assert!(question.access.is_read() || begins);
            prop_assert_eq!(question.rules.target, Target::ReadWrite);
            prop_assert_eq!(question.session.role, Wanted::Auto);
        }
    }

    #[test]
    fn a_wait_ends_later_than_now(question in any_question()) {
        if let Verdict::Hold { until, .. } = question.verdict() {
            prop_assert!(until > question.now || until == Moment::NEVER);
        }
    }

    #[test]
    fn a_read_with_a_qualified_replica_is_never_held_or_refused(mut question in any_question()) {
        question.rules.target = Target::ReadWrite;
        question.session.split = Some(Split::Auto);
        question.session.role = Wanted::Auto;
        question.session.consistency = Some(Consistency::Eventual);
        question.session.isolation = None;
        question.access = READ;
        question.hosts.hosts.push(HostView { host: HostId(77), ..host(77, Role::Replica) });
        prop_assert!(replica(&question).is_some());
    }

    #[test]
    fn ready_hosts_are_those_that_would_be_asked(question in any_question()) {
        // Of a snapshot without hosts, no host is ready, so each one is asked.
        let nothing = Ready::of(&Snapshot::default());
        let asked = question.with_ready(&nothing, |router, ask, load| router.ask(ask, load));
        prop_assert_eq!(question.verdict(), asked);
    }

    #[test]
    fn an_explanation_agrees_with_the_verdict(question in any_question()) {
        let explanation = question.explanation();
        prop_assert_eq!(explanation.verdict, question.verdict());
        prop_assert_eq!(explanation.hosts.len(), question.hosts.hosts.len());
        let chosen = explanation.hosts.iter().position(|line| line.ends_with("chosen"));
        let host = question.host().and_then(|id| {
            question.hosts.hosts.iter().position(|host| host.host == id)
        });
        prop_assert_eq!(chosen, host);
        let line = chosen.and_then(|at| explanation.hosts.get(at));
        let is_reader = line.is_some_and(|line| line.contains(": qualifies"));
        prop_assert!(replica(&question).is_none() || is_reader);
    }
}
