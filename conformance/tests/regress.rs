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

/// One at a time, since what a loaded machine is slow with looks like a difference; the other ways to run it are for hand.
#[test]
fn suite_prints_the_same_in_transaction_mode() -> Result<()> {
    let (output, success) = run(&[])?;
    ensure!(success, "{output}");
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
