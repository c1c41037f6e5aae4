#!/usr/bin/env bash
# Says which generated files are not what hack/generate.sh would write. It writes to a temporary directory only.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
cd "$root"
fresh="$(mktemp -d)"
trap 'rm -rf "$fresh"' EXIT

if ! hack/generate.sh "$fresh" 2>"$fresh/log"; then
	cat "$fresh/log" >&2
	echo "verify: the generators failed" >&2
	exit 1
fi
rm "$fresh/log"

# Directories that hold nothing but generated files are compared both ways, so that a file too many is found as well.
whole=(apis/client config/crd/bases)
stale="$({
	(cd "$fresh" && find . -type f)
	find "${whole[@]/#/./}" -type f 2>/dev/null || true
} | LC_ALL=C sort -u | while read -r file; do
	if [[ ! -e "$file" ]]; then
		echo "missing: ${file#./}"
	elif [[ ! -e "$fresh/$file" ]]; then
		echo "not generated any more: ${file#./}"
	elif ! cmp -s "$file" "$fresh/$file"; then
		echo "stale: ${file#./}"
		diff -u "$file" "$fresh/$file" | sed -n '3,12p' | sed 's/^/    /' || true
	fi
done)"

if [[ -n "$stale" ]]; then
	printf '%s\n\nRun "make generate" and commit what it writes.\n' "$stale" >&2
	exit 1
fi
echo "verify: generated files are up to date"
