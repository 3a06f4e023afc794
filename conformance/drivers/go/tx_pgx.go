package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// pgx by its defaults (QueryExecModeCacheStatement) and in its other modes, in transaction pooling.
var txPgx = []txScenario{
	{"moves", pgxMoves}, {"cached_statements", pgxCachedStatements}, {"other_modes", pgxOtherModes},
	{"prepared_by_name", pgxPreparedByName}, {"after_ddl", pgxAfterDDL}, {"transactions", pgxTransactions},
	{"batches", pgxBatches}, {"pipelines", pgxPipelines}, {"settings", pgxSettings}, {"pools", pgxPools},
	{"types", pgxTypes}, {"copies", pgxCopies}, {"notifications", pgxNotifications},
	{"large_objects", pgxLargeObjects}, {"temporary_and_locks", pgxTemporary}, {"cancels", pgxCancels},
}

func (c *txClient) pgx(ctx context.Context, options string) *pgx.Conn {
	conn, err := pgx.Connect(ctx, options)
	c.must("connect", err)
	return conn
}

type pgxQueryer interface {
	Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
	Query(context.Context, string, ...any) (pgx.Rows, error)
	QueryRow(context.Context, string, ...any) pgx.Row
}

func (c *txClient) exec(ctx context.Context, conn pgxQueryer, query string, values ...any) {
	_, err := conn.Exec(ctx, query, values...)
	c.must(query, err)
}

func (c *txClient) text(ctx context.Context, conn pgxQueryer, query string, values ...any) string {
	var text string
	c.must(query, conn.QueryRow(ctx, query, values...).Scan(&text))
	return text
}

func (c *txClient) number32(ctx context.Context, conn pgxQueryer, query string, values ...any) int {
	var number int
	c.must(query, conn.QueryRow(ctx, query, values...).Scan(&number))
	return number
}

func (c *txClient) rows(ctx context.Context, conn pgxQueryer, query string, values ...any) [][]any {
	rows, err := conn.Query(ctx, query, values...)
	c.must(query, err)
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) ([]any, error) { return row.Values() })
	c.must(query, err)
	return all
}

// pgxMoves asks until servers have changed, without which nothing here means much.
func pgxMoves(ctx context.Context, c *txClient) {
	conn := c.pgx(ctx, "")
	defer conn.Close(ctx)
	servers := map[int]bool{}
	for len(servers) < txServers() {
		servers[c.number32(ctx, conn, "select pg_backend_pid()")] = true
	}
	c.remark(fmt.Sprint("servers ", len(servers)))
}

func pgxCachedStatements(ctx context.Context, c *txClient) {
	conn := c.pgx(ctx, "")
	defer conn.Close(ctx)
	for i := range 12 {
		c.say("common", c.number32(ctx, conn, "select $1::int * 2", i))
		c.say("own", c.number32(ctx, conn, fmt.Sprintf("select $1::int + %d", c.number), i))
		c.say("rows", c.rows(ctx, conn, "select typname, typlen from pg_type where typname = $1", "int4"))
	}
	var fail int
	c.fails("error", conn.QueryRow(ctx, "select 1 / $1::int", 0).Scan(&fail))
	c.say("after the error", c.number32(ctx, conn, "select 1 / $1::int", 1))
	small := c.pgx(ctx, "statement_cache_capacity=2")
	defer small.Close(ctx)
	for i := range 20 {
		c.say("small", c.number32(ctx, small, fmt.Sprintf("select $1::int + %d", i%5), c.number))
	}
	c.must("DeallocateAll", small.DeallocateAll(ctx))
	c.say("deallocated", c.number32(ctx, small, "select $1::int + 1", c.number))
}

func pgxOtherModes(ctx context.Context, c *txClient) {
	for _, mode := range []string{"cache_describe", "describe_exec", "exec", "simple_protocol"} {
		conn := c.pgx(ctx, "default_query_exec_mode="+mode)
		for i := range 6 {
			c.say(mode, c.number32(ctx, conn, "select $1::int * 3", i), c.text(ctx, conn, "select $1::text || '!'", fmt.Sprint(c.number)))
		}
		conn.Close(ctx)
	}
}

