# Measurements that need no cluster, and one that needs real traces. `make bench` itself is with the lab.

# The folder with the traces that docs/openb.md names.
DATA ?=

bench: bench-process

.PHONY: bench-process
bench-process: ## Run the Go benchmarks, in process.
	go test -run '^$$' -bench . -benchmem ./pkg/...

.PHONY: openb
openb: ## Let the scheduler work off real traces and audit what it leaves (DATA=folder).
	cd lab && go run ./cmd/lab openb --data "$(abspath $(DATA))"
