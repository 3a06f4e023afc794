#!/usr/bin/env bash
# `make deb-arm64`: Debian packages for arm64, built on Debian 12 for amd64, in target/deb. scripts/test-arm64.sh tests the
# program that is in them.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"
# shellcheck source=scripts/arm64-lib.sh
. scripts/arm64-lib.sh

need_to_build
need dpkg-dev have dpkg-shlibdeps
need_arm64
install_missing
ensure_rust
ensure_libraries
ensure_foreign_rust
foreign_environment

say "Building weir and weir-lab for arm64"
compile --release --target "$TARGET" -p weir-cli --features pam
compile --release --target "$TARGET" -p weir-lab-cli

export DEB_ARCH=arm64 DEB_TARGET="$TARGET" DEB_EMULATOR="${EMULATOR[*]}" DEB_LIBRARIES="$ARM64/libraries"
WEIR_BIN="$(realpath "${CARGO_TARGET_DIR:-target}")/$TARGET/release/weir" bash scripts/deb.sh
