//! sqlx: caches prepared statements on each connection, sets parameters at its start, and has a pool of its
//! own.

use std::collections::HashSet;

use anyhow::Context;
use anyhow::Result;
use futures_util::TryStreamExt;
use sqlx::AssertSqlSafe;
use sqlx::Connection;
use sqlx::Executor;
use sqlx::PgConnection;
use sqlx::PgPool;
use sqlx::Row;
use sqlx::postgres::PgConnectOptions;
use sqlx::postgres::PgListener;
use sqlx::postgres::PgPoolOptions;

use crate::harness::CLIENTS;
use crate::harness::Client;
use crate::harness::Runs;
use crate::harness::reachable_servers;
use crate::scenarios;

pub async fn run(runs: &mut Runs) {
    scenarios!(
        runs,
        moves,
        statements,
        transactions,
        settings,
        pools,
        types,
        copies,
        notifications,
        advisory_locks
    );
}

/// Connects with the PG* variables, which sqlx reads.
async fn connect() -> Result<PgConnection> {
    Ok(PgConnection::connect_with(&PgConnectOptions::new()).await?)
}

async fn text(conn: &mut PgConnection, sql: String) -> Result<String> {
    Ok(sqlx::query_scalar(AssertSqlSafe(sql))
        .fetch_one(conn)
        .await?)
}

async fn execute(conn: &mut PgConnection, sql: String) -> Result<()> {
    conn.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await?;
    Ok(())
}

fn state<T>(outcome: Result<T, sqlx::Error>) -> Option<String> {
    Some(outcome.err()?.as_database_error()?.code()?.into_owned())
}

async fn moves(client: &mut Client) -> Result<()> {
    let mut conn = connect().await?;
    let mut servers = HashSet::new();
    while servers.len() < reachable_servers() {
        servers.insert(
            sqlx::query_scalar::<_, i32>("select pg_backend_pid()")
                .fetch_one(&mut conn)
                .await?,
        );
    }
    client.remark(&format!("servers {}", servers.len()));
    Ok(())
}

async fn statements(client: &mut Client) -> Result<()> {
    let options = PgConnectOptions::new().statement_cache_capacity(3);
    for mut conn in [
        connect().await?,
        PgConnection::connect_with(&options).await?,
    ] {
        for number in 0..16_i32 {
            let own = AssertSqlSafe(format!(
                "select $1::int + {}",
                number % 5 * 100 + client.number as i32
            ));
            client.say(
                "own",
                sqlx::query_scalar::<_, i32>(own)
                    .bind(number)
                    .fetch_one(&mut conn)
                    .await?,
            );
            let row = sqlx::query("select $1::int * 2, $2::text")
                .bind(number)
                .bind("t")
                .fetch_one(&mut conn)
                .await?;
            client.say("common", (row.get::<i32, _>(0), row.get::<String, _>(1)));
            let once = sqlx::query_scalar::<_, i32>("select $1::int - 1")
                .persistent(false)
                .bind(number);
            client.say("not kept", once.fetch_one(&mut conn).await?);
        }
        let failed = sqlx::query("select 1 / $1::int")
            .bind(0_i32)
            .execute(&mut conn)
            .await;
        client.say("error", state(failed));
        conn.clear_cached_statements().await?;
        let rows = sqlx::query("select generate_series(1, $1::int)")
            .bind(300_i32)
            .fetch(&mut conn);
        let sum = rows
            .try_fold(0, |sum, row| async move { Ok(sum + row.get::<i32, _>(0)) })
            .await?;
        client.say("streamed", sum);
        conn.ping().await?;
        conn.close().await?;
    }
    Ok(())
}