func pgxPreparedByName(ctx context.Context, c *txClient) {
	conn := c.pgx(ctx, "")
	defer conn.Close(ctx)
	for round := range 2 {
		description, err := conn.Prepare(ctx, "mine", fmt.Sprintf("select $1::int * %d as it", c.number+round))
		c.must("prepare", err)
		c.say("described", description.ParamOIDs, description.Fields[0].Name, description.Fields[0].DataTypeOID)
		for i := range 6 {
			c.say("mine", c.number32(ctx, conn, "mine", i))
		}
		c.must("deallocate", conn.Deallocate(ctx, "mine"))
	}
	_, err := conn.Prepare(ctx, "bad", "select no_such_column")
	c.fails("bad", err)
	c.exec(ctx, conn, "prepare sql_level (int) as select $1 + 40")
	for i := range 4 {
		c.say("execute", c.number32(ctx, conn, fmt.Sprintf("execute sql_level(%d)", i)))
	}
	c.exec(ctx, conn, "deallocate sql_level")
}

// A table that changes under cached statements. The driver fails once, forgets the statement, and goes on. On which
// server that happens is chance, so only what comes in the end is said.
func pgxAfterDDL(ctx context.Context, c *txClient) {
	conn := c.pgx(ctx, "")
	defer conn.Close(ctx)
	table := fmt.Sprintf("ddl_%d", c.number)
	c.exec(ctx, conn, "create table "+table+" as select 1 as a")
	for column := range 3 {
		for range 3 {
			c.say("rows", c.rows(ctx, conn, "select * from "+table))
		}
		c.exec(ctx, conn, fmt.Sprintf("alter table %s add b%d int default %d", table, column, column))
		for attempt := 0; ; attempt++ {
			rows, err := conn.Query(ctx, "select * from "+table)
			c.must("query", err)
			all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) ([]any, error) { return row.Values() })
			if err == nil {
				c.say("altered", all)
				break
			}
			if attempt == 2 {
				c.must("after three attempts", err)
			}
		}
	}
	c.exec(ctx, conn, "drop table "+table)
}

func pgxTransactions(ctx context.Context, c *txClient) {
	conn := c.pgx(ctx, "")
	defer conn.Close(ctx)
	table := fmt.Sprintf("tx_%d", c.number)
	c.exec(ctx, conn, "create table "+table+" (i int)")
	for _, options := range []pgx.TxOptions{
		{IsoLevel: pgx.Serializable, AccessMode: pgx.ReadOnly, DeferrableMode: pgx.Deferrable},
		{IsoLevel: pgx.RepeatableRead}, {BeginQuery: "begin isolation level read uncommitted"}, {},
	} {
		c.must("BeginTxFunc", pgx.BeginTxFunc(ctx, conn, options, func(tx pgx.Tx) error {
			c.say("level", c.text(ctx, tx, "show transaction_isolation"), c.text(ctx, tx, "show transaction_read_only"))
			return nil
		}))
	}
	tx, err := conn.Begin(ctx)
	c.must("begin", err)
	c.exec(ctx, tx, "insert into "+table+" values ($1)", 1)
	c.exec(ctx, tx, "set application_name to 'undone'")
	inner, err := tx.Begin(ctx)
	c.must("savepoint", err)
	_, err = inner.Exec(ctx, "insert into "+table+" values ($1 / 0)", 2)
	c.fails("inner", err)
	c.must("rollback to", inner.Rollback(ctx))
	c.say("inside", c.rows(ctx, tx, "select i from "+table))
	c.must("commit", tx.Commit(ctx))
	c.say("name", c.text(ctx, conn, "show application_name"))
	c.exec(ctx, conn, "set application_name to default")
	tx, err = conn.Begin(ctx)
	c.must("begin", err)
	c.exec(ctx, tx, "set application_name to 'undone'")
	c.exec(ctx, tx, "delete from "+table)
	c.must("rollback", tx.Rollback(ctx))
	c.say("after", c.rows(ctx, conn, "select i from "+table), c.text(ctx, conn, "show application_name"))
	c.exec(ctx, conn, "drop table "+table)
}

