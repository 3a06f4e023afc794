//! A file of rules, and the search for the one that fits.

mod explain;

use std::net::IpAddr;
use std::path::Path;

use crate::address::Reach;
use crate::error::Problems;
use crate::files::{Files, NoFiles};
use crate::lines::{self, Collected, Line};
use crate::names::{Fit, Patterns, one_of};
use crate::rule::{Kind, Method, Rule, parse};
use crate::visitor::{Fact, Facts, Interface, Origin, Visitor};

pub use explain::{ExplainedLine, Explanation, Outcome};

/// The rules of a file and of those it includes, in their order.
#[derive(Clone, Debug, Default)]
pub struct Hba {
    rules: Vec<Rule>,
}

/// Result of the rules for a visitor.
#[derive(Clone, Copy, Debug)]
pub enum Decision<'h> {
    /// The outcome depends on this fact. Look it up, put it into [`Facts`] and ask again. If the look-up fails, put
    /// [`Answer::Failed`](crate::Answer::Failed) there.
    Needs(Fact),
    /// No line fits: the visitor is refused.
    NoRule,
    /// The first line that fits.
    Rule(&'h Rule),
}

impl Hba {
    /// Reads a file and all files that it includes.
    ///
    /// # Errors
    ///
    /// Returns all mistakes in all of these files. A file with one mistake is refused whole.
    pub fn load(path: &Path, files: &dyn Files) -> Result<Self, Problems> {
        let mut problems = Collected::default();
        let lines = lines::load(path, files, &mut problems);
        Self::from_lines(&lines, problems)
    }

    /// Reads a text that includes no other file; `name` stands for it in messages.
    ///
    /// # Errors
    ///
    /// As for [`Self::load`]; an `include` or `@file` is a mistake.
    pub fn parse(name: &str, text: &str) -> Result<Self, Problems> {
        let mut problems = Collected::default();
        let lines = lines::parse(Path::new(name), text, &NoFiles, &mut problems);
        Self::from_lines(&lines, problems)
    }

    fn from_lines(lines: &[Line], mut problems: Collected) -> Result<Self, Problems> {
        let mut patterns = Patterns::default();
        let mut rules = Vec::with_capacity(lines.len());
        for line in lines {
            match parse(line, &mut patterns) {
                Ok(rule) => rules.push(rule),
                Err(mistake) => problems.add(&line.place, mistake),
            }
        }
        problems.finish(Self { rules })
    }

    /// The rules in their order.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Returns the first line that fits the visitor. Allocates nothing except buffers that the regex engine keeps for
    /// its next use.
    ///
    /// A fact is requested only if no earlier line decides and all other columns of the line fit. Each fact is
    /// requested at most once, so two answers always lead to a decision.
    #[must_use]
    pub fn decide(&self, visitor: &Visitor<'_>, facts: &Facts<'_>) -> Decision<'_> {
        for rule in &self.rules {
            match judge(rule, visitor, facts) {
                Verdict::Miss(_) | Verdict::Lacks { fits: false, .. } => {}
                Verdict::Fits | Verdict::Lacks { fits: true, .. } => return Decision::Rule(rule),
                Verdict::Needs(fact) => return Decision::Needs(fact),
            }
        }
        Decision::NoRule
    }
}

/// Result of comparing a line with a visitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Fits,
    /// A fact is unknown, and this is how the line counts.
    Lacks {
        lack: Lack,
        fits: bool,
    },
    Miss(Column),
    Needs(Fact),
}

/// The first column that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Address,
    Database,
    Kind,
    User,
}

/// Information that could not be found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lack {
    Fact(Fact),
    Interfaces,
}

/// Compares a line with a visitor. Columns come in PostgreSQL's order, and those that cost nothing come first.
fn judge(rule: &Rule, visitor: &Visitor<'_>, facts: &Facts<'_>) -> Verdict {
    let source = source(visitor.origin);
    if !kind_fits(rule.kind, source.is_some(), visitor.transport.is_tls()) {
        return Verdict::Miss(Column::Kind);
    }
    let reach = match (&rule.address, source) {
        (Some(address), Some((ip, interfaces))) => address.fits(ip, interfaces, facts),
        _ => Reach::Known(Fit::Yes),
    };
    if reach == Reach::Known(Fit::No) {
        return Verdict::Miss(Column::Address);
    }
    let database = one_of(
        rule.databases
            .iter()
            .map(|entry| entry.fits(visitor, facts)),
    );
    if database == Fit::No {
        return Verdict::Miss(Column::Database);
    }
    let user = one_of(
        rule.users
            .iter()
            .map(|entry| entry.fits(visitor.user, facts)),
    );
    if user == Fit::No {
        return Verdict::Miss(Column::User);
    }
    weigh(rule, reach, [database, user])
}

/// Combines columns of which none misses, but some may depend on facts.
fn weigh(rule: &Rule, reach: Reach, names: [Fit; 2]) -> Verdict {
    let (place, no_interfaces) = match reach {
        Reach::Known(fit) => (fit, None),
        Reach::NoInterfaces => (Fit::Yes, Some(Lack::Interfaces)),
    };
    let [database, user] = names;
    let fits = [place, database, user];
    let lack = no_interfaces.or_else(|| {
        fits.iter().find_map(|fit| match fit {
            Fit::Unknown(fact) => Some(Lack::Fact(*fact)),
            _ => None,
        })
    });
    let needs = fits.iter().find_map(|fit| match fit {
        Fit::Needs(fact) => Some(*fact),
        _ => None,
    });
    let rejects = matches!(rule.method, Method::Reject);
    match (lack, needs) {
        // An unknown fact lets no client in, whatever another look-up would find.
        (Some(lack), _) if !rejects => Verdict::Lacks { lack, fits: false },
        (_, Some(fact)) => Verdict::Needs(fact),
        (Some(lack), None) => Verdict::Lacks { lack, fits: true },
        (None, None) => Verdict::Fits,
    }
}

/// Returns the address of a visitor over TCP, in the form that rules are compared with.
fn source(origin: Origin<'_>) -> Option<(IpAddr, Option<&[Interface]>)> {
    match origin {
        Origin::Ip {
            address,
            interfaces,
        } => Some((address.to_canonical(), interfaces)),
        Origin::Unix => None,
    }
}

fn kind_fits(kind: Kind, tcp: bool, tls: bool) -> bool {
    match kind {
        Kind::Local => !tcp,
        Kind::Host | Kind::HostNoGssEnc => tcp,
        Kind::HostSsl => tcp && tls,
        Kind::HostNoSsl => tcp && !tls,
        Kind::HostGssEnc => false,
    }
}

#[cfg(test)]
mod tests;
