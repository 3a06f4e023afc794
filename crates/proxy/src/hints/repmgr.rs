//! repmgr: the table `repmgr.nodes`, which each node of a cluster has and the primary changes.
//!
//! A node that is cut off from the primary keeps an old table. Nodes are not compared: one is read until it fails, so that
//! an old table and a new one do not take turns as news.
//! <https://www.repmgr.org/docs/current/event-notifications.html>

use weir_config::Secret;

use super::http::{Failure, shown};
use super::sql::{Rows, Sql};
use super::{Source, State};

/// Active primaries. There may be more than one while a former primary is not reported to have failed.
const QUERY: &str =
    "SELECT node_name FROM repmgr.nodes WHERE type = 'primary' AND active ORDER BY node_id LIMIT 8";

/// Adapter; see the module's page.
pub(super) struct Repmgr(Sql);

impl Repmgr {
    pub(super) fn new(login: Option<(String, Secret)>, database: &str) -> Self {
        Self(Sql::new(login, database))
    }
}

impl Source for Repmgr {
    fn read(&mut self, server: &str, heard: &mut dyn FnMut(State)) -> Result<(), Failure> {
        heard(state(&self.0.ask(server, QUERY)?)?);
        Ok(())
    }
}

fn state(rows: &Rows) -> Result<State, Failure> {
    let name = |row: &Vec<String>| match &**row {
        [name] => Ok(shown(name)),
        _ => Err(Failure::Tool("not one column".to_owned())),
    };
    let names: Vec<String> = rows.iter().map(name).collect::<Result<_, _>>()?;
    Ok(State::new(match &*names {
        [] => "there is no primary".to_owned(),
        [name] => format!("{name} is the primary"),
        names => format!("{} are primaries", names.join(" and ")),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_primary_is_named() {
        let check = |names: &[&str], expected: &str| {
            let rows = names.iter().map(|&name| vec![name.to_owned()]);
            assert_eq!(state(&rows.collect()).unwrap().text, expected);
        };
        check(&[], "there is no primary");
        check(&["n0"], "n0 is the primary");
        check(&["a\nb"], "a\\nb is the primary");
        check(&["n0", "n1"], "n0 and n1 are primaries");
        assert!(state(&vec![vec![]]).is_err());
        assert!(state(&vec![vec!["a".to_owned(), "b".to_owned()]]).is_err());
    }
}
