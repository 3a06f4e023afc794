//! Setup: PostgreSQL with a table of users, four Weirs (two sources, two listener modes) with the same rules, and
//! clients.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::TempDir;
use weir_conformance::Weir;
use weir_conformance::login::Binding;
use weir_conformance::login::login;
use weir_conformance::login::md5_secret;
use weir_conformance::login::scram_secret;
use weir_conformance::tls::Dial;
use weir_conformance::tls::Pki;
use weir_conformance::tls::Spec;
use weir_conformance::tools;

use crate::case::Case;
use crate::case::Credential;
use crate::case::Database;
use crate::case::Listener;
use crate::case::Method;
use crate::case::Secret;
use crate::case::Source;
use crate::case::Transport;

const PASSWORD: &str = "correct horse";
const PATIENCE: Duration = Duration::from_secs(20);

/// Result of a login.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) is_in: bool,
    pub(crate) text: String,
}

/// Servers, poolers and credentials of the cases.
pub(crate) struct World {
    // Dropped before the processes they connect to.
    weirs: Vec<(Source, Listener, TempDir, Weir)>,
    _postgres: Postgres,
    dial: Dial,
    own: BTreeMap<String, Dial>,
    other: Dial,
    myself: String,
}

impl World {
    pub(crate) fn start() -> Result<Self> {
        let pki = Pki::new()?;
        let postgres = Postgres::start(&Default::default())?;
        let myself = tools::run(Command::new("id").arg("-un"))?.trim().to_owned();
        let cases = Case::all();
        fill_table(&postgres, &cases, &myself)?;
        let with = |name: &str| -> Result<Dial> {
            let identity = pki.authority.issue(&Spec::client(name))?;
            Dial::as_client(&pki.authority, &identity)
        };
        let mut own = BTreeMap::new();
        for case in &cases {
            let name = certificate_name(case, &myself);
            if !own.contains_key(&name) {
                own.insert(name.clone(), with(&name)?);
            }
        }
        let mut world = Self {
            weirs: Vec::new(),
            dial: Dial::new(&pki.authority)?,
            own,
            other: with("other")?,
            _postgres: postgres,
            myself,
        };
        for &source in Source::ALL {
            for &listener in Listener::ALL {
                let port = world._postgres.port();
                let (sockets, config) = world.config(&cases, &pki, port, source, listener)?;
                let weir = Weir::start(&config)?;
                world.weirs.push((source, listener, sockets, weir));
            }
        }
        Ok(world)
    }

    fn config(
        &self,
        cases: &[Case],
        pki: &Pki,
        port: u16,
        source: Source,
        listener: Listener,
    ) -> Result<(TempDir, Config)> {
        let directory = TempDir::new()?;
        let hba = directory.write("hba.conf", &hba(cases, &self.myself))?;
        let maps = directory.write("ident.conf", &maps(cases, &self.myself))?;
        let mode = match listener {
            Listener::Prefer => "prefer",
            Listener::VerifyFull => "verify-full",
        };
        let admins = users(cases, &self.myself, |case| {
            case.database != Database::ConsoleOfOthers
        });
        let to = format!("host=127.0.0.1 port={port} dbname=postgres user=postgres");
        let mut config = Config::new()
            .database(&format!("real = {to}"))
            .set_all(pki.client_side(mode)?)
            .set("unix_socket_dir", &directory.path().to_string_lossy())
            .set("auth_type", "hba")
            .set("auth_hba_file", &hba.to_string_lossy())
            .set("auth_ident_file", &maps.to_string_lossy())
            .set(
                "admin_users",
                &admins.into_iter().collect::<Vec<_>>().join(","),
            )
            .set("auth_failure_delay", "0")
            .set("auth_failures_per_minute", "0")
            .set("server_tls_sslmode", "disable")
            .set("log_connections", "0")
            .set("log_disconnections", "0");
        config = match source {
            Source::File => config.userlist(&userlist(cases, &self.myself)),
            Source::Query => config
                .userlist("\"postgres\" \"\"\n")
                .set("auth_user", "postgres")
                .set("auth_dbname", "real")
                .set(
                    "auth_query",
                    "select name, case when until < now() then null else secret end \
                     from pool_users where name = $1",
                ),
        };
        Ok((directory, config))
    }

    /// Connects, logs in, and runs a query.
    pub(crate) fn attempt(&self, case: &Case) -> Result<Outcome> {
        let found = self
            .weirs
            .iter()
            .find(|(source, listener, ..)| *source == case.source && *listener == case.listener);
        let (.., sockets, weir) = found.context("a listener")?;
        let user = case.user(&self.myself);
        let raw = match case.transport {
            Transport::Unix => Raw::unix(sockets.path(), weir.port(), PATIENCE)?,
            _ => Raw::tcp(weir.port(), PATIENCE)?,
        };
        let dialled = match case.transport {
            Transport::Unix | Transport::Tcp => Ok(raw),
            Transport::Tls => self.dial.upgrade(raw),
            Transport::OwnCertificate => {
                let own = self.own.get(&certificate_name(case, &self.myself));
                own.context("a certificate")?.upgrade(raw)
            }
            Transport::OtherCertificate => self.other.upgrade(raw),
        };
        let outcome = dialled.and_then(|mut raw| converse(&mut raw, case, &user));
        match outcome {
            Ok(()) => Ok(Outcome {
                is_in: true,
                text: String::new(),
            }),
            Err(error) => {
                let text = format!("{error:#}");
                // Silence is not a refusal.
                ensure!(!text.contains("temporarily unavailable"), "{text}");
                Ok(Outcome { is_in: false, text })
            }
        }
    }

