"""psycopg 3 in every sslmode against every target in the arguments (`label=port/database[+cert]`)."""

import os
import sys

import psycopg

MODES = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]


def attempt(target, options):
    address, _, certificate = target.partition("+")
    port, _, database = address.partition("/")
    if certificate:
        options = dict(options, sslcert=os.environ["CERT"], sslkey=os.environ["KEY"])
    try:
        with psycopg.connect(host="127.0.0.1", port=port, dbname=database, user="postgres", gssencmode="disable",
                             sslrootcert=os.environ["ROOT"], connect_timeout=20, **options) as conn:
            if conn.execute("select 1").fetchone() != (1,):
                raise AssertionError("select 1")
            return "TLS" if conn.pgconn.ssl_in_use else "clear"
    except psycopg.OperationalError as error:
        print(error, file=sys.stderr)
        return "refused"


def main():
    ways = [(mode, {"sslmode": mode}) for mode in MODES]
    # Only libpq 17 and later know it; the wheel brings its own.
    for mode in ["require", "verify-full"]:
        ways.append((mode + " direct", {"sslmode": mode, "sslnegotiation": "direct"}))
    for argument in sys.argv[1:]:
        label, _, target = argument.partition("=")
        for name, options in ways:
            print("outcome", label, name.replace(" ", "_"), attempt(target, options))


main()
