#!/usr/bin/env bash
# `make deb`: Debian packages, weir, weir-lab and the debug symbols of each, in target/deb. They depend on the libraries
# of the Debian that they are built on.
#
#   WEIR_BIN        a release binary of weir that is built already, with weir-lab beside it
#   DEB_OUTPUT      another directory
#   DEB_VERSION     another version than that of Cargo.toml with -1
#   DEB_MAINTAINER  "Name <address>"
#   DEB_FAST=1      for tests: hardly compressed, without debug symbols and licences of crates
#
# For another architecture (scripts/arm64.sh):
#
#   DEB_ARCH        its name in Debian; binutils for it are needed
#   DEB_TARGET      its name for cargo
#   DEB_EMULATOR    a program that runs its binaries, with arguments
#   DEB_LIBRARIES   a directory with the packages of its libraries, each extracted with dpkg-deb --raw-extract
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
	build_release
	WEIR_BIN="${CARGO_TARGET_DIR:-target}/release/weir"
fi
binaries="$(dirname "$WEIR_BIN")"
[ -x "$binaries/weir-lab" ] || die "$binaries/weir-lab is not there: cargo build --release -p weir-lab-cli"

fast="${DEB_FAST:-}"
output="${DEB_OUTPUT:-${CARGO_TARGET_DIR:-target}/deb}"
version="${DEB_VERSION:-$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)-1}"
maintainer="${DEB_MAINTAINER:-Weir maintainers <weir@packages.invalid>}"
arch="${DEB_ARCH:-$(dpkg --print-architecture)}"
objcopy=objcopy
if [ -n "${DEB_ARCH:-}" ]; then objcopy="$(dpkg-architecture -a "$arch" -q DEB_HOST_GNU_TYPE 2>/dev/null)-objcopy"; fi
read -r -a emulator <<<"${DEB_EMULATOR:-}"
# The same source gives the same package.
SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y Cargo.toml)}"
export SOURCE_DATE_EPOCH
compress=(-Zxz)
if [ -n "$fast" ]; then compress=(-Zgzip -z1); fi

mkdir -p "$output"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
umask 022

# Each function below that names PACKAGE works for weir and for weir-lab, whose binary has the package's name.

# binary PACKAGE
binary() {
	if [ "$1" = weir ]; then printf '%s\n' "$WEIR_BIN"; else printf '%s\n' "$binaries/$1"; fi
}

# put PACKAGE MODE SOURCE TARGET: one file of the package.
put() { install -D -m "$2" "$3" "$work/$1/$4"; }

# squeeze PACKAGE TARGET: reads it from standard input.
squeeze() {
	install -d "$work/$1/$(dirname "$2")"
	gzip -9n >"$work/$1/$2"
}

# program PACKAGE
program() {
	install -d "$work/$1/usr/bin"
	"$objcopy" --strip-unneeded "$(binary "$1")" "$work/$1/usr/bin/$1"
	chmod 755 "$work/$1/usr/bin/$1"
}

