//! Ends of TLS connections: with `close_notify` if there is time for it, and cleanly if there is none.

use std::io::Read;
use std::net::Shutdown;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::PoolOptions;
use weir_conformance::Raw;
use weir_conformance::Target;
use weir_conformance::frontend;
use weir_conformance::wait_until;

use crate::support::Server;

const PATIENCE: Duration = Duration::from_secs(20);

/// Checks that the stream ends with TLS's `close_notify`, which proves that it was not truncated.
fn ends_with_close_notify(raw: &mut Raw) -> Result<()> {
    let mut rest = [0; 64];
    let read = raw.reader().read(&mut rest);
    ensure!(matches!(read, Ok(0)), "wanted close_notify, got {read:?}");
    Ok(())
}

#[test]
fn a_polite_end_is_answered_by_close_notify() -> Result<()> {
    let server = Server::shared()?;
    let mut target = server.target(PoolOptions::default())?;
    let mut raw = server.dial()?.login(target.port(), "postgres", "tls")?;
    raw.send(&frontend::terminate())?;
    ends_with_close_notify(&mut raw)?;
    target.check_healthy()
}

#[test]
fn last_words_are_followed_by_close_notify() -> Result<()> {
    let server = Server::shared()?;
    let mut target = server.target(PoolOptions::default())?;
    // A refused login, and a protocol violation.
    let mut raw = server.dial()?.request(target.port())?;
    let parameters = [("user", "nobody_at_all"), ("database", "tls")];
    raw.send(&frontend::startup(frontend::VERSION_3_0, &parameters))?;
    let words = raw.read_until_ready()?;
    ensure!(
        words.last().is_some_and(|word| word.tag == b'E'),
        "{words:?}"
    );
    ends_with_close_notify(&mut raw)?;
    let mut raw = server.dial()?.login(target.port(), "postgres", "tls")?;
    raw.send(&frontend::message(b'!', b""))?;
    let words = raw.read_until_ready()?;
    ensure!(
        words.last().is_some_and(|word| word.tag == b'E'),
        "{words:?}"
    );
    ends_with_close_notify(&mut raw)?;
    target.check_healthy()
}

/// Ways in which a client leaves in the middle of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leave {
    CloseNotify,
    CloseNotifyAlone,
    Fin,
    HalfRecord,
    Reset,
    ShutdownWrite,
}

const LEAVES: [Leave; 6] = [
    Leave::CloseNotify,
    Leave::CloseNotifyAlone,
    Leave::Fin,
    Leave::HalfRecord,
    Leave::Reset,
    Leave::ShutdownWrite,
];

fn leave(mut raw: Raw, how: Leave) -> Result<()> {
    match how {
        Leave::CloseNotify => {
            raw.tls_mut().context("TLS")?.send_close_notify();
            raw.send(&[])?;
            raw.stream().shutdown(Shutdown::Write)?;
            raw.read_to_close()?;
        }
        // Sends close_notify, and waits for Weir to close the socket.
        Leave::CloseNotifyAlone => {
            raw.tls_mut().context("TLS")?.send_close_notify();
            raw.send(&[])?;
            raw.read_to_close()?;
        }
        Leave::Fin => drop(raw),
        Leave::HalfRecord => {
            // The head of a record of application data that never arrives.
            let mut socket = raw.stream();
            std::io::Write::write_all(&mut socket, &[23, 3, 3, 1, 0, 7])?;
            raw.stream().shutdown(Shutdown::Write)?;
            // An alert may arrive before the end.
            drop(raw.read_to_close());
        }
        Leave::Reset => raw.reset()?,
        Leave::ShutdownWrite => {
            raw.stream().shutdown(Shutdown::Write)?;
            drop(raw.read_to_close());
        }
    }
    Ok(())
}

/// Checks that the lock of `taken` is free, and that a new client is served.
fn is_free(server: &Server, target: &Target, what: &str) -> Result<()> {
    let mut beside = server
        .dial()?
        .login(server.postgres.port(), "postgres", "tls")?;
    let sql = "select count(*) from pg_locks where relation = 'taken'::regclass";
    wait_until(what, PATIENCE, || Ok(beside.query_one(sql)? == "0"))?;
    let mut next = server.dial()?.login(target.port(), "postgres", "tls")?;
    ensure!(
        next.query_one("select count(*) from taken")? == "0",
        "{what}: a row stayed"
    );
    Ok(())
}

#[test]
fn a_client_that_vanishes_in_tls_leaves_nothing_behind() -> Result<()> {
    let server = Server::shared()?;
    let mut target = server.target(PoolOptions::default().pool_size(2))?;
    let dial = server.dial()?;
    let mut raw = dial.login(target.port(), "postgres", "tls")?;
    raw.query("create table taken (n int)")?;
    for how in LEAVES {
        let begun = "begin; lock table taken; insert into taken values (1)";
        let idle = dial.login(target.port(), "postgres", "tls");
        let mut idle = idle?;
        idle.query(begun)?;
        leave(idle, how)?;
        is_free(&server, &target, &format!("{how:?} in a transaction"))?;
        // In the middle of a large result.
        let mut reading = dial.login(target.port(), "postgres", "tls")?;
        reading.query(begun)?;
        let sql = "select repeat('x', 1000) from generate_series(1, 20000)";
        reading.send(&frontend::query(sql))?;
        reading.reader().read_exact(&mut [0; 10_000])?;
        if how == Leave::CloseNotify || how == Leave::ShutdownWrite || how == Leave::HalfRecord {
            // These modes wait for the end, so they would read the result.
            leave(reading, Leave::Reset)?;
        } else {
            leave(reading, how)?;
        }
        is_free(&server, &target, &format!("{how:?} in a result"))?;
        // In the middle of a message.
        let mut half = dial.login(target.port(), "postgres", "tls")?;
        half.query(begun)?;
        half.send(b"Q\0\0\0\x20insert into")?;
        leave(half, how)?;
        is_free(&server, &target, &format!("{how:?} in a message"))?;
    }
    target.check_healthy()
}
