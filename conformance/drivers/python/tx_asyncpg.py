"""asyncpg in transaction pooling, by its defaults: statement cache of 100, introspection of types, pool with reset."""

import asyncio
import datetime
import json
import sys

import asyncpg

import tx_harness as harness


async def moves(client):
    """Asks until servers have changed, without which nothing here means much."""
    conn = await asyncpg.connect()
    servers = set()
    while len(servers) < harness.SERVERS:
        servers.add(await conn.fetchval("select pg_backend_pid()"))
    client.remark(f"servers {len(servers)}")
    await conn.close()


async def statement_cache(client):
    """Common texts, own texts, and more of them than the cache holds."""
    conn = await asyncpg.connect()
    for number in range(130):
        client.say("own", await conn.fetchval(f"select $1::int + {number}", client.number))
    for number in range(10):
        client.say("common", await conn.fetchrow("select $1::text || $2, $3::numeric, $4::date", "a", str(number), number,
                                                 datetime.date(2026, 1, 1)))
        client.say("old", await conn.fetchval(f"select $1::int + {number}", number))
    await conn.close()
    small = await asyncpg.connect(statement_cache_size=2)
    for number in range(20):
        client.say("small", await small.fetchval(f"select $1::int * {number % 5}", client.number))
    await small.close()
    none = await asyncpg.connect(statement_cache_size=0)
    for number in range(6):
        client.say("none", await none.fetchval("select $1::int * 3", number))
    await none.close()


