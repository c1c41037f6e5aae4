# Measurements. They take the machine for themselves; their pages are in docs/benchmarks.

# The folder with the traces that docs/reliability.md names.
DATA ?=

.PHONY: bench bench-full bench-go size
bench: ## Measure in process and in a real cluster, beside other schedulers, and rewrite docs/benchmarks (half an hour).
	cd lab && go run ./cmd/lab bench all $(ARGS)

bench-full: ## The same with every size and more rounds (hours).
	cd lab && go run ./cmd/lab bench all --full $(ARGS)

bench-go: ## Run the Go benchmarks of single packages.
	go test -run '^$$' -bench . -benchmem ./pkg/... ./internal/...

size: ## Count the product's lines, the statements that stories run through and the bytes of the programs: docs/benchmarks/size.md.
	hack/size.sh

.PHONY: openb
openb: ## Let the scheduler work off real traces and audit what it leaves (DATA=folder).
	cd lab && go run ./cmd/lab openb --data "$(abspath $(DATA))"
