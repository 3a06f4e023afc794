//! Tables: a text and a session on one side, the allowed hosts and the reason on the other.

use weir_sql::Access;
use weir_sql::Isolation;

use super::Among;
use super::Course;
use super::Readers;
use crate::ask::RouteState;
use crate::ask::Wanted;
use crate::fixture::BEGIN;
use crate::fixture::BEGIN_READ_ONLY;
use crate::fixture::BEGIN_READ_WRITE;
use crate::fixture::BEGIN_REPEATABLE;
use crate::fixture::BEGIN_SERIALIZABLE;
use crate::fixture::Question;
use crate::fixture::READ;
use crate::fixture::READ_CATALOGUE;
use crate::fixture::WRITE;
use crate::rules::Consistency;
use crate::rules::Fallback;
use crate::rules::Rules;
use crate::rules::Split;
use crate::rules::Target;
use crate::verdict::Why;

const EVERY_ACCESS: [Access; 8] = [
    Access::Anywhere,
    BEGIN,
    BEGIN_READ_ONLY,
    BEGIN_READ_WRITE,
    BEGIN_SERIALIZABLE,
    READ,
    READ_CATALOGUE,
    WRITE,
];

fn course(rules: &Rules, session: &RouteState, access: &Access) -> Course {
    let mut question = Question::new(rules.clone());
    question.session = session.clone();
    question.access = access.clone();
    question.with(|router, ask, _| Course::of(router.rules(), ask))
}

#[track_caller]
fn check(rules: &Rules, session: &RouteState, table: &[(Access, Course)]) {
    for (access, expected) in table {
        let found = course(rules, session, access);
        assert_eq!(found, *expected, "{access:?} of {session:?} by {rules:?}");
    }
}

/// Checks that all texts have the same hosts.
#[track_caller]
fn check_every(rules: &Rules, session: &RouteState, expected: Course) {
    check(
        rules,
        session,
        &EVERY_ACCESS.map(|access| (access, expected)),
    );
}

fn split(split: Split) -> Rules {
    Rules {
        split,
        ..Rules::default()
    }
}

fn target(target: Target) -> Rules {
    Rules {
        target,
        ..Rules::default()
    }
}

fn role(role: Wanted) -> RouteState {
    RouteState {
        role,
        ..RouteState::default()
    }
}

fn consistency(consistency: Consistency) -> RouteState {
    RouteState {
        consistency: Some(consistency),
        ..RouteState::default()
    }
}

fn serializable() -> RouteState {
    RouteState {
        isolation: Some(Isolation::Serializable),
        ..RouteState::default()
    }
}

fn read_only() -> RouteState {
    RouteState {
        is_read_only: true,
        ..RouteState::default()
    }
}

const fn readers(among: Among, why: Why, otherwise: Fallback) -> Course {
    Course::Readers(Readers {
        among,
        why,
        otherwise,
        has_net: false,
    })
}

const fn by_split(why: Why, has_net: bool) -> Course {
    Course::Readers(Readers {
        among: Among::Replicas,
        why,
        otherwise: Fallback::Primary,
        has_net,
    })
}

#[test]
fn without_a_split_everything_goes_to_the_primary() {
    let primary = Course::Primary(Why::Target);
    check_every(&Rules::default(), &RouteState::default(), primary);
    check_every(&Rules::default(), &role(Wanted::Replica), primary);
    check_every(&Rules::default(), &read_only(), primary);
}

#[test]
fn target_primary_is_left_by_nobody() {
    let mut rules = target(Target::Primary);
    rules.split = Split::Auto;
    for session in [RouteState::default(), role(Wanted::Replica), read_only()] {
        check_every(&rules, &session, Course::Primary(Why::Target));
    }
}

#[test]
fn targets_of_replicas_are_left_by_nobody() {
    let replicas = readers(Among::Replicas, Why::Target, Fallback::Error);
    let sessions = [
        RouteState::default(),
        role(Wanted::Primary),
        role(Wanted::Replica),
        serializable(),
        consistency(Consistency::Primary),
    ];
    for session in &sessions {
        check_every(&target(Target::Standby), session, replicas);
        check_every(&target(Target::ReadOnly), session, replicas);
    }
}

