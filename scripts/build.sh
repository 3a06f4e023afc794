#!/usr/bin/env bash
# `make build`: the release binaries weir, with everything that its Debian package has, PAM included, and weir-lab.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

need_to_build
need libpam0g-dev has_pam
install_missing
ensure_rust
build_release
