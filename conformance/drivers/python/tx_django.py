"""Django's ORM in transaction pooling: its settings at connect, persistent connections, atomic requests, savepoints.

Every client is a thread, and Django gives each thread connections of its own.
"""

import os

import django
from django.conf import settings

import tx_harness as harness

ALIASES = ("default", "tokyo", "strict")


def database(**more):
    """The server by the PG* variables, with persistent connections."""
    env = os.environ
    return {"ENGINE": "django.db.backends.postgresql", "NAME": env["PGDATABASE"], "USER": env["PGUSER"],
            "PASSWORD": env["PGPASSWORD"], "HOST": env["PGHOST"], "PORT": env["PGPORT"], "CONN_MAX_AGE": None,
            "ATOMIC_REQUESTS": True, **more}


settings.configure(
    DATABASES={
        "default": database(CONN_HEALTH_CHECKS=True),
        "tokyo": database(TIME_ZONE="Asia/Tokyo", OPTIONS={"server_side_binding": True, "options": "-c statement_timeout=21000"}),
        "strict": database(OPTIONS={"isolation_level": 4, "assume_role": os.environ["PGDATABASE"] + "_role"}),
    },
    USE_TZ=True, TIME_ZONE="Europe/Paris", SECRET_KEY="not one", INSTALLED_APPS=[], DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"],
)
django.setup()

import datetime  # noqa: E402

from django.core.handlers.base import BaseHandler  # noqa: E402
from django.db import IntegrityError, close_old_connections, connection, connections, models, transaction  # noqa: E402
from django.http import HttpResponse  # noqa: E402
from django.test import RequestFactory  # noqa: E402
from django.urls import path  # noqa: E402
from django.utils import timezone  # noqa: E402

SHOWN = ("timezone", "default_transaction_isolation", "statement_timeout", "client_encoding", "role", "search_path")


class Author(models.Model):
    name = models.CharField(max_length=50, unique=True)
    seen = models.DateTimeField(null=True)

    class Meta:
        app_label = "conformance"
        indexes = [models.Index(fields=["seen"])]


class Book(models.Model):
    author = models.ForeignKey(Author, on_delete=models.CASCADE)
    title = models.TextField()
    tags = models.JSONField(default=dict)

    class Meta:
        app_label = "conformance"


def one(sql, *arguments, using="default"):
    with connections[using].cursor() as cursor:
        cursor.execute(sql, arguments or None)
        return cursor.fetchone()[0]


def session_settings(client):
    """Each alias has its own; they hold over many statements and over the end of requests."""
    for _ in range(4):
        for using in ALIASES:
            shown = [one(f"show {name}", using=using) for name in SHOWN]
            client.say(using, *("ROLE" if "_role" in value else value for value in shown))
            client.say(using, one("select '2026-07-01 12:00:00+00'::timestamptz", using=using),
                       one("select current_user = session_user", using=using))
        close_old_connections()
    tokyo = connections["tokyo"]
    with tokyo.cursor() as cursor:
        cursor.execute("set application_name to %s" % f"mine_{client.number}")
        for _ in range(4):
            client.say("set", one("show application_name", using="tokyo"))
    tokyo.close()
    client.say("reconnected", one("show application_name", using="tokyo"), one("show timezone", using="tokyo"))
    connections.close_all()