#[test]
fn prefer_standby_leaves_a_replica_only_for_what_replicas_cannot_do() {
    let rules = target(Target::PreferStandby);
    let replicas = readers(Among::Replicas, Why::Target, Fallback::Primary);
    check(
        &rules,
        &RouteState::default(),
        &[
            (READ, replicas),
            (WRITE, replicas),
            (BEGIN, replicas),
            (Access::Anywhere, replicas),
            (BEGIN_SERIALIZABLE, Course::Primary(Why::Serializable)),
        ],
    );
    check_every(&rules, &role(Wanted::Primary), Course::Primary(Why::Wanted));
    check_every(&rules, &serializable(), Course::Primary(Why::Serializable));
    let primary = Course::Primary(Why::Consistency);
    check(
        &rules,
        &consistency(Consistency::Primary),
        &[(READ, primary), (WRITE, primary)],
    );
    let wanted = readers(Among::Replicas, Why::Wanted, Fallback::Primary);
    check(
        &rules,
        &role(Wanted::Replica),
        &[(READ, wanted), (WRITE, wanted)],
    );
}

#[test]
fn target_any_sends_to_any_host_only_what_may_run_there() {
    let any = readers(Among::All, Why::Target, Fallback::Primary);
    check(
        &target(Target::Any),
        &RouteState::default(),
        &[
            (Access::Anywhere, any),
            (READ, any),
            (READ_CATALOGUE, any),
            (BEGIN_READ_ONLY, any),
            (BEGIN, Course::Primary(Why::Begin)),
            (BEGIN_READ_WRITE, Course::Primary(Why::Begin)),
            (BEGIN_SERIALIZABLE, Course::Primary(Why::Serializable)),
            (WRITE, Course::Primary(Why::Access)),
        ],
    );
    let wanted = readers(Among::Replicas, Why::Wanted, Fallback::Primary);
    check(
        &target(Target::Any),
        &role(Wanted::Replica),
        &[(READ, wanted), (WRITE, wanted)],
    );
    check_every(
        &target(Target::Any),
        &role(Wanted::Primary),
        Course::Primary(Why::Wanted),
    );
}

#[test]
fn split_auto_sends_proved_reads_to_replicas() {
    check(
        &split(Split::Auto),
        &RouteState::default(),
        &[
            (Access::Anywhere, Course::Primary(Why::Anywhere)),
            (READ, by_split(Why::Reads, true)),
            (READ_CATALOGUE, by_split(Why::Reads, true)),
            (BEGIN, Course::Primary(Why::Begin)),
            (BEGIN_READ_ONLY, by_split(Why::ReadOnly, true)),
            (BEGIN_READ_WRITE, Course::Primary(Why::Begin)),
            (BEGIN_SERIALIZABLE, Course::Primary(Why::Serializable)),
            (WRITE, Course::Primary(Why::Access)),
        ],
    );
}

#[test]
fn a_bare_begin_follows_the_policy_and_the_sessions_default() {
    let mut rules = split(Split::Auto);
    check(
        &rules,
        &read_only(),
        &[
            (BEGIN, by_split(Why::ReadOnly, true)),
            (BEGIN_READ_WRITE, Course::Primary(Why::Begin)),
            (WRITE, Course::Primary(Why::Access)),
        ],
    );
    rules.until_write = true;
    check(
        &rules,
        &RouteState::default(),
        &[
            (BEGIN, by_split(Why::UntilWrite, true)),
            (BEGIN_REPEATABLE, Course::Primary(Why::Begin)),
            (BEGIN_READ_WRITE, Course::Primary(Why::Begin)),
        ],
    );
    check(
        &rules,
        &serializable(),
        &[(BEGIN, Course::Primary(Why::Serializable))],
    );
}

