//! Queries about the state of a session.

use anyhow::Result;

use crate::client::Client;
use crate::program::Item;
use crate::program::Part;

/// Settings that programs change.
pub(crate) const SETTINGS: [&str; 19] = [
    "app.tenant",
    "app.x",
    "my.var",
    "search_path",
    "work_mem",
    "DateStyle",
    "TimeZone",
    "IntervalStyle",
    "application_name",
    "extra_float_digits",
    "statement_timeout",
    "default_transaction_read_only",
    "default_transaction_isolation",
    "log_min_duration_statement",
    "standard_conforming_strings",
    "bytea_output",
    "client_min_messages",
    "plan_cache_mode",
    "role",
];

/// Names that programs prepare with the protocol.
pub(crate) const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Queries a part of the state on one side.
pub(crate) fn ask(client: &mut Client, part: Part) -> Result<Vec<String>> {
    let lines = match part {
        Part::Names => client.batch(&names())?,
        _ => client.simple(&question(part))?,
    };
    // The names of the columns are always equal.
    let told = lines
        .into_iter()
        .filter(|line| !line.starts_with("T ") || part == Part::Names);
    Ok(told.collect())
}

fn question(part: Part) -> String {
    match part {
        Part::Channels => "select * from pg_listening_channels() order by 1".to_owned(),
        Part::Cursors => "select name from pg_cursors where is_holdable order by 1".to_owned(),
        Part::Locks => "select objid, count(*) from pg_locks where locktype = 'advisory' \
             and pid = pg_backend_pid() group by 1 order by 1"
            .to_owned(),
        Part::Names | Part::Settings => settings(),
        Part::Statements => "select name from pg_prepared_statements \
             where from_sql order by 1"
            .to_owned(),
        Part::Temporary => "select relname from pg_class where relkind in ('r', 'S', 'v') \
             and relnamespace = pg_my_temp_schema() order by 1"
            .to_owned(),
    }
}

/// Query for all settings. A custom setting that this client never set is empty on a server where another
/// client has set it, as documented.
fn settings() -> String {
    let columns = SETTINGS.map(|name| format!("nullif(current_setting('{name}', true), '')"));
    format!("select current_user, session_user, {}", columns.join(", "))
}

/// Describes each name with a Sync of its own, because an unknown name is an error.
fn names() -> Vec<Item> {
    let items = NAMES.iter().flat_map(|name| {
        let describe = Item::Describe(b'S', (*name).to_owned());
        [describe, Item::Sync]
    });
    items.collect()
}
