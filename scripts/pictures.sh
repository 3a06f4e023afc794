#!/usr/bin/env bash
# `make pictures`: takes the two pictures of the README again, from a running Weir.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

say "Looking for what the pictures need"
need_to_build
need libpam0g-dev has_pam
need postgresql-15 has_postgres
need chromium have chromium
need tmux have tmux
install_missing
ensure_rust

say "Building Weir"
cargo build "${EVERYTHING[@]}" --bins
say "Playing the scene"
WEIR_BIN="$(realpath "${CARGO_TARGET_DIR:-target}")/debug/weir" "${CARGO_TARGET_DIR:-target}/debug/pictures"
note "docs/pictures/dashboard.png and docs/pictures/top.png are new: look at them"
