.PHONY: generate verify

generate: ## Write what is generated from apis/: deep copies, CRDs, clients.
	hack/generate.sh

verify: ## Fail if a generated file is not what `make generate` would write.
	hack/verify.sh
