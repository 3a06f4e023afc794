//! A real OpenLDAP server (Debian: `slapd`) with a handful of people, in a directory of its own.
//!
//! It is told to do what careless servers do by default: a bind with a name and no password succeeds (RFC 4513 section
//! 5.1.2 calls it unauthenticated).

use std::net::TcpStream;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;

use crate::TempDir;
use crate::child::Guarded;
use crate::child::Runner;
use crate::tls::Files;
use crate::tools;
use crate::wait_until;

/// Longest time for starting up; a busy machine takes a while.
const START_MAX: Duration = Duration::from_secs(30);

/// Where everything is.
pub const BASE: &str = "dc=weir,dc=test";

/// Where the people are.
pub const PEOPLE: &str = "ou=people,dc=weir,dc=test";

/// Where the people are whom only the searcher may see.
pub const STAFF: &str = "ou=staff,dc=weir,dc=test";

/// Who may search everywhere, and the password.
pub const SEARCHER: (&str, &str) = ("cn=searcher,dc=weir,dc=test", "searcher's secret");

/// Entries and passwords. Two people are called alice, and two share an address.
const PEOPLE_LDIF: &[(&str, &str, &str, &str)] = &[
    ("uid=alice", PEOPLE, "alice@weir.test", "alice's secret"),
    ("uid=bob", PEOPLE, "office@weir.test", "bob's secret"),
    ("uid=carol", PEOPLE, "office@weir.test", "carol's secret"),
    (
        "uid=o\\2cneil\\2b1",
        PEOPLE,
        "oneil@weir.test",
        "o,neil's secret",
    ),
    ("uid=alice", GUESTS, "guest@weir.test", "guest's secret"),
    ("uid=dave", STAFF, "dave@weir.test", "dave's secret"),
];

/// Below the people, so that `alice,ou=guests` names somebody if it is not escaped.
const GUESTS: &str = "ou=guests,ou=people,dc=weir,dc=test";

/// How the server takes connections.
#[derive(Clone, Debug, Default)]
pub enum Transport {
    /// In the clear only; StartTLS is refused.
    #[default]
    Clear,
    /// In the clear, StartTLS and `ldaps` with this certificate.
    Tls(Files),
    /// As `Tls`, and nothing is answered before TLS has begun.
    TlsOnly(Files),
}

/// A running slapd; dropping it stops it and removes its files.
#[derive(Debug)]
pub struct Slapd {
    // Dropped before the directory it lives in.
    server: Guarded,
    _directory: TempDir,
    port: u16,
    tls_port: u16,
}

impl Slapd {
    /// Fills a database and starts a server on it.
    ///
    /// # Errors
    /// When slapd is not installed or does not start; the error holds its log.
    pub fn start(transport: &Transport) -> Result<Self> {
        let directory = TempDir::new()?;
        let (port, tls_port) = (tools::free_port()?, tools::free_port()?);
        let conf = directory.write("slapd.conf", &conf(directory.path(), transport))?;
        fill(&directory, &conf)?;
        let mut urls = format!("ldap://127.0.0.1:{port}/");
        if !matches!(transport, Transport::Clear) {
            urls.push_str(&format!(" ldaps://127.0.0.1:{tls_port}/"));
        }
        let program = tools::require("slapd", "slapd")?;
        let program = program.to_string_lossy();
        let conf = conf.to_string_lossy();
        // A debug level, even of none, keeps it in the foreground; 256 logs connections and operations.
        let command = [&*program, "-d", "256", "-f", &*conf, "-h", &urls];
        let log = directory.path().join("slapd.log");
        let server = Guarded::start(Runner::Ourselves, "INT", &command, &[], &log)?;
        let mut slapd = Self {
            server,
            _directory: directory,
            port,
            tls_port,
        };
        slapd.wait_ready()?;
        Ok(slapd)
    }

    fn wait_ready(&mut self) -> Result<()> {
        let (server, port) = (&mut self.server, self.port);
        wait_until("slapd's start", START_MAX, || {
            server.check_running()?;
            Ok(TcpStream::connect(("127.0.0.1", port)).is_ok())
        })
        .with_context(|| server.log())
    }

    /// The port of `ldap` on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The port of `ldaps` on 127.0.0.1; nobody listens there without a certificate.
    #[must_use]
    pub fn tls_port(&self) -> u16 {
        self.tls_port
    }

    /// Every connection and operation so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.server.log()
    }

    /// Ends it; nobody listens on its ports any more.
    ///
    /// # Errors
    /// When it does not end.
    pub fn stop(&mut self) -> Result<()> {
        self.server.stop("INT", Duration::from_secs(10))
    }

    /// Stops answering without closing anything.
    ///
    /// # Errors
    /// When it is gone.
    pub fn freeze(&self) -> Result<()> {
        self.server.signal("STOP")
    }

    /// Answers again.
    ///
    /// # Errors
    /// When it is gone.
    pub fn thaw(&self) -> Result<()> {
        self.server.signal("CONT")
    }
}

impl Drop for Slapd {
    fn drop(&mut self) {
        // A frozen process would not hear that it is to stop.
        drop(self.thaw());
    }
}

fn conf(directory: &Path, transport: &Transport) -> String {
    let here = directory.display();
    let schemas: String = ["core", "cosine", "inetorgperson"]
        .iter()
        .map(|name| format!("include /etc/ldap/schema/{name}.schema\n"))
        .collect();
    let tls = match transport {
        Transport::Clear => String::new(),
        Transport::Tls(files) => certificate(files),
        Transport::TlsOnly(files) => format!("{}security tls=1\n", certificate(files)),
    };
    format!(
        "{schemas}pidfile {here}/slapd.pid\nargsfile {here}/slapd.args\n\
         modulepath /usr/lib/ldap\nmoduleload back_mdb\n\
         allow bind_anon_cred bind_anon_dn\n{tls}\
         database mdb\nsuffix \"{BASE}\"\ndirectory {here}\nmaxsize 10485760\n\
         access to attrs=userPassword by anonymous auth by * none\n\
         access to dn.children=\"{STAFF}\" by dn.exact=\"{}\" read by anonymous auth by * none\n\
         access to * by * read\n",
        SEARCHER.0
    )
}

fn certificate(files: &Files) -> String {
    format!(
        "TLSCertificateFile {}\nTLSCertificateKeyFile {}\n",
        files.certificate.display(),
        files.key.display()
    )
}

fn fill(directory: &TempDir, conf: &PathBuf) -> Result<()> {
    let mut ldif = format!(
        "dn: {BASE}\nobjectClass: dcObject\nobjectClass: organization\no: weir\ndc: weir\n\n"
    );
    for unit in [PEOPLE, GUESTS, STAFF] {
        ldif.push_str(&format!("dn: {unit}\nobjectClass: organizationalUnit\n\n"));
    }
    let (searcher, secret) = SEARCHER;
    ldif.push_str(&format!(
        "dn: {searcher}\nobjectClass: organizationalRole\nobjectClass: simpleSecurityObject\nuserPassword: {secret}\n\n"
    ));
    for (name, parent, mail, password) in PEOPLE_LDIF {
        ldif.push_str(&format!(
            "dn: {name},{parent}\nobjectClass: inetOrgPerson\ncn: somebody\nsn: somebody\nmail: {mail}\n\
             userPassword: {password}\n\n"
        ));
    }
    let ldif = directory.write("people.ldif", &ldif)?;
    let program = tools::require("slapadd", "slapd")?;
    tools::run(
        Command::new(program)
            .arg("-f")
            .arg(conf)
            .arg("-l")
            .arg(ldif),
    )?;
    Ok(())
}
