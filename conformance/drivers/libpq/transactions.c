/*
 * libpq's pipeline mode in transaction pooling, with the behaviours that PostgreSQL's own libpq_pipeline tests. Several
 * clients run the same steps at the same time, each a thread with a connection of its own; what each of them was told
 * is printed client by client. FAIL marks what the program itself holds to be wrong.
 */
#include <libpq-fe.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLIENTS 6
#define LINES_MAX (256 * 1024)

struct client {
	const char *scenario;
	int number;
	int broken;
	PGconn *conn;
	size_t used;
	char lines[LINES_MAX];
};

struct scenario {
	const char *name;
	void (*run)(struct client *);
};

static void put(struct client *client, const char *prefix, const char *step, const char *format, va_list values)
{
	char text[512];
	size_t room = LINES_MAX - client->used;
	int length;

	vsnprintf(text, sizeof text, format, values);
	for (char *at = text; *at; at++)
		if (*at == '\n')
			*at = '|';
	length = snprintf(client->lines + client->used, room, "%s%s[%d] %s: %s\n", prefix, client->scenario,
					  client->number, step, text);
	if (length > 0 && (size_t) length < room)
		client->used += (size_t) length;
}

static void say(struct client *client, const char *step, const char *format, ...)
{
	va_list values;

	va_start(values, format);
	put(client, "", step, format, values);
	va_end(values);
}

static void broken(struct client *client, const char *step, const char *format, ...)
{
	va_list values;

	va_start(values, format);
	put(client, "FAIL ", step, format, values);
	va_end(values);
	client->broken = 1;
}

/* A call that must succeed. */
static void must(struct client *client, const char *step, int good)
{
	if (!good)
		broken(client, step, "%s", PQerrorMessage(client->conn));
}

/* Says the next result, or the end of a statement's results; its status. */
static ExecStatusType next(struct client *client, const char *step)
{
	PGresult *result = PQgetResult(client->conn);
	ExecStatusType status;

	if (result == NULL) {
		say(client, step, "end");
		return PGRES_EMPTY_QUERY;
	}
	status = PQresultStatus(result);
	if (status == PGRES_TUPLES_OK || status == PGRES_SINGLE_TUPLE)
		say(client, step, "%s %d rows, first %.20s", PQresStatus(status), PQntuples(result),
			PQntuples(result) && PQnfields(result) ? PQgetvalue(result, 0, 0) : "none");
	else if (status == PGRES_FATAL_ERROR)
		say(client, step, "%s %s", PQresStatus(status), PQresultErrorField(result, PG_DIAG_SQLSTATE));
	else
		say(client, step, "%s %s, %d parameters, %d columns", PQresStatus(status), PQcmdStatus(result),
			PQnparams(result), PQnfields(result));
	PQclear(result);
	return status;
}

static void send_text(struct client *client, const char *sql, const char *value)
{
	must(client, sql, PQsendQueryParams(client->conn, sql, value ? 1 : 0, NULL, value ? &value : NULL, NULL, NULL, 0));
}

static void send_number(struct client *client, const char *sql, int number)
{
	char text[16];

	snprintf(text, sizeof text, "%d", number);
	send_text(client, sql, text);
}

/* Outside of pipelines. */
static void run_sql(struct client *client, const char *format, ...)
{
	char sql[512];
	va_list values;
	PGresult *result;

	va_start(values, format);
	vsnprintf(sql, sizeof sql, format, values);
	va_end(values);
	result = PQexec(client->conn, sql);
	if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK)
		broken(client, sql, "%s", PQerrorMessage(client->conn));
	else if (PQntuples(result))
		say(client, sql, "%s", PQgetvalue(result, 0, 0));
	PQclear(result);
}

static void enter(struct client *client) { must(client, "enter", PQenterPipelineMode(client->conn)); }
static void sync_up(struct client *client) { must(client, "sync", PQpipelineSync(client->conn)); }
static void leave(struct client *client) { must(client, "leave", PQexitPipelineMode(client->conn)); }

