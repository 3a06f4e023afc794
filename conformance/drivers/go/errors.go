// What pgx makes of errors.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// runErrors has two tasks. "hosts PORTS CODE...": logs in to a list of two hosts, of which the first refuses with a code, and
// prints "CODE yes" if the second was asked. "events EVENT...": each is NAME/PORT/DATABASE/STEP;STEP..., as for psycopg.
func runErrors(task string, arguments []string) {
	if task == "hosts" {
		for _, code := range arguments[1:] {
			fmt.Println(code, nextHost(arguments[0], code))
		}
		return
	}
	for _, argument := range arguments {
		parts := strings.SplitN(argument, "/", 4)
		err := errorEvent(parts[1], parts[2], strings.Split(parts[3], ";"))
		fmt.Println(parts[0], errorClass(err))
	}
}

func nextHost(ports string, code string) string {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	conn, err := pgx.Connect(ctx, "host=127.0.0.1,127.0.0.1 port="+ports+" application_name="+code)
	if err != nil {
		return "no"
	}
	conn.Close(ctx)
	return "yes"
}

func errorEvent(port string, database string, steps []string) error {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	dsn := "default_query_exec_mode=simple_protocol port=" + port + " dbname="
	conn, err := pgx.Connect(ctx, dsn+database)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, step := range steps {
		order, rest, _ := strings.Cut(step, " ")
		switch order {
		case "\\sleep":
			seconds, _ := strconv.ParseFloat(rest, 64)
			time.Sleep(time.Duration(seconds * float64(time.Second)))
		case "\\console":
			console, failed := pgx.Connect(ctx, dsn+"pgbouncer")
			if failed == nil {
				_, failed = console.Exec(ctx, rest)
				console.Close(ctx)
			}
			if failed != nil {
				fmt.Fprintln(os.Stderr, "console:", failed)
			}
		default:
			if _, err = conn.Exec(ctx, step); err != nil {
				return err
			}
		}
	}
	return nil
}

func errorClass(err error) string {
	class, code := "none", ""
	var told *pgconn.PgError
	if errors.As(err, &told) {
		class, code = "PgError", told.Code
	} else if err != nil {
		class = "closed"
	}
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		class = "ConnectError"
	}
	return class + " " + code
}
