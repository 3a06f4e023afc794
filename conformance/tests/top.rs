//! `weir top` in a terminal, against Weir and against Debian's PgBouncer.

use std::fs;
use std::process::Command;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::Kind;
use weir_conformance::PoolOptions;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::SOON;
use weir_conformance::Target;
use weir_conformance::Weir;
use weir_conformance::frontend;
use weir_conformance::postgres;
use weir_conformance::target::weir_bin;
use weir_conformance::tmux::Tmux;
use weir_conformance::tools;
use weir_conformance::wait_until;

const DATABASE: &str = "shop";

fn cluster() -> Result<Postgres> {
    let postgres = Postgres::start(&postgres::Options::default())?;
    postgres.create_database(DATABASE)?;
    Ok(postgres)
}

/// Weir with two servers per pool.
fn config(postgres: &Postgres) -> Config {
    Config::to(postgres.port()).set("default_pool_size", "2")
}

fn client(port: u16, application: &str) -> Result<Raw> {
    let parameters = [
        ("user", "postgres"),
        ("database", DATABASE),
        ("application_name", application),
    ];
    Raw::connect_with(port, &parameters)
}

/// Clients that fill a pool of two servers, and one that waits for a server.
struct Crowd {
    _holders: [Raw; 2],
    _waiter: Raw,
}

impl Crowd {
    fn connect(port: u16) -> Result<Self> {
        let mut holder = client(port, "billing")?;
        holder.query("begin")?;
        let mut other = client(port, "report")?;
        other.query("begin")?;
        let mut waiter = client(port, "webshop")?;
        waiter.send(&frontend::query("select 1"))?;
        Ok(Self {
            _holders: [holder, other],
            _waiter: waiter,
        })
    }
}

/// Opens a terminal and starts the display in it, with its exit code told at the end.
fn display(columns: u16, port: u16, flags: &str) -> Result<Tmux> {
    let tmux = Tmux::start(columns, 24, &[("PGUSER", "postgres")])?;
    let program = weir_bin()?;
    let program = program.display();
    let command = format!(
        "sh -c 'echo $$ >pid; exec {program} top 127.0.0.1:{port} --interval 0.5 {flags}'; echo \"exit code $?\""
    );
    tmux.run(&command)?;
    tmux.wait_for("1 diagnoses")?;
    Ok(tmux)
}

/// Waits until a line of the screen holds all of these texts.
fn wait_line(tmux: &Tmux, texts: &[&str]) -> Result<String> {
    tmux.wait_until(&texts.join(" "), |screen| {
        let mut lines = screen.lines();
        lines.any(|line| texts.iter().all(|text| line.contains(text)))
    })
}

#[test]
fn each_view_of_weir_appears() -> Result<()> {
    let postgres = cluster()?;
    let weir = Weir::start(&config(&postgres))?;
    let mut pinned = client(weir.port(), "pinned app")?;
    ensure!(pinned.query("select 1/0").is_err());
    pinned.query("create temporary table held (id int)")?;
    let mut holder = client(weir.port(), "billing")?;
    holder.query("begin")?;
    let mut waiter = client(weir.port(), "webshop")?;
    waiter.send(&frontend::query("select 1"))?;
    weir.wait_pool(DATABASE, "cl_waiting", 1)?;
    let tmux = display(80, weir.port(), "")?;
    wait_line(&tmux, &["Weir", "every 0.5s", "data"])?;
    wait_line(&tmux, &["1 waiting", "1 pinned", "2 busy"])?;
    tmux.type_text("2")?;
    wait_line(&tmux, &["shop", "postgres", "pool full"])?;
    tmux.type_text("3")?;
    wait_line(&tmux, &["billing", "idle in transaction"])?;
    wait_line(&tmux, &["webshop", "waiting", "pool full"])?;
    tmux.type_text("4")?;
    wait_line(&tmux, &["shop", "idle in transaction", "billing"])?;
    wait_line(&tmux, &["shop", "pinned", "pinned app"])?;
    tmux.type_text("5")?;
    wait_line(&tmux, &["shop", "temporary object"])?;
    tmux.type_text("6")?;
    wait_line(&tmux, &["server", "22012", "division_by_zero"])?;
    tmux.type_text("7")?;
    wait_line(&tmux, &["shop", "127.0.0.1", &postgres.port().to_string()])?;
    tmux.type_text("8")?;
    wait_line(&tmux, &["shop", "create temporary"])?;
    tmux.press("Enter")?;
    wait_line(&tmux, &["fingerprint"])?;
    tmux.press("Escape")?;
    tmux.wait_for("where the servers' time goes")?;
    tmux.type_text("?")?;
    wait_line(&tmux, &["K", "disconnect the client of the row"])?;
    drop(holder);
    Ok(())
}

