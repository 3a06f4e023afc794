//! Permissions are checked at each command (SEC-44), and roles do not pass to other clients with a
//! server (SEC-50).

use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::Weir;
use weir_conformance::frontend;

use crate::support::refusal;

/// Commands that change something, in several spellings.
const CHANGES: [&str; 24] = [
    "RELOAD",
    "reload;",
    " \n RELOAD",
    "SHUTDOWN",
    "SHUTDOWN WAIT_FOR_SERVERS",
    "SHUTDOWN WAIT_FOR_CLIENTS",
    "PAUSE",
    "PAUSE postgres",
    "RESUME",
    "DISABLE postgres",
    "ENABLE postgres",
    "KILL postgres",
    "KILL_CLIENT 1",
    "RECONNECT",
    "SUSPEND",
    "WAIT_CLOSE postgres",
    "SET verbose = 3",
    "SET auth_type = 'any'",
    "SET admin_users = 'watcher'",
    "SET conffile = '/etc/passwd'",
    "SHOW CONFIG; RELOAD",
    "/* SHOW */ RELOAD",
    "-- SHOW\nRELOAD",
    "SELECT 1; SHUTDOWN",
];

#[test]
fn sec_44_those_who_may_look_may_not_touch() -> Result<()> {
    let postgres = Postgres::shared()?;
    let config = Config::to(postgres.port())
        .userlist("\"postgres\" \"\"\n\"watcher\" \"\"\n\"nobody\" \"\"\n")
        .set("stats_users", "watcher")
        .set("log_stats", "0");
    let mut weir = Weir::start(&config)?;
    let mut client = weir.connect("postgres")?;
    client.query("begin")?;
    let mut watcher = weir.connect_as("watcher", "pgbouncer")?;
    let show = |raw: &mut Raw| -> Result<String> {
        let rows = raw.query("SHOW CONFIG")?;
        Ok(format!("{rows:?}"))
    };
    let before = show(&mut watcher)?;
    for command in CHANGES {
        let answer = watcher.ask(&frontend::query(command))?;
        let error = answer.iter().find(|message| message.tag == b'E');
        ensure!(error.is_some(), "{command} worked: {answer:?}");
    }
    ensure!(
        show(&mut watcher)? == before,
        "the configuration has changed"
    );
    ensure!(!weir.log().contains("reload done"), "it was reloaded");
    client.query("commit")?;
    ensure!(client.query_one("select 1")? == "1");
    let text = refusal(weir.connect_as("nobody", "pgbouncer"));
    ensure!(text.contains("FATAL"), "{text:?}");
    weir.check_healthy()
}

/// RESET ALL would keep both: they are not among the settings it resets.
#[test]
fn sec_50_a_role_does_not_go_to_the_next_session() -> Result<()> {
    let postgres = Postgres::start(&Default::default())?;
    let mut beside = Raw::connect(postgres.port(), "postgres")?;
    beside.query("create role lesser; create role other")?;
    let who = "select current_user || ' ' || session_user || ' ' || pg_backend_pid()";
    let config = Config::to(postgres.port())
        .set("pool_mode", "session")
        .set("default_pool_size", "1");
    let mut weir = Weir::start(&config)?;
    for change in ["set role lesser", "set session authorization other"] {
        let mut first = weir.connect("postgres")?;
        let pid = first.query_one("select pg_backend_pid()")?;
        first.query(change)?;
        first.terminate();
        let mut second = weir.connect("postgres")?;
        let got = second.query_one(who)?;
        // The server must be the same, otherwise the test proves nothing.
        ensure!(got == format!("postgres postgres {pid}"), "{change}: {got}");
    }
    weir.check_healthy()
}
