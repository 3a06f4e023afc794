//! Tests of the analysis with the published figures of the e-wallet experiment (P3), and with known answers.

use std::collections::BTreeMap;

use super::criteria::CriterionKind;
use super::usl::{Fit, FitError};
use super::waits::{Class, Occurrences, Profile};
use super::*;

const MACHINE: Machine = Machine {
    cores: 2,
    spindles: 0,
};

fn sweep(rows: &[(u32, f64, f64)]) -> Sweep {
    let points = rows
        .iter()
        .map(|&(connections, tps, latency_ms)| Point::new(connections, tps, latency_ms / 1000.0))
        .collect();
    Sweep::new(Kind::Connections, points).unwrap()
}

fn chatty() -> Sweep {
    sweep(&[
        (2, 356.81, 5.605),
        (4, 676.74, 5.908),
        (8, 1357.28, 5.891),
        (16, 2204.81, 7.248),
        (32, 2421.58, 13.197),
    ])
}

fn pipelined() -> Sweep {
    sweep(&[
        (2, 1111.25, 1.799),
        (4, 1941.22, 2.059),
        (8, 3349.19, 2.383),
        (16, 4558.39, 3.502),
        (32, 4612.74, 6.920),
    ])
}

#[track_caller]
fn near(value: f64, expected: f64, within: f64) {
    assert!(
        (value - expected).abs() <= within,
        "{value} is not {expected} ± {within}"
    );
}

fn says(analysis: &Analysis, kind: CriterionKind) -> f64 {
    let criterion = analysis
        .criteria
        .iter()
        .find(|criterion| criterion.kind == kind);
    criterion.unwrap().connections.unwrap()
}

fn recommended(analysis: &Analysis) -> &Recommendation {
    match &analysis.answer {
        Answer::Recommended(recommendation) => recommendation,
        Answer::Refused(refusal) => panic!("{refusal}"),
    }
}

#[test]
fn every_criterion_gives_its_known_figure_for_the_chatty_rows() {
    let analysis = Analysis::of(&chatty(), MACHINE, Goal::Balanced, 1);
    near(says(&analysis, CriterionKind::Heuristic), 4.0, 0.0);
    near(says(&analysis, CriterionKind::BandwidthDelay), 13.6, 0.05);
    near(says(&analysis, CriterionKind::Power), 16.0, 0.0);
    near(says(&analysis, CriterionKind::Kneedle), 16.0, 0.0);
    near(says(&analysis, CriterionKind::Scalability), 20.0, 0.5);
    near(says(&analysis, CriterionKind::Elasticity), 23.6, 0.1);
    let heuristic = analysis
        .criteria
        .iter()
        .find(|criterion| criterion.kind == CriterionKind::Heuristic);
    near(heuristic.unwrap().part_of_best.unwrap(), 0.28, 0.005);
    for ((.., value), expected) in analysis.elasticities.iter().zip([0.92, 1.0, 0.70, 0.14]) {
        near(*value, expected, 0.006);
    }
}

#[test]
fn every_criterion_gives_its_known_figure_for_the_pipelined_rows() {
    let analysis = Analysis::of(&pipelined(), MACHINE, Goal::Balanced, 1);
    near(says(&analysis, CriterionKind::BandwidthDelay), 8.3, 0.05);
    near(says(&analysis, CriterionKind::Power), 8.0, 0.0);
    near(says(&analysis, CriterionKind::Kneedle), 16.0, 0.0);
    near(says(&analysis, CriterionKind::Scalability), 16.0, 0.5);
    near(says(&analysis, CriterionKind::Elasticity), 18.9, 0.1);
    let heuristic = analysis
        .criteria
        .iter()
        .find(|criterion| criterion.kind == CriterionKind::Heuristic);
    near(heuristic.unwrap().part_of_best.unwrap(), 0.42, 0.005);
    for ((.., value), expected) in analysis.elasticities.iter().zip([0.80, 0.79, 0.44, 0.02]) {
        near(*value, expected, 0.006);
    }
}

