//! `cargo xtask ci`: every check that a change must pass, in the order of cost. A failed check does
//! not keep the others from running; the summary at the end names all that failed.

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
    /// cargo's arguments, of which `xtask` are our own; `make test` is the one that is not cargo's.
    arguments: &'static [&'static str],
    /// A check without this cargo subcommand is skipped, and said so.
    optional: Option<&'static str>,
}

/// With the feature that the suites need, so that nothing is built once with and once without it; `EVERYTHING` in
/// scripts/lib.sh.
const PAM: &str = "weir-cli/pam";

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
            PAM,
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ],
    ),
    Check::required(
        "docs",
        &["doc", "--workspace", "--features", PAM, "--no-deps"],
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
            // Not through cargo, which would build us alone, with other features than what runs now.
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

/// # Errors
/// The names of the checks that failed.
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
        // In a build directory of its own, with two small packages: about a minute.
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

/// Another task of this program.
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
