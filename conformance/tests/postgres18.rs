//! PostgreSQL 18: protocol 3.2 with its long cancel keys, and version negotiation (COR-32).

use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use weir_conformance::PoolOptions;
use weir_conformance::Postgres18;
use weir_conformance::Raw;
use weir_conformance::Target;
use weir_conformance::frontend;
use weir_conformance::postgres::Options;
use weir_conformance::raw::Message;
use weir_conformance::wait_until;

/// Protocol 3.2.
const VERSION_3_2: i32 = 196_610;
/// Version that PostgreSQL reserves for testing the negotiation.
const VERSION_3_9999: i32 = 206_607;

#[test]
fn server_of_version_18_works() -> Result<()> {
    let postgres = Postgres18::start(&Options::default())?;
    let mut target = Target::start(postgres.cluster(), &PoolOptions::default())?;
    let mut raw = Raw::connect(target.port(), "postgres")?;
    let version = raw.query_one("show server_version_num")?;
    ensure!(version.starts_with("18"), "version {version}");
    target.check_healthy()
}

#[test]
fn clients_of_newer_protocols_are_served_and_can_cancel() -> Result<()> {
    let postgres = Postgres18::start(&Options::default())?;
    let mut target = Target::start(postgres.cluster(), &PoolOptions::default())?;
    for version in [VERSION_3_2, VERSION_3_9999] {
        let (mut raw, messages) = login(target.port(), version)?;
        let negotiated = messages.iter().find(|message| message.tag == b'v');
        let key = messages
            .iter()
            .find(|message| message.tag == b'K')
            .context("no key")?;
        let is_3_0 = negotiated.is_some_and(|message| message.body.starts_with(&[0, 3, 0, 0]));
        let wanted = if is_3_0 { 8..=8 } else { 8..=260 };
        ensure!(
            wanted.contains(&key.body.len()),
            "a key of {} bytes",
            key.body.len()
        );
        ensure!(
            version == VERSION_3_2 || negotiated.is_some(),
            "3.9999 was taken as it is"
        );
        cancel_running(&mut raw, target.port(), &key.body)?;
    }
    target.check_healthy()
}

fn login(port: u16, version: i32) -> Result<(Raw, Vec<Message>)> {
    let mut raw = Raw::tcp(port, Duration::from_secs(20))?;
    let login = [("user", "postgres"), ("database", "postgres")];
    let messages = raw.ask(&frontend::startup(version, &login))?;
    let refused = messages
        .iter()
        .find(|message| message.tag == b'E')
        .map(Message::error);
    ensure!(refused.is_none(), "version {version}: {refused:?}");
    Ok((raw, messages))
}

fn cancel_running(raw: &mut Raw, port: u16, key: &[u8]) -> Result<()> {
    let (pid, secret) = key.split_first_chunk::<4>().context("short key")?;
    raw.key = (i32::from_be_bytes(*pid), secret.to_vec());
    raw.send(&frontend::query("select pg_sleep(30)"))?;
    raw.stream()
        .set_read_timeout(Some(Duration::from_millis(200)))?;
    wait_until("the cancel", Duration::from_secs(10), || {
        raw.cancel(port)?;
        Ok(raw.stream().peek(&mut [0]).is_ok())
    })?;
    raw.stream()
        .set_read_timeout(Some(Duration::from_secs(20)))?;
    let answer = raw.read_until_ready()?;
    let error = answer
        .iter()
        .find(|message| message.tag == b'E')
        .context("no error")?;
    ensure!(
        error.field(b'C').as_deref() == Some("57014"),
        "{}",
        error.error()
    );
    Ok(())
}
