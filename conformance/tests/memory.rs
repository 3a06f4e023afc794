//! Memory stays bounded: a 1 GB result, a 1 GB COPY IN, and 1,000 clients that stop reading.

use std::io::Read;
use std::io::Write;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use socket2::Domain;
use socket2::SockRef;
use socket2::Socket;
use socket2::Type;
use weir_conformance::Kind;
use weir_conformance::PoolOptions;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::Target;
use weir_conformance::frontend;
use weir_conformance::process;
use weir_conformance::tools;
use weir_conformance::wait_until;

const MIB: u64 = 1024 * 1024;
/// Rows of 1 KiB that make 1 GiB.
const ROWS: u64 = 1024 * 1024;
/// Memory limit of the pooler for one huge transfer.
const PEAK_MAX_STREAM: u64 = 64 * MIB;
/// Memory limit of the pooler for all stalled clients.
const PEAK_MAX_STALLED: u64 = 256 * MIB;
/// Clients that stop reading.
const STALLED: usize = 1000;
/// Number of clients of a burst.
const BURST_CLIENTS: usize = 50;
const BURST_STATEMENTS: usize = 1000;
/// Minimum of memory for such a burst: its texts.
const BURST_MIN: u64 = 48 * MIB;
/// Memory that may remain afterwards; with glibc's allocator nearly all of it would.
const BURST_REST_MAX: u64 = 24 * MIB;
/// Rows of 8 KiB in each of their results: 2 MiB, 2 GiB in all.
const STALLED_ROWS: u32 = 256;

#[test]
fn gigabyte_result_needs_little_memory() -> Result<()> {
    let rows = format!("select repeat('x', 1013) from generate_series(1, {ROWS})");
    through_the_pooler(|raw| {
        raw.send(&frontend::query(&rows))?;
        let bytes = raw.skim_until_ready()?;
        ensure!(bytes > 1024 * MIB, "only {bytes} bytes came");
        Ok(())
    })
}

#[test]
fn gigabyte_copy_out_needs_little_memory() -> Result<()> {
    let copy = format!("copy (select repeat('x', 1023) from generate_series(1, {ROWS})) to stdout");
    through_the_pooler(|raw| {
        raw.send(&frontend::query(&copy))?;
        let bytes = raw.skim_until_ready()?;
        ensure!(bytes > 1024 * MIB, "only {bytes} bytes came");
        Ok(())
    })
}

#[test]
fn one_value_of_200_megabytes_needs_little_memory() -> Result<()> {
    through_the_pooler(|raw| {
        raw.send(&frontend::query("select repeat('x', 200000000)"))?;
        let bytes = raw.skim_until_ready()?;
        ensure!(bytes > 200_000_000, "only {bytes} bytes came");
        let value = vec![b'y'; 100_000_000];
        let statement = [
            frontend::parse("", "select length($1::text)", &[]),
            frontend::bind("", "", &[Some(&value)]),
            frontend::execute("", 0),
            frontend::sync(),
        ];
        let answer = raw.ask(&statement.concat())?;
        let row = answer
            .iter()
            .find(|message| message.tag == b'D')
            .context("no row")?
            .row()?;
        ensure!(row == [Some("100000000".to_owned())], "{row:?}");
        Ok(())
    })
}

#[test]
fn gigabyte_copy_in_needs_little_memory() -> Result<()> {
    let line = format!("{}\n", "x".repeat(1023));
    // 64 lines per message and one message per write, as libpq does with a large file.
    let message = frontend::copy_data(line.repeat(64).as_bytes());
    through_the_pooler(|raw| {
        raw.query("create unlogged table sink (line text)")?;
        // Every line is parsed and none is stored.
        raw.send(&frontend::query(
            "copy sink from stdin where length(line) <> 1023",
        ))?;
        for _ in 0..ROWS / 64 {
            raw.send(&message)?;
        }
        let answer = raw.ask(&frontend::copy_done())?;
        let done = answer
            .iter()
            .find(|message| message.tag == b'C')
            .context("no completion")?;
        ensure!(done.body == b"COPY 0\0", "{}", done.body.escape_ascii());
        Ok(())
    })
}

