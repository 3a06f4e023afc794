//! Runs the lab's generator ([`crate::load`]) as a separate process: a plan goes in as JSON, lines of JSON come
//! out. The change of phase in them marks the start of the measured time.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Map, Value, json};

use crate::clock;
use crate::error::{Error, Result};
use crate::experiment::{Script, Work};
use crate::generator::{Generator, Job, Loaded, Watch};
use crate::load::Phase;
use crate::load::plan::Plan;
use crate::load::process::Message;
use crate::meter::Window;
use crate::process::Process;
use crate::record::Outcome;

/// A program that reads a plan and makes its load.
#[derive(Clone, Debug)]
pub struct LoadProcess {
    /// Program and its first arguments.
    pub command: Vec<String>,
}

/// Allowance for logins and for the last answers.
const MARGIN: Duration = Duration::from_secs(120);

impl Generator for LoadProcess {
    fn name(&self) -> &'static str {
        "weir"
    }

    fn run(&self, job: &Job<'_>, watch: &mut Watch<'_>) -> Result<Loaded> {
        let plan = plan(job)?;
        let input = job.directory.join("plan.json");
        write(&input, &plan)?;
        let (program, arguments) = self
            .command
            .split_first()
            .ok_or_else(|| failed("no program is given for it"))?;
        let mut command = Command::new(program);
        command.args(arguments);
        let stdin = File::open(&input).map_err(Error::file("read", &input))?;
        let output = job.directory.join("load.jsonl");
        let mut process =
            Process::start_with_input("weir bench load", &mut command, stdin, &output)?
                .stop_with(&[Signal::TERM]);
        let limit = job.warm_up + job.measure + MARGIN;
        let mut begin = None;
        let result = watch.measure(&mut process, limit, || {
            if begin.is_none() && phase(&read(&output)?) >= Some(Phase::Measuring) {
                begin = Some(clock::since_epoch());
            }
            Ok(())
        });
        let text = read(&output)?;
        let outcome = conclude(result, &text)?;
        let begin = begin.ok_or_else(|| failed("it never began to measure"))?;
        let mut words = self.command.clone();
        words.push("<plan.json".to_owned());
        Ok(Loaded {
            command: words,
            window: Window {
                begin,
                end: begin + Duration::from_secs_f64(outcome.seconds.max(0.0)),
            },
            outcome,
        })
    }
}

/// Seconds that a storm may last: longer than any cell.
const STORM_S: f64 = 24.0 * 3600.0;
/// Niceness of the storm: on a real network its clients would have machines of their own.
const STORM_NICENESS: &str = "10";
const STORM_THREADS: u32 = 4;

impl LoadProcess {
    /// Starts `clients` that log in and leave repeatedly until the process is dropped. Their results are not part
    /// of the cell; the last output is in `storm.jsonl`.
    ///
    /// # Errors
    /// The process cannot be started.
    pub fn storm(&self, job: &Job<'_>, clients: u32) -> Result<Process> {
        let plan = storm(job, clients)?;
        let input = job.directory.join("storm.json");
        write(&input, &plan)?;
        let mut command = Command::new("nice");
        command.args(["-n", STORM_NICENESS]).args(&self.command);
        let stdin = File::open(&input).map_err(Error::file("read", &input))?;
        let output = job.directory.join("storm.jsonl");
        let process =
            Process::start_with_input("the storm of logins", &mut command, stdin, &output)?;
        Ok(process.stop_with(&[Signal::TERM]))
    }
}

/// Returns a plan that only logs in.
fn storm(job: &Job<'_>, clients: u32) -> Result<Plan> {
    let work = Work {
        clients,
        batch: 1,
        script: Script::Plan(json!({ "transactions": [] })),
        reconnect: true,
        idle: false,
        ..job.work.clone()
    };
    plan(&Job {
        work: &work,
        rate: None,
        threads: clients.min(STORM_THREADS),
        warm_up: Duration::ZERO,
        measure: Duration::from_secs_f64(STORM_S),
        ..job.clone()
    })
}

fn write(path: &Path, plan: &Plan) -> Result<()> {
    let text = serde_json::to_string_pretty(plan).map_err(|error| failed(error.to_string()))?;
    fs::write(path, text).map_err(Error::file("write", path))
}

