//! Data passes through TLS unchanged: whole results by their digest, COPY, pipelines, records of any size.

use std::io;
use std::io::Read;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::PoolOptions;
use weir_conformance::Raw;
use weir_conformance::frontend;
use weir_conformance::tls::Dial;
use weir_conformance::tls::client::ALPN;
use weir_conformance::tls::client::Options;

use crate::support::Server;
use crate::support::check_server_side;

const CHUNK: usize = 64 * 1024;

/// Reads `count` replies from both sides at the same pace; fails if they differ. Returns their length.
fn compare_replies(wanted: &mut Raw, got: &mut Raw, count: usize) -> Result<u64> {
    let mut length = 0;
    let mut left = count;
    let (mut ours, mut theirs) = (vec![0; CHUNK], vec![0; CHUNK]);
    while left > 0 {
        let (mut head, mut other) = ([0; 5], [0; 5]);
        wanted.reader().read_exact(&mut head).context("directly")?;
        got.reader().read_exact(&mut other).context("in TLS")?;
        ensure!(head == other, "at {length}: {other:?}, directly {head:?}");
        let [tag, size @ ..] = head;
        let mut body = usize::try_from(u32::from_be_bytes(size))? - 4;
        length += 5 + u64::try_from(body)?;
        while body > 0 {
            let size = body.min(CHUNK);
            let part = ours.get_mut(..size).context("in range")?;
            let other = theirs.get_mut(..size).context("in range")?;
            wanted.reader().read_exact(part).context("directly")?;
            got.reader().read_exact(other).context("in TLS")?;
            ensure!(part == other, "message {} before {length}", tag as char);
            body -= size;
        }
        left -= usize::from(tag == b'Z');
    }
    Ok(length)
}

/// Sends the same bytes to PostgreSQL in clear text and to the target through TLS; the replies must be equal.
fn compare(server: &Server, through: &mut Raw, bytes: &[u8], ready: usize) -> Result<u64> {
    let mut beside = server.beside()?;
    beside.send(bytes)?;
    through.send(bytes)?;
    compare_replies(&mut beside, through, ready)
}

fn rows(count: u32, width: u32) -> Vec<u8> {
    let sql = format!("select g, repeat(md5(g::text), {width}) from generate_series(1, {count}) g");
    frontend::query(&sql)
}

#[test]
fn results_of_one_row_to_a_hundred_megabytes_arrive_whole() -> Result<()> {
    let server = Server::shared()?;
    let mut target = server.target(PoolOptions::default())?;
    let mut raw = server.dial()?.login(target.port(), "postgres", "tls")?;
    check_server_side(&mut raw)?;
    // Sizes around the limit of a TLS record (16 KiB), and one row of 16 MB.
    for (count, width) in [
        (0, 1),
        (1, 1),
        (1, 510),
        (1, 511),
        (1, 512),
        (400, 1),
        (1, 500_000),
    ] {
        compare(&server, &mut raw, &rows(count, width), 1)?;
    }
    let length = compare(&server, &mut raw, &rows(100_000, 32), 1)?;
    ensure!(length > 100_000_000, "only {length} bytes");
    target.check_healthy()
}

#[test]
fn requests_of_any_size_arrive_whole() -> Result<()> {
    let server = Server::shared()?;
    let mut target = server.target(PoolOptions::default())?;
    let mut raw = server.dial()?.login(target.port(), "postgres", "tls")?;
    for size in [
        0,
        1,
        16_300,
        16_360,
        16_384,
        16_400,
        65_536,
        1 << 20,
        20 << 20,
    ] {
        let text = "x".repeat(size);
        let sql = format!("select md5('{text}'), length('{text}')");
        compare(&server, &mut raw, &frontend::query(&sql), 1).with_context(|| format!("{size}"))?;
        let batch = [
            frontend::parse("", "select md5($1::text)", &[]),
            frontend::bind("", "", &[Some(text.as_bytes())]),
            frontend::execute("", 0),
            frontend::sync(),
        ];
        compare(&server, &mut raw, &batch.concat(), 1).with_context(|| format!("{size}"))?;
    }
    target.check_healthy()
}

