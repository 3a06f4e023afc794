#!/usr/bin/env bash
# The part of `make test` that runs beside the rest, with the same arguments for cargo. Each part that fails is named in a
# line `failed: …` for the end of its output.
set -uo pipefail

failed=0
fail() {
	printf 'failed: %s\n' "$1"
	failed=1
}

cargo test "$@" --test poison || fail "poison"

# Each statement of PostgreSQL's regression suite on a standby.
cargo test "$@" --test classification -- suite::rt_11 || fail "classification on a standby"

# The simulator runs behind the other tests: its build, with optimisations and in a directory of its own, uses the time in
# which they wait. As `cargo xtask sim` builds it.
cargo test --profile sim --quiet -p weir-proxy --lib --no-run || fail "build of the simulator"

# Drills with real clusters of Patroni. Their times are not judged: the machine is busy.
cargo build --quiet "$@" --features weir-conformance/drill --bin drill &&
	"$(realpath "${CARGO_TARGET_DIR:-target}")/debug/drill" --untimed --clients 10 --seconds 3 \
		switchover restart-fast replica-killed dns-silent-restart || fail "drills"

# State of sessions and names in statements, over a primary with two replicas. As on one server, but for what takes long:
# the other scripts also pass there, without the test that counts on a leak to the only server
# (a_function_made_elsewhere_is_found_by_looking).
export CONFORMANCE_REPLICAS=2
cargo test "$@" --test session_state -- settings:: roles:: hidden:: notifications:: temporary:: locks:: \
	statements:: listed:: || fail "state of sessions over three hosts"
cargo test "$@" --test statement_identity || fail "names in statements over three hosts"
exit "$failed"
