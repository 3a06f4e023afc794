//! Targets of measurements. Each is described by a file: how to recognise its programs, its configurations, and how
//! to start and stop it. The file also tells the limits of a fair comparison with it.

mod deployment;
mod finding;
mod site;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

pub use self::deployment::{Deployment, NotReady, Obstacle, StartError};
pub use self::finding::{Found, Version};
pub use self::site::{Auth, Server, Site};
use crate::template;

/// Built-in descriptions.
const BUILTIN: &[(&str, &str)] = &[
    ("direct", include_str!("../../../lab/targets/direct.toml")),
    ("weir", include_str!("../../../lab/targets/weir.toml")),
    (
        "weir-epoll",
        include_str!("../../../lab/targets/weir-epoll.toml"),
    ),
    (
        "weir-io_uring",
        include_str!("../../../lab/targets/weir-io_uring.toml"),
    ),
    (
        "weir-any",
        include_str!("../../../lab/targets/weir-any.toml"),
    ),
    (
        "weir-slow",
        include_str!("../../../lab/targets/weir-slow.toml"),
    ),
    (
        "weir-split",
        include_str!("../../../lab/targets/weir-split.toml"),
    ),
    (
        "weir-untracked",
        include_str!("../../../lab/targets/weir-untracked.toml"),
    ),
    (
        "weir-unnamed",
        include_str!("../../../lab/targets/weir-unnamed.toml"),
    ),
    (
        "pgbouncer",
        include_str!("../../../lab/targets/pgbouncer.toml"),
    ),
    (
        "pgbouncer-xN",
        include_str!("../../../lab/targets/pgbouncer-xN.toml"),
    ),
    (
        "pgbouncer-1.25",
        include_str!("../../../lab/targets/pgbouncer-1.25.toml"),
    ),
    ("pgpool", include_str!("../../../lab/targets/pgpool.toml")),
    ("haproxy", include_str!("../../../lab/targets/haproxy.toml")),
    (
        "pgpool-behind-pgbouncer",
        include_str!("../../../lab/targets/pgpool-behind-pgbouncer.toml"),
    ),
    ("odyssey", include_str!("../../../lab/targets/odyssey.toml")),
    ("pgdog", include_str!("../../../lab/targets/pgdog.toml")),
    ("pgcat", include_str!("../../../lab/targets/pgcat.toml")),
    (
        "pg_doorman",
        include_str!("../../../lab/targets/pg_doorman.toml"),
    ),
    (
        "pgagroal",
        include_str!("../../../lab/targets/pgagroal.toml"),
    ),
    (
        "proxysql",
        include_str!("../../../lab/targets/proxysql.toml"),
    ),
];

/// Contents of a description's file.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// Name: `pgbouncer`, or `weir-{workers}`, which takes a number.
    name: String,
    /// Title for display; a template.
    title: String,
    /// Limits of a fair comparison with it, in sentences.
    pub fairness: String,
    /// True if the description has been run at least once.
    pub tried: bool,
    /// Further facts about it.
    pub note: Option<String>,
    /// Name of the file that it was read from, without directories.
    #[serde(skip)]
    pub file_name: String,
    /// Text of that file.
    #[serde(skip)]
    pub source: String,
    /// Seconds in which each process must listen, and in which a login must succeed afterwards.
    #[serde(default = "half_a_minute")]
    ready_within_s: u64,
    /// True if every client takes a server connection, so that the server needs as many.
    #[serde(default)]
    server_per_client: bool,
    /// Programs, by the names that `--target-bin` uses.
    #[serde(default)]
    program: BTreeMap<String, Program>,
    #[serde(default)]
    unsupported: Vec<Unsupported>,
    #[serde(default)]
    substitute: Vec<Substitute>,
    #[serde(default)]
    file: Vec<File>,
    #[serde(default)]
    process: Vec<Process>,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Program {
    /// Possible names of its file.
    names: Vec<String>,
    /// Arguments that make the program print its version.
    version: Vec<String>,
}

/// Load that the target does not support.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Unsupported {
    when: String,
    reason: String,
}

/// Load that the target gets in another protocol.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Substitute {
    when: String,
    protocol: String,
    reason: String,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct File {
    path: String,
    text: String,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Process {
    /// A key of [`Definition::program`].
    program: String,
    #[serde(default)]
    arguments: Vec<String>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    /// Number of processes; a template.
    #[serde(default = "one")]
    count: String,
    /// Port that it listens on; a template.
    #[serde(default = "port")]
    port: String,
    /// True if it refuses to run as root, or should not.
    #[serde(default)]
    unprivileged: bool,
    /// Signals to stop it, sent in this order with a wait after each.
    stop: Vec<Signal>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "UPPERCASE")]
enum Signal {
    Int,
    Quit,
    Term,
}

fn one() -> String {
    "1".to_owned()
}

fn port() -> String {
    "{{ port }}".to_owned()
}

const fn half_a_minute() -> u64 {
    30
}

