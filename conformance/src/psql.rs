//! Commands for psql.

use std::process::Command;
use std::process::Stdio;

use anyhow::Result;

use crate::tools;

/// Command for `psql` on 127.0.0.1, without start-up file, prompts or pager.
///
/// # Errors
/// When psql is not installed.
pub fn psql(port: u16, database: &str) -> Result<Command> {
    tools::require("psql", "postgresql-client-15")?;
    let mut command = Command::new("psql");
    command.args([
        "-X",
        "-h",
        "127.0.0.1",
        "-p",
        &port.to_string(),
        "-U",
        "postgres",
    ]);
    command
        .args(["-d", database])
        .env("PAGER", "")
        .env("LC_ALL", "C")
        .stdin(Stdio::null());
    for name in [
        "PGHOST",
        "PGPORT",
        "PGUSER",
        "PGDATABASE",
        "PGOPTIONS",
        "PGPASSWORD",
    ] {
        command.env_remove(name);
    }
    Ok(command)
}
