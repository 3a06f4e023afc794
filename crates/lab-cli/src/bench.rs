//! `weir bench`: flags and messages. The work is done in the library `weir-lab`.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::AtomicBool;

use clap::{Args, Subcommand};
use weir_command::exit::{Exit, complain, print};
use weir_lab::experiment::Changes;
use weir_lab::interrupt::Interrupt;
use weir_lab::process::BIN_DIRECTORIES;
use weir_lab::run::{self, Error, Finished, Options, Progress};
use weir_lab::{compare, load, null, report};

use crate::weir;

/// Commands of the lab.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Measure poolers side by side on this machine
    #[command(
        after_help = "Profiles: smoke (under 5 minutes), quick (about 90 minutes), full (the published matrix, \
        hours). Everything needed is started on loopback and stopped again: PostgreSQL with its own data, the poolers, \
        the load. Programs that are not on this machine are skipped and said: --target-bin names one, and those in \
        the directories of WEIR_BENCH_BIN_DIR are found by their names before those on PATH.\n\n\
        Ctrl-C stops it and leaves a valid part of the result; --resume DIR does the rest.\n\n\
        Examples:\n  \
        weir bench run                                   the smoke profile of every experiment\n  \
        weir bench run quick -e p1,p2                    two published experiments: statements over TLS\n  \
        weir bench run quick -e p1 -t pgbouncer,weir-2 --set clients=100\n  \
        weir bench run quick -e p1 --target-bin odyssey=/opt/odyssey/odyssey"
    )]
    Run(Box<Run>),
    /// Name experiments and targets, and say what is on this machine
    List(Files),
    /// Write the report of a result again, and print it
    Report {
        /// Directory of a run, also of one that was stopped
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
    /// Say what changed from one result to another
    #[command(
        after_help = "A difference is told only if it is beyond the noise of both; otherwise it is ~."
    )]
    Compare {
        /// The earlier result
        #[arg(value_name = "DIR")]
        first: PathBuf,
        /// The later one
        #[arg(value_name = "DIR")]
        second: PathBuf,
    },
    /// Make the load that a plan on the standard input describes (used by a run)
    #[command(hide = true)]
    Load,
    /// Answer as the plan on the standard input says, without a database (used by a run)
    #[command(hide = true)]
    Null,
}

/// Arguments of `weir bench run`.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// smoke, quick or full; an experiment's file may have others
    #[arg(default_value = "smoke", conflicts_with = "resume")]
    profile: String,
    /// These experiments only
    #[arg(short, long, value_name = "NAME,...", value_delimiter = ',')]
    experiments: Vec<String>,
    /// These targets instead of the experiments' own
    #[arg(short, long, value_name = "NAME,...", value_delimiter = ',')]
    targets: Vec<String>,
    /// Other values of a factor, such as clients=1,50; may be repeated
    #[arg(long = "set", value_name = "FACTOR=VALUE,...")]
    factors: Vec<Factor>,
    /// Number of repetitions of everything
    #[arg(long, value_name = "N")]
    blocks: Option<u32>,
    /// Seconds of warm-up of each cell
    #[arg(long, value_name = "SECONDS")]
    warm_up: Option<f64>,
    /// Seconds of measuring of each cell
    #[arg(long, value_name = "SECONDS")]
    measure: Option<f64>,
    /// Size of pgbench's tables: 100,000 accounts each
    #[arg(long, value_name = "N")]
    scale: Option<u32>,
    /// PostgreSQL's programs, such as /usr/lib/postgresql/15/bin; without it the newest installed
    #[arg(long, value_name = "DIR")]
    postgres_bin: Option<PathBuf>,
    /// A server that is there already, with pgbench's tables; it is neither restarted nor are its data restored
    #[arg(long, value_name = "URL", conflicts_with = "postgres_bin")]
    server: Option<String>,
    /// Pin poolers to these CPUs, such as 0 or 0-3
    #[arg(long, value_name = "LIST")]
    pooler_cpus: Option<String>,
    /// Repeats the order of an earlier run; without it from the clock
    #[arg(long)]
    seed: Option<u64>,
    /// Where the result goes; without it weir-bench-TIME in the working directory
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Take up a run that was stopped, with its own settings
    #[arg(long, value_name = "DIR", exclusive = true)]
    resume: Option<PathBuf>,
    #[command(flatten)]
    files: Files,
}

