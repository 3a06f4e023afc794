//! pg_auto_failover: the table `pgautofailover.node` of the monitor, with a state per node.
//!
//! The monitor assigns states (the goal), and nodes report the state that they have reached. In a failover no goal takes
//! writes until the former primary is out, then the new primary gets one that does, and reports it.
//! <https://pg-auto-failover.readthedocs.io/en/main/failover-state-machine.html>

use weir_config::Secret;

use super::http::{Failure, shown};
use super::sql::{Rows, Sql};
use super::{Source, State};

/// States in which a node takes writes (`CanTakeWritesInState` of pg_auto_failover).
const WRITABLE: [&str; 5] = [
    "single",
    "wait_primary",
    "primary",
    "join_primary",
    "apply_settings",
];

/// Adapter; see the module's page.
pub(super) struct AutoFailover {
    sql: Sql,
    query: String,
}

impl AutoFailover {
    /// Makes an adapter for `DATABASE/FORMATION/GROUP`.
    pub(super) fn new(login: Option<(String, Secret)>, place: &str) -> Self {
        let mut parts = place.split('/');
        let mut part = |default| parts.next().unwrap_or(default);
        let database = part("pg_auto_failover");
        let (formation, group) = (part("default"), part("0"));
        Self {
            sql: Sql::new(login, database),
            query: query(formation, group),
        }
    }
}

impl Source for AutoFailover {
    fn read(&mut self, server: &str, heard: &mut dyn FnMut(State)) -> Result<(), Failure> {
        heard(state(&self.sql.ask(server, &self.query)?)?);
        Ok(())
    }
}

fn query(formation: &str, group: &str) -> String {
    let formation = formation.replace('\'', "''");
    let group = group.parse::<u16>().unwrap_or_default();
    format!(
        "SELECT nodename, goalstate::text, reportedstate::text FROM pgautofailover.node \
         WHERE formationid = '{formation}' AND groupid = {group} ORDER BY nodeid LIMIT 64"
    )
}

fn state(rows: &Rows) -> Result<State, Failure> {
    let takes_writes = |state: &String| WRITABLE.contains(&&**state);
    let mut primaries = Vec::new();
    for row in rows {
        let [name, goal, reported] = &**row else {
            return Err(Failure::Tool("not three columns".to_owned()));
        };
        if takes_writes(goal) {
            let verb = if takes_writes(reported) {
                "is"
            } else {
                "becomes"
            };
            primaries.push(format!("{} {verb} the primary", shown(name)));
        }
    }
    Ok(State::new(match &*primaries {
        [] => "there is no primary".to_owned(),
        primaries => primaries.join(" and "),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failover_is_told_step_by_step() {
        let check = |nodes: &[[&str; 3]], expected: &str| {
            let row = |node: &[&str; 3]| node.map(str::to_owned).to_vec();
            let rows = nodes.iter().map(row).collect();
            assert_eq!(state(&rows).unwrap().text, expected, "{nodes:?}");
        };
        // As the monitor of version 2.0 went through them, with two nodes.
        check(
            &[
                ["n1", "primary", "primary"],
                ["n2", "secondary", "secondary"],
            ],
            "n1 is the primary",
        );
        check(
            &[
                ["n1", "demote_timeout", "primary"],
                ["n2", "stop_replication", "prepare_promotion"],
            ],
            "there is no primary",
        );
        check(
            &[
                ["n1", "demoted", "demote_timeout"],
                ["n2", "wait_primary", "stop_replication"],
            ],
            "n2 becomes the primary",
        );
        check(
            &[
                ["n1", "demoted", "demoted"],
                ["n2", "wait_primary", "wait_primary"],
            ],
            "n2 is the primary",
        );
        check(
            &[
                ["n1", "secondary", "catchingup"],
                ["n2", "primary", "wait_primary"],
            ],
            "n2 is the primary",
        );
        check(&[], "there is no primary");
        assert!(state(&vec![vec!["n1".to_owned()]]).is_err());
    }

    #[test]
    fn the_query_names_formation_and_group() {
        let query = query("it's", "3");
        assert!(
            query.contains("formationid = 'it''s' AND groupid = 3 "),
            "{query}"
        );
    }
}