async fn transactions(client: &mut Client) -> Result<()> {
    let mut conn = connect().await?;
    let table = format!("tx_{}", client.number);
    execute(&mut conn, format!("create table {table} (i int)")).await?;
    for keep in [true, false] {
        let mut transaction = conn
            .begin_with("begin isolation level repeatable read")
            .await?;
        client.say(
            "level",
            text(&mut transaction, "show transaction_isolation".to_owned()).await?,
        );
        let insert = AssertSqlSafe(format!("insert into {table} values ($1)"));
        sqlx::query(insert)
            .bind(1_i32)
            .execute(&mut *transaction)
            .await?;
        let mut inner = transaction.begin().await?;
        execute(&mut inner, "set application_name to 'undone'".to_owned()).await?;
        let failed = sqlx::query("select 1 / $1::int")
            .bind(0_i32)
            .execute(&mut *inner)
            .await;
        client.say("inner", state(failed));
        inner.rollback().await?;
        client.say(
            "name",
            text(&mut transaction, "show application_name".to_owned()).await?,
        );
        if keep {
            transaction.commit().await?;
        } else {
            // Dropped: the driver rolls back before its next statement.
            drop(transaction);
        }
        client.say(
            "count",
            text(&mut conn, format!("select count(*)::text from {table}")).await?,
        );
    }
    execute(&mut conn, format!("drop table {table}")).await?;
    conn.close().await?;
    Ok(())
}

async fn settings(client: &mut Client) -> Result<()> {
    let options = PgConnectOptions::new()
        .application_name(&format!("start{}", client.number))
        .options([
            ("search_path", format!("own{}", client.number)),
            ("statement_timeout", format!("{}s", 20 + client.number)),
        ]);
    let mut conn = PgConnection::connect_with(&options).await?;
    let steps = [
        "select 1".to_owned(),
        format!(
            "set work_mem to '{}kB'; set search_path to elsewhere",
            5000 + client.number
        ),
        "begin; set application_name to 'undone'; rollback".to_owned(),
        "reset all".to_owned(),
        "discard all".to_owned(),
    ];
    for step in steps {
        execute(&mut conn, step.clone()).await?;
        // DISCARD ALL dropped the statements without the driver's knowledge.
        if step == "discard all" {
            conn.close().await?;
            conn = PgConnection::connect_with(&options).await?;
        }
        for _ in 0..2 {
            let mut shown = Vec::new();
            for name in [
                "application_name",
                "search_path",
                "statement_timeout",
                "timezone",
                "work_mem",
                "extra_float_digits",
            ] {
                shown.push(text(&mut conn, format!("show {name}")).await?);
            }
            client.say(&step, shown);
        }
    }
    conn.close().await?;
    Ok(())
}

/// Uses after_connect for settings, and before_acquire for a check of the connection.
async fn pools(client: &mut Client) -> Result<()> {
    let number = client.number;
    let pool: PgPool = PgPoolOptions::new()
        .max_connections(2)
        .after_connect(move |conn, _| {
            Box::pin(async move {
                let sql =
                    format!("set search_path to tenant_{number}; set timezone to 'Asia/Tokyo'");
                conn.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await?;
                Ok(())
            })
        })
        .connect_with(PgConnectOptions::new())
        .await?;
    for turn in 0..6_i32 {
        let mut conn = pool.acquire().await?;
        let path = text(&mut conn, "show search_path".to_owned()).await?;
        client.say(
            "borrowed",
            (path, text(&mut conn, "show timezone".to_owned()).await?),
        );
        drop(conn);
        client.say(
            "pool",
            sqlx::query_scalar::<_, i32>("select $1::int")
                .bind(turn)
                .fetch_one(&pool)
                .await?,
        );
    }
    pool.close().await;
    Ok(())
}

struct Mood(String);

impl sqlx::Type<sqlx::Postgres> for Mood {
    fn type_info() -> sqlx::postgres::PgTypeInfo {
        sqlx::postgres::PgTypeInfo::with_name("mood")
    }
}

impl<'row> sqlx::Decode<'row, sqlx::Postgres> for Mood {
    fn decode(value: sqlx::postgres::PgValueRef<'row>) -> Result<Self, sqlx::error::BoxDynError> {
        Ok(Self(value.as_str()?.to_owned()))
    }
}

