#!/usr/bin/env bash
# `make build`: the release binary with everything that a Debian package has, PAM included.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

need build-essential have cc
need libpam0g-dev has_pam
install_missing
ensure_rust
cargo build --release -p weir-cli --features pam
