//! Threads of the load: the clients, and for each host a direct session whose writes show the gap of the cluster itself.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;
use std::time::Instant;

use anyhow::Result;
use anyhow::anyhow;

use super::Options;
use super::client::Client;
use super::client::Signals;
use super::ledger::Record;
use super::subject::Entrance;
use crate::Raw;
use crate::clock::now;
use crate::cluster::LIMIT;
use crate::wait_until;

/// Pause between two writes of a direct session, and between its logins.
const PULSE: Duration = Duration::from_millis(20);
/// Time limit of a direct write, longer than a commit waits for a synchronous standby that has gone.
const PULSE_PATIENCE: Duration = Duration::from_secs(10);

/// Running clients.
#[derive(Debug)]
pub(super) struct Load {
    clients: Vec<(Arc<Signals>, JoinHandle<Record>)>,
    pub(super) begin: Instant,
}

impl Load {
    pub(super) fn start(entrance: &Entrance, options: &Options) -> Self {
        let start = |number| {
            let signals = Arc::new(Signals::default());
            let client = Client::new(entrance.clone(), number, options.seed);
            let theirs = Arc::clone(&signals);
            (signals, thread::spawn(move || client.run(&theirs)))
        };
        Self {
            begin: now(),
            clients: (0..options.clients).map(start).collect(),
        }
    }

    /// Waits until each client has succeeded this many times more.
    pub(super) fn wait_successes(&self, more: u64) -> Result<()> {
        let successes = |signals: &Signals| signals.successes.load(Ordering::Relaxed);
        let counts: Vec<u64> = self
            .clients
            .iter()
            .map(|(signals, _)| successes(signals))
            .collect();
        wait_until("a success of each client", LIMIT, || {
            let mut pairs = self.clients.iter().zip(&counts);
            Ok(pairs.all(|((signals, _), before)| successes(signals) >= before + more))
        })
    }

    /// Ends the clients after their present requests, and returns their records as one.
    pub(super) fn stop(self) -> Result<Record> {
        for (signals, _) in &self.clients {
            signals.stop.store(true, Ordering::Relaxed);
        }
        let mut all = Record::default();
        for (_, client) in self.clients {
            all.merge(
                client
                    .join()
                    .map_err(|_| anyhow!("a client has panicked"))?,
            );
        }
        Ok(all)
    }
}

/// Direct sessions that write to whichever host is the primary.
#[derive(Debug)]
pub(super) struct Pulse {
    stop: Arc<AtomicBool>,
    sessions: Vec<JoinHandle<Vec<Instant>>>,
}

impl Pulse {
    /// Table that it writes to.
    pub(super) const TABLE: &'static str = "CREATE TABLE pulse (at timestamptz DEFAULT now())";

    pub(super) fn start(addresses: &[SocketAddr]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let start = |address: &SocketAddr| {
            let (address, stop) = (*address, Arc::clone(&stop));
            thread::spawn(move || beat(address, &stop))
        };
        Self {
            sessions: addresses.iter().map(start).collect(),
            stop,
        }
    }

    /// Ends the sessions, and returns the times of their writes.
    pub(super) fn stop(self) -> Result<Vec<Instant>> {
        self.stop.store(true, Ordering::Relaxed);
        let mut times = Vec::new();
        for session in self.sessions {
            times.extend(
                session
                    .join()
                    .map_err(|_| anyhow!("a pulse has panicked"))?,
            );
        }
        Ok(times)
    }
}

fn beat(address: SocketAddr, stop: &AtomicBool) -> Vec<Instant> {
    let mut times = Vec::new();
    let mut session = None;
    while !stop.load(Ordering::Relaxed) {
        let wrote = match session.take() {
            None => connect(address).map(|raw| (raw, false)),
            Some(raw) => write(raw),
        };
        if let Ok((raw, has_written)) = wrote {
            if has_written {
                times.push(now());
            }
            session = Some(raw);
        }
        thread::park_timeout(PULSE);
    }
    times
}

fn connect(address: SocketAddr) -> Result<Raw> {
    let mut raw = Raw::at(address, PULSE_PATIENCE)?;
    raw.login(&[
        ("user", "postgres"),
        ("database", "postgres"),
        ("application_name", "pulse"),
    ])?;
    Ok(raw)
}

/// Writes a row if the host is a primary; true if it has.
fn write(mut raw: Raw) -> Result<(Raw, bool)> {
    let is_standby = raw.query_one("SELECT pg_is_in_recovery()")? == "t";
    if !is_standby {
        raw.query("INSERT INTO pulse DEFAULT VALUES")?;
    }
    Ok((raw, !is_standby))
}
