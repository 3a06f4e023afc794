//! Helpers of the console's tests.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::Weir;
use weir_conformance::wait_until;

/// Time limit, generous because the machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A database of the shared cluster, Weir in front of it, and an administrator's connection.
pub(crate) struct Stage {
    pub(crate) weir: Weir,
    pub(crate) admin: Raw,
    pub(crate) database: &'static str,
    direct: Raw,
    postgres: Arc<Postgres>,
}

impl Stage {
    pub(crate) fn new(database: &'static str) -> Result<Self> {
        Self::with(database, |config| config)
    }

    /// Starts with a changed configuration.
    pub(crate) fn with(
        database: &'static str,
        change: impl FnOnce(Config) -> Config,
    ) -> Result<Self> {
        let postgres = Postgres::shared()?;
        postgres.create_database(database)?;
        let weir = Weir::start(&change(config(database, postgres.port())))?;
        Ok(Self {
            admin: weir.connect("pgbouncer")?,
            weir,
            database,
            direct: Raw::connect(postgres.port(), "postgres")?,
            postgres,
        })
    }

    /// Port of the cluster.
    pub(crate) fn postgres_port(&self) -> u16 {
        self.postgres.port()
    }

    /// Connects a client to the database.
    pub(crate) fn client(&self) -> Result<Raw> {
        self.weir.connect(self.database)
    }

    /// Runs a command as an administrator.
    pub(crate) fn order(&mut self, sql: &str) -> Result<()> {
        self.admin.query(sql).map(drop)
    }

    /// Error of a command.
    pub(crate) fn refusal(&mut self, sql: &str) -> Result<String> {
        let messages = self.admin.ask(&weir_conformance::frontend::query(sql))?;
        let error = messages.iter().find(|message| message.tag == b'E');
        let error = error.with_context(|| format!("{sql} is no error"))?;
        Ok(error.error())
    }

    /// Value in a row of a table, found by the value of its first column.
    pub(crate) fn value(&mut self, sql: &str, first: &str, column: &str) -> Result<String> {
        value(&mut self.admin, sql, first, column)
    }

    /// Waits until a table shows this value.
    pub(crate) fn wait(&self, sql: &str, first: &str, column: &str, wanted: &str) -> Result<()> {
        let mut console = self.weir.connect("pgbouncer")?;
        let mut last = String::new();
        wait_until(&format!("{first}.{column} = {wanted}"), PATIENCE, || {
            last = value(&mut console, sql, first, column)?;
            Ok(last == wanted)
        })
        .with_context(|| format!("last seen {last:?}"))
    }

    /// Cancels what the backends of the database run now, and returns their number.
    pub(crate) fn cancel_backends(&mut self) -> Result<String> {
        let sql = format!(
            "select count(*) filter (where pg_cancel_backend(pid)) from pg_stat_activity \
             where datname = '{}' and state = 'active'",
            self.database
        );
        self.direct.query_one(&sql)
    }

    /// Waits until the database has this number of backends.
    pub(crate) fn wait_backends(&mut self, wanted: &str) -> Result<()> {
        let sql = format!(
            "select count(*) from pg_stat_activity where datname = '{}'",
            self.database
        );
        let mut last = String::new();
        wait_until(&format!("{wanted} backends"), PATIENCE, || {
            last = self.direct.query_one(&sql)?;
            Ok(last == wanted)
        })
        .with_context(|| format!("last seen {last}"))
    }
}

/// Configuration for one database.
pub(crate) fn config(database: &str, port: u16) -> Config {
    Config::new().database(&format!("{database} = host=127.0.0.1 port={port}"))
}

fn value(console: &mut Raw, sql: &str, first: &str, column: &str) -> Result<String> {
    let names = match sql {
        "SHOW CONFIG" | "SHOW STATE" => "key",
        "SHOW DATABASES" => "name",
        "SHOW LISTS" => "list",
        _ => "database",
    };
    let table = console.query_named(sql)?;
    let rows = table.iter();
    let mut rows = rows.filter(|row| row.get(names).is_some_and(|name| name == first));
    let row: &HashMap<_, _> = rows
        .next()
        .with_context(|| format!("no {first} in {sql}"))?;
    row.get(column)
        .cloned()
        .with_context(|| format!("no {column} in {sql}"))
}

/// Checks that the client receives this error and the connection then ends.
pub(crate) fn ended(client: &mut Raw, wanted: &str) -> Result<()> {
    let messages = client.read_until_ready()?;
    let last = messages.last().context("nothing")?;
    ensure!(last.error() == wanted, "{:?}", last.error());
    ensure!(client.read_to_close()?.is_empty(), "more after {wanted:?}");
    Ok(())
}
