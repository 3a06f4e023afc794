"""The statements of Rails' ActiveRecord, sent as its PostgreSQL adapter sends them through libpq.

Settings at connect, statements prepared under the names a1, a2 and thrown away by DEALLOCATE, savepoints named
active_record_1, migrations under an advisory lock, DISCARD ALL when a connection is reset.
"""

import zlib

from psycopg import pq

import tx_harness as harness

STATEMENTS_MAX = 3


class Failed(Exception):
    """An error of the server."""

    def __init__(self, result):
        self.sqlstate = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
        super().__init__(result.error_message.decode().strip() if result.error_message else "")


class Adapter:
    """What the adapter does with its raw connection."""

    def __init__(self, variables, schemas=None, options=b""):
        self.raw = pq.PGconn.connect(b"client_encoding=utf8" + options)
        if self.raw.status != pq.ConnStatus.OK:
            raise ConnectionError(self.raw.error_message)
        self.variables, self.schemas = variables, schemas
        self.statements, self.made = {}, 0
        self.configure()

    def configure(self):
        """After connecting and after a reset."""
        self.execute("SET client_min_messages TO 'warning'")
        if self.schemas:
            self.execute(f"SET search_path TO {self.schemas}")
        self.execute("SET standard_conforming_strings = on")
        self.execute("SET intervalstyle = iso_8601")
        self.execute("SET SESSION timezone TO 'UTC'")
        for name, value in self.variables.items():
            self.execute(f"SET SESSION {name} TO {value}")
        self.execute("SHOW max_identifier_length")
        self.execute(TYPES)

    def execute(self, sql):
        """The simple protocol: no binds."""
        return self.rows(self.raw.exec_(sql.encode()))

    def select(self, sql, *binds):
        """A prepared statement, kept by its text; the oldest goes when there are too many."""
        name = self.statements.pop(sql, None)
        if name is None:
            while len(self.statements) >= STATEMENTS_MAX:
                oldest = next(iter(self.statements))
                if self.raw.transaction_status != pq.TransactionStatus.INERROR:
                    self.execute(f"DEALLOCATE {self.statements.pop(oldest)}")
            self.made += 1
            name = f"a{self.made}"
            self.rows(self.raw.prepare(name.encode(), sql.encode()))
        self.statements[sql] = name
        values = [None if bind is None else str(bind).encode() for bind in binds]
        return self.rows(self.raw.exec_prepared(name.encode(), values))

    def select_once(self, sql, *binds):
        """With binds but not kept: the unnamed statement."""
        return self.rows(self.raw.exec_params(sql.encode(), [str(bind).encode() for bind in binds]))

    def reset(self):
        """What the pool does with a connection that it has to trust again."""
        if self.raw.transaction_status != pq.TransactionStatus.IDLE:
            self.execute("ROLLBACK")
        self.execute("DISCARD ALL")
        self.statements.clear()
        self.configure()

    def rows(self, result):
        if result.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK, pq.ExecStatus.EMPTY_QUERY):
            raise Failed(result)
        fetch = [[result.get_value(row, column) for column in range(result.nfields)] for row in range(result.ntuples)]
        return [tuple(value if value is None else value.decode() for value in row) for row in fetch]

    def close(self):
        self.raw.finish()


TYPES = """SELECT t.oid, t.typname, t.typelem, t.typdelim, t.typinput, r.rngsubtype, t.typtype, t.typbasetype
FROM pg_type as t
LEFT JOIN pg_range as r ON oid = rngtypid
WHERE
  t.typname IN ('int2', 'int4', 'int8', 'oid', 'float4', 'float8', 'numeric', 'bool', 'timestamp', 'timestamptz')
"""
COLUMNS = """SELECT a.attname, format_type(a.atttypid, a.atttypmod),
       pg_get_expr(d.adbin, d.adrelid), a.attnotnull, a.atttypmod,
       c.collname, col_description(a.attrelid, a.attnum) AS comment,
       attidentity AS identity, attgenerated as attgenerated
  FROM pg_attribute a
  LEFT JOIN pg_attrdef d ON a.attrelid = d.adrelid AND a.attnum = d.adnum
  LEFT JOIN pg_type t ON a.atttypid = t.oid
  LEFT JOIN pg_collation c ON a.attcollation = c.oid AND a.attcollation <> t.typcollation
 WHERE a.attrelid = '"{}"'::regclass
   AND a.attnum > 0 AND NOT a.attisdropped
 ORDER BY a.attnum
"""
SHOWN = ("client_min_messages", "standard_conforming_strings", "intervalstyle", "timezone", "statement_timeout",
         "lock_timeout", "idle_in_transaction_session_timeout", "search_path", "application_name")


def adapter(client, **options):
    """Settings as `variables:` in database.yml gives them, other ones for each client."""
    return Adapter({"statement_timeout": f"'{client.number + 10}s'", "lock_timeout": "5000",
                    "idle_in_transaction_session_timeout": f"'{client.number + 30}min'", "work_mem": "DEFAULT"}, **options)


