package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// runSslmodes connects pgx in every sslmode to every target in the arguments (`label=port/database[+cert]`).
func runSslmodes(targets []string) {
	ways := [][2]string{}
	for _, mode := range []string{"disable", "allow", "prefer", "require", "verify-ca", "verify-full"} {
		ways = append(ways, [2]string{mode, "sslmode=" + mode})
	}
	for _, mode := range []string{"require", "verify-full"} {
		ways = append(ways, [2]string{mode + "_direct", "sslnegotiation=direct sslmode=" + mode})
	}
	for _, argument := range targets {
		label, target, _ := strings.Cut(argument, "=")
		for _, way := range ways {
			fmt.Println("outcome", label, way[0], sslmode(target, way[1]))
		}
	}
}

func sslmode(target, options string) string {
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
	defer stop()
	address, certificate, _ := strings.Cut(target, "+")
	port, database, _ := strings.Cut(address, "/")
	dsn := fmt.Sprintf("host=127.0.0.1 port=%s dbname=%s user=postgres sslrootcert=%s %s",
		port, database, os.Getenv("ROOT"), options)
	if certificate != "" {
		dsn += fmt.Sprintf(" sslcert=%s sslkey=%s", os.Getenv("CERT"), os.Getenv("KEY"))
	}
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return "refused"
	}
	defer conn.Close(ctx)
	if err := pgxNumber(ctx, conn, 1); err != nil {
		return "broken"
	}
	if _, inTLS := conn.PgConn().Conn().(*tls.Conn); inTLS {
		return "TLS"
	}
	return "clear"
}
