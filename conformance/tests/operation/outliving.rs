//! Drivers that lose their server in a transaction block and keep their session (`keep_client`).

use std::process::Command;

use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Weir;
use weir_conformance::drivers;

use crate::support::Server;

#[test]
fn drivers_repeat_lost_transactions_in_the_same_session() -> Result<()> {
    let server = Server::new("lost_blocks")?;
    let config = server.config().set("keep_client", "1");
    let weir = Weir::start(&config.set("default_pool_size", "2"))?;
    let direct = server.postgres.port().to_string();
    let python = drivers::python()?;
    let mut command = Command::new(python.join("venv/bin/python"));
    command.arg(python.join("lost_blocks.py")).arg(&direct);
    drivers::run(&mut command, weir.port(), server.database)?;
    let classes = drivers::java()?;
    let mut command = Command::new("java");
    command.args(["-Xmx256m", "-cp", &classes, "LostBlocks", &direct]);
    drivers::run(&mut command, weir.port(), server.database)?;
    let log = weir.log();
    let logins = log.matches("login attempt").count();
    ensure!(logins == 3, "{logins} logins: {log}");
    Ok(())
}
