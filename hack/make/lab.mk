# A throw-away control plane on this machine: what builds it and what runs against it.

# The version of Kubernetes; empty means the pinned one.
K8S ?=

.PHONY: tools
tools: ## Build the programs of a control plane (K8S=1.35.4 for another version).
	@echo 'tools: compiling the program that builds them'
	cd lab && go run ./cmd/lab build $(if $(K8S),--k8s $(K8S))

# promtool comes with Debian's package prometheus, which is not installed for it: the one file is taken out. Without it the tests
# of the alerts are skipped, and say so; with CI=true they fail.
PROMTOOL := build/bin/promtool

.PHONY: promtool
promtool: ## Take promtool from Debian's package, for the test of the alerts.
	@if command -v promtool >/dev/null || [ -x $(PROMTOOL) ]; then exit 0; fi; \
	dir="$$(mktemp -d)"; trap 'rm -rf "$$dir"' EXIT; mkdir -p build/bin; chmod 755 "$$dir"; \
	if (cd "$$dir" && { apt-get download prometheus || { apt-get update && apt-get download prometheus; }; } && \
		dpkg-deb --extract prometheus_*.deb .) >"$$dir/log" 2>&1; then \
		cp "$$dir/usr/bin/promtool" $(PROMTOOL); \
	else \
		tail -3 "$$dir/log" >&2; echo 'promtool: not to be had here; the tests of the alerts are skipped, and fail with CI=true' >&2; \
	fi

# Two operators are among them, each with one test: those that hold a job back until its group says so, or write groups of launcher
# and workers. They, and helm 3 and helm 4 as released, are built from their modules the first time.
.PHONY: e2e
e2e: ## Test in a real cluster, with two operators of other projects, helm 3 and helm 4 (K8S=1.35.4 for another version).
	cd lab && HELMS=all K8S=$(K8S) go test -count=1 -v -timeout 60m ./e2e/...
	cd lab && K8S=$(K8S) go test -count=1 -v -timeout 60m -run '^Test(MPI|Training)OperatorForVolcano$$/^life$$' ./operators

# All of them are built the first time, each in minutes of its own.
.PHONY: operators
operators: tools ## Let operators of other projects, as released, run their jobs in a real cluster (K8S=1.35.4 for another version).
	cd lab && K8S=$(K8S) go test -count=1 -v -timeout 90m ./operators

# The commit whose scheduler an upgrade begins with, and a rollback ends with: the last one before the API got its present form.
FROM ?= 015edae

# The same for gangs with resource claims: the last one whose scheduler counts no devices of claims.
FROM_CLAIMS ?= 651cfd06

# buildFrom builds the scheduler of commit $(1) as build/before/$(2).
define buildFrom
	rm -rf build/previous && git worktree prune && git worktree add --detach build/previous $(1)
	cd build/previous && go build -o ../before/$(2) ./cmd/tutti-scheduler
	git worktree remove --force build/previous
endef

.PHONY: upgrade
upgrade: tools ## Change between the schedulers of commits and this one in a real cluster (FROM=015edae, and FROM_CLAIMS=651cfd06 with claims).
	$(call buildFrom,$(FROM),tutti-scheduler)
	$(call buildFrom,$(FROM_CLAIMS),tutti-scheduler-claims)
	cd lab && PREVIOUS=$(CURDIR)/build/before/tutti-scheduler PREVIOUS_OF_CLAIMS=$(CURDIR)/build/before/tutti-scheduler-claims K8S=$(K8S) \
		go test -count=1 -v -timeout 40m -run '^TestUpgrade(AndRollback|WithClaims)$$' ./e2e

.PHONY: demo
demo: ## Show a gang start in a real cluster (KEEP=1 keeps the cluster up, NODES=real runs containers and needs root, TORCH=1 a PyTorchJob, too).
	@echo 'demo: compiling the program that builds the others; all of them take a quarter of an hour the first time'
	@cd lab && KEEP=$(KEEP) TORCH=$(TORCH) go run ./cmd/lab demo $(if $(NODES),--nodes $(NODES))
