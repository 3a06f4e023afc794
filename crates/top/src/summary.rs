//! Figures of the header: clients, servers and the verdict.

use crate::cell::severity_rank;
use crate::data::{Data, field, is_console, micros, number};
use crate::question::Question;

/// Sums over all pools but the console's.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Summary {
    /// Clients that do not wait.
    pub(crate) active: f64,
    pub(crate) waiting: f64,
    /// Pinned clients; `None` if the pooler does not count them.
    pub(crate) pinned: Option<f64>,
    /// Longest wait in microseconds.
    pub(crate) oldest_wait: f64,
    /// Servers with a client.
    pub(crate) busy: f64,
    /// Servers without a client, those that are tested first included.
    pub(crate) idle: f64,
    pub(crate) login: f64,
}

impl Summary {
    /// Sums SHOW POOLS; `None` before its first answer.
    pub(crate) fn of(data: &Data) -> Option<Self> {
        let table = data.table(Question::Pools)?;
        let mut sum = Self::default();
        for row in &table.rows {
            if field(table, row, "database").is_some_and(is_console) {
                continue;
            }
            let read = |name: &str| number(table, row, name);
            let count = |name: &str| read(name).unwrap_or_default();
            sum.active += count("cl_active");
            sum.waiting += count("cl_waiting");
            sum.busy += count("sv_active");
            sum.idle += count("sv_idle") + count("sv_used") + count("sv_tested");
            sum.login += count("sv_login");
            let wait = micros(table, row, ["maxwait", "maxwait_us"]);
            sum.oldest_wait = sum.oldest_wait.max(wait.unwrap_or_default());
            if let Some(pinned) = read("cl_pinned") {
                *sum.pinned.get_or_insert_default() += pinned;
            }
        }
        Some(sum)
    }
}

/// Judgement of the pooler about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Not answered yet.
    Awaited,
    /// Number of conditions, and the worst severity.
    Conditions(usize, String),
    /// No condition.
    Good,
    /// The pooler has no SHOW DIAGNOSIS, or refuses it.
    Missing,
}

impl Verdict {
    /// Reads SHOW DIAGNOSIS.
    pub(crate) fn of(data: &Data) -> Self {
        let Some(table) = data.table(Question::Diagnosis) else {
            return match data.refusal(Question::Diagnosis) {
                Some(_) => Self::Missing,
                None => Self::Awaited,
            };
        };
        let rows = table.rows.iter();
        let severities = rows.filter_map(|row| field(table, row, "severity"));
        let worst = severities.max_by_key(|severity| severity_rank(severity));
        match worst {
            Some(worst) => Self::Conditions(table.rows.len(), worst.to_owned()),
            None => Self::Good,
        }
    }
}

/// Name and version of the pooler. Weir has its own in SHOW STATE, and that of its console in SHOW VERSION.
pub(crate) fn version(data: &Data) -> Option<String> {
    let table = data.table(Question::Version)?;
    let console = field(table, table.rows.first()?, "version")?;
    let own = own_version(data).map(|own| format!("Weir {own}"));
    Some(crate::text::clean(own.as_deref().unwrap_or(console)))
}

fn own_version(data: &Data) -> Option<&str> {
    let table = data.table(Question::State)?;
    let mut rows = table.rows.iter();
    let own = rows.find(|row| field(table, row, "key") == Some("weir_version"))?;
    field(table, own, "value")
}
