//! Addresses of clients: unix sockets as files and as abstract names, IPv6.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::fs::MetadataExt;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::TempDir;
use weir_conformance::Weir;
use weir_conformance::psql::psql;
use weir_conformance::tools;

use crate::support::PATIENCE;
use crate::support::Server;

/// psql's output for a query over this host.
fn ask(host: &str, port: u16, database: &str, sql: &str) -> Result<String> {
    let mut psql = psql(port, database)?;
    let output = tools::run(psql.args(["-h", host, "-At", "-c", sql]))?;
    Ok(output.trim().to_owned())
}

#[test]
fn a_socket_file_has_the_mode_and_group_asked_for() -> Result<()> {
    let server = Server::new("op_unix")?;
    let directory = TempDir::new()?;
    let host = directory.path().to_string_lossy().into_owned();
    // Root may give a file to any group, other users only to their own.
    let own = fs::metadata(directory.path())?.gid();
    let (group, id) = match tools::is_root() {
        true => ("daemon".to_owned(), 1),
        false => (own.to_string(), own),
    };
    let config = server.config().set("listen_addr", "");
    let config = config
        .set("unix_socket_dir", &host)
        .set("unix_socket_mode", "0750")
        .set("unix_socket_group", &group);
    let mut weir = Weir::start(&config)?;
    let file = directory.path().join(format!(".s.PGSQL.{}", weir.port()));
    let about = fs::metadata(&file)?;
    ensure!(about.file_type().is_socket());
    ensure!(about.mode() & 0o7777 == 0o750, "mode {:o}", about.mode());
    ensure!(about.gid() == id, "group {}", about.gid());
    ensure!(ask(&host, weir.port(), "op_unix", "select 6 * 7")? == "42");
    let clients = ask(&host, weir.port(), "pgbouncer", "show clients")?;
    ensure!(clients.contains("|unix|"), "{clients}");
    weir.signal("TERM")?;
    ensure!(weir.wait_exit(PATIENCE)?.code() == Some(0));
    ensure!(!file.exists(), "the file is left behind");
    Ok(())
}

#[test]
fn an_unknown_group_is_refused_at_the_start() -> Result<()> {
    let server = Server::new("op_unix_group")?;
    let directory = TempDir::new()?;
    let config = server
        .config()
        .set("unix_socket_dir", &directory.path().to_string_lossy())
        .set("unix_socket_group", "no-such-group");
    let mut weir = Weir::spawn(&config, tools::free_port()?)?;
    let status = weir.wait_exit(PATIENCE)?;
    ensure!(matches!(status.code(), Some(1 | 3)), "{status}");
    ensure!(weir.log().contains("no-such-group"), "{}", weir.log());
    Ok(())
}

#[test]
fn an_abstract_socket_needs_no_file() -> Result<()> {
    let server = Server::new("op_abstract")?;
    let name = format!("@weir-operation-{}", std::process::id());
    let config = server.config().set("listen_addr", "");
    let weir = Weir::start(&config.set("unix_socket_dir", &name))?;
    ensure!(ask(&name, weir.port(), "op_abstract", "select 6 * 7")? == "42");
    Ok(())
}

#[test]
fn a_socket_file_is_replaced_when_stale_and_respected_when_live() -> Result<()> {
    let server = Server::new("op_stale")?;
    let directory = TempDir::new()?;
    let host = directory.path().to_string_lossy().into_owned();
    let config = server.config().set("listen_addr", "");
    let config = config.set("unix_socket_dir", &host);
    let mut first = Weir::start(&config)?;
    let port = first.port();
    let file = directory.path().join(format!(".s.PGSQL.{port}"));
    first.kill()?;
    ensure!(file.exists(), "the suite is wrong: nothing is stale");
    let second = Weir::spawn(&config, port)?;
    second.wait_log("process up")?;
    ensure!(ask(&host, port, "op_stale", "select 1")? == "1");
    let mut third = Weir::spawn(&config, port)?;
    let status = third.wait_exit(PATIENCE)?;
    ensure!(status.code() == Some(3), "{status}");
    ensure!(
        third
            .log()
            .contains("ERROR unix socket is in use, cannot continue: "),
        "{}",
        third.log()
    );
    ensure!(ask(&host, port, "op_stale", "select 2")? == "2");
    Ok(())
}

#[test]
fn a_tcp_port_in_use_is_refused_at_the_start() -> Result<()> {
    let server = Server::new("op_in_use")?;
    let weir = Weir::start(&server.config())?;
    let mut other = Weir::spawn(&server.config(), weir.port())?;
    let status = other.wait_exit(PATIENCE)?;
    ensure!(status.code() == Some(3), "{status}");
    let address = format!("cannot listen on 127.0.0.1:{}", weir.port());
    ensure!(other.log().contains(&address), "{}", other.log());
    let mut raw = weir.connect("op_in_use")?;
    ensure!(raw.query_one("select 1")? == "1");
    Ok(())
}

#[test]
fn ipv6_is_served() -> Result<()> {
    TcpListener::bind("[::1]:0").context("this test needs ::1; enable IPv6 on the loopback")?;
    let server = Server::new("op_ipv6")?;
    let weir = Weir::start(&server.config().set("listen_addr", "::1"))?;
    ensure!(ask("::1", weir.port(), "op_ipv6", "select 6 * 7")? == "42");
    ensure!(weir.log().contains("/postgres@[::1]:"), "{}", weir.log());
    ensure!(weir.connect("op_ipv6").is_err(), "IPv4 was not asked for");
    let both = Weir::start(&server.config().set("listen_addr", "127.0.0.1, ::1"))?;
    for host in ["::1", "127.0.0.1"] {
        ensure!(ask(host, both.port(), "op_ipv6", "select 6 * 7")? == "42");
        let clients = ask(host, both.port(), "pgbouncer", "show clients")?;
        ensure!(clients.contains(&format!("|{host}|")), "{clients}");
    }
    Ok(())
}
