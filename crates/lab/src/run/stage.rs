//! PostgreSQL as an experiment needs it: the lab's own server, or a given one.

use std::path::PathBuf;
use std::process::Command;

use url::Url;

use super::Error;
use super::canned::Canned;
use crate::access::PASSWORD;
use crate::certificates::Certificates;
use crate::error::{Error as SystemError, Result as SystemResult};
use crate::experiment::{Design, Experiment, NullServer, Tls};
use crate::postgres::{CLIENT, Cluster, DATABASE, Programs, Settings};
use crate::process::run_to_end;
use crate::target::{Auth, Instance, Server};

/// Allowance for connections of the lab itself, of superusers, and of what pools keep open.
const CONNECTIONS_BESIDE: u32 = 60;

/// Requirements on the server.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Need {
    scale: u32,
    connections: u32,
    tls: bool,
    passwords: bool,
    replicas: u32,
    setup: Vec<String>,
    settings: Vec<String>,
    null: Option<NullServer>,
}

impl Need {
    pub(super) fn of(experiment: &Experiment, design: &Design, targets: &[&Instance]) -> Self {
        let server = &experiment.server;
        let pooler = &experiment.pooler;
        let each = targets
            .iter()
            .any(|target| target.takes_a_server_per_client());
        let clients = if each { design.clients_max() } else { 0 };
        let pools = pooler.pool_size * pooler.proxies * 2;
        let tls = design.points.iter().any(|point| {
            let work = experiment.work(point, design.scale);
            work.is_ok_and(|work| work.tls != Tls::None)
        });
        Self {
            scale: design.scale,
            connections: clients + pools + CONNECTIONS_BESIDE,
            tls,
            passwords: server.passwords,
            replicas: server.replicas,
            setup: server.setup.clone(),
            settings: server.settings.clone(),
            null: server.null,
        }
    }

    /// True if a server that was set up for `other` meets these requirements.
    fn is_met_by(&self, other: &Self) -> bool {
        let connections = other.connections.max(self.connections);
        let tls = other.tls || self.tls;
        let same = |need: &Self| Self {
            connections,
            tls,
            ..need.clone()
        };
        other.connections >= self.connections
            && (other.tls || !self.tls)
            && same(self) == same(other)
    }
}

/// Server that the lab did not start.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Given {
    host: String,
    port: u16,
    user: String,
    password: Option<String>,
    database: String,
}

impl Given {
    /// Parses a URI (PostgreSQL manual, "Connection URIs").
    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        let mut shown = text.to_owned();
        let wrong = |shown: &str, reason: &str| Error::Server {
            url: shown.to_owned(),
            reason: reason.to_owned(),
        };
        let url = Url::parse(text).map_err(|error| wrong("", &error.to_string()))?;
        if let Some(password) = url.password() {
            shown = shown.replacen(&format!(":{password}@"), ":***@", 1);
        }
        if !["postgresql", "postgres"].contains(&url.scheme()) {
            return Err(wrong(
                &shown,
                "write postgresql://user:password@host:port/database",
            ));
        }
        let decoded = |text: &str| {
            percent_encoding::percent_decode_str(text)
                .decode_utf8_lossy()
                .into_owned()
        };
        let host = url.host_str().filter(|host| !host.is_empty());
        let database = decoded(url.path().trim_start_matches('/'));
        if url.username().is_empty() || database.is_empty() {
            return Err(wrong(&shown, "user and database must be named"));
        }
        Ok(Self {
            host: decoded(host.ok_or_else(|| wrong(&shown, "the host must be named"))?),
            port: url.port().unwrap_or(5432),
            user: decoded(url.username()),
            // A result directory never has the password, so a resumed run takes it from the environment.
            password: match url.password() {
                Some(password) => Some(decoded(password)),
                None => std::env::var("PGPASSWORD").ok(),
            },
            database,
        })
    }

    /// Returns the password, which must not be in any file of a result.
    pub(super) fn password(&self) -> Option<&str> {
        self.password.as_deref().filter(|text| !text.is_empty())
    }

    /// Returns an address without its password.
    pub(super) fn redacted(text: &str) -> String {
        let Ok(mut url) = Url::parse(text) else {
            return text.to_owned();
        };
        if url.password().is_some() && url.set_password(None).is_ok() {
            url.into()
        } else {
            text.to_owned()
        }
    }

    fn query(&self, programs: &Programs, sql: &str) -> SystemResult<String> {
        let mut command = Command::new(programs.path("psql")?);
        command.args(["-X", "-q", "-A", "-t", "-w", "-v", "ON_ERROR_STOP=1"]);
        command.args(["-h", &self.host, "-p", &self.port.to_string()]);
        command.args(["-U", &self.user, "-c", sql, &self.database]);
        if let Some(password) = &self.password {
            command.env("PGPASSWORD", password);
        }
        run_to_end(&mut command).map(|text| text.trim().to_owned())
    }

    /// Checks the scale of pgbench's tables, which the lab does not create on a given server.
    fn check(&self, programs: &Programs, scale: u32) -> Result<(), Error> {
        let wrong = |reason: String| Error::Server {
            url: format!("{}:{}/{}", self.host, self.port, self.database),
            reason,
        };
        let found = self
            .query(programs, "SELECT count(*) FROM pgbench_branches")
            .map_err(|error| wrong(error.to_string()))?;
        let enough = found.parse().is_ok_and(|found: u32| found >= scale);
        if enough {
            return Ok(());
        }
        Err(wrong(format!(
            "pgbench's tables have scale {found}, and {scale} is needed: \
             pgbench -i -s {scale} -h {} -p {} -U {} {}",
            self.host, self.port, self.user, self.database
        )))
    }
}

