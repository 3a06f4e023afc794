//! Servers that misbehave: in their SCRAM, in their errors, in unrequested messages. Clients receive a single FATAL
//! from Weir, or the server's bytes unchanged; the process survives.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;
use weir_conformance::PoolOptions;
use weir_conformance::Raw;
use weir_conformance::SOON;
use weir_conformance::clock;
use weir_conformance::frontend;
use weir_conformance::raw::Message;
use weir_conformance::scripted;
use weir_conformance::scripted::Conversation;
use weir_conformance::scripted::Scripted;
use weir_conformance::wait_until;

use crate::support;
use crate::support::MIB;
use crate::support::Meter;

/// Starts a server that sends variant `current` in place of the messages after the start-up packet, and then reads;
/// without a variant it conforms.
fn liar(variants: Vec<Vec<u8>>, current: &Arc<AtomicUsize>) -> Result<Scripted> {
    let current = Arc::clone(current);
    Scripted::start(move |conversation| {
        conversation.startup()?;
        match variants.get(current.load(Ordering::SeqCst)) {
            Some(bytes) => {
                conversation.send(bytes)?;
                Ok(conversation.read_to_close()?)
            }
            None => {
                conversation.welcome()?;
                conversation.serve()
            }
        }
    })
}

/// Checks a client's login while its server misbehaves: it ends within the limit, with a FATAL.
fn login_fails(port: u16) -> Result<()> {
    let begun = clock::now();
    let mut raw = Raw::tcp(port, SOON)?;
    raw.send(&frontend::startup(
        frontend::VERSION_3_0,
        &[("user", "postgres"), ("database", "postgres")],
    ))?;
    let words = support::last_words(&mut raw)?;
    // A server's own error may lack required fields (SEC-23); it counts as an error all the same.
    let errors = words.iter().filter(|message| message.tag == b'E').count();
    ensure!(errors == 1, "{}", support::describe(&words));
    ensure!(words.iter().all(|message| message.tag != b'Z'), "let in");
    ensure!(begun.elapsed() < SOON, "took {:?}", begun.elapsed());
    Ok(())
}

#[test]
fn sec_23_errors_with_missing_fields_during_a_servers_login_harm_nothing() -> Result<()> {
    let mut variants = errors();
    let honest = variants.len() + 1;
    // A notice before any other message is legal (COR-19); the silence after it is not tested here, so an error
    // follows.
    variants.push([frontend::message(b'N', b""), scripted::error(&[])].concat());
    lies_in_login(variants, honest)
}

#[test]
fn sec_25_messages_out_of_place_during_a_servers_login_harm_nothing() -> Result<()> {
    let hello = scripted::authentication_ok();
    let ready = frontend::message(b'Z', b"I");
    let variants = vec![
        frontend::message(b'R', b""),
        frontend::message(b'R', b"\0\0\0"),
        frontend::message(b'R', b"\0\0\0\x05"),
        frontend::message(b'R', b"\0\0\0\x63"),
        frontend::message(b'R', b"\0\0\0\x0a"),
        frontend::message(b'R', b"\0\0\0\x0b"),
        frontend::message(b'R', b"\0\0\0\x0cv=x"),
        scripted::row(b"too early"),
        ready.clone(),
        scripted::key_data(0),
        scripted::parameters(),
        frontend::message(b'v', b""),
        frontend::message(b'v', b"\0\x03\0\0\xff\xff\xff\xff"),
        support::head(b'R', 0),
        support::head(b'R', 0xffff_ffff),
        support::head(b'N', 0xffff_ffff),
        support::head(b'S', 3),
        [hello.clone(), ready].concat(),
        [hello.clone(), hello.clone()].concat(),
        [hello.clone(), frontend::message(b'K', b"")].concat(),
        [hello.clone(), frontend::message(b'S', b"")].concat(),
        [hello.clone(), frontend::message(b'S', b"name")].concat(),
        [
            hello.clone(),
            scripted::key_data(0),
            frontend::message(b'Z', b""),
        ]
        .concat(),
        [
            hello.clone(),
            scripted::key_data(0),
            frontend::message(b'Z', b"T"),
        ]
        .concat(),
        [
            hello.clone(),
            scripted::key_data(0),
            frontend::message(b'Z', b"?"),
        ]
        .concat(),
        [hello.clone(), scripted::complete("SELECT 1")].concat(),
        [hello, frontend::message(b'G', &[0, 0, 0])].concat(),
    ];
    let honest = variants.len();
    lies_in_login(variants, honest)
}