/// Additions to the lab's own descriptions.
#[derive(Debug, Args)]
pub(crate) struct Files {
    /// Where a program is, by its name in the target's description; may be repeated
    #[arg(long = "target-bin", value_name = "NAME=PATH")]
    programs: Vec<Program>,
    /// A file that describes an experiment, as those in lab/experiments; may be repeated
    #[arg(long, value_name = "FILE")]
    experiment_file: Vec<PathBuf>,
    /// A file that describes a target, as those in lab/targets; may be repeated
    #[arg(long, value_name = "FILE")]
    target_file: Vec<PathBuf>,
}

/// `NAME=PATH`.
#[derive(Clone, Debug)]
struct Program {
    name: String,
    path: PathBuf,
}

impl FromStr for Program {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, path) = text.split_once('=').ok_or("must be NAME=PATH")?;
        Ok(Self {
            name: name.to_owned(),
            path: path.into(),
        })
    }
}

/// `FACTOR=VALUE,...`.
#[derive(Clone, Debug)]
struct Factor {
    name: String,
    values: Vec<String>,
}

impl FromStr for Factor {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, values) = text.split_once('=').ok_or("must be FACTOR=VALUE,...")?;
        Ok(Self {
            name: name.to_owned(),
            values: values.split(',').map(str::to_owned).collect(),
        })
    }
}

/// Runs a command of the lab.
pub(crate) fn bench(bench: &Bench) -> Exit {
    match bench {
        Bench::Run(args) => measure(args),
        Bench::List(files) => list(files),
        Bench::Report { directory } => show(directory),
        Bench::Compare { first, second } => compare(first, second),
        Bench::Load => ended(load::process::serve(
            std::io::stdin().lock(),
            &mut std::io::stdout().lock(),
            &AtomicBool::new(false),
        )),
        Bench::Null => ended(null::serve(
            std::io::stdin().lock(),
            &mut std::io::stdout().lock(),
        )),
    }
}

/// Converts the result of a helper process. The error itself is in its output, for the run that started it.
fn ended<E>(result: Result<(), E>) -> Exit {
    match result {
        Ok(()) => Exit::Ok,
        Err(_) => Exit::Failed,
    }
}

/// Writes progress to standard error, so that standard output has only the result.
struct Lines;

impl Progress for Lines {
    fn line(&mut self, text: &str) {
        complain(text);
    }
}

fn measure(args: &Run) -> Exit {
    let interrupt = match Interrupt::install() {
        Ok(interrupt) => interrupt,
        Err(error) => return failed(&error.into()),
    };
    if cfg!(debug_assertions) {
        complain(
            "this is a debug build: what it shows of Weir and of its own load is not what a release build does",
        );
    }
    let directory = args.resume.clone().or_else(|| args.output.clone());
    let directory = directory.unwrap_or_else(default_directory);
    let result = if args.resume.is_some() {
        run::resume(&directory, &interrupt, &mut Lines)
    } else {
        run::run(&options(args), &directory, &interrupt, &mut Lines)
    };
    match result {
        Ok(finished) => conclude(finished, &directory),
        Err(error) => failed(&error),
    }
}

fn conclude(finished: Finished, path: &Path) -> Exit {
    let directory = path.display();
    let Finished {
        cells,
        failed,
        interrupted,
    } = finished;
    print(&format!(
        "{cells} cells in {directory}, {failed} of them failed\n"
    ));
    match report::write(path) {
        Ok(summary) => {
            print(&summary.verdict);
            print(&format!("\nreport: {}\n", summary.html.display()));
        }
        Err(error) => return untold(&error),
    }
    if interrupted {
        print(&format!(
            "stopped; the rest: weir bench run --resume {directory}\n"
        ));
    }
    if failed > 0 && failed == cells {
        Exit::Failed
    } else {
        Exit::Ok
    }
}

fn show(directory: &Path) -> Exit {
    let coloured = || Ok(report::coloured(&report::Results::read(directory)?));
    let written = report::write(directory);
    match written.and_then(|summary| {
        if on_terminal() {
            coloured()
        } else {
            Ok(summary.text)
        }
    }) {
        Ok(text) => {
            print(&text);
            Exit::Ok
        }
        Err(error) => untold(&error),
    }
}

