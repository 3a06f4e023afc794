//! Catalog of experiments: built-in ones, and those that a user adds.

use super::{Error, Experiment};

/// Built-in experiments, in the order of execution and report.
pub(super) const BUILTIN: &[(&str, &str)] = &[
    ("p1", include_str!("../../../../lab/experiments/p1.toml")),
    ("p2", include_str!("../../../../lab/experiments/p2.toml")),
    ("p4", include_str!("../../../../lab/experiments/p4.toml")),
    ("p5", include_str!("../../../../lab/experiments/p5.toml")),
    (
        "idle",
        include_str!("../../../../lab/experiments/idle.toml"),
    ),
    (
        "storm",
        include_str!("../../../../lab/experiments/storm.toml"),
    ),
    (
        "storm-tls",
        include_str!("../../../../lab/experiments/storm-tls.toml"),
    ),
    (
        "login-storm",
        include_str!("../../../../lab/experiments/login-storm.toml"),
    ),
    (
        "result-size",
        include_str!("../../../../lab/experiments/result-size.toml"),
    ),
    (
        "copy",
        include_str!("../../../../lab/experiments/copy.toml"),
    ),
    (
        "pipeline",
        include_str!("../../../../lab/experiments/pipeline.toml"),
    ),
    (
        "open-loop",
        include_str!("../../../../lab/experiments/open-loop.toml"),
    ),
    (
        "pooler-alone",
        include_str!("../../../../lab/experiments/pooler-alone.toml"),
    ),
    ("io", include_str!("../../../../lab/experiments/io.toml")),
    (
        "state",
        include_str!("../../../../lab/experiments/state.toml"),
    ),
    (
        "split",
        include_str!("../../../../lab/experiments/split.toml"),
    ),
    ("aa", include_str!("../../../../lab/experiments/aa.toml")),
];

/// All experiments.
#[derive(Clone, Debug)]
pub struct Catalog {
    experiments: Vec<Experiment>,
}

impl Catalog {
    /// Returns the built-in experiments.
    ///
    /// # Errors
    /// None: a test reads them all.
    pub fn builtin() -> Result<Self, Error> {
        let experiments = BUILTIN
            .iter()
            .map(|(name, text)| Experiment::parse(&format!("lab/experiments/{name}.toml"), text))
            .collect::<Result<_, _>>()?;
        Ok(Self { experiments })
    }

    /// Adds an experiment; replaces one of the same name.
    pub fn add(&mut self, experiment: Experiment) {
        let same = |known: &&mut Experiment| known.name == experiment.name;
        match self.experiments.iter_mut().find(same) {
            Some(known) => *known = experiment,
            None => self.experiments.push(experiment),
        }
    }

    /// Returns the experiment of this name.
    ///
    /// # Errors
    /// No experiment has this name; the error lists all names.
    pub fn find(&self, name: &str) -> Result<&Experiment, Error> {
        self.experiments
            .iter()
            .find(|experiment| experiment.name == name)
            .ok_or_else(|| Error::Unknown {
                name: name.to_owned(),
                known: self.experiments.iter().map(|e| e.name.clone()).collect(),
            })
    }

    /// Returns all experiments, in their order.
    #[must_use]
    pub fn experiments(&self) -> &[Experiment] {
        &self.experiments
    }
}

/// Returns the text of a built-in experiment's file.
#[must_use]
pub fn builtin_text(name: &str) -> Option<&'static str> {
    let mut all = BUILTIN.iter();
    all.find(|(known, _)| *known == name).map(|(_, text)| *text)
}
