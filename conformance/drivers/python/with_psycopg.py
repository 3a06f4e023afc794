"""psycopg 3 from the outside: connection by PG* environment variables."""

import datetime
import decimal
import threading

import psycopg

import steps


def connect(**options):
    return psycopg.connect("", autocommit=True, **options)


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def connects():
    with connect() as conn:
        check(conn.execute("select 1").fetchone() == (1,), "select 1")


def parametrised_query():
    with connect() as conn:
        day = datetime.datetime(2026, 2, 3, 4, 5, 6, tzinfo=datetime.timezone.utc)
        for number in range(100):
            values = (number, "text %s" % number, None, decimal.Decimal("1.50"), True, day, b"\x00\xff", [1, 2])
            sql = "select %s::int, %s::text, %s::text, %s::numeric, %s::bool, %s::timestamptz, %s::bytea, %s::int[]"
            check(conn.execute(sql, values).fetchone() == values, f"round {number}")


def transaction():
    with connect() as conn:
        conn.execute("drop table if exists psycopg_t")
        conn.execute("create table psycopg_t (i int)")
        try:
            with conn.transaction():
                conn.execute("insert into psycopg_t values (1)")
                raise KeyError
        except KeyError:
            pass
        with conn.transaction():
            conn.execute("insert into psycopg_t values (2)")
            try:
                with conn.transaction():
                    conn.execute("insert into psycopg_t values (3)")
                    conn.execute("select 1/0")
            except psycopg.errors.DivisionByZero:
                pass
        check(conn.execute("select i from psycopg_t").fetchall() == [(2,)], "kept rows")


def pipeline():
    with connect() as conn:
        with conn.pipeline():
            cursors = [conn.execute("select %s::int", (number,)) for number in range(200)]
            values = [cursor.fetchone()[0] for cursor in cursors]
        check(values == list(range(200)), "pipeline")
        with conn.cursor() as cursor:
            cursor.executemany("select %s::int", [(n,) for n in range(50)], returning=True)


def pipeline_error():
    with connect() as conn:
        try:
            with conn.pipeline():
                conn.execute("select 1")
                conn.execute("select 1/0")
                conn.execute("select 2")
        except psycopg.errors.DivisionByZero:
            pass
        check(conn.execute("select 3").fetchone() == (3,), "after the error")


def error_then_usable():
    with connect() as conn:
        for _ in range(10):
            try:
                conn.execute("select no_such_column")
                check(False, "no error")
            except psycopg.errors.UndefinedColumn:
                pass
            check(conn.execute("select 1").fetchone() == (1,), "after the error")


def copy():
    with connect() as conn:
        conn.execute("drop table if exists psycopg_c")
        conn.execute("create table psycopg_c (i int, w text)")
        with conn.cursor().copy("copy psycopg_c from stdin") as copy_in:
            for number in range(10000):
                copy_in.write_row((number, "word" * (number % 5)))
        with conn.cursor().copy("copy psycopg_c to stdout (format binary)") as copy_out:
            copy_out.set_types(["int4", "text"])
            rows = list(copy_out.rows())
        check(len(rows) == 10000 and rows[9999] == (9999, "word" * 4), "copied rows")
        try:
            with conn.cursor().copy("copy psycopg_c from stdin") as copy_in:
                copy_in.write_row((1, "x"))
                raise KeyError
        except KeyError:
            pass
        check(conn.execute("select count(*) from psycopg_c").fetchone() == (10000,), "copy that failed")


def cancel():
    with connect() as conn:
        timer = threading.Timer(0.3, conn.cancel)
        timer.start()
        try:
            conn.execute("select pg_sleep(30)")
            check(False, "not cancelled")
        except psycopg.errors.QueryCanceled:
            pass
        check(conn.execute("select 1").fetchone() == (1,), "after the cancel")


def server_cursor():
    with connect() as conn, conn.transaction():
        with conn.cursor(name="walk") as cursor:
            cursor.execute("select i from generate_series(1, 1000) i")
            cursor.itersize = 100
            check(sum(row[0] for row in cursor) == 500500, "sum")


def concurrent():
    errors = []

    def one(tag):
        try:
            with connect() as conn:
                for number in range(20):
                    value = tag * 1000 + number
                    got = conn.execute("select %s::int", (value,)).fetchone()[0]
                    check(got == value, f"{got} instead of {value}")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=one, args=(tag,)) for tag in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def large():
    with connect() as conn:
        check(len(conn.execute("select repeat('x', 10000000)").fetchone()[0]) == 10_000_000, "result")
        rows = conn.execute("select repeat('y', 1000) from generate_series(1, 10000)").fetchall()
        check(len(rows) == 10000, "rows")
        check(conn.execute("select length(%s::text)", ("z" * 5_000_000,)).fetchone() == (5_000_000,), "parameter")


for step in [connects, parametrised_query, transaction, pipeline, pipeline_error, error_then_usable, copy, cancel,
             server_cursor, concurrent, large]:
    try:
        step()
        steps.report(step.__name__)
    except BaseException as error:
        steps.report(step.__name__, error)
steps.finish()
