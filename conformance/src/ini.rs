//! Configuration for both poolers: PgBouncer's ini, which Weir reads unchanged.

use std::fmt::Write;

/// Options of the pooler for a suite.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    /// `session`, `transaction` or `statement`.
    pub pool_mode: &'static str,
    /// `default_pool_size`: servers per database and user.
    pub pool_size: u32,
    /// `max_client_conn`.
    pub max_client_conn: u32,
    /// More lines of the `[pgbouncer]` section.
    pub settings: Vec<String>,
    /// Environment of the pooler, as `WEIR_WORKERS`.
    pub env: Vec<(String, String)>,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self {
            pool_mode: "transaction",
            pool_size: 20,
            max_client_conn: 1200,
            settings: Vec::new(),
            env: Vec::new(),
        }
    }
}

impl PoolOptions {
    /// Changes the pool size.
    #[must_use]
    pub fn pool_size(mut self, servers: u32) -> Self {
        self.pool_size = servers;
        self
    }

    /// Adds a line to the `[pgbouncer]` section.
    #[must_use]
    pub fn setting(mut self, line: &str) -> Self {
        self.settings.push(line.to_owned());
        self
    }

    /// Adds several settings.
    #[must_use]
    pub fn settings(mut self, settings: Vec<(&'static str, String)>) -> Self {
        let lines = settings
            .into_iter()
            .map(|(key, value)| format!("{key} = {value}"));
        self.settings.extend(lines);
        self
    }

    /// Adds an environment variable for the pooler.
    #[must_use]
    pub fn env(mut self, key: &str, value: &str) -> Self {
        self.env.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Text of the file; `port` is the pooler's, `postgres_port` the server's.
    #[must_use]
    pub fn ini(&self, port: u16, postgres_port: u16, auth_file: &str) -> String {
        let mut ini = format!(
            "[databases]\n* = host=127.0.0.1 port={postgres_port}\n\n[pgbouncer]\n\
             listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = trust\nauth_file = {auth_file}\nadmin_users = postgres\n\
             pool_mode = {}\ndefault_pool_size = {}\nmax_client_conn = {}\n\
             ignore_startup_parameters = extra_float_digits\n",
            self.pool_mode, self.pool_size, self.max_client_conn,
        );
        for line in &self.settings {
            writeln!(ini, "{line}").expect("writing to a String cannot fail");
        }
        ini
    }
}
