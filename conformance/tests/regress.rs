//! PostgreSQL's own regression suite through the target: its scripts must print what they print without a pooler.
//!
//! `conformance/regress/run` does the work and can be used by hand; `docs/internals/regression-suite.md` tells more.

use std::process::Command;
use std::sync::Mutex;
use std::sync::PoisonError;

use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Kind;
use weir_conformance::target;
use weir_conformance::tools;

/// Tests that look at the server's session, which is older than the client's. With a server for each transaction
/// (`server_lifetime = 0`) they see what they expect.
const LOOK_AT_THE_SERVER: &str = "guc temp stats";

/// What they may see: that a library is loaded, that there was a temporary schema, that there is no new session.
const SEEN: [&str; 7] = [
    "+ERROR:  invalid configuration parameter name \"plpgsql.extra_foo_warnings\"",
    "+DETAIL:  \"plpgsql\" is a reserved prefix.",
    "-WARNING:  invalid configuration parameter name \"plpgsql.extra_foo_warnings\", removing it",
    "-DETAIL:  \"plpgsql\" is now a reserved prefix.",
    "-ERROR:  cannot PREPARE a transaction that has operated on temporary objects",
    "- t",
    "+ f",
];

/// One at a time, since what a loaded machine is slow with looks like a difference; the other ways to run it are for hand.
#[test]
fn suite_prints_the_same_in_transaction_mode() -> Result<()> {
    let (output, success) = run(&["--may-fail", LOOK_AT_THE_SERVER])?;
    let mut changes = output.lines().filter(|line| {
        (line.starts_with('+') && !line.starts_with("+++ "))
            || (line.starts_with('-') && !line.starts_with("--- "))
            || *line == "[...]"
    });
    ensure!(
        success && changes.all(|line| SEEN.contains(&line)),
        "{output}"
    );
    Ok(())
}

/// A run that always succeeds would say nothing.
#[test]
fn a_script_that_prints_something_else_fails() -> Result<()> {
    // Its output depends on tables that other tests make.
    let (output, success) = run(&["--tests", "select"])?;
    ensure!(!success, "{output}");
    ensure!(output.contains("failed: select\n"), "{output}");
    Ok(())
}

/// What the script prints, and whether it succeeded. One at a time: each keeps all processors busy.
fn run(arguments: &[&str]) -> Result<(String, bool)> {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    tools::require("setpriv", "util-linux")?;
    let mut script = Command::new("setpriv");
    // It stops what it has started when the suite is killed.
    script.args(["--pdeathsig", "TERM"]);
    script.arg(tools::workspace().join("conformance/regress/run"));
    match Kind::from_env()? {
        Kind::Direct => script.args(["--through", "direct"]),
        Kind::PgBouncer => script.args(["--through", "pgbouncer"]),
        Kind::Weir => script.arg("--weir-bin").arg(target::weir_bin()?),
    };
    tools::run_any(script.args(arguments))
}
