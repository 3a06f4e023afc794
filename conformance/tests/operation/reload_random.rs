//! Continuous reloads while clients work: valid files take effect, invalid ones change nothing, and clients notice
//! neither.
//!
//! Takes a few seconds in CI; `RELOADS=1000` sets a number, `SEED=n` repeats a run.

use std::fs::File;
use std::io::Read;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::anyhow;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::Raw;
use weir_conformance::Weir;
use weir_conformance::clock;
use weir_conformance::random::Random;
use weir_conformance::wait_until;

use crate::support::PATIENCE;
use crate::support::Server;

/// Duration without `RELOADS`.
const TIME: Duration = Duration::from_secs(5);
const CLIENTS: usize = 12;

/// Numbers of successful and failed reloads in the log.
struct Outcomes {
    file: File,
    unread: String,
    done: u64,
    failed: u64,
}

impl Outcomes {
    fn of(weir: &Weir) -> Result<Self> {
        let file = File::open(weir.directory().join("weir.log"))?;
        Ok(Self {
            file,
            unread: String::new(),
            done: 0,
            failed: 0,
        })
    }

    fn read(&mut self) -> Result<()> {
        let mut bytes = Vec::new();
        self.file.read_to_end(&mut bytes)?;
        self.unread.push_str(&String::from_utf8_lossy(&bytes));
        while let Some((line, rest)) = self.unread.split_once('\n') {
            self.done += u64::from(line.contains("reload done"));
            self.failed += u64::from(line.contains("reload failed,"));
            self.unread = rest.to_owned();
        }
        Ok(())
    }

    /// Waits for the next outcome; true if the reload succeeded.
    fn next(&mut self) -> Result<bool> {
        let (done, failed) = (self.done, self.failed);
        wait_until("the outcome of a reload", PATIENCE * 3, || {
            self.read()?;
            Ok(self.done > done || self.failed > failed)
        })?;
        Ok(self.done > done)
    }
}

fn one_of<'a>(random: &mut Random, words: &[&'a str]) -> &'a str {
    words.get(random.below(words.len())).copied().unwrap_or("")
}

/// Returns a valid configuration: any change that clients in transactions must not notice.
fn good(random: &mut Random, server: &Server, marker: u64) -> Config {
    let port = server.postgres.port();
    let host = one_of(random, &["127.0.0.1", "localhost"]);
    let zone = one_of(
        random,
        &["", " timezone=UTC", " application_name=elsewhere"],
    );
    let size = 2 + random.below(10);
    let mut config = Config::new()
        .database(&format!("* = host={host} port={port}{zone}"))
        .set("autodb_idle_timeout", &marker.to_string())
        .set("default_pool_size", &size.to_string())
        .set("query_wait_timeout", "60");
    for (key, values) in [
        ("min_pool_size", ["0", "1", "2"]),
        ("reserve_pool_size", ["0", "2", "5"]),
        ("reserve_pool_timeout", ["0", "0.1", "5"]),
        ("server_round_robin", ["0", "1", "0"]),
        ("max_prepared_statements", ["5", "50", "200"]),
        ("server_lifetime", ["0", "1", "3600"]),
        ("server_idle_timeout", ["0", "0.5", "600"]),
        ("server_check_delay", ["0", "0.1", "30"]),
        ("server_check_query", ["", "select 1", "<empty>"]),
        ("client_idle_timeout", ["0", "60", "300"]),
        ("query_timeout", ["0", "60", "300"]),
        ("idle_transaction_timeout", ["0", "60", "300"]),
        ("max_client_conn", ["100", "200", "400"]),
        ("max_db_connections", ["0", "5", "50"]),
        ("tcp_keepidle", ["0", "10", "60"]),
        ("log_disconnections", ["0", "1", "0"]),
        ("stats_period", ["1", "10", "60"]),
        ("server_fast_close", ["0", "1", "0"]),
    ] {
        if random.chance(40) {
            config = config.set(key, one_of(random, &values));
        }
    }
    for name in ["one", "two", "three"] {
        if random.chance(30) {
            config = config
                .database(&format!(
                    "{name} = host={host} port={port} pool_size={size}"
                ))
                .user(&format!("{name} = pool_mode=session query_timeout={size}"));
        }
    }
    config
}

/// Adds a mistake to a configuration, possibly in another file.
fn bad(random: &mut Random, config: Config) -> Config {
    match random.below(10) {
        0 => config.set("pool_mod", "session"),
        1 => config.set("default_pool_size", "many"),
        2 => config
            .set("auth_hba_file", "/nowhere/hba")
            .set("auth_type", "hba"),
        3 => config.set("client_tls_sslmode", "require"),
        4 => config.set("auth_type", "cert"),
        5 => config
            .set("server_tls_ca_file", "/nowhere/ca")
            .set("server_tls_sslmode", "verify-ca"),
        6 => config.database("shop = hots=127.0.0.1"),
        7 => config.database("pgbouncer = host=127.0.0.1"),
        8 => config.user("%include /nowhere/users.ini"),
        _ => config.userlist("\"postgres\" \"\"\nbroken\n"),
    }
}

