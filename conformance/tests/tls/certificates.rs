//! RELOAD reads the certificates of both sides again: new connections use the new ones, open ones continue, and a
//! bad file changes nothing. This suite is about Weir only.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use rustls::pki_types::CertificateDer;
use weir_conformance::Config;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::Weir;
use weir_conformance::child::Runner;
use weir_conformance::postgres;
use weir_conformance::tls::Dial;
use weir_conformance::tls::Files;
use weir_conformance::tls::Identity;
use weir_conformance::tls::Pki;
use weir_conformance::tls::Spec;
use weir_conformance::wait_until;

const PATIENCE: Duration = Duration::from_secs(20);

/// Weir with a certificate of its own on each side, in front of a PostgreSQL that requires one.
struct World {
    // Weir is dropped first.
    weir: Weir,
    _postgres: Postgres,
    pki: Pki,
    first: Identity,
    files: Files,
    own: Files,
}

impl World {
    fn start() -> Result<Self> {
        let pki = Pki::new()?;
        let options = postgres::Options {
            settings: pki.postgres(&Spec::server())?,
            hba: vec!["hostssl all shown 127.0.0.1/32 cert".to_owned()],
            ..postgres::Options::default()
        };
        let postgres = Postgres::start(&options)?;
        Raw::connect(postgres.port(), "postgres")?.query("create role shown login")?;
        let first = pki.authority.issue(&Spec::server().days_left(90))?;
        let files = pki.write("listener", &first, Runner::Ourselves)?;
        let own = pki.issue("shown", &Spec::client("shown").days_left(30))?;
        let config = Config::to(postgres.port())
            .userlist("\"postgres\" \"\"\n\"shown\" \"\"\n")
            .set_all(pki.client_side("require")?)
            .set_all(pki.server_side("verify-full"))
            .set("client_tls_cert_file", &text(&files.certificate))
            .set("client_tls_key_file", &text(&files.key))
            .set("server_tls_cert_file", &text(&own.certificate))
            .set("server_tls_key_file", &text(&own.key));
        Ok(Self {
            weir: Weir::start(&config)?,
            _postgres: postgres,
            pki,
            first,
            files,
            own,
        })
    }

    fn login(&self, user: &str, database: &str) -> Result<Raw> {
        let dial = Dial::new(&self.pki.authority)?;
        dial.login(self.weir.port(), user, database)
    }

