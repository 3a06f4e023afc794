//! PostgreSQL restarts in the middle of its work, as `pg_ctl restart` does.

use std::collections::BTreeMap;
use std::env;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::Weir;
use weir_conformance::clock;
use weir_conformance::frontend;
use weir_conformance::postgres::Options;
use weir_conformance::process;
use weir_conformance::tools;
use weir_conformance::wait_until;

use crate::support::PATIENCE;

const CLIENTS: usize = 12;
/// Number of servers that they share.
const POOL: u64 = 4;
const RESTARTS: u64 = 2;
/// Clients stop only after this restart.
const OVER: u64 = u64::MAX;

/// Errors that one client received during the restarts, by SQLSTATE.
type Errors = BTreeMap<String, u64>;

/// PostgreSQL's texts with 57P03 before it accepts connections.
const NOT_NOW: [&str; 3] = [
    "starting up",
    "not yet accepting connections",
    "in recovery mode",
];

/// Creates work for the recovery, so that PostgreSQL is not ready at once.
const WORK: &str = "create table if not exists work (id int, pad text); \
    insert into work select i, repeat('x', 200) from generate_series(1, 200000) i; delete from work";

/// Runs queries and reconnects after every error, until the restarts are over and it has been served
/// since.
fn works(port: u16, served: &AtomicU64, phase: &AtomicU64, errors: &Mutex<Errors>) -> Result<()> {
    let note = |code: &str| {
        let mut errors = errors.lock().unwrap_or_else(PoisonError::into_inner);
        *errors.entry(code.to_owned()).or_default() += 1;
    };
    loop {
        let mut client = match Raw::connect(port, "postgres") {
            Ok(client) => client,
            Err(error) => {
                note(&error.to_string());
                continue;
            }
        };
        loop {
            let is_over = phase.load(SeqCst) == OVER;
            let Ok(messages) = client.ask(&frontend::query("select 1")) else {
                note("end of the connection");
                break;
            };
            if let Some(error) = messages.iter().find(|message| message.tag == b'E') {
                note(&error.error());
                break;
            }
            served.fetch_add(1, SeqCst);
            if is_over {
                return Ok(());
            }
        }
    }
}

/// Waits until every client has been served since the call.
fn wait_served(served: &[AtomicU64]) -> Result<()> {
    let before: Vec<_> = served.iter().map(|count| count.load(SeqCst)).collect();
    wait_until("all clients to be served", PATIENCE * 6, || {
        let pairs = served.iter().zip(&before);
        Ok(pairs
            .into_iter()
            .all(|(now, before)| now.load(SeqCst) > *before))
    })
}

