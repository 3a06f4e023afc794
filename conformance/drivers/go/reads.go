package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	readRounds = 3
	// Enough to outlast the time for which a session that has written reads from the primary.
	readsEach = 600
)

// runReads writes rows with pgx and reads them, each time at once and then many times (`ok MODE READS`).
func runReads() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	for _, mode := range []string{"", "exec", "simple_protocol", "read-only"} {
		name := "pgx"
		if mode != "" {
			name += "-" + mode
		}
		if err := readAll(ctx, name, mode); err != nil {
			report(name, err)
		} else {
			report(fmt.Sprint(name, " ", readRounds*readsEach), nil)
		}
	}
}

func readAll(ctx context.Context, name, mode string) error {
	execution := mode
	if mode == "read-only" {
		execution = ""
	}
	conn, err := pgxConnect(ctx, execution)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	insert := fmt.Sprintf("/* %s-write. */ insert into t (name) values ($1) returning id", name)
	for round := 0; round < readRounds; round++ {
		var id int
		if err := conn.QueryRow(ctx, insert, name).Scan(&id); err != nil {
			return err
		}
		for turn := 0; turn < readsEach; turn++ {
			if err := readOne(ctx, conn, name, mode, id); err != nil {
				return fmt.Errorf("read %d of row %d: %w", turn, id, err)
			}
		}
	}
	return nil
}

func readOne(ctx context.Context, conn *pgx.Conn, name, mode string, id int) error {
	var got string
	query := fmt.Sprintf("/* %s. */ select name from t where id = $1", name)
	read := func(tx interface {
		QueryRow(context.Context, string, ...any) pgx.Row
	}) error {
		if err := tx.QueryRow(ctx, query, id).Scan(&got); err != nil {
			return err
		}
		return expect(got == name, "%q", got)
	}
	if mode != "read-only" {
		return read(conn)
	}
	return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error { return read(tx) })
}