fn lies_in_login(variants: Vec<Vec<u8>>, honest: usize) -> Result<()> {
    let current = Arc::new(AtomicUsize::new(0));
    let count = variants.len();
    let server = liar(variants, &current)?;
    let options = PoolOptions::default()
        .setting("server_login_retry = 0")
        .setting("client_login_timeout = 4")
        .setting("server_connect_timeout = 2");
    let mut target = support::start(server.port(), &options)?;
    let meter = Meter::begin(&target)?;
    for variant in 0..count {
        current.store(variant, Ordering::SeqCst);
        login_fails(target.port()).with_context(|| format!("variant {variant}"))?;
    }
    current.store(honest, Ordering::SeqCst);
    meter.check_growth(4 * MIB)?;
    meter.check_cpu(Duration::from_secs(2))?;
    support::check_serves(&mut target)
}

#[test]
fn cor_19_notices_during_a_servers_login_are_legal() -> Result<()> {
    let server = Scripted::start(|conversation| {
        conversation.startup()?;
        let notice = frontend::message(b'N', b"SNOTICE\0C00000\0Mhello\0\0");
        let parts = [
            notice.clone(),
            scripted::authentication_ok(),
            notice.clone(),
            scripted::parameters(),
            notice.clone(),
            scripted::key_data(0),
            notice,
        ];
        conversation.send(&parts.concat())?;
        conversation.ready()?;
        conversation.serve()
    })?;
    let mut target = support::start(server.port(), &PoolOptions::default())?;
    support::check_serves(&mut target)
}

#[test]
fn sec_21_an_endless_notice_during_a_servers_login_is_bounded() -> Result<()> {
    endless_in_login(b'N')
}

#[test]
fn sec_21_an_endless_error_during_a_servers_login_is_bounded() -> Result<()> {
    endless_in_login(b'E')
}

#[test]
fn sec_21_an_endless_row_during_a_servers_login_is_bounded() -> Result<()> {
    endless_in_login(b'D')
}

/// A hundred million bytes in one message of a login are refused early, neither stored nor scanned repeatedly.
fn endless_in_login(tag: u8) -> Result<()> {
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let server = Scripted::start(move |conversation| {
        conversation.startup()?;
        conversation.send(&support::head(tag, 0x3fff_fff0))?;
        let block = vec![b'n'; 1 << 16];
        for _ in 0..1600 {
            conversation.send(&block)?;
            count.fetch_add(block.len(), Ordering::SeqCst);
        }
        Ok(conversation.read_to_close()?)
    })?;
    let options = PoolOptions::default()
        .setting("server_login_retry = 0")
        .setting("client_login_timeout = 3")
        .setting("server_connect_timeout = 2");
    let mut target = support::start(server.port(), &options)?;
    let meter = Meter::begin(&target)?;
    login_fails(target.port())?;
    let (cpu, peak) = (meter.cpu()?, target.rss_peak()? / MIB);
    let sent = sent.load(Ordering::SeqCst) >> 20;
    // The client's login makes several attempts, and each may fill the sockets' buffers.
    ensure!(
        cpu < Duration::from_secs(1) && peak < 48 && sent < 64,
        "{cpu:?} of processor time, a peak of {peak} MiB, {sent} MiB taken"
    );
    target.check_healthy()
}

/// ParameterStatus of 60,000 names, in 1.4 MB.
fn too_many_names() -> Vec<u8> {
    let names = (0..60_000).map(|number| format!("parameter.{number:05}\0on\0"));
    let messages = names.map(|body| frontend::message(b'S', body.as_bytes()));
    messages.collect::<Vec<_>>().concat()
}

#[test]
fn sec_21_a_server_that_reports_too_many_parameters_at_login_is_refused() -> Result<()> {
    let names = too_many_names();
    let server = Scripted::start(move |conversation| {
        conversation.startup()?;
        conversation.send(&scripted::authentication_ok())?;
        // The connection is closed long before the end.
        drop(conversation.send(&names));
        Ok(conversation.read_to_close()?)
    })?;
    let options = PoolOptions::default()
        .setting("server_login_retry = 0")
        .setting("client_login_timeout = 60");
    let mut target = support::start(server.port(), &options)?;
    let meter = Meter::begin(&target)?;
    login_fails(target.port())?;
    meter.check_cpu(Duration::from_millis(300))?;
    target.check_healthy()
}

