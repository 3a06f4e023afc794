//! Definition of experiments. Each experiment is a file with the servers and pools it needs, the varied factors and
//! the load. The file also has the duration in each profile, and published figures to compare with.

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

/// Coordinates of a cell: a value for every factor.
pub type Point = BTreeMap<String, String>;

/// Contents of an experiment's file.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Short and stable name.
    pub name: String,
    /// Title in one line.
    pub title: String,
    /// Description of what is done and why.
    pub text: String,
    /// Metric of the charts.
    pub measure: record::Measure,
    /// Factor on the charts' axis.
    pub axis: String,
    /// Target that the others are compared with.
    pub base: String,
    /// All targets, in the order of the report.
    pub targets: Vec<String>,
    /// Generator of the load.
    pub generator: GeneratorKind,
    /// Maximum number of generator threads; the actual number is that of the clients, up to this.
    #[serde(default = "sixteen")]
    pub threads_max: u32,
    /// Differences from the published machine and versions.
    pub published_setup: Option<String>,
    /// Facts that a reader needs to interpret the figures.
    #[serde(default)]
    pub caveats: Vec<String>,
    /// Second names of targets.
    #[serde(default)]
    pub aliases: BTreeMap<String, String>,
    /// Requirements on PostgreSQL.
    pub server: Server,
    /// Set-up of the poolers.
    pub pooler: Pooler,
    factors: BTreeMap<String, Vec<Value>>,
    workload: BTreeMap<String, Workload>,
    profile: BTreeMap<String, Profile>,
    #[serde(default)]
    published: Vec<Published>,
}

/// Value of [`Experiment::generator`].
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GeneratorKind {
    /// PostgreSQL's pgbench.
    Pgbench,
    /// The lab's own generator.
    Weir,
}

/// Value of [`Experiment::server`].
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Scale of pgbench's tables: 100,000 accounts per unit.
    pub scale: u32,
    /// True if clients and poolers have to log in by SCRAM.
    #[serde(default)]
    pub passwords: bool,
    /// Number of streaming replicas that run beside the server.
    #[serde(default)]
    pub replicas: u32,
    /// SQL that is run once after the tables are filled.
    #[serde(default)]
    pub setup: Vec<String>,
    /// Further server settings, each `name=value`.
    #[serde(default)]
    pub settings: Vec<String>,
    /// Server with canned answers that replaces PostgreSQL.
    pub null: Option<NullServer>,
    /// True if the server is restarted before each block, so that all blocks begin with the same cold buffers.
    #[serde(default = "yes")]
    pub restart: bool,
}

/// Value of [`Server::null`].
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct NullServer {
    /// Number of rows of every answer.
    pub rows: u64,
    /// Bytes in the one column of a row.
    pub row_bytes: u32,
    /// Number of threads that answer.
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
    /// Returns the login method of clients and poolers.
    #[must_use]
    pub const fn auth(&self) -> Auth {
        if self.passwords {
            Auth::Scram
        } else {
            Auth::Trust
        }
    }
}

/// Value of [`Experiment::pooler`].
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Pooler {
    /// Number of connections to the server.
    pub pool_size: u32,
    /// Encryption, unless the factor `tls` overrides it.
    #[serde(default)]
    pub tls: Tls,
    /// Number of instances of the target that run side by side.
    #[serde(default = "one")]
    pub proxies: u32,
    /// Target that distributes clients over these instances.
    pub front: Option<String>,
}

/// Connections that are encrypted.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tls {
    /// No connection.
    #[default]
    None,
    /// The connection from the client to the target.
    Client,
    /// Both connections: that one, and the target's to PostgreSQL.
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
    /// Name of one of pgbench's built-in scripts.
    builtin: Option<String>,
    /// Template of a script for pgbench.
    script: Option<String>,
    /// A part of a plan of the lab's generator; its texts are templates.
    plan: Option<toml::Table>,
    /// True if the data have to be restored afterwards.
    #[serde(default)]
    writes: bool,
    /// True if every transaction begins with a login.
    #[serde(default)]
    reconnect: bool,
    /// True if clients stay connected and silent.
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
    /// Transactions per second, by value of the axis.
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

/// Mistake in an experiment, or in the request to run one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Invalid TOML, or an unknown, missing or mistyped key; the text shows where.
    #[error("{file}: {source}")]
    Toml {
        /// Name of the file.
        file: String,
        /// Error of the parser, with line and column.
        source: Box<toml::de::Error>,
    },
    /// A template that cannot be filled in.
    #[error("{name}: {source}")]
    Template {
        /// Name of the experiment.
        name: String,
        /// Error of the template, with its line.
        source: template::Error,
    },
    /// A value is invalid.
    #[error("{name}: {what}")]
    Value {
        /// Name of the experiment.
        name: String,
        /// Name of the value, and the reason.
        what: String,
    },
    /// No experiment has this name.
    #[error("there is no experiment `{name}`; there are {}", known.join(", "))]
    Unknown {
        /// Name that was asked for.
        name: String,
        /// Names that exist.
        known: Vec<String>,
    },
}

impl Experiment {
    /// Reads and checks an experiment; `file` is for errors.
    ///
    /// # Errors
    /// Any mistake in any profile, so that none is found only when the experiment runs.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        let parsed: Self = toml::from_str(text).map_err(|source| Error::Toml {
            file: file.to_owned(),
            source: Box::new(source),
        })?;
        parsed.check()?;
        Ok(parsed)
    }

    /// Returns the target that a name stands for: the name itself, or the target of an alias.
    #[must_use]
    pub fn target<'a>(&'a self, name: &'a str) -> &'a str {
        self.aliases.get(name).map_or(name, String::as_str)
    }

    /// Returns the names of the profiles.
    pub fn profiles(&self) -> impl Iterator<Item = &str> {
        self.profile.keys().map(String::as_str)
    }

    /// Returns what a profile runs, with `changes` applied; `None` if the experiment has no such profile.
    ///
    /// # Errors
    /// The changes are invalid here.
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

    /// Returns the experiment as a result directory records it.
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
            setting: Some(self.setting()),
            plan: design.plan(),
        }
    }

    /// Returns the set-up that all cells share.
    #[must_use]
    pub fn setting(&self) -> record::Setting {
        record::Setting {
            tls: self.pooler.tls != Tls::None,
            front: self.pooler.front.clone(),
            replicas: self.server.replicas,
            database: self.server.null.is_none(),
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
        let database = server.passwords || server.replicas > 0 || !server.setup.is_empty();
        if server.null.is_some() && database {
            return Err(self.wrong("a null server has no passwords, no replicas and no setup"));
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
