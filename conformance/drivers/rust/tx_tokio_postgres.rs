//! tokio-postgres: prepares every query under a name and closes it when its statement is dropped. Requests are
//! pipelined when several futures wait.

use std::collections::HashSet;
use std::future::poll_fn;
use std::pin::pin;

use anyhow::Context;
use anyhow::Result;
use anyhow::ensure;
use futures_util::SinkExt;
use futures_util::TryStreamExt;
use futures_util::future::join_all;
use futures_util::future::try_join_all;
use tokio::sync::mpsc;
use tokio_postgres::AsyncMessage;
use tokio_postgres::Client as Conn;
use tokio_postgres::Config;
use tokio_postgres::Error;
use tokio_postgres::GenericClient;
use tokio_postgres::IsolationLevel;
use tokio_postgres::NoTls;
use tokio_postgres::SimpleQueryMessage;

use crate::harness::CLIENTS;
use crate::harness::Client;
use crate::harness::Runs;
use crate::harness::reachable_servers;
use crate::harness::variable;
use crate::scenarios;

pub async fn run(runs: &mut Runs) {
    scenarios!(
        runs,
        moves,
        statements,
        sent_ahead,
        transactions,
        portals,
        settings,
        types,
        copies,
        notifications,
        temporary_and_locks,
        cancels,
    );
}

fn config() -> Result<Config> {
    let mut config = Config::new();
    config
        .host(variable("PGHOST"))
        .port(variable("PGPORT").parse()?);
    config
        .user(variable("PGUSER"))
        .dbname(variable("PGDATABASE"));
    Ok(config)
}

/// Connects; also returns the notifications that the connection receives.
async fn connect_with(config: &Config) -> Result<(Conn, mpsc::Receiver<String>)> {
    let (conn, mut connection) = config.connect(NoTls).await?;
    let (sender, receiver) = mpsc::channel(100);
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(told) = message {
                let text = format!("{} {}", told.channel(), told.payload());
                if sender.send(text).await.is_err() {
                    return;
                }
            }
        }
    });
    Ok((conn, receiver))
}

async fn connect() -> Result<Conn> {
    Ok(connect_with(&config()?).await?.0)
}

async fn text(conn: &impl GenericClient, sql: &str) -> Result<String> {
    Ok(conn.query_one(sql, &[]).await?.get(0))
}

fn state<T>(outcome: Result<T, Error>) -> Option<String> {
    outcome.err()?.code().map(|code| code.code().to_owned())
}

async fn moves(client: &mut Client) -> Result<()> {
    let conn = connect().await?;
    let mut servers = HashSet::new();
    while servers.len() < reachable_servers() {
        servers.insert(
            conn.query_one("select pg_backend_pid()", &[])
                .await?
                .get::<_, i32>(0),
        );
    }
    client.remark(&format!("servers {}", servers.len()));
    Ok(())
}

async fn statements(client: &mut Client) -> Result<()> {
    let conn = connect().await?;
    let own = conn
        .prepare(&format!("select $1::int + {}", client.number))
        .await?;
    for number in 0..12_i32 {
        client.say(
            "own",
            conn.query_one(&own, &[&number]).await?.get::<_, i32>(0),
        );
        let common = conn
            .query_one("select $1::int * 2, $2::text", &[&number, &"t"])
            .await?;
        client.say(
            "common",
            (common.get::<_, i32>(0), common.get::<_, String>(1)),
        );
        let typed = [(
            &number as &(dyn tokio_postgres::types::ToSql + Sync),
            tokio_postgres::types::Type::INT4,
        )];
        client.say(
            "typed",
            conn.query_typed("select $1 + 1", &typed).await?[0].get::<_, i32>(0),
        );
    }
    client.say("bad", state(conn.prepare("select no_such_column").await));
    client.say(
        "error",
        state(conn.query("select 1 / $1::int", &[&0_i32]).await),
    );
    client.say(
        "after",
        conn.query_one("select 1 / $1::int", &[&1_i32])
            .await?
            .get::<_, i32>(0),
    );
    conn.batch_execute("prepare mine as select 7; deallocate mine")
        .await?;
    for _ in 0..3 {
        let told = conn
            .simple_query("select 1 as a; select 'two' as b")
            .await?;
        let rows = told
            .iter()
            .filter(|one| matches!(one, SimpleQueryMessage::Row(_)));
        client.say("simple", rows.count());
    }
    Ok(())
}

