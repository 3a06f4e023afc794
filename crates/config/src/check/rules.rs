//! Checks of query rules against the rest of the configuration.

use weir_rules::{Action, RouteTo};

use super::CONSOLE;
use crate::error::ErrorKind;
use crate::raw::{Raw, quoted};
use crate::rules::{MIRRORS_MAX, QueryRule};
use crate::settings::{FALLBACK, Settings};

/// Checks that the databases exist to which rules mirror and route.
pub(super) fn check(raw: &mut Raw, settings: &Settings) {
    let known = |name: &str| {
        name != CONSOLE
            && name != FALLBACK
            && (settings.databases.contains_key(name) || settings.databases.contains_key(FALLBACK))
    };
    let mirrors = |rule: &&QueryRule| matches!(rule.rule.action, Action::Mirror(_));
    if let Some(rule) = settings.rules.iter().filter(mirrors).nth(MIRRORS_MAX) {
        let at = rule.at.clone();
        let message = format!("more than {MIRRORS_MAX} rules with action = \"mirror\"");
        raw.fail_at(&at, ErrorKind::Conflict, message);
    }
    let mistakes: Vec<_> = settings
        .rules
        .iter()
        .filter_map(|rule| {
            let database = match &rule.rule.action {
                Action::Mirror(to) => &to.database,
                Action::Route(RouteTo::Database(database)) => database,
                _ => return None,
            };
            (!known(database)).then(|| {
                let message = format!(
                    "rule {}: to names the database {}, which is not in [databases]; add it there with the address of the \
                     other server",
                    quoted(&rule.rule.name),
                    quoted(database)
                );
                (rule.at.clone(), message)
            })
        })
        .collect();
    for (at, message) in mistakes {
        raw.fail_at(&at, ErrorKind::Conflict, message);
    }
}
