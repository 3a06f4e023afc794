//! Sections of HAProxy, and the choice of those that lead to PostgreSQL.

use std::collections::BTreeSet;

use super::read::HEAD;
use crate::leaf::Leaf;

/// Kind of hosts that a section leads to, as its health check tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Any,
    Primary,
    Replica,
}

/// A line without its section.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) words: Vec<String>,
}

impl Line {
    pub(super) fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", String::as_str)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Section {
    pub(super) kind: String,
    pub(super) name: String,
    /// File and number.
    key: (String, String),
    /// Name of the defaults that it asks for.
    from: Option<String>,
    pub(super) lines: Vec<Line>,
}

/// Server of a section.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) host: String,
    pub(super) port: String,
    /// Words behind the address.
    pub(super) options: Vec<String>,
}

impl Server {
    pub(super) fn has(&self, name: &str) -> bool {
        self.options.iter().any(|option| option == name)
    }

    /// Returns the word behind an option.
    pub(super) fn option(&self, name: &str) -> Option<&str> {
        let at = self.options.iter().position(|option| option == name)?;
        self.options.get(at + 1).map(String::as_str)
    }

    pub(super) fn address(&self) -> (String, String) {
        (self.host.clone(), self.port.clone())
    }
}

#[derive(Debug, Default)]
pub(super) struct Facts {
    sections: Vec<Section>,
    /// Section whose hosts the entry has, and its position.
    pub(super) main: Option<usize>,
    /// Sections that lead to hosts of the same cluster, with `main`.
    pub(super) chosen: BTreeSet<usize>,
    /// Sections that lead to other hosts that look like PostgreSQL.
    foreign: BTreeSet<usize>,
}

/// Part that a section plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SectionPart {
    /// Settings that hold for others: `global` and `defaults`.
    Common,
    /// The section of the entry, and frontends that lead to it.
    Main,
    /// Another way to the same hosts.
    Other,
    /// Another cluster.
    Foreign,
    /// Not about PostgreSQL.
    Skipped,
}

impl Facts {
    pub(super) fn gather(leaves: &[Leaf]) -> Self {
        let mut facts = Self::default();
        for leaf in leaves {
            let [kind, name, number, words @ ..] = leaf.path.as_slice() else {
                continue;
            };
            let key = (leaf.file.clone(), number.clone());
            if words.first().is_some_and(|word| word == HEAD) {
                let from = words.iter().position(|word| word == "from");
                // `defaults from X` has no name.
                let from = match (from, name.as_str()) {
                    (Some(at), _) => words.get(at + 1).cloned(),
                    (None, "from") => words.get(1).cloned(),
                    _ => None,
                };
                facts.sections.push(Section {
                    kind: kind.clone(),
                    name: name.clone(),
                    key,
                    from,
                    lines: Vec::new(),
                });
            } else if let Some(section) =
                facts.sections.iter_mut().find(|section| section.key == key)
            {
                section.lines.push(Line {
                    words: words.to_vec(),
                });
            }
        }
        facts.choose();
        facts
    }

    fn choose(&mut self) {
        let all = 0..self.sections.len();
        let fits: Vec<usize> = all.filter(|at| self.is_postgres(*at)).collect();
        let by_role = |role: Role| fits.iter().copied().find(|at| self.role(*at) == role);
        let main = by_role(Role::Primary)
            .or_else(|| by_role(Role::Any))
            .or_else(|| by_role(Role::Replica));
        let Some(main) = main else {
            return;
        };
        let own: BTreeSet<_> = self.servers(main).iter().map(Server::address).collect();
        let shares = |at: usize| {
            self.servers(at)
                .iter()
                .any(|server| own.contains(&server.address()))
        };
        let (chosen, foreign): (Vec<usize>, Vec<usize>) =
            fits.iter().partition(|at| **at == main || shares(**at));
        self.main = Some(main);
        self.chosen = chosen.into_iter().collect();
        self.foreign = foreign.into_iter().collect();
    }