/// A thousand results of 2 MiB, each read for a few rows and then left alone.
#[test]
fn clients_that_stop_reading_need_little_memory() -> Result<()> {
    let _turn = one_at_a_time();
    tools::require_open_files(8000)?;
    let sent = Arc::new(AtomicU64::new(0));
    let server = fake_server(Arc::clone(&sent))?;
    let options = PoolOptions::default()
        .pool_size(1000)
        .setting("server_tls_sslmode = disable");
    let mut target = Target::start_kind(Kind::from_env()?, server, &options)?;
    let mut stalled = Vec::new();
    for number in 0..STALLED {
        let raw = stall(target.port()).with_context(|| format!("client {number}"))?;
        stalled.push(raw);
    }
    wait_still(&sent)?;
    let all = u64::try_from(STALLED)? * u64::from(STALLED_ROWS) * 8192;
    let taken = sent.load(Ordering::Relaxed);
    ensure!(taken < all, "the servers were never held back");
    target.check_healthy()?;
    if target.kind() != Kind::Direct {
        let peak = target.rss_peak()?;
        ensure!(peak < PEAK_MAX_STALLED, "the peak is {} MiB", peak / MIB);
    }
    // Clients that resume reading get every row.
    for raw in stalled.iter_mut().step_by(900) {
        let bytes = raw.skim_until_ready()?;
        ensure!(
            bytes > u64::from(STALLED_ROWS - 2) * 8192,
            "a resumed client got {bytes} bytes"
        );
    }
    Ok(())
}

/// Statements that no client has any more: their memory is returned to the system, although other connections
/// continue.
#[test]
fn a_burst_of_prepared_statements_gives_its_memory_back() -> Result<()> {
    let _turn = one_at_a_time();
    let postgres = Postgres::start(&weir_conformance::postgres::Options::default())?;
    let options = PoolOptions::default()
        .pool_size(4)
        .setting("max_prepared_statements = 100")
        .setting("stats_period = 1");
    let mut target = Target::start(&postgres, &options)?;
    let mut other = Raw::connect(target.port(), "postgres")?;
    if target.kind() != Kind::Weir {
        return Ok(());
    }
    other.query("select 'warm'")?;
    let begin = process::rss(target.pid()?)?;
    let mut clients = Vec::new();
    for client in 0..BURST_CLIENTS {
        let mut raw = Raw::connect(target.port(), "postgres")?;
        for first in (0..BURST_STATEMENTS).step_by(50) {
            let statements = first..first + 50;
            let parses = statements.map(|number| {
                let text = format!("select {client}, {number} -- {}", "x".repeat(1000));
                frontend::parse(&format!("s{number}"), &text, &[])
            });
            let mut batch = parses.collect::<Vec<_>>().concat();
            batch.extend(frontend::sync());
            raw.ask(&batch)?;
        }
        clients.push(raw);
    }
    let burst = process::rss(target.pid()?)?.saturating_sub(begin);
    ensure!(burst > BURST_MIN, "only {} MiB more", burst / MIB);
    clients.into_iter().for_each(Raw::terminate);
    wait_until(
        "the memory of the burst given back",
        Duration::from_secs(120),
        || {
            ensure!(other.query_one("select 'usable'")? == "usable");
            let rest = process::rss(target.pid()?)?.saturating_sub(begin);
            Ok(rest < BURST_REST_MAX)
        },
    )?;
    target.check_healthy()
}

/// Lock for these tests, which move gigabytes through the kernel's socket memory and would slow each other
/// down.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `work` on one connection; the pooler's peak must stay below the bound.
fn through_the_pooler(work: impl FnOnce(&mut Raw) -> Result<()>) -> Result<()> {
    let _turn = one_at_a_time();
    let postgres = Postgres::start(&weir_conformance::postgres::Options::default())?;
    let mut target = Target::start(&postgres, &PoolOptions::default())?;
    let mut raw = Raw::connect(target.port(), "postgres")?;
    work(&mut raw)?;
    ensure!(raw.query_one("select 'usable'")? == "usable");
    target.check_healthy()?;
    if target.kind() == Kind::Direct {
        return Ok(());
    }
    let peak = target.rss_peak()?;
    ensure!(peak < PEAK_MAX_STREAM, "the peak is {} MiB", peak / MIB);
    Ok(())
}

