//! Error messages to clients: PgBouncer's texts with PostgreSQL's codes, and in time.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Result;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::Raw;
use weir_conformance::SOON;
use weir_conformance::Weir;
use weir_conformance::clock;
use weir_conformance::frontend;
use weir_conformance::frontend::message;
use weir_conformance::scripted::Scripted;

use crate::support::PATIENCE;
use crate::support::Server;
use crate::support::clients;
use crate::support::ended;
use crate::support::refusal;
use crate::support::send_all;
use crate::support::took;

const SECOND: Duration = Duration::from_secs(1);

/// Error with which a connection that begins with these bytes ends.
fn words(weir: &Weir, bytes: &[u8]) -> Result<String> {
    let mut raw = Raw::tcp(weir.port(), PATIENCE)?;
    raw.send(bytes)?;
    let messages = raw.read_until_ready()?;
    Ok(messages.last().map(|last| last.error()).unwrap_or_default())
}

#[test]
fn refusals_at_the_door_are_in_pgbouncers_words() -> Result<()> {
    let server = Server::new("op_words")?;
    let weir = Weir::start(
        &server
            .config()
            .userlist("\"postgres\" \"\"\n\"op_guest\" \"\"\n"),
    )?;
    let version = frontend::VERSION_3_0;
    let hello = |parameters: &[(&str, &str)]| frontend::startup(version, parameters);
    let postgres = ("user", "postgres");
    let mut unterminated = hello(&[postgres]);
    if let Some(last) = unterminated.last_mut() {
        *last = b'x';
    }
    let tls_and_more = [&80_877_103_u32.to_be_bytes()[..], b"Q"].concat();
    let tls_and_more = [&8_u32.to_be_bytes()[..], &tls_and_more].concat();
    for (bytes, wanted) in [
        (
            frontend::startup(2 << 16, &[postgres]),
            "FATAL 0A000 old V2 protocol not supported",
        ),
        (
            hello(&[("database", "x")]),
            "FATAL 28000 no username supplied",
        ),
        (
            unterminated,
            "FATAL 08P01 invalid startup packet layout: expected terminator as last byte",
        ),
        (
            tls_and_more,
            "FATAL 08P01 received unencrypted data after SSL request",
        ),
        (
            hello(&[postgres, ("options", "-d 5")]),
            "FATAL 42601 unsupported options startup parameter: only '-c config=val' and '--config=val' are allowed: \
             unsupported startup option -d",
        ),
        (
            hello(&[("user", "stranger"), ("database", "op_words")]),
            "FATAL 28000 \"trust\" authentication failed for user \"stranger\"",
        ),
        (
            hello(&[("user", "op_guest"), ("database", "pgbouncer")]),
            "FATAL 42501 not allowed",
        ),
    ] {
        let words = words(&weir, &bytes)?;
        ensure!(words == wanted, "{words:?}, not {wanted:?}");
    }
    // A client that has not sent its name has none in the log.
    let log = weir.log();
    let anonymous = ": (nodb)/(nouser)@127.0.0.1:";
    ensure!(log.contains(anonymous), "{log}");
    let named = Weir::start(&Config::new().database("only = host=127.0.0.1"))?;
    let text = refusal(named.connect("other"));
    ensure!(
        text.contains("3D000 database \"other\" does not exist"),
        "{text}"
    );
    Ok(())
}

#[test]
fn query_timeout_ends_who_still_waits() -> Result<()> {
    let server = Server::new("op_wait_query")?;
    let config = server.config().set("default_pool_size", "1");
    let mut weir = Weir::start(&config.set("query_timeout", "1"))?;
    let mut clients = clients(&weir, "op_wait_query", 2)?;
    clients[0].query("begin")?;
    let begun = clock::now();
    send_all(&mut clients[1..], "select 1")?;
    ended(&mut clients[1], "57014 query_timeout")?;
    took(begun, SECOND)?;
    // The client that holds the server is in a transaction, not in a query.
    clients[0].query("commit")?;
    weir.check_healthy()
}

