//! A client that exceeds a time limit gets an error that names it, and the server is clean
//! afterwards.

use std::thread;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::anyhow;
use anyhow::ensure;
use weir_conformance::Raw;
use weir_conformance::SOON;
use weir_conformance::Weir;
use weir_conformance::clock;
use weir_conformance::frontend;

use crate::support::PATIENCE;
use crate::support::Server;
use crate::support::clients;
use crate::support::ended;
use crate::support::took;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn query_wait_timeout_ends_the_one_who_waits() -> Result<()> {
    let server = Server::new("op_wait")?;
    let config = server.config().set("default_pool_size", "1");
    let config = config
        .set("query_wait_timeout", "2")
        .set("query_wait_notify", "1");
    let mut weir = Weir::start(&config)?;
    let mut clients = clients(&weir, "op_wait", 3)?;
    let (holder, waiters) = clients.split_first_mut().context("three")?;
    holder.query("begin")?;
    let begun = clock::now();
    for waiter in &mut *waiters {
        waiter.send(&frontend::query("select 1"))?;
    }
    for waiter in waiters {
        let notice = waiter.read_message()?;
        ensure!(notice.tag == b'N', "{notice:?}");
        let text = notice.field(b'M').unwrap_or_default();
        ensure!(text.contains("client being queued"), "{text}");
        took(begun, SECOND)?;
        ended(waiter, "53300 query_wait_timeout")?;
        took(begun, 2 * SECOND)?;
    }
    ensure!(holder.query_one("select 1")? == "1");
    holder.query("commit")?;
    weir.check_healthy()
}

/// Each user has one limit and exceeds it, all at the same time.
fn break_limits(weir: &Weir, database: &str) -> Result<()> {
    type Breaks = fn(&mut Raw) -> Result<()>;
    let cases: [(&str, &str, Breaks); 4] = [
        ("op_slow", "57014 query timeout", |raw| {
            Ok(raw.send(&frontend::query("select pg_sleep(30)"))?)
        }),
        ("op_sleepy", "25P03 idle transaction timeout", |raw| {
            raw.query("begin; insert into t values (1)").map(drop)
        }),
        ("op_long", "25P04 transaction timeout", |raw| {
            raw.query("begin; insert into t values (2)")?;
            raw.query("select pg_sleep(0.5)")?;
            Ok(raw.send(&frontend::query("select pg_sleep(30)"))?)
        }),
        ("op_idle", "57P05 client_idle_timeout", |raw| {
            raw.query("select 1").map(drop)
        }),
    ];
    thread::scope(|scope| {
        let running: Vec<_> = cases
            .iter()
            .map(|(user, wanted, breaks)| {
                scope.spawn(move || -> Result<()> {
                    let mut raw = weir.connect_as(user, database)?;
                    let begun = clock::now();
                    breaks(&mut raw)?;
                    ended(&mut raw, wanted).context(*user)?;
                    took(begun, SECOND).context(*user)
                })
            })
            .collect();
        running
            .into_iter()
            .try_for_each(|case| case.join().map_err(|_| anyhow!("panicked"))?)
    })
}

#[test]
fn time_limits_of_users_end_client_and_transaction() -> Result<()> {
    let mut server = Server::new("op_limits")?;
    let users = ["op_slow", "op_sleepy", "op_long", "op_idle"];
    server.roles(&users)?;
    let mut inside = Raw::connect(server.postgres.port(), "op_limits")?;
    inside.query("create table t (n int); grant all on t to public")?;
    let list: String = users.map(|user| format!("\"{user}\" \"\"\n")).concat();
    let config = server.config().userlist(&list);
    let config = config
        .user("op_slow = query_timeout=1")
        .user("op_sleepy = idle_transaction_timeout=1")
        .user("op_long = transaction_timeout=1")
        .user("op_idle = client_idle_timeout=1");
    let mut weir = Weir::start(&config)?;
    break_limits(&weir, "op_limits")?;
    // No query runs, no transaction is open, and none was committed.
    weir_conformance::wait_until("an end of all work", PATIENCE, || {
        let busy = inside.query_one(
            "select count(*) from pg_stat_activity where datname = 'op_limits' and state <> 'idle' \
             and pid <> pg_backend_pid()",
        )?;
        Ok(busy == "0")
    })?;
    ensure!(inside.query_one("select count(*) from t")? == "0");
    for user in users {
        let mut raw = weir.connect_as(user, "op_limits")?;
        ensure!(raw.query_one("select 1")? == "1");
    }
    weir.check_healthy()
}

