#!/usr/bin/env bash
# Simulates far more than `make test` does, and writes docs/reliability.md: what was run, from which seed on, and what came of it. It
# fails when an invariant is broken; the test then prints how to play the case again, and what is left of it when it is shrunk.
set -euo pipefail
cd "$(dirname "$0")/.."
steps="${STEPS:-1000000}"
crashes="${CRASHES:-12}"
seed="${SEED:-}"
[ -n "$seed" ] || seed="$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')"
log="$(mktemp)"
trap 'rm -f "$log"' EXIT

# simulate TEST VARIABLES...
simulate() {
	local test="$1"
	shift
	echo "simulate: $* $test" >&2
	if ! env "$@" go test ./pkg/simulation -count=1 -timeout 0 -v -run "^$test\$" >"$log" 2>&1; then
		tail -60 "$log" >&2
		return 1
	fi
	sed -nE 's/^ *[a-z_]+_test\.go:[0-9]+: (.*)/\1/p' "$log" | tail -1
}

storms="$(simulate TestSimulation SIM_SEED="$seed" SIM_STEPS="$steps")"
crashed="$(simulate TestCrashAfterEveryWrite SIM_SEED="$seed" SIM_CRASH_STRIDE=1 SIM_CRASH_SEEDS="$crashes")"
simulate TestPlantedBugsAreCaught >/dev/null

report=docs/reliability.md
{
	sed '/^<!-- measured -->$/q' "$report"
	cat <<-END

		Seed $seed; $(nproc) cores, $(go env GOOS)/$(go env GOARCH), $(go version | cut -d' ' -f3).

		| what | result | command |
		|---|---|---|
		| storms | $storms | \`SIM_SEED=$seed SIM_STEPS=$steps go test ./pkg/simulation -count=1 -timeout 0 -v -run '^TestSimulation\$'\` |
		| a crash after every write | $crashed; violations: 0 | \`SIM_SEED=$seed SIM_CRASH_STRIDE=1 SIM_CRASH_SEEDS=$crashes go test ./pkg/simulation -count=1 -timeout 0 -v -run '^TestCrashAfterEveryWrite\$'\` |
		| planted bugs | each caught under the name of its invariant | \`go test ./pkg/simulation -count=1 -v -run '^TestPlantedBugsAreCaught\$'\` |
	END
} >"$log.report"
mv "$log.report" "$report"
echo "simulate: all passed; $report" >&2
