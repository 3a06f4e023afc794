//! Real HAProxy in front of Weir, with the PROXY protocol: the address of a client is known behind a proxy.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use weir_conformance::child::{Guarded, Runner};
use weir_conformance::tls::{Dial, Pki};
use weir_conformance::{Config, Postgres, Raw, TempDir, Weir, tools, wait_until};

/// Time limit, generous because the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(30);
/// Address from which HAProxy connects to Weir.
const PROXY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 8);
/// Addresses of clients that the HBA file lets in, and does not.
const FRIEND: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);
const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 10);

/// HAProxy in front of a Weir; dropping it stops it.
struct Haproxy {
    _process: Guarded,
    _directory: TempDir,
    port: u16,
}

impl Haproxy {
    /// Starts HAProxy. `options` are those of the server.
    fn start(weir: &Weir, options: &str) -> Result<Self> {
        let (directory, port) = (TempDir::new()?, tools::free_port()?);
        let text = format!(
            "defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 1m\n  timeout server 1m\n\
             listen weir\n  bind 127.0.0.1:{port}\n  option pgsql-check user postgres\n  \
             server weir 127.0.0.1:{} source {PROXY} {options}\n",
            weir.port()
        );
        let file = directory.write("haproxy.cfg", &text)?;
        let program = tools::require("haproxy", "haproxy")?;
        let (program, file) = (program.to_string_lossy(), file.to_string_lossy());
        let command = [&*program, "-db", "-f", &*file];
        let log = directory.path().join("haproxy.log");
        let process = Guarded::start(Runner::Ourselves, "INT", &command, &[], &log)?;
        wait_until("HAProxy's start", PATIENCE, || {
            Ok(Raw::tcp(port, PATIENCE).is_ok())
        })?;
        Ok(Self {
            _process: process,
            _directory: directory,
            port,
        })
    }

    /// Logs in through HAProxy from this address.
    fn client(&self, address: Ipv4Addr) -> Result<Raw> {
        let mut client = Raw::tcp_from(address, self.port, PATIENCE)?;
        client.login(&[
            ("user", "postgres"),
            ("database", "postgres"),
            ("application_name", "app"),
        ])?;
        Ok(client)
    }
}

/// Weir in front of PostgreSQL.
struct Stage {
    weir: Weir,
    _directory: TempDir,
    _postgres: Arc<Postgres>,
}

