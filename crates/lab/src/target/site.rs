//! Surroundings of a target: the servers behind it, the login to it, and its limits.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Instance, Version};

/// Number of free ports that a target gets besides the one for clients.
pub(super) const INNER_PORTS: usize = 4;

/// Authentication of clients and servers.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Auth {
    /// No authentication.
    #[default]
    Trust,
    /// SCRAM-SHA-256.
    #[serde(rename = "scram-sha-256")]
    Scram,
}

impl Auth {
    /// Returns the name in `pg_hba.conf`.
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
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// True if the server accepts writes.
    pub primary: bool,
}

/// Surroundings of a target.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// All servers, the primary first.
    pub servers: Vec<Server>,
    /// Index of the server for targets that know only one.
    pub own: usize,
    /// Database that clients ask for.
    pub database: String,
    /// User that clients log in as.
    pub user: String,
    /// Password, sent if the server asks for one.
    pub password: String,
    /// Secret that PostgreSQL stores for the password.
    pub secret: String,
    /// Authentication of clients by the target, and of the target by its server.
    pub auth: Auth,
    /// True if clients use TLS.
    pub client_tls: bool,
    /// True if the target uses TLS to its server.
    pub server_tls: bool,
    /// Certificate for the connections of clients.
    pub certificate: PathBuf,
    /// Key of the certificate.
    pub key: PathBuf,
    /// Certificate of the authority that signs the server's.
    pub authority: PathBuf,
    /// Number of connections to the server.
    pub pool_size: u32,
    /// Maximum number of clients at a time.
    pub clients_max: u32,
    /// CPUs that the target is pinned to, in taskset's list syntax.
    pub cpus: Option<String>,
    /// True if the servers answer the queries; false if they always return the same.
    pub answers: bool,
}

/// Variables of the templates.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Values(BTreeMap<String, Value>);

impl Values {
    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }
}

impl Site {
    /// Returns sample values, to check templates.
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

    /// Returns the MD5 secret that PostgreSQL would store for the password.
    fn md5(&self) -> String {
        let hash = weir_auth::md5::hash(self.password.as_bytes(), self.user.as_bytes());
        String::from_utf8_lossy(hash.to_text().as_slice()).into_owned()
    }

    /// Returns all variables.
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
            "md5": self.md5(),
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
