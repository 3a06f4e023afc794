#!/usr/bin/env bash
# `make test`: every test, from a bare Debian machine on.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

say "Looking for what the tests need"
need_to_build
need git have git
need pkg-config have pkg-config
need dpkg-dev have dpkg-shlibdeps
need lintian have lintian
need libpq-dev test -e /usr/include/postgresql/libpq-fe.h
need libpam0g-dev has_pam
need libpam-wrapper has_pam_wrapper
need libnss-wrapper has_nss_wrapper
need slapd has_slapd
need ldap-utils have ldapwhoami
need postgresql-15 has_postgres
need postgresql-15 has_pgbench
need postgresql-client-15 have psql
need pgbouncer has_pgbouncer
need haproxy has_haproxy
need tmux have tmux
need prometheus have prometheus
need prometheus have promtool
need pgpool2 has_pgpool
need patroni have patroni
need etcd-server have etcd
need chromium have chromium
need python3-venv has_venv
need ruby-activerecord has_active_record
need ruby-pg has_active_record
need golang-go has_go
need nodejs have node
need npm have npm
need default-jdk-headless have javac
need maven have mvn
install_missing
ensure_rust
ensure_go
note "$(cargo --version), $(psql --version)"
note "$(python3 --version), $(go version), node $(node --version), javac: $(javac -version 2>&1)"

say "Building the tests, and the binary for the suites against real servers"
# Not the release build: all of this one is needed anyway, and it checks itself while it runs. `--bins`, because `cargo test`
# builds no binary of a crate without integration tests, and xtask is one.
cargo build "${EVERYTHING[@]}" --bins --tests || die "the tests do not build"
export WEIR_BIN="${WEIR_BIN:-$(realpath "${CARGO_TARGET_DIR:-target}")/debug/weir}"

# The suites wait for servers and time limits more than they compute.
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-$(($(nproc) * 2))}"

failed=()
output=$(mktemp)

# run NAME COMMAND...: its output is shown, and kept for what_failed.
run() {
	local name=$1
	shift
	"$@" 2>&1 | tee -a "$output"
	[ "${PIPESTATUS[0]}" = 0 ] || failed+=("$name")
}

# The failed tests and drills once more, with what they said, and in the end their names alone: who sees only the last lines
# of a long output looks for them there.
what_failed() {
	awk '
		/^---- .* ----$/ { lines = 40 }
		/: FAIL$/ { lines = 20 }
		/^error(\[E[0-9]+\])?: / && !/test failed, to rerun/ { lines = 8 }
		/^failures:$/ || /^test result:/ || /: PASS$/ || /^$/ && lines < 12 { lines = 0 }
		lines > 0 { print "    " substr($0, 1, 300); lines-- }
	' "$output" | tail -n 300
	note "Names:"
	grep -aE '^test .* FAILED$|: FAIL$|could not be carried out|to be had again|^failed: ' "$output" | cut -c 1-200 | tail -n 30
}

say "All crates, and conformance: PostgreSQL, pgbench, psql and drivers (cargo test ${EVERYTHING[*]})"
# Both wait more than they compute: beside all the others, and out of their way.
note "poison, a classification, sessions over three hosts, and drills run beside the others; their output comes last"
beside_output=$(mktemp)
# A group of its own, which hears no Ctrl-C: it is stopped with us.
setsid nice -n 10 bash scripts/test-beside.sh "${EVERYTHING[@]}" >"$beside_output" 2>&1 &
beside=$!
# `|| true`: it has usually ended by then, and under `set -e` the trap's failure would be the script's.
trap 'kill -- "-$beside" 2>/dev/null || true; rm -f "$beside_output" "$output"' EXIT
run "cargo test" cargo test "${EVERYTHING[@]}" --no-fail-fast -- --exact \
	--skip nobody_sees_another_clients_answer \
	--skip suite::rt_11_what_is_held_to_read_runs_on_a_standby
say "Lanes of a pool on threads, in orders that shuttle chooses"
run "model of the lanes" cargo test -p weir-pool --features model --test model
say "The simulator of the workers: 500 seeds that stay the same, then fresh ones for a minute (cargo xtask sim)"
run "simulator" "${CARGO_TARGET_DIR:-target}/debug/xtask" sim
wait "$beside" || failed+=("poison, classification, state over three hosts, or drills")
tee -a "$output" <"$beside_output"

if [ "${#failed[@]}" -gt 0 ]; then
	say "What failed"
	what_failed
	die "failed: ${failed[*]}"
fi
say "All tests passed"