static void disallowed(struct client *client)
{
	PGresult *result;

	enter(client);
	result = PQexec(client->conn, "select 1");
	say(client, "PQexec", "%s %s", PQresStatus(PQresultStatus(result)), PQerrorMessage(client->conn));
	PQclear(result);
	say(client, "PQsendQuery", "%d", PQsendQuery(client->conn, "select 1"));
	say(client, "twice", "%d", PQenterPipelineMode(client->conn));
	leave(client);
	run_sql(client, "select %d", client->number);
}

static void simple_pipeline(struct client *client)
{
	for (int round = 0; round < 10; round++) {
		enter(client);
		send_number(client, "select $1::int + 100", client->number);
		sync_up(client);
		say(client, "too early", "%d", PQexitPipelineMode(client->conn));
		for (int i = 0; i < 3; i++)
			next(client, "result");
		leave(client);
	}
}

static void multi_pipelines(struct client *client)
{
	enter(client);
	for (int i = 0; i < 8; i++) {
		send_number(client, "select $1::int * 7", i * 10 + client->number);
		send_text(client, "select pg_backend_pid() > 0", NULL);
		sync_up(client);
	}
	for (int i = 0; i < 8 * 5; i++)
		next(client, "result");
	leave(client);
}

/* Results arrive without a Sync, by Flush alone. */
static void nosync(struct client *client)
{
	enter(client);
	for (int i = 0; i < 5; i++) {
		send_number(client, "select repeat('x', 100 * $1)", i);
		must(client, "flush", PQsendFlushRequest(client->conn));
		must(client, "flush", PQflush(client->conn) == 0);
		next(client, "flushed");
		next(client, "flushed");
	}
	sync_up(client);
	next(client, "synced");
	leave(client);
}

/* An error aborts up to the next Sync, no further. */
static void pipeline_abort(struct client *client)
{
	run_sql(client, "create table abort_%d (i int)", client->number);
	for (int round = 0; round < 3; round++) {
		char insert[64];

		snprintf(insert, sizeof insert, "insert into abort_%d values ($1)", client->number);
		enter(client);
		send_number(client, insert, 1);
		send_number(client, "select no_such_function($1)", 2);
		send_number(client, insert, 3);
		sync_up(client);
		send_number(client, insert, 4);
		sync_up(client);
		for (int i = 0; i < 6; i++)
			next(client, "aborted");
		say(client, "status", "%d", (int) PQpipelineStatus(client->conn));
		for (int i = 0; i < 4; i++)
			next(client, "after");
		leave(client);
		run_sql(client, "select string_agg(i::text, ',') from abort_%d", client->number);
	}
	enter(client);
	send_text(client, "select 1.0/g from generate_series(3, -1, -1) g", NULL);
	must(client, "single", PQsetSingleRowMode(client->conn));
	sync_up(client);
	while (next(client, "single") != PGRES_PIPELINE_SYNC && !client->broken)
		;
	leave(client);
	run_sql(client, "drop table abort_%d", client->number);
}

/* Prepare, describe and execute, statement and portal, in pipelines of their own. */
static void prepared(struct client *client)
{
	char number[16];
	const char *values[1] = {number};

	snprintf(number, sizeof number, "%d", client->number);
	for (int round = 0; round < 3; round++) {
		char name[16];

		snprintf(name, sizeof name, "select_%d", round);
		enter(client);
		must(client, "prepare", PQsendPrepare(client->conn, name, "select $1::int, '42', $1::numeric, interval '1 sec'", 1, NULL));
		must(client, "describe", PQsendDescribePrepared(client->conn, name));
		sync_up(client);
		for (int i = 0; i < 5; i++)
			next(client, "prepared");
		for (int i = 0; i < 4; i++)
			must(client, "execute", PQsendQueryPrepared(client->conn, name, 1, values, NULL, NULL, 0));
		sync_up(client);
		for (int i = 0; i < 9; i++)
			next(client, "executed");
		must(client, "missing", PQsendDescribePrepared(client->conn, "missing"));
		sync_up(client);
		for (int i = 0; i < 3; i++)
			next(client, "missing");
		leave(client);
		run_sql(client, "begin");
		run_sql(client, "declare cursor_one cursor for select %d", client->number);
		enter(client);
		must(client, "portal", PQsendDescribePortal(client->conn, "cursor_one"));
		sync_up(client);
		for (int i = 0; i < 3; i++)
			next(client, "portal");
		leave(client);
		run_sql(client, "commit");
		run_sql(client, "deallocate select_%d", round);
	}
}