#[test]
fn each_view_of_pgbouncer_appears() -> Result<()> {
    let postgres = cluster()?;
    let options = PoolOptions::default().pool_size(2);
    let target = Target::start_kind(Kind::PgBouncer, postgres.port(), &options)?;
    let _crowd = Crowd::connect(target.port())?;
    let tmux = display(80, target.port(), "")?;
    wait_line(&tmux, &["PgBouncer 1."])?;
    tmux.wait_for("no SHOW DIAGNOSIS")?;
    wait_line(&tmux, &["2 active", "1 waiting", "2 busy"])?;
    wait_line(&tmux, &["clients wait", "shop/postgres", "1 waiting"])?;
    tmux.type_text("2")?;
    wait_line(&tmux, &["shop", "postgres", " 1 ", " 2 "])?;
    tmux.type_text("3")?;
    wait_line(&tmux, &["webshop", "postgres", "waiting"])?;
    tmux.type_text("K")?;
    tmux.wait_for("shows no ids of clients")?;
    tmux.type_text("4")?;
    wait_line(&tmux, &["shop", "active", "billing"])?;
    tmux.type_text("5")?;
    tmux.wait_for("has no SHOW PINS")?;
    tmux.type_text("6")?;
    tmux.wait_for("has no SHOW ERRORS")?;
    tmux.type_text("7")?;
    wait_line(&tmux, &["shop", "127.0.0.1", &postgres.port().to_string()])?;
    tmux.type_text("8")?;
    tmux.wait_for("has no SHOW DIGESTS")?;
    Ok(())
}

#[test]
fn rows_are_filtered_paused_copied_and_saved() -> Result<()> {
    let postgres = cluster()?;
    let weir = Weir::start(&config(&postgres))?;
    let _crowd = Crowd::connect(weir.port())?;
    let visitor = client(weir.port(), "visitor")?;
    let tmux = display(160, weir.port(), "--view clients --no-color")?;
    wait_line(&tmux, &["webshop", "waiting"])?;
    wait_line(&tmux, &["visitor", "idle"])?;
    tmux.type_text("/^\\d+ (web|bill)")?;
    tmux.press("Enter")?;
    tmux.wait_until("the filter", |screen| {
        screen.contains("webshop") && screen.contains("billing") && !screen.contains("report")
    })?;
    tmux.type_text("n")?;
    tmux.wait_for("report")?;
    // A pause keeps what has gone.
    tmux.type_text(" ")?;
    wait_line(&tmux, &["PAUSED", "old"])?;
    visitor.terminate();
    weir.wait_pool(DATABASE, "cl_active", 2)?;
    tmux.wait_until("a pause of more than two refreshes", |screen| {
        let age = screen.split_once("PAUSED, data ").map(|(_, rest)| rest);
        let age = age.and_then(|rest| rest.split_whitespace().next());
        age.and_then(|age| age.parse::<f64>().ok())
            .is_some_and(|age| age > 1.5)
    })?;
    ensure!(tmux.screen()?.contains("visitor"));
    tmux.type_text(" ")?;
    tmux.wait_until("the end of the pause", |screen| !screen.contains("visitor"))?;
    tmux.type_text("/billing")?;
    tmux.press("Enter")?;
    tmux.wait_until("one row", |screen| !screen.contains("report"))?;
    tmux.type_text("y")?;
    tmux.wait_for("copied")?;
    wait_until("the clipboard", SOON, || {
        let text = tmux.ask(&["show-buffer"]).unwrap_or_default();
        Ok(text.contains("application_name: billing"))
    })?;
    tmux.type_text("s")?;
    let screen = tmux.wait_for("saved as ")?;
    let name = screen.split_once("saved as ").map(|(_, rest)| rest);
    let name = name.and_then(|rest| rest.split_whitespace().next());
    let saved = fs::read_to_string(tmux.directory().join(name.context("no name")?))?;
    ensure!(
        saved.contains("billing") && !saved.contains("report"),
        "{saved}"
    );
    Ok(())
}

#[test]
fn a_client_is_disconnected_after_a_confirmation() -> Result<()> {
    let postgres = cluster()?;
    let weir = Weir::start(&config(&postgres))?;
    let mut victim = client(weir.port(), "victim")?;
    victim.query("begin")?;
    let tmux = display(80, weir.port(), "--view clients")?;
    tmux.type_text("/victim")?;
    tmux.press("Enter")?;
    wait_line(&tmux, &["victim", "idle in transaction"])?;
    tmux.type_text("K")?;
    wait_line(&tmux, &["disconnect client", "victim", "y = yes"])?;
    tmux.type_text("n")?;
    tmux.wait_for("nothing is disconnected")?;
    victim.query("select 1")?;
    tmux.type_text("K")?;
    wait_line(&tmux, &["disconnect client", "victim", "y = yes"])?;
    tmux.type_text("y")?;
    tmux.wait_for("is disconnected")?;
    victim.read_to_close()?;
    tmux.wait_for("None of")?;
    Ok(())
}

