# The container images.

# Their names; the tag is the one that the chart asks for. The agent is for nodes with isolated CPUs.
VERSION := $(shell sed -n 's/^appVersion: *//p' charts/tutti/Chart.yaml)
IMAGE ?= tutti-scheduler:$(VERSION)
AGENT_IMAGE ?= tutti-agent:$(VERSION)

# docker, podman or buildah; empty means the first of them that works.
IMAGE_BUILDER ?=

# The image that compiles; empty means the one the Dockerfile names.
GO_IMAGE ?=

.PHONY: image
image: ## Build the container images (IMAGE=name:tag AGENT_IMAGE=name:tag) with docker, podman or buildah.
	@builder='$(IMAGE_BUILDER)'; \
	for candidate in docker podman buildah; do \
		if [ -z "$$builder" ] && command -v "$$candidate" >/dev/null && "$$candidate" info >/dev/null 2>&1; then \
			builder="$$candidate"; \
		fi; \
	done; \
	if [ -z "$$builder" ]; then \
		echo 'image: none of docker, podman and buildah works here (docker needs its service to run);' >&2; \
		echo 'image: name a builder with IMAGE_BUILDER=..., or build the program alone with "make build"' >&2; \
		exit 1; \
	fi; \
	context="$$(mktemp -d)"; trap 'rm -rf "$$context"' EXIT; \
	cp -R Dockerfile go.mod go.sum apis cmd pkg "$$context/"; \
	for image in 'tutti-scheduler=$(IMAGE)' 'tutti-agent=$(AGENT_IMAGE)'; do \
		echo "image: $${image#*=} with $$builder"; \
		"$$builder" build --target "$${image%%=*}" --tag "$${image#*=}" $(if $(GO_IMAGE),--build-arg 'GO_IMAGE=$(GO_IMAGE)') "$$context"; \
	done