    /// Returns the section of a line.
    pub(super) fn find(&self, leaf: &Leaf) -> Option<usize> {
        let number = leaf.path.get(2)?;
        let mut all = self.sections.iter();
        all.position(|section| section.key.0 == leaf.file && section.key.1 == *number)
    }

    pub(super) fn section(&self, at: usize) -> Option<&Section> {
        self.sections.get(at)
    }

    /// Tells which part a section plays.
    pub(super) fn part(&self, at: usize) -> SectionPart {
        let Some(section) = self.sections.get(at) else {
            return SectionPart::Skipped;
        };
        let leads = |to: &BTreeSet<usize>| {
            let names = self.backends(section);
            to.iter()
                .filter_map(|at| self.sections.get(*at))
                .any(|target| target.kind == "backend" && names.contains(&target.name))
        };
        match section.kind.as_str() {
            "global" | "defaults" => SectionPart::Common,
            "frontend" if self.main.is_some_and(|main| leads(&BTreeSet::from([main]))) => {
                SectionPart::Main
            }
            "frontend" if leads(&self.chosen) => SectionPart::Other,
            "frontend" if leads(&self.foreign) => SectionPart::Foreign,
            _ if self.main == Some(at) => SectionPart::Main,
            _ if self.chosen.contains(&at) => SectionPart::Other,
            _ if self.foreign.contains(&at) => SectionPart::Foreign,
            _ => SectionPart::Skipped,
        }
    }

    /// Names of the backends that a frontend leads to.
    fn backends(&self, section: &Section) -> BTreeSet<String> {
        let lines = section.lines.iter();
        let leads = lines.filter(|line| matches!(line.word(0), "default_backend" | "use_backend"));
        let own: BTreeSet<String> = leads.map(|line| line.word(1).to_owned()).collect();
        match own.is_empty() {
            true => self
                .defaults(section)
                .iter()
                .filter(|line| line.word(0) == "default_backend")
                .map(|line| line.word(1).to_owned())
                .collect(),
            false => own,
        }
    }

    /// Lines of the defaults that hold for a section: those it names, or the last ones in front of it.
    fn defaults(&self, section: &Section) -> &[Line] {
        let at = self
            .sections
            .iter()
            .position(|other| other.key == section.key);
        let front = self
            .sections
            .get(..at.unwrap_or_default())
            .unwrap_or_default();
        let mut defaults = front.iter().rev().filter(|other| other.kind == "defaults");
        let found = match &section.from {
            Some(name) => defaults.find(|other| other.name == *name),
            None => defaults.next(),
        };
        found.map_or(&[], |defaults| defaults.lines.as_slice())
    }

    /// Returns the lines of a section that begin with this word, or those of its defaults.
    pub(super) fn effective(&self, at: usize, keyword: &str) -> Vec<&Line> {
        let Some(section) = self.sections.get(at) else {
            return Vec::new();
        };
        let fits = |line: &&Line| line.word(0) == keyword;
        let own: Vec<&Line> = section.lines.iter().filter(fits).collect();
        match own.is_empty() {
            true => self.defaults(section).iter().filter(fits).collect(),
            false => own,
        }
    }

    /// True if a health check of this name is on.
    pub(super) fn has_option(&self, at: usize, name: &str) -> bool {
        self.effective(at, "option")
            .iter()
            .any(|line| line.word(1) == name)
    }

    fn is_postgres(&self, at: usize) -> bool {
        let is_backend = |section: &Section| matches!(section.kind.as_str(), "backend" | "listen");
        let section = self.sections.get(at).filter(|section| is_backend(section));
        if section.is_none_or(|section| section.lines.iter().any(|line| line.word(0) == "disabled"))
        {
            return false;
        }
        let mode = self.effective(at, "mode");
        let is_tcp = mode.last().is_none_or(|line| line.word(1) == "tcp");
        let servers = self.servers(at);
        let has_port = |server: &Server| matches!(server.port.as_str(), "5432" | "5433" | "6432");
        let is_patroni = self.has_option(at, "httpchk")
            && servers
                .iter()
                .any(|server| server.option("port") == Some("8008"));
        let is_checked = self.has_option(at, "pgsql-check") || is_patroni;
        is_tcp && !servers.is_empty() && (is_checked || servers.iter().any(has_port))
    }

