//! What a result depends on besides the programs: recorded with every result.

use std::fs;
use std::path::Path;
use std::thread;

use anyhow::Result;
use serde::Serialize;
use weir_lab::environment;
use weir_lab::postgres::Programs;

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
            cpu: environment::cpu_model(&fs::read_to_string("/proc/cpuinfo")?)
                .unwrap_or_else(|| "unknown CPU".to_owned()),
            cores: thread::available_parallelism()?.get(),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")?
                .trim()
                .to_owned(),
            load_average: first_word(&fs::read_to_string("/proc/loadavg")?),
            postgres: version(&programs.path("postgres")?),
            pgbouncer,
            weir: version(weir),
            commit: environment::commit().unwrap_or_else(|| "unknown".to_owned()),
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
    environment::version(program, &["--version".to_owned()]).unwrap_or_else(|| absent(program))
}

fn first_word(text: &str) -> String {
    text.split_whitespace()
        .next()
        .unwrap_or_default()
        .to_owned()
}