#[test]
fn the_scalability_law_fits_the_published_rows_as_known() {
    let fit = Fit::of(&chatty()).unwrap();
    near(fit.gamma, 178.5, 0.5);
    near(fit.sigma, 0.0, 0.0);
    near(fit.kappa, 0.00134, 0.00001);
    near(fit.peak().unwrap(), 27.3, 0.1);
    assert!(fit.residual_max <= 0.038, "{}", fit.residual_max);

    let fit = Fit::of(&pipelined()).unwrap();
    near(fit.gamma, 570.0, 1.0);
    near(fit.sigma, 0.039, 0.001);
    near(fit.kappa, 0.0017, 0.0001);
    near(fit.peak().unwrap(), 23.5, 0.1);
    assert!(fit.residual_max <= 0.03, "{}", fit.residual_max);
}

#[test]
fn a_curve_that_follows_the_law_is_found_again() {
    let (gamma, sigma, kappa) = (100.0, 0.05, 0.001);
    let truth = |n: f64| gamma * n / (1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0));
    let rows: Vec<(u32, f64, f64)> = [1, 2, 4, 8, 16, 32, 64]
        .into_iter()
        .map(|n| {
            (
                n,
                truth(f64::from(n)),
                1000.0 * f64::from(n) / truth(f64::from(n)),
            )
        })
        .collect();
    let fit = Fit::of(&sweep(&rows)).unwrap();
    near(fit.gamma, gamma, 1e-6);
    near(fit.sigma, sigma, 1e-9);
    near(fit.kappa, kappa, 1e-9);
    // The elasticity is the slope of the logarithms.
    let slope = (truth(10.001) / truth(9.999)).ln() / (10.001f64 / 9.999).ln();
    near(fit.elasticity(10.0), slope, 1e-6);
    near(fit.elasticity(fit.peak().unwrap()), 0.0, 1e-6);
}

#[test]
fn bands_hold_the_value_and_are_the_same_for_the_same_seed() {
    let fit = Fit::of(&chatty()).unwrap();
    let bands = fit.banded(&chatty(), 7);
    let near_peak = bands.near_peak.unwrap();
    assert!(near_peak.low <= near_peak.value && near_peak.value <= near_peak.high);
    assert!(
        near_peak.high > near_peak.low,
        "points off the curve leave some room"
    );
    assert!(
        near_peak.low > 10.0 && near_peak.high < 48.0,
        "{near_peak:?}"
    );
    assert_eq!(bands, fit.banded(&chatty(), 7));
}

#[test]
fn repetitions_make_the_bands_where_every_point_has_them() {
    let mut points = chatty().points().to_vec();
    for point in &mut points {
        point.repetitions = vec![point.tps * 0.999, point.tps, point.tps * 1.001];
    }
    let steady = Sweep::new(Kind::Connections, points).unwrap();
    let fit = Fit::of(&steady).unwrap();
    let width = |sweep: &Sweep| {
        let band = fit.banded(sweep, 3).near_peak.unwrap();
        band.high - band.low
    };
    assert!(width(&steady) < 0.2 * width(&chatty()));
}

#[test]
fn nothing_is_said_beyond_what_was_measured() {
    // A straight line: no knee, no peak, no answer.
    let rows = [
        (1, 100.0, 10.0),
        (2, 198.0, 10.1),
        (4, 392.0, 10.2),
        (8, 776.0, 10.3),
    ];
    let analysis = Analysis::of(&sweep(&rows), MACHINE, Goal::Balanced, 1);
    assert!(analysis.usl.as_ref().unwrap().peak.is_none());
    let Answer::Refused(refusal) = &analysis.answer else {
        panic!("{:?}", analysis.answer);
    };
    assert_eq!(
        refusal.to_string(),
        "throughput still rose from 4 to 8 connections, by 0.99 % for each per cent more of them: measure 16 connections as well"
    );
    let analysis = Analysis::of(&sweep(&rows[..2]), MACHINE, Goal::Balanced, 1);
    assert_eq!(analysis.answer, Answer::Refused(Refusal::TooFew(2)));
    assert_eq!(Fit::of(&sweep(&rows[..3])), Err(FitError::TooFew(3)));
}

#[test]
fn the_answer_has_its_reason_its_price_and_its_doubts() {
    let analysis = Analysis::of(&chatty(), MACHINE, Goal::Balanced, 1);
    let recommendation = recommended(&analysis);
    assert_eq!(recommendation.connections, 16);
    assert_eq!(
        recommendation.reason,
        "the measured number nearest to the middle of 5 criteria, which say 13.6 to 23.5"
    );
    assert_eq!(
        recommendation.price,
        "91 % of the throughput of 32 connections at 55 % of its latency"
    );
    assert_eq!(
        recommendation.doubts,
        ["not every point was measured 3 times"]
    );
    assert_eq!(recommendation.confidence, Confidence::Medium);
}