def settings_at_connect(client):
    """They hold whatever server answers; those of one client never show at another."""
    raw = adapter(client, options=f" application_name=rails{client.number}".encode())
    for _ in range(8):
        client.say("show", *(raw.execute(f"SHOW {name}")[0][0] for name in SHOWN))
        client.say("reported", *(raw.raw.parameter_status(name).decode() for name in
                                 (b"TimeZone", b"IntervalStyle", b"standard_conforming_strings", b"application_name")))
    client.say("interval", raw.select("SELECT $1::interval", "1 day 02:03:04"))
    client.say("time", raw.select("SELECT $1::timestamptz", "2026-07-01 12:00:00+09"))
    raw.reset()
    for _ in range(4):
        client.say("after reset", *(raw.execute(f"SHOW {name}")[0][0] for name in SHOWN))
    raw.close()


def prepared_statements(client):
    """Names a1, a2 ... of all clients mean different texts at the same time."""
    raw = adapter(client)
    texts = [f'SELECT $1::int + {number} + {client.number} AS "sum"' for number in range(5)]
    if client.number % 2:
        texts.reverse()
    for turn in range(20):
        client.say("select", raw.select(texts[turn % len(texts)], turn), sorted(raw.statements.values()))
        client.say("once", raw.select_once("SELECT $1::text", f"{client.number}.{turn}"))
    raw.execute("BEGIN")
    try:
        raw.select("SELECT 1 / ($1::int - 1)", 1)
    except Failed as error:
        client.fails("failed", error)
    raw.execute("ROLLBACK")
    client.say("again", raw.select("SELECT 1 / ($1::int - 1)", 2))
    raw.execute("DEALLOCATE ALL")
    raw.statements.clear()
    client.say("fresh", raw.select(texts[0], 1))
    try:
        raw.rows(raw.raw.exec_prepared(b"a1", [b"1"]))
    except Failed as error:
        client.fails("deallocated", error)
    raw.close()


def records(client):
    """Tables, columns, inserts with RETURNING, transactions inside transactions, locks."""
    raw = adapter(client)
    table = f"posts_{client.number}"
    raw.execute(f'CREATE TABLE "{table}" ("id" bigserial primary key, "title" character varying, "at" timestamp(6))')
    client.say("columns", raw.execute(COLUMNS.format(table)))
    insert = f'INSERT INTO "{table}" ("title", "at") VALUES ($1, $2) RETURNING "id"'
    for number in range(3):
        raw.execute("BEGIN")
        client.say("insert", raw.select(insert, f"title {number}", "2026-01-02 03:04:05"))
        raw.execute("SAVEPOINT active_record_1")
        client.say("inner", raw.select(insert, f"inner {number}", None))
        if number % 2:
            try:
                raw.select(f'INSERT INTO "{table}" ("id") VALUES ($1)', 1)
            except Failed as error:
                client.fails("duplicate", error)
            raw.execute("ROLLBACK TO SAVEPOINT active_record_1")
        raw.execute("RELEASE SAVEPOINT active_record_1")
        raw.execute("COMMIT")
    client.say("rows", raw.select(f'SELECT "{table}".* FROM "{table}" WHERE "{table}"."id" > $1 ORDER BY "id"', 0))
    raw.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
    client.say("lock", raw.select(f'SELECT "{table}".* FROM "{table}" WHERE "{table}"."id" = $1 LIMIT $2 FOR UPDATE', 1, 1))
    raw.execute("COMMIT")
    raw.execute(f'ALTER TABLE "{table}" ADD "extra" integer DEFAULT 7')
    raw.reset()
    client.say("migrated", raw.select(f'SELECT "{table}".* FROM "{table}" WHERE "{table}"."id" = $1', 1))
    raw.execute(f'DROP TABLE "{table}"')
    raw.close()


def migrations(client):
    """One advisory lock for all who migrate; who does not get it, tries again."""
    raw = adapter(client)
    key = 2053462845 * zlib.crc32(raw.raw.db)
    for _ in range(2):
        while raw.execute(f"SELECT pg_try_advisory_lock({key})") != [("t",)]:
            pass
        raw.execute('CREATE TABLE "schema_migrations" ("version" character varying NOT NULL PRIMARY KEY)')
        raw.execute('DROP TABLE "schema_migrations"')
        client.say("unlock", raw.execute(f"SELECT pg_advisory_unlock({key})"))
    raw.close()


def schemas(client):
    """A tenant by search_path: the same prepared text reads each client's own table."""
    raw = adapter(client, schemas=f"tenant_{client.number}, public")
    raw.execute(f"CREATE SCHEMA tenant_{client.number}")
    raw.execute(f"CREATE TABLE users AS SELECT 'user of {client.number}' AS name")
    for _ in range(8):
        client.say("tenant", raw.select("SELECT name FROM users WHERE name <> $1", ""), raw.execute("SELECT current_schemas(false)"))
    other = (client.number + 1) % harness.CLIENTS
    client.meet()
    raw.execute(f"SET search_path TO tenant_{other}")
    for _ in range(4):
        client.say("another", raw.select("SELECT name FROM users WHERE name <> $1", "-"))
    client.meet()
    raw.execute(f"DROP SCHEMA tenant_{client.number} CASCADE")
    raw.close()


if __name__ == "__main__":
    harness.run_threads([settings_at_connect, prepared_statements, records, migrations, schemas])