    /// Certificate that a new client sees.
    fn seen(&self) -> Result<CertificateDer<'static>> {
        let raw = Dial::new(&self.pki.authority)?.request(self.weir.port())?;
        let tls = raw.tls().context("TLS")?;
        let first = tls.peer_certificates().and_then(|chain| chain.first());
        Ok(first.context("no certificate")?.clone().into_owned())
    }

    /// Reloads through the console, which answers before the reload is done; the log has the result.
    fn reload(&self) -> Result<()> {
        let count = |log: String| log.matches("reload done").count();
        let before = count(self.weir.log());
        let mut console = self.login("postgres", "pgbouncer")?;
        console.query("RELOAD")?;
        wait_until("the reload", PATIENCE, || {
            Ok(count(self.weir.log()) > before)
        })
    }

    /// Reloads with a bad file, which the log must name.
    fn reload_in_vain(&self, path: &Path) -> Result<()> {
        let before = self.weir.log().len();
        let mut console = self.login("postgres", "pgbouncer")?;
        // An error is accepted, but not required.
        drop(console.query("RELOAD"));
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let mut log = String::new();
        wait_until("a word about the file", PATIENCE, || {
            log = self.weir.log().split_off(before);
            Ok(log.contains(&*name))
        })
        .with_context(|| format!("the log does not name {name}: {log}"))
    }

    /// Rows of `SHOW TLS` for one side.
    fn shown(&self, side: &str) -> Result<Vec<std::collections::HashMap<String, String>>> {
        let rows = self
            .login("postgres", "pgbouncer")?
            .query_named("SHOW TLS")?;
        let of_side = |row: &std::collections::HashMap<String, String>| {
            row.get("side").is_some_and(|found| found == side)
        };
        Ok(rows.into_iter().filter(of_side).collect())
    }

    fn days_left(&self, side: &str) -> Result<i64> {
        let rows = self.shown(side)?;
        // The table also has the authorities' certificates.
        let own = ["listener.crt", "shown.crt"];
        let is_own = |file: &String| own.iter().any(|name| file.ends_with(name));
        let row = rows.iter().find(|row| row.get("file").is_some_and(is_own));
        let days = row.and_then(|row| row.get("days_left"));
        Ok(days
            .with_context(|| format!("no days: {rows:?}"))?
            .parse()?)
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn serial(raw: &mut Raw) -> Result<String> {
    raw.query_one("select client_serial from pg_stat_ssl where pid = pg_backend_pid()")
}

#[test]
fn new_clients_see_the_new_certificate_and_live_ones_go_on() -> Result<()> {
    let mut world = World::start()?;
    let mut live = world.login("postgres", "postgres")?;
    live.query("begin; create temp table kept (n int)")?;
    ensure!(world.seen()? == world.first.chain()[0]);
    ensure!(
        (89..=91).contains(&world.days_left("client")?),
        "{:?}",
        world.shown("client")?
    );
    let second = world.pki.authority.issue(&Spec::server().days_left(200))?;
    world.pki.write("listener", &second, Runner::Ourselves)?;
    // The file is not read before the reload.
    ensure!(
        world.seen()? == world.first.chain()[0],
        "read without a reload"
    );
    world.reload()?;
    wait_until("the new certificate", PATIENCE, || {
        Ok(world.seen()? == second.chain()[0])
    })?;
    ensure!(
        (199..=201).contains(&world.days_left("client")?),
        "{:?}",
        world.shown("client")?
    );
    live.query("insert into kept values (1); commit")?;
    // A signal works, too.
    let third = world.pki.authority.issue(&Spec::server().days_left(10))?;
    world.pki.write("listener", &third, Runner::Ourselves)?;
    world.weir.signal("HUP")?;
    wait_until("the newest certificate", PATIENCE, || {
        Ok(world.seen()? == third.chain()[0])
    })?;
    ensure!(live.query_one("select 1")? == "1");
    world.weir.check_healthy()
}

#[test]
fn new_servers_see_the_new_certificate_and_live_ones_go_on() -> Result<()> {
    let mut world = World::start()?;
    let mut live = world.login("shown", "postgres")?;
    live.query("begin")?;
    let old = serial(&mut live)?;
    ensure!(
        (29..=31).contains(&world.days_left("server")?),
        "{:?}",
        world.shown("server")?
    );
    world
        .pki
        .issue("shown", &Spec::client("shown").days_left(60))?;
    world.reload()?;
    wait_until("the new certificate", PATIENCE, || {
        // The transaction holds the first server, so this is another one.
        let mut raw = world.login("shown", "postgres")?;
        raw.query("begin")?;
        Ok(serial(&mut raw)? != old)
    })?;
    ensure!(
        (59..=61).contains(&world.days_left("server")?),
        "{:?}",
        world.shown("server")?
    );
    ensure!(
        serial(&mut live)? == old,
        "the transaction has lost its server"
    );
    live.query("commit")?;
    world.weir.check_healthy()
}

/// Half a renewal, garbage, a missing file: nothing changes, and the log names the file.
#[test]
fn a_bad_file_keeps_the_old_certificate_and_says_so() -> Result<()> {
    let mut world = World::start()?;
    let mut live = world.login("postgres", "postgres")?;
    let other = world.pki.authority.issue(&Spec::server())?;
    let spoilt: [(&Path, &str); 5] = [
        (&world.files.key, &other.key),
        (
            &world.files.certificate,
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        ),
        (&world.files.certificate, ""),
        (&world.own.key, "not a key"),
        (&world.own.certificate, &other.certificate),
    ];
    for (path, content) in spoilt {
        let good = fs::read(path)?;
        fs::write(path, content)?;
        world
            .reload_in_vain(path)
            .with_context(|| content.to_owned())?;
        ensure!(
            world.seen()? == world.first.chain()[0],
            "{}",
            path.display()
        );
        ensure!(world.login("shown", "postgres")?.query_one("select 1")? == "1");
        ensure!(live.query_one("select 1")? == "1");
        fs::write(path, good)?;
    }
    world.reload()?;
    // A missing file.
    let good = fs::read(&world.files.certificate)?;
    fs::remove_file(&world.files.certificate)?;
    world.reload_in_vain(&world.files.certificate)?;
    ensure!(world.seen()? == world.first.chain()[0]);
    fs::write(&world.files.certificate, good)?;
    world.weir.check_healthy()
}

#[test]
fn another_authority_counts_from_the_reload_on() -> Result<()> {
    let mut world = World::start()?;
    let mut live = world.login("shown", "postgres")?;
    live.query("begin")?;
    let ours = fs::read(world.pki.ca_file())?;
    fs::write(world.pki.ca_file(), world.pki.stranger.pem())?;
    world.reload()?;
    // The server's certificate is no longer issued by a trusted authority.
    wait_until("the refusal", PATIENCE, || {
        let mut raw = world.login("postgres", "postgres");
        Ok(raw
            .as_mut()
            .map_or(true, |raw| raw.query("select 1").is_err()))
    })?;
    live.query("commit")?;
    fs::write(world.pki.ca_file(), ours)?;
    world.reload()?;
    wait_until("trust again", PATIENCE, || {
        let mut raw = world.login("postgres", "postgres");
        Ok(raw.as_mut().is_ok_and(|raw| raw.query("select 1").is_ok()))
    })?;
    world.weir.check_healthy()
}

/// An invalid configuration is refused at the start; the error names the file.
#[test]
fn a_start_with_a_bad_file_is_refused() -> Result<()> {
    let pki = Pki::new()?;
    let good = pki.issue("good", &Spec::server())?;
    let other = pki.issue("other", &Spec::server())?;
    let base = || -> Result<Config> { Ok(Config::to(1).set_all(pki.client_side("require")?)) };
    let broken: [(&str, String); 4] = [
        ("client_tls_cert_file", "/nonexistent/weir.crt".to_owned()),
        ("client_tls_key_file", text(&other.key)),
        ("client_tls_cert_file", text(&good.key)),
        ("client_tls_ciphers", "NO-SUCH-CIPHER".to_owned()),
    ];
    for (key, value) in broken {
        let config = base()?
            .set("client_tls_cert_file", &text(&good.certificate))
            .set("client_tls_key_file", &text(&good.key))
            .set(key, &value);
        let port = weir_conformance::tools::free_port()?;
        let mut weir = Weir::spawn(&config, port)?;
        let status = weir.wait_exit(PATIENCE)?;
        ensure!(!status.success(), "{key} = {value}: {status}");
        let log = weir.log();
        let word = Path::new(&value).file_name().unwrap_or_default();
        ensure!(
            log.contains(&*word.to_string_lossy()) || log.contains(key),
            "{key} = {value}: {log}"
        );
    }
    Ok(())
}
