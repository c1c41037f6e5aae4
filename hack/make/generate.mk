.PHONY: generate verify

generate: ## Write what is generated from apis/: deep copies, CRDs, clients.
	hack/generate.sh
	@for pair in $(CHART_COPIES); do cp "$${pair#*=}" "$${pair%%=*}"; done

verify: ## Fail if a generated file is not what `make generate` would write.
	hack/verify.sh
