# The container images.

# Their names, for nodes that they are loaded into; the tag is the one that the chart asks for. The agent is for nodes with isolated CPUs.
VERSION := $(shell sed -n 's/^appVersion: *//p' charts/tutti/Chart.yaml)
IMAGE ?= localhost/tutti-scheduler:$(VERSION)
AGENT_IMAGE ?= localhost/tutti-agent:$(VERSION)

# The architecture of the images, in Go's words: amd64, arm64; empty means this machine's. Both, with a comma between them, make one
# file with an index.
ARCH ?=

.PHONY: image image-docker install-kind
image: ## Build the container images as files in build/images, with Go alone (IMAGE=name:tag AGENT_IMAGE=name:tag ARCH=amd64,arm64).
	@cd lab && go run ./cmd/lab image --version $(VERSION) $(if $(ARCH),--arch $(ARCH)) \
		--name 'tutti-scheduler=$(IMAGE)' --name 'tutti-agent=$(AGENT_IMAGE)'

# docker, podman or buildah; empty means the first of them that works.
IMAGE_BUILDER ?=

# The image that compiles; empty means the one the Dockerfile names.
GO_IMAGE ?=

image-docker: ## Build them from the Dockerfile, with docker, podman or buildah (IMAGE=name:tag AGENT_IMAGE=name:tag).
	@builder='$(IMAGE_BUILDER)'; \
	for candidate in docker podman buildah; do \
		if [ -z "$$builder" ] && command -v "$$candidate" >/dev/null && "$$candidate" info >/dev/null 2>&1; then \
			builder="$$candidate"; \
		fi; \
	done; \
	if [ -z "$$builder" ]; then \
		echo 'image-docker: none of docker, podman and buildah works here (docker needs its service to run);' >&2; \
		echo 'image-docker: name a builder with IMAGE_BUILDER=..., or use "make image", which needs none' >&2; \
		exit 1; \
	fi; \
	context="$$(mktemp -d)"; trap 'rm -rf "$$context"' EXIT; \
	cp -R Dockerfile go.mod go.sum apis cmd internal pkg "$$context/"; \
	for image in 'tutti-scheduler=$(IMAGE)' 'tutti-agent=$(AGENT_IMAGE)'; do \
		echo "image-docker: $${image#*=} with $$builder"; \
		"$$builder" build --target "$${image%%=*}" --tag "$${image#*=}" $(if $(GO_IMAGE),--build-arg 'GO_IMAGE=$(GO_IMAGE)') "$$context"; \
	done

install-kind: ## Print how to try it on kind.
	@printf '%s\n' \
		'kind create cluster --name tutti' \
		'make image' \
		'kind load image-archive build/images/tutti-scheduler-'"$$(go env GOARCH)"'.tar --name tutti' \
		'helm install tutti charts/tutti --namespace tutti-system --create-namespace --wait --set image.registry=localhost' \
		'helm test tutti --namespace tutti-system'