func pgxBatches(ctx context.Context, c *txClient) {
	for _, mode := range []string{"", "default_query_exec_mode=cache_describe", "default_query_exec_mode=exec"} {
		conn := c.pgx(ctx, mode)
		for round := range 4 {
			batch := &pgx.Batch{}
			for i := range 20 {
				batch.Queue(fmt.Sprintf("select $1::int + %d", i%6), c.number+round)
			}
			batch.Queue(fmt.Sprintf("set application_name to 'batch %d'", c.number))
			batch.Queue("show application_name")
			results := conn.SendBatch(ctx, batch)
			sum := 0
			for range 20 {
				var one int
				c.must("batch", results.QueryRow().Scan(&one))
				sum += one
			}
			var name string
			_, err := results.Exec()
			c.must("set", err)
			c.must("show", results.QueryRow().Scan(&name))
			c.must("close", results.Close())
			c.say("batch", sum, name, c.text(ctx, conn, "show application_name"))
		}
		failing := &pgx.Batch{}
		failing.Queue("select 1")
		failing.Queue("set application_name to 'undone'")
		failing.Queue("select 1 / $1::int", 0)
		c.fails("failing", conn.SendBatch(ctx, failing).Close())
		c.say("after", c.text(ctx, conn, "show application_name"))
		conn.Close(ctx)
	}
}

func pgxPipelines(ctx context.Context, c *txClient) {
	conn := c.pgx(ctx, "")
	defer conn.Close(ctx)
	pipeline := conn.PgConn().StartPipeline(ctx)
	pipeline.SendPrepare("piped", "select $1::text || $2::text", nil)
	for i := range 5 {
		pipeline.SendQueryPrepared("piped", [][]byte{[]byte(fmt.Sprint(c.number)), []byte(fmt.Sprint(i))}, nil, nil)
		pipeline.SendQueryParams("select $1::text", [][]byte{[]byte("unnamed")}, nil, nil, nil)
		c.must("sync", pipeline.Sync())
	}
	pipeline.SendQueryParams("select 1 / 0", nil, nil, nil, nil)
	pipeline.SendQueryParams("select 2", nil, nil, nil, nil)
	c.must("sync", pipeline.Sync())
	pipeline.SendDeallocate("piped")
	c.must("sync", pipeline.Sync())
	for {
		result, err := pipeline.GetResults()
		if result == nil && err == nil {
			break
		}
		switch result := result.(type) {
		case *pgconn.StatementDescription:
			c.say("prepared", result.ParamOIDs)
		case *pgconn.ResultReader:
			read := result.Read()
			if read.Err != nil {
				c.say("failed", state(read.Err))
			} else {
				c.say("rows", string(read.Rows[0][0]))
			}
		case *pgconn.PipelineSync:
			c.say("synced")
		default:
			if err != nil {
				c.say("error", state(err))
			} else {
				c.say("other", fmt.Sprintf("%T", result))
			}
		}
	}
	c.must("close", pipeline.Close())
	c.say("after", c.number32(ctx, conn, "select $1::int", 5))
}

func pgxSettings(ctx context.Context, c *txClient) {
	conn := c.pgx(ctx, fmt.Sprintf("application_name=start%d search_path=own%d,public timezone=Asia/Tokyo "+
		"options='-c statement_timeout=%d -c app.own=o%d'", c.number, c.number, 20000+c.number, c.number))
	defer conn.Close(ctx)
	show := func(step string) {
		for range 2 {
			var values []any
			for _, name := range []string{"application_name", "search_path", "timezone", "statement_timeout", "app.own", "jit"} {
				values = append(values, c.text(ctx, conn, "select current_setting($1)", name))
			}
			c.say(step, append(values, conn.PgConn().ParameterStatus("application_name"), conn.PgConn().ParameterStatus("TimeZone"))...)
		}
	}
	show("begin")
	c.exec(ctx, conn, fmt.Sprintf("set timezone to '%s'", []string{"UTC", "Asia/Kolkata"}[c.number%2]))
	c.exec(ctx, conn, "select set_config('app.own', $1, false)", fmt.Sprint("set ", c.number))
	c.exec(ctx, conn, "set jit = off; set statement_timeout to '22s'")
	show("set")
	tx, err := conn.Begin(ctx)
	c.must("begin", err)
	c.exec(ctx, tx, "set local search_path to nowhere")
	c.exec(ctx, tx, fmt.Sprintf("set application_name to 'kept %d'", c.number))
	c.must("commit", tx.Commit(ctx))
	show("committed")
	c.exec(ctx, conn, "reset all")
	show("reset all")
	c.exec(ctx, conn, "discard all")
	c.must("forget", conn.DeallocateAll(ctx))
	show("discarded")
}