/// Restarts PostgreSQL under the load of all clients. Returns their errors, and Weir's log.
fn errors_of_restarts(
    more: &[(&'static str, &str)],
    restart: impl Fn(&mut Postgres) -> Result<()>,
) -> Result<(Errors, String)> {
    let mut postgres = Postgres::start(&Options::default())?;
    let config: Config = Config::to(postgres.port())
        .set("default_pool_size", &POOL.to_string())
        .set("server_login_retry", "1")
        .set("min_time_between_holds", "0");
    let set = |config: Config, (option, value): &(&'static str, &str)| config.set(option, value);
    let config = more.iter().fold(config, set);
    let weir = Weir::start(&config)?;
    let served: Vec<_> = (0..CLIENTS).map(|_| AtomicU64::new(0)).collect();
    let (phase, errors) = (AtomicU64::new(0), Mutex::new(Errors::new()));
    let (port, phase, errors) = (weir.port(), &phase, &errors);
    thread::scope(|scope| -> Result<()> {
        let clients = served.iter();
        let clients: Vec<_> = clients
            .map(|served| scope.spawn(move || works(port, served, phase, errors)))
            .collect();
        let restarted = (0..RESTARTS).try_for_each(|_| {
            wait_served(&served)?;
            Raw::connect(postgres.port(), "postgres")?.query(WORK)?;
            restart(&mut postgres)?;
            wait_served(&served)
        });
        phase.store(OVER, SeqCst);
        restarted?;
        for client in clients {
            client.join().ok().context("a client panicked")??;
        }
        Ok(())
    })?;
    let errors = errors.lock().unwrap_or_else(PoisonError::into_inner);
    Ok((errors.clone(), weir.log()))
}

#[test]
fn only_requests_under_way_fail_in_a_restart() -> Result<()> {
    for (restart, codes) in [
        (
            Postgres::restart_fast as fn(&mut Postgres) -> Result<()>,
            ["57P01", "08007"],
        ),
        (Postgres::restart_immediately, ["57P02", "08007"]),
    ] {
        let (errors, log) = errors_of_restarts(&[("failover_hold", "60")], restart)?;
        let is_known = |error: &String| codes.iter().any(|code| error.contains(code));
        ensure!(errors.keys().all(is_known), "{errors:?}\n{log}");
        // Each server had one request at most.
        let count: u64 = errors.values().sum();
        ensure!(count <= RESTARTS * POOL, "{errors:?}\n{log}");
        ensure!(log.contains("clients wait for"), "{log}");
    }
    Ok(())
}

#[test]
fn no_read_fails_in_a_restart() -> Result<()> {
    for restart in [Postgres::restart_fast, Postgres::restart_immediately] {
        // With the catalogue, Weir knows what reads.
        let (errors, log) = errors_of_restarts(&[("catalogue_refresh", "15")], restart)?;
        ensure!(errors.is_empty(), "{errors:?}\n{log}");
        ensure!(log.contains("clients wait for"), "{log}");
    }
    Ok(())
}

#[test]
fn nobody_is_told_that_postgresql_is_starting_up() -> Result<()> {
    let restart = Postgres::restart_immediately;
    let (errors, log) = errors_of_restarts(&[("failover_hold", "0")], restart)?;
    let waited = NOT_NOW.iter().any(|text| log.contains(text));
    ensure!(waited, "PostgreSQL was never seen starting up:\n{log}");
    ensure!(
        !errors.keys().any(|error| error.contains("57P03")),
        "{errors:?}"
    );
    Ok(())
}

/// Number of clients that wait at once. More by hand: HELD=10000, with a higher `ulimit -Hn`.
const HELD: usize = 400;

#[test]
fn rt_42_clients_that_waited_for_postgresql_are_all_served_when_it_is_back() -> Result<()> {
    let held = env::var("HELD").ok().and_then(|text| text.parse().ok());
    let held: usize = held.unwrap_or(HELD);
    tools::require_open_files(held as u64 + 1000)?;
    let mut postgres = Postgres::start(&Options::default())?;
    let config: Config = Config::to(postgres.port())
        .set("default_pool_size", "20")
        .set("max_client_conn", "20000")
        .set("query_wait_notify", "0");
    let weir = Weir::start(&config)?;
    let clients = (0..held).map(|_| weir.connect("postgres"));
    let mut clients: Vec<Raw> = clients.collect::<Result<_>>()?;
    clients
        .first_mut()
        .context("no client")?
        .query("select 1")?;
    let idle = process::rss(weir.pid())?;
    postgres.restart_around(|| {
        for client in &mut clients {
            client.send(&frontend::query("select 1"))?;
        }
        let waiting = i64::try_from(held)?;
        weir.wait_pool("postgres", "cl_waiting", waiting)
    })?;
    let waited = process::rss(weir.pid())?;
    let start = clock::now();
    let mut first = None;
    for client in &mut clients {
        let answer = client.read_until_ready()?;
        ensure!(
            !answer.iter().any(|message| message.tag == b'E'),
            "an error"
        );
        first.get_or_insert_with(clock::now);
    }
    let first = first.context("no client")?;
    println!(
        "{held} clients waited: {} KiB more for all, the first answer after {:?}, the last {:?} later",
        waited.saturating_sub(idle) / 1024,
        first.duration_since(start),
        clock::now().duration_since(first),
    );
    let logins = weir.log().matches("new connection to server").count();
    // The pool's size, and tries that met a PostgreSQL that was not ready.
    ensure!(logins <= 2 * 20, "{logins} logins");
    Ok(())
}