#[test]
fn sec_21_a_server_that_reports_too_many_parameters_later_is_closed() -> Result<()> {
    let names = too_many_names();
    let server = Scripted::start(move |conversation| {
        conversation.login()?;
        while let Some(_request) =
            conversation.serve_until(|message| message.body.starts_with(b"flood"))?
        {
            drop(conversation.send(&names));
            drop(conversation.ready());
        }
        Ok(())
    })?;
    let mut target = support::start(server.port(), &PoolOptions::default().pool_size(2))?;
    let mut raw = Raw::connect(target.port(), "postgres")?;
    let meter = Meter::begin(&target)?;
    raw.send(&frontend::query("flood"))?;
    let words = support::last_words(&mut raw)?;
    let errors = words.iter().filter(|message| message.tag == b'E').count();
    ensure!(errors == 1, "{}", support::describe(&words));
    meter.check_cpu(Duration::from_millis(300))?;
    support::check_serves(&mut target)
}

/// Fields of an error: none, each alone, duplicates, unterminated, invalid codes.
fn errors() -> Vec<Vec<u8>> {
    let all = [
        (b'S', "ERROR"),
        (b'V', "ERROR"),
        (b'C', "42601"),
        (b'M', "text"),
    ];
    let mut variants = Vec::new();
    for mask in 0..16_u8 {
        let chosen: Vec<(u8, &str)> = all
            .iter()
            .enumerate()
            .filter(|(bit, _)| mask & (1 << bit) != 0)
            .map(|(_, field)| *field)
            .collect();
        variants.push(scripted::error(&chosen));
    }
    variants.push(scripted::error(&[
        (b'S', "ERROR"),
        (b'S', "ERROR"),
        (b'C', "1"),
        (b'C', "2"),
    ]));
    variants.push(scripted::error(&[(b'C', "4260"), (b'M', "four")]));
    variants.push(scripted::error(&[(b'C', "42601X"), (b'M', "six")]));
    variants.push(scripted::error(&[(b'C', "\u{e9}\u{e9}"), (b'M', "")]));
    variants.push(frontend::message(b'E', b""));
    variants.push(frontend::message(b'E', b"SERROR"));
    variants.push(frontend::message(b'E', b"SERROR\0C42601\0Mtext\0"));
    variants.push(frontend::message(b'E', b"SERROR\0C42601\0Mtext"));
    variants.push(frontend::message(b'E', b"\0trailing"));
    variants.push(frontend::message(b'E', b"M\xff\xfe\xfd\0\0"));
    variants
}

#[test]
fn sec_23_errors_with_missing_fields_in_answer_to_a_query_are_passed_on() -> Result<()> {
    let variants = errors();
    let count = variants.len();
    let expected = variants.clone();
    let server = Scripted::start(move |conversation| {
        conversation.login()?;
        while let Some(request) =
            conversation.serve_until(|message| message.body.starts_with(b"error "))?
        {
            let text = String::from_utf8_lossy(&request.body).into_owned();
            let number: usize = text.trim_matches('\0').split_at(6).1.parse()?;
            let bytes = variants.get(number).context("no such variant")?;
            conversation.send(bytes)?;
            conversation.ready()?;
        }
        Ok(())
    })?;
    let mut target = support::start(server.port(), &PoolOptions::default().pool_size(2))?;
    let mut raw = Raw::connect(target.port(), "postgres")?;
    for (number, expected) in expected.iter().enumerate().take(count) {
        raw.send(&frontend::query(&format!("error {number}")))?;
        let error = raw
            .read_message()
            .with_context(|| format!("variant {number}"))?;
        ensure!(
            error.wire() == *expected,
            "variant {number}: {}",
            error.error()
        );
        ensure!(raw.read_message()?.tag == b'Z', "variant {number}");
    }
    support::check_serves(&mut target)
}

