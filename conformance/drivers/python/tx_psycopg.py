"""psycopg 3 in transaction pooling: everything an application may do with a session, by its defaults."""

import threading

import psycopg
from psycopg_pool import ConnectionPool

import tx_harness as harness


def connect(**options):
    return psycopg.connect("", autocommit=True, **options)


def value(conn, sql, *arguments):
    return conn.execute(sql, arguments or None).fetchone()[0]


def moves(client):
    """Asks until servers have changed, without which nothing here means much."""
    with connect() as conn:
        servers = set()
        while len(servers) < harness.SERVERS:
            servers.add(value(conn, "select pg_backend_pid()"))
        client.remark(f"servers {len(servers)}")


def prepared_by_default(client):
    """Prepared at the sixth execution; the same text by all clients and another by each."""
    with connect() as conn:
        for number in range(12):
            client.say("common", value(conn, "select %s::int * 2", number))
            client.say("own", value(conn, f"select %s::int + {client.number}", number))
            client.say("text", value(conn, "select %s || '!'", f"t{number}"))
        client.say("table", conn.execute("select oid::int, typname from pg_type where typname = %s", ("int4",)).fetchall())


def prepared_at_once(client):
    """prepare_threshold=0 with a small cache: the driver closes the oldest again and again."""
    with connect(prepare_threshold=0) as conn:
        conn.prepared_max = 3
        for number in range(30):
            client.say("cached", value(conn, f"select %s::int + {number % 7} + {client.number}", number))
        conn.prepare_threshold = None
        client.say("never", value(conn, "select %s::int", 5))


def prepared_after_ddl(client):
    """The driver throws away its statements by DEALLOCATE ALL after a DROP or ALTER."""
    with connect(prepare_threshold=0) as conn:
        table = f"ddl_{client.number}"
        conn.execute(f"create table {table} (a int)")
        conn.execute(f"insert into {table} values (1)")
        client.say("before", conn.execute(f"select * from {table}").fetchall())
        conn.execute(f"alter table {table} add b int default 2")
        client.say("altered", conn.execute(f"select * from {table}").fetchall())
        conn.execute(f"drop table {table}")
        conn.execute(f"create table {table} (c text)")
        client.say("remade", conn.execute(f"select * from {table}").fetchall())
        conn.execute(f"drop table {table}")


def prepared_and_search_path(client):
    """One text means another table under another search_path, prepared or not."""
    with connect(prepare_threshold=0) as conn:
        for schema in ("a", "b"):
            conn.execute(f"create schema s{client.number}_{schema}")
            conn.execute(f"create table s{client.number}_{schema}.here as select '{schema}{client.number}' as it")
        for turn in range(6):
            schema = "ab"[turn % 2]
            conn.execute(f"set search_path to s{client.number}_{schema}")
            client.say("here", value(conn, "select it from here"))
            client.say("schema", value(conn, "select current_schema()"))
        conn.execute(f"drop schema s{client.number}_a, s{client.number}_b cascade")


def deallocate_all(client):
    """SQL-level statements, and DEALLOCATE ALL and DISCARD ALL among the driver's own."""
    with connect(prepare_threshold=0) as conn:
        for word in ("deallocate all", "discard plans", "discard all"):
            for number in range(3):
                client.say("driver's", value(conn, "select %s::int + 10", number))
            conn.execute(word)
            for number in range(3):
                client.say(word, value(conn, "select %s::int + 10", number))
        conn.execute(f"prepare mine (int) as select $1 * {client.number}")
        for number in range(4):
            client.say("execute", value(conn, f"execute mine({number})", ))
        conn.execute("deallocate mine")
        try:
            conn.execute("execute mine(1)")
        except psycopg.Error as error:
            client.fails("gone", error)


