//! Drivers in every `sslmode` at listeners in every mode: clear text, TLS, or refused.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::Weak;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;
use expect_test::Expect;
use expect_test::expect;
use weir_conformance::Config;
use weir_conformance::Kind;
use weir_conformance::Postgres;
use weir_conformance::Postgres18;
use weir_conformance::Weir;
use weir_conformance::drivers;
use weir_conformance::postgres::Options;
use weir_conformance::psql::psql;
use weir_conformance::tls::Files;
use weir_conformance::tls::Pki;
use weir_conformance::tls::Spec;
use weir_conformance::tools;

/// Modes of the listener; the last one is for clients with a certificate.
const LISTENERS: [&str; 7] = [
    "disable",
    "allow",
    "prefer",
    "require",
    "verify-ca",
    "verify-full",
    "verify-full+cert",
];

/// All listeners, shared by all tests of this program.
struct World {
    pki: Pki,
    client: Files,
    client_der: PathBuf,
    clear: Postgres18,
    strict: Postgres18,
    old: Postgres,
    weirs: Vec<(String, Weir)>,
}

impl World {
    fn shared() -> Result<Arc<Self>> {
        static SHARED: Mutex<Weak<World>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = shared.upgrade() {
            return Ok(running);
        }
        let world = Arc::new(Self::start()?);
        *shared = Arc::downgrade(&world);
        Ok(world)
    }

    fn start() -> Result<Self> {
        let pki = Pki::new()?;
        let identity = pki.authority.issue(&Spec::client("postgres"))?;
        let client = pki.write(
            "client",
            &identity,
            weir_conformance::child::Runner::Ourselves,
        )?;
        let client_der = pki.secret("client.pk8", identity.key_der().secret_der())?;
        let strict = Options {
            settings: pki.postgres(&Spec::server())?,
            hba: vec![
                "hostnossl m_require,m_verify all 127.0.0.1/32 reject".to_owned(),
                "hostssl m_verify all 127.0.0.1/32 trust clientcert=verify-ca".to_owned(),
            ],
            ..Options::default()
        };
        let mut world = Self {
            clear: Postgres18::start(&Options::default())?,
            strict: Postgres18::start(&strict)?,
            old: Postgres::start(&strict)?,
            pki,
            client,
            client_der,
            weirs: Vec::new(),
        };
        for database in ["m_prefer", "m_require", "m_verify"] {
            world.strict.cluster().create_database(database)?;
            world.clear.cluster().create_database(database)?;
        }
        if Kind::from_env()? == Kind::Weir {
            world.start_weirs()?;
        }
        Ok(world)
    }

    fn start_weirs(&mut self) -> Result<()> {
        let servers = [(15, self.old.port()), (18, self.strict.cluster().port())];
        for (version, port) in servers {
            for mode in LISTENERS.into_iter().take(6) {
                let config = Config::to(port)
                    .set_all(self.pki.server_side("verify-full"))
                    .set_all(self.pki.client_side(mode)?);
                self.weirs
                    .push((format!("{version}-{mode}"), Weir::start(&config)?));
            }
        }
        Ok(())
    }

    /// PostgreSQL in the role of each listener: `label=port/database`.
    fn direct(&self) -> Vec<String> {
        let (clear, strict) = (self.clear.cluster().port(), self.strict.cluster().port());
        let target = |mode: &&str| match *mode {
            "disable" => format!("{clear}/m_prefer"),
            "allow" | "prefer" => format!("{strict}/m_prefer"),
            "require" => format!("{strict}/m_require"),
            "verify-full+cert" => format!("{strict}/m_verify+cert"),
            _ => format!("{strict}/m_verify"),
        };
        LISTENERS
            .iter()
            .map(|mode| format!("{mode}={}", target(mode)))
            .collect()
    }

    /// Weir in the role of each listener, in front of one version.
    fn through(&self, version: u32) -> Result<Vec<String>> {
        let target = |mode: &&str| {
            let (plain, certificate) = mode
                .split_once('+')
                .map_or((*mode, ""), |(plain, _)| (plain, "+cert"));
            let name = format!("{version}-{plain}");
            let weir = self.weirs.iter().find(|(found, _)| *found == name);
            let port = weir.context("a listener")?.1.port();
            Ok(format!("{mode}={port}/postgres{certificate}"))
        };
        LISTENERS.iter().map(target).collect()
    }

