"""LISTEN and NOTIFY as psycopg and asyncpg do it: connection by PG* environment variables."""

import asyncio
import os

import asyncpg
import psycopg

import steps

ROUNDS = 50


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def psycopg_hears_another():
    with psycopg.connect("", autocommit=True) as ears, psycopg.connect("", autocommit=True) as mouth:
        ears.execute("listen psy")
        for number in range(ROUNDS):
            mouth.execute("select pg_notify('psy', %s)", (str(number),))
        heard = [note.payload for note in ears.notifies(timeout=20, stop_after=ROUNDS)]
        check(heard == [str(number) for number in range(ROUNDS)], heard)
        ears.execute("unlisten psy")
        mouth.execute("notify psy, 'late'")
        check(list(ears.notifies(timeout=0.5)) == [], "after unlisten")
        check(ears.execute("select 1").fetchone() == (1,), "works on")


def psycopg_hears_itself():
    with psycopg.connect("", autocommit=True) as conn:
        conn.execute("listen own")
        conn.execute("notify own, 'me'")
        heard = [(note.channel, note.payload) for note in conn.notifies(timeout=20, stop_after=1)]
        check(heard == [("own", "me")], heard)


def psycopg_listens_in_a_transaction():
    with psycopg.connect("") as ears, psycopg.connect("", autocommit=True) as mouth:
        ears.execute("listen tx")
        ears.rollback()
        mouth.execute("notify tx, 'lost'")
        ears.execute("listen tx")
        ears.commit()
        mouth.execute("notify tx, 'heard'")
        heard = [note.payload for note in ears.notifies(timeout=20, stop_after=1)]
        check(heard == ["heard"], heard)


async def asyncpg_hears_another():
    ears, mouth = await asyncpg.connect(), await asyncpg.connect()
    heard, all_heard = [], asyncio.Event()

    def note(_connection, _pid, channel, payload):
        heard.append((channel, payload))
        if len(heard) == ROUNDS:
            all_heard.set()

    await ears.add_listener("Async", note)
    for number in range(ROUNDS):
        await mouth.execute(f"notify \"Async\", '{number}'")
    await asyncio.wait_for(all_heard.wait(), 20)
    check(heard == [("Async", str(number)) for number in range(ROUNDS)], heard)
    await ears.remove_listener("Async", note)
    await mouth.execute("notify \"Async\", 'late'")
    check(await ears.fetchval("select 1") == 1, "works on")
    check(len(heard) == ROUNDS, "after remove_listener")
    await ears.close()
    await mouth.close()


async def asyncpg_resets_its_listeners():
    pool = await asyncpg.create_pool(min_size=1, max_size=1)
    heard = []

    async with pool.acquire() as conn:
        await conn.add_listener("reset", lambda *note: heard.append(note))
        await conn.remove_listener("reset", lambda *note: None)
        # What the driver says when a connection goes back to its pool.
        await conn.reset()
    mouth = await asyncpg.connect()
    await mouth.execute("notify reset, 'late'")
    async with pool.acquire() as conn:
        check(await conn.fetchval("select 1") == 1, "works on")
    check(heard == [], heard)
    await mouth.close()
    await pool.close()


def main():
    os.environ.setdefault("PGCONNECT_TIMEOUT", "20")
    for step in (psycopg_hears_another, psycopg_hears_itself, psycopg_listens_in_a_transaction):
        try:
            step()
            steps.report(step.__name__)
        except Exception as error:
            steps.report(step.__name__, error)
    for step in (asyncpg_hears_another, asyncpg_resets_its_listeners):
        try:
            asyncio.run(asyncio.wait_for(step(), 60))
            steps.report(step.__name__)
        except Exception as error:
            steps.report(step.__name__, error)
    steps.finish()


main()