/// Looks types up by name, under each client's own search_path.
async fn types(client: &mut Client) -> Result<()> {
    let mut conn = connect().await?;
    let schema = format!("types_{}", client.number);
    execute(
        &mut conn,
        format!(
            "create schema {schema}; create type {schema}.mood as enum ('sad', 'glad {}')",
            client.number
        ),
    )
    .await?;
    execute(&mut conn, format!("set search_path to {schema}")).await?;
    for _ in 0..3 {
        let sql = AssertSqlSafe(format!(
            "select 'glad {}'::mood, array[$1::int]",
            client.number
        ));
        let row = sqlx::query(sql).bind(5_i32).fetch_one(&mut conn).await?;
        client.say(
            "types",
            (row.try_get::<Mood, _>(0)?.0, row.get::<Vec<i32>, _>(1)),
        );
    }
    execute(&mut conn, format!("drop schema {schema} cascade")).await?;
    conn.close().await?;
    Ok(())
}

async fn copies(client: &mut Client) -> Result<()> {
    let mut conn = connect().await?;
    let table = format!("copy_{}", client.number);
    execute(&mut conn, format!("create table {table} (i int, w text)")).await?;
    let mut copy = conn
        .copy_in_raw(&format!("copy {table} from stdin"))
        .await?;
    copy.send(&b"1\ta\n2\tb\n"[..]).await?;
    client.say("copied in", copy.finish().await?);
    let mut copy = conn
        .copy_in_raw(&format!("copy {table} from stdin"))
        .await?;
    copy.send(&b"1\ta\n"[..]).await?;
    copy.abort("no more").await?;
    let out = conn
        .copy_out_raw(&format!("copy {table} to stdout"))
        .await?;
    client.say(
        "copied out",
        out.try_fold(0, |size, piece| async move { Ok(size + piece.len()) })
            .await?,
    );
    execute(&mut conn, format!("drop table {table}")).await?;
    conn.close().await?;
    Ok(())
}

async fn notifications(client: &mut Client) -> Result<()> {
    let pool = PgPoolOptions::new()
        .max_connections(3)
        .connect_with(PgConnectOptions::new())
        .await?;
    let mut listener = PgListener::connect_with(&pool).await?;
    let own = format!("of_{}", client.number);
    listener.listen_all([own.as_str(), "for_all"]).await?;
    client.meet().await?;
    for number in 0..3 {
        let next = format!("of_{}", (client.number + 1) % CLIENTS);
        sqlx::query("select pg_notify($1, $2)")
            .bind(next)
            .bind(number.to_string())
            .execute(&pool)
            .await?;
    }
    for _ in 0..3 {
        let told = listener.recv().await.context("told")?;
        client.say("told", (told.channel(), told.payload()));
    }
    client.meet().await?;
    if client.number == 4 {
        sqlx::query("select pg_notify('for_all', 'hello')")
            .execute(&pool)
            .await?;
    }
    let told = listener.recv().await?;
    client.say("all", (told.channel(), told.payload()));
    client.meet().await?;
    listener.unlisten_all().await?;
    drop(listener);
    pool.close().await;
    Ok(())
}

/// Uses sqlx's advisory locks, as its migrations do.
async fn advisory_locks(client: &mut Client) -> Result<()> {
    let lock = sqlx::postgres::PgAdvisoryLock::new("conformance");
    let mut conn = connect().await?;
    for _ in 0..3 {
        let mut guard = lock.acquire(conn).await?;
        let held = "select count(*)::text from pg_locks where locktype = 'advisory' and granted and database = (select oid from \
                    pg_database where datname = current_database())";
        client.say("held", text(guard.as_mut(), held.to_owned()).await?);
        conn = guard.release_now().await?;
    }
    conn.close().await?;
    Ok(())
}
