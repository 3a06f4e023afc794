//! Lines of the log.

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::Weir;
use weir_conformance::frontend;

use crate::support::PATIENCE;
use crate::support::Server;
use crate::support::clients;
use crate::support::refusal;
use crate::support::send_all;

/// Log of a login, a refused login, a disconnect and a period of statistics.
fn log(server: &Server, settings: &[(&str, &str)]) -> Result<String> {
    let config = server.config().set("stats_period", "1");
    let config = settings
        .iter()
        .fold(config, |config, (key, value)| config.set(key, value));
    let mut weir = Weir::start(&config)?;
    let mut raw = weir.connect(server.database)?;
    raw.query("select 1")?;
    raw.terminate();
    let refused = refusal(weir.connect_as("nobody", server.database));
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
        "pooler error: \"trust\" authentication failed for user \"nobody\"",
    ] {
        ensure!(all.contains(line), "{line:?} is missing: {all}");
        ensure!(!none.contains(line), "{line:?} in {none}");
    }
    Ok(())
}

#[test]
fn commands_of_the_console_are_logged_with_their_client_and_what_they_failed_with() -> Result<()> {
    let server = Server::new("op_logging_console")?;
    let mut weir = Weir::start(
        &server
            .config()
            .set("stats_users", "looker")
            .userlist("\"postgres\" \"\"\n\"looker\" \"\"\n"),
    )?;
    let mut console = weir.connect("pgbouncer")?;
    for (command, line) in [
        ("RELOAD", "RELOAD command issued"),
        ("SET query_timeout = 7", "SET query_timeout command issued"),
        ("PAUSE nowhere", "PAUSE 'nowhere' command issued"),
        ("SHOW NOTHING", "pooler error: "),
        ("SET query_timeout = soon", "pooler error: "),
        ("RESUME", "pooler error: "),
    ] {
        let earlier = weir.log().len();
        let answer = console.ask(&frontend::query(command))?;
        let log = weir.log().split_off(earlier);
        let said = log.lines().find(|told| told.contains(line));
        let said = said.with_context(|| format!("{command}: no {line:?} in {log:?}"))?;
        ensure!(said.contains(": pgbouncer/postgres@127.0.0.1:"), "{said}");
        if let Some(error) = answer.iter().find(|message| message.tag == b'E') {
            let text = error.field(b'M').unwrap_or_default();
            let is_told = |line: &str| line.ends_with(&format!("pooler error: {text}"));
            ensure!(log.lines().any(is_told), "{command}: {text} in {log:?}");
        }
    }
    // Whoever may only look is told so, and named.
    let mut looker = weir.connect_as("looker", "pgbouncer")?;
    looker.ask(&frontend::query("RELOAD"))?;
    let log = weir.log();
    let is_told = |line: &str| {
        line.contains(": pgbouncer/looker@127.0.0.1:")
            && line.contains("pooler error: admin access")
    };
    ensure!(log.lines().any(is_told), "{log}");
    console.send(&frontend::query("SHUTDOWN"))?;
    weir.wait_exit(PATIENCE)?;
    let log = weir.log();
    let said = log
        .lines()
        .find(|line| line.contains("SHUTDOWN command issued"));
    ensure!(
        said.is_some_and(|line| line.contains(": pgbouncer/postgres@")),
        "{log}"
    );
    Ok(())
}