    fn env(&self, command: &mut Command) {
        command
            .env("ROOT", self.pki.ca_file())
            .env("CERT", &self.client.certificate)
            .env("KEY", &self.client.key)
            .env("KEY_DER", &self.client_der);
        for name in ["PGSSLMODE", "PGUSER", "PGDATABASE", "PGHOST", "PGPORT"] {
            command.env_remove(name);
        }
        // Prevents the use of a certificate from a home directory.
        command.env("HOME", self.pki.directory());
    }
}

/// Turns lines `outcome LISTENER MODE OUTCOME` into a table.
fn table(output: &str) -> Result<String> {
    let mut rows: Vec<String> = Vec::new();
    let mut cells = BTreeMap::new();
    for line in output.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let ["outcome", listener, mode, outcome] = words.as_slice() else {
            continue;
        };
        if !rows.iter().any(|row| row == mode) {
            rows.push((*mode).to_owned());
        }
        cells.insert(
            ((*mode).to_owned(), (*listener).to_owned()),
            (*outcome).to_owned(),
        );
    }
    ensure!(!rows.is_empty(), "no outcome: {output}");
    let mut table = format!("{:<20}", "client \\ listener");
    for listener in LISTENERS {
        write!(table, " {listener:<11}")?;
    }
    for mode in rows {
        write!(table, "\n{mode:<20}")?;
        for listener in LISTENERS {
            let cell = cells.get(&(mode.clone(), listener.to_owned()));
            write!(table, " {:<11}", cell.map_or("?", String::as_str))?;
        }
    }
    let lines: Vec<&str> = table.lines().map(str::trim_end).collect();
    Ok(lines.join("\n") + "\n")
}

/// Runs a driver against PostgreSQL itself and, unless the target is direct, through Weir.
fn check(run: impl Fn(&World, &[String]) -> Result<String>, wanted: &Expect) -> Result<()> {
    let world = World::shared()?;
    let direct = run(&world, &world.direct()).context("directly")?;
    wanted.assert_eq(&table(&direct)?);
    if Kind::from_env()? != Kind::Weir {
        return Ok(());
    }
    for version in [15, 18] {
        let output = run(&world, &world.through(version)?)?;
        let (got, wanted) = (table(&output)?, table(&direct)?);
        if got != wanted {
            bail!("in front of PostgreSQL {version}:\n{got}\ndirectly:\n{wanted}\n{output}");
        }
    }
    Ok(())
}

fn run_program(world: &World, command: &mut Command, targets: &[String]) -> Result<String> {
    world.env(command);
    tools::run(command.args(targets))
}