def transactions(client):
    """BEGIN with modes, savepoints, failed transactions, settings in all of them."""
    with connect() as conn:
        conn.execute(f"create table tx_{client.number} (i int)")
        for level in psycopg.IsolationLevel:
            conn.isolation_level = level
            conn.read_only = level is psycopg.IsolationLevel.SERIALIZABLE
            conn.deferrable = conn.read_only
            with conn.transaction():
                client.say("level", value(conn, "show transaction_isolation"), value(conn, "show transaction_read_only"),
                           value(conn, "show transaction_deferrable"))
        conn.isolation_level = conn.read_only = conn.deferrable = None
        client.say("level", value(conn, "show transaction_isolation"), value(conn, "show transaction_read_only"))
        with conn.transaction():
            conn.execute(f"insert into tx_{client.number} values (1)")
            try:
                with conn.transaction():
                    conn.execute(f"insert into tx_{client.number} values (2)")
                    conn.execute("set application_name to undone")
                    conn.execute("select 1/0")
            except psycopg.Error as error:
                client.fails("inner", error)
            client.say("name", value(conn, "show application_name"))
        client.say("rows", conn.execute(f"select i from tx_{client.number}").fetchall())
        conn.autocommit = False
        conn.execute(f"insert into tx_{client.number} values (3)")
        client.say("status", conn.info.transaction_status.name)
        conn.rollback()
        client.say("rows", conn.execute(f"select i from tx_{client.number}").fetchall())
        conn.execute(f"drop table tx_{client.number}")
        conn.commit()


def cursors(client):
    """Named cursors: in a transaction, scrolled, and held over its end."""
    with connect() as conn:
        with conn.transaction(), conn.cursor(name="walk") as cursor:
            cursor.itersize = 7
            cursor.execute("select i from generate_series(1, 50) i where i > %s", (client.number,))
            client.say("sum", sum(row[0] for row in cursor))
        with conn.transaction(), conn.cursor(name="back", scrollable=True) as cursor:
            cursor.execute("select i from generate_series(1, 50) i")
            cursor.scroll(10)
            client.say("scrolled", cursor.fetchone())
            cursor.scroll(-5)
            client.say("back", cursor.fetchmany(3))
        with conn.cursor(name="held", withhold=True) as cursor:
            cursor.execute("select i + %s from generate_series(1, 20) i", (client.number,))
            client.say("held", cursor.fetchmany(5))
            client.say("between", value(conn, "select 1"))
            client.say("held on", cursor.fetchall())
        client.say("open", conn.execute("select name from pg_cursors where name <> ''").fetchall())


def pipelines(client):
    """Pipeline mode: implicit and explicit transactions, settings, and an error half way."""
    with connect() as conn:
        with conn.pipeline() as pipeline:
            cursors = [conn.execute("select %s::int", (number,)) for number in range(40)]
            pipeline.sync()
            conn.execute("select set_config('app.pipe', %s, false)", (str(client.number),))
            last = conn.execute("select current_setting('app.pipe')")
            client.say("numbers", [cursor.fetchone()[0] for cursor in cursors])
            client.say("setting", last.fetchone()[0])
        client.say("setting", value(conn, "select current_setting('app.pipe')"))
        with conn.pipeline(), conn.transaction():
            inside = [conn.execute("select %s::text", (f"{client.number}/{number}",)) for number in range(10)]
        client.say("transaction", [cursor.fetchone()[0] for cursor in inside])
        good, bad, skipped = conn.cursor(), conn.cursor(), conn.cursor()
        try:
            with conn.pipeline() as pipeline:
                good.execute("select 1")
                bad.execute("select 1/0")
                skipped.execute("select 2")
        except psycopg.Error as error:
            client.fails("error", error)
        client.say("good", good.fetchone())
        client.say("after", value(conn, "select %s::int", 3))
        with conn.cursor() as cursor:
            cursor.executemany("select %s::int * 3", [(number,) for number in range(20)], returning=True)
            client.say("executemany", [each.fetchone()[0] for each in cursor.results()])


