//! Limits on clients and the console.

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::Raw;
use weir_conformance::TempDir;
use weir_conformance::Weir;

use crate::support::PATIENCE;
use crate::support::both;
use crate::support::database;
use crate::support::refusal;
use crate::support::row;

const USERS: &str = "\"postgres\" \"\"\n\"drop_stats\" \"\"\n";

#[test]
fn the_console_gets_in_at_max_client_conn() -> Result<()> {
    let postgres = database("drop_full")?;
    let port = postgres.port();
    let config = Config::to(port)
        .set("max_client_conn", "2")
        .set("stats_users", "drop_stats")
        .userlist(USERS);
    both(&config, |pooler| {
        let mut clients = Vec::new();
        for _ in 0..2 {
            let mut client = pooler.connect("drop_full")?;
            ensure!(client.query_one("select 1")? == "1");
            clients.push(client);
        }
        let full = "no more connections allowed (max_client_conn)";
        let refused = refusal(pooler.connect("drop_full"));
        ensure!(refused.contains(full), "{refused:?}");
        let mut console = pooler.connect("pgbouncer")?;
        ensure!(!console.query("SHOW CLIENTS")?.is_empty());
        let mut stats = pooler.connect_as("drop_stats", "pgbouncer")?;
        ensure!(!stats.query("SHOW POOLS")?.is_empty());
        let refused = refusal(pooler.connect("drop_full"));
        ensure!(refused.contains(full), "{refused:?}");
        Ok(())
    })
}

#[test]
fn the_console_has_few_places_beyond_max_client_conn_and_a_unix_socket() -> Result<()> {
    let postgres = database("drop_full_unix")?;
    let port = postgres.port();
    let sockets = TempDir::new()?;
    let config = Config::to(port)
        .set("max_client_conn", "1")
        .set("unix_socket_dir", &sockets.path().to_string_lossy());
    let mut weir = Weir::start(&config)?;
    let _client = weir.connect("drop_full_unix")?;
    let mut consoles = Vec::new();
    for _ in 0..7 {
        consoles.push(weir.connect("pgbouncer")?);
    }
    let mut local = Raw::unix(sockets.path(), weir.port(), PATIENCE)?;
    local.login(&[("user", "postgres"), ("database", "pgbouncer")])?;
    let refused = refusal(weir.connect("pgbouncer"));
    ensure!(refused.contains("(max_client_conn)"), "{refused:?}");
    // A user without a right to the console has no place there.
    drop(consoles);
    let refused = refusal(weir.connect_as("drop_nobody", "pgbouncer"));
    ensure!(refused.contains("(max_client_conn)"), "{refused:?}");
    weir.check_healthy()
}

#[test]
fn consoles_count_among_the_clients_of_their_user_and_database() -> Result<()> {
    let postgres = database("drop_counted")?;
    let port = postgres.port();
    let config = Config::to(port)
        .user("postgres = max_user_client_connections=3")
        .set("max_db_client_connections", "7");
    let mut weir = Weir::start(&config)?;
    let mut console = weir.connect("pgbouncer")?;
    let _client = weir.connect("drop_counted")?;
    let user = row(&mut console, "SHOW USERS", "name", "postgres")?.context("no user")?;
    ensure!(user["current_client_connections"] == "2", "{user:?}");
    let own = row(&mut console, "SHOW DATABASES", "name", "pgbouncer")?.context("no console")?;
    ensure!(own["current_client_connections"] == "1", "{own:?}");
    ensure!(own["max_client_connections"] == "7", "{own:?}");
    let _second = weir.connect("pgbouncer")?;
    for database in ["drop_counted", "pgbouncer"] {
        let refused = refusal(weir.connect(database));
        let text = "client connections exceeded (max_user_client_connections)";
        ensure!(refused.contains(text), "{database}: {refused:?}");
    }
    weir.check_healthy()
}
