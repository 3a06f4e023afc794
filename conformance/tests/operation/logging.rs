//! Which lines the log has.

use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Weir;

use crate::support::PATIENCE;
use crate::support::Server;
use crate::support::refusal;

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
    let server = Server::new("op_logging_verbose")?;
    let quiet = Weir::start(&server.config())?;
    let chatty = Weir::start(&server.config().set("verbose", "2"))?;
    for weir in [&quiet, &chatty] {
        weir.connect("op_logging_verbose")?.query("select 1")?;
    }
    let is_chatty = |weir: &Weir| {
        let log = weir.log();
        log.contains("] DEBUG ") || log.contains("] NOISE ")
    };
    weir_conformance::wait_until("a line below LOG", PATIENCE, || Ok(is_chatty(&chatty)))?;
    ensure!(!is_chatty(&quiet), "{}", quiet.log());
    Ok(())
}