static void singlerow(struct client *client)
{
	enter(client);
	for (int i = 0; i < 3; i++) {
		send_number(client, "select generate_series(42, $1)", 44 + i);
		must(client, "flush", PQsendFlushRequest(client->conn));
	}
	sync_up(client);
	for (int statement = 0; statement < 3; statement++) {
		if (statement != 1)
			must(client, "single", PQsetSingleRowMode(client->conn));
		while (next(client, "row") != PGRES_EMPTY_QUERY && !client->broken)
			;
	}
	next(client, "sync");
	leave(client);
}

/* A transaction that fails in one pipeline and is ended in the next. */
static void transaction(struct client *client)
{
	char insert[64];
	const char *value = "7";

	run_sql(client, "create table transaction_%d (i int)", client->number);
	snprintf(insert, sizeof insert, "insert into transaction_%d values ($1)", client->number);
	enter(client);
	must(client, "prepare", PQsendPrepare(client->conn, "rollback", "rollback", 0, NULL));
	send_text(client, "begin", NULL);
	send_text(client, "set local application_name to 'local'", NULL);
	send_text(client, "select 0 / 0", NULL);
	must(client, "skipped", PQsendQueryPrepared(client->conn, "rollback", 0, NULL, NULL, NULL, 0));
	send_text(client, insert, value);
	sync_up(client);
	send_text(client, insert, value);
	sync_up(client);
	must(client, "rollback", PQsendQueryPrepared(client->conn, "rollback", 0, NULL, NULL, NULL, 0));
	send_text(client, insert, value);
	sync_up(client);
	send_text(client, "begin", NULL);
	send_text(client, insert, value);
	send_text(client, "savepoint s", NULL);
	send_text(client, insert, value);
	send_text(client, "rollback to s", NULL);
	send_text(client, "commit", NULL);
	send_text(client, "show application_name", NULL);
	sync_up(client);
	for (int i = 0; i < 13 + 3 + 5 + 15; i++)
		next(client, "result");
	leave(client);
	run_sql(client, "select count(*) from transaction_%d", client->number);
	run_sql(client, "drop table transaction_%d", client->number);
}

static int wait_for(struct client *client, short events)
{
	struct pollfd ready = {.fd = PQsocket(client->conn), .events = events};

	return poll(&ready, 1, 20000) > 0;
}

