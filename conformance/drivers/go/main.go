// Command drivers runs pgx or lib/pq (the first argument) from the outside: connection by PG* environment variables.
package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lib/pq"
)

var failures int

func report(name string, err error) {
	if err == nil {
		fmt.Println("ok", name)
		return
	}
	failures++
	fmt.Printf("FAIL %s: %s\n", name, strings.ReplaceAll(err.Error(), "\n", " "))
}

func expect(good bool, what string, more ...any) error {
	if good {
		return nil
	}
	return fmt.Errorf(what, more...)
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "sslmodes" {
		runSslmodes(os.Args[2:])
	} else if len(os.Args) > 1 && os.Args[1] == "targets" {
		runTargets(os.Args[2:])
	} else if len(os.Args) > 2 && os.Args[1] == "errors" {
		runErrors(os.Args[2], os.Args[3:])
	} else if len(os.Args) > 1 && os.Args[1] == "reads" {
		runReads()
	} else if len(os.Args) > 1 && os.Args[1] == "tx-pgx" {
		runTx(txPgx, os.Args[2:])
	} else if len(os.Args) > 1 && os.Args[1] == "tx-pq" {
		runTx(txPq, os.Args[2:])
	} else if len(os.Args) > 1 && os.Args[1] == "console-pgx" {
		consolePgx()
	} else if len(os.Args) > 1 && os.Args[1] == "console-pq" {
		consolePq()
	} else if len(os.Args) > 1 && os.Args[1] == "pq" {
		runPq()
	} else {
		runPgx()
	}
	if failures > 0 {
		os.Exit(1)
	}
}

// === pgx ===

type pgxStep struct {
	name string
	run  func(context.Context, *pgx.Conn) error
}

func runPgx() {
	steps := []pgxStep{
		{"connects", pgxConnects}, {"parametrised query", pgxParametrised}, {"many statements", pgxManyStatements},
		{"transaction", pgxTransaction}, {"batch", pgxBatch}, {"pipeline", pgxPipeline},
		{"error then usable", pgxError}, {"copy", pgxCopy}, {"cancel", pgxCancel}, {"timeout", pgxTimeout},
		{"concurrent", pgxConcurrent}, {"large", pgxLarge},
	}
	for _, mode := range []string{"", "exec", "simple_protocol"} {
		for _, step := range steps {
			ctx, stop := context.WithTimeout(context.Background(), time.Minute)
			conn, err := pgxConnect(ctx, mode)
			if err == nil {
				err = step.run(ctx, conn)
				conn.Close(ctx)
			}
			report(strings.TrimSpace(step.name+" "+mode), err)
			stop()
		}
	}
}

func pgxConnect(ctx context.Context, mode string) (*pgx.Conn, error) {
	dsn := ""
	if mode != "" {
		dsn = "default_query_exec_mode=" + mode
	}
	return pgx.Connect(ctx, dsn)
}

func pgxNumber(ctx context.Context, conn *pgx.Conn, want int) error {
	var got int
	if err := conn.QueryRow(ctx, "select $1::int", want).Scan(&got); err != nil {
		return err
	}
	return expect(got == want, "%d instead of %d", got, want)
}

func pgxConnects(ctx context.Context, conn *pgx.Conn) error { return pgxNumber(ctx, conn, 1) }

func pgxParametrised(ctx context.Context, conn *pgx.Conn) error {
	day := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	query := "select $1::int, $2::text, $3::text, $4::float8, $5::bool, $6::timestamptz, $7::bytea"
	for i := range 100 {
		var number int
		var text string
		var nothing *string
		var float float64
		var truth bool
		var at time.Time
		var raw []byte
		row := conn.QueryRow(ctx, query, i, fmt.Sprint("text ", i), nil, 1.5, true, day, []byte{0, 255})
		if err := row.Scan(&number, &text, &nothing, &float, &truth, &at, &raw); err != nil {
			return err
		}
		good := number == i && text == fmt.Sprint("text ", i) && nothing == nil && float == 1.5 && truth &&
			at.Equal(day) && bytes.Equal(raw, []byte{0, 255})
		if err := expect(good, "round %d", i); err != nil {
			return err
		}
	}
	return nil
}

