#!/usr/bin/env bash
# Breaks things on a real API server far more often than `make test` does, and writes the measured part about it in
# docs/reliability.md: what was done, how often, and what came of it. It fails when something is found that must not be.
#
# Arguments such as kills=FILE name logs of whole runs that were made before with the same counts; what is not named is run.
# All of it takes two hours on two cores.
set -euo pipefail
cd "$(dirname "$0")/.."
kills="${KILLS:-200}" foreign="${FOREIGN:-20}" handovers="${HANDOVERS:-50}" outages="${OUTAGES:-20}" reclaims="${RECLAIMS:-20}" strangers="${STRANGERS:-10m}"
page=docs/reliability.md
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

# row LABEL RESULT TEST VARIABLES...: a result counts only if its test has passed.
row() {
	local label="$1" result="$2" test="$3" log="" given
	shift 3
	for given in "${logs[@]}"; do
		[ "${given%%=*}" = "$label" ] && log="${given#*=}"
	done
	if [ -z "$log" ]; then
		log="$work/$label.log"
		echo "faults: $* $test" >&2
		(cd lab && env HOLD_TIMES=1 "$@" go test -count=1 -v -timeout 0 -run "^$test\$" ./e2e) | tee "$log" >&2
	fi
	if ! grep -q "^--- PASS: $test " "$log"; then
		echo "faults: $test has not passed" >&2
		return 1
	fi
	local found
	found="$(sed -nE "s/^.*RESULT $result: //p" "$log" | tail -1)"
	echo "| $label | $found | \`cd lab && HOLD_TIMES=1 $* go test -count=1 -v -timeout 0 -run '^$test\$' ./e2e\` |" >>"$work/rows"
}

logs=("$@" "")
row kills kills TestKilledAtAnyMoment "KILLS=$kills"
row large kills TestKilledAtAnyMoment KILLS=100 NODES=1000 PODS=10000
row foreign foreign TestKilledWhileForeignGroupsStart "FOREIGN=$foreign"
row handovers handovers TestHandOvers "HANDOVERS=$handovers"
row outages outages TestOutages "OUTAGES=$outages"
row reclaims reclaims TestKilledWhileCapacityIsTakenBack "RECLAIMS=$reclaims"
row strangers strangers TestAnotherSchedulerOnTheSameNodes NODES=1000 PODS=10000 "STRANGERS=$strangers"

{
	sed '/^<!-- faults -->$/q' "$page"
	cat <<-END

		$(nproc) cores, $(go env GOOS)/$(go env GOARCH), $(go version | cut -d' ' -f3); Kubernetes as \`make tools\` builds it.

		| what | result | command |
		|---|---|---|
	END
	cat "$work/rows"
	echo
	sed -n '/^<!-- end of faults -->$/,$p' "$page"
} >"$work/page"
mv "$work/page" "$page"
echo "faults: all passed; $page" >&2
