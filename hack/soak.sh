#!/usr/bin/env bash
# Runs every random test with many more cases than `make test` does, and writes a part of docs/reliability.md: what was run, with
# which seed, and the result. It fails when a test does; rapid then prints how to play the case again.
set -euo pipefail
cd "$(dirname "$0")/.."
checks="${CHECKS:-10000}"
only="${ONLY:-.}" # a pattern of tests
seed="${SEED:-}"
[ -n "$seed" ] || seed="$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

# random_tests prints the file and the name of each test that draws its cases.
random_tests() {
	git ls-files '*_test.go' | xargs grep -l 'rapid\.Check(\|rapid\.MakeCheck(' | while read -r file; do
		awk -v file="$file" '/^func Test/ { split($2, name, "("); test = name[1] } /rapid\.(Make)?Check\(/ { print file, test }' "$file"
	done | sort -u
}

# soak FILE TEST
soak() {
	local directory log="$work/log" started=$SECONDS
	directory="$(dirname "$1")"
	local binary="$work/${directory//\//-}"
	[ -f "$binary" ] || go test -c -o "$binary" "./$directory"
	if ! (cd "$directory" && TUTTI_VERIFY=1 "$binary" -test.timeout 0 -test.v -test.run "^$2\$" -rapid.checks="$checks" -rapid.seed="$seed") >"$log" 2>&1; then
		grep -v '\[rapid\] draw' "$log" | tail -60 >&2
		return 1
	fi
	local passed notes
	passed="$(sed -nE 's/.*OK, passed ([0-9]+) tests.*/\1/p' "$log" | awk '{ sum += $1 } END { print sum }')"
	notes="$(sed -nE 's/^ *[a-z_]+_test\.go:[0-9]+: ([0-9]+ (pods|bound).*)/; \1/p' "$log" | tr -d '\n')"
	echo "soak: ${directory#./} $2: $passed cases, $((SECONDS - started)) s$notes" >&2
	echo "| \`$directory\` | \`$2\` | $passed$notes |" >>"$work/report"
}

echo "soak: $checks cases of each random test, seed $seed" >&2
while read -r file test; do
	if grep -q "$only" <<<"$test"; then soak "$file" "$test"; fi
done < <(random_tests)
if [ "$only" != . ]; then exit; fi

page=docs/reliability.md
{
	sed '/^<!-- soak -->$/q' "$page"
	echo
	echo "Seed $seed; $(nproc) cores, $(go env GOOS)/$(go env GOARCH), $(go version | cut -d' ' -f3)."
	echo
	echo "To play one test again: \`CHECKS=$checks SEED=$seed ONLY=TestPreemption hack/soak.sh\`."
	echo
	echo '| package | test | cases |'
	echo '|---|---|---:|'
	cat "$work/report"
	echo
	sed -n '/^<!-- end of soak -->$/,$p' "$page"
} >"$work/page"
mv "$work/page" "$page"
echo "soak: all passed; $page" >&2
