//! Users of the console and their permissions.

use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Raw;
use weir_conformance::TempDir;
use weir_conformance::frontend;

use crate::support::PATIENCE;
use crate::support::Stage;

const USERS: &str = "\"postgres\" \"secret\"\n\"looker\" \"secret\"\n\"nobody\" \"secret\"\n";

#[test]
fn the_same_user_of_the_system_is_an_administrator_without_a_password() -> Result<()> {
    let sockets = TempDir::new()?;
    let directory = sockets.path().display().to_string();
    let mut stage = Stage::with("con_peer", |config| {
        config.set("unix_socket_dir", &directory)
    })?;
    // From now on passwords are required, on both socket families.
    stage.weir.replace_file(
        &weir_conformance::Config::new()
            .set("unix_socket_dir", &directory)
            .set("auth_type", "scram-sha-256")
            .userlist(USERS),
    )?;
    stage.order("RELOAD")?;
    let weir = &stage.weir;
    let login = [("user", "pgbouncer"), ("database", "pgbouncer")];
    let mut console = Raw::unix(sockets.path(), weir.port(), PATIENCE)?;
    console.login(&login)?;
    console.query("SHOW VERSION")?;
    console.query("PAUSE")?;
    console.query("RESUME")?;
    let mut by_tcp = Raw::tcp(weir.port(), PATIENCE)?;
    ensure!(
        is_asked(&mut by_tcp, "pgbouncer")?,
        "pgbouncer came in by TCP"
    );
    let mut other = Raw::unix(sockets.path(), weir.port(), PATIENCE)?;
    ensure!(
        is_asked(&mut other, "postgres")?,
        "postgres came in without a password"
    );
    Ok(())
}

/// True if a user of the console is asked for a proof (any AuthenticationRequest except Ok).
fn is_asked(raw: &mut Raw, user: &str) -> Result<bool> {
    let login = [("user", user), ("database", "pgbouncer")];
    raw.send(&frontend::startup(frontend::VERSION_3_0, &login))?;
    let message = raw.read_message()?;
    Ok(message.tag == b'R' && !message.body.starts_with(&[0, 0, 0, 0]))
}

#[test]
fn users_of_statistics_only_look_and_others_do_not_even() -> Result<()> {
    let stage = Stage::with("con_roles", |config| {
        config.set("stats_users", "looker").userlist(USERS)
    })?;
    let mut looker = stage.weir.connect_as("looker", "pgbouncer")?;
    for sql in [
        "SHOW POOLS",
        "SHOW CONFIG",
        "SHOW HELP",
        "SET timezone = 'UTC'",
    ] {
        looker.query(sql)?;
    }
    for sql in [
        "PAUSE",
        "RESUME",
        "DISABLE con_roles",
        "ENABLE con_roles",
        "KILL",
        "KILL_CLIENT 1",
        "PAUSE WRITES con_roles",
        "PRIMARY con_roles IS 127.0.0.1:1",
        "RECONNECT",
        "WAIT_CLOSE",
        "SUSPEND",
        "RELOAD",
        "SET verbose = 1",
        "SHUTDOWN",
        "SHOW FDS",
    ] {
        let refused = looker.query(sql).err().map(|error| error.to_string());
        let refused = refused.unwrap_or_default();
        ensure!(refused.contains("admin access needed"), "{sql}: {refused}");
    }
    let refused = stage.weir.connect_as("nobody", "pgbouncer").err();
    let refused = refused.map(|error| error.to_string()).unwrap_or_default();
    ensure!(refused.contains("not allowed"), "{refused}");
    Ok(())
}
