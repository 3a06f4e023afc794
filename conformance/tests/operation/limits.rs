//! Limits on clients and servers are exact over any number of workers.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use anyhow::anyhow;
use anyhow::ensure;
use weir_conformance::Config;
use weir_conformance::Postgres;
use weir_conformance::Raw;
use weir_conformance::SOON;
use weir_conformance::Weir;
use weir_conformance::clock;
use weir_conformance::postgres::Options;

use crate::support::Server;
use crate::support::answer;
use crate::support::clients;
use crate::support::on_workers;
use crate::support::refusal;
use crate::support::send_all;
use crate::support::took;

/// Runs many short queries with all clients at once; returns the maximum number of backends seen
/// meanwhile.
fn load(server: &mut Server, mut clients: Vec<Raw>, time: Duration) -> Result<usize> {
    let stop = AtomicBool::new(false);
    let until = clock::now() + time;
    thread::scope(|scope| {
        let running: Vec<_> = clients
            .iter_mut()
            .map(|client| {
                scope.spawn(|| -> Result<()> {
                    while !stop.load(Ordering::Relaxed) {
                        client.query("select pg_sleep(0.002)")?;
                    }
                    Ok(())
                })
            })
            .collect();
        let mut most = 0;
        while clock::now() < until {
            most = most.max(server.count()?);
        }
        stop.store(true, Ordering::Relaxed);
        for client in running {
            client.join().map_err(|_| anyhow!("a client panicked"))??;
        }
        Ok(most)
    })
}

#[test]
fn default_pool_size_is_exact() -> Result<()> {
    on_workers(|workers| {
        let mut server = Server::new("op_pool_size")?;
        let mut weir = Weir::start(
            &server
                .config()
                .workers(workers)
                .set("default_pool_size", "3"),
        )?;
        let clients = clients(&weir, "op_pool_size", 16)?;
        let most = load(&mut server, clients, Duration::from_secs(1))?;
        ensure!(most == 3, "{most} backends");
        ensure!(server.count()? == 3);
        weir.check_healthy()
    })
}

#[test]
fn pool_size_of_a_database_holds_transactions_back() -> Result<()> {
    on_workers(|workers| {
        let mut server = Server::new("op_db_pool_size")?;
        let port = server.postgres.port();
        let config = Config::new().workers(workers).database(&format!(
            "op_db_pool_size = host=127.0.0.1 port={port} pool_size=2"
        ));
        let weir = Weir::start(&config)?;
        let mut clients = clients(&weir, "op_db_pool_size", 8)?;
        send_all(&mut clients, "begin; select 1")?;
        weir.wait_pool("op_db_pool_size", "cl_waiting", 6)?;
        ensure!(weir.pool_number("op_db_pool_size", "sv_active")? == 2);
        server.stays(2, Duration::from_millis(300))?;
        // Each client that got a server releases it, so all are served in the end.
        send_all(&mut clients, "commit")?;
        for client in &mut clients {
            answer(client)?;
            answer(client)?;
        }
        ensure!(server.count()? == 2);
        Ok(())
    })
}

#[test]
fn max_db_connections_holds_over_two_pools_and_evicts_an_idle_server() -> Result<()> {
    on_workers(|workers| {
        let mut server = Server::new("op_max_db")?;
        server.roles(&["op_ann", "op_ben"])?;
        let config = server
            .config()
            .workers(workers)
            .set("max_db_connections", "2");
        let users = "\"postgres\" \"\"\n\"op_ann\" \"\"\n\"op_ben\" \"\"\n";
        let mut weir = Weir::start(&config.userlist(users))?;
        let connect = |user: &str, count: usize| -> Result<Vec<Raw>> {
            (0..count)
                .map(|_| weir.connect_as(user, "op_max_db"))
                .collect()
        };
        let mut anns = connect("op_ann", 6)?;
        send_all(&mut anns[..2], "begin; select 1")?;
        for ann in &mut anns[..2] {
            answer(ann)?;
        }
        ensure!(server.count()? == 2, "{} backends", server.count()?);
        send_all(&mut anns[..2], "commit")?;
        for ann in &mut anns[..2] {
            answer(ann)?;
        }
        // Both servers are idle in Ann's pool; Ben needs one.
        let begun = clock::now();
        let mut bens = connect("op_ben", 6)?;
        ensure!(bens[0].query_one("select current_user")? == "op_ben");
        ensure!(
            begun.elapsed() < SOON,
            "eviction took {:?}",
            begun.elapsed()
        );
        server.wait_count(2)?;
        // Both pools always want the whole limit: both are served, and the limit holds.
        let everybody: Vec<Raw> = anns.into_iter().chain(bens).collect();
        let most = load(&mut server, everybody, Duration::from_secs(1))?;
        // A backend that is closing may still be visible beside its successor.
        ensure!(most <= 4, "{most} backends");
        // One backend is enough: a server may be evicted for a waiter that another server then serves.
        server.wait_at_most(2)?;
        for user in ["op_ann", "op_ben"] {
            let mut last = weir.connect_as(user, "op_max_db")?;
            ensure!(last.query_one("select current_user")? == user);
        }
        weir.check_healthy()
    })
}