    /// Returns the servers of a section that are not disabled, with the options of default-server.
    pub(super) fn servers(&self, at: usize) -> Vec<Server> {
        let defaults: Vec<String> = self
            .effective(at, "default-server")
            .iter()
            .flat_map(|line| line.words.iter().skip(1).cloned())
            .collect();
        let Some(section) = self.sections.get(at) else {
            return Vec::new();
        };
        let lines = section.lines.iter().filter(|line| line.word(0) == "server");
        let servers = lines.map(|line| {
            let (host, port) = super::split_address(line.word(2));
            let own = line.words.iter().skip(3).cloned();
            Server {
                host,
                port,
                options: own.chain(defaults.iter().cloned()).collect(),
            }
        });
        servers.filter(|server| !server.has("disabled")).collect()
    }

    /// Returns the kind of hosts that pass the health check.
    pub(super) fn role(&self, at: usize) -> Role {
        let checks = self
            .effective(at, "option")
            .into_iter()
            .filter(|line| line.word(1) == "httpchk");
        let sends = self.effective(at, "http-check");
        let mut words = checks.chain(sends).flat_map(|line| line.words.iter());
        let role = words.find_map(|word| {
            let path = word.split('?').next().unwrap_or_default();
            match path.trim_end_matches('/') {
                "/primary" | "/master" | "/leader" | "/read-write" => Some(Role::Primary),
                "/replica" | "/read-only" | "/async" | "/asynchronous" | "/sync"
                | "/synchronous" | "/standby" | "/hot-standby" => Some(Role::Replica),
                _ => None,
            }
        });
        role.unwrap_or(Role::Any)
    }

    /// Returns the kind of hosts that clients of a section reach, through its backends if it is a frontend.
    pub(super) fn role_of(&self, at: usize) -> Role {
        let Some(section) = self
            .sections
            .get(at)
            .filter(|section| section.kind == "frontend")
        else {
            return self.role(at);
        };
        let names = self.backends(section);
        let is_target = |at: &&usize| {
            let target = self.sections.get(**at);
            target.is_some_and(|target| target.kind == "backend" && names.contains(&target.name))
        };
        self.chosen
            .iter()
            .find(is_target)
            .map_or(Role::Any, |at| self.role(*at))
    }

    /// True if hosts have roles here: a check tells the primary or replicas.
    pub(super) fn has_roles(&self) -> bool {
        self.chosen.iter().any(|at| self.role(*at) != Role::Any) && self.hosts().len() > 1
    }

    /// Returns all hosts of the cluster, those of the main section first.
    pub(super) fn hosts(&self) -> Vec<Server> {
        let mut hosts: Vec<Server> = Vec::new();
        for at in self.main.iter().chain(self.chosen.iter()) {
            for server in self.servers(*at) {
                if !hosts
                    .iter()
                    .any(|known| known.address() == server.address())
                {
                    hosts.push(server);
                }
            }
        }
        hosts
    }

    /// Returns the user that checks log in as.
    pub(super) fn check_user(&self) -> Option<String> {
        let checks = self
            .chosen
            .iter()
            .flat_map(|at| self.effective(*at, "option"));
        let mut users =
            checks.filter(|line| line.word(1) == "pgsql-check" && line.word(2) == "user");
        users.next().map(|line| line.word(3).to_owned())
    }

    /// Returns the last value of a keyword in a section, in `global`, or in both.
    pub(super) fn global(&self, keyword: &str) -> Option<&Line> {
        let sections = self
            .sections
            .iter()
            .filter(|section| section.kind == "global");
        sections
            .flat_map(|section| section.lines.iter())
            .rfind(|line| line.word(0) == keyword)
    }

    /// Returns the sections that clients of the entry pass through.
    pub(super) fn path(&self) -> Vec<usize> {
        (0..self.sections.len())
            .filter(|at| self.part(*at) == SectionPart::Main)
            .collect()
    }
}
