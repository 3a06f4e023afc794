//! Secrets appear in no log at any level, no table of the console, no error and no output of the tools (SEC-44,
//! SEC-68).

use std::fmt::Write as _;
use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hmac::KeyInit;
use hmac::Mac;
use sha2::Sha256;
use weir_conformance::Config;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::Weir;
use weir_conformance::child::Runner;
use weir_conformance::frontend;
use weir_conformance::login::Binding;
use weir_conformance::login::login;
use weir_conformance::login::md5_secret;
use weir_conformance::login::scram_secret;
use weir_conformance::target::weir_bin;
use weir_conformance::tls::Dial;
use weir_conformance::tls::Pki;
use weir_conformance::tls::Spec;
use weir_conformance::tools;
use weir_conformance::wait_until;

const PLAIN: &str = "seeded-plain-5f1c";
const HASHED: &str = "seeded-hashed-77a0";
const SCRAM: &str = "seeded-scram-e2b9";
const FORCED: &str = "seeded-forced-91d4";
const LDAP: &str = "seeded-ldap-0c3e";
const QUERIED: &str = "seeded-queried-4b6f";
const TYPED: &str = "seeded-typed-aa12";
const SALT: &[u8] = b"salt of the seed";

/// All secrets, each with the name for reporting a find.
struct Secrets(Vec<(String, String)>);

impl Secrets {
    fn new() -> Self {
        let mut secrets = Self(Vec::new());
        for (name, text) in [
            ("plain", PLAIN),
            ("password behind md5", HASHED),
            ("password behind SCRAM", SCRAM),
            ("password of the entry", FORCED),
            ("LDAP password", LDAP),
            ("password of auth_query", QUERIED),
            ("password as typed", TYPED),
        ] {
            secrets.add(name, text.as_bytes());
        }
        for user in ["hashed", "plain"] {
            let hash = md5_secret(user, if user == "plain" { PLAIN } else { HASHED });
            secrets
                .0
                .push(("md5".to_owned(), hash.trim_start_matches("md5").to_owned()));
        }
        let stored = scram_secret(SCRAM, SALT, 4096);
        let keys = stored.rsplit('$').next().unwrap_or_default();
        for key in keys.split(':') {
            let bytes = BASE64_STANDARD.decode(key).unwrap_or_default();
            secrets.add("SCRAM key", &bytes);
        }
        let salted = pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(SCRAM.as_bytes(), SALT, 4096);
        secrets.add("salted password", &salted);
        let mut mac = hmac::Hmac::<Sha256>::new_from_slice(&salted).expect("any length is a key");
        mac.update(b"Client Key");
        secrets.add("ClientKey", &mac.finalize().into_bytes());
        secrets
    }

    /// Adds a secret as it is, in base64 and in hexadecimal.
    fn add(&mut self, name: &str, bytes: &[u8]) {
        if let Ok(text) = std::str::from_utf8(bytes) {
            self.0.push((name.to_owned(), text.to_owned()));
        }
        let base64 = BASE64_STANDARD.encode(bytes);
        let base64 = base64.trim_end_matches('=').to_owned();
        self.0.push((format!("{name} in base64"), base64));
        let hex = bytes.iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        self.0.push((format!("{name} in hexadecimal"), hex));
        let debug = format!("{bytes:?}");
        self.0.push((
            format!("{name} as a list"),
            debug.trim_matches(['[', ']']).to_owned(),
        ));
    }

    /// Fails if a text contains a secret.
    fn check(&self, place: &str, text: &str) -> Result<()> {
        for (name, secret) in &self.0 {
            let Some(at) = text.find(secret.as_str()) else {
                continue;
            };
            let before = text.get(at.saturating_sub(200)..at).unwrap_or_default();
            anyhow::bail!("{place} shows the {name}, behind {before:?}");
        }
        Ok(())
    }
}

