//! Weir's binary with any configuration, for suites about Weir itself rather than a client's view.

use std::collections::BTreeMap;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;

use crate::Raw;
use crate::TempDir;
use crate::child::Guarded;
use crate::child::Runner;
use crate::target::weir_bin;
use crate::tools;
use crate::wait_until;

/// Time limit for starting up; a busy machine takes a while.
const START_MAX: Duration = Duration::from_secs(30);

/// PgBouncer's ini, built in steps; the port is chosen at the start.
#[derive(Clone, Debug)]
pub struct Config {
    databases: Vec<String>,
    settings: BTreeMap<String, String>,
    users: Vec<String>,
    peers: Vec<String>,
    /// Further sections, at the end of the file.
    sections: String,
    userlist: String,
    /// File instead of one with `userlist`.
    auth_file: Option<String>,
    env: Vec<(String, String)>,
    outer: Vec<String>,
}

impl Config {
    /// Configuration with two workers, transaction pooling, trust on 127.0.0.1, and no database yet.
    #[must_use]
    pub fn new() -> Self {
        let settings = [
            ("listen_addr", "127.0.0.1"),
            ("unix_socket_dir", ""),
            ("auth_type", "trust"),
            ("admin_users", "postgres"),
            ("pool_mode", "transaction"),
            ("max_client_conn", "400"),
            // Tests of this option turn it on; scripted servers do not know its query.
            ("role_check_delay", "0"),
            ("catalogue_refresh", "0"),
        ];
        let settings = settings.map(|(key, value)| (key.to_owned(), value.to_owned()));
        Self {
            databases: Vec::new(),
            settings: settings.into(),
            users: Vec::new(),
            peers: Vec::new(),
            sections: String::new(),
            userlist: "\"postgres\" \"\"\n".to_owned(),
            auth_file: None,
            env: vec![("WEIR_WORKERS".to_owned(), "2".to_owned())],
            outer: Vec::new(),
        }
    }

    /// Configuration for every database of the server on this loopback port.
    #[must_use]
    pub fn to(postgres_port: u16) -> Self {
        Self::new().database(&format!("* = host=127.0.0.1 port={postgres_port}"))
    }

    /// Adds a line to `[databases]`.
    #[must_use]
    pub fn database(mut self, line: &str) -> Self {
        self.databases.push(line.to_owned());
        self
    }

