//! Every connection to a server has the same protection as the first (SEC-04).

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::Raw;
use weir_conformance::Weir;
use weir_conformance::frontend;
use weir_conformance::frontend::message;
use weir_conformance::login::Binding;
use weir_conformance::login::login;
use weir_conformance::scripted::Conversation;
use weir_conformance::scripted::Scripted;
use weir_conformance::scripted::complete;
use weir_conformance::tls::Pki;
use weir_conformance::tools;
use weir_conformance::wait_until;

use crate::support::server_tls;

const PATIENCE: Duration = Duration::from_secs(20);
const STORED: &str = "from the query";

/// RowDescription of two text columns, `name` and `secret`.
fn two_columns() -> Vec<u8> {
    let mut body = b"\0\x02".to_vec();
    for name in [&b"name\0"[..], b"secret\0"] {
        body.extend(name);
        body.extend([0; 6]);
        body.extend(25_i32.to_be_bytes());
        body.extend((-1_i16).to_be_bytes());
        body.extend([0; 6]);
    }
    message(b'T', &body)
}

fn user_row() -> Vec<u8> {
    let mut body = b"\0\x02".to_vec();
    for value in ["asked", STORED] {
        body.extend(u32::try_from(value.len()).unwrap_or(0).to_be_bytes());
        body.extend(value.as_bytes());
    }
    message(b'D', &body)
}

/// Conforms, but answers the extended protocol as `auth_query` expects, answers `sleep` slowly, and closes on `bye`.
fn serve(conversation: &mut Conversation) -> Result<()> {
    loop {
        let request = conversation.read_message()?;
        match request.tag {
            b'X' => return Ok(()),
            b'D' => conversation.send(&two_columns())?,
            b'E' => conversation.send(&[user_row(), complete("SELECT 1")].concat())?,
            b'Q' if request.body.starts_with(b"bye") => return Ok(()),
            b'Q' if request.body.starts_with(b"sleep") => {}
            _ => conversation.answer(&request)?,
        }
    }
}

#[test]
fn sec_04_every_connection_to_a_server_is_inside_verified_tls() -> Result<()> {
    let pki = Pki::new()?;
    let tls = server_tls(&pki)?;
    let server = Scripted::start(move |conversation| {
        conversation.accept_tls(&tls)?;
        conversation.login()?;
        serve(conversation)
    })?;
    let port = server.port();
    let config = Config::to(port)
        .set("failover_hold", "0")
        .database(&format!("hosts = host=127.0.0.1,localhost port={port}"))
        .database(&format!(
            "busy = host=127.0.0.1 port={port} min_pool_size=2 user=postgres"
        ))
        .set_all(pki.server_side("verify-full"))
        .set("auth_type", "plain")
        .set("auth_user", "postgres")
        .set("server_check_delay", "0")
        .set("server_check_query", "select 1")
        .userlist("\"postgres\" \"secret\"\n");
    let mut weir = Weir::start(&config)?;
    let connect = |user: &str, database: &str, password: &str| -> Result<Raw> {
        let mut raw = Raw::tcp(weir.port(), PATIENCE)?;
        login(&mut raw, user, database, password, Binding::No)?;
        Ok(raw)
    };
    // The login, a query, and the check before the next query.
    let mut raw = connect("postgres", "first", "secret")?;
    raw.query("select 'one'")?;
    raw.query("select 'two'")?;
    // A user that only the server knows.
    let mut asked = connect("asked", "first", STORED).context("auth_query")?;
    asked.query("select 'three'")?;
    // A cancel request.
    let before = server.connections();
    raw.send(&frontend::query("sleep"))?;
    wait_until("the query's arrival", PATIENCE, || {
        Ok(server.count(b"sleep\0") > 0)
    })?;
    raw.cancel(weir.port())?;
    wait_until("the cancel's arrival", PATIENCE, || {
        Ok(server.connections() > before)
    })?;
    // The server closes; the next query needs a new connection.
    let mut again = connect("postgres", "second", "secret")?;
    drop(again.query("bye"));
    let mut again = connect("postgres", "second", "secret")?;
    again.query("select 'four'")?;
    // Several hosts, and servers opened without a client.
    connect("postgres", "hosts", "secret")?.query("select 'five'")?;
    connect("postgres", "busy", "secret")?.query("select 'six'")?;
    wait_until(
        "the connections",
        PATIENCE,
        || Ok(server.connections() >= 7),
    )?;
    check_all_secure(&server)?;
    let is_cancel = |index: usize| {
        let inside = server.heard_in_tls(index).map(|(_, inside)| inside);
        inside.is_some_and(|inside| inside.starts_with(&[0, 0, 0, 16, 4, 210, 22, 46]))
    };
    // The query runs on, so the cancel of a query as young as this one is sent once more after a moment.
    wait_until("the cancel inside TLS", PATIENCE, || {
        Ok((0..server.connections()).any(is_cancel))
    })?;
    weir.check_healthy()
}

/// Checks that each connection has requested TLS, done the handshake, and sent nothing else in clear text.
fn check_all_secure(server: &Scripted) -> Result<()> {
    wait_until("all handshakes", PATIENCE, || {
        let mut all = 0..server.connections();
        Ok(all.all(|index| server.heard_in_tls(index).is_some()))
    })
    .with_context(|| format!("{:?}", server.faults()))?;
    for index in 0..server.connections() {
        let (clear, _) = server.heard_in_tls(index).context("a handshake")?;
        ensure!(
            clear == frontend::ssl_request(),
            "{index}: {}",
            clear.escape_ascii()
        );
    }
    Ok(())
}

