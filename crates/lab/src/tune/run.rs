//! Runs a plan: restores the data before each cell, samples the server during it, and reads the books after it.

use std::fs;
use std::path::PathBuf;

use super::finding::Settings;
use super::ground::{near, own_server, pgbench, room, sizes, surroundings};
use super::load::{Load, Loaded};
use super::options::{Options, Path, Workload};
use super::plan::{self, Planned};
use super::site::Weir;
use crate::clock;
use crate::collector::database::{Database, Missing, NewCell, NewRun};
use crate::collector::psql::{Address, Psql};
use crate::collector::{self, Collector, INTERVAL, Sight};
use crate::error::{Error, Result};
use crate::generator::Watch;
use crate::interrupt::Interrupt;
use crate::meter::Groups;
use crate::run::Progress;
use crate::run::progress::Remaining;
use crate::wallet::{Script, Store, write_scripts};

/// End of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Number of cells that were started.
    pub cells: usize,
    /// Number of these cells without figures.
    pub failed: usize,
    /// True if a signal ended the run; the remaining cells were not started.
    pub interrupted: bool,
}

/// Runs all measurements into `directory`, which is created. Results from before an interrupt stay there and can be
/// evaluated.
///
/// # Errors
/// The server or pgbench is missing, or the server refuses. A failure of a single cell is recorded instead.
pub fn run(
    options: &Options,
    directory: &std::path::Path,
    interrupt: &Interrupt,
    progress: &mut dyn Progress,
) -> Result<Finished> {
    fs::create_dir_all(directory).map_err(Error::file("make", directory))?;
    let file = collector::file(directory);
    let database = Database::create(&file)?;
    let pgbench = pgbench(options)?;
    let cluster = match &options.server {
        Some(_) => None,
        None => Some(own_server(options, progress)?),
    };
    let address = match (&options.server, &cluster) {
        (Some(address), _) => address.clone(),
        (None, Some(cluster)) => near(cluster),
        (None, None) => Address::default(),
    };
    // A pooler decides itself how many connections it opens.
    if !matches!(options.path, Path::Pooler(_)) {
        room(&address, &options.connections)?;
    }
    let store = match &options.workload {
        Workload::Wallet(wallet, _) => {
            progress.line("making the e-wallet's data");
            Some(Store::create(&address, wallet)?)
        }
        Workload::Scripts(_) => None,
    };
    let mut stage = Stage {
        options,
        pgbench,
        address,
        store,
        sight: Sight::default(),
        database,
        file,
        run: 0,
        directory,
        interrupt,
    };
    let result = stage.all(progress);
    if let Some(store) = stage.store.take() {
        let removed = store.remove();
        // The first error says more.
        return result.and_then(|finished| removed.map(|()| finished));
    }
    result
}

struct Stage<'a> {
    options: &'a Options,
    pgbench: PathBuf,
    address: Address,
    store: Option<Store>,
    sight: Sight,
    database: Database,
    file: PathBuf,
    run: i64,
    directory: &'a std::path::Path,
    interrupt: &'a Interrupt,
}