/// The server of an experiment. Fields drop in this order: the server before its certificates.
#[derive(Debug)]
pub(super) struct Stage {
    cluster: Option<Cluster>,
    given: Option<Given>,
    canned: Option<Canned>,
    pub(super) certificates: Option<Certificates>,
    programs: Programs,
    need: Need,
}

impl Stage {
    /// Starts and fills the lab's own server, or checks the given one.
    pub(super) fn set(
        need: Need,
        programs: &Programs,
        given: Option<Given>,
        program: &[String],
    ) -> Result<Self, Error> {
        let certificates = need.tls.then(Certificates::make).transpose()?;
        let mut stage = Self {
            cluster: None,
            given: given.filter(|_| need.null.is_none()),
            canned: None,
            certificates,
            programs: programs.clone(),
            need,
        };
        match (&stage.given, stage.need.null) {
            (_, Some(null)) => {
                let certificates = stage.certificates.as_ref();
                stage.canned = Some(Canned::start(program, null, certificates)?);
            }
            (Some(given), None) => given.check(programs, stage.need.scale)?,
            (None, None) => stage.cluster = Some(stage.start()?),
        }
        Ok(stage)
    }

    fn start(&self) -> SystemResult<Cluster> {
        let need = &self.need;
        let mut settings = Settings {
            passwords: need.passwords,
            more: need.settings.clone(),
            ..Settings::new(need.connections)
        };
        if let Some(certificates) = &self.certificates {
            settings = settings.with_tls(certificates);
        }
        let mut cluster = Cluster::start(&self.programs, settings)?;
        cluster.fill(need.scale)?;
        for sql in &need.setup {
            cluster.query(DATABASE, sql)?;
        }
        for _ in 0..need.replicas {
            cluster.add_replica()?;
        }
        cluster.await_replicas()?;
        Ok(cluster)
    }

    /// True if the server meets `need` as it is.
    pub(super) fn fits(&self, need: &Need) -> bool {
        need.is_met_by(&self.need)
    }

    /// Makes every block begin alike: restarted servers, and restored data if any cell changes them.
    pub(super) fn begin_block(&mut self, restart: bool, writes: bool) -> SystemResult<()> {
        let Some(cluster) = self.cluster.take() else {
            return Ok(());
        };
        let cluster = if restart { cluster.restart()? } else { cluster };
        if writes {
            cluster.restore()?;
        }
        cluster.await_replicas()?;
        self.cluster = Some(cluster);
        Ok(())
    }

    /// Returns the password of a given server.
    pub(super) fn secret(&self) -> Option<&str> {
        self.given.as_ref()?.password()
    }

    /// Runs a query on the primary.
    pub(super) fn query(&self, sql: &str) -> SystemResult<String> {
        match (&self.cluster, &self.given) {
            (Some(cluster), _) => cluster.query(DATABASE, sql),
            (None, Some(given)) => given.query(&self.programs, sql),
            (None, None) => Err(SystemError::Missing {
                name: "postgres".to_owned(),
                hint: None,
            }),
        }
    }

