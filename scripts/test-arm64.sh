#!/usr/bin/env bash
# Tests the Weir that scripts/arm64.sh has built: it runs under qemu-user, and PostgreSQL and the suites run as always.
#
#   test-arm64.sh [FLAG...]   other flags for cargo test than the suites below
#
# What an emulator cannot show: speed, the order in which processors of arm64 see each other's writes, and io_uring, which
# qemu-user does not have. An online upgrade starts the program by its own path, which without binfmt_misc is not possible.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"
# shellcheck source=scripts/arm64-lib.sh
. scripts/arm64-lib.sh

need_to_build
need_arm64
need postgresql-15 has_postgres
need postgresql-client-15 have psql
install_missing
ensure_rust
ensure_libraries

program="$(realpath "${CARGO_TARGET_DIR:-target}")/$TARGET/release/weir"
[ -x "$program" ] || die "$program is not there: run make deb-arm64"
wrapper="$ARM64/weir"
printf '#!/bin/sh\nexec %s %s "$@"\n' "${EMULATOR[*]}" "$program" >"$wrapper"
chmod 755 "$wrapper"
note "$("$wrapper" --version | head -n 1), $(file -b "$program" 2>/dev/null | cut -d , -f 1-2)"

suites=(--test pgbench --test prepared --test psql --test session_state --test tls)
if [ "$#" -eq 0 ]; then set -- "${suites[@]}"; fi
say "Suites against real servers, with the Weir for arm64: $*"
WEIR_BIN="$wrapper" cargo test "${EVERYTHING[@]}" "$@"
