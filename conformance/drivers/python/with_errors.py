"""What psycopg makes of errors. Connection by PG* environment variables.

codes CODE...       prints "CODE CLASS" of an error with this code
events EVENT...     each is NAME/PORT/DATABASE/STEP;STEP...: SQL, "\\sleep SECONDS" or "\\console ORDER". Prints
                    "NAME CLASS CODE" of the first step that fails; a step before the first connects.
"""

import sys
import time

import psycopg

CLASSES = (
    psycopg.DataError, psycopg.OperationalError, psycopg.IntegrityError, psycopg.InternalError, psycopg.ProgrammingError,
    psycopg.NotSupportedError,
)


def class_of(error):
    return next(one.__name__ for one in CLASSES if isinstance(error, one))


def codes(names):
    with psycopg.connect("", autocommit=True) as conn:
        for name in names:
            try:
                conn.execute(f"do $$ begin raise exception 'told' using errcode = '{name}'; end $$")
            except psycopg.Error as error:
                print(name, class_of(error))


def connect(port, database):
    return psycopg.connect("", port=port, dbname=database, autocommit=True)


def step(conn, port, text):
    order, _, rest = text.partition(" ")
    if order == "\\sleep":
        time.sleep(float(rest))
    elif order == "\\console":
        with connect(port, "pgbouncer") as console:
            console.execute(rest)
    else:
        conn.execute(text)


def event(text):
    name, port, database, steps = text.split("/", 3)
    try:
        with connect(port, database) as conn:
            for one in steps.split(";"):
                step(conn, port, one)
        print(name, "none")
    except psycopg.Error as error:
        print(name, class_of(error), error.sqlstate)


if sys.argv[1] == "codes":
    codes(sys.argv[2:])
else:
    for argument in sys.argv[2:]:
        event(argument)
