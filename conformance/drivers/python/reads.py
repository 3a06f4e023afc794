"""A Python driver writes rows and reads them, each time at once and then many times (`ok MODE READS`)."""

import asyncio
import os
import sys

ROUNDS = 3
# Enough to outlast the time for which a session that has written reads from the primary.
READS = 600


def write(mode):
    return f"/* {mode}-write. */ insert into t (name) values ('{mode}') returning id"


def read(mode, parameter):
    return f"/* {mode}. */ select name from t where id = {parameter}"


def rounds(mode, insert, select):
    """Each round writes a row; no read may miss it."""
    for _ in range(ROUNDS):
        number = insert()
        for turn in range(READS):
            if select(number) != mode:
                raise AssertionError(f"read {turn} does not show the row {number}")
    print("ok", mode, ROUNDS * READS)


def with_psycopg():
    import psycopg

    for mode in ["psycopg", "psycopg-autocommit", "psycopg-read-only"]:
        with psycopg.connect(autocommit=mode == "psycopg-autocommit") as conn:
            def insert():
                if mode == "psycopg-read-only":
                    conn.read_only = False
                number = conn.execute(write(mode)).fetchone()[0]
                conn.commit()
                if mode == "psycopg-read-only":
                    conn.read_only = True
                return number

            def select(number):
                found = conn.execute(read(mode, "%s"), (number,)).fetchone()
                conn.commit()
                return found and found[0]

            rounds(mode, insert, select)


def with_psycopg2():
    import psycopg2

    for mode in ["psycopg2", "psycopg2-autocommit"]:
        conn = psycopg2.connect("")
        conn.autocommit = mode == "psycopg2-autocommit"

        def one(sql, parameters=None):
            with conn.cursor() as cursor:
                cursor.execute(sql, parameters)
                found = cursor.fetchone()
            conn.commit()
            return found and found[0]

        rounds(mode, lambda: one(write(mode)), lambda number: one(read(mode, "%s"), (number,)))
        conn.close()


async def with_asyncpg():
    import asyncpg

    conn = await asyncpg.connect()
    for mode in ["asyncpg", "asyncpg-read-only"]:
        for _ in range(ROUNDS):
            number = await conn.fetchval(write(mode))
            for turn in range(READS):
                if mode == "asyncpg":
                    name = await conn.fetchval(read(mode, "$1"), number)
                else:
                    async with conn.transaction(readonly=True):
                        name = await conn.fetchval(read(mode, "$1"), number)
                if name != mode:
                    raise AssertionError(f"read {turn} does not show the row {number}")
        print("ok", mode, ROUNDS * READS)
    await conn.close()


def with_sqlalchemy():
    import sqlalchemy as sa

    env = os.environ
    url = sa.URL.create("postgresql+psycopg", env["PGUSER"], env["PGPASSWORD"], env["PGHOST"], int(env["PGPORT"]),
                        env["PGDATABASE"])
    options = {"sqlalchemy": {}, "sqlalchemy-autocommit": {"isolation_level": "AUTOCOMMIT"},
               "sqlalchemy-read-only": {"postgresql_readonly": True}}
    engine = sa.create_engine(url)
    for mode, reading in options.items():
        def insert():
            with engine.begin() as conn:
                return conn.execute(sa.text(write(mode))).scalar()

        def select(number):
            with engine.connect().execution_options(**reading) as conn:
                return conn.execute(sa.text(read(mode, ":id")), {"id": number}).scalar()

        rounds(mode, insert, select)


def with_django():
    import django
    from django.conf import settings

    env = os.environ
    settings.configure(
        DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": env["PGDATABASE"], "USER": env["PGUSER"],
                               "PASSWORD": env["PGPASSWORD"], "HOST": env["PGHOST"], "PORT": env["PGPORT"]}},
        SECRET_KEY="not one", INSTALLED_APPS=[])
    django.setup()
    from django.db import connection, transaction

    def one(sql, parameters=None):
        with connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            found = cursor.fetchone()
            return found and found[0]

    rounds("django", lambda: one(write("django")), lambda number: one(read("django", "%s"), (number,)))

    def select(number):
        with transaction.atomic():
            return one(read("django-atomic", "%s"), (number,))

    rounds("django-atomic", lambda: one(write("django-atomic")), select)


DRIVERS = {"psycopg": with_psycopg, "psycopg2": with_psycopg2, "asyncpg": lambda: asyncio.run(with_asyncpg()), "sqlalchemy": with_sqlalchemy,
           "django": with_django}
DRIVERS[sys.argv[1]]()