#[test]
fn nothing_is_disconnected_in_a_read_only_display() -> Result<()> {
    let postgres = cluster()?;
    let weir = Weir::start(&config(&postgres))?;
    let mut client = client(weir.port(), "kept")?;
    client.query("begin")?;
    let tmux = display(80, weir.port(), "--view clients --read-only")?;
    wait_line(&tmux, &["kept", "idle in transaction"])?;
    tmux.type_text("Ky")?;
    tmux.wait_until("the refusal", |screen| {
        screen.contains("--read-only") || screen.contains("copied")
    })?;
    client.query("select 1")?;
    Ok(())
}

/// Ends the display in a terminal.
type End = fn(&Tmux) -> Result<()>;

#[test]
fn the_terminal_is_restored_by_q_signals_and_a_panic() -> Result<()> {
    let postgres = cluster()?;
    let weir = Weir::start(&config(&postgres))?;
    let ends: [(&str, End); 5] = [
        ("exit code 0", |tmux| tmux.type_text("q")),
        ("exit code 0", |tmux| tmux.press("C-c")),
        ("exit code 0", |tmux| signal(tmux, "TERM")),
        ("exit code 0", |tmux| signal(tmux, "INT")),
        ("exit code 4", |tmux| tmux.press("F12")),
    ];
    for (code, end) in ends {
        let tmux = display(80, weir.port(), "")?;
        wait_line(&tmux, &["Weir", "data"])?;
        let flags = tmux.ask(&["display-message", "-p", "#{alternate_on}"])?;
        ensure!(flags.trim() == "1", "the display has a screen of its own");
        end(&tmux)?;
        let screen = tmux.wait_for(code)?;
        if code.ends_with('4') {
            ensure!(screen.contains("panicked at"), "{screen}");
        }
        tmux.check_restored()?;
    }
    Ok(())
}

fn signal(tmux: &Tmux, name: &str) -> Result<()> {
    let pid = fs::read_to_string(tmux.directory().join("pid"))?;
    tools::run(Command::new("kill").args([&format!("-{name}"), pid.trim()])).map(drop)
}

#[test]
fn a_stopped_pooler_is_told_and_its_return_seen() -> Result<()> {
    let postgres = cluster()?;
    let config = config(&postgres);
    let mut weir = Weir::start(&config)?;
    let port = weir.port();
    client(port, "early")?.query("select 1")?;
    let tmux = display(80, port, "--view pools")?;
    wait_line(&tmux, &["shop", "postgres"])?;
    weir.kill()?;
    drop(weir);
    let screen = wait_line(&tmux, &["no data for", "connection failed"])?;
    ensure!(screen.contains("shop"), "the rows are kept:\n{screen}");
    // Keys work meanwhile.
    tmux.type_text("?")?;
    tmux.wait_for("reverse the order")?;
    tmux.press("Escape")?;
    let mut weir = Weir::spawn(&config, port)?;
    weir.wait_ready()?;
    wait_line(&tmux, &["Weir", "every 0.5s", "data"])?;
    client(port, "late")?.query("select 1")?;
    wait_line(&tmux, &["shop", "postgres"])?;
    Ok(())
}

#[test]
fn a_silent_pooler_is_told() -> Result<()> {
    let postgres = cluster()?;
    let weir = Weir::start(&config(&postgres))?;
    let tmux = display(80, weir.port(), "--view pools")?;
    wait_line(&tmux, &["Weir", "every 0.5s", "data"])?;
    weir.signal("STOP")?;
    wait_line(&tmux, &["no data for", "the console does not answer"])?;
    tmux.type_text("?")?;
    tmux.wait_for("reverse the order")?;
    weir.signal("CONT")?;
    wait_line(&tmux, &["Weir", "every 0.5s", "data"])?;
    Ok(())
}

