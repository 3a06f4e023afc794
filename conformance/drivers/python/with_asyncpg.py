"""asyncpg from the outside: connection by PG* environment variables."""

import asyncio
import datetime
import decimal

import asyncpg

import steps


def check(condition, what):
    if not condition:
        raise AssertionError(what)


async def connects(conn):
    check(await conn.fetchval("select 1") == 1, "select 1")


async def parametrised_query(conn):
    day = datetime.datetime(2026, 2, 3, 4, 5, 6, tzinfo=datetime.timezone.utc)
    for number in range(100):
        values = (number, f"text {number}", None, decimal.Decimal("1.50"), True, day, b"\x00\xff", [1, 2])
        sql = "select $1::int, $2::text, $3::text, $4::numeric, $5::bool, $6::timestamptz, $7::bytea, $8::int[]"
        check(tuple(await conn.fetchrow(sql, *values)) == values, f"round {number}")


async def many_statements(conn):
    # More than the driver's cache of 100 statements.
    for _ in range(2):
        for number in range(150):
            check(await conn.fetchval(f"select $1::int + {number}", 1) == number + 1, "statement")


async def transaction(conn):
    await conn.execute("drop table if exists asyncpg_t; create table asyncpg_t (i int)")
    try:
        async with conn.transaction():
            await conn.execute("insert into asyncpg_t values ($1)", 1)
            raise KeyError
    except KeyError:
        pass
    async with conn.transaction():
        await conn.execute("insert into asyncpg_t values ($1)", 2)
        try:
            async with conn.transaction():
                await conn.execute("insert into asyncpg_t values ($1)", 3)
                await conn.execute("select 1/0")
        except asyncpg.DivisionByZeroError:
            pass
    check([row["i"] for row in await conn.fetch("select i from asyncpg_t")] == [2], "kept rows")


async def batch(conn):
    await conn.execute("drop table if exists asyncpg_b; create table asyncpg_b (i int primary key)")
    await conn.executemany("insert into asyncpg_b values ($1)", [(n,) for n in range(1000)])
    check(await conn.fetchval("select count(*) from asyncpg_b") == 1000, "executemany")
    try:
        await conn.executemany("insert into asyncpg_b values ($1)", [(n,) for n in range(2000, 1000, -1)] + [(5,)])
        check(False, "no error")
    except asyncpg.UniqueViolationError:
        pass
    check(await conn.fetchval("select count(*) from asyncpg_b") == 1000, "failed executemany")


async def error_then_usable(conn):
    for _ in range(10):
        try:
            await conn.fetch("select no_such_column")
            check(False, "no error")
        except asyncpg.UndefinedColumnError:
            pass
        check(await conn.fetchval("select $1::int", 1) == 1, "after the error")


async def copy(conn):
    await conn.execute("drop table if exists asyncpg_c; create table asyncpg_c (i int, w text)")
    rows = [(number, "word" * (number % 5)) for number in range(10000)]
    await conn.copy_records_to_table("asyncpg_c", records=rows)
    pieces = []

    async def take(piece):
        pieces.append(piece)

    await conn.copy_from_query("select * from asyncpg_c order by i", output=take, format="csv")
    lines = b"".join(pieces).decode().splitlines()
    check(len(lines) == 10000 and lines[9999] == "9999," + "word" * 4, "copied rows")


async def cancel(conn):
    try:
        await conn.fetchval("select pg_sleep(30)", timeout=0.3)
        check(False, "not cancelled")
    except asyncio.TimeoutError:
        pass
    check(await conn.fetchval("select 1") == 1, "after the cancel")


async def cursor(conn):
    async with conn.transaction():
        total = 0
        async for row in conn.cursor("select i from generate_series(1, 1000) i", prefetch=100):
            total += row["i"]
        check(total == 500500, "sum")


async def prepared(conn):
    statement = await conn.prepare("select $1::int * 2")
    for number in range(20):
        check(await statement.fetchval(number) == number * 2, "prepared")


async def concurrent(_conn):
    async def one(tag):
        conn = await asyncpg.connect()
        for number in range(20):
            value = tag * 1000 + number
            got = await conn.fetchval("select $1::int", value)
            check(got == value, f"{got} instead of {value}")
        await conn.close()

    await asyncio.gather(*(one(tag) for tag in range(50)))


async def large(conn):
    check(len(await conn.fetchval("select repeat('x', 10000000)")) == 10_000_000, "result")
    check(len(await conn.fetch("select repeat('y', 1000) from generate_series(1, 10000)")) == 10000, "rows")
    check(await conn.fetchval("select length($1::text)", "z" * 5_000_000) == 5_000_000, "parameter")


async def main():
    for step in [connects, parametrised_query, many_statements, transaction, batch, error_then_usable, copy, cancel,
                 cursor, prepared, concurrent, large]:
        try:
            conn = await asyncpg.connect()
            await asyncio.wait_for(step(conn), 60)
            await conn.close()
            steps.report(step.__name__)
        except BaseException as error:
            steps.report(step.__name__, error)


asyncio.run(main())
steps.finish()
