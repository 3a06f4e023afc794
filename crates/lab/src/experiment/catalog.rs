//! All experiments: those that ship, and those that a user adds.

use super::{Error, Experiment};

/// The experiments that ship, in the order in which they are run and reported.
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
    (
        "state",
        include_str!("../../../../lab/experiments/state.toml"),
    ),
    ("aa", include_str!("../../../../lab/experiments/aa.toml")),
];

/// All experiments.
#[derive(Clone, Debug)]
pub struct Catalog {
    experiments: Vec<Experiment>,
}

impl Catalog {
    /// Those that ship.
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

    /// Adds one, in the place of another of the same name.
    pub fn add(&mut self, experiment: Experiment) {
        let same = |known: &&mut Experiment| known.name == experiment.name;
        match self.experiments.iter_mut().find(same) {
            Some(known) => *known = experiment,
            None => self.experiments.push(experiment),
        }
    }

    /// The experiment of this name.
    ///
    /// # Errors
    /// There is none; with the names that there are.
    pub fn find(&self, name: &str) -> Result<&Experiment, Error> {
        self.experiments
            .iter()
            .find(|experiment| experiment.name == name)
            .ok_or_else(|| Error::Unknown {
                name: name.to_owned(),
                known: self.experiments.iter().map(|e| e.name.clone()).collect(),
            })
    }

    /// All of them, in their order.
    #[must_use]
    pub fn experiments(&self) -> &[Experiment] {
        &self.experiments
    }
}

/// The text of an experiment that ships, as its file has it.
#[must_use]
pub fn builtin_text(name: &str) -> Option<&'static str> {
    let mut all = BUILTIN.iter();
    all.find(|(known, _)| *known == name).map(|(_, text)| *text)
}
