//! Tests of reports of made-up runs: golden files, and properties of every report.

use expect_test::{expect, expect_file};
use proptest::prelude::*;

use super::document::{Entry, Table, Tone};
use super::prose::{Part, Prose};
use super::view::is_ours;
use super::*;
use crate::record::FlagKind;

fn tables(blocks: &[Block]) -> Vec<&Table> {
    let mut found = Vec::new();
    for block in blocks {
        match block {
            Block::Beside(beside) => found.extend(beside),
            Block::Details { blocks, .. } => found.extend(tables(blocks)),
            Block::Table(table) => found.push(table),
            _ => {}
        }
    }
    found
}

fn proses(blocks: &[Block]) -> Vec<&Prose> {
    let mut found = Vec::new();
    for block in blocks {
        match block {
            Block::Details { blocks, .. } => found.extend(proses(blocks)),
            Block::List(items) => found.extend(items),
            Block::Note(prose) | Block::Prose(prose) => found.push(prose),
            _ => {}
        }
    }
    found
}

fn all() -> Vec<Results> {
    let mut empty = fixture::small();
    empty.cells.clear();
    let mut nothing = empty.clone();
    nothing.run.experiments.clear();
    nothing.run.targets.clear();
    nothing.run.environment.clear();
    nothing.run.command.clear();
    vec![
        fixture::results(),
        fixture::smoke(),
        fixture::interrupted(),
        fixture::small(),
        empty,
        nothing,
    ]
}

#[test]
fn a_small_run_in_all_forms() {
    let rendered = Rendered::new(&fixture::small());
    let style = include_str!("style.css");
    let page = rendered.html.replace(style, "");
    expect_file!["../../testdata/report.html"].assert_eq(&page);
    expect_file!["../../testdata/report.md"].assert_eq(&rendered.markdown);
    expect_file!["../../testdata/report.txt"].assert_eq(&rendered.text);
}

#[test]
fn a_run_with_replicas_shows_their_share_of_the_transactions() {
    let mut results = fixture::small();
    assert!(!Rendered::new(&results).markdown.contains("on replicas"));
    for cell in &mut results.cells {
        cell.on_replicas = Some(0.9);
    }
    let rendered = Rendered::new(&results);
    let markdown = rendered.markdown;
    assert!(
        markdown.contains("| Transactions on replicas |"),
        "{markdown}"
    );
    assert!(markdown.contains("| 90 % |"), "{markdown}");
}

/// The directory that a browser is shown: `conformance/tests/report_page.rs`.
#[test]
fn the_page_that_a_browser_is_shown_is_of_this_version() {
    let results = fixture::page();
    let run = serde_json::to_string_pretty(&results.run).unwrap() + "\n";
    expect_file!["../../testdata/page/run.json"].assert_eq(&run);
    expect_file!["../../testdata/page/cells.jsonl"].assert_eq(&fixture::lines(&results));
}

#[test]
fn prose_of_a_whole_a_short_and_an_interrupted_run() {
    let mut said = String::new();
    let runs = [
        ("whole", fixture::results()),
        ("short", fixture::smoke()),
        ("interrupted", fixture::interrupted()),
    ];
    for (name, results) in runs {
        let document = document(&View::new(&results));
        said.push_str(&format!("# {name}\n\n"));
        for prose in proses(&document.blocks) {
            said.push_str(&text::wrapped(&prose.plain(), "- ", "  "));
        }
        said.push('\n');
    }
    expect_file!["../../testdata/prose.txt"].assert_eq(&said);
}

/// Removes the digits that literal texts may have: names of percentiles, and the level of all
/// intervals.
fn without_fixed_numbers(text: &str) -> String {
    ["p99.9", "p99", "p90", "p50", "95 %"]
        .iter()
        .fold(text.to_owned(), |text, name| text.replace(name, ""))
}

/// Parses a formatted figure: its number, and the tolerance of the value.
fn read_back(shown: &str) -> Option<(f64, f64)> {
    if shown == format::NONE || shown.starts_with('<') {
        return None;
    }
    let (number, unit) = shown.split_once(' ').unwrap_or((shown, ""));
    let digits = number.replace(',', "");
    let decimals = digits.split_once('.').map_or(0, |(_, after)| after.len());
    let scale = match unit {
        "%" => 0.01,
        "ms" => 1e3,
        "KiB" => 1024.0,
        _ => 1.0,
    };
    let half = 0.5 * 10.0_f64.powi(-i32::try_from(decimals).unwrap()) * scale;
    Some((digits.parse::<f64>().unwrap() * scale, half * (1.0 + 1e-9)))
}