def models_in_use(client):
    """Objects, savepoints, locks, bulk inserts, iterators by server-side cursors, values that a row sends back."""
    mine = f"author {client.number}"
    author = Author.objects.create(name=mine, seen=datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc))
    client.say("seen", Author.objects.get(name=mine).seen, Author.objects.filter(seen__year=2026, name=mine).count())
    Book.objects.bulk_create([Book(author=author, title=f"title {n}", tags={"n": n}) for n in range(60)])
    with transaction.atomic():
        try:
            with transaction.atomic():
                Author.objects.create(name=mine)
        except IntegrityError as error:
            client.fails("duplicate", error)
        transaction.on_commit(lambda: client.say("on commit", connection.in_atomic_block))
        locked = Author.objects.select_for_update().get(pk=author.pk)
        locked.seen = None
        locked.save()
        sid = transaction.savepoint()
        Book.objects.filter(author=author, title="title 1").delete()
        transaction.savepoint_rollback(sid)
        client.say("inside", Book.objects.filter(author=author).count())
    # Outside a transaction such a cursor is WITH HOLD, inside it is not.
    client.say("iterated", [book.title for book in Book.objects.filter(author=author).order_by("pk").iterator(chunk_size=7)][::9])
    with transaction.atomic():
        client.say("iterated", sum(1 for _ in Book.objects.filter(author=author).iterator(chunk_size=7)))
    client.say("json", Book.objects.filter(author=author, tags__n__gte=55).values_list("tags", flat=True).count())
    book, made = Book.objects.update_or_create(author=author, title="title 2", defaults={"tags": {"n": -1}})
    client.say("updated", made, book.tags)
    client.say("get_or_create", Author.objects.get_or_create(name=mine)[1])
    client.say("deleted", Book.objects.filter(author=author).delete()[0], author.delete()[0])
    client.say("left", one("select count(*) from pg_cursors where name <> ''"))
    connections.close_all()


def view(request, number):
    """A view inside ATOMIC_REQUESTS."""
    with connection.cursor() as cursor:
        cursor.execute("set local work_mem to '11MB'")
    Author.objects.create(name=f"request {number}")
    if request.GET.get("fail"):
        raise ValueError("undo all of this")
    return HttpResponse(f"{connection.in_atomic_block} {Author.objects.filter(name=f'request {number}').count()}")


urlpatterns = [path("view/<int:number>", view)]


def atomic_requests(client):
    """A request that fails leaves nothing, neither rows nor settings; its connection is used again."""
    handler = BaseHandler()
    for turn in range(4):
        handle = handler.make_view_atomic(view)
        request = RequestFactory().get("/", {"fail": "1"} if turn % 2 == 0 else {})
        try:
            client.say("answer", handle(request, number=client.number).content)
        except ValueError as error:
            client.fails("failed", error)
        client.say("after", Author.objects.filter(name=f"request {client.number}").delete()[0], one("show work_mem"))
        close_old_connections()
    connections.close_all()


def isolated(client):
    """The role and isolation level of an alias, through transactions."""
    for _ in range(3):
        with transaction.atomic(using="strict"):
            client.say("strict", one("show transaction_isolation", using="strict"))
            with transaction.atomic(using="strict"):
                client.say("role", one("select current_user like '%%_role' and %s", True, using="strict"))
        with transaction.atomic(using="default"):
            client.say("default", one("show transaction_isolation"), one("select current_user"))
    with timezone.override("Asia/Tokyo"):
        client.say("override", one("show timezone"))
    connections.close_all()


def schema_changes(client):
    """Tables made and altered as migrations do it, then read back by introspection."""
    schema_model = type(f"Made{client.number}", (models.Model,), {
        "__module__": __name__, "name": models.CharField(max_length=9, db_index=True),
        "Meta": type("Meta", (), {"app_label": "conformance", "db_table": f"made_{client.number}"})})
    with connection.schema_editor() as editor:
        editor.create_model(schema_model)
    schema_model.objects.create(name="one")
    extra = models.IntegerField(default=7)
    extra.set_attributes_from_name("extra")
    with connection.schema_editor() as editor:
        editor.add_field(schema_model, extra)
    with connection.cursor() as cursor:
        client.say("columns", [column.name for column in connection.introspection.get_table_description(cursor, f"made_{client.number}")])
        client.say("constraints", len(connection.introspection.get_constraints(cursor, f"made_{client.number}")))
    client.say("extra", one(f"select extra from made_{client.number}"))
    with connection.schema_editor() as editor:
        editor.delete_model(schema_model)
    connections.close_all()


def prepare():
    """Tables and the role, before the clients start."""
    with connection.cursor() as cursor:
        role = os.environ["PGDATABASE"] + "_role"
        cursor.execute(f"drop role if exists {role}; create role {role}; grant {role} to current_user")
    with connection.schema_editor() as editor:
        editor.create_model(Author)
        editor.create_model(Book)
    connections.close_all()


if __name__ == "__main__":
    prepare()
    harness.run_threads([session_settings, models_in_use, atomic_requests, isolated, schema_changes])