#[test]
fn statistics_are_logged_every_stats_period_unless_switched_off() -> Result<()> {
    let server = Server::new("op_logging_stats")?;
    let config = server.config().set("stats_period", "1");
    let weir = Weir::start(&config)?;
    weir.wait_log("stats: ")?;
    says(
        &weir.log(),
        "LOG stats: # xacts/s, # queries/s, # client parses/s, # server parses/s, # binds/s, # client logins/s, \
         in # B/s, out # B/s, xact # us, query # us, wait # us",
    )?;
    let quiet = Weir::start(&config.set("log_stats", "0"))?;
    // Longer than a Weir that logs them took for two.
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

/// True if a text matches a pattern, in which `#` stands for digits, `%` for hexadecimal digits, `*` for any
/// text.
fn is_like(text: &str, pattern: &str) -> bool {
    let Some(first) = pattern.chars().next() else {
        return text.is_empty();
    };
    let rest = &pattern[first.len_utf8()..];
    let run = |fits: fn(char) -> bool| text.find(|c| !fits(c)).unwrap_or(text.len());
    match first {
        '#' => {
            run(|c| c.is_ascii_digit()) > 0 && is_like(&text[run(|c| c.is_ascii_digit())..], rest)
        }
        '%' => {
            let end = run(|c| c.is_ascii_hexdigit());
            end > 0 && is_like(&text[end..], rest)
        }
        '*' => (0..=text.len()).any(|at| text.get(at..).is_some_and(|tail| is_like(tail, rest))),
        literal => text
            .strip_prefix(literal)
            .is_some_and(|tail| is_like(tail, rest)),
    }
}

/// Fails unless some line has the format of PgBouncer's lines and matches the pattern.
fn says(log: &str, pattern: &str) -> Result<()> {
    let pattern = format!("#-#-# #:#:#.# * [#] {pattern}");
    ensure!(
        log.lines().any(|line| is_like(line, &pattern)),
        "no line is like {pattern:?}:\n{log}"
    );
    Ok(())
}

#[test]
fn the_main_lines_are_pgbouncers() -> Result<()> {
    let server = Server::new("op_logging_lines")?;
    let log = log(&server, &[])?;
    // The period of statistics ends with the process at the latest.
    for line in [
        "LOG kernel file descriptor limit: # (hard: #); max_client_conn: 400, max expected fd use: #",
        "LOG listening on 127.0.0.1:#",
        "LOG process up: Weir #.#.#, 2 workers",
        "LOG registered new auto-database: op_logging_lines",
        "LOG C-0x%: op_logging_lines/postgres@127.0.0.1:# login attempt: db=op_logging_lines user=postgres tls=no replication=no",
        "LOG S-0x%: op_logging_lines/postgres@127.0.0.1:# new connection to server (from 127.0.0.1:#)",
        "LOG C-0x%: op_logging_lines/postgres@127.0.0.1:# closing because: client close request (age=#s)",
        "LOG C-0x%: op_logging_lines/nobody@127.0.0.1:# login attempt: db=op_logging_lines user=nobody tls=no replication=no",
        "WARNING C-0x%: op_logging_lines/nobody@127.0.0.1:# pooler error: \"trust\" authentication failed for user \"nobody\"",
        "LOG SIGTERM: shutting down, *",
        "LOG stopped",
    ] {
        says(&log, line)?;
    }
    Ok(())
}

#[test]
fn servers_that_refuse_or_come_from_the_reserve_are_told() -> Result<()> {
    let server = Server::new("op_logging_servers")?;
    let config = server
        .config()
        .userlist("\"postgres\" \"\"\n\"op_no_role\" \"\"\n")
        .set("default_pool_size", "1")
        .set("reserve_pool_size", "1")
        .set("reserve_pool_timeout", "0.1");
    let quiet = Weir::start(&config.clone().set("log_pooler_errors", "0"))?;
    ensure!(
        quiet
            .connect_as("op_no_role", "op_logging_servers")
            .is_err()
    );
    quiet.wait_log("closing because: login failed")?;
    quiet.wait_log("closing because: server login failed")?;
    ensure!(!quiet.log().contains("pooler error"), "{}", quiet.log());
    let weir = Weir::start(&config)?;
    ensure!(weir.connect_as("op_no_role", "op_logging_servers").is_err());
    let mut clients = clients(&weir, "op_logging_servers", 2)?;
    for client in &mut clients {
        client.query("begin")?;
    }
    let log = weir.log();
    for line in [
        "WARNING S-0x%: op_logging_servers/op_no_role@127.0.0.1:# server login failed: FATAL role \"op_no_role\" does not exist",
        "LOG S-0x%: op_logging_servers/op_no_role@127.0.0.1:# closing because: login failed (age=#s)",
        "WARNING C-0x%: op_logging_servers/op_no_role@127.0.0.1:# pooler error: server login failed: FATAL role *",
        "WARNING S-0x%: op_logging_servers/postgres@*:# taking connection from reserve_pool",
    ] {
        says(&log, line)?;
    }
    Ok(())
}

#[test]
fn queries_of_ours_that_fail_are_told_by_name() -> Result<()> {
    let server = Server::new("op_logging_queries")?;
    let port = server.postgres.port();
    let entry = |name: &str, more: &str| {
        format!("{name} = host=127.0.0.1 port={port} dbname=op_logging_queries {more}")
    };
    let config = Config::new()
        .database(&entry("reset", "pool_mode=session"))
        .database(&entry("begin", "connect_query='select 1/0'"));
    let weir = Weir::start(&config.set("server_reset_query", "select 1/0"))?;
    let mut raw = weir.connect("reset")?;
    raw.query("select 1")?;
    raw.terminate();
    weir.wait_log("closing because: reset query failed")?;
    let text = refusal(weir.connect("begin"));
    ensure!(
        text.contains("cached error: exec_on_connect query failed"),
        "{text}"
    );
    Ok(())
}

#[test]
fn a_pool_that_goes_is_told() -> Result<()> {
    let server = Server::new("op_logging_pool")?;
    let config = server.config();
    let config = ["pool_idle_timeout", "server_idle_timeout", "stats_period"]
        .iter()
        .fold(config, |config, key| config.set(key, "1"));
    let weir = Weir::start(&config)?;
    weir.connect("op_logging_pool")?.query("select 1")?;
    weir.wait_log("cleaning up")?;
    says(
        &weir.log(),
        "LOG cleaning up idle pool for user postgres on db op_logging_pool because: pool idle timeout (age= #s)",
    )
}

#[test]
fn lines_that_repeat_are_limited_and_counted() -> Result<()> {
    const FAILURES: usize = 60;
    const WRITTEN: usize = 20;
    let mut weir = Weir::start(&Config::new().database("only = host=127.0.0.1"))?;
    for _ in 0..FAILURES {
        ensure!(weir.connect("other").is_err());
    }
    weir.signal("QUIT")?;
    weir.wait_exit(PATIENCE)?;
    let log = weir.log();
    let (counts, lines): (Vec<_>, Vec<_>) = log
        .lines()
        .filter(|line| line.contains("pooler error: database \"other\" does not exist"))
        .partition(|line| line.contains("similar lines within"));
    let count = |line: &&str| -> Option<usize> {
        let (_, rest) = line.split_once("WARNING ")?;
        rest.split_once(' ')?.0.parse().ok()
    };
    let left_out: usize = counts.iter().filter_map(count).sum();
    // A slow machine may need more than one period of ten seconds for this.
    ensure!(left_out > 0 && lines.len() >= WRITTEN, "{log}");
    ensure!(
        left_out + lines.len() == FAILURES,
        "{left_out} and {}: {log}",
        lines.len()
    );
    // Connects and disconnects are always written.
    let came = log.matches("login attempt: db=other").count();
    ensure!(came == FAILURES, "{came}");
    Ok(())
}