/// Pipelines many requests on one connection, of which one fails.
async fn sent_ahead(client: &mut Client) -> Result<()> {
    let conn = connect().await?;
    let number = i32::try_from(client.number)?;
    for round in 0..4_i32 {
        let values: Vec<i32> = (0..20).map(|i| i + round + number).collect();
        let rows = try_join_all(values.iter().map(|value| async {
            Ok::<i32, Error>(conn.query_one("select $1::int * 3", &[value]).await?.get(0))
        }));
        client.say("sent ahead", rows.await?);
        let mixed = join_all([1, 0, 2].map(|by: i32| {
            let conn = &conn;
            async move { conn.query("select 4 / $1::int", &[&by]).await.is_ok() }
        }));
        client.say("mixed", mixed.await);
    }
    Ok(())
}

async fn transactions(client: &mut Client) -> Result<()> {
    let mut conn = connect().await?;
    let table = format!("tx_{}", client.number);
    conn.batch_execute(&format!("create table {table} (i int)"))
        .await?;
    for level in [
        IsolationLevel::Serializable,
        IsolationLevel::RepeatableRead,
        IsolationLevel::ReadCommitted,
    ] {
        let transaction = conn
            .build_transaction()
            .isolation_level(level)
            .read_only(true)
            .start()
            .await?;
        let shown = (
            text(&transaction, "show transaction_isolation").await?,
            text(&transaction, "show transaction_read_only").await?,
        );
        client.say("level", shown);
        transaction.commit().await?;
    }
    for keep in [true, false] {
        let mut transaction = conn.transaction().await?;
        transaction
            .execute(&format!("insert into {table} values ($1)"), &[&1_i32])
            .await?;
        let inner = transaction.savepoint("nested").await?;
        inner
            .batch_execute("set application_name to 'undone'")
            .await?;
        client.say(
            "inner",
            state(inner.query("select 1 / $1::int", &[&0_i32]).await),
        );
        inner.rollback().await?;
        client.say("name", text(&transaction, "show application_name").await?);
        if keep {
            transaction.commit().await?;
        } else {
            // Dropped: the driver rolls back by itself.
            drop(transaction);
        }
        let count: i64 = conn
            .query_one(&format!("select count(*) from {table}"), &[])
            .await?
            .get(0);
        client.say("count", count);
    }
    conn.batch_execute(&format!("drop table {table}")).await?;
    Ok(())
}

/// Binds portals in a transaction and reads them in pieces, by turns.
async fn portals(client: &mut Client) -> Result<()> {
    let mut conn = connect().await?;
    let transaction = conn.transaction().await?;
    let first = transaction
        .bind("select generate_series(1, 20)", &[])
        .await?;
    let second = transaction
        .bind("select generate_series(1, $1::int)", &[&30_i32])
        .await?;
    for _ in 0..4 {
        for portal in [&first, &second] {
            let rows = transaction.query_portal(portal, 3).await?;
            client.say(
                "portal",
                rows.iter()
                    .map(|row| row.get::<_, i32>(0))
                    .collect::<Vec<i32>>(),
            );
        }
    }
    drop((first, second));
    transaction.commit().await?;
    let rows = conn
        .query_raw("select generate_series(1, $1::int)", [500_i32])
        .await?;
    let sum = rows
        .try_fold(0, |sum, row| async move { Ok(sum + row.get::<_, i32>(0)) })
        .await?;
    client.say("streamed", sum);
    Ok(())
}

async fn settings(client: &mut Client) -> Result<()> {
    let mut config = config()?;
    config.application_name(format!("start{}", client.number));
    config.options(format!(
        "-c search_path=own{} -c statement_timeout={}",
        client.number,
        20_000 + client.number
    ));
    let (mut conn, _) = connect_with(&config).await?;
    let zone = ["UTC", "Asia/Tokyo"][client.number % 2];
    let steps = [
        "select 1".to_owned(),
        format!(
            "set timezone to '{zone}'; set work_mem to '{}kB'",
            5000 + client.number
        ),
        format!(
            "select set_config('app.own', 'own {}', false)",
            client.number
        ),
        "begin; set application_name to 'undone'; rollback".to_owned(),
        "reset statement_timeout".to_owned(),
        "reset all".to_owned(),
        "discard all".to_owned(),
    ];
    for step in steps {
        conn.batch_execute(&step).await?;
        for _ in 0..2 {
            let mut shown = Vec::new();
            for name in [
                "application_name",
                "search_path",
                "statement_timeout",
                "timezone",
                "work_mem",
            ] {
                shown.push(text(&conn, &format!("show {name}")).await?);
            }
            let own = conn
                .query_one("select current_setting('app.own', true)", &[])
                .await?;
            client.say(
                &step,
                (shown, own.get::<_, Option<String>>(0).unwrap_or_default()),
            );
        }
        let transaction = conn.transaction().await?;
        client.say("inside", text(&transaction, "show timezone").await?);
        transaction.commit().await?;
    }
    Ok(())
}

