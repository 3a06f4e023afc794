//! Clients that send a request and Terminate, then close their socket: PostgreSQL executes the request.

use std::time::Duration;

use anyhow::Result;
use weir_conformance::PoolOptions;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::Target;
use weir_conformance::frontend;
use weir_conformance::wait_until;

use crate::support;

/// Time limit for actions that only a busy machine can delay.
const SOON: Duration = Duration::from_secs(30);
const CLIENTS: usize = 20;

/// Connects a client that sends this request and leaves at once.
fn leave_behind(target: &Target, database: &str, request: &[u8]) -> Result<()> {
    let mut raw = Raw::connect(target.port(), database)?;
    raw.send(&[request, &frontend::terminate()].concat())?;
    Ok(())
}

fn insert(number: usize) -> [Vec<u8>; 2] {
    let sql = format!("insert into done values ({number})");
    let batch = [
        frontend::parse("", &sql, &[]),
        frontend::bind("", "", &[]),
        frontend::execute("", 0),
        frontend::sync(),
    ];
    [frontend::query(&sql), batch.concat()]
}

fn all_are_done(postgres: &Postgres, database: &str, wanted: usize) -> Result<()> {
    let mut direct = Raw::connect(postgres.port(), database)?;
    wait_until("every request", SOON, || {
        let done: usize = direct.query_one("select count(*) from done")?.parse()?;
        Ok(done == wanted)
    })
}

#[test]
fn a_request_before_a_terminate_is_executed_by_whoever_waits_for_a_server() -> Result<()> {
    let (postgres, database) = (Postgres::shared()?, "goodbye_queue");
    postgres.create_database(database)?;
    Raw::connect(postgres.port(), database)?.query("create table done (a int)")?;
    let mut target = support::start(postgres.port(), &PoolOptions::default().pool_size(1))?;
    let mut holder = Raw::connect(target.port(), database)?;
    holder.query("begin")?;
    for number in 0..CLIENTS {
        for request in insert(number) {
            leave_behind(&target, database, &request)?;
        }
    }
    holder.query("commit")?;
    all_are_done(&postgres, database, 2 * CLIENTS)?;
    target.check_healthy()
}

/// Before a client gets its server, Weir queries that server's role and catalogue.
#[test]
fn a_request_before_a_terminate_is_executed_while_its_server_is_asked() -> Result<()> {
    let (postgres, database) = (Postgres::shared()?, "goodbye_asked");
    postgres.create_database(database)?;
    Raw::connect(postgres.port(), database)?.query("create table done (a int)")?;
    let options = PoolOptions::default()
        .pool_size(1)
        .setting("role_check_delay = 0.001")
        .setting("catalogue_refresh = 1");
    let mut target = support::start(postgres.port(), &options)?;
    for number in 0..CLIENTS {
        for request in insert(number) {
            leave_behind(&target, database, &request)?;
        }
    }
    all_are_done(&postgres, database, 2 * CLIENTS)?;
    target.check_healthy()
}
