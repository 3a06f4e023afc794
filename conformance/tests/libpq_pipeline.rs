//! libpq's pipeline mode through the target, with a small C program.

use std::process::Command;

use anyhow::Result;
use weir_conformance::PoolOptions;
use weir_conformance::Postgres;
use weir_conformance::Target;
use weir_conformance::drivers;

#[test]
fn libpq_pipelines_work() -> Result<()> {
    let built = drivers::libpq()?;
    let postgres = Postgres::shared()?;
    let mut target = Target::start(&postgres, &PoolOptions::default().pool_size(3))?;
    let mut program = Command::new("timeout");
    program.arg("60").arg(built.join("pipeline"));
    drivers::run(&mut program, target.port(), "postgres")?;
    target.check_healthy()
}