#[test]
fn no_number_in_prose_was_typed_and_each_shows_its_value() {
    for results in all() {
        let view = View::new(&results);
        let document = document(&view);
        let mut figures = 0;
        for part in proses(&document.blocks)
            .iter()
            .flat_map(|prose| &prose.parts)
        {
            match part {
                Part::Text(text) => {
                    let rest = without_fixed_numbers(text);
                    assert!(!rest.contains(|c: char| c.is_ascii_digit()), "{text}");
                }
                Part::Figure { value, shown } => {
                    figures += 1;
                    if let Some((read, half)) = read_back(shown) {
                        assert!((read - value).abs() <= half, "{shown} is not {value}");
                    }
                }
                Part::Name(_) => {}
            }
        }
        assert!(figures > 0 || results.cells.is_empty());
    }
}

fn figures(prose: &Prose) -> Vec<f64> {
    let figure = |part: &Part| match part {
        Part::Figure { value, .. } => Some(*value),
        _ => None,
    };
    prose.parts.iter().filter_map(figure).collect()
}

#[test]
fn the_verdict_counts_the_tiles_of_the_heat_maps() {
    let results = fixture::results();
    let document = document(&View::new(&results));
    let ours: Vec<&str> = results
        .run
        .targets
        .iter()
        .filter(|t| is_ours(&t.name))
        .map(|t| t.title.as_str())
        .collect();
    let tiles: Vec<&Entry> = tables(&document.blocks)
        .into_iter()
        .filter(|table| table.heat)
        .flat_map(|table| &table.rows)
        .filter(|row| ours.contains(&row[0].text.as_str()))
        .flat_map(|row| &row[1..])
        .collect();
    let count =
        |wanted: fn(&Tone) -> bool| tiles.iter().filter(|tile| wanted(&tile.tone)).count() as f64;
    let better = count(|tone| matches!(tone, Tone::Better(_)));
    let worse = count(|tone| matches!(tone, Tone::Worse(_)));
    let noise = count(|tone| matches!(tone, Tone::Noise));
    let verdict = &verdict::sentences(&View::new(&results))[0];
    assert_eq!(
        figures(verdict),
        [better + worse + noise, better, worse, noise]
    );
    let losses = tables(&document.blocks)
        .into_iter()
        .filter(|table| table.caption.starts_with("Behind the base"))
        .map(|table| table.rows.len())
        .sum::<usize>();
    assert_eq!(losses as f64, worse);
}

#[test]
fn threats_count_the_flags_of_the_data() {
    let results = fixture::results();
    let flagged = |kind| {
        let with = results
            .cells
            .iter()
            .filter(|cell| cell.flags.iter().any(|flag| flag.kind == kind));
        with.count() as f64
    };
    let all = results.cells.len() as f64;
    let said = threats::sentences(&View::new(&results));
    for (kind, words) in [
        (FlagKind::MachineSaturated, "nothing idle"),
        (FlagKind::Errors, "transactions failed"),
        (FlagKind::Unsteady, "still moved"),
    ] {
        let prose = said
            .iter()
            .find(|prose| prose.plain().contains(words))
            .unwrap();
        let figures = figures(prose);
        assert_eq!(
            figures[..3],
            [flagged(kind), all, flagged(kind) / all],
            "{}",
            prose.plain()
        );
        // The numbers of the named targets add up to the cells.
        assert!((figures[3..].iter().sum::<f64>() - flagged(kind)).abs() < 1e-9);
    }
}

#[test]
fn an_a_a_run_shows_no_difference() {
    let results = fixture::results();
    let said = threats::sentences(&View::new(&results));
    let twins: Vec<String> = said
        .iter()
        .map(Prose::plain)
        .filter(|text| text.contains("ran twice"))
        .collect();
    assert_eq!(twins.len(), results.run.experiments.len());
    assert!(
        twins.iter().all(|text| text.contains(" 0 of these differ")),
        "{twins:#?}"
    );
}

#[test]
fn what_is_missing_is_told() {
    let rendered = Rendered::new(&fixture::interrupted());
    for words in [
        "The run was interrupted or is still going on",
        "planned cells were not measured",
        "1 line of cells.jsonl could not be read",
        "odyssey gave up: too many open files",
        "no program named pgcat on this machine",
    ] {
        let flat = rendered.text.replace("\n  ", " ").replace('\n', " ");
        assert!(flat.contains(words), "{words}");
    }
}