#[test]
fn max_db_connections_is_exact_while_all_servers_work() -> Result<()> {
    on_workers(|workers| {
        let mut server = Server::new("op_max_db_busy")?;
        server.roles(&["op_ann", "op_ben"])?;
        let config = server
            .config()
            .workers(workers)
            .set("max_db_connections", "3");
        let users = "\"postgres\" \"\"\n\"op_ann\" \"\"\n\"op_ben\" \"\"\n";
        let weir = Weir::start(&config.userlist(users))?;
        let mut everybody = Vec::new();
        for user in ["op_ann", "op_ben"] {
            let mut first = weir.connect_as(user, "op_max_db_busy")?;
            first.query("select 1")?;
            everybody.push(first);
        }
        for user in ["op_ann", "op_ben", "op_ann", "op_ben", "op_ann", "op_ben"] {
            everybody.push(weir.connect_as(user, "op_max_db_busy")?);
        }
        send_all(&mut everybody, "begin; select 1")?;
        weir.wait_pool("op_max_db_busy", "cl_waiting", 5)?;
        server.stays(3, Duration::from_millis(300))?;
        send_all(&mut everybody, "commit")?;
        for client in &mut everybody {
            answer(client)?;
            answer(client)?;
        }
        Ok(())
    })
}

#[test]
fn max_user_connections_holds_over_two_databases() -> Result<()> {
    on_workers(|workers| {
        let mut first = Server::new("op_max_user_1")?;
        let mut second = Server::new("op_max_user_2")?;
        first.roles(&["op_cat"])?;
        let config = first
            .config()
            .workers(workers)
            .user("op_cat = max_user_connections=2");
        let config = config.userlist("\"postgres\" \"\"\n\"op_cat\" \"\"\n");
        let mut weir = Weir::start(&config)?;
        let mut everybody = Vec::new();
        for database in ["op_max_user_1", "op_max_user_2"] {
            let mut client = weir.connect_as("op_cat", database)?;
            client.query("select 1")?;
            everybody.push(client);
        }
        for _ in 0..3 {
            for database in ["op_max_user_1", "op_max_user_2"] {
                everybody.push(weir.connect_as("op_cat", database)?);
            }
        }
        send_all(&mut everybody, "begin; select 1")?;
        let waiting = || -> Result<i64> {
            Ok(weir.pool_number("op_max_user_1", "cl_waiting")?
                + weir.pool_number("op_max_user_2", "cl_waiting")?)
        };
        weir_conformance::wait_until("six waiting", crate::support::PATIENCE, || {
            Ok(waiting()? == 6)
        })?;
        let both = first.count()? + second.count()?;
        ensure!(both == 2, "{both} backends");
        // The limit does not apply to another user.
        let mut other = weir.connect("op_max_user_1")?;
        ensure!(other.query_one("select 1")? == "1");
        send_all(&mut everybody, "commit")?;
        for client in &mut everybody {
            answer(client)?;
            answer(client)?;
        }
        weir.check_healthy()
    })
}

#[test]
fn min_pool_size_is_kept() -> Result<()> {
    let mut server = Server::new("op_min_pool")?;
    let config = server.config().set("min_pool_size", "3");
    let config = config.set("server_idle_timeout", "1");
    let weir = Weir::start(&config)?;
    let mut clients = clients(&weir, "op_min_pool", 5)?;
    server.wait_count(3)?;
    send_all(&mut clients, "begin; select 1")?;
    for client in &mut clients {
        answer(client)?;
    }
    // Wait for the count, since a surplus backend may just be closing.
    server.wait_count(5)?;
    send_all(&mut clients, "commit")?;
    for client in &mut clients {
        answer(client)?;
    }
    // Idle servers above the limit are closed, the others stay.
    server.wait_count(3)?;
    server.stays(3, Duration::from_millis(1500))?;
    let gone = server.pids()?;
    server.direct.query(&format!(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = '{}'",
        server.database
    ))?;
    weir_conformance::wait_until("three new backends", crate::support::PATIENCE, || {
        let pids = server.pids()?;
        Ok(pids.len() == 3 && pids.iter().all(|pid| !gone.contains(pid)))
    })
}

