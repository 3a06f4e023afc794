//! Mistakes of other poolers that trusted too much: answering from memory, trusting an address, judging a statement
//! by its first word.

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::PoolOptions;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::SOON;
use weir_conformance::frontend::message;
use weir_conformance::scripted::Scripted;

use crate::support;

#[test]
fn sec_45_what_was_revoked_is_not_answered_from_memory() -> Result<()> {
    let postgres = Postgres::shared()?;
    let database = "sec_45";
    postgres.create_database(database)?;
    let mut owner = Raw::connect(postgres.port(), database)?;
    owner.query("create table secret as select 42 as n; create role sec_45_reader login")?;
    owner.query("grant select on secret to sec_45_reader")?;
    let guard = support::start_with_users(
        postgres.port(),
        "trust",
        "\"sec_45_reader\" \"\"\n",
        &["default_pool_size = 1"],
    )?;
    let parameters = [("user", "sec_45_reader"), ("database", database)];
    let mut reader = Raw::connect_with(guard.target.port(), &parameters)?;
    for _ in 0..3 {
        ensure!(reader.query_one("select n from secret")? == "42");
    }
    owner.query("revoke select on secret from sec_45_reader")?;
    let refused = reader.query_one("select n from secret");
    ensure!(
        refused.is_err_and(|error| format!("{error:#}").contains("42501")),
        "the old answer came again"
    );
    Ok(())
}

#[test]
fn sec_46_nobody_says_where_it_comes_from() -> Result<()> {
    let server = Scripted::honest()?;
    let mut target = support::start(server.port(), &PoolOptions::default())?;
    let v2 = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x0a\0\0\x01\x0a\0\0\x02\x15\x38\x19\x20";
    for header in [
        &b"PROXY UNKNOWN\r\n"[..],
        b"PROXY TCP4 10.0.0.1 10.0.0.2 5432 6432\r\n",
        v2,
    ] {
        let mut raw = Raw::tcp(target.port(), SOON)?;
        raw.send(header)?;
        // The first bytes are not the length of a start-up packet.
        support::closed_in_silence(&mut raw).with_context(|| header.escape_ascii().to_string())?;
    }
    ensure!(server.connections() == 0, "a server was asked");
    support::check_serves(&mut target)
}

#[test]
fn sec_47_a_refused_write_is_told_and_not_tried_again() -> Result<()> {
    let refusal = message(
        b'E',
        b"SERROR\0VERROR\0C25006\0Mcannot execute INSERT in a read-only transaction\0\0",
    );
    let server = Scripted::start(move |conversation| {
        conversation.login()?;
        loop {
            let request = conversation.read_message()?;
            match request.tag {
                b'X' => return Ok(()),
                b'Q' if request.body.starts_with(b"select f()") => {
                    conversation.send(&refusal)?;
                    conversation.ready()?;
                }
                _ => conversation.answer(&request)?,
            }
        }
    })?;
    let mut target = support::start(server.port(), &PoolOptions::default().pool_size(3))?;
    let mut raw = Raw::connect(target.port(), "postgres")?;
    let told = raw.query("select f(); insert into t values (1)");
    ensure!(
        told.is_err_and(|error| format!("{error:#}").contains("25006")),
        "the refusal was not passed on"
    );
    ensure!(
        server.count(b"select f()") == 1,
        "the write was tried {} times",
        server.count(b"select f()")
    );
    support::check_serves(&mut target)
}
