"""SQLAlchemy in transaction pooling, over psycopg and over asyncpg, with its own pool in front."""

import asyncio
import os
import sys
import threading

import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.ext.asyncio import create_async_engine

import tx_harness as harness

HELD = "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"


def url(driver):
    """The server by the PG* variables."""
    env = os.environ
    return sa.URL.create(f"postgresql+{driver}", env["PGUSER"], env["PGPASSWORD"], env["PGHOST"], int(env["PGPORT"]),
                         env["PGDATABASE"])


# One engine for all clients, as an application has it; made at first use.
shared_lock = threading.Lock()
shared = []


def engine():
    with shared_lock:
        if not shared:
            made = sa.create_engine(url("psycopg"), pool_size=harness.CLIENTS, pool_pre_ping=True)

            @sa.event.listens_for(made, "connect")
            def connected(raw, _record):
                raw.autocommit = True
                raw.execute("set timezone to 'Europe/Berlin'")
                raw.execute("set statement_timeout to '25s'")
                raw.autocommit = False

            shared.append(made)
        return shared[0]


def value(conn, sql, **binds):
    return conn.execute(sa.text(sql), binds).scalar()


def settings_by_event(client):
    """Settings of the connect event hold; what a borrower sets in a rolled back transaction does not."""
    for number in range(5):
        with engine().connect() as conn:
            client.say("event", value(conn, "show timezone"), value(conn, "show statement_timeout"))
            conn.execute(sa.text(f"set application_name to 'undone {client.number}'"))
            client.say("inside", value(conn, "show application_name"))
        with engine().begin() as conn:
            client.say("outside", value(conn, "show application_name"), value(conn, "select :n * 2", n=number))


def isolation_levels(client):
    """By engine, by connection, and back to the default when the connection returns to the pool."""
    for level in ("SERIALIZABLE", "REPEATABLE READ", "READ COMMITTED", "AUTOCOMMIT"):
        with engine().connect().execution_options(isolation_level=level) as conn:
            client.say("connection", value(conn, "show transaction_isolation"))
            client.say("connection", value(conn, "select :n", n=client.number))
        with engine().connect() as conn:
            client.say("default", value(conn, "show transaction_isolation"))
    with engine().connect().execution_options(postgresql_readonly=True, postgresql_deferrable=True,
                                              isolation_level="SERIALIZABLE") as conn:
        client.say("read only", value(conn, "show transaction_read_only"), value(conn, "show transaction_deferrable"))
    own = sa.create_engine(url("psycopg"), isolation_level="REPEATABLE READ", pool_size=1,
                           connect_args={"options": f"-c search_path=s{client.number},public"})
    for _ in range(3):
        with own.connect() as conn:
            client.say("engine", value(conn, "show transaction_isolation"), value(conn, "show search_path"))
    own.dispose()


class Base(orm.DeclarativeBase):
    pass


class Parent(Base):
    __tablename__ = "parents"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str]
    children: orm.Mapped[list["Child"]] = orm.relationship(order_by="Child.id")


class Child(Base):
    __tablename__ = "children"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    parent_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey("parents.id"))
    name: orm.Mapped[str]


def sessions(client):
    """The ORM: schema translation, unit of work, savepoints, many inserts at once, eager loading."""
    schema = f"orm_{client.number}"
    with engine().begin() as conn:
        conn.execute(sa.schema.CreateSchema(schema))
    own = engine().execution_options(schema_translate_map={None: schema})
    Base.metadata.create_all(own)
    with orm.Session(own) as session:
        parent = Parent(name=f"parent {client.number}", children=[Child(name=f"c{n}") for n in range(150)])
        session.add(parent)
        session.flush()
        client.say("flushed", parent.id, parent.children[-1].id)
        session.commit()
        try:
            with session.begin_nested():
                session.add(Parent(id=parent.id, name="again"))
                session.flush()
        except sa.exc.IntegrityError as error:
            client.fails("duplicate", error)
        parent.name = "changed"
        session.commit()
        client.say("name", parent.name)
    for _ in range(4):
        with orm.Session(own) as session:
            found = session.scalars(sa.select(Parent).options(orm.selectinload(Parent.children))).one()
            client.say("loaded", found.name, len(found.children), found.children[3].name)
            locked = session.scalars(sa.select(Child).where(Child.name == "c7").with_for_update()).one()
            client.say("locked", locked.id)
    with engine().connect() as conn:
        inspector = sa.inspect(conn)
        client.say("tables", sorted(inspector.get_table_names(schema)),
                   [column["name"] for column in inspector.get_columns("children", schema)],
                   inspector.get_foreign_keys("children", schema)[0]["referred_table"])
    with engine().begin() as conn:
        conn.execute(sa.schema.DropSchema(schema, cascade=True))


