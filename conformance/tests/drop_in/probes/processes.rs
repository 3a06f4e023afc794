//! Probes of the process: reloads, signals, files, exit codes.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::fs::PermissionsExt;

use anyhow::Result;
use weir_conformance::Config;
use weir_conformance::Raw;
use weir_conformance::Weir;
use weir_conformance::child::Runner;
use weir_conformance::child::setpriv;
use weir_conformance::frontend;
use weir_conformance::tools;
use weir_conformance::weir_bin;

use super::Probe;
use super::Run::Does;
use super::bench::Bench;
use super::bench::Kind;
use super::bench::PATIENCE;
use super::bench::Seen;
use super::bench::console;
use super::bench::login;
use super::bench::open_directory;
use super::bench::rest;
use super::bench::transcript;
use super::bench::until;
use super::differs;
use super::same;
use super::why::DRAIN;
use super::why::LOGINS;
use super::why::NEWEST;
use super::why::RELOADED;
use super::why::SHUT;

pub(super) const PROBES: &[Probe] = &[
    same("RELOAD: a new database, a changed option", Does(reloaded)),
    same("SIGHUP: a changed option", Does(hup)),
    differs(
        "RELOAD of a file with a mistake",
        Does(reload_bad),
        RELOADED,
    ),
    differs(
        "RELOAD of a file with an unknown option",
        Does(reload_unknown),
        RELOADED,
    ),
    differs(
        "RELOAD without a database whose client is there",
        Does(removed),
        LOGINS,
    ),
    same("RELOAD with another dbname", Does(moved)),
    same("SIGUSR1 pauses, SIGUSR2 resumes", Does(usr)),
    same(
        "SIGINT without clients: exit code",
        Does(|bench| signalled(bench, "INT")),
    ),
    differs(
        "SIGTERM without clients: exit code",
        Does(|bench| signalled(bench, "TERM")),
        NEWEST,
    ),
    differs(
        "SIGQUIT: exit code",
        Does(|bench| signalled(bench, "QUIT")),
        NEWEST,
    ),
    differs("SHUTDOWN: answer, exit code", Does(shutdown), SHUT),
    same("SIGINT: a transaction goes on", Does(interrupted)),
    differs(
        "SIGTERM: a client in a transaction",
        Does(terminated),
        DRAIN,
    ),
    same(
        "unix socket: name, mode",
        Does(|bench| socket(bench, "0777")),
    ),
    same("unix_socket_mode", Does(|bench| socket(bench, "0700"))),
    same("unix socket: a login, ParameterStatus", Does(local)),
    same("unix socket: is gone with the process", Does(socket_gone)),
    same("pidfile: content, mode, end", Does(pidfile)),
    same("a second process with the same pidfile", Does(second)),
    same("start without a file", Does(|bench| command(bench, &[]))),
    same(
        "start with a missing file: exit code",
        Does(|bench| command(bench, &["/nonexistent.ini"])),
    ),
    same(
        "an unknown flag: exit code",
        Does(|bench| command(bench, &["--nonsense"])),
    ),
    same(
        "--version: first line",
        Does(|bench| command(bench, &["--version"])),
    ),
    same(
        "start with an unknown option: exit code",
        Does(|bench| faulty(bench, "nonsense = 1")),
    ),
    same(
        "start with a bad value: exit code",
        Does(|bench| faulty(bench, "max_client_conn = many")),
    ),
    differs("log: the lines of a client", Does(log), NEWEST),
];

fn reloaded(bench: &Bench) -> Result<Seen> {
    let pooler = bench.start(&bench.config())?;
    let entry = format!(
        "later = host=127.0.0.1 port={} dbname=drop_probes",
        bench.postgres_port
    );
    pooler.replace_file(
        &bench
            .config()
            .database(&entry)
            .set("default_pool_size", "9"),
    )?;
    let mut text = console(&pooler, &["RELOAD"])?;
    text += &option(&pooler, "default_pool_size")?;
    text += &transcript(&mut pooler.connect("later")?, &["select 1"])?;
    Ok(bench.text_of(&text, &pooler))
}

/// Row of SHOW CONFIG.
fn option(pooler: &Weir, key: &str) -> Result<String> {
    let rows = pooler.connect("pgbouncer")?.query("SHOW CONFIG")?;
    let mut rows = rows.into_iter();
    let row = rows.find(|row| row.first().is_some_and(|name| name.as_deref() == Some(key)));
    let row = row
        .unwrap_or_default()
        .into_iter()
        .map(Option::unwrap_or_default);
    Ok(row.collect::<Vec<_>>().join("|") + "\n")
}

fn hup(bench: &Bench) -> Result<Seen> {
    let pooler = bench.start(&bench.config())?;
    pooler.reload(&bench.config().set("default_pool_size", "9"))?;
    until("the reload", || {
        Ok(option(&pooler, "default_pool_size")?.contains("|9|"))
    })?;
    Ok(bench.text_of(&option(&pooler, "default_pool_size")?, &pooler))
}