    /// Sets a global option, replacing an earlier value.
    #[must_use]
    pub fn set(mut self, key: &str, value: &str) -> Self {
        self.settings.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Sets several global options.
    #[must_use]
    pub fn set_all(mut self, settings: Vec<(&'static str, String)>) -> Self {
        for (key, value) in settings {
            self = self.set(key, &value);
        }
        self
    }

    /// Adds a line to `[users]`.
    #[must_use]
    pub fn user(mut self, line: &str) -> Self {
        self.users.push(line.to_owned());
        self
    }

    /// Adds a line to `[peers]`.
    #[must_use]
    pub fn peer(mut self, line: &str) -> Self {
        self.peers.push(line.to_owned());
        self
    }

    /// Adds a section with its lines.
    #[must_use]
    pub fn section(mut self, text: &str) -> Self {
        self.sections.push_str(text);
        self.sections.push('\n');
        self
    }

    /// Sets the content of `auth_file`.
    #[must_use]
    pub fn userlist(mut self, text: &str) -> Self {
        text.clone_into(&mut self.userlist);
        self
    }

    /// Names another `auth_file`, which need not exist.
    #[must_use]
    pub fn auth_file(mut self, path: &str) -> Self {
        self.auth_file = Some(path.to_owned());
        self
    }

    /// Sets the number of worker threads; the default here is two.
    #[must_use]
    pub fn workers(self, count: usize) -> Self {
        self.env("WEIR_WORKERS", &count.to_string())
    }

    /// Adds an environment variable.
    #[must_use]
    pub fn env(mut self, key: &str, value: &str) -> Self {
        self.env.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Starts Weir by this command, which must replace itself by the command in its arguments.
    #[must_use]
    pub fn under(mut self, outer: Vec<String>) -> Self {
        self.outer = outer;
        self
    }

    /// Returns the configuration for PgBouncer: without the options that only Weir has.
    #[must_use]
    pub fn without_own_options(mut self) -> Self {
        for own in ["role_check_delay", "catalogue_refresh", "pgbouncer_compat"] {
            self.settings.remove(own);
        }
        self
    }

    /// Writes the files and returns the configuration's path.
    fn write(&self, directory: &TempDir, port: u16) -> Result<PathBuf> {
        let users = directory.write("users.txt", &self.userlist)?;
        let mut ini = "[databases]\n".to_owned();
        for line in &self.databases {
            ini.push_str(&format!("{line}\n"));
        }
        ini.push_str(&format!(
            "[pgbouncer]\nlisten_port = {port}\nauth_file = {}\n",
            self.auth_file
                .as_deref()
                .unwrap_or(&users.to_string_lossy())
        ));
        for (key, value) in &self.settings {
            ini.push_str(&format!("{key} = {value}\n"));
        }
        ini.push_str("[users]\n");
        for line in &self.users {
            ini.push_str(&format!("{line}\n"));
        }
        if !self.peers.is_empty() {
            ini.push_str(&format!("[peers]\n{}\n", self.peers.join("\n")));
        }
        ini.push_str(&self.sections);
        directory.write("weir.ini", &ini)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::new()
    }
}

/// A running Weir; dropping it stops it.
#[derive(Debug)]
pub struct Weir {
    // Dropped before the directory of its files.
    process: Guarded,
    directory: TempDir,
    port: u16,
}

impl Weir {
    /// Starts with a configuration and waits until clients are accepted.
    ///
    /// # Errors
    /// When Weir ends or is not ready in time; the error holds the log.
    pub fn start(config: &Config) -> Result<Self> {
        let mut weir = Self::spawn(config, tools::free_port()?)?;
        weir.wait_ready()?;
        Ok(weir)
    }

    /// Starts on a given port without waiting: for starts that fail.
    ///
    /// # Errors
    /// When the binary does not exist.
    pub fn spawn(config: &Config, port: u16) -> Result<Self> {
        let directory = TempDir::new()?;
        let file = config.write(&directory, port)?;
        let file = file.to_string_lossy();
        Self::command_under(&config.outer, &["run", &file], &config.env, directory, port)
    }

    /// Starts Debian's PgBouncer with the same configuration in Weir's place.
    ///
    /// # Errors
    /// When PgBouncer is not installed, ends, or is not ready in time.
    pub fn start_pgbouncer(config: &Config) -> Result<Self> {
        let config = config.clone().without_own_options();
        let (directory, port) = (TempDir::new()?, tools::free_port()?);
        let file = config.write(&directory, port)?;
        let program = tools::require("pgbouncer", "pgbouncer")?;
        // A shell without job control has its background jobs ignore these two, and PgBouncer leaves SIGQUIT as it finds it.
        let signals = "--default-signal=INT,QUIT";
        let (program, file) = (program.to_string_lossy(), file.to_string_lossy());
        let command = ["env", signals, &*program, &*file];
        let log = directory.path().join("weir.log");
        let process = Guarded::start(Runner::Postgres, "QUIT", &command, &[], &log)?;
        let mut pgbouncer = Self {
            process,
            directory,
            port,
        };
        pgbouncer.wait_ready()?;
        Ok(pgbouncer)
    }

    /// Starts with these arguments and environment, without a file; `WEIR_LISTEN_PORT` is the port.
    ///
    /// # Errors
    /// When Weir ends or is not ready in time.
    pub fn start_without_file(arguments: &[&str]) -> Result<Self> {
        let port = tools::free_port()?;
        let env = [("WEIR_LISTEN_PORT".to_owned(), port.to_string())];
        let mut weir = Self::command(arguments, &env, TempDir::new()?, port)?;
        weir.wait_ready()?;
        Ok(weir)
    }

    /// Starts with the text of a file, which names this port, and waits until clients are accepted.
    ///
    /// # Errors
    /// When Weir ends or is not ready in time.
    pub fn start_text(name: &str, text: &str, port: u16) -> Result<Self> {
        let mut weir = Self::spawn_text(name, text)?;
        weir.port = port;
        weir.wait_ready()?;
        Ok(weir)
    }

    /// Starts with the text of a file without waiting: for files with mistakes.
    ///
    /// # Errors
    /// When the binary does not exist.
    pub fn spawn_text(name: &str, text: &str) -> Result<Self> {
        let directory = TempDir::new()?;
        let file = directory.write(name, text)?;
        let file = file.to_string_lossy();
        Self::command(&["run", &file], &[], directory, 0)
    }

    fn command(
        arguments: &[&str],
        env: &[(String, String)],
        directory: TempDir,
        port: u16,
    ) -> Result<Self> {
        Self::command_under(&[], arguments, env, directory, port)
    }

    fn command_under(
        outer: &[String],
        arguments: &[&str],
        env: &[(String, String)],
        directory: TempDir,
        port: u16,
    ) -> Result<Self> {
        let outer: Vec<&str> = outer.iter().map(String::as_str).collect();
        let program = weir_bin()?;
        let program = program.to_string_lossy();
        let command: Vec<&str> = [&*program]
            .into_iter()
            .chain(arguments.iter().copied())
            .collect();
        let log = directory.path().join("weir.log");
        let process = Guarded::start_under(&outer, Runner::Ourselves, "QUIT", &command, env, &log)?;
        Ok(Self {
            process,
            directory,
            port,
        })
    }

    /// Waits until clients are accepted.
    ///
    /// # Errors
    /// When Weir ends or is not ready in time; the error holds the log.
    pub fn wait_ready(&mut self) -> Result<()> {
        let process = &mut self.process;
        wait_until("Weir's start", START_MAX, || {
            process.check_running()?;
            Ok(process.log().contains("process up"))
        })
        .with_context(|| process.log())
    }

    /// TCP port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Directory of its files.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Log so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Waits until the log contains a text.
    ///
    /// # Errors
    /// When the text does not appear within a generous time limit.
    pub fn wait_log(&self, text: &str) -> Result<()> {
        wait_until(&format!("\"{text}\" in the log"), START_MAX, || {
            Ok(self.log().contains(text))
        })
        .with_context(|| self.log())
    }

    /// Logs in as `postgres`.
    ///
    /// # Errors
    /// When the login is refused.
    pub fn connect(&self, database: &str) -> Result<Raw> {
        Raw::connect(self.port, database)
    }

    /// Logs in as this user.
    ///
    /// # Errors
    /// When the login is refused.
    pub fn connect_as(&self, user: &str, database: &str) -> Result<Raw> {
        Raw::connect_with(self.port, &[("user", user), ("database", database)])
    }

    /// Number in a row of `SHOW POOLS`, found by its `database` column.
    ///
    /// # Errors
    /// When there is no such row or column, or it holds no number.
    pub fn pool_number(&self, database: &str, column: &str) -> Result<i64> {
        let pools = self.connect("pgbouncer")?.query_named("SHOW POOLS")?;
        let of_database = |pool: &&std::collections::HashMap<String, String>| {
            pool.get("database").is_some_and(|name| name == database)
        };
        let mut total = 0;
        for pool in pools.iter().filter(of_database) {
            let value = pool
                .get(column)
                .with_context(|| format!("no column {column}"))?;
            total += value.parse::<i64>()?;
        }
        Ok(total)
    }

    /// Waits until a column of `SHOW POOLS`, summed over the database's pools, is `wanted`.
    ///
    /// # Errors
    /// When the value is not reached within a generous time limit.
    pub fn wait_pool(&self, database: &str, column: &str, wanted: i64) -> Result<()> {
        let mut last = None;
        wait_until(&format!("{column} = {wanted}"), START_MAX, || {
            last = Some(self.pool_number(database, column)?);
            Ok(last == Some(wanted))
        })
        .with_context(|| format!("last seen {last:?}\n{}", tools::tail(&self.log(), 30)))
    }

    /// Replaces the configuration file and requests a reload with SIGHUP.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn reload(&self, config: &Config) -> Result<()> {
        self.replace_file(config)?;
        self.signal("HUP")
    }

    /// Replaces the configuration file without a reload.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn replace_file(&self, config: &Config) -> Result<()> {
        config.write(&self.directory, self.port).map(drop)
    }

    /// Sends a signal by name.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn signal(&self, signal: &str) -> Result<()> {
        self.process.signal(signal)
    }

    /// Kills the process with SIGKILL: it cannot clean up.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn kill(&mut self) -> Result<()> {
        self.signal("KILL")?;
        self.wait_exit(Duration::from_secs(5)).map(drop)
    }

    /// Waits for the end of the process.
    ///
    /// # Errors
    /// When the process does not end within the limit.
    pub fn wait_exit(&mut self, limit: Duration) -> Result<ExitStatus> {
        self.process.wait_exit(limit)
    }

    /// Checks that Weir still runs and has logged neither a panic nor a broken invariant of a pool.
    ///
    /// # Errors
    /// When Weir has ended or has logged one of these.
    pub fn check_healthy(&mut self) -> Result<()> {
        self.process.check_running()?;
        let log = self.log();
        anyhow::ensure!(!log.contains("panicked at"), "{}", tools::tail(&log, 60));
        Ok(())
    }
}
