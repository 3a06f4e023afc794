//! What is asked of targets. Each experiment is a file: the servers and pools it needs, what is varied, the load, how
//! long each profile measures, and what others published for it.

mod catalog;
mod design;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

pub use self::catalog::{Catalog, builtin_text};
use self::design::combinations;
pub use self::design::{Changes, Design};
pub use self::work::{Rate, Script, Work};
use crate::load_process;
use crate::record;
use crate::target::Auth;
use crate::template;

/// What a cell's figures stand for: a value of every factor.
pub type Point = BTreeMap<String, String>;

/// An experiment as its file has it.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Short and stable.
    pub name: String,
    /// One line.
    pub title: String,
    /// What is done and why.
    pub text: String,
    /// What the charts show.
    pub measure: record::Measure,
    /// Over which factor.
    pub axis: String,
    /// With which target the others are compared.
    pub base: String,
    /// All targets, in the order of the report.
    pub targets: Vec<String>,
    /// What makes the load.
    pub generator: GeneratorKind,
    /// Threads of the generator: as many as clients, up to this.
    #[serde(default = "sixteen")]
    pub threads_max: u32,
    /// How the published machine and versions differ.
    pub published_setup: Option<String>,
    /// What must be known to read it.
    #[serde(default)]
    pub caveats: Vec<String>,
    /// Second names of targets.
    #[serde(default)]
    pub aliases: BTreeMap<String, String>,
    /// What PostgreSQL is needed.
    pub server: Server,
    /// How poolers are set up.
    pub pooler: Pooler,
    factors: BTreeMap<String, Vec<Value>>,
    workload: BTreeMap<String, Workload>,
    profile: BTreeMap<String, Profile>,
    #[serde(default)]
    published: Vec<Published>,
}

/// See [`Experiment::generator`].
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GeneratorKind {
    /// PostgreSQL's own.
    Pgbench,
    /// The lab's.
    Weir,
}

/// See [`Experiment::server`].
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Of pgbench's tables: 100,000 accounts each.
    pub scale: u32,
    /// Clients and poolers have to log in by SCRAM.
    #[serde(default)]
    pub passwords: bool,
    /// A streaming replica beside it.
    #[serde(default)]
    pub replica: bool,
    /// SQL that is run once when the tables are filled.
    #[serde(default)]
    pub setup: Vec<String>,
    /// More settings, each `name=value`.
    #[serde(default)]
    pub settings: Vec<String>,
    /// No PostgreSQL at all, but answers that are ready made.
    pub null: Option<NullServer>,
    /// Restarted before each block, so that all begin with the same cold buffers.
    #[serde(default = "yes")]
    pub restart: bool,
}

/// See [`Server::null`].
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct NullServer {
    /// Of every answer.
    pub rows: u64,
    /// In the one column of a row.
    pub row_bytes: u32,
    /// That answer.
    pub threads: u32,
}

impl Default for NullServer {
    fn default() -> Self {
        Self {
            rows: 1,
            row_bytes: 100,
            threads: 1,
        }
    }
}

impl Server {
    /// How everybody logs in.
    #[must_use]
    pub const fn auth(&self) -> Auth {
        if self.passwords {
            Auth::Scram
        } else {
            Auth::Trust
        }
    }
}

/// See [`Experiment::pooler`].
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Pooler {
    /// Connections to the server.
    pub pool_size: u32,
    /// Unless the factor `tls` says otherwise.
    #[serde(default)]
    pub tls: Tls,
    /// How many of the target run side by side.
    #[serde(default = "one")]
    pub proxies: u32,
    /// The target that deals clients to them.
    pub front: Option<String>,
}

/// Which hops are encrypted.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tls {
    /// None.
    #[default]
    None,
    /// From the client to the target.
    Client,
    /// That one and the target's to PostgreSQL.
    Both,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(untagged)]
enum Value {
    Integer(i64),
    Text(String),
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(number) => write!(formatter, "{number}"),
            Self::Text(text) => formatter.write_str(text),
        }
    }
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Workload {
    /// One of pgbench's own scripts.
    builtin: Option<String>,
    /// A script for pgbench; a template.
    script: Option<String>,
    /// A part of a plan of the lab's generator; its texts are templates.
    plan: Option<toml::Table>,
    /// The data have to be restored afterwards.
    #[serde(default)]
    writes: bool,
    /// A login for every transaction.
    #[serde(default)]
    reconnect: bool,
    /// Clients stay connected and silent.
    #[serde(default)]
    idle: bool,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Profile {
    warm_up_s: f64,
    measure_s: f64,
    blocks: u32,
    scale: Option<u32>,
    targets: Option<Vec<String>>,
    #[serde(default)]
    factors: BTreeMap<String, Vec<Value>>,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Published {
    target: String,
    ours: Option<String>,
    factors: Point,
    /// By value of the axis.
    tps: BTreeMap<String, f64>,
}

const fn one() -> u32 {
    1
}

const fn sixteen() -> u32 {
    16
}

const fn yes() -> bool {
    true
}

/// What is wrong with an experiment, or with the wish for one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Not TOML, an unknown key, a missing one, or one of the wrong type; the text shows where.
    #[error("{file}: {source}")]
    Toml {
        /// The file.
        file: String,
        /// With line and column.
        source: Box<toml::de::Error>,
    },
    /// A template that cannot be filled in.
    #[error("{name}: {source}")]
    Template {
        /// The experiment.
        name: String,
        /// With its line.
        source: template::Error,
    },
    /// A value that makes no sense.
    #[error("{name}: {what}")]
    Value {
        /// The experiment.
        name: String,
        /// Which, and why.
        what: String,
    },
    /// Nobody describes this experiment.
    #[error("there is no experiment `{name}`; there are {}", known.join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
        /// What could have been.
        known: Vec<String>,
    },
}

