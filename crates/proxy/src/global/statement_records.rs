//! Records of the statements that are not in their users' lists, shared by all workers.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_config::{Settings, StatementPolicy};
use weir_rules::{AllowList, News, Policy, Record, StatementEntry};
use weir_sql::{Blank, without_literals};
use weir_stats::{Snapshot, StatementCounts, StatementRow};

use super::{Global, lock};

/// Longest text in a log line, in bytes.
const LOGGED_MAX: usize = 1024;

/// Records by user, which outlive reloads.
#[derive(Debug, Default)]
pub(crate) struct StatementRecords(BTreeMap<String, Arc<Record>>);

impl StatementRecords {
    /// Returns the list of a user for one worker; none if the user has no `statement_policy`.
    pub(crate) fn allow_list(&mut self, settings: &Settings, user: &str) -> Option<AllowList> {
        let policy = match policy(settings, user) {
            StatementPolicy::Off => return None,
            StatementPolicy::Learn => Policy::Learn,
            StatementPolicy::Warn => Policy::Warn,
            StatementPolicy::Enforce => Policy::Enforce,
        };
        let list = settings.statement_lists.get(user).cloned();
        let record = match self.0.get(user) {
            Some(record) => record,
            None => self.0.entry(user.to_owned()).or_default(),
        };
        Some(AllowList::new(
            user,
            policy,
            list.unwrap_or_default(),
            Arc::clone(record),
            tell,
        ))
    }

    /// Forgets the records of users whose statements are looked up no longer.
    pub(crate) fn settle(&mut self, settings: &Settings) {
        self.0
            .retain(|user, _| policy(settings, user) != StatementPolicy::Off);
    }

    /// Returns the counts of each user.
    pub(crate) fn counts(&self, settings: &Settings) -> Vec<StatementCounts> {
        let lists = &settings.statement_lists;
        let counts = self.users(settings).map(|(user, policy, record)| {
            let totals = record.map(|record| record.totals()).unwrap_or_default();
            StatementCounts {
                user: user.clone(),
                policy: policy.as_str(),
                listed: lists.get(user).map_or(0, |list| list.len() as u64),
                recorded: totals.recorded,
                left_out: totals.left_out,
                warned: totals.warned,
                refused: totals.refused,
                unread: totals.unread,
            }
        });
        counts.collect()
    }

    /// Returns the statements of each user: those of the list, then those of the record.
    pub(crate) fn rows(&self, settings: &Settings) -> Vec<StatementRow> {
        let mut rows = Vec::new();
        for (user, _, record) in self.users(settings) {
            let list = settings.statement_lists.get(user);
            for (_, entry) in list.iter().flat_map(|list| list.iter()) {
                rows.push(row(user, "listed", entry));
            }
            for recorded in record.map(|record| record.statements()).unwrap_or_default() {
                if list.is_none_or(|list| !list.contains(&recorded.known)) {
                    rows.push(row(user, recorded.standing.as_str(), &recorded.entry));
                }
            }
        }
        rows
    }

    fn users<'a>(
        &'a self,
        settings: &'a Settings,
    ) -> impl Iterator<Item = (&'a String, StatementPolicy, Option<&'a Arc<Record>>)> {
        let users = settings.users.keys();
        let users = users.map(|user| (user, policy(settings, user), self.0.get(user)));
        users.filter(|(_, policy, _)| *policy != StatementPolicy::Off)
    }
}

impl Global {
    /// Adds the counts of users with a list of statements, and perhaps the statements.
    pub(crate) fn show_statements(&self, snapshot: &mut Snapshot, has_rows: bool) {
        let settled = self.settled();
        let records = lock(&self.halting.statements);
        snapshot.statement_counts = records.counts(&settled.settings);
        if has_rows {
            snapshot.statements = records.rows(&settled.settings);
        }
    }
}

fn policy(settings: &Settings, user: &str) -> StatementPolicy {
    let user = settings.users.get(user);
    user.and_then(|user| user.statement_policy)
        .unwrap_or_default()
}

fn row(user: &str, state: &'static str, entry: &StatementEntry) -> StatementRow {
    let (form, sha256) = match entry.form {
        weir_rules::Form::Text => ("text", None),
        weir_rules::Form::Whole => ("whole", None),
        weir_rules::Form::Hash(known) => ("sha256", Some(known.to_string())),
    };
    StatementRow {
        user: user.to_owned(),
        state,
        form,
        sha256,
        fingerprint: entry.fingerprint.map(|print| print.to_string()),
        text: Arc::clone(&entry.text),
    }
}

/// Logs a statement that is not in its user's list, without its literals.
fn tell(news: &News<'_>) {
    let (done, policy) = match news.policy {
        Policy::Learn => return,
        Policy::Warn => ("runs", "warn"),
        Policy::Enforce => ("is refused", "enforce"),
    };
    let text = without_literals(news.entry.text.as_bytes(), Blank::Mark, LOGGED_MAX);
    let user = news.user;
    tracing::warn!(
        "statement {done} that is not in the list of user {user} (statement_policy = {policy}): {text}"
    );
}
