//! `weir tune`: flags and messages of the sizing study. The work is done in the library `weir-lab`.

mod flags;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use weir_command::exit::{Exit, complain, print};
use weir_lab::collector::psql::Address;
use weir_lab::error::Error;
use weir_lab::interrupt::Interrupt;
use weir_lab::run::Progress;
use weir_lab::tune::{self, Finished, Look, Options};

use self::flags::{Goal, Run, Server};
use crate::weir;

/// Commands of `weir tune`.
#[derive(Debug, Subcommand)]
pub(crate) enum Tune {
    /// Measure a series of connection counts under load, and say which is best
    #[command(
        after_help = "Presets: wallet (1 to 64 connections), p3 (the published study: 2 to 32), realistic (data larger than \
        the shared buffers, some users wanted more). Profiles: smoke (2 s each, once), quick (12 s each, three times), full \
        (180 s each, three times). Without --server a PostgreSQL of its own is started on loopback and thrown away.\n\n\
        With --server the databases weir_tune and weir_tune_template are made there and dropped again; nothing else is \
        touched. Own scripts run on the database that --server names, and leave it as they leave it.\n\n\
        Ctrl-C stops it and leaves a valid part of the result, which `weir tune report DIR` judges.\n\n\
        Examples:\n  \
        weir tune run p3                                 the published study, about 10 minutes\n  \
        weir tune run --server postgresql://me@db/postgres -c 4,8,16,32,64\n  \
        weir tune run p3 --weir                          sizes of a pool of Weir instead of connections\n  \
        weir tune run --server postgresql://me@db/shop -f buy.sql@80 -f search.sql@20"
    )]
    Run(Box<Run>),
    /// Look at a live server without any load, and say what its own ups and downs tell
    #[command(
        after_help = "Looks at the sessions of the database seven times a second and at its counters twice a second, until \
        the time is over or Ctrl-C. It needs membership in pg_monitor to see the sessions of others.\n\n\
        What is concluded is only what was seen: a server that never had more than six sessions at work says nothing of ten."
    )]
    Watch(Watch),
    /// Write the report of a result again, and print it
    Report {
        /// Directory of a run or a watch, also of one that was stopped
        #[arg(value_name = "DIR")]
        directory: PathBuf,
        /// Print the finding as JSON instead
        #[arg(long)]
        json: bool,
    },
}

/// Arguments of `weir tune watch`.
#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// The database to look at
    #[arg(value_name = "URL", value_parser = Address::parse)]
    server: Address,
    /// Duration in seconds; without it until Ctrl-C
    #[arg(short, long, value_name = "SECONDS", value_parser = flags::seconds)]
    time: Option<std::time::Duration>,
    #[command(flatten)]
    machine: Server,
    /// Goal of the recommendation
    #[arg(long, value_enum, default_value_t = Goal::Balanced)]
    goal: Goal,
    /// Where the result goes; without it weir-tune-TIME in the working directory
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print the finding as JSON instead of the report
    #[arg(long)]
    json: bool,
}

/// Runs a command of `weir tune`.
pub(crate) fn tune(tune: &Tune) -> Exit {
    match tune {
        Tune::Run(args) => match args.options(weir::find) {
            Ok(options) => measure(&options, args),
            Err(error) => {
                complain(format_args!("weir tune: {error}"));
                Exit::Usage
            }
        },
        Tune::Watch(args) => watch(args),
        Tune::Report { directory, json } => match tune::write(directory) {
            Ok(files) => {
                print(if *json { &files.finding } else { &files.text });
                Exit::Ok
            }
            Err(error) => failed(&error),
        },
    }
}

/// Writes progress to standard error, so that standard output has only the result.
struct Lines;

impl Progress for Lines {
    fn line(&mut self, text: &str) {
        complain(text);
    }
}

fn measure(options: &Options, args: &Run) -> Exit {
    if cfg!(debug_assertions) && matches!(options.path, tune::Path::Weir { .. }) {
        complain("this is a debug build: what it shows of Weir is not what a release build does");
    }
    let directory = args.output.clone().unwrap_or_else(default_directory);
    conclude(&directory, args.json, |interrupt| {
        tune::run(options, &directory, interrupt, &mut Lines)
    })
}

fn watch(args: &Watch) -> Exit {
    let directory = args.output.clone().unwrap_or_else(default_directory);
    let look = Look {
        server: args.server.clone(),
        time: args.time,
        cores: args.machine.cores,
        spindles: args.machine.spindles,
        goal: args.goal.into(),
        seed: flags::any_seed(),
        command: flags::command_line(),
    };
    conclude(&directory, args.json, |interrupt| {
        tune::watch(&look, &directory, interrupt, &mut Lines)
    })
}

fn conclude(
    directory: &Path,
    json: bool,
    work: impl FnOnce(&Interrupt) -> Result<Finished, Error>,
) -> Exit {
    let finished = match Interrupt::install().and_then(|interrupt| work(&interrupt)) {
        Ok(finished) => finished,
        Err(error) => return failed(&error),
    };
    let files = match tune::write(directory) {
        Ok(files) => files,
        Err(error) => return failed(&error),
    };
    print(if json { &files.finding } else { &files.answer });
    complain(format_args!("report: {}", files.html.display()));
    if finished.failed == finished.cells && finished.failed > 0 {
        Exit::Failed
    } else {
        Exit::Ok
    }
}

fn failed(error: &Error) -> Exit {
    complain(format_args!("weir tune: {error}"));
    Exit::Start
}

fn default_directory() -> PathBuf {
    let now = jiff::Zoned::now().strftime("%Y%m%d-%H%M%S");
    PathBuf::from(format!("weir-tune-{now}"))
}

#[cfg(test)]
mod tests;