#[test]
fn one_block_claims_nothing() {
    let results = fixture::smoke();
    let document = document(&View::new(&results));
    let claims = |entry: &&Entry| matches!(entry.tone, Tone::Better(_) | Tone::Worse(_));
    let found = tables(&document.blocks)
        .into_iter()
        .flat_map(|table| &table.rows)
        .flatten()
        .find(claims);
    assert_eq!(found, None);
    assert_eq!(losses::count(&View::new(&results)), 0);
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    for results in all() {
        let html = Rendered::new(&results)
            .html
            .replace("http://www.w3.org/2000/svg", "");
        for outside in [
            "http:", "https:", "<script", "<link", "<img", "@import", "url(", "src=",
        ] {
            assert!(!html.contains(outside), "{outside}");
        }
        assert!(html.contains("Content-Security-Policy"));
        balanced(&html);
    }
}

/// Asserts that every opened element is closed in order.
fn balanced(html: &str) {
    let mut open: Vec<&str> = Vec::new();
    for part in html.split('<').skip(1) {
        let tag = part.split('>').next().unwrap();
        let name = tag.split_whitespace().next().unwrap().trim_end_matches('/');
        match name.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "{part}"),
            None if tag.ends_with('/') || ["meta", "!DOCTYPE"].contains(&name) => {}
            None => open.push(name),
        }
    }
    assert_eq!(open, Vec::<&str>::new());
}

#[test]
fn names_in_the_data_cannot_break_out_of_the_page() {
    let mut results = fixture::small();
    results.run.targets[3].title = "<script>alert(1)</script> | `x` \u{1b}[31m".to_owned();
    let rendered = Rendered::new(&results);
    assert!(!rendered.html.contains("<script"));
    balanced(&rendered.html);
    assert!(rendered.markdown.contains("\\| \\`x\\`"));
    assert!(!rendered.text.contains('\u{1b}'));
}

#[test]
fn colours_repeat_what_the_letters_say() {
    let results = fixture::small();
    let mut plain = String::new();
    let mut inside = false;
    for c in coloured(&results).chars() {
        inside = c == '\u{1b}' || inside;
        if !inside {
            plain.push(c);
        }
        inside = inside && c != 'm';
    }
    assert_eq!(plain, Rendered::new(&results).text);
}

#[test]
fn a_directory_gets_its_report() {
    let directory = tempfile::tempdir().unwrap();
    let results = fixture::small();
    fs::write(
        directory.path().join("run.json"),
        serde_json::to_string(&results.run).unwrap(),
    )
    .unwrap();
    fs::write(
        directory.path().join("cells.jsonl"),
        fixture::lines(&results),
    )
    .unwrap();
    let summary = write(directory.path()).unwrap();
    assert_eq!(
        (summary.measured, summary.failed, summary.missing),
        (60, 0, 0)
    );
    assert_eq!(
        summary.flagged,
        results
            .cells
            .iter()
            .filter(|cell| !cell.flags.is_empty())
            .count()
    );
    assert!(summary.losses > 0);
    let rendered = Rendered::new(&results);
    assert_eq!(fs::read_to_string(&summary.html).unwrap(), rendered.html);
    assert_eq!(
        fs::read_to_string(&summary.markdown).unwrap(),
        rendered.markdown
    );
    assert!(
        rendered.text.starts_with(&summary.verdict),
        "{}",
        summary.verdict
    );
    assert!(summary.verdict.contains("Where Weir loses") && !summary.verdict.contains("Threats"));
}

#[test]
fn a_directory_without_cells_gets_one_too() {
    let directory = tempfile::tempdir().unwrap();
    let run = serde_json::to_string(&fixture::small().run).unwrap();
    // Record of an earlier version, without the fields added since.
    let run = run.replace("\"twin_of\":null", "\"later\":1");
    fs::write(directory.path().join("run.json"), run).unwrap();
    let summary = write(directory.path()).unwrap();
    assert_eq!((summary.measured, summary.missing), (0, 60));
}

#[test]
fn directories_that_are_no_results_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let refused = |text: Option<&str>| {
        if let Some(text) = text {
            fs::write(directory.path().join("run.json"), text).unwrap();
        }
        let message = write(directory.path()).unwrap_err().to_string();
        message.replace(&directory.path().display().to_string(), "DIR")
    };
    expect!["DIR is no result directory: it has no run.json; name one that `weir bench run` wrote"]
        .assert_eq(&refused(None));
    expect!["DIR/run.json does not describe a run"].assert_eq(&refused(Some("[]")));
    expect!["DIR/run.json does not describe a run"].assert_eq(&refused(Some("{\"format\": 1}")));
    expect!["DIR/run.json has format 999, and this program reads up to 1; use a later one"]
        .assert_eq(&refused(Some("{\"format\": 999}")));
}

