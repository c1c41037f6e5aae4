#!/usr/bin/env bash
# Breaks things on a real API server far more often than `make test` does, and writes the measured part about it in
# docs/reliability.md: what was done, how often, and what came of it. It fails when something is found that must not be. The
# arguments are logs of runs that were made before, of whole ones; without any, it makes them, which takes two hours.
set -euo pipefail
cd "$(dirname "$0")/.."
export NODES="${NODES:-1000}" PODS="${PODS:-10000}"
export KILLS="${KILLS:-200}" HANDOVERS="${HANDOVERS:-50}" OUTAGES="${OUTAGES:-40}" STRANGERS="${STRANGERS:-10m}"
page=docs/reliability.md
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

# The tests, the variable of each, and what its result is called.
tests=(
	'TestKilledAtAnyMoment KILLS kills'
	'TestHandOvers HANDOVERS handovers'
	'TestOutages OUTAGES outages'
	'TestAnotherSchedulerOnTheSameNodes STRANGERS strangers'
)

if [ $# -eq 0 ]; then
	for entry in "${tests[@]}"; do
		read -r name _ result <<<"$entry"
		echo "faults: $name" >&2
		(cd lab && go test -count=1 -v -timeout 0 -run "^$name\$" ./e2e) | tee "$work/$result.log" >&2
		set -- "$@" "$work/$result.log"
	done
fi

# A result counts only if its test has passed.
for entry in "${tests[@]}"; do
	read -r name variable result <<<"$entry"
	found=''
	for log in "$@"; do
		if grep -q "^--- PASS: $name " "$log" && grep -q "RESULT $result: " "$log"; then
			found="$(sed -nE "s/^.*RESULT $result: //p" "$log" | tail -1)"
			[ "$result" = strangers ] && size='' || size="NODES=$NODES PODS=$PODS "
			command="cd lab \&\& $size$variable=${!variable} go test -count=1 -v -timeout 0 -run '^$name\$' ./e2e"
			printf '| %s | `%s` |\n' "$found" "${command//\\&/&}" >>"$work/rows"
		fi
	done
	if [ -z "$found" ]; then
		echo "faults: no run of $name has passed" >&2
		exit 1
	fi
done

{
	sed '/^<!-- faults -->$/q' "$page"
	cat <<-END

		$(nproc) cores, $(go env GOOS)/$(go env GOARCH), $(go version | cut -d' ' -f3); Kubernetes as \`make tools\` builds it.

		| result | command |
		|---|---|
	END
	cat "$work/rows"
	echo
	sed -n '/^<!-- end of faults -->$/,$p' "$page"
} >"$work/page"
mv "$work/page" "$page"
echo "faults: all passed; $page" >&2
