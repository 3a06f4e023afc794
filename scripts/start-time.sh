#!/usr/bin/env bash
# How long Weir takes from exec until a client is accepted: median and extremes of 20 starts, in milliseconds, and the
# size of the binary. WEIR_BIN names it.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

starts=20
port="${PORT:-16432}"
weir="${WEIR_BIN:-$ROOT/target/release/weir}"
[ -x "$weir" ] || die "$weir does not exist: run make build, or set WEIR_BIN"
if (: <>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then die "port $port is in use; set PORT"; fi
work="$(mktemp -d)"
pid=""
trap '[ -z "$pid" ] || kill -9 "$pid" 2>/dev/null || true; rm -rf "$work"' EXIT
cat >"$work/weir.toml" <<-END
	listen_addr = "127.0.0.1"
	listen_port = $port
	unix_socket_dir = ""
	auth_type = "any"
	[databases."*"]
	host = "127.0.0.1"
	user = "nobody"
END

micros() { echo "${EPOCHREALTIME/[.,]/}"; }

tenths=()
for ((run = 0; run < starts; run++)); do
	before="$(micros)"
	"$weir" run "$work/weir.toml" 2>"$work/log" &
	pid=$!
	until (: <>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do
		kill -0 "$pid" 2>/dev/null || die "it has ended: $(cat "$work/log")"
	done
	tenths+=($((($(micros) - before) / 100)))
	kill -QUIT "$pid"
	wait "$pid" || true
done
pid=""
printf '%s\n' "${tenths[@]}" | sort -n | awk '{ tenths[NR] = $1 } END {
	printf "start to accept: %.1f ms (median of %d; %.1f to %.1f)\n",
		(tenths[int((NR + 1) / 2)] + tenths[int(NR / 2) + 1]) / 20, NR, tenths[1] / 10, tenths[NR] / 10 }'
printf 'size: %.1f MB stripped\n' "$(objcopy --strip-unneeded "$weir" "$work/weir" && stat -c %s "$work/weir" | awk '{ print $1 / 1e6 }')"