#[test]
fn a_cell_that_was_run_again_counts_once() {
    let results = fixture::small();
    let first = serde_json::to_string(&results.cells[0]).unwrap();
    let lines = format!("{}{first}\nnot json\n", fixture::lines(&results));
    let again = Results::new(results.run, &lines);
    assert_eq!(
        (again.cells.len(), again.replaced, again.unreadable),
        (60, 1, 1)
    );
}

/// Returns values that a broken cell may have.
fn broken() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(0.0),
        Just(-1.0),
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        Just(f64::MIN_POSITIVE),
        Just(f64::MAX),
        0.0..1e7,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn nothing_that_is_no_number_is_ever_shown(
        changes in prop::collection::vec((0_usize..60, 0_usize..8, broken()), 0..40),
        kept in prop::collection::vec(prop::bool::weighted(0.8), 60),
    ) {
        let mut results = fixture::small();
        for (at, field, value) in changes {
            spoil(&mut results.cells[at], field, value);
        }
        let mut kept = kept.into_iter();
        results.cells.retain(|_| kept.next().unwrap_or(true));
        let rendered = Rendered::new(&results);
        let other = crate::compare::compare(&fixture::small(), &results, "one", "two");
        for text in [&rendered.html, &rendered.markdown, &rendered.text, &other.text] {
            let mut words = text.split(|c: char| !c.is_alphanumeric());
            let wrong = words.find(|word| ["nan", "inf", "infinity"].contains(&word.to_lowercase().as_str()));
            prop_assert_eq!(wrong, None);
        }
        balanced(&rendered.html);
    }
}

fn spoil(cell: &mut crate::record::Cell, field: usize, value: f64) {
    let Some(outcome) = &mut cell.outcome else {
        return;
    };
    let Some(latency) = &mut outcome.latency else {
        return;
    };
    match field {
        0 => outcome.tps = value,
        1 => latency.p99 = value,
        2 => latency.histogram = None,
        3 => outcome.transactions = 0,
        4 => cell.costs = crate::record::Costs::default(),
        5 => latency.mean = value,
        6 => {
            if let Some(pooler) = &mut cell.costs.pooler {
                pooler.cpu_us = value;
            }
        }
        _ => {
            cell.outcome = None;
            cell.failed = Some("broken".to_owned());
        }
    }
}

#[test]
fn a_base_that_failed_is_named() {
    let mut results = fixture::small();
    for cell in results
        .cells
        .iter_mut()
        .filter(|cell| cell.target == "pgbouncer")
    {
        cell.outcome = None;
        cell.failed = Some("would not start".to_owned());
    }
    let text = Rendered::new(&results).text;
    assert!(
        text.contains("No ratios: the base, PgBouncer, could not be measured here."),
        "{text}"
    );
    assert!(
        text.contains("15 cells could not be run: would not start (15)."),
        "{text}"
    );
    assert!(text.contains("Nothing can be compared"), "{text}");
}

/// Returns the style's variables in one of the two schemes: red, green, blue from 0 to 1.
fn colours(scheme: &str) -> std::collections::BTreeMap<String, [f64; 3]> {
    let mut found = std::collections::BTreeMap::new();
    for pair in scheme.split([';', '{', '}']) {
        let Some((name, value)) = pair.split_once(": ") else {
            continue;
        };
        let (name, value) = (name.trim(), value.trim());
        let channels: Vec<f64> = match value.strip_prefix('#') {
            Some(hex) if hex.len() == 6 => (0..3)
                .map(|at| f64::from(u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()))
                .collect(),
            _ => value
                .split(' ')
                .filter_map(|number| number.parse().ok())
                .collect(),
        };
        if let (true, Ok(rgb)) = (name.starts_with("--"), <[f64; 3]>::try_from(channels)) {
            found.insert(name.to_owned(), rgb.map(|channel| channel / 255.0));
        }
    }
    found
}

/// Returns the contrast as WCAG 2 defines it.
fn contrast(one: [f64; 3], two: [f64; 3]) -> f64 {
    let luminance = |rgb: [f64; 3]| {
        let linear = rgb.map(|c| {
            if c <= 0.04045 {
                c / 12.92
            } else {
                ((c + 0.055) / 1.055).powf(2.4)
            }
        });
        0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    };
    let (a, b) = (luminance(one) + 0.05, luminance(two) + 0.05);
    if a > b { a / b } else { b / a }
}

