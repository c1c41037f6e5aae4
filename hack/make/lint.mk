.PHONY: lint fmt

lint: ## Check format, go vet and staticcheck in all modules, and the workflows of the forge.
	hack/progress.sh lint hack/lint.sh

fmt: ## Format all Go files.
	hack/lint.sh fmt

# What is known of the modules' versions changes without a change here, and is asked of vuln.go.dev: no part of `make test`.
VULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0

.PHONY: vulncheck
vulncheck: ## Look for calls of code with known vulnerabilities, in all modules; it needs the network (vuln.go.dev).
	@GOBIN='$(CURDIR)/build/bin' go install $(VULNCHECK); \
	code=0; \
	for module in . apis lab examples/joblimit examples/podgroups; do \
		echo "vulncheck: module $$module"; \
		(cd "$$module" && '$(CURDIR)/build/bin/govulncheck' ./...) || { code=$$?; [ $$code = 3 ] || exit $$code; }; \
	done; \
	exit $$code # 3: something was found