#[test]
fn no_middle_of_criteria_leaves_what_more_connections_still_bring() {
    // From 16 to 32 the elasticity is 0.47: too little to refuse, too much to ignore.
    let rows = [
        (2, 1329.0, 1.50),
        (4, 2571.0, 1.55),
        (8, 4716.0, 1.68),
        (16, 7634.0, 2.06),
        (32, 10555.0, 2.87),
    ];
    let analysis = Analysis::of(&sweep(&rows), MACHINE, Goal::Balanced, 1);
    let recommendation = recommended(&analysis);
    assert_eq!(recommendation.connections, 32);
    assert!(
        recommendation.reason.ends_with("up to 32"),
        "{recommendation:?}"
    );
    assert_eq!(
        recommendation.price,
        "none: this is the highest throughput that was measured"
    );
    let doubt = "it is the most that was measured, and throughput was not yet flat";
    assert!(recommendation.doubts.iter().any(|found| found == doubt));
}

#[test]
fn balanced_leaves_a_tenth_of_the_throughput_at_most() {
    // The rules look at latency, which grows from 8 connections on almost as fast as the number of connections.
    let rows = [
        (2, 4020.0, 0.50),
        (4, 7000.0, 0.57),
        (8, 7600.0, 1.05),
        (16, 8300.0, 1.93),
        (32, 9100.0, 3.52),
        (64, 10000.0, 6.40),
    ];
    let sweep = sweep(&rows);
    let of = |goal| recommended(&Analysis::of(&sweep, MACHINE, goal, 1)).clone();
    let balanced = of(Goal::Balanced);
    assert_eq!(balanced.connections, 32);
    assert_eq!(
        balanced.reason,
        "the fewest connections with 90 % of the highest throughput; the middle of the criteria, 8, has 76 %"
    );
    assert!(of(Goal::Latency).connections < 8);
}

#[test]
fn goals_move_the_answer_in_their_direction() {
    let of = |goal| recommended(&Analysis::of(&pipelined(), MACHINE, goal, 1)).connections;
    assert_eq!(
        (of(Goal::Latency), of(Goal::Balanced), of(Goal::Throughput)),
        (8, 16, 16)
    );
    let of = |goal| recommended(&Analysis::of(&chatty(), MACHINE, goal, 1)).connections;
    assert_eq!(
        (of(Goal::Latency), of(Goal::Balanced), of(Goal::Throughput)),
        (16, 16, 32)
    );
}

#[test]
fn a_pool_that_is_swept_with_percentiles_gets_the_fewest_that_do_as_well() {
    let mut points = Vec::new();
    for (servers, tps, p99_ms) in [
        (2, 370.0, 893.0),
        (8, 1404.0, 240.0),
        (16, 2286.0, 148.0),
        (24, 2411.0, 144.0),
        (48, 2244.0, 171.0),
    ] {
        points.push(Point {
            p99_s: Some(p99_ms / 1000.0),
            ..Point::new(servers, tps, 300.0 / tps)
        });
    }
    let sweep = Sweep::new(Kind::Pool { clients: 300 }, points).unwrap();
    let analysis = Analysis::of(&sweep, MACHINE, Goal::Balanced, 1);
    assert!(
        recommended(&analysis).connections == 24,
        "{:?}",
        analysis.answer
    );
    // The bandwidth-delay knee uses hold times, not latencies including the wait for a server.
    near(
        says(&analysis, CriterionKind::BandwidthDelay),
        2411.0 * 2.0 / 370.0,
        0.01,
    );
}

#[test]
fn littles_law_holds_in_the_published_rows_and_finds_rows_that_are_wrong() {
    for sweep in [chatty(), pipelined()] {
        assert!(sweep.little().iter().all(|check| check.off() < 0.003));
    }
    let wrong = sweep(&[(2, 400.0, 5.605), (4, 676.0, 5.908), (8, 1000.0, 8.0)]);
    let analysis = Analysis::of(&wrong, MACHINE, Goal::Throughput, 1);
    assert!(analysis.little[0].off() > LittleCheck::OFF_MAX);
}

