#!/usr/bin/env bash
# Runs the random tests of clusters and plans with many more cases than `make test` does, and writes docs/soak.md: what was
# run, with which seed, and what came of it. It fails when a test does; rapid then prints how to play the case again.
set -euo pipefail
cd "$(dirname "$0")/.."
checks="${CHECKS:-10000}"
seed="${SEED:-}"
[ -n "$seed" ] || seed="$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')"
report="$(mktemp)"
log="$(mktemp)"
trap 'rm -f "$report" "$log"' EXIT

# soak PACKAGE TEST PROMISES
soak() {
	local command="TUTTI_VERIFY=1 go test $1 -count=1 -timeout 0 -run '^$2\$' -rapid.checks=$checks -rapid.seed=$seed"
	echo "soak: $2, $checks cases, seed $seed" >&2
	if ! TUTTI_VERIFY=1 go test "$1" -count=1 -timeout 0 -v -run "^$2\$" -rapid.checks="$checks" -rapid.seed="$seed" >"$log" 2>&1; then
		grep -v '\[rapid\] draw' "$log" | tail -60 >&2
		return 1
	fi
	local passed
	passed="$(sed -nE 's/.*OK, passed ([0-9]+) tests.*/\1/p' "$log" | awk '{ sum += $1 } END { print sum }')"
	local notes
	notes="$(sed -nE 's/^ *[a-z_]+_test\.go:[0-9]+: ([0-9]+ (pods|bound).*)/; \1/p' "$log" | tr -d '\n')"
	echo "| \`$2\` | $3 | $passed$notes | \`$command\` |" >>"$report"
}

soak ./test/scenario TestPreemption 'I9 to I15 with victims that take their time and come back: each eviction is needed, and enough'
soak ./test/scenario TestLowerJobsStartAfterHigherOnesArePlannedFor 'in bursts, no job starts before the evictions for a job above it, nor is evicted right after'
soak ./test/scenario TestConstantChangeDelaysNoJobThatFits 'jobs of higher priority without a plan delay no job that fits, whatever changes'
soak ./test/scenario TestRandomClusters 'every invariant a player can see; what is remembered changes no answer; it comes to rest'
soak ./test/scenario TestNoHistory 'a scheduler with a past decides as one without'
soak ./test/scenario TestALargeGangDoesNotStarve 'a large gang under a stream of small jobs starts within reserveAfter and the longest of them'
soak ./internal/scheduler TestPlansUnderFaults 'promises and evictions under refusals, lost answers and crashes'
soak ./pkg/actions/preempt TestSmallPlansAreTheBest 'plans of small clusters against a solver that tries everything'

{
	cat <<-'END'
		# Soak

		The random tests of clusters, streams and plans, with more cases than `make test` runs. Written by `make soak`, which fails
		when a case does.

	END
	echo "Seed $seed; $(nproc) cores, $(go env GOOS)/$(go env GOARCH), $(go version | cut -d' ' -f3)."
	echo
	echo '| test | what holds | cases | command |'
	echo '|---|---|---:|---|'
	cat "$report"
} >docs/soak.md
echo "soak: all passed; docs/soak.md" >&2