/// Starts Weir with an HBA file that lets in all addresses but those of the proxy and of strangers.
fn start(settings: Vec<(&'static str, String)>) -> Result<Stage> {
    let directory = TempDir::new()?;
    let rules = format!(
        "host all all {PROXY}/32 trust\nhost all all {STRANGER}/32 reject\nhost all all 127.0.0.0/8 trust\n"
    );
    let hba = directory.write("hba.conf", &rules)?;
    let postgres = Postgres::shared()?;
    let config = Config::to(postgres.port())
        .set("auth_type", "hba")
        .set("auth_hba_file", &hba.to_string_lossy())
        .set("application_name_add_host", "1")
        .set("proxy_protocol_from", &PROXY.to_string())
        .set_all(settings)
        .userlist("\"postgres\" \"\"\n");
    Ok(Stage {
        weir: Weir::start(&config)?,
        _directory: directory,
        _postgres: postgres,
    })
}

/// Waits until a client of this address is shown.
fn until_shown(weir: &Weir, address: &str) -> Result<()> {
    let mut seen = Vec::new();
    wait_until(&format!("a client from {address}"), PATIENCE, || {
        let rows = weir.connect("pgbouncer")?.query_named("SHOW CLIENTS")?;
        let of_database = |row: &&_| {
            let row: &std::collections::HashMap<String, String> = row;
            row.get("database").is_some_and(|name| name == "postgres")
        };
        let rows = rows.iter().filter(of_database);
        seen = rows.filter_map(|row| row.get("addr").cloned()).collect();
        Ok(seen.iter().any(|shown| shown == address))
    })
    .with_context(|| format!("seen {seen:?}"))
}

#[test]
fn a_client_behind_haproxy_keeps_its_address() -> Result<()> {
    let Stage { weir, .. } = &start(Vec::new())?;
    let haproxy = Haproxy::start(weir, "send-proxy-v2")?;
    let mut client = haproxy.client(FRIEND)?;
    let name = client.query_one("SHOW application_name")?;
    ensure!(name.starts_with(&format!("app - {FRIEND}:")), "{name}");
    until_shown(weir, &FRIEND.to_string())?;
    weir.wait_log(&format!("postgres/postgres@{FRIEND}:"))?;

    // The HBA file judges the client, not the proxy.
    let refused = haproxy.client(STRANGER).err().context("it was let in")?;
    ensure!(refused.to_string().contains("login refused"), "{refused}");

    // Cancel requests come through the proxy, too.
    client.send(&weir_conformance::frontend::query("SELECT pg_sleep(60)"))?;
    wait_until("the query's start", PATIENCE, || {
        let active = "SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(60)'";
        Ok(weir.connect("postgres")?.query_one(active)? == "1")
    })?;
    client.cancel(haproxy.port)?;
    let answer = client.read_until_ready()?;
    let error = answer.iter().find_map(|message| message.field(b'C'));
    ensure!(error.as_deref() == Some("57014"), "{answer:?}");
    Ok(())
}

#[test]
fn a_trusted_address_needs_the_header_and_others_must_not_send_it() -> Result<()> {
    let mut stage = start(Vec::new())?;
    let parameters = [("user", "postgres"), ("database", "postgres")];
    let mut bare = Raw::tcp_from(PROXY, stage.weir.port(), PATIENCE)?;
    ensure!(bare.login(&parameters).is_err());
    stage.weir.wait_log(
        "refused: no PROXY protocol v2 header, and its address is in proxy_protocol_from",
    )?;
    let mut other = Raw::tcp_from(FRIEND, stage.weir.port(), PATIENCE)?;
    other.login(&parameters)?;

    // A header from an address that is not trusted is no start-up packet.
    let mut liar = Raw::tcp_from(FRIEND, stage.weir.port(), PATIENCE)?;
    let mut bytes = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
    bytes.extend([192, 0, 2, 7, 127, 0, 0, 1, 1, 1, 1, 1]);
    liar.send(&bytes)?;
    ensure!(liar.login(&parameters).is_err());
    stage.weir.check_healthy()
}

#[test]
fn health_checks_of_haproxy_keep_its_own_address() -> Result<()> {
    let Stage { weir, .. } = &start(Vec::new())?;
    // The server is taken out at the first check that fails.
    let options = "send-proxy-v2 check-send-proxy check inter 100ms fall 1 rise 1";
    let haproxy = Haproxy::start(weir, options)?;
    weir.wait_log(&format!("@{PROXY}:"))?;
    weir.wait_log("user=postgres")?;
    let mut client = haproxy.client(FRIEND)?;
    ensure!(client.query_one("SELECT 1")? == "1");
    ensure!(!weir.log().contains("no PROXY protocol"), "{}", weir.log());
    Ok(())
}

#[test]
fn tls_begins_behind_the_header() -> Result<()> {
    let pki = Pki::new()?;
    let Stage { weir, .. } = &start(pki.client_side("require")?)?;
    let haproxy = Haproxy::start(weir, "send-proxy-v2")?;
    let dial = Dial::new(&pki.authority)?;
    let mut client = dial.login(haproxy.port, "postgres", "postgres")?;
    ensure!(client.query_one("SELECT 1")? == "1");
    let name = client.query_one("SHOW application_name")?;
    ensure!(name.contains(" - 127.0.0.1:"), "{name}");
    let mut client = dial.direct(haproxy.port)?;
    client.login(&[("user", "postgres"), ("database", "postgres")])?;
    ensure!(client.query_one("SELECT 1")? == "1");
    Ok(())
}
