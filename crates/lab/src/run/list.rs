//! List of everything that can be run, for display.

use super::progress::duration;
use super::setup::{choose, read};
use super::{Error, Options};
use crate::experiment::{self, Changes, Experiment};
use crate::target::{self, Definition, Found, Instance};

/// Returns a list of the experiments with their profiles and durations, and of the targets with what was found of
/// them.
///
/// # Errors
/// Mistakes in files that `options` name.
pub fn list(options: &Options) -> Result<String, Error> {
    let mut experiments = experiment::Catalog::builtin()?;
    for path in &options.experiment_files {
        let text = read(path)?;
        experiments.add(Experiment::parse(&path.display().to_string(), &text)?);
    }
    let mut targets = target::Catalog::builtin()?;
    for path in &options.target_files {
        let text = read(path)?;
        targets.add(Definition::parse(&path.display().to_string(), &text)?);
    }
    let mut text =
        String::from("Experiments, and how long they take with the targets that are here:\n");
    for experiment in experiments.experiments() {
        let times = times(experiment, &targets, options)?;
        text.push_str(&format!(
            "  {:<12} {}\n               {}\n",
            experiment.name, experiment.title, times
        ));
    }
    let profiles = ["smoke", "quick", "full"].map(|profile| {
        let options = Options {
            profile: profile.to_owned(),
            ..options.clone()
        };
        let all: f64 = choose(&options, &experiments)
            .unwrap_or_default()
            .iter()
            .map(|(experiment, design)| {
                design.seconds(here(experiment, &design.targets, &targets, &options))
            })
            .sum();
        format!("{profile} {}", duration(all))
    });
    text.push_str(&format!("  all: {}\n\nTargets:\n", profiles.join(", ")));
    for definition in targets.definitions() {
        text.push_str(&describe(definition, &targets, options));
    }
    Ok(text)
}

fn times(
    experiment: &Experiment,
    targets: &target::Catalog,
    options: &Options,
) -> Result<String, Error> {
    let mut parts = Vec::new();
    for profile in ["smoke", "quick", "full"] {
        if let Some(design) = experiment.design(profile, &Changes::default())? {
            let count = here(experiment, &design.targets, targets, options);
            parts.push(format!("{profile} {}", duration(design.seconds(count))));
        }
    }
    Ok(parts.join(", "))
}

fn here(
    experiment: &Experiment,
    names: &[String],
    targets: &target::Catalog,
    options: &Options,
) -> usize {
    let is_here = |name: &&String| {
        let instance = targets.find(experiment.target(name)).ok();
        instance.is_some_and(|instance| {
            Found::is_here(&instance, &options.programs, &options.program_directories)
        })
    };
    names.iter().filter(is_here).count()
}

fn look(instance: &Instance, options: &Options) -> Result<Found, String> {
    Found::look(instance, &options.programs, &options.program_directories)
}

fn describe(definition: &Definition, targets: &target::Catalog, options: &Options) -> String {
    let pattern = definition.pattern();
    // Any number does to look for the programs.
    let instance = targets
        .find(&pattern)
        .or_else(|_| targets.find(&pattern.replace('N', "2")));
    let found = match instance.map(|instance| look(&instance, options)) {
        Ok(Ok(found)) => found.text.unwrap_or_else(|| "here".to_owned()),
        Ok(Err(reason)) => reason,
        Err(error) => error.to_string(),
    };
    let tried = if definition.tried {
        ""
    } else {
        " (its description was never tried)"
    };
    format!("  {pattern:<24} {found}{tried}\n")
}