/// Records of one byte, and of sizes that never coincide with messages.
#[test]
fn records_need_not_meet_the_borders_of_messages() -> Result<()> {
    let server = Server::shared()?;
    let mut target = server.target(PoolOptions::default())?;
    let batch = [
        frontend::query("select 1; select 2"),
        frontend::parse("", "select $1::text || 'x'", &[]),
        frontend::bind("", "", &[Some(b"value")]),
        frontend::describe(b'P', ""),
        frontend::execute("", 0),
        frontend::sync(),
        frontend::query("select 3"),
    ];
    let batch = batch.concat();
    for versions in [&[&rustls::version::TLS12][..], &[&rustls::version::TLS13]] {
        let dial = Dial::with(&Options {
            authority: Some(&server.pki.authority),
            alpn: &[ALPN],
            versions,
            ..Options::default()
        })?;
        for size in [1, 2, 3, 5, 7, 13, 64] {
            let mut beside = server.beside()?;
            beside.send(&batch)?;
            let mut raw = dial.login(target.port(), "postgres", "tls")?;
            for piece in batch.chunks(size) {
                // Each send is flushed as a separate record.
                raw.send(piece)?;
            }
            compare_replies(&mut beside, &mut raw, 3)
                .with_context(|| format!("records of {size} bytes, {versions:?}"))?;
        }
    }
    target.check_healthy()
}

#[test]
fn pipelines_of_a_thousand_requests_are_answered_in_order() -> Result<()> {
    let server = Server::shared()?;
    let mut target = server.target(PoolOptions::default())?;
    let mut raw = server.dial()?.login(target.port(), "postgres", "tls")?;
    let mut bytes = Vec::new();
    for number in 0..1000 {
        let value = format!("request {number}");
        bytes.extend(frontend::parse("", "select $1::text", &[]));
        bytes.extend(frontend::bind("", "", &[Some(value.as_bytes())]));
        bytes.extend(frontend::execute("", 0));
        if number % 7 == 0 {
            // An error ends only its own part of the pipeline.
            bytes.extend(frontend::parse("", "select nonsense", &[]));
        }
        bytes.extend(frontend::sync());
    }
    compare(&server, &mut raw, &bytes, 1000)?;
    target.check_healthy()
}

#[test]
fn copy_goes_both_ways() -> Result<()> {
    let server = Server::shared()?;
    let mut target = server.target(PoolOptions::default())?;
    let mut raw = server.dial()?.login(target.port(), "postgres", "tls")?;
    raw.query("drop table if exists copied; create table copied (n int, t text)")?;
    raw.send(&frontend::query("copy copied from stdin"))?;
    ensure!(raw.read_message()?.tag == b'G', "no CopyInResponse");
    let line = "x".repeat(990);
    for start in (0..50_000).step_by(100) {
        let chunk: String = (start..start + 100)
            .map(|number| format!("{number}\t{line}\n"))
            .collect();
        raw.send(&frontend::copy_data(chunk.as_bytes()))?;
    }
    let end = raw.ask(&frontend::copy_done())?;
    ensure!(
        end.iter().any(|message| message.body == b"COPY 50000\0"),
        "{end:?}"
    );
    let sum = raw.query_one("select count(distinct n) || ' ' || sum(length(t)) from copied")?;
    ensure!(sum == "50000 49500000", "{sum}");
    // Sorted, since concurrent scans begin at different pages.
    let sorted = "copy (select * from copied order by n) to stdout";
    raw.send(&frontend::query(sorted))?;
    // Database `tls` accepts only TLS.
    let beside = server.postgres.port();
    let mut beside = server.dial()?.login(beside, "postgres", "tls")?;
    beside.send(&frontend::query(sorted))?;
    compare_replies(&mut beside, &mut raw, 1)?;
    raw.send(&frontend::query("copy copied from stdin"))?;
    ensure!(raw.read_message()?.tag == b'G', "no CopyInResponse");
    let failed = raw.ask(&frontend::copy_fail("enough"))?;
    ensure!(
        failed.iter().any(|message| message.tag == b'E'),
        "{failed:?}"
    );
    ensure!(raw.query_one("select count(*) from copied")? == "50000");
    target.check_healthy()
}

/// A slow reader delays only its own server; the pooler's memory and other clients are not affected.
#[test]
fn a_reader_that_stops_holds_up_nobody_else() -> Result<()> {
    let server = Server::shared()?;
    let mut target = server.target(PoolOptions::default())?;
    let dial = server.dial()?;
    let mut lazy = dial.login(target.port(), "postgres", "tls")?;
    lazy.send(&rows(200_000, 32))?;
    let mut other = dial.login(target.port(), "postgres", "tls")?;
    for _ in 0..100 {
        ensure!(other.query_one("select 1")? == "1");
    }
    if crate::support::is_pooler(&target) {
        let peak = target.rss_peak()? / 1024 / 1024;
        ensure!(peak < 100, "{peak} MiB for one lazy reader");
    }
    let mut reader = lazy.reader().take(1 << 20);
    io::copy(&mut reader, &mut io::sink())?;
    lazy.reset()?;
    ensure!(other.query_one("select 2")? == "2");
    target.check_healthy()
}
