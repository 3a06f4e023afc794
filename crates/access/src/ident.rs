//! Ident maps: lines that lead from a proved name to the database users it may be.
//!
//! Rules: PostgreSQL manual section 21.2, with the regular expressions and keywords of version 16.

use std::path::Path;

use crate::error::{Mistake, Problems};
use crate::files::{Files, NoFiles};
use crate::lines::{self, Collected, Line};
use crate::names::{Fit, Pattern, Patterns, User};
use crate::tokens::Token;
use crate::visitor::{Answer, Fact, Facts};

/// The maps of a file and of those it includes.
#[derive(Clone, Debug, Default)]
pub struct IdentMap {
    entries: Vec<Entry>,
}

/// Answer of a map to the question if a system user may be a database user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// The map allows it.
    Allowed,
    /// The answer depends on this fact.
    Needs(Fact),
    /// The map does not allow it.
    Refused,
}

#[derive(Clone, Debug)]
struct Entry {
    map: String,
    system: System,
    user: Target,
}

/// The second column.
#[derive(Clone, Debug)]
enum System {
    Matches(Pattern),
    Name(String),
}

/// The third column.
#[derive(Clone, Debug)]
enum Target {
    /// Prefix and suffix around the text that the first parentheses of the system user capture.
    Captured(String, String),
    User(User),
}

impl IdentMap {
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
        let mut entries = Vec::with_capacity(lines.len());
        for line in lines {
            match entry(line, &mut patterns) {
                Ok(entry) => entries.push(entry),
                Err(mistake) => problems.add(&line.place, mistake),
            }
        }
        problems.finish(Self { entries })
    }

    /// True if there is a map of this name. A rule that names a missing map lets no client in.
    #[must_use]
    pub fn contains(&self, map: &str) -> bool {
        self.entries.iter().any(|entry| entry.map == map)
    }

    /// True if the map lets the system user be the database user, without knowledge of the user's roles: a line with
    /// `+role` lets no client in. Where roles can be looked up, use [`Self::decide`].
    #[must_use]
    pub fn allows(&self, map: &str, system_user: &str, user: &str) -> bool {
        let facts = Facts {
            roles: Answer::Failed,
            ..Facts::default()
        };
        self.decide(map, system_user, user, &facts) == Mapping::Allowed
    }

    /// Decides if the map lets the system user be the database user. Any line of the map can allow it.
    ///
    /// The only fact that counts is the roles of the database user, for `+role`. If they could not be found out, such a
    /// line lets no client in.
    #[must_use]
    pub fn decide(&self, map: &str, system_user: &str, user: &str, facts: &Facts<'_>) -> Mapping {
        let mut outcome = Mapping::Refused;
        for entry in self.entries.iter().filter(|entry| entry.map == map) {
            match entry.fits(system_user, user, facts) {
                Fit::No | Fit::Unknown(_) => {}
                Fit::Needs(fact) => outcome = Mapping::Needs(fact),
                Fit::Yes => return Mapping::Allowed,
            }
        }
        outcome
    }
}

impl Entry {
    fn fits(&self, system_user: &str, user: &str, facts: &Facts<'_>) -> Fit {
        match (&self.system, &self.user) {
            (System::Name(name), _) if name != system_user => Fit::No,
            (System::Matches(pattern), Target::User(_)) if !pattern.matches(system_user) => Fit::No,
            (_, Target::User(target)) => target.fits(user, facts),
            (System::Matches(pattern), Target::Captured(before, behind)) => {
                let captures = pattern.regex.captures(system_user);
                let captured = captures.and_then(|groups| groups.get(1));
                Fit::from_bool(captured.is_some_and(|group| {
                    let middle = user
                        .strip_prefix(before.as_str())
                        .and_then(|rest| rest.strip_suffix(behind.as_str()));
                    middle == Some(group.as_str())
                }))
            }
            // The parser rejects a substitution without a regular expression.
            (System::Name(_), Target::Captured(..)) => Fit::No,
        }
    }
}

fn entry(line: &Line, patterns: &mut Patterns) -> Result<Entry, Mistake> {
    let mut fields = line.fields.iter();
    let mut one = |name: &'static str| match fields.next().map(Vec::as_slice) {
        Some([token]) => Ok(token),
        Some(_) => Err(Mistake::MultipleValues(name)),
        None => Err(Mistake::Missing(
            name,
            "write map name, system user, database user",
        )),
    };
    let map = one("map name")?;
    let system = one("system user")?;
    let user = one("database user")?;
    if fields.next().is_some() {
        return Err(Mistake::ExtraField);
    }
    if map.text.is_empty() {
        return Err(Mistake::Empty("map name"));
    }
    let system = match patterns.compile(system)? {
        Some(pattern) => System::Matches(pattern),
        None if system.text.is_empty() => return Err(Mistake::Empty("system user")),
        None => System::Name(system.text.to_string()),
    };
    let user = target(user, &system, patterns)?;
    Ok(Entry {
        map: map.text.to_string(),
        system,
        user,
    })
}

/// Parses the database user. `\1` has its meaning only in a plain name, and only once.
fn target(token: &Token, system: &System, patterns: &mut Patterns) -> Result<Target, Mistake> {
    let user = User::parse(token, patterns)?;
    let User::Name(name) = &user else {
        return Ok(Target::User(user));
    };
    let Some((before, behind)) = name.split_once("\\1") else {
        return Ok(Target::User(user));
    };
    match system {
        System::Matches(pattern) if pattern.regex.captures_len() > 1 => {
            Ok(Target::Captured(before.to_owned(), behind.to_owned()))
        }
        _ => Err(Mistake::SubstitutionWithoutCapture),
    }
}

#[cfg(test)]
mod tests;