# generated PACKAGE: what the program writes from its own definitions.
generated() {
	local share="$work/$1/usr/share" binary
	binary="$(binary "$1")"
	run() { ${emulator[@]+"${emulator[@]}"} "$binary" "$@"; }
	run generate man "$share/man"
	gzip -9n "$share"/man/man*/*
	install -d "$share/"{bash-completion/completions,zsh/vendor-completions,fish/vendor_completions.d}
	run generate completions bash >"$share/bash-completion/completions/$1"
	run generate completions zsh >"$share/zsh/vendor-completions/_$1"
	run generate completions fish >"$share/fish/vendor_completions.d/$1.fish"
}

# documents PACKAGE SUFFIX CRATE [FLAG...]: SUFFIX is that of its files in packaging/debian, CRATE the package of the
# workspace, built with these flags.
documents() {
	local package="$1" suffix="$2" doc="usr/share/doc/$1"
	shift 2
	put "$package" 644 "packaging/debian/copyright$suffix" "$doc/copyright"
	put "$package" 644 "packaging/debian/lintian-overrides$suffix" "usr/share/lintian/overrides/$package"
	put "$package" 644 NOTICE "$doc/NOTICE"
	squeeze "$package" "$doc/changelog.gz" <CHANGELOG.md
	printf '%s (%s) unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- %s  %s\n' "$package" "$version" \
		"$maintainer" "$(date -R -u -d "@$SOURCE_DATE_EPOCH")" |
		squeeze "$package" "$doc/changelog.Debian.gz"
	if [ -z "$fast" ]; then scripts/third-party.sh "$package" "$@" | squeeze "$package" "$doc/third-party.gz"; fi
}

# The files of the daemon's service.
service() {
	put weir 644 packaging/systemd/weir.service usr/lib/systemd/system/weir.service
	put weir 644 packaging/systemd/weir.socket usr/share/doc/weir/examples/weir.socket
	put weir 644 packaging/systemd/notify-reload.conf usr/share/doc/weir/examples/notify-reload.conf
	put weir 644 packaging/etc/weir.toml etc/weir/weir.toml
	put weir 640 packaging/etc/userlist.txt etc/weir/userlist.txt
	put weir 644 packaging/etc/default etc/default/weir
	put weir 644 contrib/monitoring/alerts.yml usr/share/weir/monitoring/alerts.yml
	put weir 644 contrib/monitoring/grafana-dashboard.json usr/share/weir/monitoring/grafana-dashboard.json
	install -d "$work/weir/DEBIAN"
	install -m 644 packaging/debian/conffiles "$work/weir/DEBIAN/"
	install -m 755 packaging/debian/{postinst,prerm,postrm} "$work/weir/DEBIAN/"
}

# depends PACKAGE: which packages the libraries come from, with the versions that the symbols need.
depends() {
	local directory places=()
	mkdir -p "$work/debian" "$work/$1/DEBIAN"
	: >"$work/debian/control"
	if [ -n "${DEB_LIBRARIES:-}" ]; then
		for directory in "$(realpath "$DEB_LIBRARIES")"/*/; do places+=("-S$directory"); done
	fi
	(cd "$work" && DEB_HOST_ARCH="$arch" dpkg-shlibdeps ${places[@]+"${places[@]}"} -O "$1/usr/bin/$1") | sed -n 's/^shlibs:Depends=//p'
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

# build PACKAGE
build() {
	patiently "compressing $1" "$work/log" dpkg-deb --root-owner-group "${compress[@]}" --build "$work/$1" \
		"$output/$1_${version}_$arch.deb" || die "$(cat "$work/log")"
	note "$output/$1_${version}_$arch.deb"
}

# symbols PACKAGE: makes PACKAGE-dbgsym.
symbols() {
	local binary id directory
	binary="$(binary "$1")"
	id="$(readelf -n "$binary" | sed -n 's/^ *Build ID: //p')"
	[ -n "$id" ] || die "$binary has no build id, by which debug symbols are found"
	directory="$work/$1-dbgsym/usr/lib/debug/.build-id/${id:0:2}"
	install -d "$directory"
	"$objcopy" --only-keep-debug --compress-debug-sections "$binary" "$directory/${id:2}.debug"
	chmod 644 "$directory/${id:2}.debug"
	install -d "$work/$1-dbgsym/usr/share/doc"
	ln -s "$1" "$work/$1-dbgsym/usr/share/doc/$1-dbgsym"
	control "$1-dbgsym" control-dbgsym.in -e "s|@PACKAGE@|$1|g" -e "s|@BUILD_ID@|$id|"
}

# package PACKAGE TEMPLATE: builds it from its files, and its symbols.
package() {
	local dependencies
	program "$1"
	generated "$1"
	dependencies="$(depends "$1")"
	control "$1" "$2" -e "s|@DEPENDS@|$dependencies|"
	build "$1"
	if [ -z "$fast" ]; then
		symbols "$1"
		build "$1-dbgsym"
	fi
}

say "Building weir and weir-lab $version for $arch"
target=()
if [ -n "${DEB_TARGET:-}" ]; then target=(--target "$DEB_TARGET"); fi
service
documents weir "" weir-cli --features pam ${target[@]+"${target[@]}"}
package weir control.in
documents weir-lab -lab weir-lab-cli ${target[@]+"${target[@]}"}
package weir-lab control-lab.in

# said TEXT: the figure, in MB, in the row of docs/guide/installing.md that begins so.
said() { sed -n "s/^| $1[^|]*| \([0-9.]*\) MB.*/\1/p" docs/guide/installing.md; }

# agrees WHAT FILE TEXT: tells if a size on that page is off by more than a tenth.
agrees() {
	local size figure
	size="$(stat -c %s "$2")"
	figure="$(said "$3")"
	[ -n "$figure" ] || die "docs/guide/installing.md has no row that begins with: $3"
	if awk -v size="$size" -v said="$figure" 'BEGIN { exit !(size / 1e6 > said * 1.1 || size / 1e6 < said / 1.1) }'; then
		die "$1 has $(awk -v size="$size" 'BEGIN { printf "%.1f", size / 1e6 }') MB, and docs/guide/installing.md says $figure: correct the page"
	fi
}

# A page that is checked with each package does not grow old.
if [ -z "$fast" ] && [ -z "${DEB_ARCH:-}" ]; then
	agrees "the stripped binary" "$work/weir/usr/bin/weir" "binary, stripped"
	agrees "the package" "$output/weir_${version}_$arch.deb" "the same, compressed"
fi
