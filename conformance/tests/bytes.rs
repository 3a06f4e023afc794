//! Equal client bytes produce equal reply bytes from PostgreSQL directly and through the target.
//!
//! Each conversation runs once directly (the oracle), then through the target in one piece per step, byte by byte and
//! cut at random (COR-28). Masked are: `BackendKeyData`, process ids in notifications, and file, line and routine of
//! FATAL errors. The order of the `ParameterStatus` messages of a login is not part of the protocol, so they are
//! sorted.

use std::env;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use conversations::Conversation;
use conversations::Step;
use weir_conformance::Kind;
use weir_conformance::PoolOptions;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::Target;
use weir_conformance::frontend;
use weir_conformance::random::Random;
use weir_conformance::raw::Message;

#[path = "bytes/conversations.rs"]
mod conversations;

/// Division of a step's bytes into writes.
#[derive(Clone, Copy, Debug)]
enum Cut {
    Whole,
    EveryByte,
    Random(u64),
}

#[test]
fn replies_are_the_same_byte_for_byte() -> Result<()> {
    let postgres = Postgres::start(&weir_conformance::postgres::Options::default())?;
    let mut raw = Raw::connect(postgres.port(), "postgres")?;
    raw.query(conversations::SCHEMA)?;
    let mut target = Target::start(&postgres, &PoolOptions::default().pool_size(4))?;
    let only = env::var("BYTES_ONLY").unwrap_or_default();
    let seed = 20_260_101;
    let mut differences = Vec::new();
    for conversation in conversations::all()
        .iter()
        .filter(|one| one.name.contains(&only))
    {
        let expected = converse(postgres.port(), conversation, Cut::Whole)
            .with_context(|| format!("{} directly", conversation.name))?;
        for cut in [
            Cut::Whole,
            Cut::EveryByte,
            Cut::Random(seed),
            Cut::Random(seed + 1),
        ] {
            let outcome = converse(target.port(), conversation, cut)
                .and_then(|actual| same(&expected, &actual));
            if let Err(error) = outcome {
                differences.push(format!("=== {} ({cut:?})\n{error:#}", conversation.name));
                // The other cuts would mostly report the same difference again.
                break;
            }
        }
        target.check_healthy()?;
    }
    let count = differences.len();
    ensure!(
        count == 0,
        "{count} conversations differ:\n{}",
        differences.join("\n")
    );
    Ok(())
}

#[test]
fn encryption_requests_are_refused_with_one_byte() -> Result<()> {
    let postgres = Postgres::shared()?;
    let target = Target::start(&postgres, &PoolOptions::default())?;
    for port in [postgres.port(), target.port()] {
        let mut raw = Raw::tcp(port, Duration::from_secs(10))?;
        // Debian's PostgreSQL itself would accept GSS encryption.
        let gss =
            (port == target.port() && target.kind() != Kind::Direct).then(frontend::gssenc_request);
        for request in [Some(frontend::ssl_request()), gss].iter().flatten() {
            raw.send(request)?;
            let mut answer = [0];
            std::io::Read::read_exact(raw.reader(), &mut answer)?;
            ensure!(&answer == b"N", "port {port} answered {answer:?}");
        }
        let login = [("user", "postgres"), ("database", "postgres")];
        let messages = raw.ask(&frontend::startup(frontend::VERSION_3_0, &login))?;
        ensure!(
            messages.last().is_some_and(|last| last.tag == b'Z'),
            "no login on the same socket"
        );
    }
    Ok(())
}

#[test]
fn pool_of_one_serves_the_next_client_after_every_conversation() -> Result<()> {
    let postgres = Postgres::start(&weir_conformance::postgres::Options::default())?;
    Raw::connect(postgres.port(), "postgres")?.query(conversations::SCHEMA)?;
    let mut target = Target::start(&postgres, &PoolOptions::default().pool_size(1))?;
    if target.kind() == Kind::Direct {
        return Ok(());
    }
    for conversation in conversations::all() {
        // The other test judges the replies; this one only checks what remains on the server.
        drop(converse(target.port(), &conversation, Cut::Whole));
        let mut next = Raw::connect(target.port(), "postgres")?;
        let value = next.query_one("select 'clean'");
        let value = value.with_context(|| format!("after {}", conversation.name))?;
        ensure!(value == "clean", "after {}: {value}", conversation.name);
        next.terminate();
    }
    target.check_healthy()
}