fn config(postgres: &Postgres, strict: &Postgres, pki: &Pki) -> Result<Config> {
    let users = format!(
        "\"plain\" \"{PLAIN}\"\n\"hashed\" \"{}\"\n\"scram\" \"{}\"\n\"postgres\" \"{PLAIN}\"\n",
        md5_secret("hashed", HASHED),
        scram_secret(SCRAM, SALT, 4096)
    );
    let to = |port: u16| format!("host=127.0.0.1 port={port} dbname=postgres");
    Ok(Config::new()
        .set("failover_hold", "0")
        .database(&format!("open = {} user=postgres", to(postgres.port())))
        .database(&format!(
            "forced = {} user=postgres password={FORCED}",
            to(strict.port())
        ))
        .database(&format!("own = {}", to(strict.port())))
        .database("down = host=127.0.0.1 port=1")
        .set_all(pki.client_side("prefer")?)
        .set("auth_type", "scram-sha-256")
        .set("auth_user", "postgres")
        .set("auth_dbname", "open")
        .set("auth_failure_delay", "0")
        .set("auth_failures_per_minute", "0")
        .set(
            "auth_ldap_options",
            &format!("ldapserver=127.0.0.1 ldapbasedn=dc=x ldapbinddn=cn=x ldapbindpasswd={LDAP}"),
        )
        .set("admin_users", "plain")
        .set("stats_users", "scram")
        .set("server_login_retry", "1")
        .userlist(&users))
}

/// Logs in all users with right and wrong passwords, in clear text and in TLS; returns the text of each outcome.
fn knock(weir: &Weir, dial: &Dial) -> Result<String> {
    let mut texts = String::new();
    let right = [
        ("plain", PLAIN),
        ("hashed", HASHED),
        ("scram", SCRAM),
        ("queried", QUERIED),
    ];
    for database in ["open", "forced", "own", "down", "missing", "pgbouncer"] {
        for (user, password) in right {
            for (password, binding) in [
                (password, Binding::No),
                (TYPED, Binding::No),
                (password, Binding::Yes),
                (TYPED, Binding::Yes),
            ] {
                let mut raw = match binding {
                    Binding::Yes => dial.request(weir.port())?,
                    _ => Raw::tcp(weir.port(), Duration::from_secs(20))?,
                };
                let outcome = login(&mut raw, user, database, password, binding)
                    .and_then(|_| raw.query_one("select 1"));
                texts.push_str(&format!("{user} at {database}: {outcome:?}\n"));
            }
        }
    }
    Ok(texts)
}

/// Runs all commands that the console lists, and some with mistakes.
fn ask_console(weir: &Weir, user: &str, password: &str) -> Result<String> {
    let mut raw = Raw::tcp(weir.port(), Duration::from_secs(20))?;
    login(&mut raw, user, "pgbouncer", password, Binding::No).context("the console")?;
    let help = raw.ask(&frontend::query("show help"))?;
    let help: String = help
        .iter()
        .map(|message| String::from_utf8_lossy(&message.body).into_owned())
        .collect();
    let mut texts = help.clone();
    let shows = help
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with("SHOW "));
    let mut commands: Vec<String> = shows
        .map(|line| line.trim_end_matches('\0').to_owned())
        .collect();
    ensure!(commands.len() > 10, "{help}");
    commands.extend(
        [
            "SHOW auth_ldap_options",
            "SHOW FDS",
            "SHOW MEM",
            "KILL_CLIENT 1",
        ]
        .map(str::to_owned),
    );
    for command in commands {
        let answer = raw.ask(&frontend::query(&command))?;
        for message in answer {
            texts.push_str(&String::from_utf8_lossy(&message.body));
            texts.push('\n');
        }
    }
    Ok(texts)
}

