//! What a result depends on besides the programs: recorded with every result.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use anyhow::Result;
use serde::Serialize;
use weir_lab::postgres::Programs;
use weir_lab::process::run_to_end;

use crate::lab::target::find_pgbouncer;

/// The machine and the versions.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Environment {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) kernel: String,
    /// Over the last minute, before we start.
    pub(crate) load_average: String,
    pub(crate) postgres: String,
    pub(crate) pgbouncer: String,
    pub(crate) weir: String,
    pub(crate) commit: String,
}

impl Environment {
    pub(crate) fn read(programs: &Programs, weir: &Path) -> Result<Self> {
        let pgbouncer =
            find_pgbouncer().map_or_else(|_| absent(Path::new("pgbouncer")), |path| version(&path));
        Ok(Self {
            cpu: cpu_model(&fs::read_to_string("/proc/cpuinfo")?),
            cores: thread::available_parallelism()?.get(),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")?
                .trim()
                .to_owned(),
            load_average: first_word(&fs::read_to_string("/proc/loadavg")?),
            postgres: version(&programs.path("postgres")?),
            pgbouncer,
            weir: version(weir),
            commit: commit(),
        })
    }

    /// One line for under a table.
    pub(crate) fn line(&self) -> String {
        let Self {
            cpu,
            cores,
            kernel,
            load_average,
            postgres,
            pgbouncer,
            weir,
            commit,
        } = self;
        format!(
            "{cpu}, {cores} cores, Linux {kernel}, load {load_average} at start; {postgres}; \
             {pgbouncer}; {weir}; commit {commit}"
        )
    }
}

fn absent(program: &Path) -> String {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    format!("no {name}")
}

fn version(program: &Path) -> String {
    run_to_end(Command::new(program).arg("--version"))
        .ok()
        .and_then(|text| text.lines().next().map(|line| line.trim().to_owned()))
        .unwrap_or_else(|| absent(program))
}

fn cpu_model(cpuinfo: &str) -> String {
    cpuinfo
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == "model name")
        .map_or_else(
            || "unknown CPU".to_owned(),
            |(_, value)| value.trim().to_owned(),
        )
}

fn first_word(text: &str) -> String {
    text.split_whitespace()
        .next()
        .unwrap_or_default()
        .to_owned()
}

fn commit() -> String {
    run_to_end(Command::new("git").args(["describe", "--always", "--dirty"]))
        .map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_found_among_other_keys() {
        assert_eq!(
            cpu_model("vendor_id\t: X\nmodel name\t: Fast CPU\n"),
            "Fast CPU"
        );
        assert_eq!(cpu_model(""), "unknown CPU");
    }
}
