//! Runs drills against clusters of Patroni and repmgr; `cargo xtask drill` calls it. Ends with an error if a guarantee was broken.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "its output is its purpose"
)]

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use clap::Parser;
use weir_conformance::drill::DRILLS;
use weir_conformance::drill::Drill;
use weir_conformance::drill::Options;
use weir_conformance::drill::Outcome;
use weir_conformance::drill::Subject;
use weir_conformance::drill::report;
use weir_conformance::drill::run;
use weir_conformance::tools::tail;

/// Break a real cluster of PostgreSQL under load, and check what clients lose by it
#[derive(Parser)]
#[command(name = "cargo xtask drill", bin_name = "cargo xtask drill")]
struct Flags {
    /// Drills to run; all of them if none is named
    names: Vec<String>,
    /// Print the drills and run none
    #[arg(long)]
    list: bool,
    /// Number of times that each event happens
    #[arg(long, default_value_t = 1)]
    rounds: u32,
    /// Seconds of load before the first event, after each event, and while hosts are kept down
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Clients; one of five only reads
    #[arg(long, default_value_t = 20)]
    clients: u32,
    /// Programs between the clients and the cluster; may be given several times
    #[arg(long, value_enum, default_value = "weir")]
    subject: Vec<Subject>,
    /// Seed of the clients' choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Option of Weir beside its defaults, as KEY=VALUE; may be given several times
    #[arg(long, value_parser = pair)]
    set: Vec<(String, String)>,
    /// Judge no times, on a machine that is busy with other work
    #[arg(long)]
    untimed: bool,
    /// Write a page in Markdown to this file
    #[arg(long)]
    report: Option<PathBuf>,
    /// Show the log of Weir, or of the other program, after each drill that fails
    #[arg(long)]
    log: bool,
}

fn main() -> ExitCode {
    match drill(&Flags::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn drill(flags: &Flags) -> Result<()> {
    let chosen = choose(&flags.names)?;
    if flags.list {
        for drill in chosen {
            println!("{:20} {}", drill.name, drill.about);
        }
        return Ok(());
    }
    let mut outcomes: Vec<Outcome> = Vec::new();
    let mut not_run: Vec<String> = Vec::new();
    for drill in chosen {
        for subject in &flags.subject {
            if !drill.is_for(*subject) {
                println!("{} is not for {}\n", drill.name, subject.name());
                continue;
            }
            match run(drill, &options(flags, *subject)) {
                Ok(outcome) => {
                    println!("{outcome}");
                    if flags.log && !outcome.passed() {
                        println!("{}", tail(outcome.log(), 100));
                    }
                    outcomes.push(outcome);
                }
                Err(error) => {
                    let name = format!("{} through {}", drill.name, subject.name());
                    println!("{name}: could not be carried out: {error:#}\n");
                    not_run.push(name);
                }
            }
        }
    }
    if let Some(file) = &flags.report {
        fs::write(file, report(&outcomes, &not_run)?)
            .with_context(|| file.display().to_string())?;
    }
    let weirs = |outcome: &&Outcome| outcome.subject() == Subject::Weir;
    let (all, failed) = (
        outcomes.iter().filter(weirs).count(),
        outcomes
            .iter()
            .filter(weirs)
            .filter(|outcome| !outcome.passed()),
    );
    let failed = failed.count();
    println!("{} of {all} drills passed through Weir", all - failed);
    if failed + not_run.len() > 0 {
        bail!(
            "{failed} drills failed, {} could not be carried out",
            not_run.len()
        );
    }
    Ok(())
}

fn options(flags: &Flags, subject: Subject) -> Options {
    Options {
        subject,
        rounds: flags.rounds,
        time: Duration::from_secs(flags.seconds),
        clients: flags.clients,
        seed: flags.seed,
        settings: flags.set.clone(),
        is_timed: !flags.untimed,
    }
}

/// Parses `KEY=VALUE`.
fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("no =")?;
    Ok((key.to_owned(), value.to_owned()))
}

fn choose(names: &[String]) -> Result<Vec<&'static Drill>> {
    if names.is_empty() {
        return Ok(DRILLS.iter().collect());
    }
    let find = |name: &String| {
        let found = DRILLS.iter().find(|drill| drill.name == name);
        found.with_context(|| {
            let known: Vec<_> = DRILLS.iter().map(|drill| drill.name).collect();
            format!("no drill {name}; there are {}", known.join(", "))
        })
    };
    names.iter().map(find).collect()
}
