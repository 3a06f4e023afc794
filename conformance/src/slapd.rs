//! A real OpenLDAP server (Debian: `slapd`) with a few users, in a directory of its own.
//!
//! The server has a careless default of many installations: a bind with a name and no password succeeds (RFC 4513
//! section 5.1.2 calls it unauthenticated).

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

/// Time limit for starting up; a busy machine takes a while.
const START_MAX: Duration = Duration::from_secs(30);

/// Root of all entries.
pub const BASE: &str = "dc=weir,dc=test";

/// Base of the users' entries.
pub const PEOPLE: &str = "ou=people,dc=weir,dc=test";

/// Base of the entries that only the searcher may see.
pub const STAFF: &str = "ou=staff,dc=weir,dc=test";

/// Name and password of the user that may search everywhere.
pub const SEARCHER: (&str, &str) = ("cn=searcher,dc=weir,dc=test", "searcher's secret");

/// Entries and passwords. Two users are called alice, and two share an address.
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

/// Below the people, so that `alice,ou=guests` is an existing entry if it is not escaped.
const GUESTS: &str = "ou=guests,ou=people,dc=weir,dc=test";

/// Transport that the server accepts.
#[derive(Clone, Debug, Default)]
pub enum Transport {
    /// Clear text only; StartTLS is refused.
    #[default]
    Clear,
    /// Clear text, StartTLS and `ldaps` with this certificate.
    Tls(Files),
    /// As `Tls`, but no request is answered before TLS has begun.
    TlsOnly(Files),
}

/// A running slapd; dropping it stops it and removes its files.
#[derive(Debug)]
pub struct Slapd {
    // Dropped before the directory of its files.
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
        // A debug level, even zero, keeps it in the foreground; 256 logs connections and operations.
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

    /// Port of `ldap` on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Port of `ldaps` on 127.0.0.1; closed if the server has no certificate.
    #[must_use]
    pub fn tls_port(&self) -> u16 {
        self.tls_port
    }

    /// Log of all connections and operations so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.server.log()
    }

    /// Stops the server and so closes its ports.
    ///
    /// # Errors
    /// When the server does not end.
    pub fn stop(&mut self) -> Result<()> {
        self.server.stop("INT", Duration::from_secs(10))
    }

    /// Stops answering without closing any connection.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn freeze(&self) -> Result<()> {
        self.server.signal("STOP")
    }

    /// Resumes answering.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn thaw(&self) -> Result<()> {
        self.server.signal("CONT")
    }
}

impl Drop for Slapd {
    fn drop(&mut self) {
        // A stopped process would not react to the signal.
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
