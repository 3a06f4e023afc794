"""Python drivers that lose their server in a transaction block and keep their session; the argument is PostgreSQL's own port."""

import asyncio
import sys
import time

import asyncpg
import psycopg

ROUNDS = 12


def end_server(pid):
    """Ends a session of PostgreSQL, and waits until it is gone."""
    with psycopg.connect("", port=int(sys.argv[1]), autocommit=True) as direct:
        direct.execute("select pg_terminate_backend(%s)", (pid,))
        while direct.execute("select 1 from pg_stat_activity where pid = %s", (pid,)).fetchone():
            time.sleep(0.01)


def check(rows, table):
    if rows != list(range(ROUNDS)):
        raise AssertionError(f"{table}: {rows}")


def with_psycopg():
    with psycopg.connect("", autocommit=True) as conn:
        conn.execute("drop table if exists lost_psycopg")
        conn.execute("create table lost_psycopg (round int)")
        conn.execute("set application_name to 'kept'")
        conn.autocommit = False
        for number in range(ROUNDS):
            end_server(conn.execute("select pg_backend_pid()").fetchone()[0])
            try:
                if number % 3 == 0:
                    conn.commit()
                else:
                    conn.execute("insert into lost_psycopg values (%s)", (-1,))
                raise AssertionError("nothing has failed")
            except psycopg.errors.SerializationFailure:
                conn.rollback()
            conn.execute("insert into lost_psycopg values (%s)", (number,))
            name = conn.execute("show application_name").fetchone()[0]
            conn.commit()
            if name != "kept":
                raise AssertionError(f"round {number}: {name}")
        check([row[0] for row in conn.execute("select round from lost_psycopg order by 1")], "psycopg")


async def with_asyncpg():
    conn = await asyncpg.connect()
    try:
        await conn.execute("drop table if exists lost_asyncpg")
        await conn.execute("create table lost_asyncpg (round int)")
        for number in range(ROUNDS):
            try:
                async with conn.transaction():
                    await asyncio.to_thread(end_server, await conn.fetchval("select pg_backend_pid()"))
                    if number % 3 > 0:
                        await conn.execute("insert into lost_asyncpg values ($1)", -1)
                raise AssertionError("nothing has failed")
            except asyncpg.exceptions.SerializationError:
                pass
            async with conn.transaction():
                await conn.execute("insert into lost_asyncpg values ($1)", number)
        rows = await conn.fetch("select round from lost_asyncpg order by 1")
        check([row[0] for row in rows], "asyncpg")
    finally:
        await conn.close()


with_psycopg()
print("ok psycopg")
asyncio.run(with_asyncpg())
print("ok asyncpg")
