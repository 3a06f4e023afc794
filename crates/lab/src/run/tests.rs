//! Tests of the preparation, before anything is started.

use super::candidates::Candidates;
use super::setup::choose;
use super::*;

fn options(experiments: &[&str]) -> Options {
    Options {
        profile: "smoke".to_owned(),
        experiments: experiments.iter().map(|name| (*name).to_owned()).collect(),
        ..Options::default()
    }
}

#[test]
fn a_named_experiment_must_have_the_profile_and_others_are_left_out() {
    let catalog = experiment::Catalog::builtin().unwrap();
    let error = choose(&options(&["aa"]), &catalog).unwrap_err().to_string();
    assert_eq!(error, "`aa` has no profile `smoke`; it has full, quick");
    let all = choose(&options(&[]), &catalog).unwrap();
    assert!(all.iter().any(|(experiment, _)| experiment.name == "p1"));
    assert!(all.iter().all(|(experiment, _)| experiment.name != "aa"));
}

#[test]
fn an_alias_is_a_twin_and_a_missing_program_a_reason() {
    let catalog = experiment::Catalog::builtin().unwrap();
    let mut options = options(&["aa"]);
    options.profile = "quick".to_owned();
    let nowhere = PathBuf::from("/nowhere/pgbouncer");
    options.programs.insert("pgbouncer".to_owned(), nowhere);
    let chosen = choose(&options, &catalog).unwrap();
    let targets = target::Catalog::builtin().unwrap();
    let candidates = Candidates::new(&chosen, &targets, &options.programs, &[]).unwrap();
    let records = candidates.records();
    let twin = records
        .iter()
        .find(|t| t.name == "pgbouncer-again")
        .unwrap();
    assert_eq!(twin.twin_of.as_deref(), Some("pgbouncer"));
    assert_eq!(twin.title, "PgBouncer (again)");
    assert_eq!(
        twin.skipped.as_deref(),
        Some("/nowhere/pgbouncer is not there")
    );
    let here = candidates.here(&["pgbouncer".to_owned(), "pgbouncer-again".to_owned()]);
    assert!(here.is_empty());
    assert!(candidates.reasons()[0].starts_with("pgbouncer: /nowhere"));
}

#[test]
fn a_description_that_was_never_tried_says_so_in_its_record() {
    let catalog = experiment::Catalog::builtin().unwrap();
    let mut options = options(&["p4"]);
    options.profile = "full".to_owned();
    let chosen = choose(&options, &catalog).unwrap();
    let targets = target::Catalog::builtin().unwrap();
    let candidates = Candidates::new(&chosen, &targets, &BTreeMap::new(), &[]).unwrap();
    let records = candidates.records();
    let fairness = |name: &str| {
        let found = records.iter().find(|target| target.name == name);
        found.unwrap().fairness.clone()
    };
    assert!(fairness("odyssey-2").contains("never run"));
    let untried = records.iter().filter(|target| target.untried);
    assert!(untried.clone().any(|target| target.name == "odyssey-2"));
    assert!(untried.clone().all(|target| target.name != "pgbouncer"));
    assert!(!fairness("pgbouncer").contains("never run"));
}

#[test]
fn two_descriptions_with_the_same_file_name_are_both_kept() {
    let mut targets = target::Catalog::builtin().unwrap();
    let own = targets.find("pgbouncer").unwrap().definition.source;
    let own = own.replace("name = \"pgbouncer\"", "name = \"mine\"");
    targets.add(target::Definition::parse("elsewhere/pgbouncer.toml", &own).unwrap());
    let catalog = experiment::Catalog::builtin().unwrap();
    let mut options = options(&["aa"]);
    options.profile = "quick".to_owned();
    options.changes.targets = ["pgbouncer", "pgbouncer-again", "mine"]
        .map(str::to_owned)
        .to_vec();
    let chosen = choose(&options, &catalog).unwrap();
    let candidates = Candidates::new(&chosen, &targets, &BTreeMap::new(), &[]).unwrap();
    let files = candidates.descriptions();
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["pgbouncer.toml", "other-pgbouncer.toml"]);
    assert_eq!(files[1].1, own);
    let file = candidates.file_of("mine");
    assert_eq!(file.as_deref(), Some("other-pgbouncer.toml"));
}

#[test]
fn options_survive_the_way_through_a_file() {
    let mut options = options(&["p1"]);
    options.changes.measure_s = Some(1.5);
    let text = serde_json::to_string(&options).unwrap();
    assert_eq!(serde_json::from_str::<Options>(&text).unwrap(), options);
}

#[test]
fn the_list_names_every_experiment_and_target() {
    let text = list(&Options::default()).unwrap();
    for name in [
        "p1",
        "open-loop",
        "weir-N",
        "pgpool-behind-pgbouncer",
        "all: smoke ",
    ] {
        assert!(text.contains(name), "{name}: {text}");
    }
    let line = text
        .lines()
        .find(|line| line.trim().starts_with("odyssey-N"));
    assert!(line.unwrap().contains("never tried"), "{text}");
}
