#!/usr/bin/env bash
# `make demo`: from a bare Debian machine to Weir beside a direct connection, in one command.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

say "Looking for what the demo needs"
need_to_build
need postgresql-15 has_postgres
need postgresql-15 has_pgbench
need postgresql-client-15 have psql
install_missing
ensure_rust
note "$(cargo --version), $(psql --version)"

say "Building Weir (release; the first time takes a few minutes)"
cargo build --release -p weir-cli
say "Building the demo itself"
cargo build --quiet -p xtask

say "Weir beside a direct connection"
# Replaces this shell: Ctrl-C goes straight to the demo, which stops what it started.
exec "${CARGO_TARGET_DIR:-target}/debug/xtask" demo "$@"
