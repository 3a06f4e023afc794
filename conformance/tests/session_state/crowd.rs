//! 256 clients on 8 servers, each with a session of its own: a client that sees another's state, or misses its own,
//! is a fault.
//!
//! `SESSION_STATE_SECONDS` sets the duration (default 6; 120 is the whole test), `SESSION_STATE_SEED` repeats the
//! choices.

use std::env;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use anyhow::ensure;
use weir_conformance::clock;
use weir_conformance::tools;
use weir_conformance::wait_until;

use crate::member;
use crate::member::Member;
use crate::script::on_servers;
use crate::world::Play;
use crate::world::World;

/// Number of simultaneous clients.
const CLIENTS: u64 = 256;
/// Number of servers that they share.
const SERVERS: u32 = 8;

/// State that all members share.
#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    requests: AtomicU64,
    faults: Mutex<Vec<String>>,
}

#[test]
fn nobody_in_a_crowd_sees_anothers_state_or_loses_its_own() -> Result<()> {
    tools::require_open_files(2000)?;
    let number = |name: &str| env::var(name).ok().and_then(|text| text.parse().ok());
    let seconds = number("SESSION_STATE_SECONDS").unwrap_or(6);
    let seed = number("SESSION_STATE_SEED");
    // The default seed is fixed; the order of events is random enough.
    let seed = seed.unwrap_or(1);
    eprintln!("SESSION_STATE_SEED={seed} SESSION_STATE_SECONDS={seconds}");
    let pools = [on_servers("crowd", SERVERS, "A simple: select 1")];
    let settings = [("query_wait_timeout", "60")];
    let world = World::start("crowd", &member::fixture(CLIENTS), &pools, &settings)?;
    let play = Play::simple(0);
    let (port, database) = world.target(&play.alias);

    let shared = Shared::default();
    thread::scope(|scope| -> Result<()> {
        for number in 0..CLIENTS {
            let member = Member::new(port, database, number, CLIENTS, seed);
            let shared = &shared;
            let thread = thread::Builder::new().stack_size(512 * 1024);
            thread.spawn_scoped(scope, move || live(member, shared))?;
        }
        let end = clock::now() + Duration::from_secs(seconds);
        let limit = Duration::from_secs(seconds + 60);
        let waited = wait_until("the end", limit, || {
            Ok(clock::now() >= end || shared.stop.load(Ordering::Relaxed))
        });
        shared.stop.store(true, Ordering::Relaxed);
        waited
    })?;

    let requests = shared.requests.load(Ordering::Relaxed);
    eprintln!("{requests} requests of {CLIENTS} clients on {SERVERS} servers");
    let faults = shared.faults.into_inner();
    let faults = faults.unwrap_or_else(PoisonError::into_inner).join("\n");
    ensure!(
        faults.is_empty(),
        "SESSION_STATE_SEED={seed}, after {requests} requests:\n{faults}"
    );
    ensure!(
        requests > seconds * 20,
        "only {requests} requests in {seconds} s: clients were stuck"
    );
    world.check_clean(&play, SERVERS)
}

/// Connects, works and reconnects, until told to stop or a fault is found.
fn live(mut member: Member, shared: &Shared) {
    while !shared.stop.load(Ordering::Relaxed) {
        let outcome = member.live_once(&|| shared.stop.load(Ordering::Relaxed));
        let requests = member.take_requests();
        shared.requests.fetch_add(requests, Ordering::Relaxed);
        if let Err(error) = outcome {
            let faults = shared.faults.lock();
            let mut faults = faults.unwrap_or_else(PoisonError::into_inner);
            // Ten faults are enough; all clients stop.
            if faults.len() < 10 {
                faults.push(format!("{error:#}"));
            }
            shared.stop.store(true, Ordering::Relaxed);
        }
    }
}
