"""psycopg or asyncpg (the first argument) and the administration console: connection by PG* environment variables."""

import asyncio
import sys

import asyncpg
import psycopg

import steps


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def check_pools(rows):
    """Rows of SHOW POOLS with numbers as numbers."""
    own = [row for row in rows if row["database"] == "pgbouncer"]
    check(len(rows) == 2 and len(own) == 1, rows)
    check(own[0]["cl_active"] >= 1 and own[0]["maxwait_us"] == 0, own)


def with_psycopg():
    from psycopg.rows import dict_row

    for binary in (False, True):
        for prepare in (False, True):
            with psycopg.connect("", autocommit=True, row_factory=dict_row) as conn:
                for _ in range(3):
                    cursor = conn.cursor(binary=binary)
                    check_pools(cursor.execute("SHOW POOLS", prepare=prepare).fetchall())
                stats = conn.cursor(binary=binary).execute("SHOW STATS", prepare=prepare).fetchall()
                check(all(int(row["total_query_count"]) >= 0 for row in stats), stats)
                conn.execute("PAUSE", prepare=prepare)
                conn.execute("RESUME", prepare=prepare)
                try:
                    conn.execute("RESUME", prepare=prepare)
                    check(False, "no error")
                except psycopg.errors.ProtocolViolation as error:
                    check("pooler is not paused/suspended" in str(error), str(error))
                try:
                    conn.execute("SHOW %s", ["POOLS"])
                    check(False, "no error")
                except psycopg.Error as error:
                    check(error.sqlstate in ("0A000", "08P01"), error.sqlstate)
                check_pools(conn.execute("SHOW POOLS").fetchall())
            steps.report(f"psycopg binary={binary} prepare={prepare}")


async def with_asyncpg():
    conn = await asyncpg.connect()
    for _ in range(3):
        check_pools(await conn.fetch("SHOW POOLS"))
    stats = await conn.fetch("SHOW STATS")
    check(all(row["total_query_count"] >= 0 for row in stats), stats)
    check((await conn.fetchrow("SHOW VERSION"))["version"].startswith("PgBouncer"), "version")
    check(await conn.execute("PAUSE") == "PAUSE", "the tag")
    statement = await conn.prepare("RESUME")
    await statement.fetch()
    try:
        await statement.fetch()
        check(False, "no error")
    except asyncpg.ProtocolViolationError as error:
        check("pooler is not paused/suspended" in str(error), str(error))
    check_pools(await conn.fetch("SHOW POOLS"))
    await conn.close()
    steps.report("asyncpg")


try:
    if sys.argv[1] == "psycopg":
        with_psycopg()
    else:
        asyncio.run(with_asyncpg())
except Exception as error:
    steps.report(sys.argv[1], error)
steps.finish()