def copies(client):
    """COPY both ways, text and binary, and one that the client gives up."""
    with connect() as conn, conn.cursor() as cursor:
        cursor.execute(f"create table copy_{client.number} (i int, w text)")
        with cursor.copy(f"copy copy_{client.number} from stdin") as copy:
            for number in range(500):
                copy.write_row((number, "w" * (number % 9)))
        with cursor.copy(f"copy (select i from copy_{client.number} order by i limit 5) to stdout (format binary)") as copy:
            copy.set_types(["int4"])
            client.say("out", list(copy.rows()))
        try:
            with cursor.copy(f"copy copy_{client.number} from stdin") as copy:
                copy.write_row((1, "x"))
                raise KeyError
        except KeyError:
            client.say("given up", value(conn, f"select count(*) from copy_{client.number}"))
        cursor.execute(f"drop table copy_{client.number}")


def two_phases(client):
    """Transactions prepared by one connection and ended on whatever server comes next."""
    with psycopg.connect("") as conn:
        conn.execute(f"create table phases_{client.number} (i int)")
        conn.commit()
        for number, end in enumerate((conn.tpc_commit, conn.tpc_rollback)):
            xid = conn.xid(1, f"{conn.info.dbname}-{client.number}-{number}", "branch")
            conn.tpc_begin(xid)
            conn.execute(f"insert into phases_{client.number} values ({number})")
            conn.tpc_prepare()
            end()
            client.say("rows", conn.execute(f"select i from phases_{client.number}").fetchall())
            conn.commit()
        xid = conn.xid(1, f"{conn.info.dbname}-{client.number}-later", "branch")
        conn.tpc_begin(xid)
        conn.execute(f"insert into phases_{client.number} values (9)")
        conn.tpc_prepare()
        conn.close()
    with psycopg.connect("") as conn:
        mine = [xid for xid in conn.tpc_recover() if xid.gtrid == f"{conn.info.dbname}-{client.number}-later"]
        client.say("recovered", len(mine))
        conn.rollback()
        conn.tpc_commit(mine[0])
        client.say("rows", conn.execute(f"select i from phases_{client.number} order by i").fetchall())
        conn.execute(f"drop table phases_{client.number}")


def settings(client):
    """SET in its forms, kept by the client and undone where PostgreSQL undoes it."""
    zones = ["UTC", "Asia/Tokyo", "Europe/Paris", "America/New_York", "Asia/Kolkata", "Australia/Perth"]
    names = ("timezone", "datestyle", "intervalstyle", "search_path", "statement_timeout", "work_mem", "application_name",
             "standard_conforming_strings", "bytea_output", "extra_float_digits", "lock_timeout", "app.client")

    def show(step):
        client.say(step, *(value(conn, "select current_setting(%s, true)", name) for name in names))

    options = f"-c work_mem={1024 + client.number}kB -c app.client=start{client.number}"
    with connect(options=options, application_name=f"start{client.number}") as conn:
        show("begin")
        conn.execute(f"set timezone to '{zones[client.number]}'")
        conn.execute("set datestyle to 'German, DMY'" if client.number % 2 else "set datestyle to 'ISO, YMD'")
        conn.execute("set session intervalstyle = iso_8601")
        conn.execute(f'set search_path to "Own {client.number}", public')
        conn.execute(f"set statement_timeout = '{client.number + 20}s'")
        conn.execute("select set_config('app.client', %s, false)", (f"it's {client.number}",))
        show("set")
        client.say("reported", conn.info.parameter_status("TimeZone"), conn.info.parameter_status("DateStyle"),
                   conn.info.parameter_status("application_name"))
        client.say("time", value(conn, "select '2026-07-01 12:00:00+00'::timestamptz::text"))
        if client.number % 2 == 0:
            client.say("loaded", value(conn, "select '2026-07-01 12:00:00+00'::timestamptz"))
        with conn.transaction(force_rollback=True):
            conn.execute("set local work_mem to '9MB'")
            conn.execute("set application_name to 'rolled back'")
            show("inside")
        show("rolled back")
        with conn.transaction():
            conn.execute("set local app.client to 'for now'")
            conn.execute(f"set application_name to 'kept {client.number}'")
        show("committed")
        conn.execute("reset work_mem")
        conn.execute("reset application_name")
        conn.execute("set app.client to default")
        show("reset")
        conn.execute("reset all")
        show("reset all")
        conn.execute("set session characteristics as transaction isolation level repeatable read, read only")
        client.say("characteristics", value(conn, "show transaction_isolation"), value(conn, "show transaction_read_only"))
        try:
            conn.execute("create table not_made (i int)")
        except psycopg.Error as error:
            client.fails("read only", error)
        conn.execute("discard all")
        show("discard all")
        client.say("characteristics", value(conn, "show transaction_isolation"), value(conn, "show transaction_read_only"))


