//! libpq's pipeline mode through the target, by a small C program.

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use weir_conformance::PoolOptions;
use weir_conformance::Postgres;
use weir_conformance::Target;
use weir_conformance::drivers;
use weir_conformance::tools;

#[test]
fn libpq_pipelines_work() -> Result<()> {
    let built = drivers::prepare("libpq", build)?;
    let postgres = Postgres::shared()?;
    let mut target = Target::start(&postgres, &PoolOptions::default().pool_size(3))?;
    let mut program = Command::new("timeout");
    program.arg("60").arg(built.join("pipeline"));
    drivers::run(&mut program, target.port(), "postgres")?;
    target.check_healthy()
}

fn build(directory: &Path) -> Result<()> {
    tools::require("cc", "gcc libc6-dev")?;
    tools::require("pg_config", "libpq-dev")?;
    let includes = tools::run(Command::new("pg_config").arg("--includedir"))?;
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c99", "-Wall", "-Wextra", "-O1", "-I", includes.trim()]);
    compiler
        .args(["-o", "pipeline", "pipeline.c", "-lpq"])
        .current_dir(directory);
    tools::run(&mut compiler).map(drop)
}
