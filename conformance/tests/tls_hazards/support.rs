//! Helpers of these tests: a target with TLS for clients, a fake server with TLS, and reading the end
//! of a connection.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use rustls::ServerConfig;
use weir_conformance::Config;
use weir_conformance::Kind;
use weir_conformance::PoolOptions;
use weir_conformance::Postgres;
use weir_conformance::Postgres18;
use weir_conformance::Raw;
use weir_conformance::Target;
use weir_conformance::Weir;
use weir_conformance::postgres;
use weir_conformance::raw::Message;
use weir_conformance::tls;
use weir_conformance::tls::Pki;
use weir_conformance::tls::Spec;

/// Either version of PostgreSQL.
#[derive(Debug)]
enum Cluster {
    V15(Postgres),
    V18(Postgres18),
}

/// A target that accepts TLS from clients that request it.
#[derive(Debug)]
pub(crate) struct Front {
    pub(crate) pki: Pki,
    pub(crate) target: Target,
    postgres: Cluster,
}

impl Front {
    /// Starts in front of PostgreSQL 15.
    pub(crate) fn start(client_mode: &str) -> Result<Self> {
        let pki = Pki::new()?;
        let postgres = Postgres::start(&options(&pki)?)?;
        Self::before(pki, Cluster::V15(postgres), client_mode)
    }

    /// Starts in front of PostgreSQL 18, which as a direct target supports direct TLS.
    pub(crate) fn start_18(client_mode: &str) -> Result<Self> {
        let pki = Pki::new()?;
        let postgres = Postgres18::start(&options(&pki)?)?;
        Self::before(pki, Cluster::V18(postgres), client_mode)
    }

    fn before(pki: Pki, postgres: Cluster, client_mode: &str) -> Result<Self> {
        let pool = PoolOptions::default()
            .settings(pki.client_side(client_mode)?)
            .setting("client_login_timeout = 10");
        let target = Target::start(postgres.inner(), &pool)?;
        Ok(Self {
            pki,
            target,
            postgres,
        })
    }

    /// Direct connection in clear text.
    pub(crate) fn beside(&self) -> Result<Raw> {
        Raw::connect(self.postgres.inner().port(), "postgres")
    }

    pub(crate) fn port(&self) -> u16 {
        self.target.port()
    }

    /// Waits until the log contains a text: a separate thread writes it.
    pub(crate) fn wait_log(&self, text: &str) -> Result<()> {
        weir_conformance::wait_until(text, Duration::from_secs(10), || {
            Ok(self.log().contains(text))
        })
        .with_context(|| self.log())
    }

    /// Log of the target.
    pub(crate) fn log(&self) -> String {
        match self.target.kind() {
            Kind::Direct => self.postgres.inner().log(),
            _ => self.target.log(),
        }
    }
}

impl Cluster {
    fn inner(&self) -> &Postgres {
        match self {
            Self::V15(postgres) => postgres,
            Self::V18(postgres) => postgres.cluster(),
        }
    }
}

fn options(pki: &Pki) -> Result<postgres::Options> {
    Ok(postgres::Options {
        settings: pki.postgres(&Spec::server())?,
        ..postgres::Options::default()
    })
}

/// TLS configuration of a trusted server.
pub(crate) fn server_tls(pki: &Pki) -> Result<Arc<ServerConfig>> {
    tls::server::config(&pki.authority.issue(&Spec::server())?)
}

/// Weir in front of a fake server, with this mode for the server side.
pub(crate) fn weir_before(pki: &Pki, port: u16, mode: &str) -> Result<Weir> {
    let config = Config::to(port)
        .set("failover_hold", "0")
        .set_all(pki.server_side(mode))
        .set("server_login_retry", "1");
    Weir::start(&config)
}

/// All messages up to the close.
pub(crate) fn last_words(raw: &mut Raw) -> Vec<Message> {
    let mut messages = Vec::new();
    while let Ok(message) = raw.read_message() {
        messages.push(message);
    }
    messages
}

/// Checks that the messages have at most one error, no message of a completed login, and no row.
pub(crate) fn check_refused(words: &[Message]) -> Result<()> {
    let good = match words {
        [] => true,
        [only] => only.tag == b'E' && only.field(b'S').as_deref() == Some("FATAL"),
        _ => false,
    };
    ensure!(good, "wanted a refusal, got {words:?}");
    Ok(())
}

/// Error of a refused login; empty if it was accepted.
pub(crate) fn refusal(login: Result<Raw>) -> String {
    login
        .err()
        .map_or_else(String::new, |error| format!("{error:#}"))
}
