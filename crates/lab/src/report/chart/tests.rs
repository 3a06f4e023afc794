//! Tests of charts against golden files, and of content that must never be in one.

use expect_test::expect_file;

use super::*;

fn mark(center: f64, flagged: bool) -> Option<Mark> {
    Some(Mark {
        center,
        low: center * 0.95,
        high: center * 1.04,
        flagged,
    })
}

fn series(title: &str, style: usize, points: Vec<Option<Mark>>) -> Series {
    let published = points
        .iter()
        .map(|point| point.map(|mark| mark.center * 1.1))
        .collect();
    Series {
        title: title.to_owned(),
        style,
        twin: style == 5,
        points,
        published,
    }
}

fn chart(metric: Metric) -> Chart {
    Chart {
        metric,
        axis: "clients".to_owned(),
        places: ["1", "50", "1000"].map(str::to_owned).to_vec(),
        series: vec![
            series(
                "Weir, 1 worker",
                0,
                vec![
                    mark(8_000.0, false),
                    mark(36_000.0, false),
                    mark(31_000.0, true),
                ],
            ),
            series(
                "PgBouncer",
                4,
                vec![mark(7_900.0, false), None, mark(28_000.0, false)],
            ),
            series(
                "<again & again>",
                5,
                vec![mark(7_950.0, false), mark(33_000.0, false), None],
            ),
        ],
    }
}

#[test]
fn throughput_over_clients() {
    expect_file!["../../../testdata/chart-throughput.svg"].assert_eq(&chart(Metric::Tps).svg());
}

#[test]
fn latency_by_powers_of_ten() {
    let mut chart = chart(Metric::P99);
    chart.series[1].points = vec![
        mark(120.0, false),
        mark(2_000.0, false),
        mark(64_000.0, true),
    ];
    assert_eq!(chart.title(), "Latency p99, ms");
    expect_file!["../../../testdata/chart-latency.svg"].assert_eq(&chart.svg());
}

#[test]
fn bars_where_there_is_one_place() {
    let mut chart = chart(Metric::Bandwidth);
    chart.places.truncate(1);
    for series in &mut chart.series {
        series.points.truncate(1);
    }
    expect_file!["../../../testdata/chart-bars.svg"].assert_eq(&chart.svg());
}

#[test]
fn names_on_the_axis_are_not_joined_by_lines() {
    let mut chart = chart(Metric::Bandwidth);
    assert!(chart.svg().contains("class=\"line s0\""));
    chart.places = ["in", "out", "both"].map(str::to_owned).to_vec();
    let svg = chart.svg();
    assert!(!svg.contains("class=\"line s0\"") && svg.contains("class=\"mark s0\""));
}

#[test]
fn what_is_no_number_is_not_drawn() {
    let mut chart = chart(Metric::Tps);
    chart.series[0].points[1] = mark(f64::NAN, false);
    chart.series[1].points[0] = mark(f64::INFINITY, false);
    chart.series[2].published[0] = Some(f64::NAN);
    let svg = chart.svg();
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    chart.series.clear();
    assert!(chart.is_empty());
    assert!(chart.svg().ends_with("</svg>"));
    chart.places.truncate(1);
    assert!(chart.svg().ends_with("</svg>"));
}

#[test]
fn names_cannot_break_out() {
    let svg = chart(Metric::Tps).svg();
    assert!(svg.contains("&lt;again &amp; again&gt;") && !svg.contains("<again"));
    assert_eq!(escape("\u{1}\"'"), "\u{FFFD}&quot;&#39;");
}
