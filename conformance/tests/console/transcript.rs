//! Transcript of a psql session with the console.

use std::process::Command;

use anyhow::Result;
use expect_test::expect_file;
use weir_conformance::psql::psql;
use weir_conformance::tools;

use crate::support::Stage;

const SCRIPT: &str = "\
SHOW VERSION;
SHOW STATE;
show databases;
SHOW POOLS;
SHOW USERS;
SHOW PEERS;
SHOW DNS_HOSTS;
SHOW LISTS;
PAUSE con_script;
SHOW STATE;
select databases;
RESUME con_script;
RESUME con_script;
PAUSE;
SHOW STATE;
RESUME;
DISABLE con_script;
ENABLE con_script;
KILL nosuch;
KILL_CLIENT 999999;
RECONNECT;
WAIT_CLOSE;
SET default_pool_size = 7;
SET default_pool_size = seven;
SET client_encoding TO 'UTF8';
RELOAD;
SHOW timezone;
nonsense;
;
SHOW FDS;
SHOW HELP;
";

/// After a change run this test with UPDATE_EXPECT=1.
#[test]
fn a_session_of_psql_looks_like_this() -> Result<()> {
    // SHOW STATE names the driver, and which ones the kernel offers is of no interest here.
    let stage = Stage::with("con_script", |config| config.env("WEIR_IO", "epoll"))?;
    let weir = &stage.weir;
    let script = weir.directory().join("script.sql");
    std::fs::write(&script, SCRIPT)?;
    let script = script.display().to_string();
    let mut psql = psql(weir.port(), "pgbouncer")?;
    psql.args(["-a", "-f", &script]);
    let words = std::iter::once(psql.get_program()).chain(psql.get_args());
    // Errors belong to the transcript, in their places.
    let mut together = Command::new("sh");
    together.args(["-c", "exec \"$@\" 2>&1", "sh"]).args(words);
    let (output, _) = tools::run_any(&mut together)?;
    let postgres = stage.postgres_port();
    let output = output
        .replace(&format!("psql:{script}:"), "psql:")
        .replace(&format!("{:>5}", weir.port()), " WEIR")
        .replace(&format!("{postgres:>5}"), "   PG")
        .replace(env!("CARGO_PKG_VERSION"), "VERSION");
    expect_file!["transcript.txt"].assert_eq(&output);
    Ok(())
}