#[test]
fn the_reserve_is_used_after_reserve_pool_timeout_and_not_before() -> Result<()> {
    on_workers(|workers| {
        let mut server = Server::new("op_reserve")?;
        let config = server
            .config()
            .workers(workers)
            .set("default_pool_size", "1");
        let config = config
            .set("reserve_pool_size", "2")
            .set("reserve_pool_timeout", "1");
        let weir = Weir::start(&config)?;
        let mut clients = clients(&weir, "op_reserve", 5)?;
        clients[0].query("begin")?;
        let begun = clock::now();
        send_all(&mut clients[1..], "begin; select 1")?;
        server.stays(1, Duration::from_millis(700))?;
        weir.wait_pool("op_reserve", "cl_waiting", 2)?;
        took(begun, Duration::from_secs(1))?;
        server.stays(3, Duration::from_millis(500))?;
        send_all(&mut clients, "commit")?;
        answer(&mut clients[0])?;
        for client in &mut clients[1..] {
            answer(client)?;
            answer(client)?;
        }
        Ok(())
    })
}

/// Starts `count` logins at once; returns the accepted clients and the errors of the others.
fn rush(weir: &Weir, user: &str, database: &str, count: usize) -> (Vec<Raw>, Vec<String>) {
    let logins: Vec<Result<Raw>> = thread::scope(|scope| {
        let logins: Vec<_> = (0..count)
            .map(|_| scope.spawn(|| weir.connect_as(user, database)))
            .collect();
        logins
            .into_iter()
            .map(|login| login.join().unwrap_or_else(|_| Err(anyhow!("panicked"))))
            .collect()
    });
    let (inside, outside): (Vec<_>, Vec<_>) = logins.into_iter().partition(Result::is_ok);
    let inside = inside.into_iter().flatten().collect();
    (inside, outside.into_iter().map(refusal).collect())
}

/// Checks that of twice `limit` clients exactly `limit` are accepted, and that a free place is used
/// again.
fn check_client_limit(config: &Config, user: &str, limit: usize, text: &str) -> Result<()> {
    let mut weir = Weir::start(config)?;
    let (mut inside, outside) = rush(&weir, user, "op_clients", limit * 2);
    ensure!(inside.len() == limit, "{text}: {} came in", inside.len());
    for refused in outside {
        ensure!(refused.contains("FATAL 53300"), "{refused}");
        ensure!(refused.contains(text), "{refused}");
    }
    for client in &mut inside {
        ensure!(client.query_one("select 1")? == "1");
    }
    inside.into_iter().for_each(Raw::terminate);
    // Weir needs a moment to notice that they are gone.
    weir_conformance::wait_until("all places free again", crate::support::PATIENCE, || {
        Ok(rush(&weir, user, "op_clients", limit).0.len() == limit)
    })?;
    weir.check_healthy()
}

#[test]
fn client_limits_are_exact() -> Result<()> {
    let mut server = Server::new("op_clients")?;
    server.roles(&["op_dan"])?;
    let users = "\"postgres\" \"\"\n\"op_dan\" \"\"\n";
    let config = server.config().userlist(users);
    for (key, text) in [
        (
            "max_client_conn",
            "no more connections allowed (max_client_conn)",
        ),
        (
            "max_db_client_connections",
            "client connections exceeded (max_db_client_connections)",
        ),
        (
            "max_user_client_connections",
            "client connections exceeded (max_user_client_connections)",
        ),
    ] {
        check_client_limit(&config.clone().set(key, "7"), "op_dan", 7, text)?;
    }
    Ok(())
}

#[test]
fn a_client_limit_of_one_database_or_user_leaves_others_alone() -> Result<()> {
    let mut server = Server::new("op_client_limits")?;
    server.roles(&["op_eve"])?;
    let port = server.postgres.port();
    let config = Config::new()
        .database(&format!(
            "small = host=127.0.0.1 port={port} dbname=op_client_limits max_db_client_connections=2"
        ))
        .database(&format!(
            "large = host=127.0.0.1 port={port} dbname=op_client_limits"
        ))
        .user("op_eve = max_user_client_connections=1")
        .userlist("\"postgres\" \"\"\n\"op_eve\" \"\"\n");
    let weir = Weir::start(&config)?;
    let _small = clients(&weir, "small", 2)?;
    ensure!(refusal(weir.connect("small")).contains("max_db_client_connections"));
    let _eve = weir.connect_as("op_eve", "large")?;
    ensure!(refusal(weir.connect_as("op_eve", "large")).contains("max_user_client_connections"));
    for mut client in clients(&weir, "large", 5)? {
        ensure!(client.query_one("select 1")? == "1");
    }
    Ok(())
}

#[test]
fn a_server_out_of_connections_makes_clients_wait() -> Result<()> {
    let postgres = Postgres::start(&Options {
        max_connections: 6,
        settings: vec!["superuser_reserved_connections = 0".to_owned()],
        ..Options::default()
    })?;
    let config = Config::to(postgres.port()).set("server_login_retry", "1");
    let mut weir = Weir::start(&config)?;
    let mut clients = clients(&weir, "postgres", 20)?;
    for _ in 0..3 {
        send_all(&mut clients, "select pg_sleep(0.02)")?;
        for client in &mut clients {
            answer(client)?;
        }
    }
    ensure!(
        postgres.log().contains("too many clients already"),
        "the suite is wrong: the server had room"
    );
    weir.check_healthy()
}
