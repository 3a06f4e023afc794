//! The poison test: 200 misbehaving clients on 2 workers and 7 servers; no client may receive another's answer.
//!
//! Every row that a client requests carries its number and a sequence. Clients vanish by FIN and RST in the middle of
//! requests and results, cancel, fail, leave transactions open and send half messages. `POISON_SECONDS` (default 120)
//! sets the duration, `POISON_SEED` repeats the choices of an earlier run (the timing depends on the machine).

use std::env;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::anyhow;
use anyhow::ensure;
use client::Client;
use weir_conformance::Kind;
use weir_conformance::PoolOptions;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::Target;
use weir_conformance::clock;
use weir_conformance::postgres;
use weir_conformance::tools;
use weir_conformance::wait_until;

#[path = "poison/client.rs"]
mod client;

/// Number of clients that misbehave at the same time.
const CLIENTS: u64 = 200;
/// Number of servers that they share.
const POOL_SIZE: u32 = 7;

/// State that all clients share.
#[derive(Debug)]
struct Shared {
    port: u16,
    kind: Kind,
    stop: AtomicBool,
    requests: AtomicU64,
    faults: Mutex<Vec<String>>,
}

#[test]
fn nobody_sees_another_clients_answer() -> Result<()> {
    tools::require_open_files(2000)?;
    let seed = env::var("POISON_SEED")
        .ok()
        .and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()) * 1_000_003);
    let seconds = env::var("POISON_SECONDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(120);
    eprintln!("POISON_SEED={seed} POISON_SECONDS={seconds}");

    let options = postgres::Options {
        max_connections: 300,
        ..postgres::Options::default()
    };
    let postgres = Postgres::start(&options)?;
    Raw::connect(postgres.port(), "postgres")?.query(client::SCHEMA)?;
    let pool = PoolOptions::default()
        .pool_size(POOL_SIZE)
        .env("WEIR_WORKERS", "2");
    let mut target = Target::start(&postgres, &pool.setting("query_wait_timeout = 60"))?;
    let shared = Arc::new(Shared {
        port: target.port(),
        kind: target.kind(),
        stop: AtomicBool::new(false),
        requests: AtomicU64::new(0),
        faults: Mutex::new(Vec::new()),
    });

    let clients = start_clients(&shared, seed)?;
    let backends_max = watch(
        &shared,
        postgres.port(),
        Duration::from_secs(seconds),
        &mut target,
    );
    shared.stop.store(true, Ordering::Relaxed);
    for client in clients {
        client
            .join()
            .map_err(|_| anyhow!("a client thread panicked"))?;
    }
    let backends_max = backends_max?;
    let requests = shared.requests.load(Ordering::Relaxed);
    eprintln!("{requests} requests; at most {backends_max} backends at once");
    let faults = shared
        .faults
        .lock()
        .map_err(|_| anyhow!("poisoned"))?
        .join("\n");
    ensure!(
        faults.is_empty(),
        "POISON_SEED={seed}, after {requests} requests:\n{faults}"
    );
    ensure!(
        requests > seconds * 100,
        "only {requests} requests in {seconds} s: clients were stuck"
    );
    target.check_healthy()?;
    check_accounts(&postgres, &target).with_context(|| format!("POISON_SEED={seed}"))
}

fn start_clients(shared: &Arc<Shared>, seed: u64) -> Result<Vec<JoinHandle<()>>> {
    (0..CLIENTS)
        .map(|number| {
            let shared = Arc::clone(shared);
            let thread = thread::Builder::new().stack_size(512 * 1024);
            Ok(thread.spawn(move || run_client(&shared, number, seed))?)
        })
        .collect()
}

/// Connects, misbehaves and reconnects, until told to stop or a fault is found.
fn run_client(shared: &Shared, number: u64, seed: u64) {
    let mut client = Client::new(shared.port, shared.kind, number, seed, None);
    while !shared.stop.load(Ordering::Relaxed) {
        let outcome = client.live_once();
        shared
            .requests
            .fetch_add(client.take_requests(), Ordering::Relaxed);
        if let Err(error) = outcome {
            let fault = format!("client {number}, request {}: {error:#}", client.sequence());
            let mut faults = shared
                .faults
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            // Ten faults are enough; all clients stop.
            if faults.len() < 10 {
                faults.push(fault);
            }
            shared.stop.store(true, Ordering::Relaxed);
        }
    }
}

