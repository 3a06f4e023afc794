package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"time"

	"github.com/lib/pq"
)

// lib/pq by its defaults, through database/sql, in transaction pooling.
var txPq = []txScenario{
	{"prepared", pqTxPrepared}, {"transactions", pqTxTransactions}, {"settings", pqTxSettings},
	{"copies", pqTxCopies}, {"notifications", pqTxNotifications}, {"cancels", pqTxCancels},
}

func (c *txClient) pq(options string) *sql.DB {
	db, err := sql.Open("postgres", options)
	c.must("open", err)
	db.SetMaxOpenConns(1)
	return db
}

type pqRunner interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
	QueryRowContext(context.Context, string, ...any) *sql.Row
}

func (c *txClient) run(ctx context.Context, db pqRunner, query string, values ...any) {
	_, err := db.ExecContext(ctx, query, values...)
	c.must(query, err)
}

func (c *txClient) one(ctx context.Context, db pqRunner, query string, values ...any) string {
	var text string
	c.must(query, db.QueryRowContext(ctx, query, values...).Scan(&text))
	return text
}

func pqTxPrepared(ctx context.Context, c *txClient) {
	db := c.pq("")
	defer db.Close()
	var statements []*sql.Stmt
	for i := range 4 {
		statement, err := db.PrepareContext(ctx, fmt.Sprintf("select $1::int + %d", c.number*i))
		c.must("prepare", err)
		statements = append(statements, statement)
	}
	for turn := range 16 {
		var sum int
		c.must("prepared", statements[turn%4].QueryRowContext(ctx, turn).Scan(&sum))
		c.say("prepared", sum, c.one(ctx, db, "select $1::text", fmt.Sprint("unnamed ", turn)), c.one(ctx, db, "select 'simple'"))
	}
	for _, statement := range statements {
		c.must("close", statement.Close())
	}
	_, err := db.PrepareContext(ctx, "select no_such_column")
	c.fails("bad", err)
	binary := c.pq("binary_parameters=yes")
	defer binary.Close()
	for i := range 4 {
		c.say("binary", c.one(ctx, binary, "select $1::int * 2", i), c.one(ctx, binary, "select length($1::bytea)", []byte{0, 255}))
	}
}

func pqTxTransactions(ctx context.Context, c *txClient) {
	db := c.pq("")
	defer db.Close()
	table := fmt.Sprintf("tx_%d", c.number)
	c.run(ctx, db, "create table "+table+" (i int)")
	for _, options := range []*sql.TxOptions{nil, {Isolation: sql.LevelSerializable, ReadOnly: true}, {Isolation: sql.LevelRepeatableRead}} {
		tx, err := db.BeginTx(ctx, options)
		c.must("begin", err)
		c.say("level", c.one(ctx, tx, "show transaction_isolation"), c.one(ctx, tx, "show transaction_read_only"))
		c.must("commit", tx.Commit())
	}
	for i, end := range []func(*sql.Tx) error{(*sql.Tx).Commit, (*sql.Tx).Rollback} {
		tx, err := db.BeginTx(ctx, nil)
		c.must("begin", err)
		c.run(ctx, tx, "insert into "+table+" values ($1)", i)
		c.run(ctx, tx, fmt.Sprintf("set application_name to 'name %d %d'", c.number, i))
		c.must("end", end(tx))
		c.say("after", c.one(ctx, db, "select string_agg(i::text, ',') from "+table), c.one(ctx, db, "show application_name"))
	}
	c.run(ctx, db, "drop table "+table)
}

func pqTxSettings(ctx context.Context, c *txClient) {
	db := c.pq(fmt.Sprintf("application_name=start%d search_path=own%d statement_timeout=%d timezone=Asia/Tokyo", c.number, c.number, 20000+c.number))
	defer db.Close()
	show := func(step string) {
		for range 3 {
			c.say(step, c.one(ctx, db, "show application_name"), c.one(ctx, db, "show search_path"), c.one(ctx, db, "show statement_timeout"),
				c.one(ctx, db, "show timezone"), c.one(ctx, db, "show extra_float_digits"), c.one(ctx, db, "show datestyle"))
		}
	}
	show("begin")
	c.run(ctx, db, "set timezone = 'America/Lima'; set search_path to elsewhere")
	c.run(ctx, db, "set extra_float_digits = 0")
	show("set")
	var at time.Time
	c.must("time", db.QueryRowContext(ctx, "select '2026-07-01 12:00:00+00'::timestamptz").Scan(&at))
	c.say("time", at.Format(time.RFC3339))
	c.run(ctx, db, "reset all")
	show("reset")
}

func pqTxCopies(ctx context.Context, c *txClient) {
	db := c.pq("")
	defer db.Close()
	table := fmt.Sprintf("copy_%d", c.number)
	c.run(ctx, db, "create table "+table+" (i int, w text)")
	for range 2 {
		tx, err := db.BeginTx(ctx, nil)
		c.must("begin", err)
		statement, err := tx.PrepareContext(ctx, pq.CopyIn(table, "i", "w"))
		c.must("copy", err)
		for i := range 100 {
			_, err = statement.ExecContext(ctx, i, "w")
			c.must("row", err)
		}
		_, err = statement.ExecContext(ctx)
		c.must("flush", err)
		c.must("close", statement.Close())
		c.must("commit", tx.Commit())
		c.say("count", c.one(ctx, db, "select count(*) from "+table))
	}
	c.run(ctx, db, "drop table "+table)
}

func pqTxNotifications(ctx context.Context, c *txClient) {
	db := c.pq("")
	defer db.Close()
	listener := pq.NewListener("database="+os.Getenv("PGDATABASE"), time.Second, time.Second, nil)
	defer listener.Close()
	c.must("listen", listener.Listen(fmt.Sprintf("of_%d", c.number)))
	c.must("listen", listener.Listen("for_all"))
	c.meet(ctx)
	for i := range 3 {
		c.run(ctx, db, "select pg_notify($1, $2)", fmt.Sprintf("of_%d", (c.number+1)%txClients), fmt.Sprint(i))
	}
	wait := func(step string) {
		select {
		case told := <-listener.Notify:
			c.say(step, told.Channel, told.Extra)
		case <-ctx.Done():
			c.must(step, ctx.Err())
		}
	}
	for range 3 {
		wait("told")
	}
	c.meet(ctx)
	if c.number == 3 {
		c.run(ctx, db, "notify for_all, 'here'")
	}
	wait("all")
	c.must("ping", listener.Ping())
	c.must("unlisten", listener.UnlistenAll())
	c.meet(ctx)
}

func pqTxCancels(ctx context.Context, c *txClient) {
	db := c.pq("")
	defer db.Close()
	for range 2 {
		short, stop := context.WithTimeout(ctx, 100*time.Millisecond)
		_, err := db.ExecContext(short, "select pg_sleep(20)")
		c.say("cancelled", err != nil)
		stop()
		c.say("after", c.one(ctx, db, "select $1::text", fmt.Sprint(c.number)))
	}
}