#[test]
fn text_and_marks_can_be_told_from_what_is_behind_them() {
    let style = include_str!("style.css");
    let (light, rest) = style
        .split_once("@media (prefers-color-scheme: dark)")
        .unwrap();
    let dark = rest.split_once("* {").unwrap().0;
    for scheme in [colours(light), colours(dark)] {
        let of = |name: &str| scheme[name];
        for text in ["--ink", "--soft", "--link"] {
            for behind in ["--page", "--panel"] {
                let found = contrast(of(text), of(behind));
                assert!(found >= 4.5, "{text} on {behind}: {found:.2}");
            }
        }
        for series in 0..chart::SERIES {
            let found = contrast(of(&format!("--s{series}")), of("--panel"));
            assert!(found >= 3.0, "series {series}: {found:.2}");
        }
        // The strongest tiles have an opacity of 46 %.
        for tile in ["--better", "--worse"] {
            let (tile, page) = (of(tile), of("--page"));
            let mixed = std::array::from_fn(|at| 0.46 * tile[at] + 0.54 * page[at]);
            assert!(
                contrast(of("--ink"), mixed) >= 4.5,
                "{}",
                contrast(of("--ink"), mixed)
            );
        }
    }
}

/// Writes the made-up reports to a directory, to be looked at in a browser.
#[test]
fn reports_for_eyes() {
    let Ok(directory) = std::env::var("WEIR_REPORT_DIR") else {
        return;
    };
    for (name, results) in ["full", "smoke", "interrupted"].iter().zip(all()) {
        let rendered = Rendered::new(&results);
        fs::write(format!("{directory}/{name}.html"), &rendered.html).unwrap();
        fs::write(format!("{directory}/{name}.md"), &rendered.markdown).unwrap();
        fs::write(format!("{directory}/{name}.txt"), &rendered.text).unwrap();
    }
}

/// Marks the cells of these targets with prepared statements as other work.
fn without_prepared(results: &mut Results, targets: &[&str]) {
    let prepared = |cell: &&mut crate::record::Cell| {
        targets.contains(&cell.target.as_str())
            && cell
                .factors
                .get("protocol")
                .is_some_and(|name| name == "prepared")
    };
    for cell in results.cells.iter_mut().filter(prepared) {
        cell.flags.push(crate::record::Flag {
            kind: FlagKind::Substituted,
            detail: "it keeps no prepared statements".to_owned(),
        });
    }
}

#[test]
fn a_peer_that_did_other_work_is_in_no_count_and_said_to_be() {
    let mut results = fixture::results();
    let counts = |results: &Results| figures(&verdict::sentences(&View::new(results))[0]);
    let before = counts(&results);
    let losses_before = losses::count(&View::new(&results));
    let bouncers = ["pgbouncer", "pgbouncer-again", "pgbouncer-x2"];
    without_prepared(&mut results, &bouncers);
    let after = counts(&results);
    // Three targets of ours, five loads, three measures.
    assert_eq!(after[0], before[0] - 45.0);
    assert_eq!(after[0], after[1..4].iter().sum::<f64>());
    assert!(losses::count(&View::new(&results)) < losses_before);

    let rendered = Rendered::new(&results);
    let flat = rendered.text.replace("\n  ", " ").replace('\n', " ");
    for words in [
        "Not counted, marked “≠”, in extended and prepared protocol, TLS: PgBouncer; PgBouncer again; PgBouncer, 2 \
         processes did other work at 5 of 10 loads (it keeps no prepared statements).",
        "throughput 0.93 to 1.29 (better at 4, worse at 1 of 5 loads); p99",
    ] {
        assert!(flat.contains(words), "{words}: {flat}");
    }
    let heat = rendered
        .markdown
        .split("### protocol prepared")
        .nth(1)
        .unwrap();
    let row = heat
        .lines()
        .find(|line| line.starts_with("| Weir, 1 worker"))
        .unwrap();
    assert_eq!(row.matches('≠').count(), 5, "{row}");
    assert!(!row.contains('+') && !row.contains('-'), "{row}");
    // Two targets that did the same other work can be compared.
    let row = heat
        .lines()
        .find(|line| line.starts_with("| PgBouncer again"))
        .unwrap();
    assert!(!row.contains('≠'), "{row}");
}