// More than the driver's cache of 512 statements.
func pgxManyStatements(ctx context.Context, conn *pgx.Conn) error {
	for range 2 {
		for i := range 600 {
			var got int
			if err := conn.QueryRow(ctx, fmt.Sprintf("select $1::int + %d", i), 1).Scan(&got); err != nil {
				return err
			}
			if err := expect(got == i+1, "statement %d gave %d", i, got); err != nil {
				return err
			}
		}
	}
	return nil
}

func pgxTransaction(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, "drop table if exists pgx_t"); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "create table pgx_t (i int)"); err != nil {
		return err
	}
	undo := errors.New("undo")
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "insert into pgx_t values ($1)", 1); err != nil {
			return err
		}
		return undo
	})
	if !errors.Is(err, undo) {
		return err
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "insert into pgx_t values ($1)", 2); err != nil {
			return err
		}
		inner := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "select 1/0")
			return err
		})
		return expect(state(inner) == "22012", "inner: %v", inner)
	})
	if err != nil {
		return err
	}
	var sum int
	err = conn.QueryRow(ctx, "select sum(i) from pgx_t").Scan(&sum)
	return errors.Join(err, expect(sum == 2, "kept %d", sum))
}

func pgxBatch(ctx context.Context, conn *pgx.Conn) error {
	batch := &pgx.Batch{}
	for i := range 200 {
		batch.Queue("select $1::int", i)
	}
	results := conn.SendBatch(ctx, batch)
	for i := range 200 {
		var got int
		if err := results.QueryRow().Scan(&got); err != nil || got != i {
			return errors.Join(err, fmt.Errorf("%d instead of %d", got, i))
		}
	}
	if err := results.Close(); err != nil {
		return err
	}
	failing := &pgx.Batch{}
	failing.Queue("select 1")
	failing.Queue("select 1/0")
	failing.Queue("select 2")
	if err := conn.SendBatch(ctx, failing).Close(); state(err) != "22012" {
		return fmt.Errorf("failing batch: %v", err)
	}
	return pgxNumber(ctx, conn, 3)
}

func pgxPipeline(ctx context.Context, conn *pgx.Conn) error {
	pipeline := conn.PgConn().StartPipeline(ctx)
	pipeline.SendPrepare("p1", "select $1::text", nil)
	pipeline.SendQueryPrepared("p1", [][]byte{[]byte("a")}, nil, nil)
	if err := pipeline.Sync(); err != nil {
		return err
	}
	pipeline.SendQueryParams("select 1/0", nil, nil, nil, nil)
	pipeline.SendQueryPrepared("p1", [][]byte{[]byte("b")}, nil, nil)
	if err := pipeline.Sync(); err != nil {
		return err
	}
	var seen []string
	for {
		result, err := pipeline.GetResults()
		if err != nil {
			seen = append(seen, state(err))
			continue
		}
		if result == nil {
			break
		}
		switch result := result.(type) {
		case *pgconn.StatementDescription:
			seen = append(seen, "described")
		case *pgconn.ResultReader:
			rows := result.Read()
			if rows.Err != nil {
				seen = append(seen, state(rows.Err))
			} else {
				seen = append(seen, string(rows.Rows[0][0]))
			}
		case *pgconn.PipelineSync:
			seen = append(seen, "sync")
		}
	}
	got := strings.Join(seen, " ")
	if err := expect(got == "described a sync 22012 sync", "saw %q", got); err != nil {
		return err
	}
	return errors.Join(pipeline.Close(), pgxNumber(ctx, conn, 3))
}

func state(err error) string {
	var server *pgconn.PgError
	if errors.As(err, &server) {
		return server.Code
	}
	var other *pq.Error
	if errors.As(err, &other) {
		return string(other.Code)
	}
	return fmt.Sprint(err)
}

