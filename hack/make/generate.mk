.PHONY: generate verify

generate: ## Write what is generated: deep copies, CRDs, clients, tables of arguments.
	hack/generate.sh
	go test ./hack/house -count=1 -run '^TestContributingShowsTheImportRules$$' -update
	@for pair in $(CHART_COPIES); do cp "$${pair#*=}" "$${pair%%=*}"; done

verify: ## Fail if a generated file is not what `make generate` would write.
	hack/progress.sh verify hack/verify.sh