/// Logs in over a socket with a small receive buffer, asks for the result and reads its first two messages.
fn stall(port: u16) -> Result<Raw> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    // Small, so that the kernel's memory for all TCP sockets does not decide the outcome.
    socket.set_recv_buffer_size(64 * 1024)?;
    socket.connect(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into())?;
    let mut raw = Raw::from_stream(socket.into(), Duration::from_secs(60))?;
    let login = [("user", "postgres"), ("database", "postgres")];
    let answer = raw.ask(&frontend::startup(frontend::VERSION_3_0, &login))?;
    ensure!(
        answer.last().is_some_and(|last| last.tag == b'Z'),
        "login refused: {answer:?}"
    );
    raw.send(&frontend::query("select 'stall'"))?;
    raw.read_message()?;
    raw.read_message()?;
    Ok(raw)
}

/// Waits until the servers have not been able to send for two seconds.
fn wait_still(sent: &AtomicU64) -> Result<()> {
    let mut last = (0, weir_conformance::clock::now());
    wait_until("a standstill", Duration::from_secs(90), || {
        let now = (sent.load(Ordering::Relaxed), weir_conformance::clock::now());
        if now.0 != last.0 {
            last = now;
        }
        Ok(last.0 > 0 && now.1 - last.1 > Duration::from_secs(2))
    })
}

/// A minimal PostgreSQL server: a thousand real backends would need more memory than some machines have.
fn fake_server(sent: Arc<AtomicU64>) -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let sent = Arc::clone(&sent);
            let thread = thread::Builder::new().stack_size(128 * 1024);
            // The thread ends when the pooler closes.
            let served = thread.spawn(move || drop(serve(stream, &sent)));
            served.expect("a thread with a small stack can be had");
        }
    });
    Ok(port)
}

fn serve(mut stream: TcpStream, sent: &AtomicU64) -> Result<()> {
    stream.set_nodelay(true)?;
    SockRef::from(&stream).set_send_buffer_size(64 * 1024)?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = usize::try_from(u32::from_be_bytes(length))?;
    stream.read_exact(&mut vec![0; length - 4])?;
    let mut hello = frontend::message(b'R', &[0; 4]);
    for pair in [
        "server_version\x0015.0\0",
        "client_encoding\0UTF8\0",
        "standard_conforming_strings\0on\0",
    ] {
        hello.extend(frontend::message(b'S', pair.as_bytes()));
    }
    hello.extend(frontend::message(b'K', &[0, 0, 0, 1, 0, 0, 0, 2]));
    let ready = frontend::message(b'Z', b"I");
    hello.extend(&ready);
    stream.write_all(&hello)?;
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head)?;
        let [tag, length @ ..] = head;
        let mut body = vec![0; usize::try_from(u32::from_be_bytes(length))? - 4];
        stream.read_exact(&mut body)?;
        match tag {
            b'Q' if body.starts_with(b"select 'stall'") => send_rows(&mut stream, sent)?,
            b'Q' => stream.write_all(&frontend::message(b'I', &[]))?,
            b'S' => {}
            _ => continue,
        }
        stream.write_all(&ready)?;
    }
}

fn send_rows(stream: &mut TcpStream, sent: &AtomicU64) -> Result<()> {
    let mut description = b"\0\x01x\0".to_vec();
    description.extend([0; 6]);
    description.extend(25_i32.to_be_bytes());
    description.extend((-1_i16).to_be_bytes());
    description.extend([0; 6]);
    stream.write_all(&frontend::message(b'T', &description))?;
    let mut row = b"\0\x01".to_vec();
    row.extend(8192_i32.to_be_bytes());
    row.extend([b'x'; 8192]);
    let row = frontend::message(b'D', &row);
    for _ in 0..STALLED_ROWS {
        stream.write_all(&row)?;
        sent.fetch_add(row.len().try_into()?, Ordering::Relaxed);
    }
    Ok(stream.write_all(&frontend::message(b'C', b"SELECT 256\0"))?)
}