#[test]
fn psql_in_every_sslmode() -> Result<()> {
    let run = |world: &World, targets: &[String]| {
        let mut output = String::new();
        for target in targets {
            let (label, address) = target.split_once('=').context("a label")?;
            let (address, cert) = address.split_once('+').unwrap_or((address, ""));
            let (port, database) = address.split_once('/').context("a database")?;
            for mode in [
                "disable",
                "allow",
                "prefer",
                "require",
                "verify-ca",
                "verify-full",
            ] {
                let mut psql = psql(port.parse()?, database)?;
                world.env(&mut psql);
                psql.env("PGSSLMODE", mode)
                    .env("PGSSLROOTCERT", world.pki.ca_file())
                    .env("PGGSSENCMODE", "disable");
                if !cert.is_empty() {
                    psql.env("PGSSLCERT", &world.client.certificate)
                        .env("PGSSLKEY", &world.client.key);
                }
                psql.args(["-At", "-c", "\\conninfo", "-c", "select 1"]);
                let (text, worked) = tools::run_any(&mut psql)?;
                let outcome = match (worked, text.contains("SSL connection")) {
                    (false, _) => "refused",
                    (true, true) => "TLS",
                    (true, false) => "clear",
                };
                writeln!(output, "{text}outcome {label} {mode} {outcome}")?;
            }
        }
        Ok(output)
    };
    check(
        run,
        &expect![[r#"
        client \ listener    disable     allow       prefer      require     verify-ca   verify-full verify-full+cert
        disable              clear       clear       clear       refused     refused     refused     refused
        allow                clear       clear       clear       TLS         refused     refused     TLS
        prefer               clear       TLS         TLS         TLS         refused     refused     TLS
        require              refused     TLS         TLS         TLS         refused     refused     TLS
        verify-ca            refused     TLS         TLS         TLS         refused     refused     TLS
        verify-full          refused     TLS         TLS         TLS         refused     refused     TLS
    "#]],
    )
}

#[test]
fn psycopg_in_every_sslmode() -> Result<()> {
    let built = drivers::python()?;
    let run = |world: &World, targets: &[String]| {
        let mut python = Command::new(built.join("venv/bin/python"));
        run_program(world, python.arg(built.join("with_sslmodes.py")), targets)
    };
    check(
        run,
        &expect![[r#"
        client \ listener    disable     allow       prefer      require     verify-ca   verify-full verify-full+cert
        disable              clear       clear       clear       refused     refused     refused     refused
        allow                clear       clear       clear       TLS         refused     refused     TLS
        prefer               clear       TLS         TLS         TLS         refused     refused     TLS
        require              refused     TLS         TLS         TLS         refused     refused     TLS
        verify-ca            refused     TLS         TLS         TLS         refused     refused     TLS
        verify-full          refused     TLS         TLS         TLS         refused     refused     TLS
        require_direct       refused     TLS         TLS         TLS         refused     refused     TLS
        verify-full_direct   refused     TLS         TLS         TLS         refused     refused     TLS
    "#]],
    )
}

#[test]
fn pgx_in_every_sslmode() -> Result<()> {
    let built = drivers::go()?;
    let run = |world: &World, targets: &[String]| {
        let mut program = Command::new(built.join("drivers"));
        run_program(world, program.arg("sslmodes"), targets)
    };
    check(
        run,
        &expect![[r#"
        client \ listener    disable     allow       prefer      require     verify-ca   verify-full verify-full+cert
        disable              clear       clear       clear       refused     refused     refused     refused
        allow                clear       clear       clear       TLS         refused     refused     TLS
        prefer               clear       TLS         TLS         TLS         refused     refused     TLS
        require              refused     TLS         TLS         TLS         refused     refused     TLS
        verify-ca            refused     TLS         TLS         TLS         refused     refused     TLS
        verify-full          refused     TLS         TLS         TLS         refused     refused     TLS
        require_direct       refused     TLS         TLS         TLS         refused     refused     TLS
        verify-full_direct   refused     TLS         TLS         TLS         refused     refused     TLS
    "#]],
    )
}

#[test]
fn node_postgres_in_every_sslmode() -> Result<()> {
    let built = drivers::node()?;
    let run = |world: &World, targets: &[String]| {
        let mut node = Command::new("node");
        run_program(world, node.arg(built.join("sslmodes.js")), targets)
    };
    check(
        run,
        &expect![[r#"
        client \ listener    disable     allow       prefer      require     verify-ca   verify-full verify-full+cert
        disable              clear       clear       clear       refused     refused     refused     refused
        prefer               refused     TLS         TLS         TLS         refused     refused     TLS
        require              refused     TLS         TLS         TLS         refused     refused     TLS
        verify-ca            refused     TLS         TLS         TLS         refused     refused     TLS
        verify-full          refused     TLS         TLS         TLS         refused     refused     TLS
        require_direct       refused     TLS         TLS         TLS         refused     refused     TLS
        verify-full_direct   refused     TLS         TLS         TLS         refused     refused     TLS
    "#]],
    )
}

#[test]
fn pgjdbc_in_every_sslmode() -> Result<()> {
    let classpath = drivers::java()?;
    let run = |world: &World, targets: &[String]| {
        let mut java = Command::new("java");
        // Directory where Java looks for a certificate.
        java.arg(format!("-Duser.home={}", world.pki.directory().display()));
        java.args(["-Xmx256m", "-cp", &classpath, "Sslmodes"]);
        run_program(world, &mut java, targets)
    };
    check(
        run,
        &expect![[r#"
            client \ listener    disable     allow       prefer      require     verify-ca   verify-full verify-full+cert
            disable              clear       clear       clear       refused     refused     refused     refused
            allow                clear       clear       clear       TLS         refused     refused     TLS
            prefer               clear       TLS         TLS         TLS         refused     refused     TLS
            require              refused     TLS         TLS         TLS         refused     refused     TLS
            verify-ca            refused     TLS         TLS         TLS         refused     refused     TLS
            verify-full          refused     TLS         TLS         TLS         refused     refused     TLS
            require_direct       refused     TLS         TLS         TLS         refused     refused     TLS
            verify-full_direct   refused     TLS         TLS         TLS         refused     refused     TLS
        "#]],
    )
}
