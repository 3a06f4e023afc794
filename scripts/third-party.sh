#!/usr/bin/env bash
# The licences of the crates in a binary, with their texts, each text once. For the Debian package.
#
#   third-party.sh NAME PACKAGE [FLAG...]   name of the binary, package of the workspace, further flags for cargo tree
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"
ensure_rust >&2
binary="$1" package="$2"
shift 2

declare -A seen
texts="$(mktemp)"
trap 'rm -f "$texts"' EXIT

# texts_of DIRECTORY: names the texts of a crate, and keeps those not kept yet.
texts_of() {
	local file sum
	while IFS= read -r file; do
		sum="$(md5sum <"$file" | cut -c 1-8)"
		printf '    %s: text %s\n' "${file#"$1"/}" "$sum"
		if [ -z "${seen[$sum]-}" ]; then
			seen[$sum]=1
			{ printf '\n=== text %s\n\n' "$sum" && cat "$file"; } >>"$texts"
		fi
	done < <(find "$1" -maxdepth 3 -type f \( -iname 'licen[cs]e*' -o -iname 'copying*' -o -iname 'copyright*' \
		-o -iname 'notice*' \) ! -name '*.rs' | sort)
}

echo "Crates that are part of $binary, their licences, and below them the texts."
echo
while IFS='|' read -r crate licence; do
	# "name v1.2.3", with more behind it for crates of this workspace and for macros.
	read -r name version rest <<<"$crate"
	if [[ "$rest" == *"$ROOT"* ]]; then continue; fi
	printf '%s %s: %s\n' "$name" "${version#v}" "$licence"
	for directory in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/"$name-${version#v}"; do
		if [ -d "$directory" ]; then texts_of "$directory" && break; fi
	done
done < <(cargo tree --quiet --locked -p "$package" "$@" -e normal --prefix none --format '{p}|{l}' | sed 's/ (\*)//' | sort -u)
cat "$texts"
