.PHONY: generate verify

generate: ## Write what is generated: deep copies, CRDs, clients, pages and tables of reference.
	hack/generate.sh
	go test ./hack/house -count=1 -run '^TestContributingShowsTheImportRules$$' -update
	go test ./cmd/tutti-scheduler/app -count=1 -run '^TestThePageListsTheFlags$$' -rewrite
	go test ./cmd/kubectl-tutti -count=1 -run '^TestReference$$' -rewrite
	@for pair in $(CHART_COPIES); do cp "$${pair#*=}" "$${pair%%=*}"; done

verify: ## Fail if a generated file is not what `make generate` would write.
	hack/progress.sh verify hack/verify.sh