impl Stage<'_> {
    fn all(&mut self, progress: &mut dyn Progress) -> Result<Finished> {
        self.sight = Collector::look(&self.sampling(None))?;
        let plan = plan::plan(self.options);
        self.run = self.note(plan.len())?;
        let each = plan::cell_s(self.options);
        let mut remaining = Remaining::new(each * crate::statistics::float(plan.len()));
        progress.line(&format!("{} cells, {}", plan.len(), remaining.text()));
        let mut finished = Finished {
            cells: 0,
            failed: 0,
            interrupted: false,
        };
        for (place, planned) in plan.iter().enumerate() {
            if self.interrupt.raised() {
                finished.interrupted = true;
                break;
            }
            let begun = clock::now();
            let cell = self.begin(place, planned)?;
            finished.cells += 1;
            let told = match self.cell(cell, planned) {
                Ok(text) => text,
                Err(error) => {
                    finished.failed += 1;
                    self.database.fail_cell(cell, &error.to_string())?;
                    format!("failed: {error}")
                }
            };
            remaining.done(each, clock::now().saturating_duration_since(begun));
            progress.line(&format!(
                "[{}/{}] {}, {} connections: {told} ({} left)",
                place + 1,
                plan.len(),
                planned.workload,
                planned.connections,
                remaining.text()
            ));
        }
        Ok(finished)
    }

    fn begin(&self, place: usize, planned: &Planned) -> Result<i64> {
        let new = NewCell {
            workload: planned.workload,
            connections: planned.connections,
            clients: self.clients(planned),
            repetition: planned.repetition,
            place: u32::try_from(place).unwrap_or(u32::MAX),
        };
        self.database.begin_cell(self.run, &new)
    }

    fn clients(&self, planned: &Planned) -> u32 {
        match &self.options.path {
            Path::Weir { clients, .. } => *clients,
            Path::Direct | Path::Pooler(_) => planned.connections,
        }
    }

    /// Returns the number of threads. pgbench blocks its thread while it prepares a statement. If one client of a
    /// thread holds the last server and another one prepares, neither proceeds. Behind a pooler each client
    /// therefore gets its own thread.
    fn threads(&self, clients: u32) -> u32 {
        match &self.options.path {
            Path::Direct => self.options.threads,
            Path::Pooler(_) | Path::Weir { .. } => clients,
        }
    }

    fn sampling(&self, console: Option<Address>) -> collector::Settings {
        let database = match &self.store {
            Some(store) => store.name().to_owned(),
            None => self.address.database.clone(),
        };
        collector::Settings {
            address: self.address.clone(),
            database: Some(database),
            interval: INTERVAL,
            seed: self.options.seed,
            console,
        }
    }

    fn note(&mut self, cells: usize) -> Result<i64> {
        let mut found = surroundings(&self.address, self.sight.near)?;
        if let (Some(store), Workload::Wallet(wallet, _)) =
            (&mut self.store, &self.options.workload)
        {
            found.insert("data".to_owned(), sizes(store, wallet)?);
        }
        let mut missing = self.sight.missing.clone();
        if let Path::Pooler(_) = self.options.path {
            missing.push(Missing {
                what: "the pooler's own times: queue, client, server".to_owned(),
                why: "only a Weir that the run starts itself is asked; use --weir".to_owned(),
            });
        }
        let run = NewRun {
            kind: "run",
            command: self.options.command.join(" "),
            server: self.address.shown(),
            server_version: self.sight.version.clone(),
            seed: self.options.seed,
            settings: Settings::of(self.options, self.sight.near, cells).json(),
        };
        self.database.begin_run(&run, &found, &missing)
    }

    fn cell(&mut self, cell: i64, planned: &Planned) -> Result<String> {
        let target = match &mut self.store {
            Some(store) => store.restore()?,
            None => self.address.clone(),
        };
        let directory = self.directory.join(format!("cell-{cell}"));
        fs::create_dir_all(&directory).map_err(Error::file("make", &directory))?;
        let scripts = self.scripts(planned, &directory)?;
        let clients = self.clients(planned);
        let weir = match &self.options.path {
            Path::Weir { program, .. } => {
                Some(Weir::start(program, &target, planned.connections, clients)?)
            }
            Path::Direct | Path::Pooler(_) => None,
        };
        let address = match (&weir, &self.options.path) {
            (Some(weir), _) => weir.address.clone(),
            (None, Path::Pooler(address)) => address.with_database(&target.database),
            (None, _) => target.clone(),
        };
        let sampling = self.sampling(weir.as_ref().map(|weir| weir.console.clone()));
        let collector = Collector::start(&sampling, &self.file, self.run, cell)?;
        let load = Load {
            program: &self.pgbench,
            address: &address,
            scripts: &scripts,
            protocol: &self.options.protocol,
            clients,
            threads: self.threads(clients),
            warm_up: self.options.warm_up,
            measure: self.options.measure,
            // Each repetition draws other users; pgbench's seed is not negative.
            seed: self
                .options
                .seed
                .wrapping_add(u64::from(planned.repetition))
                >> 1,
            directory: &directory,
        };
        let groups = Groups {
            server: self.sight.postmaster.into_iter().collect(),
            pooler: weir.iter().map(Weir::pid).collect(),
            ..Groups::default()
        };
        let mut watch = Watch::new(groups, self.interrupt);
        let loaded = load.run(&mut watch);
        let snapshots = collector.stop();
        drop(weir);
        let loaded = loaded?;
        snapshots?;
        let costs = watch.costs(loaded.window, &loaded.outcome)?;
        self.database
            .end_cell(cell, loaded.window, &loaded.outcome, &costs)?;
        let verdict = self.judge(cell, &target, &loaded)?;
        Ok(format!("{}{verdict}", told(&loaded)))
    }

    fn scripts(
        &self,
        planned: &Planned,
        directory: &std::path::Path,
    ) -> Result<Vec<(PathBuf, u32)>> {
        let scripts = match (&self.options.workload, planned.mode) {
            (Workload::Wallet(wallet, _), Some(mode)) => wallet
                .scripts(mode)?
                .into_iter()
                .map(|script| script.at_distance(self.options.round_trip))
                .collect(),
            (Workload::Wallet(..), None) => Vec::new(),
            // Copies, so that the scripts stay beside their results.
            (Workload::Scripts(files), _) => {
                let read = |(path, weight): &(PathBuf, u32)| {
                    let text = fs::read_to_string(path).map_err(Error::file("read", path))?;
                    let name = path.file_name().unwrap_or_default().to_string_lossy();
                    Ok(Script {
                        name: name.into_owned(),
                        text,
                        weight: *weight,
                    })
                };
                files.iter().map(read).collect::<Result<_>>()?
            }
        };
        let directory = fs::canonicalize(directory).map_err(Error::file("find", directory))?;
        write_scripts(&scripts, &directory)
    }

    /// Checks the books, if there are any; returns the text for a progress line.
    fn judge(&self, cell: i64, target: &Address, loaded: &Loaded) -> Result<String> {
        let Workload::Wallet(wallet, _) = &self.options.workload else {
            return Ok(String::new());
        };
        let books = wallet.books(&mut Psql::connect(target)?)?;
        // A failed transaction may or may not have been done, so the books are then only checked against
        // themselves.
        let transfers = loaded.first(books.transfers);
        let violations = books.violations(transfers.filter(|_| loaded.outcome.errors == 0));
        let told: Vec<String> = violations.iter().map(ToString::to_string).collect();
        self.database.judge_cell(cell, &told)?;
        Ok(if told.is_empty() {
            ", books balance".to_owned()
        } else {
            format!(", THE BOOKS ARE WRONG: {}", told.join("; "))
        })
    }
}

fn told(loaded: &Loaded) -> String {
    let mut text = format!("{:.0}/s", loaded.outcome.tps);
    if let Some(latency) = &loaded.outcome.latency {
        text.push_str(&format!(", p99 {:.1} ms", latency.p99 / 1000.0));
    }
    if loaded.outcome.errors > 0 {
        text.push_str(&format!(", {} ERRORS", loaded.outcome.errors));
    }
    text
}
