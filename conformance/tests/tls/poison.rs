//! Fifty misbehaving clients with TLS on four servers: no client receives another's answer. The long run is suite
//! `poison`.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use anyhow::anyhow;
use anyhow::ensure;
use weir_conformance::Kind;
use weir_conformance::PoolOptions;
use weir_conformance::clock;
use weir_conformance::wait_until;

use crate::client::Client;
use crate::client::SCHEMA;
use crate::support::Server;

const CLIENTS: u64 = 50;
const TIME: Duration = Duration::from_secs(8);

#[test]
fn nobody_sees_another_clients_answer_in_tls() -> Result<()> {
    let seed = u64::from(std::process::id());
    let server = Server::shared()?;
    server.beside()?.query(SCHEMA)?;
    let mut options = PoolOptions::default().pool_size(4);
    if Kind::from_env()? == Kind::Weir {
        // One address cancels for fifty clients.
        options = options.setting("cancel_requests_per_second = 0");
    }
    let mut target = server.target(options)?;
    let stop = AtomicBool::new(false);
    let requests = AtomicU64::new(0);
    let faults = Arc::new(Mutex::new(Vec::new()));
    let (port, kind) = (target.port(), target.kind());
    let end = clock::now() + TIME;
    thread::scope(|scope| -> Result<()> {
        for number in 0..CLIENTS {
            let dial = server.dial()?;
            let (stop, requests, faults) = (&stop, &requests, &faults);
            scope.spawn(move || {
                let mut client = Client::new(port, kind, number, seed, Some(dial));
                while !stop.load(Ordering::Relaxed) && clock::now() < end {
                    if let Err(error) = client.live_once() {
                        let mut faults = faults.lock().unwrap_or_else(PoisonError::into_inner);
                        let request = client.sequence();
                        faults.push(format!("client {number}, request {request}: {error:#}"));
                        stop.store(true, Ordering::Relaxed);
                    }
                    requests.fetch_add(client.take_requests(), Ordering::Relaxed);
                }
            });
        }
        Ok(())
    })?;
    let faults = faults.lock().map_err(|_| anyhow!("a client panicked"))?;
    ensure!(faults.is_empty(), "seed {seed}: {}", faults.join("\n"));
    let requests = requests.load(Ordering::Relaxed);
    ensure!(
        requests > 500,
        "only {requests} requests: clients were stuck"
    );
    let mut beside = server.beside()?;
    let busy = "select count(*) from pg_stat_activity where datname = 'postgres' \
                and backend_type = 'client backend' and pid <> pg_backend_pid() and state <> 'idle'";
    wait_until("idle backends only", Duration::from_secs(30), || {
        Ok(beside.query_one(busy)? == "0")
    })?;
    target.check_healthy()
}
