//! Connections of a world that are protected by the record layer without cryptography.

use crossbeam_channel::{Receiver, Sender, bounded};
use weir_testkit::cuts::Dice;

use super::World;
use crate::driver::memory::{Layer, Peer};
use crate::offload::{Job, Offload};
use crate::tls::stub::take_damage;

/// Capacity of the queue of handshakes: more than there are connections.
const JOBS_MAX: usize = 4096;

/// Number of bytes that a worker receives at once: few, so that rows do not fit.
const CHUNK: usize = 700;

/// Helpers that work when a test says so.
pub(super) struct Helpers {
    jobs: Sender<Job>,
    inbox: Receiver<Job>,
}

impl Default for Helpers {
    fn default() -> Self {
        let (jobs, inbox) = bounded(JOBS_MAX);
        Self { jobs, inbox }
    }
}

impl Helpers {
    pub(super) fn offload(&self) -> Offload {
        Offload::by_hand(self.jobs.clone())
    }
}

/// Protection of the peers' ends of connections.
#[derive(Debug)]
pub(in super::super) struct Protecting {
    dice: Dice,
    /// True if clients are offered TLS.
    for_clients: bool,
    /// True if servers are asked for TLS.
    for_servers: bool,
    servers_have_tls: bool,
    /// True if handshakes may be spoilt.
    pub(in super::super) spoils: bool,
}

impl Protecting {
    /// Makes the protection for a world with this configuration.
    pub(in super::super) fn new(seed: u64, lines: &str) -> Self {
        let mut dice = Dice::new(seed);
        let may_lack = lines.contains("server_tls_sslmode = prefer");
        Self {
            for_clients: lines.contains("client_tls_sslmode"),
            for_servers: lines.contains("server_tls_sslmode"),
            servers_have_tls: !may_lack || dice.below(3) > 0,
            spoils: dice.below(2) == 0,
            dice,
        }
    }
}

impl World {
    /// Makes new peers use TLS from now on.
    pub(in super::super) fn protect(&mut self, protecting: Protecting) {
        self.chunk = CHUNK;
        self.protecting = Some(protecting);
    }

    /// Makes a new client use TLS, as most do where it is offered.
    pub(in super::super) fn protect_caller(&mut self, caller: usize) {
        if let Some(protecting) = &mut self.protecting
            && protecting.for_clients
            && protecting.dice.below(4) > 0
        {
            let layer = Layer::connecting(protecting.dice.roll(), protecting.spoils);
            self.callers[caller].peer.protect(layer);
        }
    }

    /// Makes a new server connection use TLS if it is asked to.
    pub(super) fn protect_server(&mut self, peer: &Peer) {
        if let Some(protecting) = self.protecting.as_mut().filter(|it| it.for_servers) {
            let has_tls = protecting.servers_have_tls;
            let seed = protecting.dice.roll();
            peer.protect(Layer::accepting(seed, has_tls, protecting.spoils));
        }
    }

    /// Runs the next job of the helpers. True if there was one.
    pub(in super::super) fn help(&self) -> bool {
        let job = self.helpers.inbox.try_recv();
        job.map(|job| job()).is_ok()
    }

    pub(super) fn help_all(&self) -> bool {
        let mut helped = false;
        while self.help() {
            helped = true;
        }
        helped
    }

    /// Checks that records are in order and undamaged in both directions.
    #[track_caller]
    pub(super) fn check_records() {
        let damage = take_damage();
        assert!(damage.is_none(), "{}", damage.unwrap_or_default());
    }
}
