//! `cargo xtask ci`: every check that a change must pass, cheapest first. A failed check does not stop the
//! others; the summary at the end names all that failed.

use std::process::Command;

use anyhow::{Result, bail};
use weir_lab::clock;

use crate::workspace::{cargo, root};

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// Leave the tests out (`make test` runs them)
    #[arg(long)]
    checks: bool,
}

enum Verdict {
    Failed,
    Passed,
    Skipped(&'static str),
}

struct Check {
    name: &'static str,
    /// Arguments for cargo. `xtask` stands for this program; `make test` is the only command that is not cargo's.
    arguments: &'static [&'static str],
    /// Cargo subcommand without which the check is skipped, with a message.
    optional: Option<&'static str>,
}

/// Features that the suites need, so that no crate is built both with and without them; `EVERYTHING` in
/// scripts/lib.sh.
const FEATURES: &str = "weir-cli/pam,weir-cli/debug-spin";

const CHECKS: &[Check] = &[
    Check::required("fmt", &["fmt", "--all", "--check"]),
    Check::required("tidy", &["xtask", "tidy"]),
    Check::required("generated docs", &["xtask", "docs", "--check"]),
    Check::required(
        "clippy",
        &[
            "clippy",
            "--workspace",
            "--features",
            FEATURES,
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ],
    ),
    Check::required(
        "docs",
        &["doc", "--workspace", "--features", FEATURES, "--no-deps"],
    ),
    Check {
        name: "deny",
        arguments: &["deny", "check"],
        optional: Some("cargo-deny"),
    },
];

impl Check {
    const fn required(name: &'static str, arguments: &'static [&'static str]) -> Self {
        Self {
            name,
            arguments,
            optional: None,
        }
    }

    fn run(&self) -> Verdict {
        if let Some(program) = self.optional
            && weir_lab::process::find_program(program, &[]).is_err()
        {
            return Verdict::Skipped("not installed; run: cargo install cargo-deny");
        }
        let mut command = match self.arguments.split_first() {
            // Through cargo, xtask alone would be built again, with features other than the running program's.
            Some((&"xtask", arguments)) => own(arguments),
            _ => {
                let mut command = cargo();
                command.args(self.arguments);
                command
            }
        };
        verdict(command.env("RUSTDOCFLAGS", "-D warnings"))
    }
}

/// Runs all checks.
///
/// # Errors
/// Names the checks that failed.
pub(crate) fn run(flags: &Flags) -> Result<()> {
    let mut lines = Vec::new();
    let mut failed = Vec::new();
    let mut record = |name: &'static str, check: &dyn Fn() -> Verdict| {
        println!("\n=== {name}");
        let start = clock::now();
        let verdict = check();
        let seconds = start.elapsed().as_secs_f64();
        lines.push(match verdict {
            Verdict::Failed => format!("  FAILED   {name} ({seconds:.0} s)"),
            Verdict::Passed => format!("  passed   {name} ({seconds:.0} s)"),
            Verdict::Skipped(why) => format!("  skipped  {name}: {why}"),
        });
        if matches!(verdict, Verdict::Failed) {
            failed.push(name);
        }
    };
    for check in CHECKS {
        record(check.name, &|| check.run());
    }
    if !flags.checks {
        // In a separate build directory, with two small packages: about a minute.
        record("mutants", &|| verdict(&mut own(&["mutants", "--short"])));
        record("tests", &|| {
            verdict(Command::new("make").arg("test").current_dir(root()))
        });
    }
    println!("\n=== summary\n{}", lines.join("\n"));
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

/// Command for another task of this program.
fn own(arguments: &[&str]) -> Command {
    let program = std::env::current_exe().unwrap_or_else(|_| "xtask".into());
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    command
}

fn verdict(command: &mut Command) -> Verdict {
    match command.status() {
        Ok(status) if status.success() => Verdict::Passed,
        Ok(_) => Verdict::Failed,
        Err(error) => {
            println!("cannot start {:?}: {error}", command.get_program());
            Verdict::Failed
        }
    }
}