/// Variants of a configuration with a mistake on the line of each secret.
fn with_mistakes(good: &str) -> Vec<String> {
    let spoil = |from: &str, to: &str| good.replace(from, to);
    vec![
        spoil(
            &format!("password={FORCED}"),
            &format!("password={FORCED} prot=1"),
        ),
        spoil(&format!("password={FORCED}"), &format!("pasword={FORCED}")),
        spoil(
            &format!("password={FORCED}"),
            &format!("password='{FORCED}"),
        ),
        spoil("ldapserver=127.0.0.1", "ldapservr=127.0.0.1"),
        spoil(
            &format!("ldapbindpasswd={LDAP}"),
            &format!("ldapbindpasswd=\"{LDAP}"),
        ),
        spoil(
            &format!("ldapbindpasswd={LDAP}"),
            &format!("ldapbindpaswd={LDAP}"),
        ),
    ]
}

/// Starts Weir without relying on the log, since at some levels it has no line about the start.
fn start(config: &Config) -> Result<Weir> {
    let port = tools::free_port()?;
    let weir = Weir::spawn(config, port)?;
    let limit = Duration::from_secs(30);
    wait_until("a listener", limit, || Ok(Raw::tcp(port, limit).is_ok()))
        .with_context(|| weir.log())?;
    Ok(weir)
}

#[test]
fn sec_68_no_secret_is_ever_shown() -> Result<()> {
    let secrets = Secrets::new();
    let pki = Pki::new()?;
    let postgres = Postgres::start(&Default::default())?;
    let strict = Postgres::start(&weir_conformance::postgres::Options {
        login: weir_conformance::postgres::Login::ScramSha256,
        ..Default::default()
    })?;
    let mut beside = Raw::connect(postgres.port(), "postgres")?;
    beside.query(&format!("create role queried login password '{QUERIED}'"))?;
    let identity = pki.authority.issue(&Spec::server())?;
    let config = config(&postgres, &strict, &pki)?;
    let key_file = pki.write("shown", &identity, Runner::Ourselves)?;
    let config = config
        .set(
            "client_tls_cert_file",
            &key_file.certificate.to_string_lossy(),
        )
        .set("client_tls_key_file", &key_file.key.to_string_lossy());
    let dial = Dial::new(&pki.authority)?;
    for level in ["error", "log", "debug", "noise"] {
        let mut weir = start(&config.clone().env("WEIR_LOG", level))?;
        let texts = knock(&weir, &dial)?;
        secrets.check(&format!("an error at level {level}"), &texts)?;
        ensure!(
            texts.contains("plain at open: Ok"),
            "nobody got in: {texts}"
        );
        ensure!(
            texts.contains("queried at open: Ok"),
            "auth_query did not work: {texts}"
        );
        for (user, password) in [("plain", PLAIN), ("scram", SCRAM)] {
            let shown = ask_console(&weir, user, password)?;
            secrets.check("the console", &shown)?;
            let key: String = identity.key.lines().skip(1).take(1).collect();
            ensure!(!shown.contains(&key), "the console shows the private key");
        }
        let file = weir.directory().join("weir.ini");
        let good = fs::read_to_string(&file)?;
        for (number, bad) in with_mistakes(&good).into_iter().enumerate() {
            fs::write(&file, bad)?;
            let before = weir.log().len();
            weir.signal("HUP")?;
            if level != "error" {
                wait_until("a word about the reload", Duration::from_secs(10), || {
                    Ok(weir.log().len() > before)
                })
                .with_context(|| format!("mistake {number}"))?;
            }
            let mut check = Command::new(weir_bin()?);
            let (output, _) = tools::run_any(check.arg("check").arg(&file))?;
            secrets.check(&format!("weir check, mistake {number}"), &output)?;
        }
        fs::write(&file, good)?;
        let (output, _) = tools::run_any(Command::new(weir_bin()?).arg("check").arg(&file))?;
        secrets.check("weir check", &output)?;
        weir.signal("HUP")?;
        weir.check_healthy()?;
        weir.signal("TERM")?;
        secrets.check(&format!("the log at level {level}"), &weir.log())?;
    }
    Ok(())
}