/// Runs the same steps with a certificate that fails verification: only failing handshakes occur.
#[test]
fn sec_04_a_server_that_cannot_be_verified_is_told_nothing() -> Result<()> {
    let pki = Pki::new()?;
    let tls = weir_conformance::tls::server::config(
        &pki.stranger.issue(&weir_conformance::tls::Spec::server())?,
    )?;
    let server = Scripted::honest_tls(tls)?;
    let config = Config::to(server.port())
        .set("failover_hold", "0")
        .database(&format!(
            "busy = host=127.0.0.1 port={} min_pool_size=2 user=postgres",
            server.port()
        ))
        .set_all(pki.server_side("verify-full"))
        .set("auth_type", "plain")
        .set("auth_user", "postgres")
        .set("auth_failure_delay", "0")
        .userlist("\"postgres\" \"secret\"\n");
    let mut weir = Weir::start(&config)?;
    for (user, password) in [("postgres", "secret"), ("asked", STORED)] {
        let mut raw = Raw::tcp(weir.port(), PATIENCE)?;
        let refused = login(&mut raw, user, "first", password, Binding::No).err();
        ensure!(refused.is_some(), "{user} got in");
    }
    ensure!(server.connections() > 0, "nobody tried");
    for index in 0..server.connections() {
        let heard = server.heard(index);
        ensure!(heard == frontend::ssl_request(), "{}", heard.escape_ascii());
    }
    weir.check_healthy()
}

/// After a reload with other TLS settings `auth_query` still uses TLS, on a connection made with the new settings.
#[test]
fn sec_04_a_reload_leaves_no_question_in_clear() -> Result<()> {
    let pki = Pki::new()?;
    let tls = server_tls(&pki)?;
    let server = Scripted::start(move |conversation| {
        conversation.accept_tls(&tls)?;
        conversation.login()?;
        serve(conversation)
    })?;
    let config = Config::to(server.port())
        .set("failover_hold", "0")
        .set_all(pki.server_side("verify-full"))
        .set("auth_type", "plain")
        .set("auth_user", "postgres")
        .userlist("\"postgres\" \"secret\"\n");
    let mut weir = Weir::start(&config)?;
    let port = weir.port();
    let ask = || -> Result<()> {
        let mut raw = Raw::tcp(port, PATIENCE)?;
        login(&mut raw, "asked", "first", STORED, Binding::No)?;
        raw.query("select 'one'").map(drop)
    };
    ask()?;
    let before = server.connections();
    weir.reload(&config.set("server_tls_protocols", "tlsv1.3"))?;
    weir.wait_log("reload done")?;
    wait_until("a question on a new connection", PATIENCE, || {
        ask()?;
        Ok(server.connections() > before)
    })?;
    check_all_secure(&server)?;
    weir.check_healthy()
}

/// Finds the places in the sources where a connection is opened.
fn places(directory: &Path, found: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            places(&path, found)?;
            continue;
        }
        let name = path.to_string_lossy().into_owned();
        if !name.ends_with(".rs") || name.contains("test") {
            continue;
        }
        let text = fs::read_to_string(&path)?;
        // Tests at the end of a file are exempt.
        let code = text
            .split("#[cfg(test)]\nmod tests")
            .next()
            .unwrap_or_default();
        let opens = code.lines().filter(|line| {
            let line = line.trim_start();
            let calls = [
                "TcpStream::connect",
                "UnixStream::connect",
                "net::connect(",
                // The system call, imported by its name.
                " connect(",
                "socket.connect(",
            ];
            let defines = line.contains("fn connect(");
            !line.starts_with("//") && !defines && calls.iter().any(|call| line.contains(call))
        });
        let relative = name.split("crates/").nth(1).unwrap_or_default().to_owned();
        found.extend(opens.map(|line| format!("{relative}: {}", line.trim())));
    }
    Ok(())
}

/// A single constructor makes all sockets to servers. The other places named here lead elsewhere (`cli/src/console.rs`
/// to Weir's own console, `hints/sql.rs` to a tool's database, without TLS and therefore without a password in clear text),
/// except `ready.rs`, which only sends an SSLRequest to see if a server answers.
#[test]
fn sec_04_sockets_to_servers_are_made_in_one_place() -> Result<()> {
    let mut found = Vec::new();
    places(&tools::workspace().join("crates/proxy/src"), &mut found)?;
    places(&tools::workspace().join("crates/cli/src"), &mut found)?;
    places(&tools::workspace().join("crates/admin/src"), &mut found)?;
    found.sort();
    expect_test::expect![[r#"
        [
            "cli/src/console.rs: let stream = UnixStream::connect(&target.address)?;",
            "cli/src/console.rs: match TcpStream::connect_timeout(&address, patience) {",
            "cli/src/logging/syslog.rs: socket.connect(&self.path)?;",
            "cli/src/upgrade/ask.rs: let stream = address(pid).and_then(|address| UnixStream::connect_addr(&address));",
            "proxy/src/hints/sql.rs: match TcpStream::connect_timeout(address, STEP_MAX) {",
            "proxy/src/listen.rs: match std::os::unix::net::UnixStream::connect(&path) {",
            "proxy/src/monitor/ready.rs: ask_unix(&UnixStream::connect(path)?, share)",
            "proxy/src/monitor/ready.rs: ask_unix(&UnixStream::connect_addr(&address)?, share)",
            "proxy/src/monitor/ready.rs: let stream = TcpStream::connect_timeout(&address, share)?;",
            "proxy/src/socket.rs: match connect(&socket, address) {",
        ]
    "#]]
    .assert_debug_eq(&found);
    Ok(())
}