/// Lets the driver query the server for unknown types, with statements that it keeps.
async fn types(client: &mut Client) -> Result<()> {
    let conn = connect().await?;
    let schema = format!("types_{}", client.number);
    conn.batch_execute(&format!(
        "create schema {schema}; create type {schema}.mood as enum ('sad', 'glad'); create domain {schema}.small as int; \
         create type {schema}.pair as (a int, m {schema}.mood)"
    ))
    .await?;
    for number in 0..3_i32 {
        let statement = conn
            .prepare(&format!("select $1::int::{schema}.small as s, 'sad'::{schema}.mood as m, (1, 'glad')::{schema}.pair as p, array['sad']::{schema}.mood[]"))
            .await?;
        let row = conn.query_one(&statement, &[&number]).await?;
        let names: Vec<&str> = row
            .columns()
            .iter()
            .map(|column| column.type_().name())
            .collect();
        client.say("types", names);
    }
    conn.batch_execute(&format!("drop schema {schema} cascade"))
        .await?;
    Ok(())
}

async fn copies(client: &mut Client) -> Result<()> {
    let conn = connect().await?;
    let table = format!("copy_{}", client.number);
    conn.batch_execute(&format!("create table {table} (i int, w text)"))
        .await?;
    for lines in [&b"1\ta\n2\tb\n"[..], b"x\ty\n"] {
        let mut sink = pin!(conn.copy_in(&format!("copy {table} from stdin")).await?);
        sink.send(lines).await?;
        client.say(
            "copied in",
            sink.finish()
                .await
                .map_err(|error| state(Err::<(), Error>(error))),
        );
    }
    let pieces: Vec<_> = conn
        .copy_out(&format!("copy {table} to stdout"))
        .await?
        .try_collect()
        .await?;
    client.say("copied out", pieces.concat().len());
    conn.batch_execute(&format!("drop table {table}")).await?;
    Ok(())
}

async fn notifications(client: &mut Client) -> Result<()> {
    let (conn, mut told) = connect_with(&config()?).await?;
    let other = connect().await?;
    conn.batch_execute(&format!("listen of_{}; listen for_all", client.number))
        .await?;
    client.meet().await?;
    let next = format!("of_{}", (client.number + 1) % CLIENTS);
    for number in ["0", "1", "2"] {
        other
            .execute("select pg_notify($1, $2)", &[&next, &number])
            .await?;
    }
    for _ in 0..3 {
        client.say("told", told.recv().await.context("closed")?);
    }
    client.meet().await?;
    if client.number == 0 {
        other.batch_execute("notify for_all, 'hello'").await?;
    }
    client.say("all", told.recv().await.context("closed")?);
    client.meet().await?;
    conn.batch_execute("unlisten *").await?;
    let count: i64 = conn
        .query_one("select count(*) from pg_listening_channels()", &[])
        .await?
        .get(0);
    client.say("channels", count);
    Ok(())
}

async fn temporary_and_locks(client: &mut Client) -> Result<()> {
    let conn = connect().await?;
    let number = i32::try_from(client.number)?;
    conn.batch_execute("create temporary table mine (i int)")
        .await?;
    for more in 0..3 {
        conn.execute("insert into mine values ($1)", &[&(number * 10 + more)])
            .await?;
        let rows = conn.query("select i from mine order by i", &[]).await?;
        client.say(
            "rows",
            rows.iter()
                .map(|row| row.get::<_, i32>(0))
                .collect::<Vec<i32>>(),
        );
    }
    conn.batch_execute("drop table mine").await?;
    conn.query("select pg_advisory_lock($1::int8)", &[&i64::from(number)])
        .await?;
    for _ in 0..3 {
        let held =
            "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()";
        client.say("held", conn.query_one(held, &[]).await?.get::<_, i64>(0));
    }
    let unlocked = conn
        .query_one("select pg_advisory_unlock($1::int8)", &[&i64::from(number)])
        .await?;
    client.say("unlocked", unlocked.get::<_, bool>(0));
    Ok(())
}

async fn cancels(client: &mut Client) -> Result<()> {
    let conn = connect().await?;
    let token = conn.cancel_token();
    let mut sleeping = pin!(conn.batch_execute("select pg_sleep(20)"));
    let early = tokio::time::timeout(std::time::Duration::from_millis(150), &mut sleeping).await;
    ensure!(early.is_err(), "it did not sleep");
    token.cancel_query(NoTls).await?;
    client.say("cancelled", state(sleeping.await));
    client.say("after", text(&conn, "select 'here'").await?);
    Ok(())
}