#[test]
fn what_is_no_sweep_is_refused() {
    let point = |connections| Point::new(connections, 1.0, 1.0);
    let of = |points| Sweep::new(Kind::Connections, points).unwrap_err();
    assert_eq!(of(vec![point(1)]), SweepError::TooFew(1));
    assert_eq!(
        of(vec![point(2), point(1), point(2)]),
        SweepError::Duplicate(2)
    );
    assert_eq!(
        of(vec![point(1), Point::new(2, f64::NAN, 1.0)]),
        SweepError::NotPositive(2)
    );
    assert_eq!(of(vec![point(1), point(0)]), SweepError::NotPositive(0));
}

#[test]
fn a_round_trip_costs_what_is_known() {
    let comparisons = round_trips::compare(&chatty(), &pipelined(), (4.0, 1.0));
    assert_eq!(comparisons.len(), 5);
    near(
        round_trips::cost_s(&comparisons).unwrap() * 1000.0,
        1.27,
        0.005,
    );
    near(comparisons[0].speed_up, 3.11, 0.01);
    assert!(round_trips::compare(&chatty(), &pipelined(), (1.0, 1.0)).is_empty());
}

#[test]
fn the_published_average_active_sessions_are_corrected() {
    // WALWrite at 8, 16 and 32 connections: 18 snapshots each.
    for (count, present_in, published, right, error) in [
        (11, 7, 1.57, 0.61, 0.18),
        (27, 13, 2.08, 1.50, 0.29),
        (25, 9, 2.78, 1.39, 0.28),
    ] {
        let occurrences = Occurrences {
            count,
            present_in,
            squares: None,
        };
        let load = occurrences.load(18).unwrap();
        near(load.when_present, published, 0.005);
        near(load.average, right, 0.005);
        near(load.error, error, 0.005);
    }
    assert_eq!(Occurrences::default().load(0), None);
}

#[test]
fn a_profile_counts_all_snapshots_and_keeps_waits_for_clients() {
    let mut profile = Profile::default();
    let event = |class, name: &str| (class, name.to_owned());
    for snapshot in 0..10 {
        let mut sessions = BTreeMap::from([(event(Class::ClientInTransaction, "ClientRead"), 15)]);
        if snapshot < 2 {
            sessions.insert(event(Class::LwLock, "WALWrite"), 5);
        }
        sessions.insert(event(Class::Cpu, ""), 2);
        profile.add(&sessions);
    }
    let loads = profile.loads();
    let of = |name: &str| {
        loads
            .iter()
            .find(|((_, event), _)| event == name)
            .unwrap()
            .1
    };
    near(of("ClientRead").average, 15.0, 1e-9);
    near(of("ClientRead").error, 0.0, 1e-9);
    near(of("WALWrite").average, 1.0, 1e-9);
    near(of("WALWrite").when_present, 5.0, 1e-9);
    near(of("WALWrite").error, (40.0f64 / 9.0 / 10.0).sqrt(), 1e-9);
    near(profile.active(), 3.0, 1e-9);
    near(profile.class(Class::ClientInTransaction), 15.0, 1e-9);
    near(profile.waiting_for_cpu(1.5), 0.5, 1e-9);
    assert_eq!(profile.snapshots(), 10);
}

#[test]
fn sessions_are_classed_by_state_and_wait_together() {
    let check = |state, kind, event, class| assert_eq!(Class::of(state, kind, event), class);
    check("active", None, None, Class::Cpu);
    check("active", Some("IO"), Some("DataFileRead"), Class::Io);
    check("active", Some("LWLock"), Some("WALWrite"), Class::LwLock);
    check("active", Some("Lock"), Some("tuple"), Class::Lock);
    check("active", Some("Client"), Some("ClientWrite"), Class::Other);
    check("active", Some("Client"), Some("ClientRead"), Class::Race);
    check(
        "idle in transaction",
        Some("Client"),
        Some("ClientRead"),
        Class::ClientInTransaction,
    );
    check("idle in transaction", None, None, Class::Race);
    check("idle", Some("Client"), Some("ClientRead"), Class::Idle);
    assert!(!Class::Race.is_active() && !Class::ClientInTransaction.is_active());
}

#[test]
fn demand_is_told_from_supply() {
    near(servers_needed(2000.0, 0.025), 50.0, 1e-9);
    assert!(
        shortage(50.0, 20)
            .unwrap()
            .starts_with("the load needs 50 servers")
    );
    assert_eq!(shortage(15.0, 20), None);
}
