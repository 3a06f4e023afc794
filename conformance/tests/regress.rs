//! PostgreSQL's own regression suite through the target: its scripts must print what they print without a pooler.
//!
//! `conformance/regress/run` does the work and can be used by hand; `docs/internals/regression-suite.md` tells more.

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::PoisonError;

use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Kind;
use weir_conformance::TempDir;
use weir_conformance::target;
use weir_conformance::tools;

/// One at a time, since what a loaded machine is slow with looks like a difference; the other ways to run it are for hand.
#[test]
fn suite_prints_the_same_in_transaction_mode() -> Result<()> {
    let directory = TempDir::new()?;
    let results = directory.path().join("through");
    let (output, success) = run(Kind::from_env()?, &["--output", &results.to_string_lossy()])?;
    if success {
        return Ok(());
    }
    // The suite may be of another release than the server, where a mirror lacks the source. What it prints directly decides
    // then: the same scripts fail, and print the same.
    let direct = directory.path().join("direct");
    let (directly, _) = run(Kind::Direct, &["--output", &direct.to_string_lossy()])?;
    ensure!(
        failed(&output) == failed(&directly),
        "{output}\ndirectly:\n{directly}"
    );
    for name in failed(&output) {
        let printed = |of: &Path| std::fs::read_to_string(of.join(format!("results/{name}.out")));
        ensure!(
            printed(&results)? == printed(&direct)?,
            "{name} differs:\n{output}"
        );
    }
    Ok(())
}

/// Names of the scripts that printed something else than expected.
fn failed(output: &str) -> Vec<&str> {
    let lines = output.lines();
    let names = lines.filter_map(|line| line.strip_prefix("failed: "));
    names.flat_map(str::split_whitespace).collect()
}

/// A run that always succeeds would say nothing.
#[test]
fn a_script_that_prints_something_else_fails() -> Result<()> {
    // Its output depends on tables that other tests make.
    let (output, success) = run(Kind::from_env()?, &["--tests", "select"])?;
    ensure!(!success, "{output}");
    ensure!(output.contains("failed: select\n"), "{output}");
    Ok(())
}

/// What the script prints, and whether it succeeded. One at a time: each keeps all processors busy.
fn run(kind: Kind, arguments: &[&str]) -> Result<(String, bool)> {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    tools::require("setpriv", "util-linux")?;
    let mut script = Command::new("setpriv");
    // It stops what it has started when the suite is killed.
    script.args(["--pdeathsig", "TERM"]);
    script.arg(tools::workspace().join("conformance/regress/run"));
    match kind {
        Kind::Direct => script.args(["--through", "direct"]),
        Kind::PgBouncer => script.args(["--through", "pgbouncer"]),
        Kind::Weir => script.arg("--weir-bin").arg(target::weir_bin()?),
    };
    tools::run_any(script.args(arguments))
}
