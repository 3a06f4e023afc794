//! What the TLS tests share: PostgreSQL with TLS, the target with TLS on both hops, and a client that checks it.

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

/// PostgreSQL that takes nothing but TLS over TCP, except for database `postgres`.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) postgres: Postgres,
    pub(crate) pki: Pki,
}

impl Server {
    /// One for all tests of this program.
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
            // The tests' own looks from beside; all that goes through the target is in `tls`.
            hba: vec![
                "hostnossl tls all 127.0.0.1/32 reject".to_owned(),
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

    /// The target with TLS on both hops.
    pub(crate) fn target(&self, options: PoolOptions) -> Result<Target> {
        let options = options
            .settings(self.pki.client_hop("require")?)
            .settings(self.pki.server_hop("verify-full"));
        Target::start(&self.postgres, &options)
    }

    /// A client that checks the target's certificate.
    pub(crate) fn dial(&self) -> Result<Dial> {
        Dial::new(&self.pki.authority)
    }

    /// From beside, in clear.
    pub(crate) fn beside(&self) -> Result<Raw> {
        Raw::connect(self.postgres.port(), "postgres")
    }
}

/// The session's server connection is inside TLS: PostgreSQL says so itself.
pub(crate) fn check_server_hop(raw: &mut Raw) -> Result<()> {
    let sql = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";
    ensure!(raw.query_one(sql)? == "t", "the server hop is in clear");
    Ok(())
}

/// True when the target is Weir or PgBouncer.
pub(crate) fn is_pooler(target: &Target) -> bool {
    target.kind() != Kind::Direct
}
