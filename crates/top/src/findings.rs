//! Conditions that PgBouncer's own tables show, for poolers without SHOW DIAGNOSIS. The table has the columns of that
//! command, without severities and advice: those are the pooler's to judge.

use weir_proxy::blocking::Table;

use crate::data::{Data, field, is_console, micros, number};
use crate::format;
use crate::question::Question;

const COLUMNS: [&str; 4] = ["condition", "scope", "seconds", "evidence"];

/// Part of a limit from which on it is worth a row.
const NEAR: f64 = 0.9;

/// Returns what can be told without SHOW DIAGNOSIS; `None` if nothing has been answered yet.
pub(crate) fn table(data: &Data) -> Option<Table> {
    data.refusal(Question::Diagnosis)?;
    let mut rows = waits(data)?;
    rows.extend(databases(data));
    Some(Table {
        columns: COLUMNS.map(str::to_owned).to_vec(),
        rows,
        ..Table::default()
    })
}

fn row(
    condition: &str,
    scope: String,
    seconds: Option<f64>,
    evidence: String,
) -> Vec<Option<String>> {
    let seconds = seconds.map(|seconds| seconds.to_string());
    vec![
        Some(condition.to_owned()),
        Some(scope),
        seconds,
        Some(evidence),
    ]
}

/// Pools with waiting clients.
fn waits(data: &Data) -> Option<Vec<Vec<Option<String>>>> {
    let table = data.table(Question::Pools)?;
    let rows = table.rows.iter().filter_map(|pool| {
        let waiting = number(table, pool, "cl_waiting").filter(|count| *count > 0.0)?;
        let oldest = micros(table, pool, ["maxwait", "maxwait_us"])?;
        let [database, user] = ["database", "user"].map(|name| field(table, pool, name));
        let servers = ["sv_active", "sv_idle", "sv_login"];
        let [busy, idle, login] =
            servers.map(|name| number(table, pool, name).unwrap_or_default());
        let reason = reason(data, database, user);
        let evidence = format!(
            "{waiting} waiting, oldest {}{reason}; servers: {busy} busy, {idle} idle, {login} in login",
            format::duration(oldest)
        );
        let scope = format!("{}/{}", database.unwrap_or("-"), user.unwrap_or("-"));
        Some(row("clients wait", scope, Some(oldest / 1e6), evidence))
    });
    Some(rows.collect())
}

/// Reasons from SHOW WAITS, where the pooler has that.
fn reason(data: &Data, database: Option<&str>, user: Option<&str>) -> String {
    let Some(table) = data.table(Question::Waits) else {
        return String::new();
    };
    let rows = table.rows.iter().filter(|row| {
        field(table, row, "database") == database && field(table, row, "user") == user
    });
    let reasons: Vec<_> = rows.filter_map(|row| field(table, row, "reason")).collect();
    match reasons.is_empty() {
        true => String::new(),
        false => format!(", for: {}", reasons.join(", ")),
    }
}

/// Databases that are paused, disabled or near their limit.
fn databases(data: &Data) -> Vec<Vec<Option<String>>> {
    let Some(table) = data.table(Question::Databases) else {
        return Vec::new();
    };
    let mut rows = Vec::new();
    for database in &table.rows {
        let name = field(table, database, "name").unwrap_or_default();
        if is_console(name) {
            continue;
        }
        let is = |column: &str| number(table, database, column).is_some_and(|flag| flag > 0.0);
        if is("paused") {
            let evidence = "PAUSE is in force: clients wait until RESUME";
            rows.push(row("paused", name.to_owned(), None, evidence.to_owned()));
        }
        if is("disabled") {
            let evidence = "DISABLE is in force: new clients are refused until ENABLE";
            rows.push(row("disabled", name.to_owned(), None, evidence.to_owned()));
        }
        let limit = number(table, database, "max_connections").filter(|limit| *limit > 0.0);
        let used = number(table, database, "current_connections");
        if let (Some(limit), Some(used)) = (limit, used)
            && used >= limit * NEAR
        {
            let evidence = format!("{used} of {limit} servers that max_db_connections allows");
            rows.push(row("limit near", name.to_owned(), None, evidence));
        }
    }
    rows
}
