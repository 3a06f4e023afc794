#!/usr/bin/env bash
# `make demo`: from a bare Debian machine to Weir beside PgBouncer and a direct connection, in one command.
#
#   WEIR_BIN   a binary of weir that is built already
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

say "Looking for what the demo needs"
need_to_build
need postgresql-15 has_postgres
need postgresql-15 has_pgbench
need postgresql-client-15 have psql
need pgbouncer has_pgbouncer
# The demo says more with PgBouncer, but also runs without.
if [ "${MISSING[*]-}" = pgbouncer ] && ! { have apt-get && can_be_root; }; then
	note "PgBouncer is not installed, so the demo compares with a direct connection only; with it:"
	note "sudo apt-get install -y --no-install-recommends pgbouncer"
	MISSING=()
fi
install_missing
ensure_rust
note "$(cargo --version), $(psql --version)"

# All in one build, so that what several programs use is compiled once.
built="${CARGO_TARGET_DIR:-target}/demo"
packages=(-p xtask)
about=()
if [ -z "${WEIR_BIN:-}" ]; then
	packages+=(-p weir-cli)
	export WEIR_BIN="$built/weir"
	# Measured with `cargo xtask cost`: 1.08 (0.99 to 1.17), 1.00 (0.87 to 1.14) and 1.09 (1.00 to 1.18) for three protocols.
	about=(--about-build "This Weir is built without link-time optimisation, to be ready within minutes. It needs up to a tenth
more CPU per transaction than the release build: make build && WEIR_BIN=target/release/weir make demo")
fi
say "Building Weir and the demo (the first time takes some minutes)"
compile --profile demo "${packages[@]}"

say "Weir beside PgBouncer and a direct connection"
# Replaces this shell: Ctrl-C goes straight to the demo, which stops what it started.
exec "$built/xtask" demo ${about[@]+"${about[@]}"} "$@"