/// Load that a target is asked for, as far as a description may refuse or replace it.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Login of clients, and of the target at its server.
    pub auth: Auth,
    /// Protocol of the statements: `simple`, `extended` or `prepared`.
    pub protocol: &'a str,
    /// True if clients use TLS.
    pub client_tls: bool,
    /// True if the target must use TLS to its server.
    pub server_tls: bool,
}

/// Mistake in a description, or in the name of a target.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Invalid TOML, or an unknown, missing or mistyped key; the text shows where.
    #[error("{file}: {source}")]
    Toml {
        /// Name of the description.
        file: String,
        /// Error of the parser, with line and column.
        source: Box<toml::de::Error>,
    },
    /// A template or an expression that cannot be filled in.
    #[error("{file}: {source}")]
    Template {
        /// Name of the description.
        file: String,
        /// Error of the template, with its line.
        source: template::Error,
    },
    /// Two parts of the description contradict each other.
    #[error("{file}: {what}")]
    Contradiction {
        /// Name of the description.
        file: String,
        /// Description of the contradiction.
        what: String,
    },
    /// No target has this name.
    #[error("there is no target `{name}`; there are {}", known.join(", "))]
    Unknown {
        /// Name that was asked for.
        name: String,
        /// Names that exist.
        known: Vec<String>,
    },
}

impl Definition {
    /// Reads and checks a description; `file` is for errors.
    ///
    /// # Errors
    /// Any mistake, unknown placeholders included, so that none is found only when the target starts.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        let mut parsed: Self = toml::from_str(text).map_err(|source| Error::Toml {
            file: file.to_owned(),
            source: Box::new(source),
        })?;
        let name = Path::new(file).file_name().unwrap_or_default();
        parsed.file_name = name.to_string_lossy().into_owned();
        text.clone_into(&mut parsed.source);
        parsed.check(file)?;
        Ok(parsed)
    }

    /// Returns the name as a user types it: `weir-N` for `weir-{workers}`.
    #[must_use]
    pub fn pattern(&self) -> String {
        match self.split() {
            Some((before, _, after)) => format!("{before}N{after}"),
            None => self.name.clone(),
        }
    }

    /// Returns the names of its programs, as `--target-bin` uses them.
    pub fn programs(&self) -> impl Iterator<Item = &str> {
        self.program.keys().map(String::as_str)
    }

    /// Returns the target of this name, if this is its description.
    fn instance(&self, name: &str) -> Option<Instance> {
        let number = match self.split() {
            None => (name == self.name).then_some(None)?,
            Some((before, key, after)) => {
                let digits = name.strip_prefix(before)?.strip_suffix(after)?;
                let number = digits.parse().ok().filter(|number| *number > 0)?;
                Some((key.to_owned(), number))
            }
        };
        Some(Instance {
            name: name.to_owned(),
            number,
            definition: self.clone(),
        })
    }

    /// Returns the parts of the name before, inside and after the braces.
    fn split(&self) -> Option<(&str, &str, &str)> {
        let (before, rest) = self.name.split_once('{')?;
        let (key, after) = rest.split_once('}')?;
        Some((before, key, after))
    }

    fn check(&self, file: &str) -> Result<(), Error> {
        let contradiction = |what: String| Error::Contradiction {
            file: file.to_owned(),
            what,
        };
        let used: BTreeSet<&str> = self.process.iter().map(|p| p.program.as_str()).collect();
        let known: BTreeSet<&str> = self.programs().collect();
        if let Some(missing) = used.difference(&known).next() {
            let what = format!("a process runs `{missing}`, but there is no [program.{missing}]");
            return Err(contradiction(what));
        }
        if let Some(idle) = known.difference(&used).next() {
            return Err(contradiction(format!("no process runs [program.{idle}]")));
        }
        if let Some(bad) = self.file.iter().find(|file| !is_plain(&file.path)) {
            let what = format!("`{}` is not a plain file name", bad.path);
            return Err(contradiction(what));
        }
        if !self.tried && self.note.is_none() {
            let what = "it was never tried, and no note says on what it rests";
            return Err(contradiction(what.to_owned()));
        }
        let name = match self.split() {
            Some((before, _, after)) => format!("{before}2{after}"),
            None => self.name.clone(),
        };
        if name.is_empty() || name.contains(['{', '}', ' ', '/']) {
            return Err(contradiction(format!("`{}` is no name", self.name)));
        }
        let sample = self
            .instance(&name)
            .ok_or_else(|| contradiction(format!("`{}` is no name", self.name)))?;
        sample.rehearse().map_err(|source| Error::Template {
            file: file.to_owned(),
            source,
        })
    }
}

fn is_plain(path: &str) -> bool {
    let mut components = Path::new(path).components();
    matches!(components.next(), Some(std::path::Component::Normal(_)))
        && components.next().is_none()
}

/// Target that can be started: a description, with a number if it takes one.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    /// Name, such as `weir-2`.
    pub name: String,
    number: Option<(String, u32)>,
    /// Description of the target.
    pub definition: Definition,
}

