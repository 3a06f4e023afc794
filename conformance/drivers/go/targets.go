package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// runTargets connects pgx with every target_session_attrs to every target in the arguments (`label=port/database`).
func runTargets(targets []string) {
	values := []string{"any", "read-write", "read-only", "primary", "standby", "prefer-standby"}
	for _, argument := range targets {
		label, target, _ := strings.Cut(argument, "=")
		for _, value := range values {
			fmt.Println("outcome", label, value, attemptTarget(target, value))
		}
	}
}

func attemptTarget(target, value string) string {
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
	defer stop()
	port, database, _ := strings.Cut(target, "/")
	conn, err := pgx.Connect(ctx, fmt.Sprintf(
		"host=127.0.0.1 port=%s dbname=%s user=postgres sslmode=disable target_session_attrs=%s", port, database, value))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return "refused"
	}
	defer conn.Close(ctx)
	if err := pgxNumber(ctx, conn, 7); err != nil {
		return "broken"
	}
	return "accepted"
}