def encodings(client):
    """client_encoding from the start and changed on the way."""
    encoding = ("utf8", "latin1", "win1252")[client.number % 3]
    with connect(client_encoding=encoding) as conn:
        for _ in range(3):
            client.say("é", value(conn, "select %s::text", "é"), conn.info.encoding, value(conn, "show client_encoding"))
        conn.execute("set client_encoding to 'latin9'")
        for _ in range(3):
            client.say("€", value(conn, "select '€'"), conn.info.encoding, value(conn, "select length('€')"))


def roles(client):
    """SET ROLE and SET SESSION AUTHORIZATION, with what each may see."""
    with connect() as conn:
        role = f"{conn.info.dbname}_{client.number}"
        conn.execute(f"create role {role}")
        conn.execute(f"create schema {role} authorization {role}")
        for word in (f"set role {role}", "reset role", f"set session authorization {role}", "reset session authorization"):
            conn.execute(word)
            for _ in range(3):
                who = conn.execute("select current_user, session_user").fetchone()
                client.say(word.replace(role, "ROLE"), *("ROLE" if name == role else name for name in who))
        conn.execute(f"set role {role}")
        conn.execute(f"create table {role}.of_role (i int)")
        conn.execute("reset role")
        client.say("owner", value(conn, "select tableowner = %s from pg_tables where schemaname = %s", role, role))
        conn.execute(f"drop owned by {role}")
        conn.execute(f"drop role {role}")


def temporary_tables(client):
    """The same name by every client, with other rows."""
    with connect(prepare_threshold=0) as conn:
        conn.execute("create temporary table mine (i int)")
        for number in range(4):
            conn.execute("insert into mine values (%s)", (client.number * 10 + number,))
            client.say("rows", conn.execute("select i from mine order by i").fetchall())
        conn.execute("create temp view seen as select count(*) as n from mine")
        client.say("view", value(conn, "select n from seen"))
        conn.execute("drop table mine cascade")
        with conn.transaction():
            conn.execute("create temporary table mine on commit drop as select %s::int as i", (client.number,))
            client.say("on commit drop", value(conn, "select i from mine"))
        client.say("left", conn.execute("select to_regclass('pg_temp.mine')").fetchone())


def advisory_locks(client):
    """Locks of the session, counted, on one key for each and one for all."""
    held = "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"
    with connect() as conn:
        value(conn, "select pg_advisory_lock(%s)::text", client.number)
        value(conn, "select pg_advisory_lock(%s)::text", client.number)
        client.say("held", value(conn, held))
        client.say("unlock", value(conn, "select pg_advisory_unlock(%s)", client.number), value(conn, held))
        client.say("unlock", value(conn, "select pg_advisory_unlock(%s)", client.number), value(conn, held))
        client.say("too often", value(conn, "select pg_advisory_unlock(%s)", client.number))
        for _ in range(2):
            value(conn, "select pg_advisory_lock(77)::text")
            client.say("mine alone", value(conn, "select count(*) from pg_locks where locktype = 'advisory' and objid = 77"
                                                 " and granted and database = (select oid from pg_database where"
                                                 " datname = current_database())"))
            value(conn, "select pg_advisory_unlock_all()::text")
        with conn.transaction():
            value(conn, "select pg_advisory_xact_lock(78)::text")
            client.say("transaction's", value(conn, held))
        client.say("left", value(conn, held))


