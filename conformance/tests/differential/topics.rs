//! Topics of random programs.

use std::env;

use weir_conformance::random::Random;

/// Part of the language. A program has a few topics, so that its clients interact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topic {
    /// Cancels of running queries.
    Cancels,
    Copy,
    Cursors,
    /// Settings of the application, such as `app.x`.
    Custom,
    /// Changes of tables, types and functions by clients and by the administrator.
    Ddl,
    /// DISCARD, DEALLOCATE and RESET ALL beside other statements.
    Discard,
    /// Functions, procedures, views and triggers that change settings.
    Functions,
    /// Long requests and answers.
    Large,
    Leaving,
    Locks,
    Notifications,
    /// Portals, several batches at once, Flush.
    Pipelines,
    /// Statements of the protocol, named and unnamed.
    Prepared,
    /// Roles and parameters that are revoked and granted again.
    Privileges,
    Roles,
    Savepoints,
    /// `setseed`, LOAD.
    Seeds,
    Sequences,
    Settings,
    /// Statements of SQL's PREPARE.
    Statements,
    /// Start-up parameters.
    Startup,
    Temporary,
    /// Rows whose visibility depends on a setting.
    Tenants,
    Timeouts,
    /// Parameters whose types are resolved when a statement is parsed.
    Types,
}

impl Topic {
    pub(crate) const ALL: [Self; 25] = [
        Self::Cancels,
        Self::Copy,
        Self::Cursors,
        Self::Custom,
        Self::Ddl,
        Self::Discard,
        Self::Functions,
        Self::Large,
        Self::Leaving,
        Self::Locks,
        Self::Notifications,
        Self::Pipelines,
        Self::Prepared,
        Self::Privileges,
        Self::Roles,
        Self::Savepoints,
        Self::Seeds,
        Self::Sequences,
        Self::Settings,
        Self::Startup,
        Self::Statements,
        Self::Temporary,
        Self::Tenants,
        Self::Timeouts,
        Self::Types,
    ];

    fn word(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// Topics that are left out because of a known fault in Weir, with the fault.
pub(crate) const NOT_YET: &[(Topic, &str)] = &[];

/// Topics of a run: all except those of `DIFFERENTIAL_WITHOUT=roles,types`, or only those of `DIFFERENTIAL_ONLY`.
pub(crate) fn of_run() -> Vec<Topic> {
    let words = |name| env::var(name).ok().map(|text| text.to_lowercase());
    let without = words("DIFFERENTIAL_WITHOUT").unwrap_or_default();
    let only = words("DIFFERENTIAL_ONLY");
    let listed = |text: &str, topic: Topic| text.split(',').any(|word| word == topic.word());
    let topics = Topic::ALL.into_iter().filter(|topic| match &only {
        Some(only) => listed(only, *topic),
        None => !NOT_YET.iter().any(|(late, _)| late == topic),
    });
    topics.filter(|topic| !listed(&without, *topic)).collect()
}

/// Selects some of the topics: usually few, occasionally all.
pub(crate) fn some(random: &mut Random, of: &[Topic]) -> Vec<Topic> {
    if random.chance(10) {
        return of.to_vec();
    }
    let count = (2 + random.below(5)).min(of.len());
    let mut chosen = Vec::new();
    while chosen.len() < count {
        let topic = of.get(random.below(of.len())).copied();
        chosen.extend(topic.filter(|topic| !chosen.contains(topic)));
    }
    chosen
}