impl Experiment {
    /// Reads and checks an experiment; `file` is for errors.
    ///
    /// # Errors
    /// Any mistake in it, in any profile: nothing is found out only when it is run.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        let parsed: Self = toml::from_str(text).map_err(|source| Error::Toml {
            file: file.to_owned(),
            source: Box::new(source),
        })?;
        parsed.check()?;
        Ok(parsed)
    }

    /// The target that a name stands for: itself, or what an alias says.
    #[must_use]
    pub fn target<'a>(&'a self, name: &'a str) -> &'a str {
        self.aliases.get(name).map_or(name, String::as_str)
    }

    /// The names of its profiles.
    pub fn profiles(&self) -> impl Iterator<Item = &str> {
        self.profile.keys().map(String::as_str)
    }

    /// What is to be run in a profile; nothing if it has no part in it.
    ///
    /// # Errors
    /// Changes that make no sense here.
    pub fn design(&self, profile: &str, changes: &Changes) -> Result<Option<Design>, Error> {
        let Some(profile) = self.profile.get(profile) else {
            return Ok(None);
        };
        let texts = |values: &Vec<Value>| values.iter().map(Value::to_string).collect();
        let mut factors: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, values) in self.factors.iter().chain(&profile.factors) {
            factors.insert(name.clone(), texts(values));
        }
        for (name, values) in &changes.factors {
            if let Some(known) = factors.get_mut(name) {
                known.clone_from(values);
            }
        }
        let targets = if changes.targets.is_empty() {
            profile.targets.as_ref().unwrap_or(&self.targets)
        } else {
            &changes.targets
        };
        let design = Design {
            targets: targets.clone(),
            points: combinations(&factors),
            warm_up_s: changes.warm_up_s.unwrap_or(profile.warm_up_s),
            measure_s: changes.measure_s.unwrap_or(profile.measure_s),
            blocks: changes.blocks.unwrap_or(profile.blocks),
            scale: changes.scale.or(profile.scale).unwrap_or(self.server.scale),
        };
        self.check_design(&design)?;
        Ok(Some(design))
    }

    /// What a result directory says of it.
    #[must_use]
    pub fn record(&self, design: &Design) -> record::Experiment {
        let base = if design.targets.contains(&self.base) {
            self.base.clone()
        } else {
            design.targets.first().cloned().unwrap_or_default()
        };
        record::Experiment {
            name: self.name.clone(),
            title: self.title.clone(),
            text: self.text.trim().to_owned(),
            base,
            measure: self.measure,
            axis: self.axis.clone(),
            warm_up_s: design.warm_up_s,
            measure_s: design.measure_s,
            blocks: design.blocks,
            published: self.published(),
            published_setup: self.published_setup.clone(),
            caveats: self.caveats.clone(),
            plan: design.plan(),
        }
    }

    fn published(&self) -> Vec<record::Published> {
        let figures = |published: &Published| {
            let Published {
                target,
                ours,
                factors,
                tps,
            } = published.clone();
            let axis = self.axis.clone();
            tps.into_iter().map(move |(value, tps)| {
                let mut factors = factors.clone();
                factors.insert(axis.clone(), value);
                record::Published {
                    target: target.clone(),
                    ours: ours.clone(),
                    factors,
                    tps,
                }
            })
        };
        self.published.iter().flat_map(figures).collect()
    }

    fn wrong(&self, what: impl Into<String>) -> Error {
        Error::Value {
            name: self.name.clone(),
            what: what.into(),
        }
    }

    fn check(&self) -> Result<(), Error> {
        if !self.factors.contains_key(&self.axis) {
            return Err(self.wrong(format!("the axis `{}` is no factor", self.axis)));
        }
        if !self.targets.contains(&self.base) {
            return Err(self.wrong(format!("the base `{}` is no target", self.base)));
        }
        let server = &self.server;
        let database = server.passwords || server.replica || !server.setup.is_empty();
        if server.null.is_some() && database {
            return Err(self.wrong("a null server has no passwords, no replica and no setup"));
        }
        if self.profile.is_empty() {
            return Err(self.wrong("it has no profile"));
        }
        for (name, profile) in &self.profile {
            let known: BTreeSet<&String> = self.factors.keys().collect();
            let own: BTreeSet<&String> = profile.factors.keys().collect();
            if let Some(unknown) = own.difference(&known).next() {
                return Err(self.wrong(format!("profile {name}: `{unknown}` is no factor")));
            }
            self.design(name, &Changes::default())?;
        }
        for published in &self.published {
            if let Some(unknown) = published
                .factors
                .keys()
                .find(|key| !self.factors.contains_key(*key))
            {
                let what = format!(
                    "published by {}: `{unknown}` is no factor",
                    published.target
                );
                return Err(self.wrong(what));
            }
        }
        Ok(())
    }

    fn check_design(&self, design: &Design) -> Result<(), Error> {
        if design.targets.is_empty() || design.points.is_empty() {
            return Err(self.wrong("nothing to run"));
        }
        if design.blocks == 0 {
            return Err(self.wrong("there must be a block"));
        }
        if !(design.measure_s > 0.0 && design.warm_up_s >= 0.0) {
            return Err(self.wrong("seconds of measuring must be above zero, of warm-up not below"));
        }
        if design.scale == 0 {
            return Err(self.wrong("the scale must be above zero"));
        }
        for point in &design.points {
            let work = self.work(point, design.scale)?;
            if matches!(work.script, Script::Plan(_)) {
                let wrong = |error: crate::error::Error| self.wrong(error.to_string());
                load_process::check(&work).map_err(wrong)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
