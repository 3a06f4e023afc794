//! Tests of the built-in experiments, and of mistakes in others.

use serde_json::json;

use super::catalog::BUILTIN;
use super::*;
use crate::target;

const SMALL: &str = r#"
name = "small"
title = "Small"
text = "Nothing."
measure = "throughput"
axis = "clients"
base = "pgbouncer"
targets = ["pgbouncer", "weir-1"]
generator = "pgbench"
[server]
scale = 2
[pooler]
pool_size = 5
[factors]
protocol = ["simple"]
workload = ["one"]
clients = [1, 50]
[workload.one]
script = "SELECT {{ accounts }} + {{ clients }};\n"
[profile.smoke]
warm_up_s = 1
measure_s = 2
blocks = 1
factors = { clients = [7] }
[profile.full]
warm_up_s = 1
measure_s = 2.5
blocks = 3
[[published]]
target = "PgBouncer"
ours = "pgbouncer"
factors = { protocol = "simple" }
tps = { 1 = 8000, 50 = 34000 }
"#;

fn parse(text: &str) -> Result<Experiment, String> {
    Experiment::parse("small.toml", text).map_err(|error| error.to_string())
}

fn design(experiment: &Experiment, profile: &str) -> Design {
    let found = experiment.design(profile, &Changes::default());
    found.unwrap().unwrap()
}

#[test]
fn all_that_ship_are_read_and_name_targets_that_there_are() {
    let targets = target::Catalog::builtin().unwrap();
    let catalog = Catalog::builtin().unwrap();
    assert_eq!(catalog.experiments().len(), BUILTIN.len());
    for experiment in catalog.experiments() {
        assert!(builtin_text(&experiment.name).is_some());
        for name in &experiment.targets {
            targets.find(experiment.target(name)).unwrap();
        }
        for profile in experiment.profiles() {
            assert!(["smoke", "quick", "full"].contains(&profile));
            for name in &design(experiment, profile).targets {
                targets.find(experiment.target(name)).unwrap();
            }
        }
        for published in &experiment.published {
            let ours = published.ours.as_ref().unwrap();
            assert!(experiment.targets.contains(ours), "{ours}");
        }
        if let Some(front) = &experiment.pooler.front {
            targets.find(front).unwrap();
        }
    }
}

/// Returns the minutes that a profile takes on a machine that has all the targets that it names.
fn minutes(profile: &str, all: bool) -> f64 {
    let catalog = Catalog::builtin().unwrap();
    let here = ["direct", "haproxy", "pgpool", "pgpool-behind-pgbouncer"];
    let is_here = |name: &&String| {
        all || here.contains(&name.as_str())
            || name.starts_with("pgbouncer")
            || name.starts_with("weir")
    };
    let designs = catalog.experiments().iter();
    let designs =
        designs.filter_map(|experiment| experiment.design(profile, &Changes::default()).unwrap());
    let seconds = designs.map(|design| {
        let targets = design.targets.iter().filter(is_here).count();
        design.seconds(targets)
    });
    seconds.sum::<f64>() / 60.0
}

#[test]
fn profiles_take_as_long_as_they_say() {
    let smoke = minutes("smoke", true);
    assert!(smoke < 4.8, "{smoke}");
    let quick = minutes("quick", true);
    assert!((60.0..100.0).contains(&quick), "{quick}");
    assert!(minutes("full", true) > minutes("full", false));
}

#[test]
fn the_published_matrix_is_complete_in_the_full_profile() {
    let catalog = Catalog::builtin().unwrap();
    let mut cells = 0;
    for (name, protocols) in [("p1", 1), ("p2", 2)] {
        let design = design(catalog.find(name).unwrap(), "full");
        let clients: BTreeSet<&str> = design
            .points
            .iter()
            .map(|p| p["clients"].as_str())
            .collect();
        assert_eq!(clients.len(), 5);
        assert_eq!((design.warm_up_s, design.measure_s), (20.0, 60.0));
        let ours = ["direct", "pgbouncer", "weir-1", "weir-2", "weir-4"];
        assert!(
            ours.iter()
                .all(|name| design.targets.contains(&(*name).to_owned()))
        );
        cells += ours.len() * protocols * clients.len() * design.blocks as usize;
    }
    assert_eq!(cells, 225);
}

#[test]
fn points_are_all_combinations_and_a_profile_narrows_them() {
    let small = parse(SMALL).unwrap();
    let full = design(&small, "full");
    let clients: Vec<&str> = full.points.iter().map(|p| p["clients"].as_str()).collect();
    assert_eq!(clients, ["1", "50"]);
    assert!(full.points.iter().all(|point| point.len() == 3));
    let smoke = design(&small, "smoke");
    assert_eq!(smoke.points[0]["clients"], "7");
    assert_eq!(smoke.clients_max(), 7);
    let changes = Changes {
        factors: BTreeMap::from([("clients".to_owned(), vec!["3".to_owned()])]),
        measure_s: Some(9.0),
        targets: vec!["weir-2".to_owned()],
        ..Changes::default()
    };
    let changed = small.design("smoke", &changes).unwrap().unwrap();
    assert_eq!(changed.points[0]["clients"], "3");
    assert_eq!((changed.measure_s, changed.warm_up_s), (9.0, 1.0));
    // The base is not among the targets any more.
    assert_eq!(small.record(&changed).base, "weir-2");
    assert_eq!(small.design("quick", &changes).unwrap(), None);
}