def server_side_cursors(client):
    """stream_results and yield_per, in and out of AUTOCOMMIT."""
    numbers = sa.text("select i from generate_series(1, 300) i where i > :low")
    with engine().connect() as conn:
        rows = conn.execution_options(yield_per=20).execute(numbers, {"low": client.number})
        client.say("sum", sum(row.i for part in rows.partitions() for row in part))
        with conn.execution_options(stream_results=True, max_row_buffer=10).execute(numbers, {"low": 250}) as rows:
            client.say("first", rows.fetchmany(3))
    with engine().connect() as conn:
        client.say("after", value(conn, "select count(*) from pg_cursors where name <> ''"))


def two_phases(client):
    """begin_twophase, committed and rolled back."""
    with engine().begin() as conn:
        conn.execute(sa.text(f"create table phases_{client.number} (i int)"))
    for number, word in enumerate(("commit", "rollback", "commit")):
        with engine().connect() as conn:
            transaction = conn.begin_twophase(f"{conn.engine.url.database}-{client.number}-{number}")
            conn.execute(sa.text(f"insert into phases_{client.number} values (:n)"), {"n": number})
            transaction.prepare()
            getattr(transaction, word)()
        with engine().connect() as conn:
            client.say(word, conn.execute(sa.text(f"select i from phases_{client.number} order by i")).all())
    with engine().begin() as conn:
        conn.execute(sa.text(f"drop table phases_{client.number}"))


def resets(client):
    """pool_reset_on_return, its default and in the caller's own way."""
    own = sa.create_engine(url("psycopg"), pool_size=1, pool_reset_on_return=None)

    @sa.event.listens_for(own, "reset")
    def reset(raw, _record, _state):
        raw.rollback()
        raw.autocommit = True
        raw.execute("discard all")
        raw.autocommit = False

    for number in range(4):
        with own.begin() as conn:
            client.say("borrowed", value(conn, "show work_mem"), value(conn, HELD))
            conn.execute(sa.text("set work_mem to '9MB'"))
            if number == 1:
                value(conn, "select pg_advisory_lock(:n)", n=client.number)
        with own.connect() as conn:
            client.say("next", value(conn, "show work_mem"), value(conn, HELD))
    own.dispose()


def over_asyncpg(client):
    """The same pool over asyncpg, each client with an engine and loop of its own."""
    asyncio.run(asynchronous(client))


async def asynchronous(client):
    own = create_async_engine(url("asyncpg"), pool_size=2, isolation_level="REPEATABLE READ",
                              connect_args={"server_settings": {"application_name": f"async{client.number}"}})
    async with own.begin() as conn:
        await conn.execute(sa.text(f"create table async_{client.number} (i int, w text)"))
        await conn.execute(sa.text(f"insert into async_{client.number} values (:i, :w)"), [{"i": n, "w": f"w{n}"} for n in range(50)])
    for number in range(6):
        async with own.connect() as conn:
            client.say("settings", (await conn.execute(sa.text("show transaction_isolation"))).scalar(),
                       (await conn.execute(sa.text("show application_name"))).scalar())
            rows = await conn.stream(sa.text(f"select i from async_{client.number} where i < :n"), {"n": 5 + number})
            client.say("stream", [row.i async for row in rows])
    async with own.execution_options(isolation_level="AUTOCOMMIT").connect() as conn:
        await conn.execute(sa.text("set timezone to 'Asia/Tokyo'"))
        for _ in range(3):
            client.say("autocommit", (await conn.execute(sa.text("show timezone"))).scalar())
        await conn.execute(sa.text("reset timezone"))
    async with own.begin() as conn:
        nested = await conn.begin_nested()
        await conn.execute(sa.text(f"delete from async_{client.number}"))
        await nested.rollback()
        client.say("count", (await conn.execute(sa.text(f"select count(*) from async_{client.number}"))).scalar())
        await conn.execute(sa.text(f"drop table async_{client.number}"))
    await own.dispose()


if __name__ == "__main__":
    harness.run_threads([settings_by_event, isolation_levels, sessions, server_side_cursors, two_phases, resets, over_asyncpg])
