# shellcheck shell=bash
# What the scripts beside this file share: installing what is missing, without questions and without
# touching what is there. Sourced, never run.

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
export DEBIAN_FRONTEND=noninteractive

# The packages and features of all that CI and `make test` build (xtask/src/ci.rs names them too): with another choice
# cargo unites features otherwise, and builds much of the tree once more.
EVERYTHING=(--workspace --features weir-cli/pam,weir-cli/debug-spin)

# The Go that the driver suite needs, for machines whose own is older.
GO_MIN="1.21"
GO_TOOLCHAIN="go1.26.0"

say() { printf '\033[1m==> %s\033[0m\n' "$*"; }
note() { printf '    %s\n' "$*"; }
die() {
	printf 'error: %s\n' "$*" >&2
	exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }

# at_least VERSION MINIMUM
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# Colours only for people.
if [ ! -t 1 ]; then
	say() { printf '==> %s\n' "$*"; }
fi

# patiently WHAT LOG COMMAND...: runs the command with its output in LOG, and tells every 15 s how far it is.
patiently() {
	local what="$1" log="$2" begun=$SECONDS status=0 teller
	shift 2
	# Nothing of the loop may hold this script's output open after the script's end. Ctrl-C does not end a loop in the
	# background, so it looks if the script ($$) is there.
	while sleep 15 >/dev/null 2>&1 && kill -0 "$$" 2>/dev/null; do
		note "$what: $((SECONDS - begun)) s so far$(latest_step "$log")"
	done &
	teller=$!
	"$@" >"$log" 2>&1 </dev/null || status=$?
	kill "$teller" 2>/dev/null || true
	wait "$teller" 2>/dev/null || true
	return "$status"
}

# latest_step LOG: number and text of the last line.
latest_step() {
	local last
	last="$(tail -n 1 "$1" | sed 's/^ *//; s/ (\/.*//' | cut -c 1-60)"
	if [ -n "$last" ]; then printf '; step %s: %s' "$(wc -l <"$1")" "$last"; fi
}

as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

can_be_root() {
	[ "$(id -u)" = 0 ] || { have sudo && sudo -n true 2>/dev/null; }
}

# --- packages ------------------------------------------------------------------------------------

# Filled by `need`, emptied by `install_missing`.
MISSING=()

# need PACKAGE COMMAND...: PACKAGE is missing if the command fails.
need() {
	local package="$1"
	shift
	[[ " ${MISSING[*]-} " == *" $package "* ]] || "$@" >/dev/null 2>&1 || MISSING+=("$package")
}

# What every build needs. libclang and its headers read pg_query's header (PostgreSQL's grammar), at
# build time only; LIBCLANG_PATH names another one.
need_to_build() {
	need build-essential have cc
	need libclang1-14 has_libclang
	need libclang-common-14-dev has_clang_headers
}
has_libclang() {
	[ -n "${LIBCLANG_PATH:-}" ] || compgen -G '/usr/lib*/libclang.so*' ||
		compgen -G '/usr/lib/llvm-*/lib/libclang.so*' || compgen -G '/usr/lib/*/libclang-[0-9]*.so*'
}
has_clang_headers() {
	[ -n "${LIBCLANG_PATH:-}" ] || compgen -G '/usr/lib*/clang/*/include/stddef.h' ||
		compgen -G '/usr/lib/llvm-*/lib/clang/*/include/stddef.h'
}
has_postgres() { compgen -G '/usr/lib/postgresql/*/bin/initdb' || have initdb; }
has_pgbench() { compgen -G '/usr/lib/postgresql/*/bin/pgbench' || have pgbench; }
has_pgbouncer() { have pgbouncer || [ -x /usr/sbin/pgbouncer ]; }
has_haproxy() { have haproxy || [ -x /usr/sbin/haproxy ]; }
has_pgpool() { have pgpool || [ -x /usr/sbin/pgpool ]; }
has_slapd() { have slapd || [ -x /usr/sbin/slapd ]; }
# To link with; the program itself is content with libpam0g, which every Debian has.
has_pam() { [ -e /usr/include/security/pam_appl.h ]; }
has_pam_wrapper() { compgen -G '/usr/lib/*/pam_wrapper/pam_matrix.so'; }
has_nss_wrapper() { compgen -G '/usr/lib/*/libnss_wrapper.so'; }
has_venv() { python3 -c 'import venv, ensurepip'; }
has_active_record() { ruby -ractive_record -rpg -e ''; }
has_go() { have go || [ -x /usr/local/go/bin/go ]; }

