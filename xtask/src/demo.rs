//! `cargo xtask demo`: runs the same pgbench direct, through PgBouncer and through Weir, in short alternating rounds, and
//! shows the results side by side. Then runs another load through a pool that determines its own size, and checks the size
//! that it finds. Starts everything it needs and stops it again.

mod compare;
mod load;
mod search;

use std::io::{IsTerminal, stdout};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use weir_lab::interrupt::Interrupt;
use weir_lab::ports::free_port;
use weir_lab::postgres::{Cluster, DATABASE, Programs, Settings, USER, answers};
use weir_lab::process::raise_open_files;
use weir_lab::weir::Weir;

use self::compare::Side;
use crate::pgbouncer::{self, PgBouncer};
use crate::weir::weir_binary;

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// Rounds; each runs once direct, through PgBouncer, and through Weir with one worker and with all
    #[arg(long, default_value_t = 4)]
    rounds: u32,
    /// Seconds that are measured per run
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Clients of pgbench
    #[arg(long, default_value_t = 100)]
    clients: u32,
    /// Words about the build of Weir, shown below the figures
    #[arg(long, hide = true)]
    about_build: Option<String>,
}

const WEIR_PORT: u16 = 6432;
/// Servers of each pool of a fixed size, by both poolers' default.
const SERVERS: u32 = 20;
/// Servers that the pool with a size of its own may have, by its default.
const SERVERS_MAX: u32 = 100;
const SCALE: u32 = 10;
const STEPS: u32 = 5;

/// Programs that all parts of the demo use.
struct Stage<'a> {
    flags: &'a Flags,
    cluster: &'a Cluster,
    /// Path of the program weir.
    binary: &'a Path,
    interrupt: &'a Interrupt,
}

/// Runs the demo.
///
/// # Errors
/// If anything cannot be started, if a run fails, or on Ctrl-C before the last table was shown.
pub(crate) fn run(flags: &Flags) -> Result<()> {
    let interrupt = Interrupt::install()?;
    raise_open_files()?;
    let binary = weir_binary()?;

    step(1, "Starting a throw-away PostgreSQL");
    let connections = flags.clients + 3 * SERVERS + 2 * SERVERS_MAX + 20;
    let cluster = Cluster::start(&Programs::find()?, Settings::new(connections))?;
    note(&format!(
        "it listens on {} and vanishes when the demo ends",
        cluster.address()
    ));
    interrupt.check()?;

    step(2, "Filling pgbench's tables (1,000,000 accounts)");
    let filled = cluster.fill(SCALE);
    // Ctrl-C reaches pgbench too; report the interrupt rather than pgbench's failure.
    interrupt.check()?;
    filled?;

    let stage = Stage {
        flags,
        cluster: &cluster,
        binary: &binary,
        interrupt: &interrupt,
    };
    stage.compare()?;
    let weir = stage.find_size()?;
    try_it(&weir, &interrupt);
    println!("Stopping Weir and PostgreSQL.");
    Ok(())
}

impl Stage<'_> {
    /// Compares the poolers with pools of the same size, and stops them again.
    fn compare(&self) -> Result<()> {
        step(3, "Putting Weir in front, without a configuration file");
        let weir = self.weir("20")?;
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let one_worker = self.weir_at(address, "20", &[("WEIR_WORKERS", "1")])?;
        note(&format!("weir run --upstream {}", self.cluster.address()));
        note(
            "and once more with one worker, as PgBouncer has one thread; by default there is a worker per core",
        );
        let mut sides = vec![Side::direct(self.cluster)];
        let pgbouncer = match pgbouncer::installed() {
            Some(name) => {
                note(&format!(
                    "{name} beside it; all pool transactions over {SERVERS} servers, as by default"
                ));
                Some(PgBouncer::start(self.cluster, SERVERS, self.clients_max())?)
            }
            None => {
                note("PgBouncer is not installed and left out (Debian: apt-get install pgbouncer)");
                None
            }
        };
        sides.extend(pgbouncer.as_ref().map(Side::pgbouncer));
        sides.push(Side::weir_with_one_worker(&one_worker));
        sides.push(Side::weir(&weir));
        let clients = self.flags.clients;
        step(4, &format!("pgbench -S with {clients} clients, by turns"));
        compare::measure(self, &mut sides)?;
        println!("\n{}", compare::summary(&sides, clients));
        if let Some(about) = &self.flags.about_build {
            println!("{about}\n");
        }
        Ok(())
    }

    /// Lets a pool find its size, and returns the Weir that has it.
    fn find_size(&self) -> Result<Weir> {
        step(5, "A pool that finds its size (default_pool_size = auto)");
        let weir = self.weir("auto")?;
        let found = search::run(self, &weir)?;
        search::check(self, found)?;
        search::show(self, &weir)?;
        Ok(weir)
    }

    /// Starts a Weir with this size of its pool, on its default port if that is free.
    fn weir(&self, size: &str) -> Result<Weir> {
        let mut address = SocketAddr::from(([127, 0, 0, 1], WEIR_PORT));
        if answers(address) {
            address.set_port(free_port()?);
        }
        self.weir_at(address, size, &[])
    }

    fn weir_at(&self, address: SocketAddr, size: &str, more: &[(&str, &str)]) -> Result<Weir> {
        let clients_max = self.clients_max().to_string();
        let mut options = vec![("WEIR_MAX_CLIENT_CONN", clients_max.as_str())];
        if size != SERVERS.to_string() {
            options.push(("WEIR_DEFAULT_POOL_SIZE", size));
        }
        options.extend_from_slice(more);
        let command = Command::new(self.binary);
        Ok(Weir::start(
            command,
            address,
            self.cluster.address(),
            &options,
        )?)
    }

    /// Clients that each pooler has room for: those of the load, those of the run before that are still leaving, and consoles.
    fn clients_max(&self) -> u32 {
        2 * self.flags.clients + 10
    }
}

/// Waits until Ctrl-C with everything running, if standard output is a terminal.
fn try_it(weir: &Weir, interrupt: &Interrupt) {
    let (host, port) = (weir.address().ip(), weir.address().port());
    let psql = format!("psql -h {host} -p {port} -U {USER} {DATABASE}");
    if !stdout().is_terminal() {
        println!("With a terminal the demo would now wait for you to try: {psql}");
        return;
    }
    let console =
        |command: &str| format!("psql -h {host} -p {port} -U {USER} pgbouncer -xc '{command}'");
    println!(
        "Try it from another terminal:\n\n    {psql}\n    {}\n    {}\n",
        console("SHOW POOL_SIZE"),
        console("SHOW POOLS")
    );
    println!("Ctrl-C stops everything.");
    // The interrupt ends this loop.
    while interrupt.wait(Duration::from_secs(3600)).is_ok() {}
    println!();
}

fn step(number: u32, what: &str) {
    println!("[{number}/{STEPS}] {what}");
}

fn note(what: &str) {
    println!("      {what}");
}
