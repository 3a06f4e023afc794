//! Weir's binary: `auth_type = ldap` and `pam`, and `ldap` and `pam` lines of the HBA file.

use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use weir_conformance::Config;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::TempDir;
use weir_conformance::Weir;
use weir_conformance::login;
use weir_conformance::login::Binding;
use weir_conformance::pam::Pam;
use weir_conformance::slapd::BASE;
use weir_conformance::slapd::PEOPLE;
use weir_conformance::slapd::SEARCHER;
use weir_conformance::slapd::STAFF;
use weir_conformance::slapd::Slapd;
use weir_conformance::slapd::Transport;
use weir_conformance::wait_until;

use crate::support::Directory;
use crate::support::PATIENCE;

/// Code of `AuthenticationCleartextPassword`.
const CLEARTEXT: Option<i32> = Some(3);

/// Configuration for the shared cluster, with `postgres` as the server user of all clients.
fn config(postgres: &Postgres) -> Config {
    let port = postgres.port();
    Config::new()
        .database(&format!("* = host=127.0.0.1 port={port} user=postgres"))
        .set("verbose", "2")
}

fn simple_bind(port: u16) -> String {
    format!("ldapserver=127.0.0.1 ldapport={port} ldapprefix=\"uid=\" ldapsuffix=\",{PEOPLE}\"")
}

/// Logs in and runs a query; otherwise returns the refusal.
fn attempt(weir: &Weir, user: &str, password: &str) -> Result<()> {
    let mut raw = Raw::tcp(weir.port(), PATIENCE)?;
    let method = login::login(&mut raw, user, "postgres", password, Binding::No)?;
    anyhow::ensure!(method == CLEARTEXT, "asked for {method:?}");
    raw.query("select 1")?;
    Ok(())
}

#[track_caller]
fn refusal(weir: &Weir, user: &str, password: &str) -> String {
    let error = attempt(weir, user, password)
        .expect_err("a refusal")
        .to_string();
    assert!(error.starts_with("login refused"), "{error}");
    error
}

#[test]
fn auth_type_ldap_by_simple_bind() -> Result<()> {
    let postgres = Postgres::shared()?;
    let mut slapd = Slapd::start(&Transport::Clear)?;
    let config = config(&postgres)
        .set("auth_type", "ldap")
        .set("auth_ldap_options", &simple_bind(slapd.port()));
    let mut weir = Weir::start(&config)?;
    attempt(&weir, "alice", "alice's secret")?;
    // The client cannot see the reason in the answer; the log has it.
    let wrong = refusal(&weir, "alice", "bob's secret");
    let of = |user: &str| wrong.replace("alice", user);
    assert_eq!(refusal(&weir, "nobody", "alice's secret"), of("nobody"));
    let guest = "alice,ou=guests";
    assert_eq!(refusal(&weir, guest, "guest's secret"), of(guest));
    weir.wait_log("wrong password")?;
    // A client may learn that its own password is empty; the server would have accepted it.
    refusal(&weir, "alice", "");
    slapd.stop()?;
    assert_eq!(refusal(&weir, "alice", "alice's secret"), wrong);
    weir.wait_log(&format!("LDAP server ldap://127.0.0.1:{}", slapd.port()))?;
    assert!(!weir.log().contains("'s secret"), "{}", weir.log());
    weir.check_healthy()
}

#[test]
fn hba_lines_choose_the_directory() -> Result<()> {
    let postgres = Postgres::shared()?;
    let directory = Directory::shared()?;
    let (port, tls_port) = (directory.slapd.port(), directory.slapd.tls_port());
    let (searcher, secret) = SEARCHER;
    let files = TempDir::new()?;
    let hba = format!(
        "host all postgres 127.0.0.1/32 trust\n\
         host all dave 127.0.0.1/32 ldap ldapserver=localhost ldapport={tls_port} ldapscheme=ldaps \
         ldapbasedn=\"{STAFF}\" ldapbinddn=\"{searcher}\" ldapbindpasswd=\"{secret}\"\n\
         host all bob 127.0.0.1/32 ldap ldapserver=127.0.0.1 ldapport={port} ldaptls=1 \
         ldapbasedn=\"{BASE}\" ldapsearchattribute=uid\n\
         host all all 127.0.0.1/32 ldap {}\n",
        simple_bind(port)
    );
    let hba = files.write("hba.conf", &hba)?;
    let config = config(&postgres)
        .set("auth_type", "hba")
        .set("auth_hba_file", &hba.to_string_lossy())
        .env("LDAPTLS_CACERT", &directory.pki.ca_file().to_string_lossy());
    let mut weir = Weir::start(&config)?;
    for user in ["alice", "bob", "dave"] {
        let password = format!("{user}'s secret");
        attempt(&weir, user, &password).with_context(|| weir.log())?;
        refusal(&weir, user, "not it");
    }
    weir.connect("postgres")?;
    assert!(!weir.log().contains("'s secret"), "{}", weir.log());
    weir.check_healthy()
}

