/* libpq in pipeline mode: the same steps directly and through a pooler. Prints "ok STEP" or "FAIL STEP: why". */
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static PGconn *conn;
static int failures;
static char why[512];

#define CHECK(condition)                                                                                       \
	do {                                                                                                       \
		if (!(condition)) {                                                                                    \
			snprintf(why, sizeof why, "line %d: %s (%.200s)", __LINE__, #condition, PQerrorMessage(conn));     \
			return 0;                                                                                          \
		}                                                                                                      \
	} while (0)

/* The next result must have this status; a text value is compared when given. */
static int expect(ExecStatusType status, const char *value)
{
	PGresult *result = PQgetResult(conn);
	int good;

	if (result == NULL) {
		snprintf(why, sizeof why, "no result, wanted %s", PQresStatus(status));
		return 0;
	}
	good = PQresultStatus(result) == status;
	if (good && value)
		good = PQntuples(result) == 1 && strcmp(PQgetvalue(result, 0, 0), value) == 0;
	if (!good)
		snprintf(why, sizeof why, "%s instead of %s %s: %.200s", PQresStatus(PQresultStatus(result)),
				 PQresStatus(status), value ? value : "", PQresultErrorMessage(result));
	PQclear(result);
	return good;
}

static int expect_end(void)
{
	PGresult *result = PQgetResult(conn);

	if (result) {
		snprintf(why, sizeof why, "%s instead of the end of a statement", PQresStatus(PQresultStatus(result)));
		PQclear(result);
		return 0;
	}
	return 1;
}

static int send_number(int number)
{
	char text[16];
	const char *values[1] = {text};

	snprintf(text, sizeof text, "%d", number);
	return PQsendQueryParams(conn, "select $1::int", 1, NULL, values, NULL, NULL, 0);
}

static int expect_number(int number)
{
	char text[16];

	snprintf(text, sizeof text, "%d", number);
	return expect(PGRES_TUPLES_OK, text) && expect_end();
}

static int many_queries(void)
{
	CHECK(PQenterPipelineMode(conn));
	for (int i = 0; i < 500; i++)
		CHECK(send_number(i));
	CHECK(PQpipelineSync(conn));
	for (int i = 0; i < 500; i++)
		if (!expect_number(i))
			return 0;
	if (!expect(PGRES_PIPELINE_SYNC, NULL))
		return 0;
	CHECK(PQexitPipelineMode(conn));
	return 1;
}

static int several_syncs(void)
{
	CHECK(PQenterPipelineMode(conn));
	for (int i = 0; i < 50; i++) {
		CHECK(send_number(i));
		CHECK(PQpipelineSync(conn));
	}
	for (int i = 0; i < 50; i++)
		if (!expect_number(i) || !expect(PGRES_PIPELINE_SYNC, NULL))
			return 0;
	CHECK(PQexitPipelineMode(conn));
	return 1;
}

static int error_in_the_middle(void)
{
	CHECK(PQenterPipelineMode(conn));
	CHECK(send_number(1));
	CHECK(PQsendQueryParams(conn, "select 1 / 0", 0, NULL, NULL, NULL, NULL, 0));
	CHECK(send_number(2));
	CHECK(PQpipelineSync(conn));
	CHECK(send_number(3));
	CHECK(PQpipelineSync(conn));
	if (!expect_number(1) || !expect(PGRES_FATAL_ERROR, NULL) || !expect_end())
		return 0;
	if (!expect(PGRES_PIPELINE_ABORTED, NULL) || !expect_end() || !expect(PGRES_PIPELINE_SYNC, NULL))
		return 0;
	if (!expect_number(3) || !expect(PGRES_PIPELINE_SYNC, NULL))
		return 0;
	CHECK(PQexitPipelineMode(conn));
	return 1;
}

static int flush_without_sync(void)
{
	CHECK(PQenterPipelineMode(conn));
	CHECK(send_number(1));
	CHECK(PQsendFlushRequest(conn));
	if (!expect_number(1)) /* answered although no Sync was sent */
		return 0;
	CHECK(send_number(2));
	CHECK(PQsendFlushRequest(conn));
	if (!expect_number(2))
		return 0;
	CHECK(PQpipelineSync(conn));
	if (!expect(PGRES_PIPELINE_SYNC, NULL))
		return 0;
	CHECK(PQexitPipelineMode(conn));
	return 1;
}

static int error_after_flush(void)
{
	CHECK(PQenterPipelineMode(conn));
	CHECK(PQsendQueryParams(conn, "select no_such_column", 0, NULL, NULL, NULL, NULL, 0));
	CHECK(PQsendFlushRequest(conn));
	if (!expect(PGRES_FATAL_ERROR, NULL) || !expect_end())
		return 0;
	CHECK(send_number(1));
	CHECK(PQpipelineSync(conn));
	if (!expect(PGRES_PIPELINE_ABORTED, NULL) || !expect_end() || !expect(PGRES_PIPELINE_SYNC, NULL))
		return 0;
	CHECK(PQexitPipelineMode(conn));
	return 1;
}

static int copy_is_refused(void)
{
	PGresult *result;

	CHECK(PQenterPipelineMode(conn));
	CHECK(PQsendQueryParams(conn, "copy (select 1) to stdout", 0, NULL, NULL, NULL, NULL, 0));
	CHECK(PQpipelineSync(conn));
	result = PQgetResult(conn); /* libpq gives up on the connection: a fresh one must serve */
	CHECK(result != NULL);
	PQclear(result);
	PQreset(conn);
	CHECK(PQstatus(conn) == CONNECTION_OK);
	result = PQexec(conn, "select 1");
	CHECK(PQresultStatus(result) == PGRES_TUPLES_OK);
	PQclear(result);
	return 1;
}

static int single_row_mode(void)
{
	CHECK(PQenterPipelineMode(conn));
	CHECK(PQsendQueryParams(conn, "select i from generate_series(1, 3) i", 0, NULL, NULL, NULL, NULL, 0));
	CHECK(send_number(7));
	CHECK(PQpipelineSync(conn));
	CHECK(PQsetSingleRowMode(conn));
	if (!expect(PGRES_SINGLE_TUPLE, "1") || !expect(PGRES_SINGLE_TUPLE, "2") || !expect(PGRES_SINGLE_TUPLE, "3"))
		return 0;
	if (!expect(PGRES_TUPLES_OK, NULL) || !expect_end() || !expect_number(7) || !expect(PGRES_PIPELINE_SYNC, NULL))
		return 0;
	CHECK(PQexitPipelineMode(conn));
	return 1;
}

static int prepared_statements(void)
{
	const char *values[1] = {"20"};
	PGresult *result;

	CHECK(PQenterPipelineMode(conn));
	CHECK(PQsendPrepare(conn, "twice", "select $1::int * 2", 1, NULL));
	CHECK(PQsendDescribePrepared(conn, "twice"));
	CHECK(PQsendQueryPrepared(conn, "twice", 1, values, NULL, NULL, 0));
	CHECK(PQpipelineSync(conn));
	if (!expect(PGRES_COMMAND_OK, NULL) || !expect_end() || !expect(PGRES_COMMAND_OK, NULL) || !expect_end())
		return 0;
	if (!expect(PGRES_TUPLES_OK, "40") || !expect_end() || !expect(PGRES_PIPELINE_SYNC, NULL))
		return 0;
	for (int i = 0; i < 20; i++) {
		CHECK(PQsendQueryPrepared(conn, "twice", 1, values, NULL, NULL, 0));
		CHECK(PQpipelineSync(conn));
		if (!expect(PGRES_TUPLES_OK, "40") || !expect_end() || !expect(PGRES_PIPELINE_SYNC, NULL))
			return 0;
	}
	CHECK(PQsendPrepare(conn, "twice", "select 1", 0, NULL)); /* exists: 42P05 */
	CHECK(PQpipelineSync(conn));
	result = PQgetResult(conn);
	CHECK(result && strcmp(PQresultErrorField(result, PG_DIAG_SQLSTATE), "42P05") == 0);
	PQclear(result);
	if (!expect_end() || !expect(PGRES_PIPELINE_SYNC, NULL))
		return 0;
	CHECK(PQexitPipelineMode(conn));
	return 1;
}

static int transaction_in_pipeline(void)
{
	CHECK(PQenterPipelineMode(conn));
	CHECK(PQsendQueryParams(conn, "begin", 0, NULL, NULL, NULL, NULL, 0));
	CHECK(PQsendQueryParams(conn, "create temp table gone (i int)", 0, NULL, NULL, NULL, NULL, 0));
	CHECK(PQpipelineSync(conn));
	CHECK(PQsendQueryParams(conn, "rollback", 0, NULL, NULL, NULL, NULL, 0));
	CHECK(PQpipelineSync(conn));
	if (!expect(PGRES_COMMAND_OK, NULL) || !expect_end() || !expect(PGRES_COMMAND_OK, NULL) || !expect_end())
		return 0;
	if (!expect(PGRES_PIPELINE_SYNC, NULL))
		return 0;
	if (!expect(PGRES_COMMAND_OK, NULL) || !expect_end() || !expect(PGRES_PIPELINE_SYNC, NULL))
		return 0;
	CHECK(PQexitPipelineMode(conn));
	CHECK(PQtransactionStatus(conn) == PQTRANS_IDLE);
	return 1;
}

static void step(const char *name, int (*run)(void))
{
	why[0] = 0;
	conn = PQconnectdb("");
	if (PQstatus(conn) == CONNECTION_OK && run())
		printf("ok %s\n", name);
	else {
		printf("FAIL %s: %s %s\n", name, why, PQerrorMessage(conn));
		failures++;
	}
	PQfinish(conn);
}

int main(void)
{
	step("many queries", many_queries);
	step("several syncs", several_syncs);
	step("error in the middle", error_in_the_middle);
	step("flush without sync", flush_without_sync);
	step("error after flush", error_after_flush);
	step("copy is refused", copy_is_refused);
	step("single row mode", single_row_mode);
	step("prepared statements", prepared_statements);
	step("transaction in pipeline", transaction_in_pipeline);
	return failures != 0;
}