// pgxpool with the statements an application puts in AfterConnect, and those of a borrower taken back.
func pgxPools(ctx context.Context, c *txClient) {
	config, err := pgxpool.ParseConfig("pool_max_conns=2")
	c.must("parse", err)
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, fmt.Sprintf("set search_path to tenant_%d, public; set statement_timeout to '%ds'", c.number, 20+c.number))
		return err
	}
	config.AfterRelease = func(conn *pgx.Conn) bool {
		_, err := conn.Exec(ctx, "reset application_name")
		return err == nil
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	c.must("pool", err)
	defer pool.Close()
	for i := range 8 {
		c.must("acquire", pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
			c.say("borrowed", c.text(ctx, conn, "show search_path"), c.text(ctx, conn, "show statement_timeout"),
				c.text(ctx, conn, "show application_name"))
			c.exec(ctx, conn, fmt.Sprintf("set application_name to 'borrower %d'", i))
			c.say("named", c.text(ctx, conn, "show application_name"))
			return nil
		}))
		c.say("pool", c.number32(ctx, pool, "select $1::int", i))
	}
}

// Types of the user's own: the driver asks for them, caches them, then encodes in binary.
func pgxTypes(ctx context.Context, c *txClient) {
	conn := c.pgx(ctx, "")
	defer conn.Close(ctx)
	schema := fmt.Sprintf("types_%d", c.number)
	c.exec(ctx, conn, fmt.Sprintf("create schema %s; create type %s.mood as enum ('sad', 'glad'); "+
		"create type %s.pair as (a int, m %s.mood)", schema, schema, schema, schema))
	loaded, err := conn.LoadTypes(ctx, []string{schema + ".mood", schema + ".pair", schema + "._mood"})
	c.must("load", err)
	conn.TypeMap().RegisterTypes(loaded)
	for range 4 {
		var mood, inner string
		var number int
		query := fmt.Sprintf("select $1::%s.mood, row($2::int, 'sad')::%s.pair", schema, schema)
		c.must("types", conn.QueryRow(ctx, query, "glad", c.number).Scan(&mood, pgtype.CompositeFields{&number, &inner}))
		c.say("types", mood, number, inner)
		var moods []string
		c.must("array", conn.QueryRow(ctx, fmt.Sprintf("select array['sad', 'glad']::%s.mood[]", schema)).Scan(&moods))
		c.say("array", moods)
	}
	c.exec(ctx, conn, "drop schema "+schema+" cascade")
}

func pgxCopies(ctx context.Context, c *txClient) {
	conn := c.pgx(ctx, "")
	defer conn.Close(ctx)
	table := fmt.Sprintf("copy_%d", c.number)
	c.exec(ctx, conn, "create table "+table+" (i int primary key, w text)")
	source := func(low, high int) pgx.CopyFromSource {
		next := low
		return pgx.CopyFromFunc(func() ([]any, error) {
			if next == high {
				return nil, nil
			}
			next++
			return []any{next, "w"}, nil
		})
	}
	for _, part := range [][2]int{{0, 300}, {300, 400}} {
		copied, err := conn.CopyFrom(ctx, pgx.Identifier{table}, []string{"i", "w"}, source(part[0], part[1]))
		c.must("copy", err)
		c.say("copied", copied)
	}
	_, err := conn.CopyFrom(ctx, pgx.Identifier{table}, []string{"i", "w"}, source(350, 360))
	c.fails("duplicate", err)
	c.say("count", c.number32(ctx, conn, "select count(*) from "+table))
	c.exec(ctx, conn, "drop table "+table)
}

