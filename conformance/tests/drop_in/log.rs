//! The log as tools that follow it see it.

use std::thread;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::Weir;

use crate::support::both;
use crate::support::database;
use crate::support::refusal;

const ROUNDS: usize = 100;

/// Logs in to a database that does not exist; the log has the reason as soon as the refusal is there.
fn is_refused_and_logged(weir: &Weir, round: usize) -> Result<()> {
    let name = format!("no_such_{round}");
    let refused = refusal(weir.connect(&name));
    ensure!(!refused.is_empty(), "{name} is no database");
    let log = weir.log();
    ensure!(log.contains(&name), "{name} is not in the log:\n{log}");
    Ok(())
}

#[test]
fn a_line_is_in_the_log_before_its_connection_is_seen_closed() -> Result<()> {
    let postgres = database("drop_log")?;
    let config = Config::to(postgres.port()).set("max_client_conn", "200");
    both(&config, |pooler| {
        // Others are busy, so that the log is too.
        thread::scope(|scope| {
            let others =
                scope.spawn(|| (0..ROUNDS).try_for_each(|_| pooler.connect("drop_log").map(drop)));
            let outcome = (0..ROUNDS).try_for_each(|round| is_refused_and_logged(pooler, round));
            others.join().ok().context("a client panicked")??;
            outcome
        })
    })
}

#[test]
fn a_line_is_in_the_log_when_a_console_command_is_over() -> Result<()> {
    let postgres = database("drop_log_console")?;
    let config = Config::to(postgres.port());
    both(&config, |pooler| {
        let mut console = pooler.connect("pgbouncer")?;
        for round in 1..=20 {
            for (command, line) in [
                ("PAUSE drop_log_console", "PAUSE"),
                ("RESUME drop_log_console", "RESUME"),
            ] {
                console.query(command)?;
                let log = pooler.log();
                let count = log.matches(line).count();
                ensure!(count >= round, "{command}, round {round}:\n{log}");
            }
        }
        Ok(())
    })
}