func pgxError(ctx context.Context, conn *pgx.Conn) error {
	for range 10 {
		if _, err := conn.Exec(ctx, "select no_such_column"); state(err) != "42703" {
			return fmt.Errorf("error: %v", err)
		}
		if err := pgxNumber(ctx, conn, 1); err != nil {
			return err
		}
	}
	return nil
}

func pgxCopy(ctx context.Context, conn *pgx.Conn) error {
	for _, query := range []string{"drop table if exists pgx_c", "create table pgx_c (i int, w text)"} {
		if _, err := conn.Exec(ctx, query); err != nil {
			return err
		}
	}
	source := pgx.CopyFromSlice(10000, func(i int) ([]any, error) { return []any{i, fmt.Sprint("word", i)}, nil })
	count, err := conn.CopyFrom(ctx, pgx.Identifier{"pgx_c"}, []string{"i", "w"}, source)
	if err != nil || count != 10000 {
		return errors.Join(err, fmt.Errorf("copied %d", count))
	}
	var out bytes.Buffer
	if _, err := conn.PgConn().CopyTo(ctx, &out, "copy pgx_c to stdout"); err != nil {
		return err
	}
	lines := strings.Count(out.String(), "\n")
	broken := strings.NewReader("x\ty\n")
	if _, err := conn.PgConn().CopyFrom(ctx, broken, "copy pgx_c from stdin"); state(err) != "22P02" {
		return fmt.Errorf("broken copy: %v", err)
	}
	return errors.Join(expect(lines == 10000, "%d lines", lines), pgxNumber(ctx, conn, 1))
}

func pgxCancel(ctx context.Context, conn *pgx.Conn) error {
	done := make(chan error, 1)
	time.AfterFunc(300*time.Millisecond, func() { done <- conn.PgConn().CancelRequest(ctx) })
	if _, err := conn.Exec(ctx, "select pg_sleep(30)"); state(err) != "57014" {
		return fmt.Errorf("sleep: %v", err)
	}
	return errors.Join(<-done, pgxNumber(ctx, conn, 1))
}

// pgx gives the connection up when its context ends; a new one must serve.
func pgxTimeout(ctx context.Context, conn *pgx.Conn) error {
	short, stop := context.WithTimeout(ctx, 300*time.Millisecond)
	defer stop()
	if _, err := conn.Exec(short, "select pg_sleep(30)"); err == nil {
		return errors.New("not stopped")
	}
	fresh, err := pgxConnect(ctx, "")
	if err != nil {
		return err
	}
	defer fresh.Close(ctx)
	return pgxNumber(ctx, fresh, 1)
}

func together(clients int, one func(tag int) error) error {
	var group sync.WaitGroup
	errs := make([]error, clients)
	for tag := range clients {
		group.Go(func() { errs[tag] = one(tag) })
	}
	group.Wait()
	return errors.Join(errs...)
}

func pgxConcurrent(ctx context.Context, _ *pgx.Conn) error {
	return together(50, func(tag int) error {
		conn, err := pgxConnect(ctx, "")
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		for i := range 20 {
			if err := pgxNumber(ctx, conn, tag*1000+i); err != nil {
				return err
			}
		}
		return nil
	})
}

func pgxLarge(ctx context.Context, conn *pgx.Conn) error {
	var text string
	if err := conn.QueryRow(ctx, "select repeat('x', 10000000)").Scan(&text); err != nil {
		return err
	}
	var length int
	err := conn.QueryRow(ctx, "select length($1::text)", strings.Repeat("z", 5000000)).Scan(&length)
	return errors.Join(err, expect(len(text) == 10000000 && length == 5000000, "%d and %d", len(text), length))
}

// === lib/pq ===

func runPq() {
	steps := []struct {
		name string
		run  func(context.Context, *sql.DB) error
	}{
		{"connects", func(ctx context.Context, db *sql.DB) error { return pqNumber(ctx, db, 1) }},
		{"parametrised query", pqLoop}, {"transaction", pqTransaction}, {"copy", pqCopy}, {"error then usable", pqError},
		{"cancel", pqCancel}, {"concurrent", pqConcurrent}, {"large", pqLarge},
	}
	for _, step := range steps {
		ctx, stop := context.WithTimeout(context.Background(), time.Minute)
		db, err := sql.Open("postgres", "")
		if err == nil {
			err = step.run(ctx, db)
			db.Close()
		}
		report(step.name, err)
		stop()
	}
}

