//! PostgreSQL's own regression suite through the target: its scripts must have the same output as without a pooler.
//!
//! `conformance/regress/run` does the work and can be used by hand; `docs/internals/regression-suite.md` has details.

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

/// Tests run one at a time, since slow results on a busy machine look like differences. The other modes are run by
/// hand.
#[test]
fn suite_prints_the_same_in_transaction_mode() -> Result<()> {
    let directory = TempDir::new()?;
    let results = directory.path().join("through");
    let (output, success) = run(Kind::from_env()?, &["--output", &results.to_string_lossy()])?;
    if success {
        return Ok(());
    }
    // Where a mirror lacks the source, the suite may belong to another release than the server. Its direct output
    // then decides: the same scripts must fail with the same output.
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

/// Names of the scripts with unexpected output.
fn failed(output: &str) -> Vec<&str> {
    let lines = output.lines();
    let names = lines.filter_map(|line| line.strip_prefix("failed: "));
    names.flat_map(str::split_whitespace).collect()
}

/// A run that always succeeds would prove nothing.
#[test]
fn a_script_that_prints_something_else_fails() -> Result<()> {
    // The output of this script depends on tables that other tests create.
    let (output, success) = run(Kind::from_env()?, &["--tests", "select"])?;
    ensure!(!success, "{output}");
    ensure!(output.contains("failed: select\n"), "{output}");
    Ok(())
}

/// Output of the script, and true if it succeeded. One at a time, because each run uses all processors.
fn run(kind: Kind, arguments: &[&str]) -> Result<(String, bool)> {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    tools::require("setpriv", "util-linux")?;
    let mut script = Command::new("setpriv");
    // The script stops its processes when the suite is killed.
    script.args(["--pdeathsig", "TERM"]);
    script.arg(tools::workspace().join("conformance/regress/run"));
    match kind {
        Kind::Direct => script.args(["--through", "direct"]),
        Kind::PgBouncer => script.args(["--through", "pgbouncer"]),
        Kind::Weir => script.arg("--weir-bin").arg(target::weir_bin()?),
    };
    tools::run_any(script.args(arguments))
}