def sequences(client):
    """currval and lastval after nextval."""
    with connect() as conn:
        conn.execute(f"create table seq_{client.number} (id serial, w text)")
        for number in range(5):
            conn.execute(f"insert into seq_{client.number} (w) values (%s)", (str(number),))
            client.say("currval", value(conn, f"select currval('seq_{client.number}_id_seq')"))
            client.say("lastval", value(conn, "select lastval()"))
        conn.execute(f"drop table seq_{client.number}")
    with connect() as conn:
        try:
            conn.execute("select lastval()")
        except psycopg.Error as error:
            client.fails("not yet", error)


def notifications(client):
    """LISTEN with the generator and with a handler; what is rolled back is not sent."""
    with connect() as conn, connect() as other:
        taken = []
        conn.execute(f"listen of_{client.number}")
        conn.execute("listen for_all")
        client.meet()
        for number in range(3):
            other.execute("select pg_notify(%s, %s)", (f"of_{(client.number + 1) % harness.CLIENTS}",
                                                       f"{client.number}:{number}"))
        for notice in conn.notifies(timeout=60, stop_after=3):
            client.say("told", notice.channel, notice.payload)
        client.meet()
        if client.number == 0:
            other.execute("notify for_all, 'one'")
            with other.transaction(force_rollback=True):
                other.execute("notify for_all, 'not sent'")
            with other.transaction():
                other.execute("notify for_all, 'two'")
                other.execute("notify for_all, 'two'")
        for notice in conn.notifies(timeout=60, stop_after=2):
            client.say("all told", notice.channel, notice.payload)
        client.meet()
        conn.add_notify_handler(lambda notice: taken.append((notice.channel, notice.payload,
                                                             notice.pid == conn.info.backend_pid)))
        conn.execute(f"notify of_{client.number}, 'myself'")
        conn.execute("select 1")
        client.say("handler", taken)
        client.say("channels", conn.execute("select * from pg_listening_channels() as c order by c").fetchall())
        conn.execute("unlisten for_all")
        client.meet()
        other.execute("notify for_all, 'nobody'")
        client.meet()
        conn.execute("select 1")
        client.say("unlistened", len(taken), conn.execute("select * from pg_listening_channels()").fetchall())
        conn.execute("unlisten *")


def cancels(client):
    """A cancel meets its own statement."""
    with connect() as conn:
        timer = threading.Timer(0.1 + client.number / 20, conn.cancel_safe)
        timer.start()
        try:
            conn.execute("select pg_sleep(20)")
        except psycopg.Error as error:
            client.fails("cancelled", error)
        timer.join()
        conn.execute("set statement_timeout to '60ms'")
        try:
            conn.execute("select pg_sleep(20)")
        except psycopg.Error as error:
            client.fails("timeout", error)
        conn.execute("set statement_timeout to default")
        client.say("after", value(conn, "select 1"), value(conn, "show statement_timeout"))


def pools(client):
    """psycopg_pool with configure, check and reset."""

    def configure(conn):
        conn.execute(f"set application_name to 'pool {client.number}'")
        conn.execute("set timezone to 'Asia/Tokyo'")
        conn.commit()

    def reset(conn):
        conn.execute("reset all")
        configure(conn)

    with ConnectionPool("", min_size=1, max_size=2, configure=configure, reset=reset,
                        check=ConnectionPool.check_connection) as pool:
        for number in range(5):
            with pool.connection() as conn:
                client.say("borrowed", value(conn, "show application_name"), value(conn, "show timezone"))
                conn.execute(f"set application_name to 'changed {number}'")
                client.say("changed", value(conn, "show application_name"))


if __name__ == "__main__":
    harness.run_threads([moves, prepared_by_default, prepared_at_once, prepared_after_ddl, prepared_and_search_path,
                         deallocate_all, transactions, cursors, pipelines, copies, two_phases, settings, encodings, roles,
                         temporary_tables, advisory_locks, sequences, notifications, cancels, pools])