/// Answer to RELOAD of this configuration, and whether a valid option of it is in force.
fn reload(bench: &Bench, config: Config) -> Result<Seen> {
    let pooler = bench.start(&bench.config())?;
    pooler.replace_file(&config)?;
    let mut text = console(&pooler, &["RELOAD"])?;
    text += &option(&pooler, "default_pool_size")?;
    Ok(bench.text_of(&text, &pooler))
}

fn reload_bad(bench: &Bench) -> Result<Seen> {
    reload(
        bench,
        bench
            .config()
            .set("query_timeout", "soon")
            .set("default_pool_size", "9"),
    )
}

fn reload_unknown(bench: &Bench) -> Result<Seen> {
    reload(
        bench,
        bench
            .config()
            .set("nonsense", "1")
            .set("default_pool_size", "9"),
    )
}

fn removed(bench: &Bench) -> Result<Seen> {
    let pooler = bench.start(&bench.config())?;
    let mut client = pooler.connect("two")?;
    client.query("select 1")?;
    let to = format!(
        "host=127.0.0.1 port={} dbname=drop_probes",
        bench.postgres_port
    );
    let config = Config::new().database(&format!("shop = {to}"));
    let config = bench.fit(config.set("pgbouncer_compat", "1.18"));
    pooler.replace_file(&config)?;
    let mut text = console(&pooler, &["RELOAD"])?;
    client.stream().set_read_timeout(Some(PATIENCE / 4))?;
    text += &rest(&mut client);
    text += &login(&pooler, &[("user", "postgres"), ("database", "two")])?;
    Ok(bench.text_of(&text, &pooler))
}

fn moved(bench: &Bench) -> Result<Seen> {
    let entry = |name: &str| {
        format!(
            "one = host=127.0.0.1 port={} dbname={name}",
            bench.postgres_port
        )
    };
    let config = |name: &str| {
        let config = Config::new().database(&entry(name));
        bench.fit(config.set("pgbouncer_compat", "1.18"))
    };
    let pooler = bench.start(&config("drop_probes"))?;
    let mut client = pooler.connect("one")?;
    let mut text = client.query_one("select current_database()")?;
    pooler.replace_file(&config("postgres"))?;
    text += &console(&pooler, &["RELOAD"])?;
    text += &client.query_one("select current_database()")?;
    Ok(bench.text_of(&text, &pooler))
}

fn usr(bench: &Bench) -> Result<Seen> {
    let pooler = bench.start(&bench.config())?;
    let mut client = pooler.connect("shop")?;
    client.query("select 1")?;
    let mut console = pooler.connect("pgbouncer")?;
    pooler.signal("USR1")?;
    let mut text = String::new();
    until("the pause", || {
        text = transcript(&mut console, &["PAUSE shop"])?;
        let is_paused = text.contains("already");
        if !is_paused {
            console.query("RESUME shop")?;
        }
        Ok(is_paused)
    })?;
    pooler.signal("USR2")?;
    text += &transcript(&mut client, &["select 1"])?;
    Ok(bench.text_of(&text, &pooler))
}

/// Exit code after a signal.
fn signalled(bench: &Bench, signal: &str) -> Result<Seen> {
    let mut pooler = bench.start(&bench.config())?;
    drop(pooler.connect("shop")?);
    pooler.signal(signal)?;
    let status = pooler.wait_exit(PATIENCE)?;
    Ok(Seen::Text(status.to_string()))
}

fn shutdown(bench: &Bench) -> Result<Seen> {
    let mut pooler = bench.start(&bench.config())?;
    let mut console = pooler.connect("pgbouncer")?;
    console.send(&frontend::query("SHUTDOWN"))?;
    let text = rest(&mut console);
    let status = pooler.wait_exit(PATIENCE)?;
    Ok(bench.text_of(&format!("{text}\n{status}"), &pooler))
}

fn interrupted(bench: &Bench) -> Result<Seen> {
    let mut pooler = bench.start(&bench.config())?;
    let mut client = pooler.connect("shop")?;
    client.query("begin")?;
    pooler.signal("INT")?;
    pooler.wait_log("SIGINT")?;
    let text = transcript(&mut client, &["select 1", "commit"])?;
    drop(client);
    let status = pooler.wait_exit(PATIENCE)?;
    Ok(bench.text_of(&format!("{text}{status}"), &pooler))
}

fn terminated(bench: &Bench) -> Result<Seen> {
    let mut pooler = bench.start(&bench.config())?;
    let mut client = pooler.connect("shop")?;
    client.query("begin")?;
    pooler.signal("TERM")?;
    pooler.wait_log("SIGTERM")?;
    client.stream().set_read_timeout(Some(PATIENCE / 20))?;
    drop(client.send(&frontend::query("commit")));
    let text = rest(&mut client);
    drop(client);
    let status = pooler.wait_exit(PATIENCE)?;
    Ok(bench.text_of(&format!("{text}{status}"), &pooler))
}

