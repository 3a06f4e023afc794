"""Python drivers with every target_session_attrs at every target in the arguments (`label=port/database`)."""

import asyncio
import sys

import asyncpg
import psycopg

VALUES = ["any", "read-write", "read-only", "primary", "standby", "prefer-standby"]


def with_psycopg(port, database, value):
    try:
        with psycopg.connect(host="127.0.0.1", port=port, dbname=database, user="postgres", sslmode="disable",
                             connect_timeout=20, target_session_attrs=value) as conn:
            return "accepted" if conn.execute("select 7").fetchone() == (7,) else "broken"
    except psycopg.OperationalError as error:
        print(error, file=sys.stderr)
        return "refused"


async def with_asyncpg(port, database, value):
    try:
        conn = await asyncpg.connect(host="127.0.0.1", port=port, database=database, user="postgres", ssl=False,
                                     timeout=20, target_session_attrs=value)
    except asyncpg.exceptions.TargetServerAttributeNotMatched as error:
        print(error, file=sys.stderr)
        return "refused"
    try:
        return "accepted" if await conn.fetchval("select 7") == 7 else "broken"
    finally:
        await conn.close()


def main():
    drivers = {"psycopg": with_psycopg, "asyncpg": lambda *how: asyncio.run(with_asyncpg(*how))}
    attempt = drivers[sys.argv[1]]
    for argument in sys.argv[2:]:
        label, _, target = argument.partition("=")
        port, _, database = target.partition("/")
        for value in VALUES:
            print("outcome", label, value, attempt(int(port), database, value))


main()
