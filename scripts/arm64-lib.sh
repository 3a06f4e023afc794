# shellcheck shell=bash
# What scripts/arm64.sh and scripts/test-arm64.sh share. Sourced after lib.sh, never run.
#
# Nothing of arm64 is installed on the machine, whose package manager goes on knowing one architecture: the libraries and Rust's
# standard library are downloaded from Debian and extracted into target/arm64.

TARGET=aarch64-unknown-linux-gnu
ARM64="$(realpath -m "${CARGO_TARGET_DIR:-target}")/arm64"
# Program that runs the binaries, and the root in which it finds their libraries.
EMULATOR=(qemu-aarch64 -L "$ARM64/root")
# Libraries that weir and weir-lab are linked with, and what these need.
LIBRARIES=(libc6 libgcc-s1 libpam0g libaudit1 libcap-ng0)

need_arm64() {
	have dpkg || die "this needs Debian's packages for arm64"
	need gcc-aarch64-linux-gnu have aarch64-linux-gnu-gcc
	need libc6-dev-arm64-cross test -e /usr/aarch64-linux-gnu/lib/libc.so
	need qemu-user have qemu-aarch64
}

# foreign_apt ARGUMENT...: apt-get for arm64, with lists of its own.
foreign_apt() {
	local state="$ARM64/apt"
	mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
	touch "$state/status"
	cat >"$state/apt.conf" <<-END
		APT::Architecture "arm64";
		APT::Architectures { "arm64"; };
		APT::Sandbox::User "";
		Dir::State "$state";
		Dir::State::lists "$state/lists";
		Dir::State::status "$state/status";
		Dir::Cache "$state/cache";
	END
	APT_CONFIG="$state/apt.conf" apt-get -q "$@"
}

# fetch_foreign PACKAGE...: downloads packages for arm64 into target/arm64/debs.
fetch_foreign() {
	mkdir -p "$ARM64/debs"
	if [ -z "${FOREIGN_UPDATED:-}" ]; then
		patiently "lists of packages for arm64" "$ARM64/log" foreign_apt update || die "apt-get update: $(cat "$ARM64/log")"
		FOREIGN_UPDATED=1
	fi
	(cd "$ARM64/debs" && patiently "packages for arm64" "$ARM64/log" foreign_apt download "$@") ||
		die "apt-get download: $(cat "$ARM64/log")"
}

# The libraries twice: all in one root, for the emulator and the linker, and each with its description, for the dependencies
# of the packages.
ensure_libraries() {
	local name
	if [ -e "$ARM64/root/.complete" ]; then return; fi
	rm -rf "$ARM64/root" "$ARM64/libraries"
	mkdir -p "$ARM64/root" "$ARM64/libraries" "$ARM64/link"
	fetch_foreign "${LIBRARIES[@]}"
	for name in "${LIBRARIES[@]}"; do
		dpkg-deb -x "$ARM64/debs/${name}_"*_arm64.deb "$ARM64/root"
		dpkg-deb --raw-extract "$ARM64/debs/${name}_"*_arm64.deb "$ARM64/libraries/$name"
	done
	# The name by which it is linked is in a package with headers that nobody needs.
	ln -sf "$ARM64/root/lib/aarch64-linux-gnu/libpam.so.0" "$ARM64/link/libpam.so"
	touch "$ARM64/root/.complete"
}

has_foreign_std() { [ -d "$(rustc --print sysroot)/lib/rustlib/$TARGET/lib" ]; }

# Rust's standard library for arm64: the compiler's own if it is there (`rustup target add`), else Debian's, which fits
# Debian's compiler only.
ensure_foreign_rust() {
	FOREIGN_SYSROOT=""
	if has_foreign_std; then return; fi
	say "Using Debian's Rust for arm64"
	if [ "$(rustc --print sysroot)" != /usr ]; then use_debian_rust; fi
	FOREIGN_SYSROOT="$ARM64/std/usr"
	if [ ! -e "$ARM64/std/.complete" ]; then
		rm -rf "$ARM64/std"
		mkdir -p "$ARM64/std"
		fetch_foreign libstd-rust-web-dev
		dpkg-deb -x "$ARM64/debs/libstd-rust-web-dev_"*_arm64.deb "$ARM64/std"
		touch "$ARM64/std/.complete"
	fi
}

# Debian's compiler in a directory of its own, so that another one on the machine stays what it is.
use_debian_rust() {
	local place="$ARM64/rust" archives="$ARM64/rust/archives" deb
	if [ ! -e "$place/.complete" ]; then
		rm -rf "$place"
		mkdir -p "$archives/partial"
		apt_update
		patiently "Debian's Rust" "$ARM64/log" apt-get install -q -y --download-only --no-install-recommends \
			-o APT::Sandbox::User="" -o Debug::NoLocking=1 -o Dir::Cache::archives="$archives" rustc-web cargo-web ||
			die "apt-get: $(cat "$ARM64/log")"
		for deb in "$archives"/*.deb; do dpkg-deb -x "$deb" "$place"; done
		rm -rf "$archives"
		touch "$place/.complete"
	fi
	export PATH="$place/usr/bin:$PATH"
	LD_LIBRARY_PATH="$place/usr/lib/$(dpkg-architecture -q DEB_HOST_MULTIARCH)"
	export LD_LIBRARY_PATH
	rust_is_enough "$(rust_minimum)" || die "Debian's Rust is too old: $(rustc --version)"
}

# What cargo and the build scripts of C libraries need to know.
foreign_environment() {
	local flags="-L native=$ARM64/link -C link-arg=-Wl,-rpath-link=$ARM64/root/lib/aarch64-linux-gnu"
	if [ -n "$FOREIGN_SYSROOT" ]; then flags+=" --sysroot $FOREIGN_SYSROOT"; fi
	export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS="$flags"
	export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
	export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="${EMULATOR[*]}"
	export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
	export AR_aarch64_unknown_linux_gnu=aarch64-linux-gnu-ar
	export BINDGEN_EXTRA_CLANG_ARGS_aarch64_unknown_linux_gnu="-I/usr/aarch64-linux-gnu/include"
	# As in build_release.
	export JEMALLOC_SYS_WITH_LG_PAGE=16
	# Without it the build asks the machine that it runs on.
	export LIBPAMSYS_IMPL=LinuxPam
}
