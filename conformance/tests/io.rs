//! The driver under a kernel that refuses io_uring, that has little memory for it, or that does what it may and rarely does.

use std::path::Path;
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, ensure};
use weir_conformance::{Config, Postgres, Raw, TempDir, Weir, tools};

/// Starts its arguments with a filter that answers io_uring_setup with EPERM, as Docker's does.
const FILTER: &str = r#"
import ctypes, os, struct, sys
SETUP = 425
def op(code, jt, jf, k):
    return struct.pack("HBBI", code, jt, jf, k)
program = op(0x20, 0, 0, 0) + op(0x15, 0, 1, SETUP) + op(0x06, 0, 0, 0x00050000 | 1) + op(0x06, 0, 0, 0x7FFF0000)
class Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_char_p)]
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0, "no_new_privs"
assert libc.prctl(22, 2, ctypes.byref(Program(len(program) // 8, program)), 0, 0) == 0, "seccomp"
os.execvp(sys.argv[1], sys.argv[1:])
"#;

/// Value of a row of `SHOW STATE`.
fn state(weir: &Weir, key: &str) -> Result<String> {
    let rows = weir.connect("pgbouncer")?.query_named("SHOW STATE")?;
    let row = rows.iter().find(|row| row["key"] == key);
    Ok(row.context(key.to_owned())?["value"].clone())
}

/// Runs statements over several clients, and a large result.
fn works(weir: &Weir) -> Result<()> {
    for _ in 0..3 {
        let mut client = weir.connect("postgres")?;
        ensure!(client.query("SELECT 1")? == [[Some("1".to_owned())]]);
        let long = client.query("SELECT repeat('x', 3000000)")?;
        ensure!(long.first() == Some(&vec![Some("x".repeat(3_000_000))]));
    }
    Ok(())
}

fn starts_over_epoll(config: Config, said: &str) -> Result<()> {
    let postgres = Postgres::shared()?;
    let config = config.database(&format!("* = host=127.0.0.1 port={}", postgres.port()));
    let weir = Weir::start(&config.env("WEIR_IO", "io_uring"))?;
    ensure!(state(&weir, "io_driver")? == "epoll");
    let reason = state(&weir, "io_driver_reason")?;
    ensure!(reason.contains(said), "{reason}");
    let log = weir.log();
    let lines = log.lines().filter(|line| line.contains("io_uring"));
    ensure!(lines.count() == 1, "one line says why:\n{log}");
    works(&weir)
}

#[test]
fn a_filter_of_system_calls_costs_the_ring_and_nothing_else() -> Result<()> {
    tools::require("python3", "python3")?;
    let directory = TempDir::new()?;
    let script = directory.write("filter.py", FILTER)?;
    let script = script.to_string_lossy().into_owned();
    let outer = vec!["python3".to_owned(), script];
    starts_over_epoll(Config::new().under(outer), "seccomp filter")
}

#[test]
fn too_little_locked_memory_costs_the_ring_and_nothing_else() -> Result<()> {
    // Root may lock what it wants, but not without this capability. Linux 5.12 to 6.13 do not count the memory of rings.
    let outer =
        "setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock prlimit --memlock=65536:65536";
    let outer: Vec<_> = outer.split(' ').map(str::to_owned).collect();
    let postgres = Postgres::shared()?;
    let config = Config::to(postgres.port()).under(outer);
    let weir = Weir::start(&config.env("WEIR_IO", "io_uring"))?;
    let (driver, reason) = (
        state(&weir, "io_driver")?,
        state(&weir, "io_driver_reason")?,
    );
    ensure!(
        driver == "io_uring"
            || reason.contains("RLIMIT_MEMLOCK")
            || reason.contains("not permitted"),
        "{reason}"
    );
    works(&weir)
}

/// Rings with few places, short sends, receives that end by themselves, missing buffers and interrupted waits.
#[test]
fn clients_notice_nothing_of_a_ring_in_trouble() -> Result<()> {
    let postgres = Postgres::shared()?;
    for seed in [1, 2, 3] {
        let config = Config::to(postgres.port())
            .env("WEIR_IO", "io_uring")
            .env("WEIR_DEBUG_RING_TROUBLE", &seed.to_string());
        let weir = Weir::start(&config)?;
        let log = weir.log();
        ensure!(log.contains("the rings make trouble"), "{log}");
        thread::scope(|scope| {
            let clients: Vec<_> = (0..12)
                .map(|number| {
                    let weir = &weir;
                    scope.spawn(move || lives(&mut weir.connect("postgres")?, number))
                })
                .collect();
            for client in clients {
                client
                    .join()
                    .expect("a client panics only in a test that has failed")?;
            }
            anyhow::Ok(())
        })?;
    }
    Ok(())
}

/// Asks for results of many sizes, and sends texts of many sizes.
fn lives(client: &mut Raw, number: usize) -> Result<()> {
    for round in 0..40 {
        let size = (number * 7919 + round * 104_729) % 300_000;
        let text = format!(
            "SELECT repeat('{number}-', {size}), length('{}')",
            "y".repeat(size / 3)
        );
        let rows = client.query(&text)?;
        let expected = format!("{number}-").repeat(size);
        let expected = vec![Some(expected), Some((size / 3).to_string())];
        ensure!(rows == [expected], "client {number}, round {round}");
    }
    Ok(())
}

#[test]
fn the_filter_of_this_test_is_what_it_says() -> Result<()> {
    let directory = TempDir::new()?;
    let script = directory.write("filter.py", FILTER)?;
    let output = Command::new("python3")
        .arg(&script)
        .arg("/bin/echo")
        .arg("runs")
        .output()?;
    ensure!(Path::new("/bin/echo").exists());
    ensure!(output.stdout == b"runs\n", "{output:?}");
    Ok(())
}