fn socket(bench: &Bench, mode: &str) -> Result<Seen> {
    let directory = open_directory()?;
    let config = bench.config().set("unix_socket_mode", mode);
    let pooler =
        bench.start(&config.set("unix_socket_dir", &directory.path().to_string_lossy()))?;
    let mut text = String::new();
    for entry in fs::read_dir(directory.path())? {
        let entry = entry?;
        let facts = entry.metadata()?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let mode = facts.permissions().mode() & 0o7777;
        text += &format!("{name} {mode:o} {}\n", facts.file_type().is_socket());
    }
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    Ok(bench.text_of(&lines.join("\n"), &pooler))
}

fn local(bench: &Bench) -> Result<Seen> {
    let mut raw = Raw::unix(bench.sockets.path(), bench.pooler.port(), PATIENCE)?;
    raw.login(&[("user", "postgres"), ("database", "pgbouncer")])?;
    let rows = raw.query_named("SHOW CLIENTS")?;
    let row = rows.into_iter().find(|row| row["addr"].starts_with("unix"));
    let row = row.unwrap_or_default();
    let part = |name: &str| row.get(name).cloned().unwrap_or_default();
    let pid = part("remote_pid") == std::process::id().to_string();
    let text = format!(
        "{} {} {} {} {pid}",
        part("addr"),
        part("port"),
        part("local_addr"),
        part("local_port")
    );
    Ok(bench.text(&text))
}

fn socket_gone(bench: &Bench) -> Result<Seen> {
    let directory = open_directory()?;
    let config = bench
        .config()
        .set("unix_socket_dir", &directory.path().to_string_lossy());
    let mut pooler = bench.start(&config)?;
    pooler.signal("INT")?;
    pooler.wait_exit(PATIENCE)?;
    let left = fs::read_dir(directory.path())?.count();
    Ok(Seen::Text(format!("{left} files")))
}

fn pidfile(bench: &Bench) -> Result<Seen> {
    let directory = open_directory()?;
    let file = directory.path().join("pid");
    let mut pooler = bench.start(&bench.config().set("pidfile", &file.to_string_lossy()))?;
    let text = fs::read_to_string(&file)?;
    let mode = fs::metadata(&file)?.permissions().mode() & 0o7777;
    let text = text.replace(&pooler.pid().to_string(), "PID");
    pooler.signal("INT")?;
    pooler.wait_exit(PATIENCE)?;
    Ok(Seen::Text(format!("{text:?} {mode:o} {}", file.exists())))
}

fn second(bench: &Bench) -> Result<Seen> {
    let directory = open_directory()?;
    let config = bench
        .config()
        .set("pidfile", &directory.path().join("pid").to_string_lossy());
    let _first = bench.start(&config)?;
    let second = bench.start(&config);
    Ok(Seen::Text(format!("starts: {}", second.is_ok())))
}

/// Output and exit code of the program itself, called `pgbouncer`.
fn command(bench: &Bench, arguments: &[&str]) -> Result<Seen> {
    let links = open_directory()?;
    let program = match bench.kind {
        Kind::PgBouncer => tools::require("pgbouncer", "pgbouncer")?,
        Kind::Weir => {
            let link = links.path().join("pgbouncer");
            std::os::unix::fs::symlink(weir_bin()?, &link)?;
            link
        }
    };
    let mut command = setpriv(Runner::Postgres, None)?;
    let output = command.arg(program).args(arguments).output()?;
    let first = String::from_utf8_lossy(&output.stdout)
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned();
    let first = if first.starts_with("PgBouncer ") {
        "PgBouncer N"
    } else {
        ""
    };
    Ok(Seen::Text(format!("{first} {}", output.status)))
}

/// Exit code of a start with this line in the file.
fn faulty(bench: &Bench, line: &str) -> Result<Seen> {
    let directory = open_directory()?;
    let text = format!(
        "[databases]\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {}\nauth_type = any\nunix_socket_dir =\n{line}\n",
        tools::free_port()?
    );
    let file = directory.write("faulty.ini", &text)?;
    command(bench, &[&file.to_string_lossy()])
}

fn log(bench: &Bench) -> Result<Seen> {
    let pooler = bench.start(&bench.config())?;
    let mut client = pooler.connect("shop")?;
    client.query("select 1")?;
    client.terminate();
    pooler.wait_log("client close request")?;
    let log = pooler.log();
    let lines = log.lines().filter(|line| line.contains("shop/postgres"));
    let lines = lines.filter_map(|line| line.split_once("shop/postgres"));
    let lines = lines.map(|(_, rest)| {
        let words = rest
            .split_whitespace()
            .skip(1)
            .filter(|word| !word.contains(':'));
        words.collect::<Vec<_>>().join(" ")
    });
    Ok(bench.text_of(&lines.collect::<Vec<_>>().join("\n"), &pooler))
}
