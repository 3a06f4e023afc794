// The administration console by pgx and lib/pq.
package main

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// consolePgx reads tables and gives orders in every mode that does not look up types.
func consolePgx() {
	for _, mode := range []string{"", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		ctx, stop := context.WithTimeout(context.Background(), time.Minute)
		report(strings.TrimSpace("pgx "+mode), consolePgxMode(ctx, mode))
		stop()
	}
}

func consolePgxMode(ctx context.Context, mode string) error {
	conn, err := pgxConnect(ctx, mode)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if err := conn.Ping(ctx); err != nil {
		return err
	}
	for range 3 {
		rows, err := conn.Query(ctx, "SHOW POOLS")
		if err != nil {
			return err
		}
		pools, err := pgx.CollectRows(rows, pgx.RowToMap)
		if err != nil {
			return err
		}
		if err := expect(len(pools) == 2, "pools: %v", pools); err != nil {
			return err
		}
		for _, pool := range pools {
			_, isNumber := pool["cl_active"].(int32)
			if err := expect(isNumber, "cl_active is %T", pool["cl_active"]); err != nil {
				return err
			}
		}
	}
	for _, order := range []string{"PAUSE", "RESUME"} {
		tag, err := conn.Exec(ctx, order)
		if err := errors.Join(err, expect(tag.String() == order, "tag %q", tag)); err != nil {
			return err
		}
	}
	_, err = conn.Exec(ctx, "RESUME")
	var told *pgconn.PgError
	return expect(errors.As(err, &told) && told.Message == "pooler is not paused/suspended", "%v", err)
}

func consolePq() {
	report("lib/pq", consolePqSteps())
}

func consolePqSteps() error {
	db, err := sql.Open("postgres", "")
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.Ping(); err != nil {
		return err
	}
	// As pgbouncer_exporter does it.
	var version string
	if err := db.QueryRow("SHOW VERSION;").Scan(&version); err != nil {
		return err
	}
	if err := expect(strings.HasPrefix(version, "PgBouncer 1."), "version %q", version); err != nil {
		return err
	}
	statement, err := db.Prepare("SHOW LISTS")
	if err != nil {
		return err
	}
	for range 3 {
		rows, err := statement.Query()
		if err != nil {
			return err
		}
		count := 0
		for rows.Next() {
			var list string
			var items int64
			if err := rows.Scan(&list, &items); err != nil {
				return err
			}
			count++
		}
		if err := errors.Join(rows.Err(), expect(count == 14, "%d rows", count)); err != nil {
			return err
		}
	}
	_, err = db.Exec("RESUME")
	return expect(err != nil && strings.Contains(err.Error(), "pooler is not paused/suspended"), "%v", err)
}
