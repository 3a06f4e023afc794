//! Authentication that needs TLS: SCRAM bound to the connection, and certificates, on both sides.

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::Weir;
use weir_conformance::login::Binding;
use weir_conformance::login::login;
use weir_conformance::postgres;
use weir_conformance::psql::psql;
use weir_conformance::tls::Dial;
use weir_conformance::tls::Pki;
use weir_conformance::tls::Spec;
use weir_conformance::tls::authority::Key;
use weir_conformance::tls::client::Options;
use weir_conformance::tools;

const PASSWORD: &str = "correct horse";

/// Users `bound` (SCRAM) and `shown` (certificate) of PostgreSQL itself, over TLS only.
struct Strict {
    pki: Pki,
    postgres: Postgres,
}

impl Strict {
    fn start() -> Result<Self> {
        let pki = Pki::new()?;
        let options = postgres::Options {
            settings: pki.postgres(&Spec::server())?,
            hba: vec![
                "hostssl all bound 127.0.0.1/32 scram-sha-256".to_owned(),
                "hostssl all shown 127.0.0.1/32 cert".to_owned(),
                "hostssl all twofold 127.0.0.1/32 scram-sha-256 clientcert=verify-full".to_owned(),
                "host all bound,shown,twofold 127.0.0.1/32 reject".to_owned(),
            ],
            ..postgres::Options::default()
        };
        let postgres = Postgres::start(&options)?;
        let mut raw = Raw::connect(postgres.port(), "postgres")?;
        for user in ["bound", "shown", "twofold"] {
            raw.query(&format!("create role {user} login password '{PASSWORD}'"))?;
        }
        Ok(Self { pki, postgres })
    }

    fn config(&self) -> Config {
        Config::to(self.postgres.port())
            .userlist(&format!(
                "\"postgres\" \"\"\n\"bound\" \"{PASSWORD}\"\n\"shown\" \"\"\n\"twofold\" \"{PASSWORD}\"\n"
            ))
            .set_all(self.pki.server_side("verify-full"))
    }
}

/// Tests a server with each kind of certificate, in each version of TLS.
#[test]
fn scram_is_offered_bound_to_the_connection() -> Result<()> {
    for key in [Key::Ecdsa, Key::Ecdsa384, Key::Rsa] {
        let pki = Pki::new()?;
        let files = pki.issue("weir", &Spec::server().key(key))?;
        let config = Config::to(1)
            .set("auth_type", "scram-sha-256")
            .set("auth_failure_delay", "0")
            .set("admin_users", "bound")
            .userlist(&format!("\"bound\" \"{PASSWORD}\"\n"))
            .set_all(pki.client_side("require")?)
            .set("client_tls_cert_file", &files.certificate.to_string_lossy())
            .set("client_tls_key_file", &files.key.to_string_lossy());
        let weir = Weir::start(&config)?;
        for versions in [&[&rustls::version::TLS12][..], &[&rustls::version::TLS13]] {
            let dial = Dial::with(&Options {
                authority: Some(&pki.authority),
                versions,
                ..Options::default()
            })?;
            for binding in [Binding::Yes, Binding::No] {
                let mut raw = dial.request(weir.port())?;
                // The console needs no server.
                let method = login(&mut raw, "bound", "pgbouncer", PASSWORD, binding)
                    .with_context(|| format!("{key:?}, {versions:?}, {binding:?}"))?;
                ensure!(method == Some(10), "{method:?}");
                let mut raw = dial.request(weir.port())?;
                let wrong = login(&mut raw, "bound", "pgbouncer", "wrong", binding);
                let text = wrong
                    .err()
                    .map(|error| error.to_string())
                    .unwrap_or_default();
                ensure!(
                    text.contains("password authentication failed for user"),
                    "{text}"
                );
            }
        }
    }
    Ok(())
}

#[test]
fn libpq_can_demand_channel_binding_on_both_sides() -> Result<()> {
    let strict = Strict::start()?;
    let config = strict
        .config()
        .set("auth_type", "scram-sha-256")
        .set("server_channel_binding", "require")
        .set_all(strict.pki.client_side("require")?);
    let mut weir = Weir::start(&config)?;
    let mut psql = psql(weir.port(), "postgres")?;
    psql.env("PGSSLMODE", "verify-full")
        .env("PGSSLROOTCERT", strict.pki.ca_file())
        .env("PGCHANNELBINDING", "require")
        .env("PGPASSWORD", PASSWORD)
        .args(["-U", "bound", "-At", "-c", "select current_user"]);
    let output = tools::run(&mut psql)?;
    ensure!(output == "bound\n", "{output}");
    weir.check_healthy()
}

#[test]
fn servers_that_want_a_certificate_get_ours() -> Result<()> {
    let strict = Strict::start()?;
    let files = strict.pki.issue("shown", &Spec::client("shown"))?;
    let config = strict
        .config()
        .set("server_tls_cert_file", &files.certificate.to_string_lossy())
        .set("server_tls_key_file", &files.key.to_string_lossy());
    let mut weir = Weir::start(&config)?;
    let mut raw = weir.connect_as("shown", "postgres")?;
    ensure!(raw.query_one("select current_user")? == "shown");
    let sql = "select client_dn from pg_stat_ssl where pid = pg_backend_pid()";
    ensure!(raw.query_one(sql)? == "/CN=shown");
    // The certificate belongs to another user, and the password alone is not enough.
    let refused = weir.connect_as("twofold", "postgres").err();
    let text = refused.map(|error| error.to_string()).unwrap_or_default();
    ensure!(text.contains("FATAL 28"), "{text:?}");
    weir.check_healthy()
}

#[test]
fn servers_that_want_a_certificate_we_do_not_have_refuse() -> Result<()> {
    let strict = Strict::start()?;
    let mut weir = Weir::start(&strict.config())?;
    let refused = weir.connect_as("shown", "postgres").err();
    let text = refused.map(|error| error.to_string()).unwrap_or_default();
    ensure!(
        text.contains("connection requires a valid client certificate"),
        "{text:?}"
    );
    ensure!(
        weir.connect_as("bound", "postgres")?
            .query_one("select 1")?
            == "1"
    );
    weir.check_healthy()
}