#[test]
fn two_runs_of_different_work_are_not_compared() {
    let before = fixture::results();
    let mut after = before.clone();
    without_prepared(&mut after, &["pgbouncer"]);
    let compared = crate::compare::compare(&before, &after, "one", "two");
    let flat = compared.text.replace('\n', " ");
    assert!(flat.contains("Not counted are 15 marked “≠”"), "{flat}");
}

#[test]
fn flags_are_explained_below_the_figures_that_have_them() {
    let rendered = Rendered::new(&fixture::small());
    let below = rendered
        .markdown
        .split("**Throughput, ratio")
        .nth(1)
        .unwrap();
    let list: Vec<&str> = below
        .lines()
        .filter(|line| line.starts_with("- !"))
        .collect();
    let [saturated, unsteady] = list.as_slice() else {
        panic!("{list:#?}");
    };
    assert!(
        saturated.starts_with("- ! the machine had next to nothing idle;")
            && saturated.ends_with("clients 1000: all."),
        "{saturated}"
    );
    assert_eq!(
        *unsteady,
        "- ! the rate still moved while it was measured. At clients 1: PgBouncer."
    );
    for form in [&rendered.html, &rendered.text] {
        assert!(form.contains("! the rate still moved"), "{form}");
    }
}

#[test]
fn versions_stand_beside_the_charts() {
    let html = Rendered::new(&fixture::small()).html;
    let charts = html.find("<div class=\"charts\">").unwrap();
    let words = "Versions: PgBouncer 1.18.0 (PgBouncer; PgBouncer again); weir 0.1.0 (Weir, 1 worker); PostgreSQL 15.18.";
    let at = html.find(words).unwrap();
    let between = &html[at..charts];
    assert!(!between.contains("<h"), "{between}");
}

#[test]
fn the_program_in_front_has_its_version_beside_the_charts() {
    let mut results = fixture::small();
    let fronts = [("haproxy".to_owned(), "HAProxy version 2.6.12".to_owned())];
    let environment = &mut results.run.environment;
    environment.insert(crate::record::FRONT.to_owned(), fronts.into());
    let setting = results.run.experiments[0].setting.as_mut().unwrap();
    setting.front = Some("haproxy".to_owned());
    let text = Rendered::new(&results).markdown;
    assert!(
        text.contains("; HAProxy version 2.6.12; PostgreSQL"),
        "{text}"
    );
}

#[test]
fn readers_see_names_of_experiments_and_not_their_short_ones() {
    let results = fixture::results();
    let view = View::new(&results);
    for short in [
        text::render(&short(&view), text::Colour::Never),
        threats::sentences(&view).iter().map(Prose::plain).collect(),
    ] {
        for name in ["p1", "p2"] {
            let mut words = short.split(|c: char| !c.is_alphanumeric());
            assert!(!words.any(|word| word == name), "{name}: {short}");
        }
        assert!(short.contains("simple protocol, TLS on every "), "{short}");
    }
}

#[test]
fn a_target_that_does_not_start_is_told_in_its_own_words() {
    let mut results = fixture::small();
    let words = "pgbouncer did not start: it ended (exit status: 1)\nThe last login by psql said:\n  | psql: error: `x`\n\
                 pgbouncer-0.log ends with:\n  | FATAL cannot load <key>\nIts whole logs are in configurations/p1.";
    for cell in results
        .cells
        .iter_mut()
        .filter(|cell| cell.target == "pgbouncer")
    {
        cell.outcome = None;
        cell.failed = Some(words.to_owned());
    }
    let rendered = Rendered::new(&results);
    for line in words.lines() {
        assert!(rendered.text.contains(&format!("    {line}\n")), "{line}");
        assert!(
            rendered.markdown.contains(&format!("    {line}\n")),
            "{line}"
        );
    }
    assert!(
        rendered
            .html
            .contains("  | FATAL cannot load &lt;key&gt;\n"),
        "{}",
        rendered.html
    );
    // The sentence has the first line, and the words stand once and not for each cell.
    let flat = rendered.text.replace("\n  ", " ");
    assert!(
        flat.contains(
            "15 cells could not be run: pgbouncer did not start: it ended (exit status: 1) (15)."
        ),
        "{flat}"
    );
    assert_eq!(
        rendered.text.matches("FATAL").count(),
        1,
        "{}",
        rendered.text
    );
    assert!(
        rendered
            .text
            .contains("PgBouncer, 15 cells, the first in the words"),
        "{}",
        rendered.text
    );
}