impl Instance {
    /// Returns the title for display.
    #[must_use]
    pub fn title(&self) -> String {
        let site = Site::sample(Auth::Trust, false);
        let values = site.values(self, &Version::default(), Path::new("/"), 1, &[]);
        // The template was checked when the description was read.
        template::render("title", &self.definition.title, &values)
            .unwrap_or_else(|_| self.name.clone())
    }

    /// True if no process is started for it.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.definition.process.is_empty()
    }

    /// True if the server must accept as many connections as there are clients.
    #[must_use]
    pub fn takes_a_server_per_client(&self) -> bool {
        self.definition.server_per_client
    }

    /// Renders all templates once for each kind of login and encryption.
    fn rehearse(&self) -> Result<(), template::Error> {
        for auth in [Auth::Trust, Auth::Scram] {
            for tls in [false, true] {
                let site = Site::sample(auth, tls);
                let ports = [1; site::INNER_PORTS];
                let version = Version::default();
                let values = site.values(self, &version, Path::new("/run"), 1, &ports);
                template::render("title", &self.definition.title, &values)?;
                for file in &self.definition.file {
                    template::render(&file.path, &file.text, &values)?;
                }
                for process in &self.definition.process {
                    process.rehearse(&values)?;
                }
                let values = values.with("protocol", "simple");
                let unsupported = self.definition.unsupported.iter().map(|rule| &rule.when);
                let substitute = self.definition.substitute.iter().map(|rule| &rule.when);
                for when in unsupported.chain(substitute) {
                    template::holds("when", when, &values)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the reason why the target does not support this load, if it does not.
    ///
    /// # Errors
    /// None once the description was read.
    pub fn refusal(
        &self,
        version: &Version,
        request: Request<'_>,
    ) -> Result<Option<String>, template::Error> {
        let values = self.conditions(version, request);
        for rule in &self.definition.unsupported {
            if template::holds("when", &rule.when, &values)? {
                return Ok(Some(rule.reason.clone()));
            }
        }
        Ok(None)
    }

    /// Returns the protocol that replaces this one for the target, and the reason.
    ///
    /// # Errors
    /// None once the description was read.
    pub fn substitute(
        &self,
        version: &Version,
        request: Request<'_>,
    ) -> Result<Option<(String, String)>, template::Error> {
        let values = self.conditions(version, request);
        for rule in &self.definition.substitute {
            if template::holds("when", &rule.when, &values)? {
                return Ok(Some((rule.protocol.clone(), rule.reason.clone())));
            }
        }
        Ok(None)
    }

    fn conditions(&self, version: &Version, request: Request<'_>) -> site::Values {
        let mut site = Site::sample(request.auth, false);
        (site.client_tls, site.server_tls) = (request.client_tls, request.server_tls);
        site.values(self, version, Path::new("/"), 1, &[])
            .with("protocol", request.protocol)
    }

    /// Returns the time in which each process must listen, and a login must succeed afterwards.
    const fn ready_within(&self) -> Duration {
        Duration::from_secs(self.definition.ready_within_s)
    }
}

impl Process {
    fn rehearse(&self, values: &site::Values) -> Result<(), template::Error> {
        template::render("count", &self.count, values)?;
        template::render("port", &self.port, values)?;
        for argument in &self.arguments {
            template::render("arguments", argument, values)?;
        }
        for value in self.environment.values() {
            template::render("environment", value, values)?;
        }
        Ok(())
    }
}

/// All descriptions.
#[derive(Clone, Debug)]
pub struct Catalog {
    definitions: Vec<Definition>,
}

impl Catalog {
    /// Returns the built-in descriptions.
    ///
    /// # Errors
    /// None: a test reads them all.
    pub fn builtin() -> Result<Self, Error> {
        let definitions = BUILTIN
            .iter()
            .map(|(name, text)| Definition::parse(&format!("lab/targets/{name}.toml"), text))
            .collect::<Result<_, _>>()?;
        Ok(Self { definitions })
    }

    /// Adds a description; replaces one of the same name.
    pub fn add(&mut self, definition: Definition) {
        self.definitions
            .retain(|known| known.name != definition.name);
        self.definitions.push(definition);
    }

    /// Returns the target of this name.
    ///
    /// # Errors
    /// No target has this name; the error lists all names.
    pub fn find(&self, name: &str) -> Result<Instance, Error> {
        // A name without a number has precedence over a pattern that it happens to match.
        let exact = self.definitions.iter().filter(|d| d.split().is_none());
        let patterns = self.definitions.iter().filter(|d| d.split().is_some());
        exact
            .chain(patterns)
            .find_map(|definition| definition.instance(name))
            .ok_or_else(|| Error::Unknown {
                name: name.to_owned(),
                known: self.patterns(),
            })
    }

    /// Returns the names of all targets, such as `weir-N`.
    #[must_use]
    pub fn patterns(&self) -> Vec<String> {
        self.definitions.iter().map(Definition::pattern).collect()
    }

    /// Returns all descriptions, in the order of the documentation.
    #[must_use]
    pub fn definitions(&self) -> &[Definition] {
        &self.definitions
    }
}

#[cfg(test)]
mod tests;
