.PHONY: lint fmt

lint: ## Check format, go vet and staticcheck in all modules.
	hack/progress.sh lint hack/lint.sh

fmt: ## Format all Go files.
	hack/lint.sh fmt