install_missing() {
	if [ "${#MISSING[@]}" -eq 0 ]; then return; fi
	have apt-get || die "please install the equivalents of these Debian packages: ${MISSING[*]}"
	if ! can_be_root; then
		printf 'This needs packages that are not installed. Please run:\n\n' >&2
		printf '    sudo apt-get install -y --no-install-recommends %s\n\n' "${MISSING[*]}" >&2
		printf 'and then the same command again.\n' >&2
		exit 1
	fi
	say "Installing Debian packages: ${MISSING[*]}"
	apt_update
	hold_services
	apt_install "${MISSING[@]}"
	release_services
	MISSING=()
}

apt_update() {
	if [ -n "${APT_UPDATED:-}" ]; then return; fi
	patiently "lists of packages" /dev/null as_root apt-get update -q ||
		note "apt-get update failed; trying with what is known"
	APT_UPDATED=1
}

# apt_install PACKAGE...
apt_install() {
	local log
	log="$(mktemp)"
	# --no-remove: a package of the machine's owner is never taken away for ours.
	if ! patiently "apt-get" "$log" as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-remove \
		--no-install-recommends "$@"; then
		tail -n 30 "$log" >&2
		rm -f "$log"
		release_services
		die "apt-get could not install: $*"
	fi
	rm -f "$log"
}

# Debian starts a server with its package. We want the programs only: no cluster, no service.
HELD_POLICY=""
HELD_CLUSTER=""
CLUSTER_CONF=/etc/postgresql-common/createcluster.d/weir.conf

hold_services() {
	if [ ! -e /usr/sbin/policy-rc.d ]; then
		printf '#!/bin/sh\nexit 101\n' | as_root tee /usr/sbin/policy-rc.d >/dev/null
		as_root chmod 755 /usr/sbin/policy-rc.d
		HELD_POLICY=1
	fi
	if [[ " ${MISSING[*]} " == *" postgresql-15 "* && ! -e "$CLUSTER_CONF" ]]; then
		as_root mkdir -p "$(dirname "$CLUSTER_CONF")"
		echo 'create_main_cluster = false' | as_root tee "$CLUSTER_CONF" >/dev/null
		HELD_CLUSTER=1
	fi
	trap release_services EXIT
}

release_services() {
	if [ -n "$HELD_POLICY" ]; then as_root rm -f /usr/sbin/policy-rc.d; fi
	if [ -n "$HELD_CLUSTER" ]; then as_root rm -f "$CLUSTER_CONF"; fi
	# Not at the next boot either, if it came with us.
	local service
	for service in haproxy pgbouncer pgpool2 prometheus slapd; do
		if [[ " ${MISSING[*]-} " == *" $service "* ]] && have systemctl; then
			as_root systemctl disable --quiet "$service" 2>/dev/null || true
		fi
	done
	HELD_POLICY=""
	HELD_CLUSTER=""
}

# --- Rust ----------------------------------------------------------------------------------------

rust_minimum() { sed -n 's/^rust-version = "\(.*\)"/\1/p' "$ROOT/Cargo.toml" | head -n 1; }

rust_is_enough() {
	have cargo && have rustc && at_least "$(rustc --version 2>/dev/null | cut -d ' ' -f 2)" "$1"
}

