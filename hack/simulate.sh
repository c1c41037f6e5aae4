#!/usr/bin/env bash
# Simulates far more than `make test` does, and writes docs/reliability.md: what was run, from which seeds on, and what came of
# it. It fails when an invariant is broken; the test then prints how to play the case again, and what is left of it when it is
# shrunk.
set -euo pipefail
cd "$(dirname "$0")/.."
steps="${STEPS:-1000000}"
crashes="${CRASHES:-12}"
parts="${PARTS:-4}"
seed="${SEED:-}"
[ -n "$seed" ] || seed="$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')"
work="$(mktemp -d)"
declare -A pids=()
trap 'for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done; rm -rf "$work"' EXIT
if [ -n "${BINARY:-}" ]; then # one that is built already, of this very tree
	cp "$BINARY" "$work/simulation.test"
else
	go test -c -o "$work/simulation.test" ./test/simulation
fi

# simulate NAME TEST VARIABLES... runs a test beside others, and keeps what it says under the name.
simulate() {
	local name="$1" test="$2"
	shift 2
	echo "simulate: $* $test" >&2
	printf '%s' "\`$* go test ./test/simulation -count=1 -timeout 0 -v -run '^$test\$'\`" >"$work/$name.command"
	(cd test/simulation && exec env GOGC=400 "$@" "$work/simulation.test" -test.timeout 0 -test.v -test.run "^$test\$" >"$work/$name.log" 2>&1) &
	pids[$name]="$!"
}

# said NAME prints the last word of a test.
said() { sed -nE 's/^ *[a-z_]+_test\.go:[0-9]+: (.*)/\1/p' "$work/$1.log" | tail -1; }

names=()
for ((i = 0; i < parts; i++)); do # half of the steps with Queues
	names+=("storms-$i" "queues-$i")
	share="$(((steps + 2 * parts - 1) / (2 * parts)))"
	simulate "storms-$i" TestSimulation "SIM_SEED=$((seed + i * 1000000))" "SIM_STEPS=$share"
	simulate "queues-$i" TestSimulationOfQueues "SIM_SEED=$((seed + i * 1000000))" "SIM_STEPS=$share"
done
crashed=()
for ((i = 1; i <= parts; i++)); do # each its share of the same writes
	crashed+=("crashes-$i" "crashes-queues-$i")
	given=("SIM_SEED=$seed" "SIM_CRASH_FIRST=$i" "SIM_CRASH_STRIDE=$parts" "SIM_CRASH_SEEDS=$((crashes / 2))")
	simulate "crashes-$i" TestCrashAfterEveryWrite "${given[@]}"
	simulate "crashes-queues-$i" TestCrashAfterEveryWriteOfQueues "${given[@]}"
done
simulate foreign TestSimulationOfForeignGroups "SIM_SEED=$seed" "SIM_STEPS=$((steps / 4))"
simulate topologies TestSimulationOfTopologies "SIM_SEED=$seed" "SIM_STEPS=$((steps / 4))"
simulate devices TestSimulationOfDevices "SIM_SEED=$seed" "SIM_STEPS=$((steps / 4))"
simulate crashes-foreign TestCrashAfterEveryWriteOfForeignGroups "SIM_SEED=$seed"
simulate planted-foreign TestPlantedBugsAboutForeignGroupsAreCaught SIM_SEED=1
simulate planted-topologies TestPlantedBugsAboutTopologiesAreCaught SIM_SEED=1
simulate planted-devices TestPlantedBugsAboutDevicesAreCaught SIM_SEED=1
simulate reclaims TestCrashDuringReclaim "SIM_SEED=$seed" SIM_CRASH_STRIDE=1
simulate clocks TestClocksChangeNoDecision "SIM_SEED=$seed" SIM_CLOCK_SEEDS=50
simulate planted TestPlantedBugsAreCaught SIM_SEED=1
simulate planted-queues TestPlantedBugsAboutQueuesAreCaught SIM_SEED=1
for name in "${!pids[@]}"; do
	if ! wait "${pids[$name]}"; then
		tail -60 "$work/$name.log" >&2
		exit 1
	fi
	unset "pids[$name]"
	echo "simulate: $name passed: $(said "$name")" >&2
done

{
	total=0
	for name in "${names[@]}"; do
		words="$(said "$name")"
		total=$((total + ${words%% *}))
		echo "| storms | $words | $(cat "$work/$name.command") |"
	done
	echo "| **all storms together** | **$total steps; violations: 0** | |"
	total=0
	for name in "${crashed[@]}"; do
		words="$(said "$name")"
		total=$((total + ${words%% *}))
		echo "| a crash after a write | $words; violations: 0 | $(cat "$work/$name.command") |"
	done
	echo "| **a crash after every write, together** | **$total crashes; violations: 0** | |"
	echo "| storms, with groups of other projects | $(said foreign) | $(cat "$work/foreign.command") |"
	echo "| storms, with topologies | $(said topologies) | $(cat "$work/topologies.command") |"
	echo "| storms, with devices | $(said devices) | $(cat "$work/devices.command") |"
	echo "| a crash after a write, with groups of other projects | $(said crashes-foreign); violations: 0 | $(cat "$work/crashes-foreign.command") |"
	echo "| a crash while capacity is taken back | $(said reclaims); as many evictions as one plan needs | $(cat "$work/reclaims.command") |"
	echo "| clocks a day ahead and a day behind | 50 clusters, the same decisions at the same time | $(cat "$work/clocks.command") |"
	echo "| planted bugs | each caught under the name of its invariant | $(cat "$work/planted.command") |"
	echo "| planted bugs about groups of other projects | each caught under the name of its invariant | $(cat "$work/planted-foreign.command") |"
	echo "| planted bugs about topologies | each caught under the name of its invariant | $(cat "$work/planted-topologies.command") |"
	echo "| planted bugs about devices | each caught under the name of its invariant | $(cat "$work/planted-devices.command") |"
	echo "| planted bugs about queues | each caught under the name of its invariant | $(cat "$work/planted-queues.command") |"
} >"$work/rows"

report=docs/reliability.md
{
	sed '/^<!-- measured -->$/q' "$report"
	cat <<-END

		Seed $seed; $(nproc) cores, $(go env GOOS)/$(go env GOARCH), $(go version | cut -d' ' -f3).

		| what | result | command |
		|---|---|---|
		$(cat "$work/rows")
	END
} >"$work/report"
cp "$work/report" "$report"
echo "simulate: all passed; $report" >&2