func pgxNotifications(ctx context.Context, c *txClient) {
	conn, other := c.pgx(ctx, ""), c.pgx(ctx, "")
	defer conn.Close(ctx)
	defer other.Close(ctx)
	c.exec(ctx, conn, fmt.Sprintf("listen of_%d", c.number))
	c.exec(ctx, conn, "listen for_all")
	c.meet(ctx)
	for i := range 3 {
		c.exec(ctx, other, "select pg_notify($1, $2)", fmt.Sprintf("of_%d", (c.number+1)%txClients), fmt.Sprint(i))
	}
	wait := func(step string) {
		notification, err := conn.WaitForNotification(ctx)
		c.must(step, err)
		c.say(step, notification.Channel, notification.Payload)
	}
	for range 3 {
		wait("told")
	}
	c.meet(ctx)
	if c.number == 1 {
		c.exec(ctx, other, "notify for_all, 'once'; notify for_all, 'once'")
	}
	wait("all")
	c.exec(ctx, conn, fmt.Sprintf("notify of_%d, 'myself'", c.number))
	wait("myself")
	short, stop := context.WithTimeout(ctx, 200*time.Millisecond)
	_, err := conn.WaitForNotification(short)
	c.say("nothing more", errors.Is(err, context.DeadlineExceeded))
	stop()
	c.meet(ctx)
	c.exec(ctx, conn, "unlisten *")
	c.say("channels", c.number32(ctx, conn, "select count(*) from pg_listening_channels()"))
}

func pgxLargeObjects(ctx context.Context, c *txClient) {
	conn := c.pgx(ctx, "")
	defer conn.Close(ctx)
	c.must("large object", pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		objects := tx.LargeObjects()
		oid, err := objects.Create(ctx, 0)
		c.must("create", err)
		object, err := objects.Open(ctx, oid, pgx.LargeObjectModeRead|pgx.LargeObjectModeWrite)
		c.must("open", err)
		_, err = object.Write([]byte(fmt.Sprintf("large of %d", c.number)))
		c.must("write", err)
		_, err = object.Seek(6, io.SeekStart)
		c.must("seek", err)
		rest, err := io.ReadAll(object)
		c.must("read", err)
		c.say("read", string(rest))
		return objects.Unlink(ctx, oid)
	}))
}

func pgxTemporary(ctx context.Context, c *txClient) {
	conn := c.pgx(ctx, "")
	defer conn.Close(ctx)
	held := "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"
	c.exec(ctx, conn, "create temporary table mine (i int)")
	for i := range 3 {
		c.exec(ctx, conn, "insert into mine values ($1)", c.number*10+i)
		c.say("rows", c.rows(ctx, conn, "select i from mine order by i"))
	}
	c.exec(ctx, conn, "drop table mine")
	c.exec(ctx, conn, "select pg_advisory_lock($1)", c.number)
	for range 3 {
		c.say("held", c.number32(ctx, conn, held))
	}
	c.exec(ctx, conn, "select pg_advisory_unlock($1)", c.number)
	c.say("left", c.number32(ctx, conn, held))
	c.exec(ctx, conn, "declare held cursor with hold for select generate_series(1, 5)")
	for range 4 {
		c.say("fetch", c.rows(ctx, conn, "fetch 1 from held"))
	}
	c.exec(ctx, conn, "close held")
}

// A context that ends breaks the connection in pgx; the next one finds a server in order.
func pgxCancels(ctx context.Context, c *txClient) {
	for range 2 {
		conn := c.pgx(ctx, "")
		short, stop := context.WithTimeout(ctx, 100*time.Millisecond)
		_, err := conn.Exec(short, "select pg_sleep(20)")
		c.say("cancelled", errors.Is(err, context.DeadlineExceeded), conn.IsClosed())
		stop()
		again := c.pgx(ctx, "")
		c.say("after", c.number32(ctx, again, "select $1::int", c.number))
		again.Close(ctx)
		conn.Close(ctx)
	}
}
