//! Text of an outcome, and the page of a run.

use std::fmt;
use std::fmt::Write;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::Subject;
use super::outcome::Outcome;
use super::outcome::guarantee;
use crate::Patroni;
use crate::tools;
use crate::weir_bin;

/// Number of stale reads that are shown.
const STALE_SHOWN: usize = 3;

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.passed() { "PASS" } else { "FAIL" };
        writeln!(
            formatter,
            "{} through {}: {verdict}",
            self.drill.name,
            self.subject().name()
        )?;
        writeln!(formatter, "  event       {}", self.drill.about)?;
        writeln!(
            formatter,
            "  load        {} clients for {:.1} s: {} reads, {} writes and transactions; events: {}",
            self.options.clients,
            self.time.as_secs_f64(),
            self.record.reads.len(),
            self.record.writes.len(),
            self.options.rounds
        )?;
        for (key, value) in &self.options.settings {
            writeln!(formatter, "  option      {key} = {value}")?;
        }
        for gaps in &self.gaps {
            writeln!(
                formatter,
                "  longest gap writes {:.3} s (direct {:.3} s), reads {:.3} s",
                gaps.writes.as_secs_f64(),
                gaps.own.as_secs_f64(),
                gaps.reads.as_secs_f64()
            )?;
        }
        for gaps in &self.gaps {
            if !gaps.outage.is_zero() {
                let outage = gaps.outage.as_secs_f64();
                writeln!(formatter, "  no Weir for {outage:.3} s")?;
            }
        }
        let longest = self.record.longest.as_secs_f64();
        let login = self.record.longest_login.as_secs_f64();
        writeln!(
            formatter,
            "  longest request {longest:.3} s, login {login:.3} s"
        )?;
        writeln!(
            formatter,
            "  errors outside of transactions: {}",
            self.listed(false)
        )?;
        writeln!(
            formatter,
            "  errors inside transactions: {}",
            self.listed(true)
        )?;
        writeln!(
            formatter,
            "  rows: unknown {} ({} there), lost {}, doubled {}, refused but there {}, foreign {}; stale reads {}",
            self.unknown(),
            self.audit.unknown_there,
            self.audit.lost,
            self.audit.doubled,
            self.audit.ghosts,
            self.audit.foreign,
            self.record.stale.len()
        )?;
        self.write_firsts(formatter)?;
        for stale in self.record.stale.iter().take(STALE_SHOWN) {
            writeln!(formatter, "  stale read: {stale}")?;
        }
        for broken in &self.broken {
            writeln!(formatter, "  broken: {broken}")?;
        }
        Ok(())
    }
}

impl Outcome {
    /// Writes the first error of each place and code.
    fn write_firsts(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((place, code), errors) in &self.record.errors {
            let at = (errors.first - self.begin).as_secs_f64();
            writeln!(
                formatter,
                "  first {code} of a {place}, at {at:.2} s: {}",
                errors.text
            )?;
        }
        Ok(())
    }

    fn listed(&self, inside: bool) -> String {
        let errors = self.errors(inside);
        if errors.is_empty() {
            return "none".to_owned();
        }
        let each = errors
            .iter()
            .map(|((place, code), count)| format!("{place} {code} {count}"));
        each.collect::<Vec<_>>().join(", ")
    }

    /// Row of the table of a page.
    fn row(&self) -> String {
        let worst = self
            .gaps
            .iter()
            .max_by_key(|gaps| gaps.writes.saturating_sub(gaps.own));
        let seconds = |time: Option<Duration>| {
            time.map_or_else(String::new, |time| format!("{:.2}", time.as_secs_f64()))
        };
        let reads = self.gaps.iter().map(|gaps| gaps.reads).max();
        format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} / {} | {} | {} |",
            self.drill.name,
            self.subject().name(),
            self.options.rounds,
            seconds(worst.map(|gaps| gaps.writes)),
            seconds(worst.map(|gaps| gaps.own)),
            seconds(reads),
            self.listed(false),
            self.listed(true),
            self.unknown(),
            self.audit.lost,
            self.audit.doubled,
            self.record.stale.len(),
            if self.passed() { "PASS" } else { "**FAIL**" }
        )
    }
}