#[test]
fn hostile_names_do_nothing_to_the_terminal() -> Result<()> {
    let postgres = cluster()?;
    let weir = Weir::start(&config(&postgres))?;
    let options = PoolOptions::default();
    let bouncer = Target::start_kind(Kind::PgBouncer, postgres.port(), &options)?;
    for port in [weir.port(), bouncer.port()] {
        let _client = client(port, "begin \u{1b}[2J\u{1b}]0;owned\u{7} 数据\u{202e} end")?;
        let tmux = display(160, port, "--view clients")?;
        tmux.wait_until("the name", |screen| {
            let mut lines = screen.lines();
            lines.any(|line| line.contains("begin") && line.contains("[2J"))
        })?;
        tmux.wait_for("1 diagnoses")?;
        let title = tmux.ask(&["display-message", "-p", "#{pane_title}"])?;
        ensure!(!title.contains("owned"), "{title}");
    }
    Ok(())
}

/// Runs the program without a terminal; returns output, errors and exit code.
fn once(arguments: &[&str]) -> Result<(String, String, Option<i32>)> {
    let mut command = Command::new(weir_bin()?);
    command.arg("top").args(arguments).env("PGUSER", "postgres");
    let output = command.output()?;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes);
    Ok((
        text(output.stdout)?,
        text(output.stderr)?,
        output.status.code(),
    ))
}

#[test]
fn scripts_get_tables_and_json() -> Result<()> {
    let postgres = cluster()?;
    let weir = Weir::start(&config(&postgres))?;
    let options = PoolOptions::default().pool_size(2);
    let bouncer = Target::start_kind(Kind::PgBouncer, postgres.port(), &options)?;
    for port in [weir.port(), bouncer.port()] {
        let _crowd = Crowd::connect(port)?;
        let address = format!("127.0.0.1:{port}");
        let waits = |text: &str| {
            let mut lines = text.lines();
            lines.any(|line| line.contains("webshop") && line.contains("waiting"))
        };
        wait_until("the waiter", SOON, || {
            let (text, _, code) = once(&[&address, "--once", "--view", "clients"])?;
            Ok(code == Some(0) && waits(&text))
        })?;
        let (text, _, code) = once(&[&address, "--once", "--json"])?;
        ensure!(code == Some(0));
        let value: serde_json::Value = serde_json::from_str(&text)?;
        let tables = &value["tables"];
        let pools = tables["POOLS"].as_array().context("no pools")?;
        let waiting = pools.iter().filter_map(|pool| pool["cl_waiting"].as_u64());
        ensure!(waiting.sum::<u64>() == 1, "{text}");
        ensure!(tables["CLIENTS"][0]["application_name"].is_string());
        let is_weir = port == weir.port();
        ensure!(tables.get("PINS").is_some() == is_weir);
        ensure!(value["refused"].get("PINS").is_some() != is_weir);
    }
    let (_, errors, code) = once(&[&format!("127.0.0.1:{}", weir.port())])?;
    ensure!(code == Some(3) && errors.contains("--once"), "{errors}");
    let address = format!("127.0.0.1:{}", bouncer.port());
    let (_, errors, code) = once(&[&address, "--once", "--view", "pins"])?;
    ensure!(
        code == Some(4) && errors.contains("no SHOW PINS"),
        "{errors}"
    );
    let nobody = format!("127.0.0.1:{}", tools::free_port()?);
    let (_, errors, code) = once(&[&nobody, "--once"])?;
    ensure!(
        code == Some(3) && errors.contains("connection failed"),
        "{errors}"
    );
    Ok(())
}

#[test]
fn an_unprivileged_user_sees_and_cannot_disconnect() -> Result<()> {
    let postgres = cluster()?;
    let config = config(&postgres)
        .set("admin_users", "root")
        .set("stats_users", "postgres");
    let weir = Weir::start(&config)?;
    let mut kept = client(weir.port(), "kept")?;
    kept.query("begin")?;
    let tmux = display(80, weir.port(), "--view clients")?;
    tmux.type_text("/kept")?;
    tmux.press("Enter")?;
    wait_line(&tmux, &["kept", "idle in transaction"])?;
    tmux.type_text("K")?;
    wait_line(&tmux, &["disconnect client", "y = yes"])?;
    tmux.type_text("y")?;
    tmux.wait_for("is not disconnected")?;
    kept.query("select 1")?;
    Ok(())
}

#[test]
fn the_display_follows_its_interval() -> Result<()> {
    let postgres = cluster()?;
    let weir = Weir::start(&config(&postgres))?;
    let tmux = display(80, weir.port(), "--view pools")?;
    tmux.type_text("++")?;
    wait_line(&tmux, &["every 1.5s"])?;
    tmux.type_text("----")?;
    wait_line(&tmux, &["every 0.5s"])?;
    // A client that appears is seen within a few refreshes.
    client(weir.port(), "seen")?.query("select 1")?;
    wait_line(&tmux, &["shop", "postgres"])?;
    Ok(())
}