# The first that works: what is there, rustup's stable, Debian's own build (rustc-web follows the
# browsers and is recent), the official installer.
ensure_rust() {
	local minimum
	minimum="$(rust_minimum)"
	if [ -d "$HOME/.cargo/bin" ]; then export PATH="$HOME/.cargo/bin:$PATH"; fi
	if rust_is_enough "$minimum"; then return; fi
	if have rustup; then
		say "Installing the stable Rust toolchain with rustup ($minimum or later is needed)"
		patiently "rustup" /dev/null rustup toolchain install stable --profile minimal &&
			export RUSTUP_TOOLCHAIN=stable
		if rust_is_enough "$minimum"; then return; fi
	fi
	rust_from_debian "$minimum" || rust_from_rustup
	rust_is_enough "$minimum" ||
		die "Rust $minimum or later is needed; see https://rustup.rs, then run this again"
}

rust_from_debian() {
	have apt-get && can_be_root || return 1
	if dpkg -s cargo rustc >/dev/null 2>&1 || have rustup; then return 1; fi
	apt_update
	local candidate
	candidate="$(apt-cache policy cargo-web 2>/dev/null | sed -n 's/^  Candidate: //p')"
	at_least "${candidate:-0}" "$1" || return 1
	say "Installing Rust $candidate from Debian"
	apt_install cargo-web rustc-web
}

rust_from_rustup() {
	say "Installing Rust with the official installer (https://rustup.rs)"
	need curl have curl
	need ca-certificates test -e /etc/ssl/certs/ca-certificates.crt
	install_missing
	patiently "rustup" /dev/null run_rustup_installer ||
		die "could not install Rust; see https://rustup.rs, then run this again"
	export PATH="$HOME/.cargo/bin:$PATH"
}

run_rustup_installer() {
	curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal --no-modify-path
}

# rustfmt and clippy, for the checks.
ensure_rust_checks() {
	if cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1; then return; fi
	if have rustup; then
		say "Installing rustfmt and clippy with rustup"
		rustup component add rustfmt clippy >/dev/null 2>&1 || die "rustup could not add clippy"
	else
		MISSING+=(rustfmt-web rust-web-clippy)
		install_missing
	fi
}

# Both binaries as the Debian packages have them. One after the other, so that cargo unites no features of the lab with
# the daemon's.
build_release() {
	# The allocator's pages: kernels for arm64 have pages of 4, 16 or 64 KiB, and a program for larger pages runs on all of
	# them.
	if [ "$(uname -m)" = aarch64 ]; then export JEMALLOC_SYS_WITH_LG_PAGE=16; fi
	compile --release -p weir-cli --features pam
	compile --release -p weir-lab-cli
}

# compile FLAG...: cargo build. In a terminal cargo shows how far it is; elsewhere it would print a line for each crate, and
# none during the minutes in which the last one is linked.
compile() {
	if [ -t 2 ]; then
		cargo build "$@"
		return
	fi
	local log begun=$SECONDS
	log="$(mktemp)"
	if ! patiently "cargo" "$log" cargo build "$@"; then
		grep -vE '^ *(Compiling|Downloaded|Downloading|Updating|Locking) ' "$log" >&2 || true
		rm -f "$log"
		die "cargo build $* failed"
	fi
	rm -f "$log"
	note "built in $((SECONDS - begun)) s"
}

# --- Go ------------------------------------------------------------------------------------------

# Debian 12's Go cannot fetch a newer one by itself, but the newer one is also a module: let the old
# one download and check it as such.
ensure_go() {
	if ! have go && [ -x /usr/local/go/bin/go ]; then export PATH="/usr/local/go/bin:$PATH"; fi
	local version
	version="$(go env GOVERSION)"
	if at_least "${version#go}" "$GO_MIN"; then return; fi
	say "Fetching $GO_TOOLCHAIN through the Go module proxy (${version} is too old)"
	local arch directory
	arch="$(go env GOARCH)"
	directory="$(cd / && go mod download -json \
		"golang.org/toolchain@v0.0.1-$GO_TOOLCHAIN.linux-$arch" |
		sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')"
	[ -n "$directory" ] || die "could not fetch $GO_TOOLCHAIN"
	# Modules carry no execute bits.
	chmod -R u+w "$directory"
	find "$directory/bin" "$directory/pkg/tool" -type f -exec chmod +x {} +
	export PATH="$directory/bin:$PATH" GOTOOLCHAIN=local
}