#[test]
fn global_time_limits_work_too() -> Result<()> {
    for (key, sql, wanted) in [
        (
            "query_timeout",
            "select pg_sleep(30)",
            "57014 query timeout",
        ),
        (
            "transaction_timeout",
            "begin; select pg_sleep(30)",
            "25P04 transaction timeout",
        ),
    ] {
        let server = Server::new("op_global_limits")?;
        let weir = Weir::start(&server.config().set(key, "1"))?;
        let mut raw = weir.connect("op_global_limits")?;
        let begun = clock::now();
        raw.send(&frontend::query(sql))?;
        ended(&mut raw, wanted)?;
        took(begun, SECOND)?;
    }
    Ok(())
}

#[test]
fn client_login_timeout_ends_who_does_not_finish() -> Result<()> {
    let server = Server::new("op_login")?;
    let config = server.config().set("client_login_timeout", "1");
    let mut weir = Weir::start(&config.set("auth_type", "plain"))?;
    let startup = frontend::startup(
        frontend::VERSION_3_0,
        &[("user", "postgres"), ("database", "op_login")],
    );
    let half = startup.get(..10).context("a startup packet is longer")?;
    let begun = clock::now();
    let mut logins = Vec::new();
    for bytes in [&[][..], half, &startup] {
        let mut raw = Raw::tcp(weir.port(), PATIENCE)?;
        raw.send(bytes)?;
        logins.push(raw);
    }
    let asked = logins.last_mut().context("three")?.read_message()?;
    ensure!(asked.tag == b'R', "{asked:?}");
    for raw in &mut logins {
        ended(raw, "57014 client_login_timeout")?;
        took(begun, SECOND)?;
    }
    weir.check_healthy()
}

#[test]
fn the_time_of_a_login_includes_the_wait_for_a_server() -> Result<()> {
    let server = Server::new("op_login_wait")?;
    let config = server.config().set("client_login_timeout", "1");
    let weir = Weir::start(&config.set("default_pool_size", "1"))?;
    let mut holder = weir.connect("op_login_wait")?;
    holder.query("begin")?;
    // New parameter values, so a server must be queried.
    let mut raw = Raw::tcp(weir.port(), PATIENCE)?;
    let begun = clock::now();
    raw.send(&frontend::startup(
        frontend::VERSION_3_0,
        &[
            ("user", "postgres"),
            ("database", "op_login_wait"),
            ("TimeZone", "Asia/Tokyo"),
        ],
    ))?;
    ended(&mut raw, "57P03 client_login_timeout (server down)")?;
    took(begun, SECOND)?;
    holder.query("commit").map(drop)
}

#[test]
fn query_timeout_counts_for_the_extended_protocol() -> Result<()> {
    let server = Server::new("op_extended_timeout")?;
    let config = server.config().set("query_timeout", "1");
    let mut weir = Weir::start(&config.set("default_pool_size", "1"))?;
    let mut raw = weir.connect("op_extended_timeout")?;
    // Three queries that are each short do not make a long one.
    for _ in 0..3 {
        raw.query("select pg_sleep(0.5)")?;
    }
    let begun = clock::now();
    raw.send(
        &[
            frontend::parse("", "select pg_sleep(30)", &[]),
            frontend::bind("", "", &[]),
            frontend::execute("", 0),
            frontend::sync(),
        ]
        .concat(),
    )?;
    ended(&mut raw, "57014 query timeout")?;
    took(begun, SECOND)?;
    // The query was cancelled, so the server is free again at once.
    let mut raw = weir.connect("op_extended_timeout")?;
    ensure!(raw.query_one("select 1")? == "1");
    ensure!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    weir.check_healthy()
}