/// Messages that no server sends unrequested.
fn unasked() -> Vec<Vec<u8>> {
    vec![
        scripted::row(b"foreign"),
        scripted::complete("SELECT 1"),
        frontend::message(b'Z', b"I"),
        frontend::message(b'Z', b"T"),
        frontend::message(b'T', b"\0\0"),
        scripted::error(&[(b'S', "ERROR"), (b'C', "42601"), (b'M', "foreign")]),
        frontend::message(b'1', b""),
        frontend::message(b'G', &[0, 0, 0]),
        frontend::message(b'd', b"foreign"),
        frontend::message(b'y', b"unknown"),
        frontend::message(b'R', &[0; 4]),
        support::head(b'D', 0x0fff_ffff),
        b"D".to_vec(),
        b"\xff\xff\xff\xff\xff\xff\xff\xff".to_vec(),
    ]
}

/// An idle server sends an unrequested message: it is closed, and no client notices.
#[test]
fn sec_25_unasked_messages_of_an_idle_server_reach_nobody() -> Result<()> {
    for (number, bytes) in unasked().into_iter().enumerate() {
        // A truncated header may still become a legal message; libpq also treats a single error as a notice.
        let is_bearable = bytes == b"D" || bytes.starts_with(b"E");
        let go = Arc::new(AtomicUsize::new(0));
        let signal = Arc::clone(&go);
        let server = Scripted::start(move |conversation| {
            conversation.login()?;
            if conversation.index > 0 {
                return conversation.serve();
            }
            let is_asked = |message: &Message| message.body.starts_with(b"select 'lie'");
            let request = conversation.serve_until(is_asked)?.context("no request")?;
            conversation.answer(&request)?;
            wait_until("the signal", SOON, || Ok(signal.load(Ordering::SeqCst) > 0))?;
            conversation.send(&bytes)?;
            signal.store(2, Ordering::SeqCst);
            conversation.serve()
        })?;
        let options = PoolOptions::default()
            .pool_size(1)
            .setting("server_login_retry = 0");
        let mut target = support::start(server.port(), &options)?;
        let mut first = Raw::connect(target.port(), "postgres")?;
        ensure!(first.query_one("select 'lie'")? == "select 'lie'");
        go.store(1, Ordering::SeqCst);
        if !is_bearable {
            wait_until("the liar's end", SOON, || Ok(server.open() == 0))
                .with_context(|| format!("lie {number}"))?;
        }
        wait_until("the lie", SOON, || Ok(go.load(Ordering::SeqCst) == 2))?;
        // After these logins the messages sent before them have arrived.
        for _ in 0..20 {
            drop(Raw::connect(target.port(), "elsewhere")?);
        }
        for turn in 0..3 {
            let sql = format!("select 'turn {turn}'");
            let value = first.query_one(&sql);
            let value = value.with_context(|| format!("lie {number}, turn {turn}"))?;
            ensure!(value == sql, "lie {number}: {value}");
        }
        support::check_serves(&mut target).with_context(|| format!("lie {number}"))?;
    }
    Ok(())
}

/// Unrequested messages directly after an answer: the next client gets its own answer or a FATAL, never another one.
#[test]
fn sec_25_unasked_messages_behind_an_answer_reach_nobody() -> Result<()> {
    for (number, bytes) in unasked().into_iter().enumerate() {
        let server = Scripted::start(move |conversation| {
            conversation.login()?;
            let is_liar = conversation.index == 0;
            let is_asked =
                move |message: &Message| is_liar && message.body.starts_with(b"select 'lie'");
            if conversation.serve_until(is_asked)?.is_some() {
                let answer = [
                    scripted::row_description(),
                    scripted::row(b"select 'lie'"),
                    scripted::complete("SELECT 1"),
                    frontend::message(b'Z', b"I"),
                    bytes.clone(),
                ];
                conversation.send(&answer.concat())?;
                conversation.serve()?;
            }
            Ok(())
        })?;
        let options = PoolOptions::default()
            .pool_size(1)
            .setting("server_login_retry = 0");
        let mut target = support::start(server.port(), &options)?;
        let mut raw = Raw::connect(target.port(), "postgres")?;
        ensure!(raw.query_one("select 'lie'")? == "select 'lie'");
        raw.send(&frontend::query("select 'mine'")).ok();
        match raw.read_until_ready() {
            Ok(answer) => {
                let row = answer.iter().find(|message| message.tag == b'D');
                let is_mine = row.is_some_and(|row| row.body.ends_with(b"select 'mine'"));
                let code = support::codes(&answer).concat();
                let is_refusal = ["08006", "08007"].contains(&&*code) && answer.len() == 1;
                ensure!(
                    is_mine || is_refusal,
                    "lie {number}: {}",
                    support::describe(&answer)
                );
            }
            Err(error) => bail!("lie {number}: {error:#}"),
        }
        support::check_serves(&mut target).with_context(|| format!("lie {number}"))?;
    }
    Ok(())
}

