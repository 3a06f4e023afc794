#!/usr/bin/env bash
# `make build`: the release binary with everything that a Debian package has, PAM included.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

need_to_build
need libpam0g-dev has_pam
install_missing
ensure_rust
cargo build --release -p weir-cli --features pam