fn failed(reason: impl Into<String>) -> Error {
    Error::Load {
        name: "weir bench load".to_owned(),
        reason: reason.into(),
    }
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(Error::file("read", path))
}

/// Completes the plan of the work with address, user, pace and times.
fn plan(job: &Job<'_>) -> Result<Plan> {
    let work = job.work;
    let Script::Plan(Value::Object(part)) = &work.script else {
        return Err(failed("it cannot carry out a script of pgbench"));
    };
    let pace = match job.rate {
        _ if work.idle => json!("idle"),
        Some(rate) => json!({ "poisson": { "per_second": rate } }),
        None => json!("closed"),
    };
    let common = json!({
        "address": format!("{}:{}", job.host, job.port),
        "user": job.user,
        "password": job.password,
        "database": job.database,
        "tls": if job.tls { "require" } else { "off" },
        "clients": work.clients,
        "threads": job.threads,
        "protocol": work.protocol,
        "pipeline": work.batch,
        "pace": pace,
        "reconnect": work.reconnect,
        "warm_up_s": job.warm_up.as_secs_f64(),
        "measure_s": job.measure.as_secs_f64(),
        "seed": job.seed,
    });
    let mut plan: Map<String, Value> = part.clone();
    if let Value::Object(common) = common {
        plan.extend(common);
    }
    let plan: Plan =
        serde_json::from_value(Value::Object(plan)).map_err(|error| failed(error.to_string()))?;
    plan.check().map_err(|error| failed(error.to_string()))?;
    Ok(plan)
}

/// Checks that the generator can carry out the work, as it does when it reads a plan.
///
/// # Errors
/// The error that the generator would report.
pub fn check(work: &Work) -> Result<()> {
    let job = Job {
        host: "127.0.0.1".to_owned(),
        port: 1,
        user: "user".to_owned(),
        password: String::new(),
        database: "database".to_owned(),
        tls: false,
        work,
        rate: work.rate.map(|_| 1.0),
        threads: 1,
        warm_up: Duration::ZERO,
        measure: Duration::from_secs(1),
        seed: 0,
        directory: Path::new("/"),
    };
    plan(&job).map(drop)
}

/// Returns the phase in the last whole line that has one.
fn phase(output: &str) -> Option<Phase> {
    let whole = output.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().rev().find_map(|line| match message(line)? {
        Message::Progress(progress) => Some(progress.phase),
        _ => None,
    })
}

fn message(line: &str) -> Option<Message> {
    serde_json::from_str(line).ok()
}

