//! Helpers of the operation tests: a database, direct access to its backends, and groups of clients.

use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::SOON;
use weir_conformance::Weir;
use weir_conformance::clock;
use weir_conformance::frontend;
use weir_conformance::raw::Message;
use weir_conformance::wait_until;

/// Numbers of workers for tests of limits and fairness: one, fewer than most tests' clients, and more.
pub(crate) const WORKERS: [usize; 3] = [1, 2, 4];

/// Runs a test with each number of workers.
pub(crate) fn on_workers(mut test: impl FnMut(usize) -> Result<()>) -> Result<()> {
    for workers in WORKERS {
        test(workers).with_context(|| format!("with {workers} workers"))?;
    }
    Ok(())
}

/// Time limit, generous because the machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A database of the shared cluster, and a direct connection that observes it.
pub(crate) struct Server {
    pub(crate) postgres: Arc<Postgres>,
    pub(crate) database: &'static str,
    pub(crate) direct: Raw,
}

impl Server {
    /// Creates the database anew.
    pub(crate) fn new(database: &'static str) -> Result<Self> {
        let postgres = Postgres::shared()?;
        postgres.create_database(database)?;
        let direct = Raw::connect(postgres.port(), "postgres")?;
        Ok(Self {
            postgres,
            database,
            direct,
        })
    }

    /// Configuration for this cluster.
    pub(crate) fn config(&self) -> Config {
        Config::to(self.postgres.port())
    }

    /// Creates roles that may log in, unless they exist; they are never dropped.
    pub(crate) fn roles(&mut self, names: &[&str]) -> Result<()> {
        for name in names {
            let sql = format!("select count(*) from pg_roles where rolname = '{name}'");
            if self.direct.query_one(&sql)? == "0" {
                self.direct.query(&format!("create role {name} login"))?;
            }
        }
        Ok(())
    }

    /// Number of the database's backends.
    pub(crate) fn count(&mut self) -> Result<usize> {
        Ok(self.pids()?.len())
    }

    /// Process ids of the database's backends.
    pub(crate) fn pids(&mut self) -> Result<Vec<String>> {
        let sql = format!(
            "select pid from pg_stat_activity where datname = '{}' order by pid",
            self.database
        );
        let rows = self.direct.query(&sql)?;
        Ok(rows.into_iter().flatten().flatten().collect())
    }

    /// Waits until the database has this number of backends.
    pub(crate) fn wait_count(&mut self, wanted: usize) -> Result<()> {
        let mut last = 0;
        wait_until(&format!("{wanted} backends"), PATIENCE, || {
            last = self.count()?;
            Ok(last == wanted)
        })
        .with_context(|| format!("last seen {last}"))
    }

    /// Waits until the database has at most this number of backends.
    pub(crate) fn wait_at_most(&mut self, limit: usize) -> Result<()> {
        let mut last = 0;
        wait_until(&format!("at most {limit} backends"), PATIENCE, || {
            last = self.count()?;
            Ok(last <= limit)
        })
        .with_context(|| format!("last seen {last}"))
    }

    /// Waits until the database has this number of backends, then fails unless the number stays for some time.
    pub(crate) fn stays(&mut self, wanted: usize, time: Duration) -> Result<()> {
        wait_until(&format!("{wanted} backends"), PATIENCE, || {
            Ok(self.count()? >= wanted)
        })?;
        let until = clock::now() + time;
        wait_until("the end of the watch", PATIENCE, || {
            let count = self.count()?;
            ensure!(count == wanted, "{count} backends, not {wanted}");
            Ok(clock::now() >= until)
        })
    }

    /// Ends the backends and waits until they are gone.
    pub(crate) fn terminate_all(&mut self) -> Result<()> {
        self.direct.query(&format!(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = '{}'",
            self.database
        ))?;
        self.wait_count(0)
    }
}

/// Connects `count` clients of one database.
pub(crate) fn clients(weir: &Weir, database: &str, count: usize) -> Result<Vec<Raw>> {
    (0..count).map(|_| weir.connect(database)).collect()
}

/// Sends a query to each client without reading.
pub(crate) fn send_all(clients: &mut [Raw], sql: &str) -> Result<()> {
    for client in clients {
        client.send(&frontend::query(sql))?;
    }
    Ok(())
}

/// Reads the answer of a query; fails if it is an error.
pub(crate) fn answer(client: &mut Raw) -> Result<Vec<Message>> {
    let messages = client.read_until_ready()?;
    if let Some(error) = messages.iter().find(|message| message.tag == b'E') {
        bail!("{}", error.error());
    }
    Ok(messages)
}

/// Expects a FATAL with this beginning (`CODE text`), and then the end of the connection.
pub(crate) fn ended(client: &mut Raw, wanted: &str) -> Result<()> {
    let messages = client.read_until_ready()?;
    let last = messages.last().context("nothing")?;
    let text = last.error();
    ensure!(
        text.starts_with(&format!("FATAL {wanted}")),
        "wanted {wanted:?}, got {text:?}"
    );
    ensure!(client.read_to_close()?.is_empty(), "more after {wanted:?}");
    Ok(())
}

/// Error of a refused login; empty if it was accepted.
pub(crate) fn refusal(login: Result<Raw>) -> String {
    login.err().map_or_else(String::new, |e| e.to_string())
}

/// Fails unless the time since `begun` is at least the limit, and not much more.
pub(crate) fn took(begun: Instant, limit: Duration) -> Result<()> {
    let time = begun.elapsed();
    // Timers may be coarse, but never early by more than this.
    let early = limit.saturating_sub(Duration::from_millis(20));
    ensure!(time >= early, "after {time:?} already, not {limit:?}");
    ensure!(time < limit + SOON, "only after {time:?}, not {limit:?}");
    Ok(())
}

/// Waits until an arrival is well in the past: workers may reorder arrivals less than 1 ms apart.
pub(crate) fn apart(arrival: Instant) -> Result<()> {
    wait_until("a distance between arrivals", PATIENCE, || {
        Ok(arrival.elapsed() >= Duration::from_millis(20))
    })
}
