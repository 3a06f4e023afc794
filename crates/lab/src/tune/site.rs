//! Target of a load: the server itself, a Weir in front of it that is started for the run, or an existing pooler.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::collector::psql::{Address, Psql};
use crate::error::{Error, Result};
use crate::ports::free_port;
use crate::process::Process;

const START_LIMIT: Duration = Duration::from_secs(20);

/// Weir that the run has started. Dropping it stops it.
#[derive(Debug)]
pub(super) struct Weir {
    process: Process,
    _directory: TempDir,
    /// Address that clients connect to.
    pub(super) address: Address,
    /// Address of the console.
    pub(super) console: Address,
}

impl Weir {
    /// Starts a Weir on loopback, in transaction mode, with a pool of `pool` servers.
    pub(super) fn start(program: &Path, server: &Address, pool: u32, clients: u32) -> Result<Self> {
        let directory = tempfile::tempdir().map_err(Error::system("make a directory"))?;
        let port = free_port()?;
        let user = server.user.clone().unwrap_or_else(|| "postgres".to_owned());
        put(
            &directory,
            "users.txt",
            &format!("{} \"\"\n", quoted(&user)),
        )?;
        let users = directory.path().join("users.txt");
        let text = configuration(server, &user, pool, clients, port, &users);
        let path = put(&directory, "weir.ini", &text)?;
        let log = directory.path().join("weir.log");
        let mut command = Command::new(program);
        command.arg("run").arg(&path);
        let stop = [Signal::QUIT, Signal::TERM];
        let mut process = Process::start("weir", &mut command, &log)?.stop_with(&stop);
        let address = Address {
            host: "127.0.0.1".to_owned(),
            port,
            user: Some(user),
            database: server.database.clone(),
            ..Address::default()
        };
        process.await_ready(START_LIMIT, &log, || Psql::connect(&address).is_ok())?;
        let console = address.with_database("pgbouncer");
        Ok(Self {
            console,
            process,
            _directory: directory,
            address,
        })
    }
}

impl Weir {
    /// Returns the process id.
    pub(super) fn pid(&self) -> u32 {
        self.process.pid()
    }
}

fn put(directory: &TempDir, name: &str, text: &str) -> Result<std::path::PathBuf> {
    let path = directory.path().join(name);
    fs::write(&path, text).map_err(Error::file("write", &path))?;
    let ours_alone = fs::Permissions::from_mode(0o600);
    fs::set_permissions(&path, ours_alone).map_err(Error::file("protect", &path))?;
    Ok(path)
}

fn configuration(
    server: &Address,
    user: &str,
    pool: u32,
    clients: u32,
    port: u16,
    users: &Path,
) -> String {
    let mut target = format!(
        "host={} port={} dbname={} user={}",
        value(&server.host),
        server.port,
        value(&server.database),
        value(user)
    );
    if let Some(password) = &server.password {
        target.push_str(&format!(" password={}", value(password)));
    }
    let mode = server.more.iter().find(|(name, _)| name == "PGSSLMODE");
    let mode = mode.map_or("disable", |(_, mode)| mode.as_str());
    format!(
        "[databases]\n{} = {target}\n\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
         auth_type = trust\nauth_file = {}\nadmin_users = {user}\npool_mode = transaction\ndefault_pool_size = {pool}\nreserve_pool_size = 0\n\
         max_client_conn = {}\nmax_prepared_statements = 256\nserver_tls_sslmode = {mode}\nlog_connections = 0\n\
         log_disconnections = 0\nlog_stats = 0\n",
        server.database,
        users.display(),
        clients + 10,
    )
}

/// Quotes a value of an entry in `[databases]`: quotes are doubled.
fn value(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_has_the_pool_and_escapes_the_password() {
        let server = Address::parse("postgresql://ann:it's@db:5433/shop?sslmode=require").unwrap();
        let text = configuration(&server, "ann", 7, 64, 6432, Path::new("/x/users.txt"));
        assert!(
            text.contains("shop = host='db' port=5433 dbname='shop' user='ann' password='it''s'\n")
        );
        assert!(text.contains("default_pool_size = 7\n"));
        assert!(text.contains("server_tls_sslmode = require\n"));
    }
}