    pub(crate) fn check_healthy(mut self) -> Result<()> {
        self.weirs
            .iter_mut()
            .try_for_each(|(.., weir)| weir.check_healthy())
    }
}

fn converse(raw: &mut Raw, case: &Case, user: &str) -> Result<()> {
    let password = match case.credential {
        Credential::Right => PASSWORD,
        Credential::Wrong => "incorrect horse",
        Credential::Empty => "",
    };
    let database = match case.database {
        Database::Real => "real",
        Database::Console | Database::ConsoleOfOthers => "pgbouncer",
        Database::Missing => "missing",
    };
    login(raw, user, database, password, Binding::No)?;
    let asked = match case.database {
        Database::Real => raw.query_one("select 'inside'"),
        _ => raw.query_one("show version"),
    };
    // A client that is accepted but not served is neither in nor out.
    if let Err(error) = asked {
        bail!("temporarily unavailable: {error:#}");
    }
    Ok(())
}

/// Names of all users for which a condition holds.
fn users(cases: &[Case], myself: &str, holds: impl Fn(&Case) -> bool) -> BTreeSet<String> {
    let chosen = cases.iter().filter(|case| holds(case));
    chosen.map(|case| case.user(myself)).collect()
}

/// Common name with which the user would be accepted by certificate.
fn certificate_name(case: &Case, myself: &str) -> String {
    match case.method {
        Method::Cert => case.user(myself),
        Method::CertMap => format!("mapped-{}", case.user(myself)),
        _ => "somebody".to_owned(),
    }
}

/// Text of the HBA file, with one group of lines per method.
fn hba(cases: &[Case], myself: &str) -> String {
    let mut text = "# made by the suite\n".to_owned();
    for &method in Method::ALL {
        let names: Vec<String> = users(cases, myself, |case| case.method == method)
            .into_iter()
            .collect();
        let names = names.join(",");
        let (types, method): (&[&str], &str) = match method {
            Method::Trust => (&["local", "host"], "trust"),
            Method::TrustInClear => (&["hostnossl"], "trust"),
            Method::Reject => (&["local", "host"], "reject"),
            Method::Password => (&["local", "host"], "password"),
            Method::Md5 => (&["local", "host"], "md5"),
            Method::Scram => (&["local", "host"], "scram-sha-256"),
            Method::ScramInTls => (&["hostssl"], "scram-sha-256"),
            Method::Cert => (&["hostssl"], "cert"),
            Method::CertMap => (&["hostssl"], "cert map=suite"),
            Method::Peer | Method::PeerSelf => (&["local"], "peer"),
            Method::PeerMap => (&["local"], "peer map=suite"),
        };
        for kind in types {
            let address = if *kind == "local" {
                ""
            } else {
                " 127.0.0.1/32"
            };
            text.push_str(&format!("{kind} all {names}{address} {method}\n"));
        }
    }
    text
}

fn maps(cases: &[Case], myself: &str) -> String {
    let mut text = String::new();
    for user in users(cases, myself, |case| case.method == Method::CertMap) {
        text.push_str(&format!("suite mapped-{user} {user}\n"));
    }
    for user in users(cases, myself, |case| case.method == Method::PeerMap) {
        text.push_str(&format!("suite {myself} {user}\n"));
    }
    text
}

/// Secret stored for this user; `None` for NULL.
fn stored(case: &Case, user: &str) -> Option<String> {
    match case.secret {
        Secret::Plain | Secret::Expired => Some(PASSWORD.to_owned()),
        Secret::Md5 => Some(md5_secret(user, PASSWORD)),
        // Few iterations, because of the thousands of logins.
        Secret::Scram => Some(scram_secret(PASSWORD, b"sixteen letters.", 64)),
        Secret::Empty => Some(String::new()),
        Secret::Null | Secret::Unknown => None,
    }
}

fn userlist(cases: &[Case], myself: &str) -> String {
    let mut lines = BTreeSet::new();
    for case in cases.iter().filter(|case| case.source == Source::File) {
        let user = case.user(myself);
        if let Some(secret) = stored(case, &user) {
            lines.insert(format!("\"{user}\" \"{secret}\"\n"));
        }
    }
    lines.into_iter().collect()
}

fn fill_table(postgres: &Postgres, cases: &[Case], myself: &str) -> Result<()> {
    let mut sql =
        "create table pool_users (name text primary key, secret text, until timestamptz);"
            .to_owned();
    let mut rows = BTreeSet::new();
    for case in cases.iter().filter(|case| case.source == Source::Query) {
        if case.secret == Secret::Unknown {
            continue;
        }
        let user = case.user(myself);
        let secret = stored(case, &user);
        let secret = secret.map_or_else(|| "null".to_owned(), |secret| format!("'{secret}'"));
        let until = match case.secret {
            Secret::Expired => "now() - interval '1 second'",
            Secret::Plain => "'infinity'",
            Secret::Md5 => "now() + interval '1 day'",
            _ => "null",
        };
        rows.insert(format!(
            "insert into pool_users values ('{user}', {secret}, {until});"
        ));
    }
    sql.extend(rows);
    Raw::connect(postgres.port(), "postgres")?.query(&sql)?;
    Ok(())
}