async def introspection(client):
    """Types of the user's own: enum, composite, domain, range, arrays of them, and codecs."""
    conn = await asyncpg.connect()
    schema = f"types_{client.number}"
    await conn.execute(f"""
        create schema {schema};
        create type {schema}.mood as enum ('sad', 'glad {client.number}');
        create type {schema}.pair as (a int, b text, m {schema}.mood);
        create domain {schema}.small as int check (value < 100);
        create table {schema}.all_of (m {schema}.mood, p {schema}.pair, d {schema}.small, ps {schema}.pair[], j jsonb)""")
    await conn.set_type_codec("jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
    insert = f"insert into {schema}.all_of values ($1, $2, $3, $4, $5) returning *"
    for number in range(4):
        pair = (number, f"b{number}", "sad")
        row = await conn.fetchrow(insert, f"glad {client.number}", pair, number, [pair, pair], {"n": [number]})
        client.say("row", row)
    statement = await conn.prepare(f"select p, $1::{schema}.mood as m from {schema}.all_of where d = $2")
    client.say("parameters", [kind.name for kind in statement.get_parameters()])
    client.say("attributes", [(one.name, one.type.name) for one in statement.get_attributes()])
    client.say("prepared", await statement.fetch("sad", 2))
    await conn.reload_schema_state()
    client.say("reloaded", await conn.fetch(f"select m, p from {schema}.all_of where d = $1", 3))
    await conn.execute(f"drop schema {schema} cascade")
    await conn.close()


async def after_ddl(client):
    """A table that changes under cached statements: outside a transaction the driver tries again by itself."""
    conn = await asyncpg.connect()
    table = f"ddl_{client.number}"
    await conn.execute(f"create table {table} as select 1 as a")
    for number in range(4):
        client.say("rows", await conn.fetch(f"select * from {table}"))
        await conn.execute(f"alter table {table} add b{number} int default {number}")
        client.say("rows", await conn.fetch(f"select * from {table}"))
    await conn.execute(f"drop table {table}")
    await conn.close()


async def transactions(client):
    """Modes, nesting, and settings inside."""
    conn = await asyncpg.connect()
    for isolation in ("read_uncommitted", "read_committed", "repeatable_read", "serializable"):
        async with conn.transaction(isolation=isolation, readonly=isolation == "serializable",
                                    deferrable=isolation == "serializable"):
            client.say("level", await conn.fetchval("show transaction_isolation"),
                       await conn.fetchval("show transaction_read_only"))
    await conn.execute(f"create table tx_{client.number} (i int)")
    try:
        async with conn.transaction():
            await conn.execute(f"insert into tx_{client.number} values ($1)", 1)
            await conn.execute("set application_name to 'undone'")
            try:
                async with conn.transaction():
                    await conn.execute(f"insert into tx_{client.number} values ($1)", 2)
                    await conn.execute("select 1/0")
            except asyncpg.PostgresError as error:
                client.fails("inner", error)
            client.say("inside", await conn.fetch(f"select * from tx_{client.number}"), conn.is_in_transaction())
            raise KeyError
    except KeyError:
        pass
    client.say("after", await conn.fetch(f"select * from tx_{client.number}"), await conn.fetchval("show application_name"))
    await conn.execute(f"drop table tx_{client.number}")
    await conn.close()


async def cursors(client):
    """Cursors by prefetch and by hand."""
    conn = await asyncpg.connect()
    async with conn.transaction():
        total = 0
        async for row in conn.cursor("select i from generate_series(1, $1::int) i", 100, prefetch=9):
            total += row["i"]
        client.say("sum", total)
        cursor = await conn.cursor("select i from generate_series(1, 100) i where i > $1", client.number)
        await cursor.forward(10)
        client.say("fetch", await cursor.fetch(3), await cursor.fetchrow())
    await conn.close()


async def many_at_once(client):
    """executemany and COPY."""
    conn = await asyncpg.connect()
    table = f"many_{client.number}"
    await conn.execute(f"create table {table} (i int primary key, w text)")
    await conn.executemany(f"insert into {table} values ($1, $2)", [(n, f"w{n}") for n in range(200)])
    try:
        await conn.executemany(f"insert into {table} values ($1, $2)", [(n, "x") for n in (300, 301, 5)])
    except asyncpg.PostgresError as error:
        client.fails("duplicate", error)
    client.say("fetchmany", await conn.fetchmany(f"insert into {table} values ($1, $2) returning i", [(n, "y") for n in (400, 401)]))
    client.say("count", await conn.fetchval(f"select count(*) from {table}"))
    client.say("copied", await conn.copy_records_to_table(table, records=[(n, "c") for n in range(1000, 1500)]))
    pieces = []

    async def take(piece):
        pieces.append(piece)

    await conn.copy_from_query(f"select * from {table} where i < $1 order by i", 5, output=take, format="csv")
    client.say("copied out", b"".join(pieces).decode())
    await conn.execute(f"drop table {table}")
    await conn.close()


async def settings(client):
    """server_settings at connect, SET on the way; the driver's own view of them."""
    names = ("timezone", "application_name", "search_path", "jit", "statement_timeout", "datestyle", "app.mine")
    conn = await asyncpg.connect(server_settings={"application_name": f"start{client.number}", "jit": "off",
                                                  "search_path": f"s{client.number},public", "app.mine": str(client.number)})

    async def show(step):
        for _ in range(2):
            client.say(step, *[await conn.fetchval("select current_setting($1)", name) for name in names],
                       conn.get_settings().application_name, conn.get_settings().TimeZone)

    await show("begin")
    await conn.execute("set timezone to 'Asia/Kolkata'" if client.number % 2 else "set time zone 'Europe/Rome'")
    await conn.execute(f"set application_name to 'own {client.number}'; set statement_timeout to {client.number + 5000}")
    await show("set")
    async with conn.transaction():
        await conn.execute("set local search_path to nowhere")
        await conn.execute("select set_config('app.mine', $1, true)", "local")
        await show("local")
    await show("after")
    await conn.reset()
    await show("reset")
    await conn.close()


async def pools(client):
    """What a borrower leaves is reset for the next: settings, locks, cursors, listeners."""

    async def init(conn):
        await conn.set_type_codec("json", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")

    async def setup(conn):
        await conn.execute(f"set application_name to 'setup {client.number}'")

    def heard(*_arguments):
        pass

    pool = await asyncpg.create_pool(min_size=1, max_size=2, init=init, setup=setup)
    for number in range(6):
        async with pool.acquire() as conn:
            client.say("borrowed", await conn.fetchval("show application_name"), await conn.fetchval("show work_mem"),
                       await conn.fetchval("select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"),
                       await conn.fetchval("select count(*) from pg_listening_channels()"),
                       await conn.fetchval("select count(*) from pg_cursors where name = 'held'"),
                       await conn.fetchval("select $1::json", [number]))
            if number == 0:
                await conn.execute("set work_mem to '7MB'")
            if number == 1:
                await conn.execute(f"select pg_advisory_lock({client.number})")
            if number == 2:
                await conn.add_listener("heard", heard)
            if number == 3:
                await conn.execute("declare held cursor with hold for select 1")
            if number == 4:
                await conn.execute("begin; set local work_mem to '8MB'")
            if number < 2:
                client.say("left", await conn.fetchval("show work_mem"))
            if number in (2, 4):
                # Its warnings of what was left are wanted here.
                await conn.reset()
    await asyncio.gather(*(pool.fetchval("select pg_sleep(0.001) is null, $1::int", number) for number in range(10)))
    client.say("fetchval", await pool.fetchval("select $1::int", 5))
    await pool.close()


async def listeners(client):
    """add_listener of each for its own channel and one for all."""
    conn, other = await asyncpg.connect(), await asyncpg.connect()
    told = asyncio.Queue()

    def hear(connection, pid, channel, payload):
        told.put_nowait((channel, payload))

    await conn.add_listener(f"of_{client.number}", hear)
    await conn.add_listener("for_all", hear)
    await client.meet_async()
    for number in range(3):
        await other.execute("select pg_notify($1, $2)", f"of_{(client.number + 1) % harness.CLIENTS}", str(number))
    for _ in range(3):
        client.say("told", await asyncio.wait_for(told.get(), 60))
    await client.meet_async()
    if client.number == 2:
        await other.execute("notify for_all, 'hello'")
    client.say("all", await asyncio.wait_for(told.get(), 60))
    await client.meet_async()
    client.say("query between", await conn.fetchval("select $1::int", 3), told.qsize())
    async with conn.transaction():
        await conn.execute(f"notify of_{client.number}, 'myself'")
        client.say("not yet", told.qsize())
    client.say("myself", await asyncio.wait_for(told.get(), 60))
    await conn.remove_listener("for_all", hear)
    await client.meet_async()
    await other.execute("notify for_all, 'nobody'")
    await client.meet_async()
    client.say("removed", await conn.fetchval("select count(*) from pg_listening_channels()"), told.qsize())
    await conn.close()
    await other.close()


async def temporary_and_locks(client):
    """Temporary tables and advisory locks stay with their client."""
    conn = await asyncpg.connect()
    await conn.execute("create temp table mine (i int)")
    await conn.copy_records_to_table("mine", records=[(client.number,), (10,)])
    for _ in range(3):
        client.say("rows", await conn.fetch("select i from mine order by i"))
    await conn.execute("drop table mine")
    client.say("locked", await conn.fetchval("select pg_try_advisory_lock($1)", client.number))
    for _ in range(3):
        client.say("held", await conn.fetchval("select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"))
    client.say("unlocked", await conn.fetchval("select pg_advisory_unlock($1)", client.number))
    await conn.close()


async def timeouts(client):
    """A command that takes too long is cancelled, and the connection goes on."""
    conn = await asyncpg.connect()
    for _ in range(2):
        try:
            await conn.fetchval("select pg_sleep(20)", timeout=0.1)
        except asyncio.TimeoutError as error:
            client.fails("timeout", error)
        client.say("after", await conn.fetchval("select $1::int", client.number))
    await conn.close()


if __name__ == "__main__":
    done = asyncio.run(harness.run_tasks([
        moves, statement_cache, introspection, after_ddl, transactions, cursors, many_at_once, settings, pools, listeners,
        temporary_and_locks, timeouts]))
    sys.exit(0 if done else 1)