#[test]
fn a_silent_directory_stops_nobody_else() -> Result<()> {
    let postgres = Postgres::shared()?;
    let slapd = Slapd::start(&Transport::Clear)?;
    let files = TempDir::new()?;
    let hba = format!(
        "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 ldap {}\n",
        simple_bind(slapd.port())
    );
    let hba = files.write("hba.conf", &hba)?;
    let config = config(&postgres)
        .set("auth_type", "hba")
        .set("auth_hba_file", &hba.to_string_lossy());
    let mut weir = Weir::start(&config)?;
    let mut before = weir.connect("postgres")?;
    slapd.freeze()?;
    std::thread::scope(|scope| -> Result<()> {
        // More logins than the directory can be asked about at once.
        let logins: Vec<_> = (0..12)
            .map(|_| scope.spawn(|| attempt(&weir, "alice", "alice's secret")))
            .collect();
        wait_until("the directory to be asked", Duration::from_secs(10), || {
            Ok(connections_to(slapd.port())? >= 1)
        })?;
        for _ in 0..20 {
            before.query("select 1")?;
            weir.connect("postgres")?.query("select 1")?;
        }
        slapd.thaw()?;
        for login in logins {
            login.join().map_err(|_| anyhow::anyhow!("a panic"))??;
        }
        Ok(())
    })?;
    weir.check_healthy()
}

/// Number of established connections to a port of 127.0.0.1, from the kernel's table.
fn connections_to(port: u16) -> Result<usize> {
    let table = std::fs::read_to_string("/proc/net/tcp")?;
    let remote = format!("0100007F:{port:04X}");
    let is_ours = |line: &&str| {
        let mut fields = line.split_whitespace().skip(2);
        fields.next() == Some(&*remote) && fields.next() == Some("01")
    };
    Ok(table.lines().filter(is_ours).count())
}

#[test]
fn auth_type_pam() -> Result<()> {
    let postgres = Postgres::shared()?;
    let pam = Pam::new()?;
    let mut config = config(&postgres).set("auth_type", "pam");
    for (key, value) in pam.env() {
        config = config.env(&key, &value);
    }
    let mut weir = Weir::start(&config)?;
    attempt(&weir, "alice", "alice's secret").with_context(|| weir.log())?;
    assert_eq!(pam.asked(), "auth pgbouncer alice 127.0.0.1\n");
    let wrong = refusal(&weir, "alice", "bob's secret");
    refusal(&weir, "alice", "");
    // The password is right, but the account may not use this service.
    assert_eq!(
        refusal(&weir, "bob", "bob's secret"),
        wrong.replace("alice", "bob")
    );
    assert!(!weir.log().contains("'s secret"), "{}", weir.log());
    weir.check_healthy()
}

#[test]
fn hba_lines_choose_the_pam_service() -> Result<()> {
    let postgres = Postgres::shared()?;
    let pam = Pam::new()?;
    let files = TempDir::new()?;
    let hba = "host all bob 127.0.0.1/32 pam pamservice=closed\n\
               host all all 127.0.0.1/32 pam pamservice=talkative\n";
    let hba = files.write("hba.conf", hba)?;
    let mut config = config(&postgres)
        .set("auth_type", "hba")
        .set("auth_hba_file", &hba.to_string_lossy());
    for (key, value) in pam.env() {
        config = config.env(&key, &value);
    }
    let mut weir = Weir::start(&config)?;
    attempt(&weir, "alice", "alice's secret").with_context(|| weir.log())?;
    refusal(&weir, "alice", "not it");
    refusal(&weir, "bob", "bob's secret");
    // The default service was not asked.
    assert_eq!(pam.asked(), "");
    weir.check_healthy()
}
