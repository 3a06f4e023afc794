//! Basis of a run: programs, a server of its own, and the recorded environment.

use std::cell::RefCell;
use std::path::PathBuf;

use super::finding::{self, Settings};
use super::options::{Options, Path, Workload};
use crate::collector::psql::{Address, Psql};
use crate::environment::{self, Environment};
use crate::error::{Error, Result};
use crate::postgres::{Cluster, Programs, Settings as Server, USER};
use crate::process::find_program;
use crate::run::Progress;
use crate::wallet::{Store, Wallet};

/// Allowance for connections besides those of the load.
const SPARE: u32 = 20;

pub(super) fn pgbench(options: &Options) -> Result<PathBuf> {
    let programs = match &options.postgres {
        Some(path) => Programs::of(path),
        None => Programs::find(),
    };
    programs
        .and_then(|programs| programs.path("pgbench"))
        .or_else(|_| find_program("pgbench", &[]))
}

pub(super) fn own_server(options: &Options, progress: &mut dyn Progress) -> Result<Cluster> {
    let programs = match &options.postgres {
        Some(path) => Programs::of(path)?,
        None => Programs::find()?,
    };
    progress.line("starting PostgreSQL");
    let most = options.connections.iter().max().copied().unwrap_or(0);
    let mut settings = Server::new(most + SPARE);
    // Commits are measured here, so this temporary server must be as durable as a real one.
    settings.more = [
        "fsync=on",
        "synchronous_commit=on",
        "full_page_writes=on",
        "autovacuum=on",
    ]
    .map(str::to_owned)
    .to_vec();
    settings.more.extend(options.settings.iter().cloned());
    Cluster::start(&programs, settings)
}

pub(super) fn near(cluster: &Cluster) -> Address {
    Address {
        host: cluster.address().ip().to_string(),
        port: cluster.address().port(),
        user: Some(USER.to_owned()),
        database: "postgres".to_owned(),
        ..Address::default()
    }
}

/// Number of the lab's own sessions on a given server: samples, books, notes.
const OURS: u32 = 3;

/// Checks that a given server has room for the largest number of connections.
///
/// # Errors
/// The server has too little room; otherwise every cell would fail.
pub(super) fn room(address: &Address, connections: &[u32]) -> Result<()> {
    // PostgreSQL, "Connections and Authentication": reserved connections are for superusers only.
    let free = "SELECT current_setting('max_connections')::int \
         - CASE WHEN rolsuper THEN 0 ELSE current_setting('superuser_reserved_connections')::int END \
         - (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()) \
         FROM pg_roles WHERE rolname = current_user";
    let free = Psql::connect(address)?.value(free)?;
    let free = free.and_then(|free| free.parse::<i64>().ok());
    let most = connections.iter().max().copied().unwrap_or(0);
    match free {
        Some(free) if free < i64::from(most + OURS) => Err(Error::NoRoom { free, most }),
        _ => Ok(()),
    }
}

/// Returns the facts about a server and, if it is near, its machine.
pub(super) fn surroundings(address: &Address, near: bool) -> Result<Environment> {
    let psql = RefCell::new(Psql::connect(address)?);
    let mut found = environment::postgres(|sql| {
        let rows = psql.borrow_mut().rows(sql).ok()?;
        let lines: Vec<String> = rows.iter().map(|row| row.join("|")).collect();
        Some(lines.join("\n"))
    });
    if near {
        found.extend(environment::machine());
    }
    if let Some(commit) = environment::commit(".") {
        let section = found.entry("sources".to_owned()).or_default();
        section.insert("commit".to_owned(), commit);
    }
    Ok(found)
}

pub(super) fn sizes(store: &mut Store, wallet: &Wallet) -> Result<environment::Section> {
    let sizes = wallet.sizes(&mut Psql::connect(&store.restore()?)?)?;
    Ok(sizes
        .into_iter()
        .map(|size| {
            let text = format!(
                "rows {} kB, indexes {} kB, all {} kB",
                size.rows_kb, size.indexes_kb, size.total_kb
            );
            (size.table, text)
        })
        .collect())
}

/// Returns the number of cores of this machine.
pub(super) fn cores_here() -> Option<u32> {
    let cores = std::thread::available_parallelism().ok()?;
    u32::try_from(cores.get()).ok()
}

impl Settings {
    pub(super) fn of(options: &Options, near: bool, planned: usize) -> Self {
        let (path, pool_clients) = match &options.path {
            Path::Direct => ("direct", None),
            Path::Pooler(_) => ("pooler", None),
            Path::Weir { clients, .. } => ("weir", Some(*clients)),
        };
        Self {
            name: options.name.clone(),
            data: match &options.workload {
                Workload::Scripts(_) => "own".to_owned(),
                Workload::Wallet(wallet, _) => finding::data_name(wallet),
            },
            path: path.to_owned(),
            pool_clients,
            cores: options.cores.or_else(|| near.then(cores_here).flatten()),
            spindles: options.spindles,
            goal: finding::goal_name(options.goal).to_owned(),
            warm_up_s: options.warm_up.as_secs_f64(),
            measure_s: options.measure.as_secs_f64(),
            round_trip_ms: 1000.0 * options.round_trip.as_secs_f64(),
            repetitions: options.repetitions,
            protocol: options.protocol.clone(),
            planned,
            debug: cfg!(debug_assertions),
        }
    }

    pub(super) fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}