/// Runs a conversation; returns every reply message in order, masked.
fn converse(port: u16, conversation: &Conversation, cut: Cut) -> Result<Vec<Message>> {
    let mut raw = Raw::tcp(port, Duration::from_secs(15))?;
    let mut replies = Vec::new();
    let mut in_login = true;
    for (number, step) in conversation.steps.iter().enumerate() {
        let context = || format!("step {number} of {}", conversation.name);
        match step {
            Step::Send(bytes) => {
                let sent = send(&mut raw, bytes, cut);
                // A client that is refused at the first byte may find the connection closed at the last.
                if !conversation
                    .steps
                    .iter()
                    .any(|step| matches!(step, Step::Close))
                {
                    sent.with_context(context)?;
                }
            }
            Step::Ready(count) => {
                for _ in 0..*count {
                    let mut messages = raw.read_until_ready().with_context(context)?;
                    if in_login {
                        messages.sort_by_key(|message| match message.tag {
                            b'S' => (1, message.body.clone()),
                            b'R' | b'N' => (0, Vec::new()),
                            b'K' => (2, Vec::new()),
                            _ => (3, Vec::new()),
                        });
                        in_login = false;
                    }
                    replies.extend(messages);
                }
            }
            Step::Through(tag) => loop {
                let message = raw.read_message().with_context(context)?;
                let done = message.tag == *tag;
                replies.push(message);
                if done {
                    break;
                }
            },
            Step::Vanish => drop(raw.read_to_close().with_context(context)?),
            Step::Close => {
                let rest = raw.read_to_close().with_context(context)?;
                ensure!(rest.is_empty(), "{}: {rest:?} before the close", context());
            }
        }
    }
    Ok(replies.into_iter().map(mask).collect())
}

fn send(raw: &mut Raw, bytes: &[u8], cut: Cut) -> Result<()> {
    let mut random = Random::new(if let Cut::Random(seed) = cut { seed } else { 0 });
    let mut rest = bytes;
    while !rest.is_empty() {
        let length = match cut {
            Cut::Whole => rest.len(),
            Cut::EveryByte => 1,
            Cut::Random(_) => 1 + random.below(rest.len()),
        };
        // Sending a long body byte by byte tests nothing new.
        let length = if bytes.len() > 20_000 {
            length.max(1000).min(rest.len())
        } else {
            length
        };
        let (now, later) = rest.split_at(length);
        raw.send(now)?;
        rest = later;
        if !matches!(cut, Cut::Whole) {
            // Lets the reader receive the pieces separately; correctness does not depend on it.
            std::thread::yield_now();
        }
    }
    Ok(())
}

/// Fields of a FATAL error without the place in PostgreSQL's source, which a pooler's own error does not have.
fn without_source(body: &[u8]) -> Vec<u8> {
    let fields = body.split(|byte| *byte == 0);
    let kept = fields.filter(|field| !matches!(field.first(), Some(b'F' | b'L' | b'R')));
    kept.collect::<Vec<_>>().join(&0)
}

fn mask(mut message: Message) -> Message {
    if message.tag == b'E' && message.body.starts_with(b"SFATAL\0") {
        message.body = without_source(&message.body);
    }
    let masked = match message.tag {
        b'K' => message.body.len(),
        b'A' => 4,
        _ => 0,
    };
    message
        .body
        .iter_mut()
        .take(masked)
        .for_each(|byte| *byte = 0);
    message
}

fn same(expected: &[Message], actual: &[Message]) -> Result<()> {
    let common = expected
        .iter()
        .zip(actual)
        .take_while(|(left, right)| left == right)
        .count();
    let show = |messages: &[Message]| match messages.get(common) {
        Some(message) => format!("'{}' {}", message.tag as char, message.body.escape_ascii()),
        None => "nothing more".to_owned(),
    };
    let same = expected.len() == actual.len() && common == expected.len();
    ensure!(
        same,
        "message {common}: wanted {}\n  got {}",
        show(expected),
        show(actual)
    );
    Ok(())
}
