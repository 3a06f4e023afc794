//! Which lines the log has.

use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::Weir;

use crate::support::PATIENCE;
use crate::support::Server;
use crate::support::clients;
use crate::support::refusal;
use crate::support::send_all;

/// The log after a login, a refused login, an end and a period of statistics.
fn log(server: &Server, settings: &[(&str, &str)]) -> Result<String> {
    let config = server.config().set("stats_period", "1");
    let config = settings
        .iter()
        .fold(config, |config, (key, value)| config.set(key, value));
    let mut weir = Weir::start(&config)?;
    let mut raw = weir.connect("op_logging")?;
    raw.query("select 1")?;
    raw.terminate();
    let refused = refusal(weir.connect_as("nobody", "op_logging"));
    ensure!(refused.contains("28000"), "{refused}");
    weir.signal("TERM")?;
    weir.wait_exit(PATIENCE)?;
    Ok(weir.log())
}

#[test]
fn each_kind_of_line_can_be_switched_off() -> Result<()> {
    let server = Server::new("op_logging")?;
    let off = [
        ("log_connections", "0"),
        ("log_disconnections", "0"),
        ("log_pooler_errors", "0"),
    ];
    let (all, none) = (log(&server, &[])?, log(&server, &off)?);
    for line in [
        "LOG C-0x",
        "login attempt: db=op_logging",
        "closing because: client close request",
        "new connection to server",
        "pooler error: \"trust\" authentication failed",
    ] {
        ensure!(all.contains(line), "{line:?} is missing: {all}");
        ensure!(!none.contains(line), "{line:?} in {none}");
    }
    Ok(())
}

#[test]
fn statistics_are_logged_every_stats_period_unless_switched_off() -> Result<()> {
    let server = Server::new("op_logging_stats")?;
    let config = server.config().set("stats_period", "1");
    let weir = Weir::start(&config)?;
    weir.wait_log("stats: ")?;
    let quiet = Weir::start(&config.set("log_stats", "0"))?;
    // Longer than one that logs them took for two.
    let count = || weir.log().matches("stats: ").count();
    let before = count();
    weir_conformance::wait_until("two more periods", PATIENCE, || Ok(count() >= before + 2))?;
    ensure!(!quiet.log().contains("stats: "), "{}", quiet.log());
    Ok(())
}

#[test]
fn verbose_adds_what_happens_in_between() -> Result<()> {
    const WAITS: &str = "waits for a server";
    let server = Server::new("op_logging_verbose")?;
    let config = server.config().set("default_pool_size", "1");
    let wait = |config: &Config| -> Result<Weir> {
        let weir = Weir::start(config)?;
        let mut clients = clients(&weir, "op_logging_verbose", 2)?;
        clients[0].query("begin")?;
        send_all(&mut clients[1..], "select 1")?;
        weir.wait_pool("op_logging_verbose", "cl_waiting", 1)?;
        Ok(weir)
    };
    wait(&config.clone().set("verbose", "1"))?.wait_log(WAITS)?;
    let mut quiet = wait(&config)?;
    quiet.signal("QUIT")?;
    quiet.wait_exit(PATIENCE)?;
    ensure!(!quiet.log().contains(WAITS), "{}", quiet.log());
    Ok(())
}