/// Returns the page of a run in Markdown, which also names the drills that could not be carried out.
///
/// # Errors
/// When a version cannot be asked.
pub fn report(outcomes: &[Outcome], not_run: &[String]) -> Result<String> {
    let mut page = String::new();
    let date = said("date", &["-u", "+%Y-%m-%d"])?;
    writeln!(page, "# Drills of {date}\n")?;
    writeln!(
        page,
        "Written by `cargo xtask drill --report`. [What the drills are](README.md).\n"
    )?;
    for version in versions(outcomes)? {
        writeln!(page, "- {version}")?;
    }
    writeln!(
        page,
        "\nTimes are seconds. \"Direct\" is the gap of a client that writes to whichever host is the primary, in the event where \
         most was added to it.\n"
    )?;
    writeln!(
        page,
        "| drill | through | events | gap of writes | direct | gap of reads | errors outside of transactions | inside | unknown rows \
         | lost / doubled | stale reads | verdict |"
    )?;
    writeln!(page, "|---|---|---|---|---|---|---|---|---|---|---|---|")?;
    for outcome in outcomes {
        writeln!(page, "{}", outcome.row())?;
    }
    if !not_run.is_empty() {
        writeln!(page, "\nCould not be carried out: {}.", not_run.join(", "))?;
    }
    let mut last = "";
    for outcome in outcomes {
        let name = outcome.drill.name;
        if name != last {
            writeln!(page, "\n## {name}\n\n{}", guarantee(outcome.drill))?;
        }
        last = name;
        writeln!(page, "\n```text\n{outcome}```")?;
    }
    Ok(page)
}

/// Versions of all programs of a run, and the machine's size.
fn versions(outcomes: &[Outcome]) -> Result<Vec<String>> {
    let mut versions = vec![weir_version()?];
    let has = |subject| outcomes.iter().any(|outcome| outcome.subject() == subject);
    if has(Subject::HaproxyPgbouncer) {
        versions.push(first_line(&said("pgbouncer", &["--version"])?));
        versions.push(first_line(&said("haproxy", &["-v"])?));
    }
    if has(Subject::Pgpool) {
        versions.push(first_line(&said("pgpool", &["--version"])?));
    }
    // Not `postgres` itself, whose processes are reaped as orphans.
    let pg_ctl = tools::postgres_bin_dir()?.join("pg_ctl");
    versions.push(said(&pg_ctl.to_string_lossy(), &["--version"])?);
    versions.push(format!(
        "Patroni {}, ttl 20 s, loop_wait 2 s, retry_timeout 3 s",
        Patroni::version()?
    ));
    versions.push(first_line(&said("etcd", &["--version"])?));
    let cores = std::thread::available_parallelism()?;
    versions.push(format!(
        "{cores} cores; clients, proxy, etcd and all hosts on one machine"
    ));
    Ok(versions)
}

fn weir_version() -> Result<String> {
    let weir = weir_bin()?;
    let build = if weir.to_string_lossy().contains("release") {
        "release"
    } else {
        "debug"
    };
    let weir = first_line(&said(&weir.to_string_lossy(), &["--version"])?);
    let root = tools::workspace();
    let commit = said(
        "git",
        &[
            "-C",
            &root.to_string_lossy(),
            "rev-parse",
            "--short",
            "HEAD",
        ],
    )?;
    Ok(format!("{weir}, {build} build, commit {commit}"))
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

fn said(program: &str, arguments: &[&str]) -> Result<String> {
    let text = tools::run(Command::new(program).args(arguments))?;
    Ok(text.trim().to_owned())
}