/// Waits for the end of the run; returns the largest number of backends seen.
fn watch(shared: &Shared, port: u16, length: Duration, target: &mut Target) -> Result<u64> {
    let mut watcher = Raw::connect(port, "watch")?;
    let mut backends_max = 0;
    let end = clock::now() + length;
    wait_until("the end", length + Duration::from_secs(60), || {
        target.check_healthy()?;
        let backends: u64 = watcher.query_one(&backends("true"))?.parse()?;
        backends_max = backends_max.max(backends);
        thread::park_timeout(Duration::from_millis(100));
        Ok(clock::now() >= end || shared.stop.load(Ordering::Relaxed))
    })?;
    // A closed backend still exists for a moment while its successor starts.
    let exact = target.kind() == Kind::Direct || backends_max <= u64::from(2 * POOL_SIZE);
    ensure!(
        exact,
        "{backends_max} backends at once with a pool of {POOL_SIZE}"
    );
    Ok(backends_max)
}

fn backends(condition: &str) -> String {
    format!(
        "select count(*) from pg_stat_activity where backend_type = 'client backend' \
         and datname = 'postgres' and {condition}"
    )
}

/// Checks that after all clients have left the pool has its servers, none busy, and its full capacity.
fn check_accounts(postgres: &Postgres, target: &Target) -> Result<()> {
    let mut watcher = Raw::connect(postgres.port(), "watch")?;
    wait_until("idle backends only", Duration::from_secs(30), || {
        Ok(watcher.query_one(&backends("state <> 'idle'"))? == "0")
    })?;
    if target.kind() == Kind::Direct {
        return Ok(());
    }
    let count: u32 = watcher.query_one(&backends("true"))?.parse()?;
    ensure!(
        count <= POOL_SIZE,
        "{count} backends are left with a pool of {POOL_SIZE}"
    );
    check_console(target)?;
    check_capacity(target.port())
}

fn check_console(target: &Target) -> Result<()> {
    let mut console = Raw::connect(target.port(), "pgbouncer")?;
    let mut last = String::new();
    let quiet = wait_until("quiet in SHOW POOLS", Duration::from_secs(30), || {
        let pools = console.query_named("show pools")?;
        let pool = pools
            .iter()
            .find(|pool| pool.get("database").is_some_and(|name| name == "postgres"));
        let pool = pool.context("SHOW POOLS does not list database postgres")?;
        last = format!("{pool:?}");
        let number = |column: &str| -> Result<u32> {
            Ok(pool
                .get(column)
                .with_context(|| format!("no column {column}"))?
                .parse()?)
        };
        let servers = ["sv_idle", "sv_used", "sv_tested", "sv_login"];
        let servers = servers
            .iter()
            .map(|column| number(column))
            .sum::<Result<u32>>()?;
        let busy = ["cl_active", "cl_waiting", "sv_active"];
        let busy = busy
            .iter()
            .map(|column| number(column))
            .sum::<Result<u32>>()?;
        Ok(busy == 0 && servers <= POOL_SIZE)
    });
    quiet.with_context(|| last)?;
    let clients = console.query_named("show clients")?;
    let others = clients.iter().filter(|client| {
        client
            .get("database")
            .is_some_and(|name| name == "postgres")
    });
    ensure!(
        others.count() == 0,
        "SHOW CLIENTS still lists clients: {clients:?}"
    );
    let lists = console.query_named("show lists")?;
    let used = lists
        .iter()
        .find(|row| row.get("list").is_some_and(|name| name == "used_clients"));
    let used = used
        .and_then(|row| row.get("items"))
        .context("SHOW LISTS has no used_clients")?;
    ensure!(
        used == "1",
        "used_clients is {used} with only the console connected"
    );
    Ok(())
}

/// Checks that seven clients can be in a transaction at the same time: the pool has lost no place.
fn check_capacity(port: u16) -> Result<()> {
    let mut holders = Vec::new();
    let mut pids = Vec::new();
    for number in 0..POOL_SIZE {
        let mut holder = Raw::connect(port, "postgres")?;
        holder
            .query("begin")
            .with_context(|| format!("holder {number}"))?;
        pids.push(holder.query_one("select pg_backend_pid()")?);
        holders.push(holder);
    }
    pids.sort();
    pids.dedup();
    ensure!(
        pids.len() == holders.len(),
        "holders share backends: {pids:?}"
    );
    holders
        .iter_mut()
        .try_for_each(|holder| holder.query("commit").map(drop))
}
