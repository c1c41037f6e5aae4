# Tests. CI runs `make test` and nothing else.

.PHONY: test unit lab memory soak
test: verify lint unit example chart lab ## Run every test: generated files, lint, unit, stories, chart, and a real API server.
	@echo "test: those that take 30 s or longer:"; cat $(RESULTS)/* | $(GOTESTSUM) tool slowest --threshold 30s
	@$(GOTESTSUM) --format none --raw-command -- cat $(RESULTS)/*
	@echo "test: all passed; longer runs have targets of their own: make soak, faults, fuzz, bench, memory, upgrade, nodes"
	@echo "test: no operator of another project and no released helm ran, since each takes minutes to build: make e2e has two operators and helm 3 and 4, make operators all operators"

# GOTEST is go test below gotestsum, which prints each package as it ends, a failed test with its output at once and again at the
# end, and the skipped tests with their reasons. It keeps what go test -json says of each part in RESULTS, so that one list ends a
# run of several parts. go vet is left out: `make lint` runs it once, not once more for each kind of build. The limit is there to
# end a test that hangs, on a machine of any speed.
RESULTS := $(CURDIR)/build/results
GOTESTSUM := $(CURDIR)/build/bin/gotestsum
GOTEST := $(GOTESTSUM) --format pkgname-and-test-fails --format-icons text --format-hide-empty-pkg \
	--jsonfile "$$(mktemp $(RESULTS)/XXXXXX.json)" -- -vet=off -timeout 5h
PROGRESS := $(CURDIR)/hack/progress.sh

# tests is the pattern of the tests with these names.
space := $(subst x,,x x)
tests = ^($(subst $(space),|,$(strip $(1))))$$

.PHONY: gotestsum
gotestsum: # once in each run of make
	@rm -rf $(RESULTS) && mkdir -p $(RESULTS)
	cd hack/tools && go build -o $(GOTESTSUM) gotest.tools/gotestsum

# The race detector needs a C compiler; TUTTI_VERIFY checks the invariants after every statement of every session.
# What decides runs in one goroutine, so that the race detector finds nothing in these and takes up to ten times as long. Their
# tests that do start goroutines run with it.
SERIAL := /test/scenario /test/simulation /pkg/actions/allocate /pkg/actions/backfill /pkg/actions/preempt /pkg/actions/reclaim \
	/pkg/plugins/isolcpu /pkg/plugins/nodeorder /pkg/plugins/predicates /pkg/topology /hack/house
CONCURRENT := TestSameSeedSameTrace

# The same holds for the longest tests of packages that have goroutines elsewhere.
LASTING := TestAThousandPanicsDelayNoOtherJobByMoreThanTwoSeconds TestAnUnknownEndCostsLittleAtRest TestMemoryIsBounded \
	TestStatusesOfAThousandQueuesAreTenASecond

unit: gotestsum ## Run the tests of the root module and of apis in verify mode, with the race detector where goroutines are.
	cd apis && CGO_ENABLED=1 $(PROGRESS) 'unit: apis' $(GOTEST) -race ./...
	TUTTI_VERIFY=1 CGO_ENABLED=1 $(PROGRESS) 'unit: race detector' $(GOTEST) -race -skip '$(call tests,$(LASTING))' $$(go list ./... | grep -v $(SERIAL:%=-e %$$))
	TUTTI_VERIFY=1 CGO_ENABLED=1 $(PROGRESS) 'unit: goroutines of the serial packages' $(GOTEST) -race -run '$(call tests,$(CONCURRENT))' ./test/scenario ./test/simulation
	TUTTI_VERIFY=1 $(PROGRESS) 'unit: serial packages' $(GOTEST) $(SERIAL:%=.%)
	TUTTI_VERIFY=1 $(PROGRESS) 'unit: lasting tests' $(GOTEST) -run '$(call tests,$(LASTING))' ./internal/scheduler ./internal/cluster
	hack/commit-coverage.sh

.PHONY: example
example: gotestsum ## Build the examples, each a module of its own, and play their stories.
	cd examples/joblimit && $(GOTEST) .
	cd examples/podgroups && $(GOTEST) .

.PHONY: coverage
coverage: ## Print how much of the commit path its fault matrix covers.
	hack/commit-coverage.sh

# Go cannot know that these tests depend on programs that they build, so none of their results is taken from its cache. Several
# processes share two processors, each with a cluster for those of its end-to-end tests that share one, which go one after another:
# - some of these do nothing for half a minute or more, until the scheduler or a controller has let its time pass;
# - the attacks, which take longest, must not begin last;
# - of the others with clusters of their own four go at a time; the other packages go beside them, one at a time;
# - real nodes, with kubelets and containers, are started for a part of what `make nodes` tests.
# With LAB_JOBS=1 one process goes after the other.
LAB_JOBS ?= 4
WAITING := TestAQueueSaysWhetherItsGuaranteeIsMet TestCoscheduling TestCoschedulingForbidden TestNodeIsDeletedMidBind TestSamples \
	TestStuckVictimsAreNotWaitedForForEver TestVolcano TestVolcanoForbidden
LONGEST := TestAttacks
ON_NODES := TestTheChartRunsAsPods TestAGangOfContainersRunsToItsEnd TestAVictimHasItsGrace TestIsolatedCPUsOnTheKernel
E2E := TUTTI_VERIFY=1 CGO_ENABLED=1 $(PROGRESS)

lab: tools promtool gotestsum ## Run the tests of the lab, on a real API server (LAB_JOBS=1 for one process after the other).
	@$(MAKE) --no-print-directory -j$(LAB_JOBS) lab-waiting lab-longest lab-in-process lab-nodes lab-others

.PHONY: lab-waiting lab-longest lab-in-process lab-nodes lab-others
lab-waiting:
	cd lab && LOGS=e2e-waiting $(E2E) 'lab: those that wait' $(GOTEST) -count=1 -race -run '$(call tests,$(WAITING))' ./e2e
lab-longest:
	cd lab && LOGS=e2e-longest $(E2E) 'lab: the longest' $(GOTEST) -count=1 -race -run '$(call tests,$(LONGEST))' ./e2e
lab-in-process: # where the race detector finds nothing that `make unit` does not: the loop, and what feeds it
	cd lab && TUTTI_VERIFY=1 $(PROGRESS) 'lab: in process' $(GOTEST) -count=1 ./bench/inprocess
lab-nodes:
	cd lab && $(PROGRESS) 'lab: real nodes' $(GOTEST) -count=1 -run '$(call tests,$(ON_NODES))' ./containers
lab-others:
	cd lab && $(E2E) lab $(GOTEST) -count=1 -race -parallel 4 -skip '$(call tests,$(WAITING) $(LONGEST))' ./e2e \
		$$(go list ./... | grep -v -e /lab/operators$$ -e /lab/bench/inprocess$$ -e /lab/containers$$)

# How many random sequences of starts, ends, kills and restarts are played with isolated CPUs, and the first one's seed.
SEQUENCES ?= 200

.PHONY: nodes
nodes: tools ## Test on real nodes: kubelets, containers, an MPI program, isolated CPUs on the kernel (SEQUENCES=200 SEED=1); it needs root.
	cd lab && NODES=required SEQUENCES=$(SEQUENCES) SEED=$(SEED) HOLD_TIMES=1 $(PROGRESS) nodes go test -count=1 -v -timeout 0 ./containers

memory: tools ## Hold the memory of the scheduler against the chart's limit: 100,000 pods on a real API server, 1,000 of 1 MB, 10,000 more that come and go.
	cd lab && SIZE=whole CGO_ENABLED=0 $(PROGRESS) memory go test -count=1 -v -timeout 90m -run '^TestMemoryOnARealServer$$' ./e2e

# How many random clusters, streams and histories each test tries, and the seed of the random numbers; empty draws one.
CHECKS ?= 10000
SEED ?=

soak: ## Run every random test with CHECKS=10000 cases, and the simulation with STEPS=1000000 (SEED=1), and write parts of docs/reliability.md.
	CHECKS=$(CHECKS) SEED=$(SEED) hack/soak.sh
	STEPS=$(STEPS) CRASHES=$(CRASHES) SEED=$(SEED) hack/simulate.sh

# In how many small clusters plans of victims are compared with a solver's; nearly half of them need a plan.
CLUSTERS ?= 50000

.PHONY: victims
victims: ## Compare plans of victims with those of a solver that tries everything, in so many small clusters (CLUSTERS=50000).
	go test -count=1 -v -timeout 5h ./pkg/actions/preempt -run '^TestSmallPlansAreTheBest$$' -clusters=$(CLUSTERS)

# How long each fuzz target looks for something new. What one has found is kept in testdata/fuzz beside it, and played by
# `make unit`.
FUZZTIME ?= 1m

.PHONY: fuzz
fuzz: ## Let every fuzz target look for inputs that break something, one after the other (FUZZTIME=1m each).
	@grep -rnoE --include='*_test.go' '^func Fuzz[A-Za-z]+' apis internal pkg cmd test | { failed=; while IFS=: read -r file _ function; do \
		echo "fuzz: $$(dirname "$$file") $${function#func }"; \
		(cd "$$(dirname "$$file")" && HOLD_TIMES=1 go test . -run '^$$' -fuzz "^$${function#func }$$" -fuzztime $(FUZZTIME) -parallel 1) || failed=1; \
	done; test -z "$$failed"; }

# How many steps are simulated, and in how many runs the scheduler is killed after each write in turn.
STEPS ?= 1000000
CRASHES ?= 12

.PHONY: simulate
simulate: ## Simulate under faults for so many steps (STEPS=1000000 SEED=1), and write docs/reliability.md.
	STEPS=$(STEPS) CRASHES=$(CRASHES) SEED=$(SEED) hack/simulate.sh

# How often the scheduler is killed on a real API server, and while groups of other projects start, its leader replaced, and kube-apiserver and etcd killed, the scheduler
# while it takes capacity back from a queue, and how long another scheduler binds beside it.
KILLS ?= 200
FOREIGN ?= 20
HANDOVERS ?= 50
OUTAGES ?= 20
RECLAIMS ?= 20
STRANGERS ?= 10m

.PHONY: faults
faults: tools ## Break things on a real API server (KILLS=200 FOREIGN=20 HANDOVERS=50 OUTAGES=20 RECLAIMS=20 STRANGERS=10m), and write docs/reliability.md.
	KILLS=$(KILLS) FOREIGN=$(FOREIGN) HANDOVERS=$(HANDOVERS) OUTAGES=$(OUTAGES) RECLAIMS=$(RECLAIMS) STRANGERS=$(STRANGERS) hack/faults.sh

# How often the scheduler is killed while devices of claims are given, and on how many nodes of eight a gang has all of them.
DEVICE_KILLS ?= 20
DEVICE_NODES ?= 125

.PHONY: devices
devices: tools ## Give devices of claims on a real API server: all of DEVICE_NODES=125 nodes to one gang, and to many while the scheduler is killed (DEVICE_KILLS=20).
	cd lab && DEVICE_EXTENDED=1 DEVICE_NODES=$(DEVICE_NODES) DEVICE_KILLS=$(DEVICE_KILLS) HOLD_TIMES=1 $(PROGRESS) devices go test -count=1 -v -timeout 0 \
		-parallel 1 -run '^(TestAGangOfManyDevicesStartsWhole|TestKilledWhileDevicesAreGiven|TestKilledWhileExtendedResourcesAreGiven)$$' ./e2e
