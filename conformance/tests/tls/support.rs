//! Helpers of the TLS tests: PostgreSQL with TLS, the target with TLS on both sides, and a client that verifies
//! it.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::Weak;

use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Kind;
use weir_conformance::PoolOptions;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::Target;
use weir_conformance::postgres;
use weir_conformance::tls::Dial;
use weir_conformance::tls::Pki;
use weir_conformance::tls::Spec;

/// PostgreSQL that accepts only TLS over TCP, except for database `postgres`.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) postgres: Postgres,
    pub(crate) pki: Pki,
}

impl Server {
    /// Server that all tests of this program share.
    pub(crate) fn shared() -> Result<Arc<Self>> {
        static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = shared.upgrade() {
            return Ok(running);
        }
        let pki = Pki::new()?;
        let options = postgres::Options {
            max_connections: 300,
            settings: pki.postgres(&Spec::server())?,
            // For the tests' own direct connections; everything through the target uses `tls`.
            hba: vec![
                "hostnossl tls all 127.0.0.1/32 reject".to_owned(),
                "hostssl replication all 127.0.0.1/32 trust".to_owned(),
                "host bench bench 127.0.0.1/32 password".to_owned(),
            ],
            ..postgres::Options::default()
        };
        let postgres = Postgres::start(&options)?;
        postgres.create_database("tls")?;
        let server = Arc::new(Self { postgres, pki });
        *shared = Arc::downgrade(&server);
        Ok(server)
    }

    /// Starts the target with TLS on both sides.
    pub(crate) fn target(&self, options: PoolOptions) -> Result<Target> {
        let options = options
            .settings(self.pki.client_side("require")?)
            .settings(self.pki.server_side("verify-full"));
        Target::start(&self.postgres, &options)
    }

    /// Client that verifies the target's certificate.
    pub(crate) fn dial(&self) -> Result<Dial> {
        Dial::new(&self.pki.authority)
    }

    /// Direct connection in clear text.
    pub(crate) fn beside(&self) -> Result<Raw> {
        Raw::connect(self.postgres.port(), "postgres")
    }
}

/// Checks with PostgreSQL's own statistics that the session's server connection uses TLS.
pub(crate) fn check_server_side(raw: &mut Raw) -> Result<()> {
    let sql = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";
    ensure!(raw.query_one(sql)? == "t", "the server side is in clear");
    Ok(())
}

/// True if the target is Weir or PgBouncer.
pub(crate) fn is_pooler(target: &Target) -> bool {
    target.kind() != Kind::Direct
}