type queryer interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}

func pqNumber(ctx context.Context, db queryer, want int) error {
	var got int
	if err := db.QueryRowContext(ctx, "select $1::int", want).Scan(&got); err != nil {
		return err
	}
	return expect(got == want, "%d instead of %d", got, want)
}

func pqLoop(ctx context.Context, db *sql.DB) error {
	statement, err := db.PrepareContext(ctx, "select $1::text, $2::text")
	if err != nil {
		return err
	}
	defer statement.Close()
	for i := range 100 {
		var text string
		var nothing sql.NullString
		want := fmt.Sprint("text ", i)
		if err := statement.QueryRowContext(ctx, want, nil).Scan(&text, &nothing); err != nil {
			return err
		}
		if text != want || nothing.Valid {
			return fmt.Errorf("round %d: %q %v", i, text, nothing)
		}
	}
	return nil
}

func pqTransaction(ctx context.Context, db *sql.DB) error {
	if _, err := db.ExecContext(ctx, "drop table if exists pq_t; create table pq_t (i int)"); err != nil {
		return err
	}
	for i, finish := range []func(*sql.Tx) error{(*sql.Tx).Rollback, (*sql.Tx).Commit} {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "insert into pq_t values ($1)", i); err != nil {
			return err
		}
		if err := finish(tx); err != nil {
			return err
		}
	}
	var list string
	err := db.QueryRowContext(ctx, "select string_agg(i::text, ',') from pq_t").Scan(&list)
	return errors.Join(err, expect(list == "1", "kept %q", list))
}

func pqCopy(ctx context.Context, db *sql.DB) error {
	if _, err := db.ExecContext(ctx, "drop table if exists pq_c; create table pq_c (i int, w text)"); err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	statement, err := tx.PrepareContext(ctx, pq.CopyIn("pq_c", "i", "w"))
	if err != nil {
		return err
	}
	for i := range 10000 {
		if _, err := statement.ExecContext(ctx, i, "word"); err != nil {
			return err
		}
	}
	if _, err := statement.ExecContext(ctx); err != nil {
		return err
	}
	if err := errors.Join(statement.Close(), tx.Commit()); err != nil {
		return err
	}
	var count int
	err = db.QueryRowContext(ctx, "select count(*) from pq_c").Scan(&count)
	return errors.Join(err, expect(count == 10000, "%d rows", count))
}

func pqError(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for range 10 {
		if _, err := conn.ExecContext(ctx, "select no_such_column"); state(err) != "42703" {
			return fmt.Errorf("error: %v", err)
		}
		if err := pqNumber(ctx, conn, 1); err != nil {
			return err
		}
	}
	return nil
}

func pqCancel(ctx context.Context, db *sql.DB) error {
	short, stop := context.WithTimeout(ctx, 300*time.Millisecond)
	defer stop()
	start := time.Now()
	if _, err := db.ExecContext(short, "select pg_sleep(30)"); err == nil {
		return errors.New("not cancelled")
	}
	return errors.Join(expect(time.Since(start) < 5*time.Second, "cancel came late"), pqNumber(ctx, db, 1))
}

func pqConcurrent(ctx context.Context, db *sql.DB) error {
	return together(50, func(tag int) error {
		conn, err := db.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		for i := range 20 {
			if err := pqNumber(ctx, conn, tag*1000+i); err != nil {
				return err
			}
		}
		return nil
	})
}

func pqLarge(ctx context.Context, db *sql.DB) error {
	var text string
	if err := db.QueryRowContext(ctx, "select repeat('x', 10000000)").Scan(&text); err != nil {
		return err
	}
	var length int
	err := db.QueryRowContext(ctx, "select length($1::text)", strings.Repeat("z", 5000000)).Scan(&length)
	return errors.Join(err, expect(len(text) == 10000000 && length == 5000000, "%d and %d", len(text), length))
}