/// Messages that fit no request, in the middle of an answer: the client gets one FATAL and the connection ends; the
/// server is not used again.
#[test]
fn sec_25_impossible_answers_end_the_session_with_one_error() -> Result<()> {
    let lies = [
        frontend::message(b'y', b"unknown"),
        frontend::message(b'R', &[0; 4]),
        frontend::message(b'K', &[0; 8]),
        frontend::message(b'Z', b""),
        frontend::message(b'Z', b"?"),
        frontend::message(b'1', b""),
        frontend::message(b'3', b""),
        frontend::message(b'v', &[0; 8]),
        b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
    ];
    for (number, bytes) in lies.into_iter().enumerate() {
        let server = Scripted::start(move |conversation| {
            conversation.login()?;
            let asked =
                conversation.serve_until(|message| message.body.starts_with(b"select 'lie'"))?;
            if asked.is_some() {
                conversation.send(&bytes)?;
                conversation.send(&scripted::row(b"after the lie"))?;
                conversation.read_to_close()?;
            }
            Ok(())
        })?;
        let options = PoolOptions::default().setting("server_login_retry = 0");
        let mut target = support::start(server.port(), &options)?;
        let mut raw = Raw::tcp(target.port(), Duration::from_secs(5))?;
        raw.ask(&frontend::startup(
            frontend::VERSION_3_0,
            &[("user", "postgres"), ("database", "postgres")],
        ))?;
        raw.send(&frontend::query("select 'lie'"))?;
        support::refused(&mut raw, "08007").with_context(|| format!("lie {number}"))?;
        support::check_serves(&mut target).with_context(|| format!("after lie {number}"))?;
    }
    Ok(())
}

const SASL: &[u8] = b"\0\0\0\x0aSCRAM-SHA-256\0\0";

/// Reads Weir's first SCRAM message and returns its nonce.
fn scram_first(conversation: &mut Conversation) -> Result<String> {
    conversation.startup()?;
    conversation.send(&frontend::message(b'R', SASL))?;
    let first = conversation.read_message()?;
    let text = String::from_utf8_lossy(&first.body).into_owned();
    let nonce = text.split("r=").nth(1).context("no nonce")?;
    Ok(nonce.to_owned())
}

#[test]
fn sec_22_a_hostile_servers_first_scram_message_harms_nothing() -> Result<()> {
    let salt = "c2FsdHNhbHRzYWx0c2Fs";
    let variants: Vec<fn(&str, &str) -> String> = vec![
        |_, _| String::new(),
        |_, salt| format!("s={salt},i=4096"),
        |_, salt| format!("r=,s={salt},i=4096"),
        |_, salt| format!("r=other,s={salt},i=4096"),
        |nonce, salt| format!("r={nonce},s={salt},i=4096"),
        |nonce, salt| format!("r={nonce}x,s={salt}"),
        |nonce, _| format!("r={nonce}x,i=4096"),
        |nonce, _| format!("r={nonce}x,s=!!!,i=4096"),
        |nonce, _| format!("r={nonce}x,s=,i=4096"),
        |nonce, salt| format!("r={nonce}x,s={salt},i=0"),
        |nonce, salt| format!("r={nonce}x,s={salt},i=-1"),
        |nonce, salt| format!("r={nonce}x,s={salt},i="),
        |nonce, salt| format!("r={nonce}x,s={salt},i=2147483647"),
        |nonce, salt| format!("r={nonce}x,s={salt},i=2147483648"),
        |nonce, salt| format!("r={nonce}x,s={salt},i=99999999999999999999"),
        |nonce, salt| format!("i=4096,s={salt},r={nonce}x"),
        |nonce, salt| format!("r={nonce}x,r={nonce}x,s={salt},i=4096"),
        |nonce, salt| format!("m=ext,r={nonce}x,s={salt},i=4096"),
        |nonce, salt| format!("r={nonce}{},s={salt},i=4096", "x".repeat(1 << 20)),
        |nonce, salt| format!("r={nonce}{},s={salt},i=0", "x".repeat(29_000)),
        |nonce, _| format!("r={nonce}x,s={},i=0", "A".repeat(28_000)),
        |_, _| "e=other-error".to_owned(),
    ];
    let count = variants.len();
    let honest = count;
    let current = Arc::new(AtomicUsize::new(0));
    let chosen = Arc::clone(&current);
    let server = Scripted::start(move |conversation| {
        let variant = chosen.load(Ordering::SeqCst);
        let Some(variant) = variants.get(variant) else {
            conversation.login()?;
            return conversation.serve();
        };
        let nonce = scram_first(conversation)?;
        let text = variant(&nonce, salt);
        let first = frontend::message(b'R', &[b"\0\0\0\x0b", text.as_bytes()].concat());
        // A pooler may close before it has received everything.
        if conversation.send(&first).is_err() {
            return Ok(());
        }
        match conversation.read_message() {
            Ok(message) => bail!("went on with '{}'", message.tag as char),
            Err(_) => Ok(()),
        }
    })?;
    scram_target(&server, &current, count, honest)?;
    let faults = server.faults();
    ensure!(faults.is_empty(), "{faults:?}");
    Ok(())
}