    /// Returns the number of transactions that each server has committed in the load's database, the primary first;
    /// `None` without replicas. Connections to that database must be closed: servers count at the end of each.
    pub(super) fn commits(&self) -> SystemResult<Option<Vec<u64>>> {
        match &self.cluster {
            Some(cluster) if self.need.replicas > 0 => cluster.commits().map(Some),
            _ => Ok(None),
        }
    }

    /// Returns the process ids of the servers, if they are the lab's.
    pub(super) fn pids(&self) -> Vec<u32> {
        let null = self.canned.iter().map(Canned::pid);
        let cluster = self.cluster.iter().flat_map(Cluster::pids);
        null.chain(cluster).collect()
    }

    /// Returns all servers, the primary first.
    pub(super) fn servers(&self) -> Vec<Server> {
        if let Some(given) = &self.given {
            return vec![Server {
                host: given.host.clone(),
                port: given.port,
                primary: true,
            }];
        }
        let null = self.canned.iter().map(|canned| canned.address);
        let addresses = self.cluster.iter().flat_map(Cluster::addresses);
        let server = |(index, address): (usize, std::net::SocketAddr)| Server {
            host: address.ip().to_string(),
            port: address.port(),
            primary: index == 0,
        };
        null.chain(addresses).enumerate().map(server).collect()
    }

    /// Returns the login of the clients.
    pub(super) fn login(&self) -> Login {
        match &self.given {
            None => Login {
                user: CLIENT.to_owned(),
                password: PASSWORD.to_owned(),
                secret: Cluster::secret(),
                database: DATABASE.to_owned(),
                auth: if self.need.passwords {
                    Auth::Scram
                } else {
                    Auth::Trust
                },
            },
            // The server's stored secret is unknown; poolers accept the password itself as well.
            Some(given) => {
                let password = given.password.clone().unwrap_or_default();
                Login {
                    user: given.user.clone(),
                    secret: password.clone(),
                    auth: if password.is_empty() {
                        Auth::Trust
                    } else {
                        Auth::Scram
                    },
                    password,
                    database: given.database.clone(),
                }
            }
        }
    }

    /// Returns certificate, key and authority; empty paths without TLS.
    pub(super) fn files(&self) -> (PathBuf, PathBuf, PathBuf) {
        self.certificates.as_ref().map_or_else(
            || (PathBuf::new(), PathBuf::new(), PathBuf::new()),
            |files| (files.certificate(), files.key(), files.authority()),
        )
    }
}

/// Result of [`Stage::login`].
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Login {
    pub(super) user: String,
    pub(super) password: String,
    pub(super) secret: String,
    pub(super) database: String,
    pub(super) auth: Auth,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need() -> Need {
        Need {
            scale: 10,
            connections: 100,
            tls: false,
            passwords: false,
            replicas: 0,
            setup: Vec::new(),
            settings: Vec::new(),
            null: None,
        }
    }

    #[test]
    fn a_server_that_can_more_will_do_and_another_will_not() {
        let larger = Need {
            connections: 500,
            tls: true,
            ..need()
        };
        assert!(need().is_met_by(&larger));
        assert!(!larger.is_met_by(&need()));
        let other = Need {
            scale: 20,
            ..larger
        };
        assert!(!need().is_met_by(&other));
    }

    #[test]
    fn a_given_server_is_read_from_its_address() {
        let given = Given::parse("postgresql://ann:p%40ss@db.example:6000/shop").unwrap();
        assert_eq!((given.host.as_str(), given.port), ("db.example", 6000));
        assert_eq!(given.password.as_deref(), Some("p@ss"));
        assert_eq!(
            (given.user.as_str(), given.database.as_str()),
            ("ann", "shop")
        );
        let given = Given::parse("postgres://ann@localhost/shop").unwrap();
        assert_eq!((given.port, given.user.as_str()), (5432, "ann"));
    }

    #[test]
    fn an_address_is_kept_without_its_password() {
        let kept = Given::redacted("postgresql://ann:p%40ss@db.example:6000/shop");
        assert_eq!(kept, "postgresql://ann@db.example:6000/shop");
        assert_eq!(Given::redacted("--resume"), "--resume");
    }

    #[test]
    fn what_is_missing_in_an_address_is_said_without_the_password() {
        for (wrong, words) in [
            ("db.example:5432", "write postgresql://"),
            ("mysql://a@b/c", "write postgresql://"),
            ("postgresql://ann:secret@db.example", "must be named"),
            ("postgresql://db.example/shop", "must be named"),
        ] {
            let error = Given::parse(wrong).unwrap_err().to_string();
            assert!(error.contains(words), "{wrong}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