#[test]
fn split_hint_waits_for_a_word() {
    let mut rules = split(Split::Hint);
    rules.until_write = true;
    check(
        &rules,
        &RouteState::default(),
        &[
            (READ, Course::Primary(Why::NoHint)),
            (BEGIN, Course::Primary(Why::Begin)),
            (BEGIN_READ_ONLY, by_split(Why::ReadOnly, true)),
            (BEGIN_READ_WRITE, Course::Primary(Why::Begin)),
            (WRITE, Course::Primary(Why::Access)),
        ],
    );
    check(
        &rules,
        &read_only(),
        &[
            (READ, by_split(Why::ReadOnly, true)),
            (BEGIN, by_split(Why::ReadOnly, true)),
            (WRITE, Course::Primary(Why::Access)),
        ],
    );
}

#[test]
fn a_role_holds_for_everything_that_the_session_sends() {
    for mode in [Split::Auto, Split::Hint] {
        check_every(
            &split(mode),
            &role(Wanted::Primary),
            Course::Primary(Why::Wanted),
        );
        let wanted = readers(Among::Replicas, Why::Wanted, Fallback::Primary);
        check(
            &split(mode),
            &role(Wanted::Replica),
            &[
                (Access::Anywhere, wanted),
                (BEGIN, wanted),
                (BEGIN_READ_WRITE, wanted),
                (READ, wanted),
                (READ_CATALOGUE, wanted),
                (WRITE, wanted),
                (BEGIN_SERIALIZABLE, Course::Primary(Why::Serializable)),
            ],
        );
    }
}

#[test]
fn serializable_sessions_and_consistency_primary_stay_on_the_primary() {
    for wanted in [Wanted::Auto, Wanted::Replica] {
        let mut session = serializable();
        session.role = wanted;
        let expected = Course::Primary(Why::Serializable);
        check_every(&split(Split::Auto), &session, expected);
    }
    let mut rules = split(Split::Auto);
    rules.consistency = Consistency::Primary;
    check(
        &rules,
        &RouteState::default(),
        &[(READ, Course::Primary(Why::Consistency))],
    );
    check(
        &rules,
        &consistency(Consistency::Session),
        &[(READ, by_split(Why::Reads, true))],
    );
}

#[test]
fn eventual_reads_of_the_catalogue_go_to_the_primary() {
    let session = consistency(Consistency::Eventual);
    check(
        &split(Split::Auto),
        &session,
        &[
            (READ, by_split(Why::Reads, true)),
            (READ_CATALOGUE, Course::Primary(Why::Catalogue)),
        ],
    );
    check(
        &target(Target::Any),
        &session,
        &[(READ_CATALOGUE, Course::Primary(Why::Catalogue))],
    );
}

#[test]
fn a_session_chooses_its_own_split() {
    let session = RouteState {
        split: Some(Split::Auto),
        ..RouteState::default()
    };
    check(
        &Rules::default(),
        &session,
        &[(READ, by_split(Why::Reads, true))],
    );
    let session = RouteState {
        split: Some(Split::Off),
        ..RouteState::default()
    };
    check_every(&split(Split::Auto), &session, Course::Primary(Why::Target));
}

#[test]
fn fallback_error_counts_for_the_split_alone() {
    let error = |mut rules: Rules| {
        rules.fallback = Fallback::Error;
        rules
    };
    let of = |rules: Rules, session: &RouteState| match course(&rules, session, &READ) {
        Course::Readers(readers) => readers.otherwise,
        Course::Primary(why) => panic!("{why:?}"),
    };
    let session = RouteState::default();
    assert_eq!(of(error(split(Split::Auto)), &session), Fallback::Error);
    let replica = role(Wanted::Replica);
    assert_eq!(of(error(split(Split::Hint)), &replica), Fallback::Error);
    assert_eq!(of(error(target(Target::Any)), &session), Fallback::Primary);
    let prefer = target(Target::PreferStandby);
    assert_eq!(of(error(prefer), &session), Fallback::Primary);
}