/// Error that a client gets if its server begins with this message.
fn told_of(first: Option<Vec<u8>>, entry: &str) -> Result<String> {
    let server = Scripted::start(move |conversation| {
        conversation.startup()?;
        if let Some(first) = &first {
            conversation.send(first)?;
            // Reads until the pooler closes.
            while conversation.read_message().is_ok() {}
        }
        Ok(())
    })?;
    let entry = format!("shop = port={} {entry}", server.port());
    let weir = Weir::start(
        &Config::new()
            .database(&entry)
            .set("server_connect_timeout", "1")
            .set("failover_hold", "0"),
    )?;
    Ok(refusal(weir.connect("shop")))
}

#[test]
fn a_server_that_cannot_be_had_is_described() -> Result<()> {
    let authentication = |code: u32, rest: &[u8]| {
        let body = [&code.to_be_bytes()[..], rest].concat();
        Some(message(b'R', &body))
    };
    let mute = Some(Vec::new());
    for (first, entry, wanted) in [
        (None, "host=127.0.0.1", "server conn crashed?"),
        (mute, "host=127.0.0.1", "connect timeout"),
        (
            authentication(5, b"salt"),
            "host=127.0.0.1",
            "server login failed: wrong password type: the server asks for an MD5 password",
        ),
        (
            authentication(10, b"OAUTHBEARER\0\0"),
            "host=127.0.0.1 password=x",
            "server login failed: none of the server's SASL authentication mechanisms are supported",
        ),
        (
            None,
            "host=bad..name",
            "server DNS lookup failed: bad..name",
        ),
    ] {
        let text = told_of(first, entry)?;
        let whole = format!("FATAL 08001 server login has been failing, cached error: {wanted}");
        ensure!(
            text.contains(&whole) && text.contains("(server_login_retry)"),
            "{text:?}, not {whole:?}"
        );
    }
    Ok(())
}

/// A server that closes connections until it is enabled; then logins wait until a number of them run at
/// once.
struct Comeback {
    server: Scripted,
    is_up: Arc<AtomicBool>,
    /// Maximum of simultaneous logins.
    most: Arc<AtomicUsize>,
}

fn comeback() -> Result<Comeback> {
    const ENOUGH: usize = 3;
    let (is_up, most) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let (up, peak) = (Arc::clone(&is_up), Arc::clone(&most));
    let (under_way, first) = (AtomicUsize::new(0), AtomicBool::new(true));
    let server = Scripted::start(move |conversation| {
        if !up.load(Ordering::SeqCst) {
            return Ok(());
        }
        // The first successful login shows that the server is back.
        if !first.swap(false, Ordering::SeqCst) {
            let now = under_way.fetch_add(1, Ordering::SeqCst) + 1;
            peak.fetch_max(now, Ordering::SeqCst);
            weir_conformance::wait_until("logins at once", PATIENCE, || {
                Ok(peak.load(Ordering::SeqCst) >= ENOUGH)
            })?;
            under_way.fetch_sub(1, Ordering::SeqCst);
        }
        conversation.login()?;
        conversation.serve()
    })?;
    Ok(Comeback {
        server,
        is_up,
        most,
    })
}

#[test]
fn a_server_that_is_down_is_told_at_once_and_comes_back_by_logins_at_once() -> Result<()> {
    let Comeback {
        server,
        is_up,
        most,
    } = comeback()?;
    let config = Config::to(server.port())
        .set("server_login_retry", "1")
        .set("failover_hold", "0");
    let mut weir = Weir::start(&config.set("default_pool_size", "6"))?;
    let begun = clock::now();
    for _ in 0..30 {
        let text = refusal(weir.connect("op_down"));
        ensure!(
            text.contains("08001 server login has been failing"),
            "{text}"
        );
    }
    ensure!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    is_up.store(true, Ordering::SeqCst);
    let mut first = None;
    weir_conformance::wait_until("a login", PATIENCE, || {
        first = weir.connect("op_down").ok();
        Ok(first.is_some())
    })?;
    let mut clients = clients(&weir, "op_down", 6)?;
    send_all(&mut clients, "begin")?;
    for client in &mut clients {
        client.read_until_ready()?;
    }
    ensure!(most.load(Ordering::SeqCst) >= 3);
    weir.check_healthy()
}