/// Console output about the configuration in force.
fn in_force(console: &mut Raw) -> Result<String> {
    let config = console.query("SHOW CONFIG")?;
    let databases = console.query_named("SHOW DATABASES")?;
    let mut rows: Vec<_> = databases
        .iter()
        .map(|row| {
            let of = |key: &str| row.get(key).cloned().unwrap_or_default();
            [
                of("name"),
                of("host"),
                of("port"),
                of("pool_size"),
                of("server_lifetime"),
            ]
            .join(" ")
        })
        .collect();
    rows.sort_unstable();
    Ok(format!("{config:?}\n{rows:?}"))
}

/// Runs one client with transactions, prepared statements and settings of its own, until told to stop.
fn work(weir: &Weir, number: usize, stop: &AtomicBool, count: &AtomicU64) -> Result<()> {
    let mut raw = weir.connect("op_reloads")?;
    raw.query(&format!("set application_name = 'client {number}'"))?;
    raw.query("set work_mem = '7MB'")?;
    while !stop.load(Ordering::Relaxed) {
        raw.query("begin")?;
        raw.query("create temp table kept (n int) on commit drop")?;
        raw.query(&format!("insert into kept values ({number})"))?;
        let kept = raw.query_one("select n from kept")?;
        ensure!(kept == number.to_string(), "{kept}");
        raw.query("commit")?;
        let name = raw.query_one("select current_setting('application_name')")?;
        ensure!(name == format!("client {number}"), "{name}");
        ensure!(raw.query_one("show work_mem")? == "7MB");
        count.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

#[test]
fn reloads_without_end_are_not_noticed_and_bad_ones_change_nothing() -> Result<()> {
    let env = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>());
    let wanted = env("RELOADS").transpose()?;
    let seed = env("SEED").transpose()?.unwrap_or(20_260_710);
    let mut random = Random::new(seed);
    let server = Server::new("op_reloads")?;
    let mut weir = Weir::start(&good(&mut random, &server, 1))?;
    let (stop, count) = (AtomicBool::new(false), AtomicU64::new(0));
    let reloads = thread::scope(|scope| -> Result<[u64; 2]> {
        let (weir, stop, count) = (&weir, &stop, &count);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| scope.spawn(move || work(weir, number, stop, count)))
            .collect();
        let result = reload_all(weir, &server, &mut random, wanted);
        stop.store(true, Ordering::Relaxed);
        for client in clients {
            let ended = client.join().map_err(|_| anyhow!("a client panicked"))?;
            ended.with_context(|| format!("SEED={seed}"))?;
        }
        result.with_context(|| format!("SEED={seed}"))
    })?;
    let count = count.into_inner();
    println!(
        "{} good and {} bad reloads during {count} rounds of {CLIENTS} clients",
        reloads[0], reloads[1]
    );
    ensure!(
        reloads[0] > 3 && reloads[1] > 3,
        "too few reloads: {reloads:?}"
    );
    weir.check_healthy()
}

fn reload_all(
    weir: &Weir,
    server: &Server,
    random: &mut Random,
    wanted: Option<u64>,
) -> Result<[u64; 2]> {
    let mut outcomes = Outcomes::of(weir)?;
    let mut console = weir.connect("pgbouncer")?;
    let until = clock::now() + TIME;
    let mut reloads = [0, 0];
    let mut marker = 1_000;
    loop {
        let total: u64 = reloads.iter().sum();
        let is_over = match wanted {
            Some(wanted) => total >= wanted,
            None => clock::now() >= until,
        };
        if is_over {
            return Ok(reloads);
        }
        marker += 1;
        let config = good(random, server, marker);
        if random.chance(50) {
            reload(weir, &mut console, random, &config)?;
            ensure!(outcomes.next()?, "a good file was refused:\n{}", weir.log());
            let now = in_force(&mut console)?;
            ensure!(
                now.contains(&format!("\"{marker}\"")),
                "not in force: {now}"
            );
            reloads[0] += 1;
        } else {
            let before = in_force(&mut console)?;
            let config = bad(random, config);
            reload(weir, &mut console, random, &config)?;
            ensure!(!outcomes.next()?, "a bad file was taken: {config:?}");
            let now = in_force(&mut console)?;
            ensure!(now == before, "{config:?} changed\n{before}\nto\n{now}");
            reloads[1] += 1;
        }
    }
}

/// Reloads by signal or from the console, which answers an invalid file with an error.
fn reload(weir: &Weir, console: &mut Raw, random: &mut Random, config: &Config) -> Result<()> {
    if random.chance(50) {
        return weir.reload(config);
    }
    weir.replace_file(config)?;
    // The log has the result, as after a signal.
    drop(console.query("RELOAD"));
    Ok(())
}
