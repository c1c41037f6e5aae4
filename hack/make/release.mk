# Releases.

# Not empty: the release is made in build/release, and nothing is pushed, signed or published.
DRY_RUN ?=

.PHONY: release cosign
release: ## Make a release in build/release/VERSION, and publish it (VERSION=0.1.0; DRY_RUN=1 makes it only).
	@cd lab && PATH='$(CURDIR)/build/bin:'"$$PATH" go run ./cmd/lab release --version '$(VERSION)' $(if $(DRY_RUN),--dry-run)

# What signs a release: https://docs.sigstore.dev.
COSIGN := github.com/sigstore/cosign/v3/cmd/cosign@v3.1.3

cosign: ## Build cosign, which a release that is published is signed with.
	GOBIN='$(CURDIR)/build/bin' go install $(COSIGN)