/* More requests than buffers hold, sent and read without ever blocking; one of them violates a constraint. */
static void uniqviol(struct client *client)
{
	char insert[96];
	int sent = 0, statements = 0, good = 0, failed = 0, skipped = 0, synced = 0;

	run_sql(client, "create table uniqviol_%d (id bigint primary key, w text)", client->number);
	snprintf(insert, sizeof insert, "insert into uniqviol_%d values ($1, repeat('y', 500)) returning id, w", client->number);
	must(client, "nonblocking", PQsetnonblocking(client->conn, 1) == 0);
	enter(client);
	while (!synced && !client->broken) {
		if (sent <= 1500) {
			if (sent == 1500)
				sync_up(client);
			else
				send_number(client, insert, sent == 700 ? 600 : sent);
			sent++;
		}
		must(client, "flush", PQflush(client->conn) >= 0);
		if (sent > 1500)
			must(client, "wait", wait_for(client, POLLIN));
		must(client, "consume", PQconsumeInput(client->conn));
		while (!PQisBusy(client->conn) && !synced) {
			PGresult *result = PQgetResult(client->conn);

			/* Not busy and nothing there: between two statements, or all is read that was sent. */
			if (result == NULL) {
				if (++statements > sent)
					break;
				continue;
			}
			good += PQresultStatus(result) == PGRES_TUPLES_OK;
			failed += PQresultStatus(result) == PGRES_FATAL_ERROR;
			skipped += PQresultStatus(result) == PGRES_PIPELINE_ABORTED;
			synced += PQresultStatus(result) == PGRES_PIPELINE_SYNC;
			PQclear(result);
		}
	}
	say(client, "results", "%d good, %d failed, %d skipped, %d synced", good, failed, skipped, synced);
	leave(client);
	must(client, "blocking", PQsetnonblocking(client->conn, 0) == 0);
	run_sql(client, "select count(*) from uniqviol_%d", client->number);
	run_sql(client, "drop table uniqviol_%d", client->number);
}

/* Settings inside of pipelines follow the client out of them. */
static void settings(struct client *client)
{
	char set[64];

	for (int round = 0; round < 5; round++) {
		snprintf(set, sizeof set, "set application_name to 'pipe %d %d'", client->number, round);
		enter(client);
		send_text(client, set, NULL);
		send_text(client, "show application_name", NULL);
		sync_up(client);
		send_text(client, "set application_name to 'undone'", NULL);
		send_text(client, "select 1 / 0", NULL);
		sync_up(client);
		send_text(client, "show application_name", NULL);
		sync_up(client);
		for (int i = 0; i < 5 + 5 + 3; i++)
			next(client, "result");
		leave(client);
		run_sql(client, "show application_name");
		say(client, "reported", "%s", PQparameterStatus(client->conn, "application_name"));
	}
}

static const struct scenario scenarios[] = {
	{"disallowed", disallowed}, {"simple_pipeline", simple_pipeline}, {"multi_pipelines", multi_pipelines},
	{"nosync", nosync},			{"pipeline_abort", pipeline_abort},	  {"prepared", prepared},
	{"singlerow", singlerow},	{"transaction", transaction},		  {"uniqviol", uniqviol},
	{"settings", settings},
};

static void *run_client(void *argument)
{
	struct client *client = argument;

	for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
		if (strcmp(scenarios[i].name, client->scenario) == 0) {
			client->conn = PQconnectdb("");
			must(client, "connect", PQstatus(client->conn) == CONNECTION_OK);
			if (!client->broken)
				scenarios[i].run(client);
			PQfinish(client->conn);
		}
	return NULL;
}

/* Whether the arguments leave a scenario: names after a dash are left out, others run alone. */
static int wanted(const char *name, int count, char **arguments)
{
	int alone = 0, named = 0;

	for (int i = 1; i < count; i++) {
		if (arguments[i][0] == '-' && strcmp(arguments[i] + 1, name) == 0)
			return 0;
		alone |= arguments[i][0] != '-';
		named |= strcmp(arguments[i], name) == 0;
	}
	return named || !alone;
}

int main(int count, char **arguments)
{
	static struct client clients[CLIENTS];
	int failed = 0;

	for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
		pthread_t threads[CLIENTS];

		if (!wanted(scenarios[i].name, count, arguments))
			continue;
		for (int number = 0; number < CLIENTS; number++) {
			clients[number].scenario = scenarios[i].name;
			clients[number].number = number;
			clients[number].broken = 0;
			clients[number].used = 0;
			if (pthread_create(&threads[number], NULL, run_client, &clients[number]) != 0)
				return 2;
		}
		for (int number = 0; number < CLIENTS; number++) {
			pthread_join(threads[number], NULL);
			fwrite(clients[number].lines, 1, clients[number].used, stdout);
			failed |= clients[number].broken;
		}
		printf("done %s\n", scenarios[i].name);
		fflush(stdout);
	}
	return failed;
}
