//! Where a target is put: the servers behind it, who logs in to it, and what it may use.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Instance, Version};

/// Free ports that a target gets besides the one for clients.
pub(super) const INNER_PORTS: usize = 4;

/// How clients and servers are authenticated.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Auth {
    /// Not at all.
    #[default]
    Trust,
    /// SCRAM-SHA-256.
    #[serde(rename = "scram-sha-256")]
    Scram,
}

impl Auth {
    /// In the words of `pg_hba.conf`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Trust => "trust",
            Self::Scram => "scram-sha-256",
        }
    }
}

/// A server behind the target.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Server {
    /// Name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Whether it takes writes.
    pub primary: bool,
}

/// What a target is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// All servers, the primary first.
    pub servers: Vec<Server>,
    /// Which of them a target takes that knows one only: an index.
    pub own: usize,
    /// What clients ask for.
    pub database: String,
    /// Who logs in.
    pub user: String,
    /// With which password, if one is asked for.
    pub password: String,
    /// What PostgreSQL stores of it.
    pub secret: String,
    /// How clients log in, and the target to its server.
    pub auth: Auth,
    /// Clients use TLS.
    pub client_tls: bool,
    /// So does the target towards its server.
    pub server_tls: bool,
    /// Certificate and key of the client hop.
    pub certificate: PathBuf,
    /// See above.
    pub key: PathBuf,
    /// Who vouches for the server's certificate.
    pub authority: PathBuf,
    /// Connections to the server.
    pub pool_size: u32,
    /// Clients at once, at most.
    pub clients_max: u32,
    /// CPUs that the target is pinned to, in taskset's list syntax.
    pub cpus: Option<String>,
    /// The servers answer what they are asked, not always the same.
    pub answers: bool,
}

/// What templates are filled in with.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Values(BTreeMap<String, Value>);

impl Values {
    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }
}

impl Site {
    /// One that does not exist, to fill in templates for a trial.
    pub(super) fn sample(auth: Auth, tls: bool) -> Self {
        let server = |port, primary| Server {
            host: "127.0.0.1".to_owned(),
            port,
            primary,
        };
        Self {
            servers: vec![server(5432, true), server(5433, false)],
            own: 0,
            database: "pgbench".to_owned(),
            user: "bench".to_owned(),
            password: "password".to_owned(),
            secret: "SCRAM-SHA-256$4096:...".to_owned(),
            auth,
            client_tls: tls,
            server_tls: tls,
            certificate: "/run/server.crt".into(),
            key: "/run/server.key".into(),
            authority: "/run/authority.crt".into(),
            pool_size: 20,
            clients_max: 100,
            cpus: None,
            answers: true,
        }
    }

    /// All placeholders that there are.
    pub(super) fn values(
        &self,
        instance: &Instance,
        version: &Version,
        directory: &Path,
        port: u16,
        inner: &[u16],
    ) -> Values {
        let servers: Vec<Value> = self
            .servers
            .iter()
            .enumerate()
            .map(|(index, server)| {
                json!({
                    "host": server.host,
                    "port": server.port,
                    "primary": server.primary,
                    "index": index,
                })
            })
            .collect();
        let own = servers.get(self.own).or_else(|| servers.first());
        let list = json!({
            "dir": directory,
            "port": port,
            "ports": inner,
            "server": own,
            "servers": servers,
            "database": self.database,
            "user": self.user,
            "password": self.password,
            "secret": self.secret,
            "auth": self.auth.name(),
            "client_tls": self.client_tls,
            "server_tls": self.server_tls,
            "certificate": self.certificate,
            "key": self.key,
            "authority": self.authority,
            "pool_size": self.pool_size,
            "clients_max": self.clients_max,
            "version": { "major": version.major, "minor": version.minor },
        });
        let mut values: BTreeMap<String, Value> = match list {
            Value::Object(map) => map.into_iter().collect(),
            _ => BTreeMap::new(),
        };
        if let Some((name, number)) = &instance.number {
            values.insert(name.clone(), json!(number));
        }
        Values(values)
    }
}
