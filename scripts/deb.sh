#!/usr/bin/env bash
# `make deb`: Debian packages, weir and its debug symbols, in target/deb. They depend on the libraries of the Debian that
# they are built on.
#
#   WEIR_BIN        a release binary that is built already
#   DEB_OUTPUT      another directory
#   DEB_VERSION     another version than that of Cargo.toml with -1
#   DEB_MAINTAINER  "Name <address>"
#   DEB_FAST=1      for tests: hardly compressed, without debug symbols and licences of crates
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

need dpkg-dev have dpkg-shlibdeps
need binutils have objcopy
if [ -z "${WEIR_BIN:-}" ]; then
	need_to_build
	need libpam0g-dev has_pam
fi
install_missing
if [ -z "${WEIR_BIN:-}" ]; then
	ensure_rust
	cargo build --release -p weir-cli --features pam
	WEIR_BIN="${CARGO_TARGET_DIR:-target}/release/weir"
fi

fast="${DEB_FAST:-}"
output="${DEB_OUTPUT:-${CARGO_TARGET_DIR:-target}/deb}"
version="${DEB_VERSION:-$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)-1}"
maintainer="${DEB_MAINTAINER:-Weir maintainers <weir@packages.invalid>}"
arch="$(dpkg --print-architecture)"
# The same source gives the same package.
SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y Cargo.toml)}"
export SOURCE_DATE_EPOCH
compress=(-Zxz)
if [ -n "$fast" ]; then compress=(-Zgzip -z1); fi

mkdir -p "$output"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
umask 022

# put MODE SOURCE TARGET: one file of the package.
put() { install -D -m "$1" "$2" "$work/weir/$3"; }

# squeeze TARGET: reads it from standard input.
squeeze() {
	install -d "$work/weir/$(dirname "$1")"
	gzip -9n >"$work/weir/$1"
}

program() {
	install -d "$work/weir/usr/bin"
	objcopy --strip-unneeded "$WEIR_BIN" "$work/weir/usr/bin/weir"
	chmod 755 "$work/weir/usr/bin/weir"
}

# From the definitions in the program itself.
generated() {
	"$WEIR_BIN" generate man "$work/weir/usr/share/man"
	gzip -9n "$work"/weir/usr/share/man/man*/*
	install -d "$work/weir/usr/share/"{bash-completion/completions,zsh/vendor-completions,fish/vendor_completions.d}
	"$WEIR_BIN" generate completions bash >"$work/weir/usr/share/bash-completion/completions/weir"
	"$WEIR_BIN" generate completions zsh >"$work/weir/usr/share/zsh/vendor-completions/_weir"
	"$WEIR_BIN" generate completions fish >"$work/weir/usr/share/fish/vendor_completions.d/weir.fish"
}

files() {
	put 644 packaging/systemd/weir.service usr/lib/systemd/system/weir.service
	put 644 packaging/systemd/weir.socket usr/share/doc/weir/examples/weir.socket
	put 644 packaging/systemd/notify-reload.conf usr/share/doc/weir/examples/notify-reload.conf
	put 644 packaging/etc/weir.toml etc/weir/weir.toml
	put 640 packaging/etc/userlist.txt etc/weir/userlist.txt
	put 644 packaging/etc/default etc/default/weir
	put 644 packaging/debian/copyright usr/share/doc/weir/copyright
	put 644 NOTICE usr/share/doc/weir/NOTICE
	squeeze usr/share/doc/weir/changelog.gz <CHANGELOG.md
	printf 'weir (%s) unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- %s  %s\n' "$version" \
		"$maintainer" "$(date -R -u -d "@$SOURCE_DATE_EPOCH")" |
		squeeze usr/share/doc/weir/changelog.Debian.gz
	if [ -z "$fast" ]; then scripts/third-party.sh | squeeze usr/share/doc/weir/third-party.gz; fi
}

# Which packages the libraries come from, with the versions that the symbols need.
depends() {
	mkdir "$work/debian" "$work/weir/DEBIAN"
	: >"$work/debian/control"
	(cd "$work" && dpkg-shlibdeps -O weir/usr/bin/weir) | sed -n 's/^shlibs:Depends=//p'
}

# control PACKAGE TEMPLATE [SED...]: fills the template in.
control() {
	local package="$1" template="$2" size
	shift 2
	size="$(du -k -s --apparent-size "$work/$package" | cut -f 1)"
	install -d "$work/$package/DEBIAN"
	sed -e "s|@VERSION@|$version|" -e "s|@ARCH@|$arch|" -e "s|@SIZE@|$size|" -e "s|@MAINTAINER@|$maintainer|" "$@" \
		"packaging/debian/$template" >"$work/$package/DEBIAN/control"
	(cd "$work/$package" && find . -type f ! -path './DEBIAN/*' -printf '%P\0' | sort -z |
		xargs -0 md5sum) >"$work/$package/DEBIAN/md5sums"
}

build() {
	dpkg-deb --root-owner-group "${compress[@]}" --build "$work/$1" "$output/$1_${version}_$arch.deb" >/dev/null
	note "$output/$1_${version}_$arch.deb"
}

symbols() {
	local id directory
	id="$(readelf -n "$WEIR_BIN" | sed -n 's/^ *Build ID: //p')"
	[ -n "$id" ] || die "$WEIR_BIN has no build id, by which debug symbols are found"
	directory="$work/weir-dbgsym/usr/lib/debug/.build-id/${id:0:2}"
	install -d "$directory"
	objcopy --only-keep-debug --compress-debug-sections "$WEIR_BIN" "$directory/${id:2}.debug"
	chmod 644 "$directory/${id:2}.debug"
	install -d "$work/weir-dbgsym/usr/share/doc"
	ln -s weir "$work/weir-dbgsym/usr/share/doc/weir-dbgsym"
	control weir-dbgsym control-dbgsym.in -e "s|@BUILD_ID@|$id|"
}

say "Building weir $version for $arch"
files
program
generated
dependencies="$(depends)"
control weir control.in -e "s|@DEPENDS@|$dependencies|"
install -m 644 packaging/debian/conffiles "$work/weir/DEBIAN/"
install -m 755 packaging/debian/{postinst,prerm,postrm} "$work/weir/DEBIAN/"
build weir
if [ -z "$fast" ]; then
	symbols
	build weir-dbgsym
fi