#[test]
fn sec_22_a_hostile_servers_last_scram_message_harms_nothing() -> Result<()> {
    let finals: Vec<Vec<u8>> = vec![
        frontend::message(b'R', b"\0\0\0\x0c"),
        frontend::message(b'R', b"\0\0\0\x0cv="),
        frontend::message(b'R', b"\0\0\0\x0cv=!!!"),
        frontend::message(
            b'R',
            b"\0\0\0\x0cv=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
        ),
        frontend::message(b'R', b"\0\0\0\x0ce=invalid-proof"),
        frontend::message(b'R', &[&b"\0\0\0\x0cv="[..], &[b'A'; 28_000]].concat()),
        // The server's own proof is missing.
        [
            scripted::authentication_ok(),
            scripted::parameters(),
            scripted::key_data(0),
        ]
        .concat(),
        frontend::message(b'R', SASL),
        frontend::message(b'R', b"\0\0\0\x03"),
        frontend::message(b'R', b"\0\0\0\x05salt"),
    ];
    let count = finals.len();
    let current = Arc::new(AtomicUsize::new(0));
    let chosen = Arc::clone(&current);
    let server = Scripted::start(move |conversation| {
        let Some(last) = finals.get(chosen.load(Ordering::SeqCst)) else {
            conversation.login()?;
            return conversation.serve();
        };
        let nonce = scram_first(conversation)?;
        let first = format!("r={nonce}x,s=c2FsdHNhbHRzYWx0c2Fs,i=1");
        conversation.send(&frontend::message(
            b'R',
            &[b"\0\0\0\x0b", first.as_bytes()].concat(),
        ))?;
        conversation.read_message()?;
        conversation.send(last)?;
        match conversation.read_message() {
            Ok(message) => bail!(
                "went on with '{}' {}",
                message.tag as char,
                message.body.escape_ascii()
            ),
            Err(_) => Ok(()),
        }
    })?;
    scram_target(&server, &current, count, count)?;
    let faults = server.faults();
    ensure!(faults.is_empty(), "{faults:?}");
    Ok(())
}

fn scram_target(
    server: &Scripted,
    current: &AtomicUsize,
    count: usize,
    honest: usize,
) -> Result<()> {
    let settings = [
        "server_login_retry = 0",
        "client_login_timeout = 4",
        "server_connect_timeout = 2",
    ];
    let guard = support::start_with_users(
        server.port(),
        "trust",
        "\"postgres\" \"secret\"\n",
        &settings,
    )?;
    let mut target = guard.target;
    let meter = Meter::begin(&target)?;
    for variant in 0..count {
        current.store(variant, Ordering::SeqCst);
        login_fails(target.port()).with_context(|| format!("variant {variant}"))?;
    }
    current.store(honest, Ordering::SeqCst);
    meter.check_growth(4 * MIB)?;
    // Two billion rounds of PBKDF2 would take minutes.
    meter.check_cpu(Duration::from_secs(3))?;
    support::check_serves(&mut target)
}