fn compare(first: &Path, second: &Path) -> Exit {
    match compare::directories(first, second) {
        Ok(found) => {
            print(if on_terminal() {
                &found.coloured
            } else {
                &found.text
            });
            Exit::Ok
        }
        Err(error) => untold(&error),
    }
}

fn on_terminal() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

fn untold(error: &report::Error) -> Exit {
    let cause = error.source().map(|cause| format!(": {cause}"));
    complain(format_args!(
        "weir bench: {error}{}",
        cause.unwrap_or_default()
    ));
    Exit::Start
}

fn list(files: &Files) -> Exit {
    match run::list(&with_files(Options::default(), files)) {
        Ok(text) => {
            print(&text);
            Exit::Ok
        }
        Err(error) => failed(&error),
    }
}

fn failed(error: &Error) -> Exit {
    complain(format_args!("weir bench: {error}"));
    match error {
        Error::Experiment(_) | Error::Target(_) | Error::NoProfile { .. } => Exit::Config,
        _ => Exit::Start,
    }
}

fn options(args: &Run) -> Options {
    let factors = args.factors.iter();
    let options = Options {
        profile: args.profile.clone(),
        experiments: args.experiments.clone(),
        changes: Changes {
            targets: args.targets.clone(),
            factors: factors
                .map(|factor| (factor.name.clone(), factor.values.clone()))
                .collect(),
            blocks: args.blocks,
            warm_up_s: args.warm_up,
            measure_s: args.measure,
            scale: args.scale,
        },
        postgres: args.postgres_bin.clone(),
        server: args.server.clone(),
        pooler_cpus: args.pooler_cpus.clone(),
        seed: args.seed,
        command: std::env::args().collect(),
        ..Options::default()
    };
    with_files(options, &args.files)
}

/// Adds the programs to measure, with Weir unless `--target-bin` names another, and this executable as the load
/// generator. Without Weir the rest is measured, and the report says so.
fn with_files(mut options: Options, files: &Files) -> Options {
    let mut programs = BTreeMap::new();
    if let Ok(ourselves) = std::env::current_exe() {
        options.program = vec![ourselves.display().to_string(), "bench".to_owned()];
    }
    if let Ok(weir) = weir::find() {
        programs.insert("weir".to_owned(), weir);
    }
    for Program { name, path } in &files.programs {
        programs.insert(name.clone(), path.clone());
    }
    options.programs = programs;
    if let Some(directories) = std::env::var_os(BIN_DIRECTORIES) {
        options.program_directories = std::env::split_paths(&directories).collect();
    }
    options.experiment_files.clone_from(&files.experiment_file);
    options.target_files.clone_from(&files.target_file);
    options
}

fn default_directory() -> PathBuf {
    let now = jiff::Zoned::now().strftime("%Y%m%d-%H%M%S");
    PathBuf::from(format!("weir-bench-{now}"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(subcommand)]
        bench: Bench,
    }

    fn parse(line: &str) -> Result<Options, clap::Error> {
        let words = ["bench"].into_iter().chain(line.split_whitespace());
        Line::try_parse_from(words).map(|line| match line.bench {
            Bench::Run(args) => options(&args),
            Bench::List(files) => with_files(Options::default(), &files),
            _ => Options::default(),
        })
    }

    #[test]
    fn without_flags_it_is_the_smoke_profile_and_this_program_makes_the_load() {
        let options = parse("run").unwrap();
        assert_eq!(options.profile, "smoke");
        assert!(Path::new(&options.program[0]).is_absolute());
        assert_eq!(options.program[1..], ["bench"]);
    }

    #[test]
    fn flags_reach_the_options() {
        let options = parse(
            "run quick -e p1,p2 -t weir-1 --set clients=1,50 --set protocol=simple --blocks 2 \
             --measure 1.5 --target-bin weir=/opt/weir",
        )
        .unwrap();
        assert_eq!(options.experiments, ["p1", "p2"]);
        assert_eq!(options.changes.factors["clients"], ["1", "50"]);
        assert_eq!(options.changes.measure_s, Some(1.5));
        assert_eq!(options.programs["weir"], Path::new("/opt/weir"));
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        for line in [
            "run --resume a --seed 1",
            "run quick --resume a",
            "run --server postgresql://a@b/c --postgres-bin /usr",
            "run --set clients",
            "run --target-bin weir",
            "",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