#[test]
fn published_figures_get_the_value_of_the_axis() {
    let small = parse(SMALL).unwrap();
    let record = small.record(&design(&small, "full"));
    let figures: Vec<(&str, f64)> = record
        .published
        .iter()
        .map(|figure| (figure.factors["clients"].as_str(), figure.tps))
        .collect();
    assert_eq!(figures, [("1", 8000.0), ("50", 34000.0)]);
    assert_eq!(record.published[0].factors["protocol"], "simple");
}

#[test]
fn a_script_knows_its_point_and_the_size_of_the_tables() {
    let small = parse(SMALL).unwrap();
    let work = small.work(&design(&small, "smoke").points[0], 2).unwrap();
    assert_eq!(
        work.script,
        Script::Pgbench("SELECT 200000 + 7;\n".to_owned())
    );
    assert_eq!((work.clients, work.batch, work.rate), (7, 1, None));
}

#[test]
fn a_plan_has_numbers_where_numbers_are_wanted_and_only_what_holds() {
    let catalog = Catalog::builtin().unwrap();
    let plan = |name: &str, change: (&str, &str)| {
        let experiment = catalog.find(name).unwrap();
        let mut point = design(experiment, "full").points[0].clone();
        point.insert(change.0.to_owned(), change.1.to_owned());
        match experiment.work(&point, 10).unwrap().script {
            Script::Plan(plan) => plan,
            other => panic!("{other:?}"),
        }
    };
    let loop_ = plan("open-loop", ("rate", "50%"));
    let draw = &loop_["transactions"][0]["variables"][0]["draw"]["uniform"];
    assert_eq!(*draw, json!({"min": 1, "max": 1_000_000}));
    let rows = plan("result-size", ("rows", "100"));
    let sql = rows["transactions"][0]["statements"][0]["sql"].as_str();
    assert!(sql.unwrap().ends_with("generate_series(1, 100)"));
    let copy = plan("copy", ("direction", "in"));
    let transactions = copy["transactions"].as_array().unwrap();
    assert_eq!(transactions.len(), 1);
    assert_eq!(transactions[0]["statements"][0]["copy_in"]["line"], 100);
    assert!(transactions[0].get("when").is_none());
}

#[test]
fn mistakes_are_found_when_the_file_is_read() {
    for (from, to, words) in [
        ("blocks = 3", "block = 3", "unknown field `block`"),
        (
            "axis = \"clients\"",
            "axis = \"rows\"",
            "the axis `rows` is no factor",
        ),
        (
            "base = \"pgbouncer\"",
            "base = \"direct\"",
            "the base `direct` is no target",
        ),
        ("[\"simple\"]", "[\"simpel\"]", "no protocol `simpel`"),
        ("[1, 50]", "[1, 0]", "`0` is not a number above zero"),
        (
            "{ clients = [7] }",
            "{ client = [7] }",
            "`client` is no factor",
        ),
        ("{{ clients }}", "{{ client }}", "line 1: undefined"),
        (
            "workload = [\"one\"]",
            "workload = [\"two\"]",
            "no [workload.two]",
        ),
        ("blocks = 3", "blocks = 0", "there must be a block"),
        ("measure_s = 2.5", "measure_s = 0", "above zero"),
        ("script =", "plan = {}\nscript =", "exactly one of"),
        (
            "generator = \"pgbench\"",
            "generator = \"weir\"",
            "exactly one of",
        ),
        (
            "{ protocol = \"simple\" }",
            "{ colour = \"red\" }",
            "`colour` is no factor",
        ),
    ] {
        let error = parse(&SMALL.replace(from, to)).unwrap_err();
        assert!(error.contains(words), "{words}: {error}");
    }
    let error = parse(&SMALL.replace("blocks = 3", "block = 3")).unwrap_err();
    assert!(
        error.contains("small.toml") && error.contains("line 28"),
        "{error}"
    );
}

#[test]
fn rates_are_absolute_or_shares() {
    let small = parse(SMALL).unwrap();
    assert_eq!(small.rate("500").unwrap(), Rate::Absolute(500.0));
    assert_eq!(small.rate("70%").unwrap(), Rate::Share(0.7));
    for wrong in ["", "x", "-1", "0%"] {
        assert!(small.rate(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn an_unknown_experiment_is_answered_with_those_that_there_are() {
    let mut catalog = Catalog::builtin().unwrap();
    let error = catalog.find("p3").unwrap_err().to_string();
    assert!(error.contains("there are p1, p2, p4"), "{error}");
    catalog.add(parse(&SMALL.replace("\"small\"", "\"p1\"")).unwrap());
    assert_eq!(catalog.find("p1").unwrap().title, "Small");
    assert_eq!(catalog.experiments().len(), BUILTIN.len());
}