/// Returns the outcome in the output, or the failure that it reports.
fn conclude(result: Result<()>, output: &str) -> Result<Outcome> {
    let mut reason = None;
    for line in output.lines().rev() {
        match message(line) {
            Some(Message::Outcome(outcome)) => return Ok(*outcome),
            Some(Message::Failed(words)) => return Err(failed(words)),
            Some(Message::Progress(_)) => {}
            // Not a message: the output of a program that could not start.
            None => drop(reason.get_or_insert_with(|| line.to_owned())),
        }
    }
    match result {
        Err(Error::Load { reason: status, .. }) => Err(failed(match reason {
            Some(words) => format!("{status}: {words}"),
            None => status,
        })),
        Err(other) => Err(other),
        Ok(()) => Err(failed("it ended without an outcome")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Tls;
    use crate::interrupt::Interrupt;
    use crate::load::plan::{self, Pace};
    use crate::meter::Groups;

    fn work() -> Work {
        Work {
            protocol: "extended".to_owned(),
            clients: 3,
            tls: Tls::Both,
            rate: None,
            batch: 5,
            script: Script::Plan(
                json!({ "transactions": [{ "statements": [{ "sql": "SELECT 1" }] }], "drain_s": 1.0 }),
            ),
            writes: false,
            reconnect: true,
            idle: false,
            storm: 0,
        }
    }

    fn job<'a>(work: &'a Work, directory: &'a Path) -> Job<'a> {
        Job {
            host: "127.0.0.1".to_owned(),
            port: 6432,
            user: "bench".to_owned(),
            password: "secret".to_owned(),
            database: "pgbench".to_owned(),
            tls: true,
            work,
            rate: None,
            threads: 2,
            warm_up: Duration::from_millis(500),
            measure: Duration::from_secs(2),
            seed: 7,
            directory,
        }
    }

    #[test]
    fn a_plan_has_its_own_part_and_what_the_job_says() {
        let (mut work, directory) = (work(), Path::new("/"));
        let found = plan(&job(&work, directory)).unwrap();
        assert_eq!(found.address, "127.0.0.1:6432");
        assert_eq!((found.tls, found.pace), (plan::Tls::Require, Pace::Closed));
        assert_eq!((found.pipeline, found.reconnect), (5, true));
        assert!((found.drain_s - 1.0).abs() < 1e-9);
        let mut at_a_rate = job(&work, directory);
        at_a_rate.rate = Some(250.0);
        let poisson = Pace::Poisson { per_second: 250.0 };
        assert_eq!(plan(&at_a_rate).unwrap().pace, poisson);
        work.reconnect = false;
        work.idle = true;
        assert_eq!(plan(&job(&work, directory)).unwrap().pace, Pace::Idle);
        work.script = Script::Builtin("select-only".to_owned());
        assert!(plan(&job(&work, directory)).is_err());
        assert!(check(&work).is_err());
    }

    #[test]
    fn a_storm_is_of_logins_alone_and_outlasts_the_cell() {
        let mut work = work();
        work.reconnect = false;
        let directory = Path::new("/");
        let found = storm(&job(&work, directory), 20).unwrap();
        assert_eq!(
            (found.clients, found.threads, found.transactions.len()),
            (20, 4, 0)
        );
        assert_eq!((found.reconnect, found.pace), (true, Pace::Closed));
        assert!(found.measure_s > 3600.0 && found.tls == plan::Tls::Require);
    }

    fn line(phase: &str) -> String {
        let progress = json!({
            "phase": phase, "connected": 1, "transactions": 0, "errors": 0, "remaining_s": 1.0,
        });
        json!({ "progress": progress }).to_string() + "\n"
    }

    #[test]
    fn the_phase_is_that_of_the_last_whole_line() {
        assert_eq!(phase(""), None);
        let text = line("warm-up") + &line("measuring");
        assert_eq!(phase(&text), Some(Phase::Measuring));
        let text = line("warm-up") + line("measuring").trim();
        assert_eq!(phase(&text), Some(Phase::WarmUp));
        assert!(phase(&(text + "\n" + &line("draining"))) > Some(Phase::Measuring));
    }

    #[test]
    fn the_generators_own_words_say_why_it_failed() {
        let status = || Err(failed("it failed (exit status: 1)"));
        let text = line("connecting") + "{\"failed\":\"no client could log in\"}\n";
        let error = conclude(status(), &text).unwrap_err().to_string();
        assert_eq!(error, "weir bench load: no client could log in");
        let error = conclude(status(), "cannot start\n")
            .unwrap_err()
            .to_string();
        assert!(error.ends_with("(exit status: 1): cannot start"), "{error}");
        assert!(conclude(Ok(()), "").is_err());
    }

    #[test]
    fn the_measured_time_begins_with_its_phase() {
        let directory = tempfile::tempdir().unwrap();
        let outcome = Outcome {
            transactions: 7,
            seconds: 0.5,
            ..Outcome::default()
        };
        let outcome = json!({ "outcome": outcome }).to_string();
        let script = format!(
            "grep -q '\"seed\": 7' || exit 3; printf '{}'; sleep 0.1; echo '{outcome}'",
            line("measuring").replace('\n', "\\n")
        );
        let generator = LoadProcess {
            command: ["sh", "-c", &script].map(str::to_owned).to_vec(),
        };
        let (work, interrupt) = (work(), Interrupt::never());
        let mut watch = Watch::new(Groups::default(), &interrupt);
        let loaded = generator
            .run(&job(&work, directory.path()), &mut watch)
            .unwrap();
        assert_eq!(loaded.outcome.transactions, 7);
        assert!((loaded.window.seconds() - 0.5).abs() < 1e-9);
        assert!(watch.costs(loaded.window, &loaded.outcome).is_ok());
    }
}
